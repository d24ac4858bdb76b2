"""Rewrite a plan into SQL: one statement per release for the private engine, and the outer SQL over what they release.

Built from the plan alone; of the analyst's text nothing but the checked scalars inside it is left. The limits that the
noise relies on stand here as SQL: `"$rank" <= R` on the driving scan, units equated in every private join, values put
on their grid, and only public keys kept (a LEFT JOIN from the key relation, so that absent keys give 0).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_never

from sqlglot import exp

from dpsql.compile.gate import SealedSql, seal
from dpsql.compile.grid import to_grid
from dpsql.compile.ir import Filter, Join, JoinKind, Project, Relation, Scan
from dpsql.compile.plan import HALF_WIDTH, PrivatePlan, ReleasePlan, Slot, SlotKind, scans
from dpsql.compile.resolve import PUBLIC_CATALOG
from dpsql.compile.trees import column, derived, wrapped
from dpsql.policy.facts import Kind

PRIVATE_CATALOG = "priv"
UNIT, RANK = "$unit", "$rank"
RELEASED = "released_"


@dataclass(frozen=True, slots=True)
class Rewritten:
    """inner: one per release, in order. Their columns: k1, k2, ..., then of slot i: `n<i>` (ROWS, UNITS, MEAN) and
    `s<i>` (SUM, MEAN), all exact integers. outer: over public tables and released_k."""

    inner: tuple[SealedSql, ...]
    outer: SealedSql


def rewrite(plan: PrivatePlan) -> Rewritten:
    """The SQL of a plan, sealed for the engines."""
    inner = tuple(seal(release_sql(r), _tables(r)) for r in plan.releases)
    public = {f"{t.db}.{t.name}" for t in plan.query.outer.find_all(exp.Table) if t.db}
    released = {r.release.name for r in plan.releases}
    return Rewritten(inner, seal(_with_half_widths(plan.query.outer), frozenset(public | released)))


def _with_half_widths(outer: exp.Expr) -> exp.Expr:
    """Where the statement is one release, let each aggregate that it shows bring its half-width along: `a1~` of the
    released table becomes the result's column `~<position>`."""
    if not isinstance(outer, exp.Select) or outer.args.get("distinct") or outer.args.get("joins"):
        return outer
    shown = outer.copy()
    for position, item in enumerate(outer.selects):
        value = item.unalias()
        if isinstance(value, exp.Column) and value.table.startswith(RELEASED) and value.name.startswith("a"):
            half_width = column(value.table, value.name + HALF_WIDTH)
            shown.append("expressions", exp.alias_(half_width, f"{HALF_WIDTH}{position}", quoted=True))
    return shown


def _tables(release: ReleasePlan) -> frozenset[str]:
    """What the inner statement may read: its scans, and the public tables of its key relation."""
    names = {f"{PUBLIC_CATALOG if s.public else PRIVATE_CATALOG}.{s.table}" for s in scans(release.release.input)}
    keys = release.release.public_keys
    if keys is not None:
        names |= {f"{t.db}.{t.name}" for t in keys.tree.find_all(exp.Table)}
    return frozenset(names)


def release_sql(plan: ReleasePlan) -> exp.Select:
    """The inner statement of a release."""
    release = plan.release
    names = [k.name for k in release.keys]
    per_row = [exp.alias_(k.scalar.tree.copy(), k.name, quoted=True) for k in release.keys]
    totals: list[exp.Expr] = []
    for i, slot in enumerate(plan.slots, 1):
        items, found = _slot(i, slot, release.input)
        per_row += items
        totals += found
    if not per_row:  # COUNT(*) alone needs no column
        per_row = [exp.alias_(exp.true(), "row", quoted=True)]
    rows = derived(_select(release.input, per_row), "rows")
    if release.public_keys is None:
        return exp.select(*totals).from_(rows)
    exact = (
        exp.select(*(column("rows", n) for n in names), *totals)
        .from_(rows)
        .group_by(*(column("rows", n) for n in names))
    )
    same = [exp.NullSafeEQ(this=column("keys", n), expression=column("exact", n)) for n in names]
    zero = exp.Literal.number(0)
    return (
        exp.select(
            *(column("keys", n) for n in names),
            *(
                exp.alias_(exp.Coalesce(this=column("exact", t.alias), expressions=[zero.copy()]), t.alias, quoted=True)
                for t in totals
            ),
        )
        .from_(derived(release.public_keys.tree.copy(), "keys"))
        .join(derived(exact, "exact"), on=exp.and_(*same), join_type="LEFT")
        .order_by(*(exp.Ordered(this=column("keys", n), desc=False, nulls_first=False) for n in names))
    )


