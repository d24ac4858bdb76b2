"""What is public about a snapshot: column types, sizes and keys of public tables. Never a fact about private rows.

`vault` makes it, `session` hands it to `compile`, which therefore needs no engine.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum


class Kind(Enum):
    """The types that a snapshot has. Sources of other types are mapped to these when the snapshot is made:
    every integer type to BIGINT, FLOAT to DOUBLE, ENUM and UUID to VARCHAR, TIMESTAMP_S/MS/NS to TIMESTAMP."""

    BOOLEAN = "BOOLEAN"
    INTEGER = "BIGINT"
    DECIMAL = "DECIMAL"
    DOUBLE = "DOUBLE"
    VARCHAR = "VARCHAR"
    DATE = "DATE"
    TIMESTAMP = "TIMESTAMP"


@dataclass(frozen=True, slots=True)
class SqlType:
    """A column's type; width and scale are those of DECIMAL(width, scale), else 0."""

    kind: Kind
    width: int = 0
    scale: int = 0

    def __str__(self) -> str:
        return f"DECIMAL({self.width},{self.scale})" if self.kind is Kind.DECIMAL else self.kind.value


@dataclass(frozen=True, slots=True)
class TableFacts:
    """types: every policy column in the policy's order. rows: the count, public tables only (None for private).
    unique: sets of columns verified to identify a row (public tables), or enforced to do so within each unit."""

    types: Mapping[str, SqlType]
    rows: int | None
    unique: tuple[frozenset[str], ...]


@dataclass(frozen=True, slots=True)
class PublicFacts:
    """snapshot: its random id. tables: by policy name."""

    snapshot: str
    tables: Mapping[str, TableFacts]
