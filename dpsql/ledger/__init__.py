"""What has been spent. `accounts` says yes or no to a charge, in the amounts of `balance`, on the owner's `terms` and
in the window that `clock` tells, and gives out stored `answers`; `chain` seals the `record` of it all; `file` keeps it
on the disk, in the tables of `schema`."""

from dpsql.ledger.accounts import Ledger
from dpsql.ledger.balance import AlreadyRefined, Balance, Charge, Kept, Paid, renewal, unfinished
from dpsql.ledger.clock import shown
from dpsql.ledger.file import chains, default_path
from dpsql.ledger.look import look, spent
from dpsql.ledger.terms import Terms, terms
from dpsql.privacy.accounting import Price

__all__ = [
    "AlreadyRefined",
    "Balance",
    "Charge",
    "Kept",
    "Ledger",
    "Paid",
    "Price",
    "Terms",
    "chains",
    "default_path",
    "look",
    "renewal",
    "shown",
    "spent",
    "terms",
    "unfinished",
]
