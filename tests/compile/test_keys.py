"""What keys come from: lineage, equations, implied predicates, and the refusal where nothing is known of them."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pytest
import sqlglot
from sqlglot import exp

from dpsql.compile import domains
from dpsql.compile.blocks import BlockSource, PrivateBlock
from dpsql.compile.check import check
from dpsql.compile.ir import PublicKeys
from dpsql.compile.kinds import DATE, INTEGER, TIMESTAMP
from dpsql.compile.lineage import Lineage, lineage
from dpsql.compile.parse import parse
from dpsql.compile.resolve import resolve
from dpsql.compile.trees import implied, meaning, select
from dpsql.errors import Error
from dpsql.policy.facts import SqlType
from dpsql.session import Session, open_session

GOLDEN = Path(__file__).parent / "golden"


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    home = tmp_path_factory.mktemp("keys")
    with duckdb.connect(str(home / "clinic.duckdb")) as connection:
        connection.execute((GOLDEN / "clinic.sql").read_text(encoding="utf-8"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(home / "cache"))
        opened = open_session(GOLDEN / "keys.toml", home / "clinic.duckdb", ledger=home / "ledger.sqlite")
    yield opened
    opened.close()


def sql_of(tree: exp.Expr) -> str:
    return tree.sql(dialect="duckdb").replace('"', "")


def condition(text: str) -> exp.Expr:
    where = sqlglot.parse_one(f"SELECT 1 WHERE {text}", dialect="duckdb").args["where"]
    return where.this  # type: ignore[no-any-return]


# ---- implied predicates, and what expressions mean


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a AND (b AND c)", ["a", "b", "c"]),
        ("(a AND b) OR (a AND c)", ["(a AND b) OR (a AND c)", "a"]),
        ("(a = b AND c) OR ((b = a) AND d)", ["(a = b AND c) OR ((b = a) AND d)", "a = b"]),
        ("(a AND b) OR (c AND a) OR ((a))", ["(a AND b) OR (c AND a) OR ((a))", "a"]),
        ("(a AND b) OR c", ["(a AND b) OR c"]),
        ("(a AND (b AND x OR c AND x)) OR (x AND d)", ["(a AND (b AND x OR c AND x)) OR (x AND d)", "x"]),
        ("NOT (a OR b)", ["NOT (a OR b)"]),
    ],
)
def test_what_a_condition_implies(text: str, expected: list[str]) -> None:
    assert [sql_of(part) for part in implied(condition(text))] == expected


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("(a + b)", "a + (b)", True),
        ("a = b", "b = a", True),
        ("a < b", "b < a", False),
        ("a - b", "b - a", False),
        ("(a + b) * c", "a + b * c", False),
        ("substring(a, 1, 2)", "SUBSTRING(a FROM 1 FOR 2)", True),
        ("substring(a, 1, 2)", "substring(a, 1, 22)", False),
        ("a IN (1, 2)", "a IN (12)", False),
        ("a = '1'", "a = 1", False),
        ("f(a, b)", "f(a) + b", False),
    ],
)
def test_equal_expressions_mean_the_same(one: str, other: str, same: bool) -> None:
    assert (meaning(condition(one)) == meaning(condition(other))) is same


def test_long_expressions_mean_nothing() -> None:
    chain = " + ".join(["a"] * 900)
    assert meaning(condition(chain)) is None


def test_thousands_of_conjuncts_are_read() -> None:
    assert len(list(implied(condition(" AND ".join(["a"] * 3000))))) == 3000


# ---- lineage


def block_of(session: Session, sql: str) -> PrivateBlock:
    (block,) = resolve(parse(sql, None), session.policy).blocks.values()
    assert isinstance(block, PrivateBlock)
    return block


def lineage_of(session: Session, sql: str) -> tuple[Lineage, list[str]]:
    """Of a statement, and its keys over tables."""
    block = block_of(session, sql)
    line = lineage(block, session.snapshot.facts)
    return line, [sql_of(line.of(key)) for key in block.groups]


@pytest.mark.parametrize(
    ("sql", "keys", "predicates"),
    [
        (
            "SELECT b, COUNT(*) FROM (SELECT a + 1 AS b FROM (SELECT age * 2 AS a FROM patients WHERE smoker) x"
            " WHERE a > 3) y WHERE b < 9 GROUP BY b",
            ["((patients.age * 2) + 1)"],
            ["patients.smoker", "(patients.age * 2) > 3", "((patients.age * 2) + 1) < 9"],
        ),
        (
            "SELECT l, COUNT(*) FROM (SELECT r.label AS l FROM patients p LEFT JOIN regions r ON p.region = r.region) t"
            " GROUP BY l",
            ["regions.label"],
            [],
        ),
        (
            "SELECT a.sex, b.sex, COUNT(*) FROM patients a LEFT JOIN (SELECT uid, sex, 1 AS one FROM patients"
            " WHERE age > 5) b ON a.uid = b.uid WHERE one = 1 GROUP BY a.sex, b.sex",
            ["patients.sex", "patients_2.sex"],
            ["b.c3 = 1"],
        ),
        (
            "WITH c AS (SELECT uid, sex FROM patients WHERE age > 5)"
            " SELECT a.sex, b.sex, COUNT(*) FROM c a JOIN c b ON a.uid = b.uid GROUP BY a.sex, b.sex",
            ["patients.sex", "b.c2"],
            ["patients.age > 5", "patients.uid = b.c1"],
        ),
    ],
)
def test_keys_over_tables(sql: str, keys: list[str], predicates: list[str], session: Session) -> None:
    line, found = lineage_of(session, sql)
    assert found == keys
    assert [sql_of(p) for p in line.predicates] == predicates


def test_rows_behind_outer_joins_may_be_missing(session: Session) -> None:
    sql = (
        "SELECT COUNT(*) FROM patients a LEFT JOIN (SELECT p.uid, r.label FROM patients p JOIN regions r"
        " ON p.region = r.region) b ON a.uid = b.uid"
    )
    line, _ = lineage_of(session, sql)
    assert line.optional == {"patients_2", "regions"}
    assert line.predicates == ()


@pytest.mark.parametrize(
    ("inner", "computed", "predicates"),
    [
        (
            "SELECT region AS a, COUNT(*) FROM patients WHERE age > 5 GROUP BY region",
            ["patients.region", "t.c2"],
            1,
        ),
        ("SELECT DISTINCT region AS a, sex AS b FROM patients WHERE age > 5", ["patients.region", "patients.sex"], 1),
        ("SELECT region AS a, 1 AS n FROM patients WHERE age > 5 GROUP BY ROLLUP (region)", ["t.c1", "t.c2"], 0),
        ("SELECT 5 AS a, COUNT(*) AS n FROM patients WHERE age > 5", ["t.c1", "t.c2"], 0),
        ("SELECT region AS a, 1 AS b FROM patients WHERE age > 5 HAVING COUNT(*) > 1", ["t.c1", "t.c2"], 0),
    ],
)
def test_a_group_stands_for_its_rows(inner: str, computed: list[str], predicates: int, session: Session) -> None:
    """A group's keys are those of each of its rows, which WHERE has kept; without GROUP BY there may be no row."""
    rows = block_of(session, "SELECT a, b, COUNT(*) FROM (SELECT region AS a, sex AS b FROM patients) t GROUP BY a, b")
    assert isinstance(rows.first, BlockSource)
    block = replace(rows, first=replace(rows.first, block=block_of(session, inner)))
    line = lineage(block, session.snapshot.facts)
    assert [sql_of(line.of(key)) for key in block.groups] == computed
    assert len(line.predicates) == predicates


