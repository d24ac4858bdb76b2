"""Advice about a policy that loads: what is allowed, and may yet not be what its owner wants.

A function of the policy alone. Nothing here is an error; nothing here makes an answer more or less private.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction

from dpsql.policy.model import LIMITS, Policy, Table, Value
from dpsql.policy.readers import shown

HIGH_EPSILON = 1
"""A statement beyond this lets its answer be e times as likely with a person's data as without."""

HIGH_DELTA = Fraction(1, 100_000)

_NATURAL = {7, 12, 24, 31, 52, 53, 60, 365, 366, 1440, 3600, 86400, 2**31, 2**53}


def advise(policy: Policy) -> Iterator[str]:
    """A sentence or two each, with the place that it is about."""
    budget = policy.budget
    if budget.per_query_epsilon > HIGH_EPSILON:
        yield (
            f"budget.per_query_epsilon: {float(budget.per_query_epsilon):g} is much for one statement; at 1 an answer "
            "is at most 2.7 times as likely with somebody's data as without"
        )
    if budget.delta > HIGH_DELTA:
        yield (
            f"budget.delta: {float(budget.delta):g} is more than 1e-5; it should be well below 1 in the number of "
            "units, for with that chance somebody may be shown as they are"
        )
    for table in policy.tables.values():
        if not table.public:
            yield from _of_table(table, policy)


def _of_table(table: Table, policy: Policy) -> Iterator[str]:
    place = f"tables.{table.name}"
    if not table.key and not table.every_row_is_a_unit:
        yield f"{place}: has no key, so a row that was loaded twice counts twice, and no path can lead here"
    if not any(column.values for column in table.columns.values()) and not table.references:
        repair = "statements have to list the groups" if policy.budget.delta == 0 else "keys are selected privately"
        yield f"{place}: has no public keys (values, references): {repair}"
    if table.reads_files and not table.source.lower().endswith(".parquet"):
        yield f"{place}.source: the column types of CSV files are what their rows say: outside of the promise"
    for name in LIMITS:
        limit = getattr(table, name)
        if limit is not None and not _is_round(limit):
            yield f"{place}.{name}: {_looks(limit)}"
    for column in table.columns.values():
        odd = [bound for bound in column.bounds or () if not _is_round(bound)]
        if odd:
            yield f"{place}.columns.{column.name}.bounds: {_looks(odd[-1])}"


def _looks(value: Value) -> str:
    return f"{shown(value)} looks as if it were taken from the data; then it is outside of the promise, and public"


def _is_round(value: Value) -> bool:
    """Whether a person would choose it without looking: few digits, nines, or a number of clocks and calendars."""
    if isinstance(value, datetime):
        return (value.minute, value.second % 59) in ((0, 0), (59, 0)) and _is_round(value.date())
    if isinstance(value, date):  # the first or last of a month, or the day after
        return value.day in (1, 2, 28, 29, 30, 31)
    if isinstance(value, bool | str):
        return True
    number = abs(Decimal(value))
    digits = "".join(map(str, number.normalize().as_tuple().digits))
    whole = int(number) if number == int(number) else -1
    return (
        len(digits) <= 2
        or set(digits) == {"9"}
        or whole in _NATURAL
        or (whole > 0 and (whole & (whole - 1) == 0 or whole & (whole + 1) == 0))
        or (len(digits) == 3 and digits[-1] in "05")
        or (1900 <= whole <= 2100)
    )
