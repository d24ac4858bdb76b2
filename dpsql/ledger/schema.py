"""The tables of a ledger file, and how a file of an older version becomes one of today's.

An account row is one set of terms; `closed` rows are those that a newer one under the same name replaced. A purse is
what one analyst spends of an account; analyst '' is the purse of all of them together: the only one by default, and the
joint one where each analyst has a purse. `spent_...` of a purse counts in the window `window` of its account alone.
Amounts are exact: texts 'p/q'. mu_squared adds up under Gaussian composition; 0 in accounts of basic composition.
The joint amounts of a charge are what the joint purse was charged, NULL where the account has one purse. `refined_by`
of a release is the charge for a finer one that is drawn given it, which can be once (`privacy/refinement`).

`entry` is the record of all that happened, in order and sealed by `chain`; the other tables say what it comes to.
Charges and entries are final: triggers keep them, and the only way out of 'asked' is 'answered' or 'failed'.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import sqlite3
from collections.abc import Iterable, Sequence

APPLICATION_ID = 0x64707371  # "dpsq"
SCHEMA_VERSION = 4
VERSIONS = (1, 2, 3, SCHEMA_VERSION)
"""What can be opened; older ones are brought up to date."""

ACCOUNT_TERMS = (
    *("name", "unit", "composition", "per_analyst", "epsilon", "delta", "mu_squared"),
    *("renew", "joint_epsilon", "joint_delta", "joint_mu_squared", "max_failures"),
)
"""The columns of an account that its owner's policy decides, as `terms_text` writes them."""

CHARGE = (
    *("id", "purse", "epsilon", "delta", "mu_squared", "joint_epsilon", "joint_delta", "joint_mu_squared"),
    *("window", "statement", "fingerprint", "snapshot", "policy", "at"),
)
"""The columns of a charge that never change, in the order in which the chain seals them."""

_FINAL = f"""
CREATE TRIGGER charge_stays BEFORE DELETE ON charge BEGIN SELECT RAISE(ABORT, 'a charge is final'); END;
CREATE TRIGGER charge_is_final BEFORE UPDATE ON charge
    WHEN old.state <> 'asked' OR {" OR ".join(f"new.{name} IS NOT old.{name}" for name in CHARGE)}
    BEGIN SELECT RAISE(ABORT, 'a charge is final'); END;
"""
_REFINED = """
CREATE TRIGGER release_refined_once BEFORE UPDATE ON release WHEN old.refined_by IS NOT NULL
    BEGIN SELECT RAISE(ABORT, 'a release is refined once'); END;
CREATE INDEX release_refined ON release (refined_by) WHERE refined_by IS NOT NULL;
"""
# Sealing anew, the owner's act, replaces the seals and nothing else.
_RECORD = """
CREATE TABLE ledger (
    id TEXT NOT NULL, boot TEXT NOT NULL DEFAULT '', boot_at INTEGER NOT NULL DEFAULT 0,
    boot_uptime INTEGER NOT NULL DEFAULT 0);
CREATE TABLE entry (
    id INTEGER PRIMARY KEY, at INTEGER NOT NULL, kind TEXT NOT NULL, account INTEGER, purse INTEGER, charge INTEGER,
    detail TEXT NOT NULL, mac BLOB NOT NULL);
CREATE TRIGGER entry_stays BEFORE DELETE ON entry BEGIN SELECT RAISE(ABORT, 'an entry is final'); END;
CREATE TRIGGER entry_is_final BEFORE UPDATE OF id, at, kind, account, purse, charge, detail ON entry
    BEGIN SELECT RAISE(ABORT, 'an entry is final'); END;
"""

