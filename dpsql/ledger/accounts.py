"""What has been spent: the budget that outlives every session.

Role: say yes or no to a charge, and remember it. Promises:

- A charge is on the disk before `charge` returns, and so before the engine is asked anything. It is never given
  back, not after a failure, a cancel or a crash: whether a statement fails depends on the data, so a refund
  would be an answer that nobody paid for (Haeberlen, Pierce, Narayan 2011).
- The charges of a purse add up to at most its budget. Read, comparison and write are one transaction that holds
  the file's write lock, whatever threads and processes do, and amounts are Fractions: ten charges of 1/10 are
  exactly 1. Under Gaussian composition it is the mu^2 of charges that add up, to at most that of the account. Each
  charge may be chosen after all earlier answers were seen: why both stay (epsilon, delta)-DP is proved in
  `privacy/accounting`.
- A budget belongs to the data: an account keeps its terms and its sources, and neither a new session, a new
  snapshot, a copied policy nor another name for the account refills it. Only the owner's `open_new` does.
- Of the data it holds noisy answers alone. It never sees an exact value.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from dpsql.errors import refusal
from dpsql.ledger.balance import Balance, Charge, State, exhausted
from dpsql.ledger.file import LedgerFile, now, written
from dpsql.privacy.accounting import BASIC, GAUSSIAN, gaussian_budget

MAX_FAILURES = 3
"""Engine failures after which an account takes no more charges: each one may tell an exact bit about the data."""

MAX_BITS = 3300
"""Size of numerator and denominator, about 1,000 digits: what keeps the running sum short."""

NEW_ACCOUNT = "`dpsql budget open --new` opens a new account under these terms; the old spending stays on record"


@dataclass(frozen=True, slots=True)
class Terms:
    """What an account is opened with; made by `terms`. `analyst` '' means that all analysts spend from one purse."""

    name: str
    analyst: str
    unit: str
    composition: str
    epsilon: Fraction
    delta: Fraction
    sources: tuple[str, ...]


def terms(
    account: str,
    *,
    epsilon: Fraction,
    delta: Fraction,
    composition: str,
    unit: str,
    sources: Sequence[str],
    analyst: str | None,
) -> Terms:
    """The terms, in text that the ledger can hold.

    `sources`: resolved absolute paths (or other addresses) of the data. `analyst`: only where the owner's policy
    gives each analyst a budget of their own; None is one budget for all, which holds even if they pool their answers.
    """
    _check_amounts(epsilon, delta)
    if composition not in (BASIC, GAUSSIAN) or (composition == GAUSSIAN and delta == 0):
        raise refusal("DP901", "charges add up by basic composition, or with a delta by Gaussian")
    if analyst == "" or not account or epsilon == 0 or delta >= 1:
        raise refusal("DP901", "an account needs a name, an epsilon above 0 and a delta below 1")
    name, purse, unit, composition = map(_plain, (account, analyst or "", unit, composition))
    return Terms(name, purse, unit, composition, epsilon, delta, tuple(dict.fromkeys(map(_plain, sources))))


class Ledger:
    """One session's view of one account. Threads may share it; better, each opens its own on the same file."""

    def __init__(self, file: LedgerFile, terms: Terms, account: int, purse: int):
        self._file, self._terms, self._account, self._purse = file, terms, account, purse

    @staticmethod
    def open(path: Path | None, terms: Terms) -> Ledger:
        """Open the account, for the first time or again. A changed epsilon keeps what was spent.

        DP404 where the account has other terms, or a source spends from another account.
        """
        return _enter(path, terms, new=False)

    @staticmethod
    def open_new(path: Path | None, terms: Terms) -> Ledger:
        """For the owner alone: a fresh account under these terms that takes the sources over.

        An account of the same name is closed, with all its purses, and stays on record; sessions that still
        spend from it, or from an account that loses a source here, are stopped at their next charge.
        """
        return _enter(path, terms, new=True)

    @staticmethod
    def reopen(path: Path | None, account: str) -> None:
        """For the owner alone: take charges again after `MAX_FAILURES` failures. What was spent stays spent."""
        file = LedgerFile(path)
        try:
            with file.transaction(write=True) as connection:
                row = _open_account(connection, _plain(account))
                if row is None:
                    raise refusal("DP404", f'the ledger has no account "{account}"')
                connection.execute("UPDATE purse SET failures = 0 WHERE account = ?", (row[0],))
                _note(connection, row[0], "reopened")
        finally:
            file.close()

    def balance(self) -> Balance:
        with self._file.transaction(write=False) as connection:
            state = self._read(connection)
        return state.balance

    def charge(self, charge: Charge) -> int:
        """Spend, or raise DP401 (not enough left), DP404 (account closed) or DP405 (frozen). Durable on return."""
        _check_amounts(charge.epsilon, charge.delta, charge.mu_squared)
        if not charge.epsilon and not charge.delta:
            raise refusal("DP901", "a charge of nothing")
        if (self._terms.composition == GAUSSIAN and charge.epsilon > 0) != (charge.mu_squared > 0):
            raise refusal("DP901", "a charge that another composition counts")
        with self._file.transaction(write=True) as connection:
            state = self._read(connection)
            if state.closed or not self._owns_sources(connection):
                reason = f'the account "{self._terms.name}" was closed or lost a source after this connection opened it'
                raise refusal("DP404", reason, repair="connect again")
            if state.failures >= MAX_FAILURES:
                reason = f'the account "{self._terms.name}" is frozen after {state.failures} failures of the engine'
                raise refusal("DP405", reason, repair="the data owner can reopen it with `dpsql budget reopen`")
            if not state.allows(charge):
                raise exhausted(charge, state)
            spent = (
                state.spent_epsilon + charge.epsilon,
                state.spent_delta + charge.delta,
                state.spent_mu_squared + charge.mu_squared,
            )
            _check_size(*spent)
            cursor = connection.execute(
                "INSERT INTO charge"
                " (purse, epsilon, delta, mu_squared, statement, fingerprint, snapshot, policy, state, at)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?, 'asked', ?)",
                (self._purse, *map(written, (charge.epsilon, charge.delta, charge.mu_squared)))
                + (_plain(charge.statement), _plain(charge.fingerprint), _plain(charge.snapshot))
                + (_plain(charge.policy), now()),
            )
            connection.execute(
                "UPDATE purse SET spent_epsilon = ?, spent_delta = ?, spent_mu_squared = ?,"
                " statements = statements + 1 WHERE id = ?",
                (*map(written, spent), self._purse),
            )
            identity = cursor.lastrowid
            assert identity is not None
        return identity

    def finish(self, charge_id: int, releases: Mapping[str, bytes]) -> Balance:
        """Mark the charge answered and keep its noisy answers by fingerprint, so that a repeat is free; what is left.

        Where two sessions paid for one release at once, the first answer is the one that repeats give.

        The disk is not waited for: a power cut may take the answers stored last, never a charge, which was on the disk
        before its engine ran. The repeat of a lost answer is charged again and gets noise of its own: the analyst has
        then seen two releases and paid for two. The charge stays `asked`, as after a kill, and counts all the same.
        """
        with self._file.transaction(write=True, durable=False) as connection:
            self._settle(connection, charge_id, "answered")
            connection.executemany(
                "INSERT INTO release (purse, snapshot, fingerprint, charge, answer)"
                " SELECT purse, snapshot, ?, id, ? FROM charge WHERE id = ?"
                " ON CONFLICT (purse, snapshot, fingerprint) DO NOTHING",
                [(_plain(fingerprint), answer, charge_id) for fingerprint, answer in releases.items()],
            )
            state = self._read(connection)
        return state.balance

    def fail(self, charge_id: int) -> None:
        """The engine failed after the charge: counted, never refunded."""
        with self._file.transaction(write=True) as connection:
            self._settle(connection, charge_id, "failed")
            connection.execute("UPDATE purse SET failures = failures + 1 WHERE id = ?", (self._purse,))

    def find(self, fingerprint: str, snapshot: str) -> bytes | None:
        """The stored answer of a release that this purse has paid for."""
        with self._file.transaction(write=False) as connection:
            row = connection.execute(
                "SELECT answer FROM release WHERE purse = ? AND snapshot = ? AND fingerprint = ?",
                (self._purse, _plain(snapshot), _plain(fingerprint)),
            ).fetchone()
            if row is None:
                return None
            self._file.check_types(row, bytes)
            answer: bytes = row[0]
        return answer

    def verify(self) -> None:
        """Read the whole file: pages, keys, and the sum of every purse. DP403 where anything differs."""
        with self._file.transaction(write=False) as connection:
            if connection.execute("PRAGMA integrity_check(1)").fetchone() != ("ok",):
                raise self._file.refused("is damaged")
            if connection.execute("PRAGMA foreign_key_check").fetchone() is not None:
                raise self._file.refused("is damaged: its rows contradict each other")
            for purse, *spent, statements in connection.execute(
                "SELECT id, spent_epsilon, spent_delta, spent_mu_squared, statements FROM purse"
            ).fetchall():
                sums, count = [Fraction(0)] * 3, 0
                query = "SELECT epsilon, delta, mu_squared FROM charge WHERE purse = ?"
                for row in connection.execute(query, (purse,)):
                    sums = [total + self._file.exact(amount) for total, amount in zip(sums, row, strict=True)]
                    count += 1
                if [*map(self._file.exact, spent), statements] != [*sums, count]:
                    raise self._file.refused("is damaged: its charges do not add up to what it says was spent")

    def close(self) -> None:
        self._file.close()

    def _read(self, connection: sqlite3.Connection) -> State:
        """What is allowed and spent, and whether a newer account has taken this one's place (`closed`)."""
        row = connection.execute(
            "SELECT composition, epsilon, delta, mu_squared, spent_epsilon, spent_delta, spent_mu_squared,"
            " statements, failures, closed IS NOT NULL"
            " FROM purse JOIN account ON account.id = purse.account WHERE purse.id = ?",
            (self._purse,),
        ).fetchone()
        self._file.check_types(row, *[str] * 7, int, int, int)
        epsilon, delta, mu_squared, spent_epsilon, spent_delta, spent_mu_squared = map(self._file.exact, row[1:7])
        spent = spent_epsilon, spent_delta, spent_mu_squared
        return State(row[0], epsilon, delta, mu_squared, *spent, row[7], row[8], bool(row[9]))

    def _owns_sources(self, connection: sqlite3.Connection) -> bool:
        query = "SELECT 1 FROM source WHERE path = ? AND account = ?"
        return all(connection.execute(query, (path, self._account)).fetchone() for path in self._terms.sources)

    def _settle(self, connection: sqlite3.Connection, charge_id: int, state: str) -> None:
        cursor = connection.execute(
            "UPDATE charge SET state = ? WHERE id = ? AND purse = ? AND state = 'asked'",
            (state, charge_id, self._purse),
        )
        if cursor.rowcount != 1:
            raise refusal("DP901", f"charge {charge_id} is not one that waits for its answer")


