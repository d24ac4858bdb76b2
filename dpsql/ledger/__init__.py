"""What has been spent. `accounts` decides and remembers; `file` keeps it safely on the disk."""

from dpsql.ledger.accounts import Balance, Charge, Ledger, Terms, terms
from dpsql.ledger.file import default_path

__all__ = ["Balance", "Charge", "Ledger", "Terms", "default_path", "terms"]
