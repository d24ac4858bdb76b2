"""The two statistics, on mechanisms whose laws are known: under true claims they keep their promise, exactly; where a
claim is false, they say so."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from random import Random

import numpy as np
import pytest

from dpsql.audit.betting import STAKES, Wager
from dpsql.audit.one_run import count_right, guess, p_value, shown_epsilon


def binomial(n: int, q: float) -> list[float]:
    return [math.comb(n, k) * q**k * (1 - q) ** (n - k) for k in range(n + 1)]


# ---- one run

EPSILON = math.log(3)  # answers are right with probability 3/4


@pytest.mark.parametrize("guesses", [1, 2, 7, 40])
def test_the_tail_is_exact_for_randomized_response(guesses: int) -> None:
    right = Fraction(3, 4)
    for v in range(guesses + 1):
        exact = sum(math.comb(guesses, k) * right**k * (1 - right) ** (guesses - k) for k in range(v, guesses + 1))
        assert float(exact) <= p_value(guesses, guesses, v, EPSILON) <= float(exact) * (1 + 1e-8)


@pytest.mark.parametrize("epsilon", [0.0, 0.5, 3.0])
def test_a_true_claim_is_refuted_no_more_often_than_promised(epsilon: float) -> None:
    """Randomized response attains epsilon: for each level the chance of a p-value below it is at most the level."""
    n = 60
    law = binomial(n, 1 / (1 + math.exp(-epsilon)))
    for level in (0.3, 0.05, 1e-3, 1e-6):
        assert sum(mass for v, mass in enumerate(law) if p_value(n, n, v, epsilon) <= level) <= level


@pytest.mark.parametrize("delta", [0.001, 0.02, 0.1, 0.5])
def test_delta_is_covered(delta: float) -> None:
    """Randomized response that gives an entry away with probability delta is (epsilon, delta)-DP."""
    n, q = 40, 1 / (1 + math.exp(-1.0))
    law = binomial(n, q + delta * (1 - q))
    for level in (0.3, 0.05, 1e-3, 1e-6):
        assert sum(mass for v, mass in enumerate(law) if p_value(n, n, v, 1.0, delta) <= level) <= level
    assert p_value(n, n, n, 1.0, delta) > p_value(n, n, n, 1.0)


def test_the_term_of_delta_is_the_steepest_secant() -> None:
    m, r, v, epsilon, delta = 100, 50, 45, 1.0, 1e-4
    masses = binomial(r, 1 / (1 + math.exp(-epsilon)))

    def tail(k: int) -> float:
        return math.fsum(masses[k:])

    secant = max((tail(v - i) - tail(v)) / i for i in range(1, v + 1))
    assert p_value(m, r, v, epsilon, delta) == pytest.approx(tail(v) + 2 * m * delta * secant, rel=1e-7)


@pytest.mark.parametrize("bad", [(10, 11, 5, 1.0, 0.0), (10, 5, 6, 1.0, 0.0), (10, 5, 5, -1.0, 0.0), (9, 5, 5, 1, 2)])
def test_what_makes_no_sense_is_refused(bad: tuple[int, int, int, float, float]) -> None:
    with pytest.raises(ValueError, match="among"):
        p_value(*bad)


def test_the_extreme_half_is_guessed() -> None:
    assert guess([5.0, 1.0, 3.0, 2.0, 4.0, 3.0], 4) == [1, -1, 0, -1, 1, 0]
    assert guess([1.0] * 4, 2) == [-1, 0, 0, 1]
    assert count_right([1, -1, 0, 1], [True, False, True, False]) == 2


def discrete_laplace(generator: np.random.Generator, scale: float, n: int) -> np.ndarray:
    q = 1 - math.exp(-1 / scale)
    return generator.geometric(q, n) - generator.geometric(q, n)


@pytest.mark.parametrize("seed", range(5))
def test_laplace_noise_of_the_right_scale_passes_and_of_half_of_it_does_not(seed: int) -> None:
    """1,000 counts that move by 2. The scale is that of epsilon 1.5: claimed, or twice too little for the claim 0.75.
    (Seeds are fixed, so there is no false alarm to state.)"""
    random, generator = Random(seed), np.random.default_rng(seed)
    coins = [random.random() < 0.5 for _ in range(1000)]
    for epsilon, low, high in ((1.5, 1e-3, 1.0), (3.0, 0.0, 1e-6)):
        scores = [float(x) for x in 2 * np.array(coins) + discrete_laplace(generator, 2 / epsilon, 1000)]
        right = count_right(guess(scores, 500), coins)
        assert low <= p_value(1000, 500, right, 1.5) <= high
        assert epsilon / 2 < shown_epsilon(1000, 500, right) < epsilon + 1


def test_what_is_shown_is_what_is_just_refuted() -> None:
    shown = shown_epsilon(1000, 500, 450)
    assert p_value(1000, 500, 450, shown) == pytest.approx(0.05, rel=1e-3)
    assert shown_epsilon(1000, 500, 250) == 0.0


# ---- betting

PAIRS = [(a, b) for a in (False, True) for b in (False, True)]


@pytest.mark.parametrize(("epsilon", "delta"), [(0.0, 0.0), (0.25, 0.0), (1.0, 0.05), (3.0, 0.1)])
def test_wealth_does_not_grow_under_a_true_claim(epsilon: float, delta: float) -> None:
    """Over all histories of five rounds, for an event that attains the claim: the mean wealth is 1, wealth is never
    negative, and Ville's bound holds for its peak."""
    below = 0.3 / math.exp(epsilon)
    above = math.exp(epsilon) * below + delta
    levels = (1.05, 1.3, 2.0, 4.0)
    mean, reached = 0.0, dict.fromkeys(levels, 0.0)
    for history in itertools.product(PAIRS, repeat=5):
        wager, mass = Wager(epsilon, delta), 1.0
        for a, b in history:
            wager.add(a, b)
            mass *= (above if a else 1 - above) * (below if b else 1 - below)
        mean += mass * 10**wager.log10
        for level in levels:
            reached[level] += mass * (wager.peak >= math.log10(level))
    assert mean == pytest.approx(1.0)
    assert all(chance <= 1 / level for level, chance in reached.items())
    assert reached[1.05] > 0


def test_stakes_keep_wealth_above_nothing() -> None:
    assert 0 < min(STAKES) < max(STAKES) < 1
    wager = Wager(2.0, 0.1)
    for _ in range(1000):
        wager.add(False, True)  # the worst that can happen
    assert math.isfinite(wager.log10)
    assert (wager.peak, wager.rounds) == (0.0, 1000)


def test_an_event_of_one_side_only_is_found_in_sixty_rounds() -> None:
    wager = Wager(0.25)
    for _ in range(60):
        wager.add(True, False)
    assert wager.peak > 9


def test_a_probability_that_doubles_is_found() -> None:
    """0.2 against 0.4 where e^0.25 = 1.28 is claimed; the seed is fixed."""
    random, wager = Random(1), Wager(0.25)
    for _ in range(4000):
        wager.add(random.random() < 0.4, random.random() < 0.2)
    assert wager.peak > 9


def test_claims_are_not_negative() -> None:
    for claim in ((-1.0, 0.0), (1.0, -0.1), (1.0, 1.1)):
        with pytest.raises(ValueError, match="claims"):
            Wager(*claim)
