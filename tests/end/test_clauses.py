"""BigQuery's clause on the real product: what is counted, what is charged, and that no limit is only promised.

Visitor 1 has 240 visits on ten days, 120 of them on the first; the others have one each. Without noise the answers are
exactly what the limits leave, and where something is clamped, what DuckDB makes of the same rows by hand.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import duckdb
import pytest

from dpsql.errors import Error, NotSupportedError
from dpsql.session import Session, open_session
from dpsql.vault import noise

POLICY = """\
version = 1
[unit]
name = "visitor"
[budget]
account = "clauses"
epsilon = "100"
delta = "1e-3"
per_query_epsilon = "1"
max_query_epsilon = "4"
per_query_delta = "1e-4"
[tables.visits]
unit = "who"
max_rows_per_unit = 5
max_rows_per_unit_hard = 240
max_groups_per_unit = 2
max_groups_per_unit_hard = 10
max_rows_per_group = 4
max_rows_per_group_hard = 100
[tables.visits.columns]
day = { bounds = [1, 10] }
spent = { bounds = [0, 20] }
note = {}
[tables.days]
public = true
key = ["day"]
[tables.days.columns]
day = {}
"""
DATA = """\
CREATE TABLE visits AS
SELECT 1 AS who, CASE WHEN i < 120 THEN 1 ELSE 2 + i % 9 END AS day, CASE WHEN i = 5 THEN NULL ELSE i % 30 END AS spent,
  'n' || i % 7 AS note FROM range(240) t(i)
UNION ALL SELECT 100 + i, 1 + i % 10, 15, 'a' FROM range(50) t(i);
CREATE TABLE days AS SELECT i AS day FROM range(1, 11) t(i);
"""
CLAUSE = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS({}) {} FROM visits"
LISTED = " JOIN days USING (day)"


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    (tmp_path / "visits.toml").write_text(POLICY, encoding="utf-8")
    with duckdb.connect(str(tmp_path / "visits.duckdb")) as connection:
        connection.execute(DATA)
    opened = open_session(tmp_path / "visits.toml", tmp_path / "visits.duckdb", ledger=tmp_path / "ledger.sqlite")
    yield opened
    opened.close()


@pytest.fixture
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without noise."""
    monkeypatch.setattr(noise, "_add", lambda exact, _: exact.astype(object))


def rows(session: Session, sql: str) -> list[tuple[object, ...]]:
    return [tuple(row.values()) for row in session.execute(sql).table.to_pylist()]


def one(session: Session, options: str, items: str, rest: str = "") -> object:
    ((value,),) = rows(session, CLAUSE.format(options, items) + rest)
    return value


@pytest.mark.usefixtures("plain")
@pytest.mark.parametrize("strategy", ["rows", "late"])
@pytest.mark.parametrize("most", [1, 3, 5, 6, 99, 101, 240])
def test_rows_are_limited_to_what_the_clause_names(session: Session, strategy: str, most: int) -> None:
    """Lower and higher than the policy's 5, and beyond 20 times that, where scans are cut otherwise."""
    session.execute(f"SET strategy = {strategy}")
    assert one(session, f"max_rows_contributed = {most}", "COUNT(*)") == 50 + most


@pytest.mark.usefixtures("plain")
def test_no_row_is_lost_to_where_after_a_late_limit(session: Session) -> None:
    session.execute("SET strategy = late")
    assert one(session, "max_rows_contributed = 200", "COUNT(*)", " WHERE day = 1") == 5 + 120
    assert one(session, "max_rows_contributed = 100", "COUNT(*)", " WHERE day = 1") == 5 + 100


@pytest.mark.usefixtures("plain")
@pytest.mark.parametrize("most", [1, 2, 3, 9])
def test_groups_are_limited_to_what_the_clause_names(session: Session, most: int) -> None:
    session.execute("SET max_rows_per_unit = 240")  # so that no scan is cut before
    found = rows(session, CLAUSE.format(f"max_groups_contributed = {most}", "day, COUNT(*)") + LISTED + " GROUP BY day")
    counts = [int(str(n)) - 5 for _, n in found]  # five others on each day
    assert len(counts) == 10
    assert sorted(counts) == [0] * (10 - most) + [4] * most


