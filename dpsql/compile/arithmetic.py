"""Numbers: + - * / // % and the functions of numbers, each in a type that it cannot overflow.

DuckDB raises "Overflow in multiplication of INT64 (...)" with the operands in the message. So the held intervals of
the operands choose the type: BIGINT while the result is proved to fit 64 bits, HUGEINT up to 127, DOUBLE beyond;
DECIMAL in 64-bit integers while 18 digits are enough, in 128-bit ones up to 38 digits, DOUBLE beyond. DOUBLE never
raises; it may become infinite or NaN, and then nothing is known of the result. Division by 0 gives NULL.

The result types of DECIMAL operators are DuckDB's own (`sum_type`, `product_type`; compared with the engine in the
tests), since DuckDB checks for overflow against those.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction

from sqlglot import exp

from dpsql.compile.ir import Facts, Scalar, Value
from dpsql.compile.kinds import (
    DOUBLE,
    FAST_DIGITS,
    INTEGER,
    MAX_DIGITS,
    as_decimal,
    constant,
    convert,
    decimal,
    digits,
    settled,
    words,
)
from dpsql.compile.literals import INT64, INT128, cast, literal
from dpsql.compile.ranges import (
    EVERYTHING,
    Interval,
    Unsure,
    common_step,
    facts_of,
    floating,
    held,
    is_huge,
    known,
    magnitude,
    mapped,
    minus,
    monotone,
    negative,
    plus,
    quotient,
    remainder,
    step_of,
    times,
    truncated,
)
from dpsql.compile.trees import wrapped
from dpsql.errors import Span, refusal
from dpsql.policy.facts import Kind, SqlType

Rule = Callable[[Interval, Interval], Interval]
_BIG = Interval(Fraction(INT64[0]), Fraction(INT64[1]))
_HUGE = Interval(Fraction(INT128[0]), Fraction(INT128[1]))


def numeric(scalar: Scalar, what: str) -> Scalar:
    """The scalar, which must be a number; NULL counts as an integer."""
    if scalar.facts.is_numeric:
        return convert(scalar, scalar.facts.type)
    repair = {
        Kind.VARCHAR: "convert the text with TRY_CAST(x AS DOUBLE), which is NULL where it spells no number",
        Kind.BOOLEAN: "write CAST(x AS INTEGER), or CASE WHEN x THEN 1 ELSE 0 END",
    }.get(scalar.facts.type.kind, "take a part of it, as in year(d), or a difference, as in date_diff('day', a, b)")
    raise refusal("DP232", f"{what} needs a number and is given {words(scalar.facts)}", span=scalar.span, repair=repair)


def add(a: Scalar, b: Scalar, span: Span | None) -> Scalar:
    return _linear(exp.Add, plus, a, b, span, "+")


def subtract(a: Scalar, b: Scalar, span: Span | None) -> Scalar:
    return _linear(exp.Sub, minus, a, b, span, "-")


def _linear(node: type[exp.Binary], rule: Rule, a: Scalar, b: Scalar, span: Span | None, sign: str) -> Scalar:
    a, b = _pair(a, b, sign)
    kind = a.facts.type.kind
    if kind is Kind.INTEGER:
        return _integers(node, rule, a, b, span)
    if kind is Kind.DOUBLE:
        return _doubles(node, rule, a, b, span, common_step([a.facts, b.facts]))
    known_, holds = _both(rule, a, b)
    type_ = sum_type(a.facts.type, b.facts.type)
    if type_.width > FAST_DIGITS:
        a, b = _shrunk(a), _shrunk(b)
        type_ = sum_type(a.facts.type, b.facts.type)
    operands = [digits(held(s.facts), type_.scale) for s in (a, b)]  # DuckDB converts them to the result's type first
    if max(digits(holds, type_.scale), *operands) > type_.width:
        return _linear(node, rule, convert(a, DOUBLE), convert(b, DOUBLE), span, sign)
    return _computed(node, a, b, facts_of(type_, known_, holds, nullable=_nullable(a, b)), _exact(sign), span)


def multiply(a: Scalar, b: Scalar, span: Span | None) -> Scalar:
    a, b = _pair(a, b, "*")
    kind = a.facts.type.kind
    if kind is Kind.INTEGER:
        return _integers(exp.Mul, times, a, b, span)
    if kind is Kind.DOUBLE:
        steps = [step_of(s.facts) for s in (a, b)]
        step = None if None in steps else math.prod(s for s in steps if s is not None)
        return _doubles(exp.Mul, times, a, b, span, step)
    known_, holds = _both(times, a, b)
    scale = a.facts.type.scale + b.facts.type.scale
    needed = digits(holds, scale)
    if scale > MAX_DIGITS or needed > MAX_DIGITS:
        return multiply(convert(a, DOUBLE), convert(b, DOUBLE), span)
    if needed <= FAST_DIGITS:
        a, b = _shrunk(a, FAST_DIGITS), _shrunk(b, FAST_DIGITS)
    elif product_type(a.facts.type, b.facts.type).width < needed:
        width = max(FAST_DIGITS + 1, needed - b.facts.type.width)
        a = convert(a, decimal(max(width, a.facts.type.width), a.facts.type.scale))
    type_ = product_type(a.facts.type, b.facts.type)
    if type_.width < needed:
        return multiply(convert(a, DOUBLE), convert(b, DOUBLE), span)
    return _computed(exp.Mul, a, b, facts_of(type_, known_, holds, nullable=_nullable(a, b)), _exact("*"), span)


def divide(a: Scalar, b: Scalar, span: Span | None) -> Scalar:
    """a / b as a DOUBLE; NULL where b is 0 (plain DuckDB gives an infinity)."""
    a, b = numeric(a, "/"), numeric(b, "/")
    grain = None if b.facts.type.kind is Kind.DOUBLE else step_of(b.facts)
    exact = [quotient(of(a.facts), of(b.facts), grain) for of in (known, held)]
    x, y = convert(a, DOUBLE), convert(b, DOUBLE)
    ranges = [floating(q, of(x.facts), of(y.facts)) for q, of in zip(exact, (known, held), strict=True)]
    tree = exp.Div(this=wrapped(x.tree), expression=wrapped(_unless_zero(y)), typed=False, safe=False)
    facts = facts_of(DOUBLE, *ranges, nullable=_nullable(a, b) or _may_be_zero(b))
    return settled(tree, facts, [x, y], span)


def divide_whole(a: Scalar, b: Scalar, span: Span | None) -> Scalar:
    """a // b: of integers, toward zero; of other numbers the plain quotient, as in DuckDB. NULL where b is 0."""
    a, b = numeric(a, "//"), numeric(b, "//")
    if not a.facts.type.kind is b.facts.type.kind is Kind.INTEGER:
        return divide(a, b, span)
    one = Fraction(1)
    return _integers(exp.IntDiv, lambda x, y: truncated(quotient(x, y, one)), a, b, span, guarded=True)


