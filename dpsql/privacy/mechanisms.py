"""The mechanisms: a law of integer noise, what it promises, and how wide it is.

Role: from a sensitivity and an epsilon to noise, and from noise to the error an analyst is told.
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

from dpsql.privacy.sampling import Integers, discrete_laplace


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

    scale: Fraction

    def __post_init__(self) -> None:
        # A float scale is a rounded one: the promise would be about another epsilon than the one that was charged.
        scale: object = self.scale
        if not isinstance(scale, Fraction) or scale <= 0:
            raise ValueError("the scale of discrete Laplace noise is a Fraction above 0")

    def sample(self, n: int) -> Integers:
        """n independent draws: int64, each below 2^62 in size; Python ints (dtype object) for scales from 2^53 on."""
        return discrete_laplace(n, self.scale)

    def half_width(self, confidence: Fraction = Fraction(19, 20)) -> int:
        """The least integer h with P[|X| <= h] >= confidence, exactly."""
        return _half_width(self.scale, confidence)

    def tail(self, h: int) -> float:
        """P[|X| > h], rounded to a float: to be shown. Where a decision hangs on it, ask `half_width`."""
        if h < 0:
            return 1.0
        with _arithmetic(40 + _length(self.scale) + _length(Fraction(h))):
            gamma = 1 / decimal_of(self.scale)
            return float(2 * (-gamma * (h + 1)).exp() / (1 + (-gamma).exp()))


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


def laplace_for(delta_1: int, epsilon: Fraction) -> DiscreteLaplace:
    """The noise that makes an integer vector of L1 sensitivity `delta_1` epsilon-DP: scale delta_1/epsilon, exactly."""
    if delta_1 < 1 or epsilon <= 0:
        raise ValueError("a sensitivity is at least 1, and epsilon is above 0")
    return DiscreteLaplace(Fraction(delta_1) / epsilon)


def _arithmetic(digits: int) -> AbstractContextManager[Context]:
    """Decimal arithmetic of that many digits: every operation is correctly rounded, exponents are the widest."""
    return localcontext(Context(prec=digits, Emin=MIN_EMIN, Emax=MAX_EMAX))


def decimal_of(x: Fraction) -> Decimal:
    return Decimal(x.numerator) / Decimal(x.denominator)


def _length(x: Fraction) -> int:
    """At least the number of decimal digits before or after the point of x > 0 down to its first significant one."""
    return (x.numerator.bit_length() + x.denominator.bit_length()) // 3 + 1