SCHEMA = f"""
PRAGMA application_id = {APPLICATION_ID};
PRAGMA user_version = {SCHEMA_VERSION};
CREATE TABLE account (
    id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL, unit TEXT NOT NULL, composition TEXT NOT NULL,
    per_analyst INTEGER NOT NULL, epsilon TEXT NOT NULL, delta TEXT NOT NULL, opened INTEGER NOT NULL, closed INTEGER,
    mu_squared TEXT NOT NULL DEFAULT '0/1', renew TEXT NOT NULL DEFAULT 'never', joint_epsilon TEXT, joint_delta TEXT,
    joint_mu_squared TEXT, max_failures INTEGER NOT NULL DEFAULT 3);
CREATE UNIQUE INDEX account_open ON account (name) WHERE closed IS NULL;
CREATE TABLE purse (
    id INTEGER PRIMARY KEY AUTOINCREMENT, account INTEGER NOT NULL REFERENCES account, analyst TEXT NOT NULL,
    spent_epsilon TEXT NOT NULL, spent_delta TEXT NOT NULL, statements INTEGER NOT NULL, failures INTEGER NOT NULL,
    spent_mu_squared TEXT NOT NULL DEFAULT '0/1', window INTEGER NOT NULL DEFAULT 0,
    UNIQUE (account, analyst));
CREATE TABLE source (path TEXT PRIMARY KEY, account INTEGER NOT NULL REFERENCES account);
CREATE TABLE charge (
    id INTEGER PRIMARY KEY AUTOINCREMENT, purse INTEGER NOT NULL REFERENCES purse, epsilon TEXT NOT NULL,
    delta TEXT NOT NULL, statement TEXT NOT NULL, fingerprint TEXT NOT NULL, snapshot TEXT NOT NULL,
    policy TEXT NOT NULL, state TEXT NOT NULL CHECK (state IN ('asked', 'answered', 'failed')), at INTEGER NOT NULL,
    mu_squared TEXT NOT NULL DEFAULT '0/1', joint_epsilon TEXT, joint_delta TEXT, joint_mu_squared TEXT,
    window INTEGER NOT NULL DEFAULT 0);
CREATE INDEX charge_purse ON charge (purse);
{_FINAL}
CREATE TABLE release (
    id INTEGER PRIMARY KEY AUTOINCREMENT, purse INTEGER NOT NULL REFERENCES purse, snapshot TEXT NOT NULL,
    fingerprint TEXT NOT NULL, charge INTEGER NOT NULL REFERENCES charge, answer BLOB NOT NULL,
    refined_by INTEGER REFERENCES charge);
CREATE UNIQUE INDEX release_key ON release (purse, snapshot, fingerprint);
{_REFINED}{_RECORD}
"""

_FROM_1 = """
ALTER TABLE account ADD COLUMN mu_squared TEXT NOT NULL DEFAULT '0/1';
ALTER TABLE purse ADD COLUMN spent_mu_squared TEXT NOT NULL DEFAULT '0/1';
ALTER TABLE charge ADD COLUMN mu_squared TEXT NOT NULL DEFAULT '0/1';
"""
_FROM_2 = f"""
ALTER TABLE account ADD COLUMN renew TEXT NOT NULL DEFAULT 'never';
ALTER TABLE account ADD COLUMN joint_epsilon TEXT;
ALTER TABLE account ADD COLUMN joint_delta TEXT;
ALTER TABLE account ADD COLUMN joint_mu_squared TEXT;
ALTER TABLE account ADD COLUMN max_failures INTEGER NOT NULL DEFAULT 3;
ALTER TABLE purse ADD COLUMN window INTEGER NOT NULL DEFAULT 0;
ALTER TABLE charge ADD COLUMN joint_epsilon TEXT;
ALTER TABLE charge ADD COLUMN joint_delta TEXT;
ALTER TABLE charge ADD COLUMN joint_mu_squared TEXT;
ALTER TABLE charge ADD COLUMN window INTEGER NOT NULL DEFAULT 0;
DROP TRIGGER charge_is_final;
DROP TRIGGER charge_stays;
{_FINAL}{_RECORD}
"""
_FROM_3 = f"""
ALTER TABLE release ADD COLUMN refined_by INTEGER REFERENCES charge;
{_REFINED}
"""


def made(connection: sqlite3.Connection) -> None:
    """All tables of a new ledger, in one transaction. Its name, by which its key is found, is random."""
    name = secrets.token_hex(16)
    connection.executescript(f"BEGIN; {SCHEMA} INSERT INTO ledger (id) VALUES ('{name}'); COMMIT;")


