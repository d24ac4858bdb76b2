"""Dates moved: by whole days, by INTERVAL literals, by so many units as a row says (to_days(n), INTERVAL (n) DAY).

From the years 1 to 9999 no step that is answered leaves DuckDB's types: literals are limited when they are read, and
numbers of a column are NULL beyond the same limits.
"""

from __future__ import annotations

import re
from datetime import date
from fractions import Fraction
from typing import NamedTuple

from sqlglot import exp

from dpsql.compile.guards import calculable, guarded
from dpsql.compile.ir import Scalar
from dpsql.compile.kinds import DATE, DOUBLE, INTEGER, TIMESTAMP, convert, settled, words
from dpsql.compile.literals import cast
from dpsql.compile.moments import MONTHS, SECONDS, as_date, day_after, shifted, shifted_days, shifted_span
from dpsql.compile.parts import dated, part_named
from dpsql.compile.ranges import Interval, facts_of, held, known, mapped, minus, negative
from dpsql.compile.trees import unwrapped, wrapped
from dpsql.errors import Span, refusal

UNITS = ("year", "quarter", "month", "week", "day", "hour", "minute", "second")
"""Parts that are spans of time: what date_trunc, date_diff and INTERVAL take."""

MAX_STEP_YEARS = 100_000
MAX_STEP_DAYS = 2 * 10**9
"""How far an INTERVAL, and a number of days, may move: from the years 1 to 9999 that stays inside DuckDB's types."""

MAKERS: dict[str, type[exp.Expr] | str] = {
    "year": "TO_YEARS",
    "quarter": "TO_QUARTERS",
    "month": "TO_MONTHS",
    "week": "TO_WEEKS",
    "day": exp.ToDays,
    "hour": "TO_HOURS",
    "minute": "TO_MINUTES",
    "second": "TO_SECONDS",
}
"""DuckDB's functions that make an INTERVAL of a number."""


class Step(NamedTuple):
    """An INTERVAL literal: so many months, then so many seconds; `trees` are its canonical forms, without its sign."""

    months: int
    seconds: int
    trees: tuple[exp.Expr, ...]


class Variable(NamedTuple):
    """So many units as an expression says."""

    unit: str
    amount: exp.Expr


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
    first, second = (shifted_span(of(a.facts), (months, months), (seconds, seconds)) for of in (known, held))
    domain, gone = mapped(lambda d: shifted(as_date(d), months, seconds), [a.facts])
    domain = None if gone else domain  # a moment that Python has no date for
    node = exp.Add if sign > 0 else exp.Sub
    tree = a.tree
    for part in step.trees:
        tree = node(this=wrapped(tree), expression=part)
    return settled(tree, facts_of(TIMESTAMP, first, second, domain=domain, nullable=a.facts.nullable), [a], span)


