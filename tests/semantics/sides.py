"""The same tables, plain and through dpsql without noise, and the comparison of their answers.

Limits and bounds of a world's policy touch no row, and the noise is taken out, so what is left is what a statement
means: rows, order, names and types must be those that DuckDB gives over the tables themselves. Three things differ on
purpose, and are compared as what they are: every public key has a row, also one that no private row has; a sum over
nothing is 0 where DuckDB has NULL; a mean of nothing is the middle of its range.

The private engine is two at once: with the optimizer on one thread, and without it on two. What one of them gives, the
other must give. (`tests/properties/test_engines.py` has more kinds.)
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Any, cast

import duckdb
import pyarrow as pa
import pytest

from dpsql.answer import Answer
from dpsql.compile.parse import Parameters
from dpsql.session import Session, open_session
from dpsql.vault import noise
from dpsql.vault.duckdb import DuckDBEngine
from dpsql.vault.snapshot import Snapshot
from tests.properties.differences import Unoptimized

Cell = Any
Row = tuple[Cell, ...]
Empty = Sequence[float | Decimal]
"""What an aggregate of nothing shows: 0, or the middle of a column's range."""


@dataclass(frozen=True, slots=True)
class Sides:
    plain: duckdb.DuckDBPyConnection
    session: Session
    empty: Empty


class Everywhere:
    """A private engine beside another over the same snapshot, which must give the same rows. kept: what the other one,
    without an optimizer, keeps of it."""

    def __init__(self, engine: Any, snapshot: Snapshot, kept: Collection[str]):
        self._engine, self._other = engine, Unoptimized(snapshot, kept=kept, threads=2)

    def run(self, sql: str, tables: Mapping[str, pa.Table] | None = None) -> pa.Table:
        table = self._engine.run(sql, tables)
        assert sorted_rows(rows_of(self._other.run(sql, tables))) == sorted_rows(rows_of(table)), "two threads"
        return table

    def cancel(self) -> None:
        self._engine.cancel()

    def close(self) -> None:
        self._engine.close()
        self._other.close()


@contextmanager
def without_noise(home: Path) -> Iterator[pytest.MonkeyPatch]:
    """Sessions opened within add nothing to what they count, and keep their snapshots in `home`."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(home / "cache"))
        patch.setattr(noise, "_add", lambda exact, _: exact.astype(object))
        yield patch


def open_everywhere(policy: Path, database: Path, ledger: Path, kept: Collection[str] = ()) -> Session:
    """A session whose private engine is `Everywhere`."""
    session = open_session(policy, database, ledger=ledger)
    everywhere = Everywhere(session._engines.private, session.snapshot, kept)
    session._engines = replace(session._engines, private=cast(DuckDBEngine, everywhere))
    return session


@contextmanager
def opened(home: Path, policy: Path, script: str, dropped: str, empty: Empty) -> Iterator[Sides]:
    """Both sides of the tables that `script` makes. dropped: statements for the plain side alone, which take away what
    belongs to nobody."""
    database = home / "data.duckdb"
    with duckdb.connect(str(database)) as connection:
        connection.execute(script)
    plain = duckdb.connect(":memory:")
    plain.execute(f"SET TimeZone = 'UTC'; {script}; {dropped}")
    with without_noise(home):
        session = open_everywhere(policy, database, home / "ledger.sqlite")
        yield Sides(plain, session, empty)
        session.close()
    plain.close()


def same_cell(ours: Cell, theirs: Cell, empty: Empty) -> bool:
    """Equal in value and Python type; floats to 12 digits. NULL for an aggregate of nothing."""
    if theirs is None:
        return ours is None or ours in empty
    if type(ours) is not type(theirs):
        return False
    if isinstance(ours, float):
        return math.isclose(ours, theirs, rel_tol=1e-12, abs_tol=1e-9) or (math.isnan(ours) and math.isnan(theirs))
    return bool(ours == theirs)


def same_row(ours: Sequence[Cell], theirs: Sequence[Cell], keys: int, empty: Empty) -> bool:
    same = [same_cell(a, b, empty) for a, b in zip(ours, theirs, strict=True)]
    return tuple(ours[:keys]) == tuple(theirs[:keys]) and all(same)


def rows_of(answer: Answer | pa.Table) -> list[Row]:
    table = answer.table if isinstance(answer, Answer) else answer
    return list(zip(*[column.to_pylist() for column in table.columns], strict=True))


def compare(
    sides: Sides, keys: str, sql: str, parameters: Parameters | None = None, *, plain: str | None = None
) -> None:
    """The two answers to one statement. keys: how many leading columns are keys, whose rows must be empty where DuckDB
    does not show them; `-` where the rows are the same ones. plain: what DuckDB is asked where it means something else
    by the text."""
    asked = plain or sql
    result = sides.plain.execute(asked, parameters) if parameters is not None else sides.plain.execute(asked)
    names = [column[0] for column in result.description or ()]
    theirs = result.fetchall()
    answer = sides.session.execute(sql, parameters)
    ours = rows_of(answer)
    assert len(answer.table.column_names) == len(names)
    for mine, name in zip(answer.table.column_names, names, strict=True):
        assert mine == name or not re.fullmatch(r"\w+|count_star\(\)", name), f"{mine} instead of {name}"
    leading = 0
    if keys != "-":
        leading = int(keys)
        shown = {row[:leading] for row in theirs}
        for row in ours:
            empty = all(cell is None or cell in sides.empty for cell in row[leading:])
            assert row[:leading] in shown or empty, f"no such group: {row}"
        ours = [row for row in ours if row[:leading] in shown]
    if not re.search(r"ORDER BY [^()]*$", sql):
        ours, theirs = sorted_rows(ours), sorted_rows(theirs)
    assert len(ours) == len(theirs), f"{len(ours)} rows, not {len(theirs)}: {ours[:9]} {theirs[:9]}"
    for mine, other in zip(ours, theirs, strict=True):
        assert same_row(mine, other, leading, sides.empty), f"{mine} instead of {other}"


def sorted_rows(rows: list[Row]) -> list[Row]:
    """In some order. Text of numbers is cut, for a float may differ in its last digits."""
    return sorted(rows, key=_sorting)


def _sorting(row: Row) -> list[tuple[bool, str]]:
    return [(x is None, f"{x:.6f}" if isinstance(x, int | float | Decimal) else str(x)) for x in row]
