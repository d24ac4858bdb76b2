"""Releases as they leave: the noise that a receipt tells of, and the tables that the outer SQL sees."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np
import pyarrow as pa

from dpsql.answer import ColumnReceipt
from dpsql.compile.errorbars import ErrorBars
from dpsql.compile.ir import PLACE, Measure
from dpsql.compile.plan import PrivatePlan
from dpsql.compile.slots import HALF_WIDTH, output_type
from dpsql.errors import refusal
from dpsql.policy.facts import Kind, SqlType
from dpsql.privacy.choices import MECHANISMS
from dpsql.privacy.mechanisms import law_of
from dpsql.privacy.sensitivity import Limits
from dpsql.vault.mapping import Unfit, snapshot_type
from dpsql.vault.readings import Noised, Reading, Released


def receipt_columns(plan: PrivatePlan, released: Mapping[str, Released]) -> tuple[ColumnReceipt, ...]:
    """The noise that each released aggregate carries, whenever it was drawn; of what is not in `released`, the noise
    that it would carry. In the order of the statement."""
    found = []
    for release in plan.releases:
        if release.choosing is not None:
            score, mechanism = release.release.measures[0], MECHANISMS[release.choosing.mechanism]
            found.append(ColumnReceipt(score.text, mechanism, release.pure, None, None, release.share))
            continue
        readings = dict[str, Reading]((m.name, Noised(slot, ())) for slot in release.slots for m in slot.outputs)
        readings |= released[release.release.name].readings if release.release.name in released else {}
        place = {measure.name: at for at, measure in enumerate(release.release.measures)}
        outputs = [measure for slot in release.slots for measure in slot.outputs]
        for measure in sorted(outputs, key=lambda m: place.get(m.name, len(place))):
            found.append(_column(measure, readings[measure.name]))
    return tuple(found)


def receipt_limits(plan: PrivatePlan, others: Collection[str], unit: str) -> tuple[str, ...]:
    """What the limits of each release leave of a unit, in words. others: the releases that are read from stored ones
    with other limits."""
    found = []
    for release in plan.releases:
        limits, said = release.limits, []
        if release.release.name in others:
            said.append("limited as in an earlier statement")
        elif limits != Limits("rows", rows=1):
            most = [
                (limits.rows, "row", f"of each {unit}{' after WHERE' * limits.late}"),
                (limits.per_group, "row", f"of each {unit} in a group"),
                (limits.groups, "group", f"of each {unit}"),
            ]
            several = [f"{n:,} {what}{'s' * (n != 1)} {where}" for n, what, where in most if n is not None]
            said += [f"counts at most {' and '.join(several)}"] if several else []
            said += [f"scales each {unit} down to {limits.ball:,} rows"] if limits.ball is not None else []
        if release.read is not None:
            said.append(f"reads at most {release.read:,} rows of each {unit} to join them")
        said += release.wide
        said += ["leaves out small groups"] if release.selection is not None else []
        found += said
    return tuple(dict.fromkeys(found))


def _column(measure: Measure, reading: Reading) -> ColumnReceipt:
    slot, name = reading.slot, measure.column or measure.text
    law = law_of(slot)
    if not isinstance(reading, Noised) or reading.half_width is None:
        return ColumnReceipt(name, law.name, slot.epsilon, None, None)
    scale = float(law.size * slot.step) if reading.cells == 1 else None
    return ColumnReceipt(name, law.name, slot.epsilon, scale, reading.half_width)


def columns(plan: PrivatePlan, bars: ErrorBars) -> dict[str, list[tuple[str, pa.DataType]]]:
    """The columns of the released tables as the outer SQL sees them: their types are fixed by query and policy."""
    found = {}
    for release in plan.releases:
        fields = [(name, arrow_type(type_)) for name, type_ in release.release.key_columns]
        slots = release.slots if release.choosing is None else ()
        types = {m.name: output_type(m, s) for s in slots for m in s.outputs}
        fields += [(PLACE, pa.int64())] if release.choosing is not None else []
        fields += [(m.name, arrow_type(types[m.name])) for m in release.release.shown]
        fields += [(m.name + HALF_WIDTH, pa.float64()) for m in release.release.shown]
        if release.release.name == bars.released:
            fields += [(name, pa.float64()) for name in bars.replayed]
        found[release.release.name] = fields
    return found


def empty_tables(found: Mapping[str, Mapping[str, SqlType]]) -> dict[str, pa.Table]:
    """Released tables without rows, of these columns."""
    return {
        name: pa.schema([(column, arrow_type(type_)) for column, type_ in columns.items()]).empty_table()
        for name, columns in found.items()
    }


def type_of(name: str) -> SqlType:
    """The type that private rows are compared with, of a column of a public query. Raises DP232 where there is none."""
    try:
        if name == "TIMESTAMP_NS":  # read as microseconds two of its values can be one, which GROUP BY told apart
            raise Unfit(name)
        return snapshot_type(name, bounded=False)
    except Unfit:
        if name in ("HUGEINT", "UBIGINT", "UHUGEINT"):
            return SqlType(Kind.DECIMAL, 38, 0)
        reason = f"private rows cannot be compared with values of type {name}"
        raise refusal("DP232", reason, repair="cast the column of the subquery to a number, a text or a date") from None


def projected(table: pa.Table, columns: Sequence[tuple[str, str]]) -> pa.Table | None:
    """The columns of a released table under the names they are shown with: what the outer engine answers to that, since
    it gives back the rows of a table in their order, and values of these types as they are. None for other types, which
    it may give back as something else."""
    shown = [table.column(name) for name, _ in columns]
    if not all(column.type in _KEPT or pa.types.is_decimal128(column.type) for column in shown):
        return None
    return pa.Table.from_arrays(shown, names=[name for _, name in columns])


def arrow_type(type_: SqlType) -> pa.DataType:
    """The Arrow type of a column."""
    match type_.kind:
        case Kind.DECIMAL:
            return pa.decimal128(type_.width, type_.scale)
        case kind:
            return _ARROW[kind]


_ARROW: dict[Kind, pa.DataType] = {
    Kind.BOOLEAN: pa.bool_(),
    Kind.INTEGER: pa.int64(),
    Kind.DOUBLE: pa.float64(),
    Kind.VARCHAR: pa.string(),
    Kind.DATE: pa.date32(),
    Kind.TIMESTAMP: pa.timestamp("us"),
}

_KEPT = frozenset(
    [*_ARROW.values(), pa.int8(), pa.int16(), pa.int32(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()]
)

_REPLAYS = 400
_REPLAYED_ROWS = 100_000


def replays(rows: int) -> int:
    """How often an expression over so many rows is replayed; 0 where that would take too long to say anything."""
    count = min(_REPLAYS, _REPLAYED_ROWS // max(rows, 1))
    return count if count >= _REPLAYS // 4 else 0


def half_widths(at: pa.ChunkedArray, around: pa.ChunkedArray, count: int) -> list[float | None]:
    """The 95 % half-width per row of an expression: with N replays the ceil(0.95 (N + 1))-th smallest distance from its
    value at the released numbers, which covers at least 95 % of the replayed law; None where a replay has no value."""
    rows = len(at)
    if not rows:
        return []
    value = at.to_numpy().astype(np.float64)
    with np.errstate(invalid="ignore"):  # of infinite values no distance is known
        distance = np.abs(around.to_numpy().astype(np.float64).reshape(count, rows) - value)
    found = np.sort(distance, axis=0)[min(-(-95 * (count + 1) // 100), count) - 1]
    return [float(width) if np.isfinite(width) else None for width in found]
