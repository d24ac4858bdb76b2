"""From exact to noisy: runs a release's statement, adds the noise its plan asks for, and lets only that out.

The exact result lives in local variables of `release` alone: it is never logged, stored, put into an exception or
returned. Each key, also one that no row has, and each slot get noise of their own; aggregates that share a slot share
its noise, and no others do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal
from fractions import Fraction
from math import lcm
from typing import TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dpsql.compile.gate import SealedSql
from dpsql.compile.ir import FACTOR, PLACE, Measure, Statistic
from dpsql.compile.plan import Choosing, ReleasePlan, Selection
from dpsql.compile.slots import HALF_WIDTH, Slot, SlotKind, component_column, output_type, power_column
from dpsql.policy.facts import Kind, SqlType
from dpsql.privacy.bernstein import weights
from dpsql.privacy.choices import choose, number_of
from dpsql.privacy.mechanisms import Law, law_of
from dpsql.privacy.moments import Moments
from dpsql.privacy.selection import conditioned
from dpsql.privacy.sensitivity import Limits
from dpsql.privacy.thresholds import threshold
from dpsql.vault.engine import Engine, EngineFailure
from dpsql.vault.estimates import estimate, half_widths

Integers = NDArray[np.int64] | NDArray[np.object_]


Noisy: TypeAlias = pa.Table
"""A released table: keys k1, ..., aggregates a1, ..., and beside them, with names that end in ~, the 95 % half-widths
of every aggregate's cells and the noisy vectors (public: both are functions of the noise law and of what is
released)."""


def release(
    engine: Engine, statement: SealedSql, plan: ReleasePlan, tables: Mapping[str, pa.Table] | None = None
) -> Noisy:
    """Run one release, over these public tables beside the snapshot. Raises EngineFailure."""
    exact = engine.run(statement.text, tables)
    if plan.choosing is not None:
        return _winners(exact, plan, plan.choosing)
    vectors: dict[int, list[Integers]] = {}
    if plan.selection is not None:
        exact = _selected(exact, plan, plan.selection, vectors)
    columns = {name: exact.column(name).combine_chunks() for name in plan.release.key_names}
    columns |= dict.fromkeys(m.name for m in plan.release.measures)
    for i, slot in enumerate(plan.slots, 1):
        if i not in vectors:
            vectors[i] = [_add(c, law_of(slot)) for c in _components(exact, i, slot, plan.limits)]
        for measure in slot.outputs:
            columns[measure.name] = _value(measure, slot, vectors[i])
            columns[measure.name + HALF_WIDTH] = pa.array(_half_widths(measure, slot, vectors[i]), pa.float64())
        for part, component in enumerate(vectors[i]):
            columns[_vector_name(i, part)] = pa.array([str(int(v)) for v in component], pa.string())
    return pa.table(columns)


def replicates(noisy: Noisy, plan: ReleasePlan, count: int) -> Noisy:
    """`count` copies of a released table, one after another, each with fresh noise of the same law on top of the
    *released* vectors: what an expression of them makes of that noise is its error. Made from public values alone; the
    vault has no call for a second draw over exact ones."""
    columns = {n: pa.concat_arrays([noisy.column(n).combine_chunks()] * count) for n in plan.release.key_names}
    for i, slot in enumerate(plan.slots, 1):
        draw = _replica(slot)
        parts = range(len(slot.components))
        released = [[int(v) for v in noisy.column(_vector_name(i, part)).to_pylist()] for part in parts]
        vector = [np.tile(np.array(part, dtype=object), count) + draw(len(part) * count) for part in released]
        for measure in slot.outputs:
            columns[measure.name] = _value(measure, slot, vector)
    return pa.table(columns)


def _vector_name(i: int, part: int) -> str:
    """The column of a released table that keeps a slot's noisy vector, as text: it may be wider than any integer
    type."""
    return f"v{i}.{part}{HALF_WIDTH}"


def _selected(exact: pa.Table, plan: ReleasePlan, selection: Selection, vectors: dict[int, list[Integers]]) -> pa.Table:
    """The rows of keys that may be shown. For the others nothing is drawn in any slot, and nothing of them is kept."""
    law = (selection.delta, selection.touched, selection.min_units)
    if selection.counted is None:
        units = np.asarray(exact.column("units").to_numpy()).astype(np.int64)
        kept = conditioned(selection.epsilon, *law).keep(units)
    else:
        i, slot = plan.slots.index(selection.counted) + 1, selection.counted
        (noisy,) = (_add(c, law_of(slot)) for c in _components(exact, i, slot, plan.limits))
        kept = np.asarray(noisy >= threshold(slot.epsilon, slot.sigma, *law), dtype=np.bool_)
        vectors[i] = [noisy[kept]]
    return exact.filter(pa.array(kept, pa.bool_()))


def _winners(exact: pa.Table, plan: ReleasePlan, choosing: Choosing) -> Noisy:
    """The keys of the groups that are chosen, in that order."""
    utilities = _utilities(exact, plan, choosing)
    unit = lcm(choosing.sensitivity.denominator, *(u.denominator for u in utilities.values()))
    whole = [int(u * unit) for u in utilities.values()]
    epsilon, sensitivity = plan.slots[0].epsilon, int(choosing.sensitivity * unit)
    chosen = choose(choosing.mechanism, whole, sensitivity, epsilon, choosing.winners)
    rows = [list(utilities)[i] for i in chosen]
    shown = exact.select(list(plan.release.key_names)).take(pa.array(rows, pa.int64()))
    return shown.append_column(PLACE, pa.array(range(1, len(rows) + 1), pa.int64())).combine_chunks()


def _utilities(exact: pa.Table, plan: ReleasePlan, choosing: Choosing) -> dict[int, Fraction]:
    """By row, how good each candidate is; a group whose factor is NULL is none. Factors are kept within those that the
    sensitivity knows of, so that it holds whatever the engine gives."""
    (slot,), choice = plan.slots, plan.release.choice
    assert choice is not None
    (scores,) = _components(exact, 1, slot, plan.limits)
    lo, hi = choosing.factors
    given = exact.column(FACTOR).to_pylist() if choice.factor is not None else [1] * len(scores)
    factors = {i: min(max(f, lo), hi) for i, f in enumerate(map(number_of, given)) if f is not None}
    return {i: (-f if choice.ascending else f) * int(scores[i]) for i, f in factors.items()}


def _components(exact: pa.Table, i: int, slot: Slot, limits: Limits) -> list[Integers]:
    """A slot's exact vector. A Bernstein slot's is linear in the sums of powers of k - lo; under strategies that work
    per unit the SQL has formed it."""
    if slot.kind is not SlotKind.MOMENTS:
        return [_integers(exact.column(f"s{i}" if slot.kind is SlotKind.SUM else f"n{i}"))]
    if limits.per_unit:
        return [_integers(exact.column(component_column(i, place))) for place in range(len(slot.components))]
    powers = {e: _integers(exact.column(power_column(i, e))).astype(object) for e in slot.components}
    if slot.is_linear:  # of such a slot the SQL adds up k itself
        (axis,) = (a for a in slot.axes if a.grid is not None)
        assert axis.grid is not None
        (n, total) = sorted(powers, key=sum)
        powers[total] = powers[total] - axis.grid.lo * powers[n]
    return list(weights(powers, slot.degrees, slot.spans))


def _replica(slot: Slot) -> Callable[[int], Integers]:
    """What draws noise of a slot's law to be put on top of released values. Beyond 2^52 it is of its leading bits: no
    privacy hangs on it, and exact draws of that size take a thousand times as long."""
    shift = max(0, int(slot.size).bit_length() - 52)
    law = law_of(slot, divided_by=1 << shift)
    return lambda n: law.sample(n).astype(object) << shift


def _value(measure: Measure, slot: Slot, noisy: list[Integers]) -> pa.Array:
    """A measure from a noised vector: post-processing."""
    type_ = output_type(measure, slot)
    if slot.kind is not SlotKind.MOMENTS:
        return _array(noisy[0], slot.step, type_)
    moments = Moments([component.astype(object) for component in noisy], slot.degrees, slot.weight)
    if measure.statistic.is_count:
        return _array(moments.count, Fraction(1, moments.parts), type_)
    if measure.statistic is Statistic.SUM:
        (place,) = slot.places(measure)
        grid = slot.axes[place].grid
        assert grid is not None
        total = grid.lo * moments.count + grid.span * moments.sum_of(moments.power(place))
        return _array(total, grid.step / moments.parts, type_)
    return pa.array(estimate(measure, slot, moments), pa.float64())


def _half_widths(measure: Measure, slot: Slot, noisy: list[Integers]) -> NDArray[np.float64]:
    """The 95 % half-width of each cell of a measure."""
    cells = len(noisy[0])
    if slot.kind is not SlotKind.MOMENTS:
        return np.full(cells, float(law_of(slot).half_width() * slot.step))
    return half_widths(measure, slot, noisy, _replica(slot))


def _add(exact: Integers, law: Law) -> Integers:
    """One independent draw per cell; in Python integers, so that nothing wraps."""
    noise = law.sample(len(exact))
    noised: Integers = exact.astype(object) + noise.astype(object)
    return noised


def _integers(column: pa.ChunkedArray) -> Integers:
    """A column of exact integers: BIGINT as int64; DECIMAL as its unscaled value."""
    array = column.combine_chunks()
    if pa.types.is_integer(array.type):
        return np.asarray(array.to_numpy(zero_copy_only=False))
    if not pa.types.is_decimal128(array.type):
        raise EngineFailure(f"an exact column came as {array.type}")
    buffer = array.buffers()[1]
    words = np.frombuffer(buffer, dtype="<i8", count=2 * (array.offset + len(array))).reshape(-1, 2)[array.offset :]
    low, high = words[:, 0], words[:, 1]
    if bool(np.all(high == low >> 63)):
        return low.copy()
    return np.array([(int(h) << 64) + (int(v) & 0xFFFFFFFFFFFFFFFF) for v, h in words], dtype=object)


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
