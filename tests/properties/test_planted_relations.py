"""Joins, groups per unit, windows, unions and look-ups: the check finds each line of defence that is taken away here.

Every one of them is left out in turn, on rows made to show it: baskets of two units, keys that equal a rounded number,
ties, sums that depend on the order of rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlglot import exp

from dpsql.compile import aggregates, bounds, joins, lower, perunit, relations, rewrite, rows
from dpsql.compile.ir import Facts, Join, JoinKind, Relation, Scalar
from dpsql.compile.lowered import Lowered
from dpsql.errors import Error
from tests.properties.asked import Asked, asked
from tests.properties.checks import examine, people
from tests.properties.checks import rows as database_of
from tests.properties.differences import Violation
from tests.properties.test_planted_limits import leave_the_plan_unchecked
from tests.properties.worlds import Terms

TERMS = Terms(private_keys=True, limits=True)

LARGEST = 2**63 - 1
# Units 1 and 2 share basket 1; unit 1 has ties in everything but `tally`, whose largest values are one DOUBLE.
DATABASE = database_of(
    people=[[*person, "-('nan'::DOUBLE)"] for person in people("1", "2", "3")],
    events=[
        ["1", "'a'", "1", "1", x, str(i % 3), str(i), "NULL", "NULL", str(LARGEST - i)]
        for i, x in enumerate([f"{(37 * i % 100) / 30}" for i in range(20)])
    ]
    + [["2", "'b'", "2", "2", "-5", "3", "1", "NULL", "NULL", "1"]]
    + [["3", "'c'", "2", "2", "1", "9", "1", "NULL", "NULL", "1"]],
    orders=[["1", "1", "50"], ["2", "1", "10"], ["3", "2", "5"], ["4", "3", "7"]],
    baskets=[["1", "1", "'north'", "3"], ["1", "2", "'south'", "4"], ["2", "3", "'north'", "5"]],
    lines=[["1", str(i % 3), "20"] for i in range(5)] + [["2", "1", "3"]],
)

BASKETS = "SELECT COUNT(*) FROM lines l JOIN baskets b ON l.bid = b.bid"
FULL = "SELECT COUNT(*) FROM orders o FULL JOIN baskets b ON o.uid = b.hid AND o.total > 20 AND b.worth > 10"
EXISTS = (
    "SELECT COUNT(*) FROM baskets b WHERE NOT EXISTS (SELECT 1 FROM baskets c WHERE c.bid = b.bid AND c.worth > 3.5)"
)
FIRST = (
    "SELECT COUNT(*) FROM (SELECT ROW_NUMBER() OVER (PARTITION BY bid ORDER BY worth) AS r FROM baskets) t WHERE r = 1"
)
TIES = (
    "SELECT COUNT(DISTINCT tally) FROM"
    " (SELECT tally, ROW_NUMBER() OVER (PARTITION BY uid ORDER BY kind) AS r FROM events) t WHERE r = 1"
)
GROUPED = "SELECT COUNT(*) FROM (SELECT bid, COUNT(*) AS c FROM baskets GROUP BY bid) t"
PAIRS = "SELECT COUNT(*) FROM events e JOIN events f ON e.uid = f.uid"
ROUNDED = (
    "SELECT COUNT(*), COUNT((SELECT SUM(f.n) FROM events f WHERE f.uid = e.uid AND f.tally = 9223372036854775807e0"
    " + 0 * e.x)) FROM events e"
)
PRICES = "SELECT COUNT(*) FROM events e JOIN (SELECT item, price FROM prices) p ON p.item = e.item"
UNION = "SELECT COUNT(*) FROM (SELECT uid FROM orders UNION ALL SELECT uid FROM events) t"
SUMS = "SELECT COUNT(DISTINCT s) FROM (SELECT uid, SUM(x) AS s FROM events GROUP BY uid) t"
NAN = (
    "SELECT CAST(y AS VARCHAR), COUNT(*) FROM (SELECT DISTINCT e.uid, CASE WHEN n > 0 THEN raw ELSE -raw END AS y"
    " FROM events e JOIN people p ON e.uid = p.uid) t GROUP BY ALL"
)
ITEMS = "SELECT i.item, COUNT(*) FROM items i LEFT JOIN events e ON e.item = i.item AND e.n > 8 GROUP BY i.item"

# One row of a unit on each side, and two of the join: none has a rank.
ALONE = "SELECT COUNT(p.age), COUNT(q.age) FROM people p FULL JOIN people q ON p.uid = q.uid AND p.age > q.age"

SOUND = [BASKETS, FULL, EXISTS, FIRST, TIES, GROUPED, PAIRS, UNION, SUMS, NAN]


def test_nothing_is_found_where_nothing_is_wrong(tmp_path: Path) -> None:
    few = [asked(sql, "late", max_rows_per_unit=1) for sql in (UNION, ALONE, PAIRS)]
    examine(tmp_path, DATABASE, [*SOUND, *few], "1", "2", "3", terms=TERMS)


def public_while(name: str) -> Callable[[pytest.MonkeyPatch], None]:
    """Inside this method nothing is private: what is joined or looked for may be anybody's."""

    def fault(patch: pytest.MonkeyPatch) -> None:
        plain, is_private = getattr(relations._Parts, name), relations.is_private

        def method(self: Any, *of: Any) -> Any:
            relations.is_private = lambda _: False  # type: ignore[assignment]
            try:
                return plain(self, *of)
            finally:
                relations.is_private = is_private

        patch.setattr(relations._Parts, name, method)

    return fault


