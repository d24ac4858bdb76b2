"""Rounded normal draws follow their exact law: in size, sign and every bit, for every scale and number of draws."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from random import Random

import numpy as np
import pytest

from dpsql.privacy import normal
from dpsql.privacy.normal import exp_bounds, rounded_normal
from dpsql.privacy.sampling import Integers
from tests.privacy.laws import ALARM, ARITHMETIC, chi_square, counts, decimal, exp_minus, script

SCALES = [Fraction(1, 8), Fraction(1, 3), Fraction(1, 2), Fraction(1), Fraction(7, 5), Fraction(10), Fraction(1000, 3)]
SCALES += [Fraction(2**10), Fraction(2**20), Fraction(2**36 - 1), Fraction(10**40, 123456789012345678901234567891)]
WIDE = [Fraction(2**36), Fraction(2**40 + 1, 3), Fraction(2**53 - 1), Fraction(2**53), Fraction(10**20, 7)]
WIDE += [Fraction(2**64), Fraction(2**80)]


def beyond(x: float) -> float:
    """P[Z > x] in float64; the C library's erfc errs by a few ulp."""
    return math.erfc(x / math.sqrt(2)) / 2


def below(m: int, sigma: Fraction) -> float:
    """P[round(sigma Z) <= m] = P[Z < (m + 1/2)/sigma]."""
    return beyond(float(-(m + Fraction(1, 2)) / sigma))


def edges(sigma: Fraction, draws: int) -> list[int]:
    """Where to cut: at every integer that enough draws fall on, else at 64 quantiles and into both tails."""
    wanted = [i / 64 for i in range(1, 64)] + [400 / draws, 1 - 400 / draws]
    middle = range(-40, 41) if sigma < 1000 else ()
    at = sorted({round(Fraction(quantile(share)) * sigma) for share in wanted} | set(middle))
    kept: list[int] = []
    for edge in at:
        last = below(kept[-1], sigma) if kept else 0.0
        if (below(edge, sigma) - last) * draws > 310 and (1 - below(edge, sigma)) * draws > 310:
            kept.append(edge)
    return kept


def quantile(share: float) -> float:
    low, high = -40.0, 40.0
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if beyond(-middle) < share else (low, middle)
    return low


def fits(draws: Integers, sigma: Fraction) -> float:
    at = edges(sigma, len(draws))
    shares = [0.0, *(below(edge, sigma) for edge in at), 1.0]
    return chi_square(counts(draws, at), [(b - a) * len(draws) for a, b in pairwise(shares)])


def low_bits_fit(draws: Integers, sigma: Fraction) -> float:
    """Remainders by 16 of the draws divided by 2^j, far below sigma: uniform to 1e-9 (Poisson summation: the error of
    uniformity modulo sigma/c is about 2 exp(-2 pi^2 c^2))."""
    chances = [1.0]
    for shift in range(0, max(0, int(sigma).bit_length() - 5), 4):
        chances.append(
            chi_square(
                np.bincount((draws >> shift).astype(object).__mod__(16).astype(np.int64), minlength=16),
                [len(draws) / 16] * 16,
            )
        )
    return min(chances)


@pytest.mark.parametrize("sigma", SCALES, ids=lambda sigma: f"{float(sigma):.4g}")
def test_draws_follow_the_law(sigma: Fraction) -> None:
    n = 400_000 if sigma > Fraction(1, 5) else 12_000_000  # few are not 0
    draws = rounded_normal(n, sigma)
    assert draws.dtype == np.int64
    assert len(draws) == n
    assert fits(draws, sigma) > ALARM
    assert low_bits_fit(draws, sigma) > ALARM


@pytest.mark.parametrize("sigma", WIDE, ids=lambda sigma: f"{float(sigma):.4g}")
def test_wide_draws_follow_the_law(sigma: Fraction) -> None:
    draws = rounded_normal(30_000, sigma)
    assert draws.dtype == (np.int64 if sigma < 2**53 else object)
    assert draws.dtype == np.int64 or all(type(x) is int for x in draws)
    assert fits(draws, sigma) > ALARM
    assert low_bits_fit(draws, sigma) > ALARM


