"""The ledger's file: one SQLite database that is made, opened, guarded and locked here.

Role: hand out transactions on a file that is surely a ledger of ours. Promises: what a `write` transaction did is on
the disk when the block is left (WAL, synchronous FULL), unless it says that it may be lost; a file that is missing
after it was opened, replaced, empty, damaged, of another program or of a newer dpsql is refused, never made afresh,
because a fresh ledger is a fresh budget; whatever goes wrong is a `BudgetError` in our own words. It knows nothing of
budgets.

The file belongs on a local disk: SQLite's WAL does not work between machines.
"""

from __future__ import annotations

import os
import re
import sqlite3
import stat
import tempfile
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from fractions import Fraction
from pathlib import Path
from urllib.parse import quote

from dpsql.errors import Error, refusal
from dpsql.ledger.schema import APPLICATION_ID, SCHEMA_VERSION, VERSIONS, made, upgrade
from dpsql.places import base

BUSY_SECONDS = 10.0
"""How long to wait for another writer. One charge holds the lock for milliseconds."""

NAP_SECONDS = 0.005

# SQLite's primary result codes, in words. Its own texts are never shown.
_REASONS = {
    sqlite3.SQLITE_READONLY: "cannot be written: it or its folder is read-only",
    sqlite3.SQLITE_FULL: "cannot grow: the disk is full",
    sqlite3.SQLITE_IOERR: "cannot be read or written: the disk is full, over its quota, or failing",
    sqlite3.SQLITE_CORRUPT: "is damaged",
    sqlite3.SQLITE_NOTADB: "is not a ledger, or is damaged",
    sqlite3.SQLITE_CANTOPEN: "cannot be opened: the file must be readable and its folder writable",
    sqlite3.SQLITE_PERM: "cannot be opened: access is denied",
    sqlite3.SQLITE_CONSTRAINT: "is damaged: its rows contradict each other",
    sqlite3.SQLITE_TOOBIG: "cannot hold a value of this size",
}

_AMOUNT = re.compile(r"[0-9]{1,1200}/[1-9][0-9]{0,1199}")

# What to do, by how the reason begins.
_REPAIRS = {
    "cannot be written": "let dpsql's user write the file and its folder",
    "cannot grow": "make room on the disk; what was charged stays charged",
    "cannot be read or written": "make room on the disk, or mend it; what was charged stays charged",
    "cannot be opened": "dpsql's user must be able to read and write the file and its folder",
    "is locked": "wait until the other process is done, or end it",
    "cannot hold": "ask for less at once",
    "cannot be used": "`dpsql ledger verify` says what is wrong with it",
    "is damaged": "put a backup back, and then say `dpsql ledger adopt`: what it does not know of is no longer counted",
    "is not a ledger": "name the ledger's own file, or put a backup back",
    "is the database": "name a file of its own with --ledger",
    "is not a file": "name a file with --ledger",
    "lies in a folder": "make the folder, or mend the name: a new ledger begins with a whole budget",
    "does not exist": "name the ledger's file with --ledger",
    "is closed": "connect again",
}


def default_path() -> Path:
    """`$XDG_STATE_HOME/dpsql/ledger.sqlite`, else below `~/.local/state`. Raises DP403 where the user has no home."""
    state = base("XDG_STATE_HOME", ".local/state")
    if state is None:
        reason = "this user has no home folder to keep a ledger and its key in"
        raise refusal("DP403", reason, repair="set XDG_STATE_HOME to a folder of yours")
    return state / "dpsql" / "ledger.sqlite"


def chains() -> Path:
    """The folder of keys and heads; see `keys`."""
    return default_path().parent / "chains"


