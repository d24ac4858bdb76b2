"""Parts of dates and timestamps: EXTRACT and its shorthands, names of days and months, strftime.

None of them raises for any date, but the counts of milliseconds and microseconds, whose argument is guarded.
"""

from __future__ import annotations

from datetime import date, datetime, timedelta
from fractions import Fraction

from sqlglot import exp

from dpsql.compile.formats import format_of, is_of_days, written
from dpsql.compile.guards import calculable, guarded
from dpsql.compile.ir import Facts, Scalar
from dpsql.compile.kinds import DATE, DOUBLE, INTEGER, TIMESTAMP, VARCHAR, convert, is_null, settled, words
from dpsql.compile.literals import moment_of
from dpsql.compile.moments import as_date, epoch_of, image, part_of
from dpsql.compile.ranges import Interval, facts_of, floating, held, known, mapped
from dpsql.compile.strings import made, text
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
    "isoyear": ("isoyear",),
    "yearweek": ("yearweek",),
    "decade": ("decade", "decades"),
    "century": ("century", "centuries"),
    "millennium": ("millennium", "millennia"),
    "era": ("era",),
    "hour": ("hour", "hours", "hr", "hrs", "h"),
    "minute": ("minute", "minutes", "min", "mins", "m"),
    "second": ("second", "seconds", "sec", "secs", "s"),
    "millisecond": ("millisecond", "milliseconds", "ms", "msec"),
    "microsecond": ("microsecond", "microseconds", "us", "usec"),
    "epoch": ("epoch",),
    "julian": ("julian",),
}
_BY_WORD = {word: part for part, all_words in PARTS.items() for word in all_words}

_LIMITS = {
    "quarter": (1, 4),
    "month": (1, 12),
    "week": (1, 53),
    "day": (1, 31),
    "dow": (0, 6),
    "isodow": (1, 7),
    "doy": (1, 366),
    "era": (0, 1),
    "hour": (0, 23),
    "minute": (0, 59),
    "second": (0, 59),
    "millisecond": (0, 59_999),
    "microsecond": (0, 59_999_999),
}
_AROUND = {"year": 6_000_000, "isoyear": 6_000_000, "decade": 600_000, "century": 60_000, "millennium": 6_000}
_AROUND["yearweek"] = 600_000_000
"""Beyond what the part can be of any date and timestamp that DuckDB has; all of these never decrease with the date."""

_SCALE = Interval(Fraction(-(2**48)), Fraction(2**48))
"""Around the seconds since 1970, and the Julian days, of every date that DuckDB has (infinite ones have none)."""

_OF_DAYS = frozenset(PARTS) - {"hour", "minute", "second", "millisecond", "microsecond", "epoch", "julian"}
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
    "epoch": exp.TimeToUnix,
}
"""The functions, not EXTRACT: of an argument that is always NULL, DuckDB types EXTRACT as a DOUBLE. Parts without a
node here are called by their names."""


