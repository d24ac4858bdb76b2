"""Types and clamps: every awkward value of every type, and what the owner is told where a type does not fit."""

from __future__ import annotations

import math
from datetime import date, datetime
from decimal import Decimal

import pytest

from dpsql.errors import PolicyError
from dpsql.policy.facts import Kind, SqlType
from dpsql.policy.model import Value
from tests.vault.kit import Made, column, policy, table

INF, NAN = math.inf, math.nan


def one_column(declared: str, values: str, bounds: tuple[Value, Value] | None = None) -> Made:
    """A table t(u, x) with a unit for each value, x of the type declared."""
    made = policy(table("t", [column("x", bounds)], "u"))
    return Made(
        made, f"CREATE TABLE t AS SELECT row_number() OVER () AS u, x::{declared} AS x FROM (VALUES {values}) v(x)"
    )


def stored(made: Made) -> list[object]:
    return [x for (x,) in made.sql("SELECT x FROM priv.t ORDER BY ALL")]


def same(left: object, right: object) -> bool:
    return left == right or (isinstance(left, float) and isinstance(right, float) and math.isnan(left + right))


@pytest.mark.parametrize(
    ("declared", "values", "bounds", "expected"),
    [
        ("DOUBLE", "('nan'),('inf'),('-inf'),(NULL),('1e308'),('-1e308'),('5')", (0, 10),
         [0.0, 0.0, 5.0, 10.0, 10.0, None, None]),
        ("DOUBLE", "('0'),('10'),('10.000000000000002'),('-5e-324'),('-0.0')", (0, 10), [0.0, 0.0, 0.0, 10.0, 10.0]),
        ("FLOAT", "('nan'),('inf'),('3.5')", (Decimal("0.5"), Decimal("3.25")), [3.25, 3.25, None]),
        ("DOUBLE", "('0.1'),('0.2')", (0, Decimal("0.1")), [0.1, 0.1]),
        ("DOUBLE", "('nan'),('inf'),('-0.0')", None, [0.0, INF, NAN]),
        ("BIGINT", "(-9223372036854775808),(9223372036854775807),(NULL),(7)", (-3, 7), [-3, 7, 7, None]),
        ("TINYINT", "(-128),(127)", (-1000, 100), [-128, 100]),
        ("UBIGINT", "(18446744073709551615),(0),(NULL)", (1, 2**63 - 1), [1, 2**63 - 1, None]),
        ("HUGEINT", f"({-(2**127)}),({2**127 - 1})", (-1, 1), [-1, 1]),
        ("UHUGEINT", f"({2**128 - 1}),(0)", (-5, 5), [0, 5]),
        ("DECIMAL(5,2)", "(-999.99),(999.99),(0.01),(NULL)", (0, 10**9),
         [Decimal("0.00"), Decimal("0.01"), Decimal("999.99"), None]),
        ("DECIMAL(5,2)", "(1),(2)", (Decimal("1.001"), Decimal("1.998")), [Decimal("1.01"), Decimal("1.99")]),
        ("DECIMAL(38,0)", f"({10**38 - 1}),({1 - 10**38})", (-(10**37), 10**37), [Decimal(-(10**37)), Decimal(10**37)]),
        ("DATE", "('infinity'),('-infinity'),('2024-02-29'),(NULL)", (date(2024, 1, 1), date(2024, 12, 31)),
         [date(2024, 1, 1), date(2024, 2, 29), date(2024, 12, 31), None]),
        ("TIMESTAMP", "('infinity'),('2024-02-29 12:00:00.5')", (datetime(2024, 1, 1), datetime(2024, 12, 31, 23, 59)),
         [datetime(2024, 2, 29, 12, 0, 0, 500000), datetime(2024, 12, 31, 23, 59)]),
        ("TIMESTAMPTZ", "('2024-02-29 12:00:00+02'),('-infinity')", (datetime(2024, 1, 1), datetime(2025, 1, 1)),
         [datetime(2024, 1, 1), datetime(2024, 2, 29, 10)]),
        ("TIMESTAMP_NS", "('2024-02-29 12:00:00.123456789')", None, [datetime(2024, 2, 29, 12, 0, 0, 123457)]),
        ("TIMESTAMP_S", "('2024-02-29 12:00:00')", None, [datetime(2024, 2, 29, 12)]),
        ("ENUM('b','a')", "('a'),('b'),(NULL)", None, ["a", "b", None]),
        ("UUID", "('A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11')", None, ["a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"]),
        ("BOOLEAN", "(true),(false),(NULL)", None, [False, True, None]),
    ],
)  # fmt: skip
def test_every_value_is_of_the_type_and_within_the_bounds(
    declared: str, values: str, bounds: tuple[Value, Value] | None, expected: list[object]
) -> None:
    found = stored(one_column(declared, values, bounds))
    assert len(found) == len(expected)
    assert all(same(a, b) for a, b in zip(found, expected, strict=True)), found


