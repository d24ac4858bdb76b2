"""The formats that results are written in, by name: those of `dpsql run --format` that are text.

A series of results (a script's) is set in a frame: JSON is one array of results, tables, CSV and Markdown are parted by
an empty line, and JSON lines follow each other. One result alone (a dialogue's) has no frame.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, TextIO

from dpsql.front import export, markup, render
from dpsql.front.cells import UNICODE, Signs

if TYPE_CHECKING:
    from dpsql.answer import Answer


@dataclass(frozen=True, slots=True)
class Sheet:
    """What a result is written on. total: the account's whole ε. width: of the screen, None where there is none.
    rows: how many are shown, None for all. terminal: whether a person's terminal obeys what is written."""

    total: Fraction
    signs: Signs = UNICODE
    width: int | None = None
    rows: int | None = None
    terminal: bool = False


@dataclass(frozen=True, slots=True)
class Format:
    """write: puts one result down. opening, between, closing: the frame of a series; where `closing` is not empty, a
    result does not end its last line itself. for_people: whether the cost stands among the results."""

    write: Callable[[Answer, TextIO, Sheet], None]
    opening: str = ""
    between: str = ""
    closing: str = ""
    for_people: bool = False


def _table(answer: Answer, out: TextIO, sheet: Sheet) -> None:
    text = render.table(answer, signs=sheet.signs, width=sheet.width, rows=sheet.rows)
    out.write(f"{text}\n{render.footer(answer, sheet.total, signs=sheet.signs, width=sheet.width)}\n")


def _csv(answer: Answer, out: TextIO, sheet: Sheet) -> None:
    export.write_csv(answer, out, terminal=sheet.terminal)


def _json(answer: Answer, out: TextIO, _: Sheet) -> None:
    export.write_json(answer, out)


def _jsonl(answer: Answer, out: TextIO, _: Sheet) -> None:
    export.write_jsonl(answer, out)


def _markdown(answer: Answer, out: TextIO, sheet: Sheet) -> None:
    out.write(markup.markdown(answer, sheet.signs) + "\n")


FORMATS: Mapping[str, Format] = {
    "table": Format(_table, between="\n", for_people=True),
    "csv": Format(_csv, between="\n"),
    "json": Format(_json, opening="[", between=",\n ", closing="]\n"),
    "jsonl": Format(_jsonl),
    "markdown": Format(_markdown, between="\n"),
}
