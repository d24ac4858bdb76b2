"""Predicates: comparisons, IN, BETWEEN, IS, AND, OR, NOT, each of a type that both sides share.

NaN compares as DuckDB has it: equal to itself and above infinity. A range that decides a comparison (x <= 100 where
x is at most 50) is left to the engine; only the domain says so.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from sqlglot import exp

from dpsql.compile.ir import Facts, Scalar, Value
from dpsql.compile.kinds import (
    BOOLEAN,
    DATE,
    TIMESTAMP,
    constant,
    constant_of,
    convert,
    is_null,
    settled,
    text_of,
    unify,
    words,
)
from dpsql.compile.literals import is_midnight
from dpsql.compile.ranges import EVERYTHING, facts_of, finite, mapped
from dpsql.compile.trees import wrapped
from dpsql.errors import Span, refusal
from dpsql.policy.facts import Kind

MAX_LIST = 10_000
"""Members of one IN list."""

_FEW = 200
"""Values over which a comparison is tried out, to see whether it is always true or always false."""

_COMPARE: dict[type[exp.Expr], Callable[[Any, Any], bool]] = {
    exp.EQ: lambda a, b: a == b,
    exp.NEQ: lambda a, b: a != b,
    exp.LT: lambda a, b: a < b,
    exp.LTE: lambda a, b: a <= b,
    exp.GT: lambda a, b: a > b,
    exp.GTE: lambda a, b: a >= b,
}
MIRRORED: dict[type[exp.Expr], type[exp.Expr]] = {
    exp.EQ: exp.EQ,
    exp.NEQ: exp.NEQ,
    exp.LT: exp.GT,
    exp.LTE: exp.GTE,
    exp.GT: exp.LT,
    exp.GTE: exp.LTE,
}
"""What a comparison is with its sides exchanged."""

NEGATED: dict[type[exp.Expr], type[exp.Binary]] = {
    exp.EQ: exp.NEQ,
    exp.NEQ: exp.EQ,
    exp.LT: exp.GTE,
    exp.LTE: exp.GT,
    exp.GT: exp.LTE,
    exp.GTE: exp.LT,
}
"""What holds of two values, neither of them NULL, where a comparison does not."""

_SYMBOLS: dict[type[exp.Expr], str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.NullSafeEQ: "IS NOT DISTINCT FROM",
    exp.NullSafeNEQ: "IS DISTINCT FROM",
}


def compare(node: type[exp.Expr], a: Scalar, b: Scalar, span: Span | None) -> Scalar:
    """= <> < <= > >=, NULL where a side is."""
    if a.facts.type == TIMESTAMP and b.facts.type == DATE and constant(a) is not None:
        a, b, node = b, a, MIRRORED[node]
    if a.facts.type == DATE and b.facts.type == TIMESTAMP:
        node, b = _with_day(node, b)
    a, b = _sides(a, b, _SYMBOLS[node])
    tree = node(this=wrapped(a.tree), expression=wrapped(b.tree))
    domain, _ = mapped(_COMPARE[node], [a.facts, b.facts], _FEW)
    return settled(tree, _truth(domain, a, b), [a, b], span)


def distinct(node: type[exp.Expr], a: Scalar, b: Scalar, span: Span | None) -> Scalar:
    """IS [NOT] DISTINCT FROM: never NULL."""
    a, b = _sides(a, b, _SYMBOLS[node])
    tree = node(this=wrapped(a.tree), expression=wrapped(b.tree))
    return Scalar(tree, facts_of(BOOLEAN, nullable=False), span)


def between(a: Scalar, low: Scalar, high: Scalar, span: Span | None) -> Scalar:
    """x BETWEEN low AND high, both included."""
    if {low.facts.type, high.facts.type} == {TIMESTAMP} and a.facts.type == DATE:
        low, high = _as_day(low), _as_day(high)
    _, (a, low, high) = unify([a, low, high], "BETWEEN")
    tree = exp.Between(this=wrapped(a.tree), low=wrapped(low.tree), high=wrapped(high.tree))
    domain, _ = mapped(lambda x, y, z: y <= x <= z, [a.facts, low.facts, high.facts], _FEW)
    return settled(tree, _truth(domain, a, low, high), [a, low, high], span)


def member(a: Scalar, several: Sequence[Scalar], span: Span | None) -> Scalar:
    """x IN (...): NULL where x is, or where no member is equal and one is NULL."""
    if len(several) > MAX_LIST:
        raise refusal(
            "DP231",
            f"the list of IN has more than {MAX_LIST} members",
            span=span,
            repair="put the values into a public table and join it",
        )
    _, (a, *several) = unify([a, *several], "IN")
    tree = exp.In(this=wrapped(a.tree), expressions=[s.tree for s in several])
    values = [constant(s) for s in several if not is_null(s)]
    domain: list[Value] | None = None
    if None not in values:
        chosen = set(values)
        domain, _ = mapped(lambda x: x in chosen, [a.facts], _FEW)
    return settled(tree, _truth(domain, a, *several), [a, *several], span)


def is_null_test(a: Scalar, span: Span | None) -> Scalar:
    """x IS NULL. Whether a value can be NULL is known, but never used to leave the question out."""
    domain = None if a.facts.nullable else (False,)
    return Scalar(
        exp.Is(this=wrapped(a.tree), expression=exp.Null()), facts_of(BOOLEAN, domain=domain, nullable=False), span
    )


def is_truth_test(a: Scalar, value: bool, span: Span | None) -> Scalar:
    """x IS TRUE, x IS FALSE."""
    a = condition(a, "IS TRUE")
    tree = exp.Is(this=wrapped(a.tree), expression=exp.Boolean(this=value))
    return Scalar(tree, facts_of(BOOLEAN, nullable=False), span)


def connect(node: type[exp.Expr], several: Sequence[Scalar], span: Span | None) -> Scalar:
    """AND, OR in SQL's three values."""
    name = "AND" if node is exp.And else "OR"
    several = [condition(s, name) for s in several]
    decided = node is exp.Or  # one TRUE decides an OR, one FALSE an AND
    domains = [finite(s.facts) or () for s in several]
    domain = {decided} if any(decided in d for d in domains) else set()
    if all((not decided) in d for d in domains):
        domain.add(not decided)
    nullable = any(s.facts.nullable for s in several)
    tree = several[0].tree
    for s in several[1:]:
        tree = node(this=_operand(node, tree, left=True), expression=_operand(node, s.tree, left=False))
    return settled(tree, facts_of(BOOLEAN, domain=domain or None, nullable=nullable), several, span)