def part_named(text: str, span: Span | None, among: tuple[str, ...] = tuple(PARTS)) -> str:
    """The canonical name of a part, or a refusal with the nearest one."""
    part = _BY_WORD.get(text.lower())
    if part is None or part not in among:
        raise refusal(
            "DP231",
            f'"{text.lower()}" is not a part of a date that is answered here{nearest(text, among)}',
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
    """EXTRACT(part FROM d): an integer; of epoch and julian a DOUBLE. NULL of an infinite date."""
    a = dated(a, part)
    nullable = a.facts.nullable or not held(a.facts).is_bounded
    node = _NODES.get(part)
    tree = exp.Anonymous(this=part.upper(), expressions=[a.tree]) if node is None else node(this=a.tree)
    if part in ("epoch", "julian"):
        exact, holds = (_time_scale(part, of(a.facts)) for of in (known, held))
        step = Fraction(1) if a.facts.type == DATE else None
        facts = facts_of(DOUBLE, exact, holds if holds.is_bounded else _SCALE, nullable=nullable, step=step)
        return Scalar(tree, facts, span)
    domain, _ = mapped(lambda d: part_of(d, part), [by_day(a.facts) if part in _OF_DAYS else a.facts])
    if part in _LIMITS:
        exact = holds = Interval(*(Fraction(end) for end in _LIMITS[part]))
    else:
        around = Fraction(_AROUND[part])
        exact, holds = (image(of(a.facts), lambda d: Fraction(part_of(d, part))) for of in (known, held))
        holds = Interval(-around if holds.lo is None else holds.lo, around if holds.hi is None else holds.hi)
    return settled(tree, facts_of(INTEGER, exact, holds, domain=domain, nullable=nullable), [a], span)


def _time_scale(part: str, a: Interval) -> Interval:
    """Seconds since 1970, or days since 4714 BC, of an interval of dates."""
    if not a.is_bounded:
        return Interval()
    unit, origin = (1, 0) if part == "epoch" else (86_400, 2_440_588)
    return floating(image(a, lambda d: Fraction(epoch_of(d), 1_000_000 * unit) + origin))


def count_since_1970(name: str, a: Scalar, span: Span | None) -> Scalar:
    """epoch_ms, epoch_us of a date: whole milliseconds, microseconds. DuckDB raises far beyond the calendar."""
    unit = 1_000 if name == "epoch_ms" else 1
    a = calculable(a)
    ends = [image(of(a.facts), lambda d: Fraction(epoch_of(d) // unit)) for of in (known, held)]
    domain, _ = mapped(lambda d: epoch_of(as_date(d)) // unit, [a.facts])
    tree: exp.Expr = exp.Anonymous(this=name.upper(), expressions=[a.tree])
    if name == "epoch_ms":
        tree = exp.UnixToTime(this=a.tree, scale=exp.Literal.number("3"))
    return settled(tree, facts_of(INTEGER, *ends, domain=domain, nullable=a.facts.nullable), [a], span)


def since_1970(a: Scalar, span: Span | None) -> Scalar:
    """epoch_ms(n): the TIMESTAMP so many milliseconds after 1970, in the years 1 to 9999, else NULL."""
    ends = [Fraction(epoch_of(end) // 1_000) for end in (datetime.min, datetime.max)]
    a = guarded(a, Interval(*ends))
    first, second = (_moments(of(a.facts)) for of in (known, held))
    tree = exp.UnixToTime(this=a.tree, scale=exp.Literal.number("3"))
    return Scalar(tree, facts_of(TIMESTAMP, first, second, nullable=a.facts.nullable), span)


def _moments(a: Interval) -> Interval:
    def moment(end: object) -> datetime | None:
        assert end is None or isinstance(end, Fraction)
        try:
            return None if end is None else datetime(1970, 1, 1) + timedelta(milliseconds=int(end))
        except OverflowError:
            return None

    return Interval(moment(a.lo), moment(a.hi))


def named(node: type[exp.Expr], a: Scalar, span: Span | None) -> Scalar:
    """dayname, monthname: in English, whatever the locale."""
    a = dated(a, node.__name__.lower())
    form = "%A" if node is exp.Dayname else "%B"
    domain, _ = mapped(lambda d: written(moment_of(as_date(d)), form), [by_day(a.facts)])
    if domain is None:
        january = (date(2001, 1, 1) + timedelta(days=n) for n in range(365))
        domain = sorted({written(moment_of(d), form) for d in january})
    nullable = a.facts.nullable or not held(a.facts).is_bounded
    return settled(node(this=a.tree), facts_of(VARCHAR, domain=domain, nullable=nullable), [a], span)


def formatted(a: Scalar, form: Scalar, span: Span | None) -> Scalar:
    """strftime(d, '%Y-%m'), with its arguments in either order."""
    if form.facts.type.kind in (Kind.DATE, Kind.TIMESTAMP):
        a, form = form, a
    a = calculable(dated(a, "strftime"))
    wanted = format_of(form, "strftime", span)
    days = by_day(a.facts) if is_of_days(wanted) else a.facts
    domain, _ = mapped(lambda d: written(moment_of(as_date(d)), wanted), [days])
    return made(exp.TimeToStr(this=a.tree, format=form.tree), [a], domain, 1, span)


def read(a: Scalar, form: Scalar, span: Span | None) -> Scalar:
    """strptime, try_strptime: a TIMESTAMP, NULL where the text is none of the format (strptime raises in DuckDB)."""
    a = text(a, "strptime")
    format_of(form, "strptime", span)
    tree = exp.Anonymous(this="TRY_STRPTIME", expressions=[a.tree, form.tree])
    return Scalar(tree, facts_of(TIMESTAMP, nullable=True), span)


def by_day(facts: Facts) -> Facts:
    """For what is a function of the day: the days of a TIMESTAMP's known interval."""
    if facts.type != TIMESTAMP or facts.domain is not None:
        return facts
    return facts_of(DATE, image(known(facts), _day), image(held(facts), _day), nullable=facts.nullable)


def _day(moment: date) -> date:
    return moment.date() if isinstance(moment, datetime) else moment
