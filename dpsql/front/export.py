"""Answers for machines: CSV, JSON, JSON lines and Parquet, complete and unrounded.

Promise: what is written parses back to the answer. In CSV, JSON lines and Parquet a noised column `x` is followed by
`x_half_width`. JSON has the half-widths and the receipt beside the rows, and Parquet the receipt in its metadata.
Nothing of a format differs from result to result, so a script's output can be read by one loop.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from datetime import date, datetime, time
from decimal import Decimal
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from dpsql.front.diagnostics import visible
from dpsql.front.types import type_code

if TYPE_CHECKING:
    from dpsql.answer import Answer, Receipt

_ROWS = 4096
_NOT_NUMBERS = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


def write_csv(answer: Answer, out: TextIO, *, terminal: bool = False) -> None:
    """CSV with a header. NULL is an empty field, an empty text is `""`, a list is JSON. A terminal gets control
    characters escaped."""
    if not answer.table.num_columns:
        return
    out.write(",".join(_field(visible(n) if terminal else n) for n in _names(answer, unique=False)) + "\n")
    for row in _rows(answer):
        texts = (None if value is None else _csv_text(value) for value in row)
        out.write(",".join(_field(visible(t) if terminal and t is not None else t) for t in texts) + "\n")


def _csv_text(value: Any) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case float():
            return repr(value)
        case Decimal():
            return f"{value:f}"
        case bytes():
            return "\\x" + value.hex()
        case list() | dict():
            return json_text(value)
        case _:
            return str(value)


def _field(text: str | None) -> str:
    if text is None:
        return ""
    if text and not any(c in text for c in ',"\r\n') and text == text.strip():
        return text
    return '"' + text.replace('"', '""') + '"'


def write_json(answer: Answer, out: TextIO) -> None:
    """One object, without a line's end. columns: names and types; rows: a list each, one to a line; half_widths: by
    column a list with one number for each row, null where a column is exact; receipt: null for what is no query."""
    columns = ", ".join(
        f'{{"name": {_string(f.name)}, "type": {_string(type_code(f.type))}}}' for f in answer.table.schema
    )
    out.write(f'{{"columns": [{columns}],\n  "rows": [')
    parting = "\n   "
    for row in _plain_rows(answer):
        out.write(f"{parting}[{', '.join(map(json_text, row))}]")
        parting = ",\n   "
    widths = ("null" if half is None else f"[{', '.join(map(json_text, half))}]" for half in answer.widths)
    out.write(f'],\n  "half_widths": [{", ".join(widths)}],\n  "receipt": {_receipt(answer.receipt)}}}')


def _receipt(receipt: Receipt | None) -> str:
    """The receipt; amounts are exact, as texts like "1/10"."""
    return json_text(None if receipt is None else asdict(receipt))


def write_parquet(answer: Answer, path: Path) -> None:
    """A file of its own; the receipt is in its metadata, under `dpsql.receipt`."""
    import pyarrow as pa
    import pyarrow.parquet as parquet

    arrays: list[Any] = []
    for column, half in zip(answer.table.columns, answer.widths, strict=True):
        arrays += [column] if half is None else [column, pa.array(half, pa.float64())]
    table = pa.Table.from_arrays(arrays, names=_names(answer, unique=True))
    parquet.write_table(table.replace_schema_metadata({"dpsql.receipt": _receipt(answer.receipt)}), path)


def write_jsonl(answer: Answer, out: TextIO) -> None:
    """One object to a line."""
    for row in _objects(answer):
        out.write(f"{row}\n")


def _objects(answer: Answer) -> Iterator[str]:
    keys = [_string(name) for name in _names(answer, unique=True)]
    for row in _rows(answer):
        yield "{" + ", ".join(f"{k}: {json_text(v)}" for k, v in zip(keys, row, strict=True)) + "}"


def json_text(value: Any) -> str:
    """A JSON value: decimals with all their digits; NaN and infinities, which JSON lacks, as strings."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case float():
            return repr(value) if isfinite(value) else f'"{_NOT_NUMBERS[repr(value)]}"'
        case Decimal():
            return f"{value:f}"
        case datetime() | date() | time():
            return _string(value.isoformat())
        case bytes():
            return _string("\\x" + value.hex())
        case dict():
            return "{" + ", ".join(f"{_string(k)}: {json_text(v)}" for k, v in value.items()) + "}"
        case tuple() | list():
            return f"[{', '.join(map(json_text, value))}]"
        case _:
            return _string(str(value))


def _string(text: str) -> str:
    """A JSON string; beyond what JSON demands, everything unprintable is escaped, so that a terminal is safe too."""
    quoted = json.dumps(text, ensure_ascii=False)
    return quoted if quoted.isprintable() else json.dumps(text)


def _names(answer: Answer, *, unique: bool) -> list[str]:
    """The column names with those of the half-widths between; `unique` numbers repeated ones, as objects need."""
    names: list[str] = []
    for name, widths in zip(answer.table.column_names, answer.widths, strict=True):
        for wanted in (name,) if widths is None else (name, f"{name}_half_width"):
            candidate, number = wanted, 2
            while unique and candidate in names:
                candidate, number = f"{wanted}_{number}", number + 1
            names.append(candidate)
    return names


def _rows(answer: Answer) -> Iterator[tuple[Any, ...]]:
    """Rows as Python values, each noised value followed by its half-width."""
    widths = [half for half in answer.widths if half is not None]
    after = [place for place, half in enumerate(answer.widths) if half is not None]
    for number, row in enumerate(_plain_rows(answer)):
        values = list(row)
        for place, half in zip(reversed(after), reversed(widths), strict=True):
            values.insert(place + 1, half[number])
        yield tuple(values)


def _plain_rows(answer: Answer) -> Iterator[tuple[Any, ...]]:
    """Rows as Python values."""
    from dpsql.answer import values_of

    if answer.table.num_columns:
        for part in answer.table.to_batches(max_chunksize=_ROWS):
            yield from zip(*map(values_of, part.columns), strict=True)
