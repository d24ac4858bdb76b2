"""What a predicate says about the columns and expressions of the rows for which it holds.

`assume` reads conjuncts of the forms `term op expression`, BETWEEN, IN, IS NULL, IS DISTINCT FROM, boolean terms, and
AND, OR, NOT of those. A term is a column, or an expression of columns: `substring(phone, 1, 2) IN ('13', '31')` says
something of that expression wherever it is lowered for the rows that pass (`sharpened`), since equal expressions have
one value in one row. It sharpens the *known* interval and domain; the held interval stays, since the engine may
compute other expressions before it filters. A predicate that says something impossible (x > 5 AND x < 3) changes
nothing: no row is left for which anything could be wrong, and no empty interval reaches the passes that compute noise
from it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import date, datetime
from fractions import Fraction

from sqlglot import exp

from dpsql.compile.comparisons import MIRRORED, NEGATED
from dpsql.compile.ir import ColumnName, Facts, Lower, Scalar, Scope, Value
from dpsql.compile.kinds import constant, is_null, unify, value_as
from dpsql.compile.literals import is_midnight, next_after
from dpsql.compile.ranges import EVERYTHING, HeldFacts, Interval, bound_of, finite, held, how_many, hull, known
from dpsql.compile.trees import column, copied, meaning, operands, unwrapped
from dpsql.errors import NotSupportedError, ProgrammingError
from dpsql.policy.facts import Kind, SqlType

STRICT = {
    *NEGATED,
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
            for part in operands(predicate):
                scope = assume(scope, part, want, maybe, lower)
            return scope
        return _either(scope, [assume(scope, part, want, maybe, lower) for part in operands(predicate)])
    try:
        return _atom(scope, predicate, want, maybe, lower)
    except (NotSupportedError, ProgrammingError):
        return scope  # what cannot be lowered says nothing here, and is refused where it stands


def compares(predicate: exp.Expr) -> bool:
    """Whether it compares two terms, so that what is known of one says something of the other."""
    if type(predicate) not in NEGATED:
        return False
    return _is_term(predicate.this) and _is_term(predicate.expression)


def sharpened(scalar: Scalar, scope: Scope) -> Scalar:
    """A lowered expression with what predicates say of it. Its total form is its name: each function has one spelling
    there."""
    if _ANY not in scope or isinstance(scalar.tree, exp.Column):
        return scalar
    said = scope.get(_name(scalar))
    if said is None or said.type != scalar.facts.type:
        return scalar
    facts = replace(scalar.facts, nullable=scalar.facts.nullable and said.nullable)
    return replace(scalar, facts=_met(facts, known(said), said.domain) or facts)


_SAID = "$said"
"""The alias of what a scope holds of expressions: no FROM item has it."""
_ANY: ColumnName = (_SAID, "")
"""Stands in a scope that says anything of an expression."""


def _name(term: Scalar) -> ColumnName:
    """Where a scope holds the facts of a term; `_ANY` for an expression that is too long to be compared."""
    tree = term.tree
    return (tree.table, tree.name) if isinstance(tree, exp.Column) else (_SAID, meaning(tree) or "")


def _is_term(node: exp.Expr) -> bool:
    """Whether a predicate can say something of it: of a column, or an expression that has one."""
    return node.find(exp.Column) is not None


def _atom(scope: Scope, node: exp.Expr, want: bool, maybe: bool, lower: Lower) -> Scope:
    if not maybe:
        scope = _not_null(scope, node)
    if isinstance(node, exp.Is):
        return _is(scope, node, want, lower)
    if isinstance(node, exp.Between) and not node.args.get("symmetric"):
        low = exp.GTE(this=copied(node.this), expression=copied(node.args["low"]))
        high = exp.LTE(this=copied(node.this), expression=copied(node.args["high"]))
        return assume(scope, exp.And(this=low, expression=high), want, maybe, lower)
    if isinstance(node, exp.In):
        return _in(scope, node, want, maybe, lower) if node.expressions else scope
    if type(node) in NEGATED:
        return _both_ways(scope, type(node) if want else NEGATED[type(node)], node, maybe, lower)
    if isinstance(node, exp.NullSafeEQ | exp.NullSafeNEQ):
        return _distinct(scope, node, isinstance(node, exp.NullSafeEQ) is want, lower)
    term = lower(node, scope)
    if term.facts.type.kind is not Kind.BOOLEAN or not _is_term(node):
        return scope
    return _set(scope, term, maybe, chosen=(want,))


def _both_ways(scope: Scope, kind: type[exp.Expr], node: exp.Expr, maybe: bool, lower: Lower) -> Scope:
    """`this kind expression`: each side says something of the other."""
    scope = _compared(scope, kind, node.this, node.expression, maybe, lower)
    return _compared(scope, MIRRORED[kind], node.expression, node.this, maybe, lower)


def _distinct(scope: Scope, node: exp.Expr, same: bool, lower: Lower) -> Scope:
    """IS [NOT] DISTINCT FROM. A side without NULL makes the other differ from it, or equal it and so not be NULL."""
    for side, other in ((node.this, node.expression), (node.expression, node.this)):
        if not lower(other, scope).facts.nullable:
            scope = _not_null(scope, side) if same else scope
            scope = _compared(scope, exp.EQ if same else exp.NEQ, side, other, not same, lower)
    return scope


def _compared(scope: Scope, kind: type, left: exp.Expr, right: exp.Expr, maybe: bool, lower: Lower) -> Scope:
    """`left kind right` where left is a term: its ends move to those of the other side."""
    if not _is_term(left):
        return scope
    term, other = lower(left, scope), lower(right, scope)
    facts = term.facts
    flag = facts.type.kind is Kind.BOOLEAN
    if is_null(other) or (maybe and other.facts.nullable) or (flag and other.facts.type.kind is not Kind.BOOLEAN):
        return scope
    _, (_, other) = unify([_stand_in(term), other], "a comparison")
    if facts.type.kind in (Kind.BOOLEAN, Kind.VARCHAR) and kind not in (exp.EQ, exp.NEQ):
        return _set(scope, term, maybe)
    values = _few(other.facts)
    if kind is exp.NEQ:
        gone = value_as(values[0], facts.type) if values is not None and len(values) == 1 else None
        return _set(scope, term, maybe, chosen=_without(facts, {gone}))
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
    return _set(scope, term, maybe, Interval(lo, hi), chosen)


def _without(facts: Facts, gone: Collection[Value | None]) -> tuple[Value, ...] | None:
    """The domain but for some values; None where there is none."""
    domain = finite(facts)
    return None if domain is None else tuple(v for v in domain if v not in gone)


def _rough(facts: Facts, other: Facts) -> bool:
    """Whether a comparison goes through a DOUBLE that not every value of the term survives."""
    return other.type.kind is Kind.DOUBLE and facts.type.kind in (Kind.INTEGER, Kind.DECIMAL)


def _as_end(end: object, facts: Facts, rough: bool, sign: int) -> Fraction | date | None:
    """An end of the other side as an end of the term's type."""
    if isinstance(end, Fraction):
        return end + sign * abs(end) / 2**50 if rough else end
    if isinstance(end, date):
        return _day(end) if facts.type.kind is Kind.DATE else end
    return None


