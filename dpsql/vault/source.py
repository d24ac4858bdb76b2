"""Opens the owner's database, read-only, and finds in it, or in files, what the policy names.

Promise: whatever does not fit is told to the owner at once, in words of names and types (DP302); no row is read, but
those of CSV files, for the types that they have.
Rules about rows are `materialise`'s. The engine's own words never leave: they can quote values.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path as FilePath

import duckdb

from dpsql.errors import Error, nearest, refusal
from dpsql.policy.model import Path, Policy, Table
from dpsql.vault.files import Files, described
from dpsql.vault.mapping import Reading, Unfit, hidden, identity, listed, quoted

CATALOG = "src"
"""The name under which the owner's database is attached."""

RESERVED = ("$unit", "$rank")
"""Columns that the snapshot adds to every private table."""

ROWID = "s.rowid"
"""DuckDB's number of a row: lasting in a table that nobody writes to, and absent in a view."""


@dataclass(frozen=True, slots=True)
class Found:
    """One policy table as it is at its source; all SQL speaks of its rows under the alias `s`.

    relation: its qualified name. number: the SQL that numbers its rows, or "" where nothing does (a view, files).
    used: every source column that is read. columns: the listed ones. key: what the key compares.
    unit: the own unit's (SQL, family), or None. via, target: the SQL of the path's columns, and of the key by which
    tables below reach this one. unreadable: what to tell the owner where the files cannot be read to their end.
    """

    table: Table
    relation: str
    number: str
    used: tuple[str, ...]
    columns: Mapping[str, Reading]
    key: tuple[str, ...]
    unit: tuple[str, str] | None
    via: tuple[str, ...]
    target: tuple[str, ...]
    unreadable: str = ""


def mismatch(problems: list[str]) -> Error:
    """DP302 with every problem, one on a line."""
    return refusal("DP302", "the data do not match the policy:\n" + "\n".join(f"  - {p}" for p in problems))


def attach(connection: duckdb.DuckDBPyConnection, database: FilePath) -> None:
    """Attaches the file as `src`, for reading only. Raises PolicyError (DP302) where that cannot be."""
    try:
        if not database.exists():
            raise mismatch([f"{database}: there is no such file"])
        if not database.is_file():
            raise mismatch([f"{database}: is not a file"])
        with database.open("rb") as file:
            head = file.read(16)
    except OSError as error:
        raise mismatch([f"{database}: cannot be read ({error.strerror})"]) from None
    if head[8:12] != b"DUCK":
        raise mismatch([f"{database}: is not a DuckDB database"])
    path = str(database).replace("'", "''")
    try:
        connection.execute(f"ATTACH '{path}' AS {CATALOG} (READ_ONLY)")
    except duckdb.Error as error:
        words = str(error).lower()
        if "lock" in words or "already attached" in words:
            why = "is open for writing elsewhere; close it there, then try again"
        elif "version" in words:
            why = "was written by another version of DuckDB than this one can read"
        else:
            why = "cannot be opened as a DuckDB database"
        raise mismatch([f"{database}: {why}"]) from None


def find_tables(
    connection: duckdb.DuckDBPyConnection, policy: Policy, files: Mapping[str, Files] | None = None
) -> dict[str, Found]:
    """Every policy table, private parents before the tables that reach their unit through them. files: of the tables
    that read some. Raises PolicyError (DP302) with all that does not fit."""
    problems: list[str] = []
    names = _names(connection)
    declared: dict[str, tuple[str, bool, dict[str, tuple[str, str]]]] = {}
    for table in policy.tables.values():
        if files is not None and table.name in files:
            read = files[table.name].columns(connection, table.name, _needed(table))
            if isinstance(read, list):
                problems += read
            else:
                declared[table.name] = (read.relation, True, {c.lower(): (c, type_) for c, type_ in read.columns})
            continue
        place = _locate(table, names, problems)
        if place is not None:
            relation, is_view = place
            types = _types(connection, table, relation, problems)
            if types is not None:
                declared[table.name] = (relation, is_view, types)
    targets = {t.unit.to for t in policy.tables.values() if isinstance(t.unit, Path)}
    families: dict[str, dict[str, tuple[str, ...]]] = {}
    found: dict[str, Found] = {}
    for table in policy.tables.values():
        if table.name in declared:
            one, families[table.name] = _read(table, *declared[table.name], targets, problems)
            unreadable = f"{table.name}: {files[table.name].unreadable()}" if files and table.name in files else ""
            found[table.name] = replace(one, unreadable=unreadable)
    if len(found) == len(policy.tables):
        _check_paths(found, families, problems)
        _check_references(found, problems)
    if problems:
        raise mismatch(problems)
    return {name: found[name] for name in _parents_first(policy)}


