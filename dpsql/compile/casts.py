"""CAST and TRY_CAST. A cast that is not proved total becomes TRY_CAST: NULL where the value does not fit.

Casts to the smaller integer types and to FLOAT go there and back: `CAST(x AS INTEGER)` is NULL beyond 32 bits, where
plain DuckDB raises, and a BIGINT otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction

from sqlglot import exp

from dpsql.compile.guards import EXTREMES
from dpsql.compile.ir import Scalar, Value
from dpsql.compile.kinds import (
    BOOLEAN,
    DATE,
    DOUBLE,
    INTEGER,
    MAX_DIGITS,
    TIMESTAMP,
    VARCHAR,
    constant,
    constant_of,
    convert,
    decimal,
    digits,
    is_null,
    settled,
    spelled,
    value_as,
    words,
)
from dpsql.compile.literals import INT64, INT128, Wide, cast, date_of, decimal_of, number_of, timestamp_of, try_cast
from dpsql.compile.ranges import EVERYTHING, Interval, Unsure, facts_of, floating, held, known, mapped, monotone
from dpsql.errors import Error, Span, refusal
from dpsql.policy.facts import Kind, SqlType

_D = exp.DataType.Type
_INTEGERS = {
    _D.TINYINT: (8, True),
    _D.SMALLINT: (16, True),
    _D.INT: (32, True),
    _D.BIGINT: (64, True),
    _D.INT128: (128, True),
    _D.UTINYINT: (8, False),
    _D.USMALLINT: (16, False),
    _D.UINT: (32, False),
    _D.UBIGINT: (64, False),
}
_OTHERS = {
    _D.BOOLEAN: BOOLEAN,
    _D.DOUBLE: DOUBLE,
    _D.FLOAT: DOUBLE,
    _D.TEXT: VARCHAR,
    _D.VARCHAR: VARCHAR,
    _D.DATE: DATE,
    _D.TIMESTAMP: TIMESTAMP,
    _D.TIMESTAMPNTZ: TIMESTAMP,
}
_DATED = (Kind.DATE, Kind.TIMESTAMP)


def type_of(value: Value, text: str) -> SqlType:
    """The type that DuckDB gives a number literal: a DECIMAL has the digits that are written, zeros included."""
    if isinstance(value, int):
        return INTEGER
    if isinstance(value, float):
        return DOUBLE
    whole, _, places = text.partition(".")
    return decimal(max(1, len(whole) + len(places)), len(places))


def cast_to(node: exp.Expr, a: Scalar, span: Span | None) -> Scalar:
    """CAST(a AS type), TRY_CAST(a AS type)."""
    to = node.args["to"]
    sized = to.expressions and to.this not in (_D.DECIMAL, _D.TEXT, _D.VARCHAR)
    if sized or node.args.get("format") or node.args.get("action") or node.args.get("default") or to.args.get("nested"):
        raise _refused(to, span)
    if to.this in _INTEGERS:
        bits, signed = _INTEGERS[to.this]
        return _to_integer(a, to, bits, signed, span)
    if to.this is _D.DECIMAL:
        return _to_decimal(a, _decimal_named(to, span), span)
    target = _OTHERS.get(to.this)
    if target is None:
        raise _refused(to, span)
    if to.this is _D.FLOAT:
        return _to_float(a, to, span)
    if is_null(a):
        return convert(a, target)
    if target == VARCHAR:
        return to_text(a, span)
    if target.kind in _DATED:
        return _to_date(a, target, isinstance(node, exp.TryCast), span)
    if a.facts.type.kind in _DATED:
        raise _mixed(a, target, span)
    if a.facts.type.kind is Kind.VARCHAR:
        return Scalar(try_cast(a.tree, target), facts_of(target, nullable=True), span)
    result = convert(a, target)
    return Scalar(result.tree, result.facts, span)


def _to_integer(a: Scalar, to: exp.DataType, bits: int, signed: bool, span: Span | None) -> Scalar:
    """Rounded as DuckDB rounds: halves of a DECIMAL away from zero, of a DOUBLE to even."""
    if is_null(a):
        return convert(a, INTEGER)
    if a.facts.type.kind in _DATED:
        raise _mixed(a, INTEGER, span)
    lo, hi = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
    bounds = Interval(Fraction(max(lo, INT128[0])), Fraction(min(hi, INT128[1])))
    text = a.facts.type.kind is Kind.VARCHAR
    wild = text or (a.facts.type.kind is Kind.DOUBLE and not held(a.facts).is_bounded)
    if a.facts.type == BOOLEAN:
        a = convert(a, INTEGER)
    rounding = _to_even if a.facts.type.kind is Kind.DOUBLE else _away
    exact = EVERYTHING if text else monotone(known(a.facts), rounding)
    before = bounds if wild else monotone(held(a.facts), rounding)
    # The largest numbers of a DOUBLE are coarse: near the ends of the type nothing is proved of them.
    margin = 2**62 if a.facts.type.kind is Kind.DOUBLE else 0
    total = not wild and before.lo >= min(0, lo + margin) and before.hi <= max(hi - margin, hi // 2)  # type: ignore[operator]
    if a.facts.type.kind is not Kind.DOUBLE:
        total = not wild and before.lo >= bounds.lo and before.hi <= bounds.hi  # type: ignore[operator]
    domain, _ = mapped(_whole, [a.facts])
    if domain is not None:
        domain = [v for v in domain if lo <= v <= hi]  # type: ignore[operator]
    holds = before if total else _meet(before, bounds)
    facts = facts_of(
        INTEGER,
        exact if total else _meet(exact, bounds),
        holds,
        domain=domain or None,
        nullable=a.facts.nullable or not total,
    )
    huge = not (holds.lo >= INT64[0] and holds.hi <= INT64[1])  # type: ignore[operator]
    if total and a.facts.type == INTEGER and not huge:
        return settled(a.tree, facts, [a], span)
    target: SqlType | Wide = "HUGEINT" if huge else INTEGER
    tree: exp.Expr = _sure(a, target) if total else _narrow_cast(a.tree, to, target)
    return settled(tree, facts, [a], span)


def _narrow_cast(tree: exp.Expr, to: exp.DataType, target: SqlType | Wide) -> exp.Expr:
    inner = exp.TryCast(this=tree, to=exp.DataType(this=to.this, nested=False), safe=True)
    return inner if to.this in (_D.BIGINT, _D.INT128) else cast(inner, target)


def _decimal_named(to: exp.DataType, span: Span | None) -> SqlType:
    """DECIMAL(w, s), or DECIMAL(w) without places, of a width that DuckDB has."""
    sizes = [str(p.this.name) for p in to.expressions]
    if 1 <= len(sizes) <= 2 and all(size.isdecimal() and len(size) <= 2 for size in sizes):
        width, scale = (*map(int, sizes), 0)[:2]
        if 0 < width <= MAX_DIGITS and scale <= width:
            return decimal(width, scale)
    raise _refused(to, span)


def _to_decimal(a: Scalar, target: SqlType, span: Span | None) -> Scalar:
    """Rounded half away from zero; NULL where the digits are too few."""
    if is_null(a):
        return convert(a, target)
    kind = a.facts.type.kind
    if kind in _DATED:
        raise _mixed(a, target, span)
    spelt = _spelt_number(constant(a), target)
    if spelt is not None:
        return constant_of(spelt, target, span)
    if kind is Kind.BOOLEAN:
        a = convert(a, INTEGER)
    bounds = held(facts_of(target, nullable=True))
    unit = Fraction(1, 10**target.scale)
    wild = kind is Kind.VARCHAR or (kind is Kind.DOUBLE and not held(a.facts).is_bounded)
    exact = EVERYTHING if kind is Kind.VARCHAR else monotone(known(a.facts), lambda x: _away(x / unit) * unit)
    before = bounds if wild else monotone(held(a.facts), lambda x: _away(x / unit) * unit)
    if kind is Kind.DOUBLE:  # x * 10^scale is computed in DOUBLE
        exact, before = _wider(exact, unit), _wider(before, unit)
    total = not wild and digits(before, target.scale) <= target.width
    domain, _ = mapped(lambda x: _fixed(x, unit, target), [a.facts])
    facts = facts_of(
        target,
        exact if total else _meet(exact, bounds),
        before if total else _meet(before, bounds),
        domain=domain or None,
        nullable=a.facts.nullable or not total,
    )
    if a.facts.type == target:
        return Scalar(a.tree, a.facts, span)
    return settled(_sure(a, target) if total else try_cast(a.tree, target), facts, [a], span)


def _sure(a: Scalar, target: SqlType | Wide) -> exp.Expr:
    """A cast that is proved total. Of a DOUBLE the proof rests on how every operation below it rounds: should one be
    wrong there, a value is NULL and no row makes the engine raise."""
    return (try_cast if a.facts.type.kind is Kind.DOUBLE else cast)(a.tree, target)


def _spelt_number(value: Value | None, target: SqlType) -> Value | None:
    """The number that a text literal spells, where it is one of the type."""
    if not isinstance(value, str) or number_of(value.removeprefix("-")) is None:
        return None
    return value_as(Fraction(value), target)


def _to_float(a: Scalar, to: exp.DataType, span: Span | None) -> Scalar:
    """Through 32 bits and back: what is left has 24 binary digits."""
    if is_null(a):
        return convert(a, DOUBLE)
    if a.facts.type.kind in _DATED:
        raise _mixed(a, DOUBLE, span)
    text = a.facts.type.kind is Kind.VARCHAR
    a = a if text else convert(a, DOUBLE)
    holds, exact = held(a.facts), known(a.facts)
    total = not text and holds.is_bounded and max(abs(holds.lo), abs(holds.hi)) < 10**38  # type: ignore[arg-type]
    ends = [EVERYTHING if text else _coarse(i) for i in (exact, holds)]
    inner = exp.Cast(this=a.tree, to=to.copy()) if total else exp.TryCast(this=a.tree, to=to.copy(), safe=True)
    return Scalar(cast(inner, DOUBLE), facts_of(DOUBLE, *ends, nullable=a.facts.nullable or not total), span)


def to_text(a: Scalar, span: Span | None) -> Scalar:
    """Every type has a text; a number's is short."""
    if a.facts.type == VARCHAR:
        return Scalar(a.tree, a.facts, span)
    bare = (
        a.facts.type.kind is Kind.DECIMAL and a.facts.type.width == a.facts.type.scale
    )  # '.5', where Python has '0.5'
    domain = None if bare else mapped(_text, [a.facts])[0]
    return settled(cast(a.tree, VARCHAR), facts_of(VARCHAR, domain=domain, nullable=a.facts.nullable), [a], span)


