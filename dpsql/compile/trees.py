"""Small helpers on sqlglot trees, used by several passes. They build new trees and never change their argument."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import cast

from sqlglot import exp


def rebuild(node: exp.Expression, child: Callable[[exp.Expression], exp.Expression]) -> exp.Expression:
    """The same node over `child` of each of its children, with its place in the text kept."""
    copy = type(node)()
    copy.meta.update(node.meta)
    for key, value in node.args.items():
        if isinstance(value, exp.Expression):
            copy.set(key, child(value))
        elif isinstance(value, list):
            copy.set(key, [child(v) if isinstance(v, exp.Expression) else v for v in value])
        else:
            copy.set(key, value)
    return copy


def without_parens(node: exp.Expression) -> exp.Expression:
    """A copy without parentheses: for comparing what is meant, never for generating."""
    return cast(exp.Expression, node.copy().transform(lambda n: n.this if isinstance(n, exp.Paren) else n))


def conjuncts(node: exp.Expression | None) -> Iterator[exp.Expression]:
    """The parts of a conjunction; nothing for None."""
    if node is None:
        return
    if isinstance(node, exp.Paren):
        yield from conjuncts(node.this)
    elif isinstance(node, exp.And):
        yield from conjuncts(node.this)
        yield from conjuncts(node.expression)
    else:
        yield node


def column(alias: str, name: str) -> exp.Column:
    """`"alias"."name"`, both quoted."""
    return exp.Column(this=exp.to_identifier(name, quoted=True), table=exp.to_identifier(alias, quoted=True))


def wrapped(node: exp.Expression) -> exp.Expression:
    """In parentheses, unless it binds tighter than any operator: sqlglot's generator adds none by itself."""
    simple = isinstance(node, exp.Column | exp.Literal | exp.Func | exp.Paren | exp.Boolean | exp.Null | exp.Subquery)
    infix = isinstance(node, exp.Binary | exp.Connector)
    return node if simple and not infix else exp.Paren(this=node)
