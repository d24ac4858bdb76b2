"""Exact aggregates over the rows of one unit: for subqueries grouped by it, and windows partitioned by it.

Each is a function of the unit's rows as a multiset: sums run on integers or DECIMALs, never on DOUBLE, whose sum
depends on the order of rows; what depends on that order (first, any_value, list) is refused. Each is total: no sum can
overflow, by proof from the number of rows that a unit can have.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from sqlglot import exp

from dpsql.compile.blocks import is_aggregate
from dpsql.compile.grid import BIGINT, DOUBLE, grid_of, to_grid, to_integer
from dpsql.compile.instead import name_of, not_single, several
from dpsql.compile.ir import Facts, Scalar, Scope
from dpsql.compile.kinds import BOOLEAN
from dpsql.compile.literals import INT64, cast, literal
from dpsql.compile.parse import span_of
from dpsql.compile.ranges import Interval, facts_of, held, known
from dpsql.compile.scalars import lower_scalar
from dpsql.compile.trees import shown, wrapped
from dpsql.errors import Error, Span, refusal
from dpsql.policy.facts import Kind, SqlType

_ANSWERED = "COUNT, COUNT(DISTINCT ...), COUNT_IF, SUM, AVG, MIN, MAX, BOOL_AND and BOOL_OR"


def aggregate(node: exp.Expr, scope: Scope, most: int) -> Scalar:
    """The SQL of an aggregate call over rows of one unit, of which there are `most` at most. Raises DP101, DP203,
    DP204, DP232."""
    call, condition = node, None
    while isinstance(call, exp.Filter):
        more = call.expression.this
        condition = more if condition is None else exp.And(this=wrapped(more), expression=wrapped(condition))
        call = call.this
    span = span_of(node)
    match call:
        case exp.CountIf():
            both = [c for c in (call.this, condition) if c is not None]
            return _count(exp.Star(), exp.and_(*(wrapped(b.copy()) for b in both)), scope, most, span)
        case exp.Count() if call.args.get("expressions"):
            raise several(call, span)
        case exp.Count() if call.this is None or isinstance(call.this, exp.Star):
            return _count(exp.Star(), condition, scope, most, span)
        case exp.Count() if isinstance(call.this, exp.Distinct):
            value = _argument(call.this.expressions[0], condition, scope)
            return _counted(exp.Count(this=exp.Distinct(expressions=[comparable(value)]), big_int=True), most, span)
        case exp.Count():
            return _counted(exp.Count(this=_argument(call.this, condition, scope).tree, big_int=True), most, span)
        case exp.Sum() | exp.Avg() if not isinstance(call.this, exp.Distinct):
            value = _number(call, condition, scope, span)
            return _sum(value, most, span) if isinstance(call, exp.Sum) else _average(value, most, span)
        case exp.Min() | exp.Max() if call.this is None:
            raise refusal("DP101", f"{name_of(call)} of nothing", span=span, repair=f"write {name_of(call)}(column)")
        case exp.Min() | exp.Max() if not call.args.get("expressions") and not isinstance(call.this, exp.Distinct):
            value = _argument(call.this, condition, scope)
            kind = exp.Min if isinstance(call, exp.Min) else exp.Max
            return Scalar(kind(this=comparable(value)), replace(value.facts, nullable=True), span)
        case exp.LogicalAnd() | exp.LogicalOr():
            value = _argument(call.this, condition, scope)
            if value.facts.type.kind is not Kind.BOOLEAN:
                raise refusal("DP232", "BOOL_AND and BOOL_OR take a condition", span=span, repair="compare: x > 0")
            return Scalar(type(call)(this=cast(value.tree, BOOLEAN)), Facts(BOOLEAN), span)
        case _:
            raise _not_answered(call, span)


def _argument(tree: exp.Expr, condition: exp.Expr | None, scope: Scope) -> Scalar:
    """The argument, NULL where a FILTER is not true."""
    for node in [*tree.walk(), *(condition.walk() if condition is not None else ())]:
        if is_aggregate(node) or isinstance(node, exp.Window | exp.Query):
            raise not_single(node)
    if condition is not None:
        tree = exp.Case(ifs=[exp.If(this=condition.copy(), true=tree.copy())])
    return lower_scalar(tree, scope)


def _count(star: exp.Expr, condition: exp.Expr | None, scope: Scope, most: int, span: Span | None) -> Scalar:
    if condition is None:
        return _counted(exp.Count(this=star, big_int=True), most, span)
    one = _argument(exp.Literal.number(1), condition, scope)
    return _counted(exp.Count(this=one.tree, big_int=True), most, span)


def _counted(tree: exp.Expr, most: int, span: Span | None) -> Scalar:
    ends = Interval(Fraction(0), Fraction(most))
    return Scalar(tree, facts_of(BIGINT, ends, ends, nullable=False), span)


def _number(call: exp.Expr, condition: exp.Expr | None, scope: Scope, span: Span | None) -> Scalar:
    value = _argument(call.this, condition, scope)
    if value.facts.type.kind is Kind.BOOLEAN:
        value = _argument(exp.cast(call.this.copy(), exp.DataType.build("BIGINT")), condition, scope)
    if not value.facts.is_numeric:
        repair = f"convert it: TRY_CAST({shown(call.this)} AS BIGINT)"
        raise refusal("DP232", f"{value.facts.type} values cannot be summed", span=span, repair=repair)
    kind = value.facts.type.kind
    if kind is Kind.INTEGER or (kind is Kind.DECIMAL and value.facts.type.width <= 38 - 8):
        ends = held(value.facts)
        if (ends.lo >= INT64[0] and ends.hi <= INT64[1]) or kind is Kind.DECIMAL:  # type: ignore[operator]
            return value
    if not value.facts.is_bounded:
        repair = f"give bounds: LEAST(GREATEST({shown(call.this)}, 0), 100)"
        raise refusal("DP204", "a sum of numbers without bounds has no exact form", span=span, repair=repair)
    return value


def _sum(value: Scalar, most: int, span: Span | None) -> Scalar:
    kind = value.facts.type.kind
    if kind is Kind.DOUBLE or _is_wide(value):
        grid = grid_of(value.facts)
        whole = exp.Sum(this=to_integer(to_grid(value, grid), grid))
        tree: exp.Expr = exp.Mul(this=cast(whole, DOUBLE), expression=literal(float(grid.step), DOUBLE))
        ends = _rounded(_times(most, Interval(grid.lo * grid.step, grid.hi * grid.step)))
        return Scalar(tree, facts_of(DOUBLE, ends, ends, nullable=True, step=grid.step), span)
    ends, holds = _times(most, known(value.facts)), _times(most, held(value.facts))
    if kind is Kind.DECIMAL:
        type_ = SqlType(Kind.DECIMAL, 38, value.facts.type.scale)
        return Scalar(exp.Sum(this=value.tree), facts_of(type_, ends, holds, nullable=True), span)
    tree = exp.Sum(this=value.tree)
    if holds.lo >= INT64[0] and holds.hi <= INT64[1]:  # type: ignore[operator]
        tree = cast(tree, BIGINT)
    return Scalar(tree, facts_of(BIGINT, ends, holds, nullable=True), span)


def _is_wide(value: Scalar) -> bool:
    """Whether an integer or DECIMAL is too wide for an exact sum of its own type."""
    if value.facts.type.kind is Kind.DECIMAL:
        return value.facts.type.width > 38 - 8
    ends = held(value.facts)
    return not (ends.lo >= INT64[0] and ends.hi <= INT64[1])  # type: ignore[operator]


def _average(value: Scalar, most: int, span: Span | None) -> Scalar:
    """The exact sum of integers through their number; so it does not depend on the order of rows."""
    total = _sum(value, most, span)
    n = exp.Count(this=value.tree.copy(), big_int=True)
    tree = exp.Div(this=cast(total.tree, DOUBLE), expression=exp.Nullif(this=n, expression=exp.Literal.number(0)))
    ends, holds = _rounded(known(value.facts)), _rounded(held(value.facts))
    return Scalar(tree, facts_of(DOUBLE, ends, holds, nullable=True), span)


def _times(rows: int, ends: Interval) -> Interval:
    """What so many values of an interval can add up to, one at least."""
    lo, hi = ends.lo, ends.hi
    least = min(lo, lo * rows) if isinstance(lo, Fraction) else None
    most = max(hi, hi * rows) if isinstance(hi, Fraction) else None
    return Interval(least, most)


def _rounded(ends: Interval) -> Interval:
    """Ends moved outward by more than the roundings of a conversion, a product and a quotient."""
    lo, hi = ends.lo, ends.hi
    least = lo - abs(lo) / 2**48 if isinstance(lo, Fraction) else None
    most = hi + abs(hi) / 2**48 if isinstance(hi, Fraction) else None
    return Interval(least, most)


def comparable(value: Scalar) -> exp.Expr:
    """A value in one form for all that are equal. Zeros of both signs are one group, and so are all NaN, which have
    signs too ('-nan' as text): which of them stands for the group, as a key that is shown or by its hash, must not be
    for its first row to say."""
    if value.facts.type.kind is not Kind.DOUBLE:
        return value.tree.copy()
    x = wrapped(value.tree)
    zero = exp.EQ(this=x.copy(), expression=literal(0.0, DOUBLE))
    not_a_number = cast(exp.Literal.string("nan"), DOUBLE)
    ifs = [
        exp.If(this=zero, true=literal(0.0, DOUBLE)),
        exp.If(this=exp.IsNan(this=x.copy()), true=not_a_number),
    ]
    return exp.Case(ifs=ifs, default=x.copy())


def _not_answered(call: exp.Expr, span: Span | None) -> Error:
    repair = f"the aggregates answered over the rows of one unit are {_ANSWERED}"
    return refusal("DP203", f"{name_of(call)} is not answered here", span=span, repair=repair)