def _fits(end: object, facts: Facts) -> bool:
    """Whether an end is a value of the term's type, so that < means at most its neighbour."""
    if isinstance(end, datetime) and facts.type.kind is Kind.DATE:
        return is_midnight(end)
    return not isinstance(end, Fraction) or (end * 10**facts.type.scale).denominator == 1


def _in(scope: Scope, node: exp.In, want: bool, maybe: bool, lower: Lower) -> Scope:
    if not _is_term(node.this):
        return scope
    term = lower(node.this, scope)
    facts = term.facts
    members = [lower(m, scope) for m in node.expressions]
    flags = [m.facts.type.kind is Kind.BOOLEAN for m in members]
    if (facts.type.kind is Kind.BOOLEAN and not all(flags)) or (
        want and maybe and any(m.facts.nullable for m in members)
    ):
        return scope
    if not want:
        gone = {value_as(v, facts.type) for v in map(constant, members) if v is not None}
        return _set(scope, term, maybe, chosen=_without(facts, gone))
    _, (_, *typed) = unify([_stand_in(term), *members], "IN")
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
    return _set(scope, term, maybe, Interval(lo, hi), chosen)


def _stand_in(term: Scalar) -> Scalar:
    """The term, to find out what the other side becomes beside it: its values would be converted for nothing."""
    return Scalar(column("", ""), Facts(term.facts.type, nullable=False))


