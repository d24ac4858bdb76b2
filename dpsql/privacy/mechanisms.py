"""The mechanisms: the laws of integer noise, what each promises, and how wide it is.

Role: from the size of the noise to draws of it, and to the error an analyst is told.
Promise: scale, half-width and law belong together exactly; nothing here rounds a scale, and nothing sees a value.
The caller adds the noise to integers only: the argument below says nothing about floats.
"""

from __future__ import annotations

import math
from contextlib import AbstractContextManager
from dataclasses import dataclass
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, localcontext
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar, Protocol

from dpsql.privacy.enclosures import Arithmetic, decimal_of, upper_tail
from dpsql.privacy.normal import rounded_normal
from dpsql.privacy.sampling import Integers, discrete_laplace

CONFIDENCE = Fraction(19, 20)
"""Of the intervals that are stated."""


class Law(Protocol):
    """Noise on the integers. name: as it is shown. size: its only parameter, in integer steps."""

    name: ClassVar[str]

    @property
    def size(self) -> Fraction: ...

    def sample(self, n: int) -> Integers:
        """n independent draws: int64, each below 2^62 in size; Python ints (dtype object) for sizes from 2^53 on."""
        ...

    def half_width(self, confidence: Fraction = CONFIDENCE) -> int:
        """The least integer h with P[|X| <= h] >= confidence."""
        ...


class Noised(Protocol):
    """What noise is added to. scale: of discrete Laplace noise; where there is a sigma, it is rounded normal noise."""

    @property
    def scale(self) -> Fraction: ...

    @property
    def sigma(self) -> Fraction | None: ...


def law_of(slot: Noised, divided_by: int = 1) -> Law:
    """The noise of a slot; or of the same kind, of so much smaller a size."""
    if slot.sigma is not None:
        return RoundedNormal(slot.sigma / divided_by)
    return DiscreteLaplace(slot.scale / divided_by)


@dataclass(frozen=True, slots=True)
class DiscreteLaplace:
    """Noise X on the integers with P[X = x] = (1-q)/(1+q) q^|x|, q = exp(-1/scale).

    Privacy. Let f map a database to a vector of integers, with |f(D) - f(D')|_1 <= Delta_1 for neighbours D, D'
    (absent keys count as 0). Then f(D) + (X_1, ..., X_d), X_i independent of scale Delta_1/epsilon, is epsilon-DP:

        P[f(D) + X = z]       q^(|z - f(D)|_1)
        ----------------  =  ------------------  <=  q^(-|f(D) - f(D')|_1)  <=  exp(Delta_1/scale) = exp(epsilon)
        P[f(D') + X = z]      q^(|z - f(D')|_1)

    for every integer vector z, by the triangle inequality; the sum over z in a set S gives it for every event. The law
    is sampled exactly, so the ratio holds for what is computed, not only for an ideal. Whatever is made from the noisy
    vector alone is epsilon-DP as well: an event about g(Y) is the event that Y is in g^-1(S).
    (Ghosh, Roughgarden, Sundararajan, Universally utility-maximizing privacy mechanisms, 2009; the argument is that of
    Dwork, McSherry, Nissim, Smith, Calibrating noise to sensitivity in private data analysis, 2006.)
    """

    name: ClassVar[str] = "discrete Laplace"
    scale: Fraction

    def __post_init__(self) -> None:
        _check_size(self.scale)

    @property
    def size(self) -> Fraction:
        return self.scale

    def sample(self, n: int) -> Integers:
        return discrete_laplace(n, self.scale)

    def half_width(self, confidence: Fraction = CONFIDENCE) -> int:
        return _half_width(self.scale, confidence)

    def tail(self, h: int) -> float:
        """P[|X| > h], rounded to a float: to be shown. Where a decision hangs on it, ask `half_width`."""
        if h < 0:
            return 1.0
        with _arithmetic(40 + _length(self.scale) + _length(Fraction(h))):
            gamma = 1 / decimal_of(self.scale)
            return float(2 * (-gamma * (h + 1)).exp() / (1 + (-gamma).exp()))


