"""The data of the two choices: votes for four sports, bids for a thing of which there is plenty.

    python data.py FILE.duckdb

Made once; a file that is there is left as it is.
"""

from __future__ import annotations

import sys
from pathlib import Path

import duckdb

VOTES = {"football": 30, "volleyball": 25, "running": 8, "rugby": 2}
BIDS = ("1.00", "1.00", "1.00", "3.01")
PRICES = ("1.00", "3.01", "3.02")


def write(file: Path) -> None:
    """A database with the votes, the bids and the prices to choose from."""
    with duckdb.connect(str(file)) as database:
        database.execute("CREATE TABLE votes (voter INTEGER, sport VARCHAR)")
        sports = [sport for sport, votes in VOTES.items() for _ in range(votes)]
        database.executemany("INSERT INTO votes VALUES (?, ?)", list(enumerate(sports, 1)))
        database.execute("CREATE TABLE bids (bidder INTEGER, bid DECIMAL(6, 2))")
        database.executemany("INSERT INTO bids VALUES (?, ?)", list(enumerate(BIDS, 1)))
        database.execute("CREATE TABLE prices (price DECIMAL(6, 2))")
        database.executemany("INSERT INTO prices VALUES (?)", [[price] for price in PRICES])


if __name__ == "__main__":
    target = Path(sys.argv[1])
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        write(target)
