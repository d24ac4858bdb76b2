"""Values lie in the inferred ranges, for random bounds: rows clamped as SQL clamps them, functions on the real engine.

`test_total_forms` has few bounds and many expressions; here the bounds are random, and the rows stand on their ends,
next to them and between."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from datetime import date, datetime, timedelta
from fractions import Fraction

import duckdb
import pytest

from dpsql.compile.elementary import SHAPES
from dpsql.compile.ir import Facts, Scope
from dpsql.compile.scalars import lower_scalar
from dpsql.errors import NotSupportedError
from dpsql.policy.facts import Kind, SqlType
from tests.properties.test_total_forms import bound, check_facts

ROUNDS = 25
ROWS = 40

NUMBERS = [
    *(f"{shape.name}({{}})" for shape in SHAPES),
    *(f"power({{}}, {n})" for n in (0, 1, 2, 3, 7, -1, -2, -3, 65, 0.5, -0.5, "1.5e0")),
    *(f"log({base}, {{}})" for base in (2, 10, 0.5, 7)),
    *(
        "power(2, {})",
        "power({0}, {0})",
        "atan2({0}, 1)",
        "atan2(1, {0})",
        "round({}, 2)",
        "trunc({}, 2)",
        "trunc({}, -1)",
    ),
    *("log({})", "{} * 3 + 1", "1 / {}", "{} % 7", "abs({})", "floor({})", "greatest({}, 2)"),
]
WHOLE = ["{} & 37", "{} | 5", "xor({}, 9)", "~{}", "{} << 3", "{} >> 3", "gcd({}, 12)", "lcm({}, 12)", "chr({}) = 'a'"]
DATES = [
    *(f"{part}({{}})" for part in "year yearweek isoyear decade century millennium epoch julian epoch_ms".split()),
    *(f"date_sub('{u}', {{}}, DATE '2020-02-29')" for u in ("year", "quarter", "month", "week", "day", "hour")),
    *(f"EXTRACT({part} FROM age(DATE '2020-02-29', {{}}))" for part in ("year", "month", "day")),
    *(f"time_bucket(INTERVAL {width}, {{}})" for width in ("7 DAY", "5 MONTH", "3 YEAR")),
    *("date_trunc('quarter', {})", "last_day({})", "{} + to_months(-7)", "{} - INTERVAL '1 month -3 days'"),
    *(
        "strftime({}, '%Y-%j')",
        "dayname({})",
        "monthname({})",
        "CAST({} AS DATE)",
        "date_diff('week', {}, DATE '1999-01-01')",
    ),
]


@pytest.fixture(scope="module")
def engine() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        yield connection


def check(
    engine: duckdb.DuckDBPyConnection, name: str, facts: Facts, values: list[object], templates: list[str]
) -> None:
    """Every template over a column of these facts that holds these values."""
    scope: Scope = {("t", name): facts}
    scalars = []
    for template in templates:
        try:
            scalars.append((template, lower_scalar(bound(template.format(name)), scope)))
        except NotSupportedError:
            assert template in ("lcm({}, 12)", "power({0}, {0})"), template
    items = ", ".join(scalar.tree.sql(dialect="duckdb") for _, scalar in scalars)
    rows = engine.execute(
        f"SELECT {items} FROM (SELECT unnest($1::{facts.type}[]) AS {name}) AS t", [values]
    ).fetchall()
    for (template, scalar), found in zip(scalars, zip(*rows, strict=True), strict=True):
        check_facts(list(found), scalar.facts, f"{template} over {facts.lo} to {facts.hi}")


def test_doubles(engine: duckdb.DuckDBPyConnection) -> None:
    rng = random.Random(1)
    for _ in range(ROUNDS):
        scale = 10.0 ** rng.randint(-3, 5)
        lo, hi = sorted(rng.choice((0.0, 1.0, -1.0, scale, rng.uniform(-scale, scale))) for _ in range(2))
        facts = Facts(SqlType(Kind.DOUBLE), Fraction(lo), Fraction(hi))
        near = [lo, hi, math.nextafter(lo, hi), math.nextafter(hi, lo), min(max(0.0, lo), hi), min(max(-0.0, lo), hi)]
        values: list[object] = [*near, None, *(rng.uniform(lo, hi) for _ in range(ROWS))]
        check(engine, "i", facts, values, NUMBERS)


def test_integers(engine: duckdb.DuckDBPyConnection) -> None:
    rng = random.Random(2)
    for _ in range(ROUNDS):
        size = 2 ** rng.randint(1, 40)
        lo, hi = sorted(rng.choice((0, 1, -1, rng.randint(-size, size))) for _ in range(2))
        facts = Facts(SqlType(Kind.INTEGER), Fraction(lo), Fraction(hi))
        values: list[object] = [lo, hi, None, *(rng.randint(lo, hi) for _ in range(ROWS))]
        check(engine, "i", facts, values, NUMBERS + WHOLE)


def test_dates_and_timestamps(engine: duckdb.DuckDBPyConnection) -> None:
    rng = random.Random(3)
    for _ in range(ROUNDS):
        first = date(1, 1, 1) + timedelta(days=rng.randint(0, 3_600_000))
        days = rng.choice((0, 1, 40, 1_000, 50_000))
        last = min(first + timedelta(days=days), date(9999, 12, 31))
        facts = Facts(SqlType(Kind.DATE), first, last)
        some = [first + timedelta(days=rng.randint(0, (last - first).days)) for _ in range(ROWS)]
        check(engine, "de", facts, [first, last, None, *some], DATES)
        lo, hi = datetime(first.year, first.month, first.day, 13, 5), datetime(last.year, last.month, last.day, 23, 59)
        moments = [lo + (hi - lo) * rng.random() for _ in range(ROWS)]
        more = ["date_trunc('hour', {})", "time_bucket(INTERVAL 45 MINUTE, {})", "epoch_us({})", "hour({})"]
        check(engine, "te", Facts(SqlType(Kind.TIMESTAMP), lo, hi), [lo, hi, None, *moments], DATES + more)


def test_months_do_not_move_times_of_days_in_order(engine: duckdb.DuckDBPyConnection) -> None:
    """The 29th, 13:00, and the 30th, 2:00, are both on the last of February seven months before, in reverse."""
    values: list[object] = [datetime(2023, 9, 29, 13), datetime(2023, 9, 30, 2)]
    facts = Facts(SqlType(Kind.TIMESTAMP), *values)  # type: ignore[arg-type]
    check(
        engine, "te", facts, values, ["{} - INTERVAL 7 MONTH", "{} + to_months(-7)", "{} - INTERVAL '7 months 1 hour'"]
    )
