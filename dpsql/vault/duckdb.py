"""DuckDB as a locked engine: it reads the files it was opened on, and nothing else, until it is closed.

Promise: every statement runs on an in-memory instance of its own (`connect(path)` would share an instance with
whoever opened that file before), with the snapshot's files attached for reading, and with file access, extensions,
Python variables as tables, logging and any change of these switched off for good. Only one SELECT is ever run. It
raises `EngineFailure` alone, never chained to the engine's own error, which quotes row values.

Left open by DuckDB: an attached file can be read again by its path, so an engine can reach its own files as bytes.
That is why the engine of post-processing attaches the public file only.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

import duckdb
import pyarrow as pa

from dpsql.policy.model import EngineLimits
from dpsql.vault.engine import EngineFailure
from dpsql.vault.interrupts import is_interrupt

_Result = TypeVar("_Result")

_FAILURES = duckdb.Error, pa.ArrowException, RuntimeError, ValueError, OverflowError, MemoryError, OSError
"""OSError: of what Arrow reads from the engine in parts."""

_ROWS = 1_000_000
"""Of a result that are handed over at once."""

_AGAIN = 0.02
"""An interrupt that comes before the statement has started is lost: it is sent again until the statement ends."""


class DuckDBEngine:
    """One instance over the files of a snapshot. `run` takes one statement at a time; `cancel` may come from any
    thread. A thread of its own watches the clock; `close` ends it."""

    def __init__(
        self,
        files: Mapping[str, Path],
        spill: Path,
        limits: EngineLimits,
        threads: int | None = None,
    ):
        """files: catalog name -> DuckDB file. spill: the folder for large intermediate results."""
        self._timeout, self._memory = limits.timeout, limits.memory
        self._turn = threading.Lock()
        self._state = threading.Condition()  # guards the four below
        self._number = 0
        self._running = self._cancelled = self._closed = False
        try:
            self._connection = duckdb.connect(":memory:")
            for name, file in files.items():
                self._connection.execute(f"ATTACH {_text(file)} AS {name} (READ_ONLY)")
            for setting, value in _settings(spill, threads or os.cpu_count() or 1, limits.memory):
                self._connection.execute(f"SET {setting} = {value}")
        except duckdb.Error as error:
            raise EngineFailure(str(error)) from None
        threading.Thread(target=self._watch, name="dpsql-watch", daemon=True).start()

    def run(self, sql: str, tables: Mapping[str, pa.Table] | None = None) -> pa.Table:
        """The whole result of one SELECT over the files and these tables, which are gone again afterwards. Raises
        EngineFailure."""
        return self._run(sql, tables or {})

    def cancel(self) -> None:
        """Interrupts the running statement, if any. From any thread."""
        with self._state:
            if self._running:
                self._cancelled = True
                self._state.notify_all()

    def close(self) -> None:
        """Interrupts what runs, and releases the files. Idempotent."""
        self.cancel()
        with self._turn, self._state:
            self._closed = True
            self._state.notify_all()
            self._connection.close()

    def _run(self, sql: str, tables: Mapping[str, pa.Table]) -> pa.Table:
        return self._turn_of(lambda: self._bound(sql, tables, self._read))

    def _read(self, bound: duckdb.DuckDBPyRelation) -> pa.Table:
        return bound.to_arrow_table()

    def _turn_of(self, work: Callable[[], _Result]) -> _Result:
        """Work that can be cancelled, one at a time."""
        with self._turn:
            with self._state:
                self._number += 1
                self._running, self._cancelled = True, False
                self._state.notify_all()
            try:
                return work()
            except _FAILURES as error:
                interrupted = self._cancelled or is_interrupt(error)
                raise EngineFailure(f"{type(error).__name__}: {error}", interrupted=interrupted) from None
            finally:
                with self._state:
                    self._running = False

    def _bound(
        self, sql: str, tables: Mapping[str, pa.Table], use: Callable[[duckdb.DuckDBPyRelation], _Result]
    ) -> _Result:
        """What is made of a SELECT whose names and types have been looked up; nothing of it has run yet."""
        statements = self._connection.extract_statements(sql)
        if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
            raise ValueError("not one SELECT")
        registered = []
        try:
            for name, table in tables.items():
                self._connection.register(name, table)
                registered.append(name)
            return use(self._connection.sql(statements[0]))
        finally:
            for name in registered:
                self._connection.unregister(name)

    def _watch(self) -> None:
        """Interrupts the statement that is cancelled, or whose time is over, until it ends. The lock is held
        meanwhile, so an interrupt never meets the statement after it."""
        with self._state:
            while self._state.wait_for(lambda: self._running or self._closed) and not self._closed:
                self._watch_one(self._number)

    def _watch_one(self, number: int) -> None:
        def over() -> bool:
            return self._number != number or not self._running

        self._state.wait_for(lambda: over() or self._cancelled, self._timeout)
        while not over():
            self._cancelled = True
            self._connection.interrupt()
            self._state.wait_for(over, _AGAIN)


class DuckDBOuterEngine(DuckDBEngine):
    """Post-processing: public tables and released ones, nothing else. Its failures speak of public values only."""

    def _read(self, bound: duckdb.DuckDBPyRelation) -> pa.Table:
        """What leaves the engine counts as in its memory, which DuckDB's own limit does not see: a join of a few small
        tables can have more rows than any machine holds."""
        parts, left = list[pa.RecordBatch](), self._memory
        with bound.to_arrow_reader(_ROWS) as reader:
            for part in reader:
                left -= part.nbytes
                if left < 0:
                    raise MemoryError("the result is larger than the memory that the policy allows")
                parts.append(part)
            return pa.Table.from_batches(parts, reader.schema)

    def bind(self, sql: str, tables: Mapping[str, pa.Table] | None = None) -> list[str]:
        """The types of the columns, as DuckDB writes them. Raises EngineFailure where names or types do not fit; runs
        nothing."""
        return self._turn_of(lambda: self._bound(sql, tables or {}, lambda bound: [str(t) for t in bound.types]))


def _settings(spill: Path, threads: int, memory: int) -> list[tuple[str, str]]:
    """In this order: the last two take away the right to change any. `disabled_filesystems` stays as it is, since
    without a file system large results could not spill, and failing would depend on the data."""
    return [
        ("threads", str(threads)),
        ("memory_limit", f"'{memory}B'"),
        ("temp_directory", _text(spill)),
        ("TimeZone", "'UTC'"),
        ("python_enable_replacements", "false"),
        ("autoinstall_known_extensions", "false"),
        ("autoload_known_extensions", "false"),
        ("allow_community_extensions", "false"),
        ("enable_logging", "false"),
        ("enable_progress_bar", "false"),  # it writes on stdout, and tells how far private rows have come
        ("enable_external_access", "false"),
        ("lock_configuration", "true"),
    ]


def _text(path: Path) -> str:
    return "'" + str(path).replace("'", "''") + "'"
