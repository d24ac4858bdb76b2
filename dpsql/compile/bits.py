"""Integers as bits and as numbers: & | xor ~ << >>, gcd, lcm. All in a type that has room."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from sqlglot import exp

from dpsql.compile.arithmetic import in_its_type, multiply, nullable, roomy
from dpsql.compile.ir import Scalar
from dpsql.compile.kinds import INTEGER, constant, constant_of, convert, is_null, settled, words
from dpsql.compile.literals import INT64, cast
from dpsql.compile.ranges import Interval, facts_of, held, is_huge, known, magnitude, mapped, monotone, times
from dpsql.compile.trees import wrapped
from dpsql.errors import Span, refusal
from dpsql.policy.facts import Kind

MAX_SHIFT = 62
MAX_SHIFT_DOWN = 30
"""An INTEGER of 32 bits is 64 bits wide here; beyond its width DuckDB's >> is 0, also of negative numbers."""


def both(node: type[exp.Expr], a: Scalar, b: Scalar, span: Span | None) -> Scalar:
    """a & b, a | b, xor(a, b)."""
    sign, function = _SIGNS[node]
    a, b = whole(a, sign), whole(b, sign)
    exact, holds = (_bits(node, of(a.facts), of(b.facts)) for of in (known, held))
    a, b = _alike(a, b)
    domain, _ = mapped(function, [a.facts, b.facts])
    tree = node(this=wrapped(a.tree), expression=wrapped(b.tree))
    facts = facts_of(INTEGER, exact, holds, domain=domain, nullable=nullable(a, b))
    return in_its_type(settled(tree, facts, [a, b], span), [a, b])


_SIGNS: dict[type[exp.Expr], tuple[str, Callable[[Any, Any], int]]] = {
    exp.BitwiseAnd: ("&", lambda x, y: x & y),
    exp.BitwiseOr: ("|", lambda x, y: x | y),
    exp.BitwiseXor: ("xor", lambda x, y: x ^ y),
}


def _bits(node: type[exp.Expr], a: Interval, b: Interval) -> Interval:
    """With both in -2^n .. 2^n - 1, so is the result; where neither is negative, neither is the result."""
    if not (a.is_bounded and b.is_bounded):
        return Interval()
    ends = [int(end) for end in (a.lo, a.hi, b.lo, b.hi)]  # type: ignore[arg-type]
    width = max((end if end >= 0 else ~end).bit_length() for end in ends)
    if min(ends) < 0:
        return Interval(Fraction(-(2**width)), Fraction(2**width - 1))
    top = min(ends[1], ends[3]) if node is exp.BitwiseAnd else 2**width - 1
    return Interval(Fraction(0), Fraction(top))


def inverse(a: Scalar, span: Span | None) -> Scalar:
    """~a, which is -a - 1."""
    a = whole(a, "~")
    ends = [Interval(*(None if e is None else -e - 1 for e in (i.hi, i.lo))) for i in (known(a.facts), held(a.facts))]  # type: ignore[operator]
    domain, _ = mapped(lambda x: ~int(x), [a.facts])
    facts = facts_of(INTEGER, ends[0], ends[1], domain=domain, nullable=a.facts.nullable)
    return settled(exp.BitwiseNot(this=wrapped(a.tree)), facts, [a], span)


def shifted_left(a: Scalar, count: Scalar, span: Span | None) -> Scalar:
    """a << n is a * 2^n: DuckDB raises for negative numbers and for what does not fit, which a product has room for."""
    return multiply(whole(a, "<<"), constant_of(2 ** _places(count, "<<", MAX_SHIFT), INTEGER, count.span), span)


def shifted_right(a: Scalar, count: Scalar, span: Span | None) -> Scalar:
    """a >> n: divided by 2^n, down."""
    a, places = whole(a, ">>"), _places(count, ">>", MAX_SHIFT_DOWN)
    unit = 2**places
    ends = [monotone(i, lambda x: Fraction(math.floor(x / unit))) for i in (known(a.facts), held(a.facts))]
    domain, _ = mapped(lambda x: int(x) >> places, [a.facts])
    tree = exp.BitwiseRightShift(this=wrapped(a.tree), expression=_as_wide(constant_of(places, INTEGER), a).tree)
    facts = facts_of(INTEGER, ends[0], ends[1], domain=domain, nullable=a.facts.nullable)
    return in_its_type(settled(tree, facts, [a], span), [a])


