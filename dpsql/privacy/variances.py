"""How much noise a mechanism would need, in floats: to choose by, never to promise by.

What is chosen is then computed and proved exactly (`gaussian`, `thresholds`, the planner's `check`); a rounding here
can cost an analyst a little accuracy where two mechanisms are equally good, and nobody any privacy.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from math import erfc, exp, expm1, inf, log, sqrt
from statistics import NormalDist

from dpsql.privacy.sensitivity import Norms


@lru_cache(maxsize=4096)
def mu(epsilon: float, delta: float) -> float:
    """The mu for which mu-GDP is (epsilon, delta)-DP (see `gaussian`); 0 where there is none to speak of."""
    low, high = 0.0, 1.0
    while _delta(high, epsilon) < delta and high < 1e6:
        low, high = high, high * 2
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if _delta(middle, epsilon) < delta else (low, middle)
    return low


def of_laplace(norms: Norms, epsilon: float) -> float:
    """The variance of discrete Laplace noise that makes a vector of these norms epsilon-DP."""
    q = epsilon / norms.l1
    return 2 * exp(-q) / expm1(-q) ** 2 if q < 700 else exp(-q)


def of_normal(norms: Norms, mu: float) -> float:
    """The variance of the normal noise that makes it mu-GDP."""
    return norms.l2_squared / mu**2 + 1 / 12  # rounding adds to it


def least(norms: Norms, slots: int, epsilon: float, delta: float, *, laplace: bool, normal: bool) -> float:
    """The least variance of a slot of these norms where so many like it share epsilon, of the noises that may be."""
    whole = mu(epsilon, delta) if delta > 0 and normal else 0.0
    found = of_normal(norms, whole / sqrt(slots)) if whole > 1e-12 else inf
    return min(found, of_laplace(norms, epsilon / slots)) if laplace or found == inf else found


def half_kept_by_laplace(epsilon: float, delta: float, touched: int) -> float:
    """How many units a key needs to be shown half of the time, where a count with discrete Laplace noise decides."""
    q = epsilon / touched
    return max(2.0, 2 + log((1 + exp(-q)) * delta / touched) / -q)


def half_kept_by_conditioned(epsilon: float, delta: float, touched: int) -> float:
    """The same where the conditioned law decides."""
    q = epsilon / touched
    chance = delta / touched
    ratio = chance * (1 + exp(-q)) / (-expm1(-q) + 2 * exp(-q) * chance)
    return max(1.0, log(ratio) / -q)


def half_kept_by_normal(sigma: float, delta: float, touched: int) -> float:
    """The same where a count with rounded normal noise decides."""
    return 1.5 - sigma * NormalDist().inv_cdf(delta / touched)


def half_kept(touched: int, epsilon: float, delta: float) -> float:
    """The least of these."""
    sigma = sqrt(touched) / mu(epsilon, delta)
    return min(half_kept_by_conditioned(epsilon, delta, touched), half_kept_by_normal(sigma, delta, touched))


def as_float(x: Fraction) -> float:
    """x as a float; the largest one where there is none so large."""
    try:
        return float(x)
    except OverflowError:
        return 1e300


def _delta(mu: float, epsilon: float) -> float:
    """delta_mu(epsilon) = P[Z > epsilon/mu - mu/2] - e^epsilon P[Z > epsilon/mu + mu/2]."""
    a, b = epsilon / mu - mu / 2, epsilon / mu + mu / 2
    tail = 0.5 * erfc(b / sqrt(2))
    return 0.5 * erfc(a / sqrt(2)) - (exp(epsilon + log(tail)) if tail > 0 else 0.0)
