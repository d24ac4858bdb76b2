"""The 22 queries of TPC-H, in the specification's own text and with its validation parameters, under the policy of
`policies/tpch.toml`, where the customer is the unit.

Three read public tables alone: exact and free. Three return rows of single customers or orders: refused, with what to
change. All others are answered. Limits there are what the generator gives one customer at most, so they cut nothing,
and without noise each answer is DuckDB's own on every key that DuckDB shows; further public keys are empty. So it is
under noise of no size, an epsilon in the trillions.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest
from sqlglot import exp, parse_one

from bench import data
from dpsql.errors import Error
from dpsql.privacy.mechanisms import DiscreteLaplace
from dpsql.session import Session, open_session
from dpsql.vault import noise
from tests.semantics.sides import open_everywhere, rows_of, without_noise

ROOT = Path(__file__).resolve().parent.parent.parent
POLICY = ROOT / "policies" / "tpch.toml"
QUERIES = {path.stem: path.read_text(encoding="utf-8") for path in sorted(Path(__file__).parent.glob("tpch/q*.sql"))}

PUBLIC = ("q02", "q11", "q16")
REFUSED = {"q03": "l_orderkey", "q10": "c_custkey", "q18": "c_custkey"}
"""Query -> the first key that its refusal points at."""

KEYS = {
    **dict.fromkeys(("q06", "q14", "q17", "q19"), 0),
    **dict.fromkeys(("q04", "q05", "q08", "q12", "q13", "q21", "q22"), 1),
    **dict.fromkeys(("q01", "q09", "q20"), 2),
    "q07": 3,
    "q15": 5,
}
"""Answered query -> how many of its columns, the first ones, are keys."""

PLAIN = {"q20": ("0.5 * sum(l_quantity)", "0.5 * coalesce(sum(l_quantity), 0)")}
"""What DuckDB is asked instead: that a part was never ordered is private, so dpsql says 0 where DuckDB has NULL."""

ORDERS = {"q05": (1,), "q13": (1, 0), "q21": (1,)}
"""Queries that sort by what is counted (descending, by these columns), where public keys without rows come last. All
others sort by their keys."""

JOINS = ("filter_pushdown", "filter_pullup", "join_order")
"""What an engine needs to see that tables after commas are joined, and not multiplied."""

ANSWERED = [q for q in QUERIES if q in KEYS]


@pytest.fixture(scope="module")
def plain(tpch: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect(str(tpch), read_only=True) as connection:
        yield connection


@pytest.fixture(scope="module")
def exact(tpch: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """No noise, and every statement on two engines."""
    home = tmp_path_factory.mktemp("tpch")
    with without_noise(home):
        session = open_everywhere(POLICY, tpch, home / "ledger.sqlite", JOINS)
        yield session
        session.close()


@pytest.fixture(scope="module")
def noisy(tpch: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """The noise that is added is of the law and by the steps of every day, but of no size: what an epsilon in the
    trillions would give, which no policy allows."""
    home = tmp_path_factory.mktemp("tpch-noisy")
    add = noise._add
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(home / "cache"))
        patch.setattr(noise, "_add", lambda exact, draw: add(exact, DiscreteLaplace(draw.scale / 10**18)))
        session = open_session(POLICY, tpch, ledger=home / "ledger.sqlite")
        yield session
        session.close()


def compare(session: Session, plain: duckdb.DuckDBPyConnection, query: str) -> None:
    """The answer is DuckDB's on every key that DuckDB shows; other keys are empty, and come where the order puts
    them."""
    written, instead = PLAIN.get(query, ("", ""))
    result = plain.execute(QUERIES[query].replace(written, instead) if written else QUERIES[query])
    names = [column[0] for column in result.description or ()]
    theirs = result.fetchall()
    answer = session.execute(QUERIES[query])
    assert answer.table.column_names == names
    ours, keys = rows_of(answer), KEYS[query]
    shown = [row[:keys] for row in theirs]
    found = [row for row in ours if row[:keys] in shown]
    assert [row[:keys] for row in found] == shown
    for mine, other in zip(found, theirs, strict=True):
        assert all(map(same, mine, other)), f"{mine} instead of {other}"
    for row in ours:
        assert row[:keys] in shown or all(map(is_empty, row[keys:])), f"no such group: {row}"
    if query in ORDERS:
        sorted_by = [tuple(-row[column] for column in ORDERS[query]) for row in ours]
        assert sorted_by == sorted(sorted_by)


def same(ours: Any, theirs: Any) -> bool:
    """Equal in type and value; floats to a millionth, and a NULL of DuckDB's is an aggregate of nothing."""
    if theirs is None:
        return is_empty(ours)
    if type(ours) is not type(theirs):
        return False
    return math.isclose(ours, theirs, rel_tol=1e-6) if isinstance(ours, float) else bool(ours == theirs)


