"""Ledgers of older versions: brought up to date with all that was spent, and sealed from then on."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from fractions import Fraction

import pytest

from dpsql.errors import BudgetError
from dpsql.ledger import AlreadyRefined, Ledger
from dpsql.ledger.schema import APPLICATION_ID, SCHEMA_VERSION
from tests.ledger.conftest import stored

# As version 2 made it; version 1 had no column of mu_squared.
VERSION_2 = f"""
PRAGMA application_id = {APPLICATION_ID};
PRAGMA user_version = 2;
CREATE TABLE account (
    id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL, unit TEXT NOT NULL, composition TEXT NOT NULL,
    per_analyst INTEGER NOT NULL, epsilon TEXT NOT NULL, delta TEXT NOT NULL, opened INTEGER NOT NULL, closed INTEGER,
    mu_squared TEXT NOT NULL DEFAULT '0/1');
CREATE UNIQUE INDEX account_open ON account (name) WHERE closed IS NULL;
CREATE TABLE purse (
    id INTEGER PRIMARY KEY AUTOINCREMENT, account INTEGER NOT NULL REFERENCES account, analyst TEXT NOT NULL,
    spent_epsilon TEXT NOT NULL, spent_delta TEXT NOT NULL, statements INTEGER NOT NULL, failures INTEGER NOT NULL,
    spent_mu_squared TEXT NOT NULL DEFAULT '0/1',
    UNIQUE (account, analyst));
CREATE TABLE source (path TEXT PRIMARY KEY, account INTEGER NOT NULL REFERENCES account);
CREATE TABLE charge (
    id INTEGER PRIMARY KEY AUTOINCREMENT, purse INTEGER NOT NULL REFERENCES purse, epsilon TEXT NOT NULL,
    delta TEXT NOT NULL, statement TEXT NOT NULL, fingerprint TEXT NOT NULL, snapshot TEXT NOT NULL,
    policy TEXT NOT NULL, state TEXT NOT NULL CHECK (state IN ('asked', 'answered', 'failed')), at INTEGER NOT NULL,
    mu_squared TEXT NOT NULL DEFAULT '0/1');
CREATE INDEX charge_purse ON charge (purse);
CREATE TRIGGER charge_stays BEFORE DELETE ON charge BEGIN SELECT RAISE(ABORT, 'a charge is final'); END;
CREATE TRIGGER charge_is_final BEFORE UPDATE ON charge
    WHEN old.state <> 'asked' OR new.id <> old.id OR new.purse <> old.purse
        OR new.epsilon <> old.epsilon OR new.delta <> old.delta
    BEGIN SELECT RAISE(ABORT, 'a charge is final'); END;
CREATE TABLE release (
    id INTEGER PRIMARY KEY AUTOINCREMENT, purse INTEGER NOT NULL REFERENCES purse, snapshot TEXT NOT NULL,
    fingerprint TEXT NOT NULL, charge INTEGER NOT NULL REFERENCES charge, answer BLOB NOT NULL);
CREATE UNIQUE INDEX release_key ON release (purse, snapshot, fingerprint);
CREATE TABLE event (
    id INTEGER PRIMARY KEY AUTOINCREMENT, account INTEGER NOT NULL REFERENCES account, what TEXT NOT NULL,
    at INTEGER NOT NULL);
INSERT INTO account VALUES (1, 'shop', 'household', 'basic', 0, '1/1', '1/1000000', 1700000000, 1700000500, '0/1');
INSERT INTO account VALUES (2, 'shop', 'household', 'basic', 0, '1/1', '1/1000000', 1700000500, NULL, '0/1');
INSERT INTO purse VALUES (1, 1, '', '1/2', '0/1', 1, 0, '0/1'), (2, 2, '', '13/20', '1/2000000', 4, 2, '0/1');
INSERT INTO source VALUES ('/data/sales.parquet', 2);
INSERT INTO charge (id, purse, epsilon, delta, statement, fingerprint, snapshot, policy, state, at) VALUES
    (1, 1, '1/2', '0/1', 'SELECT 1', 'f', 's', 'p', 'asked', 1700000100),
    (2, 2, '1/4', '1/2000000', 'SELECT 2', 'f', 's', 'p', 'answered', 1700000600),
    (3, 2, '1/10', '0/1', 'SELECT 3', 'g', 's', 'p', 'failed', 1700000700),
    (4, 2, '1/10', '0/1', 'SELECT 4', 'h', 's', 'p', 'failed', 1700000800),
    (5, 2, '1/5', '0/1', 'SELECT 5', 'i', 's', 'p', 'asked', 1700000700);
