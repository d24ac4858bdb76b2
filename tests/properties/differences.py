"""Two snapshots that differ in one unit, and the rows that the unit contributes."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

import duckdb
import pyarrow as pa

from dpsql.vault.snapshot import Snapshot
from tests.properties.worlds import TABLES, Removed


class Violation(AssertionError):
    """The property does not hold."""


def _identified(catalog: str, name: str) -> str:
    """The rows of a table with their units' identities in the place of their numbers."""
    columns = ", ".join(f"t.{c}" for c in TABLES[name].columns)
    if name == "readings":
        return f'SELECT {columns}, 1::BIGINT AS "$unit", t."$rank" FROM {catalog}.{name} AS t'
    units = f'{catalog}."$units" AS u USING ("$unit")'
    return f'SELECT {columns}, u.id AS "$unit", t."$rank" FROM {catalog}.{name} AS t JOIN {units}'


class Difference:
    """Two snapshots and, as a third, the rows that only the larger one has: those of the removed unit.

    Raises Violation where any other row changed (property i)."""

    def __init__(self, larger: Snapshot, smaller: Snapshot, removed: Removed):
        self.connection = duckdb.connect(":memory:")
        run = self.connection.execute
        run("SET TimeZone = 'UTC'")
        for name, snapshot in (("big", larger), ("small", smaller)):
            run(f"ATTACH '{snapshot.private}' AS {name} (READ_ONLY)")
        run(f"ATTACH '{larger.public}' AS pub (READ_ONLY)")
        run("ATTACH ':memory:' AS priv")
        owners: set[int] = set()
        for name in TABLES:
            # Units are compared by identity: their numbers are places among all units. Rows that are units themselves
            # are numbered where they stand; nothing reads that number.
            gone = f"{_identified('big', name)} EXCEPT ALL {_identified('small', name)}"
            come = f"{_identified('small', name)} EXCEPT ALL {_identified('big', name)}"
            number = "" if name == "readings" else 'JOIN big."$units" AS u ON u.id = g."$unit"'
            shown = "g.*" if name == "readings" else 'g.* REPLACE (u."$unit" AS "$unit")'
            run(f"CREATE TABLE priv.{name} AS SELECT {shown} FROM ({gone}) AS g {number}")
            if run(f"SELECT count(*) FROM ({come})").fetchall()[0][0]:
                raise Violation(f"(i) removing {removed} changed rows of other units in {name}")
            if name != "readings":
                owners |= {u for (u,) in run(f'SELECT DISTINCT "$unit" FROM priv.{name}').fetchall()}
                gone_ids = f'SELECT u.id FROM priv.{name} JOIN big."$units" AS u USING ("$unit")'
                kept = f'FROM small.{name} JOIN small."$units" AS u USING ("$unit") WHERE u.id IN ({gone_ids})'
                if run(f"SELECT count(*) {kept}").fetchall()[0][0]:
                    raise Violation(f"(i) rows of {removed} stay in {name}")
        run('CREATE TABLE priv."$units" AS FROM big."$units"')
        lost = run("SELECT count(*) FROM priv.readings").fetchall()[0][0]
        expected = (0, 1) if removed.reading is not None else (0 if removed.unit == "NULL" else 1, 0)
        if len(owners) > expected[0] or lost > expected[1]:
            raise Violation(f"(i) removing {removed} took rows of {len(owners)} units and {lost} readings")

    def __enter__(self) -> Difference:
        return self

    def __exit__(self, *_: object) -> None:
        self.connection.close()

    def run(self, sql: str, tables: Mapping[str, pa.Table] | None = None) -> pa.Table:
        """A statement over the removed unit's rows alone, and these public tables."""
        return run_over(self.connection, sql, tables)


def run_over(connection: duckdb.DuckDBPyConnection, sql: str, tables: Mapping[str, pa.Table] | None = None) -> pa.Table:
    """A statement with these tables beside those of the connection."""
    for name, table in (tables or {}).items():
        connection.register(name, table)
    try:
        return connection.sql(sql).to_arrow_table()
    finally:
        for name in tables or {}:
            connection.unregister(name)


class Unoptimized:
    """The files of a snapshot under an engine that optimizes nothing; or as it does by itself (kept None), or with
    these optimizers alone. On several threads tables of a few rows are read in parts, too. spill: a folder for what it
    could hold in memory, and does not."""

    def __init__(
        self,
        snapshot: Snapshot,
        *,
        kept: Collection[str] | None = (),
        threads: int = 1,
        spill: Path | None = None,
    ):
        self.connection = duckdb.connect(":memory:")
        run = self.connection.execute
        run(f"SET TimeZone = 'UTC'; SET threads = {threads}")
        if kept is not None:
            names = {name for (name,) in run("FROM duckdb_optimizers()").fetchall()}
            run(f"SET disabled_optimizers = '{','.join(sorted(names - set(kept)))}'")
        if kept == ():
            run("PRAGMA disable_optimizer")
        if threads > 1:
            run("PRAGMA verify_parallelism")
        if spill is not None:
            run(f"SET temp_directory = '{spill}'; SET memory_limit = '64MiB'; SET debug_force_external = true")
        run(f"ATTACH '{snapshot.private}' AS priv (READ_ONLY)")
        run(f"ATTACH '{snapshot.public}' AS pub (READ_ONLY)")

    def run(self, sql: str, tables: Mapping[str, pa.Table] | None = None) -> pa.Table:
        return run_over(self.connection, sql, tables)

    def close(self) -> None:
        self.connection.close()