def _names(connection: duckdb.DuckDBPyConnection) -> dict[tuple[str, str], tuple[str, bool]]:
    """(schema, name), lower-cased as DuckDB compares them -> (qualified name, whether it is a view)."""
    rows = connection.execute(
        f"""SELECT schema_name, table_name, false FROM duckdb_tables() WHERE database_name = '{CATALOG}'
        UNION ALL SELECT schema_name, view_name, true FROM duckdb_views() WHERE database_name = '{CATALOG}'"""
    ).fetchall()
    return {(s.lower(), n.lower()): (f"{CATALOG}.{quoted(s)}.{quoted(n)}", view) for s, n, view in rows}


def _locate(
    table: Table, names: Mapping[tuple[str, str], tuple[str, bool]], problems: list[str]
) -> tuple[str, bool] | None:
    """`source` names a table or view of schema main, or schema.table."""
    source = table.source.lower()
    places = [("main", source)] + [(source[:i], source[i + 1 :]) for i, c in enumerate(source) if c == "."]
    for place in places:
        if place in names:
            return names[place]
    shown = [n if s == "main" else f"{s}.{n}" for s, n in names]
    what = table.name if table.source == table.name else f"{table.name} (source {table.source})"
    problems.append(f"{what}: no such table or view in the database{nearest(table.source, shown)}")
    return None


def _types(
    connection: duckdb.DuckDBPyConnection, table: Table, relation: str, problems: list[str]
) -> dict[str, tuple[str, str]] | None:
    """Column name, lower-cased -> (its name, its type)."""
    try:
        return {name.lower(): (name, declared) for name, declared in described(connection, relation)}
    except duckdb.Error:
        problems.append(f"{table.name}: {table.source} is a view that DuckDB cannot read")
        return None


def _needed(table: Table) -> frozenset[str]:
    """The source columns that the table is made from, lower-cased."""
    unit = table.unit.via if isinstance(table.unit, Path) else () if table.unit is None else (table.unit,)
    return frozenset(name.lower() for name in (*table.columns, *table.key, *unit))