def modulo(a: Scalar, b: Scalar, span: Span | None) -> Scalar:
    """a % b with the sign of a; NULL where b is 0."""
    a, b = _pair(a, b, "%")
    kind = a.facts.type.kind
    grain = Fraction(0) if kind is Kind.DOUBLE else min(step_of(a.facts), step_of(b.facts))  # type: ignore[type-var]
    if kind is Kind.INTEGER:
        return _integers(exp.Mod, lambda x, y: remainder(x, y, Fraction(1)), a, b, span, guarded=True)
    known_, holds = _both(lambda x, y: remainder(x, y, grain), a, b)  # type: ignore[arg-type]
    nullable = _nullable(a, b) or _may_be_zero(b)
    if kind is Kind.DOUBLE:
        ends = [floating(i, of(a.facts), of(b.facts)) for i, of in ((known_, known), (holds, held))]
        facts = facts_of(DOUBLE, *ends, nullable=nullable, step=common_step([a.facts, b.facts]))
    else:
        a, b = _shrunk(a), _shrunk(b)
        x, y = a.facts.type, b.facts.type
        scale = max(x.scale, y.scale)
        width = max(x.width - x.scale, y.width - y.scale) + scale
        if width > MAX_DIGITS:
            return modulo(convert(a, DOUBLE), convert(b, DOUBLE), span)
        facts = facts_of(decimal(width, scale), known_, holds, nullable=nullable)
    tree = exp.Mod(this=wrapped(a.tree), expression=wrapped(_unless_zero(b)))
    return _computed_tree(tree, a, b, facts, _exact("%"), span)


def negate(a: Scalar, span: Span | None) -> Scalar:
    a = numeric(a, "-")
    ranges = _one(negative, a)
    a = _roomy(a, ranges[1])
    return _unary(exp.Neg(this=wrapped(a.tree)), a, a.facts.type, ranges, lambda x: -x, span)


