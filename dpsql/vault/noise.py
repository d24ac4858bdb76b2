"""From exact to noisy: runs a release's statement, adds the noise its plan asks for, and lets only that out.

The exact result lives in local variables of `release` alone: it is never logged, stored, put into an exception or
returned. Each key, also one that no row has, and each slot get noise of their own; aggregates that share a slot share
its noise, and no others do.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction
from typing import TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dpsql.compile.gate import SealedSql
from dpsql.compile.ir import Measure, Statistic
from dpsql.compile.plan import ReleasePlan, Selection
from dpsql.compile.slots import HALF_WIDTH, Slot, SlotKind, output_type
from dpsql.policy.facts import Kind, SqlType
from dpsql.privacy.intervals import count_half_width, ratio_half_widths, sum_half_width
from dpsql.privacy.mechanisms import DiscreteLaplace
from dpsql.privacy.selection import conditioned, threshold
from dpsql.privacy.sensitivity import Limits
from dpsql.vault.engine import Engine, EngineFailure

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
    vectors: dict[int, list[Integers]] = {}
    if plan.selection is not None:
        exact = _selected(exact, plan, plan.selection, vectors)
    columns = {name: exact.column(name).combine_chunks() for name in plan.release.key_names}
    columns |= dict.fromkeys(m.name for m in plan.release.measures)
    for i, slot in enumerate(plan.slots, 1):
        if i not in vectors:
            draw = DiscreteLaplace(slot.scale)
            vectors[i] = [_add(component, draw) for component in _components(exact, i, slot, plan.limits)]
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
        draw = DiscreteLaplace(slot.scale)
        parts = 2 if slot.kind is SlotKind.MEAN else 1
        released = [[int(v) for v in noisy.column(_vector_name(i, part)).to_pylist()] for part in range(parts)]
        vector = [_add(np.tile(np.array(part, dtype=object), count), draw) for part in released]
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
        (noisy,) = (_add(c, DiscreteLaplace(slot.scale)) for c in _components(exact, i, slot, plan.limits))
        kept = np.asarray(noisy >= threshold(slot.epsilon, *law).tau, dtype=np.bool_)
        vectors[i] = [noisy[kept]]
    return exact.filter(pa.array(kept, pa.bool_()))


def _components(exact: pa.Table, i: int, slot: Slot, limits: Limits) -> list[Integers]:
    """A slot's exact vector. A Bernstein slot's (sum of M - k', sum of k'), k' = k - lo, is linear in n and the sum
    of k; under strategies that work per unit the SQL has formed it."""
    if slot.kind is not SlotKind.MEAN:
        return [_integers(exact.column(f"s{i}" if slot.kind is SlotKind.SUM else f"n{i}"))]
    if limits.per_unit:
        return [_integers(exact.column(f"l{i}")), _integers(exact.column(f"s{i}"))]
    assert slot.grid is not None
    count = _integers(exact.column(f"n{i}")).astype(object)
    right = _integers(exact.column(f"s{i}")).astype(object) - slot.grid.lo * count
    return [slot.grid.span * count - right, right]


def _value(measure: Measure, slot: Slot, noisy: list[Integers]) -> pa.Array:
    """A measure from a noised vector: post-processing."""
    type_ = output_type(measure, slot)
    if slot.kind is not SlotKind.MEAN:
        return _array(noisy[0], slot.step, type_)
    left, right = (component.astype(object) for component in noisy)
    assert slot.grid is not None
    grid, total = slot.grid, left + right
    if measure.statistic is Statistic.VALUES:
        return _array(total, Fraction(1, slot.weight), type_)
    if measure.statistic is Statistic.SUM:
        return _array(grid.lo * total + grid.span * right, slot.step / grid.span, type_)
    lo, hi = float(grid.lo * grid.step), float(grid.hi * grid.step)
    share = [min(max(int(r) / int(t), 0.0), 1.0) if t > 0 else 0.5 for t, r in zip(total, right, strict=True)]
    return pa.array([min(max(lo + (hi - lo) * s, lo), hi) for s in share], pa.float64())


def _half_widths(measure: Measure, slot: Slot, noisy: list[Integers]) -> NDArray[np.float64]:
    """The 95 % half-width of each cell of a measure."""
    cells = len(noisy[0])
    if slot.kind is not SlotKind.MEAN:
        return np.full(cells, float(DiscreteLaplace(slot.scale).half_width() * slot.step))
    assert slot.grid is not None
    grid, scale = slot.grid, float(slot.scale) / slot.subgrid
    if measure.statistic is Statistic.VALUES:
        return np.full(cells, count_half_width(scale, grid.span))
    if measure.statistic is Statistic.SUM:
        return np.full(cells, sum_half_width(scale, grid.lo, grid.span) * float(grid.step))
    left, right = (component.astype(np.float64) for component in noisy)
    return ratio_half_widths(left, right, float(slot.scale), float((grid.hi - grid.lo) * grid.step))


def _add(exact: Integers, draw: DiscreteLaplace) -> Integers:
    """One independent draw per cell; in Python integers, so that nothing wraps."""
    noise = draw.sample(len(exact))
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
