"""What DuckDB computes from dates, in Python: for the domains and bounds of expressions, over the years 1 to 9999."""

from __future__ import annotations

import calendar
from collections.abc import Callable
from datetime import date, datetime, timedelta
from fractions import Fraction

from dpsql.compile.ir import Value
from dpsql.compile.literals import moment_of
from dpsql.compile.ranges import Bound, Interval, Unsure

MONTHS = {"year": 12, "quarter": 3, "month": 1}
SECONDS = {"week": 604_800, "day": 86_400, "hour": 3_600, "minute": 60, "second": 1}


def as_date(value: object) -> date:
    assert isinstance(value, date)
    return value


def image(interval: Interval, function: Callable[[date], Bound | None]) -> Interval:
    """Of an interval of dates under a function that never decreases; None where it leaves the calendar."""
    return Interval(*(None if end is None else function(as_date(end)) for end in (interval.lo, interval.hi)))


def epoch_of(value: date) -> int:
    """Microseconds since 1970."""
    return (moment_of(value) - datetime(1970, 1, 1)) // timedelta(microseconds=1)


def part_of(value: Value, part: str) -> int:
    moment = moment_of(as_date(value))
    match part:
        case "isoyear":
            return moment.isocalendar().year
        case "yearweek":
            return moment.isocalendar().year * 100 + moment.isocalendar().week
        case "decade":
            return moment.year // 10
        case "century":
            return (moment.year + 99) // 100
        case "millennium":
            return (moment.year + 999) // 1000
        case "era":
            return 1
        case "millisecond":
            return moment.second * 1_000 + moment.microsecond // 1_000
        case "microsecond":
            return moment.second * 1_000_000 + moment.microsecond
        case "quarter":
            return (moment.month + 2) // 3
        case "week":
            return moment.isocalendar().week
        case "dow":
            return moment.isoweekday() % 7
        case "isodow":
            return moment.isoweekday()
        case "doy":
            return moment.timetuple().tm_yday
        case _:
            return int(getattr(moment, part))


def truncated(value: date, unit: str) -> datetime:
    moment = moment_of(value)
    day = moment_of(moment.date())
    match unit:
        case "year":
            return datetime(day.year, 1, 1)
        case "quarter":
            return datetime(day.year, (day.month - 1) // 3 * 3 + 1, 1)
        case "month":
            return datetime(day.year, day.month, 1)
        case "week":
            return day - timedelta(days=day.weekday())
        case "day":
            return day
        case "hour":
            return day + timedelta(hours=moment.hour)
        case "minute":
            return day + timedelta(hours=moment.hour, minutes=moment.minute)
        case _:
            return moment.replace(microsecond=0)


def ordinal(value: date, unit: str) -> int:
    """How many of the unit have begun since a fixed day: differences of it are what date_diff counts."""
    moment = moment_of(value)
    if unit in MONTHS:
        return (moment.year * 12 + moment.month - 1) // MONTHS[unit]
    seconds = moment.toordinal() * 86_400 + moment.hour * 3_600 + moment.minute * 60 + moment.second
    return seconds // SECONDS[unit]


def shifted(value: date, months: int, seconds: int) -> datetime | None:
    """A moment moved as DuckDB moves it; None where it leaves the years 1 to 9999."""
    moment = moment_of(value)
    try:
        if months:
            total = moment.year * 12 + moment.month - 1 + months
            year, month = divmod(total, 12)
            last = calendar.monthrange(year, month + 1)[1] if 1 <= year <= 9999 else 0
            moment = moment.replace(year=year, month=month + 1, day=min(moment.day, last))
        return moment + timedelta(seconds=seconds)
    except (OverflowError, ValueError):
        return None


def shifted_span(start: Interval, months: tuple[int, int], seconds: tuple[int, int]) -> Interval:
    """Around every moment of an interval, moved by so many months and then seconds.

    Months move days in order, but not the times of days: the 29th, 13:00, and the 30th, 2:00, of September are both on
    the last of February five months later, the other way round. So where months move, whole days are enclosed."""
    ends: list[date | None] = []
    for end, month, second, last in zip((start.lo, start.hi), months, seconds, (False, True), strict=True):
        moved = None if end is None else shifted(as_date(end), month, 0)
        if moved is not None and months != (0, 0) and isinstance(end, datetime):
            moved = moment_of(moved.date()) + (timedelta(days=1, microseconds=-1) if last else timedelta())
        ends.append(None if moved is None else shifted(moved, 0, second))
    return Interval(*ends)


def shifted_days(value: Value, days: Value, sign: int) -> date:
    moved = day_after(as_date(value), Fraction(sign * int(days)))  # type: ignore[arg-type]
    if moved is None:
        raise Unsure
    return moved


def day_after(start: Bound | None, days: Bound | None) -> date | None:
    if not isinstance(start, date) or not isinstance(days, Fraction):
        return None
    try:
        return start + timedelta(days=int(days))
    except OverflowError:
        return None


def last_day_of(value: date) -> date:
    return date(value.year, value.month, calendar.monthrange(value.year, value.month)[1])


def bucket_of(value: date, months: int, seconds: int) -> datetime | None:
    """The start of a moment's bucket, None where it is before the year 1."""
    moment = moment_of(value)
    try:
        if months:
            count = (moment.year - 2000) * 12 + moment.month - 1
            year, month = divmod(count // months * months, 12)
            return datetime(2000 + year, month + 1, 1)
        origin, width = datetime(2000, 1, 3), timedelta(seconds=seconds)
        return origin + (moment - origin) // width * width
    except (OverflowError, ValueError):
        return None
