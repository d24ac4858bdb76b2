"""Gaussian differential privacy: from (epsilon, delta) to mu and back, with every rounding on the safe side.

mu-GDP (Dong, Roth, Su, Gaussian differential privacy, 2019/2022): nobody tells the outputs on two neighbours apart
better than N(0, 1) from N(mu, 1). All amounts here are mu^2, because those add up, and are Fractions.

* A Gaussian mechanism: noise of deviation sigma on a vector of L2 sensitivity D is (D/sigma)-GDP (theorem 1), and
  several at once, or one after another, are the root of the sum of squares (corollary 2).
* mu-GDP is (epsilon, delta)-DP for all epsilon with delta = delta_mu(epsilon) = P[Z > a] - e^epsilon P[Z > b], where a
  and b are epsilon/mu -+ mu/2 (corollary 1; for the mechanism Balle, Wang, Improving the Gaussian mechanism, 2018,
  theorem 8). It rises with mu and falls as epsilon rises.
* An epsilon-DP mechanism, of whatever kind, is mu-GDP for mu = 2 Phi^-1(e^epsilon/(1 + e^epsilon)): its trade-off curve
  lies above max(0, 1 - e^epsilon x, e^-epsilon (1 - x)) (Wasserman, Zhou 2010), which is made of straight lines between
  (0, 1), (c, c) and (1, 0), c = 1/(1 + e^epsilon). The curve of mu-GDP, Phi(Phi^-1(1 - x) - mu), is convex and has the
  same ends, so it lies below those lines as soon as it does at x = c, which is Phi(Phi^-1(1 - c) - mu) <= c: mu/2 >=
  Phi^-1(1 - c), or P[Z > mu/2] <= c. (The smaller mu of continuous Laplace noise is not valid on a grid.)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache

from dpsql.privacy.enclosures import Arithmetic, Enclosure, upper_tail

GRID = 10**30
"""Amounts of mu^2 are whole parts of this one and have ten digits: what is spent rounded up, what may be spent down."""

_CLOSE = 34  # bits to which a bound is found
_DIGITS = (40, 80, 160, 320)  # tried in turn; what the last cannot decide is decided on the safe side
_TINY = Fraction(1, GRID)


def delta_of(mu_squared: Fraction, epsilon: Fraction, digits: int = 60) -> Enclosure:
    """delta_mu(epsilon), mu > 0."""
    arithmetic = Arithmetic(digits)
    mu, e = arithmetic.of(mu_squared).sqrt(), arithmetic.of(epsilon)
    middle, half = e / mu, mu / arithmetic.of(2)
    return upper_tail(middle - half) - e.exp() * upper_tail(middle + half)


@lru_cache(maxsize=1024)
def mu_squared_for(epsilon: Fraction, delta: Fraction) -> Fraction:
    """The largest mu^2 (to ten digits, and never above it) for which mu-GDP is (epsilon, delta)-DP; 0 where there is
    none of 10^-30 or more."""
    if not 0 < delta < 1 or epsilon < 0:
        raise ValueError("delta lies between 0 and 1, epsilon is 0 or more")
    return _floor(_bracket(lambda mu_squared: is_private(mu_squared, epsilon, delta))[0])


@lru_cache(maxsize=1024)
def mu_squared_of_pure(epsilon: Fraction) -> Fraction:
    """The least mu^2 (to ten digits, and never below it) such that every epsilon-DP mechanism is mu-GDP."""
    if epsilon <= 0:
        raise ValueError("epsilon is above 0")

    def too_little(mu_squared: Fraction) -> bool:
        for digits in _DIGITS:
            arithmetic = Arithmetic(digits)
            half = arithmetic.of(mu_squared).sqrt() / arithmetic.of(2)
            chance = upper_tail(half) * (arithmetic.of(1) + arithmetic.of(epsilon).exp())
            if chance.high <= 1 or chance.low > 1:
                return chance.high > 1
        return True

    return rounded_up(_bracket(too_little)[1])


@lru_cache(maxsize=1024)
def epsilon_of(mu_squared: Fraction, delta: Fraction) -> tuple[Fraction, Fraction]:
    """Bounds on the least epsilon for which mu-GDP is (epsilon, delta)-DP; it is for the upper one."""
    if not 0 < delta < 1 or mu_squared < 0:
        raise ValueError("delta lies between 0 and 1, mu^2 is 0 or more")
    if mu_squared == 0 or is_private(mu_squared, Fraction(0), delta):
        return Fraction(0), Fraction(0)
    return _bracket(lambda epsilon: not is_private(mu_squared, epsilon, delta))


def largest_pure(mu_squared: Fraction) -> Fraction:
    """The largest epsilon (to nine digits, and never above it) at which an epsilon-DP mechanism costs at most
    mu_squared: P[Z > mu/2] (1 + e^epsilon) = 1, solved for epsilon."""
    arithmetic = Arithmetic(40)
    tail = upper_tail(arithmetic.of(mu_squared).sqrt() / arithmetic.of(2))
    epsilon = ((arithmetic.of(1) - tail) / tail).ln().low
    return Fraction(epsilon) * (1 - Fraction(1, 10**9))


def is_private(mu_squared: Fraction, epsilon: Fraction, delta: Fraction) -> bool:
    """Whether mu-GDP is proved to be (epsilon, delta)-DP."""
    for digits in _DIGITS:
        found = delta_of(mu_squared, epsilon, digits)
        if found.high <= found.arithmetic.of(delta).low:
            return True
        if found.low > found.arithmetic.of(delta).high:
            return False
    return False


def sigma_for(l2_squared: int, mu_squared: Fraction) -> Fraction:
    """The least sigma (to ten digits, and never below it) with l2_squared / sigma^2 <= mu_squared: the noise that makes
    an integer vector of that squared L2 sensitivity mu-GDP."""
    if l2_squared < 1 or mu_squared <= 0:
        raise ValueError("a squared sensitivity is at least 1, and mu^2 is above 0")
    variance = l2_squared / mu_squared
    bits = max(0, _CLOSE - (variance.numerator.bit_length() - variance.denominator.bit_length()) // 2)
    scaled = variance * (1 << 2 * bits)
    root = math.isqrt(math.ceil(scaled))
    return Fraction(root if root * root >= scaled else root + 1, 1 << bits)


def _bracket(small: Callable[[Fraction], bool]) -> tuple[Fraction, Fraction]:
    """(low, high), low < high <= low (1 + 2^-34): `small` holds at low and not at high. It holds up to some point and
    then no more. low is 0 where it holds nowhere from 10^-30 on."""
    high = Fraction(1)
    while small(high):
        high *= 2
    low = high / 2
    while not small(low):
        low, high = low / 2, low
        if high < _TINY:
            return Fraction(0), high
    for _ in range(_CLOSE):
        middle = (low + high) / 2
        low, high = (middle, high) if small(middle) else (low, middle)
    return low, high


def _floor(amount: Fraction) -> Fraction:
    unit = _unit(amount)
    return math.floor(amount / unit) * unit


def rounded_up(amount: Fraction) -> Fraction:
    """The least amount of ten digits that is not below it, nor below one part of GRID."""
    unit = _unit(amount)
    return max(math.ceil(amount / unit) * unit, _TINY)


def _unit(amount: Fraction) -> Fraction:
    """What an amount is a whole number of: about the tenth of its digits, at least one part of GRID."""
    place = math.floor(math.log10(amount)) - 9 if amount > _TINY else -30
    return Fraction(10) ** max(place, -30)
