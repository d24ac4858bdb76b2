"""What a clause limits is limited, and what an aggregate's bounds clamp is clamped: one unit moves no answer further.

The unit with number 1 is made to break every limit: many rows in one group, several groups, values beyond all bounds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlglot import exp

from dpsql.compile import cutting, planner
from dpsql.compile.check import check
from dpsql.compile.plan import PrivatePlan
from dpsql.compile.trees import aliased, column
from dpsql.errors import Error
from dpsql.privacy import sensitivity
from tests.properties.asked import Asked, asked
from tests.properties.checks import PUBLIC, examine
from tests.properties.differences import Violation
from tests.properties.sides import Bench, Ready
from tests.properties.test_planted_limits import EVENTS, TERMS
from tests.properties.worlds import World


def clause(options: str, items: str, keys: str = "kind") -> str:
    grouped = f"{keys}, {items} FROM events GROUP BY {keys}" if keys else f"{items} FROM events"
    return f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS({options}) {grouped}"


ALL_ITEMS = "COUNT(*), SUM(n), AVG(n), STDDEV(x), COUNT(DISTINCT uid), COUNT(DISTINCT n)"
PARTS = (
    "COUNT(*, contribution_bounds_per_group => (0, 1)), COUNT(n, contribution_bounds_per_group => (2, 9)),"
    " SUM(n, contribution_bounds_per_group => (-3, 4)), SUM(n, contribution_bounds_per_group => (1.5, 7)),"
    " SUM(x, contribution_bounds_per_group => (-0.5, 100000)), SUM(n), COUNT(*), COUNT(DISTINCT uid), AVG(n),"
    " SUM(n, contribution_bounds_per_group => (-2, -1)) FILTER (WHERE grade = 1),"
    " AVG(n, contribution_bounds_per_group => (-1, 2.5)), AVG(x, contribution_bounds_per_group => (0.25, 0.75)),"
    " SUM(n, contribution_bounds_per_group => (0, 0)), AVG(n, contribution_bounds_per_group => (1, 1))"
)
ROWS = (
    "SUM(n, contribution_bounds_per_row => (-1, 2)), SUM(n), AVG(x, contribution_bounds_per_row => (0, 0.25)), AVG(x),"
    " VAR_POP(n, contribution_bounds_per_row => (1, 3)), SUM(x, contribution_bounds_per_row => (0.1, 0.2))"
)
SOUND = [
    *(asked(clause("max_groups_contributed = 1", items)) for items in (ALL_ITEMS, PARTS, ROWS)),
    *(asked(clause("max_rows_contributed = 2", items)) for items in (ALL_ITEMS, PARTS, ROWS)),
    *(asked(clause("max_rows_contributed = 3", items, "")) for items in (ALL_ITEMS, PARTS, ROWS)),
    asked(clause("max_rows_contributed = 2, max_groups_contributed = 1", ALL_ITEMS)),
    asked(clause("max_rows_contributed = 1", ALL_ITEMS), "late"),
    asked(clause("max_rows_contributed = 1", PARTS), "late"),
    asked(clause("max_rows_contributed = 1", "COUNT(*), SUM(n), AVG(n)"), "rescale"),
    asked(clause("max_groups_contributed = 2", PARTS, "x")),
    asked(clause("max_groups_contributed = 1, min_privacy_units_per_group = 2", "COUNT(*)", "x")),
    asked(clause("max_groups_contributed = NULL", ALL_ITEMS, "x")),
    asked(clause("max_rows_contributed = NULL", PARTS, "x")),
    asked(clause("max_groups_contributed = 1", PARTS, "CUBE (kind, grade)").replace("CUBE (kind, grade),", "kind,", 1)),
    asked(clause("epsilon = 0.5", PARTS), "", "gaussian"),
    asked(clause("epsilon = 0.5", PARTS, ""), "", "gaussian"),
    asked(
        "SELECT (SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 0.5) COUNT(*) FROM events) AS a,"
        " (SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 0.25, delta = 0.001) SUM(n) FROM events) AS b,"
        " (SELECT COUNT(DISTINCT uid) FROM events) AS c",
        "",
        "gaussian",
    ),
    asked("SELECT COUNT(age, contribution_bounds_per_group => (1, 9)) FROM people"),
    asked(
        "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(max_rows_contributed = 2)"
        " sex, SUM(age, contribution_bounds_per_group => (1, 2)) FROM people GROUP BY CUBE (sex)"
    ),
    asked("SELECT SUM(n, contribution_bounds_per_group => (-3, 4)), COUNT(DISTINCT n), COUNT(DISTINCT x) FROM events"),
]


def test_nothing_is_found_where_nothing_is_wrong(tmp_path: Path) -> None:
    examine(tmp_path, EVENTS, SOUND, "1", "2", "3", terms=TERMS)


def clamp_nothing(patch: pytest.MonkeyPatch) -> None:
    """The bounds of a part stand in the plan, and not in the SQL."""
    plain = cutting._cut

    def cut(i: int, slot: Any, most: int, source: str) -> Any:
        if slot.part is None:
            return plain(i, slot, most, source)
        return [aliased(column(source, name), name) for name in cutting.vector_columns(i, slot)]

    patch.setattr(cutting, "_cut", cut)


def count_each_row_of_a_mean(patch: pytest.MonkeyPatch) -> None:
    """The values of a cell count each, in place of their mean."""
    plain = cutting._mean

    def mean(i: int, slot: Any, source: str) -> Any:
        times = column(source, f"n{i}")
        return [
            aliased(exp.Mul(this=exp.Paren(this=e.unalias()), expression=times), e.alias)
            for e in plain(i, slot, source)
        ]

    patch.setattr(cutting, "_mean", mean)


def measure_the_higher_bound(patch: pytest.MonkeyPatch) -> None:
    """A part moves the sum by its lower bound, too."""
    plain = sensitivity.of_parts
    patch.setattr(sensitivity, "of_parts", lambda a, b, part, *rest: plain(a, b, (0, max(part[1], 1)), *rest))


def take_rows_for_parts(patch: pytest.MonkeyPatch) -> None:
    """As if no part could be more than its rows bring: bounds that leave 0 out raise it."""
    plain = sensitivity.of_parts
    patch.setattr(sensitivity, "of_parts", lambda a, b, part, *rest: plain(a, b, (0, part[1]), *rest))


def keep_the_limits_of_the_policy(patch: pytest.MonkeyPatch) -> None:
    """The clause's limits are not in the plan."""
    patch.setattr(planner, "of_release", lambda _, request, __: request)
    patch.setattr(planner, "enforcing", lambda limits, _, request, **__: (limits, request))


