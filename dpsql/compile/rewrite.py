"""Rewrite a plan into SQL: one statement per release for the private engine, and the outer SQL over what they release.

Built from the plan alone; of the analyst's text nothing but the checked scalars inside it is left. A release's
statement is a chain of named steps, of which each strategy has some:

    rows     FROM, WHERE and joins; per row its unit, keys, predicates and values on their grid
    late     at most R of a unit's rows that are left
    sets     of ROLLUP and its like, where units are limited per key: every row once in each grouping set
    cells    per (unit, key): counts and sums
    limited  each cell cut to r rows, or the unit's vector scaled into its ball
    chosen   at most g keys of each unit, by a hash that is secret and fresh
    values   the distinct values of each cell, at most r of them, chosen likewise; distinct: how many per key
    totals   per key
    keys     the public keys: totals of other keys are dropped, absent ones give 0

The limits that the noise relies on stand in these steps, and nowhere else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp

from dpsql.compile import steps
from dpsql.compile.cutting import limited
from dpsql.compile.errorbars import ErrorBars, add_error_bars
from dpsql.compile.gate import SealedSql, seal
from dpsql.compile.ir import FACTOR
from dpsql.compile.plan import PrivatePlan, ReleasePlan
from dpsql.compile.projection import Projection, projection
from dpsql.compile.relations import PRIVATE_CATALOG, UNITS, is_stored_rank, publics, scans, select_from
from dpsql.compile.resolve import PUBLIC_CATALOG
from dpsql.compile.slots import SlotKind
from dpsql.compile.trees import add_join, aliased, column, copied, derived, dissolve, named, nodes, select, wrapped


@dataclass(frozen=True, slots=True)
class Rewritten:
    """inner: one per release, in order. Their columns: k1, k2, ..., then what `steps.totals` says, all exact integers;
    `units` where keys are selected. outer: over public tables and released_k. bars: its last columns, see `errorbars`;
    replay: the SQL that they need, where they do. projection: what `outer` says, where it needs no engine. publics: by
    name, what the outer engine runs for the private one: over public tables and earlier releases."""

    inner: tuple[SealedSql, ...]
    outer: SealedSql
    bars: ErrorBars
    replay: SealedSql | None
    projection: Projection | None
    publics: Mapping[str, SealedSql]


def rewrite(plan: PrivatePlan) -> Rewritten:
    """The SQL of a plan, sealed for the engines. Salts are 0: see `seal_release`."""
    inner = tuple(seal_release(r) for r in plan.releases)
    released = frozenset(r.release.name for r in plan.releases)
    bars = add_error_bars(plan.query.outer, released)
    replay = seal(bars.replay, released, recurs=True) if bars.replay is not None else None
    publics_ = {p.name: seal_public(p.tree, released) for p in plan.query.publics}
    outer = seal_public(bars.outer, released)
    return Rewritten(inner, outer, bars, replay, projection(bars.outer, released), publics_)


def seal_public(tree: exp.Expr, released: frozenset[str]) -> SealedSql:
    """A statement of the outer engine, over the public tables that it names and these released ones."""
    named = list(tree.find_all(exp.Table))
    public = {f"{t.db}.{t.name}" for t in named if t.db == PUBLIC_CATALOG}
    return seal(tree, frozenset(public | ({t.name for t in named if not t.db} & released)), recurs=True)


def seal_release(plan: ReleasePlan, salt: int = 0) -> SealedSql:
    """The inner statement of a release. salt: of the choice of keys; the one that runs is drawn after the charge, so
    that a statement cannot be fitted to it, and never shown."""
    tree = release_sql(plan, salt)
    sealed = seal(tree, _tables(plan))
    dissolve(nodes(tree))
    return sealed


def is_salted(plan: ReleasePlan) -> bool:
    """Whether a unit's keys, or its values in a key, are chosen at random."""
    return plan.chooses_keys or (plan.limits.per_group is not None and bool(_distinct(plan)))


def _distinct(plan: ReleasePlan) -> list[int]:
    """The slots that count distinct values."""
    return [i for i, slot in enumerate(plan.slots, 1) if slot.kind is SlotKind.DISTINCT]


def _tables(release: ReleasePlan) -> frozenset[str]:
    """What the inner statement may read: its scans, and the public tables of its key relation."""
    names = {f"{PUBLIC_CATALOG if s.public else PRIVATE_CATALOG}.{s.table}" for s in scans(release.release.input)}
    names |= set(publics(release.release.input))
    keys = release.release.public_keys
    if keys is not None:
        names |= {f"{t.db}.{t.name}" for t in keys.tree.find_all(exp.Table)}
    if is_salted(release):
        names.add(f"{PRIVATE_CATALOG}.{UNITS}")
    return frozenset(names)


