"""Outer SQL that only names columns of one released table: it needs no engine."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp


@dataclass(frozen=True, slots=True)
class Projection:
    """columns: of the released table `released`, and under which names they are shown, in order."""

    released: str
    columns: tuple[tuple[str, str], ...]


def projection(outer: exp.Expr, released: frozenset[str]) -> Projection | None:
    """The projection that a statement is; None where it is anything more than `SELECT r."x" AS "y", ... FROM r`."""
    if not isinstance(outer, exp.Select) or any(v for k, v in outer.args.items() if k not in ("expressions", "from_")):
        return None
    from_ = outer.args.get("from_")
    table = from_.this if from_ is not None else None
    if (
        not isinstance(table, exp.Table)
        or table.name not in released
        or any(v for k, v in table.args.items() if k != "this")
    ):
        return None
    columns = []
    for item in outer.expressions:
        column = item.this if isinstance(item, exp.Alias) else None
        if not isinstance(column, exp.Column) or not _is_plain(column, table.name):
            return None
        columns.append((column.name, item.alias))
    return Projection(table.name, tuple(columns))


def _is_plain(column: exp.Column, table: str) -> bool:
    """Whether it is `table."name"`."""
    parts = {key for key, value in column.args.items() if value}
    named = isinstance(column.this, exp.Identifier) and column.this.quoted
    return named and parts == {"this", "table"} and column.table == table
