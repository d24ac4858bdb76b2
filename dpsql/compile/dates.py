"""Dates and timestamps: parts, truncation, differences, and steps by days or by an INTERVAL literal.

DuckDB raises "Date out of range" near the ends of its types, which bounded columns never reach. Where the held
interval does not prove that, the calculation is done for the years 1 to 9999 only and gives NULL elsewhere
(infinity included): those are the dates that a fact can bound. It is the argument that is guarded, never the result:
a calculation then meets no dangerous value even where the engine computes a branch that it does not need.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from fractions import Fraction
from typing import NamedTuple

from sqlglot import exp

from dpsql.compile.guards import calculable, guarded
from dpsql.compile.ir import Scalar, Value
from dpsql.compile.kinds import DATE, INTEGER, TIMESTAMP, convert, is_null, settled, unify, words
from dpsql.compile.moments import (
    MONTHS,
    SECONDS,
    as_date,
    day_after,
    ordinal,
    part_of,
    shifted,
    shifted_days,
    truncated,
)
from dpsql.compile.ranges import Bound, Interval, facts_of, held, known, mapped, minus, monotone, toward_zero
from dpsql.compile.trees import wrapped
from dpsql.errors import Span, nearest, refusal
from dpsql.policy.facts import Kind

PARTS = {
    "year": ("year", "years", "yr", "y", "yrs"),
    "quarter": ("quarter", "quarters"),
    "month": ("month", "months", "mon", "mons"),
    "week": ("week", "weeks", "weekofyear", "w"),
    "day": ("day", "days", "d", "dayofmonth"),
    "dow": ("dow", "dayofweek", "weekday"),
    "isodow": ("isodow", "dayofweekiso"),
    "doy": ("doy", "dayofyear"),
    "hour": ("hour", "hours", "hr", "hrs", "h"),
    "minute": ("minute", "minutes", "min", "mins", "m"),
    "second": ("second", "seconds", "sec", "secs", "s"),
}
_BY_WORD = {word: part for part, all_words in PARTS.items() for word in all_words}
UNITS = ("year", "quarter", "month", "week", "day", "hour", "minute", "second")
"""Parts that are spans of time: what date_trunc, date_diff and INTERVAL take."""

_LIMITS = {
    "quarter": (1, 4),
    "month": (1, 12),
    "week": (1, 53),
    "day": (1, 31),
    "dow": (0, 6),
    "isodow": (1, 7),
    "doy": (1, 366),
    "hour": (0, 23),
    "minute": (0, 59),
    "second": (0, 59),
}
_YEARS = Interval(Fraction(-6_000_000), Fraction(6_000_000))
"""Around the years of every date and timestamp that DuckDB has."""

MAX_STEP_YEARS = 100_000
MAX_STEP_DAYS = 2 * 10**9
"""How far an INTERVAL, and a number of days, may move: from the years 1 to 9999 that stays inside DuckDB's types."""


class Step(NamedTuple):
    """An INTERVAL literal: so many months, or so many seconds; `tree` is its canonical form, without its sign."""

    months: int
    seconds: int
    tree: exp.Expr


def part_named(text: str, span: Span | None, among: tuple[str, ...] = tuple(PARTS)) -> str:
    """The canonical name of a part, or a refusal with the nearest one."""
    part = _BY_WORD.get(text.lower())
    if part is None or part not in among:
        raise refusal(
            "DP231",
            f'"{text.lower()}" is not a part of a date that is answered here.{nearest(text, among)}',
            span=span,
            repair=f"write one of {', '.join(among)}",
        )
    return part


def dated(a: Scalar, what: str) -> Scalar:
    """The scalar, which must be a date or a timestamp."""
    if is_null(a):
        return convert(a, DATE)
    if a.facts.type.kind in (Kind.DATE, Kind.TIMESTAMP):
        return a
    raise refusal(
        "DP232",
        f"{what} needs a date and is given {words(a.facts)}",
        span=a.span,
        repair="convert text with CAST(x AS DATE), which is NULL where it spells no date",
    )


