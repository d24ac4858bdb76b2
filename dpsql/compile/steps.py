"""The steps of a release's statement: each function gives the SELECT of one of them (see `rewrite`).

Columns by slot i: `p<i>` its predicate and `v<i>` its value per row; `n<i>` a count and `s<i>` a sum on the grid per
cell and per key. Of a Bernstein slot the values are v<i>_1, v<i>_2 where there are two. Where the SQL scales its
vector, per unit, the components are w<i>_0, w<i>_1, ...; else only n<i> and the sums of powers are there (s<i>, s<i>_2;
s<i>_12 of the first value times the square of the second), of which the vector is a linear function. Distinct values
have no figure per cell: where cells are limited, a step of their own lists them. `u` is the unit, `units` how many
units hold a key.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import assert_never

from sqlglot import exp

from dpsql.compile import vectors
from dpsql.compile.aggregates import comparable
from dpsql.compile.cutting import per_set
from dpsql.compile.grid import BIGINT, to_grid, to_integer
from dpsql.compile.ir import GROUPING, Release, grouping_id
from dpsql.compile.literals import literal
from dpsql.compile.plan import ReleasePlan
from dpsql.compile.relations import IDENTITY, PRIVATE_CATALOG, UNIT, UNITS, order_of, unit
from dpsql.compile.slots import Slot, SlotKind, vector_columns
from dpsql.compile.trees import add_join, aliased, case, column, copied, derived, named, select


class Chain:
    """Steps named in order, each reading those before it."""

    def __init__(self) -> None:
        self._steps: list[exp.CTE] = []
        self.last = ""

    def add(self, name: str, tree: exp.Query) -> None:
        """One more step."""
        named_as = exp.TableAlias(this=exp.to_identifier(name, quoted=True))
        self._steps.append(exp.CTE(this=tree, alias=named_as))
        self.last = name

    def end(self, tree: exp.Select) -> exp.Select:
        """The statement: all steps, and this over them."""
        tree.set("with_", exp.With(expressions=self._steps))
        return tree


def row_items(plan: ReleasePlan) -> list[exp.Expr]:
    """What a row gives: unit and rank where a later step needs them, keys, predicates, values on their grid."""
    relation = plan.release.input
    keys = plan.release.keys
    items = [aliased(comparable(k.scalar) if plan.keys is None else copied(k.scalar.tree), k.name) for k in keys]
    for i, slot in enumerate(plan.slots, 1):
        if slot.kind is SlotKind.MOMENTS:
            items += vectors.row_items(i, slot, per_unit=plan.limits.per_unit)
        elif slot.kind is SlotKind.SUM:
            assert slot.argument is not None
            assert slot.grid is not None
            value = to_grid(slot.argument, slot.grid)
            items.append(aliased(to_integer(value, slot.grid) if plan.limits.per_unit else value, f"v{i}"))
        elif slot.kind is SlotKind.DISTINCT:
            assert slot.argument is not None
            items.append(aliased(comparable(slot.argument), f"v{i}"))
        elif slot.argument is not None:
            items.append(aliased(copied(slot.argument.tree), f"p{i}"))
    if _needs_unit(plan):
        items.append(aliased(unit(relation), "u"))
    if plan.limits.late:
        items += [aliased(place, name) for place, name in zip(order_of(relation), rank_names(plan), strict=True)]
    return items or [aliased(exp.true(), "row")]  # COUNT(*) alone needs no column


def _needs_unit(plan: ReleasePlan) -> bool:
    counts_units = any(s.kind is SlotKind.UNITS for s in plan.slots) or plan.selection is not None
    return plan.limits.late or plan.limits.per_unit or counts_units


def rank_names(plan: ReleasePlan) -> list[str]:
    """The columns that tell the rows of a unit apart: one where each stems from another row of one scan."""
    return [f"rank{i}" if i > 1 else "rank" for i in range(1, len(order_of(plan.release.input)) + 1)]


def late(rows: int, names: Sequence[str], ranks: Sequence[str], *, stored: bool) -> exp.Query:
    """At most `rows` rows of each unit among those that are left, the first by rank. Where one stored rank tells them
    apart, a row whose rank is at most R is always among the first R of its unit, and only units with a row beyond need
    to be counted through."""
    limit = exp.Literal.number(rows)
    if not stored:
        place = _place("rows", ["u"], [column("rows", r) for r in ranks])
        kept = select((column("rows", n) for n in names), named("rows"))
        return kept.qualify(exp.LTE(this=place, expression=limit))
    early = select((column("rows", n) for n in names), named("rows"))
    early = early.where(exp.LTE(this=column("rows", "rank"), expression=limit.copy()))
    beyond = select([column("rows", "u")], named("rows"))
    beyond = beyond.where(exp.GT(this=column("rows", "rank"), expression=limit.copy()))
    position = _place("rows", ["u"], [column("rows", "rank")])
    through = select([*(column("rows", n) for n in names), aliased(position, "position")], named("rows"))
    through = through.where(exp.In(this=column("rows", "u"), query=exp.Subquery(this=beyond)))
    more = select((column("through", n) for n in names), derived(through, "through"))
    more = more.where(
        exp.And(
            this=exp.GT(this=column("through", "rank"), expression=limit.copy()),
            expression=exp.LTE(this=column("through", "position"), expression=limit.copy()),
        )
    )
    return exp.union(early, more, distinct=False)


def _place(source: str, per: Sequence[str], order: Sequence[exp.Expr]) -> exp.Window:
    """A row's place among the rows that agree with it in `per`."""
    return exp.Window(
        this=exp.RowNumber(),
        partition_by=[column(source, n) for n in per],
        order=exp.Order(expressions=[exp.Ordered(this=o, desc=False, nulls_first=False) for o in order]),
        over="OVER",
    )


