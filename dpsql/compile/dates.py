"""Dates and timestamps: truncation, differences, ages, buckets, dates made of numbers.

DuckDB raises "Date out of range" near the ends of its types, which bounded columns never reach. Where the held
interval does not prove that, the calculation is done for the years 1 to 9999 only and gives NULL elsewhere
(infinity included): those are the dates that a fact can bound. It is the argument that is guarded, never the result:
a calculation then meets no dangerous value even where the engine computes a branch that it does not need.
"""

from __future__ import annotations

from datetime import date
from fractions import Fraction

from sqlglot import exp

from dpsql.compile.guards import calculable, guarded
from dpsql.compile.ir import MAX_INFERRED_KEYS, Facts, Scalar, Value
from dpsql.compile.kinds import DATE, INTEGER, TIMESTAMP, VARCHAR, convert, settled, unify, words
from dpsql.compile.literals import cast, try_cast
from dpsql.compile.moments import (
    MONTHS,
    SECONDS,
    as_date,
    bucket_of,
    image,
    last_day_of,
    ordinal,
    shifted,
    truncated,
)
from dpsql.compile.parts import by_day, dated
from dpsql.compile.ranges import Interval, facts_of, held, known, mapped, minus, monotone, toward_zero
from dpsql.compile.shifts import Step
from dpsql.compile.trees import wrapped
from dpsql.errors import Span, refusal


def truncate(unit: str, a: Scalar, span: Span | None) -> Scalar:
    """date_trunc(unit, d): a TIMESTAMP, of a DATE too, as in DuckDB 2."""
    a = calculable(dated(a, "date_trunc"))
    first, second = (image(i, lambda d: truncated(d, unit)) for i in (known(a.facts), held(a.facts)))
    domain, _ = mapped(lambda d: truncated(as_date(d), unit), [_by_unit(a.facts, unit)])
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

    def exactly(one: Value, other: Value) -> Value:
        apart = ordinal(as_date(other), counted) - ordinal(as_date(one), counted)
        return abs(apart) // size * (1 if apart > 0 else -1)

    domain, _ = mapped(exactly, [a.facts, b.facts])
    tree = exp.DateDiff(this=b.tree, expression=a.tree, unit=exp.Var(this=unit.upper()))
    if unit != "week":
        tree.set("date_part_boundary", True)  # as sqlglot reads it; without it, it would truncate both dates
    ends = [_boundaries(unit, of(a.facts), of(b.facts)) for of in (known, held)]
    facts = facts_of(INTEGER, ends[0], ends[1], domain=domain, nullable=a.facts.nullable or b.facts.nullable)
    return settled(tree, facts, [a, b], span)


def _boundaries(unit: str, one: Interval, other: Interval) -> Interval:
    """How many boundaries of a unit may lie between two dates."""
    counted, size = ("day", 7) if unit == "week" else (unit, 1)
    whole = minus(*(image(i, lambda d: Fraction(ordinal(d, counted))) for i in (other, one)))
    return toward_zero(monotone(whole, lambda days: days / size))


def whole_units(unit: str, start: Scalar, end: Scalar, span: Span | None) -> Scalar:
    """date_sub(unit, start, end), datesub: whole units between the two, one less than the boundaries at most."""
    dates = [calculable(dated(d, "date_sub")) for d in (start, end)]
    _, (a, b) = unify(dates, "date_sub")
    ends = [_complete(_boundaries(unit, of(a.facts), of(b.facts))) for of in (known, held)]
    tree = exp.Anonymous(this="DATE_SUB", expressions=[exp.Literal.string(unit), a.tree, b.tree])
    facts = facts_of(INTEGER, ends[0], ends[1], nullable=a.facts.nullable or b.facts.nullable)
    return Scalar(tree, facts, span)


def age_part(part: str, end: Scalar, start: Scalar, span: Span | None) -> Scalar:
    """EXTRACT(year FROM age(end, start)), and so for month and day: the years, and the months and days beyond them."""
    if part not in _AGE_PARTS:
        raise refusal(
            "DP231",
            f"{part} of an age is not answered",
            span=span,
            repair="take its year, month or day, or write date_diff('second', a, b)",
        )
    a, b = (convert(calculable(dated(d, "age")), TIMESTAMP) for d in (end, start))
    most = Fraction(_AGE_PARTS[part][0])
    ends = [Interval(-most, most)] * 2
    if part == "year":
        ends = [_complete(_boundaries("year", of(b.facts), of(a.facts))) for of in (known, held)]
    age = exp.Anonymous(this="AGE", expressions=[a.tree, b.tree])
    facts = facts_of(INTEGER, ends[0], ends[1], nullable=a.facts.nullable or b.facts.nullable)
    return Scalar(_AGE_PARTS[part][1](this=age), facts, span)


_AGE_PARTS: dict[str, tuple[int, type[exp.Expr]]] = {
    "year": (9_999, exp.Year),
    "month": (11, exp.Month),
    "day": (31, exp.Day),
}


def _complete(boundaries: Interval) -> Interval:
    """Whole units where there are so many boundaries: one fewer, unless there is none."""
    lo, hi = boundaries.lo, boundaries.hi
    assert lo is None or isinstance(lo, Fraction)
    assert hi is None or isinstance(hi, Fraction)
    return Interval(None if lo is None else lo - (lo > 0), None if hi is None else hi + (hi < 0))


