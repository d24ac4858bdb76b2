"""A finer answer, drawn given a released one: its law, and that both together cost what the finer one costs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from itertools import product

import numpy as np
import numpy.typing as npt
import pytest

from dpsql.privacy.refinement import refined
from dpsql.privacy.sampling import discrete_laplace, geometric
from tests.privacy.laws import ALARM, chi_square, exp_minus, fits

PAIRS = [
    (Fraction(2), Fraction(1)),
    (Fraction(10), Fraction(9)),
    (Fraction(7, 2), Fraction(1, 3)),
    (Fraction(100), Fraction(3)),
    (Fraction(1, 2), Fraction(1, 4)),
    (Fraction(10**7), Fraction(10**5)),
]
NOISE = [0, 1, -1, 3, -8]
LAST = 3000


def law(k: int, y: int, coarse: Fraction, fine: Fraction) -> float:
    """The chance of finer noise k given coarser noise y, by the quotient of the three laws."""
    q1, q2 = float(exp_minus(1 / coarse)), float(exp_minus(1 / fine))
    f1, f2 = ((1 - q) / (1 + q) * q ** abs(at) for q, at in ((q1, y), (q2, k)))
    whole = ((1 - q1) / (1 - q2)) ** 2
    between = whole * (1 - q2 / q1) * (1 - q1 * q2) / (1 - q1**2) * q1 ** abs(y - k)
    return f2 * (between + (whole * q2 / q1 if k == y else 0)) / f1


@pytest.mark.parametrize("y", NOISE)
@pytest.mark.parametrize(("coarse", "fine"), PAIRS[:5])
def test_draws_follow_the_law_given_what_was_released(coarse: Fraction, fine: Fraction, y: int) -> None:
    """Which is a law: it adds up to 1, so that what lies between both noises is noise itself."""
    n, exact = 100_000, 12_345
    chances = [law(k, y, coarse, fine) for k in range(-LAST, LAST + 1)]
    assert sum(chances) == pytest.approx(1, abs=1e-9)
    drawn = refined(np.full(n, exact), np.full(n, exact + y), coarse, fine) - exact
    found = np.bincount(drawn.astype(np.int64) + LAST, minlength=2 * LAST + 1)
    assert fits_binned(found, chances) > ALARM


def fits_binned(found: npt.NDArray[np.int64], chances: Sequence[float]) -> float:
    """Values in bins that 300 draws or more are expected in."""
    observed, expected = [0], [0.0]
    for count, chance in zip(found.tolist(), chances, strict=True):
        if expected[-1] >= 300:
            observed.append(0)
            expected.append(0.0)
        observed[-1] += count
        expected[-1] += chance * found.sum()
    if expected[-1] < 300 and len(expected) > 1:
        observed[-2:], expected[-2:] = [sum(observed[-2:])], [sum(expected[-2:])]
    return chi_square(observed, expected) if len(expected) > 1 else 1.0


@pytest.mark.parametrize(("coarse", "fine"), PAIRS)
def test_over_all_that_may_have_been_released_it_is_plain_noise(coarse: Fraction, fine: Fraction) -> None:
    """Of the finer scale, also where no law can be tabulated; and what was released before is that plus noise which is
    independent of it: their difference has the same spread wherever the finer noise lies."""
    n = 200_000
    exact = np.arange(n)
    before = exact + discrete_laplace(n, coarse)
    noise = (refined(exact, before, coarse, fine) - exact).astype(np.int64)
    assert fits(noise, fine) > ALARM
    difference = np.abs(before - exact - noise)
    near = np.abs(noise) <= np.median(np.abs(noise))
    assert 0 < near.sum() < n or fine < 1
    cut = np.median(difference[difference > 0])
    shares = [float((difference[side] > cut).mean()) for side in (near, ~near) if side.sum() > 1000]
    sigma = max(0.5 / np.sqrt(side.sum()) for side in (near, ~near) if side.sum() > 1000)
    assert max(shares) - min(shares) < 6.5 * np.sqrt(2) * sigma  # of normal deviation: below 1e-9


REACH = range(-25, 26)


@pytest.mark.parametrize(("coarse", "fine"), [PAIRS[0], PAIRS[1], PAIRS[2]])
def test_both_cost_what_the_finer_one_costs(coarse: Fraction, fine: Fraction) -> None:
    """The largest ratio of the chances of what is seen, where a person moves the number by 1: of the two together as
    large as of the finer one alone. And both conditions are needed: of two finer answers given the same one, and of one
    that is drawn for another number, it is larger than what would have been charged."""

    def first(y: int, x: int) -> float:
        q = math.exp(-1 / coarse)
        return (1 - q) / (1 + q) * q ** abs(y - x)

    def both(y1: int, y2: int, x: int, other: int = 0) -> float:
        return first(y1, x + other) * law(y2 - x, y1 - x, coarse, fine)

    def loss(chance: Callable[..., float], seen: Iterable[tuple[int, ...]]) -> float:
        return max(abs(math.log(chance(*ys, 0) / chance(*ys, 1))) for ys in seen)

    pairs = list(product(REACH, REACH))
    assert loss(both, pairs) == pytest.approx(float(1 / fine), rel=1e-6)
    another = loss(lambda y1, y2, x: both(y1, y2, x, other=3), pairs)
    assert another > 1 / fine * 1.05

    def twice(y1: int, y2: int, y3: int, x: int) -> float:
        return both(y1, y2, x) * law(y3 - x, y1 - x, coarse, fine)

    charged = 1 / coarse + 2 * (1 / fine - 1 / coarse)
    assert loss(twice, [(y1, y2, y2) for y1, y2 in pairs]) > charged * 1.05


def test_any_size() -> None:
    exact = np.array([10**30, -(10**30), 0], dtype=object)
    released = exact + np.array([5, -7, 10**25], dtype=object)
    near = refined(exact, released, Fraction(10**3), Fraction(1, 10**3)) - exact
    assert [abs(int(x)) < 10 for x in near] == [True] * 3
    assert len(refined(exact[:0], released[:0], Fraction(2), Fraction(1))) == 0


@pytest.mark.parametrize(("coarse", "fine"), [(1, 1), (1, 2), (1, 0), (1, -1)])
def test_only_less_noise_refines(coarse: int, fine: int) -> None:
    with pytest.raises(ValueError, match="more noise"):
        refined(np.zeros(1), np.zeros(1), Fraction(coarse), Fraction(fine))


@pytest.mark.parametrize("scale", [Fraction(1, 4), Fraction(3), Fraction(1000, 7)])
def test_geometric_draws_follow_their_law(scale: Fraction) -> None:
    n, q = 100_000, float(exp_minus(1 / scale))
    draws = geometric(n, scale)
    assert len(draws) == n
    assert draws.min() >= 0
    found = np.bincount(draws, minlength=LAST)
    assert fits_binned(found, [(1 - q) * q**k for k in range(len(found))]) > ALARM
