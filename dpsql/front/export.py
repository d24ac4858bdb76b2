"""Answers for machines: CSV, JSON and JSON lines, complete and unrounded.

Promise: what is written parses back to the answer. A noised column `x` is followed by `x_half_width`. The
receipt is not data and is not written here. Nothing of the format differs from result to result, so a script's
output can be read by one loop: CSV results are parted by an empty line, each JSON result is one array.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from math import isfinite
from typing import TYPE_CHECKING, Any, TextIO

from dpsql.front.diagnostics import visible

if TYPE_CHECKING:
    from dpsql.answer import Answer

_ROWS = 4096
_NOT_NUMBERS = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


def write_csv(answer: Answer, out: TextIO, *, terminal: bool = False) -> None:
    """CSV with a header. NULL is an empty field, an empty text is `""`. A terminal gets control characters escaped."""
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
        case _:
            return str(value)


def _field(text: str | None) -> str:
    if text is None:
        return ""
    if text and not any(c in text for c in ',"\r\n') and text == text.strip():
        return text
    return '"' + text.replace('"', '""') + '"'


def write_json(answer: Answer, out: TextIO) -> None:
    """One array of objects, a row to a line."""
    opening = "["
    for row in _objects(answer):
        out.write(f"{opening}{row}")
        opening = ",\n "
    out.write("[]\n" if opening == "[" else "]\n")


def write_jsonl(answer: Answer, out: TextIO) -> None:
    """One object to a line."""
    for row in _objects(answer):
        out.write(f"{row}\n")


def _objects(answer: Answer) -> Iterator[str]:
    keys = [_string(name) for name in _names(answer, unique=True)]
    for row in _rows(answer):
        yield "{" + ", ".join(f"{k}: {_json(v)}" for k, v in zip(keys, row, strict=True)) + "}"


def _json(value: Any) -> str:
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
    if not answer.table.num_columns:
        return
    for start in range(0, answer.table.num_rows, _ROWS):
        part = answer.table.slice(start, _ROWS)
        columns: list[Sequence[Any]] = []
        for column, half in zip(part.columns, answer.widths, strict=True):
            columns.append(column.to_pylist())
            if half is not None:
                columns.append(half[start : start + _ROWS])
        yield from zip(*columns, strict=True)
