"""The public relation of group keys: which groups an answer shows, decided without looking at any private row.

Every public key appears in the answer, with its own noise, whether or not a private row has it; private rows with any
other key are dropped. (A group that appears only because somebody is in it would disclose that somebody is.)

The relation is the product of the keys' public domains, restricted by every conjunct of WHERE and ON that speaks of
keys and public columns only, or can be weakened to one that does. A domain is
- of an expression over public tables: what those tables give, with the public tables that they are joined with;
- of private columns with `references`: the values of the public columns they refer to, together where the reference is
  composite;
- of anything whose values policy or query text prove to be finitely many (`values`, IN lists, CASE of literals,
  booleans, EXTRACT over bounded dates): those. Such a domain contains NULL unless the text excludes it.

Subqueries are seen through (`lineage`), and columns that are equal in every row are one (`equations`). Nothing here
has to be right for privacy but one thing, which `check` repeats: the relation reads public tables alone. Were a key
missing that a row has, that row would be dropped.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from dpsql.compile import domains
from dpsql.compile.blocks import PrivateBlock
from dpsql.compile.equations import Equations
from dpsql.compile.ir import ColumnName, Facts, Key, PublicKeys, Scope
from dpsql.compile.keyrelation import KeyRelation, Part
from dpsql.compile.lineage import lineage
from dpsql.compile.ranges import facts_of, finite, how_many
from dpsql.compile.scalars import lower_scalar, narrow
from dpsql.compile.trees import column, unwrapped
from dpsql.compile.types import column_facts
from dpsql.errors import NotSupportedError, ProgrammingError
from dpsql.policy.facts import PublicFacts
from dpsql.policy.model import Policy, Reference, Table


@dataclass(frozen=True, slots=True)
class GroupKey:
    """A key as `lower` found it: the bound tree without parentheses, and its scalar."""

    tree: exp.Expr
    key: Key


@dataclass(frozen=True, slots=True)
class _Key:
    """A key over tables. `facts`: of its values in the rows that are left."""

    name: str
    tree: exp.Expr
    facts: Facts


class KeyLists:
    """The public values of the keys of a release, found once: any of them can be asked for.

    private: the names of the keys that have none."""

    def __init__(self, block: PrivateBlock, keys: Sequence[GroupKey], scope: Scope, policy: Policy, facts: PublicFacts):
        self._policy, self._facts = policy, facts
        self._lineage = lineage(block, facts)
        self._public = {alias: s for alias, s in self._lineage.tables.items() if s.table.public}
        known: Scope = {**scope, **self._lineage.scope}
        self._equations = Equations(self._lineage.predicates, known, list(self._public), self._lineage.optional)
        predicates = [self._equations.of(p) for p in self._lineage.predicates]
        trees = [self._equations.of(self._lineage.of(key.tree)) for key in keys]
        private = [tree for key, tree in zip(keys, trees, strict=True) if not self._is_over_tables(key.tree)]
        narrowed = narrow(known, *_about(private, predicates)) if private else {}
        self._keys = [self._traced(key, tree, narrowed) for key, tree in zip(keys, trees, strict=True)]
        self._sought = [*self._keys, *self._columns(narrowed)]
        self._relation = KeyRelation(predicates, known)
        # What gives the values of each key, over the parts of the relation.
        self._values: dict[str, exp.Expr] = {k.name: k.tree for k in self._keys if self._is_over_tables(k.tree)}
        self._find()
        self.private = tuple(key.name for key in self._keys if key.name not in self._values)

    def of(self, names: Sequence[str]) -> PublicKeys | None:
        """The relation of some of the keys: of those that have public values, in order; None where none has."""
        listed = [(name, self._values[name]) for name in names if name in self._values]
        return self._relation.select(listed) if listed else None

    def _find(self) -> None:
        for alias, source in self._public.items():
            self._relation.add(self._table(alias, source.table))
        self._from_references()
        for key in sorted(self._open(), key=lambda k: not self._members(k)):  # columns first
            if not self._from_others(key):
                self._from_values(key)

    # -- what is sought -----------------------------------------------------------------------------------------

    def _is_over_tables(self, tree: exp.Expr) -> bool:
        used = {c.table for c in tree.find_all(exp.Column)}
        return bool(used) and used <= set(self._public)

    def _traced(self, group: GroupKey, tree: exp.Expr, narrowed: Scope) -> _Key:
        """The key over tables, `tree`; as it is where the tables say nothing of it, or another type."""
        own = group.key.scalar.facts
        if self._is_over_tables(group.tree):
            return _Key(group.key.name, tree, own)
        try:
            facts = lower_scalar(tree, narrowed).facts
        except (NotSupportedError, ProgrammingError):
            return _Key(group.key.name, group.tree, own)
        if facts.type != own.type:
            return _Key(group.key.name, group.tree, own)
        counts = [how_many(f) for f in (facts, own)]
        fewer = own if counts[0] is None or (counts[1] is not None and counts[1] < counts[0]) else facts
        return _Key(group.key.name, tree, replace(fewer, nullable=facts.nullable and own.nullable))

    def _columns(self, narrowed: Scope) -> list[_Key]:
        """The private columns from which keys without values of their own are computed."""
        found = {
            (c.table, c.name): c
            for key in self._keys
            if not self._members(key) and finite(key.facts) is None
            for c in key.tree.find_all(exp.Column)
            if c.table not in self._public and (c.table, c.name) in narrowed
        }
        return [_Key(f"{name[0]}.{name[1]}", c, narrowed[name]) for name, c in found.items()]

    def _members(self, key: _Key) -> Sequence[ColumnName]:
        """The columns that a key is; none where it is computed."""
        tree = unwrapped(key.tree)
        return self._equations.members((tree.table, tree.name)) if isinstance(tree, exp.Column) else ()

    def _open(self) -> list[_Key]:
        """What has no values yet."""
        return [key for key in self._sought if key.name not in self._values]

    # -- where values come from ---------------------------------------------------------------------------------

    def _table(self, alias: str, table: Table) -> Part:
        rows = 1 + (self._facts.tables[table.name].rows or 0)
        if alias not in self._lineage.optional:
            return Part(alias, domains.table(table, alias), is_table=True, most=rows)
        types = [(name, facts.type) for (of, name), facts in self._lineage.scope.items() if of == alias]
        return Part(alias, domains.optional_table(table, types, alias), is_table=True, most=rows)

    def _from_references(self) -> None:
        """Columns with a reference: the one that gives most of them first. It may give columns that a joined table
        gives too, which joins the two; values that the text lists are better, unless other columns need it."""
        while covering := [(r, covered) for r, ends in self._references() if (covered := self._covered(ends))]:
            reference, covered = max(covering, key=lambda c: (len(c[1]), -len(c[0].columns)))
            self._refer(reference, covered)

    def _references(self) -> Iterator[tuple[Reference, dict[ColumnName, str]]]:
        """Every reference of a private table, and which private column refers to which public one."""
        for alias, source in self._lineage.tables.items():
            for reference in source.table.references if alias not in self._public else ():
                columns = zip(reference.columns, reference.target, strict=True)
                yield reference, {(alias, name): target for name, target in columns}

    def _covered(self, ends: Mapping[ColumnName, str]) -> list[tuple[_Key, str]]:
        """(key, public column) for what a reference gives; none where it gives nothing new."""
        found = {key.name: (key, ends[name]) for key in self._sought for name in self._members(key) if name in ends}
        new = [key for key in self._open() if key.name in found and finite(key.facts) is None]
        return list(found.values()) if new else []

    def _refer(self, reference: Reference, covered: Sequence[tuple[_Key, str]]) -> None:
        table, known = self._policy.tables[reference.table], self._facts.tables[reference.table]
        nullable = {target: key.facts.nullable for key, target in covered}
        alias = f"$domain_{1 + self._sought.index(covered[0][0])}"
        names = {target: f"v{i}" if len(nullable) > 1 else "v" for i, target in enumerate(nullable, 1)}
        values = domains.referred(table, [(target, known.types[target], nullable[target]) for target in names])
        nulls = sum(nullable.values())
        rows = known.rows or 0
        most = rows + nulls if len(nullable) == 1 else rows * 2**nulls
        exact = len(nullable) == len(reference.columns) and (len(nullable) == 1 or not nulls)
        relation = domains.named(values, alias, list(names.values()))
        self._relation.add(Part(alias, relation, is_table=False, most=most, known=exact, columns=len(names)))
        for key, target in covered:
            # The public column's facts: bounds of the private one say nothing of its values.
            facts = column_facts(table.columns[target], known.types[target], table)
            self._give(key, column(alias, names[target]), replace(facts, nullable=nullable[target]))

    def _from_others(self, key: _Key) -> bool:
        """What is computed from columns that have values, and from public tables: `month(day)` beside `day`."""
        tree = self._relation.over(key.tree, key.facts.type) if not self._members(key) else None
        if tree is not None:
            self._values[key.name] = tree
        return tree is not None

    def _from_values(self, key: _Key) -> None:
        """What has finitely many values, all of them proved."""
        values = finite(key.facts)
        if values is None:
            return
        inferred = not self._is_declared(key)
        alias, type_, nullable = f"$domain_{1 + self._sought.index(key)}", key.facts.type, key.facts.nullable
        relation = domains.named(domains.listed(values, type_, nullable=nullable), alias, ["v"])
        self._relation.add(
            Part(alias, relation, is_table=False, most=len(values) + nullable, known=True, inferred=inferred)
        )
        self._give(key, column(alias, "v"), facts_of(type_, domain=values, nullable=nullable))

    def _give(self, key: _Key, values: exp.Column, facts: Facts) -> None:
        if key.name in self._values:
            self._relation.equate(self._values[key.name], values, facts)
        else:
            self._relation.stand_in(key.tree, values, facts)
            self._values[key.name] = values

    def _is_declared(self, key: _Key) -> bool:
        """Whether the policy lists the values of the column that a key is."""
        declared = [
            source.table.columns.get(name)
            for alias, name in self._members(key)
            if (source := self._lineage.tables.get(alias)) is not None
        ]
        return any(c is not None and c.values is not None for c in declared)


def _about(trees: Sequence[exp.Expr], predicates: Sequence[exp.Expr]) -> list[exp.Expr]:
    """The predicates that say something of these trees, in order: with a column of theirs, or of another such one."""
    names, used = _columns_of(*trees), [_columns_of(predicate) for predicate in predicates]
    said: set[int] = set()
    while more := {i for i, columns in enumerate(used) if i not in said and columns & names}:
        said |= more
        names = names.union(*(used[i] for i in more))
    return [predicates[i] for i in sorted(said)]


def _columns_of(*trees: exp.Expr) -> frozenset[ColumnName]:
    return frozenset((c.table, c.name) for tree in trees for c in tree.find_all(exp.Column))
