"""What has been spent: the budget that outlives every session.

Role: say yes or no to a charge, and remember it. Promises:

- A charge is on the disk before `charge` returns, and so before the engine is asked anything. It is never given
  back, not after a failure, a cancel or a crash: whether a statement fails depends on the data, so a refund
  would be an answer that nobody paid for (Haeberlen, Pierce, Narayan 2011).
- The charges of a purse add up to at most its budget, in each window where it is renewed. Read, comparison and write
  are one transaction that holds the file's write lock, whatever threads and processes do, and amounts are Fractions:
  ten charges of 1/10 are exactly 1. Under Gaussian composition it is the mu^2 of charges that add up, to at most that
  of the account. Each charge may be chosen after all earlier answers were seen: why both stay (epsilon, delta)-DP is
  proved in `privacy/accounting`; why windows cost what they cost, in `clock`.
- A budget belongs to the data: an account keeps its terms and its sources, and neither a new session, a new
  snapshot, a copied policy nor another name for the account refills it. Only the owner's `open_new` does.
- Of the data it holds noisy answers alone. It never sees an exact value.

A purse for each analyst. Two promises hold at once. All that all analysts see together is within the joint budget, even
if they pool it: every release that any of them paid for is charged to the joint purse once, and giving the same stored
answer to a second analyst adds nothing to what they know together, for it is the same random variable. All that one
analyst sees is within that analyst's budget: for this view the answer is new, whoever had it before, so the second
analyst is charged for it in full, and would be charged the same had nobody asked before; the induction of
`privacy/accounting` runs over the charges of this purse, where each answer is drawn from a mechanism of its price
independently of all that this analyst saw. That independence is what the owner asserts with `per_analyst = true`: that
nobody's questions carry another's answers to them. Two things of others an analyst does come to see. That all together
have spent the joint budget, or failed too often: it is told without amounts, and `Balance` speaks of one's own purse.
And, once it is spent, which questions somebody was answered before: these still are, to who pays, and others are not.
Whatever an analyst makes of that stays within the joint promise, which needs no such assertion.

A stored answer with discrete Laplace noise may be refined for the difference (`privacy/refinement`), once: two finer
answers, each drawn given the same one, tell more than what both are charged. So the charge marks it, in its own
transaction, and another charge that would refine it is not made. That is kept where one purse is charged for all that
is told of one answer, by sums over all time: under basic composition, without windows, and without a purse for each
analyst, where what one has seen refined another may have in their own purse.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from pathlib import Path

from dpsql.errors import Error, refusal
from dpsql.ledger import answers, clock, record
from dpsql.ledger.balance import Balance, Charge, Kept, Paid, State, exhausted, exhausted_together, unfinished
from dpsql.ledger.chain import Chain, Log
from dpsql.ledger.file import LedgerFile, written
from dpsql.ledger.schema import CHARGE, digest_of
from dpsql.ledger.terms import (
    Terms,
    check_amounts,
    check_size,
    columns,
    enter,
    make_purse,
    open_account,
    plain,
    purse_of,
)
from dpsql.privacy.accounting import BASIC, GAUSSIAN, Price

_STATE = (
    "SELECT composition, closed IS NOT NULL, {spent}, epsilon, delta, mu_squared, joint_epsilon, joint_delta,"
    " joint_mu_squared FROM account"
)
_OF_PURSE = "purse.window, statements, spent_epsilon, spent_delta, spent_mu_squared"
_SPENT = _STATE.format(spent=_OF_PURSE) + " JOIN purse ON purse.account = account.id WHERE purse.id = ?"
_UNSPENT = _STATE.format(spent="0, 0, '0/1', '0/1', '0/1'") + " WHERE account.id = ?"


class Ledger:
    """One session's view of one account. Threads may share it; better, each opens its own on the same file."""

    def __init__(self, file: LedgerFile, chain: Chain, terms: Terms, numbers: tuple[int, int | None, int | None]):
        self._file, self._chain, self._terms = file, chain, terms
        self._account, self._purse, self._joint = numbers

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
        """For the owner alone: take charges again after too many failures. What was spent stays spent."""
        file = LedgerFile(path)
        try:
            with Chain(file).writing() as log:
                number = open_account(log.connection, plain(account))
                if number is None:
                    raise refusal("DP404", f'the ledger has no account "{account}"')
                log.connection.execute("UPDATE purse SET failures = 0 WHERE account = ?", (number,))
                log.append("reopened", account=number)
        finally:
            file.close()

    def balance(self) -> Balance:
        """What this purse has spent and has left in the present window."""
        return self._balances(every=False)[0]

    def balances(self) -> list[Balance]:
        """For the owner: of every purse of the account, that of all together first."""
        return self._balances(every=True)

    def _balances(self, *, every: bool) -> list[Balance]:
        with self._file.transaction(write=False) as connection:
            number = clock.window(self._terms.renew, clock.read(connection).at)
            found = self.states(connection, number, every=every)
        return [self.told(state, number, last, analyst) for state, last, analyst in found]

    def states(
        self, connection: sqlite3.Connection, number: int, *, every: bool
    ) -> list[tuple[State, Price | None, str]]:
        """This purse in the window of this number, or with `every` all that the account has; the last charge of each,
        and whose it is."""
        purses: list[tuple[int | None, str]] = [(self._own(connection), self._terms.analyst)]
        if every:
            query = "SELECT id, analyst FROM purse WHERE account = ? ORDER BY analyst"
            purses = connection.execute(query, (self._account,)).fetchall()
        return [
            (self._read(connection, purse, number), self._last(connection, purse), analyst) for purse, analyst in purses
        ]

    def paid(self, most: int) -> list[Paid]:
        """What this purse was charged for by itself: the last charges, the newest first, in whatever window."""
        query = (
            "SELECT at, statement, state, epsilon, delta, mu_squared FROM charge WHERE purse = ?"
            " ORDER BY id DESC LIMIT ?"
        )
        with self._file.transaction(write=False) as connection:
            rows = connection.execute(query, (self._own(connection), most)).fetchall()
        for row in rows:
            self._file.check_types(row, int, *[str] * 5)
        return [Paid(at, Price(*map(self._file.exact, amounts)), text, state) for at, text, state, *amounts in rows]

    @property
    def refines(self) -> bool:
        """Whether a stored answer may be refined for the difference."""
        return self._terms.composition == BASIC and self._joint is None and self._terms.renew == "never"

    def charge(self, charge: Charge) -> int:
        """Spend, durable on return, or raise DP401 (not enough left), DP404 (account closed), DP405 (frozen), DP501 (it
        is spent, and the ledger failed then), AlreadyRefined (another charge was first)."""
        price, joint = charge.price, None
        check_amounts(*price.amounts)
        if not price.epsilon and not price.delta:
            raise refusal("DP901", "a charge of nothing")
        if (self._terms.composition == GAUSSIAN and price.epsilon > 0) != (price.mu_squared > 0):
            raise refusal("DP901", "a charge that another composition counts")
        if charge.refines and not self.refines:
            raise refusal("DP901", "a charge for a difference that this account cannot add up")
        if self._joint is not None:
            joint = price if charge.joint is None else charge.joint
            check_amounts(*joint.amounts)
            if self._joint == self._purse or joint.exceeds(price):
                raise refusal("DP901", "a charge to all analysts together that is none of one of them")
        log = None
        try:
            with self._chain.writing() as log:
                taken = self._take(log, charge, joint)
        except Error as error:
            if log is None or not log.committed:
                raise
            raise refusal("DP501", f"{error.reason}; the charge stays", repair=error.repair) from None
        identity, self._purse = taken  # the purse not before it is there for good
        return identity

    def finish(self, charge_id: int, releases: Mapping[str, bytes]) -> Balance:
        """Mark the charge answered and keep its noisy answers by fingerprint, so that a repeat is free; what is left.

        Where the account was frozen after the charge, the charge has failed (DP501), whether or not the engine did:
        else as many failures could be seen as statements are under way at once, before any of them is counted.

        Where two sessions paid for one release at once, the first answer is the one that repeats give.

        The disk is not waited for: a power cut may take the answers stored last, never a charge, which was on the disk
        before its engine ran. The repeat of a lost answer is charged again and gets noise of its own: the analyst has
        then seen two releases and paid for two. The charge stays `asked`, as after a kill, and counts all the same.
        """
        with self._chain.writing(durable=False) as log:
            if frozen := self._failures(log.connection, self._purse)[1]:
                self._fail(log, charge_id)
            else:
                self._settle(log.connection, charge_id, "answered")
                kept = answers.keep(log.connection, charge_id, releases)
                log.append("answered", purse=self._purse, charge=charge_id, detail=digest_of(kept))
            number = clock.window(self._terms.renew, log.at)
            state = self._read(log.connection, self._purse, number)
        if frozen:
            raise unfinished()
        return self.told(state, number)

    def fail(self, charge_id: int) -> None:
        """The engine failed after the charge: counted, never refunded."""
        with self._chain.writing() as log:
            self._fail(log, charge_id)

    def find(self, fingerprints: Sequence[str], snapshot: str) -> dict[str, list[Kept]]:
        """The stored answers of releases that this purse has paid for, in whatever window, by fingerprint. One that
        ends in a point stands for all that begin with it: at most MOST_ANSWERS in all, the last ones of each first."""
        with self._file.transaction(write=False) as connection:
            return answers.find(self._file, connection, self._own(connection), plain(snapshot), fingerprints)

    def find_shared(self, fingerprint: str, snapshot: str) -> bytes | None:
        """The stored answer of a release that another analyst's purse has paid for: to be given out after a charge of
        its whole price that is joint by nothing. None wherever one purse is all there is."""
        if self._joint is None:
            return None
        with self._file.transaction(write=False) as connection:
            return answers.find_of_any(self._file, connection, self._account, plain(snapshot), plain(fingerprint))

    def verify(self) -> record.Verified:
        """Read the whole file: pages, keys, the record with its seals, and what it adds up to. DP403 where anything
        differs."""
        return record.verify(self._file, self._chain.keys)

    def close(self) -> None:
        self._file.close()

    # -- within a transaction -------------------------------------------------------------------------------------

    def _own(self, connection: sqlite3.Connection) -> int | None:
        """The number of this analyst's purse; None before the first charge."""
        return self._purse if self._purse is not None else purse_of(connection, self._account, self._terms.analyst)

    def _read(self, connection: sqlite3.Connection, purse: int | None, number: int) -> State:
        """What a purse may spend in the window of this number, and has spent in it: nothing, where there is none."""
        row = connection.execute(
            _UNSPENT if purse is None else _SPENT, (self._account if purse is None else purse,)
        ).fetchone()
        self._file.check_types(row, str, int, int, int, *[str] * 6, *[str if self._joint else type(None)] * 3)
        if row[2] > number:
            raise self._file.refused("is damaged: it holds spending of a time to come")
        spent = Price(*map(self._file.exact, row[4:7])) if row[2] == number else Price()
        allowed = Price(*map(self._file.exact, row[10:13] if purse == self._joint else row[7:10]))
        return State(row[0], allowed, spent, row[3], bool(row[1]))

    def _last(self, connection: sqlite3.Connection, purse: int | None) -> Price | None:
        """The price of the last statement that the purse was charged for by itself."""
        query = "SELECT epsilon, delta, mu_squared FROM charge WHERE purse = ? ORDER BY id DESC LIMIT 1"
        row = connection.execute(query, (purse,)).fetchone()
        return None if row is None else Price(*map(self._file.exact, row))

    def _window(self, log: Log) -> int:
        """The number of the present window. A clock that was set back opens no window, and does not go unnoticed."""
        if self._terms.renew != "never" and log.time.set_back:
            reason = f"has seen a later time, {clock.shown(log.at)}, than the clock of this machine tells"
            raise self._file.refused(reason, "set the clock right; what is stored is answered meanwhile")
        return clock.window(self._terms.renew, log.at)

    def _fail(self, log: Log, charge_id: int) -> None:
        self._settle(log.connection, charge_id, "failed")
        query = "UPDATE purse SET failures = failures + 1 WHERE id IN (?, ?)"
        log.connection.execute(query, (self._purse, self._joint))
        log.append("failed", purse=self._purse, charge=charge_id)

    def _failures(self, connection: sqlite3.Connection, purse: int | None) -> tuple[int, bool]:
        """How often the engine failed, and whether that freezes the account, not a purse: names of analysts are easily
        made, and each failure may tell a bit."""
        query = (
            "SELECT COALESCE(MAX(failures), 0), max_failures FROM account"
            " LEFT JOIN purse ON purse.id IN (?, ?) WHERE account.id = ?"
        )
        row = connection.execute(query, (purse, self._joint, self._account)).fetchone()
        self._file.check_types(row, int, int)
        return row[0], row[0] >= row[1]

    def _take(self, log: Log, charge: Charge, joint: Price | None) -> tuple[int, int]:
        """The charge and its purse, where nothing forbids it."""
        number, price = self._window(log), charge.price
        purse = self._own(log.connection)
        mine = self._read(log.connection, purse, number)
        others = mine if self._joint is None else self._read(log.connection, self._joint, number)
        if mine.closed or not self._owns_sources(log.connection):
            reason = f'the account "{self._terms.name}" was closed or lost a source after this connection opened it'
            raise refusal("DP404", reason, repair="connect again")
        failures, frozen = self._failures(log.connection, purse)
        if frozen:
            reason = f'the account "{self._terms.name}" is frozen after {failures} failures of the engine'
            raise refusal("DP405", reason, repair="the data owner can reopen it with `dpsql budget reopen`")
        if not mine.allows(price):
            raise exhausted(price, mine, self._renewed(number))
        if joint and not others.allows(joint):
            raise exhausted_together(self._renewed(number))
        if purse is None:
            purse = make_purse(log, self._account, self._terms.analyst)
        identity = self._write(log, purse, charge, joint, number)
        answers.refine(log.connection, purse, plain(charge.snapshot), identity, charge.refines)
        self._spend(log.connection, purse, mine.spent + price, number)
        if self._joint is not None and joint is not None:
            self._spend(log.connection, self._joint, others.spent + joint, number)
        return identity, purse

    def _write(self, log: Log, purse: int, charge: Charge, joint: Price | None, number: int) -> int:
        row: tuple[object, ...] = (
            *(purse, *map(written, charge.price.amounts)),
            *((None, None, None) if joint is None else map(written, joint.amounts)),
            *(number, plain(charge.statement), plain(charge.fingerprint), plain(charge.snapshot)),
            *(plain(charge.policy), log.at),
        )
        names = ", ".join(CHARGE[1:])
        cursor = log.connection.execute(f"INSERT INTO charge ({names}, state) VALUES ({'?, ' * len(row)}'asked')", row)
        identity = cursor.lastrowid
        assert identity is not None
        refines = json.dumps(charge.refines) if charge.refines else ""
        log.append("asked", purse=purse, charge=identity, detail=refines, content=(identity, *row))
        return identity

    def _spend(self, connection: sqlite3.Connection, purse: int, spent: Price, number: int) -> None:
        check_size(*spent.amounts)
        connection.execute(
            "UPDATE purse SET spent_epsilon = ?, spent_delta = ?, spent_mu_squared = ?, window = ?,"
            " statements = statements + 1 WHERE id = ?",
            (*map(written, spent.amounts), number, purse),
        )

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

    # -- outside of one -------------------------------------------------------------------------------------------

    def told(self, state: State, number: int, last: Price | None = None, analyst: str | None = None) -> Balance:
        """A state of `states` as people are told it. Not to be asked for while others wait for the file."""
        renew = self._terms.renew
        name = self._terms.analyst if analyst is None else analyst
        return state.balance(analyst=name, renew=renew, renews=clock.begins(renew, number + 1), last=last)

    def _renewed(self, number: int) -> str:
        """What a refusal says of the next window."""
        at = clock.begins(self._terms.renew, number + 1)
        return "" if at is None else f"wait until {clock.shown(at)}, when the budget is renewed"


def _enter(path: Path | None, terms: Terms, *, new: bool) -> Ledger:
    columns(terms)  # takes long at first: not while others wait for the file
    file = LedgerFile(path)
    try:
        chain = Chain(file)
        with chain.writing() as log:
            numbers = enter(file, log, terms, new=new)
    except BaseException:
        file.close()
        raise
    return Ledger(file, chain, terms, numbers)
