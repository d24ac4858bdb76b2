"""95 % intervals of values computed from several independent draws of noise: what a Bernstein slot gives.

Functions of public numbers (the size of the noise and the released values), so they cost nothing. Laplace laws on
integers are treated as continuous: such noise of a Bernstein slot is N or more in size at usual prices, so the
difference is below one row or one grid step, which is added. Normal noise may be smaller than a step: each draw is off
by half of one at most from the real number that it was rounded from, and that is added.
"""

from __future__ import annotations

from functools import lru_cache
from math import exp, hypot, inf, pi, sqrt
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from dpsql.privacy import mechanisms

CONFIDENCE = float(mechanisms.CONFIDENCE)
_STEP, _LONGEST = 0.1, 1000.0


@lru_cache(maxsize=1024)
def two_laplace_half_width(first: float, second: float, confidence: float = CONFIDENCE) -> float:
    """Least h with P[|X + Y| <= h] >= confidence, X and Y independent Laplace of these scales (>= 0).

    The tail is P[|X + Y| > h] = (b^2 e^(-h/b) - a^2 e^(-h/a)) / (b^2 - a^2), and e^(-h/b) (1 + h / 2b) where a = b.
    """
    low, high = 0.0, 20.0 * max(first, second)
    while low < (middle := (low + high) / 2) < high:  # until no double is between them
        if _tail(first, second, middle) > 1 - confidence:
            low = middle
        else:
            high = middle
    return high


@lru_cache(maxsize=1024)
def linear_half_width(sizes: tuple[float, ...], normal: bool, confidence: float = CONFIDENCE) -> float:
    """Least h with P[|sum of X_j| <= h] >= confidence, X_j independent and normal of these deviations, or Laplace of
    these scales (>= 0)."""
    if normal:
        return NormalDist().inv_cdf((1 + confidence) / 2) * hypot(*sizes)
    return _laplace_half_width(sizes, confidence)


def _laplace_half_width(scales: tuple[float, ...], confidence: float) -> float:
    """Of Laplace noise. From three on by the inversion of the characteristic function, phi(t) = product of 1 / (1 +
    b_j^2 t^2): P[|S| > h] = 1 - (2/pi) integral of sin(h t)/t phi(t). In units of the deviation of S the nearest pole
    lies beyond 1, so the trapezoidal rule of this step errs by less than e^-50; cut at T, phi <= 2/t^2 leaves less than
    1/T^2.
    """
    scales = tuple(sorted((s for s in scales if s > 0), reverse=True))
    if len(scales) < 3:
        return two_laplace_half_width(*(*scales, 0.0, 0.0)[:2], confidence)
    deviation = sqrt(sum(2 * s * s for s in scales))
    t = np.arange(_STEP / 2, _LONGEST, _STEP)
    phi = np.ones_like(t)
    for s in scales:
        phi /= 1 + (s / deviation * t) ** 2
    low, high = 0.0, 20.0
    for _ in range(40):
        middle = (low + high) / 2
        beyond = 1 - 2 / pi * _STEP * float(np.sum(np.sin(middle * t) / t * phi))
        low, high = (middle, high) if beyond > 1 - confidence - 1e-6 else (low, middle)
    return high * deviation


def _tail(a: float, b: float, h: float) -> float:
    a, b = min(a, b), max(a, b)
    if b == 0:
        return 0.0
    if a < b * 1e-9:
        return exp(-h / b)
    if b - a < 1e-6 * b:
        return exp(-h / b) * (1 + h / (2 * b))
    return (b * b * exp(-h / b) - a * a * exp(-h / a)) / (b * b - a * a)


def ratio_half_widths(
    left: NDArray[np.float64], right: NDArray[np.float64], size: float, width: float, normal: bool
) -> NDArray[np.float64]:
    """Half-widths of lo + width * right / (left + right), where both carry noise of this size.

    With p the released share of `right` and N = left + right, the share moves by ((1 - p) Y - p X) / (N + X + Y): the
    numerator's half-width over the smallest denominator that the noise allows. Never more than the whole range.
    """
    total = left + right
    share = np.clip(np.divide(right, total, out=np.full_like(total, 0.5), where=total > 0), 0, 1)
    rounding = 0.5 if normal else 0.0
    slack = linear_half_width((size, size), normal) + 2 * rounding
    found = np.full(len(total), inf)
    for i, (p, n) in enumerate(zip(share, total, strict=True)):
        if n > slack:
            found[i] = (linear_half_width((size * (1 - p), size * p), normal) + rounding) / (n - slack)
    narrowed: NDArray[np.float64] = np.minimum(found, 1.0) * width
    return narrowed
