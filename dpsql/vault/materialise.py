"""Makes the tables of a snapshot: who owns a row, its rank, its clamped values; and checks the public tables.

Promise: what one unit's rows become is a function of that unit's rows in the source, the public tables, the policy
and the salt alone. Remove a unit from the source and its rows leave the snapshot; no other value or rank changes,
whatever the number of threads, the order of the source or the optimizer.

Ownership. A row belongs to the unit in its own column, or to every unit that its foreign-key path reaches: a parent's
key that stands under several units gives each of them a copy of the child. A row that reaches none is dropped. (A rule
that looked at how many units a key has could let one unit blank the rows of another.) A unit's *identity* is 63 bits
of MD5, keyed by the salt, of the unit's value: it stands for that value alone. That it merges no two units is checked;
n units fail that check with probability n^2 / 2^64. The surrogate "$unit" in the tables is the place of the identity
among all identities: small numbers, which join and group a third faster. A place changes when another unit leaves, so
it may be compared for equality and for nothing else; what is chosen by chance within a unit goes by the identity,
which the table "$units" keeps.

Keys. For each (unit, key) the row of lowest rank is kept; a NULL in a key counts as a value. This looks at one unit's
rows only: refusing the data because one unit repeats a key would tell an exact bit about that unit.

Ranks. Rows of a unit are ordered by a keyed hash of (unit, content, ordinal), where content is the stored row with the
columns of its key and the ordinal numbers equal rows, which are interchangeable. `content.py` says why two different
rows of a unit tie with probability 2^-128 at most, even where somebody chose them to tie.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

import duckdb

from dpsql.policy.facts import TableFacts
from dpsql.policy.model import Path, Policy, Reference
from dpsql.vault.content import content_hashes, surrogate
from dpsql.vault.mapping import quoted, values_list
from dpsql.vault.report import TableReport
from dpsql.vault.source import ROWID, Found, mismatch

PRIVATE, PUBLIC = "priv", "pub"
"""The catalogs that are filled."""

CHUNK = 4_000_000
"""Source rows per INSERT: the join with the ranks need not spill, and rows stay near where they were."""

Progress = Callable[[str, float], None]


class Merged(Exception):
    """Two units got one surrogate: there is no snapshot, and the next attempt draws another salt."""


def make_tables(
    connection: duckdb.DuckDBPyConnection,
    policy: Policy,
    found: Mapping[str, Found],
    salt: bytes,
    progress: Progress,
    scratch: str = "temp",
) -> tuple[dict[str, TableFacts], tuple[TableReport, ...]]:
    """Fills both catalogs. `found` has parents first. scratch: the catalog for tables on the way. Raises PolicyError
    (DP302) where a public table breaks a claim, `Merged`, and whatever the engine raises."""
    maker = _Maker(connection, found, salt, scratch)
    order = sorted(found, key=lambda name: not found[name].table.public)  # public first; else parents stay first
    reports: dict[str, TableReport] = {}
    problems: list[str] = []
    for done, name in enumerate(order):
        one = maker.found[name]
        progress(name, done / len(order))
        if one.table.public:
            reports[name] = maker.copy_public(one, problems)
        elif not problems:
            reports[name] = maker.make_private(one)
    if not problems:
        maker.check_public_references(problems)
    if problems:
        raise mismatch(problems)
    progress("", 1.0)
    facts = {name: _facts(maker, name, reports[name]) for name in policy.tables}
    return facts, tuple(reports[name] for name in policy.tables)


def _facts(maker: _Maker, name: str, report: TableReport) -> TableFacts:
    one = maker.found[name]
    types = {column: reading.type for column, reading in one.columns.items()}
    unique = tuple(frozenset(key) for key in maker.keys(one) if set(key) <= set(types))
    return TableFacts(types, report.kept if one.table.public else None, unique)


class _Maker:
    def __init__(self, connection: duckdb.DuckDBPyConnection, found: Mapping[str, Found], salt: bytes, scratch: str):
        self._connection = connection
        self._create = "CREATE TEMP TABLE" if scratch == "temp" else "CREATE TABLE"
        self._names = (f"{scratch}.work_{n}" for n in range(1_000_000))
        self.found = {name: self._staged(one) for name, one in found.items()}
        self._salt = salt
        self._keys: dict[str, tuple[str, bool]] = {}  # table -> (temporary table of keys and units, one key, two units)
        self._units = ""

    def _run(self, sql: str) -> list[tuple[int, ...]]:
        return self._connection.execute(sql).fetchall()

    def _number(self, sql: str) -> int:
        return int(self._run(sql)[0][0])

    # ---- public tables

    def copy_public(self, one: Found, problems: list[str]) -> TableReport:
        """The table as it is, each claim about it verified."""
        name = one.table.name
        read, beyond = self._count_source(one)
        problems += [f"{name}.{column}: {count:,} values lie beyond its bounds" for column, count in beyond.items()]
        if beyond:
            return TableReport(name, True, read, read)
        target = f"{PUBLIC}.{quoted(name)}"
        stored = ", ".join(f"{r.stored} AS {quoted(c)}" for c, r in one.columns.items())
        self._run(f"CREATE TABLE {target} AS SELECT {stored} FROM {one.relation} AS s")
        for column, count in self._outside_values(one, target).items():
            problems.append(f"{name}.{column}: {count:,} values are not among its `values`")
        hidden = ", ".join(f"{sql} AS {quoted(c)}" for sql, c in zip(one.key, one.table.key, strict=True))
        for key in self.keys(one):
            seen = set(key) <= one.columns.keys()  # a key need not be among the columns that may be seen
            problems += self._check_unique(name, target if seen else f"(SELECT {hidden} FROM {one.relation} AS s)", key)
        return TableReport(name, True, read, read)

    def keys(self, one: Found) -> list[tuple[str, ...]]:
        """Lists of columns that identify a row: a public table's key and whatever refers to it, or a private table's
        key within each unit."""
        keys = {one.table.key} if one.table.key else set()
        if one.table.public:
            keys |= {r.target for f in self.found.values() for r in f.table.references if r.table == one.table.name}
        return sorted(keys)

    def _check_unique(self, name: str, target: str, key: tuple[str, ...]) -> Iterator[str]:
        columns, told = ", ".join(map(quoted, key)), ", ".join(key)
        missing = self._number(f"SELECT count(*) FROM {target} WHERE {_any_null(key)}")
        if missing:
            yield f"{name}: {missing:,} rows have NULL in the key {told}"
        repeated = f"SELECT 1 FROM {target} GROUP BY {columns} HAVING count(*) > 1"
        times = self._number(f"SELECT count(*) FROM ({repeated})")
        if times:
            yield f"{name}: the key {told} is not unique, {times:,} of its values stand in several rows"

    def check_public_references(self, problems: list[str]) -> None:
        """References of public tables, once all of those are there."""
        for one in self.found.values():
            if one.table.public:
                for column, count in self._outside_references(one, f"{PUBLIC}.{quoted(one.table.name)}").items():
                    problems.append(f"{one.table.name}.{column}: {count:,} values are not in the table it refers to")

    # ---- private tables

    def make_private(self, one: Found) -> TableReport:
        """The table with its unit and rank, its claims enforced."""
        name = one.table.name
        read, clamped = self._count_source(one)
        target = f"{PRIVATE}.{quoted(name)}"
        columns = ", ".join(f"{quoted(c)} {r.type}" for c, r in one.columns.items())
        self._run(f'CREATE TABLE {target} ({columns}, "$unit" BIGINT NOT NULL, "$rank" BIGINT NOT NULL)')
        report = TableReport(name, False, read, read, clamped=clamped)
        if one.table.every_row_is_a_unit:
            stored = ", ".join(r.stored for r in one.columns.values())
            self._run(f"INSERT INTO {target} SELECT {stored}, {one.number} + 1, 1 FROM {one.relation} AS s")
        else:
            report = self._insert_ranked(one, target, report)
            if (limit := one.table.max_rows_per_unit) is not None:
                beyond = self._number(f'SELECT count(*) FROM {target} WHERE "$rank" > {limit}')
                report = replace(report, beyond=beyond, limit=limit)
        return replace(report, outside=self._outside_values(one, target) | self._outside_references(one, target))

    def _insert_ranked(self, one: Found, target: str, report: TableReport) -> TableReport:
        owned, shared = self._owned(one)
        placed, ranked = next(self._names), next(self._names)
        self._run(f"{self._create} {placed} AS {self._placed(one, owned)}")
        if one.target:
            self._keep_keys(one, owned)
        self._run(f"{self._create} {ranked} AS {_ranked(placed, len(one.key))}")
        rows = self._number(f"SELECT count(*) FROM {placed}")
        owners = self._number(f"SELECT count(DISTINCT rid) FROM {placed}") if shared else rows
        self._run(f"DROP TABLE {placed}")
        kept = self._number(f"SELECT count(*) FROM {ranked}")
        last = self._number(f"SELECT coalesce(max(rid), -1) FROM {ranked}")
        stored = ", ".join(r.stored for r in one.columns.values())
        copied = f"INSERT INTO {target} SELECT {stored}, d.place, n.rank FROM {one.relation} AS s"
        copied += f" JOIN {ranked} AS n ON {one.number} = n.rid JOIN {self._all_units()} AS d ON n.unit = d.unit WHERE"
        if one.table.clustered:  # surrogates are spread evenly, so equal parts of their range are equal shares
            parts = -(-kept // CHUNK)
            for part in range(parts):
                low, high = 2**63 * part // parts, 2**63 * (part + 1) // parts - 1
                self._run(f"{copied} n.unit BETWEEN {low} AND {high} ORDER BY n.unit, n.rank")
        else:
            for low in range(0, last + 1, CHUNK):
                within = f"BETWEEN {low} AND {low + CHUNK - 1}"
                self._run(f"{copied} {one.number} {within} AND n.rid {within}")
        self._run(f"DROP TABLE {ranked}")
        if self._number(f"SELECT count(*) FROM {target}") != kept:
            raise RuntimeError("rows were lost between ranking and writing")
        return replace(report, kept=kept, without_unit=report.read - owners, copies=rows - owners, repeated=rows - kept)

    def _owned(self, one: Found) -> tuple[str, bool]:
        """(FROM clause of the source rows `s` with their units `p.unit`, whether a row may have several)."""
        if isinstance(one.table.unit, Path):
            keys, shared = self._keys[one.table.unit.to]
            columns = one.via
        else:
            assert one.unit is not None
            keys, shared, columns = self._all_units(), False, (one.unit[0],)
        on = " AND ".join(f"{column} = p.k{n}" for n, column in enumerate(columns))
        return f"{one.relation} AS s JOIN {keys} AS p ON {on}", shared

    def _all_units(self) -> str:
        """A temporary table of every unit in a column of its own (k0) with its identity and its surrogate."""
        if not self._units:
            self._units = next(self._names)
            columns = " UNION ALL ".join(
                f"SELECT {f.unit[0]} AS v FROM {f.relation} AS s" for f in self.found.values() if f.unit is not None
            )
            self._run(
                f"{self._create} {self._units} AS SELECT *, row_number() OVER (ORDER BY unit) AS place"
                f" FROM (SELECT v AS k0, {surrogate('v', self._salt)} AS unit"
                f" FROM (SELECT DISTINCT v FROM ({columns}) WHERE v IS NOT NULL))"
            )
            if self._number(f"SELECT count(*) - count(DISTINCT unit) FROM {self._units}"):
                raise Merged
            kept = f'SELECT place AS "$unit", unit AS id FROM {self._units} ORDER BY place'
            self._run(f'CREATE TABLE {PRIVATE}."$units" AS {kept}')
        return self._units

    def _keep_keys(self, one: Found, owned: str) -> None:
        """What tables below need: which key stands under which units."""
        table = next(self._names)
        keys = ", ".join(f"k{n}" for n in range(len(one.target)))
        values = ", ".join(f"{sql} AS k{n}" for n, sql in enumerate(one.target))
        there = " AND ".join(f"k{n} IS NOT NULL" for n in range(len(one.target)))
        self._run(
            f"{self._create} {table} AS SELECT DISTINCT {keys}, unit FROM"
            f" (SELECT {values}, p.unit AS unit FROM {owned}) WHERE {there}"
        )
        shared = self._number(f"SELECT count(*) FROM (SELECT 1 FROM {table} GROUP BY {keys} HAVING count(*) > 1)")
        self._keys[one.table.name] = (table, shared > 0)

    def _placed(self, one: Found, owned: str) -> str:
        """Each row once per unit that owns it: where it stood, the unit, two hashes of its content, its key."""
        values = {reading.stored: reading.type for reading in one.columns.values()}
        stored = list(values) + [key for key in one.key if key not in values]
        types = list(values.values()) + [None] * (len(stored) - len(values))
        first, second, digest = content_hashes(types, self._salt)
        keys = "".join(f", c{stored.index(key)} AS k{n}" for n, key in enumerate(one.key))
        columns = "".join(f", {sql} AS c{n}" for n, sql in enumerate(stored))
        return (
            f"SELECT rid, unit, {first} AS h1, {second} AS h2{keys}"
            f" FROM (SELECT *, {digest} AS m FROM (SELECT {one.number} AS rid, p.unit AS unit{columns} FROM {owned}))"
        )

    # ---- shared

    def _staged(self, one: Found) -> Found:
        """The source where its rows have lasting numbers: views and files are read once, into a table on the way."""
        if one.number == ROWID:
            return one
        staged, columns, number = next(self._names), ", ".join(map(quoted, one.used)), ROWID
        if "rowid" in (column.lower() for column in one.used):  # the number needs a name that is longer than theirs
            name = "$row" + "_" * max(map(len, one.used))
            columns, number = f"{columns}, row_number() OVER () - 1 AS {quoted(name)}", f"s.{quoted(name)}"
        try:
            self._run(f"{self._create} {staged} AS SELECT {columns} FROM {one.relation}")
        except (duckdb.InvalidInputException, duckdb.ConversionException, duckdb.IOException):
            if one.unreadable:
                raise mismatch([one.unreadable]) from None
            raise
        return replace(one, relation=staged, number=number)

    def _count_source(self, one: Found) -> tuple[int, dict[str, int]]:
        """(rows, values that the clamp moves, by column)."""
        moved = {name: reading.moved for name, reading in one.columns.items() if reading.moved}
        counts = "".join(f", count(*) FILTER (WHERE {condition})" for condition in moved.values())
        rows, *clamped = self._run(f"SELECT count(*){counts} FROM {one.relation} AS s")[0]
        return rows, {name: count for name, count in zip(moved, clamped, strict=True) if count}

    def _outside_values(self, one: Found, target: str) -> dict[str, int]:
        """Values of the snapshot's table that the column's `values` do not have, by column."""
        lists = {
            c.name: values_list(c, one.columns[c.name].type) for c in one.table.columns.values() if c.values is not None
        }
        if not lists:
            return {}
        counts = ", ".join(
            f"count(*) FILTER (WHERE {quoted(name)} NOT IN ({', '.join(values)}))" for name, values in lists.items()
        )
        found = self._run(f"SELECT {counts} FROM {target}")[0]
        return {name: count for name, count in zip(lists, found, strict=True) if count}

    def _outside_references(self, one: Found, target: str) -> dict[str, int]:
        found = {", ".join(r.columns): self._outside_reference(r, target) for r in one.table.references}
        return {columns: count for columns, count in found.items() if count}

    def _outside_reference(self, reference: Reference, target: str) -> int:
        on = " AND ".join(
            f"t.{quoted(mine)} = r.{quoted(theirs)}"
            for mine, theirs in zip(reference.columns, reference.target, strict=True)
        )
        joined = f"{target} AS t ANTI JOIN {PUBLIC}.{quoted(reference.table)} AS r ON {on}"
        return self._number(f"SELECT count(*) FROM {joined} WHERE NOT {_any_null(reference.columns)}")


def _any_null(columns: tuple[str, ...]) -> str:
    return "(" + " OR ".join(f"{quoted(column)} IS NULL" for column in columns) + ")"


def _ranked(placed: str, keys: int) -> str:
    """The rows that stay, each with its rank within the unit."""
    if keys:  # rows that are equal share a key, so one of them stays: no ordinal is needed
        key = ", ".join(f"k{n}" for n in range(keys))
        kept = (
            f"SELECT rid, unit, hash(hash(h1, 1)) AS h, h2 FROM {placed}"
            f" QUALIFY row_number() OVER (PARTITION BY unit, {key} ORDER BY hash(hash(h1, 1)), h2) = 1"
        )
    else:
        kept = f"SELECT rid, unit, hash(hash(h1, row_number() OVER (PARTITION BY unit, h1, h2))) AS h, h2 FROM {placed}"
    return f"SELECT rid, unit, row_number() OVER (PARTITION BY unit ORDER BY h, h2) AS rank FROM ({kept})"