def extract(part: str, a: Scalar, span: Span | None) -> Scalar:
    """EXTRACT(part FROM d): an integer; NULL of an infinite date. Never raises, so it needs no guard."""
    a = dated(a, part)
    domain, _ = mapped(lambda d: part_of(d, part), [a.facts])
    if part == "year":
        exact, holds = (_years(i) for i in (known(a.facts), held(a.facts)))
        holds = Interval(_YEARS.lo if holds.lo is None else holds.lo, _YEARS.hi if holds.hi is None else holds.hi)
    else:
        least, most = _LIMITS[part]
        exact = holds = Interval(Fraction(least), Fraction(most))
    tree = _NODES[part](this=a.tree)
    nullable = a.facts.nullable or not held(a.facts).is_bounded
    return settled(tree, facts_of(INTEGER, exact, holds, domain=domain, nullable=nullable), [a], span)


_NODES: dict[str, type[exp.Expr]] = {
    "year": exp.Year,
    "quarter": exp.Quarter,
    "month": exp.Month,
    "week": exp.Week,
    "day": exp.Day,
    "dow": exp.DayOfWeek,
    "isodow": exp.DayOfWeekIso,
    "doy": exp.DayOfYear,
    "hour": exp.Hour,
    "minute": exp.Minute,
    "second": exp.Second,
}
"""The functions, not EXTRACT: of an argument that is always NULL, DuckDB types EXTRACT as a DOUBLE."""


def truncate(unit: str, a: Scalar, span: Span | None) -> Scalar:
    """date_trunc(unit, d): a TIMESTAMP, of a DATE too, as in DuckDB 2."""
    a = calculable(dated(a, "date_trunc"))
    first, second = (_image(i, lambda d: truncated(d, unit)) for i in (known(a.facts), held(a.facts)))
    domain, _ = mapped(lambda d: truncated(as_date(d), unit), [a.facts])
    name = unit.upper()
    tree: exp.Expr
    if isinstance(a.tree, exp.Cast) and a.facts.type == DATE:  # sqlglot has a node of its own for these
        tree = exp.DateTrunc(unit=exp.Literal.string(name), this=a.tree)  # type: ignore[no-untyped-call]
    else:
        tree = exp.TimestampTrunc(this=a.tree, unit=exp.Var(this=name))
    return settled(tree, facts_of(TIMESTAMP, first, second, domain=domain, nullable=a.facts.nullable), [a], span)


def difference(unit: str, start: Scalar, end: Scalar, span: Span | None) -> Scalar:
    """date_diff(unit, start, end): the boundaries of that unit between the two; of weeks, every seven days."""
    dates = [calculable(dated(d, "date_diff")) for d in (start, end)]  # before they become timestamps: one guard each
    _, (a, b) = unify(dates, "date_diff")
    counted, size = ("day", 7) if unit == "week" else (unit, 1)

    def count(one: Interval, other: Interval) -> Interval:
        whole = minus(*(_image(i, lambda d: Fraction(ordinal(d, counted))) for i in (other, one)))
        return toward_zero(monotone(whole, lambda days: days / size))

    def exactly(one: Value, other: Value) -> Value:
        apart = ordinal(as_date(other), counted) - ordinal(as_date(one), counted)
        return abs(apart) // size * (1 if apart > 0 else -1)

    domain, _ = mapped(exactly, [a.facts, b.facts])
    tree = exp.DateDiff(this=b.tree, expression=a.tree, unit=exp.Var(this=unit.upper()))
    if unit != "week":
        tree.set("date_part_boundary", True)  # as sqlglot reads it; without it, it would truncate both dates
    ends = [count(of(a.facts), of(b.facts)) for of in (known, held)]
    facts = facts_of(INTEGER, ends[0], ends[1], domain=domain, nullable=a.facts.nullable or b.facts.nullable)
    return settled(tree, facts, [a, b], span)


def days_between(a: Scalar, b: Scalar, span: Span | None) -> Scalar:
    """DATE - DATE: days, as a BIGINT. Total for every date, infinite ones included."""
    if not a.facts.type == b.facts.type == DATE:
        raise refusal(
            "DP232",
            "the difference of timestamps is an INTERVAL, which no expression here can use",
            span=span,
            repair="write date_diff('second', a, b), or another unit",
        )
    ends = [minus(*(_image(of(s.facts), lambda d: Fraction(d.toordinal())) for s in (a, b))) for of in (known, held)]
    domain, _ = mapped(lambda x, y: as_date(x).toordinal() - as_date(y).toordinal(), [a.facts, b.facts])
    tree = exp.Sub(this=wrapped(a.tree), expression=wrapped(b.tree))
    facts = facts_of(INTEGER, ends[0], ends[1], domain=domain, nullable=a.facts.nullable or b.facts.nullable)
    return settled(tree, facts, [a, b], span)


