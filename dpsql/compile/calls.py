"""A call of a function over private rows: what the analyst wrote, and what the table says of the function.

Rules get a `Call` with its arguments already lowered, and give its total form. What sqlglot keeps beside a call's
arguments (a unit, a position) the rule reads from the node itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from sqlglot import exp

from dpsql.compile.ir import Scalar
from dpsql.errors import Span


@dataclass(frozen=True, slots=True)
class Call:
    """One call: its node, its lowered arguments, where it stands. of_age: its last argument was age(a, b), and a and b
    stand in place of it."""

    name: str
    node: exp.Expr
    arguments: list[Scalar]
    span: Span | None
    of_age: bool = False


Rule = Callable[[Call], Scalar]


MANY = 99
"""Arguments of what takes any number of them; `public` and the gate take no more."""


@dataclass(frozen=True, slots=True)
class Function:
    """name: as SQL spells it. keys: where the node keeps its arguments, in SQL's order. least, most: how many.
    read: further keys, which the rule reads itself. neutral: keys a node may carry besides,
    with the one value that changes nothing. takes_age: whether its last argument may be age(a, b)."""

    name: str
    keys: tuple[str, ...]
    rule: Rule
    least: int = 1
    most: int = 1
    read: tuple[str, ...] = ()
    neutral: Mapping[str, object] = field(default_factory=dict)
    takes_age: bool = False


def plain(rule: Callable[..., Scalar]) -> Rule:
    """A rule that takes the arguments and the span, and nothing else of the call."""
    return lambda call: rule(*call.arguments, call.span)


def of_kind(rule: Callable[..., Scalar]) -> Rule:
    """A rule for several nodes, which it is told apart by."""
    return lambda call: rule(type(call.node), *call.arguments, call.span)
