"""Reads single values of a policy file: each function takes what TOML gave and returns what the policy means by it.

A value that cannot be used raises `Wrong` with the reason and what to write instead, and nothing else: every
number is measured before it is turned into anything, so that 1e999999999 costs no time. Nothing here knows where
in the file a value stands, or looks at two keys at once (that is `checks`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import date, datetime, time
from decimal import Decimal
from fractions import Fraction

from dpsql.policy.model import Value

LARGEST_BOUND = 2**53
"""Bounds lie within ±2^53: up to there a DOUBLE holds every integer, and sums of clamped values stay finite."""
GRID_LINES = 2**40
"""A `step` divides the range into at most so many parts."""
LARGEST_GRID_INDEX = 2**52
"""A bound, counted in grid steps from zero, stays exact in int64 and in DOUBLE."""
DEFAULT_PARTS = 2**20
"""Without `step` the range of a DOUBLE is divided into about so many parts."""
MOST_ROWS = 2**31
MOST_VALUES = 1_000_000
PLACES = 20
"""Digits after the point of a bound, step or value: with 18 before it they fit DECIMAL(38, 20)."""
AMOUNT_PLACES = 30
MOST_EPSILON = 1000
MOST_FAILURES = 100
MEMORY = "([1-9][0-9]{0,8})([KMGT]i?B)"
"""A size in bytes: powers of 1000, or with an i of 1024, as DuckDB reads them."""
LEAST_MEMORY, MOST_MEMORY = 64 * 2**20, 2**44
DURATION = "([1-9][0-9]{0,8})(s|min|h)"
MOST_SECONDS = 86_400
_MEMORY, _DURATION = re.compile(MEMORY), re.compile(DURATION)
_UNITS = {"s": 1, "min": 60, "h": 3_600}

_DECIMAL = re.compile(r"-?([0-9]{1,20})(?:\.([0-9]{1,60}))?(?:[eE]([+-]?[0-9]{1,3}))?")


class Wrong(Exception):
    """A value that cannot be used. `text` goes on the sentence 'tables.orders.key: ...'; every one has a repair."""

    def __init__(self, text: str, repair: str):
        super().__init__(text)
        self.text, self.repair = text, repair


def called(value: object) -> str:
    """What the TOML type of a value is called in a message."""
    names: dict[type, str] = {
        bool: "true or false", int: "an integer", Decimal: "a number", str: "a string", list: "a list", dict: "a table",
        datetime: "a timestamp", date: "a date", time: "a time",
    }  # fmt: skip
    return names.get(type(value), "nothing")


def shown(value: object) -> str:
    """A value as a message quotes it: on one line, short, without control characters."""
    if isinstance(value, str):
        return json.dumps(value if len(value) <= 60 else value[:57] + "...", ensure_ascii=not value.isprintable())
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return str(value) if abs(value) < 10**40 else "an integer of more than 40 digits"
    if isinstance(value, Decimal):
        plain = value.is_finite() and len(value.as_tuple().digits) <= 40 and -40 <= value.adjusted() <= 40
        return format(value, "f") if plain else str(value)[:40].lower()
    return value.isoformat() if isinstance(value, date | datetime) else called(value)


def escaped(text: str) -> str:
    """The text on one line, with what a terminal would obey written as its code."""
    return text if text.isprintable() else "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in text)


def parse_float(text: str) -> Decimal:
    """A TOML float exactly as written. An exponent that Decimal cannot hold becomes infinity, which no reader takes."""
    try:
        return Decimal(text)
    except ArithmeticError:
        return Decimal("Infinity")


def one_of(*allowed: object) -> Callable[[object], object]:
    """A reader for a key that has these values alone."""

    def read(value: object) -> object:
        if not any(type(value) is type(a) and value == a for a in allowed):
            raise Wrong(f"{shown(value)} is not possible here", f"allowed: {', '.join(shown(a) for a in allowed)}")
        return value

    return read


def flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise Wrong(f"must be true or false, not {called(value)}", "write it without quotes")
    return value


# ---- amounts of the budget


def epsilon(value: object) -> Fraction:
    """An ε: more than 0, at most 1000 (beyond, an answer is as good as exact and a promise as good as none)."""
    amount = _amount(value)
    if not 0 < amount <= MOST_EPSILON:
        raise Wrong(f"{shown(value)} is not more than 0 and at most {MOST_EPSILON}", 'for example "0.5"')
    return _exact(value, amount)


def delta(value: object) -> Fraction:
    """A δ: a probability below 1."""
    amount = _amount(value)
    if not 0 <= amount < 1:
        raise Wrong(f"{shown(value)} is not at least 0 and less than 1", 'for example "1e-6", or "0" for pure privacy')
    return _exact(value, amount)


def _amount(value: object) -> Decimal:
    """What is written, of whatever size."""
    if isinstance(value, int) and not isinstance(value, bool):
        return Decimal(value)
    if isinstance(value, Decimal) and value.is_finite():
        return value
    if isinstance(value, str):
        return _decimal(value)
    what = shown(value) if isinstance(value, Decimal) else called(value)
    raise Wrong(f"must be an amount, not {what}", 'write it as a string: "0.1"')


def _exact(value: object, amount: Decimal) -> Fraction:
    """An amount within its range. That it stands in quotes is said last: in quotes, this one can be used."""
    _check_digits(value, amount, AMOUNT_PLACES)
    if isinstance(value, Decimal):
        reason = "amounts are exact, so a number with a point stands in quotes"
        raise Wrong(reason, f'write it as a string: "{shown(value)}"')
    return Fraction(amount)


def _decimal(written: str) -> Decimal:
    """A string's decimal. Underscores, blanks, a plus, inf, nan and fractions are not read."""
    if _DECIMAL.fullmatch(written) is None:
        raise Wrong(f"{shown(written)} is not a decimal", 'digits, a point, digits: "0.25", or "1e-6"')
    return Decimal(written)


