"""Values of Python as typed SQL literals, and back.

Every literal has one shape per type, so that the text that is generated reads back as the same tree and no
engine guesses a type: integers, decimals, dates and timestamps stand in a CAST, a DOUBLE always has an exponent.
"""

from __future__ import annotations

import re
from datetime import date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Literal

from sqlglot import exp

from dpsql.compile.ir import Value
from dpsql.compile.scan import STRICT_NUMBER
from dpsql.policy.facts import Kind, SqlType

INT64 = (-(2**63), 2**63 - 1)
Wide = Literal["HUGEINT"]
"""The type of sums, which no column has."""

INT128 = (-(2**127) + 1, 2**127 - 1)
"""HUGEINT without its least value, so that a negation or an absolute value always has room."""

_NAMES = {
    Kind.BOOLEAN: exp.DType.BOOLEAN,
    Kind.INTEGER: exp.DType.BIGINT,
    Kind.DOUBLE: exp.DType.DOUBLE,
    Kind.VARCHAR: exp.DType.TEXT,  # as sqlglot reads DuckDB's VARCHAR
    Kind.DATE: exp.DType.DATE,
    Kind.TIMESTAMP: exp.DType.TIMESTAMPNTZ,
}

_DATE = r"(\d{4})[-/](\d{1,2})[-/](\d{1,2})"
_DATE_TEXT = re.compile(rf"\s*{_DATE}\s*", re.ASCII)
_TIMESTAMP_TEXT = re.compile(
    rf"\s*{_DATE}(?:[ T]+(\d{{1,2}}):(\d{{2}})(?::(\d{{2}})(?:\.(\d{{1,6}}))?)?)?\s*", re.ASCII
)


def data_type(target: SqlType | Wide) -> exp.DataType:
    """The tree of a type; "HUGEINT" is the one type that no SqlType names (an INTEGER beyond 64 bits)."""
    if isinstance(target, str):
        return exp.DataType(this=exp.DType.INT128, nested=False)
    if target.kind is not Kind.DECIMAL:
        return exp.DataType(this=_NAMES[target.kind], nested=False)
    sizes = [exp.DataTypeParam(this=exp.Literal.number(str(n))) for n in (target.width, target.scale)]
    return exp.DataType(this=exp.DType.DECIMAL, expressions=sizes, nested=False)


def cast(tree: exp.Expr, target: SqlType | Wide) -> exp.Cast:
    """CAST, only where it is proved that it cannot fail."""
    return exp.Cast(this=tree, to=data_type(target))


def try_cast(tree: exp.Expr, target: SqlType | Wide) -> exp.TryCast:
    """TRY_CAST: NULL where the value does not fit."""
    return exp.TryCast(this=tree, to=data_type(target), safe=True)


def literal(value: Value, target: SqlType) -> exp.Expr:
    """`value` as a tree of type `target`, which must be able to hold it exactly (a DOUBLE: nearly)."""
    kind = target.kind
    if kind is Kind.BOOLEAN:
        return exp.Boolean(this=bool(value))
    if kind is Kind.VARCHAR:
        return exp.Literal.string(str(value))
    if kind is Kind.DATE:
        assert isinstance(value, date)
        return cast(exp.Literal.string(f"{value.year:04}-{value.month:02}-{value.day:02}"), target)
    if kind is Kind.TIMESTAMP:
        assert isinstance(value, date)
        return cast(exp.Literal.string(moment_of(value).isoformat(" ")), target)
    if kind is Kind.DOUBLE:
        return cast(_number(_double_text(value)), target)
    if kind is Kind.INTEGER:
        number = int(value)  # type: ignore[arg-type]
        return cast(_number(str(number)), target if INT64[0] <= number <= INT64[1] else "HUGEINT")
    text = f"{decimal_of(Fraction(value), target.scale):f}"  # type: ignore[arg-type]
    # DuckDB reads a number of more digits as a DOUBLE; the 0 before the point counts as one.
    return cast(_number(text) if len(text.lstrip("-")) <= 39 else exp.Literal.string(text), target)


def null(target: SqlType) -> exp.Expr:
    """NULL of a type."""
    return cast(exp.Null(), target)


def is_literal(tree: exp.Expr) -> bool:
    """Whether a tree is what `literal` makes."""
    if isinstance(tree, exp.Boolean):
        return True
    inner = tree.this if type(tree) is exp.Cast else tree
    inner = inner.this if isinstance(inner, exp.Neg) else inner
    return isinstance(inner, exp.Literal)


def decimal_of(value: Fraction, scale: int) -> Decimal:
    """A multiple of 10^-scale as a Decimal with exactly `scale` digits after the point.

    Arithmetic, even a minus, rounds to the 28 digits of the context; reading a text does not."""
    units, rest = divmod(value.numerator * 10**scale, value.denominator)
    assert not rest
    return Decimal(f"{units}E-{scale}")


def number_of(text: str) -> int | Decimal | float | None:
    """The number that SQL text spells, typed as DuckDB types it; None if it is not one this project reads.

    An exponent, or more than 38 digits, makes a DOUBLE; a point makes a DECIMAL."""
    if not STRICT_NUMBER.fullmatch(text):
        return None
    if "e" in text or "E" in text:
        return float(text)
    if "." not in text:
        if len(text.lstrip("0")) > 39:  # more than a HUGEINT; Python itself refuses to read thousands of digits
            return None
        number = int(text)
        return number if number <= INT128[1] else None
    return Decimal(text) if len(text) <= 39 else float(text)


def date_of(text: str) -> date | None:
    """The date that a text spells: year, month, day; None where it is not a date of the years 1 to 9999."""
    match = _DATE_TEXT.fullmatch(text)
    try:
        return date(*(int(part) for part in match.groups())) if match else None
    except ValueError:
        return None


def timestamp_of(text: str) -> datetime | None:
    """The moment that a text spells: a date, and then perhaps a time up to microseconds, without a zone."""
    match = _TIMESTAMP_TEXT.fullmatch(text)
    if not match:
        return None
    year, month, day, hour, minute, second, fraction = match.groups()
    micro = int((fraction or "0").ljust(6, "0"))
    try:
        return datetime(int(year), int(month), int(day), int(hour or 0), int(minute or 0), int(second or 0), micro)
    except ValueError:
        return None


def moment_of(value: date) -> datetime:
    """A timestamp itself; of a date its midnight."""
    return value if isinstance(value, datetime) else datetime(value.year, value.month, value.day)


def is_midnight(value: datetime) -> bool:
    """Whether a timestamp says no more than its date."""
    return value == moment_of(value.date())


def next_after(value: Fraction | date | datetime, target: SqlType, sign: int) -> Fraction | date | datetime:
    """The least value above (sign 1), the greatest below (-1), of a discrete type; of a DOUBLE the value itself."""
    try:
        if isinstance(value, datetime):
            return value + sign * timedelta(microseconds=1)
        if isinstance(value, date):
            return value + sign * timedelta(days=1)
    except OverflowError:
        return value
    if target.kind is Kind.DOUBLE:
        return value
    return value + sign * Fraction(1, 10**target.scale)


def _number(text: str) -> exp.Expr:
    """A number's tree: a minus is an operator, never part of the literal."""
    if text.startswith("-"):
        return exp.Neg(this=exp.Literal.number(text[1:]))
    return exp.Literal.number(text)


def _double_text(value: Value) -> str:
    text = repr(float(value))  # type: ignore[arg-type]
    if "inf" in text or "nan" in text:
        raise ValueError("a literal is a finite number")
    return text if "e" in text else f"{text}e0"