def test_doubling_subqueries_do_not_explode(session: Session) -> None:
    source = "patients"
    for level in range(20):
        source = f"(SELECT age % 2 + age % 3 AS age FROM {source}) t{level}"
    began = time.monotonic()
    compiled = session.compile(f"SELECT age, COUNT(*) FROM {source} WHERE age < 3 GROUP BY age")
    assert compiled.plan.releases[0].keys == 3
    assert time.monotonic() - began < 20


# ---- the relation


def keys_of(session: Session, sql: str) -> PublicKeys:
    found = session.compile(sql).plan.releases[0].release.public_keys
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("sql", "count"),
    [
        ("SELECT smoker, COUNT(*) FROM patients GROUP BY smoker", 3),
        ("SELECT drug, COUNT(*) FROM treatments WHERE drug IS NOT NULL GROUP BY drug", None),
        ("SELECT drug, COUNT(*) FROM treatments GROUP BY drug", 6),
        ("SELECT region, smoker, COUNT(*) FROM patients GROUP BY ALL", 15),
        ("SELECT region, sex, COUNT(*) FROM patients GROUP BY ALL", None),
        ("SELECT seen, month(seen), COUNT(*) FROM visits GROUP BY ALL", 367),
        ("SELECT left(region, 1), COUNT(*) FROM patients GROUP BY ALL", None),
        ("SELECT label, COUNT(*) FROM patients JOIN regions USING (region) GROUP BY label", None),
    ],
)
def test_keys_are_counted_where_no_engine_is_needed(sql: str, count: int | None, session: Session) -> None:
    keys = keys_of(session, sql)
    assert keys.count == count
    (rows,) = duckdb_count(session, keys)
    assert count in (None, rows)


