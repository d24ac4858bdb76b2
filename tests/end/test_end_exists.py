"""EXISTS and IN by equality: no rows of a large unit are left out, and they do not multiply in the engine."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import duckdb
import pytest

import dpsql
from dpsql.session import open_session

ROWS = 60_000
POLICY = """
version = 1
[unit]
name = "person"
[budget]
account = "exists"
epsilon = "1000"
per_query_epsilon = "100"
max_query_epsilon = "1000"
[tables.events]
unit = "uid"
max_rows_per_unit = 60000
[tables.events.columns]
uid = {}
day = { bounds = [0, 60000] }
kind = { bounds = [0, 9] }
"""

STATEMENTS = [
    "SELECT COUNT(*) FROM events WHERE uid IN (SELECT uid FROM events WHERE day = 59999)",
    "SELECT COUNT(*) FROM events WHERE uid NOT IN (SELECT uid FROM events WHERE day = 59999)",
    "SELECT COUNT(*) FROM events e WHERE EXISTS (SELECT 1 FROM events f WHERE f.uid = e.uid AND f.day = e.day + 1)",
    "SELECT COUNT(*) FROM events e WHERE NOT EXISTS"
    " (SELECT 1 FROM events f WHERE f.uid = e.uid AND f.day = e.day AND f.kind = e.kind + 10)",
    "SELECT COUNT(*) FROM events e WHERE EXISTS (SELECT 1 FROM events f WHERE f.uid = e.uid AND f.kind = e.kind)"
    " OR e.kind = 3",
    "SELECT COUNT(CASE WHEN EXISTS (SELECT 1 FROM events f WHERE f.uid = e.uid AND f.kind = e.kind + 1) THEN 1 END)"
    " FROM events e",
    "SELECT COUNT(*) FROM events e WHERE EXISTS (SELECT 1 FROM events f WHERE f.uid = e.uid AND f.day % 10 = e.kind)",
    "SELECT COUNT(*) FROM events e WHERE EXISTS (SELECT 1 FROM events f WHERE f.uid = e.uid AND f.day * 0 = e.kind - 1)"
    " OR e.kind = 3",
    "SELECT COUNT(*) FROM (SELECT uid, day % 10 AS m FROM events) e"
    " WHERE EXISTS (SELECT 1 FROM events f WHERE f.uid = e.uid AND f.kind = e.m)",
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One unit has all of its rows on days of their own, and ten others one row each."""
    folder = tmp_path_factory.mktemp("exists")
    (folder / "exists.toml").write_text(POLICY, encoding="utf-8")
    with duckdb.connect(folder / "exists.duckdb") as source:
        source.execute(f"CREATE TABLE events AS SELECT 1 AS uid, i AS day, i % 10 AS kind FROM range({ROWS}) t(i)")
        source.execute("INSERT INTO events SELECT i, i, 0 FROM range(2, 12) t(i)")
    return folder


@pytest.fixture
def connection(folder: Path) -> Iterator[dpsql.Connection]:
    with dpsql.connect(folder / "exists.toml", folder / "exists.duckdb") as opened:
        yield opened


@pytest.mark.parametrize("sql", STATEMENTS)
def test_no_row_of_a_large_unit_is_left_out(connection: dpsql.Connection, sql: str, folder: Path) -> None:
    with duckdb.connect(folder / "exists.duckdb", read_only=True) as plain:
        ((true,),) = plain.execute(sql).fetchall()
    cursor = connection.execute(sql)
    ((found,),), (widths,) = cursor.fetchall(), cursor.half_widths
    assert cursor.receipt is not None
    assert cursor.receipt.limits == ("counts at most 60,000 rows of each person",)
    assert widths is not None
    assert widths[0] is not None
    assert abs(found - true) <= 3 * widths[0]


def steps(connection: duckdb.DuckDBPyConnection, sql: str) -> tuple[int, set[str]]:
    """The most rows that a step of DuckDB's gives, and how it joins."""
    ((_, told),) = connection.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {sql}").fetchall()
    rows = re.findall(r'"intermediate_rows": (\d+)', told)
    return max(map(int, rows)), set(re.findall(r'"type": "(\w*(?:JOIN|PRODUCT)\w*)"', told))


@pytest.mark.parametrize("sql", STATEMENTS)
def test_no_step_of_the_engine_has_more_rows_than_there_are(folder: Path, sql: str) -> None:
    """So that its time grows with the rows of a unit, and not with their pairs, which are 3,600,000,000."""
    with closing(open_session(folder / "exists.toml", folder / "exists.duckdb")) as session:
        (inner,) = session.compile(sql).inner_sql
        most, joins = steps(session._engines.private._connection, inner)  # type: ignore[attr-defined]
    assert most <= ROWS + 10
    assert joins == {"HASH_JOIN"}


def test_the_steps_tell_pairs() -> None:
    with duckdb.connect() as plain:
        plain.execute("CREATE TABLE t AS SELECT 1 AS u, i AS day, i % 10 AS kind FROM range(1000) r(i)")
        for condition, most in (
            ("f.kind = e.kind", 1_000),
            ("f.kind = e.day % 10", 100_000),
            ("f.day > e.day", 499_500),
        ):
            sql = f"SELECT COUNT(*) FROM t e WHERE EXISTS (SELECT 1 FROM t f WHERE f.u = e.u AND {condition})"
            assert steps(plain, sql)[0] == most


@pytest.mark.parametrize(
    "condition",
    [
        "f.kind = e.day % 10",
        "f.day % 10 = e.day % 10",
        "f.day = e.day + e.kind",
        "f.kind = e.kind AND f.day % 10 = e.day % 10",
        "CAST(f.kind AS DOUBLE) = CAST(e.day AS DOUBLE) + 1e20",
        "f.kind = e.kind AND EXISTS (SELECT 1 FROM events g WHERE g.uid = f.uid AND g.day = f.day)",
    ],
)
def test_what_many_rows_of_a_unit_equal_is_limited(connection: dpsql.Connection, condition: str) -> None:
    """The first takes the engine 40 s for the large unit, and 0.1 s for as many rows of units of their own."""
    sql = f"SELECT COUNT(*) FROM events e WHERE EXISTS (SELECT 1 FROM events f WHERE f.uid = e.uid AND {condition})"
    with pytest.raises(dpsql.Error, match=r"DP223: rows of one unit could meet in more than"):
        connection.execute(sql)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT COUNT(DISTINCT e.uid) FROM events e JOIN events f ON e.uid = f.uid WHERE e.kind = 1 AND f.kind = 2",
        "SELECT COUNT(DISTINCT uid) FROM (SELECT e.uid, COUNT(*) AS n FROM events e JOIN events f ON e.uid = f.uid"
        " GROUP BY e.uid) t WHERE n > 5",
    ],
)
def test_rows_that_joins_leave_out_are_told(connection: dpsql.Connection, sql: str) -> None:
    receipt = connection.execute(sql).receipt
    assert receipt is not None
    assert receipt.limits[-1] == "reads at most 996 rows of each person to join them"
    explained = "\n".join(str(row[0]) for row in connection.execute(f"EXPLAIN {sql}").fetchall())
    assert "joins: at most 996 rows of each unit are read" in explained
