"""What an account is opened with, and what happens when it is opened: for the first time, again, or anew.

Promise: an account keeps the terms that its promise rests on (unit, composition, delta, renewal, whether analysts have
purses of their own) and its sources; other terms, or a source that spends from another account, are an error that names
the owner's command. What may be raised or lowered later (epsilon, joint_epsilon, max_failures) is what the last policy
that was opened says, and keeps what was spent.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from dpsql.errors import refusal
from dpsql.ledger.chain import Log
from dpsql.ledger.clock import RENEWALS
from dpsql.ledger.file import LedgerFile, written
from dpsql.ledger.schema import ACCOUNT_TERMS, terms_text
from dpsql.privacy.accounting import BASIC, GAUSSIAN, gaussian_budget

MAX_FAILURES = 3
"""Engine failures after which an account takes no more charges where the policy does not say: each one may tell an
exact bit about the data."""

MAX_BITS = 3300
"""Size of numerator and denominator, about 1,000 digits: what keeps the running sum short."""

NEW_ACCOUNT = "`dpsql budget open --new POLICY` opens a new account under these terms; the old spending stays on record"

_ANALYST = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")


@dataclass(frozen=True, slots=True)
class Terms:
    """What an account is opened with; made by `terms`. analyst: whose purse is opened, '' for that of all together.
    joint_epsilon, joint_delta: what all analysts together may spend where each has a purse, else None."""

    name: str
    analyst: str
    unit: str
    composition: str
    epsilon: Fraction
    delta: Fraction
    sources: tuple[str, ...]
    renew: str = "never"
    joint_epsilon: Fraction | None = None
    joint_delta: Fraction | None = None
    max_failures: int = MAX_FAILURES

    @property
    def per_analyst(self) -> bool:
        return self.joint_epsilon is not None


def terms(
    account: str,
    *,
    epsilon: Fraction,
    delta: Fraction,
    composition: str,
    unit: str,
    sources: Sequence[str],
    analyst: str | None,
    renew: str = "never",
    joint_epsilon: Fraction | None = None,
    max_failures: int = MAX_FAILURES,
) -> Terms:
    """The terms, in text that the ledger can hold.

    `sources`: resolved absolute paths (or other addresses) of the data. `joint_epsilon`: only where the owner's policy
    gives each analyst a budget of their own: what all of them together may spend; None is one budget for all, which
    holds even if they pool their answers. `analyst`: whose budget; without a name, that of all together, which the
    owner can look at. Raises DP406 where a name is missing, not needed, or none.
    """
    check_amounts(epsilon, delta)
    if composition not in (BASIC, GAUSSIAN) or (composition == GAUSSIAN and delta == 0):
        raise refusal("DP901", "charges add up by basic composition, or with a delta by Gaussian")
    if not account or epsilon == 0 or delta >= 1 or renew not in RENEWALS or max_failures < 1:
        raise refusal("DP901", "an account needs a name, an epsilon above 0 and a delta below 1")
    joint_delta = None
    if joint_epsilon is not None:
        check_amounts(joint_epsilon)
        joint_delta = delta * joint_epsilon / epsilon
        if joint_epsilon < epsilon or joint_delta >= 1:
            raise refusal("DP901", "all analysts together may spend at least what one may, and a delta below 1")
    elif analyst is not None:
        reason = "this policy has one budget for all analysts"
        raise refusal("DP406", reason, repair="connect without naming an analyst")
    if analyst is not None and not _ANALYST.fullmatch(analyst):
        reason = "an analyst's name has 1 to 64 letters, digits, points, hyphens, underscores and @"
        raise refusal("DP406", reason, repair="for example ann@example.org")
    name, unit = plain(account), plain(unit)
    places = tuple(dict.fromkeys(map(plain, sources)))
    joint = joint_epsilon, joint_delta
    return Terms(name, analyst or "", unit, composition, epsilon, delta, places, renew, *joint, max_failures)


def enter(file: LedgerFile, log: Log, terms: Terms, *, new: bool) -> tuple[int, int | None, int | None]:
    """Open the account: the numbers of the account, of the purse, and of the joint purse where there is one. An
    analyst who has not spent yet has no purse: whoever only looks leaves no trace."""
    _check_indexes(file, log.connection)
    found = open_account(log.connection, terms.name)
    if new:
        if found is not None:
            log.connection.execute("UPDATE account SET closed = ? WHERE id = ?", (log.at, found))
            log.append("closed", account=found)
        found = None
    else:
        _check_sources(log.connection, terms)
    account = _first_time(log, terms) if found is None else _again(file, log, terms, found)
    for source in terms.sources:
        cursor = log.connection.execute(
            "INSERT INTO source (path, account) VALUES (?, ?)"
            " ON CONFLICT (path) DO UPDATE SET account = excluded.account WHERE account <> excluded.account",
            (source, account),
        )
        if cursor.rowcount:
            log.append("source", account=account, detail=source)
    joint = make_purse(log, account, "") if terms.per_analyst else None
    analyst = terms.analyst
    purse = purse_of(log.connection, account, analyst) if analyst else make_purse(log, account, analyst)
    return account, purse, joint


def _check_indexes(file: LedgerFile, connection: sqlite3.Connection) -> None:
    """Every row that says who owns what is found by its index: an account, purse or source that is there and is not
    found would be opened anew, with a full budget. SQLite itself looks where an index leads, and no further."""
    for table in ("account", "purse", "source"):
        if connection.execute(f"PRAGMA integrity_check({table})").fetchall() != [("ok",)]:
            raise file.refused("is damaged: an index does not fit its table")


def open_account(connection: sqlite3.Connection, name: str) -> int | None:
    """The number of the account of this name that takes charges."""
    row = connection.execute("SELECT id FROM account WHERE name = ? AND closed IS NULL", (name,)).fetchone()
    return None if row is None else row[0]


def purse_of(connection: sqlite3.Connection, account: int, analyst: str) -> int | None:
    """The number of an analyst's purse, once there is one."""
    query = "SELECT id FROM purse WHERE account = ? AND analyst = ?"
    row = connection.execute(query, (account, analyst)).fetchone()
    return None if row is None else row[0]


