"""COALESCE, NULLIF, GREATEST, LEAST: one of several values."""

from __future__ import annotations

from sqlglot import exp

from dpsql.compile import arithmetic, comparisons
from dpsql.compile.calls import Call
from dpsql.compile.guards import repeatable
from dpsql.compile.ir import Scalar
from dpsql.compile.kinds import is_null, unify
from dpsql.compile.literals import is_literal
from dpsql.compile.ranges import Interval, facts_of, finite, held, joined, known
from dpsql.policy.facts import Kind


def coalesce(call: Call) -> Scalar:
    type_, typed = unify(call.arguments, "COALESCE")
    if len(typed) == 1:
        return typed[0]
    tree = exp.Coalesce(this=typed[0].tree, expressions=[t.tree for t in typed[1:]])
    facts = joined([t.facts for t in typed], type_, nullable=all(t.facts.nullable for t in typed))
    return arithmetic.in_its_type(Scalar(tree, facts, call.span), typed)


def nullif(call: Call) -> Scalar:
    """NULLIF(a, b): of the type of a, also where the two are compared in another type."""
    a, b = call.arguments
    type_, typed = unify([a, b], "NULLIF")
    if type_ == a.facts.type or is_null(a):
        tree: exp.Expr = exp.Nullif(this=repeatable(typed[0]).tree, expression=typed[1].tree)
        facts = typed[0].facts
    else:
        test = comparisons.compare(exp.EQ, a, b, call.span)
        tree = exp.Case(ifs=[exp.If(this=test.tree, true=exp.Null())], default=repeatable(a).tree.copy())
        facts = a.facts
    return Scalar(
        tree,
        facts_of(
            facts.type,
            known(facts),
            held(facts),
            domain=facts.domain,
            nullable=True,
            step=facts.step,
            size=facts.size,
        ),
        call.span,
    )


def extreme(call: Call) -> Scalar:
    """GREATEST, LEAST: NULLs are ignored, as in DuckDB; NULL where all are. NaN is the greatest."""
    greatest = isinstance(call.node, exp.Greatest)
    type_, typed = unify(call.arguments, call.name)
    if len(typed) == 1:
        return typed[0]
    facts = [t.facts for t in typed]
    base = joined(facts, type_, nullable=all(f.nullable for f in facts))
    certain = [f for f in facts if not f.nullable and f.domain != ()]
    if certain and type_ == facts[0].type and base.type.kind not in (Kind.VARCHAR, Kind.BOOLEAN):
        ends = [
            _beyond(known(base), [known(f) for f in certain], greatest),
            _beyond(held(base), [held(t.facts) for t in typed if _is_there(t.tree)], greatest),
        ]
        domain = finite(base) if base.domain is not None else None
        if domain is not None:
            domain = tuple(v for v in domain if _inside(v, ends[0]))
        base = facts_of(type_, *ends, domain=domain, nullable=False, step=base.step, size=base.size)
    node = exp.Greatest if greatest else exp.Least
    tree = node(this=typed[0].tree, expressions=[t.tree for t in typed[1:]], ignore_nulls=True)
    return arithmetic.in_its_type(Scalar(tree, base, call.span), typed)


def _is_there(tree: exp.Expr) -> bool:
    """Whether an expression is NULL for no row at all. That WHERE leaves no row where a column is NULL says nothing of
    the rows before it, and of them LEAST and GREATEST pass over that column."""
    if isinstance(tree, exp.Coalesce | exp.Greatest | exp.Least):
        return any(map(_is_there, (tree.this, *tree.expressions)))
    return is_literal(tree) or (type(tree) is exp.Cast and _is_there(tree.this))


def _beyond(base: Interval, certain: list[Interval], greatest: bool) -> Interval:
    """A greatest value is at least every operand that is never NULL; a least one at most."""
    if greatest:
        los = [i.lo for i in certain if i.lo is not None]
        lows = los if base.lo is None else [base.lo, *los]
        return Interval(max(lows) if lows else None, base.hi)
    his = [i.hi for i in certain if i.hi is not None]
    highs = his if base.hi is None else [base.hi, *his]
    return Interval(base.lo, min(highs) if highs else None)


def _inside(value: object, interval: Interval) -> bool:
    return (interval.lo is None or value >= interval.lo) and (interval.hi is None or value <= interval.hi)  # type: ignore[operator]