def _enter(path: Path | None, terms: Terms, *, new: bool) -> Ledger:
    file = LedgerFile(path)
    try:
        with file.transaction(write=True) as connection:
            found = _open_account(connection, terms.name)
            if found is not None:
                file.check_types(found, int, str, str, str, str, int)
            if new:
                if found is not None:
                    connection.execute("UPDATE account SET closed = ? WHERE id = ?", (now(), found[0]))
                    _note(connection, found[0], "closed: the owner opened a new account of this name")
                found = None
            else:
                _check_sources(connection, terms)
            account = _first_time(connection, terms) if found is None else _again(connection, terms, found)
            connection.executemany(
                "INSERT INTO source (path, account) VALUES (?, ?)"
                " ON CONFLICT (path) DO UPDATE SET account = excluded.account WHERE account <> excluded.account",
                [(source, account) for source in terms.sources],
            )
            owner = (account, terms.analyst)
            connection.execute(
                "INSERT INTO purse (account, analyst, spent_epsilon, spent_delta, statements, failures)"
                " VALUES (?, ?, '0/1', '0/1', 0, 0) ON CONFLICT (account, analyst) DO NOTHING",
                owner,
            )
            (purse,) = connection.execute("SELECT id FROM purse WHERE account = ? AND analyst = ?", owner).fetchone()
    except BaseException:
        file.close()
        raise
    return Ledger(file, terms, account, purse)


