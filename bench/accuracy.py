"""How far off answers are: dpsql's errors on seven questions about TPC-H, beside those of other systems.

    python -m bench.accuracy build/tpch-0.1.duckdb build/tpch-1.duckdb --out build/accuracy.json

Every answer is a fresh release of the compiled statement, by the call that the session makes for it after the charge;
repeats of a statement would be given the stored answer again. The inner SQL runs once for all draws, since its result
is the same each time in one snapshot; where the plan draws a salt, as for a choice of keys, it runs once for each of
SALTS salts. Each run makes a snapshot of its own. The others' errors are read from a file (see `bench/peers.py`).

Prints Markdown tables, and where dpsql is less accurate than is aimed at, beyond the errors of both measurements.
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from bench.accuracy_tables import tables
from bench.errors import Answer, Errors, errors
from dpsql.compile.rewrite import is_salted, seal_release
from dpsql.session import Session, open_session
from dpsql.vault.engine import Engine
from dpsql.vault.noise import release

HERE = Path(__file__).parent
POLICY = HERE / "accuracy.toml"
PEERS = HERE / "peers.json"
DRAWS = 1000
SALTS = 10
CUSTOMERS = 150_000
"""At scale 1."""

REVENUE = "l_extendedprice * (1 - l_discount)"
LISTED = "o_orderdate BETWEEN DATE '1992-01-01' AND DATE '1998-12-31'"
"""The days of TPC-H's specification: so which groups there are is public."""

OF_1994 = """FROM lineitem JOIN orders ON l_orderkey = o_orderkey JOIN customer ON o_custkey = c_custkey
    JOIN nation ON c_nationkey = n_nationkey
    WHERE o_orderdate >= DATE '1994-01-01' AND o_orderdate < DATE '1995-01-01' GROUP BY n_name"""


@dataclass(frozen=True, slots=True)
class Question:
    """A plain query whose last column is its figure, the same with the bounds that everybody is given, and settings:
    with the limits that are facts of the data, and with those that dpsql is at its best with."""

    plain: str
    private: str
    facts: Mapping[str, str]
    own: Mapping[str, str]


def question(sql: str, own: Mapping[str, str], facts: Mapping[str, str] | None = None) -> Question:
    """Revenue is at most 100,000 in the private form; other bounds are the policy's."""
    bounded = sql.replace(REVENUE, f"LEAST({REVENUE}, 100000)")
    return Question(sql, bounded, {"strategy": "rows"} if facts is None else facts, own)


def scaled(rows: int) -> dict[str, str]:
    """A ball of so many rows for each customer's vector."""
    return {"strategy": "rescale", "max_rows_per_unit": str(rows)}


def one_a_day(days: int) -> dict[str, str]:
    """One order of each customer on a day, on so many days."""
    return {"strategy": "cells", "max_rows_per_group": "1", "max_groups_per_unit": str(days)}


QUESTIONS = {
    "q1": question("SELECT COUNT(*) AS v FROM customer", {}, {}),
    "q2": question("SELECT o_orderpriority, COUNT(*) AS v FROM orders GROUP BY o_orderpriority", scaled(36)),
    "q3": question(
        f"SELECT l_returnflag, l_linestatus, SUM({REVENUE}) AS v FROM lineitem GROUP BY l_returnflag, l_linestatus",
        scaled(60),
    ),
    "q4": question("SELECT o_orderpriority, AVG(o_totalprice) AS v FROM orders GROUP BY o_orderpriority", scaled(15)),
    "q5": question("SELECT c_nationkey, COUNT(DISTINCT c_custkey) AS v FROM customer GROUP BY c_nationkey", {}, {}),
    "q6": question(
        "SELECT o_orderdate, COUNT(*) AS v FROM orders GROUP BY o_orderdate",
        one_a_day(20),
    ),
    "q6, as customers": Question(
        "SELECT o_orderdate, COUNT(*) AS v FROM orders GROUP BY o_orderdate",
        "SELECT o_orderdate, COUNT(DISTINCT o_custkey) AS v FROM orders GROUP BY o_orderdate",
        one_a_day(41),
        one_a_day(24),
    ),
    "q6, days listed": question(
        f"SELECT o_orderdate, COUNT(*) AS v FROM orders WHERE {LISTED} GROUP BY o_orderdate", scaled(36)
    ),
    "q7": question(f"SELECT n_name, SUM({REVENUE}) AS v {OF_1994}", scaled(17)),
}


