"""The operators + - * / // % and unary minus, each in a type that it cannot overflow.

DuckDB raises "Overflow in multiplication of INT64 (...)" with the operands in the message. So the held intervals of
the operands choose the type: BIGINT while the result is proved to fit 64 bits, HUGEINT up to 127, DOUBLE beyond;
DECIMAL in 64-bit integers while 18 digits are enough, in 128-bit ones up to 38 digits, DOUBLE beyond. DOUBLE never
raises; it may become infinite or NaN, and then nothing is known of the result. Division by 0 gives NULL.

The result types of DECIMAL operators are DuckDB's own (`sum_type`, `product_type`; compared with the engine in the
tests), since DuckDB checks for overflow against those.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

from sqlglot import exp

from dpsql.compile.guards import repeatable
from dpsql.compile.ir import Facts, Scalar, Value
from dpsql.compile.kinds import (
    DOUBLE,
    FAST_DIGITS,
    INTEGER,
    MAX_DIGITS,
    as_decimal,
    convert,
    decimal,
    digits,
    room,
    settled,
    text_of,
    words,
)
from dpsql.compile.literals import INT64, INT128, cast, decimal_of, is_literal, literal
from dpsql.compile.ranges import (
    EVERYTHING,
    Interval,
    Unsure,
    common_step,
    double_below,
    facts_of,
    floating,
    held,
    is_huge,
    known,
    mapped,
    minus,
    negative,
    plus,
    quotient,
    remainder,
    step_of,
    times,
    toward_zero,
)
from dpsql.compile.trees import wrapped
from dpsql.errors import Span, refusal
from dpsql.policy.facts import Kind, SqlType

Rule = Callable[[Interval, Interval], Interval]
Ends = tuple[Interval, Interval]
"""The known interval and the held one."""


def add(a: Scalar, b: Scalar, span: Span | None) -> Scalar:
    return _linear(exp.Add, plus, a, b, span)


def subtract(a: Scalar, b: Scalar, span: Span | None) -> Scalar:
    return _linear(exp.Sub, minus, a, b, span)


def _linear(node: type[exp.Expr], rule: Rule, a: Scalar, b: Scalar, span: Span | None) -> Scalar:
    a, b = _pair(a, b, _SIGNS[node])
    kind = a.facts.type.kind
    if kind is Kind.INTEGER:
        return _integers(node, rule, a, b, span)
    if kind is Kind.DOUBLE:
        return _doubles(node, rule, a, b, span, common_step([a.facts, b.facts]))
    ends = _both(rule, a, b)
    type_ = sum_type(a.facts.type, b.facts.type)
    if type_.width > FAST_DIGITS:
        a, b = _shrunk(a), _shrunk(b)
        type_ = sum_type(a.facts.type, b.facts.type)
    # DuckDB converts both operands to the result's type first, so they must fit it as well.
    if max(digits(i, type_.scale) for i in (ends[1], held(a.facts), held(b.facts))) > type_.width:
        return _linear(node, rule, convert(a, DOUBLE), convert(b, DOUBLE), span)
    return _exactly(node, a, b, facts_of(type_, *ends, nullable=nullable(a, b)), span)


def multiply(a: Scalar, b: Scalar, span: Span | None) -> Scalar:
    a, b = _pair(a, b, "*")
    kind = a.facts.type.kind
    if kind is Kind.INTEGER:
        return _integers(exp.Mul, times, a, b, span)
    if kind is Kind.DOUBLE:
        steps = [step_of(a.facts), step_of(b.facts)]
        step = None if steps[0] is None or steps[1] is None else steps[0] * steps[1]
        return _doubles(exp.Mul, times, a, b, span, step)
    ends = _both(times, a, b)
    scale = a.facts.type.scale + b.facts.type.scale
    needed = digits(ends[1], scale)
    if needed <= FAST_DIGITS:
        a, b = _shrunk(a, FAST_DIGITS), _shrunk(b, FAST_DIGITS)
    elif needed <= MAX_DIGITS and product_type(a.facts.type, b.facts.type).width < needed:
        width = max(FAST_DIGITS + 1, needed - b.facts.type.width)  # one factor of 128 bits makes the product so
        a = convert(a, decimal(max(width, a.facts.type.width), a.facts.type.scale))
    type_ = product_type(a.facts.type, b.facts.type)
    if scale > MAX_DIGITS or needed > type_.width:
        return multiply(convert(a, DOUBLE), convert(b, DOUBLE), span)
    return _exactly(exp.Mul, a, b, facts_of(type_, *ends, nullable=nullable(a, b)), span)


def divide(a: Scalar, b: Scalar, span: Span | None) -> Scalar:
    """a / b as a DOUBLE; NULL where b is 0 (plain DuckDB gives an infinity)."""
    a, b = numeric(a, "/"), numeric(b, "/")
    step = None if b.facts.type.kind is Kind.DOUBLE else step_of(b.facts)
    grain = None if step is None else double_below(step)
    maybe_null = nullable(a, b) or may_be_zero(b)
    # Of what both are as DOUBLEs: 21 / 0.7 is more than 30 there, since 0.7 is less.
    a, b = convert(a, DOUBLE), convert(b, DOUBLE)
    ends = _both(lambda x, y: quotient(x, y, grain), a, b)
    tree = exp.Div(this=wrapped(a.tree), expression=wrapped(unless_zero(b)), typed=False, safe=False)
    return settled(tree, facts_of(DOUBLE, *_rounded_out(ends, a, b), nullable=maybe_null), [a, b], span)


def divide_whole(a: Scalar, b: Scalar, span: Span | None) -> Scalar:
    """a // b: of integers, toward zero; of other numbers the plain quotient, as in DuckDB. NULL where b is 0."""
    a, b = numeric(a, "//"), numeric(b, "//")
    if not a.facts.type.kind is b.facts.type.kind is Kind.INTEGER:
        return divide(a, b, span)
    return _integers(exp.IntDiv, lambda x, y: toward_zero(quotient(x, y, Fraction(1))), a, b, span, guarded=True)


