"""What people are told beside their data: error texts, exit codes, progress.

Promise: everything here goes to stderr; an error is shown as code, reason, caret and repair; and whatever was
not foreseen ends as DP901 in constant words. Never a traceback, whose lines can hold rows, and never the text
of a foreign exception, which can quote them.
"""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO, TypeVar

from dpsql.errors import Error, refusal

OK = 0
ENGINE = 1
USAGE = 2
REFUSED = 3
BUDGET = 4
FAULT = 70
INTERRUPTED = 130
BROKEN_PIPE = 141  # what a shell reports for a process that SIGPIPE ended, which is what we stand in for

_BY_FAMILY = {"0": USAGE, "1": REFUSED, "2": REFUSED, "3": USAGE, "4": BUDGET, "5": ENGINE, "9": FAULT}

_SIGNS = "|/-\\"  # the turning sign

T = TypeVar("T")


class Usage(Exception):
    """The command line asks for what can't be; shown in one line."""


def exit_code(error: Error) -> int:
    """The process's exit code for this error: by family, so that a script can tell a refusal from an empty budget."""
    return _BY_FAMILY[error.code[2]]


def fault() -> Error:
    """The error for whatever nobody foresaw."""
    return refusal(
        "DP901",
        "dpsql met a fault of its own; nothing was answered, and what was charged stays charged",
        repair="run the statement again: an answer that was paid for is free the second time",
    )


def guarded(call: Callable[[], T]) -> T:
    """The call's result, or an `Error`: any other exception is dropped, with its words and frames, for `fault()`.

    The new error is raised outside the handler, so that not even `__context__` leads to the old one.
    """
    try:
        return call()
    except Error:
        raise
    except Exception:
        unforeseen = fault()
    raise unforeseen


def visible(text: str, keep: str = "") -> str:
    """The text with every character that could steer a terminal or hide text written out (`\\x1b`, `\\u202e`).

    Control, format, separator and unassigned characters: escape sequences, overstriking, right-to-left tricks.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in keep else _escape(c) for c in text)


def _escape(character: str) -> str:
    if character in "\u00a0\u3000":  # spaces of ordinary writing; isprintable() knows only U+0020
        return character
    short = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}.get(character)
    if short is not None:
        return short
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def error_text(error: Error, color: bool = False, columns: int | None = None) -> str:
    """`error[DP210]: reason`, the caret lines and the repair, safe to print. columns: of the screen, if it is one."""
    head = f"error[{error.code}]"
    text = str(error) if columns is None else _wrapped(error.text(columns), columns)
    rest = visible(text.removeprefix(error.code), keep="\n")
    return (f"\x1b[1;31m{head}\x1b[0m" if color else head) + rest


def _wrapped(text: str, columns: int) -> str:
    """The lines of an error broken between words; those with the caret fit as they are."""
    lines, found = text.split("\n"), []
    while lines:
        if lines[0].lstrip().startswith("--> "):
            found += lines[:3]
            del lines[:3]
            continue
        first, indent = (0, "          ") if lines[0].startswith("  = help") else (_LONGER, "  ")
        room = max(columns - 1, 20)
        broken = textwrap.wrap(" " * first + lines.pop(0), room, subsequent_indent=indent, break_on_hyphens=False)
        found += [broken[0][first:], *broken[1:]] if broken else [""]
    return "\n".join(found)


_LONGER = len("error[]")  # than the code alone, with which the text of an error begins


def say_error(error: Error, stream: TextIO) -> None:
    """Print the error to stderr (colored where a person looks on and has not said NO_COLOR)."""
    color = smart(stream) and not os.environ.get("NO_COLOR")
    print(error_text(error, color, columns_of(stream)), file=stream, flush=True)


def smart(stream: TextIO) -> bool:
    """Whether the stream is a terminal that understands cursor movement and color."""
    return stream.isatty() and os.environ.get("TERM", "") not in ("", "dumb")


def columns_of(stream: TextIO) -> int | None:
    """The width of a terminal, or None: what is not a terminal has no width to keep to."""
    if not stream.isatty():
        return None
    try:
        return os.get_terminal_size(stream.fileno()).columns or None
    except OSError:
        return shutil.get_terminal_size().columns


@contextmanager
def spinner(words: str, stream: TextIO | None = None, after: float = 0.5, *, timed: bool = False) -> Iterator[None]:
    """A turning sign beside `words` while the block runs; only on a terminal, only if it takes long. timed: with the
    seconds, which are the analyst's to see only where the policy reveals timing."""
    err = sys.stderr if stream is None else stream
    if not smart(err):
        yield
        return
    done = threading.Event()

    def turn() -> None:
        if done.wait(after):
            return
        ticks = 0
        while True:
            passed = f" ({after + ticks / 5:.0f} s)" if timed else ""
            err.write(f"\r{_SIGNS[ticks % 4]} {words}{passed}\x1b[K")
            err.flush()
            ticks += 1
            if done.wait(0.2):
                err.write("\r\x1b[K")
                err.flush()
                return

    thread = threading.Thread(target=turn, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


class ProgressBar:
    """Shows (table being prepared, fraction): a bar on a terminal, else one plain line for each stage."""

    def __init__(self, stream: TextIO) -> None:
        self._stream, self._bar, self._stage = stream, smart(stream), ""

    def __call__(self, stage: str, fraction: float) -> None:
        if self._bar:
            filled = round(20 * min(max(fraction, 0.0), 1.0))
            self._stream.write(f"\r[{'#' * filled}{'.' * (20 - filled)}] {fraction:4.0%} {visible(stage)}\x1b[K")
        elif stage and stage != self._stage:
            self._stream.write(f"preparing {visible(stage)} ...\n")
        self._stage = stage
        self._stream.flush()

    def close(self) -> None:
        """Take the bar away again."""
        if self._bar and self._stage:
            self._stream.write("\r\x1b[K")
            self._stream.flush()
