"""The relations that a key's public values come from, as SQL over public tables and literals."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime, timedelta
from itertools import pairwise, product

from sqlglot import exp

from dpsql.compile.ir import Value
from dpsql.compile.kinds import TIMESTAMP
from dpsql.compile.literals import cast, literal, moment_of, null
from dpsql.compile.resolve import PUBLIC_CATALOG
from dpsql.compile.trees import derived
from dpsql.policy.facts import Kind, SqlType
from dpsql.policy.model import Table

_LONG = 50
"""Values that are still written one by one."""


def table(source: Table, alias: str) -> exp.Expr:
    """A public table under an alias."""
    return named(_scan(source), alias)


def optional_table(source: Table, types: Sequence[tuple[str, SqlType]], alias: str) -> exp.Expr:
    """A public table behind an outer join: with a row of NULLs more. types: of its columns."""
    real = exp.select(*(_column(name) for name, _ in types)).from_(_scan(source))
    nulls = exp.select(*(exp.alias_(null(type_), name, quoted=True) for name, type_ in types))
    return derived(exp.union(real, nulls, distinct=False), alias)


def referred(source: Table, columns: Sequence[tuple[str, SqlType, bool]]) -> exp.Expr:
    """The values of columns (name, type, nullable) of a public table that other columns refer to.

    A row with NULL in some of them refers to nothing, as in SQL, and the rest of it is free: so for each choice of
    NULLs the values of the others stand too."""
    several: exp.Expr | None = None
    for missing in product(*((False, True) if nullable else (False,) for _, _, nullable in columns)):
        items = [
            exp.alias_(null(type_), name, quoted=True) if gone else _column(name)
            for (name, type_, _), gone in zip(columns, missing, strict=True)
        ]
        values = exp.select(*items)
        if not all(missing):
            values = values.distinct().from_(_scan(source))
        several = values if several is None else exp.union(several, values, distinct=False)
    assert isinstance(several, exp.Query)
    return several.subquery()


def listed(values: Sequence[Value], type_: SqlType, *, nullable: bool) -> exp.Expr:
    """A relation of these values: a series for a long run of them, else a VALUES list."""
    run = _run(values, type_)
    if run is not None:
        series = exp.select(run)
        return (exp.union(series, exp.select(null(type_)), distinct=False) if nullable else series).subquery()
    rows: list[exp.Expr] = [literal(v, type_) for v in values]
    if nullable:
        rows.append(null(type_))
    if not rows:  # contradictory predicates: no group can exist
        empty = exp.select(null(type_)).where(exp.false())
        return empty.subquery()
    return exp.Values(expressions=[exp.Tuple(expressions=[row]) for row in rows])


def _run(values: Sequence[Value], type_: SqlType) -> exp.Expr | None:
    """Many integers, days or moments, each as far from the one before: one expression, whatever their number."""
    if len(values) <= _LONG or type_.kind not in (Kind.INTEGER, Kind.DATE, Kind.TIMESTAMP):
        return None
    places = [_place(value) for value in values]
    step = places[1] - places[0]
    if step <= 0 or any(after - before != step for before, after in pairwise(places)):
        return None
    if type_.kind is Kind.INTEGER:
        return _series(values, type_, literal(step, type_) if step != 1 else None)
    seconds, rest = divmod(step, 10**6)
    if rest:
        return None
    moments = _series(values, TIMESTAMP, exp.Interval(this=exp.Literal.string(str(seconds)), unit=exp.var("SECOND")))
    return cast(moments, type_) if type_.kind is Kind.DATE else moments


def _place(value: Value) -> int:
    """An integer itself; of a day or moment the microseconds before it."""
    if isinstance(value, date):
        return (moment_of(value) - datetime.min) // timedelta(microseconds=1)
    return int(value)


def _series(values: Sequence[Value], ends: SqlType, step: exp.Expr | None) -> exp.Expr:
    start, end = literal(values[0], ends), literal(values[-1], ends)
    return exp.Explode(this=exp.GenerateSeries(start=start, end=end, step=step, is_end_exclusive=False))


def named(relation: exp.Expr, alias: str, columns: Sequence[str] = ()) -> exp.Expr:
    """The relation under an alias, and its columns under names."""
    relation.set(
        "alias",
        exp.TableAlias(
            this=exp.to_identifier(alias, quoted=True),
            columns=[exp.to_identifier(c, quoted=True) for c in columns] or None,
        ),
    )
    return relation


def _scan(source: Table) -> exp.Table:
    return exp.Table(this=exp.to_identifier(source.name, quoted=True), db=exp.to_identifier(PUBLIC_CATALOG))


def _column(name: str) -> exp.Column:
    return exp.column(exp.to_identifier(name, quoted=True))
