"""Dates and timestamps: parts, truncation, differences, and steps by an INTERVAL literal.

DuckDB raises "Date out of range" near the ends of its types, which bounded columns never reach. Where the held
interval does not prove that, the calculation is done for the years 1 to 9999 only, and gives NULL elsewhere
(infinity included): the dates that have a name in both SQL and Python, and all that facts can bound.
"""

from __future__ import annotations

from datetime import date, datetime
from fractions import Fraction

from sqlglot import exp

from dpsql.compile.ir import Scalar, Value
from dpsql.compile.kinds import INTEGER, settled, words
from dpsql.compile.ranges import Interval, facts_of, held, known, mapped
from dpsql.errors import Span, nearest, refusal
from dpsql.policy.facts import Kind

_PARTS = {
    "year": ("year", "years", "yr", "y", "yrs"),
    "quarter": ("quarter", "quarters"),
    "month": ("month", "months", "mon", "mons"),
    "week": ("week", "weeks", "weekofyear", "w"),
    "day": ("day", "days", "d", "dayofmonth"),
    "dow": ("dow", "dayofweek", "weekday"),
    "isodow": ("isodow",),
    "doy": ("doy", "dayofyear"),
    "hour": ("hour", "hours", "hr", "hrs", "h"),
    "minute": ("minute", "minutes", "min", "mins", "m"),
    "second": ("second", "seconds", "sec", "secs", "s"),
}
_BY_WORD = {word: part for part, all_words in _PARTS.items() for word in all_words}
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
_NODES: dict[str, str] = {"dow": "DOW", "doy": "DOY"}
_YEARS = (-300_000, 6_000_000)
"""The years of every date and timestamp that DuckDB has, and more."""


def part_named(text: str, span: Span | None) -> str:
    """The canonical name of a part, or a refusal with the nearest one."""
    part = _BY_WORD.get(text.lower())
    if part is None:
        raise refusal(
            "DP231",
            f'"{text}" is not a part of a date that is answered.{nearest(text, _PARTS)}',
            span=span,
            repair=f"take one of {', '.join(_PARTS)}",
        )
    return part


def extract(part: str, a: Scalar, span: Span | None) -> Scalar:
    """EXTRACT(part FROM d): an integer; NULL of an infinite date."""
    a = dated(a, f"{part}()")
    is_date = a.facts.type.kind is Kind.DATE
    if is_date and part in ("hour", "minute", "second"):
        raise refusal("DP232", f"a date has no {part}", span=span, repair="take it of a timestamp")
    least, most = _LIMITS.get(part, _YEARS)
    anything = Interval(Fraction(least), Fraction(most))
    domain, _ = mapped(lambda d: _part(d, part), [a.facts])
    ends = [_year_range(i) if part == "year" else anything for i in (known(a.facts), held(a.facts))]
    if domain is None and part != "year" and known(a.facts).is_bounded:
        domain = list(range(least, most + 1))
    tree = exp.Extract(this=exp.Var(this=_NODES.get(part, part.upper())), expression=a.tree)
    finite_dates = held(a.facts).is_bounded
    known_ = ends[0] if ends[0].is_bounded else Interval() if part == "year" else anything
    facts = facts_of(
        INTEGER,
        known_,
        ends[1] if ends[1].is_bounded else Interval(Fraction(_YEARS[0]), Fraction(_YEARS[1])),
        domain=domain if domain is not None else None if part == "year" else range(least, most + 1),
        nullable=a.facts.nullable or not finite_dates,
    )
    return settled(tree, facts, [a], span)


def dated(a: Scalar, what: str) -> Scalar:
    """The scalar, which must be a date or a timestamp."""
    if a.facts.type.kind in (Kind.DATE, Kind.TIMESTAMP):
        return a
    raise refusal(
        "DP232",
        f"{what} needs a date and is given {words(a.facts)}",
        span=a.span,
        repair="convert it with CAST(x AS DATE), which is NULL where the text spells no date",
    )


def _year_range(interval: Interval) -> Interval:
    lo, hi = interval.lo, interval.hi
    assert not isinstance(lo, Fraction) and not isinstance(hi, Fraction)
    return Interval(None if lo is None else Fraction(lo.year), None if hi is None else Fraction(hi.year))


def _part(value: Value, part: str) -> int:
    assert isinstance(value, date)
    moment = value if isinstance(value, datetime) else datetime(value.year, value.month, value.day)
    match part:
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
