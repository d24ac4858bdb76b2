"""How a source column becomes a snapshot column: its type, and the SQL that reads, cleans and clamps it.

Promise: what the SQL yields has exactly the type promised, one representation per value (no collation, no
negative zero, one NaN), and lies within the policy's bounds; no input makes it raise. It opens no database.

Clamps are CASE expressions: DuckDB's LEAST and GREATEST skip NULL (LEAST(NULL, 900) is 900). NaN is tested
first, because DuckDB orders it above infinity, and becomes NULL; infinities become the bounds; NULL stays NULL.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction

from dpsql.policy.facts import Kind, SqlType
from dpsql.policy.model import Column, Value

_INTEGERS = {
    "TINYINT": (-(2**7), 2**7 - 1),
    "SMALLINT": (-(2**15), 2**15 - 1),
    "INTEGER": (-(2**31), 2**31 - 1),
    "BIGINT": (-(2**63), 2**63 - 1),
    "UTINYINT": (0, 2**8 - 1),
    "USMALLINT": (0, 2**16 - 1),
    "UINTEGER": (0, 2**32 - 1),
    "UBIGINT": (0, 2**64 - 1),
    "HUGEINT": (-(2**127), 2**127 - 1),
    "UHUGEINT": (0, 2**128 - 1),
}
_WIDE = ("UBIGINT", "HUGEINT", "UHUGEINT")
_KINDS = {
    "BOOLEAN": Kind.BOOLEAN,
    "FLOAT": Kind.DOUBLE,
    "DOUBLE": Kind.DOUBLE,
    "VARCHAR": Kind.VARCHAR,
    "UUID": Kind.VARCHAR,
    "DATE": Kind.DATE,
    "TIMESTAMP": Kind.TIMESTAMP,
    "TIMESTAMP_S": Kind.TIMESTAMP,
    "TIMESTAMP_MS": Kind.TIMESTAMP,
    "TIMESTAMP_NS": Kind.TIMESTAMP,
    "TIMESTAMP WITH TIME ZONE": Kind.TIMESTAMP,
}


class Unfit(Exception):
    """The column cannot be used as the policy says. The text is for the owner: names, types and bounds only."""


@dataclass(frozen=True, slots=True)
class Reading:
    """How one column is read. stored: its mapped and clamped value, of type `type`. moved: a condition that is
    true where the clamp changed the value ("" where there is no clamp)."""

    type: SqlType
    stored: str
    moved: str = ""


def quoted(name: str) -> str:
    """A name as DuckDB reads it literally."""
    return '"' + name.replace('"', '""') + '"'


def literal(value: Value) -> str:
    """A policy value as a SQL literal (bool before int: True is an int in Python)."""
    match value:
        case bool():
            return "TRUE" if value else "FALSE"
        case int():
            return str(value)
        case Decimal():
            return format(value, "f")
        case datetime():
            return f"TIMESTAMP '{value.isoformat(sep=' ')}'"
        case date():
            return f"DATE '{value.isoformat()}'"
        case str():
            return "'" + value.replace("'", "''") + "'"


def snapshot_type(declared: str, *, bounded: bool = False) -> SqlType:
    """The snapshot's type for a source type. Raises Unfit where there is none."""
    if declared in _INTEGERS:
        if declared in _WIDE and not bounded:
            raise Unfit(f"type {declared} does not fit BIGINT; give the column bounds, or make a view that casts it")
        return SqlType(Kind.INTEGER)
    if declared.startswith("DECIMAL("):
        width, scale = declared.removeprefix("DECIMAL(").removesuffix(")").split(",")
        return SqlType(Kind.DECIMAL, int(width), int(scale))
    if declared.startswith("ENUM(") and declared.endswith(")"):
        return SqlType(Kind.VARCHAR)
    if declared in _KINDS:
        return SqlType(_KINDS[declared])
    name = "LIST" if declared.endswith("]") else declared.split("(")[0]
    raise Unfit(f"type {name} is not supported; make a view that casts it, and name the view as `source`")


def listed(source: str, declared: str, column: Column) -> Reading:
    """How to read the SQL expression `source` of DuckDB type `declared` as a listed column. Raises Unfit."""
    kind = snapshot_type(declared, bounded=column.bounds is not None)
    if any(_literal(value, kind) is None for value in column.values or ()):
        raise Unfit(f"some of its `values` are not of type {declared}")
    raw = _mapped(source, declared)
    if column.bounds is None:
        return Reading(kind, raw)
    low, high = _limits(column.bounds, kind, declared)
    moved = f"({raw} < {low} OR {raw} > {high})"  # NaN counts as above the upper bound
    clamp = f"WHEN {raw} < {low} THEN {low} WHEN {raw} > {high} THEN {high} ELSE {raw} END"
    if kind.kind is Kind.DOUBLE:
        return Reading(kind, f"CASE WHEN isnan({raw}) THEN NULL {clamp}", moved)
    return Reading(kind, f"CAST(CASE {clamp} AS {kind})", moved)


def hidden(source: str, declared: str) -> str:
    """The value of a column of a key that is not listed: all that matters is which values are equal."""
    snapshot_type(declared, bounded=True)
    return _mapped(source, declared)


