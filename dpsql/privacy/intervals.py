"""95 % intervals of values computed from two independent Laplace draws: what a Bernstein slot of degree 1 gives.

Functions of public numbers (the scale and the released values), so they cost nothing. They treat the two discrete laws
as continuous: the slot's scale is at least M grid steps, so the difference is below one step, which is added.
"""

from __future__ import annotations

from functools import lru_cache
from math import exp, inf

import numpy as np
from numpy.typing import NDArray

CONFIDENCE = 0.95


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


def count_half_width(scale: float, span: int) -> float:
    """Of a count read from a Bernstein slot of `span` + 1 points with noise of this scale (in grid steps)."""
    return two_laplace_half_width(scale, scale) / span + 1


def sum_half_width(scale: float, lo: int, span: int) -> float:
    """Of a sum read from such a slot over the grid lo, ..., lo + span: in grid steps, as the scale is."""
    return two_laplace_half_width(abs(lo) * scale / span, abs(lo + span) * scale / span) + 1


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
    left: NDArray[np.float64], right: NDArray[np.float64], scale: float, width: float
) -> NDArray[np.float64]:
    """Half-widths of lo + width * right / (left + right), where both carry Laplace noise of this scale.

    With p the released share of `right` and N = left + right, the share moves by ((1 - p) Y - p X) / (N + X + Y): the
    numerator's half-width over the smallest denominator that the noise allows. Never more than the whole range.
    """
    total = left + right
    share = np.clip(np.divide(right, total, out=np.full_like(total, 0.5), where=total > 0), 0, 1)
    slack = two_laplace_half_width(scale, scale)
    found = np.full(len(total), inf)
    for i, (p, n) in enumerate(zip(share, total, strict=True)):
        if n > slack:
            found[i] = two_laplace_half_width(scale * (1 - p), scale * p) / (n - slack)
    narrowed: NDArray[np.float64] = np.minimum(found, 1.0) * width
    return narrowed