def negation(a: Scalar, span: Span | None) -> Scalar:
    a = condition(a, "NOT")
    domain, _ = mapped(lambda x: not x, [a.facts])
    return settled(exp.Not(this=wrapped(a.tree)), _truth(domain, a), [a], span)


def condition(a: Scalar, what: str) -> Scalar:
    """The scalar as BOOLEAN; a number is true where it is not 0, as in DuckDB."""
    if a.facts.type.kind is Kind.BOOLEAN or a.facts.is_numeric:
        return convert(a, BOOLEAN)
    raise refusal(
        "DP232",
        f"{what} needs a condition and is given {words(a.facts)}",
        span=a.span,
        repair=f"compare it with something, or write {text_of(a)} IS NOT NULL",
    )


def _operand(parent: type[exp.Expr], tree: exp.Expr, *, left: bool) -> exp.Expr:
    """AND binds tighter than OR, and both group to the left."""
    bare = not isinstance(tree, exp.Connector) or (left and type(tree) is parent)
    return tree if bare or (parent is exp.Or and type(tree) is exp.And) else exp.Paren(this=tree)


def _truth(domain: list[Value] | None, *arguments: Scalar) -> Facts:
    return facts_of(BOOLEAN, EVERYTHING, domain=domain or None, nullable=any(a.facts.nullable for a in arguments))


def _sides(a: Scalar, b: Scalar, symbol: str) -> tuple[Scalar, Scalar]:
    """Both sides in one type, with columns left bare where a literal can follow them: zone maps need that."""
    kinds = {a.facts.type.kind, b.facts.type.kind}
    if kinds == {Kind.DATE, Kind.TIMESTAMP}:
        a, b = _as_day(a), _as_day(b)
    _, (a, b) = unify([a, b], symbol)
    return a, b


def _with_day(node: type[exp.Expr], moment: Scalar) -> tuple[type[exp.Expr], Scalar]:
    """`date op moment` as `date op day`: a date is before a moment within a day where it is that day or before."""
    value = constant(moment)
    if not isinstance(value, datetime) or node in (exp.EQ, exp.NEQ):
        return node, moment
    if not is_midnight(value):
        node = exp.LTE if node is exp.LT else exp.GT if node is exp.GTE else node
    return node, constant_of(value.date(), DATE, moment.span)


def _as_day(a: Scalar) -> Scalar:
    """A timestamp literal at midnight as a date; a column is left alone."""
    value = constant(a)
    if isinstance(value, datetime) and is_midnight(value):
        return constant_of(value.date(), DATE, a.span)
    return a