def modulo(a: Scalar, b: Scalar, span: Span | None) -> Scalar:
    """a % b with the sign of a; NULL where b is 0."""
    a, b = _pair(a, b, "%")
    kind = a.facts.type.kind
    if kind is Kind.INTEGER:
        return _integers(exp.Mod, lambda x, y: remainder(x, y, Fraction(1)), a, b, span, guarded=True)
    if kind is Kind.DOUBLE:
        step = common_step([a.facts, b.facts])
        return _doubles(exp.Mod, lambda x, y: remainder(x, y, Fraction(0)), a, b, span, step, guarded=True)
    a, b = _shrunk(a), _shrunk(b)
    x, y = a.facts.type, b.facts.type
    scale = max(x.scale, y.scale)
    width = max(x.width - x.scale, y.width - y.scale) + scale
    if width > MAX_DIGITS:
        return modulo(convert(a, DOUBLE), convert(b, DOUBLE), span)
    ends = _both(lambda x, y: remainder(x, y, Fraction(1, 10**scale)), a, b)
    facts = facts_of(decimal(width, scale), *ends, nullable=nullable(a, b) or may_be_zero(b))
    return _exactly(exp.Mod, a, b, facts, span, guarded=True)


def negate(a: Scalar, span: Span | None) -> Scalar:
    a = numeric(a, "-")
    ends = ends_of(negative, a)
    a = roomy(a, ends[1])
    return unary(exp.Neg(this=wrapped(a.tree)), a, a.facts.type, ends, lambda x: -x, span)


# What the rules here share with the functions of `rounding`.


