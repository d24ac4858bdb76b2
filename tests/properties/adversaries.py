"""Rows that break things, and the functions to give them to: what `test_total_forms` runs.

The values: NaN, infinities, the ends of every type, NULL, empty and long text, dates beyond the calendar. The
functions: what an analyst may write, as templates whose holes name a pool of arguments.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from datetime import date, datetime
from fractions import Fraction
from itertools import product

from dpsql.compile.ir import Facts, Scope
from dpsql.policy.facts import Kind, SqlType

Column = tuple[SqlType, object, object, list[str]]
"""Type, lower and upper bound, and values, as text that DuckDB casts to the type."""

_MOST, _TINY, _NINES = 2**63 - 1, "5e-324", "9" * 28 + ".9999999999"
INFINITE = ("infinity", "-infinity", "nan", "inf", "-inf")


def _column(kind: Kind, values: str, lo: object = None, hi: object = None, digits: tuple[int, int] = (0, 0)) -> Column:
    lo, hi = (Fraction(end) if isinstance(end, int) else end for end in (lo, hi))
    return SqlType(kind, *digits), lo, hi, values.split("|")


COLUMNS: dict[str, Column] = {
    "i": _column(Kind.INTEGER, f"0|1|-1|2|7|{_MOST}|{-_MOST - 1}|{2**31}|-86400"),
    "j": _column(Kind.INTEGER, "-3|-2|-1|0|1|5|7", -3, 7),
    "k": _column(Kind.INTEGER, "0|1|10|999999999|1000000000", 0, 10**9),
    "p": _column(Kind.DECIMAL, "0|0.01|1.50|104950.00|99.99|901.05", 0, 104950, (15, 2)),
    "d": _column(Kind.DECIMAL, "0|0.01|0.05|0.10", 0, Fraction(1, 10), (15, 2)),
    "v": _column(Kind.DECIMAL, f"0|0.001|-0.001|0.5|-2.5|{'9' * 15}.999|-{'9' * 15}.999", digits=(18, 3)),
    "w": _column(Kind.DECIMAL, f"0|1e-10|-0.5|{_NINES}|-{_NINES}", digits=(38, 10)),
    "x": _column(Kind.DOUBLE, f"nan|inf|-inf|1e308|-1e308|{_TINY}|-0.0|0|0.1|2.5|1e18"),
    "y": _column(Kind.DOUBLE, f"-1.5|0|-0.0|0.1|33.333333333333336|99.5|100|{_TINY}", Fraction(-3, 2), 100),
    "b": _column(Kind.BOOLEAN, "true|false"),
    "s": _column(
        Kind.VARCHAR,
        "| |a|A b|12|-1e400|nan|inf|2020-02-30|2020-01-31|infinity|ÄßİẞK|👨‍👩‍👧é|true|a\nb|a\r\n|31/12/99 23:59:59.5|"
        + "ab%_'\"\\" * 400,
    ),
    "c": _column(Kind.VARCHAR, "|x|Yes no|ab%_"),
    "dt": _column(
        Kind.DATE,
        "infinity|-infinity|5881580-07-10|5877642-06-25 (BC)|0001-01-01|9999-12-31|2020-02-29|1969-12-31|10000-01-01",
    ),
    "de": _column(Kind.DATE, "1992-01-01|1996-02-29|1995-12-31|1998-12-31", date(1992, 1, 1), date(1998, 12, 31)),
    "ts": _column(
        Kind.TIMESTAMP,
        "infinity|-infinity|290309-12-22 (BC) 00:00:00|294247-01-10 04:00:54.775806|1970-01-01 00:00:00.000001"
        "|2020-02-29 23:59:59.9",
    ),
    "te": _column(
        Kind.TIMESTAMP,
        "2019-12-30 00:00:00|2020-02-29 23:59:59.999999|2020-01-31 12:30:45|2020-03-01 00:00:00",
        datetime(2019, 12, 30),
        datetime(2020, 3, 1),
    ),
}
_DOMAINS = {"c": ("", "Yes no", "ab%_", "x")}


def scope() -> Scope:
    """The facts of the columns, all nullable. Facts of DATE and text columns are as a policy makes them."""
    return {
        ("t", name): Facts(type_, lo, hi, _DOMAINS.get(name), nullable=True)  # type: ignore[arg-type]
        for name, (type_, lo, hi, _) in COLUMNS.items()
    }


def table(rows: int) -> str:
    """A CREATE TABLE statement for so many random rows, numbered by `rid`."""
    rng = random.Random(7)
    lines = []
    for number in range(rows):
        cells = [str(number)]
        for type_, _, _, values in COLUMNS.values():
            value = rng.choice(values).replace("'", "''")
            cells.append("NULL" if rng.random() < 0.08 else f"'{value}'::{type_}")
        lines.append(f"({', '.join(cells)})")
    return f"CREATE TABLE t AS SELECT * FROM (VALUES {', '.join(lines)}) v(rid, {', '.join(COLUMNS)})"


_NUMBERS = "i j k p d v w x y NULL 0 1 -1 2.5 0.05 1e10 100000 9223372036854775807".split()
_UNITS = "year quarter month week day hour minute second".split()
_REGEXES = [
    *("''", "'a'", "'^a'", "'a$'", "'^$'", "'.*'", "'a|b'", "'(a)(b)?'", "'[a-c]+'", "'[^a-z]'", "'(?i)AB'", "'\\d+'"),
    *("'\\bA'", "'a.b'", "'(?:ab){2,3}'", "'[[:alpha:]]'", "'\\W'", "'x{0}'", "'(a|)*'", "'é|👨'", "'b*?'", "'^.a'"),
]
POOLS: dict[str, list[str]] = {
    "num": _NUMBERS,
    "int": ["i", "j", "k", "7", "-2", "NULL"],
    "bool": ["b", "j > 2", "x > 0", "s = 'a'", "NULL", "TRUE"],
    "txt": ["s", "c", "'Ab c'", "NULL"],
    "date": ["dt", "de", "DATE '2000-02-29'"],
    "dts": ["dt", "de", "ts", "te", "TIMESTAMP '2000-02-29 12:00:00'"],
    "any": [*_NUMBERS, "b", "s", "dt", "ts", "te"],
    "off": ["0", "1", "-1", "3", "-2", "j", "k", "99999"],
    "bit": ["'a'", "''", "' '", "'%'", "'é'", "'ab'"],
    "pat": ["''", "'%'", "'a%'", "'%b'", "'%a%b%'", "'_'", "'_%'", "'%_b'", "'A%'", "'%é'", "'ß%'", "'%\"%'"],
    "unit": _UNITS,
    "part": [*_UNITS, *"dow isodow doy isoyear yearweek decade century millennium era millisecond microsecond".split()],
    "step": ["3", "-40", "20000"],
    "width": ["7 DAY", "1 MONTH", "2 WEEK", "1 QUARTER", "5 YEAR"],
    "narrow": ["1 HOUR", "45 MINUTE", "36 HOUR", "10 SECOND"],
    "regex": _REGEXES,
    "tame": ["s", "c", "'Ab c'", "'%_!'", "upper(c)"],
    "form": [
        "'%Y-%m-%d'",
        "'%d/%m/%y %H:%M:%S.%f'",
        "'%a %A %b %B %j %-d %-m'",
        "'%Y'",
        "'%I %p'",
        "'%G-%V %u%%'",
    ],
    "kind": "BOOLEAN INTEGER BIGINT SMALLINT TINYINT UTINYINT USMALLINT UINTEGER UBIGINT HUGEINT".split()
    + "DOUBLE FLOAT REAL VARCHAR DATE TIMESTAMP".split()
    + ["DECIMAL(9)", "DECIMAL(5,2)", "DECIMAL(18,3)", "DECIMAL(38,10)"],
}

Template = tuple[str, str | None]
"""What the analyst writes, and a reference for the engine where that is not the same text."""


def _same(*texts: str) -> list[Template]:
    return [(text, None) for text in texts]


# Dates outside the years 1 to 9999 are NULL to a calculation, and so is a divisor 0.
_YEARS = "CASE WHEN {0} BETWEEN DATE '0001-01-01' AND TIMESTAMP '9999-12-31 23:59:59.999999' THEN {0} END"
_YEARS_1 = _YEARS.replace("{0}", "{1}")
_PARTS = "year month day quarter week weekofyear dayofweek weekday isodow dayofyear dayofmonth hour minute second"
_PARTS += " isoyear yearweek decade century millennium era millisecond microsecond julian epoch"

# Outside its domain a function is NULL.
_DOMAINS_OF = {"sqrt": ">= 0", "ln": "> 0", "acosh": ">= 1", "asin": "BETWEEN -1 AND 1", "acos": "BETWEEN -1 AND 1"}
_DOMAINS_OF |= {"atanh": "> -1 AND {0} < 1", "log10": "> 0", "log2": "> 0"}


def _outside(function: str, test: str) -> list[Template]:
    return [(f"{function}({{0:num}})", f"{function}(CASE WHEN {{0}} {test} THEN {{0}} END)")]


def _limited(unit: str) -> str:
    """A number of units that goes no further than 100,000 years."""
    most = {"year": 1, "quarter": 4, "month": 12}.get(unit, 0) * 100_000
    most = (
        most
        or 86_400 * 365 * 100_000 // {"week": 604_800, "day": 86_400, "hour": 3_600, "minute": 60, "second": 1}[unit]
    )
    return f"CASE WHEN {{1}} BETWEEN -{most} AND {most} THEN {{1}} END"


FUNCTIONS: dict[str, list[Template]] = {
    "+": _same("{0:num} + {1:num}"),
    "-": _same("{0:num} - {1:num}", "-{0:num}"),
    "*": _same("{0:num} * {1:num}", "{0:num} * (1 - {1:num}) * (1 + {2:num})"),
    "/": [("{0:num} / {1:num}", "{0} / NULLIF({1}, 0)")],
    "//": [("{0:num} // {1:num}", "{0} // NULLIF({1}, 0)")],
    "%": [("{0:num} % {1:num}", "{0} % NULLIF({1}, 0)")],
    "abs": _same("abs({0:num})"),
    "trunc": _same("trunc({0:num})", *(f"trunc({{0:num}}, {n})" for n in (0, 1, 2, -1, -2, -18, -19, -38, 20))),
    **{f: _outside(f, test) for f, test in _DOMAINS_OF.items()},
    **{
        f: _same(f"{f}({{0:num}})")
        for f in "cbrt exp degrees radians sin cos tan cot atan sinh cosh tanh asinh".split()
    },
    "log": [
        *_outside("log", "> 0"),
        *(
            (f"log({base}, {{0:num}})", f"log({base}, CASE WHEN {{0}} > 0 THEN {{0}} END)")
            for base in (2, 10, 0.5, "3e0")
        ),
    ],
    "power": [
        *_same(*(f"power({{0:num}}, {n})" for n in (0, 1, 2, 3, 64, 65)), "{0:num} ^ {1:num}", "{0:num} ** j"),
        *((f"pow({{0:num}}, {n})", f"pow(NULLIF({{0}}, 0), {n})") for n in (-1, -2, -3)),
        *((f"{{0:num}} ^ {n}", f"pow(CASE WHEN {{0}} >= 0 THEN {{0}} END, {n})") for n in (0.5, "1.5e0")),
        ("{0:num} ^ (-0.5)", "pow(CASE WHEN {0} > 0 THEN {0} END, -0.5)"),
    ],
    "atan2": _same("atan2({0:num}, {1:num})"),
    "pi": _same("pi() * {0:num}"),
    "bits": _same("{0:int} & {1:int}", "{0:int} | {1:int}", "xor({0:int}, {1:int})", "~({0:int})"),
    "shift": [
        *((f"{{0:int}} << {n}", f"CAST({{0}} AS HUGEINT) * {2**n}::HUGEINT") for n in (0, 1, 7, 62)),
        *_same(*(f"{{0:int}} >> {n}" for n in (0, 1, 7, 30))),
    ],
    "gcd": _same("gcd({0:int}, {1:int})"),
    "lcm": _same("lcm({0:int}, j)", "lcm(k, {0:int})"),
    "sign": _same("sign({0:num})"),
    "floor": _same("floor({0:num})"),
    "ceil": _same("ceil({0:num})"),
    "round": _same("round({0:num})", *(f"round({{0:num}}, {n})" for n in (0, 1, 2, -1, -2, -18, -19, -38, 20))),
    "comparison": _same(
        *(f"{{0:{pool}}} {sign} {{1:{pool}}}" for sign in ("=", "<>", "<", "<=", ">", ">=") for pool in ("num", "dts")),
        "{0:txt} < {1:txt}",
        "de = '1996-02-29'",
        "b = {0:int}",
    ),
    "distinct": _same("{0:num} IS DISTINCT FROM {1:num}", "{0:txt} IS NOT DISTINCT FROM {1:txt}"),
    "is": _same("{0:any} IS NULL", "{0:any} IS NOT NULL", "{0:bool} IS TRUE", "{0:bool} IS NOT FALSE"),
    "between": _same("{0:num} BETWEEN {1:num} AND {2:num}", "{0:dts} NOT BETWEEN {1:dts} AND {2:dts}"),
    "in": _same("{0:num} IN (1, 2.5, NULL, -1)", "{0:num} NOT IN (0, 7)", "{0:txt} IN ('', 'a', {1:txt})"),
    "connectors": _same("{0:bool} AND ({1:bool} OR NOT {2:bool})", "NOT {0:num} OR {1:bool}"),
    "like": _same(
        "{0:txt} LIKE {1:pat}",
        "{0:txt} NOT LIKE {1:pat}",
        *(
            f"{{0:tame}} {n}LIKE '{pattern}' ESCAPE '!'"
            for n in ("", "NOT ")
            for pattern in ("%!%%", "!_!!", "a!b", "%_!%")
        ),
        "c LIKE 'a%b_%!__' ESCAPE ''",
    ),
    "ilike": _same(
        "{0:txt} ILIKE {1:pat}",
        "{0:txt} NOT ILIKE {1:pat}",
        *(f"{{0:tame}} ILIKE '{pattern}' ESCAPE '!'" for pattern in ("A%!%%", "Y!es%", "%B!%!_")),
    ),
    "similar to": _same("{0:txt} SIMILAR TO {1:regex}", "{0:txt} NOT SIMILAR TO {1:regex}"),
    "regexp_matches": _same(
        "regexp_matches({0:txt}, {1:regex})",
        *(f"regexp_matches({{0:txt}}, {{1:regex}}, '{options}')" for options in ("i", "s", "c", "is", "")),
        "{0:txt} ~ {1:regex}",
        "{0:txt} !~ {1:regex}",
    ),
    "regexp_full_match": _same("regexp_full_match({0:txt}, {1:regex})", "regexp_full_match({0:txt}, {1:regex}, 'i')"),
    "regexp_extract": _same(
        "regexp_extract({0:txt}, {1:regex})",
        "regexp_extract({0:txt}, '(a)(b)?', 2)",
        "regexp_extract({0:txt}, {1:regex}, 0, 'i')",
    ),
    "regexp_replace": _same(
        "regexp_replace({0:txt}, {1:regex}, 'xy')",
        "regexp_replace({0:txt}, {1:regex}, '', 'g')",
        "regexp_replace({0:txt}, '(a)(b)?', '\\2-\\1\\0\\\\', 'gi')",
    ),
    "case": _same(
        "CASE WHEN {0:bool} THEN {1:num} ELSE {2:num} END",
        "CASE {0:num} WHEN {1:num} THEN 'a' WHEN 7 THEN 'b' END",
        "CASE WHEN {0:num} > 50 THEN 50 WHEN {0:num} < 0 THEN 0 ELSE {0:num} END",
        "if({0:bool}, {1:dts}, {2:dts})",
    ),
    "coalesce": _same("coalesce({0:num}, {1:num}, {2:num})", "coalesce({0:txt}, 'no')", "coalesce({0:dts}, {1:dts})"),
    "nullif": _same("nullif({0:num}, {1:num})", "nullif({0:txt}, {1:txt})"),
    "greatest": _same(*(f"greatest({{0:{pool}}}, {{1:{pool}}}, {{2:{pool}}})" for pool in ("num", "dts", "txt"))),
    "least": _same("least(greatest({0:num}, 0), 100)", "least({0:num}, {1:num}, {2:num})"),
    "cast": _same("CAST({0:any} AS {1:kind})"),
    "try_cast": _same("TRY_CAST({0:any} AS {1:kind})"),
    "extract": _same("EXTRACT({1:part} FROM {0:dts})"),
    "parts": _same(*(f"{name}({{0:dts}})" for name in _PARTS.split())),
    "date_part": _same("date_part('{1:part}', {0:dts})", "datepart('{1:part}', {0:dts})"),
    "epoch": _same("epoch({0:dts})", "EXTRACT(epoch FROM {0:dts})", "julian({0:dts})", "date_part('julian', {0:dts})"),
    "epoch_ms": [
        ("epoch_ms({0:dts})", f"epoch_ms({_YEARS})"),
        ("epoch_us({0:dts})", f"epoch_us({_YEARS})"),
        ("epoch_ms({0:int})", "epoch_ms(CASE WHEN {0} BETWEEN -62135596800000 AND 253402300799999 THEN {0} END)"),
    ],
    "names": _same("dayname({0:dts})", "monthname({0:dts})"),
    "last_day": [("last_day({0:dts})", f"last_day({_YEARS})")],
    "strftime": [
        (f"strftime({one})", f"strftime({_YEARS}, {{1}})") for one in ("{0:dts}, {1:form}", "{1:form}, {0:dts}")
    ],
    "strptime": [(f"{f}({{0:txt}}, {{1:form}})", "try_strptime({0}, {1})") for f in ("strptime", "try_strptime")],
    "age": [
        (text.replace("?", "age({0:dts}, {1:dts})"), text.replace("?", f"age({_YEARS}, {_YEARS_1})"))
        for text in ("EXTRACT(year FROM ?)", "date_part('month', ?)", "year(?)", "EXTRACT(day FROM ?)")
    ],
    "date_sub": [
        (f"{f}('{{2:unit}}', {{0:dts}}, {{1:dts}})", f"date_sub('{{2}}', {_YEARS}, {_YEARS_1})")
        for f in ("date_sub", "datesub")
    ],
    "make_date": [
        (
            "make_date({0:int}, {1:int}, {2:int})",
            "make_date(CASE WHEN {0} BETWEEN 1 AND 9999 THEN {0} END, {1}, {2})",
        ),
        ("make_date(2020 + j, j, k)", None),
        ("make_date(year({0:dts}), month({0:dts}), 1)", f"make_date(year({_YEARS}), month({_YEARS}), 1)"),
    ],
    "time_bucket": [
        ("time_bucket(INTERVAL {1:width}, {0:dts})", f"time_bucket(INTERVAL {{1}}, {_YEARS})"),
        ("time_bucket(INTERVAL {1:width}, {0:date})", f"time_bucket(INTERVAL {{1}}, CAST({_YEARS} AS DATE))"),
        ("time_bucket(INTERVAL {1:narrow}, ts)", f"time_bucket(INTERVAL {{1}}, {_YEARS})".replace("{0}", "ts")),
        ("time_bucket(INTERVAL {1:narrow}, te)", "time_bucket(INTERVAL {1}, te)"),
    ],
    "date_trunc": [("date_trunc('{1:unit}', {0:dts})", f"date_trunc('{{1}}', {_YEARS})")],
    "date_diff": [("date_diff('{2:unit}', {0:dts}, {1:dts})", f"date_diff('{{2}}', {_YEARS}, {_YEARS_1})")],
    "date - date": _same("{0:date} - {1:date}"),
    "date + n": [
        (f"{{0:date}} {sign} {{1:int}}", f"CAST({_YEARS} AS DATE) {sign} TRY_CAST({{1}} AS INT)") for sign in "+-"
    ],
    "date + interval": [
        (f"{{0:dts}} {sign} INTERVAL '{{1:step}}' {{2:unit}}", f"{_YEARS} {sign} INTERVAL '{{1}}' {{2}}")
        for sign in "+-"
    ],
    "date + units": [
        *(
            (f"{{0:dts}} {sign} to_{unit}s({{1:int}})", f"{_YEARS} {sign} to_{unit}s({_limited(unit)})")
            for sign in "+-"
            for unit in _UNITS
        ),
        ("{0:dts} + INTERVAL ({1:int}) DAY", f"{_YEARS} + to_days({_limited('day')})"),
        ("{0:dts} + j * INTERVAL 2 MONTH", f"{_YEARS} + to_months(2 * j)"),
        ("INTERVAL 1 HOUR * j + {0:dts}", f"{_YEARS} + to_hours(j)"),
        ("{0:dts} - INTERVAL '1 year 2 months -3 days'", f"{_YEARS} - INTERVAL '1 year 2 months -3 days'"),
    ],
    "lower": _same("lower({0:txt})"),
    "upper": _same("upper({0:txt})"),
    "trim": _same(*(f"{f}({{0:txt}}{more})" for f, more in product(("trim", "ltrim", "rtrim"), ("", ", {1:bit}")))),
    "substring": _same("substring({0:txt}, {1:off}, {2:off})", "substring({0:txt}, {1:off})"),
    "left": _same("left({0:txt}, {1:off})"),
    "right": _same("right({0:txt}, {1:off})"),
    "length": _same("length({0:txt})"),
    "contains": _same("contains({0:txt}, {1:bit})"),
    "starts_with": _same("starts_with({0:txt}, {1:txt})", "prefix({0:txt}, {1:bit})"),
    "ends_with": _same("ends_with({0:txt}, {1:txt})", "suffix({0:txt}, {1:bit})"),
    "strpos": _same("strpos({0:txt}, {1:bit})"),
    "lengths": _same("strlen({0:txt})", "bit_length({0:txt})"),
    "codes": _same("ascii({0:txt})", "unicode({0:txt})", "ord({0:txt})"),
    "chr": [
        ("chr({0:int})", "chr(CAST(CASE WHEN {0} BETWEEN 1 AND 55295 THEN {0} END AS INT))"),
        ("chr(65 + j)", "chr(CAST(65 + j AS INT))"),
    ],
    "reverse": _same("reverse({0:txt})"),
    "translate": _same("translate({0:txt}, {1:bit}, {2:bit})", "translate({0:txt}, 'abc', 'xy')"),
    "split_part": _same(
        *(f"split_part({{0:txt}}, '{by}', {n})" for by in ("a", " ", "ab") for n in (0, 1, 2, -1, 9)),
    ),
    "pad": _same(
        *(f"{f}({{0:txt}}, {n}, {p})" for f in ("lpad", "rpad") for n in (0, 1, 5, -1) for p in ("'xé'", "' '"))
    ),
    "repeat": _same("repeat({0:txt}, 3)", "repeat({0:txt}, 0)", "repeat(c, -1)", "repeat('ab', 2)"),
    "concat_ws": _same("concat_ws({1:bit}, {0:txt}, {2:any})", "concat_ws('-', c)"),
    "replace": _same("replace({0:txt}, {1:bit}, 'xyz')", "replace({0:txt}, 'a', {1:bit})"),
    "concat": _same("concat({0:txt}, {1:any}, {2:txt})"),
    "||": _same("{0:txt} || {1:any}"),
    "isnan": _same("isnan({0:num})"),
    "isinf": _same("isinf({0:num})", "isinf({0:dts})"),
    "isfinite": _same("isfinite({0:num})", "isfinite({0:dts})"),
}

_MORE: dict[str, list[Template]] = {
    "number of case": _same(
        "CASE WHEN {0:bool} THEN {1:num} ELSE {2:num} END",
        "coalesce({0:num}, {1:num})",
        "nullif({0:num}, {1:num})",
        "least(greatest({0:num}, 0), 100)",
    ),
    "number of cast": _same(
        *(
            f"TRY_CAST({{0:{pool}}} AS {kind})"
            for pool in ("num", "bool", "txt")
            for kind in ("BIGINT", "INTEGER", "DECIMAL(12,4)", "DOUBLE", "HUGEINT")
        )
    ),
    "text of case": _same("CASE WHEN {0:bool} THEN {1:txt} ELSE 'other' END"),
    "text of cast": _same("CAST({0:num} AS VARCHAR)", "CAST({0:dts} AS VARCHAR)"),
    "date of cast": _same("TRY_CAST({0:txt} AS DATE)", "CAST({0:dts} AS DATE)"),
}
_ANY = FUNCTIONS | _MORE
_NESTED: dict[str, list[str]] = {
    "num": [
        *("+ - * / // % abs sign floor ceil round trunc sqrt ln exp log power sin asin atan2".split()),
        *("extract", "parts", "epoch"),
        *("bits shift gcd lcm date_diff date_sub age length lengths codes strpos".split()),
        *("number of case", "number of cast", "date - date"),
    ],
    "int": ["bits", "shift", "gcd", "parts", "extract", "date_diff", "date_sub", "age", "length", "codes"],
    "bool": [
        *"comparison distinct is between in connectors like ilike contains isfinite regexp_matches".split(),
        *("similar to", "regexp_full_match"),
    ],
    "txt": [
        *"lower upper trim substring left right replace concat concat_ws || chr reverse translate split_part".split(),
        *("pad", "repeat", "regexp_extract", "regexp_replace", "strftime", "names", "text of cast", "text of case"),
    ],
    "date": ["date + n", "date of cast", "last_day", "make_date"],
    "dts": [
        "date_trunc",
        "date + interval",
        "date + units",
        "date + n",
        "last_day",
        "time_bucket",
        "make_date",
        "strptime",
    ],
}
"""What an argument of each pool may be, beside the pool's own: names of functions."""


