"""The sealed record: whoever changes the file without the key is found out, and so is who puts an old one back."""

from __future__ import annotations

import os
import shutil
import sqlite3
import stat
from contextlib import closing
from fractions import Fraction
from pathlib import Path

import pytest

from dpsql.errors import BudgetError
from dpsql.ledger import default_path
from dpsql.ledger.chain import adopt
from dpsql.ledger.file import LedgerFile
from dpsql.ledger.keys import Keys
from dpsql.ledger.record import exported, verify


def refused(action, words):
    with pytest.raises(BudgetError) as caught:
        action()
    assert caught.value.code == "DP403"
    assert words in caught.value.reason
    return caught.value


def chains() -> Path:
    return default_path().parent / "chains"


@pytest.fixture
def used(account, charge, path):
    """A closed ledger of two accounts, one frozen and reopened, with answers, a failure and a changed epsilon."""
    first = account(epsilon=Fraction(3))
    for number in range(5):
        identity = first.charge(charge(fingerprint=f"{number}"))
        if number == 3:
            first.fail(identity)
        elif number != 4:
            first.finish(identity, {f"{number}": b"noisy", f"{number}b": b"noisy too"})
    account(epsilon=Fraction(4)).close()
    type(first).reopen(path, "shop")
    ann = account("second", analyst="ann", sources=("/data/b",))
    ann.finish(ann.charge(charge()), {"x": b"noisy"})
    account("third", sources=("/data/c",)).close()
    account("third", sources=("/data/c",), new=True).close()
    first.charge(charge(refines=("0",)))  # a durable one last: the head is at the end
    first.close()
    ann.close()
    return path


def checked(path):
    file = LedgerFile(path, make=False)
    try:
        return verify(file, Keys(file))
    finally:
        file.close()


def test_what_nobody_touched_is_good(used):
    found = checked(used)
    assert (found.charges, found.releases) == (7, 7)


CHANGES = [
    # what an entry says
    "UPDATE entry SET detail = replace(detail, '4/1', '5/1') WHERE kind = 'changed'",
    "UPDATE entry SET at = at + 1 WHERE id = 4",
    "UPDATE entry SET kind = 'answered' WHERE kind = 'failed'",
    "UPDATE entry SET charge = 3 WHERE kind = 'failed'",
    "UPDATE entry SET mac = zeroblob(32) WHERE id = 5",
    # entries that are missing, moved or new
    "DELETE FROM entry WHERE id = 6",
    "DELETE FROM entry WHERE id = (SELECT MAX(id) FROM entry)",
    "DELETE FROM entry WHERE id > 6; UPDATE entry SET id = id + 1 WHERE id = 6",
    "UPDATE entry SET id = -1 WHERE id = 6; UPDATE entry SET id = 6 WHERE id = 7;"
    " UPDATE entry SET id = 7 WHERE id = -1",
    "INSERT INTO entry SELECT MAX(id) + 1, at, 'reopened', 1, NULL, NULL, '', mac FROM entry",
    # charges
    "UPDATE charge SET epsilon = '1/20' WHERE id = 2",
    "UPDATE charge SET statement = 'SELECT 1' WHERE id = 2",
    "UPDATE charge SET fingerprint = 'g' WHERE id = 2",
    "UPDATE charge SET policy = 'other' WHERE id = 2",
    "UPDATE charge SET at = at - 86400 WHERE id = 2",
    "UPDATE charge SET window = 1 WHERE id = 2",
    "UPDATE charge SET joint_epsilon = '0/1' WHERE joint_epsilon IS NOT NULL",
    "UPDATE charge SET state = 'answered' WHERE state = 'failed'",
    "UPDATE charge SET state = 'asked' WHERE id = 1",
    "DELETE FROM charge WHERE id = 5",
    "INSERT INTO charge SELECT 99, purse, epsilon, delta, statement, fingerprint, snapshot, policy, state, at,"
    " mu_squared, joint_epsilon, joint_delta, joint_mu_squared, window FROM charge WHERE id = 5",
    # sums and terms
    "UPDATE purse SET spent_epsilon = '0/1' WHERE id = 1",
    "UPDATE purse SET spent_delta = '1/10' WHERE id = 1",
    "UPDATE purse SET failures = 1 WHERE id = 1",
    "UPDATE purse SET window = 7 WHERE id = 1",
    "UPDATE purse SET analyst = 'bob' WHERE analyst = 'ann'",
    "UPDATE account SET epsilon = '1000/1' WHERE name = 'shop'",
    "UPDATE account SET joint_epsilon = '1000/1' WHERE name = 'second'",
    "UPDATE account SET max_failures = 1000",
    "UPDATE account SET closed = 1 WHERE id = 4; UPDATE account SET closed = NULL WHERE id = 3",
    "UPDATE source SET path = '/data/other' WHERE path = '/data/c'",
    "DELETE FROM source",
    "UPDATE ledger SET boot_at = boot_at + 86400",
    # stored answers
    "UPDATE release SET answer = x'00' WHERE id = 2",
    "UPDATE release SET fingerprint = 'z' WHERE id = 2",
    "UPDATE release SET charge = 2 WHERE id = 1",
    "UPDATE release SET purse = 2 WHERE id = 1",
    "UPDATE release SET snapshot = 't' WHERE id = 1",
    "DELETE FROM release WHERE id = 2",
    "DELETE FROM release WHERE charge = 1",
    "INSERT INTO release SELECT 99, purse, snapshot, 'new', charge, answer, NULL FROM release WHERE id = 1",
    "INSERT INTO release SELECT 99, purse, snapshot, 'new', 5, answer, NULL FROM release WHERE id = 1",
    "UPDATE release SET refined_by = 1 WHERE id = 2",
    "UPDATE release SET refined_by = NULL WHERE id = 1",
    "UPDATE release SET refined_by = 1 WHERE id = 1",
]


