"""What is made of a noisy Bernstein vector: numbers within their ranges, never NULL, and how far off they may be.

Functions of noisy values alone: nothing here has ever held an exact one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import ceil, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpsql.compile.estimates import linear, range_of
from dpsql.compile.ir import Measure, Statistic
from dpsql.compile.slots import Slot
from dpsql.privacy.intervals import linear_half_width, ratio_half_widths
from dpsql.privacy.mechanisms import Law, RoundedNormal
from dpsql.privacy.moments import Floats, Moments, Vector

Draw = Callable[[int], Sequence[NDArray[Any]]]
"""So many draws of the noise of a vector, component by component, to be put on top of released values."""

_MOST, _LEAST, _AT_ONCE = 4000, 400, 400_000


def estimate(measure: Measure, slot: Slot, moments: Moments) -> Floats:
    """A measure of type DOUBLE, per cell. Where the noise has left no rows: the middle of the range for a mean and a
    variance, 0 for the others. A variance lies in [0, (hi - lo)^2 / 4], a correlation in [-1, 1]; of a sample they are
    n / (n - 1) times as much, with a noisy n of at least 2."""
    places = slot.places(measure)
    first = places[0]
    second = places[-1] if slot.degrees[places[-1]] else first  # what only has to be there has no range
    (lo, hi), (lo2, hi2) = range_of(slot, first), range_of(slot, second)
    width, width2 = hi - lo, hi2 - lo2
    match measure.statistic:
        case Statistic.AVG:
            return np.clip(lo + width * moments.mean(first), lo, hi)
        case Statistic.VAR_POP:
            return width**2 * moments.variance(first)
        case Statistic.VAR_SAMP:
            return width**2 * moments.variance(first) * moments.sample()
        case Statistic.STDDEV_POP:
            return width * np.sqrt(moments.variance(first))
        case Statistic.STDDEV_SAMP:
            return width * np.sqrt(moments.variance(first) * moments.sample())
        case Statistic.COVAR_POP:
            return width * width2 * moments.covariance(first, second)
        case Statistic.COVAR_SAMP:
            return width * width2 * moments.covariance(first, second) * moments.sample()
        case Statistic.CORR:
            return moments.correlation(first, second)
        case Statistic.R2:
            return moments.correlation(first, second) ** 2
        case Statistic.SLOPE | Statistic.INTERCEPT:
            slope = moments.slope(first, second) * (width / width2 if width2 else 0.0)
            if measure.statistic is Statistic.SLOPE:
                return slope
            return lo + width * moments.mean(first) - slope * (lo2 + width2 * moments.mean(second))
        case _:
            raise ValueError(f"{measure.statistic} is no mean")


def half_widths(measure: Measure, slot: Slot, noisy: Vector, draw: Draw, added: int | None) -> Floats:
    """The 95 % half-width of each cell. Of a count or a sum by the law; of a mean that has its slot for itself by a
    bound; of all else by replay: how far fresh noise on top of the released vector moves the measure. added: how many
    draws of the slot's law each component carries; None where it carries others."""
    cells = len(noisy[0])
    error, normal = linear(measure, slot), slot.sigma is not None
    if error is not None and added is not None:
        return np.full(cells, linear_half_width(error[0] * added, normal) + error[1] * added)
    if len(slot.components) == 2 and added == 1:
        left, right = (component.astype(np.float64) for component in noisy)
        lo, hi = range_of(slot, slot.places(measure)[0])
        return ratio_half_widths(left, right, float(slot.size), hi - lo, normal)
    count = min(max(_AT_ONCE // max(cells, 1), _LEAST), _MOST)
    noise = [component.astype(np.float64) for component in draw(count)]
    chunk = max(1, _AT_ONCE // count)
    found = []
    for start in range(0, cells, chunk):
        released = [component[start : start + chunk].astype(np.float64) for component in noisy]
        around = [(r[:, None] + n[None, :]).ravel() for r, n in zip(released, noise, strict=True)]
        at = estimate(measure, slot, Moments(released, slot.degrees, slot.weight))
        moved = estimate(measure, slot, Moments(around, slot.degrees, slot.weight)).reshape(-1, count)
        found.append(_within_range(np.sort(np.abs(moved - at[:, None]), axis=1)[:, _rank(count) - 1], at, measure))
    return np.concatenate(found) if found else np.zeros(0)


def width_of_sum(law: Law, draws: int) -> int:
    """The 95 % half-width of a sum of so many draws of a law, in steps: of the continuous law, and what rounding adds
    (see `intervals`)."""
    normal = isinstance(law, RoundedNormal)
    width = linear_half_width((float(law.size),) * draws, normal)
    return ceil(width + (draws / 2 if normal else 1))


_RANGES = {Statistic.CORR: (-1.0, 1.0), Statistic.R2: (0.0, 1.0)}


def _within_range(widths: Floats, at: Floats, measure: Measure) -> Floats:
    """Of what has a range of its own: where the noise moves it over half of that or more, released values pile up at
    the ends, and a replay around them moves too little; where it does not move it at all, the noise has left no
    variance to divide by. Then all that can be said is that the value is in its range."""
    if measure.statistic not in _RANGES:
        return widths
    lo, hi = _RANGES[measure.statistic]
    nothing = (widths == 0) | (widths >= (hi - lo) / 2)
    return np.where(nothing, np.maximum(at - lo, hi - at), widths)


def _rank(count: int) -> int:
    """Which of so many distances, the least first, is at least the 95 % quantile of their law but for a chance of 0.2
    %: all cells of a slot are replayed with the same draws, so what these happen to be would show in all of them."""
    return min(count, ceil(0.95 * (count + 1) + 3 * sqrt(0.95 * 0.05 * count)))
