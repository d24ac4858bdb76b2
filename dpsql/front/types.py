"""PEP 249's types: the constructors, the type objects, and the type code of a result's column.

A type code is a SQL type's name ("BIGINT"), so that it reads well where it is printed; a type object is equal to
each of its kind's.
"""

from __future__ import annotations

import time
from datetime import date, datetime
from datetime import time as time_of_day
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa


class TypeObject:
    """A PEP 249 type object: equal to every type code of its kind, and for that reason not hashable."""

    def __init__(self, name: str, *codes: str) -> None:
        self.name, self.codes = name, frozenset(codes)

    def __eq__(self, other: object) -> bool:
        return other in self.codes if isinstance(other, str) else self is other

    def __repr__(self) -> str:
        return f"dpsql.{self.name}"


STRING = TypeObject("STRING", "VARCHAR")
NUMBER = TypeObject("NUMBER", "BOOLEAN", "BIGINT", "HUGEINT", "DOUBLE", "DECIMAL")
DATETIME = TypeObject("DATETIME", "DATE", "TIME", "TIMESTAMP", "TIMESTAMP WITH TIME ZONE", "INTERVAL")
BINARY = TypeObject("BINARY", "BLOB")
ROWID = TypeObject("ROWID")

Date = date
Time = time_of_day
Timestamp = datetime
Binary = bytes


def DateFromTicks(ticks: float) -> date:  # noqa: N802 - the name PEP 249 asks for
    """The local date of seconds since the epoch."""
    return date(*time.localtime(ticks)[:3])


def TimeFromTicks(ticks: float) -> time_of_day:  # noqa: N802
    """The local time of day of seconds since the epoch."""
    return time_of_day(*time.localtime(ticks)[3:6])


def TimestampFromTicks(ticks: float) -> datetime:  # noqa: N802
    """The local timestamp of seconds since the epoch."""
    return datetime(*time.localtime(ticks)[:6])


def type_code(arrow: pa.DataType) -> str:
    """The SQL name of an Arrow type. DuckDB hands HUGEINT over as decimal(38, 0)."""
    import pyarrow.types as is_type

    if is_type.is_dictionary(arrow):
        arrow = arrow.value_type
    if is_type.is_decimal(arrow):
        return "HUGEINT" if (arrow.precision, arrow.scale) == (38, 0) else "DECIMAL"
    if is_type.is_timestamp(arrow):
        return "TIMESTAMP" if arrow.tz is None else "TIMESTAMP WITH TIME ZONE"
    if is_type.is_list(arrow):
        return f"{type_code(arrow.value_type)}[]"
    tests = (
        (is_type.is_boolean, "BOOLEAN"),
        (is_type.is_integer, "BIGINT"),
        (is_type.is_floating, "DOUBLE"),
        (is_type.is_string, "VARCHAR"),
        (is_type.is_large_string, "VARCHAR"),
        (is_type.is_date, "DATE"),
        (is_type.is_time, "TIME"),
        (is_type.is_interval, "INTERVAL"),
        (is_type.is_binary, "BLOB"),
        (is_type.is_struct, "STRUCT"),
    )
    return next((name for test, name in tests if test(arrow)), str(arrow).upper())