def count_keys_sql(tree: exp.Select, limit: int | None) -> SealedSql:
    """How many public keys there are (at most limit + 1 are looked at)."""
    keys = tree.copy().limit(limit + 1) if limit is not None else tree.copy()
    count = exp.alias_(exp.Count(this=exp.Star(), big_int=True), "n", quoted=True)
    tables = frozenset(f"{t.db}.{t.name}" for t in tree.find_all(exp.Table))
    return seal(exp.select(count).from_(derived(keys, "keys")), tables)


def _slot(i: int, slot: Slot, relation: Relation) -> tuple[list[exp.Expr], list[exp.Expr]]:
    """The columns that a slot needs per row, and its totals per group."""
    items: list[exp.Expr] = []
    name = f"v{i}"
    if slot.kind in (SlotKind.SUM, SlotKind.MEAN):
        assert slot.argument is not None and slot.grid is not None
        items.append(exp.alias_(to_grid(slot.argument, slot.grid), name, quoted=True))
        total: exp.Expr = exp.Sum(this=column("rows", name))
        if slot.grid.storage is not Kind.DECIMAL:  # a sum of BIGINT is a HUGEINT below 2^126: exact as DECIMAL(38, 0)
            total = exp.cast(total, exp.DataType.build("DECIMAL(38, 0)", dialect="duckdb"))
        found = [exp.alias_(exp.Coalesce(this=total, expressions=[exp.Literal.number(0)]), f"s{i}", quoted=True)]
        if slot.kind is SlotKind.MEAN:
            found.append(exp.alias_(exp.Count(this=column("rows", name), big_int=True), f"n{i}", quoted=True))
        return items, found
    count: exp.Expr = exp.Count(this=exp.Star(), big_int=True)
    if slot.kind is SlotKind.UNITS:
        items.append(exp.alias_(unit(relation), f"u{i}", quoted=True))
        count = exp.Count(this=exp.Distinct(expressions=[column("rows", f"u{i}")]), big_int=True)
    if slot.argument is not None:
        items.append(exp.alias_(slot.argument.tree.copy(), name, quoted=True))
        count = exp.Filter(this=count, expression=exp.Where(this=column("rows", name)))
    return items, [exp.alias_(count, f"n{i}", quoted=True)]


def _select(relation: Relation, items: list[exp.Expr]) -> exp.Select:
    """SELECT items FROM relation."""
    select = exp.select(*items)
    predicates: list[exp.Expr] = []
    select = _from(select, relation, predicates)
    return select.where(*(wrapped(p) for p in predicates)) if predicates else select


def _from(select: exp.Select, relation: Relation, predicates: list[exp.Expr]) -> exp.Select:
    """Add a relation to FROM and what it filters to `predicates`."""
    match relation:
        case Scan() | Project():
            return select.from_(_item(relation, predicates))
        case Filter(input=source, predicate=predicate):
            select = _from(select, source, predicates)
            predicates.append(predicate.tree.copy())
            return select
        case Join(kind=kind, left=left, right=right, on=on):
            select = _from(select, left, predicates)
            condition = on.tree.copy()
            if is_private(left) and is_private(right):
                # Ownership never rests on what the analyst wrote: a joined row has one owner because of this line.
                condition = exp.and_(wrapped(condition), exp.EQ(this=unit(left), expression=unit(right)))
            assert isinstance(right, Scan | Project)
            return select.join(
                _item(right, predicates), on=condition, join_type="LEFT" if kind is JoinKind.LEFT else "INNER"
            )
        case _:
            assert_never(relation)


def _item(relation: Scan | Project, predicates: list[exp.Expr]) -> exp.Expr:
    if isinstance(relation, Project):
        items = [exp.alias_(s.tree.copy(), name, quoted=True) for name, s in relation.items]
        owner = exp.alias_(unit(relation.input), UNIT, quoted=True)
        return derived(_select(relation.input, [*items, owner]), relation.alias)
    if relation.limit is not None:
        limit = exp.Literal.number(relation.limit)
        predicates.append(exp.LTE(this=column(relation.alias, RANK), expression=limit))
    return exp.Table(
        this=exp.to_identifier(relation.table, quoted=True),
        db=exp.to_identifier(PUBLIC_CATALOG if relation.public else PRIVATE_CATALOG),
        alias=exp.TableAlias(this=exp.to_identifier(relation.alias, quoted=True)),
    )


def is_private(relation: Relation) -> bool:
    """Whether its rows belong to units."""
    return any(not s.public for s in scans(relation))


def unit(relation: Relation) -> exp.Column:
    """The column that says whom a row belongs to: by lineage, never by name."""
    match relation:
        case Scan(alias=alias) | Project(alias=alias):
            return column(alias, UNIT)
        case Filter(input=source):
            return unit(source)
        case Join(left=left, right=right):
            return unit(left) if is_private(left) else unit(right)
        case _:
            assert_never(relation)
