"""What is kept outside of a ledger file: the key that its record is sealed with, and the head of the record.

Where. `$XDG_STATE_HOME/dpsql/chains/` (0700) holds for each ledger one file (0600), named after the ledger's random
name, with its key and head, and for each path at which a ledger was opened the name of that ledger, so that another
ledger in that place, a fresh one included, is noticed too. What the owner does on purpose (a backup put back, a ledger
moved to another machine) is accepted by `dpsql ledger adopt` alone.

Promise: whatever keeps key or head from being read or written is a DP403 in our own words, and never a new key.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import secrets
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from dpsql.errors import Error
from dpsql.ledger.file import LedgerFile, chains, sync

START = bytes(32)
"""The seal before the first entry."""

ADOPT = "where that is as it should be, the owner says `dpsql ledger adopt`"
_LINE = re.compile(r"dpsql-chain 1 ([0-9a-f]{32}) ([0-9a-f]{64}) ([0-9]{19}) ([0-9a-f]{64})\n")


@dataclass(frozen=True, slots=True)
class Head:
    """What is kept outside the file: the key, and number and seal of the last entry that is surely on the disk."""

    key: bytes = field(repr=False)
    number: int
    seal: bytes


class Keys:
    """Key and head of the ledger in one file, and which ledger it is. The folder is fixed from the start."""

    def __init__(self, file: LedgerFile):
        self._file, self._folder, self._placed = file, chains(), ""

    def head(self, name: str) -> Head | None:
        """The head of the ledger of this name, None where none is kept. DP403 where it cannot be read."""
        try:
            with self._locked(name, fcntl.LOCK_SH) as number:
                content = os.pread(number, 512, 0)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._unusable(name, error) from None
        head = _parsed(content, name)
        if head is None:
            raise self._file.refused(f"cannot be checked: its key, {self._path(name)}, is damaged", ADOPT)
        return head

    def claim(self, name: str, *, fresh: bool) -> Head:
        """The head of the ledger of this name, made where it is `fresh`. DP403 where the key is missing, or another
        ledger was in this place. To be called under the ledger's write lock."""
        head = self.head(name)
        try:
            if self._placed != name:
                place = self._place()
                known = place.read_text("utf-8").strip() if place.exists() else None
                if known not in (None, name):
                    raise self._file.refused("is not the ledger that was here before", f"put that one back; {ADOPT}")
                if head is None and fresh:
                    head = Head(secrets.token_bytes(32), 0, START)
                    self._write(self._path(name), _line(name, head))
                if known is None and head is not None:
                    self._write(place, f"{name}\n".encode("ascii"))
                self._placed = name
        except OSError as error:
            raise self._unusable(name, error) from None
        if head is None:
            raise self.missing(name)
        return head

    def replace(self, name: str, head: Head) -> None:
        """Take this ledger, with this key, as the one in this place."""
        try:
            self._write(self._path(name), _line(name, head))
            self._write(self._place(), f"{name}\n".encode("ascii"))
        except OSError as error:
            raise self._unusable(name, error) from None

    def keep(self, name: str, head: Head) -> None:
        """Move the head on. Others may have been faster: it never moves back."""
        try:
            with self._locked(name, fcntl.LOCK_EX) as number:
                found = _parsed(os.pread(number, 512, 0), name)
                if found is not None and found.key == head.key and found.number < head.number:
                    os.pwrite(number, _line(name, head), 0)
        except OSError as error:
            raise self._unusable(name, error) from None

    def missing(self, name: str) -> Error:
        """The refusal (DP403) where the ledger of this name has entries and no key."""
        reason = f"cannot be checked: its key, {self._path(name)}, is missing"
        return self._file.refused(reason, f"put the key back; {ADOPT}")

    def _unusable(self, name: str, error: OSError) -> Error:
        return self._file.refused(f"cannot be checked: its key, {self._path(name)}: {error.strerror}")

    def _path(self, name: str) -> Path:
        return self._folder / f"{name}.chain"

    def _place(self) -> Path:
        path = os.fsencode(os.path.realpath(self._file.path))
        return self._folder / f"{hashlib.sha256(path).hexdigest()[:32]}.place"

    @contextmanager
    def _locked(self, name: str, how: int) -> Iterator[int]:
        """The file of key and head: what reads it while it is written over could see half of each."""
        number = os.open(self._path(name), os.O_RDWR)
        try:
            fcntl.flock(number, how)
            yield number
        finally:
            os.close(number)

    def _write(self, path: Path, content: bytes) -> None:
        """All of the content or nothing, on the disk, 0600."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        number, draft = tempfile.mkstemp(prefix=".chain-", dir=self._folder)
        try:
            with os.fdopen(number, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.replace(draft, path)
            sync(self._folder)
        finally:
            with suppress(FileNotFoundError):
                os.unlink(draft)


def _line(name: str, head: Head) -> bytes:
    """Always as long as the one that it is written over, and within one sector of a disk."""
    return f"dpsql-chain 1 {name} {head.key.hex()} {head.number:019d} {head.seal.hex()}\n".encode("ascii")


def _parsed(content: bytes, name: str) -> Head | None:
    match = _LINE.fullmatch(content.decode("ascii", "replace"))
    if match is None or match[1] != name:
        return None
    return Head(bytes.fromhex(match[2]), int(match[3]), bytes.fromhex(match[4]))
