"""What is read from noisy vectors: values, their half-widths, and copies with more noise on top. Post-processing.

A reading is a noisy vector per group and the law of its noise, whether it was just drawn or paid for long ago; nothing
here has ever seen an exact value. Several measures may be read from one reading, and then share its noise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from typing import Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dpsql.compile.ir import Measure, Statistic
from dpsql.compile.plan import ReleasePlan
from dpsql.compile.slots import HALF_WIDTH, Axis, Slot, SlotKind, output_type
from dpsql.policy.facts import Kind, SqlType
from dpsql.privacy.mechanisms import law_of
from dpsql.privacy.moments import Moments
from dpsql.vault.estimates import estimate, half_widths, width_of_sum

Integers = NDArray[np.int64] | NDArray[np.object_]


class Reading(Protocol):
    """What measures are read from."""

    @property
    def slot(self) -> Slot:
        """The kind of the vector, and the noise of each of its cells."""
        ...

    def value(self, measure: Measure, type_: SqlType) -> pa.Array:
        """The measure per group."""
        ...

    def half_widths(self, measure: Measure) -> NDArray[np.float64]:
        """The 95 % half-width of each value."""
        ...

    def replicated(self, count: int) -> Reading:
        """`count` copies one after another, each with fresh noise of the same law on top of the *released* vector: what
        an expression of them makes of that noise is its error. Made from public values alone."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Noised:
    """A slot's noisy vector: per component an integer for each group. cells: how many cells with noise of their own are
    added up in each."""

    slot: Slot
    vector: tuple[Integers, ...]
    cells: int = 1

    def value(self, measure: Measure, type_: SqlType) -> pa.Array:
        if self.slot.kind is not SlotKind.MOMENTS:
            return _array(self.vector[0], self.slot.step, type_)
        moments = Moments([c.astype(object) for c in self.vector], self.slot.degrees, self.slot.weight)
        if measure.statistic.is_count:
            return _array(moments.count, Fraction(1, moments.parts), type_)
        if measure.statistic is Statistic.SUM:
            (place,) = self.slot.places(measure)
            grid = self.slot.axes[place].grid
            assert grid is not None
            total = grid.lo * moments.count + grid.span * moments.sum_of(moments.power(place))
            return _array(total, grid.step / moments.parts, type_)
        return pa.array(estimate(measure, self.slot, moments), pa.float64())

    def half_widths(self, measure: Measure) -> NDArray[np.float64]:
        if self.slot.kind is SlotKind.MOMENTS:
            widths = half_widths(measure, self.slot, self.vector, self.noise, self.cells)
            return widths * (1 + self.slot.merges / float(self.slot.size))  # no less than half a step more for each
        width = self.half_width
        assert width is not None
        return np.full(len(self.vector[0]), width)

    @property
    def half_width(self) -> float | None:
        """That of every cell; None of a Bernstein slot, of which each measure has its own."""
        if self.slot.kind is SlotKind.MOMENTS:
            return None
        law = law_of(self.slot)
        steps = law.half_width() if self.cells == 1 else width_of_sum(law, self.cells)
        steps += -(-self.slot.merges * self.cells // 2)
        return float(steps * self.slot.step)

    def replicated(self, count: int) -> Noised:
        noise = self.noise(len(self.vector[0]) * count)
        vector = (np.tile(c.astype(object), count) + n for c, n in zip(self.vector, noise, strict=True))
        return replace(self, vector=tuple(vector))

    def noise(self, n: int) -> list[Integers]:
        """n draws of the noise of the vector, to be put on top of released values. Beyond 2^52 they are of its leading
        bits: no privacy hangs on them, and exact draws of that size take a thousand times as long."""
        shift = max(0, int(self.slot.size).bit_length() - 52)
        law = law_of(self.slot, divided_by=1 << shift)
        found: list[Integers] = []
        for _ in self.vector:
            drawn = law.sample(n * self.cells).astype(object) << shift
            found.append(drawn if self.cells == 1 else drawn.reshape(self.cells, n).sum(axis=0))
        return found


def merged(stored: Noised, new: Noised, slot: Slot) -> Noised:
    """Two vectors of one exact one, with independent normal noise, as one with less: their mean, weighed by the inverse
    of the variances, has the variance v with 1/v = 1/v1 + 1/v2, which is the least (Gauss, Markov). slot: what the
    result is. The sum of what both draws were rounded by is within half a step still, as weights add up to 1, and the
    result is rounded once more: half a step is added to its error each time.

    Privacy: the new noise is a Gaussian mechanism of its own, of mu^2 = Delta_2^2/v2 = Delta_2^2/v - Delta_2^2/v1, and
    charged as such, so what both cost together is what one of variance v costs (Dong, Roth, Su, corollary 3.3). The
    mean is a function of what both released.
    """
    assert stored.slot.sigma is not None and new.slot.sigma is not None
    weight, other = new.slot.sigma**2, stored.slot.sigma**2
    unit = weight.denominator * other.denominator
    a, b = int(weight * unit), int(other * unit)
    pairs = zip(stored.vector, new.vector, strict=True)
    joined = (
        [(2 * (a * int(x) + b * int(y)) + a + b) // (2 * (a + b)) for x, y in zip(*p, strict=True)] for p in pairs
    )
    return Noised(slot, tuple(np.array(component, dtype=object) for component in joined))


@dataclass(frozen=True, slots=True, eq=False)
class Quotient:
    """A mean from a released sum and a released count of the same values. Both together are what a Bernstein slot of
    degree 1 says: with n values of sum s on the grid lo..lo+M its components are M n - (s - lo n) and s - lo n."""

    total: Noised
    count: Noised

    @property
    def slot(self) -> Slot:
        assert self.total.slot.argument is not None and self.total.slot.grid is not None
        axis = Axis(self.total.slot.argument, self.total.slot.grid, 1)
        return replace(self.total.slot, kind=SlotKind.MOMENTS, argument=None, grid=None, axes=(axis,))

    def value(self, measure: Measure, type_: SqlType) -> pa.Array:  # noqa: ARG002 (a mean is a DOUBLE)
        slot, vector = self.slot, self._vector(self.total.vector, self.count.vector)
        return pa.array(estimate(measure, slot, Moments(vector, slot.degrees, slot.weight)), pa.float64())

    def half_widths(self, measure: Measure) -> NDArray[np.float64]:
        vector = self._vector(self.total.vector, self.count.vector)
        return half_widths(measure, self.slot, vector, self._noise, None)

    def replicated(self, count: int) -> Quotient:
        return Quotient(self.total.replicated(count), self.count.replicated(count))

    def _noise(self, n: int) -> list[Integers]:
        return list(self._vector(self.total.noise(n), self.count.noise(n)))

    def _vector(self, total: Sequence[Integers], count: Sequence[Integers]) -> tuple[Integers, ...]:
        grid = self.total.slot.grid
        assert grid is not None
        above = total[0].astype(object) - grid.lo * count[0].astype(object)
        return grid.span * count[0].astype(object) - above, above


@dataclass(frozen=True, slots=True)
class Released:
    """A release as it may leave: the columns that tell its groups apart, and by measure what it is read from."""

    keys: pa.Table
    readings: Mapping[str, Reading]

    def table(self, plan: ReleasePlan) -> pa.Table:
        """The released table: keys k1, ..., aggregates a1, ..., and beside these, with names that end in ~, the 95 %
        half-widths of their cells (public: functions of the noise law and of what is released)."""
        return self._table(plan, widths=True)

    def replicates(self, plan: ReleasePlan, count: int) -> pa.Table:
        """`count` copies of the released table, without half-widths (see `Reading.replicated`)."""
        copies: dict[int, Reading] = {}
        for reading in self.readings.values():
            if id(reading) not in copies:
                copies[id(reading)] = self._copy(reading, count, copies)
        readings = {name: copies[id(reading)] for name, reading in self.readings.items()}
        keys = pa.concat_tables([self.keys] * count).combine_chunks()
        return Released(keys, readings)._table(plan, widths=False)

    def _copy(self, reading: Reading, count: int, copies: dict[int, Reading]) -> Reading:
        """A quotient and the columns of its sum and its count share their noise."""
        if not isinstance(reading, Quotient):
            return reading.replicated(count)
        parts = []
        for part in (reading.total, reading.count):
            if id(part) not in copies:
                copies[id(part)] = part.replicated(count)
            made = copies[id(part)]
            assert isinstance(made, Noised)
            parts.append(made)
        return Quotient(*parts)

    def _table(self, plan: ReleasePlan, *, widths: bool) -> pa.Table:
        columns = {name: self.keys.column(name) for name in self.keys.column_names}
        planned = {m.name: slot for slot in plan.slots for m in slot.outputs}
        for measure in plan.release.shown:
            reading = self.readings[measure.name]
            columns[measure.name] = reading.value(measure, output_type(measure, planned[measure.name]))
            if widths:
                columns[measure.name + HALF_WIDTH] = pa.array(reading.half_widths(measure), pa.float64())
        return pa.table(columns)


_INT64 = (-(1 << 63), (1 << 63) - 1)
_WIDEST = 10**38 - 1


def _array(values: Integers, step: Fraction, type_: SqlType) -> pa.Array:
    """step * values as a column of the released type, rounded to it; saturating, since the type must not depend on the
    data."""
    if type_.kind is Kind.DOUBLE:
        return pa.array([float(int(v) * step) for v in values], pa.float64())
    parts = step * 10**type_.scale
    whole = [int(v) if parts == 1 else round(int(v) * parts) for v in values]
    if type_.kind is Kind.INTEGER:
        return pa.array([min(max(w, _INT64[0]), _INT64[1]) for w in whole], pa.int64())
    bounded = [min(max(w, -_WIDEST), _WIDEST) for w in whole]
    exact = [Decimal((w < 0, tuple(map(int, str(abs(w)))), -type_.scale)) for w in bounded]
    return pa.array(exact, pa.decimal128(38, type_.scale))