def upgrade(connection: sqlite3.Connection) -> None:
    """Bring a file of an older version up to date, in one transaction; another process may have been first.

    What was spent stays spent. A file from before version 3 has no record of what happened: it is written from the
    tables, without seals, and `chain` seals it when the file is first written to.
    """
    connection.execute("BEGIN IMMEDIATE")
    try:
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        scripts = {1: _FROM_1 + _FROM_2, 2: _FROM_2}
        if version in VERSIONS and version < SCHEMA_VERSION:
            for statement in _statements(scripts.get(version, "") + _FROM_3):
                connection.execute(statement)
        if version in scripts:
            connection.execute("INSERT INTO ledger (id) VALUES (?)", (secrets.token_hex(16),))
            connection.executemany(
                "INSERT INTO entry (at, kind, account, purse, charge, detail, mac) VALUES (?, ?, ?, ?, ?, ?, x'')",
                _entries(connection),
            )
            connection.execute("DROP TABLE event")
        connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _statements(script: str) -> list[str]:
    """One by one, since `executescript` would commit what came before. A trigger's body holds semicolons itself."""
    found, text = [], ""
    for line in script.splitlines(keepends=True):
        text += line
        if sqlite3.complete_statement(text):
            found.append(text)
            text = ""
    return found


Row = tuple[int, str, int | None, int | None, int | None, str]


def _entries(connection: sqlite3.Connection) -> list[Row]:
    """What happened, as the tables of older versions tell it. Times never go back in the record."""
    rows: list[Row] = []
    names = ", ".join(ACCOUNT_TERMS)
    for account, opened, *values in connection.execute(f"SELECT id, opened, {names} FROM account ORDER BY id"):
        rows.append((opened, "opened", account, None, None, terms_text(values)))
        purses = "SELECT id, analyst FROM purse WHERE account = ? ORDER BY id"
        rows += [(opened, "purse", account, *row) for row in _purse_rows(connection.execute(purses, (account,)))]
    for charge, purse, at, state in connection.execute("SELECT id, purse, at, state FROM charge ORDER BY id"):
        rows.append((at, "asked", None, purse, charge, ""))
        if state != "asked":
            rows.append((at, state, None, purse, charge, answers_digest(connection, charge) if state[0] == "a" else ""))
    for account, what, at in connection.execute("SELECT account, what, at FROM event ORDER BY id"):
        rows.append((at, "reopened" if what == "reopened" else "note", account, None, None, what))
    rows.sort(key=lambda row: row[0])  # stable: what one second holds stays in this order
    last = rows[-1][0] if rows else 0
    for path, account in connection.execute("SELECT path, account FROM source ORDER BY path"):
        rows.append((last, "source", account, None, None, path))
    for account, at in connection.execute("SELECT id, closed FROM account WHERE closed IS NOT NULL ORDER BY id"):
        rows.append((max(last, at), "closed", account, None, None, ""))
    failures = connection.execute("SELECT id, failures FROM purse ORDER BY id").fetchall()
    rows.append((max([last, *(row[0] for row in rows)]), "migrated", None, None, None, json.dumps(failures)))
    return rows


def _purse_rows(found: sqlite3.Cursor) -> list[tuple[int, None, str]]:
    return [(purse, None, analyst) for purse, analyst in found]


def terms_text(values: Sequence[object]) -> str:
    """The values of ACCOUNT_TERMS as one text."""
    return json.dumps(dict(zip(ACCOUNT_TERMS, values, strict=True)))


def answers_digest(connection: sqlite3.Connection, charge: int) -> str:
    """What stands for the stored answers of a charge in the entry that it was answered."""
    query = "SELECT fingerprint, answer FROM release WHERE charge = ? ORDER BY id"
    return digest_of(connection.execute(query, (charge,)))


def digest_of(answers: Iterable[tuple[str, bytes]]) -> str:
    """One digest of answers by fingerprint, '' of none."""
    found = [(fingerprint, hashlib.sha256(answer).hexdigest()) for fingerprint, answer in answers]
    return hashlib.sha256(json.dumps(found).encode()).hexdigest() if found else ""