@pytest.mark.usefixtures("plain")
def test_rows_and_groups_hold_together(session: Session) -> None:
    options = "max_rows_contributed = 240, max_groups_contributed = 1"
    for strategy in ("RESET strategy", "SET strategy = late", "SET strategy = 'late then cells'"):
        session.execute(strategy)
        found = rows(session, CLAUSE.format(options, "day, COUNT(*)") + LISTED + " GROUP BY day")
        counts = [int(str(n)) - 5 for _, n in found]
        assert sorted(counts) == [0] * 9 + [4], strategy
    options = "max_rows_contributed = 2, max_groups_contributed = 1"
    found = rows(session, CLAUSE.format(options, "day, COUNT(*)") + LISTED + " GROUP BY day")
    assert sum(int(str(n)) - 5 for _, n in found) in (1, 2)  # of two rows, those of one day


def by_hand(tmp_path: Path, sql: str) -> object:
    with duckdb.connect(str(tmp_path / "visits.duckdb"), read_only=True) as connection:
        found = connection.execute(sql).fetchone()
    assert found is not None
    return found[0]


UNCLAMPED = "CASE WHEN spent > 20 THEN 20 ELSE spent END"


@pytest.mark.usefixtures("plain")
@pytest.mark.parametrize(
    ("lo", "hi", "least", "most"), [(0, 10, 0, 10), (3, 8, 3, 8), (-4, 60, 0, 20), (20, 30, 20, 20)]
)
def test_each_row_is_clamped(session: Session, tmp_path: Path, lo: int, hi: int, least: int, most: int) -> None:
    """As SQL clamps by hand; NULL stays out."""
    clamp = f"CASE WHEN spent IS NULL THEN NULL ELSE GREATEST(LEAST({UNCLAMPED}, {most}), {least}) END"
    bounds = f"contribution_bounds_per_row => ({lo}, {hi})"
    others = "who > 1"  # all of their rows count
    for name in ("SUM", "AVG", "VAR_POP"):
        expected = by_hand(tmp_path, f"SELECT {name}({clamp}) FROM visits WHERE {others}")
        found = one(session, "max_rows_contributed = 1", f"{name}(spent, {bounds})", " WHERE note = 'a'")
        assert float(str(found)) == pytest.approx(float(str(expected)), abs=1e-6), name
    single = "day = 10 OR note = 'a'"
    expected = by_hand(tmp_path, f"SELECT SUM({clamp}) FROM visits WHERE {single}")
    session.execute("SET strategy = late")
    assert one(session, "max_rows_contributed = 240", f"SUM(spent, {bounds})", f" WHERE {single}") == expected


@pytest.mark.usefixtures("plain")
@pytest.mark.parametrize(("lo", "hi"), [(0, 3), (2, 4), (1, 1), (-5, 2), (4, 100)])
def test_the_part_of_a_unit_is_clamped(session: Session, tmp_path: Path, lo: int, hi: int) -> None:
    """Per unit and group, and what is not there is nothing. Here every unit has at most 4 rows of note 'a'."""
    parts = "SELECT who, day, COUNT(*) AS n, SUM(spent) AS s FROM visits WHERE note = 'a' GROUP BY who, day"
    bounds = f"contribution_bounds_per_group => ({lo}, {hi})"
    expected = by_hand(tmp_path, f"SELECT SUM(GREATEST(LEAST(n, {hi}, 4), {lo})) FROM ({parts})")
    sql = f"SELECT SUM(n) FROM (SELECT day, COUNT(*, {bounds}) AS n FROM visits {LISTED} WHERE note = 'a' GROUP BY day)"
    assert rows(session, sql) == [(expected,)]
    wide = f"contribution_bounds_per_group => ({lo * 10}, {hi * 10})"
    expected = by_hand(tmp_path, f"SELECT SUM(GREATEST(LEAST(s, {hi * 10}), {lo * 10})) FROM ({parts})")
    sql = f"SELECT SUM(s) FROM (SELECT day, SUM(spent, {wide}) AS s FROM visits {LISTED} WHERE note = 'a' GROUP BY day)"
    assert rows(session, sql) == [(expected,)]