@pytest.mark.parametrize(
    ("declared", "kind"),
    [
        ("TINYINT", SqlType(Kind.INTEGER)),
        ("UINTEGER", SqlType(Kind.INTEGER)),
        ("FLOAT", SqlType(Kind.DOUBLE)),
        ("DECIMAL(38,3)", SqlType(Kind.DECIMAL, 38, 3)),
        ("UUID", SqlType(Kind.VARCHAR)),
        ("ENUM('x')", SqlType(Kind.VARCHAR)),
        ("TIMESTAMP_MS", SqlType(Kind.TIMESTAMP)),
        ("TIMESTAMPTZ", SqlType(Kind.TIMESTAMP)),
        ("VARCHAR", SqlType(Kind.VARCHAR)),
        ("DATE", SqlType(Kind.DATE)),
        ("BOOLEAN", SqlType(Kind.BOOLEAN)),
    ],
)
def test_facts_say_the_type_that_the_table_has(declared: str, kind: SqlType) -> None:
    made = one_column(declared, "(NULL)")
    assert made.facts["t"].types == {"x": kind}
    described = {name: declared for name, declared, *_ in made.sql("DESCRIBE priv.t")}
    assert described == {"x": str(kind), "$unit": "BIGINT", "$rank": "BIGINT"}


def test_clamped_values_are_counted() -> None:
    made = one_column("DOUBLE", "('nan'),('inf'),('-inf'),(NULL),('0'),('10'),('5')", (0, 10))
    assert made.reports["t"].clamped == {"x": 3}


def test_a_collation_does_not_merge_strings() -> None:
    source = "CREATE TABLE t(u VARCHAR COLLATE NOCASE, k VARCHAR COLLATE NOCASE)"
    made = Made(policy(table("t", ["u", "k"], "u", key=("k",))), source, {"t": [("a", "x"), ("A", "x"), ("a", "X")]})
    assert made.rows("t", "u, k") == [("A", "x"), ("a", "X"), ("a", "x")]
    assert made.sql('SELECT count(DISTINCT "$unit"), count(DISTINCT k) FROM priv.t') == [(2, 2)]


@pytest.mark.parametrize(
    ("declared", "bounds", "words"),
    [
        ("INTEGER", (Decimal("0.5"), 3), "bound 0.5 does not fit type INTEGER"),
        ("BIGINT", (0, 2**63), "does not fit type BIGINT"),
        ("UTINYINT", (-5, -1), "no value of type UTINYINT lies within the bounds"),
        ("DECIMAL(5,2)", (Decimal("0.001"), Decimal("0.002")), "no value of type DECIMAL(5,2)"),
        ("DOUBLE", (0, 10**400), "does not fit type DOUBLE"),
        ("DATE", (datetime(2024, 1, 1), datetime(2024, 1, 2)), "does not fit type DATE"),
        ("TIMESTAMP", (date(2024, 1, 1), date(2024, 1, 2)), "does not fit type TIMESTAMP"),
        ("VARCHAR", (0, 1), "does not fit type VARCHAR"),
        ("VARCHAR", ("a", "b"), "cannot have bounds"),
        ("BOOLEAN", (False, True), "cannot have bounds"),
        ("UBIGINT", None, "give the column bounds, or make a view that casts it"),
        ("UHUGEINT", None, "give the column bounds"),
        ("INTEGER[]", None, "type LIST is not supported; make a view that casts it"),
        ("STRUCT(a INTEGER)", None, "type STRUCT is not supported"),
        ("TIME", None, "type TIME is not supported"),
        ("INTERVAL", None, "type INTERVAL is not supported"),
        ("BLOB", None, "type BLOB is not supported"),
        ("BIT", None, "type BIT is not supported"),
        ("JSON", None, "type JSON is not supported"),
    ],
)
def test_what_does_not_fit_is_named(declared: str, bounds: tuple[Value, Value] | None, words: str) -> None:
    with pytest.raises(PolicyError) as caught:
        one_column(declared, "(NULL)", bounds)
    assert caught.value.code == "DP302"
    assert "t.x: " in str(caught.value)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("declared", "values"),
    [
        ("INTEGER", ("1",)),
        ("VARCHAR", (1,)),
        ("BOOLEAN", (1,)),
        ("DECIMAL(5,1)", (Decimal("0.25"),)),
        ("DATE", ("2024",)),
    ],
)
def test_values_must_be_of_the_type(declared: str, values: tuple[Value, ...]) -> None:
    made = policy(table("t", [column("x", None, values)], "u"))
    with pytest.raises(PolicyError, match="some of its `values` are not of type"):
        Made(made, f"CREATE TABLE t(u INTEGER, x {declared})")