def sets(release: Release, names: Sequence[str], source: str) -> exp.Select:
    """Every row once in each grouping set: the set's number, and NULL for the keys that are rolled up in it. From here
    on the number is a key like others. (Straight from rows, DuckDB's own GROUPING SETS are several times faster; steps
    per unit look at a row's keys before they are grouped.)"""
    keys = [k.name for k in release.keys]
    numbers = {own: literal(grouping_id(keys, own), BIGINT) for own in release.sets}
    items: list[exp.Expr] = [column("set", GROUPING)]
    for name in names:
        item: exp.Expr = column(source, name)
        holding = [number.copy() for own, number in numbers.items() if name in own or name not in keys]
        if len(holding) < len(numbers):
            test = exp.In(this=column("set", GROUPING), expressions=holding)
            item = aliased(exp.Case(ifs=[exp.If(this=test, true=item)]), name)
        items.append(item)
    values = exp.Values(expressions=[exp.Tuple(expressions=[number]) for number in numbers.values()])
    columns = [exp.to_identifier(GROUPING, quoted=True)]
    values.set("alias", exp.TableAlias(this=exp.to_identifier("set", quoted=True), columns=columns))
    return add_join(select(items, named(source)), "CROSS", values)


def cells(plan: ReleasePlan, source: str) -> exp.Select:
    """Per (unit, key): counts, and sums of integers (a sum of BIGINT is a HUGEINT below 2^126: it cannot overflow)."""
    names = ["u", *plan.release.key_names]
    figures = [f for i, slot in enumerate(plan.slots, 1) for f in _figures(i, slot, source, per_unit=True)]
    return _grouped(source, names, figures)


def totals_of_rows(plan: ReleasePlan, source: str) -> exp.Select:
    """Per key, straight from rows."""
    names = plan.release.key_names
    figures = [f for i, slot in enumerate(plan.slots, 1) for f in _figures(i, slot, source, per_unit=False)]
    if plan.selection is not None and plan.selection.counted is None:
        figures.append(aliased(_count_distinct(source, "u"), "units"))
    if not plan.release.sets:
        return _grouped(source, names, figures)
    keys = [k.name for k in plan.release.keys]
    number = aliased(exp.Grouping(expressions=[column(source, n) for n in keys]), GROUPING)
    tree = select([number, *(column(source, n) for n in keys), *figures], named(source))
    tuples = [exp.Tuple(expressions=[column(source, n) for n in own]) for own in plan.release.sets]
    sets = [exp.Paren(this=t.expressions[0]) if len(t.expressions) == 1 else t for t in tuples]
    tree.set("group", exp.Group(expressions=[exp.GroupingSets(expressions=sets)]))
    return tree


def totals_of_cells(plan: ReleasePlan, source: str) -> exp.Select:
    """Per key, from what each unit may add."""
    names = plan.release.key_names
    vectors = [name for i, slot in enumerate(plan.slots, 1) for name in vector_columns(i, slot)]
    figures = [aliased(_or_zero(exp.Sum(this=column(source, name))), name) for name in vectors]
    if plan.selection is not None and plan.selection.counted is None:
        figures.append(aliased(_count(), "units"))
    return _grouped(source, names, figures)


def distinct(i: int, names: Sequence[str], source: str) -> exp.Select:
    """Per key, how many different values its units brought."""
    return _grouped(source, names, [aliased(_count_distinct(source, f"v{i}"), f"n{i}")])


def with_distinct(source: str, sums: exp.Select, names: Sequence[str], found: Mapping[str, str]) -> exp.Select:
    """The totals in step `source`, and beside them what counts distinct values: found maps columns to their steps.
    Without names each step is one row."""
    kept = [column(source, item.alias_or_name) for item in sums.selects]
    counts = [aliased(_or_zero(column(step, name)), name) for name, step in found.items()]
    tree = select([*kept, *counts], named(source))
    for step in found.values():
        same = [exp.NullSafeEQ(this=column(step, n), expression=column(source, n)) for n in names]
        add_join(tree, "LEFT", named(step), exp.and_(*same) if same else exp.true())
    return tree


