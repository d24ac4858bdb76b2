"""Statements that ask which group is best, and show the keys alone: private choices.

`SELECT key FROM ... GROUP BY key ORDER BY score DESC LIMIT k` needs no number of any group: the keys are the candidates
of a selection mechanism (`privacy.choices`), which is far more exact than to release all scores. The score is one count
or sum, the *slot*, times a public factor of the keys. Where an aggregate is among the columns, the groups are released,
and their order and LIMIT are post-processing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from sqlglot import exp

from dpsql.compile.blocks import PrivateBlock, aggregates, is_aggregate, nested_in
from dpsql.compile.hints import HINT, arguments_of
from dpsql.compile.parse import span_of
from dpsql.compile.trees import shown, unwrapped, wrapped
from dpsql.errors import Error, Span, refusal

REPAIR = "select the score as well: then all groups are released with noise, and the rest is post-processing"


@dataclass(frozen=True, slots=True)
class Asked:
    """A choice as it is written: the first `winners` by aggregate * factor (None: 1). text: what an analyst wrote for
    the aggregate."""

    winners: int
    ascending: bool
    aggregate: exp.Expr
    factor: exp.Expr | None
    text: str = ""


def asked(block: PrivateBlock) -> Asked | None:
    """The choice that a block asks for; None where it is another form. Raises DP224 for a score that is no single
    count or sum times a factor."""
    winners = _winners(block)
    if winners is None or not _shows_keys_alone(block):
        return None
    first, *others = block.order
    if any(True for o in others for _ in aggregates(o)):
        raise unanswered("a choice has one score, and here are several", span_of(others[0]))
    found, factors = None, []
    for part in _factors(first.this):
        if not any(True for _ in aggregates(part)):
            factors.append(part)
        elif found is not None or not is_aggregate(part):
            raise unanswered("the score of a choice is one count or sum, times a factor of the keys", span_of(part))
        else:
            found = part
    assert found is not None  # the order has an aggregate
    hidden = (n for f in factors for n in f.walk() if isinstance(n, exp.Window | exp.Query) or nested_in(n) is not None)
    for node in hidden:
        raise unanswered("the factor of a score is an expression of the keys", span_of(node))
    factor = factors[0] if factors else None
    for more in factors[1:]:
        factor = exp.Mul(this=wrapped(factor.copy()), expression=wrapped(more.copy())) if factor is not None else more
    return Asked(winners, not first.args.get("desc"), found, factor)


def is_ranked(block: PrivateBlock) -> bool:
    """Whether a block keeps the first of its groups by an aggregate."""
    return _winners(block) is not None


def unanswered(reason: str, span: Span | None) -> Error:
    """The refusal of a choice that has no mechanism here."""
    return refusal("DP224", reason, span=span, repair=REPAIR)


def mode(block: PrivateBlock, call: exp.Mode, condition: exp.Expr | None) -> tuple[PrivateBlock, Asked]:
    """MODE(x) FILTER (WHERE condition) of all rows of a block: the choice of the x that most rows have. NULLs count for
    nothing, as in DuckDB."""
    value: exp.Expr = call.this
    present = exp.Not(this=exp.Is(this=wrapped(value.copy()), expression=exp.null()))
    where = [wrapped(c.copy()) for c in (block.where, condition) if c is not None]
    rows = exp.and_(*where, present, copy=False)
    keyed = replace(block, items=(), groups=(value.copy(),), where=rows, having=None, qualify=None, order=(), ctes=())
    count = exp.Count(this=exp.Star(), big_int=True)
    count.meta[HINT] = arguments_of(call)
    return keyed, Asked(1, False, count, None, shown(call))


def _winners(block: PrivateBlock) -> int | None:
    """k of a block that orders groups by an aggregate first, and keeps the first k of them."""
    limit = block.node.args.get("limit")
    number = limit.expression if isinstance(limit, exp.Limit) else None
    whole = isinstance(number, exp.Literal) and not number.is_string and number.name.isdigit() and int(number.name) > 0
    if not whole or not block.groups or not block.order or not any(True for _ in aggregates(block.order[0].this)):
        return None
    assert number is not None
    return int(number.name)


def _shows_keys_alone(block: PrivateBlock) -> bool:
    """Whether nothing that is computed over rows decides what is shown, but the order."""
    node = block.node
    if block.having is not None or block.qualify is not None or node.args.get("distinct") or node.args.get("offset"):
        return False
    if any(isinstance(n, exp.Rollup | exp.Cube | exp.GroupingSets) for n in block.groups):
        return False
    trees = [item.tree for item in block.items]
    nodes = (n for tree in trees for n in tree.walk())
    return not any(isinstance(n, exp.Window) or is_aggregate(n) for n in nodes)


def _factors(tree: exp.Expr) -> Iterator[exp.Expr]:
    """The factors of a product."""
    tree = unwrapped(tree)
    if isinstance(tree, exp.Mul):
        yield from _factors(tree.this)
        yield from _factors(tree.expression)
    elif isinstance(tree, exp.Neg):
        yield exp.Neg(this=exp.Literal.number(1))
        yield from _factors(tree.this)
    elif isinstance(tree, exp.Div) and not any(True for _ in aggregates(tree.expression)):
        yield from _factors(tree.this)
        yield exp.Div(this=exp.Literal.number(1), expression=wrapped(tree.expression.copy()))
    else:
        yield tree
