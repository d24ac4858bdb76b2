"""Lowering of expressions: what comes out as text, what is known of it, and every way it is refused."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction
from itertools import product

import duckdb
import pytest
import sqlglot
from sqlglot import exp

from dpsql.compile.arithmetic import product_type, sum_type
from dpsql.compile.catalogue import NODES
from dpsql.compile.functions import NAMES
from dpsql.compile.ir import Facts, Scalar, Scope, Value
from dpsql.compile.literals import literal
from dpsql.compile.ranges import Interval, finite, floating, held, remainder, times
from dpsql.compile.scalars import _RULES, lower_scalar, narrow
from dpsql.compile.trees import conjuncts
from dpsql.errors import Error
from dpsql.policy.facts import Kind, SqlType

INTEGER, DOUBLE, VARCHAR = SqlType(Kind.INTEGER), SqlType(Kind.DOUBLE), SqlType(Kind.VARCHAR)
BOOLEAN, DATE, TIMESTAMP = SqlType(Kind.BOOLEAN), SqlType(Kind.DATE), SqlType(Kind.TIMESTAMP)
MONEY = SqlType(Kind.DECIMAL, 15, 2)
GUARDED_D = "CASE WHEN t.d BETWEEN CAST('0001-01-01' AS DATE) AND CAST('9999-12-31' AS DATE) THEN t.d END"
TRUTH = ("false", "true")
REGIONS = ("East", "North", "West")
PAIRS = [f"{region}-{truth}" for region in REGIONS for truth in TRUTH]
SCOPE: Scope = {
    ("t", "i"): Facts(INTEGER),
    ("t", "k"): Facts(INTEGER, Fraction(0), Fraction(10)),
    ("t", "id"): Facts(INTEGER, nullable=False),
    ("t", "x"): Facts(DOUBLE),
    ("t", "y"): Facts(DOUBLE, Fraction(0), Fraction(100), step=Fraction(1, 100)),
    ("t", "price"): Facts(MONEY, Fraction(900), Fraction(104950)),
    ("t", "discount"): Facts(MONEY, Fraction(0), Fraction(1, 10)),
    ("t", "tax"): Facts(MONEY, Fraction(0), Fraction(8, 100)),
    ("t", "wild"): Facts(SqlType(Kind.DECIMAL, 38, 20)),
    ("t", "s"): Facts(VARCHAR),
    ("t", "region"): Facts(VARCHAR, domain=REGIONS),
    ("t", "flag"): Facts(BOOLEAN),
    ("t", "d"): Facts(DATE),
    ("t", "day"): Facts(DATE, date(1995, 1, 1), date(1996, 12, 31)),
    ("t", "at"): Facts(TIMESTAMP),
    ("t", "moment"): Facts(TIMESTAMP, datetime(2020, 6, 30, 12), datetime(2020, 8, 1, 3)),
}


RULES = set(_RULES) | set(NODES)


def bound(text: str) -> exp.Expr:
    tree = sqlglot.parse_one(f"SELECT {text}", dialect="duckdb").expressions[0]
    assert isinstance(tree, exp.Expr)
    for column in list(tree.find_all(exp.Column)):
        column.set("table", exp.to_identifier("t"))
    return tree


def lower(text: str) -> Scalar:
    return lower_scalar(bound(text), SCOPE)


def total(text: str) -> str:
    return lower(text).tree.sql(dialect="duckdb").replace('"', "")


def facts_where(predicate: str, name: str) -> Facts:
    return narrow(SCOPE, bound(predicate))["t", name]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("k + 1", "t.k + CAST(1 AS BIGINT)"),
        ("i + 1", "CAST(t.i AS INT128) + CAST(1 AS INT128)"),
        ("i * i * i", "CAST(CAST(t.i AS INT128) * CAST(t.i AS INT128) AS DOUBLE) * CAST(t.i AS DOUBLE)"),
        ("-i", "-CAST(t.i AS INT128)"),
        ("round(i, -1)", "ROUND(CAST(t.i AS INT128), -1)"),
        ("i // 10", "t.i // CAST(10 AS BIGINT)"),
        ("i // k", "t.i // NULLIF(t.k, CAST(0 AS BIGINT))"),
        ("i // i", "CAST(t.i AS INT128) // NULLIF(CAST(t.i AS INT128), CAST(0 AS BIGINT))"),
        ("k / 4", "CAST(t.k AS DOUBLE) / CAST(4.0e0 AS DOUBLE)"),
        ("price > 5", "t.price > CAST(5.00 AS DECIMAL(15, 2))"),
        ("d <= '1998-12-01'", "t.d <= CAST('1998-12-01' AS DATE)"),
        ("d <= DATE '1998-12-01' - INTERVAL 90 DAY", "t.d <= CAST('1998-09-02' AS DATE)"),
        ("d < TIMESTAMP '1998-12-01 12:00:00'", "t.d <= CAST('1998-12-01' AS DATE)"),
        ("d >= TIMESTAMP '1998-12-01 12:00:00'", "t.d > CAST('1998-12-01' AS DATE)"),
        ("day + INTERVAL 1 MONTH", "t.day + INTERVAL '1' MONTH"),
        ("CAST(x AS INTEGER)", "CAST(TRY_CAST(t.x AS INT) AS BIGINT)"),
        ("CAST(k AS INTEGER)", "t.k"),
        ("CAST(s AS DATE)", "TRY_CAST(t.s AS DATE)"),
        ("s NOT ILIKE 'A%'", "LOWER(t.s) NOT LIKE 'a%'"),
        ("flag OR (flag OR flag AND flag)", "t.flag OR (t.flag OR t.flag AND t.flag)"),
        ("EXTRACT('year' FROM day)", "YEAR(t.day)"),
        ("concat(s, k)", "CONCAT(t.s, CAST(t.k AS TEXT))"),
        ("sqrt(k)", "SQRT(CAST(t.k AS DOUBLE))"),
        ("ln(k)", "LN(CAST(CASE WHEN t.k > CAST(0 AS BIGINT) THEN t.k END AS DOUBLE))"),
        ("k ^ 2", "POWER(CAST(t.k AS DOUBLE), CAST(2.0e0 AS DOUBLE))"),
        ("k << 3", "t.k * CAST(8 AS BIGINT)"),
        ("log10(price)", "LOG(CAST(10.0e0 AS DOUBLE), CAST(t.price AS DOUBLE))"),
        ("s LIKE 'a!%%' ESCAPE '!'", "REGEXP_FULL_MATCH(t.s, 'a\\%.*', 's')"),
        ("s LIKE 'a!b' ESCAPE '!'", "t.s LIKE 'ab'"),
        ("s NOT LIKE '%a_b%c%'", "NOT REGEXP_FULL_MATCH(t.s, '.*a.b.*c.*', 's')"),
        ("s ~ 'a|b'", "REGEXP_MATCHES(t.s, 'a|b')"),
        ("d + INTERVAL (k) DAY", f"{GUARDED_D} + TO_DAYS(t.k)"),
        ("day + to_hours(k)", "t.day + TO_HOURS(t.k)"),
        ("day - 2 * INTERVAL 3 WEEK", "t.day - TO_DAYS(CAST(42 AS BIGINT))"),
        ("day + INTERVAL '1 day 2 hours'", "t.day + INTERVAL '93600' SECOND"),
        ("date_sub('MONTH', day, day)", "DATE_SUB('month', t.day, t.day)"),
        ("strptime(s, '%Y')", "TRY_STRPTIME(t.s, '%Y')"),
        ("chr(k)", "CHR(CAST(CASE WHEN t.k BETWEEN CAST(1 AS BIGINT) AND CAST(55295 AS BIGINT) THEN t.k END AS INT))"),
        ("lpad('7', 3, '0')", "'007'"),
        ("strftime(DATE '2020-02-29', '%a %d.%m.%Y')", "'Sat 29.02.2020'"),
    ],
)
def test_total_form(text: str, expected: str) -> None:
    assert total(text) == expected


def test_revenue_stays_in_64_bits() -> None:
    scalar = lower("price * (1 - discount) * (1 + tax)")
    assert scalar.facts.type == SqlType(Kind.DECIMAL, 18, 6)
    assert (scalar.facts.lo, scalar.facts.hi) == (810, 113346)
    casts = [c.to.sql(dialect="duckdb") for c in scalar.tree.find_all(exp.Cast)]
    assert casts == ["DECIMAL(1, 0)", "DECIMAL(1, 0)"]  # the literals alone: no column is converted


def test_types_of_decimal_operators_are_the_engine_s() -> None:
    shapes = [
        (1, 0),
        (1, 1),
        (3, 2),
        (9, 2),
        (15, 2),
        (18, 0),
        (18, 2),
        (18, 9),
        (18, 18),
        (19, 0),
        (20, 10),
        (38, 2),
        (38, 20),
    ]
    engine = duckdb.connect()
    for a, b in product(shapes, shapes):
        one, two = (f"0::DECIMAL({width}, {scale})" for width, scale in (a, b))
        first, second = SqlType(Kind.DECIMAL, *a), SqlType(Kind.DECIMAL, *b)
        assert engine.execute(f"SELECT typeof({one} + {two})").fetchall() == [(str(sum_type(first, second)),)]
        if a[1] + b[1] <= 38:
            assert engine.execute(f"SELECT typeof(({one}) * ({two}))").fetchall() == [
                (str(product_type(first, second)),)
            ]


@pytest.mark.parametrize(
    ("text", "lo", "hi", "nullable"),
    [
        ("k * k - k", -10, 100, True),
        ("i", None, None, True),
        ("i % 7", -6, 6, True),
        ("abs(i)", 0, None, True),
        ("coalesce(k, -1)", -1, 10, False),
        ("least(greatest(x, 0), 100)", 0, 100, False),
        ("CASE WHEN x > 100 THEN 100 WHEN x < 0 THEN 0 ELSE x END", 0, 100, True),
        ("CASE WHEN i BETWEEN 1 AND 5 THEN i ELSE 0 END", 0, 5, False),
        ("100 / k", 10, 100, True),
        ("100 / y", None, None, True),
        ("y * y", 0, 10000, True),
        ("x * 0", None, None, True),
        ("CAST(x AS BIGINT)", None, None, True),
        ("CASE WHEN i > k THEN 0 ELSE i END", None, None, True),  # k may be NULL, and i anything then
        ("CASE WHEN i > 10 THEN 0 ELSE i END", None, 10, True),
        ("length(s)", 0, None, True),
        ("id IS NULL", None, None, False),
        ("nullif(id, 0)", None, None, True),
        ("TRY_CAST(id AS SMALLINT)", None, None, True),
        ("year(day)", 1995, 1996, True),
        ("date_diff('month', day, DATE '1997-01-01')", 1, 24, True),
        ("day - day", -730, 730, True),
        ("sqrt(k * k)", 0, 10, True),
        ("exp(x)", 0, None, True),
        ("k ^ 0", 1, 1, True),
        ("epoch(day)", 788918400, 851990400, True),
        ("date_sub('year', day, DATE '2000-01-01')", 3, 5, True),
        ("EXTRACT(year FROM age(DATE '2000-01-01', day))", 3, 5, True),
        ("~k", -11, -1, True),
        ("k | 5", 5, 15, True),
        ("-k & 6", 0, 6, True),
        ("gcd(k, 4)", 1, 4, True),
        ("trunc(price)", 900, 104950, True),
        ("trunc(-price, -3)", -104000, 0, True),
        ("strlen(s)", 0, None, True),
        ("chr(k) = 'a'", None, None, True),
    ],
)
def test_ranges(text: str, lo: int | None, hi: int | None, nullable: bool) -> None:
    facts = lower(text).facts
    assert (facts.lo, facts.hi, facts.nullable) == (lo, hi, nullable)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("flag", (False, True)),
        ("k", tuple(range(11))),
        ("k // 5 * 5", (0, 5, 10)),
        ("discount * 10", tuple(Decimal(n).scaleb(-2) for n in range(0, 110, 10))),
        ("CASE WHEN i > 0 THEN 'plus' WHEN i < 0 THEN 'minus' ELSE '0' END", ("0", "minus", "plus")),
        ("upper(region)", ("EAST", "NORTH", "WEST")),
        ("substring(region, 1, 1)", ("E", "N", "W")),
        ("region = 'East'", (False, True)),
        ("region IN ('East', 'West', 'North')", (True,)),
        ("coalesce(region, 'none')", ("East", "North", "West", "none")),
        ("if(flag, 1, 2)", (1, 2)),
        ("year(day)", (1995, 1996)),
        ("quarter(day)", (1, 2, 3, 4)),
        ("month(d)", tuple(range(1, 13))),
        ("date_trunc('year', day)", (datetime(1995, 1, 1), datetime(1996, 1, 1))),
        ("CAST(k AS VARCHAR) = '3'", (False, True)),
        ("strftime(day, '%Y')", ("1995", "1996")),
        ("dayname(d) IN ('Sunday', 'Saturday')", (False, True)),
        ("monthname(moment)", ("August", "July", "June")),
        ("date_trunc('month', moment)", tuple(datetime(2020, month, 1) for month in (6, 7, 8))),
        ("time_bucket(INTERVAL 1 YEAR, day)", (date(1995, 1, 1), date(1996, 1, 1))),
        ("last_day(moment)", (date(2020, 6, 30), date(2020, 7, 31), date(2020, 8, 31))),
        ("yearweek(day) // 100", (1994, 1995, 1996, 1997)),
        ("k & 3", (0, 1, 2, 3)),
        ("k >> 2", (0, 1, 2)),
        ("split_part(region, 'st', 1)", ("Ea", "North", "We")),
        ("lpad(region, 2, ' ')", ("Ea", "No", "We")),
        ("make_date(1999 + k // 10, 2, 29)", (date(2000, 2, 29),)),
        ("date_trunc('quarter', day)", tuple(datetime(y, m, 1) for y in (1995, 1996) for m in (1, 4, 7, 10))),
        ("concat(region, '-', k = 1)", tuple(sorted(f"{r}-{f}" for r in ("", *REGIONS) for f in ("", *TRUTH)))),
        ("concat_ws('-', region, k = 1)", tuple(sorted(["", *REGIONS, *TRUTH, *PAIRS]))),
        ("region || k // 10", tuple(f"{r}{n}" for r in REGIONS for n in (0, 1))),
        ("floor(y / 25)", (0.0, 1.0, 2.0, 3.0, 4.0)),
        ("floor(y / 50) * 50 - 1", (-1.0, 49.0, 99.0)),
        ("floor(y / 25) * 0.1e0", None),
        ("round(y, -2)", (0.0, 100.0)),
        ("round(y, 1)", None),
        ("floor(x)", None),
        ("floor(y * y)", None),
        ("upper(s)", None),
        ("i", None),
        ("y", None),
    ],
)
def test_domains(text: str, expected: tuple[Value, ...] | None) -> None:
    assert finite(lower(text).facts) == expected


@pytest.mark.parametrize(
    ("text", "step"),
    [
        ("y", Fraction(1, 100)),
        ("y + 0.5", Fraction(1, 100)),
        ("y + 0", Fraction(1, 100)),
        ("y * 0.1", Fraction(1, 1000)),
        ("y + k", Fraction(1, 100)),
        ("CASE WHEN flag THEN y ELSE 0 END", Fraction(1, 100)),
        ("-y * y", Fraction(1, 10000)),
        ("y * y * y * y * y", None),
        ("floor(y)", Fraction(1)),
        ("round(y, 1)", Fraction(1, 10)),
        ("y / 3", None),
        ("y + x", None),
        ("k", None),
    ],
)
def test_steps(text: str, step: Fraction | None) -> None:
    assert lower(text).facts.step == step


@pytest.mark.parametrize(
    ("predicate", "name", "lo", "hi"),
    [
        ("i >= 5 AND 9 > i", "i", 5, 8),
        ("i = 3 OR i BETWEEN 7 AND 9", "i", 3, 9),
        ("NOT (i < 5 OR i > 9)", "i", 5, 9),
        ("i < k", "i", None, 9),
        ("i = k", "i", 0, 10),
        ("price < 1000.005", "price", 900, Fraction(1000005, 1000)),
        ("price < 1000", "price", 900, Fraction(99999, 100)),
        ("y < 50", "y", 0, 50),
        ("k > 20", "k", 0, 10),  # impossible: no empty range reaches anyone
        (
            "d >= DATE '1995-02-01' AND d < DATE '1995-02-01' + INTERVAL 1 MONTH",
            "d",
            date(1995, 2, 1),
            date(1995, 2, 28),
        ),
        ("d < TIMESTAMP '1995-02-01 12:00:00'", "d", None, date(1995, 2, 1)),
        ("i > 5 OR flag", "i", None, None),
        ("i <> 5", "i", None, None),
        ("x > 0", "x", 0, None),
        ("i IN (4, 2)", "i", 2, 4),
    ],
)
def test_narrowing(predicate: str, name: str, lo: object, hi: object) -> None:
    facts = facts_where(predicate, name)
    assert (facts.lo, facts.hi) == (lo, hi)
    assert held(facts) == held(SCOPE["t", name])


@pytest.mark.parametrize(
    ("predicate", "name", "domain", "nullable"),
    [
        ("region IN ('East', 'South')", "region", ("East",), False),
        ("region <> 'East'", "region", ("North", "West"), False),
        ("region NOT IN ('East', 'West')", "region", ("North",), False),
        ("region = 'East' OR region IS NULL", "region", ("East", "North", "West"), True),
        ("region IS NOT NULL", "region", ("East", "North", "West"), False),
        ("flag", "flag", (True,), False),
        ("NOT flag", "flag", (False,), False),
        ("flag IS NOT TRUE", "flag", None, True),
        ("s = 'a' OR s = 'b'", "s", ("a", "b"), False),
        ("i + k > 5", "k", None, False),
        ("k NOT BETWEEN i AND 5", "i", None, True),
        ("k NOT BETWEEN i AND 5", "k", None, False),
        ("coalesce(k, 0) > 5", "k", None, True),
        ("id = 1", "k", None, True),
    ],
)
def test_narrowed_domains(predicate: str, name: str, domain: tuple[Value, ...] | None, nullable: bool) -> None:
    facts = facts_where(predicate, name)
    assert (facts.domain, facts.nullable) == (domain, nullable)


@pytest.mark.parametrize(
    ("predicate", "text", "domain", "nullable"),
    [
        ("substring(s, 1, 2) IN ('13', '31')", "substring(s FROM 1 FOR 2)", ("13", "31"), False),
        ("(substring(s, 1, 2)) = '13' OR (substring(s, 1, 2) = '31')", "(substring(s, 1, 2))", ("13", "31"), False),
        ("substring(s, 1, 2) = '13' OR flag", "substring(s, 1, 2)", None, True),
        ("substring(s, 1, 2) = '13'", "substring(s, 1, 3)", None, True),
        ("substring(s, 1, 2) IN ('13', NULL)", "substring(s, 1, 2)", ("13",), False),
        ("substring(s, 1, 2) NOT IN ('13', '31')", "substring(s, 1, 2)", None, False),
        ("length(s) BETWEEN 2 AND 4 AND length(s) <> 3", "length(s)", (2, 4), False),
        ("NOT (i % 10 < 8)", "i % 10", (8, 9), False),
        ("year(d) > 1995 AND 1998 > year(d)", "EXTRACT(year FROM d)", (1996, 1997), False),
        ("year(d) = 1995 + k AND k < 2", "year(d)", (1995, 1996), False),
        ("i + k = 5", "(i + k) * 2", (10,), False),
        ("(i + k) * 2 = 10", "i + k * 2", None, False),
        ("coalesce(s, '?') IN ('?')", "coalesce(s, '?')", ("?",), False),
        ("upper(s) IS NOT DISTINCT FROM 'A'", "upper(s)", ("A",), False),
        ("upper(region) IS DISTINCT FROM 'EAST'", "upper(region)", ("NORTH", "WEST"), True),
        ("upper(region) IS DISTINCT FROM upper(s)", "upper(region)", ("EAST", "NORTH", "WEST"), True),
        ("upper(s) IS NOT NULL", "upper(s)", None, False),
        ("starts_with(s, 'a')", "starts_with(s, 'a')", (True,), False),
        ("NOT starts_with(s, 'a')", "starts_with(s, 'a')", (False,), False),
        ("s LIKE 'a%' OR flag", "s LIKE 'a%'", (False, True), True),
        ("CASE WHEN i > 5 THEN s END IN ('a', 'b')", "CASE WHEN i > 5 THEN s END", ("a", "b"), False),
        ("i = 2 OR i BETWEEN 7 AND 8", "i", (2, 7, 8), False),
        ("s = region AND region <> 'East'", "s", ("North", "West"), False),
        ("i = k AND k = id AND id IN (3, 4)", "i", (3, 4), False),
        ("i IN (2024, 3000000000)", "make_date(i, 2, 29)", (date(2024, 2, 29),), True),
    ],
)
def test_narrowed_expressions(predicate: str, text: str, domain: tuple[Value, ...] | None, nullable: bool) -> None:
    """What is said of an expression holds wherever it stands, and nowhere else."""
    scope = narrow(SCOPE, *conjuncts(bound(predicate)))
    plain, facts = lower(text), lower_scalar(bound(text), scope).facts
    known = finite(facts)
    assert (known, facts.nullable) == (domain, nullable)
    assert held(facts) == held(plain.facts)


def test_an_expression_is_narrowed_in_a_branch() -> None:
    facts = lower("CASE WHEN length(s) > 100 THEN 100 ELSE length(s) END").facts
    assert (facts.lo, facts.hi) == (0, 100)
    assert lower("CASE WHEN i + 1 BETWEEN 0 AND 10 THEN i + 1 END").tree.sql(dialect="duckdb").count("INT128") >= 2


def test_no_predicate_proves_that_nothing_overflows() -> None:
    """DuckDB may compute i + 1 before it filters: only what the snapshot holds counts."""
    scope = narrow(SCOPE, bound("i BETWEEN 0 AND 10"))
    scalar = lower_scalar(bound("i + 1"), scope)
    assert scalar.tree.sql(dialect="duckdb").count("INT128") == 2
    assert (scalar.facts.lo, scalar.facts.hi) == (1, 11)
    branch = lower("CASE WHEN i BETWEEN 0 AND 10 THEN i + 1 END")
    assert branch.tree.sql(dialect="duckdb").count("INT128") >= 2
    assert (branch.facts.lo, branch.facts.hi) == (1, 11)


def test_other_facts_survive_replacement() -> None:
    """A LEFT JOIN makes a narrowed column nullable again; what it holds must not get lost on the way."""
    facts = replace(facts_where("i BETWEEN 0 AND 10", "i"), nullable=True)
    assert held(facts) == Interval(Fraction(-(2**63)), Fraction(2**63 - 1))


@pytest.mark.parametrize(
    ("text", "code", "says"),
    [
        ("uper(s)", "DP230", 'Did you mean "upper"?'),
        ("now()", "DP230", "clock"),
        ("current_date", "DP230", "clock"),
        ("hash(s)", "DP230", "versions"),
        ("levenshtein(s, s)", "DP230", "lengths"),
        ("bit_count(i)", "DP230", "bit_count"),
        ("to_timestamp(i)", "DP230", "seconds"),
        ("age(d, d)", "DP230", "INTERVAL"),
        ("s GLOB 'a*'", "DP230", "glob"),
        ("random()", "DP230", "random"),
        *((f"CAST(k AS {t})", "DP231", "cast") for t in ("DECIMAL(39)", "DECIMAL(2, 3)", "DECIMAL(0)", "FLOAT(5)")),
        ("repeat(s, 100)", "DP231", "64"),
        ("repeat(s, k)", "DP231", "literal"),
        ("repeat(repeat(s, 9), 9)", "DP233", "64"),
        ("repeat(repeat(repeat(repeat('ab', 60), 60), 60), 60)", "DP233", "64"),
        ("lpad(s, 1001, ' ')", "DP231", "1000"),
        ("lpad(s, k, ' ')", "DP231", "literal"),
        ("rpad(s, 5, '')", "DP231", "nothing"),
        ("rpad(s, 5, s)", "DP231", "literal"),
        ("concat_ws(s, s)", "DP231", "literal"),
        ("split_part(s, region, 1)", "DP231", "literal"),
        ("split_part(s, '', 1)", "DP231", "empty"),
        ("split_part(s, ',', k)", "DP231", "literal"),
        ("translate(s, region, 'x')", "DP231", "literal"),
        ("regexp_matches(s, region)", "DP231", "literal"),
        ("regexp_matches(s, '(')", "DP231", "parenthesis"),
        ("regexp_matches(s, 'a', 'x')", "DP231", "letters"),
        ("regexp_matches(s, 'a', region)", "DP231", "literal"),
        ("s SIMILAR TO '(?=a)'", "DP231", "(?"),
        ("regexp_extract(s, 'a', 1)", "DP231", "groups"),
        ("regexp_extract(s, 'a', k)", "DP231", "literal"),
        ("regexp_replace(s, 'a', '\\1')", "DP231", "group"),
        ("regexp_replace(s, 'a', '" + "b" * 70 + "', 'g')", "DP233", "64"),
        ("strftime(d, '%c')", "DP231", "%c"),
        ("strftime(d, '%')", "DP231", "%"),
        ("strftime(d, s)", "DP231", "literal"),
        ("strptime(s, '%Z')", "DP231", "%Z"),
        ("date_sub(s, d, d)", "DP231", "literal"),
        ("date_sub('era', d, d)", "DP231", "era"),
        ("time_bucket(INTERVAL 0 DAY, d)", "DP231", "above 0"),
        ("time_bucket(INTERVAL 1 HOUR, d)", "DP231", "below a day"),
        ("time_bucket(to_days(k), d)", "DP231", "literal"),
        ("EXTRACT(hour FROM age(d, d))", "DP231", "age"),
        ("d + to_days(x)", "DP232", "whole number"),
        ("make_date(s, 1, 1)", "DP232", "year"),
        ("log(k, x)", "DP231", "base"),
        ("log(1, x)", "DP231", "base"),
        ("k << k", "DP231", "literal"),
        ("k << 63", "DP231", "62"),
        ("x & 1", "DP232", "integer"),
        ("lcm(i, i)", "DP231", "bounds"),
        ("sqrt(s)", "DP232", "text"),
        ("trunc(x, k)", "DP231", "places"),
        ("chr(x)", "DP232", "integer"),
        ("reverse(i)", "DP232", "text"),
        ("epoch_us(i)", "DP232", "date"),
        ("s[1:2]", "DP230", "subscript"),
        ("s COLLATE NOCASE", "DP230", "collate"),
        ("i BETWEEN SYMMETRIC 1 AND 2", "DP230", "SYMMETRIC"),
        ("s LIKE 'a!' ESCAPE '!'", "DP231", "escape"),
        ("s LIKE 'a' ESCAPE 'ab'", "DP231", "one character"),
        ("s SIMILAR TO 'a' ESCAPE 'b'", "DP230", "ESCAPE"),
        ("sum(i)", "DP203", "sum"),
        ("row_number() OVER ()", "DP222", "window"),
        ("i IN (SELECT 1)", "DP220", "subquery"),
        ("EXISTS (SELECT 1)", "DP220", "subquery"),
        ("nobody", "DP111", "nobody"),
        ("round(x, k)", "DP231", "places"),
        ("left(s, i)", "DP231", "bounds"),
        ("contains(s, region)", "DP231", "literal"),
        ("s LIKE region", "DP231", "literal"),
        ("s LIKE '%a_b%" + "c" * 500 + "%'", "DP231", "long"),
        ("trim(s, region)", "DP231", "literal"),
        ("replace(s, region, 'x')", "DP231", "literal"),
        ("date_part('eon', d)", "DP231", "eon"),
        ("date_trunc('decade', d)", "DP231", "decade"),
        ("left(s, least(i, 5))", "DP231", "bounds"),
        ("d + INTERVAL 1.5 DAY", "DP231", "INTERVAL"),
        ("d + INTERVAL (x) DAY", "DP232", "whole number"),
        ("to_days(k)", "DP231", "INTERVAL"),
        ("d + INTERVAL 200000 YEAR", "DP231", "INTERVAL"),
        ("INTERVAL 1 DAY", "DP231", "INTERVAL"),
        ("CAST(s AS TIME)", "DP231", "TIME"),
        ("CAST(s AS TIMESTAMPTZ)", "DP231", "TIMESTAMPTZ"),
        ("prefix(s)", "DP231", "prefix takes 2 arguments"),
        ("isfinite(x, y)", "DP231", "isfinite takes 1 argument"),
        ("s = 5", "DP232", "text"),
        ("s + 1", "DP232", "text"),
        ("flag + 1", "DP232", "boolean"),
        ("d > 5", "DP232", "date"),
        ("d = 'yesterday'", "DP232", "does not spell"),
        ("CAST('2020-02-30' AS DATE)", "DP232", "does not spell"),
        ("at - d", "DP232", "date_diff"),
        ("d + 1.5", "DP232", "whole days"),
        ("CASE WHEN flag THEN 1 ELSE 'x' END", "DP232", "text"),
        ("coalesce(s, 0)", "DP232", "text"),
        ("greatest(s, 0)", "DP232", "text"),
        ("i IN (1, 'a')", "DP232", "text"),
        ("s AND flag", "DP232", "condition"),
        ("upper(i)", "DP232", "text"),
        ("length(i)", "DP232", "text"),
        ("year(s)", "DP232", "date"),
        ("isnan(s)", "DP232", "number"),
        ("CAST(d AS BIGINT)", "DP232", "cast"),
        ("CAST(i AS DATE)", "DP232", "cast"),
        ("x / (" * 9 + "x" + ")" * 9, "DP233", "division"),
        ("nullif(" * 9 + "x" + ", 0)" * 9, "DP233", "NULLIF"),
        ("CASE " * 3 + "i" + (" " + "WHEN 1 THEN 2 " * 20 + "END") * 3, "DP233", "CASE"),
        ("d" + " + i" * 9, "DP233", "bounds"),
        ("replace(s, 'a', '" + "b" * 65 + "')", "DP233", "64"),
        ("replace(replace(s, 'a', '0123456789'), '0', '0123456789')", "DP233", "64"),
        ("concat(" + ", ".join(["s"] * 65) + ")", "DP233", "64"),
        (" || ".join(["s"] * 65), "DP233", "64"),
    ],
)
def test_refusals(text: str, code: str, says: str) -> None:
    with pytest.raises(Error) as caught:
        lower(text)
    assert caught.value.code == code
    assert says.lower() in str(caught.value).lower()
    assert caught.value.code == "DP230" or "INTERVAL" in text or caught.value.span is not None


def test_a_node_without_a_rule_is_refused() -> None:
    """Closed over every class that sqlglot has: what nobody has looked at is refused by what it is."""
    classes = {c for c in vars(exp).values() if isinstance(c, type) and issubclass(c, exp.Expression)} - RULES
    assert len(classes) > 500
    for node in classes:
        with pytest.raises(Error) as caught:
            lower_scalar(node(), SCOPE)
        assert caught.value.code in ("DP203", "DP220", "DP222", "DP230")


@pytest.mark.parametrize("option", [exp.Greatest(this=bound("i"), expressions=[bound("k")], ignore_nulls=False)])
def test_an_unknown_option_is_refused(option: exp.Expr) -> None:
    """sqlglot keeps options in further arguments of a node: each is read by a rule, or refused."""
    option.set("zone", exp.Literal.string("Europe/Berlin"))
    with pytest.raises(Error, match="DP231"):
        lower_scalar(option, SCOPE)


@pytest.mark.parametrize(
    ("value", "type_", "text"),
    [
        (-5, INTEGER, "CAST(-5 AS BIGINT)"),
        (2**64, INTEGER, "CAST(18446744073709551616 AS INT128)"),
        (Decimal("0.5"), MONEY, "CAST(0.50 AS DECIMAL(15, 2))"),
        (Decimal("1e-38"), SqlType(Kind.DECIMAL, 38, 38), "CAST('0." + "0" * 37 + "1' AS DECIMAL(38, 38))"),
        (0.1, DOUBLE, "CAST(0.1e0 AS DOUBLE)"),
        (1e300, DOUBLE, "CAST(1e+300 AS DOUBLE)"),
        ("it's", VARCHAR, "'it''s'"),
        (True, BOOLEAN, "TRUE"),
        (date(5, 1, 2), DATE, "CAST('0005-01-02' AS DATE)"),
        (datetime(2020, 1, 2, 3, 4, 5, 6), TIMESTAMP, "CAST('2020-01-02 03:04:05.000006' AS TIMESTAMP)"),
    ],
)
def test_literals_read_back(value: Value, type_: SqlType, text: str) -> None:
    tree = literal(value, type_)
    assert tree.sql(dialect="duckdb") == text
    assert bound(text) == tree
    assert duckdb.execute(f"SELECT {text}").fetchall() == [(value,)]
    scalar = lower_scalar(tree, SCOPE)
    assert scalar.facts.domain == (value,)


def test_names_are_for_completion() -> None:
    assert {"upper", "date_trunc", "greatest", "coalesce", "isfinite", "cast"} <= set(NAMES)


def test_a_double_is_enclosed() -> None:
    """Bounds of a DOUBLE are doubles, on the outer side of what is computed exactly."""
    third = floating(Interval(Fraction(1, 3), Fraction(1, 3)))
    assert third.lo < Fraction(1, 3) < third.hi  # type: ignore[operator]
    assert all(Fraction(float(end)) == end for end in (third.lo, third.hi))  # type: ignore[arg-type]
    assert floating(Interval(Fraction(0), Fraction(100))) == Interval(Fraction(0), Fraction(100))
    assert floating(Interval(Fraction(0), Fraction(10) ** 400)) == Interval()
    assert floating(Interval(Fraction(0), Fraction(1)), Interval(None, Fraction(1))) == Interval()


def test_comparisons_through_a_double_are_read_loosely() -> None:
    """2^53 + 1 is 2^53 as a DOUBLE, so `i <= 2^53` holds for it."""
    hi = facts_where("i <= 9007199254740992.0e0", "i").hi
    assert isinstance(hi, Fraction)
    assert hi >= 2**53 + 1


def test_a_bound_of_a_double_at_the_end_of_an_integer_proves_nothing() -> None:
    """2^63 - 1 is no DOUBLE: a column that is clamped to it holds 2^63."""
    for most, maybe_null in ((2**63 - 1, True), (2**60, False)):
        scope = {("t", "x"): Facts(DOUBLE, Fraction(0), Fraction(most), nullable=False)}
        scalar = lower_scalar(bound("CAST(x AS BIGINT)"), scope)
        assert scalar.facts.nullable is maybe_null
        assert scalar.tree.sql(dialect="duckdb").startswith("TRY_CAST")  # a proof about roundings is not relied on


def test_a_quotient_is_that_of_what_the_operands_are_as_doubles() -> None:
    """21 / 0.7 is 30.000000000000004 there: the cosine of no angle is 1.0000000000000002, and of NaN there is no
    integer."""
    assert 21 / 0.7 > 30
    most = held(lower("21 / greatest(discount, 0.7)").facts).hi
    assert isinstance(most, Fraction)
    assert 21 / 0.7 <= most < 30 + Fraction(1, 2**40)


def test_interval_arithmetic() -> None:
    half_open = Interval(Fraction(2), None)
    assert times(half_open, Interval(Fraction(0), Fraction(1))) == Interval(Fraction(0), None)
    assert times(half_open, Interval(Fraction(-1), Fraction(1))) == Interval()
    assert remainder(Interval(Fraction(-3), None), Interval(Fraction(5), Fraction(7)), Fraction(1)) == Interval(
        Fraction(-3), Fraction(6)
    )