def make_purse(log: Log, account: int, analyst: str) -> int:
    """The number of an analyst's purse, which is made where there is none."""
    owner = (account, analyst)
    cursor = log.connection.execute(
        "INSERT INTO purse (account, analyst, spent_epsilon, spent_delta, statements, failures)"
        " VALUES (?, ?, '0/1', '0/1', 0, 0) ON CONFLICT (account, analyst) DO NOTHING",
        owner,
    )
    purse = purse_of(log.connection, account, analyst)
    assert purse is not None
    if cursor.rowcount:
        log.append("purse", account=account, purse=purse, detail=analyst)
    return purse


def columns(terms: Terms) -> tuple[object, ...]:
    """The terms as the account's row holds them: the values of ACCOUNT_TERMS. Takes some milliseconds the first time
    under Gaussian composition."""
    joint_epsilon, joint_delta = terms.joint_epsilon, terms.joint_delta
    joint: tuple[str | None, str | None, str | None] = (None, None, None)
    if joint_epsilon is not None and joint_delta is not None:
        squared = _mu_squared(terms.composition, joint_epsilon, joint_delta)
        joint = written(joint_epsilon), written(joint_delta), written(squared)
    own = (
        written(terms.epsilon),
        written(terms.delta),
        written(_mu_squared(terms.composition, terms.epsilon, terms.delta)),
    )
    return (
        *(terms.name, terms.unit, terms.composition, int(terms.per_analyst), *own),
        *(terms.renew, *joint, terms.max_failures),
    )


def _first_time(log: Log, terms: Terms) -> int:
    values = columns(terms)
    cursor = log.connection.execute(
        f"INSERT INTO account ({', '.join(ACCOUNT_TERMS)}, opened) VALUES ({'?, ' * len(values)}?)", (*values, log.at)
    )
    account = cursor.lastrowid
    assert account is not None
    log.append("opened", account=account, detail=terms_text(values))
    return account


def _again(file: LedgerFile, log: Log, terms: Terms, account: int) -> int:
    """Check what must be as it was, and take over what may change."""
    query = f"SELECT {', '.join(ACCOUNT_TERMS)} FROM account WHERE id = ?"
    row = log.connection.execute(query, (account,)).fetchone()
    file.check_types(row, str, str, str, int, str, str, str, str)
    was, asked = dict(zip(ACCOUNT_TERMS, row, strict=True)), dict(zip(ACCOUNT_TERMS, columns(terms), strict=True))
    # An account whose analysts had purses before there was a joint one has nothing to add their spending up by.
    kinds = [f"{'for all analysts' if one['joint_epsilon'] is None else 'per analyst'}" for one in (was, asked)]
    differences = [f"a budget {kinds[0]}, not {kinds[1]}"] if kinds[0] != kinds[1] else []
    differences += [
        f"{words} {show(was[name])}, not {show(asked[name])}"
        for name, words, show in (
            ("unit", "unit", lambda unit: f'"{unit}"'),
            ("composition", "composition", lambda word: f'"{word}"'),
            ("delta", "delta", lambda amount: amount.removesuffix("/1")),
            ("renew", "renew", lambda word: f'"{word}"'),
        )
        if was[name] != asked[name]
    ]
    if differences:
        reason = f'the account "{terms.name}" was opened with {"; with ".join(differences)}'
        raise refusal("DP404", reason, repair=NEW_ACCOUNT)
    if was != asked:
        changed = ", ".join(f"{name} = ?" for name in ACCOUNT_TERMS)
        log.connection.execute(f"UPDATE account SET {changed} WHERE id = ?", (*asked.values(), account))
        log.append("changed", account=account, detail=terms_text(tuple(asked.values())))
    return account


@lru_cache(maxsize=64)
def _mu_squared(composition: str, epsilon: Fraction, delta: Fraction) -> Fraction:
    """What may be spent under Gaussian composition."""
    return gaussian_budget(epsilon, delta)[0] if composition == GAUSSIAN else Fraction(0)


def _check_sources(connection: sqlite3.Connection, terms: Terms) -> None:
    for source in terms.sources:
        row = connection.execute(
            "SELECT name FROM source JOIN account ON account.id = source.account WHERE path = ?", (source,)
        ).fetchone()
        if row is not None and row[0] != terms.name:
            reason = f'the source {source} already spends from the account "{row[0]}", not "{terms.name}"'
            raise refusal("DP404", reason, repair=f'set account = "{row[0]}" in the policy; or {NEW_ACCOUNT}')


def check_amounts(*amounts: object) -> None:
    """Floats are not exact, and a negative charge would be a refund: neither can come from a sound plan."""
    for amount in amounts:
        if not isinstance(amount, Fraction) or amount < 0:
            raise refusal("DP901", "an amount that is not a Fraction of at least 0")
        check_size(amount)


def check_size(*amounts: Fraction) -> None:
    if any(max(a.numerator.bit_length(), a.denominator.bit_length()) > MAX_BITS for a in amounts):
        raise refusal("DP402", "the amount has too many digits to be added exactly", repair="SET epsilon = 0.1")


def plain(text: str) -> str:
    """Text that UTF-8 can write: lone surrogates (file names, hostile strings) become escapes."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
