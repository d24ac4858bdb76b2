"""Intervals: what is known of the values of an expression, and how each operator moves it.

Two intervals travel with every expression. The *known* one (`Facts.lo`, `Facts.hi`) holds for the rows that the
statement keeps: WHERE and CASE narrow it; ranges, public keys and noise rest on it, and SQL makes it true by a
clamp. The *held* one holds for every row the engine may look at: the optimizer may compute an expression before
a filter that stands above it, so proofs that nothing overflows rest on the held interval alone. It starts from
what the snapshot enforces and the range of the type, and no predicate ever changes it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from fractions import Fraction
from itertools import product
from typing import Any

from dpsql.compile.ir import MAX_INFERRED_KEYS, Facts, Value
from dpsql.compile.literals import INT64, decimal_of
from dpsql.policy.facts import Kind, SqlType

Bound = Fraction | date | datetime
Number = Fraction | float
"""An end of a numeric interval; a float is one of the two infinities."""


@dataclass(frozen=True, slots=True)
class Interval:
    """Inclusive; None = unbounded. Of a DOUBLE, `hi` None also means that NaN is possible (SQL orders it last)."""

    lo: Bound | None = None
    hi: Bound | None = None

    @property
    def is_bounded(self) -> bool:
        return self.lo is not None and self.hi is not None


@dataclass(frozen=True, slots=True)
class HeldFacts(Facts):
    """Facts whose held interval differs from the known one. Made by narrowing and by what is computed from it."""

    least: Bound | None = None
    most: Bound | None = None


EVERYTHING = Interval()


def known(facts: Facts) -> Interval:
    return Interval(facts.lo, facts.hi)


def held(facts: Facts) -> Interval:
    """The interval that holds before any filter; for INTEGER and DECIMAL never open."""
    if isinstance(facts, HeldFacts):
        return Interval(facts.least, facts.most)
    return _closed(facts.type, Interval(facts.lo, facts.hi))


def _closed(type_: SqlType, interval: Interval) -> Interval:
    """With the ends of the type where there were none."""
    if type_.kind is Kind.INTEGER:
        least, most = Fraction(INT64[0]), Fraction(INT64[1])
    elif type_.kind is Kind.DECIMAL:
        most = Fraction(10**type_.width - 1, 10**type_.scale)
        least = -most
    else:
        return interval
    return Interval(least if interval.lo is None else interval.lo, most if interval.hi is None else interval.hi)


def is_huge(facts: Facts) -> bool:
    """Whether an INTEGER needs more than 64 bits: then its tree is a HUGEINT."""
    interval = held(facts)
    return facts.type.kind is Kind.INTEGER and not (interval.lo >= INT64[0] and interval.hi <= INT64[1])  # type: ignore[operator]


def facts_of(
    type_: SqlType,
    interval: Interval = EVERYTHING,
    holds: Interval = EVERYTHING,
    *,
    domain: Iterable[Value] | None = None,
    nullable: bool,
    step: Fraction | None = None,
    size: int = 1,
) -> Facts:
    """Facts from both intervals. A domain sharpens the known interval; too large a one is forgotten."""
    values = None if domain is None else tuple(sorted(set(domain)))
    if values is not None and len(values) > MAX_INFERRED_KEYS:
        values = None
    if values and type_.kind not in (Kind.BOOLEAN, Kind.VARCHAR):
        interval = Interval(bound_of(values[0]), bound_of(values[-1]))
    step = _useful(step, interval) if type_.kind is Kind.DOUBLE else None
    facts = Facts(type_, interval.lo, interval.hi, values, nullable, step, size)
    closed = _closed(type_, holds)
    if held(facts) == closed:
        return facts
    return HeldFacts(type_, interval.lo, interval.hi, values, nullable, step, size, closed.lo, closed.hi)


def _useful(step: Fraction | None, interval: Interval) -> Fraction | None:
    """A grid that is not too fine for its range: products of steps soon are, and sums of such numbers would not fit."""
    lo, hi = interval.lo, interval.hi
    too_fine = step and isinstance(lo, Fraction) and isinstance(hi, Fraction) and (hi - lo) / step > MAX_GRID
    return None if too_fine or not step else step


MAX_GRID = 2**32
"""Steps in the range of a DOUBLE."""


def bound_of(value: Value) -> Bound:
    """A value as an end of an interval."""
    return value if isinstance(value, date) else Fraction(value)


def finite(facts: Facts) -> tuple[Value, ...] | None:
    """Every value but NULL, ascending, where that is known and not too many; else None."""
    count = how_many(facts)
    if facts.domain is not None or count is None or count > MAX_INFERRED_KEYS:
        return facts.domain
    kind, lo, scale = facts.type.kind, facts.lo, facts.type.scale
    if isinstance(lo, date):
        return tuple(lo + timedelta(days=days) for days in range(count))
    if not isinstance(lo, Fraction):
        return (False, True)
    first = math.ceil(lo * 10**scale)
    if kind is Kind.INTEGER:
        return tuple(range(first, first + count))
    return tuple(decimal_of(Fraction(first + n, 10**scale), scale) for n in range(count))


def how_many(facts: Facts) -> int | None:
    """How many values `finite` has, or would have if it listed so many; None where they are not finitely many."""
    kind, lo, hi = facts.type.kind, facts.lo, facts.hi
    if facts.domain is not None:
        return len(facts.domain)
    if kind is Kind.BOOLEAN:
        return 2
    if kind is Kind.DATE and isinstance(lo, date) and isinstance(hi, date):
        return (hi - lo).days + 1
    if kind in (Kind.INTEGER, Kind.DECIMAL) and isinstance(lo, Fraction) and isinstance(hi, Fraction):
        unit = int(10**facts.type.scale)
        return max(0, math.floor(hi * unit) - math.ceil(lo * unit) + 1)
    return None


def mapped(
    function: Callable[..., Value | None], arguments: Sequence[Facts], limit: int = MAX_INFERRED_KEYS
) -> tuple[list[Value] | None, bool]:
    """All values of a strict function over finite domains, and whether one of them is NULL.

    `function` is exact, or raises Unsure; then, or where it would have to be computed more than `limit` times, the
    domain is None. The limit is low where a domain is worth little beside the interval, to keep compilation short."""
    counts = [how_many(facts) for facts in arguments]
    if any(count is None for count in counts) or math.prod(count for count in counts if count is not None) > limit:
        return None, False
    domains = [finite(facts) or () for facts in arguments]
    try:
        values = {function(*row) for row in product(*domains)}
    except Unsure:
        return None, False
    null = None in values
    return [v for v in values if v is not None], null


class Unsure(Exception):
    """Python might not compute what DuckDB computes; nothing is inferred then."""


def hull(intervals: Sequence[Interval]) -> Interval:
    """The least interval around all."""
    los, his = [i.lo for i in intervals], [i.hi for i in intervals]
    return Interval(
        None if not los or None in los else min(los),  # type: ignore[type-var]
        None if not his or None in his else max(his),  # type: ignore[type-var]
    )


def joined(branches: Sequence[Facts], type_: SqlType, *, nullable: bool) -> Facts:
    """Facts of an expression that takes the value of one of its branches, all of one type."""
    counts = [how_many(b) for b in branches]
    domain = None
    if None not in counts and sum(count for count in counts if count is not None) <= MAX_INFERRED_KEYS:
        domain = [value for b in branches for value in finite(b) or ()]
    some = [b for b in branches if b.domain != ()] or branches  # what is always NULL has no value to bound
    return facts_of(
        type_,
        hull([known(b) for b in some]),
        hull([held(b) for b in branches]),
        domain=domain,
        nullable=nullable,
        step=common_step(some),
        size=max((b.size for b in branches), default=1),
    )


def step_of(facts: Facts) -> Fraction | None:
    """The grid that an expression's values lie on, as far as it is known; 0 for the literal 0, which is on all."""
    if facts.type.kind is not Kind.DOUBLE:
        return Fraction(1, 10**facts.type.scale) if facts.is_numeric else None
    if facts.step is None and facts.domain is not None and len(facts.domain) == 1:
        return abs(Fraction(repr(facts.domain[0])))  # a literal: 0.1 as it is written, not as it is stored
    return facts.step