def _check_digits(value: object, number: Decimal, places: int) -> None:
    if -_exponent(number) > places or number.adjusted() > 20:
        raise Wrong(f"{shown(value)} has too many digits", f"at most 20 before the point and {places} after it")


def _exponent(number: Decimal) -> int:
    """The power of ten of the last digit of a finite number."""
    exponent = number.as_tuple().exponent
    return exponent if isinstance(exponent, int) else 0


# ---- limits, bounds, values


def rows(value: object) -> int:
    """A limit on rows or groups."""
    if not isinstance(value, int) or isinstance(value, bool):
        what = shown(value) if isinstance(value, Decimal) else called(value)
        raise Wrong(f"must be an integer, not {what}", "for example 100")
    if not 1 <= value <= MOST_ROWS:
        raise Wrong(f"{shown(value)} is not between 1 and {MOST_ROWS}", "for example 100")
    return value


def failures(value: object) -> int:
    """How often the engine may fail."""
    number = rows(value)
    if number > MOST_FAILURES:
        text = f"{number} is more than {MOST_FAILURES}, and each failure may tell an exact bit about the data"
        raise Wrong(text, "write max_failures = 3, or leave it out")
    return number


def memory(value: object) -> int:
    """A size of memory, in bytes."""
    match = _MEMORY.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise Wrong(f"{shown(value)} is not a size of memory", 'a whole number and its unit: "4GB", or "512MiB"')
    count, unit = match.groups()
    base = 1024 if "i" in unit else 1000
    size: int = int(count) * base ** ("KMGT".index(unit[0]) + 1)
    if not LEAST_MEMORY <= size <= MOST_MEMORY:
        raise Wrong(f"{shown(value)} is not between 64MiB and 16TiB", 'for example "4GB"')
    return size


def seconds(value: object) -> int:
    """A length of time."""
    match = _DURATION.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise Wrong(f"{shown(value)} is not a length of time", 'a whole number and its unit: "60s", "10min" or "1h"')
    count, unit = match.groups()
    if int(count) * _UNITS[unit] > MOST_SECONDS:
        raise Wrong(f"{shown(value)} is more than a day", 'for example "10min"')
    return int(count) * _UNITS[unit]


def cluster(value: object) -> bool:
    """`["unit"]`: the one order that rows can be kept in instead of the source's."""
    if value != ["unit"]:
        raise Wrong('can be the list ["unit"] alone', 'write cluster_by = ["unit"], or leave it out')
    return True


