"""Engine time of private statements beside the plain queries: what limiting and clamping cost, without the noise.

    python -m bench.tpch build/tpch-1.duckdb

For each question the plain query runs on the owner's database and the statement's rewritten inner SQL on the snapshot,
in pairs, in turns, each with the same threads; results are fetched as Arrow. Medians are compared. Nothing is charged.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import duckdb

from dpsql.session import Session, open_session
from dpsql.vault.engine import Engine
from dpsql.vault.open import open_engines

POLICY = Path(__file__).parent.parent / "policies" / "tpch.toml"
PAIRS = 15


@dataclass(frozen=True, slots=True)
class Question:
    """A plain query, the same question to dpsql, and how much longer the private one may take."""

    name: str
    plain: str
    private: str
    target: float


def same(name: str, sql: str, target: float) -> Question:
    return Question(name, sql, sql, target)


QUESTIONS = (
    same(
        "orders by priority",
        "SELECT o_orderpriority, COUNT(*) AS n FROM orders GROUP BY o_orderpriority",
        2.0,
    ),
    same(
        "Q1-like sums over lineitem",
        """
        SELECT l_returnflag, l_linestatus, SUM(l_quantity) AS quantity, SUM(l_extendedprice) AS price,
            SUM(l_extendedprice * (1 - l_discount)) AS revenue, AVG(l_discount) AS discount, COUNT(*) AS n
        FROM lineitem
        WHERE l_shipdate <= DATE '1998-09-02'
        GROUP BY l_returnflag, l_linestatus
        """,
        1.6,
    ),
    same(
        "orders by the customer's nation",
        """
        SELECT n_name, COUNT(*) AS n
        FROM orders JOIN customer ON o_custkey = c_custkey JOIN nation ON c_nationkey = n_nationkey
        GROUP BY n_name
        """,
        1.2,
    ),
    same(
        "line items by the supplier's nation",
        """
        SELECT n_name, COUNT(*) AS n
        FROM lineitem JOIN supplier ON l_suppkey = s_suppkey JOIN nation ON s_nationkey = n_nationkey
        GROUP BY n_name
        """,
        1.2,
    ),
)


def inner_sql(session: Session, sql: str) -> list[str]:
    """The statements that this one would run on the private engine."""
    return session.compile(sql).inner_sql


def seconds(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def compare(plain: Callable[[], object], private: Callable[[], object]) -> tuple[float, float, float]:
    """Median seconds of each, and the median of the pairs' ratios. Who goes first alternates."""
    plain(), private()
    pairs = []
    for turn in range(PAIRS):
        if turn % 2:
            second = seconds(private)
            pairs.append((seconds(plain), second))
        else:
            first = seconds(plain)
            pairs.append((first, seconds(private)))
    ratio = statistics.median(private / plain for plain, private in pairs)
    return statistics.median(p for p, _ in pairs), statistics.median(p for _, p in pairs), ratio


def measure(question: Question, session: Session, engine: Engine, database: duckdb.DuckDBPyConnection) -> str:
    statements = inner_sql(session, question.private)
    plain, private, ratio = compare(
        lambda: database.sql(question.plain).to_arrow_table(),
        lambda: [engine.run(statement) for statement in statements],
    )
    verdict = "met" if ratio <= question.target else "missed"
    return (
        f"| {question.name} | {plain * 1e3:.1f} | {private * 1e3:.1f} | {ratio:.2f} | {question.target} | {verdict} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="Compare private statements with the plain queries on TPC-H.")
    parser.add_argument("database", type=Path)
    path: Path = parser.parse_args().database
    with (
        closing(open_session(POLICY, path)) as session,  # makes the snapshot where there is none
        closing(open_engines(session.snapshot)) as engines,
        duckdb.connect(str(path), read_only=True) as database,
    ):
        threads = database.execute("SELECT current_setting('threads')").fetchall()[0][0]
        print(f"{path.name}, DuckDB {duckdb.__version__} on {threads} threads, medians of {PAIRS} pairs\n")
        print("| question | plain ms | private ms | ratio | at most | |\n|---|--:|--:|--:|--:|---|")
        for question in QUESTIONS:
            print(measure(question, session, engines.private, database), flush=True)


if __name__ == "__main__":
    main()