def numeric(scalar: Scalar, what: str) -> Scalar:
    """The scalar, which must be a number; NULL counts as an integer."""
    if scalar.facts.is_numeric:
        return convert(scalar, scalar.facts.type)
    x = text_of(scalar)
    repair = {
        Kind.VARCHAR: f"convert the text with TRY_CAST({x} AS DOUBLE), which is NULL where it spells no number",
        Kind.BOOLEAN: f"write CAST({x} AS INTEGER)",
    }.get(scalar.facts.type.kind, f"take a part of it, as in year({x}), or a difference: date_diff('day', a, b)")
    raise refusal("DP232", f"{what} needs a number and is given {words(scalar.facts)}", span=scalar.span, repair=repair)


def nullable(*several: Scalar) -> bool:
    return any(s.facts.nullable for s in several)


def ends_of(rule: Callable[[Interval], Interval], a: Scalar) -> Ends:
    """Both intervals under a rule for one operand; of a DOUBLE nothing is known unless it is bounded."""
    if a.facts.type.kind is not Kind.DOUBLE:
        return rule(known(a.facts)), rule(held(a.facts))
    first, second = (rule(i) if i.is_bounded else EVERYTHING for i in (known(a.facts), held(a.facts)))
    return first, second


def roomy(a: Scalar, holds: Interval) -> Scalar:
    """An integer operand as a HUGEINT where the result needs it."""
    if a.facts.type.kind is not Kind.INTEGER or _inside(holds, *INT64) or is_huge(a.facts):
        return a
    inner = a.tree.this if is_literal(a.tree) else a.tree
    return Scalar(cast(inner, "HUGEINT"), a.facts, a.span)


def in_its_type(a: Scalar, branches: Sequence[Scalar]) -> Scalar:
    """An expression back in 64 bits where only an operand needed more."""
    if any(is_huge(b.facts) for b in branches) and a.facts.type == INTEGER and not is_huge(a.facts):
        return Scalar(cast(a.tree, INTEGER), a.facts, a.span)
    return a


def unary(
    tree: exp.Expr,
    a: Scalar,
    type_: SqlType,
    ends: Ends,
    exact: Callable[[Fraction], Fraction | int],
    span: Span | None,
    step: Fraction | None = None,
) -> Scalar:
    """A strict function of one number, with its domain where the operand has one."""
    domain, _ = mapped(lambda x: _typed(Fraction(exact(Fraction(x))), type_), [a.facts], MAX_FRACTIONS)
    step = step_of(a.facts) if step is None else step
    facts = facts_of(type_, *ends, domain=domain, nullable=a.facts.nullable, step=step)
    return in_its_type(settled(tree, facts, [a], span), [a])


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
    node: type[exp.Expr], rule: Rule, a: Scalar, b: Scalar, span: Span | None, *, guarded: bool = False
) -> Scalar:
    """An operator on integers in BIGINT, HUGEINT or DOUBLE, as the held interval of the result allows."""
    ends = _both(rule, a, b)
    if not _inside(ends[1], *INT128):
        a, b = convert(a, DOUBLE), convert(b, DOUBLE)
        return _doubles(node, rule, a, b, span, Fraction(1), guarded=guarded)
    a, b = roomy(a, ends[1]), roomy(b, ends[1])
    facts = facts_of(INTEGER, *ends, nullable=nullable(a, b) or (guarded and may_be_zero(b)))
    return in_its_type(_exactly(node, a, b, facts, span, guarded=guarded), [a, b])


def _doubles(
    node: type[exp.Expr],
    rule: Rule,
    a: Scalar,
    b: Scalar,
    span: Span | None,
    step: Fraction | None,
    *,
    guarded: bool = False,
) -> Scalar:
    ends = _rounded_out(_both(rule, a, b), a, b)
    tree = node(this=wrapped(a.tree), expression=wrapped(unless_zero(b) if guarded else b.tree))
    maybe_null = nullable(a, b) or (guarded and may_be_zero(b))
    domain = None
    if node in (exp.Add, exp.Sub, exp.Mul):
        sign = _SIGNS[node]
        domain, _ = mapped(
            lambda x, y: _as_double(_result(sign, Fraction(x), Fraction(y))), [a.facts, b.facts], MAX_FRACTIONS
        )
    return Scalar(tree, facts_of(DOUBLE, *ends, domain=domain, nullable=maybe_null, step=step), span)


