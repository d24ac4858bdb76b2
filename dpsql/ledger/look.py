"""What an account has spent, for whoever only looks: nothing is written here, and no ledger made."""

from __future__ import annotations

from contextlib import closing, suppress
from fractions import Fraction
from pathlib import Path

from dpsql.ledger import clock
from dpsql.ledger.accounts import Ledger
from dpsql.ledger.balance import Balance, State
from dpsql.ledger.chain import Chain
from dpsql.ledger.file import LedgerFile
from dpsql.ledger.terms import Terms, columns, enter, open_account, plain, purse_of
from dpsql.privacy.accounting import Price


class _OnlyLooking(Exception):
    """Ends a transaction, which is rolled back."""


def look(path: Path | None, terms: Terms, *, every: bool) -> list[Balance]:
    """What `Ledger.balance`, or with `every` `Ledger.balances`, would say of the account under these terms: it is
    opened, and that taken back. Where there is no ledger yet, the budget is whole. Raises as `Ledger.open`."""
    values = columns(terms)
    with closing(LedgerFile(path, make=False)) as file:
        if file.path.exists():
            chain = Chain(file)
            with suppress(_OnlyLooking), chain.writing() as log:
                ledger = Ledger(file, chain, terms, enter(file, log, terms, new=False))
                number = clock.window(terms.renew, log.at)
                found = ledger.states(log.connection, number, every=every)
                raise _OnlyLooking
            return [ledger.told(state, number, last, analyst) for state, last, analyst in found]
    own, joint = values[4:7], values[8:11]
    texts = joint if terms.per_analyst and not terms.analyst else own
    state = State(terms.composition, Price(*(Fraction(str(text)) for text in texts)), Price(), 0, False)
    renews = clock.begins(terms.renew, clock.window(terms.renew, clock.wall()) + 1)
    return [state.balance(analyst=terms.analyst, renew=terms.renew, renews=renews)]


def spent(path: Path | None, account: str) -> tuple[Price, int]:
    """What the open account of this name has spent in its last window, all analysts together, and in how many
    statements; nothing where there is none."""
    with closing(LedgerFile(path, make=False)) as file:
        if not file.path.exists():
            return Price(), 0
        with file.transaction(write=False) as connection:
            number = open_account(connection, plain(account))
            purse = None if number is None else purse_of(connection, number, "")
            query = "SELECT statements, spent_epsilon, spent_delta, spent_mu_squared FROM purse WHERE id = ?"
            row = (0, "0/1", "0/1", "0/1") if purse is None else connection.execute(query, (purse,)).fetchone()
            file.check_types(row, int, str, str, str)
    return Price(*map(file.exact, row[1:])), row[0]
