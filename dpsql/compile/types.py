"""What the policy and the snapshot say of a column's values."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction

from dpsql.compile.ir import ColumnName, Facts
from dpsql.compile.literals import moment_of
from dpsql.policy.facts import Kind, SqlType
from dpsql.policy.model import Column, Policy, Table, Value


def column_facts(column: Column, type_: SqlType, table: Table) -> Facts:
    """The facts of a column as the snapshot holds it: clamped to its bounds, NULL possible.

    Bounds of a public table's columns were verified. `values` are the keys a column can give: private rows may hold
    others, so they bound no number (only `bounds` do, which the snapshot enforces).
    """
    lo = hi = None
    if column.bounds is not None:
        lo, hi = (_ordered(v, type_.kind) for v in column.bounds)
    domain = tuple(sorted(column.values)) if column.values is not None and not table.public else None
    step = Fraction(column.step) if column.step is not None and type_.kind is Kind.DOUBLE else None
    return Facts(type_, lo, hi, domain, nullable=True, step=step)


def claimed(policy: Policy) -> frozenset[ColumnName]:
    """The columns, by their tables, whose domain is only a claim: of a private table those with `values`."""
    private = [(name, table) for name, table in policy.tables.items() if not table.public]
    return frozenset((name, c) for name, table in private for c, column in table.columns.items() if column.values)


def _ordered(value: Value, kind: Kind) -> Fraction | date | datetime:
    if isinstance(value, date):  # a date may be the bound of a TIMESTAMP column
        return value if kind is Kind.DATE else moment_of(value)
    assert isinstance(value, int | Decimal)
    return Fraction(value)