@dataclass(frozen=True, slots=True)
class RoundedNormal:
    """Noise round(sigma Z) on the integers, Z standard normal.

    Privacy. Let f map a database to a vector of integers, with |f(D) - f(D')|_2 <= Delta_2 for neighbours. With
    independent Z_i the released f(D)_i + round(sigma Z_i) = round(f(D)_i + sigma Z_i) is a function of the output of
    the Gaussian mechanism, which is (Delta_2/sigma)-GDP; so it is, too (post-processing). Vectors of several kinds,
    each with its own Delta_2 and sigma, are one such mechanism with mu^2 = sum of (Delta_2/sigma)^2: divided by its
    sigma, each is part of one long vector with noise of deviation 1. (Dong, Roth, Su, Gaussian differential privacy,
    2022, theorem 1 and corollary 2. The draws are those of the real law: see `normal`.)
    """

    name: ClassVar[str] = "rounded normal"
    sigma: Fraction

    def __post_init__(self) -> None:
        _check_size(self.sigma)

    @property
    def size(self) -> Fraction:
        return self.sigma

    def sample(self, n: int) -> Integers:
        return rounded_normal(n, self.sigma)

    def half_width(self, confidence: Fraction = CONFIDENCE) -> int:
        """P[|round(sigma Z)| > h] = P[|Z| > (h + 1/2)/sigma]: the least h of at least sigma z - 1/2."""
        return max(0, math.ceil(self.sigma * normal_quantile((1 - confidence) / 2) - Fraction(1, 2)))


def _check_size(size: object) -> None:
    """A float is a rounded number: the promise would be about another price than the one that was charged."""
    if not isinstance(size, Fraction) or size <= 0:
        raise ValueError("the size of noise is a Fraction above 0")


@lru_cache(maxsize=256)
def normal_quantile(chance: Fraction) -> Fraction:
    """The z with P[Z > z] = chance, 0 < chance <= 1/2, to some 30 digits: the least number of them
    that is proved to be large enough."""
    if not 0 < chance <= Fraction(1, 2):
        raise ValueError("a quantile of the upper half is asked for")
    arithmetic = Arithmetic(60)
    low, high, wanted = Fraction(0), Fraction(1), arithmetic.of(chance).low
    while upper_tail(arithmetic.of(high)).high > wanted:
        low, high = high, high * 2
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if upper_tail(arithmetic.of(middle)).high > wanted else (low, middle)
    return high


@lru_cache(maxsize=256)  # one statement asks it of each scale several times, and the next has the same scales
def _half_width(scale: Fraction, confidence: Fraction) -> int:
    """P[|X| > h] = 2 q^(h+1) / (1+q). With a = (1 - confidence)/2 that is: q^(h+1) <= a (1+q), or h + 1 >= x for
    x = -scale ln(a (1+q)) > 0. x is no integer j >= 1: else q^j - a q - a = 0, a polynomial with rational coefficients,
    not all of them 0, while q = exp(-1/scale) is transcendental (Hermite, 1873). So the least h is the floor of x, and
    enough digits always decide which integer that is.
    """
    if not 0 < confidence < 1:
        raise ValueError("a confidence lies between 0 and 1")
    a, digits = (1 - confidence) / 2, 40 + _length(scale)
    while True:
        with _arithmetic(digits):
            b = decimal_of(scale)
            x = -b * (decimal_of(a) * (1 + (-1 / b).exp())).ln()
            # Each operation errs by at most half a unit in the last place, 10^(1-digits) of its result. What comes
            # before ln adds up to less than six of them, absolutely since ln' = 1/argument, and the scale multiplies
            # that; ln and what follows add less than three of |x|. Ten of both leave room.
            doubt = (b + x) * Decimal(10) ** (2 - digits)
            low, high = math.floor(x - doubt), math.floor(x + doubt)
        if low == high:
            return low
        digits *= 2


def _arithmetic(digits: int) -> AbstractContextManager[Context]:
    """Decimal arithmetic of that many digits: every operation is correctly rounded, exponents are the widest."""
    return localcontext(Context(prec=digits, Emin=MIN_EMIN, Emax=MAX_EMAX))


def _length(x: Fraction) -> int:
    """At least the number of decimal digits before or after the point of x > 0 down to its first significant one."""
    return (x.numerator.bit_length() + x.denominator.bit_length()) // 3 + 1
