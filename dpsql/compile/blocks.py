"""What `resolve` hands to `lower`: blocks of private rows with every name bound, and the public tree around them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import cast

from sqlglot import exp

from dpsql.compile.canonical import span_of
from dpsql.compile.clauses import Clause
from dpsql.compile.hints import Bounds, Hint
from dpsql.compile.trees import CALLED, SUBQUERY, column, implied, unwrapped
from dpsql.errors import Error, Span, refusal
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

    block: Rows
    alias: str
    columns: tuple[tuple[str, str], ...]
    node: exp.Expr


@dataclass(frozen=True, slots=True)
class PublicSource:
    """A public query or CTE in the FROM of a private block: computed first, then read like a table."""

    query: PublicBlock
    alias: str
    columns: tuple[tuple[str, str], ...]
    node: exp.Expr


@dataclass(frozen=True, slots=True)
class OtherSource:
    """Anything else in FROM; of a private block `lower` says what it thinks of it. `columns`: where they are known.
    rows: whether it holds rows of units."""

    node: exp.Expr
    alias: str = ""
    columns: tuple[tuple[str, str], ...] = ()
    rows: bool = False


Source = TableSource | BlockSource | PublicSource | OtherSource


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


class Shape(Enum):
    """What a private SELECT gives. ROWS: its rows, each of one unit. PER_UNIT: groups of rows of one unit each, since
    the unit or an entity of it is among the keys. RELEASE: groups over units, which noise makes public."""

    ROWS = "rows"
    PER_UNIT = "per unit"
    RELEASE = "release"


@dataclass(frozen=True, slots=True)
class PrivateBlock:
    """A SELECT over at least one private table, or one that speaks of the rows of such a SELECT around it; expressions
    are bound. `groups`: the elements of GROUP BY, bound expressions and sets or lists of them. `ctes`: its public WITH
    entries. correlated: (inner, outer) of its conjuncts `inner = outer`, where `outer` speaks of the query around it
    alone; these are no part of `where`. size: how many blocks it is, with those that it reads, each as often as it is
    read: a WITH entry over private rows is written out wherever it is named."""

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
    shape: Shape
    correlated: tuple[tuple[exp.Expr, exp.Expr], ...] = ()
    size: int = 1

    @property
    def names(self) -> list[str]:
        """Of its columns."""
        return [item.name for item in self.items]

    @property
    def is_release(self) -> bool:
        return self.shape is Shape.RELEASE

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

    @property
    def optional(self) -> list[Source]:
        """The sources whose columns are all NULL where an outer join found no partner."""
        found: list[Source] = []
        for position, join in enumerate(self.joins):
            if join.kind in ("LEFT", "FULL"):
                found.append(join.source)
            if join.kind in ("RIGHT", "FULL"):
                found += self.sources[: position + 1]
        return found


@dataclass(frozen=True, slots=True)
class PrivateUnion:
    """UNION ALL of queries that give rows of units; with `distinct` a row of a unit counts once."""

    node: exp.Expr
    branches: tuple[Rows, ...]
    distinct: bool

    @property
    def names(self) -> list[str]:
        """Of its columns: those of the first branch."""
        return self.branches[0].names

    @property
    def size(self) -> int:
        return sum(branch.size for branch in self.branches)


Rows = PrivateBlock | PrivateUnion
"""A query whose rows belong to units."""


@dataclass(frozen=True, slots=True)
class PrivateOther:
    """A query over private rows that is none of these."""

    node: exp.Expr


Private = PrivateBlock | PrivateUnion | PrivateOther

MAX_BLOCKS = 128
"""Of a statement. What passes do to a block is bounded, and so is how deep they go."""

MAX_FROM = 100
"""Tables of a SELECT."""


def check_from(items: Sequence[exp.Expr]) -> None:
    """Raises DP104 where FROM has more tables than are answered."""
    if len(items) > MAX_FROM:
        span, repair = span_of(items[MAX_FROM]), "name intermediate results in a WITH clause"
        raise refusal("DP104", f"FROM has more than {MAX_FROM} tables", span=span, repair=repair)


def check_blocks(size: int, node: exp.Expr) -> None:
    """Raises DP104 where a statement, or one query of it, is of more blocks than are answered."""
    if size > MAX_BLOCKS:
        reason = f"the statement reads private rows in more than {MAX_BLOCKS} SELECTs"
        repair = "ask for less at once; a WITH entry counts as often as it is read, with all that it reads"
        raise refusal("DP104", reason, span=span_of(node), repair=repair)


@dataclass(frozen=True, slots=True)
class PublicBlock:
    """A query over public tables and releases that stands inside a private block. ctes: what its WITH may name."""

    node: exp.Expr
    ctes: tuple[exp.CTE, ...] = ()


Nested = Private | PublicBlock


@dataclass(frozen=True, slots=True)
class Resolved:
    """root: the statement. blocks: by id() of a node of `root`, the private queries that stand in public places.
    nested: the queries in expressions of private blocks, where `nested_in` marks their places. doubts: names of public
    queries that none of their tables has; the engine may know better (fields, lambdas), and has the last word.
    hints, clauses: all that stand in the text."""

    root: exp.Expr
    blocks: Mapping[int, Private]
    nested: Sequence[Nested] = ()
    doubts: Sequence[Error] = ()
    hints: Sequence[Hint | Bounds] = ()
    clauses: Sequence[Clause] = ()


NESTED = "$query"
"""The table of the columns that stand for nested queries."""


def tables_of(node: exp.Expr) -> set[str]:
    """The FROM items that an expression reads."""
    return {c.table for c in node.find_all(exp.Column)}


def nested_column(position: int, span: Span | None = None) -> exp.Column:
    """What stands for the query `Resolved.nested[position]` in a bound expression, and where that query stands."""
    found = column(NESTED, str(position))
    found.meta[CALLED] = (SUBQUERY,)
    if span is not None:
        found.meta.update(start=span.start, end=span.end - 1)
    return found


def nested_in(node: exp.Expr) -> int | None:
    """The position of the query that a node of a bound expression stands for."""
    return int(node.name) if isinstance(node, exp.Column) and node.table == NESTED else None


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


def item_tree(block: PrivateBlock, name: str) -> exp.Expr:
    """The item that is called so in generated SQL."""
    return block.items[int(name[1:]) - 1].tree


def origin(source: Source, name: str) -> tuple[TableSource, str] | None:
    """The policy's column that a source's column is, unchanged, by lineage; None where it is computed.

    `uid + 0 AS uid` or `7 AS uid` is no unit, whatever it is called.
    """
    if isinstance(source, TableSource):
        return source, name
    inner = _inner(source.block, name) if isinstance(source, BlockSource) else None
    return origin(*inner) if inner is not None else None


def united(node: exp.Expr, rows: Sequence[Rows], *, distinct: bool) -> PrivateUnion:
    """A union; a chain of them is one of many branches (nested, each would add to what tells rows apart). Raises DP221
    where they have not as many columns each: whatever asks a union for its columns asks every branch."""
    counts = [len(part.names) for part in rows]
    if len(set(counts)) > 1:
        reason = f"the queries of this UNION have {' and '.join(map(str, counts))} columns"
        raise refusal("DP221", reason, span=span_of(node), repair=f"select {counts[0]} columns in each")
    branches: list[Rows] = []
    for part in rows:
        branches += part.branches if isinstance(part, PrivateUnion) and (distinct or not part.distinct) else (part,)
    return PrivateUnion(node, tuple(branches), distinct)


def holds_rows(source: Source) -> bool:
    """Whether a FROM item holds rows of units (a release's output does not count)."""
    if isinstance(source, TableSource):
        return not source.table.public
    return isinstance(source, BlockSource) or (isinstance(source, OtherSource) and source.rows)


def is_optional(block: PrivateBlock, source: Source, name: str) -> bool:
    """Whether a source's column, unchanged by lineage, can be missing because an outer join found no partner."""
    return any(optional is source for optional in block.optional) or is_missing_inside(source, name)


def is_missing_inside(source: Source, name: str) -> bool:
    """The same of the source's own rows, whatever it is joined with: of a union, in any branch."""
    return isinstance(source, BlockSource) and _is_item_optional(source.block, name)


def _is_item_optional(block: Rows, name: str) -> bool:
    if isinstance(block, PrivateUnion):
        return any(_is_item_optional(branch, name) for branch in block.branches)
    inner = _inner(block, name)
    return inner is None or is_optional(block, *inner)  # what is computed may be missing, too


def _inner(block: Rows, name: str) -> tuple[Source, str] | None:
    """The column inside a query that one of its columns is."""
    if not isinstance(block, PrivateBlock):
        return None
    tree = unwrapped(item_tree(block, name))
    if not isinstance(tree, exp.Column):
        return None
    found = next((s for s in block.sources if s.alias == tree.table), None)
    return (found, tree.name) if found is not None else None


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


def is_aggregated(node: exp.Select) -> bool:
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
