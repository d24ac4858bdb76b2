"""The file: where it is made, who may read it, and every way in which it can be unusable."""

from __future__ import annotations

import ctypes
import os
import shutil
import sqlite3
import stat
from contextlib import closing
from pathlib import Path

import pytest

import dpsql.ledger.file
from dpsql.errors import BudgetError, Error
from dpsql.ledger import default_path
from tests.patience import PATIENCE


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def unusable(action, words):
    """The action is refused with DP403 and these words, and says nothing in the words of SQLite."""
    with pytest.raises(BudgetError) as caught:
        action()
    assert caught.value.code == "DP403"
    assert words in caught.value.reason
    assert caught.value.repair or "file name" in caught.value.reason
    assert caught.value.__suppress_context__ or caught.value.__context__ is None
    return caught.value


@pytest.fixture
def impatient(monkeypatch):
    monkeypatch.setattr(dpsql.ledger.file, "BUSY_SECONDS", 0.2)


# ------------------------------------------------------------------------------------------------ place and rights


def test_the_default_place(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert default_path() == tmp_path / "dpsql" / "ledger.sqlite"
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for value in ("", "relative/folder"):
        monkeypatch.setenv("XDG_STATE_HOME", value)
        assert default_path() == tmp_path / "home" / ".local" / "state" / "dpsql" / "ledger.sqlite"


def test_only_the_owner_may_read_whatever_the_umask(account, charge, path):
    before = os.umask(0)
    try:
        account().charge(charge())
    finally:
        os.umask(before)
    assert sorted(child.name for child in path.parent.iterdir()) == [
        "ledger.sqlite",
        "ledger.sqlite-shm",
        "ledger.sqlite-wal",
    ]
    assert {mode(child) for child in path.parent.iterdir()} == {0o600}


def test_rights_of_others_are_taken_away(account, charge, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    account(at=None).close()
    default_path().chmod(0o664)
    default_path().parent.chmod(0o755)
    account(at=None).charge(charge())
    assert mode(default_path().parent) == 0o700
    found = list(default_path().parent.rglob("*"))
    assert {mode(each) for each in found if each.is_file()} == {0o600}
    assert {mode(each) for each in found if each.is_dir()} == {0o700}


@pytest.mark.parametrize("name", ["a b.sqlite", "50%20?mode=ro#x", "ключ 🔑", "file:x", "-", "\udcff"])
def test_any_file_name(account, charge, tmp_path, name):
    at = tmp_path / name
    account(at=at).charge(charge())
    assert account(at=at).balance().statements == 1
    assert at.is_file()


def test_a_relative_path_is_fixed_when_opened(account, charge, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ledger = account(at=Path("ledger.sqlite"))
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    ledger.charge(charge())
    assert account(at=tmp_path / "ledger.sqlite").balance().statements == 1


def test_what_durability_rests_on(account):
    with account()._file.transaction(write=True) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert connection.execute("PRAGMA synchronous").fetchone() == (2,)


def test_a_power_cut_may_take_a_stored_answer_but_no_charge_or_failure(account, charge):
    ledger = account()
    said = []
    with ledger._file.transaction(write=False) as connection:
        connection.set_trace_callback(said.append)
    for settle in (lambda identity: ledger.finish(identity, {"f": b"noisy"}), ledger.fail):
        settle(ledger.charge(charge()))
    ledger.charge(charge())
    settings = [each.removeprefix("PRAGMA synchronous = ") for each in said if each.startswith("PRAGMA synchronous")]
    assert settings == ["FULL", "NORMAL", "FULL", "FULL", "FULL"]
    assert [said[i + 1] for i, each in enumerate(said) if each.startswith("PRAGMA")] == ["BEGIN IMMEDIATE"] * 5


def test_a_charge_is_in_the_files_when_charge_returns(account, charge, path, tmp_path):
    ledger = account()
    ledger.charge(charge())
    ledger.charge(charge())
    copy = tmp_path / "copy.sqlite"
    for suffix in ("", "-wal"):
        shutil.copy(f"{path}{suffix}", f"{copy}{suffix}")
    assert account(at=copy).balance().statements == 2


# ----------------------------------------------------------------------------------------------------- bad files


def test_not_a_ledger(account, path):
    path.parent.mkdir(exist_ok=True)
    path.write_text("account,epsilon\nshop,3\n" * 100)
    path.chmod(0o644)
    before = path.read_bytes()
    unusable(account, "is not a ledger")
    assert (path.read_bytes(), mode(path)) == (before, 0o644)


def test_the_database_of_another_program_is_left_alone(account, path):
    path.parent.mkdir(exist_ok=True)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE t (x)")
    path.chmod(0o644)
    before = path.read_bytes()
    unusable(account, "is the database of another program")
    assert (path.read_bytes(), mode(path)) == (before, 0o644)
    assert [*path.parent.iterdir()] == [path]


def test_the_ledger_of_a_newer_dpsql(account, path):
    account().close()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 99")
    unusable(account, "was written by another version of dpsql")


def test_an_empty_file_is_not_a_fresh_budget(account, charge, path):
    ledger = account()
    ledger.charge(charge("1"))
    ledger.close()
    path.write_bytes(b"")
    unusable(account, "is empty, so what was spent is unknown")
    assert path.stat().st_size == 0


def test_not_a_file(account, path, tmp_path):
    path.mkdir(parents=True)
    unusable(account, "is not a file")
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    unusable(lambda: account(at=fifo), "is not a file")
    unusable(lambda: account(at=Path("/dev/null")), "is not a file")
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    unusable(lambda: account(at=loop), "cannot be opened")
    dangling = tmp_path / "dangling"
    dangling.symlink_to(tmp_path / "nothing")
    unusable(lambda: account(at=dangling), "was removed")
    unusable(lambda: account(at=Path("a\0b")), "file name")
    unusable(lambda: account(at=tmp_path / ("x" * 300)), "cannot be opened")


def test_a_folder_that_is_not_there_is_not_made(account, tmp_path):
    """A slip of the pen in a ledger's name would be a whole budget."""
    unusable(lambda: account(at=tmp_path / "sate" / "ledger.sqlite"), "lies in a folder that does not exist")
    assert not (tmp_path / "sate").exists()


def test_a_folder_that_cannot_be_made(account, tmp_path):
    (tmp_path / "file").write_text("")
    unusable(lambda: account(at=tmp_path / "file" / "ledger.sqlite"), "cannot be opened")


def test_rights_that_are_missing(process):
    """As a user without power over rights, since root may do everything; in a folder that this user can reach."""
    code = """
import os, shutil, tempfile
nobody = 65534
folder = tempfile.mkdtemp()
os.environ["XDG_STATE_HOME"] = folder + "/state"
if os.geteuid() == 0:
    os.chown(folder, nobody, nobody); os.setgid(nobody); os.setuid(nobody)
def attempt(at):
    global path
    path = Path(at)
    try:
        ledger = account(1)
        ledger.charge(charge("1/10"))
        print(ledger.balance().statements)
        ledger.close()
    except Error as error:
        print(error.code, error.reason.replace(str(at), "FILE"))
one, two = folder + "/one", folder + "/two"
attempt(one)
os.chmod(one, 0o400)
attempt(one)
os.chmod(one, 0o000)
attempt(one)
os.chmod(one, 0o600)
os.chmod(folder, 0o500)
attempt(one)
attempt(two)
os.chmod(folder, 0o700)
attempt(one)
os.unlink(one)
shutil.rmtree(folder)
"""
    output, errors = process(code).communicate(timeout=PATIENCE)
    assert output.splitlines() == [
        "1",
        "DP403 the ledger FILE cannot be written: it or its folder is read-only",
        "DP403 the ledger FILE cannot be written: it or its folder is read-only",
        "DP403 the ledger FILE cannot be written: it or its folder is read-only",
        "DP403 the ledger FILE cannot be opened: Permission denied",
        "2",
    ], errors


def test_locked_by_another_process(account, charge, path, impatient):
    ledger = account()
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        unusable(lambda: ledger.charge(charge()), "is locked by another process (waited 0.2 s)")
        unusable(account, "is locked by another process")
        assert ledger.balance().statements == 0  # reading waits for nobody
        other.execute("COMMIT")
    ledger.charge(charge())


def test_removed_or_replaced_while_in_use(account, charge, path, tmp_path):
    ledger = account()
    ledger.charge(charge())
    elsewhere = tmp_path / "elsewhere"
    path.rename(elsewhere)
    unusable(lambda: ledger.charge(charge()), "was removed while it was in use")
    assert not path.exists()
    account("other", at=tmp_path / "fresh.sqlite").close()
    (tmp_path / "fresh.sqlite").rename(path)
    unusable(lambda: ledger.charge(charge()), "was replaced while it was in use")
    elsewhere.replace(path)
    ledger.charge(charge())
    assert ledger.balance().statements == 2


def test_closed(account, charge):
    ledger = account()
    ledger.close()
    ledger.close()
    unusable(ledger.balance, "is closed")
    unusable(lambda: ledger.charge(charge()), "is closed")


def test_the_disk_is_full(account, path, process):
    """A limit on file sizes stands for the full disk: writes fail in the same place."""
    code = """
import resource
ledger = account(1000)
resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, resource.RLIM_INFINITY))
charged = 0
try:
    while True:
        ledger.charge(charge("1/10")); charged += 1
except Error as error:
    print(error.code, "disk is full" in error.reason)
try:
    account(1000).charge(charge("1/10"))
    charged += 1
except Error as error:
    print(error.code, "disk is full" in error.reason)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
ledger.charge(charge("1/10"))
ledger.verify()
print(charged + 1, ledger.balance().statements)
"""
    output, errors = process(code).communicate(timeout=PATIENCE)
    *refusals, counts = output.splitlines()
    assert refusals, errors
    assert set(refusals) == {"DP403 True"}
    charged, kept = map(int, counts.split())
    assert 10 < charged <= kept


# --------------------------------------------------------------------------------------------------------- forks


def in_child(action) -> str:
    """What the action returns in a forked child, as text."""
    reader, writer = os.pipe()
    if not (child := os.fork()):
        try:
            os.write(writer, str(action()).encode())
        except BaseException as error:
            os.write(writer, repr(error).encode())
        finally:
            os._exit(0)
    os.close(writer)
    with open(reader, "rb") as answer:
        text = answer.read().decode()
    os.waitpid(child, 0)
    return text


def test_parent_and_child_spend_from_one_budget_after_a_fork(account, charge):
    ledger = account()
    ledger.charge(charge())
    assert in_child(lambda: ledger.charge(charge())) == "2"
    assert ledger.charge(charge()) == 3
    assert in_child(lambda: (ledger.charge(charge()), ledger.balance().statements)) == "(4, 4)"
    ledger.verify()
    assert account().balance().statements == 4


def test_a_child_outlives_its_parents_session(account, charge):
    """The parent's close ends its WAL; the child's charges must not go with it."""
    ledger = account()
    ledger.charge(charge())

    def child():
        ledger.charge(charge())
        ready, go = os.pipe()
        if not os.fork():
            os.close(go)
            os.read(ready, 1)  # until the middle process is gone
            ledger.charge(charge())
            os._exit(0)
        ledger.close()
        os.close(go)
        os.wait()
        return account().balance().statements

    assert in_child(child) == "3"
    ledger.close()
    assert account().balance().statements == 3


def test_a_fork_that_python_does_not_see_is_refused(account, charge):
    ledger = account()
    ledger.charge(charge())
    reader, writer = os.pipe()
    if not (child := ctypes.PyDLL(None).fork()):
        try:
            ledger.charge(charge())
        except Error as error:
            os.write(writer, error.reason.encode())
            ledger.close()
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    os.close(writer)
    with open(reader, "rb") as answer:
        assert b"before a fork" in answer.read()
    assert ledger.charge(charge()) == 2