def absolute(a: Scalar, span: Span | None) -> Scalar:
    a = numeric(a, "abs")
    ranges = _one(magnitude, a)
    if a.facts.type.kind is Kind.DOUBLE and not known(a.facts).is_bounded:
        ranges = (Interval(Fraction(0)), ranges[1])
    a = _roomy(a, ranges[1])
    return _unary(exp.Abs(this=a.tree), a, a.facts.type, ranges, abs, span)


def sign(a: Scalar, span: Span | None) -> Scalar:
    """-1, 0 or 1 (0 for NaN, as in DuckDB)."""
    a = numeric(a, "sign")
    ends = [Interval(Fraction(-1), Fraction(1))] * 2
    bounds = known(a.facts)
    if bounds.is_bounded:
        ends[0] = monotone(bounds, lambda x: Fraction((x > 0) - (x < 0)))
    tree = cast(exp.Sign(this=a.tree), INTEGER)
    return _unary(tree, a, INTEGER, (ends[0], ends[1]), lambda x: (x > 0) - (x < 0), span)


def floor(a: Scalar, span: Span | None) -> Scalar:
    return _whole(exp.Floor, math.floor, a, span)


def ceiling(a: Scalar, span: Span | None) -> Scalar:
    return _whole(exp.Ceil, math.ceil, a, span)


def _whole(node: type[exp.Func], function: Callable[[Fraction], int], a: Scalar, span: Span | None) -> Scalar:
    """floor and ceil: a DOUBLE of a DOUBLE or an integer, a DECIMAL without places of a DECIMAL, as in DuckDB."""
    a = numeric(a, node.__name__.lower())
    if a.facts.type.kind is Kind.INTEGER:
        return convert(a, DOUBLE)
    ranges = _one(lambda i: monotone(i, lambda x: Fraction(function(x))), a)
    is_double = a.facts.type.kind is Kind.DOUBLE
    type_ = DOUBLE if is_double else decimal(a.facts.type.width, 0)
    result = _unary(node(this=a.tree), a, type_, ranges, lambda x: function(x), span)
    return result if not is_double else _with_step(result, Fraction(1))


def rounded(a: Scalar, places: int, span: Span | None) -> Scalar:
    """round(x, places), half away from zero. An integer or DECIMAL keeps its kind where there is room."""
    a = numeric(a, "round")
    kind, scale = a.facts.type.kind, a.facts.type.scale
    if kind is Kind.DOUBLE:
        # DuckDB multiplies by a power of ten, rounds and divides; the result may be off by one more rounding.
        # Out of the range of a DOUBLE's digits it is the argument itself, or 0.
        unit = Fraction(10) ** max(-330, min(330, -places))
        wide = [plus(i, Interval(-unit, unit)) for i in (known(a.facts), held(a.facts))]
        if places >= 0:
            wide = [
                i if _is_on_grid(i, unit) else w for i, w in zip((known(a.facts), held(a.facts)), wide, strict=True)
            ]
        ends = [floating(w, i) for w, i in zip(wide, (known(a.facts), held(a.facts)), strict=True)]
        tree = exp.Round(this=a.tree, decimals=_places(places))
        return Scalar(tree, facts_of(DOUBLE, *ends, nullable=a.facts.nullable, step=unit), span)
    if places >= scale:
        return a
    unit = Fraction(10) ** -places
    ranges = _one(lambda i: monotone(i, lambda x: _half_away(x, unit)), a)
    if kind is Kind.INTEGER:
        if digits(ranges[1], 0) > MAX_DIGITS:
            return rounded(convert(a, DOUBLE), places, span)
        a = _roomy(a, ranges[1])
        type_ = INTEGER
    else:
        width = a.facts.type.width if scale else min(MAX_DIGITS, a.facts.type.width + 1)
        type_ = decimal(width, max(0, places))
        if digits(ranges[1], type_.scale) > type_.width:
            return rounded(convert(a, DOUBLE), places, span)
    tree = exp.Round(this=a.tree, decimals=_places(places))
    return _unary(tree, a, type_, ranges, lambda x: _half_away(x, unit), span)


def places_of(a: Scalar) -> int:
    """The second argument of round: an integer literal."""
    value = constant(a)
    if not isinstance(value, int) or isinstance(value, bool):
        raise refusal(
            "DP231",
            "the number of places of round is not an integer literal",
            span=a.span,
            repair="write the places as a number, as in round(x, 2)",
        )
    return max(-400, min(400, value))


