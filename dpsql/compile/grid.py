"""The grid of an aggregated value: integers k with x = step * k, lo <= k <= hi, and the SQL that puts a value on it.

Noise is drawn on integers and sums are exact, so neither the low-order bits of a float nor the order of addition can
show through (SUM over DOUBLE is never used: eight such values in eight runs, one unit worth 4,001, moved it by 8,001).
Every value is clamped here once more, on its outermost expression, whatever its columns were clamped to. NaN, which
DuckDB orders above infinity, becomes NULL; infinities go to the bounds; NULL stays NULL.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import ceil, floor

from sqlglot import exp

from dpsql.compile.ir import Facts, Scalar
from dpsql.compile.literals import cast, decimal_of, literal, try_cast
from dpsql.compile.trees import copied, wrapped
from dpsql.policy.facts import Kind, SqlType

BIGINT, DOUBLE = SqlType(Kind.INTEGER), SqlType(Kind.DOUBLE)

_MOST_POINTS = 1 << 40
"""Of a DOUBLE grid: beyond it neither step nor noise would be felt."""
_LARGEST = 1 << 51
"""Of |k| on a DOUBLE grid: below it float64 division and rounding are monotone and exact enough (see `to_grid`)."""
_DEFAULT_POINTS = 1 << 20
_DECIMAL_DIGITS = 18
"""A DECIMAL of at most so many digits is one 64-bit integer in DuckDB."""


@dataclass(frozen=True, slots=True)
class Grid:
    """storage: how the engine holds k: as BIGINT (INTEGER and DOUBLE values) or as a DECIMAL of scale `digits`."""

    lo: int
    hi: int
    step: Fraction
    storage: Kind
    digits: int = 0

    @property
    def span(self) -> int:
        """M: the number of steps between the ends, at least 1 (a constant still has to be counted)."""
        return max(self.hi - self.lo, 1)

    def sum_type(self, value: SqlType, limit: int) -> SqlType:
        """The type of a released sum. Whole numbers are BIGINT where 2^33 units with `limit` rows each would fit, so
        that no table of people can overflow it; otherwise a wide DECIMAL."""
        if self.storage is Kind.DECIMAL:
            return SqlType(Kind.DECIMAL, 38, self.digits)
        if value.kind is Kind.INTEGER and self.step == 1:
            small = max(abs(self.lo), abs(self.hi)) * limit < 1 << 29
            return SqlType(Kind.INTEGER) if small else SqlType(Kind.DECIMAL, 38, 0)
        return SqlType(Kind.DOUBLE)


def grid_of(facts: Facts) -> Grid:
    """The grid of a bounded number: its own step for INTEGER and DECIMAL, else the policy's or (hi - lo) / 2^20 rounded
    down to a power of two. Bounds move inward to it."""
    lo, hi = facts.lo, facts.hi
    assert isinstance(lo, Fraction) and isinstance(hi, Fraction)
    if facts.type.kind is Kind.INTEGER and max(abs(lo), abs(hi)) < 1 << 62:
        return _inward(lo, hi, Fraction(1), Kind.INTEGER)
    if facts.type.kind is Kind.DECIMAL:
        digits = facts.type.scale
        if digits <= _DECIMAL_DIGITS and max(abs(lo), abs(hi)) * 10**digits < 10**_DECIMAL_DIGITS:
            return _inward(lo, hi, Fraction(1, 10**digits), Kind.DECIMAL, digits)
    step = facts.step or _power_of_two((hi - lo) / _DEFAULT_POINTS or max(abs(hi), Fraction(1)) / _DEFAULT_POINTS)
    if (hi - lo) / step > _MOST_POINTS or max(abs(lo), abs(hi)) / step >= _LARGEST:
        step = _power_of_two(max((hi - lo) / _DEFAULT_POINTS, max(abs(lo), abs(hi)) / (_LARGEST >> 1)))
    return _inward(lo, hi, step, Kind.DOUBLE)


def coarsened(grid: Grid, most: int) -> Grid:
    """A grid between the same bounds of at most `most` steps, by powers of two of its own step."""
    if grid.span <= most:
        return grid
    lo, hi, step = grid.lo * grid.step, grid.hi * grid.step, grid.step
    while (hi - lo) / step > most or max(abs(lo), abs(hi)) / step >= _LARGEST:
        step *= 2
    return _inward(lo, hi, step, Kind.DOUBLE)


def to_grid(value: Scalar, grid: Grid) -> exp.Expr:
    """SQL for k, clamped; total for every value, NaN and infinities included.

    For DOUBLE: with a = double(lo * step) and b = double(hi * step), a value strictly between a and b has
    lo - 1/2 < x / step < hi + 1/2 in float64 too, since division is monotone and |k| < 2^51 keeps its error below 1/4.
    So round gives lo..hi without a second clamp.
    """
    x = wrapped(value.tree)
    if grid.storage is not Kind.DOUBLE:
        type_ = BIGINT if grid.storage is Kind.INTEGER else SqlType(Kind.DECIMAL, _DECIMAL_DIGITS, grid.digits)
        lo, hi = (
            literal(decimal_of(k * grid.step, grid.digits) if grid.digits else k, type_) for k in (grid.lo, grid.hi)
        )
        return _clamped(x, lo, hi, x if isinstance(value.tree, exp.Column) else try_cast(copied(x), type_))
    if value.facts.type.kind is not Kind.DOUBLE:
        x = try_cast(copied(x), DOUBLE)
    low, high, step = (literal(float(y), DOUBLE) for y in (grid.lo * grid.step, grid.hi * grid.step, grid.step))
    inside = exp.And(this=exp.GT(this=copied(x), expression=low), expression=exp.LT(this=copied(x), expression=high))
    return exp.Case(
        ifs=[
            exp.If(this=inside, true=try_cast(exp.Round(this=exp.Div(this=copied(x), expression=step)), BIGINT)),
            exp.If(this=exp.LTE(this=copied(x), expression=copied(low)), true=literal(grid.lo, BIGINT)),
            exp.If(this=exp.IsNan(this=copied(x)), true=exp.null()),
            exp.If(this=exp.GTE(this=copied(x), expression=copied(high)), true=literal(grid.hi, BIGINT)),
        ]
    )


def above_lo(value: exp.Expr, grid: Grid) -> exp.Expr:
    """k - lo, in 0..M, as BIGINT, from what `to_grid` gave; of a grid whose span a BIGINT holds."""
    k = to_integer(value, grid)
    return exp.Sub(this=wrapped(k), expression=literal(grid.lo, BIGINT)) if grid.lo else k


def to_integer(value: exp.Expr, grid: Grid) -> exp.Expr:
    """k as BIGINT, from what `to_grid` gave. A product of DECIMALs of 64 bits has 18 digits in DuckDB, those after the
    point included: where k times the factor has more, the factor is one of 128 bits, and so is the product."""
    if grid.storage is not Kind.DECIMAL:
        return value
    if grid.digits == 0:  # a DECIMAL all the same: `//` of one and a HUGEINT would be a DOUBLE
        return cast(value, BIGINT)
    factor: exp.Expr = exp.Literal.number(10**grid.digits)
    if max(abs(grid.lo), abs(grid.hi)) * 10**grid.digits >= 10**_DECIMAL_DIGITS:
        factor = cast(factor, SqlType(Kind.DECIMAL, _DECIMAL_DIGITS + 1, 0))
    return cast(exp.Mul(this=wrapped(value), expression=factor), BIGINT)


def _clamped(x: exp.Expr, lo: exp.Expr, hi: exp.Expr, inside: exp.Expr) -> exp.Expr:
    """CASE, not LEAST and GREATEST: those ignore NULL in DuckDB (`LEAST(NULL, 900)` is 900). The common case stands
    first: it makes sums over TPC-H's lineitem a fifth faster."""
    return exp.Case(
        ifs=[
            exp.If(this=exp.Between(this=copied(x), low=copied(lo), high=copied(hi)), true=copied(inside)),
            exp.If(this=exp.LT(this=copied(x), expression=copied(lo)), true=copied(lo)),
            exp.If(this=exp.GT(this=copied(x), expression=copied(hi)), true=copied(hi)),
        ]
    )


def _inward(lo: Fraction, hi: Fraction, step: Fraction, storage: Kind, digits: int = 0) -> Grid:
    low, high = ceil(lo / step), floor(hi / step)
    if low > high:  # no grid point between the bounds: the nearest one stands for both
        low = high = round(lo / step)
    return Grid(low, high, step, storage, digits)


def _power_of_two(x: Fraction) -> Fraction:
    """The largest power of two that is at most x."""
    exponent = x.numerator.bit_length() - x.denominator.bit_length()
    power = Fraction(2) ** exponent
    return power if power <= x else power / 2
