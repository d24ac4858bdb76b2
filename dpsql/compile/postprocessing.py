"""What stands above a release: expressions of its keys and aggregates, over the released table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from sqlglot import exp

from dpsql.compile.blocks import Item, PrivateBlock, is_aggregate, nested_in
from dpsql.compile.grouping import grouping_value
from dpsql.compile.instead import not_grouped
from dpsql.compile.ir import Measure
from dpsql.compile.keys import GroupKey
from dpsql.compile.measures import Measures, unfiltered
from dpsql.compile.parse import span_of
from dpsql.compile.trees import column, copied, is_star, rebuild, unwrapped, without_parens
from dpsql.errors import refusal


class Parts(Protocol):
    """What in an expression is a release of its own. `lower` gives it."""

    def nested(self, position: int, around: Callable[[exp.Expr], exp.Expr]) -> exp.Expr:
        """The query that stands at this position, its releases cut out. around: what its expressions of the block
        around it become."""

    def mode(self, block: PrivateBlock, call: exp.Mode, condition: exp.Expr | None) -> exp.Expr:
        """The query that gives the MODE of all rows of a block."""


class PostProcessing:
    """Rewrites an expression of a release block into one over `released_k`: keys and aggregates become its columns.

    Of a release that is correlated, one row is looked up, or none: there a count is 0 and the rest NULL, as over no
    rows."""

    def __init__(
        self,
        parts: Parts,
        block: PrivateBlock,
        released: str,
        keys: Sequence[GroupKey],
        sets: Sequence[tuple[str, ...]],
        measures: Measures,
    ):
        self.parts, self.block, self.released = parts, block, released
        self.keys, self.sets, self.measures = keys, sets, measures
        self._own = {s.alias for s in block.sources}
        self._kinds = {type(key.tree) for key in keys} if not block.correlated else set()  # what a key may be
        self._column = ""

    def item(self, item: Item) -> exp.Expr:
        """One column of the SELECT list."""
        self._column = item.name
        tree = self(item.tree)
        self._column = ""
        return tree

    def over(self, relation: str) -> PostProcessing:
        """The same for another relation that has the keys."""
        return PostProcessing(self.parts, self.block, relation, self.keys, self.sets, self.measures)

    def key(self, tree: exp.Expr) -> exp.Expr:
        """The column of a key."""
        meaning = without_parens(tree)
        return next(column(self.released, key.key.name) for key in self.keys if key.tree == meaning)

    def __call__(self, node: exp.Expr) -> exp.Expr:
        if type(unwrapped(node)) in self._kinds:
            meaning = without_parens(node)
            if any(key.tree == meaning for key in self.keys):
                return self.key(node)
        query = node.this if isinstance(node, exp.Exists) else node
        position = nested_in(query) if isinstance(query, exp.Expr) else None
        if position is not None:
            tree = self.parts.nested(position, self)
            return exp.Exists(this=tree) if isinstance(node, exp.Exists) else exp.Subquery(this=tree)
        if isinstance(node, exp.Window):
            return rebuild(node, lambda child: self._function(child) if child is node.this else self(child))
        if isinstance(node, exp.Grouping | exp.GroupingId):
            return grouping_value(node, self.released, self.keys, self.sets)
        call, condition = unfiltered(node)
        if isinstance(call, exp.Mode) and is_aggregate(node):
            self.measures.check_unowned(call, condition, node)
            return exp.Subquery(this=self.parts.mode(self.block, call, condition))
        if is_aggregate(node):
            return self._measured(self.measures.add(node, self._column))
        if is_star(node):
            raise refusal(
                "DP201", "a star here means rows of single units", span=span_of(node), repair="name keys and aggregates"
            )
        if isinstance(node, exp.Column):
            if self.block.correlated and node.table not in self._own:
                return copied(node)  # of the public query around it
            raise not_grouped(node)
        return rebuild(node, self)

    def _measured(self, measure: Measure) -> exp.Expr:
        found = column(self.released, measure.name)
        if not self.block.correlated:
            return found
        one: exp.Expr = exp.Max(this=found)  # of one row, or none
        if measure.statistic.is_count:
            return exp.Coalesce(this=one, expressions=[exp.Literal.number(0)])
        return one

    def _function(self, node: exp.Expr) -> exp.Expr:
        """A window's own function: not an aggregate over rows, but its arguments may be."""
        if isinstance(node, exp.Filter | exp.IgnoreNulls | exp.RespectNulls):
            return rebuild(node, lambda c: self._function(c) if c is node.this else self(c))
        return rebuild(node, lambda c: copied(c) if isinstance(c, exp.Star) else self(c))
