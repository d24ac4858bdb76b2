"""Limits, the choice of keys and the decision on private ones: the check finds each fault that is planted here.

Where the plan's own check (`check`) sees a fault as well, that is tested apart: it reads plans, so it sees what is
promised wrongly, and not what the SQL fails to do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from sqlglot import exp

from dpsql.compile import cutting, planner, pricing, slots, steps, trees
from dpsql.compile.lower import lower
from dpsql.compile.plan import ReleasePlan
from dpsql.compile.trees import aliased, column
from dpsql.errors import Error
from dpsql.privacy import sensitivity
from dpsql.privacy.sensitivity import Limits, Norms
from tests.properties.asked import Asked, asked
from tests.properties.checks import PUBLIC, examine, people, rows
from tests.properties.differences import Violation
from tests.properties.sides import Bench, Ready
from tests.properties.worlds import Terms, World

TERMS = Terms(private_keys=True, limits=True)

# Unit 1 has nine events of one kind and three of others, unit 2 some of each, and unit 3 one that nobody else has.
EVENTS = rows(
    people=people("1", "2", "3"),
    events=[["1", "'a'", "1", "1", "7", str(i % 10), str(i)] for i in range(9)]
    + [["1", kind, grade, "2", "-5", "3"] for kind, grade in (("'b'", "2"), ("'b'", "3"), ("'c'", "3"))]
    + [["2", kind, grade, "1", "1", "9"] for kind, grade in (("'a'", "1"), ("'b'", "2"), ("'c'", "3"))]
    + [["3", "'c'", "1", "2", "0", "-3"]],
)
COUNT = "SELECT kind, COUNT(*) FROM events GROUP BY kind"
SUM = "SELECT kind, SUM(n) FROM events GROUP BY kind"
MEAN = "SELECT kind, AVG(n) FROM events GROUP BY kind"
SPREAD = "SELECT kind, STDDEV(n), COUNT(n) FROM events GROUP BY kind"
LINE = "SELECT kind, CORR(n, x), REGR_SLOPE(n, x) FROM events GROUP BY kind"
GRADES = "SELECT kind, grade, COUNT(*), COUNT(DISTINCT uid) FROM events GROUP BY kind, grade"
WHOLE_DECIMALS = "SELECT kind, SUM(ROUND(amount)), AVG(ROUND(wide)) FROM events GROUP BY kind"
VALUES = "SELECT kind, COUNT(DISTINCT n), COUNT(DISTINCT x) FROM events GROUP BY kind"
PRIVATE_VALUES = "SELECT n, COUNT(DISTINCT x) FROM events GROUP BY n"
CUBE = "SELECT kind, grade, COUNT(*), COUNT(DISTINCT uid), GROUPING(kind) FROM events GROUP BY CUBE (kind, grade)"
ROLLUP = "SELECT kind, n, SUM(x), COUNT(DISTINCT n) FROM events GROUP BY ROLLUP (kind, n)"
CUBED_MEAN = "SELECT kind, grade, AVG(n) FROM events GROUP BY CUBE (kind, grade)"
PRIVATE = "SELECT n, SUM(x) FROM events GROUP BY n"
PRIVATE_ROWS = "SELECT x, COUNT(*) FROM events GROUP BY x"
PRIVATE_UNITS = "SELECT n, COUNT(DISTINCT uid) FROM events GROUP BY n"

CELLS = {"max_groups_per_unit": 2, "max_rows_per_group": 1}
ALL = [
    asked(COUNT, "cells", **CELLS),
    asked(SUM, "cells", **CELLS),
    *(asked(sql, "cells", **CELLS) for sql in (MEAN, SPREAD, LINE)),
    asked(SPREAD, "late then cells", max_rows_per_unit=3, max_groups_per_unit=2, max_rows_per_group=2),
    asked(GRADES, "late then cells", max_rows_per_unit=2, max_groups_per_unit=1, max_rows_per_group=2),
    asked(GRADES, "rows then cells", max_rows_per_unit=2, max_groups_per_unit=1, max_rows_per_group=2),
    asked(COUNT, "late", max_rows_per_unit=2),
    *(asked(sql, "rescale", max_rows_per_unit=2) for sql in (COUNT, SUM, MEAN, SPREAD, LINE, WHOLE_DECIMALS, PRIVATE)),
    asked(WHOLE_DECIMALS, "cells", **CELLS),
    *(asked(sql, "rows", max_rows_per_unit=2) for sql in (PRIVATE, PRIVATE_UNITS)),
    *(asked(sql, "cells", max_groups_per_unit=1) for sql in (PRIVATE, PRIVATE_UNITS)),
    asked(VALUES, "rows", max_rows_per_unit=2),
    asked(VALUES, "late", max_rows_per_unit=2),
    asked(VALUES, "cells", **CELLS),
    asked(VALUES, "late then cells", max_rows_per_unit=3, max_groups_per_unit=1, max_rows_per_group=2),
    asked(PRIVATE_VALUES, "cells", max_groups_per_unit=1),
    asked(CUBE, "rows", max_rows_per_unit=3),
    asked(CUBE, "late", max_rows_per_unit=2),
    asked(CUBE, "cells", **CELLS),
    asked(CUBE, "rows then cells", max_rows_per_unit=3, max_groups_per_unit=1, max_rows_per_group=2),
    asked(CUBED_MEAN, "rescale", max_rows_per_unit=2),
    asked(CUBED_MEAN, "cells", **CELLS),
    asked(ROLLUP, "rows", max_rows_per_unit=2),
    asked(ROLLUP, "cells", max_groups_per_unit=1),
    asked("SELECT n, kind FROM events GROUP BY CUBE (n, kind)", "late", max_rows_per_unit=2),
    asked("SELECT n, kind FROM events GROUP BY CUBE (n, kind)", "cells", max_groups_per_unit=1),
    asked("SELECT kind, n, COUNT(*) FROM events GROUP BY CUBE (n, kind)", "cells", max_groups_per_unit=1),
    asked("SELECT DISTINCT n FROM events", "late", max_rows_per_unit=2),
    *(asked(sql, "rescale", "gaussian", max_rows_per_unit=2) for sql in (COUNT, SUM, MEAN, SPREAD, CUBED_MEAN)),
    *(asked(sql, "cells", "gaussian", **CELLS) for sql in (COUNT, LINE, VALUES, PRIVATE, PRIVATE_UNITS, CUBE)),
    asked("SELECT DISTINCT n FROM events", "late", "gaussian", max_rows_per_unit=2),
    *(asked(PRIVATE_ROWS, "cells", m, **CELLS) for m in ("laplace", "gaussian")),
    *(asked(PRIVATE_ROWS, "rows", m, max_rows_per_unit=1) for m in ("laplace", "gaussian")),
]


def test_nothing_is_found_where_nothing_is_wrong(tmp_path: Path) -> None:
    examine(tmp_path, EVENTS, ALL, "1", "2", "3", terms=TERMS)


def count_all_rows_of_a_cell(patch: pytest.MonkeyPatch) -> None:
    """r is not enforced."""

    def cut(i: int, slot: Any, most: int, source: str) -> list[exp.Expr]:
        return [aliased(cutting._times(column(source, n), slot.subgrid), n) for n in slots.vector_columns(i, slot)]

    patch.setattr(cutting, "_cut", cut)


def clamp_components_apart(patch: pytest.MonkeyPatch) -> None:
    """Each component of a Bernstein slot is clamped to r rows, instead of the vector as a whole."""

    def cut(i: int, slot: Any, most: int, source: str) -> list[exp.Expr]:
        found = []
        for name in slots.vector_columns(i, slot):
            limit = cutting._whole(most * slot.weight)
            scaled = cutting._times(column(source, name), slot.subgrid)
            over = exp.GT(this=scaled, expression=limit)
            found.append(aliased(trees.case([(over, limit.copy())], scaled.copy()), name))
        return found

    patch.setattr(cutting, "_cut", cut)


def keep_all_keys(patch: pytest.MonkeyPatch) -> None:
    """g is not enforced."""
    patch.setattr(ReleasePlan, "chooses_keys", False)


def scale_nothing(patch: pytest.MonkeyPatch) -> None:
    """The ball is not enforced: its radius is a million rows."""
    plain = cutting._scaled
    patch.setattr(cutting, "_scaled", lambda i, slot, _, *rest: plain(i, slot, 1_000_000, *rest))


def keep_late_rows(patch: pytest.MonkeyPatch) -> None:
    """R after WHERE is not enforced."""

    def late(limit: int, names: Any, ranks: Any, *, stored: bool) -> exp.Query:
        return exp.select(*(column("rows", n) for n in names)).from_(trees.named("rows"))

    patch.setattr(steps, "late", late)


def choose_late_rows_by_another_order(patch: pytest.MonkeyPatch) -> None:
    """The first R rows in the opposite order: beside those of rank at most R, which are taken to be among them."""
    plain = steps.late

    def late(limit: int, names: Any, ranks: Any, *, stored: bool) -> exp.Query:
        query = plain(limit, names, ranks, stored=stored)
        for ordered in query.find_all(exp.Ordered):
            ordered.set("desc", True)
        return query

    patch.setattr(steps, "late", late)


def choose_among_the_keys_of_all(patch: pytest.MonkeyPatch) -> None:
    """The g least hashes of the whole table: which keys a unit keeps depends on who else is there."""
    plain = steps.chosen

    def chosen(groups: int, *rest: Any) -> exp.Select:
        select = plain(groups, *rest)
        for window in select.find_all(exp.Window):
            window.set("partition_by", None)
        return select

    patch.setattr(steps, "chosen", chosen)


def choose_by_the_number_of_the_unit(patch: pytest.MonkeyPatch) -> None:
    """Hash the unit's number in the tables: its place among the others."""
    plain = steps.chosen

    def chosen(groups: int, names: Any, salt: int, source: str) -> exp.Select:
        select = plain(groups, names, salt, source)
        for found in select.find_all(exp.Column):
            if found.name == steps.IDENTITY:
                found.replace(column(source, "u"))
        return select

    patch.setattr(steps, "chosen", chosen)


