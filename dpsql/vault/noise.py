"""From exact to noisy: runs a release's statement, adds the noise its plan asks for, and lets only that out.

The exact result lives in local variables of `release` alone: it is never logged, stored, put into an exception or
returned. Each key, also one that no row has, and each slot get noise of their own; aggregates that share a slot share
its noise, and no others do.
"""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dpsql.compile.gate import SealedSql
from dpsql.compile.ir import Measure, Statistic
from dpsql.compile.plan import HALF_WIDTH, ReleasePlan, Slot, SlotKind, output_type
from dpsql.policy.facts import Kind, SqlType
from dpsql.privacy.intervals import ratio_half_widths, two_laplace_half_width
from dpsql.privacy.mechanisms import DiscreteLaplace
from dpsql.vault.engine import Engine

Integers = NDArray[np.int64] | NDArray[np.object_]


Noisy: TypeAlias = pa.Table
"""A released table: keys k1, ..., aggregates a1, ..., and a1~, ...: the 95 % half-width of every aggregate's cells (a
public function of the noise law and the released values)."""


def release(engine: Engine, statement: SealedSql, plan: ReleasePlan) -> Noisy:
    """Run one release. Raises EngineFailure."""
    exact = engine.run(statement.text)
    columns: dict[str, pa.Array] = {}
    for key in plan.release.keys:
        columns[key.name] = exact.column(key.name).combine_chunks()
    half_widths: dict[str, NDArray[np.float64]] = {}
    for i, slot in enumerate(plan.slots, 1):
        draw = DiscreteLaplace(slot.scale)
        if slot.kind is SlotKind.MEAN:
            right, left = _noised_mean(exact, i, slot, draw)
            for measure in slot.outputs:
                columns[measure.name] = _from_mean(measure, slot, plan.limit, left, right)
                half_widths[measure.name] = _mean_half_widths(measure, slot, left, right)
        else:
            name = f"s{i}" if slot.kind is SlotKind.SUM else f"n{i}"
            noisy = _add(_integers(exact.column(name)), draw)
            step = slot.grid.step if slot.grid is not None else Fraction(1)
            for measure in slot.outputs:
                columns[measure.name] = _array(noisy, step, output_type(measure, slot, plan.limit))
                half_widths[measure.name] = np.full(len(noisy), float(draw.half_width() * step))
    measures = [m.name for m in plan.release.measures]
    names = [k.name for k in plan.release.keys] + measures
    widths = {m + HALF_WIDTH: pa.array(half_widths[m], pa.float64()) for m in measures}
    return pa.table({n: columns[n] for n in names} | widths)


def _noised_mean(exact: pa.Table, i: int, slot: Slot, draw: DiscreteLaplace) -> tuple[Integers, Integers]:
    """The Bernstein vector (sum of M - k', sum of k') with k' = k - lo, from n and the sum of k: linear, so exact."""
    assert slot.grid is not None
    count = _integers(exact.column(f"n{i}")).astype(object)
    right = _integers(exact.column(f"s{i}")).astype(object) - slot.grid.lo * count
    left = slot.grid.span * count - right
    return _add(right, draw), _add(left, draw)


def _from_mean(measure: Measure, slot: Slot, limit: int, left: Integers, right: Integers) -> pa.Array:
    """Count, sum or mean from the noised vector: post-processing."""
    assert slot.grid is not None
    grid, total = slot.grid, (left + right).astype(object)
    type_ = output_type(measure, slot, limit)
    if measure.statistic is Statistic.VALUES:
        return _array(np.array([round(Fraction(int(t), grid.span)) for t in total], dtype=object), Fraction(1), type_)
    if measure.statistic is Statistic.SUM:
        sums = [round(Fraction(grid.lo * int(t), grid.span) + int(r)) for t, r in zip(total, right, strict=True)]
        return _array(np.array(sums, dtype=object), grid.step, type_)
    lo, hi = float(grid.lo * grid.step), float(grid.hi * grid.step)
    share = [min(max(int(r) / int(t), 0.0), 1.0) if t > 0 else 0.5 for t, r in zip(total, right, strict=True)]
    means = [min(max(lo + (hi - lo) * s, lo), hi) for s in share]
    return pa.array(means, pa.float64())


def _mean_half_widths(measure: Measure, slot: Slot, left: Integers, right: Integers) -> NDArray[np.float64]:
    assert slot.grid is not None
    grid, scale = slot.grid, float(slot.scale)
    if measure.statistic is Statistic.VALUES:
        return np.full(len(left), two_laplace_half_width(scale, scale) / grid.span + 1)
    if measure.statistic is Statistic.SUM:
        ends = (abs(grid.lo) * scale / grid.span, abs(grid.lo + grid.span) * scale / grid.span)
        return np.full(len(left), (two_laplace_half_width(*ends) + 1) * float(grid.step))
    width = float((grid.hi - grid.lo) * grid.step)
    return ratio_half_widths(left.astype(np.float64), right.astype(np.float64), scale, width)


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
    buffer = array.buffers()[1]
    words = np.frombuffer(buffer, dtype="<i8", count=2 * (array.offset + len(array))).reshape(-1, 2)[array.offset :]
    low, high = words[:, 0], words[:, 1]
    if bool(np.all(high == low >> 63)):
        return low.copy()
    return np.array([(int(h) << 64) + (int(v) & 0xFFFFFFFFFFFFFFFF) for v, h in words], dtype=object)


_INT64 = (-(1 << 63), (1 << 63) - 1)
_WIDEST = 10**38 - 1


def _array(values: Integers, step: Fraction, type_: SqlType) -> pa.Array:
    """step * values as a column of the released type; saturating, since the type must not depend on the data."""
    if type_.kind is Kind.INTEGER:
        return pa.array([min(max(int(v), _INT64[0]), _INT64[1]) for v in values], pa.int64())
    if type_.kind is Kind.DECIMAL:
        unscaled = [min(max(int(v), -_WIDEST), _WIDEST) for v in values]
        exact = [Decimal((v < 0, tuple(map(int, str(abs(v)))), -type_.scale)) for v in unscaled]
        return pa.array(exact, pa.decimal128(38, type_.scale))
    return pa.array([float(int(v) * step) for v in values], pa.float64())
