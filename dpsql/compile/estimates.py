"""How a measure follows from the components of a Bernstein slot, as far as plan and policy tell.

A row of weight 1 in component (i, j, ...) stands for the values at i/d of the first range, j/d of the second, and so
on: counts and sums are linear in the components, with these as factors, and so their error is known beforehand.
"""

from __future__ import annotations

from math import prod

from dpsql.compile.ir import Measure, Statistic
from dpsql.compile.slots import Slot
from dpsql.privacy.bernstein import Index

Sizes = tuple[float, ...]
"""Of independent noises, all of the slot's law, whose sum is the error."""


def linear(measure: Measure, slot: Slot) -> tuple[Sizes, float] | None:
    """The error of a count or a sum, and what rounding adds; None of what is not linear in the noise. Normal noise is
    rounded by half a step in each component (see `intervals`), and its sum need not be a whole one."""
    if measure.statistic.is_count:
        return _with_rounding(slot, [1.0] * len(slot.components), 1.0)
    if measure.statistic is not Statistic.SUM:
        return None
    (place,) = slot.places(measure)
    lo, hi = range_of(slot, place)
    degree = slot.degrees[place]
    factors = [lo + (hi - lo) * index[place] / degree for index in slot.components]
    return _with_rounding(slot, factors, (hi - lo) / slot.spans[place])


def numerator(measure: Measure, slot: Slot) -> Sizes | None:
    """The error of what a mean, a variance or a covariance divides by the number of rows, where the values lie at an
    end of their ranges, which is the most. None of what divides by less."""
    if measure.statistic is Statistic.AVG:
        powers: dict[int, int] = {slot.places(measure)[0]: 1}
    elif measure.statistic in (Statistic.VAR_POP, Statistic.VAR_SAMP):
        powers = {slot.places(measure)[0]: 2}
    elif measure.statistic in (Statistic.COVAR_POP, Statistic.COVAR_SAMP):
        one, other = slot.places(measure)
        powers = {one: 2} if one == other else {one: 1, other: 1}
    else:
        return None
    width = prod((hi - lo) ** e for j, e in powers.items() for lo, hi in [range_of(slot, j)])
    return _of_noise(slot, [width * _at_end(index, powers, slot.degrees) for index in slot.components])


def range_of(slot: Slot, place: int) -> tuple[float, float]:
    """The ends of the range of a value of a Bernstein slot."""
    grid = slot.axes[place].grid
    assert grid is not None
    return float(grid.lo * grid.step), float(grid.hi * grid.step)


def _with_rounding(slot: Slot, factors: list[float], step: float) -> tuple[Sizes, float]:
    sizes = _of_noise(slot, factors)
    return sizes, step if slot.sigma is None else step + sum(sizes) / float(slot.size) / 2


def _of_noise(slot: Slot, factors: list[float]) -> Sizes:
    row = float(slot.size / slot.weight)
    return tuple(abs(f) * row for f in factors)


def _at_end(index: Index, powers: dict[int, int], degrees: Index) -> float:
    """The factor of a component in a sum of products of powers of u."""
    return prod((index[j] / degrees[j] if e == 1 else float(index[j] == degrees[j])) for j, e in powers.items())