def moved_by_days(a: Scalar, days: Scalar, sign: int, span: Span | None) -> Scalar:
    """DATE + n, DATE - n: a DATE."""
    if a.facts.type != DATE or days.facts.type != INTEGER:
        given = a if a.facts.type != DATE else days
        raise refusal(
            "DP232",
            f"a date moves by whole days or by an INTERVAL, and here is {words(given.facts)}",
            span=given.span,
            repair="write d + 7, or d + INTERVAL 7 DAY",
        )
    a = calculable(a)
    limit = Fraction(MAX_STEP_DAYS)
    days = guarded(convert(days, INTEGER), Interval(-limit, limit))
    ends = []
    for of in (known, held):
        span_of_days = of(days.facts)
        move = span_of_days if sign > 0 else minus(Interval(Fraction(0), Fraction(0)), span_of_days)
        ends.append(Interval(day_after(of(a.facts).lo, move.lo), day_after(of(a.facts).hi, move.hi)))
    domain, _ = mapped(lambda d, n: shifted_days(d, n, sign), [a.facts, days.facts])
    narrow = exp.Cast(this=days.tree, to=exp.DataType(this=exp.DataType.Type.INT, nested=False))
    node = exp.Add if sign > 0 else exp.Sub
    tree = node(this=wrapped(a.tree), expression=narrow)
    facts = facts_of(DATE, ends[0], ends[1], domain=domain, nullable=a.facts.nullable or days.facts.nullable)
    return settled(tree, facts, [a, days], span)


def moved(a: Scalar, step: Step, sign: int, span: Span | None) -> Scalar:
    """d + INTERVAL, d - INTERVAL: a TIMESTAMP, as in DuckDB. The 31st of a shorter month is its last day."""
    a = calculable(dated(a, "INTERVAL"))
    months, seconds = sign * step.months, sign * step.seconds
    first, second = (_image(i, lambda d: shifted(d, months, seconds)) for i in (known(a.facts), held(a.facts)))
    domain, gone = mapped(lambda d: shifted(as_date(d), months, seconds), [a.facts])
    domain = None if gone else domain  # a moment that Python has no date for
    node = exp.Add if sign > 0 else exp.Sub
    tree = node(this=wrapped(a.tree), expression=step.tree)
    return settled(tree, facts_of(TIMESTAMP, first, second, domain=domain, nullable=a.facts.nullable), [a], span)


def step_of_literal(node: exp.Interval, span: Span | None) -> Step:
    """An INTERVAL literal of one unit, or a refusal."""
    amount, unit = node.this, node.args.get("unit")
    negative = False
    while isinstance(amount, exp.Paren | exp.Neg):
        negative ^= isinstance(amount, exp.Neg)
        amount = amount.this
    text = str(amount.this) if isinstance(amount, exp.Literal) else ""
    digits = text.lstrip("+-")
    if not digits.isascii() or not digits.isdigit() or len(text) - len(digits) > 1 or not isinstance(unit, exp.Var):
        raise refusal(
            "DP231",
            "an INTERVAL is a whole number and one unit",
            span=span,
            repair="write INTERVAL 90 DAY; add several intervals one after the other",
        )
    part = part_named(str(unit.this), span, UNITS)
    count = -int(text) if negative else int(text)
    months, seconds = count * MONTHS.get(part, 0), count * SECONDS.get(part, 0)
    if abs(months) > 12 * MAX_STEP_YEARS or abs(seconds) > 86_400 * 365 * MAX_STEP_YEARS:
        raise refusal("DP231", f"an INTERVAL moves by {MAX_STEP_YEARS} years at most", span=span)
    return Step(months, seconds, exp.Interval(this=exp.Literal.string(str(count)), unit=exp.Var(this=part.upper())))


def _image(interval: Interval, function: Callable[[date], Bound | None]) -> Interval:
    """Of an interval of dates under a function that never decreases; None where it leaves the calendar."""
    return Interval(*(None if end is None else function(as_date(end)) for end in (interval.lo, interval.hi)))


def _years(interval: Interval) -> Interval:
    return _image(interval, lambda d: Fraction(d.year))