class LedgerFile:
    """One connection to the file, opened when first needed, guarded by a lock, and never carried over a fork."""

    def __init__(self, path: Path | None, *, make: bool = True):
        """path: None for `default_path()`. make: whether to make the file where none is."""
        # Absolute from the start: the host program may change its working directory later.
        self.path = Path(os.path.abspath(default_path() if path is None else path))
        self._private_folder, self._may_make = path is None, make
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._pid = 0
        self._identity: tuple[int, int] | None = None
        self._closed = False
        with _registry:
            _files.add(self)

    @contextmanager
    def transaction(
        self, *, write: bool, durable: bool = True, after: Callable[[], None] | None = None
    ) -> Iterator[sqlite3.Connection]:
        """All of the block or nothing of it. With `write` no other process is between its reads and its writes; what
        it wrote outlives a power cut, or with `durable` off, as soon as a later durable write does (SQLite appends to
        one log). A kill of the process takes nothing in either case. `after` is called once all of it is there, while
        no fork can come between."""
        with _registry:
            pass  # a fork that waits goes first
        with self._lock:
            try:
                try:
                    connection = self._begin(write, durable)
                    yield connection
                    connection.execute("COMMIT")
                    if after is not None:
                        after()
                except BaseException:  # a Ctrl-C too, wherever it strikes: nobody else may wait for our lock
                    self._roll_back()
                    raise
            except sqlite3.Error as error:
                self._drop()  # an open transaction ends with its connection; the next use opens a new one
                raise self.refused(_reason(error)) from None
            except UnicodeDecodeError:  # from the module itself, where even SQLite's message quotes damaged bytes
                self._drop()
                raise self.refused("is damaged") from None

    def close(self) -> None:
        with self._lock:
            self._closed = True
            self._drop()

    def refused(self, reason: str, repair: str = "") -> Error:
        """The error (DP403). Where no repair is given, it is the one for reasons that begin so."""
        known = next((each for start, each in _REPAIRS.items() if reason.startswith(start)), "")
        return refusal("DP403", f"the ledger {self.path} {reason}", repair=repair or known)

    def exact(self, text: object) -> Fraction:
        """The amount that `written` wrote."""
        if not isinstance(text, str) or not _AMOUNT.fullmatch(text):
            raise self.refused("is damaged: it holds an amount that is none")
        numerator, _, denominator = text.partition("/")
        return Fraction(int(numerator), int(denominator))

    def _begin(self, write: bool, durable: bool) -> sqlite3.Connection:
        """A connection that holds the lock it needs: past this point no other process can make it wait.

        The waiting is done here in short naps: SQLite's own grow to 0.1 s, and a writer that sleeps so long
        among busy ones starves.
        """
        deadline = time.monotonic() + BUSY_SECONDS
        while True:
            try:
                connection = self._connect()
                if write:  # said each time, so that no way out of a block can leave the weaker one behind
                    connection.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
                connection.execute("BEGIN IMMEDIATE" if write else "BEGIN")
                if not write:  # BEGIN alone locks nothing
                    connection.execute("SELECT id FROM account LIMIT 1").fetchone()
                return connection
            except sqlite3.OperationalError as error:
                if not _is_lock(error) or time.monotonic() > deadline:
                    raise
                self._roll_back()
                time.sleep(NAP_SECONDS / 5)  # some locks are reported without SQLite's own wait

    def _roll_back(self) -> None:
        if self._connection is not None and self._pid == os.getpid() and self._connection.in_transaction:
            self._connection.execute("ROLLBACK")

    def check_types(self, row: tuple[object, ...] | None, *types: type) -> None:
        """A damaged page can turn any column into any type; what is decided by a row is checked first."""
        if row is None or not all(map(isinstance, row, types)):
            raise self.refused("is damaged: it holds a value of the wrong kind")

    def _connect(self) -> sqlite3.Connection:
        if self._closed:
            raise self.refused("is closed")
        if self._connection is not None and self._pid != os.getpid():
            raise self.refused("was opened before a fork that Python was not told of", "connect anew in each process")
        try:
            if self._identity is None:
                self._make()
            info = os.stat(self.path)
            if not stat.S_ISREG(info.st_mode):
                raise self.refused("is not a file")
            if self._identity not in (None, (info.st_dev, info.st_ino)):
                raise self.refused("was replaced while it was in use", "put the file back")
            if info.st_size == 0:
                raise self.refused("is empty, so what was spent is unknown", "restore it from a backup, or remove it")
            if self._connection is not None:
                return self._connection
            if not os.access(self.path, os.W_OK) or not os.access(self.path.parent, os.W_OK):
                raise self.refused("cannot be written: it or its folder is read-only")
        except FileNotFoundError:
            raise self.refused("was removed while it was in use", "put the file back") from None
        except OSError as error:
            raise self.refused(f"cannot be opened: {error.strerror or 'the system refuses'}") from None
        except ValueError:
            raise refusal("DP403", "the ledger's file name holds a character that no file name can") from None
        # mode=rw: SQLite itself must never make the file. No descriptor of our own on it either, since closing
        # one would drop the locks of every connection of this process (POSIX).
        address = f"file:{quote(os.fsencode(self.path))}?mode=rw"
        connection = sqlite3.connect(
            address, uri=True, timeout=NAP_SECONDS, isolation_level=None, check_same_thread=False
        )
        try:
            self._check(connection, info)
        except BaseException:
            connection.close()
            raise
        self._connection, self._pid, self._identity = connection, os.getpid(), (info.st_dev, info.st_ino)
        return connection

    def _check(self, connection: sqlite3.Connection, info: os.stat_result) -> None:
        """Know the file as ours before anything is changed in it or of it, and set what durability rests on."""
        if connection.execute("PRAGMA application_id").fetchone() != (APPLICATION_ID,):
            raise self.refused("is the database of another program")
        self._narrow(info)
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if version not in VERSIONS:
            raise self.refused("was written by another version of dpsql", "use the newest dpsql for this ledger")
        for pragma in ("trusted_schema = OFF", "foreign_keys = ON", "fullfsync = ON", "synchronous = FULL"):
            connection.execute(f"PRAGMA {pragma}")
        if connection.execute("PRAGMA journal_mode = WAL").fetchone() != ("wal",):
            raise self.refused("lies where SQLite cannot share it safely", "keep it on a local disk")
        if version != SCHEMA_VERSION:
            upgrade(connection)

    def _make(self) -> None:
        """Make the file where none is: complete under another name first, so that a crash leaves all of it or none."""
        folder = self.path.parent
        if not self._private_folder and not folder.exists():
            raise self.refused("lies in a folder that does not exist")
        for new in reversed([each for each in (folder, *folder.parents) if not each.exists()]):
            new.mkdir(mode=0o700, exist_ok=True)
            sync(new.parent)
        if self._private_folder and stat.S_IMODE(folder.stat().st_mode) & 0o077:
            folder.chmod(0o700)
        if os.path.lexists(self.path):
            return
        if not self._may_make:
            raise self.refused("does not exist")
        number, draft = tempfile.mkstemp(prefix=".ledger-", dir=folder)  # mode 0600, whatever the umask
        os.close(number)
        try:
            connection = sqlite3.connect(draft, isolation_level=None)
            try:
                connection.execute("PRAGMA synchronous = FULL")
                connection.execute("PRAGMA journal_mode = WAL")
                made(connection)
            finally:
                connection.close()
            with suppress(FileExistsError):  # another process was first: its file counts
                os.link(draft, self.path)  # unlike a rename, a link never replaces a file
            sync(folder)
        finally:
            for suffix in ("", "-wal", "-shm", "-journal"):
                Path(draft + suffix).unlink(missing_ok=True)

    def _narrow(self, info: os.stat_result) -> None:
        """Take the rights of group and others away, and keep -wal and -shm, which SQLite makes, like the file."""
        if info.st_uid != os.geteuid():
            return
        for path in (self.path, Path(f"{self.path}-wal"), Path(f"{self.path}-shm")):
            with suppress(FileNotFoundError):
                if stat.S_IMODE(path.stat().st_mode) != info.st_mode & 0o700:
                    path.chmod(info.st_mode & 0o700)

    def _drop(self) -> None:
        """Give the connection up. One of another process is kept as it is: closing it there would harm its owner."""
        connection, self._connection = self._connection, None
        if connection is not None:
            if self._pid == os.getpid():
                connection.close()
            else:
                _abandoned.append(connection)