NARROW = clause("", "COUNT(*, contribution_bounds_per_group => (0, 1))")
BELOW = clause("", "SUM(n, contribution_bounds_per_group => (-5, 1))")
MEANS = clause("", "AVG(n, contribution_bounds_per_group => (-5, 5))")
ABOVE = clause("max_rows_contributed = 1", "COUNT(*, contribution_bounds_per_group => (2, 2))")


@pytest.mark.parametrize(
    ("fault", "sql"),
    [
        (clamp_nothing, NARROW),
        (clamp_nothing, BELOW),
        (count_each_row_of_a_mean, MEANS),
        (measure_the_higher_bound, BELOW),
        (take_rows_for_parts, ABOVE),
    ],
)
def test_a_planted_fault_is_found(
    fault: Callable[[pytest.MonkeyPatch], None], sql: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the property; and by the plan's check, where it stands in the plan."""
    one = asked(sql, max_rows_per_group=2)
    fault(monkeypatch)
    if fault in (measure_the_higher_bound, take_rows_for_parts):
        with pytest.raises(Error, match="the noise covers the sensitivity"):
            examine(tmp_path / "checked", EVENTS, [one], terms=TERMS)
    monkeypatch.setattr("dpsql.session.check", lambda *_: None)
    with pytest.raises(Violation, match=r"\(ii\)"):
        examine(tmp_path / "unchecked", EVENTS, [one], "1", "2", "3", terms=TERMS)


@pytest.mark.parametrize(
    ("sql", "promise"),
    [
        (clause("max_groups_contributed = 1", "COUNT(*)"), "groups are limited as asked"),
        (clause("max_rows_contributed = 1", "COUNT(*)"), "rows are limited as asked"),
        (clause("max_rows_contributed = 1", "COUNT(*)", ""), "rows are limited as asked"),
    ],
)
def test_the_plan_does_not_pass_without_the_limits_of_the_clause(
    sql: str, promise: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep_the_limits_of_the_policy(monkeypatch)
    with pytest.raises(Error, match=promise):
        examine(tmp_path, EVENTS, [asked(sql)], terms=TERMS)


def planned(bench: Bench, one: Asked) -> PrivatePlan:
    side = bench.side(EVENTS)
    ready = side.outcome(one)
    assert isinstance(ready, Ready)
    return ready.compiled.plan


def test_the_plan_does_not_pass_with_other_limits_than_its_sql(tmp_path: Path) -> None:
    """Limits, bounds and prices of a sound plan, each changed by one."""
    limited = "max_rows_contributed = 2, max_groups_contributed = 1, min_privacy_units_per_group = 2"
    items = "COUNT(*), SUM(n, contribution_bounds_per_group => (0, 3))"
    one = asked(clause(f"epsilon = 0.5, delta = 0.001, {limited}", items, "x"))
    with Bench(World(tmp_path, PUBLIC, TERMS)) as bench:
        plan = planned(bench, one)
        session = bench.side(EVENTS).session
        (release,) = plan.releases
        check(plan, session.policy, session.settings.request)
        limits, (slot, *_) = release.limits, [s for s in release.slots if s.part is not None]
        assert (limits.rows, limits.groups, limits.per_group) == (2, 1, 2)
        assert release.selection is not None
        assert slot.part is not None
        others = [
            replace(release, limits=replace(limits, rows=1)),
            replace(release, limits=replace(limits, rows=3)),
            replace(release, limits=replace(limits, groups=2)),
            replace(release, limits=replace(limits, groups=None)),
            replace(release, limits=replace(limits, per_group=9)),
            replace(release, selection=replace(release.selection, min_units=1)),
            replace(release, selection=replace(release.selection, delta=release.selection.delta * 2)),
            _with(release, replace(slot, part=(slot.part[0], slot.part[1] + 1))),
            _with(release, replace(slot, part=(slot.part[0] - slot.part[1] - 1, slot.part[1]))),
            _with(release, replace(slot, epsilon=slot.epsilon * 2)),
        ]
        for other in others:
            with pytest.raises(Error, match="DP901"):
                check(replace(plan, releases=(other,)), session.policy, session.settings.request)


def _with(release: Any, slot: Any) -> Any:
    slots = tuple(slot if s.outputs == slot.outputs else s for s in release.slots)
    return replace(release, slots=slots)