def common_step(several: Iterable[Facts]) -> Fraction | None:
    """The coarsest grid that contains the grids of all; None where one has none."""
    common = Fraction(0)
    for facts in several:
        step = step_of(facts)
        if step is None:
            return None
        bottom = math.lcm(common.denominator, step.denominator)
        common = Fraction(math.gcd(int(common * bottom), int(step * bottom)), bottom)
    return common or None


# Interval arithmetic. Ends are exact; an open end is an infinity, and 0 times infinity is 0, since an open
# interval of numbers holds no infinity but those that `floating` takes care of.


def plus(a: Interval, b: Interval) -> Interval:
    return Interval(_sum(a.lo, b.lo), _sum(a.hi, b.hi))


def minus(a: Interval, b: Interval) -> Interval:
    return plus(a, negative(b))


def negative(a: Interval) -> Interval:
    return Interval(None if a.hi is None else -a.hi, None if a.lo is None else -a.lo)  # type: ignore[operator]


def times(a: Interval, b: Interval) -> Interval:
    return _around([_product(x, y) for x in _ends(a) for y in _ends(b)])


def magnitude(a: Interval) -> Interval:
    lo, hi = _ends(a)
    sizes: list[Number] = [_size(lo), _size(hi)]
    around = _around(sizes)
    return Interval(Fraction(0), around.hi) if lo <= 0 <= hi else around


def quotient(a: Interval, b: Interval, grain: Fraction | None) -> Interval:
    """a / b for b other than 0; `grain` is the least |b| possible (None: arbitrarily small)."""
    lo, hi = _ends(b)
    if lo <= 0 <= hi:
        if grain is None:
            return EVERYTHING
        parts: list[tuple[Number, Number]] = [(lo, -grain)] if lo <= -grain else []
        parts += [(grain, hi)] if hi >= grain else []
    else:
        parts = [(lo, hi)]
    return _around([_ratio(x, y) for x in _ends(a) for part in parts for y in part] or [Fraction(0)])


def toward_zero(a: Interval) -> Interval:
    """Cut to whole numbers, as integer division does."""
    return Interval(*(None if end is None else Fraction(math.trunc(end)) for end in (a.lo, a.hi)))  # type: ignore[arg-type]


def remainder(a: Interval, b: Interval, grain: Fraction) -> Interval:
    """a % b: the sign of a, no further from 0 than a, and less than |b| (by `grain` at least: 0 for a DOUBLE)."""
    lo, hi = _ends(a)
    most = max([_size(end) for end in _ends(b)], key=_order) - grain
    top = Fraction(0) if hi <= 0 else max(Fraction(0), min(most, hi))
    bottom = Fraction(0) if lo >= 0 else min(Fraction(0), max(-most, lo))
    return _from(bottom, top)


def monotone(a: Interval, function: Callable[[Fraction], Fraction]) -> Interval:
    """The image under a function that never decreases."""
    return Interval(*(None if end is None else function(end) for end in (a.lo, a.hi)))  # type: ignore[arg-type]


def floating(a: Interval, *operands: Interval) -> Interval:
    """What a DOUBLE can be whose exact value lies in `a`: each end is moved outward to a double.

    Rounding to nearest never passes a double, so no value leaves the interval. Where an operand is open the result
    may be infinite or NaN, and where an end is beyond the largest double it may overflow: then nothing is known."""
    if not all(o.is_bounded for o in (a, *operands)):
        return EVERYTHING
    lo, hi = double_below(a.lo), double_below(-a.hi)  # type: ignore[operator, arg-type]
    return EVERYTHING if lo is None or hi is None else Interval(lo, -hi)


def double_below(value: Fraction) -> Fraction | None:
    """A double at or below a number, None where there is none that is finite."""
    try:
        nearest = float(value)
    except OverflowError:
        return None
    if Fraction(nearest) == value:
        return value
    below = math.nextafter(math.nextafter(nearest, -math.inf), -math.inf)  # one more: for conversions in two roundings
    return None if math.isinf(below) else Fraction(below)


def _ends(a: Interval) -> tuple[Number, Number]:
    return (-math.inf if a.lo is None else a.lo, math.inf if a.hi is None else a.hi)  # type: ignore[return-value]


def _around(corners: Sequence[Number]) -> Interval:
    return _from(min(corners, key=_order), max(corners, key=_order))


def _size(value: Number) -> Number:
    return -value if value < 0 else value


def _order(value: Number) -> Any:
    return value  # for mypy, to which a Fraction and an infinity do not compare


def _from(lo: Number, hi: Number) -> Interval:
    return Interval(*(None if isinstance(end, float) else end for end in (lo, hi)))


def _sum(a: Bound | None, b: Bound | None) -> Bound | None:
    return None if a is None or b is None else a + b  # type: ignore[operator]


def _product(a: Number, b: Number) -> Number:
    return Fraction(0) if a == 0 or b == 0 else a * b


def _ratio(a: Number, b: Number) -> Number:
    """a / b for b other than 0."""
    if isinstance(b, float):
        return Fraction(0)
    return a / b