def in_its_type(a: Scalar, branches: list[Scalar]) -> Scalar:
    """An expression that takes one of its branches' values, back in 64 bits where only a branch needed more."""
    if any(is_huge(b.facts) for b in branches) and a.facts.type == INTEGER and not is_huge(a.facts):
        return Scalar(cast(a.tree, INTEGER), a.facts, a.span)
    return a


def sum_type(a: SqlType, b: SqlType) -> SqlType:
    """DuckDB's type of a + b and a - b."""
    scale = max(a.scale, b.scale)
    return decimal(min(MAX_DIGITS, max(a.width - a.scale, b.width - b.scale) + scale + 1), scale)


def product_type(a: SqlType, b: SqlType) -> SqlType:
    """DuckDB's type of a * b: it stays in 64 bits where both factors are, and checks for overflow at run time."""
    scale, width = a.scale + b.scale, a.width + b.width
    if width > FAST_DIGITS and max(a.width, b.width) <= FAST_DIGITS and scale < FAST_DIGITS:
        width = FAST_DIGITS
    return decimal(min(MAX_DIGITS, width), scale)


def _pair(a: Scalar, b: Scalar, sign: str) -> tuple[Scalar, Scalar]:
    """Both as INTEGER, both as DECIMAL or both as DOUBLE."""
    a, b = numeric(a, sign), numeric(b, sign)
    kinds = {a.facts.type.kind, b.facts.type.kind}
    if Kind.DECIMAL in kinds and Kind.DOUBLE not in kinds:
        a, b = as_decimal(a), as_decimal(b)
        kinds = {a.facts.type.kind, b.facts.type.kind}
    if Kind.DOUBLE in kinds:
        a, b = convert(a, DOUBLE), convert(b, DOUBLE)
    return a, b


def _integers(
    node: type[exp.Binary], rule: Rule, a: Scalar, b: Scalar, span: Span | None, guarded: bool = False
) -> Scalar:
    """An operator on integers in BIGINT, HUGEINT or DOUBLE, as the held interval of the result allows."""
    known_, holds = _both(rule, a, b)
    if not _inside(holds, _HUGE):
        x, y = convert(a, DOUBLE), convert(b, DOUBLE)
        tree = node(this=wrapped(x.tree), expression=wrapped(_unless_zero(y) if guarded else y.tree))
        ends = [floating(i, of(x.facts), of(y.facts)) for i, of in ((known_, known), (holds, held))]
        return settled(tree, facts_of(DOUBLE, *ends, nullable=_nullable(a, b), step=Fraction(1)), [x, y], span)
    a, b = _roomy(a, holds), _roomy(b, holds)
    nullable = _nullable(a, b) or (guarded and _may_be_zero(b))
    facts = facts_of(INTEGER, known_, holds, nullable=nullable)
    tree = node(this=wrapped(a.tree), expression=wrapped(_unless_zero(b) if guarded else b.tree))
    if (is_huge(a.facts) or is_huge(b.facts)) and not is_huge(facts):
        tree = cast(tree, INTEGER)  # type: ignore[assignment]
    return _computed_tree(tree, a, b, facts, _exact(_SIGNS[node]), span)


def _doubles(
    node: type[exp.Binary], rule: Rule, a: Scalar, b: Scalar, span: Span | None, step: Fraction | None
) -> Scalar:
    ends = [floating(i, of(a.facts), of(b.facts)) for i, of in zip(_both(rule, a, b), (known, held), strict=True)]
    tree = node(this=wrapped(a.tree), expression=wrapped(b.tree))
    return Scalar(tree, facts_of(DOUBLE, *ends, nullable=_nullable(a, b), step=step), span)


def _computed(
    node: type[exp.Binary], a: Scalar, b: Scalar, facts: Facts, exact: Callable[..., Value | None], span: Span | None
) -> Scalar:
    return _computed_tree(node(this=wrapped(a.tree), expression=wrapped(b.tree)), a, b, facts, exact, span)


def _computed_tree(
    tree: exp.Expression, a: Scalar, b: Scalar, facts: Facts, exact: Callable[..., Value | None], span: Span | None
) -> Scalar:
    """With the domain, where both operands have finite ones."""
    domain, null = mapped(lambda x, y: _typed(exact(Fraction(x), Fraction(y)), facts.type), [a.facts, b.facts])
    result = facts_of(
        facts.type,
        known(facts),
        held(facts),
        domain=domain,
        nullable=facts.nullable if domain is None else null or _nullable(a, b),
        step=facts.step,
    )
    return settled(tree, result, [a, b], span)


