"""`-o FILE`: results in files that are whole or not there.

Promise: what a file held stays until its replacement is complete: that is written beside it and renamed. A file that
can't be written is told of before anything is charged, and so is one that dpsql works with. What is no regular file (a
pipe, a device) is written directly.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from dpsql.front.diagnostics import Usage, visible
from dpsql.front.output import say_cost, say_statement

if TYPE_CHECKING:
    from dpsql.answer import Answer


@contextmanager
def replacing(path: str) -> Iterator[tuple[TextIO, Callable[[], None]]]:
    """A stream, and what to call once all is in it: without the call, or after an error, the file stays as it was."""
    target = Path(path)
    if target.exists() and not target.is_file():
        with _opened(target, path, "w") as stream:
            yield stream, stream.flush
        return
    target = target.resolve()  # a link goes on leading to the file
    draft = _draft(target)
    with _opened(draft, path, "x") as stream:

        def complete() -> None:
            stream.flush()
            os.fsync(stream.fileno())
            _put(draft, target)

        try:
            yield stream, complete
        finally:
            draft.unlink(missing_ok=True)


def check_spared(path: str, kept: Iterable[Path]) -> None:
    """Raises Usage where results would take the place of a file that is kept, by whatever name or link."""
    target = Path(path)
    for file in kept:
        with suppress(OSError):  # one of the two is not there
            if target.samefile(file):
                raise Usage(f"can't write {visible(path)}: it is a file that dpsql works with")


def _opened(file: Path, path: str, mode: str) -> TextIO:
    try:
        return file.open(mode, encoding="utf-8", newline="")  # type: ignore[return-value]  # of a text mode
    except OSError as error:
        raise _unwritable(path, error) from None


def _unwritable(path: str, error: OSError) -> Usage:
    return Usage(f"can't write {visible(path)}: {error.strerror}")


def _draft(target: Path) -> Path:
    return target.with_name(f".{target.name[:200]}.{secrets.token_hex(4)}")


def _put(draft: Path, target: Path) -> None:
    """The draft in the target's place, with the target's mode where there was one."""
    with suppress(FileNotFoundError):
        draft.chmod(target.stat().st_mode & 0o777)
    draft.replace(target)


class ParquetFiles:
    """A Parquet file for each result. pattern: the path, in which `{}` stands for the number of the result, from 1 on.

    count: how many results there will be. kept: files to spare. Raises Usage where results do not fit, or can't be
    written.
    """

    for_people = False

    def __init__(
        self, pattern: str | None, count: int, total: Fraction, err: TextIO, kept: Sequence[Path] = ()
    ) -> None:
        if pattern is None:
            raise Usage("Parquet is written to files: give -o FILE")
        if count > 1 and "{}" not in pattern:
            reason = f"{count} results do not fit into one Parquet file"
            raise Usage(f"{reason}: give -o with a {{}} for the number, such as -o result-{{}}.parquet")
        self._pattern, self._count, self._total, self._err = pattern, 0, total, err
        folder = Path(pattern).parent
        if not folder.is_dir() or not os.access(folder, os.W_OK):
            raise Usage(f"can't write {visible(pattern)}: {visible(str(folder))} is no folder to write in")
        for number in range(1, count + 1):
            check_spared(self._name(number), kept)

    def _name(self, number: int) -> str:
        return self._pattern.replace("{}", str(number))

    def show(self, answer: Answer) -> None:
        """Write one result, and its cost beside the data."""
        from dpsql.front.export import write_parquet

        self._count += 1
        target = Path(self._name(self._count)).resolve()
        draft = _draft(target)
        try:
            write_parquet(answer, draft)
            _put(draft, target)
        finally:
            draft.unlink(missing_ok=True)
        say_cost(answer, self._total, self._err)

    def echo(self, statement: str) -> None:
        say_statement(statement, self._err)

    def end(self) -> None:
        """Each file is whole already."""
