"""The two small files beside a snapshot: facts.json (what is public about it, and under which policy it was made) and
report.json (counts for the owner). A file that is missing, cut short, damaged or of another format is no record: the
planner believes what facts.json says of keys and counts, so it carries a digest of itself."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path as FilePath
from typing import Any

from dpsql.policy.facts import Kind, PublicFacts, SqlType, TableFacts
from dpsql.vault.report import Report

FORMAT = 3
"""Changes when the files of a snapshot mean something else; older snapshots are then not found."""

_FILES = ("private.duckdb", "public.duckdb", "report.json")
_SUM = "sha256"


@dataclass(frozen=True, slots=True)
class Record:
    """digest: of the policy. sequence: a later snapshot of the account has a larger one. created: seconds since 1970.
    source: the database, or "". sources: where its private rows come from, which the account belongs to. stamps: size
    and time of change of each file that was read."""

    facts: PublicFacts
    digest: str
    sequence: int
    created: float
    source: str
    sources: tuple[str, ...]
    stamps: Mapping[str, tuple[int, int]]


def save(folder: FilePath, record: Record, report: Report) -> None:
    """Writes both; facts.json last, as the sign that all is there."""
    (folder / "report.json").write_text(json.dumps(report.to_json(), indent=1), encoding="utf-8")
    data = {
        "format": FORMAT,
        "snapshot": record.facts.snapshot,
        "digest": record.digest,
        "sequence": record.sequence,
        "created": record.created,
        "source": record.source,
        "sources": list(record.sources),
        "stamps": {path: list(stamp) for path, stamp in record.stamps.items()},
        "tables": {name: _from_table(table) for name, table in record.facts.tables.items()},
    }
    (folder / "facts.json").write_text(json.dumps({**data, _SUM: _sum(data)}, indent=1), encoding="utf-8")


def _sum(data: Mapping[str, Any]) -> str:
    """The digest of a record. It tells damage, not malice: whoever may write here may write rows, too."""
    return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()


def load_record(folder: FilePath) -> Record | None:
    """The folder's record, or None where this is not a complete snapshot."""
    try:
        if not all((folder / name).is_file() for name in _FILES):
            return None
        data = json.loads((folder / "facts.json").read_text(encoding="utf-8"))
        if data.pop(_SUM) != _sum(data) or data["format"] != FORMAT or data["snapshot"] != folder.name:
            return None
        tables = {str(name): _to_table(table) for name, table in data["tables"].items()}
        stamps = {str(path): (int(size), int(changed)) for path, (size, changed) in data["stamps"].items()}
        return Record(
            PublicFacts(folder.name, tables),
            str(data["digest"]),
            int(data["sequence"]),
            float(data["created"]),
            str(data["source"]),
            tuple(map(str, data["sources"])),
            stamps,
        )
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None


def load_report(folder: FilePath, *, source_changed: bool) -> Report:
    """What making the snapshot found. Empty where the file cannot be read: nothing depends on it."""
    try:
        data = json.loads((folder / "report.json").read_text(encoding="utf-8"))
        return Report.from_json(data, source_changed=source_changed)
    except (OSError, ValueError, TypeError, KeyError):
        return Report((), source_changed=source_changed)


def _from_table(table: TableFacts) -> dict[str, object]:
    return {
        "types": {name: [t.kind.name, t.width, t.scale] for name, t in table.types.items()},
        "rows": table.rows,
        "unique": [sorted(columns) for columns in table.unique],
    }


def _to_table(data: Mapping[str, Any]) -> TableFacts:
    types = {
        str(name): SqlType(Kind[kind], int(width), int(scale)) for name, (kind, width, scale) in data["types"].items()
    }
    rows = None if data["rows"] is None else int(data["rows"])
    return TableFacts(types, rows, tuple(frozenset(map(str, columns)) for columns in data["unique"]))
