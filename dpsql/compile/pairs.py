"""How many pairs of rows public SQL compares, where no equality says which.

Role: bound that from the text and from how many rows public tables have. DuckDB hears an interrupt between chunks of a
join's result: inside a range join or a nested loop that finds nothing it hears none until it has compared whole blocks
of rows (measured with 2.0.1: a million rows on both sides, and no interrupt for minutes). So what neither the clock
of an engine nor its user could end must not begin. Must not: read any row.

Hash joins hear interrupts, so that an equality between two FROM items is enough.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from math import prod

from sqlglot import exp

from dpsql.compile.blocks import is_aggregated, tables_of
from dpsql.compile.canonical import span_of
from dpsql.compile.sizes import MAX_ROWS, most_of, rows_of
from dpsql.compile.trees import conjuncts, folded, from_items
from dpsql.errors import refusal

MAX_PAIRS = 10**10
"""Some tens of seconds' work."""

RELEASED = 10_000
"""Rows of a released table, where nobody knows yet."""


def check_pairs(tree: exp.Expr, tables: Mapping[str, int], released: Mapping[str, int]) -> None:
    """Raises DP240 where a SELECT compares too many. tables: the rows of public tables, by name. released: those of
    released tables, where they are known."""
    _Pairs(tables).query(tree, released)


class _Pairs:
    def __init__(self, tables: Mapping[str, int]):
        self.tables = tables

    def query(self, node: exp.Expr, ctes: Mapping[str, int]) -> int:
        """How many rows a query has at the most, as far as this is known."""
        clause = node.args.get("with_")
        for cte in clause.expressions if clause is not None else ():
            ctes = {**ctes, folded(cte.alias): self.query(cte.this, ctes)}
        match node:
            case exp.Subquery():
                rows = self.query(node.this, ctes)
            case exp.SetOperation():
                rows = self.query(node.left, ctes) + self.query(node.right, ctes)
            case exp.Select():
                rows = self._select(node, ctes)
            case _:
                rows = 1
        limit = node.args.get("limit")
        most = most_of(limit.expression) if isinstance(limit, exp.Limit) else None
        return rows if most is None else min(rows, max(int(most), 0))

    def _select(self, node: exp.Select, ctes: Mapping[str, int]) -> int:
        items = from_items(node)
        pairs = 1
        for place, item in enumerate(items):
            rows = self._item(item, ctes)
            pairs = max(pairs, rows) if place and _is_matched(node, items, place) else pairs * rows
            if place and pairs > MAX_PAIRS:
                reason = f"FROM compares more than {MAX_PAIRS:,} pairs of rows"
                repair = "join by an equality: ON a.x = b.x; or make the tables smaller first"
                raise refusal("DP240", reason, span=span_of(item) or span_of(node), repair=repair)
        for part in node.iter_expressions():
            if not isinstance(part, exp.From | exp.Join | exp.With):
                for inner in part.find_all(exp.Query):
                    if inner.find_ancestor(exp.Query) is node:
                        self.query(inner, ctes)
        return 1 if is_aggregated(node) and node.args.get("group") is None and not node.args.get("distinct") else pairs

    def _item(self, item: exp.Expr, ctes: Mapping[str, int]) -> int:
        if isinstance(item, exp.Query):
            return self.query(item, ctes)
        if isinstance(item, exp.Values):
            return len(item.expressions)
        if isinstance(item, exp.Table) and isinstance(item.this, exp.Identifier):
            return self.tables.get(item.name, 1) if item.db else ctes.get(folded(item.name), RELEASED)
        series = [rows_of(found) for found in item.find_all(exp.GenerateSeries)]
        return int(prod((MAX_ROWS if rows is None else rows for rows in series), start=Fraction(1)))


def _is_matched(node: exp.Select, items: list[exp.Expr], place: int) -> bool:
    """Whether an equality says with which rows of the items before it each row of an item is compared."""
    join = (node.args.get("joins") or ())[place - 1]
    if join.args.get("using") or join.args.get("method"):
        return True
    own, where = folded(items[place].alias_or_name), node.args.get("where")
    before = {folded(item.alias_or_name) for item in items[:place]}
    tests = [*conjuncts(join.args.get("on")), *conjuncts(where.this if where is not None else None)]
    return any(isinstance(test, exp.EQ) and _meet(test, own, before) for test in tests)


def _meet(test: exp.EQ, own: str, before: set[str]) -> bool:
    """Whether one side speaks of an item and the other of those before it; a column without a table may be of any."""
    sides = [{folded(name) for name in tables_of(side)} for side in (test.left, test.right)]
    return any(one and other and one <= {own, ""} and other & (before | {""}) for one, other in (sides, sides[::-1]))
