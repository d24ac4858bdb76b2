"""What `resolve` hands to `lower`: blocks of private rows with every name bound, and the public tree around them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import cast

from sqlglot import exp

from dpsql.compile.trees import implied
from dpsql.policy.model import Table


@dataclass(frozen=True, slots=True)
class TableSource:
    """A table of the policy in FROM. `columns`: (name it is called by, its name in the policy)."""

    table: Table
    alias: str
    columns: tuple[tuple[str, str], ...]
    node: exp.Expr


@dataclass(frozen=True, slots=True)
class BlockSource:
    """A derived table or CTE of private rows. `columns`: (name it is called by, name of the block's item)."""

    block: PrivateBlock
    alias: str
    columns: tuple[tuple[str, str], ...]
    node: exp.Expr


@dataclass(frozen=True, slots=True)
class OtherSource:
    """Anything else in the FROM of a private block; `lower` says what it thinks of it."""

    node: exp.Expr
    alias: str = ""
    columns: tuple[tuple[str, str], ...] = ()


Source = TableSource | BlockSource | OtherSource


@dataclass(frozen=True, slots=True)
class BoundJoin:
    """One more FROM item. kind: INNER, LEFT, or any other word the text had. on: None for a comma or CROSS JOIN."""

    kind: str
    source: Source
    on: exp.Expr | None
    node: exp.Expr


@dataclass(frozen=True, slots=True)
class Item:
    """One column of the SELECT list."""

    name: str
    tree: exp.Expr


@dataclass(frozen=True, slots=True)
class PrivateBlock:
    """A SELECT over at least one private table; expressions are bound. `groups`: the elements of GROUP BY, bound
    expressions and sets or lists of them. `ctes`: its public WITH entries."""

    node: exp.Select
    first: Source
    joins: tuple[BoundJoin, ...]
    where: exp.Expr | None
    items: tuple[Item, ...]
    groups: tuple[exp.Expr, ...]
    having: exp.Expr | None
    qualify: exp.Expr | None
    order: tuple[exp.Ordered, ...]
    ctes: tuple[exp.CTE, ...]
    is_release: bool

    @property
    def sources(self) -> tuple[Source, ...]:
        return (self.first, *(j.source for j in self.joins))

    @property
    def predicates(self) -> list[exp.Expr]:
        """What every row of the block satisfies: WHERE, and ON of the joins that drop what has no partner, unless a
        RIGHT or FULL JOIN after them brings rows of its own."""
        outer = [i for i, j in enumerate(self.joins, 1) if j.kind in ("RIGHT", "FULL")]
        inner = [c for j in self.joins[max(outer, default=0) :] if j.kind == "INNER" for c in implied(j.on)]
        return [*inner, *implied(self.where)]


@dataclass(frozen=True, slots=True)
class PrivateOther:
    """A query over private rows that is no single SELECT (UNION and its like)."""

    node: exp.Expr


Private = PrivateBlock | PrivateOther


@dataclass(frozen=True, slots=True)
class Resolved:
    """root: the statement. blocks: by id() of a node of `root`, the private queries that stand in public places."""

    root: exp.Expr
    blocks: Mapping[int, Private]


SETS = exp.Rollup | exp.Cube | exp.GroupingSets
"""Elements of GROUP BY that are several sets of keys."""


def rebound(element: exp.Expr, leaf: Callable[[exp.Expr], exp.Expr]) -> exp.Expr:
    """An element of GROUP BY over `leaf` of each expression in it."""
    element = element.unnest()
    if isinstance(element, SETS | exp.Tuple):
        return type(element)(expressions=[rebound(e, leaf) for e in element.expressions])
    return leaf(element)


def leaves(element: exp.Expr) -> Iterator[exp.Expr]:
    """The expressions in an element of GROUP BY."""
    if isinstance(element, SETS | exp.Tuple):
        for part in element.expressions:
            yield from leaves(part)
    else:
        yield element


def item_name(position: int) -> str:
    """What the item at this position of a subquery is called in generated SQL."""
    return f"c{position + 1}"


def origin(source: Source, name: str) -> tuple[TableSource, str] | None:
    """The policy's column that a source's column is, unchanged, by lineage; None where it is computed.

    `uid + 0 AS uid` or `7 AS uid` is no unit, whatever it is called.
    """
    if isinstance(source, TableSource):
        return source, name
    inner = _inner(source, name)
    return origin(*inner) if inner is not None else None


def is_optional(block: PrivateBlock, source: Source, name: str) -> bool:
    """Whether a source's column, unchanged by lineage, can be missing because a LEFT JOIN found no partner."""
    if any(join.source is source and join.kind == "LEFT" for join in block.joins):
        return True
    inner = _inner(source, name)
    return inner is not None and isinstance(source, BlockSource) and is_optional(source.block, *inner)


def _inner(source: Source, name: str) -> tuple[Source, str] | None:
    """The column inside a subquery that one of its columns is."""
    if not isinstance(source, BlockSource):
        return None
    tree = next(item.tree for i, item in enumerate(source.block.items) if item_name(i) == name)
    if not isinstance(tree, exp.Column):
        return None
    return next(s for s in source.block.sources if s.alias == tree.table), tree.name


def is_aggregate(node: exp.Expr) -> bool:
    """Whether this node itself is an aggregate call (FILTER and its like included)."""
    if isinstance(node, exp.Filter | exp.WithinGroup | exp.IgnoreNulls | exp.RespectNulls):
        return is_aggregate(cast(exp.Expr, node.this))
    if isinstance(node, exp.Anonymous):
        return str(node.name).lower() in _AGGREGATE_NAMES
    return isinstance(node, exp.AggFunc | exp.CountIf)


def aggregates(node: exp.Expr) -> Iterator[exp.Expr]:
    """The outermost aggregates below `node`. A window's own function is none; its arguments may hold some."""
    if isinstance(node, exp.Query):
        return
    if isinstance(node, exp.Window):
        function = node.this
        while isinstance(function, exp.Filter | exp.IgnoreNulls | exp.RespectNulls):
            function = function.this
        children = [*function.iter_expressions(), *(c for c in node.iter_expressions() if c is not node.this)]
    elif is_aggregate(node):
        yield node
        return
    else:
        children = list(node.iter_expressions())
    for child in children:
        yield from aggregates(child)


def is_release(node: exp.Select) -> bool:
    """Whether a SELECT aggregates: GROUP BY, HAVING, DISTINCT, or an aggregate outside a window's own function."""
    if any(node.args.get(clause) is not None for clause in ("group", "having", "distinct")):
        return True
    parts = [*node.expressions, node.args.get("qualify"), node.args.get("order")]
    return any(True for part in parts if part is not None for _ in aggregates(part))


# Aggregates that sqlglot has no class for: without this a call would be taken for a function of one row.
_AGGREGATE_NAMES = frozenset(
    "arbitrary bitstring_agg bool_and bool_or entropy favg fsum geomean geometric_mean histogram histogram_exact"
    " kahan_sum kurtosis kurtosis_pop list mad product reservoir_quantile sem skewness stats sumkahan"
    " weighted_avg wavg approx_top_k first last any_value argmax argmin arg_max arg_min max_by min_by"
    " arg_max_null arg_min_null count_star".split()
)
