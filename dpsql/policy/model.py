"""What the owner promises: the policy as frozen data. Made by `load`; nothing here reads a file."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction
from pathlib import Path as FilePath

Value = int | Decimal | str | bool | date | datetime
"""A literal of the policy file. Floats are read as Decimal, so what is written is what is meant."""


@dataclass(frozen=True, slots=True)
class Reference:
    """Columns whose values are those of a public table's columns: public keys, and a join that cannot multiply."""

    columns: tuple[str, ...]
    table: str
    target: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Path:
    """A foreign key by which a table reaches its unit: this table's `via` columns are the key of table `to`."""

    via: tuple[str, ...]
    to: str


@dataclass(frozen=True, slots=True)
class Column:
    """One visible column.

    bounds: inclusive (lo, hi) to which values are clamped; without them a column may be counted or grouped,
    never summed. step: the grid of a DOUBLE column. values: the public keys (never NULL).
    """

    name: str
    bounds: tuple[Value, Value] | None = None
    step: Decimal | None = None
    values: tuple[Value, ...] | None = None
    unit_of_measure: str = ""
    description: str = ""


LIMITS = ("max_rows_per_unit", "max_groups_per_unit", "max_rows_per_group")
"""The limits on what one unit adds to a release, as policies and statements call them."""


@dataclass(frozen=True, slots=True)
class Table:
    """One visible table. `unit` is None for public tables, a column's name, a `Path`, or the word ROW.

    source: the table or view of the database (default: the table's own name), or a file or folder, relative to the
    policy file. key: columns that identify a row, listed or not; enforced per unit for private tables, verified for
    public ones.
    max_rows_per_unit (R, private tables only), max_groups_per_unit (g), max_rows_per_group (r): the limits.
    limit: "rows" or "late", whether R acts before or after WHERE where nobody says otherwise.
    hard: by the limits' names, how high an analyst may set them for a statement (`max_rows_per_unit_hard` and its
    like). clustered: whether the snapshot keeps the rows of a unit together, instead of the order of the source.
    references: every public reference, those of single columns included.
    """

    name: str
    public: bool
    source: str
    unit: str | Path | None
    key: tuple[str, ...]
    columns: Mapping[str, Column]
    max_rows_per_unit: int | None = None
    max_groups_per_unit: int | None = None
    max_rows_per_group: int | None = None
    limit: str = "rows"
    hard: Mapping[str, int] = field(default_factory=dict)
    references: tuple[Reference, ...] = ()
    clustered: bool = False

    @property
    def every_row_is_a_unit(self) -> bool:
        return self.unit == ROW

    @property
    def visible_columns(self) -> tuple[str, ...]:
        """The columns that statements can name; a unit column that is not listed can be counted."""
        listed = tuple(self.columns)
        if isinstance(self.unit, str) and not self.every_row_is_a_unit and self.unit not in listed:
            return (*listed, self.unit)
        return listed

    @property
    def reads_files(self) -> bool:
        """Whether the source is a file or folder, and no part of a database."""
        return is_file(self.source)


ROW = "\0row"
"""`unit = "row"` in the file: each row is its own unit (not a column's name: NUL cannot stand in one)."""


_FILE = re.compile(r"/|\.(parquet|(csv|tsv)(\.gz)?)$", re.IGNORECASE)


def is_file(source: str) -> bool:
    """Whether a source names a file or folder: by a slash in it or by its ending, whatever the disk holds."""
    return _FILE.search(source) is not None


@dataclass(frozen=True, slots=True)
class Budget:
    """The account and its terms; all amounts exact.

    per_query_delta: of a statement with private keys; None = delta * (the statement's epsilon) / epsilon.
    min_units_per_group: a private key is shown only where it seems to have so many units, whatever delta allows.
    selection: the mechanism of private choices, "exponential" or "permute_and_flip".
    renew: "never", or "day", "week", "month": when spending begins anew. joint_epsilon: what all analysts together may
    spend where each has a budget of their own, None where all have one. max_failures: engine failures after which the
    account takes no more charges.
    """

    account: str
    epsilon: Fraction
    delta: Fraction
    per_query_epsilon: Fraction
    max_query_epsilon: Fraction
    composition: str = "basic"
    per_query_delta: Fraction | None = None
    min_units_per_group: int = 1
    selection: str = "exponential"
    renew: str = "never"
    joint_epsilon: Fraction | None = None
    max_failures: int = 3

    @property
    def per_analyst(self) -> bool:
        """Whether each analyst has a budget: the owner's word that they do not pool their answers."""
        return self.joint_epsilon is not None


@dataclass(frozen=True, slots=True)
class EngineLimits:
    """What one engine may use for one query. memory: in bytes; beyond it, it spills to disk, and what cannot spill
    fails. timeout: in seconds.

    Both are fixed beforehand and long: that a query failed may tell an exact bit about the data, so it has to be rare,
    and it must not hang on how much memory the machine has or how busy it is with others. Ten minutes is more than ten
    times what the slowest TPC-H query takes at scale 1."""

    memory: int
    timeout: float


USUAL_LIMITS = EngineLimits(memory=4 * 2**30, timeout=600)


@dataclass(frozen=True, slots=True)
class Policy:
    """A whole policy file. `unit`: the word for whom it protects. `digest`: of all that a snapshot enforces.
    reveal_timing: whether analysts are told how long statements took, which no noise is added to."""

    unit: str
    budget: Budget
    tables: Mapping[str, Table]
    digest: str
    file: FilePath = field(default=FilePath(), compare=False)
    engine: EngineLimits = USUAL_LIMITS
    reveal_timing: bool = False

    @property
    def reads_files_only(self) -> bool:
        """Whether no table has its source in a database."""
        return all(table.reads_files for table in self.tables.values())

    def table(self, name: str) -> Table | None:
        """The table that SQL calls so: whatever the case, and `main.` may stand before it."""
        tables = {own.lower(): table for own, table in self.tables.items()}
        return tables.get(name.lower()) or tables.get(name.lower().removeprefix("main."))