@pytest.mark.parametrize("sigma", [Fraction(1), Fraction(2**20), Fraction(2**80)], ids=str)
def test_moments(sigma: Fraction) -> None:
    """Mean, variance and fourth moment within six standard errors; rounding adds 1/12 to the variance of sigma >= 1 (to
    1e-8) and 1/80 + sigma^2/2 to the fourth moment."""
    n = 200_000 if sigma < 2**36 else 50_000
    z = np.array([float(x / sigma) for x in map(Fraction, rounded_normal(n, sigma).tolist())])
    extra = float(1 / sigma**2)
    means = [0.0, 1 + extra / 12, 0.0, 3 + extra / 2 + extra**2 / 80]
    spreads = [1.1, 1.6, 4.5, 11.5]  # of z^1 .. z^4: roots of 1, 2, 15, 96, a little wider for sigma = 1
    for power, (mean, spread) in enumerate(zip(means, spreads, strict=True), 1):
        assert abs((z**power).mean() - mean) < 6 * spread / math.sqrt(n)


def test_tails_are_there() -> None:
    """Beyond 3, 4 and 4.5 sigma, where cells are chosen by other words, as many as there should be."""
    draws = rounded_normal(6_000_000, Fraction(2**20))
    for x in (3, 4, 4.5):
        share = 2 * beyond(x + 0.5 / 2**20)
        found = int((np.abs(draws) > x * 2**20).sum())
        assert abs(found - share * len(draws)) < 6.5 * math.sqrt(share * len(draws))  # 83 in place of 41: 4e-9
        assert found > 0  # 41 in the mean, beyond 4.5


def test_neighbouring_draws_and_signs_are_independent() -> None:
    draws = rounded_normal(400_001, Fraction(1000))
    code = (draws > 0) * 2 + (np.abs(draws) > 674)
    pairs = (code[:-1] * 4 + code[1:])[::2]
    share = np.bincount(code, minlength=4) / len(code)
    assert chi_square(np.bincount(pairs, minlength=16), (np.outer(share, share).ravel() * len(pairs)).tolist()) > ALARM


