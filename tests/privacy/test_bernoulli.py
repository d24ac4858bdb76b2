"""Bernoulli(exp(-gamma)): the bounds hold, and one uniform decides, to its last bit."""

from __future__ import annotations

import random
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal
from fractions import Fraction

import numpy as np
import pytest

from dpsql.privacy import sampling
from tests.privacy.laws import ALARM, chi_square, exp_minus, script

EXACT = Context(prec=400, Emin=MIN_EMIN, Emax=MAX_EMAX)
HALF = 1 << 15  # half the width of the doubtful interval


def bits_of_exp(gamma: Fraction, bits: int) -> tuple[int, Decimal]:
    """floor(2^bits exp(-gamma)) and the fraction left over."""
    scaled = EXACT.multiply(exp_minus(gamma, EXACT), Decimal(2**bits))
    return int(scaled), EXACT.subtract(scaled, Decimal(int(scaled)))


def near_integer(k: int) -> Fraction:
    """A gamma for which 2^64 exp(-gamma) is k to within 10^-60: the worst for any comparison with integers."""
    log = EXACT.ln(EXACT.divide(Decimal(k), Decimal(2**64)))
    return -Fraction(log).limit_denominator(10**80)


def gammas() -> list[Fraction]:
    """In (0, 1]: ends, tiny ones, many digits, neighbours of integers and of powers of two, and 400 of no kind."""
    chosen = [Fraction(1), Fraction(1, 2), Fraction(1, 10**40), Fraction(1, 2**1100), 1 - Fraction(1, 2**60)]
    chosen += [Fraction(1, 2**i) for i in range(1, 70, 7)] + [1 / (1 + Fraction(1, 2**53)), Fraction(693147, 10**6)]
    chosen += [near_integer(k) for k in (2**63, 2**63 + 1, 2**63 - 1, 2**64 - 1, 3 * 2**62, 6786177901268885277)]
    chosen += [Fraction(1, 2) + Fraction(i, 2**54) for i in range(-3, 4)]
    draw = random.Random("gammas")
    for _ in range(400):
        r = draw.randrange(1, 10 ** draw.randrange(1, 40))
        chosen.append(Fraction(draw.randrange(1, r + 1), r))
    return chosen


@pytest.mark.parametrize("bits", [64, 128, 192, 1024])
def test_the_rational_enclosure_contains_exp(bits: int) -> None:
    for gamma in gammas():
        low, high = sampling.enclosure(gamma.numerator, gamma.denominator, bits)
        whole, rest = bits_of_exp(gamma, bits)
        assert low <= whole
        assert high >= whole + (rest > 0)
        assert high - low <= 2


def test_the_float_bounds_contain_exp_with_room_to_spare() -> None:
    for gamma in gammas():
        low = sampling._low(gamma.numerator, gamma.denominator)
        whole, _ = bits_of_exp(gamma, 64)
        # Half of the margin is for an exp that errs by up to 8 ulp: it must not be needed here.
        assert abs(low + HALF - whole) <= HALF // 2


@pytest.mark.parametrize(
    "gamma",
    [Fraction(1, 2**20), Fraction(1, 2**52), Fraction(3, 2**22 - 5), Fraction(10**29 + 7, 10**36), Fraction(1, 3)],
)
def test_the_vector_bounds_contain_exp_with_room_to_spare(gamma: Fraction) -> None:
    most = gamma.denominator // gamma.numerator
    draw = random.Random(str(gamma))
    multiples = np.array([0, 1, most - 1, most] + [draw.randrange(most + 1) for _ in range(4000)], dtype=np.uint64)
    lows = sampling._lows(multiples, gamma.numerator, gamma.denominator)
    for multiple, low in zip(multiples.tolist(), lows.tolist(), strict=True):
        scaled = exp_minus(gamma * multiple) * 2**64
        assert abs(low + HALF - scaled) <= HALF // 2


@pytest.mark.parametrize("gamma", [Fraction(1), Fraction(1, 3), near_integer(2**63 + 1), Fraction(1, 2**40 + 1)])
def test_outside_the_doubtful_interval_one_word_decides(gamma: Fraction) -> None:
    low = sampling._low(gamma.numerator, gamma.denominator)
    assert sampling.bernoulli_exp(gamma, script([low - 1])) is True
    if low + 2 * HALF + 1 < 2**64:
        assert sampling.bernoulli_exp(gamma, script([low + 2 * HALF + 1])) is False


def doubtful_words(gamma: Fraction, low: int) -> list[list[int]]:
    """First words of uniforms that begin as exp(-gamma) does, and those at both ends of the doubtful interval."""
    expansion, _ = bits_of_exp(gamma, 256)
    shared = [expansion >> shift & (2**64 - 1) for shift in (192, 128, 64, 0)]
    begun = [[low], [low + 2 * HALF], [shared[0] - 1], [shared[0] + 1], *(shared[:length] for length in (1, 2, 3, 4))]
    nexts = [0, 2**64 - 1]
    found = [[*words, word] for words in begun for word in nexts if words[0] < 2**64]
    for at in (1, 2, 3):
        found += [[*shared[:at], shared[at] + step] for step in (-(2**40), -5, -1, 1, 5, 2**40)]
    return [words for words in found if all(0 <= word < 2**64 for word in words)]


def is_below_exp(words: list[int], gamma: Fraction) -> bool:
    """[V < exp(-gamma)] for the uniform V made of these words."""
    v = 0
    for word in words:
        v = v << 64 | word
    return v < bits_of_exp(gamma, 64 * len(words))[0]