def is_empty(cell: Any) -> bool:
    """What an aggregate of nothing shows: 0, or the middle of a column's range (l_quantity, l_extendedprice,
    l_discount)."""
    return cell in (0, 25.5, 52500.0, 0.05) and not isinstance(cell, bool)


@pytest.mark.parametrize("query", ANSWERED)
def test_an_answer_is_duckdbs(query: str, exact: Session, plain: duckdb.DuckDBPyConnection) -> None:
    before = exact.budget().spent_epsilon
    compare(exact, plain, query)
    assert exact.budget().spent_epsilon == before + 1


@pytest.mark.parametrize("query", ANSWERED)
def test_noise_of_no_size_changes_nothing(query: str, noisy: Session, plain: duckdb.DuckDBPyConnection) -> None:
    compare(noisy, plain, query)


@pytest.mark.parametrize("query", PUBLIC)
def test_public_tables_are_exact_and_free(query: str, exact: Session, plain: duckdb.DuckDBPyConnection) -> None:
    before = exact.budget().spent_epsilon
    answer = exact.execute(QUERIES[query])
    assert rows_of(answer) == plain.execute(QUERIES[query]).fetchall()
    assert exact.budget().spent_epsilon == before


@pytest.mark.parametrize("query", REFUSED)
def test_rows_of_customers_are_refused_until_what_is_named_is_changed(
    query: str, exact: Session, plain: duckdb.DuckDBPyConnection
) -> None:
    """Each refusal points at a key: left out, or counted where the repair says so, the statement is answered in the
    end."""
    before = exact.budget().spent_epsilon
    statement, pointed_at = QUERIES[query], []
    for _ in range(10):
        error = refusal_of(exact, statement)
        if error is None:
            break
        assert error.code in ("DP205", "DP206", "DP207")
        assert error.span is not None
        name = error.source[error.span.start : error.span.end]
        assert "or group by" in error.repair or f"leave {name}" in error.repair
        pointed_at.append(name)
        statement = without_key(statement, name)
    assert pointed_at[:1] == [REFUSED[query]]
    assert exact.budget().spent_epsilon == before
    ours, theirs = rows_of(exact.execute(statement)), plain.execute(statement).fetchall()
    assert [row for row in ours if row in theirs] == theirs
    assert all(row in theirs or any(cell == 0 for cell in row) for row in ours)


def refusal_of(session: Session, statement: str) -> Error | None:
    try:
        session.compile(statement)
    except Error as error:
        return error
    return None


def without_key(statement: str, name: str) -> str:
    """The statement without this column in SELECT, GROUP BY and ORDER BY, and without its LIMIT, so that every group
    can be compared."""
    tree = parse_one(statement, read="duckdb")
    assert isinstance(tree, exp.Select)
    tree.set("expressions", [e for e in tree.expressions if e.alias_or_name != name])
    for clause in ("group", "order"):
        kept = [e for e in tree.args[clause].expressions if name not in (e.name, e.this.name if e.this else "")]
        tree.args[clause].set("expressions", kept)
        if not kept:
            tree.set(clause, None)
    tree.set("limit", None)
    return tree.sql(dialect="duckdb")


def test_every_query_is_here() -> None:
    assert [f"q{n:02}" for n in range(1, 23)] == list(QUERIES) == sorted([*PUBLIC, *REFUSED, *ANSWERED])


@pytest.mark.audit
def test_ten_times_as_much(tmp_path: Path) -> None:
    """Scale 0.1: groups that scale 0.01 leaves empty have rows."""
    database = ROOT / "build" / "tpch-0.1.duckdb"
    data.build("0.1", database)
    with duckdb.connect(str(database), read_only=True) as plain, without_noise(tmp_path):
        session = open_everywhere(POLICY, database, tmp_path / "ledger.sqlite", JOINS)
        for query in ANSWERED:
            compare(session, plain, query)
        session.close()
