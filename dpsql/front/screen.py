"""Where the results of an interactive session go: the screen, a pager where they are longer, a file where one is named.

Promise: what every result costs is on the screen, whatever becomes of the result. What was paid for is shown or stored
before the next statement runs, and a pager that fails costs nothing: then the text is printed.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from dpsql.errors import refusal
from dpsql.front import chart, render
from dpsql.front.cells import Signs, cells_wide, signs_for
from dpsql.front.diagnostics import Usage, columns_of, smart, visible
from dpsql.front.outfiles import emptied
from dpsql.front.output import Output
from dpsql.places import expanded

if TYPE_CHECKING:
    from dpsql.answer import Answer

_MOST_ROWS, _MOST_PAGED = 200, 10_000
_LESS = "-SX -Psspace goes on, q ends$"
"""Options of `less` where the analyst has none: long lines are cut, the text stays on the screen, and it says how to
leave."""


class Screen:
    """Shows answers and texts as the preferences say. interactive: a person looks on. kept: files that results must
    spare. last: the last answer with a receipt, for a chart of it."""

    def __init__(
        self,
        out: TextIO,
        err: TextIO,
        total: Fraction,
        preferences: Mapping[str, str],
        kept: Sequence[Path],
        *,
        interactive: bool,
    ) -> None:
        self._out, self._err, self._total, self._preferences = out, err, total, preferences
        self._interactive, self._kept = interactive, kept
        self._file: TextIO | None = None
        self._outputs: dict[tuple[str, int], Output] = {}
        self._used = False
        self.last: Answer | None = None

    @property
    def signs(self) -> Signs:
        return signs_for(self._out)

    @property
    def width(self) -> int | None:
        """Of the terminal; None where results go elsewhere."""
        return columns_of(self._target)

    @property
    def _target(self) -> TextIO:
        return self._out if self._file is None else self._file

    def echo(self, statement: str) -> None:
        """A statement of a script, before its result."""
        text = visible(statement.strip(), keep="\n")
        print(text if text.endswith(";") else f"{text};", file=self._target, flush=True)

    def show(self, answer: Answer) -> None:
        """An answer and what it cost."""
        if answer.receipt is not None:
            self.last = answer
        name = self._preferences["format"]
        if name != "table":
            target = self._target
            output = self._outputs.setdefault(
                (name, id(target)),
                Output(target, self._err, self._total, format=name, dialogue=self._interactive),
            )
            output.show(answer)
            return
        self._part(answer)
        self._write(self._table(answer))
        target = self._out if self._file is None or not self._interactive else self._err
        under = render.footer(answer, self._total, signs=signs_for(target), width=columns_of(target))
        if self._file is not None:
            self._file.write(render.footer(answer, self._total, signs=signs_for(self._file)) + "\n")
            self._file.flush()
        print(under, file=target, flush=True)

    def report(self, answer: Answer) -> None:
        """A table of names or charges: nothing that is asked of data, and without a line of what it cost."""
        self._write(self._table(answer))

    def say(self, text: str) -> None:
        """A text of several lines."""
        self._write(text)

    def note(self, text: str) -> None:
        """One line about what was done."""
        print(text, file=self._err, flush=True)

    def redirect(self, path: str | None) -> None:
        """Let results go to a file, which is emptied; None: to the screen again. Raises DP120 where it can't be."""
        if self._file is not None:
            self._file.close()
            self._file = None
            self._outputs.clear()
        if path is not None:
            target = expanded(path)
            try:
                self._file = emptied(target, self._kept)
            except Usage as error:
                raise refusal("DP120", str(error), repair="\\o FILE, of another name") from None
            except OSError as error:
                reason = f"can't write {visible(path)}: {error.strerror}"
                raise refusal("DP120", reason, repair="\\o FILE, in a folder that is yours to write") from None

    def close(self) -> None:
        """Close the file of results, if one is open."""
        self.redirect(None)

    def _part(self, answer: Answer) -> None:
        """In a file or pipe an empty line stands between results."""
        if self._used and not self._interactive and answer.table.num_columns:
            self._target.write("\n")
        self._used = True

    def _table(self, answer: Answer) -> str:
        paged = self._paging
        rows = _MOST_PAGED if paged else _MOST_ROWS if self._interactive and self._file is None else None
        expanded = self._preferences["expanded"]
        width = None if expanded == "off" else self.width
        text = render.table(answer, signs=signs_for(self._target), width=width, rows=rows, expanded=expanded == "on")
        if self._preferences["chart"] == "on" and chart.drawable(answer):
            text += "\n" + chart.chart(answer, signs=signs_for(self._target), width=self.width)
        return text

    @property
    def _paging(self) -> bool:
        return self._interactive and self._file is None and self._preferences["pager"] == "on" and smart(self._out)

    def _write(self, text: str) -> None:
        if self._paging and self._too_long(text) and _paged(text):
            return
        print(text, file=self._target, flush=True)

    def _too_long(self, text: str) -> bool:
        try:
            columns, lines = os.get_terminal_size(self._out.fileno())
        except OSError:
            return False
        if not columns or not lines:  # of a terminal that does not know
            return False
        widths = [cells_wide(row) for row in text.split("\n")]
        wide = self._preferences["expanded"] == "off" and max(widths) > columns
        return wide or sum(max(-(-width // columns), 1) for width in widths) > lines - 3


def _paged(text: str) -> bool:
    """Show the text with $PAGER, else less; False where that can't be started, or there is none."""
    try:
        command = shlex.split(os.environ.get("PAGER") or "less")
        with _deaf():
            pager = subprocess.Popen(
                command, stdin=subprocess.PIPE, text=True, encoding="utf-8", env={"LESS": _LESS, **os.environ}
            )
            assert pager.stdin is not None
            try:
                with pager.stdin as stream:
                    stream.write(text + "\n")
            except BrokenPipeError:
                pass  # whoever reads has seen enough
            pager.wait()
    except (OSError, ValueError, IndexError):
        return False
    return True


@contextmanager
def _deaf() -> Iterator[None]:
    """Ctrl-C is the pager's; a handler, unlike SIG_IGN, is not handed on to it."""
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