def release_sql(plan: ReleasePlan, salt: int = 0) -> exp.Select:
    """The inner statement of a release, unsealed."""
    release = plan.release
    names = release.key_names
    listed = [n for n in names if n not in release.private_keys] if release.public_keys is not None else []
    chain = steps.Chain()
    if listed:
        assert release.public_keys is not None
        chain.add("keys", copied(release.public_keys.tree))
    items = steps.row_items(plan)
    chain.add("rows", select_from(release.input, items, ranked=plan.limits.late))
    if plan.limits.late:
        assert plan.limits.rows is not None
        names_, ranks = [item.alias_or_name for item in items], steps.rank_names(plan)
        chain.add("late", steps.late(plan.limits.rows, names_, ranks, stored=is_stored_rank(release.input)))
    if release.sets and plan.limits.per_unit:
        given = [i.alias_or_name for i in items if i.alias_or_name not in steps.rank_names(plan)]
        chain.add("sets", steps.sets(release, given, chain.last))
    if plan.limits.per_unit:
        source = chain.last
        wasted = plan.chooses_keys or plan.limits.ball is not None or release.private_keys
        chain.add("cells", _only_listed(steps.cells(plan, chain.last), chain.last, listed if wasted else []))
        chain.add("limited", limited(plan, chain.last))
        if plan.chooses_keys:
            assert plan.limits.groups is not None
            chain.add("chosen", steps.chosen(plan.limits.groups, release, salt, chain.last))
        totals, left = steps.totals_of_cells(plan, chain.last), chain.last
        found = {f"n{i}": f"distinct{i}" for i in _distinct(plan)}
        for i in _distinct(plan):
            assert plan.limits.per_group is not None
            chain.add(f"values{i}", steps.values(i, plan.limits.per_group, names, salt, source, left))
            chain.add(f"distinct{i}", steps.distinct(i, names, f"values{i}"))
        if found:
            chain.add("sums", totals)
            totals = steps.with_distinct("sums", totals, names, found)
    else:
        totals = steps.totals_of_rows(plan, chain.last)
    if not names:
        return chain.end(totals)
    chain.add("totals", totals)
    if release.private_keys:
        shown = select([column("totals", t.alias_or_name) for t in totals.selects], named("totals"))
        return chain.end(_ordered(_only_listed(shown, "totals", listed), "totals", names))
    figures = [t.alias_or_name for t in totals.selects if t.alias_or_name not in names]
    zeroed = [exp.Coalesce(this=column("totals", f), expressions=[exp.Literal.number(0)]) for f in figures]
    items = [*(column("keys", n) for n in names), *(aliased(z, f) for z, f in zip(zeroed, figures, strict=True))]
    if release.choice is not None and release.choice.factor is not None:
        items.append(aliased(copied(release.choice.factor.tree), FACTOR))
    filled = add_join(select(items, named("keys")), "LEFT", named("totals"), _same("totals", names))
    return chain.end(_ordered(filled, "keys", names))


def _only_listed(tree: exp.Select, source: str, listed: Sequence[str]) -> exp.Select:
    """Keep only rows whose listed keys are public ones: before the choice of keys, so that none is wasted."""
    return add_join(tree, "INNER", named("keys"), _same(source, listed)) if listed else tree


def _same(source: str, names: Sequence[str]) -> exp.Expr:
    return exp.and_(*(exp.NullSafeEQ(this=column("keys", n), expression=column(source, n)) for n in names), copy=False)


def _ordered(tree: exp.Select, source: str, names: Sequence[str]) -> exp.Select:
    """By key: the engine's own order is a fact about rows."""
    by = [exp.Ordered(this=column(source, n), desc=False, nulls_first=False) for n in names]
    tree.set("order", exp.Order(expressions=by))
    return tree


def factor_range_sql(keys: exp.Select, factor: exp.Expr) -> SealedSql:
    """The least and the largest value of a factor over these keys."""
    factors = select([aliased(copied(factor), FACTOR)], derived(copied(keys), "keys"))
    ends = [aliased(end(this=column("factors", FACTOR)), name) for end, name in ((exp.Min, "lo"), (exp.Max, "hi"))]
    tables = frozenset(f"{t.db}.{t.name}" for t in keys.find_all(exp.Table))
    return seal(select(ends, derived(factors, "factors")), tables)


def keys_sql(tree: exp.Select) -> SealedSql:
    """The public keys."""
    return seal(tree, frozenset(f"{t.db}.{t.name}" for t in tree.find_all(exp.Table)))


def groups_where_sql(conditions: Sequence[exp.Expr], source: str, row: str) -> SealedSql:
    """The numbers of the released groups in `source` for which all conditions on their keys are true."""
    tree = select([column(source, row)], exp.Table(this=exp.to_identifier(source)))
    tree.set("where", exp.Where(this=exp.and_(*(wrapped(c) for c in conditions), copy=False)))
    return seal(tree, frozenset({source}))


def count_keys_sql(tree: exp.Select, limit: int | None) -> SealedSql:
    """How many public keys there are (at most limit + 1 are looked at)."""
    keys = tree.copy().limit(limit + 1) if limit is not None else tree.copy()
    count = aliased(exp.Count(this=exp.Star(), big_int=True), "n")
    tables = frozenset(f"{t.db}.{t.name}" for t in tree.find_all(exp.Table))
    return seal(select([count], derived(keys, "keys")), tables)
