"""The public relation of group keys: which groups an answer shows, decided without looking at any private row.

Every public key appears in the answer, with its own noise, whether or not a private row has it; private rows with any
other key are dropped. (A group that appears only because somebody is in it would disclose that somebody is.)

The relation is the product of the key columns' public domains, restricted by every conjunct of WHERE and ON that speaks
of key or public columns only:
- keys computed from columns of public tables: the values that those tables hold;
- a private column with `references`: the values of the public column it refers to;
- anything with a finite domain that policy or query text prove: `values`, IN lists, CASE of literals, booleans,
  EXTRACT over bounded dates. Such a domain contains NULL unless the text excludes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from dpsql.compile.blocks import PrivateBlock, TableSource, origin
from dpsql.compile.ir import Key, PublicKeys, Scope, Value
from dpsql.compile.literals import literal, null
from dpsql.compile.ranges import finite
from dpsql.compile.resolve import PUBLIC_CATALOG
from dpsql.compile.scalars import lower_scalar
from dpsql.compile.trees import add_join, aliased, column, derived, rebuild, select, wrapped
from dpsql.policy.facts import Kind, SqlType
from dpsql.policy.model import Policy, Table


@dataclass(frozen=True, slots=True)
class GroupKey:
    """A key as `lower` found it: the bound tree without parentheses, and its scalar."""

    tree: exp.Expr
    key: Key


def public_keys(
    block: PrivateBlock, keys: Sequence[GroupKey], scope: Scope, policy: Policy
) -> tuple[PublicKeys | None, tuple[str, ...]]:
    """The key relation of a release, and the names of the keys that have no public values (they are not in it)."""
    return _Builder(block, keys, scope, policy).build()


class _Builder:
    def __init__(self, block: PrivateBlock, keys: Sequence[GroupKey], scope: Scope, policy: Policy):
        self.block, self.keys, self.scope, self.policy = block, keys, scope, policy
        self.public = {s.alias: s for s in block.sources if isinstance(s, TableSource) and s.table.public}
        self.optional = {j.source.alias for j in block.joins if j.kind == "LEFT"} & set(self.public)
        self.predicates = block.predicates
        self.inferred = False
        self.count: int | None = 1  # of the product of domains; None once a table gives one of them
        self.relations: list[exp.Expr] = []
        self.stands_for: dict[tuple[str, str], exp.Expr] = {}  # private key column -> column of its domain
        self.used: list[str] = []  # public aliases in the relation

    def build(self) -> tuple[PublicKeys | None, tuple[str, ...]]:
        self._add_public_tables()
        columns = {k.key.name: self._key_column(i, k) for i, k in enumerate(self.keys, 1)}
        private = tuple(name for name, column_ in columns.items() if column_ is None)
        where = [t for p in self.predicates if (t := self._over_keys(p)) is not None]
        items = [aliased(c, name) for name, c in columns.items() if c is not None]
        if not items:
            return None, private
        first, *more = self.relations
        tree = select(items, first)
        tree.set("distinct", exp.Distinct())
        for relation in more:
            add_join(tree, "CROSS", relation)
        if where:
            tree.set("where", exp.Where(this=exp.and_(*(wrapped(w) for w in where), copy=False)))
        known = self.count if not self.used and not where else None
        return PublicKeys(tree, self.inferred, known), private

    def _add_public_tables(self) -> None:
        """The public tables that the keys read, and those that join with them by public columns alone."""
        needed = {c.table for k in self.keys for c in k.tree.find_all(exp.Column)} & set(self.public)
        grown = True
        while grown:
            grown = False
            for predicate in self.predicates:
                aliases = {c.table for c in predicate.find_all(exp.Column)}
                if aliases <= set(self.public) and aliases & (needed - self.optional) and not aliases & self.optional:
                    grown = grown or not aliases <= needed
                    needed |= aliases
        for alias in self.public:
            if alias in needed:
                self.used.append(alias)
                table = self.public[alias].table
                relation = _named(_scan(table), alias)
                self.relations.append(self._with_null_row(table, alias) if alias in self.optional else relation)

    def _with_null_row(self, table: Table, alias: str) -> exp.Expr:
        """A LEFT JOINed table also gives a row of NULLs."""
        columns = [c for c in table.columns if (alias, c) in self.scope]
        real = exp.select(*(exp.column(exp.to_identifier(c, quoted=True)) for c in columns)).from_(_scan(table))
        nulls = exp.select(*(exp.alias_(null(self.scope[alias, c].type), c, quoted=True) for c in columns))
        return derived(exp.union(real, nulls, distinct=False), alias)

    def _key_column(self, position: int, group: GroupKey) -> exp.Expr | None:
        """The expression that gives this key's values over the relations, adding its domain where it needs one; None
        where nothing public says what they are."""
        used = {(c.table, c.name) for c in group.tree.find_all(exp.Column)}
        if used and all(alias in self.public for alias, _ in used):
            return group.key.scalar.tree.copy()
        domain = self._domain(group)
        if domain is None:
            return None
        alias = f"domain_{position}"
        self.relations.append(_named(domain, alias, columns=("v",)))
        value = column(alias, "v")
        if isinstance(group.tree, exp.Column):
            self.stands_for[group.tree.table, group.tree.name] = value
        return value

    def _domain(self, group: GroupKey) -> exp.Expr | None:
        facts = group.key.scalar.facts
        values = finite(facts)
        declared = self._declared(group.tree)
        if values is not None:
            self.inferred = self.inferred or declared != "values"
            if self.count is not None:
                self.count *= len(values) + facts.nullable
            return _values(values, facts.type, nullable=facts.nullable)
        self.count = None
        if isinstance(declared, tuple):
            table, target = declared
            source = exp.select(exp.column(exp.to_identifier(target, quoted=True))).from_(_scan(table)).distinct()
            if facts.nullable:
                return exp.union(source, exp.select(null(facts.type)), distinct=False).subquery()
            return source.subquery()
        return None

    def _declared(self, tree: exp.Expr) -> str | tuple[Table, str] | None:
        """ "values", or the public (table, column) that a bare private column refers to."""
        if not isinstance(tree, exp.Column):
            return None
        found = origin(next(s for s in self.block.sources if s.alias == tree.table), tree.name)
        if found is None:
            return None
        source, name = found
        declared = source.table.columns.get(name)
        if declared is not None and declared.values is not None:
            return "values"
        for reference in source.table.references:
            if reference.columns == (name,):
                return self.policy.tables[reference.table], reference.target[0]
        return None

    def _over_keys(self, predicate: exp.Expr) -> exp.Expr | None:
        """The predicate over the key relation, or None where it speaks of anything else."""
        columns = {(c.table, c.name) for c in predicate.find_all(exp.Column)}
        known = all(a in self.used or (a, n) in self.stands_for for a, n in columns)
        if not columns or not known or any(isinstance(n, exp.Query) for n in predicate.walk()):
            return None

        def stand_in(node: exp.Expr) -> exp.Expr:
            if isinstance(node, exp.Column) and (node.table, node.name) in self.stands_for:
                return self.stands_for[node.table, node.name].copy()
            return rebuild(node, stand_in) if not isinstance(node, exp.Column) else node.copy()

        return stand_in(lower_scalar(predicate, self.scope).tree)


def _scan(table: Table) -> exp.Table:
    return exp.Table(this=exp.to_identifier(table.name, quoted=True), db=exp.to_identifier(PUBLIC_CATALOG))


def _named(relation: exp.Expr, alias: str, columns: Sequence[str] = ()) -> exp.Expr:
    relation.set(
        "alias",
        exp.TableAlias(
            this=exp.to_identifier(alias, quoted=True),
            columns=[exp.to_identifier(c, quoted=True) for c in columns] or None,
        ),
    )
    return relation


def _values(values: Sequence[Value], type_: SqlType, *, nullable: bool) -> exp.Expr:
    """A relation of these values: a series for long runs of integers, else a VALUES list."""
    rows: list[exp.Expr] = [literal(v, type_) for v in values]
    if nullable:
        rows.append(null(type_))
    if not rows:  # contradictory predicates: no group can exist
        empty = exp.select(null(type_)).where(exp.false())
        return empty.subquery()
    if type_.kind is Kind.INTEGER and len(values) > 50 and _is_run(values):
        run = exp.GenerateSeries(
            start=literal(values[0], type_), end=literal(values[-1], type_), is_end_exclusive=False
        )
        series = exp.select(exp.Explode(this=run))
        return (exp.union(series, exp.select(null(type_)), distinct=False) if nullable else series).subquery()
    return exp.Values(expressions=[exp.Tuple(expressions=[row]) for row in rows])


def _is_run(values: Sequence[Value]) -> bool:
    """Whether ascending integers follow one another without a gap."""
    first, last = values[0], values[-1]
    return isinstance(first, int) and isinstance(last, int) and last - first == len(values) - 1
