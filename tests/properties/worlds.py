"""Databases that break every claim, the snapshots made of them, and databases that differ in one unit.

One policy with each way to own a row: the unit as key (people), an own column without a key (events) and with one that
two units may share (baskets), paths of length one (orders, lines) and two (details), `unit = "row"` (readings). Cells
are SQL literals, chosen to be awkward: both infinities, NaN, bounds and their neighbours, NULL units and keys.
A neighbour is the database without the rows of one unit in the tables that have an own unit column: rows of path
tables stay, and are not reached any more.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

import duckdb

from dpsql.policy.load import load_policy
from dpsql.policy.model import Policy
from dpsql.vault import snapshot as snapshots
from dpsql.vault.snapshot import Snapshot

SALT = bytes(range(32))
ACCOUNT = """\
version = 1
[unit]
name = "person"
[budget]
account = "world"
epsilon = "1000"
per_query_epsilon = "0.7"
max_query_epsilon = "1000"
"""


@dataclass(frozen=True, slots=True)
class Terms:
    """What a policy may say of every world. private_keys: a delta for keys without a public list, as large as two or
    three units need to be shown. limits: g and r of every table, beside R."""

    private_keys: bool = False
    limits: bool = False

    @property
    def budget(self) -> str:
        return 'delta = "0.9"\nper_query_delta = "0.04"\n' if self.private_keys else 'delta = "0"\n'

    @property
    def table(self) -> str:
        return "max_groups_per_unit = 2\nmax_rows_per_group = 2\n" if self.limits else ""


_INF, _NAN = "'inf'::DOUBLE", "'nan'::DOUBLE"
_DOUBLES = [_INF, "'-inf'::DOUBLE", _NAN, "1e308", "-1e308", "-0.0", "0.0", "4.9e-324", "2.2e-308", "NULL"]
_INTEGERS = [
    "NULL",
    "0",
    "1",
    "-1",
    "9223372036854775807",
    "9223372036854775806",
    "(-9223372036854775808)",
    "2147483648",
]
_WORDS = ["NULL", "''", "'a'", "'A'", "'b'", "'B '", "'1'", "'1e400'", "'nan'", "'ß'", "'%'", "'2020-02-30'"]
_UNITS = ["1", "1", "1", "2", "2", "3", "4", "NULL", "-1", "9223372036854775807"]
_IDS = ["1", "1", "2", "2", "3", "4", "5", "NULL", "9223372036854775807"]
_DAYS = [
    "NULL",
    "DATE '2024-01-01'",
    "DATE '2024-12-31'",
    "DATE '2023-12-31'",
    "DATE '2025-01-01'",
    "DATE '2024-02-29'",
]
_DAYS += ["DATE 'infinity'", "DATE '0001-01-01'", "DATE '9999-12-31'", "DATE '2024-06-15'", "DATE '4000-01-01 (BC)'"]
_TIMES = ["NULL", "TIMESTAMP '2024-01-01 00:00:00'", "TIMESTAMP '2024-12-31 23:59:59.999999'", "TIMESTAMP 'infinity'"]
_TIMES += ["TIMESTAMP '2024-03-31 02:30:00'", "TIMESTAMP '1970-01-01'", "TIMESTAMP '-infinity'"]


@dataclass(frozen=True, slots=True)
class Column:
    """type: in the source. claim: what the policy says of it. cells: literals to choose from."""

    type: str
    claim: str
    cells: Sequence[str]


@dataclass(frozen=True, slots=True)
class Table:
    """head: the policy's lines of the table itself. unit: the own unit's column ("" = none)."""

    head: str
    unit: str
    columns: Mapping[str, Column]


def _bounded(low: str, high: str, *inside: str) -> list[str]:
    """Doubles around two bounds: themselves, and one unit in the last place beside them."""
    ulps = [f"nextafter({b}::DOUBLE, {to})" for b in (low, high) for to in (_INF, "'-inf'::DOUBLE")]
    return [*_DOUBLES, low, high, low, high, *ulps, *inside]


TABLES: dict[str, Table] = {
    "people": Table(
        'unit = "uid"\nkey = ["uid"]\nmax_rows_per_unit = 2',
        "uid",
        {
            "uid": Column("BIGINT", "", _UNITS),
            "name": Column("VARCHAR", "", [*_WORDS, "repeat('x', 5000)"]),
            "age": Column("INTEGER", "bounds = [0, 120]", ["NULL", "0", "120", "-1", "121", "18", "65", "2147483647"]),
            "region": Column(
                "VARCHAR", 'references = "regions.region"', ["NULL", "'R1'", "'R1'", "'R2'", "'R3'", "'R9'"]
            ),
            "sex": Column("VARCHAR", 'values = ["F", "M"]', ["'F'", "'M'", "'x'", "NULL", "'f'"]),
            # Bounds between two points of the grid: only the clamp on the grid keeps 99.9 from rounding to 100.
            "cost": Column("DOUBLE", 'bounds = [0.1, 99.9], step = "0.25"', _bounded("0.1", "99.9", "50", "99.9")),
            "raw": Column("DOUBLE", "", [*_DOUBLES, "-('nan'::DOUBLE)", "9.3e18", "1", "2", "-3.5"]),
            "born": Column("DATE", "bounds = [2024-01-01, 2024-12-31]", _DAYS),
            "smoker": Column("BOOLEAN", "", ["NULL", "TRUE", "FALSE"]),
            "friend": Column("BIGINT", "", _UNITS),
        },
    ),
    "events": Table(
        'unit = "uid"\nmax_rows_per_unit = 3',
        "uid",
        {
            "uid": Column("BIGINT", "", _UNITS),
            "kind": Column("VARCHAR", 'values = ["a", "b", "c"]', ["'a'", "'b'", "'c'", "'d'", "NULL"]),
            "grade": Column("INTEGER", "values = [1, 2, 3]", ["1", "2", "3", "4", "-2147483648", "NULL"]),
            "item": Column("BIGINT", 'references = "items.item"', ["1", "2", "3", "9", "NULL"]),
            "x": Column("DOUBLE", "bounds = [-5, 7]", _bounded("-5", "7", "3.3", "-2.7")),
            "n": Column("SMALLINT", "bounds = [-3, 9]", ["-3", "9", "-4", "10", "0", "NULL", "32767"]),
            "amount": Column(
                "DECIMAL(10,2)", "bounds = [-10, 49.99]", ["-10", "49.99", "50", "0.01", "99999999.99", "NULL"]
            ),
            "wide": Column(
                "DECIMAL(38,4)", "bounds = [-1000000, 1000000]", ["NULL", f"{'9' * 34}.9999", "-1000000", "0.0001"]
            ),
            "huge": Column(
                "HUGEINT", "bounds = [-9007199254740992, 9007199254740992]", ["NULL", str(2**53), str(2**100), "7"]
            ),
            "tally": Column("BIGINT", "", _INTEGERS),
            "seen": Column("TIMESTAMP", "bounds = [2024-01-01T00:00:00, 2024-12-31T00:00:00]", _TIMES),
        },
    ),
    "orders": Table(
        'unit = { via = "uid", to = "people" }\nkey = ["oid"]\nmax_rows_per_unit = 2',
        "",
        {
            "oid": Column("BIGINT", "", _IDS),
            "uid": Column("BIGINT", "", _UNITS),
            "total": Column(
                "DECIMAL(8,2)", "bounds = [0, 50]", ["NULL", "0", "50", "50.01", "-0.01", "999999.99", "17.5"]
            ),
            "day": Column("DATE", "bounds = [2024-01-01, 2024-12-31]", _DAYS),
            "status": Column("VARCHAR", 'values = ["new", "old"]', ["'new'", "'old'", "'lost'", "NULL"]),
            "giver": Column("BIGINT", "", _UNITS),
        },
    ),
    "details": Table(
        'unit = { via = "oid", to = "orders" }\nkey = ["oid", "item"]\nmax_rows_per_unit = 3',
        "",
        {
            "oid": Column("BIGINT", "", _IDS),
            "item": Column("BIGINT", 'references = "items.item"', ["1", "2", "3", "9", "NULL"]),
            "pieces": Column("INTEGER", "bounds = [1, 10]", ["1", "10", "0", "11", "5", "NULL"]),
        },
    ),
    "baskets": Table(
        'unit = "hid"\nkey = ["bid"]\nmax_rows_per_unit = 2',
        "hid",
        {
            "bid": Column("BIGINT", "", _IDS),
            "hid": Column("BIGINT", "", _UNITS),
            "shop": Column("VARCHAR", 'values = ["north", "south"]', ["'north'", "'south'", "'east'", "NULL"]),
            "worth": Column("FLOAT", "bounds = [0, 1000]", ["NULL", "0", "1000", _INF, _NAN, "1e30", "0.5"]),
        },
    ),
    "lines": Table(
        'unit = { via = "bid", to = "baskets" }\nmax_rows_per_unit = 3',
        "",
        {
            "bid": Column("BIGINT", "", _IDS),
            "item": Column("BIGINT", 'references = "items.item"', ["1", "1", "2", "9", "NULL"]),
            "price": Column("DOUBLE", 'bounds = [0, 20], step = "0.01"', _bounded("0", "20", "9.99")),
        },
    ),
    "readings": Table(
        'unit = "row"',
        "",
        {
            "place": Column("VARCHAR", 'values = ["in", "out"]', ["'in'", "'out'", "'up'", "NULL"]),
            "level": Column("DOUBLE", "bounds = [-1, 1]", _bounded("-1", "1", "0.3")),
        },
    ),
}
OWN = [name for name, table in TABLES.items() if table.unit]
PUBLIC_POLICY = """\
[tables.regions]
public = true
key = ["region"]
[tables.regions.columns]
region = {}
label = {}
zone = { references = "zones.zone" }
[tables.zones]
public = true
key = ["zone"]
[tables.zones.columns]
zone = {}
land = {}
[tables.items]
public = true
key = ["item"]
[tables.items.columns]
item = {}
category = {}
tax = { bounds = [0, 1] }
[tables.prices]
public = true
[tables.prices.columns]
item = {}
price = {}
"""


def policy_text(terms: Terms) -> str:
    """The policy of every world on these terms."""
    parts = [ACCOUNT + terms.budget]
    for name, table in TABLES.items():
        more = terms.table if name != "readings" else ""
        parts.append(f"[tables.{name}]\n{table.head}\n{more}[tables.{name}.columns]")
        parts += [f"{column} = {{ {c.claim} }}" for column, c in table.columns.items()]
    return "\n".join(parts) + "\n" + PUBLIC_POLICY


Row = tuple[str, ...]
Database = Mapping[str, Sequence[Row]]
"""Private rows as SQL literals."""


_FEW = {id(_UNITS): ["1", "1", "1", "2", "NULL"], id(_IDS): ["1", "1", "2", "3", "NULL"]}
"""Units and keys of a database where units have many rows, and many ties."""


def random_rows(r: Random, most: int = 9) -> dict[str, list[Row]]:
    """Rows of every private table, some of them twice; of few units, now and then."""
    database: dict[str, list[Row]] = {}
    few = r.random() < 0.4
    numbers = [0, most, 2 * most, 2 * most] if few else [0, 3, most, most]
    for name, table in TABLES.items():
        cells = [_FEW.get(id(c.cells), c.cells) if few else c.cells for c in table.columns.values()]
        rows = [tuple(r.choice(c) for c in cells) for _ in range(r.choice(numbers))]
        database[name] = rows + [r.choice(rows) for _ in range(r.choice([0, 0, 2])) if rows]
    return database


def random_public(r: Random) -> list[str]:
    """The public tables, whose claims hold: INSERT statements."""
    zones = [f"('z{i}', '{r.choice('XY')}')" for i in range(r.choice([1, 2]))]
    labels, known = ["NULL", "'L0'", "'L1'"], ["NULL", *(f"'z{i}'" for i in range(len(zones)))]
    regions = [f"('R{i}', {r.choice(labels)}, {r.choice(known)})" for i in range(1, r.choice([2, 3, 4]))]
    categories, taxes = ["NULL", "'food'", "'tool'"], ["0", "1", "0.19", "NULL"]
    numbers = r.sample([1, 2, 3, 4], r.choice([1, 3]))
    items = [f"({i}, {r.choice(categories)}, {r.choice(taxes)})" for i in numbers]
    return [
        f"INSERT INTO zones VALUES {', '.join(zones)}",
        f"INSERT INTO regions VALUES {', '.join(regions)}",
        f"INSERT INTO items VALUES {', '.join(items)}",
        "INSERT INTO prices VALUES (1, 10), (1, 20), (2, 5)",
    ]


_PUBLIC_TABLES = """\
CREATE TABLE zones(zone VARCHAR, land VARCHAR);
CREATE TABLE regions(region VARCHAR, label VARCHAR, zone VARCHAR);
CREATE TABLE items(item BIGINT, category VARCHAR, tax DOUBLE);
CREATE TABLE prices(item BIGINT, price DECIMAL(8,2));
"""


# ---- neighbours


@dataclass(frozen=True, slots=True)
class Removed:
    """What a neighbour lacks: a unit's rows (`unit`: its literal, where NULL stands for rows that belong to nobody), or
    one row of `readings`."""

    unit: str
    reading: int | None = None


def without(database: Database, removed: Removed) -> dict[str, list[Row]]:
    """The neighbour."""
    smaller = {name: list(rows) for name, rows in database.items()}
    if removed.reading is not None:
        del smaller["readings"][removed.reading]
        return smaller
    for name in OWN:
        position = list(TABLES[name].columns).index(TABLES[name].unit)
        smaller[name] = [row for row in smaller[name] if row[position] != removed.unit]
    return smaller


def random_removed(r: Random, database: Database) -> Removed | None:
    """A unit that has rows, or a reading; None where there is nothing to remove."""
    positions = {name: list(TABLES[name].columns).index(TABLES[name].unit) for name in OWN}
    units = Counter(row[positions[name]] for name in OWN for row in database[name])
    if database["readings"] and (not units or r.random() < 0.2):
        return Removed("", r.randrange(len(database["readings"])))
    # A unit with many rows is worth more than one with a single row.
    return Removed(r.choices(list(units), [n * n for n in units.values()])[0]) if units else None


# ---- files


class World:
    """A folder with a policy, and the snapshots made there."""

    def __init__(self, folder: Path, public: Sequence[str], terms: Terms):
        self.folder, self.public = folder, public
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / "policy.toml"
        file.write_text(policy_text(terms), encoding="utf-8")
        self.policy: Policy = load_policy(file)
        self._numbers = itertools.count()

    def snapshot(self, database: Database) -> Snapshot:
        """A snapshot of these rows from scratch, under the one secret salt."""
        number = next(self._numbers)
        source = self.folder / f"source-{number}.duckdb"
        write(source, self.public, database)
        home = self.folder / "snapshots"
        home.mkdir(exist_ok=True)
        made = snapshots._make(self.policy, source, home, lambda *_: None, SALT)
        source.unlink()
        return made


def write(file: Path, public: Sequence[str], database: Database) -> None:
    """A source database."""
    with duckdb.connect(str(file)) as connection:
        connection.execute("BEGIN;" + _PUBLIC_TABLES + ";".join(public))
        for name, table in TABLES.items():
            connection.execute(f"CREATE TABLE {name}({', '.join(f'{c} {v.type}' for c, v in table.columns.items())})")
            if database[name]:
                values = ", ".join(f"({', '.join(row)})" for row in database[name])
                connection.execute(f"INSERT INTO {name} SELECT * FROM (VALUES {values})")
        connection.execute("COMMIT")


def chain(r: Random, database: Database, length: int) -> Iterator[tuple[Removed, Database]]:
    """Units leave one after another: each database is a neighbour of the one before."""
    for _ in range(length):
        removed = random_removed(r, database)
        if removed is None:
            return
        database = without(database, removed)
        yield removed, database
