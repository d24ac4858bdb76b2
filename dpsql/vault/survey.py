"""What a data source holds by name and type: tables, views, files, and their columns. For drafting a policy.

Promise: names and types alone. No row is counted, and none is read but those of CSV files, whose types are found so.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path as FilePath

import duckdb

from dpsql.places import real
from dpsql.policy.model import Policy
from dpsql.vault.files import Files, data_files, find_files, kind_of
from dpsql.vault.source import CATALOG, attach, find_tables, mismatch


@dataclass(frozen=True, slots=True)
class Surveyed:
    """One table. source: the file or folder it is read from, or "" for a table of the database."""

    name: str
    source: FilePath | None
    columns: tuple[tuple[str, str], ...]


def survey(data: FilePath) -> list[Surveyed]:
    """The tables of a DuckDB database, or of a folder of files. Raises PolicyError (DP302) where it is neither."""
    place = real(data)
    connection = _connection()
    try:
        if place.is_dir():
            return [_of_files(connection, path) for path in _sources(place)]
        if kind_of(place):
            return [_of_files(connection, place)]
        attach(connection, place)
        rows = connection.execute(
            f"""SELECT schema_name, table_name, column_name, data_type FROM duckdb_columns()
            WHERE database_name = '{CATALOG}' AND NOT internal ORDER BY schema_name, table_name, column_index"""
        ).fetchall()
    finally:
        connection.close()
    tables: dict[str, list[tuple[str, str]]] = {}
    for schema, table, column, declared in rows:
        tables.setdefault(table if schema == "main" else f"{schema}.{table}", []).append((column, declared))
    return [Surveyed(name, None, tuple(columns)) for name, columns in tables.items()]


def check(policy: Policy, database: FilePath | None) -> None:
    """Raises PolicyError (DP302) where names and types of the data do not fit the policy."""
    problems: list[str] = []
    files = find_files(policy, problems)
    if problems:
        raise mismatch(problems)
    connection = _connection()
    try:
        if database is not None:
            attach(connection, real(database))
        find_tables(connection, policy, files)
    finally:
        connection.close()


def _connection() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect(":memory:")
    connection.execute(
        """SET memory_limit = '1GiB'; SET enable_progress_bar = false; SET python_enable_replacements = false;
        SET autoinstall_known_extensions = false; SET autoload_known_extensions = false"""
    )
    return connection


def _sources(folder: FilePath) -> list[FilePath]:
    """Each data file of the folder itself is a table, and so is each folder in it that holds some."""
    entries = [entry for entry in sorted(folder.iterdir()) if not entry.name.startswith((".", "_"))]
    found = [e for e in entries if (e.is_file() and kind_of(e)) or (e.is_dir() and any(data_files(e)))]
    if not found:
        raise mismatch([f"{folder} has no .parquet, .csv or .tsv file in it"])
    return found


def _of_files(connection: duckdb.DuckDBPyConnection, path: FilePath) -> Surveyed:
    files = tuple(data_files(path)) if path.is_dir() else (path,)
    kinds = {kind_of(file) for file in files}
    if len(kinds) > 1:
        raise mismatch([f"{path} holds Parquet and CSV files; keep one kind in it"])
    read = Files(path, files, kinds == {"csv"}).columns(connection, path.name, frozenset())
    if isinstance(read, list):
        raise mismatch(read)
    return Surveyed(path.name.split(".")[0], path, tuple(read.columns))