def _unary(
    tree: exp.Expression,
    a: Scalar,
    type_: SqlType,
    ranges: tuple[Interval, Interval],
    exact: Callable[[Fraction], Fraction | int],
    span: Span | None,
) -> Scalar:
    domain, _ = mapped(lambda x: _typed(Fraction(exact(Fraction(x))), type_), [a.facts])
    return settled(
        tree, facts_of(type_, *ranges, domain=domain, nullable=a.facts.nullable, step=step_of(a.facts)), [a], span
    )


def _exact(sign: str) -> Callable[[Fraction, Fraction], Fraction | None]:
    """The operator on exact numbers; None is NULL."""

    def compute(x: Fraction, y: Fraction) -> Fraction | None:
        if sign == "+":
            return x + y
        if sign == "-":
            return x - y
        if sign == "*":
            return x * y
        if y == 0:
            return None
        whole = Fraction(math.trunc(x / y))
        return whole if sign == "//" else x - y * whole

    return compute


_SIGNS: dict[type[exp.Expression], str] = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.IntDiv: "//", exp.Mod: "%"}


def _typed(value: Fraction | None, type_: SqlType) -> Value | None:
    if value is None:
        return None
    if type_.kind is Kind.INTEGER:
        return int(value)
    if type_.kind is Kind.DECIMAL:
        return Decimal((value * 10**type_.scale).numerator).scaleb(-type_.scale)
    raise Unsure


def _both(rule: Rule, a: Scalar, b: Scalar) -> tuple[Interval, Interval]:
    return rule(known(a.facts), known(b.facts)), rule(held(a.facts), held(b.facts))


def _one(rule: Callable[[Interval], Interval], a: Scalar) -> tuple[Interval, Interval]:
    """A rule for one operand; of a DOUBLE, nothing is known unless the operand is bounded."""
    if a.facts.type.kind is not Kind.DOUBLE:
        return rule(known(a.facts)), rule(held(a.facts))
    first, second = (rule(i) if i.is_bounded else EVERYTHING for i in (known(a.facts), held(a.facts)))
    return first, second


def _nullable(*several: Scalar) -> bool:
    return any(s.facts.nullable for s in several)


def _inside(a: Interval, b: Interval) -> bool:
    assert a.lo is not None and a.hi is not None and b.lo is not None and b.hi is not None
    return a.lo >= b.lo and a.hi <= b.hi  # type: ignore[operator]


def _roomy(a: Scalar, holds: Interval) -> Scalar:
    """An integer operand as a HUGEINT where the result needs it."""
    if a.facts.type.kind is not Kind.INTEGER or _inside(holds, _BIG) or is_huge(a.facts):
        return a
    return Scalar(cast(a.tree, "HUGEINT"), a.facts, a.span)


def _shrunk(a: Scalar, above: int = 0) -> Scalar:
    """A DECIMAL in the fewest digits that its held interval allows, if it has more than `above`."""
    width = digits(held(a.facts), a.facts.type.scale)
    if a.facts.type.width <= above or width >= a.facts.type.width:
        return a
    return convert(a, decimal(width, a.facts.type.scale))


def _may_be_zero(b: Scalar) -> bool:
    """Whether a divisor can be 0 before any filter."""
    interval = held(b.facts)
    return (interval.lo is None or interval.lo <= 0) and (interval.hi is None or interval.hi >= 0)  # type: ignore[operator]


def _unless_zero(b: Scalar) -> exp.Expression:
    """NULL in place of a divisor 0."""
    if not _may_be_zero(b):
        return b.tree
    return exp.Nullif(this=b.tree, expression=literal(0, b.facts.type))


def _with_step(a: Scalar, step: Fraction) -> Scalar:
    facts = a.facts
    return Scalar(
        a.tree,
        facts_of(facts.type, known(facts), held(facts), domain=facts.domain, nullable=facts.nullable, step=step),
        a.span,
    )


def _half_away(value: Fraction, unit: Fraction) -> Fraction:
    """To the nearest multiple of unit, halves away from zero."""
    whole = math.floor(abs(value) / unit + Fraction(1, 2)) * unit
    return whole if value >= 0 else -whole


def _is_on_grid(interval: Interval, unit: Fraction) -> bool:
    """Whether both ends are whole: rounding then does not leave the interval."""
    return all(isinstance(e, Fraction) and e.denominator == 1 and abs(e) < 2**53 for e in (interval.lo, interval.hi))


def _places(places: int) -> exp.Expression:
    return exp.Neg(this=exp.Literal.number(str(-places))) if places < 0 else exp.Literal.number(str(places))
