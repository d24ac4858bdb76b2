"""Lower the rows of private blocks: FROM, joins, WHERE, derived tables, unions.

Every row of what comes out belongs to one unit. Together with the relation goes what later passes must know of it
(`Lowered`): the facts of its columns, which columns identify a row, whether one scan drives it. Refuses what has no
node (DP2xx).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from sqlglot import exp

from dpsql.compile import joins, perunit, subqueries, windows
from dpsql.compile.blocks import (
    BlockSource,
    BoundJoin,
    Nested,
    OtherSource,
    PrivateBlock,
    PrivateUnion,
    PublicSource,
    Rows,
    Shape,
    Source,
    TableSource,
    is_aggregate,
    item_name,
    nested_in,
    origin,
)
from dpsql.compile.bounds import joined_rows
from dpsql.compile.ir import (
    ColumnName,
    Facts,
    Filter,
    Join,
    JoinKind,
    PerUnit,
    Project,
    Public,
    Relation,
    Scalar,
    Scan,
    Scope,
    Union,
)
from dpsql.compile.kinds import unify
from dpsql.compile.labels import is_unit, unit_columns
from dpsql.compile.limits import MOST_ROWS, one_row_per_unit, worst_case
from dpsql.compile.lowered import ROW_CLAUSES, Ask, Lowered, check_arguments, check_clauses, nullable, project, public
from dpsql.compile.parse import span_of
from dpsql.compile.ranges import joined as either
from dpsql.compile.scalars import lower_condition, lower_scalar, narrow
from dpsql.compile.trees import called, column, conjunction, conjuncts, wrapped
from dpsql.compile.types import column_facts
from dpsql.errors import Error, refusal
from dpsql.policy.facts import PublicFacts
from dpsql.policy.model import Policy


class RowLowerer:
    """Lowers private blocks to relations; `ask` is for what is public below them."""

    def __init__(self, policy: Policy, facts: PublicFacts, nested: Sequence[Nested], ask: Ask):
        self.policy, self.facts, self.nested, self.ask = policy, facts, nested, ask
        self.enclosing: list[PrivateBlock] = []  # the blocks around the one that is lowered
        self._names: dict[str, int] = {}

    def name(self, kind: str) -> str:
        """An alias of our own, which no resolved one can be."""
        self._names[kind] = self._names.get(kind, 0) + 1
        return f"${kind}{self._names[kind]}"

    # -- one block ----------------------------------------------------------------------------------------------

    def block(self, block: PrivateBlock, around: Scope | None = None, *, counted: bool = False) -> Lowered:
        """FROM, joins and WHERE of a block. around: the columns of the queries around it, which WHERE may use. counted:
        whether public tables may multiply its rows, because the plan limits what a unit adds to each group."""
        if block is not joins.owned(block):
            reason = "rows of a public table without a partner belong to nobody"
            repair = "use JOIN here, or aggregate in this SELECT"
            raise refusal("DP212", reason, span=span_of(block.node), repair=repair)
        sources = {s.alias: self.source(s) for s in block.sources}
        made = sources[block.first.alias]
        made = Lowered(made.relation, dict(made.scope), most=made.most)
        for join in block.joins:
            _check_kind(join)
        joins.check_meant(block, self.policy)
        for position, join in enumerate(block.joins):
            self._join(block, made, join, sources[join.source.alias], block.sources[: position + 1])
        unique = {alias: lowered.unique for alias, lowered in sources.items()}
        columns = {**(around or {}), **made.scope}
        grain = joins.driving_source(block, unique, self.policy, columns)
        most = made.most
        for join in block.joins:
            most = joined_rows(most, sources[join.source.alias].most, full=join.kind == "FULL")
        made.most = min(MOST_ROWS, most)
        if counted and (block.groups or block.correlated):
            single = {alias for alias, lowered in sources.items() if lowered.one_row}
            made.of_unit = joins.of_unit(block, single, unique, self.policy, columns)
        if grain is not None:
            of = sources[grain.alias]
            made.grain, made.unique, made.driving = grain, of.unique, of.driving
            made.one_row, made.most = of.one_row, of.most
            made.relation = _looked_up(made.relation, {s.alias for s in block.sources if s is not grain})
        else:
            self._multiplied(block, made, joins.multiplying(block, unique, self.policy, columns), counted)
        kept = [p for p in conjuncts(block.where) if not joins.equates_units(block, p, self.policy)]
        if kept:
            whole = len(kept) == sum(1 for _ in conjuncts(block.where))
            where = block.where if whole else exp.and_(*(wrapped(p) for p in kept))
            assert where is not None
            self.filter(block, made, where, "WHERE", around)
        made.narrowed = narrowed(made.scope, block.predicates)
        if grain is not None:  # each row stems from another one of its rows
            of = sources[grain.alias]
            made.passing, made.numbers = of.passing, of.numbers
            made.count_passing()
        return made

    def _multiplied(self, block: PrivateBlock, made: Lowered, public_sources: Sequence[Source], counted: bool) -> None:
        """Note how many rows of these public tables one row may meet. Raises DP211 where that is not bounded, or where
        nothing would limit what comes of it."""
        for source in public_sources:
            table = source.table if isinstance(source, TableSource) else None
            rows = self.facts.tables[table.name].rows if table is not None else None
            if rows is None or not counted:
                raise joins.multiplies(source, block)
            made.multiplied = joins.multiplies(source, block)
            made.relation = _met(made.relation, source.alias, max(rows, 1))
            made.most = min(MOST_ROWS, made.most * max(rows, 1))

    def filter(
        self, block: PrivateBlock, made: Lowered, where: exp.Expr, clause: str, around: Scope | None = None
    ) -> None:
        """Keep the rows for which a predicate is true."""
        where = subqueries.in_predicate(self, block, made, where, around)
        self.check_row(block, where, clause)
        made.relation = Filter(made.relation, lower_condition(where, {**(around or {}), **made.scope}, clause))

    def expression(self, block: PrivateBlock, made: Lowered, tree: exp.Expr, clause: str) -> exp.Expr:
        """An expression of a row, its subqueries made columns of the relation."""
        tree = subqueries.in_value(self, block, made, tree)
        self.check_row(block, tree, clause)
        return tree

    # -- joins --------------------------------------------------------------------------------------------------

    def _join(
        self, block: PrivateBlock, made: Lowered, join: BoundJoin, right: Lowered, before: Sequence[Source]
    ) -> None:
        kind = JoinKind(join.kind.lower())
        if kind is JoinKind.FULL and (all(map(joins.is_public, before)) or joins.is_public(join.source)):
            reason = "rows of a public table without a partner belong to nobody"
            repair = "use JOIN, or LEFT JOIN from the private table"
            raise refusal("DP212", reason, span=span_of(join.node), repair=repair)
        on = join.on if join.on is not None else exp.true()
        kept = [p for p in conjuncts(on) if not joins.equates_units(block, p, self.policy, join.source)]
        for part in kept:
            self.check_row(block, part, "ON")
        predicate = lower_condition(conjunction(kept) if kept else exp.true(), {**made.scope, **right.scope}, "ON")
        made.relation = Join(kind, made.relation, right.relation, predicate)
        left = nullable(made.scope) if kind in (JoinKind.RIGHT, JoinKind.FULL) else made.scope
        made.scope = {**left, **(nullable(right.scope) if kind in (JoinKind.LEFT, JoinKind.FULL) else right.scope)}

    # -- FROM items ---------------------------------------------------------------------------------------------

    def source(self, source: Source) -> Lowered:
        """One FROM item."""
        check_arguments(source.node, {"this", "db", "catalog", "alias", "expressions"})
        match source:
            case TableSource(table=table, alias=alias):
                facts = self.facts.tables[table.name]
                columns = {
                    (alias, name): column_facts(declared, facts.types[name], table)
                    for name, declared in table.columns.items()
                }
                one = not table.public and one_row_per_unit(table)
                scan = Scan(table.name, alias, table.public, many=not one)
                unique = (*facts.unique, frozenset[str]()) if one else tuple(u for u in facts.unique if u)
                driving = None if table.public else alias
                most = 1 if one or table.public else worst_case(table)
                return Lowered(scan, columns, unique, driving=driving, one_row=one, most=most)
            case PublicSource(query=query, alias=alias):
                return public(self.ask(query, False), alias)
            case BlockSource(block=block, alias=alias):
                return self.derived(block, alias)
            case OtherSource():
                raise _other(source)

    def derived(self, block: Rows, alias: str, hidden: Sequence[exp.Expr] = ()) -> Lowered:
        """A query of private rows under an alias: its items are c1, c2, ..., and so are, after them, the hidden ones,
        which are expressions over its own FROM."""
        if isinstance(block, PrivateUnion):
            return self._union(block, alias)
        if block.correlated and not hidden:
            raise refusal(
                "DP220",
                "a subquery in FROM cannot name columns of the query around it",
                span=span_of(block.node),
                repair="join it ON that condition",
            )
        if block.shape is Shape.PER_UNIT:
            return perunit.grouped(self, block, alias, hidden)
        if block.shape is Shape.RELEASE:
            repair = f"group it by the {self.policy.unit}"
            raise refusal("DP220", "this aggregate cannot be read row by row", span=span_of(block.node), repair=repair)
        check_clauses(block, ROW_CLAUSES)
        made = self.block(block)
        items = windows.computed(self, block, made)
        items += [self.expression(block, made, tree, "WHERE") for tree in hidden]
        scalars = [None if self.is_hidden(block, tree) else lower_scalar(tree, made.kept) for tree in items]
        lowered = project(made, alias, scalars)
        if made.grain is not None:
            lowered.unique = _through(items, made.grain, made.unique, self.policy)
        numbers = [i for i, t in enumerate(items) if isinstance(t, exp.Column) and (t.table, t.name) in made.numbers]
        lowered.numbers = frozenset((alias, item_name(i)) for i in numbers)
        lowered.unique += tuple(frozenset({item_name(i)}) for i in numbers)
        return lowered

    def _union(self, union: PrivateUnion, alias: str) -> Lowered:
        span = span_of(union.node)
        parts = [self.derived(b, self.name("branch")) for b in union.branches]
        rows = [{name: Scalar(column(a, name), facts, span) for (a, name), facts in p.scope.items()} for p in parts]
        columns: dict[ColumnName, Facts] = {}
        for name in map(item_name, range(len(union.names))):
            if not all(name in row for row in rows):  # a unit that the policy does not list
                rows = [{n: s for n, s in row.items() if n != name} for row in rows]
                continue
            type_, typed = unify([row[name] for row in rows], "UNION")
            for row, scalar in zip(rows, typed, strict=True):
                row[name] = scalar
            facts = either([t.facts for t in typed], type_, nullable=any(t.facts.nullable for t in typed))
            columns[alias, name] = facts
        inputs = tuple(
            Project(p.relation, self.name("branch"), tuple(row.items())) for p, row in zip(parts, rows, strict=True)
        )
        most = min(MOST_ROWS, sum(p.most for p in parts))
        lowered = Lowered(Union(inputs, alias), columns, most=most)
        return perunit.distinct(self, lowered, alias, union) if union.distinct else lowered

    # -- checks -------------------------------------------------------------------------------------------------

    def check_row(self, block: PrivateBlock, tree: exp.Expr, clause: str) -> None:
        """An expression of single rows: no aggregate, window or subquery, no unlisted unit column."""
        for node in tree.walk():
            if isinstance(node, exp.Query | exp.Exists) or nested_in(node) is not None:
                reason = f"a subquery in {clause} of a query over private rows is not answered here"
                repair = "put it into WHERE, or join the table instead"
                raise refusal("DP220", reason, span=span_of(node), repair=repair)
            if isinstance(node, exp.Window):
                repair = "compute it in a subquery: SELECT ... FROM (SELECT ..., ROW_NUMBER() OVER (...) AS n FROM ...)"
                raise refusal("DP222", f"a window cannot stand in {clause}", span=span_of(node), repair=repair)
            if is_aggregate(node):
                repair = "filter groups with HAVING" if clause == "WHERE" else "aggregate in the outer query"
                raise refusal("DP203", f"an aggregate cannot stand in {clause}", span=span_of(node), repair=repair)
        self.check_units(block, tree)

    def is_hidden(self, block: PrivateBlock, tree: exp.Expr) -> bool:
        """Whether an item is a unit column that the policy does not list: outer queries can match and count it, by
        lineage, and nobody can see it."""
        source = next((s for s in block.sources if isinstance(tree, exp.Column) and s.alias == tree.table), None)
        if not isinstance(source, BlockSource | TableSource) or not is_unit(source, tree.name, self.policy):
            return False
        found = origin(source, tree.name)
        return found is not None and found[1] not in found[0].table.columns

    def check_units(self, block: PrivateBlock, tree: exp.Expr, *, grouping: bool = False) -> None:
        """Refuse the unit as a key, and any use of a unit column that the policy does not list."""
        for used in tree.find_all(exp.Column):
            source = next((s for s in block.sources if s.alias == used.table), None)
            if source is None or isinstance(source, OtherSource):
                continue
            if grouping and tree is used and is_unit(source, used.name, self.policy):
                reason = f"grouping by {called(used)} gives one row per {self.policy.unit}"
                raise refusal("DP206", reason, span=span_of(used), repair=f"count them: COUNT(DISTINCT {called(used)})")
            if self.is_hidden(block, used):
                reason = f"{used.name} identifies the {self.policy.unit} and is not listed in the policy"
                repair = f"it can be counted: COUNT(DISTINCT {used.name})"
                raise refusal("DP206", reason, span=span_of(used), repair=repair)


def _through(
    items: Sequence[exp.Expr], grain: Source, unique: Iterable[frozenset[str]], policy: Policy
) -> tuple[frozenset[str], ...]:
    """Sets of columns that identify a row, where all of them are items (the unit need not be)."""
    shown: Mapping[str, str] = {
        tree.name: item_name(i)
        for i, tree in reversed(list(enumerate(items)))
        if isinstance(tree, exp.Column) and tree.table == grain.alias
    }
    units = unit_columns(grain, policy)
    needed = [frozenset(n for n in names if n in shown or n not in units) for names in unique]
    return tuple(frozenset(shown[n] for n in names) for names in needed if names <= shown.keys())


def narrowed(scope: Scope, predicates: Iterable[exp.Expr]) -> dict[ColumnName, Facts]:
    """The columns of which these predicates say more."""
    known = narrow(scope, *predicates)
    return {name: facts for name, facts in known.items() if scope.get(name) is not facts}


def _check_kind(join: BoundJoin) -> None:
    """A join of a kind that has a node, with nothing said beside it."""
    if join.kind not in ("INNER", "LEFT", "RIGHT", "FULL"):
        reason = f"{join.kind} JOIN over private rows is not answered"
        repair = "use JOIN, LEFT JOIN or FULL JOIN ... ON, or EXISTS in WHERE"
        raise refusal("DP212", reason, span=span_of(join.node), repair=repair)
    check_arguments(join.node, {"this", "method", "side", "kind", "on", "using"})


def _looked_up(relation: Relation, aliases: Iterable[str]) -> Relation:
    """The relation with its look-ups marked so: of these items a row meets one row at most."""
    match relation:
        case Scan():
            return replace(relation, many=relation.many and relation.alias not in aliases)
        case Join(left=left, right=right):
            unique = not isinstance(right, Scan | Join) and _alias(right) in aliases
            return replace(relation, left=_looked_up(left, aliases), right=_looked_up(right, aliases), unique=unique)
        case _:
            return relation


def _met(relation: Relation, alias: str, rows: int) -> Relation:
    """The relation with it noted how many rows of this public table one row may meet."""
    match relation:
        case Scan():
            return replace(relation, meets=rows) if relation.alias == alias else relation
        case Join(left=left, right=right):
            return replace(relation, left=_met(left, alias, rows), right=_met(right, alias, rows))
        case _:
            return relation


def _alias(relation: Relation) -> str:
    assert isinstance(relation, Scan | Public | Project | PerUnit | Union)
    return relation.alias


def _other(source: OtherSource) -> Error:
    span = span_of(source.node)
    if isinstance(source.node, exp.Lateral):
        repair = "join it ON that condition, or group it by what it is joined on"
        return refusal("DP212", "LATERAL over private rows is not answered", span=span, repair=repair)
    if source.rows and any(table.args.get("joins") for table in source.node.find_all(exp.Table)):
        repair = "write the joins one after the other, without parentheses"
        return refusal("DP212", "a join in parentheses is not answered over private rows", span=span, repair=repair)
    if source.rows:
        reason = "rows of several private queries cannot be combined here"
        repair = "combine them with UNION ALL; instead of EXCEPT and INTERSECT write NOT IN and IN"
        return refusal("DP221", reason, span=span, repair=repair)
    repair = "name a table of the policy, or a subquery over tables"
    return refusal("DP212", "this cannot stand in FROM beside private rows", span=span, repair=repair)
