"""Lower subqueries that are grouped per unit: GROUP BY and DISTINCT whose keys hold the unit, or an entity of it.

The unit is always a key of its own, whatever the labels of the columns say: NULL labels, or a claim that is violated,
cannot bring rows of two units into one group.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from sqlglot import exp

from dpsql.compile import subqueries
from dpsql.compile.aggregates import aggregate, comparable
from dpsql.compile.blocks import (
    SETS,
    PrivateBlock,
    PrivateUnion,
    aggregates,
    is_aggregate,
    is_optional,
    item_name,
    nested_in,
)
from dpsql.compile.instead import not_grouped
from dpsql.compile.ir import ColumnName, Facts, PerUnit, Scalar, Scope
from dpsql.compile.joins import left_join
from dpsql.compile.labels import identify, is_unit, labels_of_output
from dpsql.compile.lowered import GROUP_CLAUSES, Lowered, check_clauses, project
from dpsql.compile.parse import span_of
from dpsql.compile.scalars import lower_scalar, narrow
from dpsql.compile.trees import column, rebuild, without_parens
from dpsql.errors import refusal

if TYPE_CHECKING:
    from dpsql.compile.rows import RowLowerer


def grouped(rows: RowLowerer, block: PrivateBlock, alias: str, hidden: Sequence[exp.Expr] = ()) -> Lowered:
    """A grouped block under an alias; `hidden` expressions of its rows are keys too, and its last columns."""
    groups = _Groups(rows, block, hidden)
    made = groups.made()
    if block.having is not None:
        having = groups.over(block.having)
        rows.filter(block, made, having, "HAVING")
        made.narrowed = {n: f for n, f in narrow(made.scope, having).items() if made.scope.get(n) is not f}
    items = [groups.over(item.tree) for item in block.items]
    items += [groups.over(tree) for tree in hidden]
    scalars = [
        None if groups.is_hidden(t) else lower_scalar(rows.expression(block, made, t, "SELECT"), made.kept)
        for t in items
    ]
    lowered = project(made, alias, scalars)
    shown = {t.name: item_name(i) for i, t in enumerate(items) if isinstance(t, exp.Column) and t.table == groups.alias}
    if groups.needed <= shown.keys():
        lowered.unique = (frozenset(shown[n] for n in groups.needed),)
    return lowered


def looked_up(rows: RowLowerer, made: Lowered, block: PrivateBlock, scope: Scope) -> exp.Expr:
    """The value of a correlated aggregate without GROUP BY for the row outside, which the groups are joined to. Where
    there is no group, counts are 0 and the rest is NULL, as over no rows. scope: of the row outside."""
    if block.having is not None:
        reason, repair = "HAVING without GROUP BY is not answered here", "leave it out"
        raise refusal("DP220", reason, span=span_of(block.having), repair=repair)
    groups = _Groups(rows, block, [inner for inner, _ in block.correlated])
    right = groups.made()
    pairs = [(groups.over(inner), outer) for inner, outer in block.correlated]
    left_join(made, right, pairs, scope)
    value = groups.over(block.items[0].tree)
    counts = {(groups.alias, name) for name, scalar in groups.measures if not scalar.facts.nullable}

    def counted(node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Column):
            zero = (node.table, node.name) in counts
            return exp.Coalesce(this=node.copy(), expressions=[exp.Literal.number(0)]) if zero else node.copy()
        return rebuild(node, counted)

    return counted(value)


def distinct(rows: RowLowerer, made: Lowered, alias: str, union: PrivateUnion) -> Lowered:
    """The different rows of each unit. Raises DP221 where the union is not meant per unit: then rows of two units could
    be one."""
    names = [item_name(i) for i in range(len(union.names))]
    if not identify([labels_of_output(union, column(alias, n), rows.policy) for n in names], rows.policy):
        reason = f"UNION would make equal rows of different {rows.policy.unit}s one"
        repair = f"use UNION ALL, or select the {rows.policy.unit} too"
        raise refusal("DP221", reason, span=span_of(union.node), repair=repair)
    groups = rows.name("groups")
    items = {n: Scalar(column(alias, n), made.scope[alias, n]) for n in names if (alias, n) in made.scope}
    keys = tuple((n, replace(s, tree=comparable(s))) for n, s in items.items())
    scope = {(groups, name): key.facts for name, key in keys}
    grouped_ = Lowered(PerUnit(made.relation, groups, keys, ()), scope, most=made.most)
    shown = [Scalar(column(groups, n), items[n].facts) if n in items else None for n in names]
    lowered = project(grouped_, alias, shown)
    lowered.unique = (frozenset(items),)
    return lowered


class _Groups:
    """The groups of one block: keys, and the measures that its expressions ask for."""

    def __init__(self, rows: RowLowerer, block: PrivateBlock, hidden: Sequence[exp.Expr]):
        check_clauses(block, GROUP_CLAUSES)
        self.rows, self.block = rows, block
        self.alias = rows.name("groups")
        self.input = rows.block(block)
        self.keys: list[tuple[exp.Expr, Scalar | None]] = []  # None: the unit, which is a key in any case
        self.needed: set[str] = set()  # the keys that tell groups of one unit apart
        self.measures: list[tuple[str, Scalar]] = []
        self._trees: list[exp.Expr] = []
        distinct_ = block.node.args.get("distinct")
        if distinct_ is not None and any(True for i in block.items for _ in aggregates(i.tree)):
            reason = "DISTINCT over groups is not answered here"
            raise refusal("DP221", reason, span=span_of(distinct_), repair="leave it out")
        for tree in [*block.groups, *hidden]:
            self._add_key(tree)
        for item in [*(i.tree for i in block.items), block.having]:
            for call in aggregates(item) if item is not None else ():
                self._add_measure(call)

    def made(self) -> Lowered:
        """The groups as a relation."""
        keys = tuple((f"k{i}", k) for i, (_, k) in enumerate(self.keys, 1) if k is not None)
        scope: dict[ColumnName, Facts] = {(self.alias, name): s.facts for name, s in [*keys, *self.measures]}
        relation = PerUnit(self.input.relation, self.alias, keys, tuple(self.measures))
        return Lowered(relation, scope, one_row=not self.needed, most=self.input.most if self.needed else 1)

    def over(self, node: exp.Expr) -> exp.Expr:
        """An expression of the block as one over the groups."""
        meaning = without_parens(node)
        for i, (tree, _) in enumerate(self.keys, 1):
            if tree == meaning:
                return column(self.alias, f"k{i}")
        if isinstance(node, exp.Window):  # whose own function is no aggregate of the groups (`aggregates`)
            reason = f"a window over groups of one {self.rows.policy.unit}'s rows stands in a query around them"
            repair = "group in a subquery: SELECT ..., ROW_NUMBER() OVER (...) FROM (SELECT ... GROUP BY ...) AS t"
            raise refusal("DP222", reason, span=span_of(node), repair=repair)
        if is_aggregate(node):
            return column(self.alias, f"a{self._trees.index(node) + 1}")
        if nested_in(node) is not None:
            return node.copy()
        if isinstance(node, exp.Column):
            raise not_grouped(node)
        return rebuild(node, self.over)

    def is_hidden(self, tree: exp.Expr) -> bool:
        """Whether an item is a key that nobody can see."""
        return any(key is None and tree == column(self.alias, f"k{i}") for i, (_, key) in enumerate(self.keys, 1))

    def _add_key(self, tree: exp.Expr) -> None:
        meaning = without_parens(tree)
        if any(key == meaning for key, _ in self.keys):
            return
        if isinstance(tree, SETS | exp.Tuple):
            reason, repair = "grouping sets in a subquery of rows are not answered", "group by plain columns there"
            raise refusal("DP221", reason, span=span_of(tree), repair=repair)
        name = f"k{len(self.keys) + 1}"
        source = next((s for s in self.block.sources if isinstance(tree, exp.Column) and s.alias == tree.table), None)
        of_unit = source is not None and is_unit(source, tree.name, self.rows.policy)
        if self.rows.is_hidden(self.block, tree):
            self.keys.append((meaning, None))
        else:
            value = self.rows.expression(self.block, self.input, tree, "GROUP BY")
            key = lower_scalar(value, self.input.kept)
            self.keys.append((meaning, replace(key, tree=comparable(key))))
        if source is None or not of_unit or is_optional(self.block, source, tree.name):
            self.needed.add(name)

    def _add_measure(self, call: exp.Expr) -> None:
        if call in self._trees:
            return
        for argument in call.iter_expressions():
            self.rows.check_units(self.block, argument)
        value = subqueries.in_value(self.rows, self.block, self.input, call)
        self._trees.append(call)
        self.measures.append((f"a{len(self._trees)}", aggregate(value, self.input.kept, self.input.most)))
