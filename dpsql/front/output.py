"""Where results go: one place that writes data, in one format, with the cost beside it.

Promise: the `out` stream gets data and nothing else (for people's tables that includes the echoed statement and
the cost line under the table); the cost lines of machine formats go to `err`. Every result is flushed before the
next statement runs, so an answer that was paid for is not lost to a later failure.
"""

from __future__ import annotations

import os
import shutil
from fractions import Fraction
from typing import TYPE_CHECKING, TextIO

from dpsql.front import export, render
from dpsql.front.diagnostics import visible

if TYPE_CHECKING:
    from dpsql.answer import Answer

_PARTED = ("table", "csv", "markdown")  # formats whose results are set apart by an empty line
_MOST_ROWS = 200


class Output:
    """Writes results. total: the account's whole ε, for `left ε = 2.75 of 3`. dialogue: a person types between the
    results, which need no empty line between them and no more than `_MOST_ROWS` rows each."""

    def __init__(
        self, out: TextIO, err: TextIO, total: Fraction, *, format: str = "table", dialogue: bool = False
    ) -> None:
        self._out, self._err, self._total, self._format = out, err, total, format
        self._rows = _MOST_ROWS if dialogue else None
        self._parted = not dialogue and format in _PARTED
        self._signs, self._err_signs = render.signs_for(out), render.signs_for(err)
        self._used = False

    @property
    def for_people(self) -> bool:
        """Whether results are shown (SET's too) rather than handed on to a program (queries' alone)."""
        return self._format == "table"

    def echo(self, statement: str) -> None:
        """Show a statement before its result: among the data only where the data is a table for people."""
        text = visible(statement.strip(), keep="\n")
        text += "" if text.endswith(";") else ";"
        if self.for_people:
            self._part()
            self._used = False
        print(text, file=self._out if self.for_people else self._err, flush=True)

    def show(self, answer: Answer) -> None:
        """Write an answer and what it cost."""
        if answer.table.num_columns:
            self._part()
        match self._format:
            case "table":
                width = columns_of(self._out)
                text = render.table(answer, signs=self._signs, width=width, rows=self._rows)
                under = render.footer(answer, self._total, signs=self._signs, width=width)
                self._out.write(f"{text}\n{under}\n")
            case "csv":
                export.write_csv(answer, self._out, terminal=self._out.isatty())
            case "json":
                export.write_json(answer, self._out)
            case "jsonl":
                export.write_jsonl(answer, self._out)
            case "markdown" if answer.table.num_columns:
                self._out.write(render.markdown(answer, self._signs) + "\n")
        self._out.flush()
        if not self.for_people and answer.receipt is not None:
            under = render.footer(answer, self._total, signs=self._err_signs, width=columns_of(self._err))
            print(under, file=self._err, flush=True)

    def _part(self) -> None:
        if self._used and self._parted:
            self._out.write("\n")
        self._used = True


def columns_of(stream: TextIO) -> int | None:
    """The width of a terminal, or None: what is not a terminal has no width to keep to."""
    if not stream.isatty():
        return None
    try:
        return os.get_terminal_size(stream.fileno()).columns or None
    except OSError:
        return shutil.get_terminal_size().columns