def windows_over_all_units(patch: pytest.MonkeyPatch) -> None:
    plain = relations._Parts.over

    def over(self: Any, *of: Any) -> exp.Expr:
        tree = plain(self, *of)
        for window in tree.find_all(exp.Window):
            window.args["partition_by"].pop(0)
        return tree

    patch.setattr(relations._Parts, "over", over)


def windows_without_ranks(patch: pytest.MonkeyPatch) -> None:
    plain = relations._Parts.over
    patch.setattr(relations._Parts, "over", lambda self, call, source: plain(self, replace(call, ties=False), source))


def groups_of_all_units(patch: pytest.MonkeyPatch) -> None:
    """The unit is no key: of several the least owns the group."""
    plain = relations._grouped

    def grouped(*of: Any, **how: Any) -> exp.Select:
        tree = plain(*of, **how)
        tree.args["group"].expressions.pop(0)
        for item in tree.selects:
            if item.alias == relations.UNIT:
                item.set("this", exp.Min(this=item.this))
        return tree

    patch.setattr(relations, "_grouped", grouped)


def owners_of_full_joins_on_the_left(patch: pytest.MonkeyPatch) -> None:
    plain = relations.unit

    def unit(relation: Relation) -> exp.Expr:
        full = isinstance(relation, Join) and relation.kind is JoinKind.FULL
        return plain(replace(relation, kind=JoinKind.LEFT) if full else relation)  # type: ignore[type-var]

    patch.setattr(relations, "unit", unit)
    patch.setattr("dpsql.compile.steps.unit", unit)