def bounds(value: object) -> tuple[Value, Value]:
    """An inclusive range: two numbers, two dates or two timestamps, the lesser first."""
    example = "for example bounds = [0, 100]"
    if not isinstance(value, list) or len(value) != 2:
        many = f"a list of {len(value)}" if isinstance(value, list) else called(value)
        raise Wrong(f"must be a list of two values, the low and the high one, not {many}", example)
    for bound in value:
        if isinstance(bound, str | bool | list | dict | time):
            hint = "write numbers, dates and timestamps without quotes" if isinstance(bound, str) else example
            raise Wrong(f"must be numbers, dates or timestamps, not {called(bound)}", hint)
        if isinstance(bound, int) or (isinstance(bound, Decimal) and bound.is_finite()):
            _check_size(bound)
    low, high = scalar(value[0]), scalar(value[1])
    if kind(low) != kind(high):
        raise Wrong(
            f"are of two types, {called(low)} and {called(high)}", "write two numbers, two dates or two timestamps"
        )
    if not low < high:  # type: ignore[operator] # of one kind, so they compare
        swapped = f"bounds = [{shown(high)}, {shown(low)}]" if low != high else "leave the bounds out, or widen them"
        raise Wrong(f"the low bound {shown(low)} is not below the high bound {shown(high)}", swapped)
    return low, high


def _check_size(bound: int | Decimal) -> None:
    if not -LARGEST_BOUND <= bound <= LARGEST_BOUND:
        text = f"must lie within ±2^53 ({LARGEST_BOUND}), so that sums stay exact and noise finite; not {shown(bound)}"
        raise Wrong(text, "write a bound that real values reach, or scale the column in a view")


def step(value: object) -> Decimal:
    """The grid of a column: a positive number, or a string of one."""
    number = _decimal(value) if isinstance(value, str) else scalar(value)
    if isinstance(number, bool) or not isinstance(number, int | Decimal):
        raise Wrong(f"must be a number, not {called(value)}", 'for example step = "0.01"')
    if number <= 0:
        raise Wrong(f"{shown(number)} is not more than 0", 'for example step = "0.01"')
    _check_digits(value, Decimal(number), PLACES)
    return Decimal(number)


def values(value: object) -> tuple[Value, ...]:
    """The public keys of a column: all of one type, no two that DuckDB calls equal (so 1 and 1.0 are one)."""
    if not isinstance(value, list) or not value:
        what = "an empty one" if value == [] else called(value)
        raise Wrong(f"must be a list of at least one value, not {what}", 'for example values = ["north", "south"]')
    if len(value) > MOST_VALUES:
        raise Wrong(
            f"are {len(value)}, more than {MOST_VALUES}", "make a public table of them, and refer to it: references"
        )
    listed = tuple(scalar(v) for v in value)
    seen: set[Value] = set()
    for one in listed:
        if kind(one) != kind(listed[0]):
            raise Wrong(f"are of two types: {shown(listed[0])} and {shown(one)}", "write all of one type")
        if one in seen:
            raise Wrong(f"list {shown(one)} twice", "list each value once")
        seen.add(one)
    return listed


def scalar(value: object) -> Value:
    """One SQL literal of the policy."""
    if isinstance(value, datetime) and value.tzinfo is not None:
        raise Wrong(f"{shown(value)} has a time zone", "write the timestamp without one, as the database holds it")
    if isinstance(value, str):
        if "\0" in value:
            raise Wrong("holds a NUL character", "leave that value out, or change it in a view")
        return value
    if isinstance(value, bool | date):
        return value
    if isinstance(value, int):
        if not -(2**63) <= value < 2**63:
            raise Wrong(f"{shown(value)} does not fit in 64 bits", "write a smaller number")
        return value
    if isinstance(value, Decimal):
        return _number(value)
    text = f"must be a number, a string, a boolean, a date or a timestamp, not {called(value)}"
    raise Wrong(text, "write a value that the column can hold, or change the column in a view")


def _number(value: Decimal) -> Decimal:
    if not value.is_finite():
        raise Wrong(f"{shown(value)} is not a finite number", "write a number that real values reach")
    if not value:
        return Decimal(0)  # -0.0 and 0e9 too
    if value.adjusted() > 17 or _exponent(value) < -PLACES:
        raise Wrong(f"{shown(value)} has too many digits", f"at most 18 before the point and {PLACES} after it")
    return value.quantize(Decimal(1)) if _exponent(value) > 0 else value  # 1e3 is kept as 1000


def kind(value: Value) -> str:
    """number, text, boolean, date or timestamp: what a value can be compared with."""
    match value:
        case bool():
            return "boolean"
        case int() | Decimal():
            return "number"
        case str():
            return "text"
        case datetime():
            return "timestamp"
        case date():
            return "date"
