"""Whether a block's joins are meant per unit, and the proof that they cannot multiply a unit's rows.

Strategy `rows` cuts each unit to R rows of one *driving* scan. That bounds what the unit adds to any answer only if
every output row stems from one driving row and no driving row gives two. So each other FROM item must be unique on
columns that are equated with items already determined: by a verified key for public tables; for private ones by a
key that the snapshot enforces within each unit, together with the equality of units that `rewrite` adds to every
private join (so ownership never rests on what the analyst wrote). Counter-example without it: a public table that holds
one key twice doubles each unit's contribution at unchanged noise.

Where there is no such proof, the rows of a unit are counted after the joins (strategy `late`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from sqlglot import exp

from dpsql.compile.blocks import (
    BoundJoin,
    PrivateBlock,
    PublicSource,
    Source,
    TableSource,
    is_missing_inside,
    is_optional,
    tables_of,
)
from dpsql.compile.ir import Join, JoinKind, Scope
from dpsql.compile.kinds import unify
from dpsql.compile.labels import identify, is_unit, labels_in, unit_columns
from dpsql.compile.lowered import Lowered, nullable
from dpsql.compile.missing import is_missing
from dpsql.compile.parse import span_of
from dpsql.compile.scalars import lower_condition, lower_scalar
from dpsql.compile.trees import implied, shown, unwrapped, wrapped
from dpsql.errors import Error, NotSupportedError, ProgrammingError, refusal
from dpsql.policy.model import Path, Policy

Unique = Mapping[str, Sequence[frozenset[str]]]
"""By alias of a FROM item: sets of its columns that identify one of its rows (within a unit, where it is private)."""


def is_public(source: Source) -> bool:
    return isinstance(source, PublicSource) or (isinstance(source, TableSource) and source.table.public)


def check_meant(block: PrivateBlock, policy: Policy) -> None:
    """Raises DP210 where rows of different units would be joined: where no equality of a unit, or of an entity that
    belongs to one, connects two private FROM items."""
    everywhere = [c for j in block.joins for c in implied(j.on)] + list(implied(block.where))
    private = [s for s in block.sources if not is_public(s)]
    for position, join in enumerate(block.joins):
        others = [s for s in block.sources[: position + 1] if not is_public(s)]
        outer = join.kind != "INNER" and bool(others) and not is_public(join.source)
        if outer and not _connects(join.source, others, list(implied(join.on)), policy):
            raise not_meant(join.source, others, policy)
    connected, rest = private[:1], private[1:]
    while rest:
        found = next((s for s in rest if _connects(s, connected, everywhere, policy)), None)
        if found is None:
            raise not_meant(rest[0], [s for s in private if s is not rest[0]], policy)
        connected.append(found)
        rest = [s for s in rest if s is not found]


def owned(block: PrivateBlock) -> PrivateBlock:
    """The block with every join that preserves rows of public tables alone made an inner one: rows without a partner
    have no owner, and would vanish when a unit arrives. What may be asked of them then is for `measures` to say."""
    found: list[BoundJoin] = []
    for position, join in enumerate(block.joins):
        before, after = all(map(is_public, block.sources[: position + 1])), is_public(join.source)
        unowned = (join.kind == "LEFT" and before and not after) or (join.kind == "RIGHT" and after and not before)
        found.append(replace(join, kind="INNER") if unowned else join)
    if all(a is b for a, b in zip(found, block.joins, strict=True)):
        return block
    for position, join in enumerate(found):  # what such a join asks of an optional public table makes it needed
        later = [c for j in found[position + 1 :] if j.kind == "INNER" for c in implied(j.on)]
        public = join.kind == "LEFT" and all(map(is_public, block.sources[: position + 2]))
        if public and any(is_missing(c, {join.source.alias}, predicate=True) for c in later):
            found[position] = replace(join, kind="INNER")
    return replace(block, joins=tuple(found))


def _connects(source: Source, others: Sequence[Source], predicates: Iterable[exp.Expr], policy: Policy) -> bool:
    for other in others:
        shared = []
        for part in predicates:
            if isinstance(part, exp.EQ):
                for mine, theirs in ((part.this, part.expression), (part.expression, part.this)):
                    shared.append(labels_in(mine, [source], policy) & labels_in(theirs, [other], policy))
        if identify(shared, policy):
            return True
    return False


def driving_source(block: PrivateBlock, unique: Unique, policy: Policy, scope: Scope) -> Source | None:
    """The FROM item whose rows are the grain of the block, None where a row of each may meet several partners."""
    private = [s for s in block.sources if not is_public(s)]
    for candidate in private or block.sources:
        if any(candidate is optional for optional in block.optional):
            continue
        if not undetermined({candidate.alias}, block, unique, policy, scope):
            return candidate
    return None


def multiplying(block: PrivateBlock, unique: Unique, policy: Policy, scope: Scope) -> list[Source]:
    """The public FROM items of which one choice of private rows may meet several rows."""
    private = {s.alias for s in block.sources if not is_public(s)}
    return [s for s in undetermined(private, block, unique, policy, scope) if is_public(s)] if private else []


def of_unit(block: PrivateBlock, single: set[str], unique: Unique, policy: Policy, scope: Scope) -> frozenset[str]:
    """The FROM items whose row is the same in all rows of a unit: those of which a unit has one row by construction,
    and public ones that are looked up by their columns. What an outer join makes optional may be missing in some rows:
    it is not among them. (Private items meet by the unit, so one with a single row brings it into every row.)"""
    determined = {s.alias for s in block.sources if s.alias in single and not is_public(s)}
    rest = {s.alias for s in undetermined(determined, block, unique, policy, scope)}
    optional = {s.alias for s in block.optional}
    found = determined | {s.alias for s in block.sources if is_public(s)} - rest
    return frozenset(found - optional) if determined else frozenset()


def undetermined(
    determined: set[str], block: PrivateBlock, unique: Unique, policy: Policy, scope: Scope
) -> list[Source]:
    """The FROM items of which several rows may belong to one choice of the determined ones."""
    usable = _usable(block)
    determined = set(determined)
    rest = [s for s in block.sources if s.alias not in determined]

    def is_determined(source: Source) -> bool:
        return _is_unique(source, determined, usable[source.alias], unique, policy, scope)

    while (found := next(filter(is_determined, rest), None)) is not None:
        determined.add(found.alias)
        rest = [s for s in rest if s is not found]
    return rest


def _usable(block: PrivateBlock) -> dict[str, list[exp.Expr]]:
    """By alias: the conjuncts that decide which rows of a FROM item a row meets. Of what an outer join makes optional
    these are the conjuncts of that join, and of the inner joins inside it."""
    found = {s.alias: [*block.predicates, *_equalities(block.correlated)] for s in block.sources}
    inner: list[exp.Expr] = []
    left: dict[str, list[exp.Expr]] = {}
    for position, join in enumerate(block.joins):
        own = list(implied(join.on))
        if join.kind in ("RIGHT", "FULL"):
            found |= {s.alias: [*own, *inner, *left.get(s.alias, ())] for s in block.sources[: position + 1]}
        if join.kind in ("LEFT", "FULL"):
            found[join.source.alias] = own
        if join.kind == "LEFT":
            left[join.source.alias] = own
        if join.kind == "INNER":
            inner += own
    return found


def _equalities(pairs: Iterable[tuple[exp.Expr, exp.Expr]]) -> list[exp.Expr]:
    return [exp.EQ(this=a.copy(), expression=b.copy()) for a, b in pairs]


def _is_unique(
    source: Source, determined: set[str], predicates: Iterable[exp.Expr], unique: Unique, policy: Policy, scope: Scope
) -> bool:
    """Whether equalities with determined sources cover a set of columns that identifies a row of `source`.

    The key's side must be the bare column and both sides of one type: under a cast two keys can become equal
    ('1' and '01' as numbers, 2^53 and 2^53 + 1 as DOUBLE).
    """
    covered = set(unit_columns(source, policy))
    for predicate in predicates:
        if not isinstance(predicate, exp.EQ):
            continue
        for key, other in ((predicate.this, predicate.expression), (predicate.expression, predicate.this)):
            key, other = key.unnest(), other.unnest()
            if not isinstance(key, exp.Column) or key.table != source.alias:
                continue
            used = tables_of(other)
            if not used <= determined or (not used and not isinstance(other, exp.Literal)):
                continue
            if same_type(key, other, scope):
                covered.add(key.name)
    return any(identifying <= covered for identifying in unique.get(source.alias, ()))


def same_type(key: exp.Column, other: exp.Expr, scope: Scope) -> bool:
    """Whether `key = other` compares in the key's own type, without a cast of the key.

    Two numeric types compare in a third: a BIGINT against `9e15` as DOUBLE, where many keys are equal.
    """
    left = scope.get((key.table, key.name))
    if left is None:
        return False
    try:
        type_, (bare, _) = unify([lower_scalar(key, scope), lower_scalar(other, scope)], "=")
    except (NotSupportedError, ProgrammingError):
        return False  # what cannot be lowered is refused where it stands
    return type_ == left.type and isinstance(bare.tree, exp.Column)


def left_join(made: Lowered, right: Lowered, pairs: Sequence[tuple[exp.Expr, exp.Expr]], scope: Scope) -> None:
    """Look up, for each row of `made`, the one row of `right` whose key columns equal the expressions beside them.

    A key must be compared in its own type (see `same_type`): in another one row could find several, and would count as
    often. Raises DP220."""
    both = {**scope, **right.scope}
    for key, other in pairs:
        assert isinstance(key, exp.Column)
        if not same_type(key, unwrapped(other), both):
            type_ = both[key.table, key.name].type
            reason = f"{shown(other)} would be compared with keys of type {type_}, of which it may equal several"
            raise refusal("DP220", reason, span=span_of(other), repair=f"write CAST({shown(other)} AS {type_})")
    conditions = [exp.EQ(this=key, expression=wrapped(other)) for key, other in pairs]
    on = lower_condition(exp.and_(*conditions, copy=False) if conditions else exp.true(), both, "WHERE")
    made.relation = Join(JoinKind.LEFT, made.relation, right.relation, on, unique=True)
    made.scope |= nullable(right.scope)


def multiplies(source: Source, block: PrivateBlock) -> Error:
    """The refusal of a public FROM item of which several rows may meet one row, with the key to join it by."""
    span = span_of(source.node)
    if not isinstance(source, TableSource):
        reason = "rows of this query could match one row several times"
        repair = "group it by what it is joined on, so that it has one row for each value"
        return refusal("DP211", reason, span=span, repair=repair)
    name, table = source.node.alias_or_name, source.table
    reason = f'"{table.name}" could match one row several times'
    for other in block.sources:
        for reference in other.table.references if isinstance(other, TableSource) else ():
            if reference.table == table.name and set(reference.target) == set(table.key):
                pairs = zip(reference.columns, reference.target, strict=True)
                on = " AND ".join(f"{other.node.alias_or_name}.{a} = {name}.{b}" for a, b in pairs)
                return refusal("DP211", reason, span=span, repair=f"join it by its key: {on}")
    if table.key:
        key = " and ".join(f"{name}.{k}" for k in table.key)
        repair = f"join it by its key: equality of {key} with columns of the same type"
        return refusal("DP211", reason, span=span, repair=repair)
    compared = (c for p in block.predicates if isinstance(p, exp.EQ) for c in p.find_all(exp.Column))
    used = [c.name for c in compared if c.table == source.alias] or list(table.columns)[:1]
    repair = f"the policy declares no key for it: join (SELECT DISTINCT {', '.join(used)} FROM {table.name}) AS {name}"
    return refusal("DP211", reason, span=span, repair=repair)


def not_meant(source: Source, others: Sequence[Source], policy: Policy) -> Error:
    """The refusal of a join or subquery that would bring rows of different units together."""
    named = f'"{source.table.name}" is private' if isinstance(source, TableSource) else "these rows are private"
    reason = f"{named}: each of its rows must be matched with rows of the same {policy.unit} only"
    repair = meant(source, others, policy)
    return refusal("DP210", reason, span=span_of(source.node), repair=repair)


def meant(source: Source, others: Sequence[Source], policy: Policy, place: str = "the join") -> str:
    """The conjunct to add: the declared path between two tables, or the unit's columns."""
    for other in others:
        for child, parent in ((source, other), (other, source)):
            if not isinstance(child, TableSource) or not isinstance(parent, TableSource):
                continue
            unit = child.table.unit
            if isinstance(unit, Path) and unit.to == parent.table.name:
                names = [
                    f"{child.node.alias_or_name}.{a} = {parent.node.alias_or_name}.{b}"
                    for a, b in zip(unit.via, parent.table.key, strict=True)
                ]
                return f"add to {place}: " + " AND ".join(names)
    for other in others:
        left, right = _identifying_columns(other, policy), _identifying_columns(source, policy)
        shared = next(((a, b) for a, of in left for b, labels in right if of & labels), None)
        if shared is not None:
            a, b = (f"{s.node.alias_or_name}.{name}" for s, name in zip((other, source), shared, strict=True))
            if a == b:
                name = source.node.alias_or_name
                return f"give the inner table an alias, {name} AS t, and add to {place}: t.{shared[1]} = {a}"
            return f"add to {place}: {a} = {b}"
    for other in others:
        for child, parent in ((source, other), (other, source)):
            if isinstance(child, TableSource) and isinstance(parent, TableSource):
                steps = _steps(child, parent, policy)
                if steps:
                    between = ", ".join(steps[1:])
                    return f"join {between} between them: {_equations(steps, child, parent, policy)}"
    return "join a table with the table that its declared path leads to, by that key"