def duckdb_count(session: Session, keys: PublicKeys) -> list[int]:
    tree = exp.select(exp.Count(this=exp.Star())).from_(exp.Subquery(this=keys.tree.copy(), alias="k"))
    table = session._engines.outer.run(tree.sql(dialect="duckdb"), {})
    return [int(x.as_py()) for x in table.column(0)]


def test_too_many_combinations_are_not_looked_through(session: Session) -> None:
    sql = (
        "SELECT a, b, c, COUNT(*) FROM (SELECT p.born AS a, v.seen AS b, age AS c FROM visits v JOIN patients p"
        " USING (uid) WHERE p.born BETWEEN DATE '1990-01-01' AND DATE '2009-12-31') t"
        " WHERE month(a) < month(b) AND c < day(b) GROUP BY a, b, c"
    )
    with pytest.raises(Error, match=r"^DP207"):
        session.compile(sql)


def test_a_key_relation_over_private_rows_is_no_plan(session: Session) -> None:
    """What `check` is there for: a fault in the passes before it."""
    plan = session.compile("SELECT sex, COUNT(*) FROM patients WHERE sex IN ('F', 'M') GROUP BY sex").plan
    private = sqlglot.parse_one('SELECT DISTINCT "sex" AS "k1" FROM priv."patients"', dialect="duckdb")
    assert isinstance(private, exp.Select)
    (release,) = plan.releases
    keys = PublicKeys(private, inferred=False, count=2)
    faulty = replace(plan, releases=(replace(release, release=replace(release.release, public_keys=keys)),))
    check(plan, session.policy, session.settings.request)
    with pytest.raises(Error, match="public keys are public"):
        check(faulty, session.policy, session.settings.request)


# ---- the refusal, and what it says to write


@pytest.mark.parametrize(
    ("select", "source", "values"),
    [
        ("clinic", "visits", "'c1', 'c2'"),
        ("upper(clinic)", "visits", "'C1'"),
        ("clinic || '/' || friend_id", "visits", "'c1/2'"),
        ("friend_id", "visits", "1, 2"),
        ("friend_id * 2 - 1", "visits JOIN patients USING (uid)", "1, 3"),
        ("CASE WHEN friend_id > 3 THEN clinic ELSE 'x' END", "visits", "'x', 'c1'"),
        ("COALESCE(name, '?')", "patients", "'n1', '?'"),
        ("code", "(SELECT substring(clinic, 1, 2) AS code FROM visits) t", "'c1'"),
        ("code", "(SELECT inner_code || '!' AS code FROM (SELECT clinic AS inner_code FROM visits) s) t", "'c1!'"),
        ("-friend_id", "visits", "-1, -2"),
        ("CAST(friend_id AS VARCHAR)", "visits", "'1'"),
        ("date_trunc('month', CAST(clinic AS DATE))", "visits", "TIMESTAMP '2024-01-01 00:00:00'"),
    ],
)
def test_the_repair_works(select: str, source: str, values: str, session: Session) -> None:
    sql = f"SELECT {select} AS k, COUNT(*) AS n FROM {source}{{}} GROUP BY k"
    with pytest.raises(Error, match=r"^DP205") as caught:
        session.compile(sql.format(""))
    written = re.search(r"WHERE (.*?) IN \(([^;]*)\), or group by", str(caught.value))
    assert written is not None
    compiled = session.compile(sql.format(f" WHERE {written[1]} IN ({values})"))
    assert compiled.plan.releases[0].keys == values.count(",") + 1


# ---- how many values are written


DAY, HOUR, ODD = timedelta(days=1), timedelta(hours=1), timedelta(microseconds=1_500_000)


@pytest.mark.parametrize(
    ("first", "distance", "type_"),
    [
        (-3, 1, INTEGER),
        (-30, 10, INTEGER),
        (date(1999, 12, 27), 7 * DAY, DATE),
        (datetime(2024, 2, 28, 22, 30), HOUR, TIMESTAMP),
        (datetime(2024, 2, 28), ODD, TIMESTAMP),
    ],
)
@pytest.mark.parametrize("nullable", [False, True])
@pytest.mark.parametrize("gap", [False, True])
def test_a_long_run_is_one_expression(first: Any, distance: Any, type_: SqlType, nullable: bool, gap: bool) -> None:
    """Of whole seconds; what has a gap is written value by value. Either way the values are these."""
    values = [first + i * distance for i in range(1000) if not (gap and i == 500)]
    relation = domains.named(domains.listed(values, type_, nullable=nullable), "t", ["v"])
    sql = select([exp.Star()], relation).sql(dialect="duckdb")
    assert sorted(duckdb.sql(f"{sql} WHERE v IS NOT NULL").fetchall()) == [(value,) for value in values]
    assert (duckdb.sql(f"{sql} WHERE v IS NULL").fetchall() == [(None,)]) == nullable
    assert (len(sql) < 400) == (not gap and distance is not ODD)