def last_day(a: Scalar, span: Span | None) -> Scalar:
    """last_day(d): a DATE, the last one of its month."""
    a = calculable(dated(a, "last_day"))
    first, second = (image(of(a.facts), last_day_of) for of in (known, held))
    domain, _ = mapped(lambda d: last_day_of(as_date(d)), [by_day(a.facts)])
    facts = facts_of(DATE, first, second, domain=domain, nullable=a.facts.nullable)
    return settled(exp.LastDay(this=a.tree), facts, [a], span)


def bucket(step: Step, a: Scalar, span: Span | None) -> Scalar:
    """time_bucket(INTERVAL 7 DAY, d): the start of d's bucket, of the type of d. Days and weeks count from Monday,
    2000-01-03, months and years from 2000-01-01."""
    a = dated(a, "time_bucket")
    whole_days = step.seconds % SECONDS["day"] == 0
    if (step.months > 0) == (step.seconds > 0) or step.months < 0 or step.seconds < 0:
        raise refusal("DP231", "the width of time_bucket is above 0, in months or in days", span=span)
    if a.facts.type == DATE and not whole_days:
        raise refusal("DP231", "dates have no buckets below a day", span=span, repair="CAST(d AS TIMESTAMP)")
    a = calculable(a)

    def start(value: Value) -> date | None:
        begun = bucket_of(as_date(value), step.months, step.seconds)
        return begun if begun is None or a.facts.type == TIMESTAMP else begun.date()

    first, second = (image(of(a.facts), start) for of in (known, held))
    domain, gone = mapped(start, [by_day(a.facts) if whole_days else a.facts])
    domain = None if gone or domain is None else domain
    tree = exp.DateBin(this=step.trees[0], expression=a.tree)
    facts = facts_of(a.facts.type, first, second, domain=domain, nullable=a.facts.nullable)
    return settled(tree, facts, [a], span)


def made_of(year: Scalar, month: Scalar, day: Scalar, span: Span | None) -> Scalar:
    """make_date(y, m, d): the date of the years 1 to 9999 that the numbers name, else NULL. It is cast from its text,
    which no number makes fail."""
    limits = (("year", year, 9_999), ("month", month, 12), ("day", day, 31))
    numbers = []
    for name, number, most in limits:
        if number.facts.type != INTEGER:
            reason = f"the {name} of make_date is not an integer but {words(number.facts)}"
            raise refusal("DP232", reason, span=number.span, repair="write CAST(x AS BIGINT)")
        numbers.append(guarded(convert(number, INTEGER), Interval(Fraction(1), Fraction(most))))

    def named(y: Value, m: Value, d: Value) -> date | None:
        try:
            return date(int(y), int(m), int(d))  # type: ignore[arg-type]
        except (ValueError, OverflowError):
            return None

    domain, _ = mapped(named, [n.facts for n in numbers])
    tree: exp.Expr = cast(numbers[0].tree, VARCHAR)
    for number in numbers[1:]:
        tree = exp.DPipe(this=tree, expression=exp.Literal.string("-"), safe=True)
        tree = exp.DPipe(this=tree, expression=cast(number.tree, VARCHAR), safe=True)
    first, second = (_whole_years(of(numbers[0].facts)) for of in (known, held))
    facts = facts_of(DATE, first, second, domain=domain or None, nullable=True)
    return Scalar(try_cast(tree, DATE), facts, span)


def _whole_years(years: Interval) -> Interval:
    lo, hi = years.lo, years.hi
    assert lo is None or isinstance(lo, Fraction)
    assert hi is None or isinstance(hi, Fraction)
    first = date(min(max(1, int(lo)), 9999), 1, 1) if lo is not None else date.min
    last = date(min(max(1, int(hi)), 9999), 12, 31) if hi is not None else date.max
    return Interval(first, last)


def _by_unit(facts: Facts, unit: str) -> Facts:
    """For what is a function of the unit of time: the beginning of each in the known interval."""
    if facts.domain is not None or not known(facts).is_bounded:
        return facts
    moment, last = (truncated(as_date(end), unit) for end in (facts.lo, facts.hi))
    if ordinal(last, unit) - ordinal(moment, unit) >= MAX_INFERRED_KEYS:
        return facts
    moments: list[Value] = [moment]
    while moment < last:
        following = shifted(moment, MONTHS.get(unit, 0), SECONDS.get(unit, 0))
        if following is None:
            return facts
        moment = following
        moments.append(moment)
    return facts_of(TIMESTAMP, known(facts), held(facts), domain=moments, nullable=facts.nullable)


def days_between(a: Scalar, b: Scalar, span: Span | None) -> Scalar:
    """DATE - DATE: days, as a BIGINT. Total for every date, infinite ones included."""
    if not a.facts.type == b.facts.type == DATE:
        raise refusal(
            "DP232",
            "the difference of timestamps is an INTERVAL, which no expression here can use",
            span=span,
            repair="write date_diff('second', a, b), or another unit",
        )
    ends = [minus(*(image(of(s.facts), lambda d: Fraction(d.toordinal())) for s in (a, b))) for of in (known, held)]
    domain, _ = mapped(lambda x, y: as_date(x).toordinal() - as_date(y).toordinal(), [a.facts, b.facts])
    tree = exp.Sub(this=wrapped(a.tree), expression=wrapped(b.tree))
    facts = facts_of(INTEGER, ends[0], ends[1], domain=domain, nullable=a.facts.nullable or b.facts.nullable)
    return settled(tree, facts, [a, b], span)
