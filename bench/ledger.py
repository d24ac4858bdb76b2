"""What a ledger that has grown costs: asked for its budget, for a stored answer, for a charge, and read as a whole.

    python -m bench.ledger build/tpch-0.01.duckdb [--releases 1000000]

The ledger is a fresh file beside the database, filled with charges and stored answers of a real size under the account
that the session then uses, entry by entry and sealed, as if they had been asked for. Each figure is the whole way of a
statement through the session, on a warm machine; the aim is at most 20 ms for the first two.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from fractions import Fraction
from pathlib import Path

from bench.tpch import POLICY
from dpsql.ledger.file import written
from dpsql.ledger.schema import CHARGE, digest_of
from dpsql.owner import verify_ledger
from dpsql.session import Session, open_session

AT_MOST_MS = 20.0
TURNS = 200
PART = 50_000
STATEMENT = "SELECT o_orderpriority, COUNT(*) AS n FROM orders WHERE o_totalprice < {limit} GROUP BY o_orderpriority"


def _base(number: int) -> str:
    """What the names of releases of the same rows begin with: a hundred of each."""
    return f"{number // 100:032x}."


def _name(number: int) -> str:
    return f"{_base(number)}{number:064x}"


def fill(session: Session, releases: int, answer: bytes, text: str) -> None:
    """So many charges with a stored answer each, written as `charge` and `finish` write them, many in one commit."""
    ledger = session._ledger
    epsilon, names = Fraction(1, 10**9), ", ".join(CHARGE[1:])
    snapshot = session.snapshot.facts.snapshot
    for start in range(0, releases, PART):
        part = range(start, min(start + PART, releases))
        with ledger._chain.writing() as log:
            purse = ledger._purse
            kept = []
            for number in part:
                fingerprint = _name(number)
                row = (purse, written(epsilon), "0/1", "0/1", None, None, None, 0)
                row += (text, fingerprint, snapshot, "digest", log.at)
                cursor = log.connection.execute(
                    f"INSERT INTO charge ({names}, state) VALUES ({'?, ' * len(row)}'answered')", row
                )
                identity = cursor.lastrowid
                log.append("asked", purse=purse, charge=identity, content=(identity, *row))
                detail = digest_of([(fingerprint, answer)])
                log.append("answered", purse=purse, charge=identity, detail=detail)
                kept.append((purse, snapshot, fingerprint, identity, answer))
            log.connection.executemany(
                "INSERT INTO release (purse, snapshot, fingerprint, charge, answer) VALUES (?, ?, ?, ?, ?)", kept
            )
            (spent,) = log.connection.execute("SELECT spent_epsilon FROM purse WHERE id = ?", (purse,)).fetchone()
            log.connection.execute(
                "UPDATE purse SET spent_epsilon = ?, statements = statements + ? WHERE id = ?",
                (written(Fraction(spent) + len(part) * epsilon), len(part), purse),
            )


def timed(call: Callable[[int], object]) -> tuple[float, float, float]:
    """Of the call, in milliseconds: median and 19th of 20 of its wall time, median of its time on the processor."""
    walls, processors = [], []
    for turn in range(TURNS):
        wall, processor = time.perf_counter(), time.process_time()
        call(turn)
        walls.append((time.perf_counter() - wall) * 1e3)
        processors.append((time.process_time() - processor) * 1e3)
    return statistics.median(walls), statistics.quantiles(walls, n=20)[-1], statistics.median(processors)


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure a ledger of many releases.")
    parser.add_argument("database", type=Path)
    parser.add_argument("--releases", type=int, default=1_000_000)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ledger-", dir=given.database.parent) as folder:
        os.environ["XDG_STATE_HOME"] = folder  # key and head of this ledger go with it
        path = Path(folder) / "ledger.sqlite"
        with closing(open_session(POLICY, given.database, ledger=path)) as session:
            session.execute("SET epsilon = 0.001")
            session.execute(STATEMENT.format(limit=1))
            with session._ledger._file.transaction(write=False) as connection:
                text, answer = connection.execute(
                    "SELECT statement, answer FROM charge JOIN release ON release.charge = charge.id"
                ).fetchone()
            before = time.perf_counter()
            fill(session, given.releases, answer, text)
            print(f"{given.releases:,} releases written in {time.perf_counter() - before:.0f} s")
        before = time.perf_counter()
        session = open_session(POLICY, given.database, ledger=path)
        print(f"a session opens in {(time.perf_counter() - before) * 1e3:.0f} ms; the file has", end=" ")
        print(f"{path.stat().st_size / 1e6:,.0f} MB")
        with closing(session):
            session.execute("SET epsilon = 0.001")
            repeated = STATEMENT.format(limit=1)
            ledger, snapshot = session._ledger, session.snapshot.facts.snapshot
            worst = 0.0
            for name, call, counts in (
                ("SHOW BUDGET", lambda _: session.execute("SHOW BUDGET"), True),
                ("a free repeat", lambda _: session.execute(repeated), True),
                ("a new statement", lambda turn: session.execute(STATEMENT.format(limit=1000 + turn)), False),
                ("the ledger's part of SHOW BUDGET", lambda _: ledger.balance(), False),
                ("of a free repeat", lambda turn: ledger.find([_name(turn * 4999)], snapshot), False),
                (
                    "of a look at what is stored of the same rows",
                    lambda turn: ledger.find([_base(turn)], snapshot),
                    False,
                ),
            ):
                call(TURNS)
                median, slow, processor = timed(call)
                worst = max(worst, slow) if counts else worst
                print(f"{name}: median {median:.2f} ms, 19 of 20 within {slow:.2f} ms;", end=" ")
                print(f"{processor:.2f} ms on the processor", flush=True)
        before = time.perf_counter()
        found = verify_ledger(path)
        print(f"verify reads {found.entries:,} entries in {time.perf_counter() - before:.0f} s")
        print(f"the aim, at most {AT_MOST_MS:g} ms for the first two, is {'met' if worst <= AT_MOST_MS else 'missed'}")


if __name__ == "__main__":
    main()
