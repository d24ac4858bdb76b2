"""Private choices: exact laws, one uniform to its last bit, half the price where a unit moves all scores one way."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from itertools import permutations, product

import numpy as np
import pytest

from dpsql.privacy import choices
from dpsql.privacy.choices import EXPONENTIAL, PERMUTE_AND_FLIP, choose
from tests.privacy.laws import ALARM, ARITHMETIC, chi_square, exp_minus, script

VOTE = (30, 25, 8, 2)
REFERENCE = {
    "0": (0.25, 0.25, 0.25, 0.25),
    "0.1": (0.424, 0.330, 0.141, 0.105),
    "1": (0.924, 0.076, 1.5e-5, 7.7e-7),
}
DRAWS = {EXPONENTIAL: 100_000, PERMUTE_AND_FLIP: 30_000}
"""Of each law; the second is the slower one."""


def gammas(utilities: Sequence[int], sensitivity: int, epsilon: Fraction) -> list[Fraction]:
    return [epsilon * (max(utilities) - u) / (2 * sensitivity) for u in utilities]


def exponential_law(utilities: Sequence[int], sensitivity: int, epsilon: Fraction) -> list[Decimal]:
    weights = [exp_minus(g) for g in gammas(utilities, sensitivity, epsilon)]
    whole = sum(weights, Decimal(0))
    return [ARITHMETIC.divide(w, whole) for w in weights]


def flip_law(utilities: Sequence[int], sensitivity: int, epsilon: Fraction) -> list[Decimal]:
    """Of permute and flip as McKenna and Sheldon wrote it: along each permutation until the first head."""
    heads = [exp_minus(g) for g in gammas(utilities, sensitivity, epsilon)]
    law, orders = [Decimal(0)] * len(heads), list(permutations(range(len(heads))))
    for order in orders:
        so_far = Decimal(1)
        for i in order:
            law[i] += so_far * heads[i] / len(orders)
            so_far *= 1 - heads[i]
    return law


LAWS = {EXPONENTIAL: exponential_law, PERMUTE_AND_FLIP: flip_law}


@pytest.mark.parametrize("epsilon", REFERENCE)
def test_the_vote_has_the_textbooks_probabilities(epsilon: str) -> None:
    law = exponential_law(VOTE, 1, Fraction(epsilon))
    for exact, told in zip(law, REFERENCE[epsilon], strict=True):
        assert math.isclose(exact, told, rel_tol=0.04, abs_tol=0.0005 if told > 0.01 else 0)


def fits(found: Sequence[int], law: Sequence[Decimal]) -> float:
    """chi_square, candidates that are too rare for a bin of their own in one with the next."""
    counts, observed, expected = np.bincount(found, minlength=len(law)).tolist(), [0], [0.0]
    for count, chance in sorted(zip(counts, law, strict=True), key=lambda c: c[1]):
        if expected[-1] >= 300:
            observed.append(0)
            expected.append(0.0)
        observed[-1] += count
        expected[-1] += float(chance) * len(found)
    if expected[-1] < 300:
        observed[-2:], expected[-2:] = [sum(observed[-2:])], [sum(expected[-2:])]
    return chi_square(observed, expected) if len(observed) > 1 else 1.0


@pytest.mark.parametrize("mechanism", LAWS)
@pytest.mark.parametrize("epsilon", ["0", "0.1", "1"])
def test_draws_of_the_vote_follow_the_law(mechanism: str, epsilon: str) -> None:
    found = [choose(mechanism, VOTE, 1, Fraction(epsilon))[0] for _ in range(DRAWS[mechanism])]
    assert fits(found, LAWS[mechanism](VOTE, 1, Fraction(epsilon))) > ALARM


@pytest.mark.parametrize("mechanism", LAWS)
def test_draws_of_the_auction_follow_the_law(mechanism: str) -> None:
    revenues, most = (300, 301, 0), 302  # cents, at 1.00, 3.01 and 3.02: one bid moves each by its price at most
    found = [choose(mechanism, revenues, most, Fraction(10))[0] for _ in range(DRAWS[mechanism])]
    assert fits(found, LAWS[mechanism](revenues, most, Fraction(10))) > ALARM


@pytest.mark.parametrize("mechanism", LAWS)
def test_two_winners_are_two_choices_at_half_the_epsilon(mechanism: str) -> None:
    epsilon, utilities = Fraction(2), (3, 2, 1, 0)
    pairs = [p for p in product(range(4), repeat=2) if p[0] != p[1]]
    law = []
    for first, second in pairs:
        one = LAWS[mechanism](utilities, 1, epsilon / 2)[first]
        left = [i for i in range(4) if i != first]
        law.append(one * LAWS[mechanism]([utilities[i] for i in left], 1, epsilon / 2)[left.index(second)])
    found = [
        pairs.index((a, b)) for a, b in (choose(mechanism, utilities, 1, epsilon, 2) for _ in range(DRAWS[mechanism]))
    ]
    assert fits(found, law) > ALARM


@pytest.mark.parametrize("law", LAWS.values())
def test_one_sided_moves_cost_half_and_others_all(law: object) -> None:
    """Worst log-ratio over neighbours, every move of up to 1 of each of three utilities: never above epsilon/2 where
    all go one way, above it and never above epsilon where they do not. (The vote: 0.49999 at epsilon 1.)"""
    assert callable(law)
    epsilon = Fraction(1)

    def worst(utilities: Sequence[int], moves: Sequence[Sequence[int]]) -> float:
        at = law(utilities, 2, epsilon)
        found = 0.0
        for move in moves:
            other = law([u + d for u, d in zip(utilities, move, strict=True)], 2, epsilon)
            found = max(found, *(abs(float(a.ln() - b.ln())) for a, b in zip(at, other, strict=True)))
        return found

    upwards = list(product((0, 1, 2), repeat=3))
    both = list(product((-2, 0, 2), repeat=3))
    starts = [(20, 20, 20), (30, 25, 8), (40, 0, 0), (40, 40, 0), (22, 20, 60)]
    assert 0.4 < max(worst(u, upwards) for u in starts) <= 0.5 + 1e-12
    assert 0.5 < max(worst(u, both) for u in starts) <= 1 + 1e-12


def test_a_doubtful_uniform_is_continued_and_not_drawn_anew() -> None:
    """Two equal candidates meet at 1/2: a uniform that begins with its bits is below it by its later bits alone."""
    half = 1 << 63
    assert choose(EXPONENTIAL, (5, 5), 1, Fraction(1), words=script([half, 0])) == [1]
    assert choose(EXPONENTIAL, (5, 5), 1, Fraction(1), words=script([half - 1, 2**64 - 1])) == [0]
    # No doubt: no further word is asked for (the script has none).
    assert choose(EXPONENTIAL, (5, 5), 1, Fraction(1), words=script([1])) == [0]
    assert choose(EXPONENTIAL, (5, 5), 1, Fraction(1), words=script([2**64 - 1])) == [1]


@pytest.mark.parametrize("gamma", [Fraction(1, 3), Fraction(1), Fraction(5, 2), Fraction(40)])
def test_the_boundary_is_exact_to_its_last_bit(gamma: Fraction) -> None:
    """Words that spell the boundary's own 192 bits, then one more or less in the last of them, fall on its two
    sides."""
    utilities, sensitivity, epsilon = (gamma.numerator, 0), gamma.denominator, Fraction(2)
    one, q = Decimal(1), exp_minus(gamma)
    boundary = int(ARITHMETIC.multiply(ARITHMETIC.divide(one, ARITHMETIC.add(one, q)), Decimal(2**192)))
    for shift, chosen in ((-1, 0), (1, 1)):
        spelled = [(boundary + shift) >> 64 * i & (2**64 - 1) for i in (2, 1, 0)]
        assert choose(EXPONENTIAL, utilities, sensitivity, epsilon, words=script([*spelled, 7])) == [chosen]


@pytest.mark.parametrize(
    "gamma", [Fraction(0), Fraction(1, 7), Fraction(1), Fraction(19, 3), Fraction(90), Fraction(600)]
)
@pytest.mark.parametrize("bits", [64, 128, 256])
def test_enclosures_of_weights_contain_them(gamma: Fraction, bits: int) -> None:
    low, high = choices.weight(gamma.numerator * 3, gamma.denominator * 3, bits)
    exact = Fraction(exp_minus(gamma)) * 2**bits
    assert low - Fraction(1, 10**40) * 2**bits <= exact <= high + Fraction(1, 10**40) * 2**bits
    assert high - low <= 2


def test_huge_differences_and_many_candidates() -> None:
    assert choose(EXPONENTIAL, [10**400, 0, -(10**400)], 1, Fraction(1)) == [0]
    assert choose(PERMUTE_AND_FLIP, [0, 10**400, -(10**400)], 1, Fraction(1)) == [1]
    assert sorted(choose(EXPONENTIAL, [1, 2, 3], 1, Fraction(1), 7)) == [0, 1, 2]
    assert choose(EXPONENTIAL, [], 1, Fraction(1)) == []
    utilities = [0] * 50_000
    assert len({choose(EXPONENTIAL, utilities, 1, Fraction(1))[0] for _ in range(5)}) > 1


def test_a_choice_is_as_good_as_it_is_said_to_be() -> None:
    utilities = [*range(0, 100, 5)]
    reach = choices.shortfall(1, Fraction(1), len(utilities), Fraction(19, 20))
    for mechanism in LAWS:
        bad = sum(utilities[choose(mechanism, utilities, 1, Fraction(1))[0]] < 95 - reach for _ in range(2000))
        assert bad <= 0.05 * 2000
