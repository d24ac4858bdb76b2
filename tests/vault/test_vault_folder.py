"""Snapshots on disk: complete or absent, whoever dies and whoever else is at work; and readable by the owner alone."""

from __future__ import annotations

import json
import logging
import os
import signal
import stat
import subprocess
import sys
import threading
from pathlib import Path

import duckdb
import pytest

import dpsql
from dpsql.errors import PolicyError
from dpsql.vault import snapshot as snapshots
from dpsql.vault.open import open_engines
from dpsql.vault.snapshot import Snapshot, find, prepare
from tests.vault.kit import again, column, policy, table

POLICY = policy(
    table("people", ["uid", column("age", (0, 99))], "uid", key=("uid",)),
    table("visits", ["uid", "place"], "uid"),
    table("places", ["place"], key=("place",)),
)


@pytest.fixture
def database(tmp_path: Path) -> Path:
    path = tmp_path / "o'wner.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute(
            """CREATE TABLE people AS SELECT i AS uid, i % 120 AS age FROM range(500) r(i);
            CREATE TABLE visits AS SELECT i % 500 AS uid, 'place ' || i % 9 AS place FROM range(5000) r(i);
            CREATE TABLE places AS SELECT 'place ' || i AS place FROM range(9) r(i)"""
        )
    return path


def folder_of(account: str = "test") -> Path:
    return Path(os.environ["XDG_CACHE_HOME"]) / "dpsql" / account


def entries() -> list[str]:
    return sorted(entry.name for entry in folder_of().iterdir() if entry.name != ".lock")


def is_good(snapshot: Snapshot) -> bool:
    engines = open_engines(snapshot, threads=1)
    try:
        return engines.private.run("SELECT count(*) AS n FROM priv.visits").to_pylist() == [{"n": 5000}]
    finally:
        engines.close()


def test_a_snapshot_is_made_once_and_found_again(database: Path) -> None:
    assert find(POLICY) is None
    told: list[tuple[str, float]] = []
    made, report = prepare(POLICY, database, progress=lambda name, share: told.append((name, share)))
    assert find(POLICY) == made == prepare(POLICY, database)[0]
    assert prepare(POLICY, database)[1] == report
    assert entries() == [made.folder.name]
    assert is_good(made)
    assert made.source == str(database)
    assert {name for name, _ in told} == {"people", "visits", "places", ""}
    assert [share for _, share in told] == sorted(share for _, share in told)
    assert "people: 500 of 500 rows" in report.render()
    assert "age: 80 values beyond its bounds: clamped" in report.render()


def test_it_is_readable_by_the_owner_alone(database: Path) -> None:
    umask = os.umask(0)
    try:
        made, _ = prepare(POLICY, database)
    finally:
        os.umask(umask)
    for path in (folder_of(), folder_of().parent, made.folder):
        assert stat.S_IMODE(path.stat().st_mode) == 0o700
    for path in made.folder.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert sorted(path.name for path in made.folder.iterdir()) == [
        "facts.json",
        "private.duckdb",
        "public.duckdb",
        "report.json",
    ]