MORE = [1001, 1002, 1003, 1004]
ORDINARY = [Fraction(1), Fraction(1, 2), Fraction(7, 11), Fraction(10**30 + 1, 10**31), Fraction(1, 2**20)]
NEAR_INTEGER = [near_integer(2**63), near_integer(2**63 + 12345), near_integer(2**64 - 2**20)]


@pytest.mark.parametrize("gamma", ORDINARY + NEAR_INTEGER)
def test_in_doubt_the_same_uniform_goes_on(gamma: Fraction) -> None:
    """More bits of the same V decide as arithmetic does; no word is left over, none asked for in vain."""
    for words in doubtful_words(gamma, sampling._low(gamma.numerator, gamma.denominator)):
        source = script([*words, *MORE])
        assert sampling.bernoulli_exp(gamma, source) is is_below_exp(words + MORE, gamma), words
        if gamma in ORDINARY:  # next to an integer, one more word may be needed
            assert source.one() == MORE[0]


@pytest.mark.parametrize("gamma", ORDINARY + NEAR_INTEGER)
def test_in_doubt_the_same_uniform_goes_on_in_vectors(gamma: Fraction) -> None:
    """The second of three coins is in doubt: the words after the first three belong to it alone."""
    p, r = gamma.numerator, gamma.denominator
    fives = np.array([5, 5, 5], dtype=np.uint64)
    for words in doubtful_words(gamma, sampling._low(p, r)):
        source = script([0, words[0], 2**64 - 1, *words[1:], *MORE])
        assert sampling._equal_coins(3, p, r, source).tolist() == [True, is_below_exp(words + MORE, gamma), False]
        if gamma in ORDINARY:
            assert source.one() == MORE[0]
    for words in doubtful_words(gamma, int(sampling._lows(fives, p, 5 * r)[0])):
        source = script([0, words[0], 2**64 - 1, *words[1:], *MORE])
        coins = sampling._coins_of(fives, p, 5 * r, source)
        assert coins.tolist() == [True, is_below_exp(words + MORE, gamma), False]
        if gamma in ORDINARY:
            assert source.one() == MORE[0]


def test_random_uniforms_that_agree_with_exp_for_many_bits_are_decided_as_arithmetic_does() -> None:
    draw = random.Random("agree")
    for gamma in gammas()[::8]:
        expansion, _ = bits_of_exp(gamma, 512)
        for _ in range(20):
            shared = draw.randrange(40, 400)  # V and exp(-gamma) differ from here on
            v = (expansion >> 512 - shared << 512 - shared) | draw.getrandbits(512 - shared)
            words = [v >> shift & (2**64 - 1) for shift in range(448, -1, -64)]
            assert sampling.bernoulli_exp(gamma, script(words)) is (v < expansion)


def test_gamma_zero_is_certain_and_costs_no_word() -> None:
    assert sampling.bernoulli_exp(Fraction(0), script([])) is True


def test_multiple_zero_is_certain_whatever_its_word_is() -> None:
    zeros = np.zeros(3, dtype=np.uint64)
    assert sampling._coins_of(zeros, 1, 8, script([0, 2**64 - 1, 2**64 - 2**14])).all()


def test_below_zero_is_refused() -> None:
    with pytest.raises(ValueError, match="gamma >= 0"):
        sampling.bernoulli_exp(Fraction(-1, 2))


def test_whole_units_are_coins_of_their_own() -> None:
    """exp(-5/2) = exp(-1) exp(-1) exp(-1/2): heads if all three are, and the first tail ends it."""
    unit, half = sampling._low(1, 1), sampling._low(1, 2)
    tail = 2**64 - 1
    gamma = Fraction(5, 2)
    for words, heads in (([0, 0, 0], True), ([tail], False), ([0, tail], False), ([0, 0, tail], False)):
        source = script([*words, 77])
        assert sampling.bernoulli_exp(gamma, source) is heads
        assert source.one() == 77
    assert sampling.bernoulli_exp(gamma, script([unit - 1, unit - 1, half - 1]))
    # Three such coins at once: only those still heads go on.
    source = script([0, tail, 0, *[0, 0], *[tail, 0], 77])
    assert sampling._equal_coins(3, 5, 2, source).tolist() == [False, False, True]
    assert source.one() == 77
    # An exact multiple of a unit has no coin for the rest.
    source = script([0, 0, 0, 0, 77])
    assert sampling._equal_coins(2, 2, 1, source).all()
    assert source.one() == 77


@pytest.mark.parametrize("gamma", [Fraction(1, 100), Fraction(1), Fraction(1, 3), Fraction(5, 2), Fraction(4)])
def test_frequencies(gamma: Fraction) -> None:
    n, p = 200_000, float(exp_minus(gamma))
    heads = int(sampling._equal_coins(n, gamma.numerator, gamma.denominator, sampling.system_words()).sum())
    assert chi_square([heads, n - heads], [n * p, n * (1 - p)]) > ALARM
    n = 100_000
    heads = sum(sampling.bernoulli_exp(gamma) for _ in range(n))
    assert chi_square([heads, n - heads], [n * p, n * (1 - p)]) > ALARM


def test_an_astronomic_gamma_is_tails_soon() -> None:
    assert sampling.bernoulli_exp(Fraction(10**400)) is False
    assert not sampling._equal_coins(1000, 10**400, 1, sampling.system_words()).any()
