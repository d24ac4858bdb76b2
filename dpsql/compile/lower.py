"""Lower a resolved statement into the IR, and refuse every form without a node there: the one place that refuses form.

Each SELECT block over private rows is either rows of units (it may stand in the FROM of another private block, and
nowhere else) or a *release*: an aggregate whose noised output is public. Each maximal release block is cut out of the
statement, and `SELECT ... FROM released_k` put in its place: everything above a release (HAVING, ORDER BY, LIMIT,
arithmetic, windows, joins with public tables) becomes post-processing, which costs nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from dpsql.compile import joins
from dpsql.compile.blocks import (
    BlockSource,
    BoundJoin,
    Item,
    OtherSource,
    PrivateBlock,
    Resolved,
    Source,
    TableSource,
    aggregates,
    is_aggregate,
    item_name,
    leaves,
)
from dpsql.compile.grouping import grouping_sets, grouping_value, public_keys_of_sets
from dpsql.compile.ir import Facts, Filter, Join, JoinKind, Key, Project, Query, Relation, Release, Scalar, Scan, Scope
from dpsql.compile.keys import GroupKey, KeyLists
from dpsql.compile.measures import Measures
from dpsql.compile.parse import span_of
from dpsql.compile.public import check_public
from dpsql.compile.scalars import lower_condition, lower_scalar, narrow
from dpsql.compile.trees import aliased, called, column, conjuncts, is_star, rebuild, select, shown, without_parens
from dpsql.compile.types import column_facts
from dpsql.errors import Error, refusal
from dpsql.policy.facts import PublicFacts
from dpsql.policy.model import Policy


def lower(resolved: Resolved, policy: Policy, facts: PublicFacts) -> Query:
    """The IR of a statement. Raises DP2xx where it has none."""
    lowerer = _Lowerer(resolved, policy, facts)
    outer = lowerer.place(resolved.root, at_top=True)
    check_public(outer)
    return Query(tuple(lowerer.releases), outer)


# The clauses of a SELECT that a private block may have; those of a release are carried to the outer SQL.
_ROW_CLAUSES = {"with_", "expressions", "from_", "joins", "where"}
_RELEASE_CLAUSES = _ROW_CLAUSES | {"group", "having", "qualify", "order", "limit", "offset", "distinct"}
_CLAUSE_NAMES = {"with_": "WITH", "from_": "FROM", "windows": "WINDOW", "laterals": "LATERAL", "sample": "SAMPLE"}


class _Lowerer:
    def __init__(self, resolved: Resolved, policy: Policy, facts: PublicFacts):
        self.resolved, self.policy, self.facts = resolved, policy, facts
        self.releases: list[Release] = []
        self.named = 0

    def place(self, node: exp.Expr, *, at_top: bool = False) -> exp.Expr:
        """`node`, a public part of the statement, with every release below it cut out, in place."""
        private = self.resolved.blocks.get(id(node))
        if private is not None:
            if not isinstance(private, PrivateBlock):
                reason = "rows of several private queries cannot be combined here"
                raise refusal(
                    "DP221", reason, span=span_of(node), repair="aggregate each one first, then combine the results"
                )
            if private.is_release:
                lowered = self._release(private)
                if node.parent is not None:
                    node.replace(lowered)
                return lowered
            raise self._rows_refused(private, at_top or isinstance(node.parent, exp.CTE | None))
        if isinstance(node, exp.With) and node.args.get("recursive"):
            raise refusal("DP240", "recursive queries are not answered", span=span_of(node))
        for child in list(node.iter_expressions()):
            if id(child) in self.resolved.blocks or any(True for _ in child.iter_expressions()):
                self.place(child, at_top=at_top and isinstance(node, exp.Subquery))
        return node

    def _rows_refused(self, block: PrivateBlock, at_top: bool) -> Error:
        span = span_of(block.items[0].tree) if block.items else span_of(block.node)
        if not at_top:
            reason = "a subquery over private rows can stand only in the FROM of a query that aggregates them"
            return refusal(
                "DP220", reason, span=span_of(block.node), repair="aggregate in it, such as (SELECT AVG(x) FROM ...)"
            )
        if any(isinstance(n, exp.Window) for i in block.items for n in i.tree.walk()):
            repair = "aggregate first; a window over the groups is free, such as RANK() OVER (ORDER BY COUNT(*))"
            return refusal(
                "DP222", "a window over rows of single units gives one row per unit", span=span, repair=repair
            )
        repair = "aggregate them: COUNT(*), SUM(column), AVG(column), with GROUP BY where you want groups"
        return refusal("DP201", f"this returns rows of single {self.policy.unit}s", span=span, repair=repair)

    # -- releases -----------------------------------------------------------------------------------------------

    def _release(self, block: PrivateBlock) -> exp.Select:
        """Cut a release out; returns the public SELECT over it."""
        ctes = [self.place(cte) for cte in block.ctes]
        self._check_clauses(block, _RELEASE_CLAUSES)
        relation, scope, driving = self._relation(block)
        narrowed = self._narrowed(block, scope)
        keys = self._keys(block, narrowed)
        self.named += 1  # before the block's own subqueries, which may be releases too
        name = f"released_{self.named}"
        measures = Measures(block, self.policy, narrowed)
        sets = grouping_sets(block, keys)
        post = _PostProcessing(self, block, name, keys, sets, measures)
        outer = self._outer(block, post, ctes)
        lists = KeyLists(block, keys, scope, self.policy, self.facts) if keys else None
        public, private = public_keys_of_sets(lists, keys, sets) if lists is not None else (None, ())
        if not measures.found:  # which groups exist is the question: a public list does not answer it
            public, private = None, tuple(k.key.name for k in keys)
        release = Release(
            name=name,
            input=relation,
            driving=driving,
            keys=tuple(k.key for k in keys),
            public_keys=public,
            private_keys=private,
            measures=tuple(measures.found),
            span=span_of(block.node),
            sets=sets,
        )
        self.releases.append(release)
        return outer

    def _outer(self, block: PrivateBlock, post: _PostProcessing, ctes: Sequence[exp.Expr]) -> exp.Select:
        node = block.node
        released = exp.Table(this=exp.to_identifier(post.released))
        outer = select((aliased(post.item(i), i.name) for i in block.items), released)
        if ctes:
            outer.set("with_", exp.With(expressions=list(ctes)))
        if block.having is not None:
            outer.set("where", exp.Where(this=post(block.having)))
        if block.qualify is not None:
            outer.set("qualify", exp.Qualify(this=post(block.qualify)))
        if block.order:
            outer.set("order", exp.Order(expressions=[rebuild(o, post) for o in block.order]))
        for clause in ("limit", "offset", "distinct"):
            if node.args.get(clause):
                outer.set(clause, node.args[clause].copy())
        return outer

    def _keys(self, block: PrivateBlock, scope: Scope) -> list[GroupKey]:
        found: list[GroupKey] = []
        for tree in (leaf for element in block.groups for leaf in leaves(element)):
            meaning = without_parens(tree)
            if any(k.tree == meaning for k in found):
                continue
            inner = next(aggregates(tree), None)
            if inner is not None or any(isinstance(n, exp.Window | exp.Query) for n in tree.walk()):
                raise refusal("DP203", "GROUP BY takes expressions of single rows only", span=span_of(tree))
            self._check_units(block, tree, grouping=True)
            found.append(GroupKey(meaning, Key(f"k{len(found) + 1}", lower_scalar(tree, scope), shown(meaning))))
        return found

    def _check_units(self, block: PrivateBlock, tree: exp.Expr, *, grouping: bool = False) -> None:
        """Refuse the unit as a key, and any use of a unit column that the policy does not list."""
        for used in tree.find_all(exp.Column):
            source = next((s for s in block.sources if s.alias == used.table), None)
            if not isinstance(source, TableSource):
                continue
            if grouping and tree is used and joins.is_unit(source, used.name, self.policy):
                reason = f"grouping by {called(used)} gives one row per {self.policy.unit}"
                raise refusal("DP206", reason, span=span_of(used), repair=f"count them: COUNT(DISTINCT {called(used)})")
            if used.name not in source.table.columns:
                reason = f"{used.name} identifies the {self.policy.unit} and is not listed in the policy"
                repair = f"it can be counted: COUNT(DISTINCT {used.name})"
                raise refusal("DP206", reason, span=span_of(used), repair=repair)

    # -- relations ----------------------------------------------------------------------------------------------

    def _relation(self, block: PrivateBlock) -> tuple[Relation, Scope, str]:
        """The rows of a block, the columns its expressions may use, and the alias of its driving scan."""
        relation, scope, drives = self._source(block.first)
        for join in block.joins:
            relation, scope = self._join(block, relation, scope, join, drives)
        driving = joins.driving_source(block, self.policy, self.facts, scope)
        if block.where is not None:
            self._check_row_expression(block, block.where, "WHERE")
            relation = Filter(relation, lower_condition(block.where, scope, "WHERE"))
        return relation, scope, drives[driving.alias]

    def _join(
        self, block: PrivateBlock, left: Relation, scope: Scope, join: BoundJoin, drives: dict[str, str]
    ) -> tuple[Relation, Scope]:
        if join.kind not in ("INNER", "LEFT"):
            repair = "use JOIN ... ON or LEFT JOIN ... ON, with the private table on the left"
            raise refusal(
                "DP212", f"{join.kind} JOIN over private rows is not answered", span=span_of(join.node), repair=repair
            )
        self._check_arguments(join.node, {"this", "side", "kind", "on", "using"})
        right, columns, more = self._source(join.source)
        if (
            join.kind == "LEFT"
            and not joins.is_public(join.source)
            and all(joins.is_public(s) for s in _before(block, join))
        ):
            reason = "rows of the left table without a partner belong to nobody"
            raise refusal(
                "DP212", reason, span=span_of(join.node), repair="put the private table on the left, or use JOIN"
            )
        drives.update(more)
        optional = join.kind == "LEFT"
        joined = {**scope, **(_nullable(columns) if optional else columns)}
        on: exp.Expr = join.on if join.on is not None else exp.true()
        self._check_row_expression(block, on, "ON")
        on = self._without_unit_equality(block, on)
        predicate = lower_condition(on, {**scope, **columns}, "ON")
        return Join(JoinKind.LEFT if optional else JoinKind.INNER, left, right, predicate), joined

    def _without_unit_equality(self, block: PrivateBlock, on: exp.Expr) -> exp.Expr:
        """`o.custkey = c.custkey`, where both are the unit of their row, says no more than the equality of units that
        every private join gets; one comparison instead of two makes such joins a third faster."""
        kept = [part for part in conjuncts(on) if not self._equates_units(block, part)]
        return exp.and_(*kept) if kept else exp.true()

    def _equates_units(self, block: PrivateBlock, part: exp.Expr) -> bool:
        if not isinstance(part, exp.EQ):
            return False
        sides = [side.unnest() for side in (part.this, part.expression)]
        sources = {s.alias: s for s in block.sources}
        return (
            all(
                isinstance(side, exp.Column)
                and side.table in sources
                and joins.is_unit(sources[side.table], side.name, self.policy)
                for side in sides
            )
            and len({side.table for side in sides}) == 2
        )

    def _source(self, source: Source) -> tuple[Relation, Scope, dict[str, str]]:
        """One FROM item: its relation, its columns, and (alias, alias of its driving scan) where it is private."""
        self._check_arguments(source.node, {"this", "db", "catalog", "alias"})
        if isinstance(source, TableSource):
            table, types = source.table, self.facts.tables[source.table.name].types
            columns = {
                (source.alias, name): column_facts(declared, types[name], table)
                for name, declared in table.columns.items()
            }
            return Scan(table.name, source.alias, table.public), columns, {source.alias: source.alias}
        if isinstance(source, BlockSource):
            return self._derived(source)
        raise self._other_refused(source)

    def _derived(self, source: BlockSource) -> tuple[Relation, Scope, dict[str, str]]:
        block = source.block
        self._check_clauses(block, _ROW_CLAUSES)
        relation, scope, driving = self._relation(block)
        narrowed = self._narrowed(block, scope)
        items: list[tuple[str, Scalar]] = []
        columns: dict[tuple[str, str], Facts] = {}
        for i, item in enumerate(block.items):
            self._check_row_expression(block, item.tree, "SELECT")
            scalar = lower_scalar(item.tree, narrowed)
            items.append((item_name(i), scalar))
            columns[source.alias, item_name(i)] = scalar.facts
        return Project(relation, source.alias, tuple(items)), columns, {source.alias: driving}

    def _other_refused(self, source: OtherSource) -> Error:
        span = span_of(source.node)
        if isinstance(source.node, exp.Subquery) or (
            isinstance(source.node, exp.Table) and source.node.name and not source.node.db
        ):
            reason = "a query result cannot be joined with private rows"
            repair = "join tables of the policy by key, or aggregate the private rows first and join the result"
            return refusal("DP211", reason, span=span, repair=repair)
        return refusal(
            "DP212", "this cannot stand in FROM beside private rows", span=span, repair="name tables of the policy"
        )

    def _narrowed(self, block: PrivateBlock, scope: Scope) -> Scope:
        """What holds for the rows that pass WHERE and the inner joins."""
        return narrow(scope, *block.predicates)

    # -- checks -------------------------------------------------------------------------------------------------

    def _check_row_expression(self, block: PrivateBlock, tree: exp.Expr, clause: str) -> None:
        """An expression of single rows: no aggregate, window or subquery, no unlisted unit column."""
        for node in tree.walk():
            if isinstance(node, exp.Query | exp.Exists):
                reason = f"a subquery in {clause} of a query over private rows is not answered"
                repair = "join the public table instead, or list the values: IN (...)"
                raise refusal("DP220", reason, span=span_of(node), repair=repair)
            if isinstance(node, exp.Window):
                raise refusal("DP222", "a window over rows of single units is not answered", span=span_of(node))
            if is_aggregate(node):
                repair = "filter groups with HAVING" if clause == "WHERE" else "aggregate in the outer query"
                raise refusal("DP203", f"an aggregate cannot stand in {clause}", span=span_of(node), repair=repair)
        self._check_units(block, tree)

    def _check_arguments(self, node: exp.Expr, allowed: set[str]) -> None:
        """A FROM item says nothing that would be passed over: PIVOT, samples, versions."""
        for key, value in node.args.items():
            if value and key not in allowed:
                called = _CLAUSE_NAMES.get(key, key.rstrip("_s").upper())
                raise refusal("DP221", f"{called} over private rows is not answered", span=span_of(node))

    def _check_clauses(self, block: PrivateBlock, allowed: set[str]) -> None:
        for clause, value in block.node.args.items():
            if not value or clause in allowed:
                continue
            called = _CLAUSE_NAMES.get(clause, clause.rstrip("_").upper())
            where = span_of(value) if isinstance(value, exp.Expr) else span_of(block.node)
            repair = "put it on the aggregated result instead" if clause in _RELEASE_CLAUSES else "leave it out"
            raise refusal("DP221", f"{called} over private rows is not answered", span=where, repair=repair)
        distinct = block.node.args.get("distinct")
        if distinct is not None and distinct.args.get("on") is not None:
            raise refusal("DP221", "DISTINCT ON is not answered", span=span_of(distinct), repair="use GROUP BY")


class _PostProcessing:
    """Rewrites an expression of a release block into one over `released_k`: keys and aggregates become its columns."""

    def __init__(
        self,
        lowerer: _Lowerer,
        block: PrivateBlock,
        released: str,
        keys: Sequence[GroupKey],
        sets: Sequence[tuple[str, ...]],
        measures: Measures,
    ):
        self.lowerer, self.block, self.released = lowerer, block, released
        self.keys, self.sets, self.measures = keys, sets, measures
        self._column = ""

    def item(self, item: Item) -> exp.Expr:
        """One column of the SELECT list."""
        self._column = item.name
        tree = self(item.tree)
        self._column = ""
        return tree

    def __call__(self, node: exp.Expr) -> exp.Expr:
        if self.keys:
            meaning = without_parens(node)
            for key in self.keys:
                if key.tree == meaning:
                    return column(self.released, key.key.name)
        if isinstance(node, exp.Query):
            return self.lowerer.place(node)
        if isinstance(node, exp.Window):
            return rebuild(node, lambda child: self._function(child) if child is node.this else self(child))
        if isinstance(node, exp.Grouping | exp.GroupingId):
            return grouping_value(node, self.released, self.keys, self.sets)
        if is_aggregate(node):
            return column(self.released, self.measures.add(node, self._column).name)
        if is_star(node):
            raise refusal(
                "DP201", "a star here means rows of single units", span=span_of(node), repair="name keys and aggregates"
            )
        if isinstance(node, exp.Column):
            repair = f"add {called(node)} to GROUP BY, or aggregate it"
            raise refusal(
                "DP202", f'"{called(node)}" is neither grouped nor aggregated', span=span_of(node), repair=repair
            )
        return rebuild(node, self)

    def _function(self, node: exp.Expr) -> exp.Expr:
        """A window's own function: not an aggregate over rows, but its arguments may be."""
        if isinstance(node, exp.Filter | exp.IgnoreNulls | exp.RespectNulls):
            return rebuild(node, lambda c: self._function(c) if c is node.this else self(c))
        return rebuild(node, lambda c: c.copy() if isinstance(c, exp.Star) else self(c))


def _before(block: PrivateBlock, join: BoundJoin) -> list[Source]:
    position = next(i for i, j in enumerate(block.joins) if j is join)
    return [block.first, *(j.source for j in block.joins[:position])]


def _nullable(columns: Scope) -> Scope:
    return {name: replace(facts, nullable=True) for name, facts in columns.items()}