def believe_that_joins_look_up(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(joins, "undetermined", lambda *_: [])


def compare_keys_after_rounding(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(joins, "same_type", lambda *_: True)


def believe_that_queries_are_unique(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(lower, "unique_columns", lambda *_: (frozenset({"c1"}),))


def take_all_ranks_for_stored(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(rewrite, "is_stored_rank", lambda _: True)


def drive_a_union_by_its_first_branch(patch: pytest.MonkeyPatch) -> None:
    """R of one branch stands for all of them."""
    plain = rows.RowLowerer._union

    def union(self: Any, of: Any, alias: str) -> Any:
        made = plain(self, of, alias)
        made.driving = next(relations.scans(made.relation)).alias
        return made

    patch.setattr(rows.RowLowerer, "_union", union)
    block = rows.RowLowerer.block

    def kept(self: Any, *of: Any, **more: Any) -> Any:
        made = block(self, *of, **more)
        made.driving = made.driving or next(relations.scans(made.relation)).alias
        return made

    patch.setattr(rows.RowLowerer, "block", kept)


def sum_doubles(patch: pytest.MonkeyPatch) -> None:
    def total(value: Scalar, *_: Any) -> Scalar:
        return Scalar(exp.Sum(this=value.tree), Facts(value.facts.type))

    patch.setattr(aggregates, "_sum", total)


def keep_nan_as_it_is(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(perunit, "comparable", lambda value: value.tree.copy())


def keep_rows_without_partner(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(joins, "owned", lambda block: block)
    believe_that_joins_look_up(patch)  # or else the public rows are refused, since nothing drives such a join


@pytest.mark.parametrize(
    ("fault", "one", "found"),
    [
        (public_while("join"), Asked(BASKETS), r"\(i"),
        (public_while("exists"), Asked(EXISTS), r"\(i"),
        (windows_over_all_units, Asked(FIRST), r"\(i"),
        (windows_without_ranks, Asked(TIES), r"\(v?i"),
        (groups_of_all_units, Asked(GROUPED), r"\(i"),
        (owners_of_full_joins_on_the_left, asked(FULL, "late"), r"\(i"),
        (believe_that_joins_look_up, asked(PAIRS, "rows"), r"\(ii\)"),
        (compare_keys_after_rounding, asked(ROUNDED, "rows"), r"\(ii\)"),
        (believe_that_queries_are_unique, asked(PRICES, "rows"), r"\(ii\)"),
        (take_all_ranks_for_stored, asked(UNION, "late"), r"\(ii\)"),
        (drive_a_union_by_its_first_branch, asked(UNION, "rows"), r"\(ii\)"),
        (sum_doubles, Asked(SUMS), r"\(v?i"),
        (keep_nan_as_it_is, Asked(NAN), r"\(v?i"),
        (keep_rows_without_partner, Asked(ITEMS), r"\(i"),
    ],
)
def test_a_planted_fault_is_found(
    fault: Callable[[pytest.MonkeyPatch], None],
    one: Asked,
    found: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fault(monkeypatch)
    leave_the_plan_unchecked(monkeypatch)
    with pytest.raises(Violation, match=found):
        examine(tmp_path, DATABASE, [one], "1", "2", "3", terms=TERMS)


FIXED = [  # a person has one row, so all rows of a person are in one group, whatever they are joined with
    "SELECT p.sex, COUNT(*), COUNT(DISTINCT o.uid) FROM orders o JOIN people p ON o.uid = p.uid GROUP BY p.sex",
    "SELECT r.label, COUNT(*), COUNT(DISTINCT o.uid) FROM orders o JOIN people p ON o.uid = p.uid"
    " JOIN regions r ON p.region = r.region GROUP BY r.label",
    "SELECT z.land, COUNT(DISTINCT e.uid) FROM zones z, regions r, people p, events e"
    " WHERE r.zone = z.zone AND p.region = r.region AND e.uid = p.uid GROUP BY z.land",
    "SELECT p.name, COUNT(*), COUNT(DISTINCT e.uid) FROM events e JOIN people p ON e.uid = p.uid GROUP BY p.name",
    "SELECT s, COUNT(DISTINCT uid) FROM (SELECT p.uid, p.sex AS s FROM people p JOIN events e ON e.uid = p.uid) t"
    " GROUP BY s",
    "SELECT p.sex, e.kind, COUNT(*) FROM events e JOIN people p ON e.uid = p.uid GROUP BY CUBE (p.sex, e.kind)",
]
SOMETIMES = (  # whose sex is missing in some of their orders: in two groups
    "SELECT p.sex, COUNT(DISTINCT o.uid) FROM orders o LEFT JOIN people p ON o.uid = p.uid AND o.total > 20"
    " GROUP BY p.sex"
)
OF_ROWS = (  # a look-up by what differs from line to line
    "SELECT i.category, COUNT(DISTINCT b.hid) FROM lines l JOIN baskets b ON l.bid = b.bid"
    " JOIN people p ON b.hid = p.uid JOIN items i ON l.item = i.item GROUP BY i.category"
)


def test_a_unit_is_in_one_group_where_it_determines_the_key(tmp_path: Path) -> None:
    ways = [asked(sql, *way) for sql in FIXED for way in ((), ("late",), ("cells",), ("rescale", "gaussian"))]
    with_rows = [asked(SOMETIMES), asked(SOMETIMES, "cells"), asked(OF_ROWS)]
    examine(tmp_path, DATABASE, [*ways, *with_rows], "1", "2", "3", terms=TERMS)


# Of the rows of unit 1 each has its own number for a grade, and only three grades are declared.
GRADED = DATABASE | database_of(
    events=[["1", "'a'", str(i + 1), "1", "1", str(i % 10)] for i in range(9)] + [["2", "'b'", "1", "2", "-5", "3"]],
)
NUMBERED = (
    "SELECT COUNT(*), SUM(n) FROM (SELECT grade, n, ROW_NUMBER() OVER (PARTITION BY uid ORDER BY grade) AS r"
    " FROM events) t WHERE r = grade"
)
FIRST_ROWS = [
    NUMBERED,
    NUMBERED.replace("r = grade", "r <= 2"),
    "SELECT kind, COUNT(*), AVG(x) FROM (SELECT kind, x FROM events"
    " QUALIFY ROW_NUMBER() OVER (PARTITION BY uid ORDER BY n) = 1) t GROUP BY kind",
]


def test_the_rows_that_pass_by_their_number_are_counted(tmp_path: Path) -> None:
    ways = [asked(sql, *way) for sql in FIRST_ROWS for way in ((), ("rows",), ("rescale",))]
    examine(tmp_path, GRADED, ways, "1", "2", terms=TERMS)


def test_a_number_that_is_compared_with_a_claim_proves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = Lowered.count_passing

    def believed(self: Lowered) -> None:
        plain(self)
        if self.passing <= 3:
            self.one_row, self.driving = True, None

    monkeypatch.setattr(Lowered, "count_passing", believed)
    leave_the_plan_unchecked(monkeypatch)
    with pytest.raises(Violation, match=r"\(ii\)"):
        examine(tmp_path, GRADED, [asked(NUMBERED)], "1", "2", terms=TERMS)


def test_a_key_that_is_sometimes_missing_is_not_determined(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def all_of_one_row(block: Any, single: set[str], *_: Any) -> frozenset[str]:
        return frozenset(single)

    monkeypatch.setattr(joins, "of_unit", all_of_one_row)
    with pytest.raises(Violation, match=r"\(i+\)"):
        examine(tmp_path, DATABASE, [asked(SOMETIMES)], "1", "2", "3", terms=TERMS)


def test_a_key_of_rows_is_not_determined(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Found by the plan's check for private rows; without it by the property."""
    monkeypatch.setattr(joins, "of_unit", lambda block, *_: frozenset(s.alias for s in block.sources))
    by_kind = asked("SELECT e.kind, COUNT(DISTINCT e.uid) FROM events e JOIN people p ON e.uid = p.uid GROUP BY e.kind")
    with pytest.raises(Error, match="one value of a key that it determines"):
        examine(tmp_path / "checked", DATABASE, [by_kind], terms=TERMS)
    with pytest.raises(Violation, match=r"\(i+\)"):
        examine(tmp_path / "looked up", DATABASE, [asked(OF_ROWS)], "1", "2", "3", terms=TERMS)


def test_a_scan_that_is_not_cut_is_found_by_the_plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing that is counted hangs on it, but how much work a unit can make, and that no sum overflows."""
    plain = bounds._cut
    monkeypatch.setattr(bounds, "_cut", lambda relation, limits: plain(relation, dict(list(limits.items())[:1])))
    monkeypatch.setattr(bounds, "_meeting", lambda _: bounds._Meeting(1, 1))
    with pytest.raises(Error, match="every unit is cut"):
        examine(tmp_path, DATABASE, [PAIRS], terms=TERMS)
