"""Lower a resolved statement into the IR, and refuse every form without a node there: the one place that refuses form.

Each SELECT block over private rows is either rows of units (it may stand in other private blocks: see `rows`) or a
*release*: an aggregate whose noised output is public. Each maximal release block is cut out of the statement, and
`SELECT ... FROM released_k` put in its place: everything above a release (HAVING, ORDER BY, LIMIT, arithmetic, windows,
joins with public tables) becomes post-processing, which costs nothing. What private blocks read of public queries and
releases is cut out too, as `public_k`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from sqlglot import exp

from dpsql.compile import candidates, clauses, hints, joins, refused
from dpsql.compile.blocks import (
    NESTED,
    Item,
    OtherSource,
    PrivateBlock,
    PublicBlock,
    Resolved,
    aggregates,
    check_blocks,
    item_name,
    leaves,
)
from dpsql.compile.grouping import grouping_sets, public_keys_of_sets
from dpsql.compile.ir import PLACE, Choice, Facts, Key, Measure, PublicQuery, Query, Release, Statistic
from dpsql.compile.keys import GroupKey, KeyLists
from dpsql.compile.labels import unit_called
from dpsql.compile.literals import cast as literal_cast
from dpsql.compile.lowered import RELEASE_CLAUSES, Lowered, check_clauses
from dpsql.compile.measures import Measures
from dpsql.compile.pairs import check_pairs
from dpsql.compile.parse import span_of
from dpsql.compile.postprocessing import PostProcessing
from dpsql.compile.public import check_public
from dpsql.compile.relations import scans
from dpsql.compile.rows import RowLowerer
from dpsql.compile.scalars import lower_scalar
from dpsql.compile.trees import aliased, called, column, copied, derived, rebuild, select, shown, without_parens
from dpsql.compile.unique import unique_columns
from dpsql.compile.units import check_unit_column
from dpsql.errors import refusal
from dpsql.policy.facts import Kind, PublicFacts, SqlType
from dpsql.policy.model import Policy

MAX_AGGREGATES = 256
"""Of a release. What is chosen for one is weighed against all others."""

Schema = Mapping[str, SqlType]

Describe = Callable[[exp.Query, Mapping[str, Schema]], tuple[SqlType, ...]]
"""The column types of a public query over public tables and these released ones. Session gives it: compile has no
engine. Raises DP232 for types that private rows cannot be compared with, DP502 where the query does not bind."""


def lower(resolved: Resolved, policy: Policy, facts: PublicFacts, describe: Describe) -> Query:
    """The IR of a statement. Raises DP2xx where it has none, DP120 for a clause or a
    named argument that no release or aggregate of it has."""
    lowerer = _Lowerer(resolved, policy, facts, describe)
    outer = lowerer.place(resolved.root, at_top=True)
    lowerer.check(outer)
    hints.check_spent(resolved.hints, lowerer.spent)
    clauses.check_spent(resolved.clauses, (r.clause for r in lowerer.releases if r.clause is not None))
    return Query(tuple(lowerer.releases), outer, tuple(lowerer.publics))


class _Lowerer:
    def __init__(self, resolved: Resolved, policy: Policy, facts: PublicFacts, describe: Describe):
        self.resolved, self.policy, self.facts, self.describe = resolved, policy, facts, describe
        self.rows = RowLowerer(policy, facts, resolved.nested, self.ask)
        self.releases: list[Release] = []
        self.publics: list[PublicQuery] = []
        self.spent: list[hints.Hint | hints.Bounds] = []
        self._asked: dict[tuple[int, bool], PublicQuery] = {}
        self._nested: dict[int, exp.Expr] = {}
        self._done: dict[int, exp.Expr] = {}
        self._named = self._size = 0

    def check(self, tree: exp.Expr) -> None:
        """What public SQL has, and how much it makes. Raises DP2xx."""
        check_public(tree)
        tables = {name: facts.rows for name, facts in self.facts.tables.items() if facts.rows is not None}
        check_pairs(tree, tables, {r.name: 1 for r in self.releases if not r.keys})

    def place(self, node: exp.Expr, *, at_top: bool = False) -> exp.Expr:
        """`node`, a public part of the statement, with every release below it cut out, in place."""
        private = self.resolved.blocks.get(id(node))
        if private is not None:
            if isinstance(private, PrivateBlock) and private.is_release:
                lowered = self._release(private)
                if node.parent is not None:
                    node.replace(lowered)
                return lowered
            if not isinstance(private, PrivateBlock):
                raise refused.combined(private, node, self.policy)
            raise refused.rows(private, self.policy, at_top=at_top or isinstance(node.parent, exp.CTE | None))
        if isinstance(node, exp.With) and node.args.get("recursive"):
            reason, repair = "recursive queries are not answered", "range(1, 100) in public SQL gives the numbers"
            raise refusal("DP240", reason, span=span_of(node), repair=repair)
        for child in list(node.iter_expressions()):
            if id(child) in self.resolved.blocks or any(True for _ in child.iter_expressions()):
                self.place(child, at_top=at_top and isinstance(node, exp.Subquery))
        return node

    # -- public queries inside private blocks -------------------------------------------------------------------

    def ask(self, block: PublicBlock | PrivateBlock, single: bool) -> PublicQuery:
        """A public query or release as something that private blocks can read. single: it stands for one value, or
        for one per value of what it is correlated on; then the value is c1."""
        known = self._asked.get((id(block), single))
        if known is not None:
            return known
        if isinstance(block, PrivateBlock):
            tree: exp.Query = self._release(_keyed(block) if block.correlated else block)
        else:
            tree = _with_ctes(copied(self._placed(block).unnest()), [self.place(cte) for cte in block.ctes])
        if single and not (isinstance(block, PrivateBlock) and block.correlated):
            tree = exp.select(aliased(exp.Subquery(this=tree), "c1"))
        self.check(tree)
        types = self.describe(tree, {r.name: _schema(r) for r in self.releases})
        names = [item_name(i) for i in range(len(types))]
        source = derived(tree, "t")
        source.args["alias"].set("columns", [exp.to_identifier(n, quoted=True) for n in names])
        cast = [aliased(literal_cast(column("t", n), type_), n) for n, type_ in zip(names, types, strict=True)]
        name = f"public_{len(self.publics) + 1}"
        keys = {r.name: frozenset(r.key_names) for r in self.releases}
        asked = PublicQuery(name, exp.select(*cast).from_(source), types, unique_columns(tree, keys))
        self.publics.append(asked)
        self._asked[id(block), single] = asked
        return asked

    def _placed(self, block: PublicBlock) -> exp.Expr:
        """Its query with every release cut out; once, since that happens in place."""
        if id(block) not in self._done:
            self._done[id(block)] = self.place(block.node)
        return self._done[id(block)]

    def nested(self, position: int, around: Callable[[exp.Expr], exp.Expr]) -> exp.Expr:
        """A query in an expression over released results, with its releases cut out. What a release in it is compared
        with is a key of the release around it: a released value, in which its own is looked up."""
        if position not in self._nested:
            block = self.resolved.nested[position]
            if isinstance(block, PrivateBlock) and block.is_release:
                _check_compared(block)
                pairs = tuple((inner, around(outer)) for inner, outer in block.correlated)
                self._nested[position] = self._release(replace(block, correlated=pairs))
            elif isinstance(block, PublicBlock):
                self._nested[position] = self._placed(block).unnest()
            else:
                raise refused.nested(block, self.policy)
        return copied(self._nested[position])

    # -- releases -----------------------------------------------------------------------------------------------

    def _release(self, block: PrivateBlock) -> exp.Select:
        """Cut a release out; returns the public SELECT over it."""
        return self._cut(block, candidates.asked(block))

    def mode(self, block: PrivateBlock, call: exp.Mode, condition: exp.Expr | None) -> exp.Select:
        """A choice of its own, for MODE among other columns."""
        if isinstance(call.this, exp.Distinct):
            raise refusal("DP203", "MODE of DISTINCT values is any of them", span=span_of(call), repair="leave it out")
        if block.groups or block.correlated:
            reason = "MODE is answered for all rows of a statement, not for each of its groups"
            repair = "ask for one group at a time: WHERE key = value"
            raise refusal("DP203", reason, span=span_of(call), repair=repair)
        return self._cut(*candidates.mode(block, call, condition))

    def _cut(self, block: PrivateBlock, asked: candidates.Asked | None) -> exp.Select:
        ctes = [self.place(cte) for cte in block.ctes]
        check_clauses(block, RELEASE_CLAUSES - {"qualify"} | ({"qualify"} if block.qualify is not None else set()))
        self._check_around(block)
        clause = clauses.clause_of(block.node)
        if clause is not None:
            check_unit_column(clause, block, self.policy)
        whole, block = block, joins.owned(block)
        made = self.rows.block(block, counted=True)
        outer_keys = [inner for inner, _ in block.correlated]
        keys = self._keys(block, made, outer_keys)
        self._size += block.size
        check_blocks(self._size, block.node)
        self._named += 1  # before the block's own subqueries, which may be releases too
        name = f"released_{self._named}"
        measures = Measures(block, self.rows, made, unowned=whole is not block)
        sets = grouping_sets(block, keys)
        post = PostProcessing(self, block, name, keys, sets, measures)
        choice = self._choice(asked, post, measures) if asked is not None else None
        outer = self._outer(block, post, ctes) if choice is None else self._winners(block, post, ctes)
        self.spent += measures.spent
        if not keys and not measures.found:  # nothing but choices that are releases of their own
            outer.set("from_", None)
            return outer
        lists = KeyLists(whole, keys, made.scope, self.policy, self.facts) if keys else None
        public, private = public_keys_of_sets(lists, keys, sets) if lists is not None else (None, ())
        self._check_rows_as_units(made, block)
        if not measures.found:  # which groups exist is the question: a public list does not answer it
            public, private = None, tuple(k.key.name for k in keys)
        if len(measures.found) > MAX_AGGREGATES:
            reason = f"a query has more than {MAX_AGGREGATES} aggregates over private rows"
            repair = "ask for less at once: each takes its share of epsilon from all others"
            raise refusal("DP104", reason, span=span_of(block.node), repair=repair)
        release = Release(
            name=name,
            input=made.relation,
            driving=self._driving(made),
            keys=tuple(k.key for k in keys),
            public_keys=public,
            private_keys=private,
            measures=tuple(measures.found),
            one_row=made.one_row,
            passing=made.passing,
            span=span_of(block.node),
            sets=sets,
            choice=choice,
            multiplied=made.multiplied,
            ranked=candidates.is_ranked(block),
            clause=clause,
            unit=unit_called(block.sources, self.policy)
            if isinstance(block.node.parent, exp.CTE | exp.Subquery)
            else None,
        )
        self.releases.append(release)
        return outer

    def _check_rows_as_units(self, made: Lowered, block: PrivateBlock) -> None:
        """Raises DP210 where rows that are units themselves would come together with rows of other tables. Units of
        both have numbers of the same kind: a row and a person of one number would share one limit, and a person who
        leaves would change whose numbers meet."""
        tables = {s.table for s in scans(made.relation) if not s.public}
        alone = next((t for t in sorted(tables) if self.policy.tables[t].every_row_is_a_unit), None)
        if alone is not None and len(tables) > 1:
            reason = f'each row of "{alone}" is a {self.policy.unit} of its own: none belongs with rows of other tables'
            repair = "aggregate each table first, then combine the results"
            raise refusal("DP210", reason, span=span_of(block.node), repair=repair)

    def _driving(self, made: Lowered) -> str | None:
        """The scan that drives a release, unless it is one of two: a CTE that is joined with itself."""
        read = [s.alias for s in scans(made.relation)]
        return made.driving if made.driving is not None and read.count(made.driving) == 1 else None

    def _check_around(self, block: PrivateBlock) -> None:
        """Raises DP220 where rows are chosen by a column of the query around the release, in another way than by an
        equality, which makes that column a key."""
        own = {NESTED, *(s.alias for s in block.sources)}
        if any(isinstance(s, OtherSource) for s in block.sources):
            return
        trees = [t for t in (block.where, *(j.on for j in block.joins)) if t is not None]
        around = next((c for t in trees for c in t.find_all(exp.Column) if c.table not in own), None)
        if around is not None:
            reason = f"an aggregate over private rows can take {called(around)} from the query around it only by ="
            repair = f"compare it with = in the WHERE of the subquery: column = {called(around)}"
            raise refusal("DP220", reason, span=span_of(around), repair=repair)

    def _choice(self, asked: candidates.Asked, post: PostProcessing, measures: Measures) -> Choice:
        measure = measures.add(asked.aggregate, "", asked.text)
        if not measure.statistic.is_count and measure.statistic is not Statistic.SUM:
            raise candidates.unanswered("a choice goes by a count or a sum", measure.span)
        if measure.per_group is not None:
            raise candidates.unanswered("the score of a choice has no bounds per group", measure.span)
        factor = None
        if asked.factor is not None:
            # No more is assumed of the keys than their types: their list may hold other values than private rows.
            scope = {("keys", k.key.name): Facts(k.key.scalar.facts.type) for k in post.keys}
            factor = lower_scalar(post.over("keys")(asked.factor), scope)
            if not factor.facts.is_numeric:
                raise candidates.unanswered("the factor of a score is a number", span_of(asked.factor))
        return Choice(asked.winners, asked.ascending, factor)

    def _winners(self, block: PrivateBlock, post: PostProcessing, ctes: Sequence[exp.Expr]) -> exp.Select:
        """The SELECT over the winners of a choice: a choice has its own order and number. The value of MODE has no
        item."""
        items = [aliased(post.item(i), i.name) for i in block.items] or [column(post.released, "k1")]
        outer = select(items, exp.Table(this=exp.to_identifier(post.released)))
        if ctes:
            outer.set("with_", exp.With(expressions=list(ctes)))
        outer.set("order", exp.Order(expressions=[exp.Ordered(this=column(post.released, PLACE))]))
        return outer

    def _outer(self, block: PrivateBlock, post: PostProcessing, ctes: Sequence[exp.Expr]) -> exp.Select:
        node = block.node
        released = exp.Table(this=exp.to_identifier(post.released))
        outer = select((aliased(post.item(i), i.name) for i in block.items), released)
        if ctes:
            outer.set("with_", exp.With(expressions=list(ctes)))
        where = [post(block.having)] if block.having is not None else []
        where += [exp.EQ(this=post.key(inner), expression=copied(around)) for inner, around in block.correlated]
        if where:
            outer.set("where", exp.Where(this=exp.and_(*where, copy=False) if len(where) > 1 else where[0]))
        if block.qualify is not None:
            outer.set("qualify", exp.Qualify(this=post(block.qualify)))
        if block.order:
            outer.set("order", exp.Order(expressions=[rebuild(o, post) for o in block.order]))
        for clause in ("limit", "offset", "distinct"):
            if node.args.get(clause) and not (clause == "distinct" and _tells_groups_apart(outer, post)):
                outer.set(clause, copied(node.args[clause]))
        return outer

    def _keys(self, block: PrivateBlock, made: Lowered, correlated: Sequence[exp.Expr]) -> list[GroupKey]:
        found: list[GroupKey] = []
        if correlated and (block.groups or block.having is not None or block.order):
            reason = "a subquery of groups over units cannot depend on the row outside"
            repair = "leave GROUP BY, HAVING and ORDER BY out of it"
            raise refusal("DP220", reason, span=span_of(block.node), repair=repair)
        for tree in [*(leaf for element in block.groups for leaf in leaves(element)), *correlated]:
            meaning = without_parens(tree)
            if any(k.tree == meaning for k in found):
                continue
            inner = next(aggregates(tree), None)
            if inner is not None or any(isinstance(n, exp.Window | exp.Query) for n in tree.walk()):
                reason, repair = (
                    "GROUP BY takes expressions of single rows only",
                    "group by columns; HAVING filters groups",
                )
                if tree.find(exp.Window):
                    inside = "FROM (SELECT ... AS k FROM ...) AS t"
                    repair = f"compute the window in a subquery as k, and group by k: {inside}"
                raise refusal("DP203", reason, span=span_of(tree), repair=repair)
            self.rows.check_units(block, tree, grouping=True)
            value = self.rows.expression(block, made, tree, "GROUP BY")
            scalar = replace(lower_scalar(value, made.kept), span=span_of(tree))
            of_unit = all(c.table in made.of_unit for c in scalar.tree.find_all(exp.Column))
            columns = {called(c) for c in tree.find_all(exp.Column)}
            key = Key(f"k{len(found) + 1}", scalar, shown(meaning), of_unit, columns.pop() if len(columns) == 1 else "")
            found.append(GroupKey(meaning, key))
        return found


def _check_compared(block: PrivateBlock) -> None:
    """Raises DP220 where a nested release speaks of the query around it in what it gives, too."""
    own = {NESTED, *(s.alias for s in block.sources)}
    found = (c for i in block.items for c in i.tree.find_all(exp.Column) if c.table not in own)
    if (column_ := next(found, None)) is not None:
        reason = f"{called(column_)} of the query around it can stand in the WHERE of this subquery only"
        raise refusal("DP220", reason, span=span_of(column_), repair="compute with it outside of the subquery")


def _tells_groups_apart(outer: exp.Select, post: PostProcessing) -> bool:
    """Whether DISTINCT is idle: all keys are shown, and a released table has one row for each combination of them. (Not
    with several grouping sets, whose NULL for "all" is alike to a key that is NULL.) Left out, the groups stay in the
    order of their keys, in which they are released; an engine gives distinct rows in that of their hashes."""
    shown = {item.this.name for item in outer.expressions if isinstance(item.this, exp.Column)}
    return len(post.sets) <= 1 and bool(post.keys) and shown >= {key.key.name for key in post.keys}


def _keyed(block: PrivateBlock) -> PrivateBlock:
    """A correlated release as a table of its values: what it is correlated on becomes its keys, and columns after the
    first."""
    if len(block.items) != 1 or block.groups or block.having is not None or block.order:
        reason = "a subquery of groups over units cannot depend on the row outside"
        repair = "leave GROUP BY, HAVING and ORDER BY out of it"
        raise refusal("DP220", reason, span=span_of(block.node), repair=repair)
    inner = [tree for tree, _ in block.correlated]
    items = (*block.items, *(Item(f"key{i}", tree) for i, tree in enumerate(inner, 1)))
    return replace(block, items=items, groups=tuple(copied(tree) for tree in inner), correlated=())


def _schema(release: Release) -> Schema:
    """The columns of a released table, in types wide enough for any limits."""
    placed = {PLACE: SqlType(Kind.INTEGER)} if release.choice is not None else {}
    return dict(release.key_columns) | placed | {m.name: _type(m) for m in release.shown}


def _type(measure: Measure) -> SqlType:
    if measure.statistic.is_count:
        return SqlType(Kind.INTEGER)
    if measure.statistic is not Statistic.SUM:
        return SqlType(Kind.DOUBLE)
    assert measure.argument is not None
    type_ = measure.argument.facts.type
    return type_ if type_.kind is Kind.DOUBLE else SqlType(Kind.DECIMAL, 38, type_.scale)


def _with_ctes(tree: exp.Expr, ctes: Sequence[exp.Expr]) -> exp.Query:
    """A query with those WITH entries that it names, directly or through others."""
    assert isinstance(tree, exp.Query)
    needed: list[exp.Expr] = []
    names = {t.name.lower() for t in tree.find_all(exp.Table) if not t.db}
    for cte in reversed(ctes):
        if cte.alias.lower() in names:
            needed.insert(0, copied(cte))
            names |= {t.name.lower() for t in cte.find_all(exp.Table) if not t.db}
    own = tree.args.get("with_")
    if needed:
        tree.set("with_", exp.With(expressions=[*needed, *(own.expressions if own is not None else ())]))
    return tree
