"""What a release asks, apart from how it was written: by it stored answers are found again, for other statements too.

The rows that a release aggregates are told apart from the conjuncts of its WHERE, its groups, its limits and its slots,
so that `repeats` can say of each of them whether a stored release has what is asked for. FROM items are numbered in
their order, so that no alias shows; conjuncts are a set (see `normalform`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import assert_never

from sqlglot import exp

from dpsql.compile.ir import (
    ColumnName,
    Filter,
    Join,
    Mark,
    Measure,
    PerUnit,
    Project,
    Public,
    Relation,
    Scalar,
    Scan,
    Union,
    Value,
    Window,
)
from dpsql.compile.normalform import Aliases, normal_conjuncts, normal_form
from dpsql.compile.plan import ReleasePlan
from dpsql.compile.ranges import finite
from dpsql.compile.relations import scans
from dpsql.compile.slots import Slot
from dpsql.compile.trees import column
from dpsql.policy.facts import Kind

MAX_DOMAIN = 100_000
"""Groups of which it is asked whether they are all that there can be."""


_CONSTANT = (exp.Literal, exp.Identifier, exp.DataType)


@dataclass(frozen=True, slots=True)
class Identity:
    """rows: the relation below WHERE. conjuncts: of WHERE, by their texts. keys: the grouping expressions, in the order
    of the released columns. sets: the grouping sets, '' where there is one. limits: what is enforced of a unit, and in
    which scans. local: whether what a unit adds to a group hangs on its rows in that group alone. listed: the public
    keys, '' where there are none. min_units: of a decision on private keys, None where there is none. choice: of a
    choice among groups all that it goes by, None of a release of numbers. enforced: of each key, whether its values are
    what the snapshot or the SQL makes of every row, and not what the policy says of a private column (`values`), which
    rows may have others than."""

    rows: str
    conjuncts: Mapping[str, exp.Expr]
    keys: tuple[str, ...]
    sets: str
    limits: str
    local: bool
    listed: str
    min_units: int | None
    choice: str | None
    enforced: tuple[bool, ...]
    aliases: Aliases

    def over_keys(self, condition: exp.Expr, keys: tuple[str, ...], source: str) -> exp.Expr | None:
        """A condition over rows as one over the groups: columns k1, ... of `source` for these keys; None where it reads
        anything else."""
        names = {text: f"k{i}" for i, text in enumerate(keys, 1)}
        missing = False

        def over(node: exp.Expr) -> exp.Expr:
            nonlocal missing
            name = names.get(normal_form(node, self.aliases)) if not isinstance(node, _CONSTANT) else None
            if name is not None:
                return column(source, name)
            missing = missing or isinstance(node, exp.Column | exp.Query)
            copy = node.copy()
            for child in list(copy.iter_expressions()):
                child.replace(over(child))
            return copy

        tree = over(condition)
        return None if missing else tree


def identify(plan: ReleasePlan, read: Mapping[str, str], claimed: Collection[ColumnName]) -> Identity:
    """The identity of a release. read: what stands for the public queries that it reads, by name. claimed: see
    `types.claimed`."""
    release = plan.release
    relation, conditions = release.input, []
    while isinstance(relation, Filter):
        conditions.append(relation.predicate.tree)
        relation = relation.input
    aliases: dict[str, str] = {}
    rows = _relation(relation, aliases, read)
    conjuncts: dict[str, exp.Expr] = {}
    for condition in conditions:
        conjuncts |= normal_conjuncts(condition, aliases)
    read_by = [(aliases[s.alias], s.limit, s.many, s.meets) for s in scans(release.input)]
    listed = release.public_keys
    choosing, choice = plan.choosing, release.choice
    chosen = None
    if choosing is not None and choice is not None:
        slot, factor = plan.slots[0], choice.factor
        numbers = (choosing.winners, *map(str, (choosing.sensitivity, *choosing.factors, slot.epsilon, slot.norms)))
        by = [choosing.mechanism, choice.ascending, "" if factor is None else normal_form(factor.tree, aliases)]
        chosen = repr([*by, numbers, slot_text(slot, aliases)])
    keys = tuple(normal_form(k.scalar.tree, aliases) for k in release.keys)
    columns = [column(s.alias, name) for s in scans(release.input) for table, name in claimed if table == s.table]
    return Identity(
        rows=rows,
        conjuncts=conjuncts,
        keys=keys,
        sets=repr((release.sets, release.private_keys)) if release.sets else "",
        limits=repr((plan.limits, read_by, release.driving and aliases[release.driving], release.one_row)),
        local=not plan.limits.late and plan.limits.ball is None and not plan.chooses_keys,
        listed="" if listed is None else repr((normal_form(listed.tree, {}), release.private_keys)),
        min_units=plan.selection.min_units if plan.selection is not None else None,
        choice=chosen,
        enforced=_enforced(keys, rows, conjuncts, [normal_form(c, aliases) for c in columns]),
        aliases=aliases,
    )


def _enforced(
    keys: tuple[str, ...], rows: str, conjuncts: Mapping[str, exp.Expr], claims: Collection[str]
) -> tuple[bool, ...]:
    """Of each key whether no claim is behind its domain. claims: the columns of which something is claimed, as texts. A
    key of rows that read one below WHERE may have got its domain from it, and so may one of rows of which a condition
    says something of that column and another one at once (`x = hotel`)."""

    def claims_in(text: str) -> bool:
        return any(claim in text for claim in claims)

    spread = any(claims_in(text) and len(set(tree.find_all(exp.Column))) > 1 for text, tree in conjuncts.items())
    return tuple(not (spread or claims_in(rows) or claims_in(key)) for key in keys)


def slot_text(slot: Slot, aliases: Aliases) -> str:
    """What a slot's exact vector is, and its noise."""
    axes = [(argument_text(a.argument, aliases), a.grid, a.degree) for a in slot.axes]
    argument = None if slot.argument is None else argument_text(slot.argument, aliases)
    noise = (slot.subgrid, slot.part, slot.norms, str(slot.epsilon), str(slot.sigma))
    return repr((slot.kind.value, argument, slot.grid, axes, noise))


