"""Which group keys may be shown where no public list says so: the numbers of units that decide it.

The count that decides is COUNT(DISTINCT unit) with at most k-hat keys per unit enforced: a threshold on rows would let
one unit with many rows open a key alone. Let D' be D plus one unit, and M the release: it draws noise for every count,
shows the keys whose noisy count reaches tau, and for those alone what else it releases, noised.

Claim: if the noised vectors over the keys of D alone are (e, d)-DP, or mu-GDP, and a key of one unit passes with a
chance of at most delta/k-hat, then M is so too, but for a chance of delta. The keys that D' has and D has not are held
by that unit alone; there are at most k-hat of them, and their noise is independent of all other noise. Let B' be what
M shows of D' once these keys are taken out, whatever their counts. With p <= delta the chance that any of them passes,
the law of M on D' is (1-p) B' + p R' for some law R': where none passes, what is shown is B', independently of that.
The law on D is B = (1-p) B + p B. And B, B' are made from noised vectors over the same keys, those of D, whose norms
the limits bound: a count that comes or goes with the unit moves by 1 in at most k-hat keys. So they are (e, d)-DP, or
mu-GDP, and the mixtures are "so but for p" in the exact sense of `accounting`, where it is proved how that adds up. It
holds of every noise: nothing but independence from key to key was used. Rejected keys are not drawn for in other slots,
and nothing of them is stored.

Three laws. *Threshold on a released count*, with its discrete Laplace noise or its rounded normal noise: keep when the
noisy count reaches tau, the least integer with P[1 + X >= tau] <= delta/k-hat. *Conditioned*, for keys alone: discrete
Laplace noise of scale k-hat/epsilon given |X| <= m; keep when n + X > m, m the least with P[X = m given |X| <= m] <=
delta/k-hat. It is the truncated geometric mechanism, optimal for this decision under pure epsilon (Desfontaines, Voss,
Gipson, Mandayam 2022, "Differentially private partition selection"). Its ratio bound: the laws of n + X and n + 1 + X
have equal shape shifted by one, so they differ by at most e^(epsilon/k-hat) where both are positive; where only one is
positive, at the ends, the mass is that of X = m, at most delta/k-hat. So each key that the unit touches, be it its own
or one that others hold as well, is epsilon/k-hat-DP but for a chance of delta/k-hat, and the k-hat of them together
epsilon-DP but for delta: this is the whole delta, new keys and shared ones taken together. *A normal threshold
for keys alone* is the first with a count that is not shown: its noise grows with the root of k-hat.

`min_units` shifts all: a decision that asks for more units.
"""

from __future__ import annotations

from decimal import ROUND_CEILING, Decimal, localcontext
from fractions import Fraction
from functools import lru_cache

from dpsql.privacy.enclosures import Arithmetic, decimal_of, upper_tail

_DIGITS = 60


def threshold(epsilon: Fraction, sigma: Fraction | None, delta: Fraction, touched: int, min_units: int = 1) -> int:
    """tau of a count of units with that noise: rounded normal where there is a sigma, else discrete Laplace."""
    if sigma is not None:
        return normal_threshold(sigma, delta, touched, min_units)
    return laplace_threshold(epsilon, delta, touched, min_units)


def laplace_threshold(epsilon: Fraction, delta: Fraction, touched: int, min_units: int = 1) -> int:
    """tau for discrete Laplace noise of scale touched/epsilon.

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
    return 1 + t + (min_units - 1)


@lru_cache(maxsize=256)
def normal_threshold(sigma: Fraction, delta: Fraction, touched: int, min_units: int = 1) -> int:
    """tau for rounded normal noise: P[round(sigma Z) >= t] = P[Z >= (t - 1/2)/sigma], which falls as t grows."""
    arithmetic = Arithmetic(_DIGITS)
    allowed = arithmetic.of(delta / touched).low

    def is_enough(t: int) -> bool:
        return upper_tail(arithmetic.of((t - Fraction(1, 2)) / sigma)).high <= allowed

    low, high = 0, 1
    while not is_enough(high):
        low, high = high, high * 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if is_enough(middle) else (middle, high)
    return 1 + high + (min_units - 1)


@lru_cache(maxsize=256)
def conditioned_bound(epsilon: Fraction, delta: Fraction, touched: int) -> int:
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
        return high if mass(low) > allowed or low == 0 else low


def _log_q(epsilon: Fraction, touched: int) -> tuple[Decimal, Decimal]:
    log_q = -decimal_of(epsilon / touched)
    return log_q, log_q.exp()
