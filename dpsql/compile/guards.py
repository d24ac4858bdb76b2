"""Arguments made safe: NULL in place of a value that a calculation could not take.

It is the argument that is guarded, never the result: a calculation then meets no dangerous value even where the
engine computes a branch that it does not need.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import date, datetime
from fractions import Fraction

from sqlglot import exp

from dpsql.compile.ir import Scalar, Value
from dpsql.compile.literals import cast, literal
from dpsql.compile.ranges import Bound, Interval, facts_of, held, is_huge, known
from dpsql.compile.trees import wrapped
from dpsql.errors import refusal
from dpsql.policy.facts import Kind

MAX_REPEATED_NODES = 600
"""Guards, NULLIF and CASE x WHEN repeat an argument, here or inside DuckDB (whose NULLIF is a macro): nested ones
double with every level. So an argument that is to be repeated has at most so many nodes after all repetition."""


def calculable(a: Scalar) -> Scalar:
    """The date itself where it is proved to be of the years 1 to 9999, else NULL for other dates."""
    if held(a.facts).is_bounded:
        return a
    lo, hi = (date.min, date.max) if a.facts.type.kind is Kind.DATE else (datetime.min, datetime.max)
    return guarded(a, Interval(lo, hi))


def as_moment(a: Scalar) -> Scalar:
    """A date itself where it is proved to be in the range of a TIMESTAMP, else NULL for dates that are not.

    Not TRY_CAST: when it is compared with a literal, DuckDB's optimizer casts the literal to a DATE instead, and so
    answers for the dates that TRY_CAST makes NULL."""
    if held(a.facts).is_bounded:
        return a
    repeatable(a)
    first, last, *infinite = (cast(exp.Literal.string(text), a.facts.type) for text in EXTREMES)
    test: exp.Expr = exp.Between(this=wrapped(a.tree), low=first, high=last)
    for end in infinite:
        test = exp.Or(this=test, expression=exp.EQ(this=wrapped(a.tree.copy()), expression=end))
    tree = exp.Case(ifs=[exp.If(this=test, true=a.tree.copy())])
    return Scalar(tree, replace(a.facts, nullable=True), a.span)


EXTREMES = ("290000-01-01 (BC)", "294000-01-01", "infinity", "-infinity")
"""What dates have a TIMESTAMP: those between the first two, and the last two."""


def guarded(a: Scalar, limits: Interval) -> Scalar:
    """The value where it is within limits, else NULL."""
    holds, exact = held(a.facts), known(a.facts)
    assert limits.lo is not None
    assert limits.hi is not None
    if holds.lo is not None and holds.hi is not None and limits.lo <= holds.lo and holds.hi <= limits.hi:  # type: ignore[operator]
        return a
    repeatable(a)
    type_ = a.facts.type
    lo, hi = (literal(_value(limit), type_) for limit in (limits.lo, limits.hi))
    test = exp.Between(this=wrapped(a.tree), low=lo, high=hi)
    tree: exp.Expr = exp.Case(ifs=[exp.If(this=test, true=a.tree.copy())])
    facts = facts_of(type_, exact, limits, domain=a.facts.domain, nullable=True, step=a.facts.step)
    if is_huge(a.facts) and not is_huge(facts):
        tree = cast(tree, type_)
    return Scalar(tree, facts, a.span)


def repeatable(a: Scalar, times: int = 2) -> Scalar:
    """The argument, if it can be repeated so many times without blowing the statement up."""
    if times * expanded(a.tree) > 2 * MAX_REPEATED_NODES:
        raise refusal(
            "DP233",
            "a division, NULLIF, CASE or date calculation on a large expression of such",
            span=a.span,
            repair="shorten the expression; for dates, declare bounds of the columns in the policy",
        )
    return a


def expanded(tree: exp.Expr) -> int:
    """Nodes of a tree as the engine sees it, with what it repeats counted as often as that."""
    total = 1 + sum(expanded(child) for child in tree.iter_expressions())
    if isinstance(tree, exp.Nullif | exp.SplitPart):
        return total + expanded(tree.this)
    if isinstance(tree, exp.Case) and tree.this is not None:
        return total + expanded(tree.this) * (len(tree.args["ifs"]) - 1)
    return total


def _value(bound: Bound) -> Value:
    return int(bound) if isinstance(bound, Fraction) else bound
