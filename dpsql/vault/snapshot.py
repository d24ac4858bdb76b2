"""Snapshots on disk: where they are, who makes one, which is the newest good one.

Promise: a folder that `find` returns is complete and belongs to the policy. It is built under a name that begins with
a dot, flushed, and renamed while a lock is held; so two processes at once, or one that dies at any moment, leave a
good snapshot or none. Snapshots hold private rows: folders are 0700, files 0600.

    <cache>/dpsql/<account>/.lock
    <cache>/dpsql/<account>/<random id>/private.duckdb, public.duckdb, facts.json, report.json

What the engine says while one is made can quote rows, so it goes nowhere: an analyst's first `connect` may be what
began it. The owner's log gets the step and the kind of failure.
"""

from __future__ import annotations

import fcntl
import logging
import os
import re
import secrets
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path as FilePath

import duckdb

from dpsql.errors import Error, refusal
from dpsql.places import base, real
from dpsql.policy.facts import PublicFacts
from dpsql.policy.model import Policy
from dpsql.vault.files import Files, find_files
from dpsql.vault.interrupts import is_interrupt
from dpsql.vault.materialise import PRIVATE, PUBLIC, Progress, make_tables
from dpsql.vault.record import Record, load_record, load_report, save
from dpsql.vault.report import Report
from dpsql.vault.source import CATALOG, attach, find_tables, mismatch

owner = logging.getLogger("dpsql.owner")
owner.addHandler(logging.NullHandler())

_SAFE = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,199}")
MEMORY_LIMIT = "1400MiB"
"""Of the engine while a snapshot is made, so that the process stays within 2 GiB; what is larger goes to disk."""

THREADS = 8
"""At most: each takes memory of its own."""

_WORK = "work"
"""The catalog of the file that holds tables on the way."""

_BUILDING, _REMOVING, _SPILL = ".building-", ".removing-", ".spill-"


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One complete snapshot. facts: what the planner may know of it. source: the database it was made from, or "".
    sources: the files and folders from which its private rows come."""

    folder: FilePath
    facts: PublicFacts
    source: str
    sources: tuple[str, ...]

    @property
    def private(self) -> FilePath:
        return self.folder / "private.duckdb"

    @property
    def public(self) -> FilePath:
        return self.folder / "public.duckdb"

    @property
    def kept(self) -> tuple[FilePath, ...]:
        """What it was made from, and the folder of all snapshots of its account."""
        made_from = (*self.sources, *([self.source] if self.source else []))
        return (*map(FilePath, made_from), self.folder.parent)


class Spill:
    """A folder beside the snapshots for what an engine cannot hold in memory. It stays while the process lives, even
    where the snapshot is replaced; the kernel's lock on it tells that it is in use."""

    def __init__(self, home: FilePath):
        self.folder = home / f"{_SPILL}{secrets.token_hex(8)}"
        self.folder.mkdir(mode=0o700)
        self._handle: int | None = os.open(self.folder, os.O_RDONLY | os.O_CLOEXEC)
        fcntl.flock(self._handle, fcntl.LOCK_SH)

    def close(self) -> None:
        """Idempotent."""
        if self._handle is not None:
            shutil.rmtree(self.folder, ignore_errors=True)
            os.close(self._handle)
            self._handle = None


def find(policy: Policy) -> Snapshot | None:
    """The newest good snapshot, or None. Raises PolicyError (DP304) where it was made under another policy."""
    newest = _newest(_home(policy))
    if newest is None:
        return None
    folder, record = newest
    if record.digest != policy.digest:
        raise refusal(
            "DP304",
            "the snapshot was made under another version of this policy",
            repair="`dpsql prepare --refresh` makes a new one",
        )
    return Snapshot(folder, record.facts, record.source, record.sources)


def prepare(
    policy: Policy, database: FilePath | None, *, refresh: bool = False, progress: Progress | None = None
) -> tuple[Snapshot, Report]:
    """The snapshot of this policy, made from the database and the files it names where there is none yet or `refresh`
    asks for a new one; older ones are then removed. database: None where every table reads files. progress: called
    with a table's name and the share that is done.

    Raises PolicyError: DP302 where database and policy do not match, DP304 where the snapshot there is was made under
    another policy, DP303 for any other failure.
    """
    home = _home(policy)
    try:
        with _locked(home):
            _sweep(home)
            before = _newest(home)
            ready = None if refresh else find(policy)
            made = ready is None
            if ready is None:
                where = None if database is None else real(database)
                ready = _make(policy, where, home, progress or _quiet)
            _remove_others(home, ready.folder)
            return ready, _report(policy, ready.folder, before[1] if made and before else None)
    except OSError as error:
        where = error.filename or home
        owner.error("snapshot of account %s: %s: %s", policy.budget.account, where, error.strerror)
        raise _failed() from None


