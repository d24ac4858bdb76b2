"""The record of what happened, each entry sealed with a key over the one before, and its head kept outside the file.

Promise: entries that were altered, removed, put in another order or taken from another ledger no longer fit their
seals, and nobody can make new seals without the key. What the last seal alone cannot tell, that the file as a whole is
an old one, the head tells: it is kept with the key outside (`keys`), and a ledger that ends before it, or has another
entry in that place, takes no charge. `verify` reads the whole record; each charge looks at the head.

The head never runs ahead of the disk: it is written after a durable commit, never for one that a power cut may take.
It may lag behind by what was under way when a process was killed; that much of a rollback is not noticed.

seal(n) = HMAC-SHA256(key, seal(n-1) || JSON of entry n and of what it speaks of), seal(0) = 32 zero bytes. (Schneier,
Kelsey, Secure audit logs to support computer forensics, 1999; here the key stays, so whoever reads it can forge.)
"""

from __future__ import annotations

import hmac
import json
import re
import secrets
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from dpsql.ledger import clock
from dpsql.ledger.file import LedgerFile
from dpsql.ledger.keys import ADOPT, START, Head, Keys
from dpsql.ledger.schema import CHARGE


class Log:
    """One write to the ledger: its connection, the ledger's time, the next entries, and whether all of it is there."""

    def __init__(self, connection: sqlite3.Connection, key: bytes, number: int, seal: bytes, time: clock.Reading):
        self.connection, self.key, self.number, self.seal, self.time = connection, key, number, seal, time
        self.committed = False

    @property
    def at(self) -> int:
        """Seconds since 1970, by the ledger's clock."""
        return self.time.at

    def append(
        self,
        kind: str,
        *,
        account: int | None = None,
        purse: int | None = None,
        charge: int | None = None,
        detail: str = "",
        content: Sequence[object] = (),
    ) -> None:
        """One entry more. content: the row it speaks of, which the seal covers too."""
        self.number += 1
        row = (self.number, self.at, kind, account, purse, charge, detail)
        self.seal = seal(self.key, self.seal, [*row, *content])
        self.connection.execute(
            "INSERT INTO entry (id, at, kind, account, purse, charge, detail, mac) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (*row, self.seal),
        )


class Chain:
    """The record of one ledger file."""

    def __init__(self, file: LedgerFile):
        self._file, self.keys = file, Keys(file)

    @contextmanager
    def writing(self, *, durable: bool = True) -> Iterator[Log]:
        """A transaction that holds the write lock and may append to the record. Raises DP403 where the record is not
        the one that its head speaks of. See `LedgerFile.transaction` for `durable`."""
        written: list[tuple[str, Log, int]] = []

        def keep() -> None:
            for name, log, before in written:
                log.committed = True
                if durable and log.number > before:
                    self.keys.keep(name, Head(log.key, log.number, log.seal))

        with self._file.transaction(write=True, durable=durable, after=keep) as connection:
            name = name_of(connection, self._file)
            log, before = self._begin(connection, name)
            written.append((name, log, before))
            yield log

    def _begin(self, connection: sqlite3.Connection, name: str) -> tuple[Log, int]:
        last = connection.execute("SELECT id, mac FROM entry ORDER BY id DESC LIMIT 1").fetchone() or (0, START)
        self._file.check_types(last, int, bytes)
        head = self.keys.claim(name, fresh=last == (0, START) or last[1] == b"")
        if head.number > last[0]:
            reason = f"ends at entry {last[0]}, and is known to have had {head.number}: an older copy was put back"
            raise self._file.refused(reason, f"put the newer one back; {ADOPT}")
        if head.number:
            known = last[1:]
            if head.number < last[0]:
                known = connection.execute("SELECT mac FROM entry WHERE id = ?", (head.number,)).fetchone()
            if known is None or known[0] != head.seal:
                raise self._file.refused("is not the one that is known: its record was replaced", ADOPT)
        number, mac = last
        if mac == b"":  # from an older version
            if head.number:
                raise self._file.refused("is damaged: its record is not sealed", ADOPT)
            mac = seal_all(connection, head.key)
        log = Log(connection, head.key, number, mac, clock.read(connection))
        if (boot := log.time.boot) is not None:
            connection.execute("UPDATE ledger SET boot = ?, boot_at = ?, boot_uptime = ?", _row(boot))
            log.append("boot", detail=json.dumps(_row(boot)))
        return log, 0 if last[1] == b"" else number


def adopt(file: LedgerFile) -> int:
    """For the owner alone: take the file in this place as it is, under a new key; the number of its entries."""
    with file.transaction(write=True) as connection:
        name = name_of(connection, file)
        key = secrets.token_bytes(32)
        mac = seal_all(connection, key)
        (count,) = connection.execute("SELECT COALESCE(MAX(id), 0) FROM entry").fetchone()
        log = Log(connection, key, count, mac, clock.read(connection))
        log.append("adopted", detail="the owner took the ledger as it was")
    Keys(file).replace(name, Head(key, log.number, log.seal))
    return log.number


def seal(key: bytes, before: bytes, row: Sequence[object]) -> bytes:
    """The seal of an entry over the one before."""
    return hmac.digest(key, before + json.dumps(row).encode(), "sha256")


def seal_all(connection: sqlite3.Connection, key: bytes) -> bytes:
    """Seal the whole record from its first entry on; the last seal."""
    mac, number = START, 0
    while rows := connection.execute(
        f"{ENTRIES} WHERE entry.id > ? ORDER BY entry.id LIMIT 10000", (number,)
    ).fetchall():
        seals = []
        for row in rows:
            number, mac = row[0], seal(key, mac, sealed(row))
            seals.append((mac, number))
        connection.executemany("UPDATE entry SET mac = ? WHERE id = ?", seals)
    return mac


ENTRIES = (
    "SELECT entry.id, entry.at, entry.kind, entry.account, entry.purse, entry.charge, entry.detail, entry.mac, "
    + ", ".join(f"charge.{name}" for name in CHARGE)
    + " FROM entry LEFT JOIN charge ON entry.kind = 'asked' AND charge.id = entry.charge"
)
"""Each entry: its 7 columns, its seal, and the charge that it speaks of."""


def sealed(row: Sequence[object]) -> list[object]:
    """What the seal of a row of ENTRIES covers."""
    return [*row[:7], *(row[8:] if row[2] == "asked" else ())]


def name_of(connection: sqlite3.Connection, file: LedgerFile) -> str:
    """The random name of the ledger. DP403 where it has none."""
    row = connection.execute("SELECT id FROM ledger").fetchone()
    file.check_types(row, str)
    if not re.fullmatch("[0-9a-f]{32}", row[0]):
        raise file.refused("is damaged: it has no name")
    name: str = row[0]
    return name


def _row(boot: clock.Boot) -> tuple[str, int, int]:
    return boot.name, boot.at, boot.uptime