def _open_account(connection: sqlite3.Connection, name: str) -> tuple[int, str, str, str, str, int] | None:
    row: tuple[int, str, str, str, str, int] | None = connection.execute(
        "SELECT id, unit, composition, epsilon, delta, per_analyst FROM account WHERE name = ? AND closed IS NULL",
        (name,),
    ).fetchone()
    return row


def _first_time(connection: sqlite3.Connection, terms: Terms) -> int:
    cursor = connection.execute(
        "INSERT INTO account (name, unit, composition, per_analyst, epsilon, delta, mu_squared, opened)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (terms.name, terms.unit, terms.composition, terms.analyst != "")
        + (written(terms.epsilon), written(terms.delta), written(_mu_squared(terms)), now()),
    )
    account = cursor.lastrowid
    assert account is not None
    _note(connection, account, f"opened with epsilon {written(terms.epsilon)}")
    return account


def _again(connection: sqlite3.Connection, terms: Terms, found: tuple[int, str, str, str, str, int]) -> int:
    account, unit, composition, epsilon, delta, per_analyst = found
    differences = [
        f"{name} {was}, not {asked}"
        for name, was, asked in (
            ("unit", f'"{unit}"', f'"{terms.unit}"'),
            ("composition", f'"{composition}"', f'"{terms.composition}"'),
            ("delta", delta.removesuffix("/1"), written(terms.delta).removesuffix("/1")),
            ("a budget", *("per analyst" if each else "for all analysts" for each in (per_analyst, terms.analyst))),
        )
        if was != asked
    ]
    if differences:
        reason = f'the account "{terms.name}" was opened with {"; with ".join(differences)}'
        raise refusal("DP404", reason, repair=NEW_ACCOUNT)
    if epsilon != written(terms.epsilon):
        changed = written(terms.epsilon), written(_mu_squared(terms)), account
        connection.execute("UPDATE account SET epsilon = ?, mu_squared = ? WHERE id = ?", changed)
        _note(connection, account, f"epsilon changed from {epsilon} to {written(terms.epsilon)}")
    return account