def _few(facts: Facts) -> tuple[Value, ...] | None:
    """The values to choose from, where they say more than the ends do."""
    count = how_many(facts)
    return finite(facts) if facts.domain is not None or (count is not None and count <= _FEW) else None


_FEW = 100


def _is(scope: Scope, node: exp.Is, want: bool, lower: Lower) -> Scope:
    if not _is_term(node.this):
        return scope
    term = lower(node.this, scope)
    facts = term.facts
    if isinstance(node.expression, exp.Null):
        return scope if want else _set(scope, term, maybe=False)
    if isinstance(node.expression, exp.Boolean) and want and facts.type.kind is Kind.BOOLEAN:
        return _set(scope, term, maybe=False, chosen=(bool(node.expression.this),))
    return scope


def _not_null(scope: Scope, node: exp.Expr) -> Scope:
    """Columns that a NULL would have made the predicate NULL by."""
    if isinstance(node, exp.Column):
        name = node.table, node.name
        facts = scope.get(name)
        return scope if facts is None or not facts.nullable else {**scope, name: replace(facts, nullable=False)}
    if isinstance(node, exp.In | exp.Between):  # the other operands may be NULL in a FALSE
        return _not_null(scope, node.this)
    if type(node) in STRICT:
        for child in node.iter_expressions():
            scope = _not_null(scope, child)
    return scope


def _set(
    scope: Scope,
    term: Scalar,
    maybe: bool,
    ends: Interval = EVERYTHING,
    chosen: tuple[Value, ...] | None = None,
) -> Scope:
    """Both an interval and a domain (None: any) that the term's values are in; it is not NULL where the predicate
    cannot be."""
    facts = replace(term.facts, nullable=term.facts.nullable and maybe)
    met = _met(facts, ends, chosen)
    return scope if met is None else _put(scope, term, met)


def _met(facts: Facts, ends: Interval, chosen: tuple[Value, ...] | None) -> Facts | None:
    """Facts that are met by an interval and a domain too; None where that leaves nothing."""
    lo = facts.lo if ends.lo is None else ends.lo if facts.lo is None else max(facts.lo, ends.lo)
    hi = facts.hi if ends.hi is None else ends.hi if facts.hi is None else min(facts.hi, ends.hi)
    if lo is not None and hi is not None and lo > hi:  # type: ignore[operator]
        return None
    domain = facts.domain
    if chosen is not None:
        members = frozenset(chosen)
        domain = chosen if domain is None else tuple(v for v in domain if v in members)
    if domain is not None and facts.type.kind not in (Kind.BOOLEAN, Kind.VARCHAR):
        domain = tuple(v for v in domain if (lo is None or lo <= bound_of(v)) and (hi is None or bound_of(v) <= hi))  # type: ignore[operator]
        if domain and facts.type.kind is not Kind.DOUBLE:
            lo, hi = bound_of(domain[0]), bound_of(domain[-1])
    if domain == () and facts.domain != ():
        return None
    holds = held(facts)
    return HeldFacts(facts.type, lo, hi, domain, facts.nullable, facts.step, facts.size, holds.lo, holds.hi)


def _either(scope: Scope, several: list[Scope]) -> Scope:
    """What holds in every one of several scopes."""
    changed = {name for s in several for name in s if s[name] is not scope.get(name)}
    result = dict(scope)
    for name in changed:
        branches = [s[name] for s in several if name in s]
        if len(branches) < len(several):
            continue  # an expression of which one branch says nothing
        ends = hull([known(b) for b in branches])
        domains = [_few(b) for b in branches]
        domain = tuple(sorted({v for d in domains if d is not None for v in d})) if None not in domains else None
        first = branches[0]
        holds = held(first)
        nullable = any(b.nullable for b in branches)
        around = HeldFacts(first.type, ends.lo, ends.hi, None, nullable, first.step, first.size, holds.lo, holds.hi)
        fewer = domain is not None and len(domain) != how_many(around)
        result[name] = replace(around, domain=domain) if fewer else around
    return result


def _put(scope: Scope, term: Scalar, facts: Facts) -> Mapping[ColumnName, Facts]:
    name = _name(term)
    return {**scope, name: facts} if isinstance(term.tree, exp.Column) else {**scope, name: facts, _ANY: _NOTHING}


_NOTHING = Facts(SqlType(Kind.BOOLEAN))


def _day(moment: date) -> date:
    return date(moment.year, moment.month, moment.day)
