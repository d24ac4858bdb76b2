"""The digest of a policy: equal digests mean that a snapshot made under one policy serves the other.

Promise: whatever the snapshot enforces is in it, so an owner who narrows a bound never gets answers from rows that
were clamped to the old one. Depends on the policy alone, never on the database.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction

from dpsql.policy.model import Path, Table, Value
from dpsql.policy.readers import kind


def digest_of(tables: Mapping[str, Table]) -> str:
    """SHA-256 of what a snapshot enforces: names, sources, units, paths, keys, references, values, bounds, steps,
    cluster_by.

    Limits, budget and descriptions are left out, so that changing them needs no new snapshot. So are the orders
    of tables, values and references; that of columns stays, since it is the order of the snapshot's own tables.
    Numbers are written as fractions: 0.1 and 0.10 are one bound.
    """
    content = ["dpsql snapshot 1", [_table_content(tables[name]) for name in sorted(tables)]]
    return hashlib.sha256(json.dumps(content, ensure_ascii=True, separators=(",", ":")).encode()).hexdigest()


def _table_content(table: Table) -> list[object]:
    unit = [list(table.unit.via), table.unit.to] if isinstance(table.unit, Path) else table.unit
    columns = [
        [
            column.name,
            [_value_content(bound) for bound in column.bounds or ()],
            _value_content(column.step) if column.step is not None else None,
            sorted(_value_content(value) for value in column.values) if column.values is not None else None,
        ]
        for column in table.columns.values()
    ]
    references = sorted([list(r.columns), r.table, list(r.target)] for r in table.references)
    clustered = ["clustered"] if table.clustered else []
    return [table.name, table.source, table.public, unit, list(table.key), columns, references, *clustered]


def _value_content(value: Value) -> list[str]:
    written = str(Fraction(value)) if isinstance(value, int | Decimal) and not isinstance(value, bool) else str(value)
    return [kind(value), written]
