"""`-o FILE`: results in files that are whole or not there.

Promise: what a file held stays until its replacement is complete: that is written beside it and renamed. A file that
can't be written is told of before anything is charged, and so is one that dpsql works with. What is no regular file (a
pipe, a device) is written directly. Where a link leads is looked at once: the file that is there when a run begins is
the one that is compared with those to spare, and replaced, even if somebody changes the link meanwhile.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from dpsql.front.diagnostics import Usage, visible
from dpsql.front.output import say_cost, say_statement
from dpsql.places import real

if TYPE_CHECKING:
    from dpsql.answer import Answer


@dataclass(frozen=True, slots=True)
class Target:
    """Where text goes. draft, file: what the stream writes, and what that takes the place of once all is there; None
    where it is written directly."""

    stream: TextIO
    draft: Path | None = None
    file: Path | None = None

    def spare(self, kept: Sequence[Path]) -> None:
        """Raises Usage where results would take the place of a file that is kept."""
        if self.file is not None:
            check_spared(self.file, kept)

    def complete(self) -> None:
        """All is written. Without this, or after an error, the file stays as it was."""
        self.stream.flush()
        if self.draft is not None and self.file is not None:
            os.fsync(self.stream.fileno())
            _put(self.draft, self.file)


@contextmanager
def replacing(path: str) -> Iterator[Target]:
    """What is written in place of this file. Raises Usage where it can't be."""
    given = Path(path)
    if given.exists() and not given.is_file():
        with _unwritable(path):
            stream = opened(given)
        with stream:
            if stat.S_ISREG(_stat(stream).st_mode):
                raise Usage(f"can't write {visible(path)}: another file took its place")
            yield Target(stream)
        return
    with _unwritable(path):
        file = _target(path)
        draft = _draft(file)
        stream = draft.open("x", encoding="utf-8", newline="")
    try:
        with stream:
            yield Target(stream, draft, file)
    finally:
        draft.unlink(missing_ok=True)


def emptied(file: Path, kept: Sequence[Path]) -> TextIO:
    """The file, open and without what it held. What is compared with those that are kept is what was opened: a link
    that is changed meanwhile empties no other. Raises OSError, and Usage."""
    check_spared(file, kept)  # before one is made where none was
    stream = opened(file)
    try:
        check_spared(file, kept, _stat(stream))
        if stat.S_ISREG(_stat(stream).st_mode):
            stream.truncate()
    except BaseException:
        stream.close()
        raise
    return stream


def opened(file: Path) -> TextIO:
    """A file to write, made where there is none, with what it holds still in it. Raises OSError."""

    def as_it_is(name: str, flags: int) -> int:
        return os.open(name, flags & ~os.O_TRUNC, 0o666)

    return open(file, "w", encoding="utf-8", newline="", opener=as_it_is)


def _stat(stream: TextIO) -> os.stat_result:
    return os.fstat(stream.fileno())


def check_spared(path: Path, kept: Sequence[Path], found: os.stat_result | None = None) -> None:
    """Raises Usage where results would take the place of a file that is kept, by whatever name or link, or come to lie
    in a folder that is: what is new in one of sources is data for the next snapshot. found: what is known of the file
    already."""
    with _unwritable(str(path)):
        around = _target(str(path)).parents
    for file in kept:
        with suppress(OSError):  # one of the two is not there
            if os.path.samestat(found or path.stat(), file.stat()):
                raise Usage(f"can't write {visible(str(path))}: it is a file that dpsql works with")
    for folder in kept:
        with suppress(OSError):
            if folder.is_dir() and real(folder) in around:
                raise Usage(f"can't write {visible(str(path))}: dpsql works with the files of {visible(str(folder))}")


@contextmanager
def _unwritable(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise Usage(f"can't write {visible(path)}: {error.strerror}") from None


def _target(path: str) -> Path:
    """The file itself: a link goes on leading to it. Raises OSError where links lead in a circle."""
    file = Path(os.path.realpath(path))
    if file.is_symlink():
        raise OSError(errno.ELOOP, "its links lead in a circle")
    return file


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
        self._count, self._total, self._err = 0, total, err
        folder = Path(pattern).parent
        if not folder.is_dir() or not os.access(folder, os.W_OK):
            raise Usage(f"can't write {visible(pattern)}: {visible(str(folder))} is no folder to write in")
        with _unwritable(pattern):
            self._files = [_target(pattern.replace("{}", str(number))) for number in range(1, count + 1)]
        for file in self._files:
            check_spared(file, kept)

    def show(self, answer: Answer) -> None:
        """Write one result, and its cost beside the data."""
        from dpsql.front.export import write_parquet

        target = self._files[self._count]
        self._count += 1
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