def moved_by(a: Scalar, unit: str, amount: Scalar, sign: int, span: Span | None) -> Scalar:
    """d + to_days(n), d - INTERVAL (n) MONTH: by a number of units that a row gives."""
    if amount.facts.type != INTEGER:
        raise refusal(
            "DP232",
            f"a date moves by a whole number of units, and here is {words(amount.facts)}",
            span=amount.span,
            repair="write CAST(n AS BIGINT)",
        )
    size = MONTHS.get(unit) or SECONDS[unit]
    limit = Fraction((12 if unit in MONTHS else 86_400 * 365) * MAX_STEP_YEARS // size)
    a = calculable(dated(a, "INTERVAL"))
    amount = guarded(convert(amount, INTEGER), Interval(-limit, limit))
    ends = [
        _span(of(a.facts), of(amount.facts) if sign > 0 else negative(of(amount.facts)), unit) for of in (known, held)
    ]
    domain, gone = mapped(
        lambda d, n: _after(as_date(d), sign * int(n), unit),
        [a.facts, amount.facts],
    )
    domain = None if gone else domain
    maker = MAKERS[unit]
    number = cast(amount.tree, DOUBLE) if unit == "second" else amount.tree
    step = exp.Anonymous(this=maker, expressions=[number]) if isinstance(maker, str) else maker(this=number)
    node = exp.Add if sign > 0 else exp.Sub
    tree = node(this=wrapped(a.tree), expression=step)
    nullable = a.facts.nullable or amount.facts.nullable
    return settled(tree, facts_of(TIMESTAMP, ends[0], ends[1], domain=domain, nullable=nullable), [a, amount], span)


def _after(start: date, steps: int, unit: str) -> date | None:
    return shifted(start, steps * MONTHS.get(unit, 0), steps * SECONDS.get(unit, 0))


def _span(start: Interval, steps: Interval, unit: str) -> Interval:
    """Around every moment of an interval, moved by every number of steps of another."""
    if not steps.is_bounded:
        return Interval()
    least, most = (int(end) for end in (steps.lo, steps.hi))  # type: ignore[arg-type]
    month, second = MONTHS.get(unit, 0), SECONDS.get(unit, 0)
    return shifted_span(start, (least * month, most * month), (least * second, most * second))


def step_of(node: exp.Expr, span: Span | None) -> Step | Variable | None:
    """What an operand beside + or - of a date is as an INTERVAL; None where it is none."""
    node = unwrapped(node)
    if isinstance(node, exp.Interval):
        unit = node.args.get("unit")
        if isinstance(node.this, exp.Paren) and isinstance(unit, exp.Var) and not _is_number(node.this):
            return Variable(part_named(str(unit.this), span, UNITS), unwrapped(node.this))
        return step_of_literal(node, span)
    if isinstance(node, exp.Mul):
        for one, other in ((node.this, node.expression), (node.expression, node.this)):
            if isinstance(unwrapped(one), exp.Interval):
                return _times(step_of_literal(unwrapped(one), span), other, span)
    for unit_name, maker in MAKERS.items():
        if isinstance(maker, str) and isinstance(node, exp.Anonymous) and str(node.this).upper() == maker:
            if len(node.expressions) == 1:
                return Variable(unit_name, node.expressions[0])
        elif isinstance(maker, type) and isinstance(node, maker):
            return Variable(unit_name, node.this)
    return None


def _is_number(node: exp.Expr) -> bool:
    while isinstance(node, exp.Paren | exp.Neg):
        node = node.this
    return isinstance(node, exp.Literal)


def _times(step: Step, amount: exp.Expr, span: Span | None) -> Variable:
    """n * INTERVAL 2 DAY, as 2 * n days."""
    unit, count = ("month", step.months) if step.months else ("second", step.seconds)
    if step.months and step.seconds:
        raise refusal("DP231", "an INTERVAL that is multiplied has one unit", span=span, repair="INTERVAL (n) DAY")
    if unit == "second" and count % SECONDS["day"] == 0 and count:
        unit, count = "day", count // SECONDS["day"]
    number = exp.Literal.number(str(abs(count)))
    factor: exp.Expr = exp.Neg(this=number) if count < 0 else number
    return Variable(unit, exp.Mul(this=exp.Paren(this=amount.copy()), expression=exp.Paren(this=factor)))


def step_of_literal(node: exp.Expr, span: Span | None) -> Step:
    """An INTERVAL literal: whole numbers and units, or a refusal."""
    amounts = [(count, part_named(unit, span, UNITS)) for count, unit in _amounts(node, span)]
    months = sum(count * MONTHS.get(unit, 0) for count, unit in amounts)
    seconds = sum(count * SECONDS.get(unit, 0) for count, unit in amounts)
    if abs(months) > 12 * MAX_STEP_YEARS or abs(seconds) > 86_400 * 365 * MAX_STEP_YEARS:
        raise refusal("DP231", f"an INTERVAL moves by {MAX_STEP_YEARS} years at most", span=span)
    if len(amounts) == 1:
        return Step(months, seconds, (_interval(*amounts[0]),))
    trees = [_interval(n, unit) for n, unit in ((months, "month"), (seconds, "second")) if n]
    return Step(months, seconds, tuple(trees or [_interval(0, "second")]))


_AMOUNT = re.compile(r"[+-]?\d{1,18}", re.ASCII)


def _amounts(node: exp.Expr, span: Span | None) -> list[tuple[int, str]]:
    """The numbers and units of an INTERVAL literal."""
    amount, unit = node.this, node.args.get("unit")
    negative = False
    while isinstance(amount, exp.Paren | exp.Neg):
        negative ^= isinstance(amount, exp.Neg)
        amount = amount.this
    words_ = str(amount.this).split() if isinstance(amount, exp.Literal) else []
    if isinstance(unit, exp.Var):
        words_ = [*words_, str(unit.this)] if len(words_) == 1 else []
    elif negative:
        words_ = []
    pairs = list(zip(words_[::2], words_[1::2], strict=False))
    if not pairs or len(words_) % 2 or not all(_AMOUNT.fullmatch(number) for number, _ in pairs):
        raise refusal(
            "DP231",
            "an INTERVAL is whole numbers, each with its unit",
            span=span,
            repair="write INTERVAL 90 DAY or INTERVAL '1 year 2 months'; for a column to_days(n) or INTERVAL (n) DAY",
        )
    return [(-int(number) if negative else int(number), word) for number, word in pairs]


def _interval(count: int, unit: str) -> exp.Expr:
    return exp.Interval(this=exp.Literal.string(str(count)), unit=exp.Var(this=unit.upper()))
