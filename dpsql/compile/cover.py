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

from dpsql.compile.grid import Grid, coarsened, grid_of
from dpsql.compile.ir import Measure, Scalar, Statistic, is_same
from dpsql.compile.slots import MOST_WEIGHT, SUBGRID, Axis, Slot, SlotKind, is_always, needs
from dpsql.compile.trees import wrapped
from dpsql.policy.facts import Kind
from dpsql.privacy.sensitivity import Norms

_PRICED = (Norms(0, 0, 0, 0), Fraction(1))
"""Until `plan` knows limits and shares."""

_SPREAD = {0: 1.0, 1: 2 / 3, 2: 3 / 4}
"""The variance of a sum of u - m, m the mean of u, from a slot of that degree: the sum of (i/d - m)^2, on average over
m in [0, 1]."""


_APART = {Statistic.UNITS: SlotKind.UNITS, Statistic.DISTINCT: SlotKind.DISTINCT}
"""What shares no slot."""


@dataclass(frozen=True, slots=True)
class _Value:
    """What a slot needs of a value. degree: 0 where it only has to be there, and then without its grid."""

    scalar: Scalar
    degree: int
    grid: Grid | None


@dataclass(frozen=True, slots=True)
class _Group:
    """Measures of one slot, and what they are made of. error: the sum of the logarithms of their variances, at an
    epsilon of its own, up to what does not depend on the slot."""

    values: tuple[_Value, ...]
    measures: tuple[Measure, ...]
    error: float

    @property
    def is_hinted(self) -> bool:
        return any(measure.hints for measure in self.measures)


@dataclass(frozen=True, slots=True)
class _Pair:
    """Two groups that can be joined. gain: by how much less the error is, the number of slots left out."""

    one: _Group
    other: _Group
    joint: _Group
    gain: float


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
            groups.append(_alone(measure))
    fixed = len(apart) + len(filtered) + len(clamps)
    hinted = [g for g in groups if g.is_hinted]
    others = [g for g in groups if not g.is_hinted]
    hinted = _merged(hinted, fixed + len(others), 2 * len(measures))
    others = _merged(others, fixed + len(hinted), power * len(measures))
    order = {measure.name: i for i, measure in enumerate(measures)}
    groups = sorted([*others, *hinted], key=lambda g: order[g.measures[0].name])
    found = [_slot(group) for group in groups]
    counts = [s for s in found if s.kind is SlotKind.ROWS]
    return (*apart, *(s for s in found if s.kind is not SlotKind.ROWS), *counts, *filtered, *clamps)


def spread(measure: Measure, slot: Slot) -> float:
    """The variance of a measure read from a slot, where that of its noise is the square of what a row adds at most."""
    if slot.kind in (SlotKind.ROWS, SlotKind.UNITS, SlotKind.DISTINCT):
        return 1.0
    values = tuple(_value(a.argument, a.degree) for a in slot.axes)
    if slot.kind is SlotKind.SUM:
        assert slot.argument is not None
        values = (_value(slot.argument, 1),)
    return _variance(measure, values, slot.outputs)


def _merged(groups: Sequence[_Group], fixed: int, shared: int) -> list[_Group]:
    """The groups, joined two at a time as long as that makes the expected error less. fixed: how many slots there are
    beside; shared: how often the logarithm of the number of slots is in the error. What joining two gains changes with
    the number of slots alone, by as much for all, so each pair is looked at once."""
    left = list(groups)
    pairs = [p for j in range(1, len(left)) for i in range(j) if (p := _joined(left[i], left[j])) is not None]
    while pairs and (slots := len(left) + fixed) > 1:
        best = max(pairs, key=lambda pair: pair.gain)
        if best.gain + shared * log(slots / (slots - 1)) <= 1e-9:
            break
        left = [best.joint if group is best.one else group for group in left if group is not best.other]
        pairs = [p for p in pairs if not {id(p.one), id(p.other)} & {id(best.one), id(best.other)}]
        place = next(i for i, group in enumerate(left) if group is best.joint)
        before = [_joined(group, best.joint) for group in left[:place]]
        pairs += filter(None, before + [_joined(best.joint, group) for group in left[place + 1 :]])
    return left


def _joined(one: _Group, other: _Group) -> _Pair | None:
    """One group of both; None where a measure would be over other rows, or a sum on a coarser grid."""
    values = list(one.values)
    for value in other.values:
        place = next((i for i, mine in enumerate(values) if is_same(mine.scalar, value.scalar)), None)
        if place is None:
            values.append(value)
        else:
            values[place] = _value(values[place].scalar, max(values[place].degree, value.degree))
    if sum(value.degree > 0 for value in values) > 2:
        return None
    measures = one.measures + other.measures
    partial = [value.scalar for value in values if not is_always(value.scalar)]
    for measure in measures if partial else ():
        if not all(any(is_same(scalar, own) for own, _ in needs(measure)) for scalar in partial):
            return None
    if _kind(values, measures) is SlotKind.MOMENTS:
        fine = {id(value.scalar): value.grid for value in values}
        for axis in _axes(values):
            summed = any(m.statistic is Statistic.SUM and is_same(m.argument, axis.argument) for m in measures)
            if summed and axis.grid != fine[id(axis.argument)]:
                return None
    joint = _group(tuple(values), measures)
    return _Pair(one, other, joint, one.error + other.error - joint.error)


def _value(scalar: Scalar, degree: int) -> _Value:
    return _Value(scalar, degree, grid_of(scalar.facts) if degree else None)