def bring_all_values(patch: pytest.MonkeyPatch) -> None:
    """r is not enforced on the values of a cell."""
    plain = steps.values
    patch.setattr(steps, "values", lambda i, _, *rest: plain(i, 1_000_000, *rest))


def bring_values_of_all_keys(patch: pytest.MonkeyPatch) -> None:
    """Values of keys that were not chosen count as well."""
    plain = steps.values
    patch.setattr(steps, "values", lambda *of: plain(*of[:-1], "cells"))


def promise_one_value(patch: pytest.MonkeyPatch) -> None:
    """Noise for one value of each unit in all."""
    patch.setattr(sensitivity, "of_values", lambda *_: sensitivity.Norms(1, 1, 1, 1))
    patch.setattr("dpsql.session.check", lambda *_: None)  # which finds it first: see below


def measure_one_key_in_l2(patch: pytest.MonkeyPatch) -> None:
    """In L2, the move of one key alone; the other norms are right."""
    plain = sensitivity.over_sets

    def over_sets(norms: Sequence[Norms]) -> Norms:
        right = plain(norms)
        return replace(right, l2_squared=right.linf**2)

    patch.setattr(sensitivity, "over_sets", over_sets)


def count_sets_once(patch: pytest.MonkeyPatch) -> None:
    """Noise for one grouping set."""
    patch.setattr(sensitivity, "over_sets", lambda norms: max(norms, key=lambda n: n.l1))


