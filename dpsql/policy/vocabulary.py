"""The names of a policy by what can be done with them: for completion, and never more than the owner made public.

It speaks of the policy and the column types alone. A name that is missing here may still be answered (a key that WHERE
lists, a product of two columns): these are the ones that need no more said.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal

from dpsql.policy.facts import Kind, PublicFacts, SqlType
from dpsql.policy.model import Column, Path, Policy, Table

_NUMBERS = (Kind.INTEGER, Kind.DECIMAL, Kind.DOUBLE)
_MANY = 10_000
"""Values between the bounds of a column that is offered as a key; more make no table that anybody reads."""


@dataclass(frozen=True, slots=True)
class TableWords:
    """One table. columns: all that are visible. groups: those that GROUP BY takes as they stand. sums: those that SUM
    takes. units: those that tell whose a row is, to be counted. values: by column, what the policy lists."""

    columns: tuple[str, ...]
    groups: frozenset[str] = frozenset()
    sums: frozenset[str] = frozenset()
    units: frozenset[str] = frozenset()
    values: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def words_of(policy: Policy, facts: PublicFacts) -> dict[str, TableWords]:
    """The tables of the policy, by name."""
    private_keys = policy.budget.delta > 0
    return {name: _words(table, facts, private_keys) for name, table in policy.tables.items()}


def _words(table: Table, facts: PublicFacts, private_keys: bool) -> TableWords:
    known = facts.tables.get(table.name)
    types = known.types if known is not None else {}
    if isinstance(table.unit, Path):
        units = frozenset(table.unit.via)
    else:
        units = frozenset() if table.unit is None or table.every_row_is_a_unit else frozenset([table.unit])
    referring = {r.columns[0] for r in table.references if len(r.columns) == 1}
    groups, sums = set(), set()
    for name, column in table.columns.items():
        kind = types.get(name)
        if name not in units and (private_keys or table.public or name in referring or _listed(column, kind)):
            groups.add(name)
        if kind is not None and kind.kind in _NUMBERS and (table.public or column.bounds is not None):
            sums.add(name)
    values = {
        name: tuple(v for v in column.values if isinstance(v, str))
        for name, column in table.columns.items()
        if column.values is not None
    }
    return TableWords(table.visible_columns, frozenset(groups), frozenset(sums), units, values)


def _listed(column: Column, kind: SqlType | None) -> bool:
    """Whether the policy says which values there are, and they are few enough to be keys."""
    if column.values is not None or (kind is not None and kind.kind is Kind.BOOLEAN):
        return True
    match column.bounds:
        case (int(low), int(high)) if kind is not None and kind.kind is Kind.INTEGER:
            return high - low < _MANY
        case (Decimal() as low, Decimal() as high) if kind is not None and kind.kind is Kind.INTEGER:
            return high - low < _MANY
        case (datetime(), datetime()):
            return False
        case (date() as low, date() as high):
            return (high - low).days < _MANY
    return False
