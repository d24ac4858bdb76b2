"""abs, sign, floor, ceil and round: functions of one number that keep its kind where there is room."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

from sqlglot import exp

from dpsql.compile.arithmetic import MAX_FRACTIONS, ends_of, numeric, roomy, unary
from dpsql.compile.ir import Scalar
from dpsql.compile.kinds import DOUBLE, INTEGER, MAX_DIGITS, constant, convert, decimal, digits
from dpsql.compile.literals import cast
from dpsql.compile.ranges import Interval, facts_of, floating, held, known, magnitude, monotone
from dpsql.errors import Span, refusal
from dpsql.policy.facts import Kind

MAX_PLACES = 400
"""More places than a DOUBLE has, in either direction."""


def absolute(a: Scalar, span: Span | None) -> Scalar:
    a = numeric(a, "abs")
    first, second = ends_of(magnitude, a)
    if a.facts.type.kind is Kind.DOUBLE and not first.is_bounded:
        first = Interval(Fraction(0))
    a = roomy(a, second)
    return unary(exp.Abs(this=a.tree), a, a.facts.type, (first, second), abs, span)


def sign(a: Scalar, span: Span | None) -> Scalar:
    """-1, 0 or 1 (0 for NaN, as in DuckDB)."""
    a = numeric(a, "sign")
    anything = Interval(Fraction(-1), Fraction(1))
    bounds = known(a.facts)
    exact = monotone(bounds, lambda x: Fraction(_sign(x))) if bounds.is_bounded else anything
    return unary(cast(exp.Sign(this=a.tree), INTEGER), a, INTEGER, (exact, anything), _sign, span)


def floor(a: Scalar, span: Span | None) -> Scalar:
    return _whole(exp.Floor, "floor", math.floor, a, span)


def ceiling(a: Scalar, span: Span | None) -> Scalar:
    return _whole(exp.Ceil, "ceil", math.ceil, a, span)


def _whole(
    node: type[exp.Expr], name: str, function: Callable[[Fraction], int], a: Scalar, span: Span | None
) -> Scalar:
    """floor and ceil: a DOUBLE of a DOUBLE or an integer, a DECIMAL without places of a DECIMAL, as in DuckDB."""
    a = numeric(a, name)
    if a.facts.type.kind is Kind.INTEGER:
        return convert(a, DOUBLE)
    ends = ends_of(lambda i: monotone(i, lambda x: Fraction(function(x))), a)
    type_ = DOUBLE if a.facts.type.kind is Kind.DOUBLE else decimal(a.facts.type.width, 0)
    return _listed(unary(node(this=a.tree), a, type_, ends, function, span, Fraction(1)), Fraction(1))


def _listed(a: Scalar, unit: Fraction) -> Scalar:
    """A DOUBLE that is a multiple of a whole unit has all of them in its known interval as its domain, if they are few;
    every one is exact."""
    facts, interval = a.facts, known(a.facts)
    if facts.type != DOUBLE or facts.domain is not None or unit.denominator > 1 or not interval.is_bounded:
        return a
    assert isinstance(interval.lo, Fraction)
    assert isinstance(interval.hi, Fraction)
    first, last = math.ceil(interval.lo / unit), math.floor(interval.hi / unit)
    if not 0 <= last - first < MAX_FRACTIONS or max(abs(first), abs(last)) * unit >= 2**53:
        return a
    values = [float(n * unit) for n in range(first, last + 1)]
    listed = facts_of(
        DOUBLE, interval, held(facts), domain=values, nullable=facts.nullable, step=facts.step, size=facts.size
    )
    return Scalar(a.tree, listed, a.span)


def rounded(a: Scalar, places: int, span: Span | None) -> Scalar:
    """round(x, places), halves away from zero. An integer or DECIMAL keeps its kind where there is room."""
    a = numeric(a, "round")
    kind, scale = a.facts.type.kind, a.facts.type.scale
    unit = Fraction(10) ** -places
    if kind is Kind.DOUBLE:
        first, second = (_near(i, unit) for i in (known(a.facts), held(a.facts)))
        tree = _at_places(exp.Round, a.tree, places)
        return _listed(Scalar(tree, facts_of(DOUBLE, first, second, nullable=a.facts.nullable, step=unit), span), unit)
    if places >= scale:
        return a
    ends = ends_of(lambda i: monotone(i, lambda x: _half_away(x, unit)), a)
    type_ = INTEGER
    if kind is Kind.DECIMAL:
        width = a.facts.type.width
        grows = not scale and -places <= width  # 95 becomes 100; to a unit beyond all digits there is only 0
        type_ = decimal(min(MAX_DIGITS, width + grows), max(0, places))
    if digits(ends[1], type_.scale) > (type_.width or MAX_DIGITS) or _half_away(unit / 2, unit) > 10**MAX_DIGITS:
        return rounded(convert(a, DOUBLE), places, span)
    a = roomy(a, ends[1])
    tree = _at_places(exp.Round, a.tree, places)
    return unary(tree, a, type_, ends, lambda x: _half_away(x, unit), span)


def truncated(a: Scalar, places: int, span: Span | None) -> Scalar:
    """trunc(x, places), toward zero. It never has more digits than x."""
    a = numeric(a, "trunc")
    kind, scale = a.facts.type.kind, a.facts.type.scale
    unit = Fraction(10) ** -places
    if kind is Kind.DOUBLE:
        first, second = (_toward_zero(i, unit) for i in (known(a.facts), held(a.facts)))
        tree = _at_places(exp.Trunc, a.tree, places)
        return Scalar(tree, facts_of(DOUBLE, first, second, nullable=a.facts.nullable, step=unit), span)
    if places >= scale:
        return a
    type_ = INTEGER if kind is Kind.INTEGER else decimal(a.facts.type.width, max(0, places))
    ends = ends_of(lambda i: monotone(i, lambda x: _cut_to(x, unit)), a)
    return unary(_at_places(exp.Trunc, a.tree, places), a, type_, ends, lambda x: _cut_to(x, unit), span)


def places_of(a: Scalar, what: str) -> int:
    """The second argument of round and trunc: an integer literal."""
    value = constant(a)
    if not isinstance(value, int) or isinstance(value, bool):
        raise refusal(
            "DP231",
            f"the number of places of {what} is not an integer literal",
            span=a.span,
            repair=f"write the places as a number, as in {what}(x, 2)",
        )
    return max(-MAX_PLACES, min(MAX_PLACES, value))


def _sign(x: Fraction) -> int:
    return (x > 0) - (x < 0)


def _near(interval: Interval, unit: Fraction) -> Interval:
    """Where a DOUBLE can go when it is rounded to a unit: DuckDB multiplies, rounds and divides, in DOUBLE.

    An end that is a small whole number stays where it is when the unit divides it; other ends may move by a unit."""
    if not interval.is_bounded:
        return Interval()
    lo, hi = interval.lo, interval.hi
    assert isinstance(lo, Fraction)
    assert isinstance(hi, Fraction)
    safe = [e.denominator == 1 and (e / unit).denominator == 1 and abs(e / unit) < 2**50 for e in (lo, hi)]
    return floating(
        Interval(lo if safe[0] else lo - unit - abs(lo) / 2**50, hi if safe[1] else hi + unit + abs(hi) / 2**50)
    )


def _half_away(value: Fraction, unit: Fraction) -> Fraction:
    """To the nearest multiple of unit, halves away from zero."""
    whole = math.floor(abs(value) / unit + Fraction(1, 2)) * unit
    return whole if value >= 0 else -whole


def _cut_to(value: Fraction, unit: Fraction) -> Fraction:
    """The nearest multiple of unit toward zero."""
    return math.trunc(value / unit) * unit


def _toward_zero(interval: Interval, unit: Fraction) -> Interval:
    """Where a DOUBLE can go when it is cut: never further from 0, but for the rounding of a division by the unit."""
    if not interval.is_bounded:
        return Interval()
    lo, hi = interval.lo, interval.hi
    assert isinstance(lo, Fraction)
    assert isinstance(hi, Fraction)
    lo, hi = (_cut_to(end, unit) for end in (lo, hi))
    margins = [Fraction(0) if unit == 1 else unit + abs(end) / 2**50 for end in (lo, hi)]
    return floating(Interval(lo - margins[0], hi + margins[1]))


def _at_places(node: type[exp.Expr], tree: exp.Expr, places: int) -> exp.Expr:
    """ROUND, TRUNC; without places where there are none, which DuckDB does twice as fast."""
    if places == 0:
        return node(this=tree)
    number = exp.Literal.number(str(abs(places)))
    return node(this=tree, decimals=exp.Neg(this=number) if places < 0 else number)
