"""Which group keys may be shown where no public list says so: noisy thresholds on the number of units that hold a key.

The count that decides is COUNT(DISTINCT unit) with at most k-hat keys per unit enforced: a threshold on rows would let
one unit with many rows open a key alone. Let D' be D plus one unit. Keys that other units hold keep their counts up
to 1, which the noise of scale k-hat/epsilon covers. A key that the unit alone holds has count 1 in D' and does not
exist in D; it is shown with probability at most delta/k-hat, and there are at most k-hat such keys, so any of them is
shown with probability at most delta. Rejected keys are neither drawn for in other slots nor stored.

Two laws. *Threshold*: discrete Laplace noise on a count that is released anyway; keep when the noisy count reaches tau.
*Conditioned*: for keys alone; the same noise conditioned on |X| <= m, keep when n + X > m. The conditioned law is the
truncated geometric mechanism, optimal for this decision (Desfontaines, Voss, Gipson, Mandayam 2022, "Differentially
private partition selection"). Its ratio bound: the laws of n + X and n + 1 + X have equal shape shifted by one, so they
differ by at most e^(epsilon/k-hat) where both are positive; where only one is positive, the key of a single unit with
X = m, the mass is at most delta/k-hat by the choice of m. `min_units` shifts both: a decision that asks for more units.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal, localcontext
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dpsql.privacy.mechanisms import DiscreteLaplace, decimal_of
from dpsql.privacy.sampling import bernoulli_exp, system_words

_DIGITS = 60


@dataclass(frozen=True, slots=True)
class Threshold:
    """Keep a key when its released, noisy count of units is at least `tau`."""

    tau: int


@dataclass(frozen=True, slots=True)
class Conditioned:
    """Keep a key of n units when n + X > bound, X discrete Laplace of `scale` conditioned on |X| <= m = bound -
    shift."""

    scale: Fraction
    m: int
    shift: int

    def keep(self, units: NDArray[np.int64]) -> NDArray[np.bool_]:
        """One independent decision per key."""
        noise = self._narrow(len(units)) if self.m < self.scale else self._wide(len(units))
        kept: NDArray[np.bool_] = np.asarray(units.astype(object) + noise > self.m + self.shift, dtype=np.bool_)
        return kept

    def _wide(self, n: int) -> NDArray[np.object_]:
        """The law given |X| <= m, exactly: drawn again until it is. With m >= scale at least 63 % are."""
        noise = np.zeros(n, dtype=object)
        left = np.arange(n)
        law = DiscreteLaplace(self.scale)
        while len(left):
            drawn = law.sample(len(left)).astype(object)
            inside = np.asarray(np.abs(drawn) <= self.m, dtype=np.bool_)
            noise[left[inside]] = drawn[inside]
            left = left[~inside]
        return noise

    def _narrow(self, n: int) -> NDArray[np.object_]:
        """The same law for m < scale, where next to no unbounded draw would fall inside: x uniform on -m..m, kept with
        probability q^|x| > 1/e."""
        words, width = system_words(), 2 * self.m + 1
        blocks = -(-width.bit_length() // 64)
        spare = 64 * blocks - width.bit_length()
        noise = np.zeros(n, dtype=object)
        for i in range(n):
            while True:
                drawn = 0
                for _ in range(blocks):
                    drawn = drawn << 64 | words.one()
                x = (drawn >> spare) - self.m
                if x <= self.m and bernoulli_exp(abs(x) / self.scale, words):
                    noise[i] = x
                    break
        return noise


def threshold(epsilon: Fraction, delta: Fraction, touched: int, min_units: int = 1) -> Threshold:
    """tau = the least integer with P[1 + X >= tau] <= delta/touched, X discrete Laplace of scale touched/epsilon.

    For t >= 1: P[X >= t] = q^t / (1 + q), q = e^(-epsilon/touched).
    """
    with localcontext() as context:
        context.prec, context.rounding = _DIGITS, ROUND_CEILING
        log_q, q = _log_q(epsilon, touched)
        needed = (decimal_of(delta / touched) * (1 + q)).ln() / log_q
        t = max(1, int(needed.to_integral_value(ROUND_CEILING)))
        # Within the precision of the line above t may be one too small: then one more.
        if (t * log_q).exp() > decimal_of(delta / touched) * (1 + q) * (1 - Decimal(10) ** (5 - _DIGITS)):
            t += 1
    return Threshold(1 + t + (min_units - 1))


def conditioned(epsilon: Fraction, delta: Fraction, touched: int, min_units: int = 1) -> Conditioned:
    """m = the least integer with P[X = m given |X| <= m] <= delta/touched.

    P[X = m given |X| <= m] = q^m (1 - q) / (1 + q - 2 q^(m+1)), which falls as m grows.
    """
    # 1 - q loses the digits by which epsilon/touched is below 1, once in each of numerator and denominator.
    lost = 2 * (Fraction(touched) / epsilon).__ceil__().bit_length()
    with localcontext() as context:
        context.prec = _DIGITS + lost
        log_q, q = _log_q(epsilon, touched)
        allowed = decimal_of(delta / touched) * (1 - Decimal(10) ** (10 - _DIGITS))

        def mass(m: int) -> Decimal:
            power = (m * log_q).exp()
            return power * (1 - q) / (1 + q - 2 * power * q)

        high = 1
        while mass(high) > allowed:
            high *= 2
        low = high // 2
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if mass(middle) > allowed else (low, middle)
        m = high if mass(low) > allowed or low == 0 else low
    return Conditioned(Fraction(touched) / epsilon, m, min_units - 1)


def _log_q(epsilon: Fraction, touched: int) -> tuple[Decimal, Decimal]:
    log_q = -decimal_of(epsilon / touched)
    return log_q, log_q.exp()
