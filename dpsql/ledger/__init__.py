"""What has been spent. `accounts` decides and remembers, in the amounts of `balance`; `file` keeps it on the disk."""

from dpsql.ledger.accounts import Ledger, Terms, terms
from dpsql.ledger.balance import Balance, Charge
from dpsql.ledger.file import default_path

__all__ = ["Balance", "Charge", "Ledger", "Terms", "default_path", "terms"]
