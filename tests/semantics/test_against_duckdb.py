"""With slack limits and no noise, every answer is DuckDB's own.

The policy's limits and bounds touch no row here, and the noise is taken out, so what is left is what the statement
means: rows, order, names and types must be those that DuckDB gives over the tables themselves. Three things differ on
purpose, and are compared as what they are: every public key has a row, also one that no private row has; a sum over
nothing is 0 where DuckDB has NULL; a mean of nothing is the middle of its range.

A line of `statements.txt` begins with how many of its leading columns are keys: then rows of keys that DuckDB does not
show must be empty. `-` says that the rows are the same ones.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pytest

from dpsql.answer import Answer
from dpsql.compile.parse import Parameters
from dpsql.session import Session, open_session
from dpsql.vault import noise

FOLDER = Path(__file__).parent
DAY_AND_FEE: Parameters = {"day": date(2024, 5, 1), "fee": Decimal("12.50")}


@dataclass(frozen=True, slots=True)
class Sides:
    """The same tables, plain and through dpsql."""

    plain: duckdb.DuckDBPyConnection
    session: Session


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sides]:
    home = tmp_path_factory.mktemp("hospital")
    database = home / "hospital.duckdb"
    with duckdb.connect(str(database)) as connection:
        connection.execute((FOLDER / "hospital.sql").read_text(encoding="utf-8"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(home / "cache"))
        patch.setattr(noise, "_add", lambda exact, _: exact.astype(object))
        session = open_session(FOLDER / "hospital.toml", database, ledger=home / "ledger.sqlite")
        plain = duckdb.connect(":memory:")
        plain.execute("SET TimeZone = 'UTC'")
        plain.execute((FOLDER / "hospital.sql").read_text(encoding="utf-8"))
        yield Sides(plain, session)
        plain.close()
        session.close()


def statements() -> list[tuple[str, str]]:
    """(keys, statement) of each line that is no comment."""
    lines = (FOLDER / "statements.txt").read_text(encoding="utf-8").splitlines()
    return [(line[0], line[2:].strip()) for line in lines if line and not line.startswith("#")]


Cell = Any
EMPTY: Sequence[float | None] = (0, None, 60.0, 50.0, 250.0, 500.0, 150.0)
"""What a group without rows shows: 0, or the middle of a column's range."""


def same_cell(ours: Cell, theirs: Cell) -> bool:
    """Equal in value and Python type; floats to 12 digits. NULL for an aggregate of nothing."""
    if theirs is None:
        return ours in EMPTY
    if type(ours) is not type(theirs):
        return False
    if isinstance(ours, float):
        return math.isclose(ours, theirs, rel_tol=1e-12, abs_tol=1e-9) or (math.isnan(ours) and math.isnan(theirs))
    return bool(ours == theirs)


def same_row(ours: Sequence[Cell], theirs: Sequence[Cell], keys: int) -> bool:
    return tuple(ours[:keys]) == tuple(theirs[:keys]) and all(map(same_cell, ours, theirs))


def rows_of(answer: Answer) -> list[tuple[Cell, ...]]:
    columns = [column.to_pylist() for column in answer.table.columns]
    return list(zip(*columns, strict=True))


def compare(sides: Sides, keys: str, sql: str, parameters: Parameters | None = None) -> None:
    """The two answers to one statement."""
    result = sides.plain.execute(sql, parameters) if parameters is not None else sides.plain.execute(sql)
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
            assert row[:leading] in shown or all(cell in EMPTY for cell in row[leading:]), f"no such group: {row}"
        ours = [row for row in ours if row[:leading] in shown]
    if not re.search(r"ORDER BY [^()]*$", sql):
        ours, theirs = sorted(ours, key=sorting), sorted(theirs, key=sorting)
    assert len(ours) == len(theirs), f"{len(ours)} rows, not {len(theirs)}: {ours[:9]} {theirs[:9]}"
    for mine, other in zip(ours, theirs, strict=True):
        assert same_row(mine, other, leading), f"{mine} instead of {other}"


def sorting(row: Sequence[Cell]) -> list[tuple[bool, str]]:
    """Some order. Text of numbers is cut, for a float may differ in its last digits."""
    return [(x is None, f"{x:.6f}" if isinstance(x, int | float | Decimal) else str(x)) for x in row]


@pytest.mark.parametrize(("keys", "sql"), statements(), ids=lambda x: x if len(x) > 1 else "")
def test_an_answer_is_duckdbs(keys: str, sql: str, sides: Sides) -> None:
    compare(sides, keys, sql)


@pytest.mark.parametrize(
    ("keys", "sql", "parameters"),
    [
        ("-", "SELECT COUNT(*) AS n FROM patients WHERE age > ? AND sex = ?", [30, "F"]),
        ("-", "SELECT COUNT(*) AS n FROM patients WHERE age > $2 AND sex = $1", ["F", 30]),
        ("-", "SELECT COUNT(*) AS n FROM visits WHERE seen < $day AND fee > $fee", DAY_AND_FEE),
        ("1", "SELECT name, COUNT(*) AS n FROM patients WHERE name IN (?, ?) GROUP BY name", ["Bname1", "x'y"]),
        ("-", "SELECT COUNT(*) AS n FROM patients WHERE name = ?", ["'; DROP TABLE patients; --"]),
        ("-", "SELECT COUNT(*) AS n FROM patients WHERE smoker = ? OR cost < ?", [True, 12.25]),
        ("-", "SELECT COUNT(*) AS n FROM patients WHERE COALESCE(sex, ?) = 'F'", [None]),
    ],
)
def test_parameters_are_values(keys: str, sql: str, parameters: Parameters, sides: Sides) -> None:
    compare(sides, keys, sql, parameters)


def test_groups_of_nobody_are_empty(sides: Sides) -> None:
    """A region without patients: no count, no sum, and the middle of the range for a mean."""
    sql = "SELECT region, COUNT(*), SUM(cost), AVG(age), COUNT(DISTINCT uid) FROM patients"
    answer = sides.session.execute(sql + " WHERE region = 'R5' GROUP BY region")
    assert rows_of(answer) == [("R5", 0, 0.0, 60.0, 0)]


def test_public_statements_are_free_and_private_ones_are_not(sides: Sides) -> None:
    before = sides.session.budget().spent_epsilon
    public = sides.session.execute("SELECT COUNT(*) FROM drugs WHERE price > 11")
    private = sides.session.execute("SELECT COUNT(*) FROM patients WHERE cost > 11.75")
    assert public.receipt is not None
    assert private.receipt is not None
    assert (public.receipt.epsilon, private.receipt.epsilon) == (0, 1)
    assert sides.session.budget().spent_epsilon == before + 1


def test_there_are_enough_statements() -> None:
    assert len(set(statements())) >= 120


def test_a_difference_would_be_seen(sides: Sides, monkeypatch: pytest.MonkeyPatch) -> None:
    """The comparison tells values, groups, order and types apart."""
    sql = "SELECT sex, COUNT(*) AS n FROM patients WHERE age < {} GROUP BY sex ORDER BY n DESC, sex"
    compare(sides, "1", sql.format(61))
    monkeypatch.setattr(noise, "_add", lambda exact, _: exact.astype(object) + 1)
    with pytest.raises(AssertionError, match="instead of"):
        compare(sides, "1", sql.format(62))
    assert not same_cell(1.0, 1)
    assert not same_cell(1, 2)
    assert not same_cell(7, None)
    assert not same_row(("F", 1), ("M", 1), 1)
