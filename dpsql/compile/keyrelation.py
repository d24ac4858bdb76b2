"""The SELECT of a key relation: parts in FROM, joined where predicates equate them, and restricted.

A predicate that speaks of more than the parts is weakened to what it implies of them: of a conjunction some conjuncts,
of an OR whose every branch says something of the parts, that. `(n1 = 'A' AND n2 = 'B' AND x > 5) OR (n1 = 'B' AND
n2 = 'A')` gives two pairs.

Parts that no equation connects are independent: each connected group that reads tables is first reduced to its
distinct values, so that tables of 200,000 and 10,000 rows are never multiplied to list 25 brands and 25 nations.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass
from math import prod

from sqlglot import exp

from dpsql.compile.ir import Facts, PublicKeys, Scope
from dpsql.compile.scalars import lower_condition, lower_scalar
from dpsql.compile.trees import (
    DIALECT,
    add_join,
    aliased,
    column,
    copied,
    derived,
    meaning,
    operands,
    rebuild,
    select,
    unwrapped,
    wrapped,
)
from dpsql.errors import NotSupportedError, ProgrammingError
from dpsql.policy.facts import SqlType

MAX_CANDIDATES = 10**7
"""Combinations of values that an engine may look through for the keys among them."""

Named = tuple[str, exp.Expr]


@dataclass(frozen=True, slots=True)
class Part:
    """A FROM item. is_table: a public table, whose rows repeat values. most: of its rows. known: whether it has just
    so many, all different in its columns (so many: `columns`). inferred: whether nobody declared its values."""

    alias: str
    relation: exp.Expr
    is_table: bool
    most: int
    known: bool = False
    columns: int = 1
    inferred: bool = False


class KeyRelation:
    """Collects what keys may come from; `select` uses what they need, and the tables that are joined with that."""

    def __init__(self, predicates: Sequence[exp.Expr], scope: Scope):
        self._predicates, self._scope = list(predicates), dict(scope)
        self._parts: dict[str, Part] = {}
        self._stand_ins: dict[str, exp.Expr] = {}  # by the meaning of what they stand for
        self._kinds: set[type[exp.Expr]] = set()

    def add(self, part: Part) -> None:
        """A part that keys may need."""
        self._parts[part.alias] = part

    def stand_in(self, tree: exp.Expr, values: exp.Column, facts: Facts) -> None:
        """A column of a part that holds the values of an expression: it is read where a predicate says that."""
        self._scope[values.table, values.name] = facts
        said = meaning(tree)
        if said is not None:
            self._stand_ins.setdefault(said, values)
            self._kinds.add(type(unwrapped(tree)))

    def equate(self, tree: exp.Expr, values: exp.Column, facts: Facts) -> None:
        """A column of a part that equals an expression over other parts."""
        self._scope[values.table, values.name] = facts
        self._predicates.append(exp.EQ(this=copied(tree), expression=values))

    def over(self, tree: exp.Expr, type_: SqlType) -> exp.Expr | None:
        """An expression over the parts, where stand-ins and tables give all that it reads, and not too many values."""
        over = self._over(tree, self._parts.keys())
        if over is None or prod(self._parts[alias].most for alias in _aliases(over)) > MAX_CANDIDATES:
            return None
        try:
            return over if lower_scalar(over, self._scope).facts.type == type_ else None
        except (NotSupportedError, ProgrammingError):
            return None

    def select(self, keys: Sequence[Named]) -> PublicKeys:
        """SELECT DISTINCT keys: names, and expressions over the parts."""
        items = [(name, lower_scalar(tree, self._scope).tree) for name, tree in keys]
        groups = self._groups({alias for _, tree in items for alias in _aliases(tree)})
        parts = [part for part in self._parts.values() if any(part.alias in g for g in groups)]
        where = self._restrictions({part.alias for part in parts})
        count = _count(items, parts, where)
        relations = [copied(part.relation) for part in parts]
        reduced = [g for g in groups if any(p.is_table and p.alias in g for p in parts)] if len(groups) > 1 else []
        if reduced:
            relations = [copied(p.relation) for p in parts if not any(p.alias in g for g in reduced)]
            for number, group in enumerate(reduced, 1):
                inner = [copied(p.relation) for p in parts if p.alias in group]
                relation, items, where = _reduced(f"$part_{number}", group, inner, items, where)
                relations.insert(number - 1, relation)
        return PublicKeys(_distinct(items, relations, where), any(part.inferred for part in parts), count)

    # -- which parts --------------------------------------------------------------------------------------------

    def _groups(self, needed: Set[str]) -> list[set[str]]:
        """Connected parts: those that keys need, grown by what is equated with them."""
        links = [link for p in self._predicates if (link := self._link(p)) is not None]
        groups: list[set[str]] = []
        todo = [alias for alias in self._parts if alias in needed]
        for alias in todo:
            if any(alias in g for g in groups):
                continue
            group = {alias}
            while (more := next((k for k in links if k & group and not k <= group), None)) is not None:
                group |= more
            groups.append(group)
        return groups

    def _link(self, predicate: exp.Expr) -> set[str] | None:
        """The parts that an equation joins; other comparisons would multiply them."""
        if not isinstance(predicate, exp.EQ):
            return None
        over = self._over(predicate, self._parts.keys())
        if not isinstance(over, exp.EQ):  # the equation itself may be a key: then it is a column by now
            return None
        left, right = _aliases(over.this), _aliases(over.expression)
        return left | right if left and right and not left & right else None

    # -- predicates ---------------------------------------------------------------------------------------------

    def _restrictions(self, aliases: Set[str]) -> list[exp.Expr]:
        """What the predicates say of these parts, in total form; each once."""
        found: dict[str, exp.Expr] = {}
        for predicate in self._predicates:
            over = self._weakened(predicate, True, aliases)
            if over is None:
                continue
            try:
                tree = lower_condition(over, self._scope, "WHERE").tree
            except (NotSupportedError, ProgrammingError):
                continue  # what cannot be said of keys restricts none
            found.setdefault(tree.sql(dialect=DIALECT), tree)
        return list(found.values())

    def _weakened(self, node: exp.Expr, want: bool, aliases: Set[str]) -> exp.Expr | None:
        """What holds of these parts where `node` is true (`want`) or false; None where that is nothing."""
        node = unwrapped(node)
        if isinstance(node, exp.Not):
            return self._weakened(node.this, not want, aliases)
        if not isinstance(node, exp.And | exp.Or):
            over = self._over(node, aliases)
            return over if want or over is None else exp.Not(this=wrapped(over))
        parts = [self._weakened(part, want, aliases) for part in operands(node)]
        some = list({repr(part): part for part in parts if part is not None}.values())
        is_and = isinstance(node, exp.And) is want
        if not some or (not is_and and None in parts):
            return None
        connector = exp.And if is_and else exp.Or
        whole = some[0]
        for part in some[1:]:
            whole = connector(this=exp.Paren(this=whole), expression=exp.Paren(this=part))
        return whole

    def _over(self, node: exp.Expr, aliases: Set[str]) -> exp.Expr | None:
        """The expression with stand-ins in place, if it is over these parts alone (and over any)."""

        def over(node: exp.Expr) -> exp.Expr:
            if type(node) in self._kinds:
                values = self._stand_ins.get(meaning(node) or "")
                if values is not None:
                    return copied(values)
            return copied(node) if isinstance(node, exp.Column) else rebuild(node, over)

        if any(isinstance(n, exp.Query) for n in node.walk()):
            return None
        tree = over(node)
        used = _aliases(tree)
        return tree if used and used <= aliases else None


def _reduced(
    alias: str, group: Set[str], relations: Sequence[exp.Expr], items: Sequence[Named], where: Sequence[exp.Expr]
) -> tuple[exp.Expr, list[Named], list[exp.Expr]]:
    """A group as one relation of distinct values; items and predicates over it."""
    columns: dict[str, exp.Expr] = {}

    def moved(node: exp.Expr) -> exp.Expr:
        if not isinstance(node, exp.Column):
            return rebuild(node, moved)
        if node.table not in group:
            return copied(node)
        name = next((name for name, tree in columns.items() if tree == node), f"{node.table}.{node.name}")
        columns.setdefault(name, copied(node))
        return column(alias, name)

    outer: list[Named] = []
    for name, tree in items:
        whole = _aliases(tree) <= group
        if whole:
            columns[name] = tree
        outer.append((name, column(alias, name) if whole else moved(tree)))
    inside = [w for w in where if _aliases(w) <= group]
    outside = [moved(w) for w in where if not _aliases(w) <= group]
    return derived(_distinct(list(columns.items()), relations, inside), alias), outer, outside


def _count(items: Sequence[Named], parts: Sequence[Part], where: Sequence[exp.Expr]) -> int | None:
    """How many keys there are, or may be where these are too many to look through; None where an engine must say."""
    total = prod(part.most for part in parts)
    if any(part.is_table for part in parts) or (where and total <= MAX_CANDIDATES):
        return None
    shown = {(tree.table, tree.name) for _, tree in items if isinstance(tree, exp.Column)}
    whole = all(p.known and p.columns == sum(alias == p.alias for alias, _ in shown) for p in parts)
    return total if total > MAX_CANDIDATES or whole else None


def _distinct(items: Sequence[Named], relations: Sequence[exp.Expr], where: Sequence[exp.Expr]) -> exp.Select:
    first, *more = relations
    tree = select([aliased(column_, name) for name, column_ in items], first)
    tree.set("distinct", exp.Distinct())
    for relation in more:
        add_join(tree, "CROSS", relation)
    if where:
        tree.set("where", exp.Where(this=exp.and_(*(wrapped(w) for w in where), copy=False)))
    return tree


def _aliases(tree: exp.Expr) -> set[str]:
    return {c.table for c in tree.find_all(exp.Column)}
