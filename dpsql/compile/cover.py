"""The cheapest set of slots for the aggregates of a release.

Every slot more takes its share of epsilon from all others: with T slots the variance of each is T^2 times what it
would be alone. A slot that gives several aggregates gives each of them with more variance than one of its own would. So
the cover is chosen by expected error, from what is public alone (statistics, bounds, whether NULL can occur): the sum
over all aggregates of the logarithm of T^2 times the variance of theirs in their slot. Logarithms, because a count and
a sum in millions have no common unit: halving the variance of one is worth doubling that of another. The search starts
from a slot for each and joins two at a time, the best pair first, as long as that is better. That is so of discrete
Laplace noise; of normal noise the variance is only T times as much, so that fewer are joined.

Two slots can be joined where each aggregate is over the same rows in the joint one: what it does not name itself must
have a value in every row. `check` asks that again of the finished plan. Aggregates with a hint are joined among
themselves, whatever noise they get, so that what is left for the others, and what hints cost, hangs on them alone.
Those whose parts per unit and group are clamped stand alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil, floor, log, prod

from sqlglot import exp

from dpsql.compile.grid import coarsened, grid_of
from dpsql.compile.ir import Measure, Scalar, Statistic, is_same
from dpsql.compile.slots import MOST_WEIGHT, Axis, Slot, SlotKind, is_always, needs
from dpsql.compile.trees import wrapped
from dpsql.privacy.sensitivity import Norms

_PRICED = (Norms(0, 0, 0, 0), Fraction(1))
"""Until `plan` knows limits and shares."""

_SPREAD = {0: 1.0, 1: 2 / 3, 2: 3 / 4}
"""The variance of a sum of u - m, m the mean of u, from a slot of that degree: the sum of (i/d - m)^2, on average over
m in [0, 1]."""


_APART = {Statistic.UNITS: SlotKind.UNITS, Statistic.DISTINCT: SlotKind.DISTINCT}
"""What shares no slot."""


@dataclass(frozen=True, slots=True)
class _Group:
    """Measures of one slot, and to which degree it needs each value (0: only whether it is there)."""

    values: tuple[tuple[Scalar, int], ...]
    measures: tuple[Measure, ...]

    @property
    def is_hinted(self) -> bool:
        return any(measure.hints for measure in self.measures)


def cover(measures: Sequence[Measure], *, normal: bool = False) -> tuple[Slot, ...]:
    """The slots that give these measures, not priced yet. normal: whether for normal noise."""
    power = 1 if normal else 2
    apart, groups, filtered, clamps = [], [], [], []
    for measure in measures:
        kind = _APART.get(measure.statistic)
        if measure.per_group is not None:
            clamps.append(_clamped(measure))
        elif kind is not None:
            apart.append(Slot(kind, measure.argument, None, (measure,), *_PRICED))
        elif measure.statistic is Statistic.ROWS and measure.argument is not None:
            filtered.append(Slot(SlotKind.ROWS, measure.argument, None, (measure,), *_PRICED))
        else:
            groups.append(_Group(needs(measure), (measure,)))
    fixed = len(apart) + len(filtered) + len(clamps)
    hinted = [g for g in groups if g.is_hinted]
    others = [g for g in groups if not g.is_hinted]
    while (better := _best(hinted, fixed + len(others), 2 * len(measures))) is not None:
        hinted = better
    while (better := _best(others, fixed + len(hinted), power * len(measures))) is not None:
        others = better
    order = {measure.name: i for i, measure in enumerate(measures)}
    groups = sorted([*others, *hinted], key=lambda g: order[g.measures[0].name])
    found = [_slot(group) for group in groups]
    counts = [s for s in found if s.kind is SlotKind.ROWS]
    return (*apart, *(s for s in found if s.kind is not SlotKind.ROWS), *counts, *filtered, *clamps)


def spread(measure: Measure, slot: Slot) -> float:
    """The variance of a measure read from a slot, where that of its noise is the square of what a row adds at most."""
    if slot.kind in (SlotKind.ROWS, SlotKind.UNITS, SlotKind.DISTINCT):
        return 1.0
    values = tuple((a.argument, a.degree) for a in slot.axes)
    if slot.kind is SlotKind.SUM:
        assert slot.argument is not None
        values = ((slot.argument, 1),)
    return _variance(measure, _Group(values, slot.outputs))


def _best(groups: Sequence[_Group], fixed: int, shared: int) -> list[_Group] | None:
    """The groups with that pair joined whose joining makes the expected error least; None where none makes it less.
    fixed: how many slots there are beside; shared: how often the logarithm of the number of slots is in the error."""
    slots = len(groups) + fixed
    gained, found = 1e-9, None
    for j in range(1, len(groups)):
        for i in range(j):
            joint = _joined(groups[i], groups[j])
            if joint is None:
                continue
            saved = shared * log(slots / (slots - 1)) if slots > 1 else 0.0
            gain = saved + _error(groups[i]) + _error(groups[j]) - _error(joint)
            if gain > gained:
                gained, found = gain, [joint if g is groups[i] else g for g in groups if g is not groups[j]]
    return found


def _joined(one: _Group, other: _Group) -> _Group | None:
    """One group of both; None where a measure would be over other rows, or a sum on a coarser grid."""
    values = list(one.values)
    for scalar, degree in other.values:
        place = next((i for i, (mine, _) in enumerate(values) if is_same(mine, scalar)), None)
        if place is None:
            values.append((scalar, degree))
        else:
            values[place] = (values[place][0], max(values[place][1], degree))
    joint = _Group(tuple(values), one.measures + other.measures)
    if sum(degree > 0 for _, degree in values) > 2:
        return None
    for measure in joint.measures:
        own = [scalar for scalar, _ in needs(measure)]
        if not all(is_always(v) or any(is_same(v, o) for o in own) for v, _ in values):
            return None
    if _kind(joint) is SlotKind.MOMENTS:
        for axis in _axes(joint):
            summed = any(m.statistic is Statistic.SUM and is_same(m.argument, axis.argument) for m in joint.measures)
            if summed and axis.grid != grid_of(axis.argument.facts):
                return None
    return joint


def _kind(group: _Group) -> SlotKind:
    statistics = {m.statistic for m in group.measures}
    if statistics <= {Statistic.ROWS, Statistic.VALUES}:
        return SlotKind.ROWS
    return SlotKind.SUM if statistics == {Statistic.SUM} and len(group.values) == 1 else SlotKind.MOMENTS


def _slot(group: _Group) -> Slot:
    kind = _kind(group)
    if kind is SlotKind.MOMENTS:
        return Slot(kind, None, None, group.measures, *_PRICED, axes=_axes(group))
    if kind is SlotKind.SUM:
        ((value, _),) = group.values
        return Slot(kind, value, grid_of(value.facts), group.measures, *_PRICED)
    tests = [exp.Not(this=exp.Is(this=wrapped(v.tree.copy()), expression=exp.null())) for v in _partial(group)]
    argument = replace(_partial(group)[0], tree=exp.and_(*tests, copy=False)) if tests else None
    return Slot(kind, argument, None, group.measures, *_PRICED)


def _clamped(measure: Measure) -> Slot:
    """The slot of a count or sum whose parts are clamped: none but its own is read from it. Bounds move inward to the
    grid; what the limits leave of them, `plan` says."""
    if measure.statistic is Statistic.ROWS:
        slot = Slot(SlotKind.ROWS, measure.argument, None, (measure,), *_PRICED)
    else:
        slot = _slot(_Group(needs(measure), (measure,)))
    assert measure.per_group is not None
    lo, hi = measure.per_group
    return replace(slot, part=(ceil(lo / slot.grid_step), floor(hi / slot.grid_step)))


def _partial(group: _Group) -> list[Scalar]:
    """The values that a row may lack."""
    return [value for value, _ in group.values if not is_always(value)]


def _axes(group: _Group) -> tuple[Axis, ...]:
    """The values of a slot on grids that keep N in bounds: the finest is made coarser until they do."""
    values = [(v, d) for v, d in group.values if d or not is_always(v)]
    grids = {i: grid_of(v.facts) for i, (v, d) in enumerate(values) if d}
    most = {i: grid.span for i, grid in grids.items()}
    while prod(n ** values[i][1] for i, n in most.items()) > MOST_WEIGHT:
        widest = max(most, key=lambda i: most[i])
        most[widest] //= 2
    return tuple(Axis(v, coarsened(grids[i], most[i]) if i in grids else None, d) for i, (v, d) in enumerate(values))


def _error(group: _Group) -> float:
    """The sum of the logarithms of the variances of a group's measures, at an epsilon of its own, up to what does not
    depend on the slot."""
    return sum(log(_variance(m, group)) for m in group.measures)


def _variance(measure: Measure, group: _Group) -> float:
    if _kind(group) is SlotKind.ROWS:
        return 1.0
    own = [scalar for scalar, _ in needs(measure)]
    mine = [(v, d) for v, d in group.values if any(is_same(v, o) for o in own)]
    others = prod(d + 1 for v, d in group.values if not any(is_same(v, o) for o in own))
    match measure.statistic:
        case Statistic.ROWS | Statistic.VALUES:
            return prod(d + 1 for _, d in group.values)
        case Statistic.SUM:
            assert measure.argument is not None
            grid = grid_of(measure.argument.facts)
            if _kind(group) is SlotKind.SUM:
                return float(max(abs(grid.lo), abs(grid.hi), 1)) ** 2
            return max(others * sum((grid.lo + grid.span * i / d) ** 2 for _, d in mine for i in range(d + 1)), 1.0)
        case Statistic.AVG:
            return others * prod(_SPREAD[d] if is_same(v, measure.argument) else d + 1 for v, d in mine)
        case Statistic.COVAR_POP | Statistic.COVAR_SAMP:
            return prod(_SPREAD[d] for _, d in mine)
        case Statistic.SLOPE | Statistic.INTERCEPT:
            return prod(d + 1 for v, d in mine if is_same(v, measure.argument))
        case _:
            return float(others)
