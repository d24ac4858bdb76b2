"""With slack limits and no noise, every answer over the hospital is DuckDB's own, as `sides` compares them.

A line of `statements.txt` begins with how many of its leading columns are keys: then rows of keys that DuckDB does not
show must be empty. `-` says that the rows are the same ones.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from pathlib import Path

import pytest

from dpsql.compile.parse import Parameters
from dpsql.vault import noise
from tests.semantics.sides import Sides, compare, opened, rows_of, same_cell, same_row

FOLDER = Path(__file__).parent
DAY_AND_FEE: Parameters = {"day": date(2024, 5, 1), "fee": Decimal("12.50")}
MIDDLES = (0, 60.0, 50.0, 250.0, 500.0, 150.0)
VARIANCES = [2 * middle**2 / 4 for middle in MIDDLES]
"""Of nothing: an eighth of the range's square, and of a sample twice that."""
EMPTY = (*MIDDLES, *(f * v for v in VARIANCES for f in (1, 2)), *(math.sqrt(f * v) for v in VARIANCES for f in (1, 2)))


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sides]:
    script = (FOLDER / "hospital.sql").read_text(encoding="utf-8")
    with opened(tmp_path_factory.mktemp("hospital"), FOLDER / "hospital.toml", script, "", EMPTY) as both:
        yield both


def statements() -> list[tuple[str, str]]:
    """(keys, statement) of each line that is no comment."""
    lines = (FOLDER / "statements.txt").read_text(encoding="utf-8").splitlines()
    return [(line[0], line[2:].strip()) for line in lines if line and not line.startswith("#")]


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
    assert not same_cell(1.0, 1, EMPTY)
    assert not same_cell(1, 2, EMPTY)
    assert not same_cell(7, None, EMPTY)
    assert not same_row(("F", 1), ("M", 1), 1, EMPTY)
