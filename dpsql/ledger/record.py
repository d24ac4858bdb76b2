"""The whole record of a ledger, read from its first entry: checked, or written out.

`verify` trusts nothing but the key and the head (see `chain`): the seals say that the entries are those that were
written, and the entries say what every other table must hold. It reads as one transaction, and a million releases in
some minutes. `exported` writes what is there, checked or not.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import groupby
from typing import Any

from dpsql.ledger import clock
from dpsql.ledger.chain import ENTRIES, name_of, seal, sealed
from dpsql.ledger.file import LedgerFile
from dpsql.ledger.keys import ADOPT, START, Head, Keys
from dpsql.ledger.schema import ACCOUNT_TERMS, CHARGE, digest_of, terms_text

_AT = {name: 8 + place for place, name in enumerate(CHARGE)}  # places in a row of ENTRIES


@dataclass(frozen=True, slots=True)
class Verified:
    """What was read and found good."""

    entries: int
    charges: int
    releases: int


@dataclass(slots=True)
class _Purse:
    account: int
    analyst: str
    spent: tuple[Fraction, ...] = (Fraction(0), Fraction(0), Fraction(0))
    window: int = 0
    statements: int = 0
    failures: int = 0

    def spend(self, amounts: tuple[Fraction, ...], window: int) -> None:
        before = self.spent if window == self.window else (Fraction(0),) * 3
        self.spent = tuple(a + b for a, b in zip(before, amounts, strict=True))
        self.window, self.statements = window, self.statements + 1


@dataclass(slots=True)
class _Told:
    """What the entries add up to."""

    terms: dict[int, str] = field(default_factory=dict)
    closed: set[int] = field(default_factory=set)
    sources: dict[str, int] = field(default_factory=dict)
    purses: dict[int, _Purse] = field(default_factory=dict)
    joint: dict[int, int] = field(default_factory=dict)  # by account: the purse of all together
    refined: dict[tuple[int, str, str], int] = field(default_factory=dict)  # by purse, snapshot and fingerprint
    states: dict[str, int] = field(default_factory=lambda: dict.fromkeys(("asked", "answered", "failed"), 0))
    boot: tuple[object, ...] = ("", 0, 0)


def verify(file: LedgerFile, keys: Keys) -> Verified:
    """Read all of it. Raises DP403 with the first thing that is not as it was written."""
    with file.transaction(write=False) as connection:
        if connection.execute("PRAGMA integrity_check(1)").fetchone() != ("ok",):
            raise file.refused("is damaged")
        if connection.execute("PRAGMA foreign_key_check").fetchone() is not None:
            raise file.refused("is damaged: its rows contradict each other")
        name = name_of(connection, file)
        head = keys.head(name)
        if head is None:
            raise keys.missing(name)
        told = _Told()
        entries = _read_entries(file, connection, head, told)
        _compare(file, connection, told)
        releases = _check_releases(file, connection)
    return Verified(entries, told.states["asked"], releases)


def _read_entries(file: LedgerFile, connection: sqlite3.Connection, head: Head, told: _Told) -> int:
    """Check every seal, and gather what the entries say; how many there are."""
    mac, number, at = START, 0, 0
    for row in connection.execute(f"{ENTRIES} ORDER BY entry.id"):
        wrong = f"was changed: entry {number + 1} of its record is not what was written there"
        number += 1
        if row[0] != number:
            raise file.refused(f"was changed: entry {number} of its record is missing", ADOPT)
        try:
            mac = seal(head.key, mac, sealed(row))
        except TypeError:  # a blob in the place of a text
            raise file.refused(wrong, ADOPT) from None
        if mac != row[7] or row[1] < at or (number == head.number and mac != head.seal):
            raise file.refused(wrong, ADOPT)
        at = row[1]
        _apply(file, told, row)
    if number < head.number:
        reason = f"ends at entry {number}, and is known to have had {head.number}: an older copy was put back"
        raise file.refused(reason, f"put the newer one back; {ADOPT}")
    return number


def _apply(file: LedgerFile, told: _Told, row: tuple[Any, ...]) -> None:
    _, _, kind, account, purse, _, detail = row[:7]
    match kind:
        case "opened" | "changed":
            told.terms[account] = detail
        case "closed":
            told.closed.add(account)
        case "source":
            told.sources[detail] = account
        case "purse":
            told.purses[purse] = _Purse(account, detail)
            if detail == "":
                told.joint[account] = purse
        case "asked":
            told.states["asked"] += 1
            amounts = tuple(file.exact(row[_AT[name]]) for name in ("epsilon", "delta", "mu_squared"))
            told.purses[purse].spend(amounts, row[_AT["window"]])
            for name in json.loads(detail or "[]"):
                release = purse, row[_AT["snapshot"]], name
                if release in told.refined:
                    raise file.refused("was changed: an answer was refined twice", ADOPT)
                told.refined[release] = row[_AT["id"]]
            if row[_AT["joint_epsilon"]] is not None:
                names = ("joint_epsilon", "joint_delta", "joint_mu_squared")
                joint = told.joint[told.purses[purse].account]
                told.purses[joint].spend(tuple(file.exact(row[_AT[name]]) for name in names), row[_AT["window"]])
        case "answered":
            told.states[kind] += 1
        case "failed":
            told.states[kind] += 1
            for one in {purse, told.joint.get(told.purses[purse].account, purse)}:
                told.purses[one].failures += 1
        case "reopened":
            for each in told.purses.values():
                each.failures = 0 if each.account == account else each.failures
        case "migrated":
            for number, failures in json.loads(detail):
                told.purses[number].failures = failures
        case "boot":
            told.boot = tuple(json.loads(detail))


def _compare(file: LedgerFile, connection: sqlite3.Connection, told: _Told) -> None:
    """The other tables hold what the entries say, and nothing else."""
    names = ", ".join(ACCOUNT_TERMS)
    accounts = {
        number: (terms_text(values), closed)
        for number, closed, *values in connection.execute(f"SELECT id, closed IS NOT NULL, {names} FROM account")
    }
    purses = {
        number: _Purse(account, analyst, tuple(map(file.exact, spent)), window, statements, failures)
        for number, account, analyst, window, statements, failures, *spent in connection.execute(
            "SELECT id, account, analyst, window, statements, failures, spent_epsilon, spent_delta, spent_mu_squared"
            " FROM purse"
        )
    }
    refined = {
        (purse, snapshot, fingerprint): charge
        for purse, snapshot, fingerprint, charge in connection.execute(
            "SELECT purse, snapshot, fingerprint, refined_by FROM release WHERE refined_by IS NOT NULL"
        )
    }
    states = dict(connection.execute("SELECT state, COUNT(*) FROM charge GROUP BY state"))
    settled = told.states["answered"] + told.states["failed"]
    for held, said in (
        (purses, told.purses),
        (accounts, {number: (text, number in told.closed) for number, text in told.terms.items()}),
        (dict(connection.execute("SELECT path, account FROM source")), told.sources),
        (refined, told.refined),
        ({"asked": 0, "answered": 0, "failed": 0, **states}, {**told.states, "asked": told.states["asked"] - settled}),
        (connection.execute("SELECT boot, boot_at, boot_uptime FROM ledger").fetchone(), told.boot),
    ):
        if held != said:
            raise file.refused("was changed: its record does not add up to what it says was spent", ADOPT)
    wrong = connection.execute(
        "SELECT 1 FROM entry JOIN charge ON charge.id = entry.charge WHERE entry.kind IN ('answered', 'failed')"
        " AND (charge.state <> entry.kind OR charge.purse <> entry.purse) LIMIT 1"
    ).fetchone()
    if wrong is not None:
        raise file.refused("was changed: its record does not add up to what became of its statements", ADOPT)


def _check_releases(file: LedgerFile, connection: sqlite3.Connection) -> int:
    """Every stored answer is the one that was stored, and none is missing; how many there are."""
    said = connection.execute(
        "SELECT charge, detail FROM entry WHERE kind = 'answered' AND detail <> '' ORDER BY charge"
    )
    stored = connection.execute(
        "SELECT r.charge, r.fingerprint, r.answer, r.purse IS charge.purse AND r.snapshot IS charge.snapshot"
        " FROM release r LEFT JOIN charge ON charge.id = r.charge ORDER BY r.charge, r.id"
    )
    count = 0
    for charge, rows in groupby(stored, key=lambda row: row[0]):
        answers = []
        for _, fingerprint, answer, fits in rows:
            file.check_types((fingerprint, answer), str, bytes)
            answers.append((fingerprint, answer))
            if not fits:
                raise file.refused("was changed: a stored answer stands under another account or snapshot", ADOPT)
        count += len(answers)
        if said.fetchone() != (charge, digest_of(answers)):
            raise file.refused("was changed: a stored answer is not the one that was stored", ADOPT)
    if said.fetchone() is not None:
        raise file.refused("was changed: a stored answer is missing", ADOPT)
    return count


def exported(file: LedgerFile) -> Iterator[dict[str, object]]:
    """The record, one entry after the other: see docs/ledger.md. Amounts are exact, as texts 'p/q'.

    A charge is told with the entry that it was asked; the entry of what became of it names its number.

    It reads in parts, so that others can go on writing: what is added meanwhile comes too.
    """
    last = 0
    while True:
        with file.transaction(write=False) as connection:
            rows = connection.execute(
                f"{_EXPORTED} WHERE entry.id > ? ORDER BY entry.id LIMIT 1000", (last,)
            ).fetchall()
        if not rows:
            return
        for number, at, event, account, analyst, *rest in rows:
            charge = dict(zip(_COLUMNS, rest[2:], strict=True)) if event == "asked" else {}
            charge |= {"charge": rest[2]} if event in ("answered", "failed") else {}
            yield {
                "entry": number,
                "time": clock.shown(at),
                "event": event,
                "account": account,
                "analyst": analyst or None,
                **charge,
                "detail": rest[0],
                "seal": rest[1].hex(),
            }
            last = number


_COLUMNS = ("charge", *(name for name in CHARGE if name not in ("id", "purse", "at")))
_EXPORTED = (
    "SELECT entry.id, entry.at, entry.kind, account.name, purse.analyst, entry.detail, entry.mac, charge.id, "
    + ", ".join(f"charge.{name}" for name in _COLUMNS[1:])
    + " FROM entry LEFT JOIN charge ON charge.id = entry.charge LEFT JOIN purse ON purse.id = entry.purse"
    " LEFT JOIN account ON account.id = COALESCE(entry.account, purse.account)"
)
