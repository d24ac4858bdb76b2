"""From exact to noisy: runs a release's statement, adds the noise its plan asks for, and lets only that out.

The exact result lives in local variables of `release` alone: it is never logged, stored, put into an exception or
returned. Each key, also one that no row has, and each slot get noise of their own; aggregates that share a slot share
its noise, and no others do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from math import lcm

import numpy as np
import pyarrow as pa

from dpsql.compile.gate import SealedSql
from dpsql.compile.ir import FACTOR, PLACE
from dpsql.compile.plan import Choosing, ReleasePlan, Selection
from dpsql.compile.slots import Slot, SlotKind, component_column, power_column
from dpsql.privacy.bernstein import weights
from dpsql.privacy.choices import choose, number_of
from dpsql.privacy.mechanisms import Law, law_of
from dpsql.privacy.refinement import refined
from dpsql.privacy.selection import conditioned
from dpsql.privacy.sensitivity import Limits
from dpsql.privacy.thresholds import threshold
from dpsql.vault.engine import Engine, EngineFailure
from dpsql.vault.readings import Integers, Noised, Reading, Released

Before = Callable[[pa.Table], Sequence[Noised]]
"""Of the groups in these rows: what was released of each slot, with more discrete Laplace noise (see `refinement`)."""


def release(
    engine: Engine,
    statement: SealedSql,
    plan: ReleasePlan,
    tables: Mapping[str, pa.Table] | None = None,
    before: Before | None = None,
) -> Released:
    """Run one release, over these public tables beside the snapshot. before: where its public groups were released by
    the same statement before, and are refined. Raises EngineFailure."""
    exact = engine.run(statement.text, tables)
    if plan.choosing is not None:
        return Released(_winners(exact, plan, plan.choosing), {})
    vectors: dict[int, list[Integers]] = {}
    if plan.selection is not None:
        exact = _selected(exact, plan, plan.selection, vectors)
    keys = exact.select(list(plan.release.key_names)).combine_chunks()
    released = before(keys) if before is not None else ()
    readings: dict[str, Reading] = {}
    for i, slot in enumerate(plan.slots, 1):
        if i not in vectors:
            components = _components(exact, i, slot, plan.limits)
            if slot.paid:
                vectors[i] = _refine(components, slot, released[i - 1])
            else:
                vectors[i] = [_add(c, law_of(slot)) for c in components]
        noised = Noised(replace(slot, paid=Fraction(0)) if slot.paid else slot, tuple(vectors[i]))
        readings |= dict.fromkeys((m.name for m in slot.outputs), noised)
    return Released(keys, readings)


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


def _winners(exact: pa.Table, plan: ReleasePlan, choosing: Choosing) -> pa.Table:
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


def _add(exact: Integers, law: Law) -> Integers:
    """One independent draw per cell; in Python integers, so that nothing wraps."""
    noise = law.sample(len(exact))
    noised: Integers = exact.astype(object) + noise.astype(object)
    return noised


def _refine(exact: list[Integers], slot: Slot, released: Noised) -> list[Integers]:
    """The vector of a slot, given the released one for which it was paid."""
    coarse = released.slot
    same = coarse.sigma is slot.sigma is None and coarse.norms == slot.norms and released.cells == 1
    if not same or not coarse.epsilon == slot.paid < slot.epsilon:
        raise ValueError("a vector is refined from one of the same kind, for what that has cost")
    pairs = zip(exact, released.vector, strict=True)
    return [refined(x, y, coarse.scale, slot.scale) for x, y in pairs]


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
