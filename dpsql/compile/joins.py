"""The proof that a block's joins cannot multiply a unit's rows, and that joins of private tables are meant per unit.

Strategy `rows` cuts each unit to R rows of one *driving* scan. That bounds what the unit adds to any answer only if
every output row stems from one driving row and no driving row gives two. So each other FROM item must be unique on
columns that are equated with items already determined: by a verified key for public tables; for private tables by a
key that the snapshot enforces within each unit, together with the equality of units that `rewrite` adds to every
private join (so ownership never rests on what the analyst wrote). Counter-example without it: a public table that holds
one key twice doubles each unit's contribution at unchanged noise.

Entity labels decide only whether a private join is *meant* per unit. A column carries the label of table T when it is
T's key, or the foreign key by which its own table is declared to reach its unit. Any other column that happens to
hold keys of T (a friend, a manager) has none: `friend_id = user_id` joins rows of two people.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from sqlglot import exp

from dpsql.compile.blocks import BlockSource, OtherSource, PrivateBlock, Source, TableSource, origin
from dpsql.compile.ir import Scope
from dpsql.compile.kinds import unify
from dpsql.compile.parse import span_of
from dpsql.compile.scalars import lower_scalar
from dpsql.compile.trees import implied
from dpsql.errors import Error, refusal
from dpsql.policy.facts import PublicFacts
from dpsql.policy.model import Path, Policy, Table

Label = tuple[str, int]
"""(table or "" for the unit itself, position in its key)."""


def labels(table: Table, name: str, policy: Policy) -> frozenset[Label]:
    """The entities that a column of a private table identifies, within the declared paths."""
    found: set[Label] = set()
    if table.public:
        return frozenset()
    if name == table.unit:
        found.add(("", 0))
    if name in table.key:
        found.add((table.name, table.key.index(name)))
    if isinstance(table.unit, Path) and name in table.unit.via:
        position = table.unit.via.index(name)
        parent = policy.tables[table.unit.to]
        found.add((parent.name, position))
        if parent.key[position] == parent.unit:
            found.add(("", 0))
    return frozenset(found)


def is_unit(source: Source, name: str, policy: Policy) -> bool:
    """Whether this column is, unchanged, the unit of its row."""
    found = origin(source, name)
    return found is not None and ("", 0) in labels(found[0].table, found[1], policy)


def driving_source(block: PrivateBlock, policy: Policy, facts: PublicFacts, scope: Scope) -> Source:
    """The source whose rows are the grain of the block. Raises DP210 or DP211 where there is no proof."""
    private = [s for s in block.sources if not is_public(s)]
    optional = [j.source for j in block.joins if j.kind == "LEFT"]
    stuck: list[Source] = []
    for candidate in private:
        if candidate in optional:
            continue
        stuck = _undetermined(candidate, block, policy, facts, scope)
        if not stuck:
            return candidate
    raise _refuse(stuck[0], private, policy)


def is_public(source: Source) -> bool:
    return isinstance(source, TableSource) and source.table.public


def _undetermined(
    driving: Source, block: PrivateBlock, policy: Policy, facts: PublicFacts, scope: Scope
) -> list[Source]:
    """The sources for which a row of `driving` may have several partners."""
    everywhere = block.predicates
    own: Mapping[str, Iterable[exp.Expr]] = {
        j.source.alias: list(implied(j.on)) for j in block.joins if j.kind == "LEFT"
    }
    determined = {driving.alias}
    rest = [s for s in block.sources if s is not driving]

    def is_determined(source: Source) -> bool:
        usable = own.get(source.alias, everywhere)
        return isinstance(source, TableSource) and _is_unique(source, determined, usable, block, policy, facts, scope)

    while (found := next(filter(is_determined, rest), None)) is not None:
        determined.add(found.alias)
        rest = [s for s in rest if s is not found]
    return rest


def _is_unique(
    source: TableSource,
    determined: set[str],
    predicates: Iterable[exp.Expr],
    block: PrivateBlock,
    policy: Policy,
    facts: PublicFacts,
    scope: Scope,
) -> bool:
    """Whether equalities with determined sources cover a set of columns that identifies a row of `source`.

    The key's side must be the bare column and both sides of one type: under a cast two keys can become equal
    ('1' and '01' as numbers, 2^53 and 2^53 + 1 as DOUBLE).
    """
    covered: set[str] = set()
    for predicate in predicates:
        if not isinstance(predicate, exp.EQ):
            continue
        for key, other in ((predicate.this, predicate.expression), (predicate.expression, predicate.this)):
            key, other = key.unnest(), other.unnest()
            if not isinstance(key, exp.Column) or key.table != source.alias:
                continue
            used = {c.table for c in other.find_all(exp.Column)}
            if not used <= determined or (not used and not isinstance(other, exp.Literal)):
                continue
            if not _same_type(key, other, scope):
                continue
            if source.table.public or (
                isinstance(other, exp.Column) and _share_label(source.table, key.name, other, block, policy)
            ):
                covered.add(key.name)
    return any(unique <= covered for unique in facts.tables[source.table.name].unique if unique)


def _same_type(key: exp.Column, other: exp.Expr, scope: Scope) -> bool:
    """Whether `key = other` compares in the key's own type, without a cast of the key.

    Two numeric types compare in a third: a BIGINT against `9e15` as DOUBLE, where many keys are equal.
    """
    left = scope.get((key.table, key.name))
    if left is None:
        return False
    if isinstance(other, exp.Column):
        right = scope.get((other.table, other.name))
        return right is not None and left.type == right.type
    if not isinstance(other, exp.Literal):
        return False
    type_, (bare, _) = unify([lower_scalar(key, scope), lower_scalar(other, scope)], "=")
    return type_ == left.type and isinstance(bare.tree, exp.Column)


def _share_label(table: Table, name: str, other: exp.Column, block: PrivateBlock, policy: Policy) -> bool:
    source = next(s for s in block.sources if s.alias == other.table)
    if not isinstance(source, TableSource):
        return False
    return bool(labels(table, name, policy) & labels(source.table, other.name, policy))


def _refuse(source: Source, private: Sequence[Source], policy: Policy) -> Error:
    span = span_of(source.node)
    if isinstance(source, OtherSource):
        return refusal(
            "DP212",
            "this cannot stand in FROM beside private rows",
            span=span,
            repair="join tables of the policy by key",
        )
    if isinstance(source, BlockSource):
        reason = "a subquery of private rows can be joined with public tables only"
        return refusal("DP210", reason, span=span, repair="name its tables in one FROM, joined by their keys")
    if source.table.public:
        key = " and ".join(source.table.key) or "a key, which the policy does not declare for this table"
        reason = f'"{source.table.name}" could match one row several times'
        return refusal(
            "DP211", reason, span=span, repair=f"join it by equality on {key}, with a column of the same type"
        )
    others = [s for s in private if isinstance(s, TableSource) and s is not source]
    reason = (
        f'"{source.table.name}" is private: each of its rows must be matched with rows of the same {policy.unit} only'
    )
    hint = _meant(source, others)
    return refusal("DP210", reason, span=span, repair=hint)


def _meant(source: TableSource, others: Sequence[TableSource]) -> str:
    """The conjunct to add: the declared path between two tables, or the unit's columns."""
    for other in others:
        for child, parent in ((source, other), (other, source)):
            unit = child.table.unit
            if isinstance(unit, Path) and unit.to == parent.table.name:
                names = [
                    f"{child.node.alias_or_name}.{a} = {parent.node.alias_or_name}.{b}"
                    for a, b in zip(unit.via, parent.table.key, strict=True)
                ]
                return "join on " + " AND ".join(names)
        if (
            isinstance(source.table.unit, str)
            and isinstance(other.table.unit, str)
            and source.table.key == (source.table.unit,)
        ):
            left, right = other.node.alias_or_name, source.node.alias_or_name
            return f"add `AND {left}.{other.table.unit} = {right}.{source.table.unit}` to the join"
    return "join a table with the table that its declared path leads to, by that key"