def counted_twice(draws: Integers) -> None:
    """A zero with both signs, one of them read as 1."""
    first = draws[: len(draws) // 2]
    first[first == 0] = 1


def lost_bit(draws: Integers) -> None:
    draws[: len(draws) // 20] &= ~1


def too_narrow(draws: Integers) -> None:
    draws[:] = draws * 98 // 100


def restricted_instead_of_rounded(draws: Integers) -> None:
    """Truncation towards 0: what rounding is not."""
    draws[:] -= np.sign(draws) * (np.arange(len(draws)) % 2)


@pytest.mark.parametrize("fault", [counted_twice, lost_bit, too_narrow, restricted_instead_of_rounded])
def test_these_checks_see_a_wrong_law(fault: Callable[[Integers], None]) -> None:
    """Of a million draws the least clear of these, the narrower law, is ten deviations beyond the alarm."""
    sigma = Fraction(10) if fault in (counted_twice, restricted_instead_of_rounded) else Fraction(1000)
    draws = rounded_normal(1_000_000, sigma)
    fault(draws)
    assert min(fits(draws, sigma), low_bits_fit(draws, sigma)) < ALARM


# -- the steps, on chosen words


def test_the_weights_dominate_the_normal_law() -> None:
    """w_k >= w_0 exp(-k^2/2), so that no candidate would have to be kept with a chance above 1."""
    shares = [Fraction(w) for w in normal._WEIGHTS] + [Fraction(1, 2 ** (k - 4)) for k in range(5, 60)]
    for k, share in enumerate(shares):
        assert decimal(share / shares[0]) >= exp_minus(Fraction(k * k, 2)) or k == 0
    assert sum(normal._WEIGHTS) + 1 == len(normal._CELLS) == 4096
    assert np.bincount(normal._CELLS).tolist() == [*normal._WEIGHTS, 1]


def chance(k: int, y: Fraction) -> Decimal:
    """p(y), by decimal arithmetic."""
    weight = Fraction(normal._WEIGHTS[k]) if k < 5 else Fraction(1, 2 ** (k - 4))
    return ARITHMETIC.multiply(decimal(normal._WEIGHTS[0] / weight), exp_minus(y * y / 2))


def first_word(k: int, v: int, minus: bool) -> int:
    """The word of a candidate in cell k whose V begins with the 51 bits v."""
    cell = int(np.searchsorted(normal._CELLS, k))
    return cell << 52 | v << 1 | int(minus)


MORE = [0x9E3779B97F4A7C15 * i % 2**64 for i in range(1, 60)]


@pytest.mark.parametrize("k", range(5))
@pytest.mark.parametrize("sigma", [Fraction(1, 3), Fraction(10**6), Fraction(2**70 + 1, 3)], ids=str)
def test_every_candidate_is_decided_as_arithmetic_does(k: int, sigma: Fraction) -> None:
    """V around p(y) at every distance from 1 to 2^45 of its 51 bits: kept or not, and rounded, as exact arithmetic on
    the very words says; the doubtful ones need more words of the same x and V."""
    r = Random(f"{k} {sigma}")
    in_doubt = 0
    for distance in [0, 1, 2, 5, 20, 39, 41, 100, 2**20, 2**45] * 3:
        x = r.getrandbits(64)
        at = int(ARITHMETIC.multiply(chance(k, k + Fraction(x, 2**64)), Decimal(2**51)))
        for v in {at - distance, at + distance}:
            if not 0 <= v < 2**51:
                continue
            more = [r.getrandbits(64) for _ in range(8)]
            asked = script([first_word(k, v, False), x, *more])
            first, second = asked.take(1), asked.take(1)
            rest = script(more)
            found = draw_of(first, second, rest, sigma)
            assert found == expected(k, v, x, more, sigma)
            in_doubt += len(more) - left(rest) > 0
    assert in_doubt > 0


def draw_of(first: np.ndarray, second: np.ndarray, rest: normal.Words, sigma: Fraction) -> list[int]:
    """The draws of one candidate: none, or one."""
    queue = [first, second]

    class Scripted(normal.Words):
        def take(self, n: int) -> np.ndarray:
            return queue.pop(0)

        def one(self) -> int:
            return rest.one()

    found: list[int] = normal._draw_batch(1, sigma, Scripted()).tolist()
    return found


def left(words: normal.Words) -> int:
    count = 0
    while True:
        try:
            words.one()
        except IndexError:
            return count
        count += 1


def expected(k: int, v: int, x: int, more: list[int], sigma: Fraction) -> list[int]:
    """What the words mean: V and x are read in turn, 64 bits each, until [V < p(k + x)] is the same for all that can
    follow; then x alone, until sigma y has one rounding."""
    rest, v_bits, x_bits = list(more), 51, 64
    while True:
        most = chance(k, k + Fraction(x, 2**x_bits))
        least = chance(k, k + Fraction(x + 1, 2**x_bits))
        if decimal(Fraction(v + 1, 2**v_bits)) < least:
            break
        if decimal(Fraction(v, 2**v_bits)) > most:
            return []
        v, v_bits = v << 64 | rest.pop(0), v_bits + 64
        x, x_bits = x << 64 | rest.pop(0), x_bits + 64
    while True:
        ends = {math.floor(sigma * (k + Fraction(x + i, 2**x_bits)) + Fraction(1, 2)) for i in (0, 1)}
        if len(ends) == 1:
            return list(ends)
        x, x_bits = x << 64 | rest.pop(0), x_bits + 64


def test_a_half_is_decided_by_more_bits_of_the_same_x() -> None:
    """sigma = 2: y = 1/4 lies between 0 and 1. Its first 64 bits are those of 1/4 or the number before it."""
    word = np.array([first_word(0, 0, False)], dtype=np.uint64)
    quarter = np.array([2**62], dtype=np.uint64)
    before = np.array([2**62 - 1], dtype=np.uint64)
    for start, more, size in ((quarter, [0], 1), (before, [2**64 - 1, 5], 0), (before, [7], 0)):
        assert draw_of(word, start, script(more), Fraction(2)) == [size]


def test_the_last_bit_is_the_sign_and_zero_has_none() -> None:
    for minus in (False, True):
        word = np.array([first_word(1, 0, minus)], dtype=np.uint64)
        zero = np.array([5], dtype=np.uint64)
        assert draw_of(word, zero, script([]), Fraction(10**6)) == [-(10**6) if minus else 10**6]
        assert draw_of(word, zero, script([]), Fraction(1, 8)) == [0]


def test_cells_beyond_the_table_go_on_by_fair_coins() -> None:
    """One cell further for each one at the end of a word, and past a word of ones alone."""
    word = np.array([first_word(5, 0, False)], dtype=np.uint64)
    zero = np.array([0], dtype=np.uint64)
    more = [0] * 4 + [2**64 - 1, 0] * 4
    for coins, cell in (([0b1000], 5), ([0b0001], 6), ([0b0111], 8)):
        assert draw_of(word, zero, script([*coins, *more]), Fraction(1000)) == [cell * 1000]
    far = [2**64 - 1, 0b11, *[0] * 400]
    assert draw_of(word, zero, script(far), Fraction(1000)) == [(5 + 64 + 2) * 1000]
    assert draw_of(np.array([first_word(5, 2**51 - 1, False)], dtype=np.uint64), zero, script([0b1]), Fraction(9)) == []


def test_bounds_of_exp_hold_and_are_close() -> None:
    r = Random("exp")
    for _ in range(200):
        gamma = Fraction(r.randrange(0, 40 * 2**60), 2**60)
        bits = r.choice([51, 115, 200])
        low, high = exp_bounds(gamma.numerator, gamma.denominator, bits)
        exact = ARITHMETIC.multiply(exp_minus(gamma), Decimal(2**bits))
        assert low <= exact <= high
        assert high - low <= 4 * (gamma + 1)
    assert exp_bounds(0, 1, 64) == (2**64, 2**64)


@pytest.mark.parametrize("n", [0, 1, 12, 13, 1000, 100_000])
def test_as_many_as_asked_for(n: int) -> None:
    for sigma in (Fraction(1, 8), Fraction(100)):
        draws = rounded_normal(n, sigma)
        assert draws.shape == (n,)
        assert draws.dtype == np.int64
    assert rounded_normal(0, Fraction(2**60)).dtype == object


@pytest.mark.parametrize("n", [1, 2, 13])
def test_many_small_requests_follow_the_law_too(n: int) -> None:
    draws = np.concatenate([rounded_normal(n, Fraction(10)) for _ in range(20_000 // n)])
    assert fits(draws, Fraction(10)) > ALARM


@pytest.mark.parametrize(("n", "sigma"), [(-1, Fraction(1)), (1, Fraction(0)), (1, Fraction(-1))])
def test_impossible_requests(n: int, sigma: Fraction) -> None:
    with pytest.raises(ValueError, match="sigma > 0"):
        rounded_normal(n, sigma)


def test_an_astronomic_or_vanishing_sigma_is_drawn_all_the_same() -> None:
    for sigma in (Fraction(1, 10**6), Fraction(1, 10**400)):
        assert not rounded_normal(1000, sigma).any()
    assert any(abs(x) > 10**399 for x in rounded_normal(20, Fraction(10**400)).tolist())