def _steps(child: TableSource, parent: TableSource, policy: Policy) -> list[str]:
    """The tables of a child's path as far as the parent, without it; [] where the path does not lead there."""
    steps, table = [], child.table
    while table.name != parent.table.name:
        steps.append(table.name)
        if not isinstance(table.unit, Path):
            return []
        table = policy.tables[table.unit.to]
    return steps


def _equations(steps: Sequence[str], child: TableSource, parent: TableSource, policy: Policy) -> str:
    """The equalities along a path, as they are written in a condition."""
    tables = [policy.tables[name] for name in steps]
    names = [child.node.alias_or_name, *steps[1:], parent.node.alias_or_name]
    written = []
    for table, above, mine, theirs in zip(tables, [*tables[1:], parent.table], names, names[1:], strict=False):
        assert isinstance(table.unit, Path)
        written += [f"{mine}.{a} = {theirs}.{b}" for a, b in zip(table.unit.via, above.key, strict=True)]
    return " AND ".join(written)


def _identifying_columns(source: Source, policy: Policy) -> list[tuple[str, frozenset[tuple[str, int]]]]:
    """(called, labels) of the columns that identify a unit or entity by themselves."""
    columns = [
        (name, labels_in(exp.column(actual, table=source.alias), [source], policy)) for name, actual in source.columns
    ]
    alone = [(name, frozenset(t for t in labels if identify([frozenset([t])], policy))) for name, labels in columns]
    return sorted(((n, t) for n, t in alone if t), key=lambda c: ("", 0) not in c[1])


def equates_units(block: PrivateBlock, part: exp.Expr, policy: Policy, joined: Source | None = None) -> bool:
    """Whether a conjunct of WHERE, or of the join with `joined`, equates the units of two rows that are both there: it
    says no more than what every private join is given, and one comparison instead of two makes such joins a third
    faster. Nor need the columns be listed then."""
    if not isinstance(part, exp.EQ):
        return False
    sources = {s.alias: s for s in block.sources}
    owners: set[str] = set()
    for side in (part.this.unnest(), part.expression.unnest()):
        source = sources.get(side.table) if isinstance(side, exp.Column) else None
        if source is None or not is_unit(source, side.name, policy):
            return False
        if is_missing_inside(source, side.name) if source is joined else is_optional(block, source, side.name):
            return False
        owners.add(source.alias)
    return len(owners) == 2 and (joined is None or joined.alias in owners)
