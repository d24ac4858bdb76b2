"""A ledger that fails while the product is at work: a clear error, no answer without a charge, nothing counted twice.

While a fault lasts nothing is answered that was not paid for; once it is mended the ledger is good, and what was spent
is what the receipts say.
"""

from __future__ import annotations

import os
import resource
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from fractions import Fraction

import pytest

import dpsql
import dpsql.ledger.file
from dpsql.ledger import clock, default_path
from dpsql.owner import verify_ledger
from dpsql.session import Session
from dpsql.vault.engine import EngineFailure
from tests.conftest import Clinic
from tests.end.conftest import python

COUNT = "SELECT COUNT(*) FROM patients WHERE age <> {}"

Fault = Callable[[pytest.MonkeyPatch], "Iterator[None]"]


@contextmanager
def full_disk(patch: pytest.MonkeyPatch) -> Iterator[None]:
    """A limit on the size of files stands for it: writes fail in the same place."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (os.path.getsize(f"{default_path()}-wal") // 4096 * 4096 + 1, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@contextmanager
def read_only(patch: pytest.MonkeyPatch) -> Iterator[None]:
    """SQLite's own refusal, as where a file system became read-only: tests may run as a user who may do everything."""

    class ReadOnly(sqlite3.Connection):
        def execute(self, sql: str, *values: object) -> sqlite3.Cursor:  # type: ignore[override]
            return super().execute("PRAGMA query_only = ON" if sql.startswith("PRAGMA synchronous") else sql, *values)

    with patch.context() as inner:
        connect = sqlite3.connect
        inner.setattr(sqlite3, "connect", lambda *a, **more: connect(*a, **more, factory=ReadOnly))
        yield


@contextmanager
def locked(patch: pytest.MonkeyPatch) -> Iterator[None]:
    with patch.context() as inner, closing(sqlite3.connect(default_path(), isolation_level=None)) as other:
        inner.setattr(dpsql.ledger.file, "BUSY_SECONDS", 0.2)
        other.execute("BEGIN IMMEDIATE")
        yield


@contextmanager
def damaged(patch: pytest.MonkeyPatch) -> Iterator[None]:
    """Every page but the first is junk, and is mended afterwards."""
    with closing(sqlite3.connect(default_path())) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    good = default_path().read_bytes()
    default_path().write_bytes(good[:4096] + b"\x55" * (len(good) - 4096))
    yield
    default_path().write_bytes(good)


@contextmanager
def rolled_back(patch: pytest.MonkeyPatch) -> Iterator[None]:
    """The file as it was before the last charge; then the right one is put back."""
    with closing(sqlite3.connect(default_path())) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    good = default_path().read_bytes()
    default_path().write_bytes(rolled_back.old)  # type: ignore[attr-defined]
    yield
    default_path().write_bytes(good)


@contextmanager
def clock_set_back(patch: pytest.MonkeyPatch) -> Iterator[None]:
    with patch.context() as inner:
        inner.setattr(clock, "wall", lambda: 1_000_000_000)
        yield


FAULTS = {
    full_disk: "the disk is full",
    read_only: "read-only",
    locked: "is locked by another process",
    damaged: "is",
    rolled_back: "an older copy was put back",
    clock_set_back: "has seen a later time",
}


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_a_ledger_that_fails(make_clinic: Callable[..., Clinic], monkeypatch: pytest.MonkeyPatch, fault: Fault) -> None:
    clinic = make_clinic()
    if fault is clock_set_back:
        clinic.policy.write_text(clinic.policy.read_text().replace('delta = "0"', 'delta = "0"\nrenew = "month"'))
    asked: list[str] = []
    paid = Fraction(0)

    def opened() -> dpsql.Connection:
        """A connection whose private engine tells when it is asked."""
        connection = dpsql.connect(clinic.policy, clinic.database)
        engine = connection._session._engines.private
        run = engine.run
        monkeypatch.setattr(engine, "run", lambda sql, tables=None: (asked.append(sql), run(sql, tables))[1])
        return connection

    with opened() as connection:
        paid += connection.execute(COUNT.format(1)).receipt.epsilon
        with closing(sqlite3.connect(default_path())) as other:
            other.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        rolled_back.old = default_path().read_bytes()  # type: ignore[attr-defined]
        paid += connection.execute(COUNT.format(2)).receipt.epsilon
        if fault is read_only:
            connection._session._ledger._file._drop()  # a new connection meets the file as it is now
        asked.clear()
        with fault(monkeypatch):
            for number in (3, 4):
                with pytest.raises(dpsql.BudgetError) as caught:
                    connection.execute(COUNT.format(number))
                error = caught.value
                assert error.code == "DP403"
                assert FAULTS[fault] in error.reason
                assert error.repair
                assert "sqlite" not in error.reason.replace("ledger.sqlite", "").lower()
            assert asked == [], "the engine was asked without a charge"
        if fault in (read_only, damaged, rolled_back):
            connection._session._ledger._file._drop()  # what was written behind SQLite's back is read anew
        first = connection.execute(COUNT.format(3))
        paid += first.receipt.epsilon
        assert connection.execute(COUNT.format(3)).receipt.epsilon == 0
        assert connection.execute(COUNT.format(1)).receipt.epsilon == 0
        assert connection.budget.spent_epsilon == paid
        assert connection.budget.statements == 3
    assert verify_ledger(None).charges == 3