def _exactly(
    node: type[exp.Expr], a: Scalar, b: Scalar, facts: Facts, span: Span | None, *, guarded: bool = False
) -> Scalar:
    """An operator on integers or DECIMALs, with its domain where both operands have finite ones."""
    domain, null = _domain(_SIGNS[node], a.facts, b.facts, facts.type)
    maybe_null = facts.nullable if domain is None else null or nullable(a, b)
    tree = node(this=wrapped(a.tree), expression=wrapped(unless_zero(b) if guarded else b.tree))
    sharper = facts_of(facts.type, known(facts), held(facts), domain=domain, nullable=maybe_null)
    return settled(tree, sharper, [a, b], span)


_SIGNS: dict[type[exp.Expr], str] = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.IntDiv: "//", exp.Mod: "%"}


def _domain(sign: str, a: Facts, b: Facts, type_: SqlType) -> tuple[list[Value] | None, bool]:
    if type_.kind is Kind.INTEGER:  # in Python's integers, which are fast enough for as many keys as there may be
        return mapped(lambda x, y: _result(sign, x, y), [a, b])
    return mapped(lambda x, y: _typed(_result(sign, Fraction(x), Fraction(y)), type_), [a, b], MAX_FRACTIONS)


MAX_FRACTIONS = 1_000
"""Values of a DECIMAL domain that are computed: exact fractions are slow."""


def _result(sign: str, x: Any, y: Any) -> Any:
    """The operator on integers or fractions; None is NULL."""
    match sign:
        case "+":
            return x + y
        case "-":
            return x - y
        case "*":
            return x * y
    if y == 0:
        return None
    whole = abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)
    return whole if sign == "//" else x - y * whole


def _as_double(value: Fraction) -> float:
    """A result as a DOUBLE, where none of it is rounded away."""
    if abs(value) < 2**1000 and Fraction(float(value)) == value:
        return float(value)
    raise Unsure


def _typed(value: Fraction | None, type_: SqlType) -> Value | None:
    if value is None:
        return None
    if type_.kind is Kind.INTEGER:
        return int(value)
    if type_.kind is Kind.DECIMAL:
        return decimal_of(value, type_.scale)
    raise Unsure


def _both(rule: Rule, a: Scalar, b: Scalar) -> Ends:
    return rule(known(a.facts), known(b.facts)), rule(held(a.facts), held(b.facts))


def _rounded_out(ends: Ends, a: Scalar, b: Scalar) -> Ends:
    """Exact intervals of the operands' exact values, as intervals of what DOUBLE arithmetic makes of them."""
    first, second = (floating(i, of(a.facts), of(b.facts)) for i, of in zip(ends, (known, held), strict=True))
    return first, second


def _inside(a: Interval, lo: int, hi: int) -> bool:
    return a.lo >= lo and a.hi <= hi  # type: ignore[operator]


def _shrunk(a: Scalar, above: int = 0) -> Scalar:
    """A DECIMAL in the fewest digits that its held interval allows, if it has more than `above`."""
    width = room(held(a.facts), a.facts.type.scale)
    if a.facts.type.width <= above or width >= a.facts.type.width:
        return a
    return convert(a, decimal(width, a.facts.type.scale))


def may_be_zero(b: Scalar) -> bool:
    """Whether a divisor can be 0 before any filter."""
    interval = held(b.facts)
    return (interval.lo is None or interval.lo <= 0) and (interval.hi is None or interval.hi >= 0)  # type: ignore[operator]


def unless_zero(b: Scalar) -> exp.Expr:
    """NULL in place of a divisor 0."""
    return exp.Nullif(this=repeatable(b).tree, expression=literal(0, b.facts.type)) if may_be_zero(b) else b.tree
