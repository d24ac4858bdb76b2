"""Stored answers: what the releases that purses have paid for gave, noisy, by their fingerprints.

Each function works within a transaction of the ledger.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence

from dpsql.ledger.balance import AlreadyRefined, Kept
from dpsql.ledger.file import LedgerFile
from dpsql.ledger.terms import plain

MOST_ANSWERS = 100
"""That are looked at for one question."""

_OF_PURSE = (
    "SELECT fingerprint, answer, refined_by IS NOT NULL FROM release WHERE purse = ? AND snapshot = ? AND fingerprint"
)
_EXACT = f"{_OF_PURSE} = ?"
_BEGUN = f"{_OF_PURSE} > ? AND fingerprint < ? ORDER BY id DESC LIMIT ?"


def keep(connection: sqlite3.Connection, charge: int, answers: Mapping[str, bytes]) -> list[tuple[str, bytes]]:
    """Store the answers of a charge, by fingerprint, where there are none yet; those that were stored."""
    query = (
        "INSERT INTO release (purse, snapshot, fingerprint, charge, answer)"
        " SELECT purse, snapshot, ?, id, ? FROM charge WHERE id = ?"
        " ON CONFLICT (purse, snapshot, fingerprint) DO NOTHING"
    )
    rows = [(plain(fingerprint), answer) for fingerprint, answer in answers.items()]
    return [row for row in rows if connection.execute(query, (*row, charge)).rowcount]


def find(
    file: LedgerFile, connection: sqlite3.Connection, purse: int | None, snapshot: str, fingerprints: Sequence[str]
) -> dict[str, list[Kept]]:
    """The answers of a purse, by fingerprint. One that ends in a point stands for all that begin with it: at most
    MOST_ANSWERS in all, the last ones of each first."""
    found: dict[str, list[Kept]] = {}
    left = MOST_ANSWERS
    for fingerprint in fingerprints:
        name = plain(fingerprint)
        if name.endswith("."):
            of_these = (purse, snapshot, name, name[:-1] + "/", max(left, 0))
            rows = connection.execute(_BEGUN, of_these).fetchall()
        else:
            rows = connection.execute(_EXACT, (purse, snapshot, name)).fetchall()
        for row in rows:
            file.check_types(row, str, bytes, int)
        if rows:
            found[fingerprint] = [Kept(name, answer, bool(refined)) for name, answer, refined in rows]
            left -= len(rows)
    return found


def find_of_any(
    file: LedgerFile, connection: sqlite3.Connection, account: int, snapshot: str, fingerprint: str
) -> bytes | None:
    """The first answer of this fingerprint that any purse of the account has."""
    query = (
        "SELECT answer FROM purse JOIN release ON release.purse = purse.id"
        " WHERE account = ? AND snapshot = ? AND fingerprint = ? ORDER BY release.id LIMIT 1"
    )
    row = connection.execute(query, (account, snapshot, fingerprint)).fetchone()
    if row is None:
        return None
    file.check_types(row, bytes)
    return bytes(row[0])


def refine(connection: sqlite3.Connection, purse: int, snapshot: str, charge: int, fingerprints: Sequence[str]) -> None:
    """Mark what a charge refines. Raises AlreadyRefined, so that all is undone, where one of these has a mark already,
    or is not there."""
    query = (
        "UPDATE release SET refined_by = ? WHERE purse = ? AND snapshot = ? AND fingerprint = ? AND refined_by IS NULL"
    )
    for fingerprint in fingerprints:
        if connection.execute(query, (charge, purse, snapshot, fingerprint)).rowcount != 1:
            raise AlreadyRefined
