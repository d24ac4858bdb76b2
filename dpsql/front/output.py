"""Where results go: one place that writes data, in one format, with the cost beside it.

Promise: the `out` stream gets data and nothing else (for people's tables that includes the echoed statement and
the cost line under the table); the cost lines of machine formats go to `err`. Every result is flushed before the
next statement runs, so an answer that was paid for is not lost to a later failure.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Protocol, TextIO

from dpsql.front import render
from dpsql.front.diagnostics import columns_of, visible
from dpsql.front.formats import FORMATS, Sheet

if TYPE_CHECKING:
    from dpsql.answer import Answer

_MOST_ROWS = 200


class Results(Protocol):
    """What a script's results are handed to."""

    @property
    def for_people(self) -> bool:
        """Whether results are shown (SET's too) rather than handed on to a program (queries' alone)."""
        ...

    def echo(self, statement: str) -> None:
        """A statement before its result."""

    def show(self, answer: Answer) -> None:
        """An answer, and what it cost."""

    def end(self) -> None:
        """Nothing more follows."""


class Output:
    """Writes results. total: the account's whole ε, for `left ε = 2.75 of 3`. format: a name of `FORMATS`, which may
    be changed between two results of a dialogue. dialogue: a person types between the results, which need no frame
    and no more than `_MOST_ROWS` rows each."""

    def __init__(
        self, out: TextIO, err: TextIO, total: Fraction, *, format: str = "table", dialogue: bool = False
    ) -> None:
        self._out, self._err, self._total = out, err, total
        self.format = format
        self._rows = _MOST_ROWS if dialogue else None
        self._dialogue = dialogue
        self._signs = render.signs_for(out)
        self._used = False

    @property
    def for_people(self) -> bool:
        return FORMATS[self.format].for_people

    def echo(self, statement: str) -> None:
        """Show a statement before its result: among the data only where the data is a table for people."""
        if self.for_people:
            self._part()
            self._used = False
        say_statement(statement, self._out if self.for_people else self._err)

    def show(self, answer: Answer) -> None:
        """Write an answer and what it cost."""
        how = FORMATS[self.format]
        if answer.table.num_columns:
            self._part()
        if answer.table.num_columns or self.for_people:
            width = columns_of(self._out)
            how.write(answer, self._out, Sheet(self._total, self._signs, width, self._rows, self._out.isatty()))
        if self._dialogue and how.closing:
            self._out.write("\n")
        self._out.flush()
        if not self.for_people:
            say_cost(answer, self._total, self._err)

    def end(self) -> None:
        """Close the frame: what was written is whole, however many results it has."""
        how = FORMATS[self.format]
        if not self._dialogue and how.closing:
            self._out.write(("" if self._used else how.opening) + how.closing)
            self._out.flush()

    def _part(self) -> None:
        if not self._dialogue:
            how = FORMATS[self.format]
            self._out.write(how.between if self._used else how.opening)
        self._used = True


def say_statement(statement: str, stream: TextIO) -> None:
    """The statement as it was written, ended by a semicolon."""
    text = visible(statement.strip(), keep="\n")
    print(text if text.endswith(";") else f"{text};", file=stream, flush=True)


def say_cost(answer: Answer, total: Fraction, err: TextIO) -> None:
    """The cost of a query, beside data for a program."""
    if answer.receipt is not None:
        print(render.footer(answer, total, signs=render.signs_for(err), width=columns_of(err)), file=err, flush=True)
