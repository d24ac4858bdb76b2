"""What has been spent. `accounts` decides and remembers; `file` keeps it safely on the disk."""

from dpsql.ledger.accounts import Balance, Charge, Ledger
from dpsql.ledger.file import default_path

__all__ = ["Balance", "Charge", "Ledger", "default_path"]
