"""Files and folders that a policy names as sources: which files they are, and the SQL that reads them.

Promise: what is read is what the policy names, resolved through links, and nothing beside it. A CSV is read whole and
strictly: no line is skipped, joined or passed over as a comment, and its types come from all of its lines. What cannot
be read is told in words of names and types: the engine's own words quote lines.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path as FilePath

import duckdb

from dpsql.places import expanded, real
from dpsql.policy.model import Policy
from dpsql.vault.mapping import quoted

_PARQUET = (".parquet",)
_CSV = (".csv", ".tsv", ".csv.gz", ".tsv.gz")
_CSV_OPTIONS = "header = true, sample_size = -1, skip = 0, comment = '', strict_mode = true, null_padding = false"
_SEPARATORS = ",;|\t"


@dataclass(frozen=True, slots=True)
class Read:
    """How files are read: the SQL of the relation, and (name, type) of each of its columns."""

    relation: str
    columns: list[tuple[str, str]]


def described(connection: duckdb.DuckDBPyConnection, relation: str) -> list[tuple[str, str]]:
    """(name, type) of each column. Raises duckdb.Error where the relation cannot be read."""
    rows = connection.execute(f"DESCRIBE SELECT * FROM {relation}").fetchall()
    return [(str(name), str(declared)) for name, declared, *_ in rows]


@dataclass(frozen=True, slots=True)
class Files:
    """A source on disk. path: the file or folder. files: what is read. csv: else Parquet."""

    path: FilePath
    files: tuple[FilePath, ...]
    csv: bool

    @property
    def resolved(self) -> tuple[FilePath, ...]:
        """What is read, where it really is."""
        return tuple(map(real, self.files))

    def columns(self, connection: duckdb.DuckDBPyConnection, name: str, needed: frozenset[str]) -> Read | list[str]:
        """How to read it all, or what is wrong with it. A column has one type in all files. Those of CSV files are only
        seen, so whole and broken numbers go together there, and a column without any value goes with all."""
        seen: dict[str, tuple[str, str, FilePath]] = {}
        problems: list[str] = []
        for file in self.files:
            relation = self._reading((file,))
            try:
                found = described(connection, relation)
                empty = self._without_values(connection, relation, found) if len(self.files) > 1 else ()
            except duckdb.Error:
                return [f"{name}: {self._unreadable(file)}"]
            if self.csv and len(found) == 1 and any(c in found[0][0] for c in _SEPARATORS):
                return [f"{name}: {file} has lines that do not fit its header"]
            for column, declared in found:
                known = seen.get(column.lower())
                if known is None or (known[1] == "" and column not in empty):
                    seen[column.lower()] = (column, "" if column in empty else declared, file)
                elif column in empty or known[1] == declared:
                    continue
                elif self.csv and {known[1], declared} == {"BIGINT", "DOUBLE"}:
                    seen[column.lower()] = (known[0], "DOUBLE", known[2])
                elif column.lower() in needed:
                    problems.append(f"{name}.{column}: is {known[1]} in {known[2].name}, {declared} in {file.name}")
        if problems:
            return problems
        if len(self.files) == 1:
            return Read(relation, found)  # a CSV file is read as a whole to see its types: not twice
        types = {column: declared or "VARCHAR" for column, declared, _ in seen.values() if column.lower() in needed}
        relation = self._reading(self.files, types if self.csv else {})
        try:
            return Read(relation, described(connection, relation))
        except duckdb.Error:
            return [f"{name}: {self._unreadable(self.path)}"]

    def _without_values(
        self, connection: duckdb.DuckDBPyConnection, relation: str, found: list[tuple[str, str]]
    ) -> frozenset[str]:
        """Columns of a CSV file that are text only because nothing is in them."""
        texts = [column for column, declared in found if declared == "VARCHAR"]
        if not self.csv or not texts:
            return frozenset()
        counts = connection.execute(
            f"SELECT {', '.join(f'count({quoted(c)})' for c in texts)} FROM {relation}"
        ).fetchone()
        return frozenset(column for column, count in zip(texts, counts or (), strict=True) if not count)

    def _unreadable(self, file: FilePath) -> str:
        return f"{file} cannot be read as {'CSV with a header' if self.csv else 'Parquet'}"

    def unreadable(self) -> str:
        """What to say where reading fails half-way."""
        return self._unreadable(self.path)

    def _reading(self, files: tuple[FilePath, ...], types: Mapping[str, str] | None = None) -> str:
        listed = ", ".join("'" + str(file).replace("'", "''") + "'" for file in files)
        parts = [file.relative_to(self.path).parts[:-1] for file in files]
        hive = all(parts) and all("=" in part for each in parts for part in each)
        shared = f"union_by_name = true, hive_partitioning = {str(hive).lower()}"
        if types:
            typed = ", ".join(
                "'" + column.replace("'", "''") + f"': '{declared}'" for column, declared in types.items()
            )
            shared += f", types = {{{typed}}}"
        return f"read_csv([{listed}], {shared}, {_CSV_OPTIONS})" if self.csv else f"read_parquet([{listed}], {shared})"


def find_files(policy: Policy, problems: list[str]) -> dict[str, Files]:
    """The files of every table that reads some. What is wrong with others is added to `problems`."""
    found: dict[str, Files] = {}
    for table in policy.tables.values():
        if table.reads_files:
            path = real(policy.file.parent / expanded(table.source))
            files = _found(path, table.name, problems)
            if files is not None:
                found[table.name] = files
    private = {file: name for name, one in found.items() for file in one.resolved if not policy.tables[name].public}
    for name, one in found.items():
        both = [file for file in one.resolved if policy.tables[name].public and file in private]
        if both:
            problems.append(f"{name}: reads {both[0]}, which is private as {private[both[0]]}")
    return found


def kind_of(path: FilePath) -> str:
    """ "csv", "parquet", or "" for a file that is not read."""
    name = path.name.lower()
    return "parquet" if name.endswith(_PARQUET) else "csv" if name.endswith(_CSV) else ""


def data_files(folder: FilePath) -> Iterator[FilePath]:
    """The files of a folder and below that hold data, in the order of their names."""
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith((".", "_")))
        for name in sorted(names):
            file = FilePath(place) / name
            if not name.startswith((".", "_")) and kind_of(file) and file.is_file():
                yield file


def _found(path: FilePath, name: str, problems: list[str]) -> Files | None:
    try:
        if path.is_dir():
            files = tuple(data_files(path))
            kinds = {kind_of(file) for file in files}
        elif path.is_file():
            files, kinds = (path,), {kind_of(path)}
        else:
            problems.append(f"{name}: {path}: there is no such file or folder")
            return None
        for file in files:
            with file.open("rb") as stream:
                stream.read(1)
    except OSError as error:
        problems.append(f"{name}: {error.filename or path}: cannot be read ({error.strerror})")
        return None
    if not files:
        problems.append(f"{name}: {path} has no .parquet, .csv or .tsv file in it")
    elif kinds == {""}:
        problems.append(f"{name}: {path} is neither a .parquet nor a .csv or .tsv file")
    elif len(kinds) > 1:
        problems.append(f"{name}: {path} holds Parquet and CSV files; keep one kind in it")
    else:
        return Files(path, files, kinds == {"csv"})
    return None
