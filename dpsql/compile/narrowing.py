"""What a predicate says about the columns of the rows for which it holds.

`assume` reads conjuncts of the forms `column op expression`, BETWEEN, IN, IS NULL, boolean columns, and AND, OR, NOT
of those. It sharpens the *known* interval and domain; the held interval stays, since the engine may compute other
expressions before it filters. A predicate that says something impossible (x > 5 AND x < 3) changes nothing: no row
is left for which anything could be wrong, and no empty interval reaches the passes that compute noise from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import date, datetime
from fractions import Fraction

from sqlglot import exp

from dpsql.compile.comparisons import MIRRORED
from dpsql.compile.ir import ColumnName, Facts, Lower, Scalar, Scope, Value
from dpsql.compile.kinds import constant, is_null, unify, value_as
from dpsql.compile.literals import is_midnight, next_after
from dpsql.compile.ranges import HeldFacts, Interval, bound_of, finite, held, how_many, hull, known
from dpsql.compile.trees import unwrapped
from dpsql.errors import NotSupportedError, ProgrammingError, refusal
from dpsql.policy.facts import Kind

_NEGATED: dict[type[exp.Expr], type[exp.Expr]] = {
    exp.EQ: exp.NEQ,
    exp.NEQ: exp.EQ,
    exp.LT: exp.GTE,
    exp.LTE: exp.GT,
    exp.GT: exp.LTE,
    exp.GTE: exp.LT,
}
_STRICT = {
    *_NEGATED,
    exp.Not,
    exp.Paren,
    exp.Cast,
    exp.TryCast,
    exp.Add,
    exp.Sub,
    exp.Mul,
    exp.Div,
    exp.IntDiv,
    exp.Mod,
    exp.Neg,
    exp.Abs,
    exp.Lower,
    exp.Upper,
    exp.Length,
    exp.Extract,
    exp.Like,
    exp.ILike,
}
"""Nodes that are NULL where one of their operands is."""


def assume(scope: Scope, predicate: exp.Expr, want: bool, maybe: bool, lower: Lower) -> Scope:
    """The scope of the rows for which the predicate has the truth value `want` (or is NULL, if `maybe`)."""
    predicate = unwrapped(predicate)
    if isinstance(predicate, exp.Not):
        return assume(scope, predicate.this, not want, maybe, lower)
    if isinstance(predicate, exp.And | exp.Or):
        if isinstance(predicate, exp.And) is want:
            for part in _parts(predicate):
                scope = assume(scope, part, want, maybe, lower)
            return scope
        return _either(scope, [assume(scope, part, want, maybe, lower) for part in _parts(predicate)])
    try:
        return _atom(scope, predicate, want, maybe, lower)
    except (NotSupportedError, ProgrammingError):
        return scope  # what cannot be lowered says nothing here, and is refused where it stands


def _atom(scope: Scope, node: exp.Expr, want: bool, maybe: bool, lower: Lower) -> Scope:
    if not maybe:
        scope = _not_null(scope, node)
    if isinstance(node, exp.Column):
        return _set(scope, node, Interval(), (want,)) if _facts(scope, node).type.kind is Kind.BOOLEAN else scope
    if isinstance(node, exp.Is):
        return _is(scope, node, want)
    if isinstance(node, exp.Between) and not node.args.get("symmetric"):
        low = exp.GTE(this=node.this.copy(), expression=node.args["low"].copy())
        high = exp.LTE(this=node.this.copy(), expression=node.args["high"].copy())
        return assume(scope, exp.And(this=low, expression=high), want, maybe, lower)
    if isinstance(node, exp.In):
        return _in(scope, node, want, maybe, lower) if node.expressions else scope
    if type(node) in _NEGATED:
        kind = type(node) if want else _NEGATED[type(node)]
        scope = _compared(scope, kind, node.this, node.expression, maybe, lower)
        return _compared(scope, MIRRORED[kind], node.expression, node.this, maybe, lower)
    return scope


def _compared(scope: Scope, kind: type, left: exp.Expr, right: exp.Expr, maybe: bool, lower: Lower) -> Scope:
    """`left kind right` where left is a column: its ends move to those of the other side."""
    column = _bare(left)
    if column is None:
        return scope
    facts, other = _facts(scope, column), lower(right, scope)
    flag = facts.type.kind is Kind.BOOLEAN
    if is_null(other) or (maybe and other.facts.nullable) or (flag and other.facts.type.kind is not Kind.BOOLEAN):
        return scope
    _, (_, other) = unify([_stand_in(column, facts), other], "a comparison")
    if facts.type.kind in (Kind.BOOLEAN, Kind.VARCHAR) and kind not in (exp.EQ, exp.NEQ):
        return scope
    values = _few(other.facts)
    if kind is exp.NEQ:
        domain = finite(facts)
        if domain is None or values is None or len(values) != 1:
            return scope
        gone = value_as(values[0], facts.type)
        return scope if gone is None else _set(scope, column, Interval(), tuple(v for v in domain if v != gone))
    rough = _rough(facts, other.facts)
    ends = known(other.facts)
    lo = ends.lo if kind in (exp.EQ, exp.GT, exp.GTE) else None
    hi = ends.hi if kind in (exp.EQ, exp.LT, exp.LTE) else None
    open_lo = kind is exp.GT and not rough and _fits(lo, facts)
    open_hi = kind is exp.LT and not rough and _fits(hi, facts)
    lo, hi = _as_end(lo, facts, rough, -1), _as_end(hi, facts, rough, 1)
    lo = next_after(lo, facts.type, 1) if open_lo and lo is not None else lo
    hi = next_after(hi, facts.type, -1) if open_hi and hi is not None else hi
    chosen = None
    if kind is exp.EQ and values is not None and not rough:
        same = [value_as(v, facts.type) for v in values]
        chosen = tuple(v for v in same if v is not None)
    return _set(scope, column, Interval(lo, hi), chosen)


def _rough(facts: Facts, other: Facts) -> bool:
    """Whether a comparison goes through a DOUBLE that not every value of the column survives."""
    return other.type.kind is Kind.DOUBLE and facts.type.kind in (Kind.INTEGER, Kind.DECIMAL)


def _as_end(end: object, facts: Facts, rough: bool, sign: int) -> Fraction | date | None:
    """An end of the other side as an end of the column's type."""
    if isinstance(end, Fraction):
        return end + sign * abs(end) / 2**50 if rough else end
    if isinstance(end, date):
        return _day(end) if facts.type.kind is Kind.DATE else end
    return None