def _quiet(name: str, share: float) -> None:
    """No progress is shown."""


def _failed() -> Error:
    reason = "the snapshot could not be made; the owner's log says more"
    return refusal("DP303", reason, repair="for the owner: `dpsql prepare` shows that log")


def _make(policy: Policy, database: FilePath | None, home: FilePath, progress: Progress, salt: bytes = b"") -> Snapshot:
    """Builds beside, then renames. The caller holds the lock."""
    started = time.monotonic()
    identifier = secrets.token_hex(8)
    building = home / f"{_BUILDING}{identifier}"
    building.mkdir(mode=0o700)
    step = ["opening the database"]

    def told(name: str, share: float) -> None:
        step[0] = f"table {name}"
        progress(name, share)

    try:
        problems: list[str] = []
        files = find_files(policy, problems)
        if database is None and not policy.reads_files_only:
            problems.append("no database is named, and not every table has a file as its source")
        if problems:
            raise mismatch(problems)
        seen = _stamps(database, files)
        connection = duckdb.connect(":memory:")
        try:
            _configure(connection, building)
            if database is not None:
                attach(connection, database)
            found = find_tables(connection, policy, files)
            for name, file in ((PRIVATE, "private"), (PUBLIC, "public"), (_WORK, "work")):
                path = str(building / f"{file}.duckdb").replace("'", "''")
                connection.execute(f"ATTACH '{path}' AS {name}")
            tables, reports = make_tables(connection, policy, found, salt or secrets.token_bytes(32), told, _WORK)
            step[0] = "writing"
            connection.execute(f"DETACH {PRIVATE}; DETACH {PUBLIC}; DETACH DATABASE IF EXISTS {CATALOG}")
        finally:
            connection.close()
        for left in building.glob("work.duckdb*"):
            left.unlink()
        shutil.rmtree(building / "temporary", ignore_errors=True)
        facts = PublicFacts(identifier, tables)
        source, sources = str(database or ""), _private_sources(policy, database, files)
        record = Record(facts, policy.digest, _sequence(home) + 1, time.time(), source, sources, seen)
        save(building, record, Report(reports, source, time.monotonic() - started))
        _flush(building)
        folder = home / identifier
        building.rename(folder)
        _sync(home)
        return Snapshot(folder, facts, source, sources)
    except Error:
        raise
    except Exception as error:  # the engine's, the machine's or our own: the analyst may not see which
        if is_interrupt(error):
            raise KeyboardInterrupt from None
        owner.error("snapshot of account %s: %s: %s", policy.budget.account, step[0], type(error).__name__)
        raise _failed() from None
    finally:
        shutil.rmtree(building, ignore_errors=True)


def _configure(connection: duckdb.DuckDBPyConnection, building: FilePath) -> None:
    """Spilling stays inside the folder; nothing is loaded from elsewhere; memory is bounded."""
    threads = min(os.cpu_count() or 1, THREADS)
    spill = str(building / "temporary").replace("'", "''")
    connection.execute(
        f"""SET temp_directory = '{spill}'; SET memory_limit = '{MEMORY_LIMIT}'; SET threads = {threads};
        SET preserve_insertion_order = true; SET enable_progress_bar = false;
        SET autoinstall_known_extensions = false; SET autoload_known_extensions = false;
        SET python_enable_replacements = false; SET TimeZone = 'UTC'"""
    )


# ---- folders


def _home(policy: Policy) -> FilePath:
    """The account's folder, which need not exist."""
    account = policy.budget.account
    if not _SAFE.fullmatch(account):
        raise refusal("DP303", "the account's name cannot name a folder", repair="use letters, digits, _ and -")
    cache = base("XDG_CACHE_HOME", ".cache")
    if cache is None:
        reason = "this user has no home folder to keep a snapshot in"
        raise refusal("DP303", reason, repair="set XDG_CACHE_HOME to a folder of yours")
    return cache / "dpsql" / account


