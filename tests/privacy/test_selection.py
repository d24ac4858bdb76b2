"""Decisions on private keys: least thresholds, the (epsilon, delta) promise on exact laws, and what is really drawn.

The laws stand here once more, in decimals of 80 digits from `laws.exp_minus`, independent of the code under test.
"""

from __future__ import annotations

import functools
from decimal import Decimal, localcontext
from fractions import Fraction
from itertools import pairwise, product

import numpy as np
import pytest

from dpsql.privacy.enclosures import Arithmetic, Enclosure, upper_tail
from dpsql.privacy.selection import Conditioned, conditioned
from dpsql.privacy.thresholds import laplace_threshold, normal_threshold
from tests.privacy.laws import ALARM, ARITHMETIC, below, chi_square, decimal, exp_minus

PRICES = [
    (Fraction(epsilon), Fraction(delta), touched)
    for epsilon, delta, touched in product(
        ("0.01", "0.3", "1", "2.7", "20"), ("0.2", "0.01", "1e-6", "1e-12"), (1, 2, 7, 100)
    )
]
SMALL = [p for p in PRICES if p[2] / p[0] < 40]
"""Those whose laws are short enough to be written out."""


def above(x: int, scale: Fraction) -> Decimal:
    """P[X >= x] of discrete Laplace noise: P[X <= -x]."""
    return below(-x, scale)


@functools.cache
def law(scale: Fraction, m: int) -> list[Decimal]:
    """P[X = x given |X| <= m] for x = -m, ..., m, by brute force: every weight q^|x|, over their sum."""
    q = exp_minus(1 / scale)
    weights = [Decimal(1)]
    for _ in range(m):
        weights.append(ARITHMETIC.multiply(weights[-1], q))
    whole = functools.reduce(ARITHMETIC.add, [*weights[1:], *weights])
    shares = [ARITHMETIC.divide(w, whole) for w in weights]
    return shares[:0:-1] + shares


def kept(scale: Fraction, m: int) -> list[Decimal]:
    """P[n + X > m] for n = 0, 1, ..., 2m + 2, X given |X| <= m."""
    chances, total = [Decimal(0)], Decimal(0)
    for share in reversed(law(scale, m)):
        total = ARITHMETIC.add(total, share)
        chances.append(total)
    return [*chances, Decimal(1)]


# ---- the least that serves


@pytest.mark.parametrize(("epsilon", "delta", "touched"), PRICES)
def test_a_normal_threshold_is_the_least(epsilon: Fraction, delta: Fraction, touched: int) -> None:
    """By the exact law: P[1 + round(sigma Z) >= tau] <= delta/touched, and not for tau - 1."""
    sigma = touched / epsilon
    tau = normal_threshold(sigma, delta, touched)

    def passes(tau: int) -> Enclosure:
        arithmetic = Arithmetic(80)
        return upper_tail(arithmetic.of((tau - 1 - Fraction(1, 2)) / sigma))

    allowed = Arithmetic(80).of(delta / touched)
    assert passes(tau).high <= allowed.high
    assert passes(tau - 1).low > allowed.low or tau == 2
    assert normal_threshold(sigma, delta, touched, 7) == tau + 6


@pytest.mark.parametrize(("epsilon", "delta", "touched"), PRICES)
def test_a_threshold_is_the_least(epsilon: Fraction, delta: Fraction, touched: int) -> None:
    """P[1 + X >= tau] <= delta/touched, and not for tau - 1."""
    tau, scale = laplace_threshold(epsilon, delta, touched), touched / epsilon
    assert above(tau - 1, scale) <= decimal(delta / touched) < above(tau - 2, scale)


@pytest.mark.parametrize(("epsilon", "delta", "touched"), PRICES)
def test_a_condition_is_the_least(epsilon: Fraction, delta: Fraction, touched: int) -> None:
    """P[X = m given |X| <= m] <= delta/touched, and not for m - 1. The chance is a share of all weights, summed in
    closed form: 1 + 2 (q + ... + q^m) = (1 + q - 2 q^(m+1)) / (1 - q); `law` sums them one by one."""
    rule, scale = conditioned(epsilon, delta, touched), touched / epsilon
    assert rule.scale == scale
    q = exp_minus(1 / scale)

    def last(m: int) -> Decimal:
        with localcontext(ARITHMETIC):
            weights = (1 + q - 2 * exp_minus((m + 1) / scale)) / (1 - q)
            return exp_minus(m / scale) / weights

    assert last(rule.m) <= decimal(delta / touched) < last(rule.m - 1)
    if rule.m < 2000:
        assert abs(law(scale, rule.m)[-1] - last(rule.m)) < Decimal(10) ** -50


def test_amounts_that_lose_digits() -> None:
    """1 - q has no digits left at 60 where epsilon is tiny; m stays the least."""
    for epsilon in (Fraction(1, 10**18), Fraction(1, 10**30)):
        rule = conditioned(epsilon, Fraction(1, 1000), 1)
        # q^m is 1 to 27 digits or more there: 1 / (2m + 1) <= 1/1000.
        assert rule.m == 500
        assert rule.keep(np.array([0, 1001, 2000])).tolist() == [False, True, True]
    assert laplace_threshold(Fraction(1, 10**30), Fraction(1, 1000), 1) > 10**30