def _fits(end: object, facts: Facts) -> bool:
    """Whether an end is a value of the column's type, so that < means at most its neighbour."""
    if isinstance(end, datetime) and facts.type.kind is Kind.DATE:
        return is_midnight(end)
    return not isinstance(end, Fraction) or (end * 10**facts.type.scale).denominator == 1


def _in(scope: Scope, node: exp.In, want: bool, maybe: bool, lower: Lower) -> Scope:
    column = _bare(node.this)
    if column is None:
        return scope
    facts = _facts(scope, column)
    members = [lower(m, scope) for m in node.expressions]
    flags = [m.facts.type.kind is Kind.BOOLEAN for m in members]
    if (facts.type.kind is Kind.BOOLEAN and not all(flags)) or (
        want and maybe and any(m.facts.nullable for m in members)
    ):
        return scope
    if not want:
        domain = finite(facts)
        gone = {value_as(v, facts.type) for v in map(constant, members) if v is not None}
        return scope if domain is None else _set(scope, column, Interval(), tuple(v for v in domain if v not in gone))
    _, (_, *typed) = unify([_stand_in(column, facts), *members], "IN")
    some = [m for m in typed if m.facts.domain != ()]
    if any(_rough(facts, m.facts) for m in some):
        return scope
    domains = [_few(m.facts) for m in some]
    ends = hull([known(m.facts) for m in some])
    chosen = None
    if None not in domains:
        same = [value_as(v, facts.type) for d in domains if d is not None for v in d]
        chosen = tuple(sorted({v for v in same if v is not None}))
    lo, hi = (_as_end(e, facts, False, 0) for e in (ends.lo, ends.hi))
    return _set(scope, column, Interval(lo, hi), chosen)


def _stand_in(column: exp.Expr, facts: Facts) -> Scalar:
    """The column, to find out what the other side becomes beside it: its values would be converted for nothing."""
    return Scalar(column, Facts(facts.type, nullable=False))


def _few(facts: Facts) -> tuple[Value, ...] | None:
    """The values to choose from, where they say more than the ends do."""
    count = how_many(facts)
    return finite(facts) if facts.domain is not None or (count is not None and count <= _FEW) else None


