"""Values lie in the inferred ranges, for random bounds: rows clamped as SQL clamps them, functions on the real engine.

`test_total_forms` has few bounds and many expressions; here the bounds are random, and the rows stand on their ends,
next to them and between."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import replace
from datetime import date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction

import duckdb
import pytest

from dpsql.compile.elementary import SHAPES
from dpsql.compile.grid import above_lo, grid_of, to_grid, to_integer
from dpsql.compile.ir import Facts, Scalar, Scope
from dpsql.compile.literals import decimal_of
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
DECIMALS = [
    *("-{0}", "abs({0})", "round({0}, 2)", "round({0}, -3)", "trunc({0}, 1)", "floor({0})", "ceil({0})", "sign({0})"),
    *("{0} * 3", "{0} * 0.5", "1 - {0}", "{0} * {0} * {0}", "{0} / 3", "21 / {0}", "{0} % 7", "{0} % 0.3"),
    *("{0} * {1}", "{0} + {1}", "({0} + {1}) * ({0} - {1})", "{0} % {1}", "{0} / {1}", "{0} * (1 - {1})"),
    *("greatest({0}, {1})", "least({0}, 1) * {1}", "coalesce({0}, {1})", "CASE WHEN {0} > {1} THEN {0} ELSE {1} END"),
    *("acos({0} / {1})", "CAST(acos(21 / greatest({0}, 0.7) / 30) AS BIGINT)", "CAST({0} / {1} AS DECIMAL(18, 3))"),
    *(f"CAST({{0}} AS {t})" for t in ("BIGINT", "DECIMAL(9, 2)", "DECIMAL(18, 3)", "DECIMAL(38, 5)", "DOUBLE")),
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


def decimals(rng: random.Random) -> tuple[Facts, list[Decimal | None]]:
    """A DECIMAL of any width and scale, with bounds or without, and values on its ends and between."""
    type_ = SqlType(Kind.DECIMAL, width := rng.randint(1, 38), scale := rng.randint(0, width))
    most = 10**width - 1
    lo, hi = sorted(rng.choice((0, 1, -1, most, -most, rng.randint(-most, most))) for _ in range(2))
    units = [lo, hi, (lo + hi) // 2, *(rng.randint(lo, hi) for _ in range(4))]
    ends = (Fraction(lo, 10**scale), Fraction(hi, 10**scale)) if rng.random() < 0.7 else (None, None)
    units += [most, -most] if ends[0] is None else []
    return Facts(type_, *ends), [None, *(decimal_of(Fraction(n, 10**scale), scale) for n in units)]


def test_decimals(engine: duckdb.DuckDBPyConnection) -> None:
    """Nothing raises for the widest of them, and nothing leaves its range; nor where they are put on a grid."""
    rng = random.Random(4)
    for _ in range(2 * ROUNDS):
        (one, left), (other, right) = decimals(rng), decimals(rng)
        scope = {("t", "d"): one, ("t", "p"): other}
        engine.execute(
            f"CREATE OR REPLACE TEMP TABLE t AS SELECT * FROM (SELECT unnest($1::{one.type}[])) AS a (d),"
            f" (SELECT unnest($2::{other.type}[])) AS b (p)",
            [left, right],
        )
        for template in rng.sample(DECIMALS, 12):
            text = template.format("d", "p")
            try:
                scalar = lower_scalar(bound(text), scope)
            except NotSupportedError:
                continue
            values = engine.execute(f"SELECT {scalar.tree.sql(dialect='duckdb')} FROM t").fetchall()
            told = f"{text} over {one} and {other}"
            check_facts([v for (v,) in values], scalar.facts, told)
            check_grid(engine, scalar, told)


def check_grid(engine: duckdb.DuckDBPyConnection, scalar: Scalar, told: str) -> None:
    """Its values as whole numbers of a grid, and how far they are above its lower end."""
    facts = scalar.facts
    if not facts.is_bounded:
        facts = replace(facts, lo=Fraction(-(2**53)), hi=Fraction(2**53))
    grid = grid_of(facts)
    k = to_grid(replace(scalar, facts=facts), grid)
    items = ", ".join(tree.sql(dialect="duckdb") for tree in (to_integer(k, grid), above_lo(k, grid)))
    for whole, above in engine.execute(f"SELECT {items} FROM t").fetchall():
        assert whole is None or grid.lo <= whole <= grid.hi, f"{told}: {whole} is outside of {grid}"
        assert above is None or above == whole - grid.lo, told


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