def choose_over_all_sets_among_all(patch: pytest.MonkeyPatch) -> None:
    """The keys of a set are chosen where the set's number is not looked at, and as many as there are sets."""
    plain = steps.chosen
    for module in (steps, cutting):
        patch.setattr(module, "per_set", lambda _: ["u"])
    patch.setattr(steps, "chosen", lambda groups, release, *rest: plain(groups * 40, release, *rest))


def scale_by_the_largest(patch: pytest.MonkeyPatch) -> None:
    """A round ball is enforced by the largest size of a unit, in place of the root of all squares."""

    def largest(size: exp.Expr, _: int, of_unit: Any) -> exp.Expr:
        return exp.Window(this=exp.Max(this=size), partition_by=list(of_unit), over="OVER")

    patch.setattr(cutting, "_root_of_squares", largest)


def scale_all_but_one_set(patch: pytest.MonkeyPatch) -> None:
    """The ball is not enforced in the set without keys."""
    plain = cutting._scaled

    def scaled(i: int, slot: Any, ball: int, rows: int, source: str, per: Any) -> list[exp.Expr]:
        loose = {e.alias: e.unalias() for e in plain(i, slot, 1_000_000, rows, source, per)}
        last = exp.EQ(this=column(source, "g"), expression=exp.Literal.number(3))
        return [
            aliased(trees.case([(last.copy(), loose[e.alias])], e.unalias()), e.alias)
            for e in plain(i, slot, ball, rows, source, per)
        ]

    patch.setattr(cutting, "_scaled", scaled)