def _grouped(source: str, names: Sequence[str], figures: Sequence[exp.Expr]) -> exp.Select:
    """Names and figures of a step, grouped by the names; of all its rows where there are none."""
    columns = [column(source, n) for n in names]
    grouped = select([*(c.copy() for c in columns), *figures], named(source))
    if columns:
        grouped.set("group", exp.Group(expressions=columns))
    return grouped


def chosen(groups: int, release: Release, salt: int, source: str) -> exp.Select:
    """At most g keys of each unit in each grouping set: those of least hash(hash(unit, key, salt)), ties broken by key.

    The unit's identity is in the hash, so units choose independently, and as they would without each other (its number
    in the tables would change with them); hashed twice, since one `hash` is biased, or alike for all salts.
    """
    every = exp.Column(this=exp.Star(), table=exp.to_identifier(source, quoted=True))
    return _of_least_hash(select([every], named(source)), groups, source, per_set(release), release.key_names, salt)


def values(i: int, most: int, names: Sequence[str], salt: int, source: str, left: str) -> exp.Select:
    """At most r different values of each (unit, key), of the rows in `source` and for the keys that are `left` to the
    unit. They are chosen as its keys are, by a hash with the value in it: whatever other units hold, a unit brings the
    same r values. (Were its identity not in it, all units would bring the same ones, and others would not be counted.)
    """
    value, cell = f"v{i}", ["u", *names]
    present = exp.Not(this=exp.Is(this=column(source, value), expression=exp.null()))
    same = exp.and_(*(exp.NullSafeEQ(this=column(left, n), expression=column(source, n)) for n in cell))
    held = select((column(source, n) for n in (*cell, value)), named(source)).distinct()
    held = add_join(held, "INNER", named(left), same).where(present)
    kept = select((column("held", n) for n in (*cell, value)), derived(held, "held"))
    return _of_least_hash(kept, most, "held", ["u", *names], [*names, value], salt)


def _of_least_hash(
    tree: exp.Select, most: int, source: str, per: Sequence[str], hashed: Sequence[str], salt: int
) -> exp.Select:
    """The `most` rows of least hash among those that agree in `per`."""
    columns = [column(source, n) for n in hashed]
    inner = exp.Anonymous(this="HASH", expressions=[column(UNITS, IDENTITY), *columns, literal(salt, BIGINT)])
    order = [exp.Anonymous(this="HASH", expressions=[inner]), *(c.copy() for c in columns)]
    units = exp.Table(
        this=exp.to_identifier(UNITS, quoted=True),
        db=exp.to_identifier(PRIVATE_CATALOG),
        alias=exp.TableAlias(this=exp.to_identifier(UNITS, quoted=True)),
    )
    add_join(tree, "INNER", units, exp.EQ(this=column(UNITS, UNIT), expression=column(source, "u")))
    place = _place(source, per, order)
    tree.set("qualify", exp.Qualify(this=exp.LTE(this=place, expression=exp.Literal.number(most))))
    return tree


def _figures(i: int, slot: Slot, source: str, *, per_unit: bool) -> list[exp.Expr]:
    """Exact counts and sums of a slot over the rows of a group."""
    match slot.kind:
        case SlotKind.ROWS:
            return [aliased(_filtered(_count(), i, slot, source), f"n{i}")]
        case SlotKind.UNITS if per_unit:
            some = exp.GT(this=_filtered(_count(), i, slot, source), expression=exp.Literal.number(0))
            return [aliased(case([(some, exp.Literal.number(1))], exp.Literal.number(0)), f"n{i}")]
        case SlotKind.UNITS:
            return [aliased(_filtered(_count_distinct(source, "u"), i, slot, source), f"n{i}")]
        case SlotKind.DISTINCT:
            return [] if per_unit else [aliased(_count_distinct(source, f"v{i}"), f"n{i}")]
        case SlotKind.SUM:
            total = exp.Sum(this=column(source, f"v{i}"))
            return [aliased(total if per_unit and slot.part is not None else _or_zero(total), f"s{i}")]
        case SlotKind.MOMENTS:
            return vectors.figures(i, slot, source, per_unit=per_unit)
        case _:
            assert_never(slot.kind)


def _count() -> exp.Expr:
    return exp.Count(this=exp.Star(), big_int=True)


def _count_distinct(source: str, name: str) -> exp.Expr:
    return exp.Count(this=exp.Distinct(expressions=[column(source, name)]), big_int=True)


def _filtered(call: exp.Expr, i: int, slot: Slot, source: str) -> exp.Expr:
    if slot.argument is None:
        return call
    return exp.Filter(this=call, expression=exp.Where(this=column(source, f"p{i}")))


def _or_zero(x: exp.Expr) -> exp.Expr:
    return exp.Coalesce(this=x, expressions=[exp.Literal.number(0)])