def common_divisor(a: Scalar, b: Scalar, span: Span | None) -> Scalar:
    """gcd(a, b): never negative, and 0 where both are."""
    a, b = whole(a, "gcd"), whole(b, "gcd")
    ends = [_largest(of(a.facts), of(b.facts)) for of in (known, held)]
    return _pairwise("GCD", math.gcd, a, b, ends, span)


def common_multiple(a: Scalar, b: Scalar, span: Span | None) -> Scalar:
    """lcm(a, b): never negative, and 0 where one is."""
    a, b = whole(a, "lcm"), whole(b, "lcm")
    ends = [Interval(Fraction(0), magnitude(times(of(a.facts), of(b.facts))).hi) for of in (known, held)]
    if ends[1].hi >= 2**126:  # type: ignore[operator]
        raise refusal(
            "DP231",
            "lcm of two integers without bounds can be too large",
            span=span,
            repair="bound them: LEAST(GREATEST(n, 0), 1000000)",
        )
    return _pairwise("LCM", math.lcm, a, b, ends, span)


def _pairwise(
    name: str, function: Callable[..., int], a: Scalar, b: Scalar, ends: list[Interval], span: Span | None
) -> Scalar:
    # DuckDB takes the absolute values of both first.
    sizes = [magnitude(held(s.facts)) for s in (a, b)]
    most = Interval(Fraction(0), max(sizes[0].hi, sizes[1].hi, ends[1].hi))  # type: ignore[type-var]
    a, b = roomy(a, most), roomy(b, most)
    a, b = _alike(a, b)
    domain, _ = mapped(lambda x, y: function(int(x), int(y)), [a.facts, b.facts])
    facts = facts_of(INTEGER, ends[0], ends[1], domain=domain, nullable=nullable(a, b))
    tree = exp.Anonymous(this=name, expressions=[a.tree, b.tree])
    result = settled(tree, facts, [a, b], span)
    wide = most.hi > INT64[1] and not is_huge(result.facts) and result.tree is tree  # type: ignore[operator]
    return Scalar(cast(tree, INTEGER), result.facts, span) if wide else result


def whole(a: Scalar, what: str) -> Scalar:
    """The scalar, which must be an integer."""
    if a.facts.type == INTEGER or is_null(a):
        return convert(a, INTEGER)
    repair = "convert it with CAST(x AS BIGINT)" if a.facts.is_numeric or a.facts.type.kind is Kind.BOOLEAN else ""
    raise refusal(
        "DP232",
        f"{what} needs an integer and is given {words(a.facts)}",
        span=a.span,
        repair=repair or "convert the text with TRY_CAST(x AS BIGINT), which is NULL where it spells no integer",
    )


def _places(n: Scalar, sign: str, most: int) -> int:
    value = constant(n)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= most:
        raise refusal(
            "DP231",
            f"the number of places of {sign} is not an integer literal from 0 to {most}",
            span=n.span,
            repair=f"write it as a number: x {sign} 2",
        )
    return value


def _largest(a: Interval, b: Interval) -> Interval:
    his = [magnitude(i).hi for i in (a, b)]
    return Interval(Fraction(0), None if None in his else max(his))  # type: ignore[type-var]


def _alike(a: Scalar, b: Scalar) -> tuple[Scalar, Scalar]:
    """Both as HUGEINTs where one is."""
    return _as_wide(a, b), _as_wide(b, a)


def _as_wide(a: Scalar, other: Scalar) -> Scalar:
    if not _is_wide(other) or _is_wide(a):
        return a
    inner = a.tree.this if type(a.tree) is exp.Cast and constant(a) is not None else a.tree
    return Scalar(cast(inner, "HUGEINT"), a.facts, a.span)


def _is_wide(a: Scalar) -> bool:
    tree = a.tree
    return is_huge(a.facts) or (type(tree) is exp.Cast and tree.to.this is exp.DType.INT128)