INSERT INTO release VALUES (1, 2, 's', 'f', 2, x'6e6f697379'), (2, 2, 's', 'f2', 2, x'01');
INSERT INTO event VALUES (1, 1, 'opened with epsilon 1/1', 1700000000), (2, 2, 'reopened', 1700000700);
"""
LATER = ("account.mu_squared", "purse.spent_mu_squared", "charge.mu_squared")


@pytest.fixture(params=[1, 2])
def old(path, request):
    path.parent.mkdir(exist_ok=True)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.executescript(VERSION_2)
        if request.param == 1:
            for table, column in (each.split(".") for each in LATER):
                connection.execute(f"ALTER TABLE {table} DROP COLUMN {column}")
            connection.execute("PRAGMA user_version = 1")
    return path


def test_what_was_spent_stays_spent(old, account, charge):
    for _ in range(2):
        with closing(account()) as ledger:
            balance = ledger.balance()
            assert (balance.spent_epsilon, balance.spent_delta) == (Fraction(13, 20), Fraction(1, 2000000))
            assert balance.statements == 4
            assert stored(ledger, "f", "s") == b"noisy"
            found = ledger.verify()
            assert (found.charges, found.releases) == (5, 2)
    ledger = account()
    with pytest.raises(BudgetError, match="DP401"):
        ledger.charge(charge("2/5"))
    ledger.fail(ledger.charge(charge("1/10")))
    with pytest.raises(BudgetError, match=r"DP405: .* after 3 failures"):  # the two before count
        ledger.charge(charge("1/10"))
    Ledger.reopen(old, "shop")
    ledger.charge(charge("1/4"))
    ledger.verify()
    with closing(sqlite3.connect(old)) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (SCHEMA_VERSION,)
        with pytest.raises(sqlite3.Error, match="a charge is final"):
            connection.execute("UPDATE charge SET mu_squared = '1/1'")


def test_it_is_sealed_when_it_is_first_written_to(old, account):
    account().close()
    with closing(sqlite3.connect(old)) as connection:
        connection.executescript("DROP TRIGGER charge_is_final; UPDATE charge SET statement = 'SELECT 9' WHERE id = 3")
    with closing(account()) as ledger, pytest.raises(BudgetError, match="was changed: entry"):
        ledger.verify()


def test_an_old_file_does_not_take_the_place_of_a_sealed_one(old, account, charge):
    before = old.read_bytes()
    with closing(account()) as ledger:
        ledger.charge(charge("1/10"))
    for suffix in ("-wal", "-shm"):
        old.with_name(old.name + suffix).unlink(missing_ok=True)
    old.write_bytes(before)
    with pytest.raises(BudgetError, match="is not the ledger that was here before"):
        account()


def test_purses_of_analysts_without_a_joint_one_are_not_carried_on(old, account):
    """No dpsql made such an account for anybody; there is no joint spending to go on from."""
    with closing(sqlite3.connect(old)) as connection:
        connection.execute("UPDATE account SET per_analyst = 1")
        connection.execute("UPDATE purse SET analyst = 'ann'")
        connection.commit()
    with pytest.raises(BudgetError, match=r"DP404: .* a budget for all analysts, not per analyst"):
        account(analyst="ann")


def test_version_3_has_all_but_what_is_refined(path, account, charge):
    with closing(account()) as ledger:
        ledger.finish(ledger.charge(charge(fingerprint="f")), {"f": b"noisy"})
        before = ledger.balance()
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(
            "DROP TRIGGER release_refined_once; DROP INDEX release_refined;"
            " ALTER TABLE release DROP COLUMN refined_by; PRAGMA user_version = 3"
        )
    with closing(account()) as ledger:
        assert ledger.balance() == before
        assert stored(ledger, "f", "s") == b"noisy"
        ledger.verify()
        ledger.charge(charge(refines=("f",)))
        with pytest.raises(AlreadyRefined):
            ledger.charge(charge(refines=("f",)))
        ledger.verify()
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (SCHEMA_VERSION,)