@pytest.mark.usefixtures("plain")
@pytest.mark.parametrize(("lo", "hi"), [(0, 20), (3, 8), (-5, 11.5), (15.2, 15.4), (20, 99)])
def test_a_mean_is_that_of_the_units_own_means(session: Session, tmp_path: Path, lo: float, hi: float) -> None:
    """Per group, of visitors with values; on a grid of a thousandth part of a dollar, rounded down."""
    session.execute("SET max_rows_per_unit = 240")
    session.execute("SET strategy = cells")
    means = f"SELECT who, day, AVG({UNCLAMPED}) AS m FROM visits GROUP BY who, day"
    bounds = f"contribution_bounds_per_group => ({lo}, {hi})"
    sql = f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(max_groups_contributed = 10) day, AVG(spent, {bounds}) AS m"
    found = dict(rows(session, f"{sql} FROM visits {LISTED} GROUP BY day"))
    clamped = f"SELECT AVG(GREATEST(LEAST(m, {min(hi, 20)}), {max(lo, 0)})) FROM ({means}) WHERE day = "
    for day in range(1, 11):
        assert float(str(found[day])) == pytest.approx(float(str(by_hand(tmp_path, clamped + str(day)))), abs=2e-3), day


@pytest.mark.usefixtures("plain")
def test_a_sum_of_nothing_is_not_raised(session: Session) -> None:
    """A part without any value brings nothing; a count of none is a number, and clamped like any (as in BigQuery)."""
    nothing = "FILTER (WHERE spent > 1000)"
    bounds = "contribution_bounds_per_group => (2, 3)"
    assert one(session, "", f"SUM(spent, {bounds}) {nothing}") == 0
    assert one(session, "", f"COUNT(*, {bounds}) {nothing}") == 51 * 2
    assert one(session, "", f"AVG(spent, {bounds}) {nothing}") == 2.5  # the middle, as of any mean of nothing


def test_what_is_charged(session: Session) -> None:
    """The price of each clause, and of both together; asked again, nothing."""
    session.execute("SET epsilon = 0.125")
    first = CLAUSE.format("epsilon = 0.5, delta = 1e-5", "COUNT(*)")
    assert session.execute(first).receipt.epsilon == Fraction(1, 2)  # type: ignore[union-attr]
    second = CLAUSE.format("epsilon = 0.25", "SUM(spent)")
    two = f"SELECT ({first}) AS a, ({second}) AS b, (SELECT COUNT(day) FROM visits) AS c"
    receipt = session.execute(two).receipt
    assert receipt is not None
    assert receipt.epsilon == Fraction(1, 4) + Fraction(1, 8)
    receipt = session.execute(two).receipt
    assert receipt is not None
    assert receipt.epsilon == 0
    assert session.budget().spent_epsilon == Fraction(7, 8)


def test_a_delta_is_the_statements(session: Session) -> None:
    notes = " GROUP BY note"
    for options, delta in (("epsilon = 1, delta = 2e-5", "2e-5"), ("epsilon = 1", "1e-4"), ("delta = 3e-5", "3e-5")):
        plan = session.compile(CLAUSE.format(options, "note, COUNT(*)") + notes).plan
        assert plan.delta == Fraction(delta)
    both = [CLAUSE.format("epsilon = 1", f"note, {a} AS x") + notes for a in ("COUNT(*)", "SUM(day)")]
    union = " UNION ALL ".join(both)
    assert session.compile(union).plan.delta == Fraction("1e-4")  # a half each
    with pytest.raises(Error, match="at most delta 5e-5 here"):
        session.compile(union.replace("epsilon = 1", "epsilon = 1, delta = 6e-5"))


@pytest.mark.parametrize("strategy", ["", "rows", "late", "cells", "rows then cells", "late then cells"])
@pytest.mark.parametrize("mechanism", ["", "laplace", "gaussian"])
def test_settings_and_clauses_go_together(session: Session, strategy: str, mechanism: str) -> None:
    """Whatever SET says, the plan proves what the clause names (`check` asks that), or the statement is refused."""
    for name, value in (("strategy", strategy), ("mechanism", mechanism), ("max_rows_per_unit", "3")):
        if value:
            session.execute(f"SET {name} = '{value}'")
    refused = {"DP223"}
    for rows_ in ("", "max_rows_contributed = 2", "max_rows_contributed = NULL"):
        for groups in ("", "max_groups_contributed = 1", "max_groups_contributed = NULL"):
            options = ", ".join(o for o in ("epsilon = 0.5", rows_, groups) if o)
            for keys in ("note", "day"):
                sql = CLAUSE.format(options, f"{keys}, COUNT(*), SUM(spent)") + f" GROUP BY {keys}"
                try:
                    plan = session.compile(sql).plan
                except NotSupportedError as error:
                    refused.add(error.code)
                    continue
                limits = plan.releases[0].limits
                assert not rows_.endswith("2") or limits.rows == 2, sql
                assert not groups.endswith("1") or limits.groups == 1, sql
                assert plan.epsilon == Fraction(1, 2), sql
    assert refused == {"DP223"}
