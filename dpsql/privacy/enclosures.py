"""Proved bounds on exp and the normal distribution function: what every Gaussian promise is computed with.

An `Enclosure` is a pair of decimals between which a real number lies. +, -, * and / round the lower end down and the
upper end up, as `decimal` does exactly; its exp, ln and square root are correctly rounded to nearest, so one step
outwards in the last place contains them. No end is ever infinite: arguments are finite, and exponents the widest.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import MAX_EMAX, MIN_EMIN, ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from functools import lru_cache


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """Enclosures of so many digits."""

    digits: int

    @property
    def down(self) -> Context:
        return _context(self.digits, ROUND_FLOOR)

    @property
    def up(self) -> Context:
        return _context(self.digits, ROUND_CEILING)

    def of(self, x: Fraction | int) -> Enclosure:
        n, d = Decimal(Fraction(x).numerator), Decimal(Fraction(x).denominator)
        return Enclosure(self.down.divide(n, d), self.up.divide(n, d), self)


@dataclass(frozen=True, slots=True)
class Enclosure:
    """low <= the number meant <= high."""

    low: Decimal
    high: Decimal
    arithmetic: Arithmetic

    def __add__(self, other: Enclosure) -> Enclosure:
        down, up = self.arithmetic.down, self.arithmetic.up
        return Enclosure(down.add(self.low, other.low), up.add(self.high, other.high), self.arithmetic)

    def __neg__(self) -> Enclosure:
        return Enclosure(self.high.copy_negate(), self.low.copy_negate(), self.arithmetic)

    def __sub__(self, other: Enclosure) -> Enclosure:
        return self + -other

    def __mul__(self, other: Enclosure) -> Enclosure:
        down, up = self.arithmetic.down, self.arithmetic.up
        ends = [(self.low, other.low), (self.high, other.high)]
        if self.low < 0 or other.low < 0:
            ends += [(self.low, other.high), (self.high, other.low)]
        low, high = min(down.multiply(a, b) for a, b in ends), max(up.multiply(a, b) for a, b in ends)
        return Enclosure(low, high, self.arithmetic)

    def __truediv__(self, other: Enclosure) -> Enclosure:
        """The divisor lies above 0."""
        if other.low <= 0:
            raise ValueError("a divisor must be known to lie above 0")
        one = Decimal(1)
        down, up = self.arithmetic.down, self.arithmetic.up
        return self * Enclosure(down.divide(one, other.high), up.divide(one, other.low), self.arithmetic)

    def exp(self) -> Enclosure:
        down, up = self.arithmetic.down, self.arithmetic.up
        low, high = down.next_minus(down.exp(self.low)), up.next_plus(up.exp(self.high))
        return Enclosure(max(low, Decimal(0)), high, self.arithmetic)

    def ln(self) -> Enclosure:
        """Of a number known to lie above 0."""
        down, up = self.arithmetic.down, self.arithmetic.up
        return Enclosure(down.next_minus(down.ln(self.low)), up.next_plus(up.ln(self.high)), self.arithmetic)

    def sqrt(self) -> Enclosure:
        """Of a number known to lie above 0."""
        down, up = self.arithmetic.down, self.arithmetic.up
        return Enclosure(down.next_minus(down.sqrt(self.low)), up.next_plus(up.sqrt(self.high)), self.arithmetic)


def decimal_of(x: Fraction) -> Decimal:
    """x, rounded as the arithmetic at hand rounds."""
    return Decimal(x.numerator) / Decimal(x.denominator)


@lru_cache(maxsize=64)
def _context(digits: int, rounding: str) -> Context:
    return Context(prec=digits, rounding=rounding, Emin=MIN_EMIN, Emax=MAX_EMAX)


def upper_tail(x: Enclosure) -> Enclosure:
    """P[Z > x], Z standard normal: it falls, so its bounds are those at the ends of x."""
    return Enclosure(_tail_at(x.high, x.arithmetic).low, _tail_at(x.low, x.arithmetic).high, x.arithmetic)


_SERIES_TO = 5
"""Up to here the series costs fewer terms than the fraction, and 1/2 minus it no more than seven digits."""


@lru_cache(maxsize=4096)
def _tail_at(point: Decimal, arithmetic: Arithmetic) -> Enclosure:
    of = arithmetic.of
    if point < 0:
        return of(1) - _tail_at(point.copy_negate(), arithmetic)
    x = Enclosure(point, point, arithmetic)
    density = (-(x * x) / of(2)).exp() / _root_of_two_pi(arithmetic)
    if point <= _SERIES_TO:
        return of(Fraction(1, 2)) - density * _series(x)
    return density / _fraction(x)


def _series(x: Enclosure) -> Enclosure:
    """(P[Z <= x] - 1/2) / density(x) = x + x^3/3 + x^5/(3 5) + ..., 0 <= x (by parts). All terms are positive, and once
    each is at most half of the one before, what is left out is at most the last."""
    down, up = x.arithmetic.down, x.arithmetic.up
    square = x * x
    total = term = (x.low, x.high)
    n = 1
    while n < up.multiply(2, square.high) or term[1] > down.scaleb(total[0], -x.arithmetic.digits):
        n += 2
        low, high = down.multiply(term[0], square.low), up.multiply(term[1], square.high)
        term = down.divide(low, n), up.divide(high, n)
        total = down.add(total[0], term[0]), up.add(total[1], term[1])
    return Enclosure(total[0], up.add(total[1], term[1]), x.arithmetic)


def _fraction(x: Enclosure) -> Enclosure:
    """density(x) / P[Z > x] = x + 1/(x + 2/(x + 3/(x + ...))), x > 0 (Laplace).

    With I_0 = P[Z > x] and I_j the integral of (t-x)^j/j! density(t) beyond x, by parts (j+1) I_(j+1) = I_(j-1) - x I_j
    where I_(-1) is the density. So K_j = I_(j-2)/I_(j-1) obeys K_j = x + j/K_(j+1), and x <= K_j since all are
    positive: hence K_n lies between x and x + n/x, and going up from there gives bounds on K_1, at any depth.
    """
    down, up = x.arithmetic.down, x.arithmetic.up
    depth = 24 + int((2.303 * x.arithmetic.digits / float(x.low)) ** 2 / 2)  # error below exp(-x sqrt(2 depth))
    low, high = x.low, up.add(x.high, up.divide(depth, x.low))
    for j in range(depth - 1, 0, -1):
        low, high = down.add(x.low, down.divide(j, high)), up.add(x.high, up.divide(j, low))
    return Enclosure(low, high, x.arithmetic)


@lru_cache(maxsize=64)
def _root_of_two_pi(arithmetic: Arithmetic) -> Enclosure:
    """sqrt(2 pi), with pi = 16 arctan(1/5) - 4 arctan(1/239) (Machin)."""
    one = 10 ** (arithmetic.digits + 5)
    (a, a_error), (b, b_error) = _arctan_of_inverse(5, one), _arctan_of_inverse(239, one)
    middle, error = 16 * a - 4 * b, 16 * a_error + 4 * b_error
    low, high = (arithmetic.of(Fraction(2 * (middle + e), one)) for e in (-error, error))
    return Enclosure(low.low, high.high, arithmetic).sqrt()


def _arctan_of_inverse(n: int, one: int) -> tuple[int, int]:
    """one * arctan(1/n) = one/n - one/(3 n^3) + ..., and its error: below 1 for each term, which are rounded down, and
    below 1 for what is left out, as the series alternates and falls."""
    total, k = 0, 0
    while term := one // ((2 * k + 1) * n ** (2 * k + 1)):
        total += -term if k & 1 else term
        k += 1
    return total, k + 1