def _alone(measure: Measure) -> _Group:
    return _group(tuple(_value(*needed) for needed in needs(measure)), (measure,))


def _group(values: tuple[_Value, ...], measures: tuple[Measure, ...]) -> _Group:
    return _Group(values, measures, sum(log(_variance(m, values, measures)) for m in measures))


def _kind(values: Sequence[_Value], measures: Sequence[Measure]) -> SlotKind:
    statistics = {m.statistic for m in measures}
    if statistics <= {Statistic.ROWS, Statistic.VALUES}:
        return SlotKind.ROWS
    return SlotKind.SUM if statistics == {Statistic.SUM} and len(values) == 1 else SlotKind.MOMENTS


def _slot(group: _Group) -> Slot:
    kind = _kind(group.values, group.measures)
    if kind is SlotKind.MOMENTS:
        return Slot(kind, None, None, group.measures, *_PRICED, axes=_axes(group.values))
    if kind is SlotKind.SUM:
        (value,) = group.values
        return Slot(kind, value.scalar, value.grid, group.measures, *_PRICED)
    tests = [exp.Not(this=exp.Is(this=wrapped(v.tree.copy()), expression=exp.null())) for v in _partial(group)]
    argument = replace(_partial(group)[0], tree=exp.and_(*tests, copy=False)) if tests else None
    return Slot(kind, argument, None, group.measures, *_PRICED)


def _clamped(measure: Measure) -> Slot:
    """The slot of a count or sum whose parts are clamped: none but its own is read from it. Bounds move inward to the
    grid; what the limits leave of them, `plan` says."""
    if measure.statistic is Statistic.ROWS:
        slot = Slot(SlotKind.ROWS, measure.argument, None, (measure,), *_PRICED)
    else:
        slot = _slot(_alone(measure))
    assert measure.per_group is not None
    lo, hi = measure.per_group
    if slot.kind is SlotKind.MOMENTS:
        (axis,) = slot.axes
        axis = _of_means(axis, lo, hi)
        assert axis.grid is not None
        return replace(slot, axes=(axis,), part=(axis.grid.lo, axis.grid.hi))
    return replace(slot, part=(ceil(lo / slot.grid_step), floor(hi / slot.grid_step)))


def _of_means(axis: Axis, lo: Fraction, hi: Fraction) -> Axis:
    """The axis of the means of values on this one, clamped between these bounds: on a finer grid, or each mean would be
    rounded to a value."""
    rows = axis.grid
    assert rows is not None
    parts = SUBGRID if rows.span * SUBGRID <= MOST_WEIGHT else 1
    step = rows.step / parts
    low, high = max(ceil(lo / step), rows.lo * parts), min(floor(hi / step), rows.hi * parts)
    if low > high:  # no grid point between the bounds: the nearest one stands for both
        low = high = min(max(round(lo / step), rows.lo * parts), rows.hi * parts)
    return replace(axis, grid=Grid(low, high, step, Kind.DOUBLE), rows=rows)


def _partial(group: _Group) -> list[Scalar]:
    """The values that a row may lack."""
    return [value.scalar for value in group.values if not is_always(value.scalar)]


def _axes(values: Sequence[_Value]) -> tuple[Axis, ...]:
    """The values of a slot on grids that keep N in bounds: the finest is made coarser until they do."""
    axes = [value for value in values if value.degree or not is_always(value.scalar)]
    most = {i: value.grid.span for i, value in enumerate(axes) if value.grid is not None}
    while prod(n ** axes[i].degree for i, n in most.items()) > MOST_WEIGHT:
        widest = max(most, key=lambda i: most[i])
        most[widest] //= 2
    grids = [None if value.grid is None else coarsened(value.grid, most[i]) for i, value in enumerate(axes)]
    return tuple(Axis(value.scalar, grid, value.degree) for value, grid in zip(axes, grids, strict=True))


def _variance(measure: Measure, values: Sequence[_Value], measures: Sequence[Measure]) -> float:
    """Of a measure in a slot of these values, from which these measures are read."""
    if _kind(values, measures) is SlotKind.ROWS:
        return 1.0
    own = [scalar for scalar, _ in needs(measure)]
    mine = [v for v in values if any(is_same(v.scalar, o) for o in own)]
    others = prod(v.degree + 1 for v in values if not any(is_same(v.scalar, o) for o in own))
    match measure.statistic:
        case Statistic.ROWS | Statistic.VALUES:
            return prod(v.degree + 1 for v in values)
        case Statistic.SUM:
            ((grid, degree),) = ((v.grid, v.degree) for v in mine)
            assert grid is not None
            if _kind(values, measures) is SlotKind.SUM:
                return float(max(abs(grid.lo), abs(grid.hi), 1)) ** 2
            return max(others * sum((grid.lo + grid.span * i / degree) ** 2 for i in range(degree + 1)), 1.0)
        case Statistic.AVG:
            same = [(v.degree, is_same(v.scalar, measure.argument)) for v in mine]
            return others * prod(_SPREAD[degree] if is_argument else degree + 1 for degree, is_argument in same)
        case Statistic.COVAR_POP | Statistic.COVAR_SAMP:
            return prod(_SPREAD[v.degree] for v in mine)
        case Statistic.SLOPE | Statistic.INTERCEPT:
            return prod(v.degree + 1 for v in mine if is_same(v.scalar, measure.argument))
        case _:
            return float(others)
