"""Plan: choose limits and slots for every release, price them, and check the price from the plan alone.

A *slot* is one integer vector per group, noised as a whole; a release's aggregates are covered by the cheapest set of
them. COUNT(*), COUNT_IF and COUNT(DISTINCT unit) are slots of their own, and so are a SUM or a COUNT(x) that stand
alone. AVG(x), or SUM(x) with COUNT(x), share one *Bernstein slot of degree 1*: on the grid x = lo + k of M + 1 points a
row contributes (M - k, k), which sums to M without rounding. So one row moves the slot by M in L1 whatever its value,
and count, sum and mean are all read from the one slot, at the price of one count. Compared with a sum and a count at
half the budget each, the count has half the variance and the sum (lo^2 + hi^2) against 4 max(lo^2, hi^2).
(Bernstein weights: arXiv 2312.06658 and 2509.04919.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from enum import Enum
from fractions import Fraction
from typing import assert_never

from sqlglot import exp

from dpsql.compile.grid import Grid, grid_of
from dpsql.compile.ir import (
    MAX_INFERRED_KEYS,
    Filter,
    Join,
    Measure,
    Project,
    PublicKeys,
    Query,
    Relation,
    Release,
    Scalar,
    Scan,
    Statistic,
)
from dpsql.compile.trees import wrapped
from dpsql.errors import refusal
from dpsql.policy.facts import Kind, SqlType
from dpsql.policy.model import Policy, Table
from dpsql.privacy import sensitivity
from dpsql.privacy.accounting import split
from dpsql.privacy.sensitivity import Norms

HALF_WIDTH = "~"
"""`a1~` of a released table holds the half-widths of `a1`."""


class SlotKind(Enum):
    ROWS = "rows"
    UNITS = "units"
    SUM = "sum"
    MEAN = "mean"


@dataclass(frozen=True, slots=True)
class Slot:
    """One noised vector per key. `argument`: predicate (ROWS, UNITS; None = every row) or value (SUM, MEAN).
    outputs: the measures read from it. epsilon: its share of the statement's."""

    kind: SlotKind
    argument: Scalar | None
    grid: Grid | None
    outputs: tuple[Measure, ...]
    norms: Norms
    epsilon: Fraction

    @property
    def weight(self) -> int:
        """What one row adds to the vector at most, in L1."""
        match self.kind:
            case SlotKind.ROWS | SlotKind.UNITS:
                return 1
            case SlotKind.SUM:
                assert self.grid is not None
                return max(abs(self.grid.lo), abs(self.grid.hi), 1)
            case SlotKind.MEAN:
                assert self.grid is not None
                return self.grid.span
            case _:
                assert_never(self.kind)

    @property
    def scale(self) -> Fraction:
        """Of the discrete Laplace noise, in grid units."""
        return self.norms.l1 / self.epsilon


@dataclass(frozen=True, slots=True)
class ReleasePlan:
    """A release with its limit in place. limit: rows per unit that are enforced (R, or 1 where each unit has one row by
    construction). keys: D, the number of public groups."""

    release: Release
    strategy: str
    limit: int
    keys: int
    slots: tuple[Slot, ...]

    @property
    def epsilon(self) -> Fraction:
        return sum((s.epsilon for s in self.slots), Fraction(0))


@dataclass(frozen=True, slots=True)
class PrivatePlan:
    """A priced statement."""

    query: Query
    releases: tuple[ReleasePlan, ...]

    @property
    def epsilon(self) -> Fraction:
        return sum((r.epsilon for r in self.releases), Fraction(0))


CountKeys = Callable[[PublicKeys, int | None], int]
"""How many rows a key relation has; counting may stop above the limit. Session gives it: compile has no engine."""


def plan(query: Query, policy: Policy, epsilon: Fraction, count_keys: CountKeys) -> PrivatePlan:
    """Split `epsilon` evenly over the statement's slots. Raises DP207."""
    drafts = [_draft(release, policy, count_keys) for release in query.releases]
    total = sum(len(d.slots) for d in drafts)
    shares = iter(split(epsilon, [1] * total)) if total else iter(())
    priced = tuple(replace(d, slots=tuple(replace(s, epsilon=next(shares)) for s in d.slots)) for d in drafts)
    return PrivatePlan(replace(query, releases=tuple(d.release for d in priced)), priced)


def _draft(release: Release, policy: Policy, count_keys: CountKeys) -> ReleasePlan:
    table = policy.tables[_scan(release.input, release.driving).table]
    keys = _count(release, count_keys)
    single = one_row_per_unit(table)
    limit = 1 if single else table.max_rows_per_unit
    assert limit is not None  # the loader requires it of private tables
    if not single:
        release = replace(release, input=_limited(release.input, release.driving, limit))
    unpriced = Fraction(1)
    slots = tuple(
        Slot(kind, argument, grid, outputs, _norms(kind, grid, limit, keys), unpriced)
        for kind, argument, grid, outputs in _cover(release.measures)
    )
    return ReleasePlan(release, "rows", limit, keys, slots)


def _count(release: Release, count_keys: CountKeys) -> int:
    if release.public_keys is None:
        return 1
    most = MAX_INFERRED_KEYS if release.public_keys.inferred else None
    known = release.public_keys.count
    keys = known if known is not None else count_keys(release.public_keys, most)
    if most is not None and keys > most:
        reason = f"the statement has more than {most} possible groups"
        raise refusal("DP207", reason, span=release.span, repair="restrict the keys in WHERE: IN (...) or BETWEEN")
    return max(keys, 1)


