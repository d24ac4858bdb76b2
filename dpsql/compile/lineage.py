"""A private block without its subqueries: tables in one FROM, and what holds for the rows that reach the block.

Aliases are unique in a statement, so a derived column can be replaced by the expression that computes it, over the
tables inside; and what a subquery demands of its rows holds for every row that comes from it. So `GROUP BY nation`
over `(SELECT n_name AS nation, ... WHERE n_name LIKE 'A%')` is seen to group by a public column.

This says where keys come from, never what an engine runs. What it says of each output row: there is one row of every
table (of `optional` ones perhaps none, and then their columns are NULL) from which its columns are computed as written
here, and for which the predicates hold. What would make that false stays as it is, a column of which no more is known:
- what is computed over several rows; all of a subquery in which a row may stem from none (an aggregate without GROUP
  BY, ROLLUP and its like), or that is no single SELECT;
- what stands behind an outer join, unless it is a bare column: that is NULL with its table, `1 AS one` is not;
- the second use of one CTE: its aliases would stand for two rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from sqlglot import exp

from dpsql.compile.blocks import BlockSource, PrivateBlock, TableSource, aggregates, is_aggregate, item_name
from dpsql.compile.ir import ColumnName, Facts, Scope
from dpsql.compile.trees import copied, rebuild, wrapped
from dpsql.compile.types import column_facts
from dpsql.policy.facts import PublicFacts

MAX_NODES = 500
"""Of an expression: nested subqueries can double it at every level."""


@dataclass(frozen=True, slots=True)
class Lineage:
    """tables: by alias. optional: aliases whose row may be missing. scope: the facts of the tables' columns.
    predicates: over these, and over columns that stay as they are."""

    tables: Mapping[str, TableSource]
    optional: frozenset[str]
    scope: Scope
    predicates: tuple[exp.Expr, ...]
    computed: Mapping[ColumnName, exp.Expr]

    def of(self, tree: exp.Expr) -> exp.Expr:
        """An expression of the block, over the tables."""
        return _replaced(tree, self.computed) or tree


def lineage(block: PrivateBlock, facts: PublicFacts) -> Lineage:
    """Of a block, with all that it reads."""
    reader = _Reader(facts)
    reader.read(block, optional=False)
    return Lineage(reader.tables, frozenset(reader.optional), reader.scope, tuple(reader.predicates), reader.computed)


class _Reader:
    def __init__(self, facts: PublicFacts):
        self.facts = facts
        self.tables: dict[str, TableSource] = {}
        self.optional: set[str] = set()
        self.scope: dict[ColumnName, Facts] = {}
        self.predicates: list[exp.Expr] = []
        self.computed: dict[ColumnName, exp.Expr] = {}
        self._seen: set[int] = set()

    def read(self, block: PrivateBlock, optional: bool) -> None:
        """Subqueries first: what is computed over them is made of what they compute."""
        self._seen.add(id(block))
        missing = block.optional
        for source in block.sources:
            behind = optional or any(s is source for s in missing)
            if isinstance(source, TableSource):
                self._table(source, behind)
                continue
            inner = source.block if isinstance(source, BlockSource) else None
            if isinstance(inner, PrivateBlock) and id(inner) not in self._seen and _from_rows(inner):
                self.read(inner, behind)
                self._items(source.alias, inner, behind)
        if not optional:
            # What is equal to something of the query around is not NULL where anybody asks for its group.
            met = [
                exp.Not(this=exp.Paren(this=exp.Is(this=copied(i), expression=exp.Null()))) for i, _ in block.correlated
            ]
            found = [_replaced(p, self.computed) for p in [*block.predicates, *met]]
            self.predicates += [p for p in found if p is not None]

    def _table(self, source: TableSource, optional: bool) -> None:
        self.tables[source.alias] = source
        if optional:
            self.optional.add(source.alias)
        known = self.facts.tables[source.table.name]
        never_null = frozenset().union(*known.unique) if source.table.public and not optional else frozenset()
        for name, declared in source.table.columns.items():
            facts = column_facts(declared, known.types[name], source.table)
            self.scope[source.alias, name] = replace(facts, nullable=False) if name in never_null else facts

    def _items(self, alias: str, block: PrivateBlock, optional: bool) -> None:
        for position, item in enumerate(block.items):
            tree = _replaced(item.tree, self.computed) if _of_one_row(item.tree) else None
            if tree is None or (optional and not isinstance(tree, exp.Column)):
                continue
            if all((c.table, c.name) in self.scope for c in tree.find_all(exp.Column)):
                self.computed[alias, item_name(position)] = tree


def _from_rows(block: PrivateBlock) -> bool:
    """Whether every row stems from a row that WHERE has kept: itself, or any of its group."""
    if any(isinstance(g, exp.Rollup | exp.Cube | exp.GroupingSets) for g in block.groups):
        return False
    trees = [*(i.tree for i in block.items), *([block.having] if block.having is not None else [])]
    return bool(block.groups) or not any(True for tree in trees for _ in aggregates(tree))


def _not_null(tree: exp.Expr) -> exp.Expr:
    return exp.Not(this=exp.Paren(this=exp.Is(this=wrapped(copied(tree)), expression=exp.Null())))


def _of_one_row(tree: exp.Expr) -> bool:
    """Whether an item is computed from one row; of a group it is then the same for all of its rows."""
    return not any(is_aggregate(n) or isinstance(n, exp.Window | exp.Query | exp.Star) for n in tree.walk())


def _replaced(tree: exp.Expr, computed: Mapping[ColumnName, exp.Expr]) -> exp.Expr | None:
    """The expression with computed columns replaced; None where it would be too large."""
    uses = [computed.get((c.table, c.name)) for c in tree.find_all(exp.Column)]
    if sum(sum(1 for _ in use.walk()) for use in uses if use is not None) > MAX_NODES:
        return None

    def replaced(node: exp.Expr) -> exp.Expr:
        if not isinstance(node, exp.Column):
            return rebuild(node, replaced)
        use = computed.get((node.table, node.name))
        return copied(node) if use is None else wrapped(copied(use))

    return replaced(tree)