_FEW = 100


def _is(scope: Scope, node: exp.Is, want: bool) -> Scope:
    if isinstance(node.expression, exp.Null):
        if want:
            return scope
        column = _bare(node.this)
        return scope if column is None else _put(scope, column, replace(_facts(scope, column), nullable=False))
    column = _bare(node.this)
    if (
        isinstance(node.expression, exp.Boolean)
        and column is not None
        and want
        and _facts(scope, column).type.kind is Kind.BOOLEAN
    ):
        scope = _put(scope, column, replace(_facts(scope, column), nullable=False))
        return _set(scope, column, Interval(), (bool(node.expression.this),))
    return scope


def _not_null(scope: Scope, node: exp.Expr) -> Scope:
    """Columns that a NULL would have made the predicate NULL by."""
    if isinstance(node, exp.Column):
        facts = scope.get((node.table, node.name))
        return scope if facts is None or not facts.nullable else _put(scope, node, replace(facts, nullable=False))
    if isinstance(node, exp.In | exp.Between):  # the other operands may be NULL in a FALSE
        return _not_null(scope, node.this)
    if type(node) in _STRICT:
        for child in node.iter_expressions():
            scope = _not_null(scope, child)
    return scope


def _set(scope: Scope, column: exp.Column, ends: Interval, chosen: tuple[Value, ...] | None) -> Scope:
    """Both an interval and a domain (None: any) that the column's values are in."""
    facts = _facts(scope, column)
    lo = facts.lo if ends.lo is None else ends.lo if facts.lo is None else max(facts.lo, ends.lo)
    hi = facts.hi if ends.hi is None else ends.hi if facts.hi is None else min(facts.hi, ends.hi)
    if lo is not None and hi is not None and lo > hi:  # type: ignore[operator]
        return scope
    domain = facts.domain
    if chosen is not None:
        members = frozenset(chosen)
        domain = chosen if domain is None else tuple(v for v in domain if v in members)
    if domain is not None and facts.type.kind not in (Kind.BOOLEAN, Kind.VARCHAR):
        domain = tuple(v for v in domain if (lo is None or lo <= bound_of(v)) and (hi is None or bound_of(v) <= hi))  # type: ignore[operator]
        if domain and facts.type.kind is not Kind.DOUBLE:
            lo, hi = bound_of(domain[0]), bound_of(domain[-1])
    if domain == () and facts.domain != ():
        return scope
    holds = held(facts)
    return _put(
        scope,
        column,
        HeldFacts(facts.type, lo, hi, domain, facts.nullable, facts.step, facts.size, holds.lo, holds.hi),
    )


def _either(scope: Scope, several: list[Scope]) -> Scope:
    """What holds in every one of several scopes."""
    changed = {name for s in several for name in s if s[name] is not scope[name]}
    result = dict(scope)
    for name in changed:
        branches = [s[name] for s in several]
        ends = hull([known(b) for b in branches])
        domains = [b.domain for b in branches]
        domain = tuple(sorted({v for d in domains if d is not None for v in d})) if None not in domains else None
        holds, first = held(scope[name]), scope[name]
        nullable = any(b.nullable for b in branches)
        result[name] = HeldFacts(
            first.type, ends.lo, ends.hi, domain, nullable, first.step, first.size, holds.lo, holds.hi
        )
    return result


def _parts(node: exp.Expr) -> list[exp.Expr]:
    """The operands of a chain of one connector."""
    parts: list[exp.Expr] = []
    todo = [node]
    while todo:
        top = unwrapped(todo.pop())
        if type(top) is type(node):
            todo += [top.expression, top.this]
        else:
            parts.append(top)
    return parts


def _bare(node: exp.Expr) -> exp.Column | None:
    """The column that an expression is, seen through parentheses."""
    inner = unwrapped(node)
    return inner if isinstance(inner, exp.Column) else None


def _facts(scope: Scope, column: exp.Column) -> Facts:
    facts = scope.get((column.table, column.name))
    if facts is None:
        raise refusal("DP111", f'no column "{column.name}" here')
    return facts


def _put(scope: Scope, column: exp.Column, facts: Facts) -> Mapping[ColumnName, Facts]:
    return {**scope, (column.table, column.name): facts}


def _day(moment: date) -> date:
    return date(moment.year, moment.month, moment.day)