def _read(
    table: Table,
    relation: str,
    is_view: bool,
    types: Mapping[str, tuple[str, str]],
    targets: set[str],
    problems: list[str],
) -> tuple[Found, dict[str, tuple[str, ...]]]:
    used: dict[str, None] = {}

    def source(name: str) -> tuple[str, str]:
        """(SQL, type) of a source column; Unfit where there is none."""
        if name.lower() not in types:
            raise Unfit(f"no such column{nearest(name, [n for n, _ in types.values()])}")
        real, declared = types[name.lower()]
        used[real] = None
        return f"s.{quoted(real)}", declared

    def told(name: str, error: Unfit) -> None:
        text = f"{table.name}.{name}: {error}"
        if text not in problems:
            problems.append(text)

    def identities(names: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
        pairs = []
        for name in names:
            try:
                pairs.append(identity(*source(name)))
            except Unfit as error:
                told(name, error)
        return tuple(sql for sql, _ in pairs), tuple(family for _, family in pairs)

    columns: dict[str, Reading] = {}
    for column in table.columns.values():
        try:
            if column.name.lower() in RESERVED:
                raise Unfit("the name is reserved for the snapshot; make a view that renames it")
            columns[column.name] = listed(*source(column.name), column)
        except Unfit as error:
            told(column.name, error)
    stored = {name.lower(): reading.stored for name, reading in columns.items()}
    key = []
    for name in table.key:
        try:
            key.append(stored[name.lower()] if name.lower() in stored else hidden(*source(name)))
        except Unfit as error:
            told(name, error)
    unit = table.unit
    via: tuple[str, ...] = ()
    target: tuple[str, ...] = ()
    family: dict[str, tuple[str, ...]] = {}
    own: tuple[str, str] | None = None
    if isinstance(unit, Path):
        via, family["via"] = identities(unit.via)
    elif unit is not None and not table.every_row_is_a_unit:
        sqls, family["unit"] = identities((unit,))
        own = (sqls[0], family["unit"][0]) if sqls else None
    if table.name in targets:
        target, family["target"] = identities(table.key)
    number = ROWID if not is_view and "rowid" not in types else ""
    return Found(table, relation, number, tuple(used), columns, tuple(key), own, via, target), family


def _check_paths(
    found: Mapping[str, Found], families: Mapping[str, dict[str, tuple[str, ...]]], problems: list[str]
) -> None:
    """Paths must lead to a private table with a key of the same types; all own units must be of one type, or one
    unit could count as two."""
    for name, one in found.items():
        if not isinstance(one.table.unit, Path):
            continue
        parent = found.get(one.table.unit.to)
        if parent is None or parent.table.public or parent.table.every_row_is_a_unit or not parent.table.key:
            problems.append(
                f"{name}: its unit's path leads to {one.table.unit.to}, which is not a private table with a key"
            )
        elif "target" in families[parent.table.name] and families[name]["via"] != families[parent.table.name]["target"]:
            mine, theirs = ", ".join(families[name]["via"]), ", ".join(families[parent.table.name]["target"])
            problems.append(
                f"{name}: its path's columns are of type {mine}, the key of {parent.table.name} of {theirs}"
            )
    kinds = {one.unit[1]: name for name, one in found.items() if one.unit is not None}
    if len(kinds) > 1:
        told = ", ".join(f"{name} {family}" for family, name in kinds.items())
        problems.append(f"the unit columns are of different types ({told}); make views that cast them to one type")


def _check_references(found: Mapping[str, Found], problems: list[str]) -> None:
    """Both ends of a reference must be listed, and of one type: under a cast two values of one side can equal one of
    the other (2^53 and 2^53 + 1 as DOUBLE), so that a row of the answer would stand twice because somebody is there."""
    for name, one in found.items():
        for reference in one.table.references:
            target = found.get(reference.table)
            if target is None or not target.table.public or len(reference.columns) != len(reference.target):
                problems.append(
                    f"{name}: the reference to {reference.table} does not lead to columns of a public table"
                )
                continue
            for mine, theirs in zip(reference.columns, reference.target, strict=True):
                if mine not in one.table.columns or theirs not in target.table.columns:
                    problems.append(f"{name}.{mine}: refers to {reference.table}.{theirs}; both must be listed columns")
                elif mine in one.columns and theirs in target.columns:
                    a, b = one.columns[mine].type, target.columns[theirs].type
                    if a != b:
                        problems.append(f"{name}.{mine}: is {a}, but {reference.table}.{theirs} is {b}")


def _parents_first(policy: Policy) -> list[str]:
    """Policy order, but a path's target before the table that uses it. A circle of paths is a problem."""
    order: list[str] = []

    def visit(name: str, below: tuple[str, ...]) -> None:
        if name in below:
            raise mismatch([f"{name}: the paths to its unit go round in a circle"])
        unit = policy.tables[name].unit
        if isinstance(unit, Path):
            visit(unit.to, (*below, name))
        if name not in order:
            order.append(name)

    for name in policy.tables:
        visit(name, ())
    return order
