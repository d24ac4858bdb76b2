"""Policies written in a line, and snapshots made in memory: the tables of a source as Python rows, and back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any, ClassVar

import duckdb

from dpsql.policy.facts import TableFacts
from dpsql.policy.model import ROW, Budget, Column, Path, Policy, Reference, Table, Value
from dpsql.vault.materialise import make_tables
from dpsql.vault.report import TableReport
from dpsql.vault.source import find_tables

SALT = b"a salt for tests, 32 bytes long.."
Row = tuple[Any, ...]


def column(name: str, bounds: tuple[Value, Value] | None = None, values: tuple[Value, ...] | None = None) -> Column:
    return Column(name, bounds, None, values)


def table(
    name: str,
    columns: Sequence[Column | str],
    unit: str | Path | None = None,
    *,
    key: tuple[str, ...] = (),
    references: tuple[Reference, ...] = (),
    source: str = "",
) -> Table:
    """A private table, or a public one where no unit is given."""
    listed = {c.name: c for c in (column(c) if isinstance(c, str) else c for c in columns)}
    limit = None if unit is None else 1 if unit == ROW else 100
    return Table(name, unit is None, source or name, unit, key, listed, limit, references=references)


def policy(*tables: Table, account: str = "test", digest: str = "one") -> Policy:
    budget = Budget(account, Fraction(1), Fraction(0), Fraction(1), Fraction(1))
    return Policy("person", budget, {t.name: t for t in tables}, digest)


def again(made: Policy, digest: str) -> Policy:
    """The same policy, changed in something that a snapshot enforces."""
    return replace(made, digest=digest)


class Made:
    """A snapshot in memory. All share one instance of DuckDB: the tables of one are gone when the next is made."""

    _connections: ClassVar[list[duckdb.DuckDBPyConnection]] = []

    def __init__(
        self,
        made: Policy,
        source: str,
        rows: Mapping[str, Iterable[Row]] | None = None,
        *,
        salt: bytes = SALT,
        threads: int = 1,
        optimizer: bool = True,
    ):
        """source: SQL that makes the tables. rows: what to insert into them."""
        self.connection = self._fresh(threads, optimizer)
        self.connection.execute(f"USE src; {source}")
        for name, content in (rows or {}).items():
            listed = list(content)
            if listed:
                places = ", ".join(["(" + ", ".join("?" * len(listed[0])) + ")"] * len(listed))
                values = [value for row in listed for value in row]
                self.connection.execute(f'INSERT INTO src."{name}" VALUES {places}', values)
        self.connection.execute("USE memory")
        facts, reports = make_tables(self.connection, made, find_tables(self.connection, made), salt, lambda *_: None)
        self.facts: dict[str, TableFacts] = facts
        self.reports: dict[str, TableReport] = {r.table: r for r in reports}

    @classmethod
    def _fresh(cls, threads: int, optimizer: bool) -> duckdb.DuckDBPyConnection:
        if not cls._connections:
            cls._connections.append(duckdb.connect(":memory:"))
            cls._connections[0].execute("SET TimeZone = 'UTC'")
        connection = cls._connections[0]
        connection.execute("USE memory")
        for (name,) in connection.execute("SELECT table_name FROM duckdb_tables() WHERE temporary").fetchall():
            connection.execute(f'DROP TABLE temp."{name}"')
        for catalog in ("src", "priv", "pub"):
            connection.execute(f"DETACH DATABASE IF EXISTS {catalog}; ATTACH ':memory:' AS {catalog}")
        connection.execute(f"SET threads = {threads}; PRAGMA {'enable' if optimizer else 'disable'}_optimizer")
        return connection

    def rows(self, name: str, columns: str = "*") -> list[Row]:
        """Rows of a private table, sorted."""
        return sorted(self.sql(f'SELECT {columns} FROM priv."{name}"'), key=repr)

    def public(self, name: str, columns: str = "*") -> list[Row]:
        return sorted(self.sql(f'SELECT {columns} FROM pub."{name}"'), key=repr)

    def sql(self, sql: str) -> list[Row]:
        return self.connection.execute(sql).fetchall()