def _to_date(a: Scalar, target: SqlType, lenient: bool, span: Span | None) -> Scalar:
    kind = a.facts.type.kind
    if kind is Kind.VARCHAR:
        text = constant(a)
        if isinstance(text, str) and text.strip().lower() not in [e.lower() for e in EXTREMES]:
            moment = timestamp_of(text) if target == TIMESTAMP else date_of(text) or timestamp_of(text)
            if moment is not None or not lenient:
                return spelled(text, target, span)
        return Scalar(try_cast(a.tree, target), facts_of(target, nullable=True), span)
    if kind not in _DATED:
        raise _mixed(a, target, span)
    if target == TIMESTAMP or kind is Kind.DATE:
        result = convert(a, target)
        return Scalar(result.tree, result.facts, span)
    ends = [
        Interval(*(e.date() if isinstance(e, datetime) else e for e in (i.lo, i.hi)))
        for i in (known(a.facts), held(a.facts))
    ]
    domain, _ = mapped(lambda x: x.date() if isinstance(x, datetime) else x, [a.facts])
    facts = facts_of(DATE, *ends, domain=domain, nullable=a.facts.nullable)
    return settled(cast(a.tree, DATE), facts, [a], span)


def _text(value: Value) -> str:
    """The text that DuckDB gives a value."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | str):
        return str(value)
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, datetime) and not value.microsecond:
        return value.isoformat(" ")
    if isinstance(value, date) and not isinstance(value, datetime):
        return value.isoformat()
    raise Unsure


def _whole(value: Value) -> int:
    if isinstance(value, int | Decimal):
        return int(_away(Fraction(value)))
    raise Unsure


def _fixed(value: Value, unit: Fraction, target: SqlType) -> Value | None:
    if not isinstance(value, int | Decimal):
        raise Unsure
    units = _away(Fraction(value) / unit)
    return decimal_of(units * unit, target.scale) if abs(units) < 10**target.width else None


def _away(value: Fraction) -> Fraction:
    whole = Fraction(math.floor(abs(value) + Fraction(1, 2)))
    return whole if value >= 0 else -whole


def _to_even(value: Fraction) -> Fraction:
    return Fraction(round(value))


def _meet(a: Interval, b: Interval) -> Interval:
    """Moved into the type's range, but open where it was open: a type's range is no bound that anyone chose."""
    lo = None if a.lo is None else min(max(a.lo, b.lo), b.hi)  # type: ignore[type-var]
    hi = None if a.hi is None else max(min(a.hi, b.hi), b.lo)  # type: ignore[type-var]
    return Interval(lo, hi)


def _wider(a: Interval, unit: Fraction) -> Interval:
    """An end may round the other way; below 2^50 units a DOUBLE is exact to well under one."""
    return _spread(a, lambda end: unit + abs(end) / 2**50)


def _coarse(a: Interval) -> Interval:
    """What 24 binary digits leave of an end."""
    return floating(_spread(a, lambda end: abs(end) / 2**22 + Fraction(1, 2**140)))


def _spread(a: Interval, by: Callable[[Fraction], Fraction]) -> Interval:
    lo, hi = a.lo, a.hi
    return Interval(
        lo - by(lo) if isinstance(lo, Fraction) else None,
        hi + by(hi) if isinstance(hi, Fraction) else None,
    )


def _mixed(a: Scalar, target: SqlType, span: Span | None) -> Error:
    return refusal(
        "DP232",
        f"there is no cast from {words(a.facts)} to {target.kind.value}",
        span=span,
        repair="take a part of it, as in year(d), or a difference, as in date_diff('day', a, b)"
        if a.facts.type.kind in _DATED
        else "cast text to a date, not a number: CAST(CAST(x AS VARCHAR) AS DATE)",
    )


def _refused(to: exp.DataType, span: Span | None) -> Error:
    return refusal(
        "DP231",
        f"a cast to {to.sql(dialect='duckdb')} is not answered",
        span=span,
        repair="cast to BOOLEAN, BIGINT, DECIMAL(w, s), DOUBLE, VARCHAR, DATE or TIMESTAMP",
    )