def _mu_squared(terms: Terms) -> Fraction:
    """What may be spent under Gaussian composition."""
    return gaussian_budget(terms.epsilon, terms.delta)[0] if terms.composition == GAUSSIAN else Fraction(0)


def _check_sources(connection: sqlite3.Connection, terms: Terms) -> None:
    for source in terms.sources:
        row = connection.execute(
            "SELECT name FROM source JOIN account ON account.id = source.account WHERE path = ?", (source,)
        ).fetchone()
        if row is not None and row[0] != terms.name:
            reason = f'the source {source} already spends from the account "{row[0]}", not "{terms.name}"'
            raise refusal("DP404", reason, repair=f'set account = "{row[0]}" in the policy; or {NEW_ACCOUNT}')


def _note(connection: sqlite3.Connection, account: int, what: str) -> None:
    connection.execute("INSERT INTO event (account, what, at) VALUES (?, ?, ?)", (account, what, now()))


def _check_amounts(*amounts: object) -> None:
    """Floats are not exact, and a negative charge would be a refund: neither can come from a sound plan."""
    for amount in amounts:
        if not isinstance(amount, Fraction) or amount < 0:
            raise refusal("DP901", "an amount that is not a Fraction of at least 0")
        _check_size(amount)


def _check_size(*amounts: Fraction) -> None:
    if any(max(a.numerator.bit_length(), a.denominator.bit_length()) > MAX_BITS for a in amounts):
        raise refusal("DP402", "the amount has too many digits to be added exactly", repair="SET epsilon = 0.1")


def _plain(text: str) -> str:
    """Text that UTF-8 can write: lone surrogates (file names, hostile strings) become escapes."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