def fill(template: Template, rng: random.Random, depth: int = 0) -> tuple[str, str]:
    """A template with arguments drawn from the pools, and its reference with theirs."""
    text, reference = template
    arguments: dict[str, tuple[str, str]] = {}
    for number, pool in re.findall(r"{(\d):(\w+)}", text):
        if number not in arguments:
            arguments[number] = _argument(pool, rng, depth)
    holes = re.compile(r"{(\d)(?::\w+)?}")
    return (
        holes.sub(lambda hole: arguments[hole[1]][0], text),
        holes.sub(lambda hole: arguments[hole[1]][1], reference or text),
    )


def _argument(pool: str, rng: random.Random, depth: int) -> tuple[str, str]:
    if depth > 0 and pool in _NESTED and rng.random() < 0.7:
        text, plain = fill(rng.choice(_ANY[rng.choice(_NESTED[pool])]), rng, depth - 1)
        return f"({text})", f"({plain})"
    value = rng.choice(POOLS[pool])
    value = f"({value})" if pool == "num" and value.startswith("-") else value
    return value, value


def predicate(rng: random.Random, depth: int = 2) -> str:
    """A predicate that `narrow` has something to say about."""
    if depth > 0:
        parts = [predicate(rng, depth - 1) for _ in range(rng.choice((2, 2, 3)))]
        shape = rng.random()
        if shape < 0.7:
            return f"({(' AND ' if shape < 0.4 else ' OR ').join(parts)})"
        if shape < 0.8:
            return f"NOT {parts[0]}"
    return f"({rng.choice(list(_atoms(rng)))})"


