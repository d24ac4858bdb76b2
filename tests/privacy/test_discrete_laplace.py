"""Discrete Laplace draws follow their exact law: in size, sign and every bit, for every scale and number of draws."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest

from dpsql.privacy import sampling
from dpsql.privacy.sampling import Integers, Words, discrete_laplace
from tests.privacy.laws import ALARM, at_residues, chi_square, fits, script

SCALES = [
    Fraction(1, 8),
    Fraction(1, 3),
    Fraction(9, 10),
    Fraction(1),
    Fraction(7, 5),
    Fraction(10),
    Fraction(1000, 3),
    Fraction(2**10),
    Fraction(2**20),
    Fraction(2**20 - 1),
    Fraction(10**40, 123456789012345678901234567891),  # more digits than any word, size 8.1e10
    Fraction(2**40),
    Fraction(2**53 - 1),
]
BEYOND_INT64 = [Fraction(2**53), Fraction(2**61 + 1, 3), Fraction(10**30)]
TAIL, HEAD = 2**64 - 1, 0  # words that decide a coin of any gamma in [2^-48, 1]


def low_bits_fit(draws: Integers, scale: Fraction) -> list[float]:
    """Remainders in at most 16 groups, against their exact law: small moduli, and every fourth bit up to the scale."""
    chances = []
    for modulus in [2, 3, 5, 7] + [1 << bits for bits in range(3, scale.numerator.bit_length(), 4)]:
        if modulus > 4 * scale:
            break
        groups = min(modulus, 16)
        edges = [i * modulus // groups for i in range(groups + 1)]
        groups_of = np.searchsorted(np.array(edges[1:], dtype=draws.dtype), draws % modulus, side="right")
        shares = [float(at_residues(a, b, modulus, scale)) for a, b in pairwise(edges)]
        observed = np.bincount(groups_of.astype(np.int64), minlength=groups)
        chances.append(chi_square(observed, [share * len(draws) for share in shares]))
    return chances


@pytest.mark.parametrize("scale", SCALES, ids=lambda scale: f"{float(scale):.4g}")
def test_vector_draws_follow_the_law(scale: Fraction) -> None:
    n = 200_000 if scale > Fraction(1, 4) else 3_000_000  # few are not 0
    draws = discrete_laplace(n, scale)
    assert draws.dtype == np.int64
    assert len(draws) == n
    assert fits(draws, scale) > ALARM
    assert min(low_bits_fit(draws, scale), default=1) > ALARM


@pytest.mark.parametrize("scale", [Fraction(1, 4), *SCALES[1:]], ids=lambda scale: f"{float(scale):.4g}")
def test_single_draws_follow_the_law(scale: Fraction) -> None:
    draws = np.concatenate([discrete_laplace(12, scale) for _ in range(2_000)])
    assert draws.dtype == np.int64
    assert fits(draws, scale) > ALARM
    assert min(low_bits_fit(draws, scale), default=1) > ALARM


@pytest.mark.parametrize("scale", BEYOND_INT64, ids=lambda scale: f"{float(scale):.4g}")
def test_draws_beyond_int64_follow_the_law(scale: Fraction) -> None:
    draws = discrete_laplace(20_000, scale)
    assert draws.dtype == object
    assert all(type(x) is int for x in draws)
    assert fits(draws, scale) > ALARM
    assert min(low_bits_fit(draws, scale), default=1) > ALARM


@pytest.mark.parametrize("n", [1, 2, 13, 40])
@pytest.mark.parametrize("scale", [Fraction(1, 3), Fraction(10), Fraction(2**20)])
def test_many_small_requests_follow_the_law_too(n: int, scale: Fraction) -> None:
    """Where a batch ends must not depend on what was drawn."""
    draws = np.concatenate([discrete_laplace(n, scale) for _ in range(20_000 // n)])
    assert fits(draws, scale) > ALARM


def test_neighbouring_draws_are_independent() -> None:
    scale = Fraction(10)
    draws = discrete_laplace(200_001, scale)
    pairs = (draws[:-1] % 4 * 4 + draws[1:] % 4)[::2]
    share = [float(at_residues(j, j + 1, 4, scale)) for j in range(4)]
    observed = np.bincount(pairs, minlength=16)
    assert chi_square(observed, [a * b * len(pairs) for a in share for b in share]) > ALARM


def counted_twice(draws: Integers) -> None:
    """Zero with both signs: what happens when step 4 is forgotten."""
    draws[-(draws == 0).sum() // 2 :] = 0


def lost_bit(draws: Integers) -> None:
    draws[: len(draws) // 20] &= ~1


def too_narrow(draws: Integers) -> None:
    draws[:] = draws * 97 // 100


def one_sided(draws: Integers) -> None:
    draws[: len(draws) // 20] = np.abs(draws[: len(draws) // 20])


@pytest.mark.parametrize("fault", [counted_twice, lost_bit, too_narrow, one_sided])
def test_these_checks_see_a_wrong_law(fault: Callable[[Integers], None]) -> None:
    """Of a million draws the least clear of these, the narrower law, is ten deviations beyond the alarm."""
    scale = Fraction(10) if fault is counted_twice else Fraction(1000)
    draws = discrete_laplace(1_000_000, scale)
    fault(draws)
    assert min(fits(draws, scale), *low_bits_fit(draws, scale)) < ALARM


def first_word(u: int, block: int, minus: bool) -> int:
    return u << 64 - block | int(minus)


def drawn(scale: Fraction, words: Words) -> int:
    """One draw in plain Python."""
    t, s = scale.numerator, scale.denominator
    return sampling._draw(sampling._block(s, t), s, t, words)


def tosses(heads: int) -> list[int]:
    """As many coins as are tossed in any case, and then as many again until there is a tail."""
    return [HEAD] * heads + [TAIL] * (sampling._TOSSES - heads % sampling._TOSSES)


@pytest.mark.parametrize(
    ("u", "heads", "minus", "value"), [(5, 0, False, 5), (5, 0, True, -5), (0, 3, True, -24), (7, 2, False, 23)]
)
def test_one_draw_is_u_plus_blocks_with_a_sign(u: int, heads: int, minus: bool, value: int) -> None:
    """Scale 10: blocks of 8. gamma = 0 needs no coin."""
    words = script([first_word(u, 3, minus), *([HEAD] if u else []), *tosses(heads)])
    assert drawn(Fraction(10), words) == value


def test_a_block_is_the_widest_power_of_two_within_the_scale() -> None:
    """So that no gamma exceeds 1, for which the bounds are proved: scale 4/3 has block 1, whose U has no bits."""
    assert drawn(Fraction(4, 3), script([1 << 63, *tosses(0)])) == 0
    assert drawn(Fraction(4, 3), script([1 << 63, *tosses(2)])) == 2
    assert drawn(Fraction(2), script([1 << 63, HEAD, *tosses(0)])) == 1


def test_a_rejected_u_and_a_negative_zero_begin_again() -> None:
    rejected = [first_word(6, 3, False), TAIL]
    negative_zero = [first_word(0, 3, True), *tosses(0)]
    kept = [first_word(1, 3, True), HEAD, *tosses(0)]
    words = script([*rejected, *negative_zero, *kept])
    assert drawn(Fraction(10), words) == -1


@pytest.mark.parametrize("heads", [0, 1, 39, 40, 41, 80])
def test_as_many_coins_are_tossed_whatever_they_show(heads: int) -> None:
    """A clock that sees their number sees how large the noise is."""
    words = script([first_word(1, 3, False), HEAD, *tosses(heads)])
    assert drawn(Fraction(10), words) == 1 + 8 * heads
    with pytest.raises(IndexError):
        words.one()


def test_a_huge_block_takes_as_many_words_as_it_needs() -> None:
    scale = Fraction(2**100 + 1)
    u = 0x123456789ABCDEF0123456789
    word = u << 128 - 100 | 1
    words = script([word >> 64, word & (2**64 - 1), HEAD, *tosses(2)])
    assert discrete_laplace(1, scale, words).tolist() == [-(u + 2 * 2**100)]


def requests(*answers: int) -> Words:
    """A generator that fills the k-th request with the k-th answer, and all later ones with the last."""
    rest: Iterator[int] = iter(answers)
    last = answers[-1]
    return Words(lambda size: next(rest, last).to_bytes(8, "little") * (size // 8), ahead=8)


def test_what_int64_cannot_hold_comes_as_python_integers() -> None:
    """Over a thousand heads in a row: chance below e^-500, and still no wrapped value and no cut tail."""
    scale = Fraction(2**52)
    block = 2**52
    assert drawn(scale, script([1 | 3 << 12, HEAD, *tosses(1100)])) == -(3 + 1100 * block)
    many = discrete_laplace(13, scale, requests(1 | 3 << 12, HEAD, *[HEAD] * 30, TAIL))
    assert many.dtype == object
    assert -many[0] > 2**62
    assert (-many[0] - 3) % block == 0
    assert many[1:].tolist() == [-3] * 12


def test_a_run_of_heads_goes_on_where_a_block_of_coins_ends() -> None:
    """Cutting it there would make long runs rarer than they are. For two runs 18 coins are read, then 14 at a time."""
    coins = [[TAIL, *[HEAD] * 17], [HEAD] * 14, [HEAD, HEAD, *[TAIL] * 12]]
    words = script([coin for block in coins for coin in block])
    assert sampling._runs(2, 1, 1, words).tolist() == [0, 17 + 14 + 2]
    with pytest.raises(IndexError):
        words.one()


def test_the_first_candidates_decide_where_more_are_drawn() -> None:
    """Values come in the order of their words; none is skipped, sorted or repeated."""
    words = [first_word(i % 8, 3, minus=False) for i in range(42)]
    coins = [HEAD] * 42
    runs = [TAIL] * 200
    draws = discrete_laplace(13, Fraction(10), script(words + coins + runs))
    assert draws.tolist() == [i % 8 for i in range(13)]


@pytest.mark.parametrize("n", [0, 1, 12, 13, 1000, 100_000])
def test_as_many_as_asked_for(n: int) -> None:
    for scale in (Fraction(1, 8), Fraction(100), Fraction(2**52)):
        draws = discrete_laplace(n, scale)
        assert draws.shape == (n,)
        assert draws.dtype == np.int64


@pytest.mark.parametrize(("n", "scale"), [(-1, Fraction(1)), (1, Fraction(0)), (1, Fraction(-1))])
def test_impossible_requests(n: int, scale: Fraction) -> None:
    with pytest.raises(ValueError, match="scale > 0"):
        discrete_laplace(n, scale)


def test_an_astronomic_epsilon_is_no_noise_and_no_endless_loop() -> None:
    for scale in (Fraction(1, 10**6), Fraction(1, 10**400)):
        assert not discrete_laplace(1000, scale).any()
        assert not discrete_laplace(1, scale).any()