@pytest.mark.parametrize("change", CHANGES)
def test_whatever_is_changed_is_found(used, change):
    with closing(sqlite3.connect(used)) as connection:
        connection.executescript("; ".join(f"DROP TRIGGER IF EXISTS {name}" for name in TRIGGERS))
        connection.executescript(change)
        assert connection.total_changes
    refused(lambda: checked(used), "")


TRIGGERS = ("charge_stays", "charge_is_final", "entry_stays", "entry_is_final", "release_refined_once")


def test_the_file_itself_refuses_to_change_an_entry(used):
    with closing(sqlite3.connect(used)) as connection:
        for change in ("DELETE FROM entry", "UPDATE entry SET detail = 'x'", "UPDATE entry SET at = 0"):
            with pytest.raises(sqlite3.IntegrityError, match="an entry is final"):
                connection.execute(change)


def copies(path: Path) -> dict[str, bytes]:
    return {suffix: Path(f"{path}{suffix}").read_bytes() for suffix in ("", "-wal") if Path(f"{path}{suffix}").exists()}


def put_back(path: Path, copy: dict[str, bytes]) -> None:
    for suffix in ("", "-wal", "-shm"):
        Path(f"{path}{suffix}").unlink(missing_ok=True)
    for suffix, content in copy.items():
        Path(f"{path}{suffix}").write_bytes(content)


def test_an_older_copy_that_was_put_back_takes_no_charge(account, charge, path):
    ledger = account()
    ledger.charge(charge("1/2"))
    old = copies(path)
    ledger.charge(charge("1/2"))
    ledger.close()
    put_back(path, old)
    words = "an older copy was put back"
    assert "dpsql ledger adopt" in refused(account, words).repair
    refused(lambda: checked(path), words)


def test_an_older_copy_is_noticed_by_a_session_that_is_open(account, charge, path):
    """Written over in place, so that the file is the same one."""
    ledger = account()
    ledger.charge(charge("1/2"))
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        old = path.read_bytes()
    ledger.charge(charge("1/4"))
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    path.write_bytes(old)
    refused(lambda: ledger.charge(charge("1/4")), "an older copy was put back")


def test_two_copies_cannot_both_be_spent_from(account, charge, path, tmp_path):
    account().charge(charge("1/2"))
    other = tmp_path / "copy.sqlite"
    put_back(other, copies(path))
    account(at=other).charge(charge("1/2"))
    refused(account, "an older copy was put back")
    account(at=other)
    put_back(path, copies(other))  # a moved ledger is the same one
    assert account().balance().remaining_epsilon == 0


def test_another_ledger_in_its_place_is_noticed(account, charge, path):
    with closing(account()) as ledger:
        ledger.charge(charge("1"))
    put_back(path, {})
    error = refused(account, "is not the ledger that was here before")
    assert "dpsql ledger adopt" in error.repair
    file = LedgerFile(path)
    adopt(file)  # what an owner says who has begun afresh on purpose
    file.close()
    account().charge(charge("1"))


