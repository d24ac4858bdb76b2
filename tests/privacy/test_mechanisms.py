"""What a mechanism says of itself is true: privacy ratio, half-width, tail."""

from __future__ import annotations

import math
from dataclasses import FrozenInstanceError
from decimal import Decimal
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from dpsql.privacy.mechanisms import DiscreteLaplace
from tests.privacy.laws import ALARM, ARITHMETIC, below, chi_square, decimal, exp_minus

SCALES = [Fraction(1, 8), Fraction(1, 3), Fraction(1), Fraction(7, 5), Fraction(10), Fraction(333, 10), Fraction(400)]
CONFIDENCES = [
    Fraction(1, 10**9),
    Fraction(1, 2),
    Fraction(9, 10),
    Fraction(19, 20),
    Fraction(99, 100),
    1 - Fraction(1, 10**12),
]


def inside(h: int, scale: Fraction) -> Decimal:
    """P[|X| <= h], as a difference of the exact law."""
    return ARITHMETIC.subtract(below(h, scale), below(-h - 1, scale))


def summed_half_width(scale: Fraction, confidence: Fraction) -> int:
    """The least h by brute force: probabilities of 0, 1, -1, 2, -2, ... added up to 80 digits until they suffice."""
    c, q = ARITHMETIC, exp_minus(1 / scale)
    chance = c.divide(c.subtract(Decimal(1), q), c.add(Decimal(1), q))
    total, h = chance, 0
    while total < decimal(confidence):
        h += 1
        chance = c.multiply(chance, q)
        total = c.add(total, c.multiply(Decimal(2), chance))
    return h


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("confidence", CONFIDENCES)
def test_half_width_is_the_least(scale: Fraction, confidence: Fraction) -> None:
    h = DiscreteLaplace(scale).half_width(confidence)
    assert h == summed_half_width(scale, confidence)


@pytest.mark.parametrize("scale", [*SCALES, Fraction(2**20), Fraction(10**15, 7), Fraction(2**70)])
def test_half_width_where_a_float_would_be_off_by_one(scale: Fraction) -> None:
    """Confidences within 10^-70 of the exact chance of |X| <= h: just reached by h, and just missed."""
    for h in (0, 1, 7, 5 * scale.numerator // scale.denominator):
        chance = Fraction(inside(h, scale))
        hair = min(Fraction(1, 10**70), (1 - chance) / 10**5)
        assert DiscreteLaplace(scale).half_width(chance - hair) == h
        assert DiscreteLaplace(scale).half_width(chance + hair) == h + 1


def test_half_width_by_default_is_of_the_95_percent_interval() -> None:
    assert DiscreteLaplace(Fraction(1)).half_width() == 3
    assert DiscreteLaplace(Fraction(10)).half_width() == 30
    assert DiscreteLaplace(Fraction(1, 100)).half_width() == 0


def test_half_width_of_extreme_scales() -> None:
    assert DiscreteLaplace(Fraction(1, 10**30)).half_width(1 - Fraction(1, 10**9)) == 0
    wide = DiscreteLaplace(Fraction(10**300)).half_width()
    assert inside(wide, Fraction(10**300)) == pytest.approx(Decimal("0.95"))
    assert math.isclose(wide / 10**300, math.log(20))


@pytest.mark.parametrize("confidence", [Fraction(0), Fraction(1), Fraction(-1, 2), Fraction(3, 2)])
def test_confidence_lies_between_0_and_1(confidence: Fraction) -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        DiscreteLaplace(Fraction(1)).half_width(confidence)


@pytest.mark.parametrize("scale", [*SCALES, Fraction(2**40), Fraction(10**30, 7)])
def test_tail(scale: Fraction) -> None:
    noise = DiscreteLaplace(scale)
    assert noise.tail(-1) == 1.0
    for h in (0, 1, 5, int(scale), 40 * int(scale) + 3):
        rest = ARITHMETIC.multiply(Decimal(2), below(-h - 1, scale))
        assert noise.tail(h) == float(rest)


def test_draws_stay_within_the_half_width_as_often_as_stated() -> None:
    for scale in (Fraction(1), Fraction(10), Fraction(2**20)):
        noise = DiscreteLaplace(scale)
        h, draws = noise.half_width(), noise.sample(100_000)
        outside = int((np.abs(draws) > h).sum())
        stated = len(draws) * noise.tail(h)
        assert chi_square([outside, len(draws) - outside], [stated, len(draws) - stated]) > ALARM


@pytest.mark.parametrize("delta_1", [1, 2, 3, 400])
@pytest.mark.parametrize("epsilon", [Fraction(1, 10), Fraction(1), Fraction(7, 3), Fraction(123456789, 10**9)])
def test_the_privacy_ratio(delta_1: int, epsilon: Fraction) -> None:
    """Two cells, neighbours up to delta_1 apart in L1: no output is more than e^epsilon times as likely under one."""
    noise = DiscreteLaplace(delta_1 / epsilon)

    def log_chance(x: int) -> float:
        h = abs(x)
        return math.log((noise.tail(h - 1) - noise.tail(h)) / (2 if h else 1))

    near = sorted({-delta_1 - 2, -delta_1, -1, 0, 1, delta_1 // 2, delta_1, delta_1 + 5})
    shifts = sorted({-delta_1, -1, 0, 1, delta_1 // 2, delta_1})
    log = {x: log_chance(x) for x in {a - shift for a in near for shift in (0, *shifts)}}
    worst = max(
        log[a] + log[b] - log[a - first] - log[b - second]
        for first, second in product(shifts, repeat=2)
        if abs(first) + abs(second) <= delta_1
        for a, b in product(near, repeat=2)
    )
    assert worst == pytest.approx(float(epsilon), rel=1e-6), "reached, and not passed"


@pytest.mark.parametrize("scale", [Fraction(0), Fraction(-1), 1.5, 2, "1", None])
def test_a_scale_is_a_fraction_above_zero(scale: object) -> None:
    with pytest.raises(ValueError, match="Fraction above 0"):
        DiscreteLaplace(scale)  # type: ignore[arg-type]


def test_a_mechanism_cannot_be_changed() -> None:
    noise = DiscreteLaplace(Fraction(1))
    with pytest.raises(FrozenInstanceError):
        noise.scale = Fraction(1, 10)  # type: ignore[misc]
    assert noise == DiscreteLaplace(Fraction(1))
    assert len({noise, DiscreteLaplace(Fraction(2, 2))}) == 1