def one_row_per_unit(table: Table) -> bool:
    """Whether a unit has one row by construction: the unit is the table's key, enforced by the snapshot."""
    return table.every_row_is_a_unit or table.key == (table.unit,)


def _cover(measures: tuple[Measure, ...]) -> Iterator[tuple[SlotKind, Scalar | None, Grid | None, tuple[Measure, ...]]]:
    """The slots that give these measures."""
    counts: list[tuple[Scalar | None, list[Measure]]] = []
    values: list[tuple[Scalar, list[Measure]]] = []
    for measure in measures:
        match measure.statistic:
            case Statistic.ROWS:
                _join_group(counts, measure.argument, measure)
            case Statistic.UNITS:
                yield SlotKind.UNITS, measure.argument, None, (measure,)
            case Statistic.VALUES | Statistic.SUM | Statistic.AVG:
                assert measure.argument is not None
                _join_group(values, measure.argument, measure)
            case _:
                assert_never(measure.statistic)
    for argument, group in values:
        statistics = {m.statistic for m in group}
        if statistics == {Statistic.VALUES}:
            present = exp.Not(this=exp.Is(this=wrapped(argument.tree.copy()), expression=exp.null()))
            _join_group(counts, replace(argument, tree=present), *group)
        elif statistics == {Statistic.SUM}:
            yield SlotKind.SUM, argument, grid_of(argument.facts), tuple(group)
        else:
            yield SlotKind.MEAN, argument, grid_of(argument.facts), tuple(group)
    for predicate, group in counts:
        yield SlotKind.ROWS, predicate, None, tuple(group)


def _join_group(groups: list, argument: Scalar | None, *measures: Measure) -> None:  # type: ignore[type-arg]
    """Add measures to the group of the same argument, or open one."""
    for other, group in groups:
        if (other is None and argument is None) or (
            other is not None and argument is not None and other.tree == argument.tree
        ):
            group.extend(measures)
            return
    groups.append((argument, list(measures)))


def _norms(kind: SlotKind, grid: Grid | None, limit: int, keys: int) -> Norms:
    if kind is SlotKind.UNITS:
        return sensitivity.of_units(limit, keys)
    probe = Slot(kind, None, grid, (), Norms(0, 0, 0), Fraction(1))
    return sensitivity.of_rows(limit, probe.weight, keys)


def _scan(relation: Relation, alias: str) -> Scan:
    """The scan of this alias below a relation."""
    return next(s for s in scans(relation) if s.alias == alias)


def scans(relation: Relation) -> Iterator[Scan]:
    """Every scan below a relation."""
    match relation:
        case Scan():
            yield relation
        case Join(left=left, right=right):
            yield from scans(left)
            yield from scans(right)
        case Filter(input=source) | Project(input=source):
            yield from scans(source)
        case _:
            assert_never(relation)


def _limited(relation: Relation, alias: str, limit: int) -> Relation:
    """The relation with its driving scan cut to `limit` rows per unit."""
    match relation:
        case Scan():
            return replace(relation, limit=limit) if relation.alias == alias else relation
        case Join(left=left, right=right):
            return replace(relation, left=_limited(left, alias, limit), right=_limited(right, alias, limit))
        case Filter(input=source) | Project(input=source):
            return replace(relation, input=_limited(source, alias, limit))
        case _:
            assert_never(relation)


def output_type(measure: Measure, slot: Slot, limit: int) -> SqlType:
    """The type of a released aggregate: fixed by query and policy, never by data."""
    match measure.statistic:
        case Statistic.ROWS | Statistic.UNITS | Statistic.VALUES:
            return SqlType(Kind.INTEGER)
        case Statistic.AVG:
            return SqlType(Kind.DOUBLE)
        case Statistic.SUM:
            assert slot.argument is not None and slot.grid is not None
            return slot.grid.sum_type(slot.argument.facts.type, limit)
        case _:
            assert_never(measure.statistic)


def check(plan: PrivatePlan, policy: Policy, epsilon: Fraction) -> None:
    """Recompute limits, sensitivities and price from the plan's own nodes; raises DP901 where anything disagrees.

    Written apart from `plan`: it reads the limit from the driving scan that `rewrite` will turn into SQL, not from the
    number that the planner wrote down, so a plan whose SQL enforces less than its noise assumes cannot pass.
    """
    for release in plan.releases:
        driving = [s for s in scans(release.release.input) if s.alias == release.release.driving]
        others = [s for s in scans(release.release.input) if s.alias != release.release.driving]
        _require(len(driving) == 1 and not driving[0].public, "one private scan drives the release")
        _require(all(s.limit is None for s in others), "only the driving scan is cut")
        table = policy.tables[driving[0].table]
        limit = driving[0].limit if driving[0].limit is not None else 1
        _require(
            driving[0].limit is not None or one_row_per_unit(table), "the driving scan is cut, or has one row per unit"
        )
        for slot in release.slots:
            l1 = min(limit, release.keys) if slot.kind is SlotKind.UNITS else limit * slot.weight
            _require(
                slot.norms.l1 == l1 and slot.scale * slot.epsilon == l1 and l1 > 0, "the noise covers the sensitivity"
            )
            _require(slot.epsilon > 0, "every slot is charged")
        covered = [m.name for s in release.slots for m in s.outputs]
        _require(sorted(covered) == sorted(m.name for m in release.release.measures), "every aggregate has one slot")
    _require(not plan.releases or plan.epsilon == epsilon, "the price is the epsilon that was asked")


def _require(condition: bool, promise: str) -> None:
    if not condition:
        raise refusal("DP901", f"the plan does not prove that {promise}; nothing was run")