STORING = """\
import sys
import dpsql
from dpsql.ledger.file import LedgerFile
from dpsql.ledger.accounts import Ledger

finish = Ledger.finish
def full(self, identity, releases):
    raise self._file.refused("cannot grow: the disk is full")
with dpsql.connect(sys.argv[1], sys.argv[2]) as connection:
    Ledger.finish = full
    try:
        connection.execute("SELECT COUNT(*) FROM patients")
    except dpsql.OperationalError as error:
        print(error)
    Ledger.finish = finish
    print(connection.budget.spent_epsilon)
    print(connection.execute("SELECT COUNT(*) FROM patients").receipt.epsilon, connection.budget.spent_epsilon)
    print(connection.execute("SELECT COUNT(*) FROM patients").receipt.epsilon, connection.budget.spent_epsilon)
"""


def test_an_answer_that_cannot_be_stored_is_not_given_and_stays_charged(clinic: Clinic, home: object) -> None:
    """A repeat would be a second draw, so the first one does not leave: each charge has at most one answer."""
    done = python("-c", STORING, str(clinic.policy), str(clinic.database), folder=clinic.database.parent)
    said, *rest = done.stdout.splitlines()
    assert said.startswith("DP501: the ledger ")
    assert said.endswith("cannot grow: the disk is full; the charge stays")
    assert rest[-3:] == ["1", "1 2", "0 2"], done.stderr
    found = verify_ledger(None)
    assert (found.charges, found.releases) == (2, 1)


def head_not_kept(session: Session, patch: pytest.MonkeyPatch) -> None:
    """The charge is there; the head beside the ledger cannot follow it."""

    def keep(*_: object) -> None:
        raise session._ledger._file.refused("cannot be checked: its key: Read-only file system")

    patch.setattr(session._ledger._chain.keys, "keep", keep)


def not_stored(session: Session, patch: pytest.MonkeyPatch) -> None:
    def finish(*_: object) -> None:
        raise session._ledger._file.refused("cannot grow: the disk is full")

    patch.setattr(session._ledger, "finish", finish)


def failure_not_counted(session: Session, patch: pytest.MonkeyPatch) -> None:
    def run(*_: object) -> None:
        raise EngineFailure("Could not convert string 'Xanthippe' to INT32")

    def fail(*_: object) -> None:
        raise session._ledger._file.refused("cannot grow: the disk is full")

    patch.setattr(session._engines.private, "run", run)
    patch.setattr(session._ledger, "fail", fail)


@pytest.mark.parametrize("fault", [head_not_kept, not_stored, failure_not_counted])
def test_a_ledger_that_fails_after_the_charge_says_that_it_stays(
    clinic: Clinic, monkeypatch: pytest.MonkeyPatch, fault: Callable[[Session, pytest.MonkeyPatch], None]
) -> None:
    """DP403 would say that nothing was charged; and nothing leads to the engine's words."""
    with dpsql.connect(clinic.policy, clinic.database) as connection:
        with monkeypatch.context() as patch:
            fault(connection._session, patch)
            with pytest.raises(dpsql.OperationalError, match=r"^DP501: the ledger .*; the charge stays") as caught:
                connection.execute(COUNT.format(1))
            assert connection.budget.spent_epsilon == 1
        error: BaseException | None = caught.value
        while error is not None:
            assert not isinstance(error, EngineFailure)
            assert "Xanthippe" not in str(error)
            error = error.__context__
        assert connection.execute(COUNT.format(1)).receipt.epsilon == 1