@pytest.mark.parametrize("content", [None, b"", b"dpsql-chain 1 nonsense\n", "another"])
def test_a_missing_or_damaged_key(account, charge, path, tmp_path, content):
    with closing(account()) as ledger:
        ledger.charge(charge("1/2"))
    (key,) = chains().glob("*.chain")
    kept = key.read_bytes()
    if content is None:
        key.unlink()
    elif content == "another":
        key.write_bytes(kept[:15] + b"0" * 32 + kept[47:])
    else:
        key.write_bytes(content)
    for action in (account, lambda: checked(path)):
        assert str(key) in refused(action, "cannot be checked: its key").reason
    key.write_bytes(kept)
    account().charge(charge("1/2"))


def test_a_record_that_somebody_else_sealed_is_refused(account, charge, path):
    """Every charge taken out and all sealed anew, with a key of one's own."""
    with closing(account()) as ledger:
        ledger.charge(charge("1"))
    (key,) = chains().glob("*.chain")
    kept = key.read_bytes()
    file = LedgerFile(path)
    adopt(file)
    file.close()
    key.write_bytes(kept)
    refused(account, "its record was replaced")
    refused(lambda: checked(path), "was changed: entry")


def test_the_owner_can_take_an_older_copy(account, charge, path):
    ledger = account()
    ledger.charge(charge("1/2"))
    old = copies(path)
    ledger.charge(charge("1/4"))
    ledger.close()
    new = copies(path)
    put_back(path, old)
    file = LedgerFile(path, make=False)
    adopt(file)
    file.close()
    with closing(account()) as ledger:
        assert ledger.balance().spent_epsilon == Fraction(1, 2)
        ledger.charge(charge("1/2"))
        ledger.verify()
    put_back(path, new)  # and the newer one is now the wrong one
    refused(account, "is")


def test_the_head_is_at_each_charge_and_failure(account, charge, path):
    """Whatever a power cut leaves of what was not waited for, the head does not speak of it."""
    ledger = account()

    def head() -> int:
        (key,) = chains().glob("*.chain")
        return int(key.read_text().split()[4])

    def last() -> int:
        with closing(sqlite3.connect(path)) as connection:
            return connection.execute("SELECT MAX(id) FROM entry").fetchone()[0]

    assert head() == last()
    identity = ledger.charge(charge())
    assert head() == last()
    ledger.finish(identity, {"f": b"noisy"})
    assert head() == last() - 1
    ledger.fail(ledger.charge(charge()))
    assert head() == last()


def test_a_commit_whose_head_was_not_kept_is_no_loss(account, charge, monkeypatch):
    ledger = account()
    with monkeypatch.context() as patch:
        patch.setattr("dpsql.ledger.keys.Keys.keep", lambda *_: None)  # as after a kill in between
        ledger.charge(charge("1/2"))
    other = account()
    other.charge(charge("1/2"))
    other.verify()
    assert other.balance().spent_epsilon == 1


def test_only_the_owner_can_read_the_key(account, charge):
    before = os.umask(0)
    try:
        account().charge(charge())
    finally:
        os.umask(before)
    assert stat.S_IMODE(chains().stat().st_mode) == 0o700
    found = list(chains().iterdir())
    assert sorted(each.suffix for each in found) == [".chain", ".place"]
    assert {stat.S_IMODE(each.stat().st_mode) for each in found} == {0o600}


def test_no_place_for_the_key(account, tmp_path, monkeypatch):
    shutil.rmtree(chains(), ignore_errors=True)
    default_path().parent.mkdir(parents=True, exist_ok=True)
    chains().write_text("in the way")
    assert refused(account, "cannot be checked: its key").reason.endswith("Not a directory")


def test_what_is_written_out_is_what_happened(used):
    file = LedgerFile(used, make=False)
    rows = list(exported(file))
    file.close()
    assert [row["entry"] for row in rows] == list(range(1, len(rows) + 1))
    asked = [row for row in rows if row["event"] == "asked"]
    assert len(asked) == 7
    assert sum(Fraction(row["epsilon"]) for row in asked) == Fraction(7, 10)
    assert {(row["account"], row["analyst"]) for row in asked} == {("shop", None), ("second", "ann")}
    assert asked[0].keys() >= {
        "time",
        "statement",
        "fingerprint",
        "delta",
        "mu_squared",
        "policy",
        "snapshot",
        "charge",
    }
    events = [row["event"] for row in rows if row["event"] != "boot"]
    assert sorted(set(events)) == [
        *("answered", "asked", "changed", "closed", "failed", "opened", "purse", "reopened", "source"),
    ]
    failed = next(row for row in rows if row["event"] == "failed")
    assert failed["charge"] == 4
    assert "epsilon" not in failed, "a charge is told once: whoever adds lines up counts it once"
    assert next(row for row in asked if row["charge"] == 4)["fingerprint"] == "3"