def count_rows_for_units(patch: pytest.MonkeyPatch) -> None:
    """Private keys are decided on their rows."""
    plain = steps.totals_of_rows

    def totals(*of: Any) -> exp.Select:
        select = plain(*of)
        for item in select.selects:
            if item.alias_or_name == "units":
                item.set("this", steps._count())
        return select

    patch.setattr(steps, "totals_of_rows", totals)


def halve_the_keys(patch: pytest.MonkeyPatch) -> None:
    """k-hat is half of what a unit can touch."""
    plain = sensitivity.touched_keys
    patch.setattr(sensitivity, "touched_keys", lambda limits, keys: max(plain(limits, keys) // 2, 1))


def leave_the_plan_unchecked(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("dpsql.session.check", lambda *_: None)


@pytest.mark.parametrize(
    ("fault", "one", "found"),
    [
        (count_all_rows_of_a_cell, asked(COUNT, "cells", **CELLS), r"\(ii\)"),
        (count_all_rows_of_a_cell, asked(SUM, "cells", **CELLS), r"\(ii\)"),
        (count_all_rows_of_a_cell, asked(MEAN, "cells", **CELLS), r"\(ii\)"),
        (clamp_components_apart, asked(MEAN, "cells", **CELLS), r"\(ii\)"),
        (clamp_components_apart, asked(LINE, "cells", **CELLS), r"\(ii\)"),
        (scale_nothing, asked(SPREAD, "rescale", max_rows_per_unit=2), r"\(ii\)"),
        (keep_all_keys, asked(COUNT, "cells", max_groups_per_unit=1), r"\(i+\)"),
        (keep_all_keys, asked(PRIVATE, "cells", max_groups_per_unit=1), r"\(i+\)"),
        (scale_nothing, asked(COUNT, "rescale", max_rows_per_unit=2), r"\(ii\)"),
        (scale_nothing, asked(SUM, "rescale", max_rows_per_unit=2), r"\(ii\)"),
        (scale_nothing, asked(MEAN, "rescale", max_rows_per_unit=2), r"\(ii\)"),
        (scale_nothing, asked(COUNT, "rescale", "gaussian", max_rows_per_unit=2), r"\(ii\)"),
        (scale_by_the_largest, asked(COUNT, "rescale", "gaussian", max_rows_per_unit=2), r"\(ii\)"),
        (keep_late_rows, asked(COUNT, "late", max_rows_per_unit=2), r"\(ii\)"),
        (choose_late_rows_by_another_order, asked(COUNT, "late", max_rows_per_unit=2), r"\(ii\)"),
        (choose_among_the_keys_of_all, asked(COUNT, "cells", **CELLS), r"\(i+\)"),
        (choose_by_the_number_of_the_unit, asked(GRADES, "cells", max_groups_per_unit=1), r"\(i+\)"),
        (bring_all_values, asked(VALUES, "cells", **CELLS), r"\(i+\)"),
        (bring_values_of_all_keys, asked(VALUES, "cells", max_groups_per_unit=1), r"\(i+\)"),
        (promise_one_value, asked(VALUES, "rows", max_rows_per_unit=3), r"\(i+\)"),
        (measure_one_key_in_l2, asked(COUNT, "cells", **CELLS), r"\(ii\).*in L2"),
        (measure_one_key_in_l2, asked(CUBE, "rows", max_rows_per_unit=3), r"\(ii\).*in L2"),
        (count_sets_once, asked(CUBE, "rows", max_rows_per_unit=3), r"\(ii\)"),
        (count_sets_once, asked(CUBE, "cells", **CELLS), r"\(ii\)"),
        (count_sets_once, asked(ROLLUP, "rows", max_rows_per_unit=2), r"\(i+\)"),
        (choose_over_all_sets_among_all, asked(CUBE, "cells", max_groups_per_unit=1), r"\(i+\)"),
        (scale_all_but_one_set, asked(CUBED_MEAN, "rescale", max_rows_per_unit=2), r"\(ii\)"),
        (
            count_rows_for_units,
            asked("SELECT x, SUM(n) FROM events GROUP BY x", "rows", "laplace", max_rows_per_unit=2),
            r"\(iii\)",
        ),
        (halve_the_keys, asked(PRIVATE, "rows", max_rows_per_unit=2), r"\(iii\)"),
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
    salted = [Asked(one.sql, one.settings, salt) for salt in range(12)]  # some choices happen to be the same
    with pytest.raises(Violation, match=found):
        examine(tmp_path, EVENTS, salted if "cells" in str(one) else [one], "1", "2", "3", terms=TERMS)


def test_the_plan_does_not_pass_with_too_few_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Found by `plan.check` first: it counts the keys itself."""
    halve_the_keys(monkeypatch)
    for sql, mechanism, promise in (
        (PRIVATE, "laplace", "the noise covers"),
        (PRIVATE, "gaussian", "the noise covers"),
        ("SELECT DISTINCT n FROM events", "laplace", "covers every key of a unit"),
        ("SELECT DISTINCT n FROM events", "gaussian", "the noise covers"),
    ):
        one = asked(sql, "rows", mechanism, max_rows_per_unit=2)
        with pytest.raises(Error, match=promise):
            examine(tmp_path / (promise + mechanism), EVENTS, [one], terms=TERMS)


def test_a_count_of_several_rows_decides_on_no_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A unit with two rows in a key would open it alone. Found by the plan's check, and without it by the property."""
    one = asked(PRIVATE_ROWS, "rows", "laplace", max_rows_per_unit=2)
    monkeypatch.setattr(slots.Slot, "counts_units", property(lambda slot: slot.argument is None))
    with pytest.raises(Error, match="a unit counts once in each key"):
        examine(tmp_path / "checked", EVENTS, [one], terms=TERMS)
    leave_the_plan_unchecked(monkeypatch)
    with pytest.raises(Violation, match=r"\(iii\)"):
        examine(tmp_path / "unchecked", EVENTS, [one], "1", "2", "3", terms=TERMS)


@pytest.mark.parametrize(
    ("name", "fault", "promise"),
    [
        ("sigma_for", lambda plain: lambda *of: plain(*of) * Fraction(999, 1000), "the noise is enough together"),
        ("mu_squared_for", lambda plain: lambda *of: plain(*of) * Fraction(1001, 1000), "it is private"),
    ],
)
def test_the_plan_does_not_pass_with_too_little_normal_noise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, fault: Any, promise: str
) -> None:
    """A thousandth is too little; where the plan is not checked, the property finds it by another formula."""
    monkeypatch.setattr(pricing, name, fault(getattr(pricing, name)))
    one = asked("SELECT SUM(x), COUNT(DISTINCT uid) FROM events", "rows", "gaussian")
    with pytest.raises(Error, match=promise):
        examine(tmp_path / "checked", EVENTS, [one], terms=TERMS)
    leave_the_plan_unchecked(monkeypatch)
    with pytest.raises(Violation, match="normal noise of mu"):
        examine(tmp_path / "unchecked", EVENTS, [one], "1", terms=TERMS)


def test_the_plan_does_not_pass_with_too_few_values(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A plan that claims that a unit brings one value, where it may bring one with each row."""
    monkeypatch.setattr(sensitivity, "of_values", lambda *_: sensitivity.Norms(1, 1, 1, 1))
    for strategy in ("rows", "cells"):
        with pytest.raises(Error, match="the noise covers"):
            examine(tmp_path / strategy, EVENTS, [asked(VALUES, strategy)], terms=TERMS)


def test_the_plan_does_not_pass_with_the_noise_of_one_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """R = 3 and CUBE of two columns: 12, not 3."""
    one = asked(CUBE, "rows", max_rows_per_unit=3)
    with Bench(World(tmp_path / "sound", PUBLIC, TERMS)) as bench:
        side = bench.side(EVENTS)
        ready = side.outcome(one)
        assert isinstance(ready, Ready)
        (release,) = ready.compiled.plan.releases
    assert {s.kind.value: s.norms.l1 for s in release.slots} == {"rows": 12, "units": 3 + 3 + 3 + 1}
    count_sets_once(monkeypatch)
    for strategy in ("rows", "cells", "rescale"):
        with pytest.raises(Error, match="the noise covers"):
            examine(tmp_path / strategy, EVENTS, [asked(CUBE, strategy)], terms=TERMS)


def test_the_plan_does_not_pass_with_keys_that_are_joined_in_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Public keys are a list of groups: joined by the set's number alone, each row would count once for each group."""
    monkeypatch.setattr(
        "dpsql.session.lower",
        lambda *of: replace(q := lower(*of), releases=tuple(replace(r, private_keys=("k1", "k2")) for r in q.releases)),
    )
    with pytest.raises(Error, match="no group is joined twice"):
        examine(tmp_path, EVENTS, [asked(CUBE, "cells")], terms=TERMS)


def test_the_plan_does_not_pass_with_a_limit_that_no_step_enforces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """g without a step that counts per unit; so is every limit that stands in the plan alone."""
    for limits in (Limits("rows", rows=3, groups=1), Limits("late", rows=2, groups=1, late=True)):
        monkeypatch.setattr(planner, "choose", lambda *_, limits=limits: limits)
        with pytest.raises(Error, match="does not prove"):
            examine(tmp_path / limits.strategy, EVENTS, [COUNT], terms=TERMS)


def test_a_choice_that_is_alike_for_all_is_private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """hash(key, salt) without the unit: still a function of the unit's own keys and of the salt, and still at most g of
    them, so no fault that the property could find. What it spoils is the answer: all units keep the same keys, so the
    rest vanish together, where independent choices thin out all keys alike."""
    plain = steps.chosen

    def chosen(*of: Any) -> exp.Select:
        select = plain(*of)
        for found in select.find_all(exp.Anonymous):
            if found.expressions[0].name == steps.IDENTITY:
                found.set("expressions", found.expressions[1:])
        return select

    monkeypatch.setattr(steps, "chosen", chosen)
    asks = [Asked(GRADES, asked("", "cells", max_groups_per_unit=1).settings, salt) for salt in range(3)]
    examine(tmp_path, EVENTS, asks, "1", "2", "3", terms=TERMS)