@contextmanager
def _locked(home: FilePath) -> Iterator[None]:
    """Holds the account's lock, waiting for it. The kernel releases it when the process dies."""
    for folder in (home.parent, home):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.chmod(0o700)
    handle = os.open(home / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _sweep(home: FilePath) -> None:
    """Removes what a process left that died. The caller holds the lock, so nobody is at work on it."""
    for entry in home.iterdir():
        if entry.name.startswith((_BUILDING, _REMOVING)) or (entry.name.startswith(_SPILL) and not _in_use(entry)):
            shutil.rmtree(entry, ignore_errors=True)


def _in_use(folder: FilePath) -> bool:
    handle = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return False
    except BlockingIOError:
        return True
    finally:
        os.close(handle)


def _remove_others(home: FilePath, keep: FilePath) -> None:
    """Renamed first, so that nobody finds half a folder. Engines that have the files open go on reading them."""
    for entry in home.iterdir():
        if entry.is_dir() and not entry.name.startswith(".") and entry != keep:
            hidden = home / f"{_REMOVING}{secrets.token_hex(8)}"
            entry.rename(hidden)
            shutil.rmtree(hidden, ignore_errors=True)


def _complete(home: FilePath) -> Iterator[tuple[FilePath, Record]]:
    try:
        entries = [entry for entry in home.iterdir() if not entry.name.startswith(".")]
    except OSError:
        return
    for entry in entries:
        record = load_record(entry)
        if record is not None:
            yield entry, record


def _newest(home: FilePath) -> tuple[FilePath, Record] | None:
    return max(_complete(home), key=lambda pair: pair[1].sequence, default=None)


def _sequence(home: FilePath) -> int:
    """Snapshots are numbered, since a clock can go back."""
    newest = _newest(home)
    return newest[1].sequence if newest is not None else 0


def _private_sources(policy: Policy, database: FilePath | None, files: Mapping[str, Files]) -> tuple[str, ...]:
    """What an account belongs to: every place that private rows were read from, a folder and its files alike, so that
    a policy over some of them finds the account of another. (Public places where there is no private table.)"""
    private = [t for t in policy.tables.values() if not t.public] or list(policy.tables.values())
    places: dict[str, None] = {}
    for table in private:
        if table.name in files:
            places |= dict.fromkeys(map(str, (files[table.name].path, *files[table.name].resolved)))
        elif database is not None:
            places[str(database)] = None
    return tuple(places)


def _report(policy: Policy, folder: FilePath, before: Record | None) -> Report:
    """The report of a snapshot. before: the one that it takes the place of, if it is new."""
    record = load_record(folder)
    if record is None:
        return load_report(folder, source_changed=True)
    if before is not None:
        return replace(load_report(folder, source_changed=False), changes=_changes(before.stamps, record.stamps))
    changes = _changes(
        record.stamps, _stamps(FilePath(record.source) if record.source else None, find_files(policy, []))
    )
    return replace(load_report(folder, source_changed=bool(changes)), changes=changes)


def _changes(before: Mapping[str, tuple[int, int]], after: Mapping[str, tuple[int, int]]) -> tuple[str, ...]:
    """What the owner may want to know of the files themselves; nobody looks into them."""
    found = []
    for path in sorted(before.keys() | after.keys()):
        old, new = before.get(path, _NOTHING), after.get(path, _NOTHING)
        if old == new:
            continue
        if _NOTHING in (old, new):
            found.append(f"{path}: is {'new' if old == _NOTHING else 'gone'}")
        else:
            found.append(f"{path}: {_told(old)}, now {_told(new)}")
    return tuple(found)


def _told(stamp: tuple[int, int]) -> str:
    changed = datetime.fromtimestamp(stamp[1] / 1e9, UTC)
    return f"{stamp[0]:,} bytes of {changed:%Y-%m-%d %H:%M:%S} UTC"


def _stamps(database: FilePath | None, files: Mapping[str, Files]) -> dict[str, tuple[int, int]]:
    """By path: the database, and every file that a table reads."""
    paths = {file for one in files.values() for file in one.resolved} | ({database} if database else set())
    return {str(path): _stamp(path) for path in sorted(paths)}


_NOTHING = (0, 0)


def _stamp(database: FilePath) -> tuple[int, int]:
    """Size and time of change: enough to tell the owner that the file is not what it was."""
    try:
        status = database.stat()
    except OSError:
        return _NOTHING
    return (status.st_size, status.st_mtime_ns)


def _flush(folder: FilePath) -> None:
    for entry in folder.iterdir():
        entry.chmod(0o600)
        _sync(entry)
    _sync(folder)


def _sync(path: FilePath) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
