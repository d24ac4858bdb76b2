"""What is free is right: random questions, one after another, in one account, against plain DuckDB.

Limits have slack and noise is off, so that every answer is the exact one, whether it was drawn for the question or is
read from what earlier questions left: a stored release that is no answer would show as a wrong number.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest

import dpsql
from dpsql.privacy import mechanisms

POLICY = """
version = 1
[unit]
name = "guest"
[budget]
epsilon = "1000"
delta = "{delta}"
per_query_epsilon = "1"
{more}
[tables.stays]
unit = "guest"
{limits}
[tables.stays.columns]
hotel = {{ values = ["A", "B", "C"] }}
month = {{ bounds = [1, 4] }}
breakfast = {{}}
nights = {{ bounds = [0, 9] }}
price = {{ bounds = [0, 100] }}
day = {{ bounds = [2024-01-01, 2024-01-05] }}
guest = {{}}
room = {{}}
[tables.guests]
unit = "guest"
key = ["guest"]
max_rows_per_unit = 1
[tables.guests.columns]
guest = {{}}
home = {{ values = ["X", "Y"] }}
age = {{ bounds = [0, 3] }}
"""
LIMITS = {
    "rows": "max_rows_per_unit = 60",
    "late": 'max_rows_per_unit = 60\nlimit = "late"',
    "cells": "max_rows_per_unit = 2000\nmax_groups_per_unit = 2000\nmax_rows_per_group = 60",
}

KEYS = {
    "stays": ["hotel", "month", "breakfast", "month > 2", "day", "hotel = 'A'"],
    "guests": ["home", "age", "age > 1"],
}
AGGREGATES = {
    "stays": [
        *("COUNT(*)", "COUNT(nights)", "SUM(nights)", "AVG(nights)", "SUM(price)", "COUNT(DISTINCT guest)"),
        *(
            "COUNT(*) FILTER (WHERE nights > 4)",
            "AVG(price)",
            "COUNT(price)",
            "VAR_POP(nights)",
            "COUNT(DISTINCT room)",
        ),
    ],
    "guests": ["COUNT(*)", "COUNT(DISTINCT guest)", "SUM(age)", "AVG(age)"],
}
CONDITIONS = {
    "stays": [
        ["nights > 3", "3 < nights", "NOT nights <= 3", "NOT NOT nights > 3"],
        ["hotel IN ('A', 'B')", "hotel = 'A' OR hotel = 'B'", "(hotel IN ('B', 'A'))", "NOT hotel NOT IN ('A', 'B')"],
        ["hotel IN ('A')", "hotel = 'A'", "'A' = hotel"],
        ["month BETWEEN 2 AND 3", "month >= 2 AND month <= 3", "NOT (month < 2 OR month > 3)"],
        ["month IS NOT NULL", "NOT month IS NULL"],
        ["hotel IS NOT NULL"],
        ["month = 2 OR nights = 5", "NOT (nights <> 5 AND month <> 2)"],
        ["month > 1 OR hotel = 'C'"],
        ["breakfast", "NOT NOT breakfast"],
        ["day < DATE '2024-01-04'", "DATE '2024-01-04' > day"],
    ],
    "guests": [["age >= 1", "NOT 1 > age"], ["home = 'X'", "home IN ('X')"], ["age IS NOT NULL"], ["home IS NOT NULL"]],
}


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("repeats") / "stays.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute("SELECT setseed(0.25)")
        connection.execute(
            "CREATE TABLE stays AS SELECT (random() * 40)::INT AS guest,"
            " [NULL, 'A', 'B', 'C', 'D'][1 + (random() * 4.99)::INT % 5] AS hotel,"
            " [NULL, 1, 2, 3, 4][1 + (random() * 4.99)::INT % 5]::BIGINT AS month,"
            " [NULL, true, false][1 + (random() * 2.99)::INT % 3] AS breakfast,"
            " [NULL, 0, 3, 4, 5, 9][1 + (random() * 5.99)::INT % 6]::BIGINT AS nights,"
            " ['nan'::DOUBLE, NULL, 0.5, 12.25, 100][1 + (random() * 4.99)::INT % 5] AS price,"
            " [NULL, DATE '2024-01-01', DATE '2024-01-03', DATE '2024-01-05'][1 + (random() * 3.99)::INT % 4] AS day,"
            " (random() * 5)::INT AS room FROM range(700)"
        )
        connection.execute(
            "CREATE TABLE guests AS SELECT guest, [NULL, 'X', 'Y'][1 + guest % 3] AS home,"
            " [NULL, 0, 1, 2, 3][1 + guest % 5]::BIGINT AS age FROM (SELECT DISTINCT guest FROM stays)"
        )
    return path


@pytest.fixture(params=[*LIMITS, "private"])
def connection(
    request: pytest.FixtureRequest, database: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[dpsql.Connection]:
    for name in ("STATE", "CACHE", "CONFIG"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / name))
    private = request.param == "private"
    text = POLICY.format(
        limits=LIMITS["rows" if private else request.param],
        delta="0.5" if private else "0",
        more='per_query_delta = "1e-6"' if private else "",
    )
    if private:  # nobody lists the hotels
        text = text.replace('hotel = { values = ["A", "B", "C"] }', "hotel = {}")
    policy = tmp_path / "policy.toml"
    policy.write_text(text)
    for name in ("discrete_laplace", "rounded_normal"):
        monkeypatch.setattr(mechanisms, name, lambda n, _: np.zeros(n, dtype=np.int64))
    with dpsql.connect(policy, database) as opened:
        yield opened


def question(draw: random.Random) -> tuple[list[str], str]:
    """Its keys, and its text in some order and spelling."""
    table = draw.choices(["stays", "guests"], [4, 1])[0]
    keys = draw.sample(KEYS[table], draw.choice([0, 0, 1, 1, 2]))
    aggregates = draw.sample(AGGREGATES[table], draw.choice([1, 1, 2, 3, 4]))
    conditions = [draw.choice(same) for same in draw.sample(CONDITIONS[table], draw.choice([0, 0, 1, 1, 2]))]
    alias = draw.choice(["", " AS t"])
    text = f"SELECT {', '.join([*(f'{k} AS k{i}' for i, k in enumerate(keys)), *aggregates])} FROM {table}{alias}"
    if conditions:
        text += f" WHERE {' AND '.join(f'({c})' if draw.random() < 0.5 or ' OR ' in c else c for c in conditions)}"
    if keys:
        text += f" GROUP BY {', '.join(map(str, range(1, len(keys) + 1)))}"
    return keys, text


def rows(cursor: Any, keys: int) -> dict[tuple[Any, ...], tuple[Any, ...]]:
    return {row[:keys]: row[keys:] for row in cursor.fetchall()}


WHY = ("stored sum over a stored count", "sums of stored groups", "some of the stored groups", "the same question")


def test_what_is_free_is_right(connection: dpsql.Connection, database: Path) -> None:
    seen = check(connection, database, 7, 200)
    assert all(seen[why] for why in WHY), seen


@pytest.mark.audit
@pytest.mark.parametrize("seed", range(20))
def test_much_that_is_free_is_right(connection: dpsql.Connection, database: Path, seed: int) -> None:
    check(connection, database, seed, 300)


def check(connection: dpsql.Connection, database: Path, seed: int, number: int) -> Counter[str]:
    """How many answers were free, charged, or in part; and for each reason how many were read from stored ones."""
    draw, seen = random.Random(seed), Counter[str]()
    with duckdb.connect(str(database), read_only=True) as plain:
        for _ in range(number):
            keys, text = question(draw)
            lines = [line for (line,) in connection.execute(f"EXPLAIN {text}").fetchall()]
            told = [line for line in lines if line.startswith("  released_1,")]
            cursor = connection.execute(text)
            assert cursor.receipt is not None
            found = rows(cursor, len(keys))
            seen["free" if cursor.receipt.epsilon == 0 else "partly" if told else "charged"] += 1
            seen.update(next(why for why in WHY if why in line) for line in told)
            numbers = re.sub(r"(SUM|AVG|COUNT)\(price\)", r"\1(CASE WHEN NOT isnan(price) THEN price END)", text)
            exact = rows(plain.execute(numbers), len(keys))
            for group in found.keys() & exact.keys():
                for mine, true in zip(found[group], exact[group], strict=True):
                    assert true is None or float(mine) == pytest.approx(float(true), abs=0.01), (text, group, told)
            assert all(
                set(found[group]) <= {0} or "AVG" in text or "VAR" in text for group in found.keys() - exact.keys()
            )
            listed = {group for group in exact if "D" not in group}
            assert listed <= found.keys() or connection.execute("SHOW BUDGET").fetchall()[1][2] != "0", text
    print(seen)
    assert seen["free"] > number / 7
    assert seen["charged"] > number / 7
    return seen