def test_neither_the_salt_nor_other_columns_are_kept(database: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    salt = b"the salt of this test, in ascii."
    monkeypatch.setattr(snapshots.secrets, "token_bytes", lambda n: salt if n == 32 else b"12345678")
    with duckdb.connect(str(database)) as connection:
        connection.execute(
            "ALTER TABLE people ADD COLUMN name VARCHAR; UPDATE people SET name = 'a secret name ' || uid"
        )
    made, _ = prepare(POLICY, database)
    for path in made.folder.iterdir():
        content = path.read_bytes()
        assert salt not in content
        assert salt.hex().encode() not in content
        assert b"a secret name" not in content


def test_another_policy_needs_a_refresh(database: Path) -> None:
    prepare(POLICY, database)
    changed = again(POLICY, "two")
    for attempt in (lambda: find(changed), lambda: prepare(changed, database)):
        with pytest.raises(PolicyError, match="prepare --refresh") as caught:
            attempt()
        assert caught.value.code == "DP304"
    made, _ = prepare(changed, database, refresh=True)
    assert find(changed) == made
    with pytest.raises(PolicyError, match="DP304"):
        find(POLICY)


def test_a_refresh_removes_what_was_before_and_open_engines_go_on(database: Path) -> None:
    first, _ = prepare(POLICY, database)
    engines = open_engines(first, threads=1)
    with duckdb.connect(str(database)) as connection:
        connection.execute("DELETE FROM visits WHERE uid < 100")
    second, _ = prepare(POLICY, database, refresh=True)
    assert first.folder.name not in entries()
    assert find(POLICY) == second
    assert engines.private.run("SELECT count(*) AS n FROM priv.visits").to_pylist() == [{"n": 5000}]
    engines.close()
    assert entries() == [second.folder.name]
    with pytest.raises(PolicyError, match="DP305"):
        open_engines(first)


def test_the_newest_is_the_last_one_made_whatever_the_clock_says(
    database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshots, "_remove_others", lambda *_: None)
    made = []
    for now in (2000.0, 1000.0, 1500.0):
        monkeypatch.setattr(snapshots.time, "time", lambda now=now: now)
        made.append(prepare(POLICY, database, refresh=True)[0])
        assert find(POLICY) == made[-1]
    assert len(entries()) == 3


def test_a_changed_source_is_reported_and_not_acted_on(database: Path) -> None:
    first, report = prepare(POLICY, database)
    assert not report.source_changed
    with duckdb.connect(str(database)) as connection:
        connection.execute("CREATE TABLE more AS SELECT 1 AS x")
    second, report = prepare(POLICY, database)
    assert second == first
    assert report.source_changed
    assert "the database has changed since" in report.render()


@pytest.mark.parametrize("name", ["facts.json", "report.json", "private.duckdb", "public.duckdb"])
def test_a_folder_that_lacks_a_file_is_no_snapshot(database: Path, name: str) -> None:
    made, _ = prepare(POLICY, database)
    (made.folder / name).unlink()
    assert find(POLICY) is None
    assert is_good(prepare(POLICY, database)[0])
    assert len(entries()) == 1


@pytest.mark.parametrize("content", ["", "{", "[]", "null", '{"format": 1}', '{"format": 99}'])
def test_facts_that_cannot_be_read_are_no_snapshot(database: Path, content: str) -> None:
    made, _ = prepare(POLICY, database)
    (made.folder / "facts.json").write_text(content, encoding="utf-8")
    assert find(POLICY) is None


@pytest.mark.parametrize("at", [0.1, 0.3, 0.5, 0.7, 0.9])
def test_facts_with_another_letter_are_no_snapshot(database: Path, at: float) -> None:
    """Of keys and counts the planner believes them: another name or number there would be a claim that nobody made."""
    made, _ = prepare(POLICY, database)
    file = made.folder / "facts.json"
    text = file.read_text(encoding="utf-8")
    place = next(i for i in range(int(at * len(text)), len(text)) if text[i].isalnum())
    file.write_text(f"{text[:place]}{'8' if text[place] != '8' else '9'}{text[place + 1 :]}", encoding="utf-8")
    assert find(POLICY) is None


def test_a_copied_folder_is_no_snapshot(database: Path) -> None:
    made, _ = prepare(POLICY, database)
    made.folder.rename(made.folder.with_name("another"))
    assert find(POLICY) is None


def test_facts_come_back_as_they_were(database: Path) -> None:
    made, _ = prepare(POLICY, database)
    found = find(POLICY)
    assert found is not None
    assert found.facts == made.facts
    assert found.facts.tables["visits"].rows is None
    assert json.loads((made.folder / "facts.json").read_text(encoding="utf-8"))["tables"]["visits"]["rows"] is None


@pytest.mark.parametrize("account", ["", ".", "..", "a/b", ".hidden", "a\0b", "ä", "x" * 300])
def test_an_account_that_is_no_folder_name_is_refused(database: Path, account: str) -> None:
    with pytest.raises(PolicyError, match="DP303"):
        prepare(policy(*POLICY.tables.values(), account=account), database)


# ---- databases that cannot be used


def test_files_that_are_no_database(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("hello" * 1000, encoding="utf-8")
    (tmp_path / "torn").write_bytes(b"\0" * 8 + b"DUCK" + b"\xff" * 5000)
    for name, words in {
        "none": "there is no such file",
        ".": "is not a file",
        "text": "is not a DuckDB database",
        "torn": "",
    }.items():
        with pytest.raises(PolicyError, match="DP302") as caught:
            prepare(POLICY, tmp_path / name)
        assert words in str(caught.value)
        assert entries() == []


def test_a_database_that_is_open_for_writing(database: Path) -> None:
    with duckdb.connect(str(database)), pytest.raises(PolicyError, match="is open for writing elsewhere"):
        prepare(POLICY, database)
    script = "import duckdb, sys; c = duckdb.connect(sys.argv[1]); print('open', flush=True); sys.stdin.read()"
    other = subprocess.Popen(
        [sys.executable, "-c", script, str(database)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert other.stdout is not None
        assert other.stdout.readline() == "open\n"
        with pytest.raises(PolicyError, match="is open for writing elsewhere"):
            prepare(POLICY, database)
    finally:
        other.communicate()
    assert is_good(prepare(POLICY, database)[0])


def test_the_database_is_not_written_to(database: Path) -> None:
    before = (database.read_bytes(), database.stat().st_mtime_ns)
    database.chmod(0o400)
    prepare(POLICY, database)
    assert (database.read_bytes(), database.stat().st_mtime_ns) == before


def test_what_the_engine_says_goes_nowhere(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    database = tmp_path / "d.duckdb"
    with duckdb.connect(str(database)) as connection:
        connection.execute(
            """CREATE TABLE t AS SELECT 1 AS uid, 'alice-secret' AS name;
            CREATE VIEW people AS SELECT uid, CAST(name AS INTEGER) AS age FROM t;
            CREATE VIEW visits AS SELECT uid, name AS place FROM t; CREATE VIEW places AS SELECT 'x' AS place"""
        )
    with caplog.at_level(logging.DEBUG, logger="dpsql.owner"), pytest.raises(PolicyError) as caught:
        prepare(POLICY, database)
    assert caught.value.code == "DP303"
    assert str(caught.value).startswith("DP303: the snapshot could not be made; the owner's log says more\n")
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__
    assert "alice" not in caplog.text
    assert "ConversionException" in caplog.text
    assert entries() == []


def test_an_interrupt_of_the_owner_stays_one(tmp_path: Path, hears_ctrl_c: None) -> None:
    database = tmp_path / "d.duckdb"
    with duckdb.connect(str(database)) as connection:
        connection.execute(
            """CREATE VIEW people AS SELECT i AS uid, length(md5(i::VARCHAR)) AS age FROM range(1000000000) r(i);
            CREATE VIEW visits AS SELECT 1 AS uid, 'x' AS place; CREATE VIEW places AS SELECT 'x' AS place"""
        )
    timer = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))

    def interrupted() -> None:
        timer.start()
        prepare(POLICY, database)

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    timer.join()
    assert entries() == []


# ---- processes that die, and processes that meet

# A process that imports all and then forks. One fork prepares, and kills itself at a step or after some milliseconds;
# another looks at what is left.
FORKS = """
import os, signal, sys, threading
from pathlib import Path
from dpsql.vault import snapshot as snapshots
from tests.vault.test_vault_folder import POLICY, is_good

def step(function):
    def counted(*args, **more):
        global count
        count += 1
        if count == at:
            os.kill(os.getpid(), signal.SIGKILL)
        return function(*args, **more)
    return counted

def prepare(refresh):
    for owner, name in [(snapshots, "attach"), (snapshots, "find_tables"), (snapshots, "make_tables"),
                        (snapshots, "save"), (snapshots, "_sync"), (snapshots, "_sweep"), (Path, "rename"),
                        (snapshots, "_remove_others"), (Path, "chmod"), (snapshots.shutil, "rmtree"),
                        (snapshots.duckdb, "connect")]:
        setattr(owner, name, step(getattr(owner, name)))
    snapshots.prepare(POLICY, Path(sys.argv[1]), refresh=refresh, progress=step(lambda name, share: None))

def look():
    found = snapshots.find(POLICY)
    print(at, "none" if found is None else "good" if is_good(found) else "bad", flush=True)

def fork(function, *args):
    process = os.fork()
    if process == 0:
        try:
            function(*args)
            os._exit(0)
        finally:
            os._exit(9)
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])

def later(seconds):
    threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGKILL)).start()
    snapshots.prepare(POLICY, Path(sys.argv[1]), refresh=True)

for at in range(1, 200):
    count = 0
    ended = fork(prepare, sys.argv[2] == "refresh")
    fork(look)
    if ended != -signal.SIGKILL:
        break
for at in (5, 20, 40, 60, 80):
    if ended == 0:
        fork(later, at / 1000)
        fork(look)
sys.exit(ended)
"""

TOGETHER = """
import sys
import threading
from pathlib import Path
from dpsql.vault import snapshot as snapshots
from tests.vault.test_vault_folder import POLICY
print("ready", flush=True)
sys.stdin.readline()
print(snapshots.prepare(POLICY, Path(sys.argv[1]))[0].folder.name)
"""


def start(script: str, *arguments: str) -> subprocess.Popen[str]:
    root = str(Path(dpsql.__file__).parents[1])
    return subprocess.Popen(
        [sys.executable, "-c", script, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=root,
        env={**os.environ, "PYTHONPATH": root},
    )


@pytest.mark.parametrize("how", ["new", "refresh"])
def test_killed_at_any_step_there_is_a_good_snapshot_or_none(database: Path, how: str) -> None:
    if how == "refresh":
        prepare(POLICY, database)
    process = start(FORKS, str(database), how)
    out, errors = process.communicate()
    assert process.returncode == 0, errors
    seen = [line.split()[1] for line in out.splitlines()]
    assert len(seen) >= 25
    if how == "refresh":  # the one before, or the new one
        assert set(seen) == {"good"}
    else:  # none, until the rename
        assert seen == sorted(seen, reverse=True)
        assert seen.count("none") >= 18
    made, _ = prepare(POLICY, database)
    assert is_good(made)
    assert entries() == [made.folder.name]


def test_several_at_once_make_one(database: Path) -> None:
    processes = [start(TOGETHER, str(database)) for _ in range(3)]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    answers = [process.communicate() for process in processes]
    assert all(process.returncode == 0 for process in processes), answers
    assert entries() == sorted({out.strip() for out, _ in answers})
    assert len(entries()) == 1


def test_spill_folders_of_the_dead_are_removed_and_those_in_use_are_not(database: Path) -> None:
    made, _ = prepare(POLICY, database)
    (folder_of() / ".spill-dead").mkdir()
    (folder_of() / ".spill-dead" / "private").write_text("rows", encoding="utf-8")
    engines = open_engines(made, threads=1)
    prepare(POLICY, database)
    assert entries() == sorted([made.folder.name, engines.spill.folder.name])
    engines.close()
    engines.close()
    assert entries() == [made.folder.name]