def sync(folder: Path) -> None:
    """A new name outlives a power cut only once its folder is on the disk too."""
    number = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def written(amount: Fraction) -> str:
    return f"{amount.numerator}/{amount.denominator}"


def _is_lock(error: sqlite3.Error) -> bool:
    code = getattr(error, "sqlite_errorcode", 0)
    return code & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def _reason(error: sqlite3.Error) -> str:
    code = getattr(error, "sqlite_errorcode", None)  # absent where Python's own module raises, as for bad UTF-8
    if code is None:
        return "is damaged: it holds a value of the wrong kind"
    if _is_lock(error):
        return f"is locked by another process (waited {BUSY_SECONDS:g} s)"
    return _REASONS.get(code & 0xFF, f"cannot be used ({error.sqlite_errorname})")


# SQLite keeps a process-wide table of the locks it holds. A fork copies that table but not the locks, so a child
# that opened the same file would believe it held locks that it does not, and its charges could be lost with a WAL
# that the parent deletes. So no connection exists while Python forks: all are closed before, and opened again on
# demand on both sides.
_registry = threading.Lock()
_files: weakref.WeakSet[LedgerFile] = weakref.WeakSet()
_held: list[LedgerFile] = []
_abandoned: list[sqlite3.Connection] = []


def _before_fork() -> None:
    _registry.acquire()
    for file in list(_files):
        file._lock.acquire()
        _held.append(file)
        with suppress(sqlite3.Error):
            file._drop()


def _after_fork() -> None:
    while _held:
        _held.pop()._lock.release()
    _registry.release()


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork)