def identity(source: str, declared: str) -> tuple[str, str]:
    """(SQL, family) of a column by which rows find their unit. Values are compared, and shown as text, exactly:
    two of one family are the same where and only where the source says so. Raises Unfit where that cannot be."""
    if declared in _INTEGERS and declared != "UHUGEINT":
        return (f"CAST({source} AS HUGEINT)" if declared in _WIDE else f"CAST({source} AS BIGINT)"), "integer"
    kind = snapshot_type(declared)
    exact = declared in ("TIMESTAMP", "TIMESTAMP WITH TIME ZONE")  # of microseconds, as the snapshot is
    if kind.kind is Kind.DOUBLE or (kind.kind is Kind.TIMESTAMP and not exact):
        raise Unfit(f"a value of type {declared} cannot identify a row or unit; make a view that casts it to VARCHAR")
    family = "UUID" if declared == "UUID" else str(kind)
    return _mapped(source, declared), family


def values_list(column: Column, kind: SqlType) -> list[str]:
    """The literals of the column's `values`."""
    return [text for value in column.values or () if (text := _literal(value, kind)) is not None]


def _mapped(source: str, declared: str) -> str:
    """The value in the snapshot's type. A collation would make `=` and GROUP BY merge strings: it is taken off.
    -0.0 becomes 0.0 and every NaN the same NaN, so that equal values are the same value."""
    if declared in ("FLOAT", "DOUBLE"):
        double = f"CAST({source} AS DOUBLE)"
        return f"CASE WHEN {double} = 0 THEN 0::DOUBLE WHEN isnan({double}) THEN 'NaN'::DOUBLE ELSE {double} END"
    if declared == "VARCHAR":
        return f'CAST({source} COLLATE "binary" AS VARCHAR)'
    if declared == "TIMESTAMP WITH TIME ZONE":
        return f"timezone('UTC', {source})"
    if declared in _INTEGERS:
        return source if declared in _WIDE else f"CAST({source} AS BIGINT)"
    kind = str(snapshot_type(declared))
    return source if declared == kind else f"TRY_CAST({source} AS {kind})"


def _limits(bounds: tuple[Value, Value], kind: SqlType, declared: str) -> tuple[str, str]:
    """Both bounds as typed literals. They are cut to what the type can hold; between two values of a DECIMAL they
    move inward. For a DOUBLE they are the nearest doubles, so that the number that was written is within."""
    for bound in bounds:
        if _literal(bound, kind) is None and not (kind.kind is Kind.DECIMAL and _is_number(bound)):
            raise Unfit(f"bound {literal(bound)} does not fit type {declared}")
    low, high = bounds
    if kind.kind not in (Kind.INTEGER, Kind.DECIMAL):
        if kind.kind in (Kind.BOOLEAN, Kind.VARCHAR):
            raise Unfit(f"a column of type {declared} cannot have bounds")
        return _literal(low, kind) or "", _literal(high, kind) or ""
    unit = 10**kind.scale
    least, most = _INTEGERS[declared] if kind.kind is Kind.INTEGER else (1 - 10**kind.width, 10**kind.width - 1)
    first = max(math.ceil(Fraction(low) * unit), least)  # type: ignore[arg-type]
    last = min(math.floor(Fraction(high) * unit), most)  # type: ignore[arg-type]
    if first > last:
        raise Unfit(f"no value of type {declared} lies within the bounds")
    typed = declared if declared in _WIDE else kind
    return f"CAST('{_scaled(first, kind.scale)}' AS {typed})", f"CAST('{_scaled(last, kind.scale)}' AS {typed})"


def _scaled(number: int, scale: int) -> str:
    """number / 10**scale, written exactly (arithmetic of Decimal would round to 28 digits)."""
    return format(Decimal((int(number < 0), tuple(map(int, str(abs(number)))), -scale)), "f")


def _is_number(value: Value) -> bool:
    return isinstance(value, int | Decimal) and not isinstance(value, bool)


def _literal(value: Value, kind: SqlType) -> str | None:
    """The literal of `value` in this type, or None where the type does not have that value."""
    match kind.kind:
        case Kind.BOOLEAN:
            fits = isinstance(value, bool)
        case Kind.INTEGER:
            fits = _is_number(value) and isinstance(value, int) and -(2**63) <= value < 2**63
        case Kind.DECIMAL:
            fits = _is_number(value) and (Fraction(value) * 10**kind.scale).denominator == 1  # type: ignore[arg-type]
        case Kind.DOUBLE:
            finite = isinstance(value, int | Decimal) and _is_number(value) and math.isfinite(_double(value))
            return f"'{_double(value)!r}'::DOUBLE" if finite and isinstance(value, int | Decimal) else None
        case Kind.VARCHAR:
            fits = isinstance(value, str)
        case Kind.DATE:
            fits = isinstance(value, date) and not isinstance(value, datetime)
        case Kind.TIMESTAMP:
            fits = isinstance(value, datetime) and value.tzinfo is None
    return literal(value) if fits else None


def _double(value: int | Decimal) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf
