"""contribution_bounds_per_row: a value clamped between two numbers, for any value that an aggregate takes.

Every aggregated value is clamped on its grid, and this says between which bounds: nothing else makes the range true, so
it holds of aggregated values alone. The bounds only ever narrow: where they are wider than what the value can be, there
is nothing to clamp, and the noise is for what both allow.
"""

from __future__ import annotations

from fractions import Fraction
from math import ceil, floor

from dpsql.compile.hints import Bounds
from dpsql.compile.ir import Scalar
from dpsql.compile.ranges import Interval, facts_of, held
from dpsql.errors import Error, refusal
from dpsql.policy.facts import Kind, SqlType
from dpsql.privacy.accounting import show_amount


def clamped(value: Scalar, bounds: Bounds) -> Scalar:
    """An aggregated number between bounds. Raises DP120 where nothing that it can be lies between them."""
    facts, holds = value.facts, held(value.facts)
    lo, hi = _inward(bounds, facts.type)
    least = [n for n in (holds.lo, facts.lo) if isinstance(n, Fraction)]
    most = [n for n in (holds.hi, facts.hi) if isinstance(n, Fraction)]
    inside = Interval(max([lo, *least]), min([hi, *most]))
    if max([lo, *least]) > min([hi, *most]):
        raise empty(bounds, max(least, default=None), min(most, default=None))
    found = facts_of(facts.type, inside, holds, nullable=facts.nullable, step=facts.step, size=facts.size)
    return Scalar(value.tree, found, value.span)


def empty(bounds: Bounds, least: Fraction | None, most: Fraction | None) -> Error:
    """The refusal of bounds between which nothing lies, of what is between these (None = open)."""
    shown = f"from {_shown(least)} to {_shown(most)}"
    reason = f"nothing that is clamped here lies between these bounds: it is {shown}"
    ends = [n for n in (least, most) if n is not None]
    repair = f"write {bounds.name} => ({_shown(ends[0])}, {_shown(ends[1])})" if len(ends) == 2 else "widen them"
    return refusal("DP120", reason, span=bounds.span, repair=repair)


def _inward(bounds: Bounds, type_: SqlType) -> tuple[Fraction, Fraction]:
    """The bounds as the type can hold them, moved inward."""
    if type_.kind is Kind.DOUBLE:
        return Fraction(float(bounds.lo)), Fraction(float(bounds.hi))
    parts = 10**type_.scale if type_.kind is Kind.DECIMAL else 1
    return Fraction(ceil(bounds.lo * parts), parts), Fraction(floor(bounds.hi * parts), parts)


def _shown(number: Fraction | None) -> str:
    return "anything" if number is None else show_amount(number)
