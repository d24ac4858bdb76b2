"""Expressions share a normal form only where they are equal in every row; spellings of one condition do share it."""

from __future__ import annotations

import random
from collections import defaultdict

import duckdb
import pytest
import sqlglot

from dpsql.compile.normalform import normal_conjuncts, normal_form

ROWS = (
    "(SELECT * FROM (VALUES (1), (2), (NULL)) a(a), (VALUES (1), (2), (NULL)) b(b),"
    " (VALUES (true), (false), (NULL)) f(f), (VALUES ('nan'::DOUBLE), (1.5), (NULL)) x(x)) t"
)

SAME = [
    ("a > 1", "1 < a", "NOT a <= 1", "NOT NOT (a > 1)", "NOT (1 >= a)"),
    ("a = 1", "1 = a", "a IN (1)", "NOT a <> 1", "NOT (a NOT IN (1))"),
    ("a IN (1, 2)", "a IN (2, 1, 2)", "a = 2 OR a = 1", "NOT (a <> 1 AND a <> 2)"),
    ("a BETWEEN 1 AND 2", "a >= 1 AND a <= 2", "2 >= a AND (1 <= a)", "NOT (a < 1 OR a > 2)"),
    ("a > 1 AND (b = 2 OR f)", "(f OR 2 = b) AND 1 < a", "NOT (a <= 1 OR (b <> 2 AND NOT f))"),
    ("a IS NOT NULL", "NOT (a IS NULL)", "NOT NOT NOT a IS NULL"),
    ("a IS DISTINCT FROM b", "b IS DISTINCT FROM a"),
    ("CASE WHEN a > 1 THEN b END", "CASE WHEN NOT (1 >= a) THEN b END"),
]


def form(sql: str) -> str:
    return normal_form(sqlglot.parse_one(sql, read="duckdb"), {})


@pytest.mark.parametrize("spellings", SAME, ids=lambda several: str(several[0]))
def test_spellings_of_one_condition(spellings: tuple[str, ...]) -> None:
    assert len({form(sql) for sql in spellings}) == 1


def test_conjuncts_are_a_set_without_what_is_always_true() -> None:
    one = normal_conjuncts(sqlglot.parse_one("a > 1 AND TRUE AND NOT (f OR b = 2) AND 1 < a", read="duckdb"), {})
    other = normal_conjuncts(sqlglot.parse_one("b <> 2 AND (NOT f AND a > 1)", read="duckdb"), {})
    assert one.keys() == other.keys()
    assert len(one) == 3


def test_a_range_is_two_conjuncts_and_a_list_that_is_left_out_one_for_each() -> None:
    spellings = ["a BETWEEN 1 AND 5 AND b NOT IN (2, 3)", "b <> 3 AND NOT (a < 1 OR 5 < a OR b = 2)"]
    one, other = (normal_conjuncts(sqlglot.parse_one(sql, read="duckdb"), {}) for sql in spellings)
    assert one.keys() == other.keys()
    assert len(one) == 4
    assert {form(tree.sql("duckdb")) for tree in one.values()} == set(one)


def condition(draw: random.Random, depth: int) -> str:
    """A condition over a few columns, so that many say the same."""
    if depth == 0 or draw.random() < 0.2:
        column, other = draw.choice(["a", "b", "x"]), draw.choice(["1", "2", "a", "b", "x"])
        return draw.choice(
            [
                *(f"{column} {symbol} {other}" for symbol in ("=", "<>", "<", "<=", ">", ">=")),
                *(f"{column} IN (1, {other})", f"{column} BETWEEN 1 AND {other}", f"{column} IS NULL", "f"),
                *(f"{column} IS DISTINCT FROM {other}", f"{column} NOT IN (2)"),
            ]
        )
    inner = [f"({condition(draw, depth - 1)})" for _ in range(draw.choice([1, 2, 2]))]
    return f"NOT {inner[0]}" if len(inner) == 1 else draw.choice([" AND ", " OR "]).join(inner)


def test_what_shares_a_normal_form_is_equal_in_every_row() -> None:
    draw = random.Random(3)
    found = defaultdict(set)
    for _ in range(1500):
        sql = condition(draw, draw.choice([0, 0, 1, 1, 2]))
        found[form(sql)].add(sql)
    several = [sorted(sqls) for sqls in found.values() if len(sqls) > 1]
    assert len(several) > 50
    with duckdb.connect() as connection:
        for sqls in several:
            items = ", ".join(f"({sqls[0]}) IS NOT DISTINCT FROM ({other})" for other in sqls[1:])
            rows = connection.execute(f"SELECT {items} FROM {ROWS}").fetchall()
            assert all(all(row) for row in rows), sqls
