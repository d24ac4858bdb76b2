"""Elementary functions of DOUBLEs: roots, logarithms, exponentials, powers, angles and their inverses.

Outside its domain a function is NULL, as a division by 0 is: the logarithm of 0, the root of -1, where DuckDB gives
an infinity or NaN and other engines raise. So a bounded argument has a bounded value, LN(age) too. A function may
still overflow to infinity, and then nothing is known of its values.

The engine's mathematics library may differ from Python's in the last digits: every end that is computed here is moved
outward by one part in 2^40, far more than either errs.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction

from sqlglot import exp

from dpsql.compile.arithmetic import may_be_zero, nullable, numeric, unless_zero
from dpsql.compile.calls import Rule
from dpsql.compile.guards import repeatable
from dpsql.compile.ir import Scalar
from dpsql.compile.kinds import DOUBLE, constant, constant_of, convert
from dpsql.compile.literals import literal, null
from dpsql.compile.ranges import EVERYTHING, Interval, facts_of, floating, held, known, magnitude, step_of
from dpsql.compile.trees import wrapped
from dpsql.errors import Span, refusal
from dpsql.policy.facts import Kind

Curve = Callable[[float], float]

_LEAST_DOUBLE = Fraction(5e-324)
_PI = Fraction(math.pi)
MAX_EXACT_EXPONENT = 64
"""Up to it a literal exponent that is a whole number is computed exactly, and keeps the grid of its base."""


@dataclass(frozen=True, slots=True)
class Shape:
    """A function of one DOUBLE. curve: in Python, where it is monotone on its whole domain (falling: decreasing), else
    None. lo, hi: the ends of its domain. strict: whether these ends are outside. values: all that it can give for an
    argument that is finite and in its domain. exact: IEEE 754 has it rounded correctly, so that all agree."""

    name: str
    node: type[exp.Expr]
    curve: Curve | None = None
    lo: int | None = None
    hi: int | None = None
    strict: bool = False
    values: Interval = EVERYTHING
    falling: bool = False
    exact: bool = False


def _within(lo: Fraction | int, hi: Fraction | int) -> Interval:
    """Values between two ends, and a little more for their rounding."""
    return Interval(Fraction(lo) - Fraction(1, 2**40), Fraction(hi) + Fraction(1, 2**40))


SHAPES = (
    Shape("sqrt", exp.Sqrt, math.sqrt, lo=0, values=Interval(Fraction(0)), exact=True),
    Shape("cbrt", exp.Cbrt, math.cbrt),
    Shape("ln", exp.Ln, math.log, lo=0, strict=True),
    Shape("exp", exp.Exp, math.exp, values=Interval(Fraction(0))),
    Shape("degrees", exp.Degrees, math.degrees),
    Shape("radians", exp.Radians, math.radians),
    Shape("sin", exp.Sin, values=_within(-1, 1)),
    Shape("cos", exp.Cos, values=_within(-1, 1)),
    Shape("tan", exp.Tan),
    Shape("cot", exp.Cot),
    Shape("asin", exp.Asin, math.asin, lo=-1, hi=1, values=_within(-_PI / 2, _PI / 2)),
    Shape("acos", exp.Acos, math.acos, lo=-1, hi=1, values=_within(0, _PI), falling=True),
    Shape("atan", exp.Atan, math.atan, values=_within(-_PI / 2, _PI / 2)),
    Shape("sinh", exp.Sinh, math.sinh),
    Shape("cosh", exp.Cosh, values=Interval(Fraction(1))),
    Shape("tanh", exp.Tanh, math.tanh, values=_within(-1, 1)),
    Shape("asinh", exp.Asinh, math.asinh),
    Shape("acosh", exp.Acosh, math.acosh, lo=1, values=Interval(Fraction(0))),
    Shape("atanh", exp.Atanh, math.atanh, lo=-1, hi=1, strict=True),
)


def rule(shape: Shape) -> Rule:
    """The rule of one of them."""
    return lambda call: evaluated(shape, call.arguments[0], call.span)


def evaluated(shape: Shape, a: Scalar, span: Span | None, tree: Callable[[exp.Expr], exp.Expr] | None = None) -> Scalar:
    """A function over its domain, NULL outside it. tree: how it is called, where not by its node alone."""
    inside = restricted(numeric(a, shape.name), shape.lo, shape.hi, strict=shape.strict)
    if inside is None:
        return _nothing(span)
    a = convert(inside, DOUBLE)
    ends = [_image(shape, of(a.facts)) for of in (known, held)]
    made = shape.node(this=a.tree) if tree is None else tree(a.tree)
    return Scalar(made, facts_of(DOUBLE, *ends, nullable=a.facts.nullable), span)


def logarithm(first: Scalar, second: Scalar | None, span: Span | None) -> Scalar:
    """log(x) to the base 10, log(base, x) with a literal base."""
    if second is None:
        shape = Shape("log", exp.Log, math.log10, lo=0, strict=True)
        return evaluated(shape, first, span)
    base = constant(first)
    if not isinstance(base, int | Decimal | float) or isinstance(base, bool) or base <= 0 or base == 1:
        raise refusal(
            "DP231",
            "the base of log is not a number above 0 other than 1",
            span=first.span,
            repair="write log(2, x), log10(x) or ln(x)",
        )
    bottom = convert(first, DOUBLE)
    scale = math.log10(float(base))
    shape = Shape("log", exp.Log, lambda x: math.log10(x) / scale, lo=0, strict=True, falling=base < 1)
    return evaluated(shape, second, span, lambda x: exp.Log(this=bottom.tree, expression=x))


def angle_of(y: Scalar, x: Scalar, span: Span | None) -> Scalar:
    """atan2(y, x): between -pi and pi."""
    y, x = (convert(numeric(s, "atan2"), DOUBLE) for s in (y, x))
    both = [of(y.facts).is_bounded and of(x.facts).is_bounded for of in (known, held)]
    ends = [_within(-_PI, _PI) if bounded else EVERYTHING for bounded in both]
    tree = exp.Atan2(this=y.tree, expression=x.tree)
    return Scalar(tree, facts_of(DOUBLE, *ends, nullable=nullable(y, x)), span)


def pi(span: Span | None) -> Scalar:
    return constant_of(math.pi, DOUBLE, span)


def power(a: Scalar, b: Scalar, span: Span | None) -> Scalar:
    """a ^ b as a DOUBLE. With a literal exponent it is NULL outside its domain: the power of a negative number to a
    fraction, of 0 to a negative number. With a column as exponent it is what DuckDB makes of it."""
    a, b = numeric(a, "^"), numeric(b, "^")
    value = constant(b)
    exponent = None if value is None else Fraction(value)  # type: ignore[arg-type]
    if exponent is None:
        first, second = convert(a, DOUBLE), convert(b, DOUBLE)
        ends = [_box(of(first.facts), of(second.facts)) for of in (known, held)]
        return _powered(first, second, ends, span)
    grain = step_of(a.facts) if a.facts.type.kind is not Kind.DOUBLE else None
    step = step_of(a.facts)
    if exponent.denominator != 1:
        inside = restricted(a, 0, None, strict=exponent < 0)
        if inside is None:
            return _nothing(span)
        a = inside
    a = convert(a, DOUBLE)
    if exponent < 0 and exponent.denominator == 1:
        a = Scalar(unless_zero(a), replace(a.facts, nullable=a.facts.nullable or may_be_zero(a)), a.span)
    ends = [_powers(of(a.facts), exponent, grain) for of in (known, held)]
    exact = exponent.denominator == 1 and 1 <= exponent <= MAX_EXACT_EXPONENT and step is not None
    return _powered(a, convert(b, DOUBLE), ends, span, step ** int(exponent) if exact and step is not None else None)


def restricted(a: Scalar, lo: int | None, hi: int | None, *, strict: bool) -> Scalar | None:
    """The number where it lies between the ends (strict: and not on them), else NULL; None where it never does."""
    inset = Fraction(0)
    if strict:  # the number next to an end: of a DOUBLE to 0, else to 1
        double = _LEAST_DOUBLE if lo == 0 else Fraction(1, 2**53)
        inset = double if a.facts.type.kind is Kind.DOUBLE else Fraction(1, 10**a.facts.type.scale)
    limits = Interval(None if lo is None else lo + inset, None if hi is None else hi - inset)
    holds = _cut(held(a.facts), limits)
    if holds is None:
        return None
    if holds == held(a.facts):
        return a
    exact = _cut(known(a.facts), limits) or holds
    repeatable(a)
    below, above = (exp.GT, exp.LT) if strict else (exp.GTE, exp.LTE)
    tests = [
        node(this=wrapped(a.tree.copy()), expression=literal(end, a.facts.type))
        for node, end in ((below, lo), (above, hi))
        if end is not None
    ]
    test = tests[0] if len(tests) == 1 else exp.And(this=tests[0], expression=tests[1])
    tree = exp.Case(ifs=[exp.If(this=test, true=a.tree.copy())])
    facts = facts_of(a.facts.type, exact, holds, domain=None, nullable=True, step=a.facts.step)
    return Scalar(tree, facts, a.span)


def _cut(a: Interval, limits: Interval) -> Interval | None:
    """The part of an interval within limits, None where there is none."""
    lo = limits.lo if a.lo is None else a.lo if limits.lo is None else max(a.lo, limits.lo)
    hi = limits.hi if a.hi is None else a.hi if limits.hi is None else min(a.hi, limits.hi)
    return None if lo is not None and hi is not None and lo > hi else Interval(lo, hi)  # type: ignore[operator]


def _image(shape: Shape, a: Interval) -> Interval:
    """The values over an interval of arguments. An argument without an upper end may be NaN, and so may the value."""
    if not a.is_bounded:
        return Interval(shape.values.lo, None)
    if shape.curve is None:
        return shape.values if shape.name != "cosh" else _cosh(a)
    ends = [_at(shape.curve, end) for end in (a.lo, a.hi)]
    lo, hi = reversed(ends) if shape.falling else ends
    if lo is None or hi is None:
        return Interval(shape.values.lo, None)
    return _cut(Interval(lo, hi) if shape.exact else _around(lo, hi), shape.values) or EVERYTHING


def _cosh(a: Interval) -> Interval:
    top = _at(math.cosh, magnitude(a).hi)
    return Interval(Fraction(1)) if top is None else Interval(Fraction(1), _around(top, top).hi)


def _at(curve: Curve, end: object) -> Fraction | None:
    """The value at an end, None where it is not finite."""
    assert isinstance(end, Fraction)
    try:
        value = curve(float(end))
    except (OverflowError, ValueError, ZeroDivisionError):
        return None
    return Fraction(value) if math.isfinite(value) else None


def _around(lo: Fraction, hi: Fraction) -> Interval:
    """Doubles outward of two values that were computed nearly."""
    first, second = (abs(end) / 2**40 + _LEAST_DOUBLE for end in (lo, hi))
    return floating(Interval(lo - first, hi + second))


def _powers(a: Interval, n: Fraction, grain: Fraction | None) -> Interval:
    """a ^ n for a literal n; a is free of what n cannot take. grain: the least |a| other than 0, if there is one.

    Where n is a small whole number the ends are exact, and so is a power that a DOUBLE holds: a library that errs by
    less than the last digit gives it."""
    if not a.is_bounded:
        even = n.denominator == 1 and n % 2 == 0
        return Interval(Fraction(0)) if even or (a.lo is not None and a.lo >= 0) else EVERYTHING  # type: ignore[operator]
    lo, hi = a.lo, a.hi
    assert isinstance(lo, Fraction)
    assert isinstance(hi, Fraction)
    if n.denominator == 1 and 0 <= n <= MAX_EXACT_EXPONENT:
        corners = [end ** int(n) for end in (lo, hi)]
        if n > 0 and n % 2 == 0 and lo < 0 < hi:
            corners.append(Fraction(0))
        return floating(Interval(min(corners), max(corners)))
    if lo >= 0:
        least = max(lo, grain or lo) if n < 0 else lo
        return _box(Interval(least, hi), Interval(n, n))
    if n % 2 == 0:
        size = magnitude(a)
        return _powers(size, n, grain)
    if n > 0:
        ends = [_at(lambda x: math.pow(x, n), end) for end in (lo, hi)]
        return EVERYTHING if ends[0] is None or ends[1] is None else _around(ends[0], ends[1])
    if grain is None:
        return EVERYTHING
    top = _at(lambda x: math.pow(x, n), grain)
    return EVERYTHING if top is None else _around(-top, top)


def _box(a: Interval, b: Interval) -> Interval:
    """x ^ y over a box of x >= 0: it is monotone in each of the two, so its ends are at corners."""
    if not (a.is_bounded and b.is_bounded) or a.lo < 0 or (a.lo == 0 and b.lo < 0):  # type: ignore[operator]
        return EVERYTHING
    corners = [_at(lambda x, y=y: math.pow(x, y), x) for x in (a.lo, a.hi) for y in (b.lo, b.hi)]  # type: ignore[misc]
    finite = [c for c in corners if c is not None]
    if len(finite) < len(corners):
        return Interval(Fraction(0))
    around = _around(min(finite), max(finite))
    return _cut(around, Interval(Fraction(0))) or around


def _powered(a: Scalar, b: Scalar, ends: list[Interval], span: Span | None, step: Fraction | None = None) -> Scalar:
    tree = exp.Pow(this=a.tree, expression=b.tree)
    return Scalar(tree, facts_of(DOUBLE, *ends, nullable=nullable(a, b), step=step), span)


def _nothing(span: Span | None) -> Scalar:
    """No row has a value."""
    zero = Interval(Fraction(0), Fraction(0))
    return Scalar(null(DOUBLE), facts_of(DOUBLE, zero, zero, domain=(), nullable=True), span)