def _atoms(rng: random.Random) -> Iterator[str]:
    name = rng.choice(list(COLUMNS))
    other = rng.choice([n for n in COLUMNS if COLUMNS[n][0].kind is COLUMNS[name][0].kind])
    one, two = (_literal(name, rng) for _ in range(2))
    sign = rng.choice(("=", "<>", "<", "<=", ">", ">="))
    yield from (f"{name} {sign} {one}", f"{one} {sign} {name}", f"{name} {sign} {other}")
    yield from (f"{name} BETWEEN {one} AND {two}", f"{name} NOT BETWEEN {one} AND {two}")
    yield from (f"{name} IN ({one}, {two})", f"{name} NOT IN ({one}, {two})", f"{name} IN ({one}, NULL)")
    yield from (f"{name} IS NULL", f"{name} IS NOT NULL", "b", "b IS TRUE", f"b {sign} 2", f"x {sign} i")
    yield from (f"de {sign} te", f"de {sign} TIMESTAMP '1996-02-29 12:00:00'", f"de {sign} TIMESTAMP '1996-02-29'")
    yield from (f"v {sign} 0.1e0", f"j {sign} 2.5", f"d {sign} 0.055", f"i {sign} 9007199254740993.0e0")


def _literal(name: str, rng: random.Random) -> str:
    """A literal to compare a column with."""
    type_, _, _, values = COLUMNS[name]
    value = rng.choice([v for v in values if v not in INFINITE and "BC" not in v and len(v) < 100])
    if type_.kind is Kind.DATE:
        return f"DATE '{value if len(value) == 10 else '2020-01-01'}'"
    if type_.kind is Kind.TIMESTAMP:
        return f"TIMESTAMP '{value if value[4] == '-' else '2020-01-01'}'"
    return f"'{value}'" if type_.kind is Kind.VARCHAR else f"({value})"
