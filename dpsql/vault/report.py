"""What making a snapshot found, for the owner alone: these counts are exact facts about private rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field


@dataclass(frozen=True, slots=True)
class TableReport:
    """One table. read: rows of the source. kept: rows of the snapshot. without_unit: rows dropped because their
    unit is NULL or their path reaches none. copies: extra rows, of those whose path reaches several units.
    repeated: rows dropped because their unit has another row with that key. beyond: rows of units beyond `limit`, the
    policy's max_rows_per_unit (None where it has none): kept, and left out where a statement counts no more of each.
    clamped: values moved to a bound, by column. outside: values not among the column's `values`, or not in the table
    it refers to, by column(s); such rows are kept, and count under no key of that column."""

    table: str
    public: bool
    read: int
    kept: int
    without_unit: int = 0
    copies: int = 0
    repeated: int = 0
    beyond: int = 0
    limit: int | None = None
    clamped: Mapping[str, int] = field(default_factory=dict)
    outside: Mapping[str, int] = field(default_factory=dict)

    def lines(self) -> Iterator[str]:
        """The head line, then one for each thing worth knowing."""
        if self.public:
            yield f"{self.table}: {self.kept:,} rows, public"
            return
        yield f"{self.table}: {self.kept:,} of {self.read:,} rows"
        if self.without_unit:
            yield f"  {self.without_unit:,} rows belong to no unit: dropped"
        if self.copies:
            yield f"  {self.copies:,} rows more, of rows that belong to several units: kept once for each"
        if self.repeated:
            yield f"  {self.repeated:,} rows repeat a key within their unit: dropped"
        if self.beyond:
            yield f"  {self.beyond:,} rows are beyond max_rows_per_unit = {self.limit}: not counted under that limit"
        for column, count in self.clamped.items():
            yield f"  {column}: {count:,} values beyond its bounds: clamped"
        for column, count in self.outside.items():
            yield f"  {column}: {count:,} values outside its public values: they count under no key"


@dataclass(frozen=True, slots=True)
class Report:
    """The whole snapshot. source: the database, or "" where all is read from files. source_changed: what was read is
    no longer what it was when the snapshot was made. changes: what changed, by size and time alone: since then, or,
    in the report of a new snapshot, since the one before."""

    tables: tuple[TableReport, ...]
    source: str = ""
    seconds: float = 0.0
    source_changed: bool = False
    changes: tuple[str, ...] = ()

    def render(self) -> str:
        """As text for the owner's terminal."""
        lines = [line for table in self.tables for line in table.lines()]
        if self.source_changed:
            what = "the database has" if self.source else "the files have"
            lines.append(f"{what} changed since; `dpsql prepare --refresh` makes a new snapshot")
        elif self.changes:
            lines.append("changed since the snapshot before:")
        lines += [f"  {change}" for change in self.changes]
        return "\n".join(lines)

    def to_json(self) -> dict[str, object]:
        """Plain data, for the file kept beside the snapshot."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, object], *, source_changed: bool) -> Report:
        """What `to_json` gave. Raises TypeError, KeyError or ValueError for anything else."""
        tables = data["tables"]
        if not isinstance(tables, list):
            raise TypeError("no list of tables")
        seconds = data["seconds"]
        if not isinstance(seconds, int | float):
            raise TypeError("no duration")
        return cls(tuple(TableReport(**table) for table in tables), str(data["source"]), float(seconds), source_changed)