@pytest.mark.parametrize("touched", [1, 3, 50])
def test_more_units_shift_both(touched: int) -> None:
    epsilon, delta = Fraction(1), Fraction(1, 10**5)
    for fewest in (1, 2, 20):
        assert (
            laplace_threshold(epsilon, delta, touched, fewest)
            == laplace_threshold(epsilon, delta, touched) + fewest - 1
        )
        rule, plain = conditioned(epsilon, delta, touched, fewest), conditioned(epsilon, delta, touched)
        assert (rule.scale, rule.m, rule.shift) == (plain.scale, plain.m, fewest - 1)
        # Fewer units than asked for are never shown, and certainly are those beyond the law's reach.
        assert not rule.keep(np.arange(fewest)).any()
        assert rule.keep(np.full(99, 2 * rule.m + fewest)).all()


# ---- the promise


def check_promise(chances: list[Decimal], epsilon: Fraction, delta: Fraction) -> None:
    """Both outcomes, both ways, for all numbers of units and one more."""
    factor, slack = exp_minus(-epsilon), ARITHMETIC.add(decimal(delta), Decimal("1e-60"))
    with localcontext(ARITHMETIC):
        for fewer, more in pairwise(chances):
            assert more <= factor * fewer + slack
            assert fewer <= factor * more + slack
            assert 1 - fewer <= factor * (1 - more) + slack
            assert 1 - more <= factor * (1 - fewer) + slack


@pytest.mark.parametrize(("epsilon", "delta", "touched"), SMALL)
def test_each_decision_keeps_its_share_of_the_promise(epsilon: Fraction, delta: Fraction, touched: int) -> None:
    """Adding a unit to a key costs (epsilon/touched, delta/touched); a key without units is never shown, so that keys
    that do not exist need no decision."""
    rule = conditioned(epsilon, delta, touched)
    chances = kept(rule.scale, rule.m)
    assert chances[0] == 0
    check_promise(chances, epsilon / touched, delta / touched)


@pytest.mark.parametrize(("epsilon", "delta", "touched"), SMALL)
def test_a_released_count_decides_for_a_delta_alone(epsilon: Fraction, delta: Fraction, touched: int) -> None:
    """The count of a key is released when it reaches tau, else nothing is. Between n and n + 1 units, n >= 1, outcomes
    differ by e^(epsilon/touched); between no unit and one, where the key appears, by delta/touched."""
    tau, scale = laplace_threshold(epsilon, delta, touched), touched / epsilon
    chances = [Decimal(0), *(above(tau - n, scale) for n in range(1, 2 * tau))]
    check_promise(chances[1:], epsilon / touched, Fraction(0))
    check_promise(chances[:2], Fraction(0), delta / touched)


@pytest.mark.parametrize("planted", ["m", "tau", "units"])
def test_less_would_be_seen(planted: str) -> None:
    """One less than the least breaks the promise, and so does a unit that counts twice."""
    epsilon, delta = Fraction(1), Fraction(1, 1000)
    rule = conditioned(epsilon, delta, 1)
    tau = laplace_threshold(epsilon, delta, 1)
    chances = {
        "m": kept(rule.scale, rule.m - 1),
        "tau": [Decimal(0), above(tau - 2, rule.scale)],
        "units": kept(rule.scale, rule.m)[::2],
    }[planted]
    with pytest.raises(AssertionError):
        check_promise(chances, epsilon if planted != "tau" else Fraction(0), delta)


# ---- what is drawn


def check_draws(rule: Conditioned, draws: int) -> None:
    """How often keys of each number of units are kept: a chi-square apart for each."""
    chances = kept(rule.scale, rule.m)
    tested = 0
    for n in range(0, 2 * rule.m + 3, max(1, rule.m // 8)):
        found = int(rule.keep(np.full(draws, n + rule.shift)).sum())
        chance = float(chances[n])
        if min(chance, 1 - chance) * draws < 300:
            assert min(found, draws - found) <= 1000
            assert chance not in (0, 1) or found == draws * chance
        else:
            assert chi_square([found, draws - found], [chance * draws, (1 - chance) * draws]) > ALARM
            tested += 1
    assert tested >= 3


@pytest.mark.parametrize(
    ("epsilon", "delta", "touched", "fewest"),
    [("1", "0.01", 1, 1), ("0.3", "1e-4", 3, 1), ("3", "0.05", 2, 5), ("0.001", "0.02", 1, 1), ("1e-20", "0.05", 2, 3)],
)
def test_keys_are_kept_as_often_as_they_should(epsilon: str, delta: str, touched: int, fewest: int) -> None:
    """The last two have m below the scale of the noise, where next to no unbounded draw would be inside."""
    rule = conditioned(Fraction(epsilon), Fraction(delta), touched, fewest)
    check_draws(rule, 20_000)


def test_another_law_would_be_seen() -> None:
    rule = conditioned(Fraction(1), Fraction(1, 100), 1)

    class Other(Conditioned):
        def keep(self, units: np.ndarray) -> np.ndarray:  # type: ignore[type-arg]
            return Conditioned(rule.scale * 2, rule.m, rule.shift).keep(units)

    with pytest.raises(AssertionError):
        check_draws(Other(rule.scale, rule.m, rule.shift), 20_000)


def test_decisions_are_independent() -> None:
    """Pairs of decisions in one call: all four outcomes as often as for independent coins."""
    rule = conditioned(Fraction(1), Fraction(1, 100), 1)
    chance = float(kept(rule.scale, rule.m)[rule.m])
    pairs = rule.keep(np.full(40_000, rule.m)).reshape(-1, 2)
    found = np.bincount(pairs[:, 0] * 2 + pairs[:, 1], minlength=4)
    expected = [20_000 * a * b for a in (1 - chance, chance) for b in (1 - chance, chance)]
    assert chi_square(found, expected) > ALARM