class Once:
    """An engine that answers a statement as it did the first time."""

    def __init__(self, engine: Engine):
        self._engine, self._sql = engine, ""
        self._table = pa.table({})

    def run(self, sql: str, tables: Mapping[str, pa.Table] | None = None) -> pa.Table:
        if sql != self._sql:
            self._sql, self._table = sql, self._engine.run(sql, tables)
        return self._table

    def cancel(self) -> None:
        """Nothing runs for long."""

    def close(self) -> None:
        """The session closes the engine."""


def answers(session: Session, sql: str, settings: Mapping[str, str], draws: int) -> Iterator[Answer]:
    """So many releases of a statement with one aggregate."""
    session.settings.reset(None)
    for name, value in settings.items():
        session.settings.set(name, value)
    compiled = session.compile(sql)
    (plan,), (sealed,) = compiled.plan.releases, compiled.rewritten.inner
    engine = Once(session._engines.private)
    columns = (*plan.release.key_names, plan.release.measures[0].name)
    for i in range(draws):
        if is_salted(plan) and i % max(draws // SALTS, 1) == 0:
            sealed = seal_release(plan, secrets.randbits(62))
        released = release(engine, sealed, plan).table(plan)
        rows = zip(*(released.column(name).to_pylist() for name in columns), strict=True)
        yield {row[:-1]: float(row[-1]) for row in rows}


def measure(session: Session, database: duckdb.DuckDBPyConnection, draws: int) -> dict[str, dict[str, Errors]]:
    """By name of the limits and of the question."""
    found: dict[str, dict[str, Errors]] = {"facts": {}, "own": {}}
    for name, asked in QUESTIONS.items():
        truth = {row[:-1]: float(row[-1]) for row in database.execute(asked.plain).fetchall()}
        found["facts"][name] = errors(truth, answers(session, asked.private, asked.facts, draws))
        same = asked.own == asked.facts
        own = found["facts"][name] if same else errors(truth, answers(session, asked.private, asked.own, draws))
        found["own"][name] = own
    return found


def measure_at(path: Path, draws: int) -> tuple[str, dict[str, dict[str, Errors]]]:
    """The scale of a database, and the errors on a new snapshot of it."""
    with tempfile.TemporaryDirectory(prefix="accuracy-", dir=path.parent.resolve()) as folder:
        os.environ["XDG_CACHE_HOME"] = folder  # a snapshot of its own
        with (
            closing(open_session(POLICY, path, ledger=Path(folder) / "ledger.sqlite")) as session,
            duckdb.connect(str(path), read_only=True) as database,
        ):
            customers = database.execute("SELECT COUNT(*) FROM customer").fetchall()[0][0]
            return f"{customers / CUSTOMERS:g}", measure(session, database, draws)


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure the errors of answers on TPC-H.")
    parser.add_argument("databases", type=Path, nargs="+")
    parser.add_argument("--out", type=Path, help="where to write all figures, as JSON")
    parser.add_argument("--peers", type=Path, default=PEERS, help="the others' errors, as `bench/peers.py` writes them")
    parser.add_argument("--draws", type=int, default=DRAWS)
    given = parser.parse_args()
    ours: dict[str, Any] = {}
    for path in given.databases:
        scale, found = measure_at(path, given.draws)
        ours[scale] = {limits: {q: asdict(e) for q, e in of.items()} for limits, of in found.items()}
    settings = {q: {"facts": dict(asked.facts), "own": dict(asked.own)} for q, asked in QUESTIONS.items()}
    if given.out is not None:
        given.out.write_text(json.dumps({"settings": settings, "errors": ours}, indent=1) + "\n")
    text, missed = tables(ours, json.loads(given.peers.read_text()))
    print(text)
    print(f"\naims missed: {'; '.join(missed) or 'none'}")


if __name__ == "__main__":
    main()