def argument_text(scalar: Scalar, aliases: Aliases) -> str:
    """The text of an aggregate's argument, with the bounds between which it is clamped."""
    facts = scalar.facts
    bounds = f" [{facts.lo} {facts.hi}]" if facts.is_numeric else ""
    return normal_form(scalar.tree, aliases) + bounds


def arguments(measures: Iterable[Measure], aliases: Aliases) -> dict[str, Scalar]:
    """The values of measures by their texts."""
    values = (value for measure in measures for value in (measure.argument, measure.second) if value is not None)
    return {argument_text(value, aliases): value for value in values}


def all_groups(plan: ReleasePlan) -> Iterator[tuple[Value | None, ...]] | None:
    """Every group that a row can be in, by what is known of the keys; None where that is not known. DOUBLE has values
    that are equal and not the same."""
    domains: list[tuple[Value | None, ...]] = []
    for key in plan.release.keys:
        facts = key.scalar.facts
        domain = finite(facts)
        if domain is None or facts.type.kind is Kind.DOUBLE:
            return None
        domains.append((*domain, None) if facts.nullable else tuple(domain))
    return product(*domains) if prod(map(len, domains)) <= MAX_DOMAIN else None


def _relation(relation: Relation, aliases: dict[str, str], read: Mapping[str, str]) -> str:
    """A prefix form of a relation. Limits of scans are no part of it."""

    def named(alias: str) -> str:
        return aliases.setdefault(alias, f"t{len(aliases) + 1}")

    def below(source: Relation) -> str:
        return _relation(source, aliases, read)

    def texts(several: tuple[tuple[str, Scalar], ...]) -> str:
        return " ".join(f"({name} {normal_form(s.tree, aliases)})" for name, s in several)

    match relation:
        case Scan(table=table, alias=alias, public=public):
            return f"(scan {table!r} {public} {named(alias)})"
        case Public(name=name, alias=alias):
            return f"(public {read[name]} {named(alias)})"
        case Join(kind=kind, left=left, right=right, on=on, unique=unique):
            sides = f"{below(left)} {below(right)}"
            return f"({kind.value} join {sides} {unique} {_condition(on, aliases)})"
        case Mark(input=source, right=right, on=on, alias=alias):
            sides = f"{below(source)} {below(right)}"
            return f"(mark {sides} {named(alias)} {_condition(on, aliases)})"
        case Filter(input=source, predicate=predicate):
            return f"(filter {below(source)} {_condition(predicate, aliases)})"
        case Project(input=source, alias=alias, items=items):
            inner = below(source)
            shown = texts(items)
            return f"(project {inner} {named(alias)} {shown})"
        case PerUnit(input=source, alias=alias, keys=keys, measures=measures):
            inner = below(source)
            shown = f"[{texts(keys)}] [{texts(measures)}]"
            return f"(per unit {inner} {named(alias)} {shown})"
        case Window(input=source, alias=alias, calls=calls):
            inner, named_calls = below(source), []
            for call in calls:
                trees = [call.function, *(p.tree for p in call.partition), *call.order]
                frame = "" if call.frame is None else normal_form(call.frame, aliases)
                words = " ".join(normal_form(tree, aliases) for tree in trees)
                named_calls.append(f"({call.name} {len(call.partition)} {call.ties} {words} {frame})")
            return f"(window {inner} {named(alias)} {' '.join(named_calls)})"
        case Union(inputs=inputs, alias=alias):
            branches = " ".join(below(part) for part in inputs)
            return f"(union {branches} {named(alias)})"
        case _:
            assert_never(relation)


def _condition(scalar: Scalar, aliases: Aliases) -> str:
    return f"[{' '.join(sorted(normal_conjuncts(scalar.tree, aliases)))}]"
