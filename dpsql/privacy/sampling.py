"""Exact randomness: Bernoulli(exp(-gamma)) for rational gamma, and the discrete Laplace law made from it.

Promise: every law is exact, given uniform words of the operating system's generator. Floats are used only to decide
a comparison that a proved error bound leaves no doubt about; the rest is decided in integers, on the same uniform.
Nothing here takes a seed, looks at data, or makes its work depend on data: it depends on the law and on the words.

Naive floating-point noise is not private: its low-order bits reveal the exact value (Mironov, On significance of the
least significant bits for differential privacy, 2012; Jin et al., Are we there yet? Timing and floating-point attacks
on differential privacy systems, 2022). Integer noise of an exactly known law has no such bits.
"""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

Integers = npt.NDArray[Any]
"""int64, or Python ints (dtype object) where int64 could not hold every value."""

_BATCH = 1 << 15  # candidates drawn at once: their arrays stay within a processor's cache
_TOSSES = 40  # of coins for one draw in plain Python, however many of them count
_MARGIN = 1 << 15  # 16 ulp of a float64 in [1/2, 1), in units of 2^-64
_TWO64 = 2.0**64
_WIDEST_BLOCK = 52  # bits: a float64 holds any smaller integer exactly, and int64 any block of 2^52 up to 2^10 times


class Words:
    """A stream of independent uniform 64-bit words, for one thread. No word is handed out twice.

    read: returns that many random bytes: the operating system's generator, unless a test scripts it.
    ahead: bytes to read at once for single words, a multiple of 8 (8192 take about 15 microseconds).
    """

    __slots__ = ("_ahead", "_at", "_held", "_read")

    def __init__(self, read: Callable[[int], bytes] = os.urandom, ahead: int = 8192):
        self._read, self._ahead = read, ahead
        self.forget()

    def forget(self) -> None:
        """Drop the words read ahead: after a fork, parent and child hold the same ones."""
        self._held, self._at = b"", 0

    def one(self) -> int:
        """The next word."""
        at = self._at
        if at == len(self._held):
            self._held, at = self._fresh(self._ahead), 0
        self._at = at + 8
        return int.from_bytes(self._held[at : at + 8], "little")

    def take(self, n: int) -> npt.NDArray[np.uint64]:
        """The next n words."""
        size = 8 * n
        at = self._at
        if size <= len(self._held) - at:
            self._at = at + size
            return np.frombuffer(self._held, dtype="<u8", count=n, offset=at)
        return np.frombuffer(self._fresh(size), dtype="<u8")  # a large request is its own block; the buffer stays

    def _fresh(self, size: int) -> bytes:
        data = self._read(size)
        if len(data) != size:
            raise OSError("the generator returned too few bytes")
        return data


class _PerThread(threading.local):
    """Each thread reads ahead for itself, so threads share no word and need no lock."""

    def __init__(self) -> None:
        self.words = Words()


_per_thread = _PerThread()

# Only the thread that forks lives on in the child, so its buffer is the only one that both processes could use.
os.register_at_fork(after_in_child=lambda: _per_thread.words.forget())


def system_words() -> Words:
    """This thread's words from the operating system's generator."""
    return _per_thread.words


# -- Bernoulli(exp(-gamma)) -------------------------------------------------------------------------------------------
#
# A coin with P[true] = exp(-gamma) is [V < exp(-gamma)] for V uniform on [0, 1). Let u be the first 64 bits of V:
# u/2^64 <= V < (u+1)/2^64. With integers lo <= 2^64 exp(-gamma) <= hi, u < lo means V < exp(-gamma), and u > hi means
# V > exp(-gamma). Otherwise more bits of the same V are read until they decide (`_continue`): the coin is exactly
# [V < exp(-gamma)] for one V, so its law has no error at all. A second V in the doubtful case would have the wrong law.
#
# Why lo = f - 16 ulp and hi = f + 16 ulp for f = 2^64 times the float64 exp(-x), x the float64 of gamma in (0, 1]:
# gamma = U s/t is computed with at most two roundings (s/t, then times U < 2^53), so |x - gamma| <= 2^-52 (1 + 2^-53),
# which moves 2^64 exp(-gamma) by less than 2^12 + 1. An exp that errs by at most 8 ulp adds 2^14 (one ulp of a result
# in [1/4, 1] is 2^-53 at most, or 2^11 here). Both together stay below 2^15 = 16 * 2^11. The C libraries and numpy
# state less than 1 ulp for exp. f and lo, hi are multiples of 2^10, at most 2^64 + 2^15: exact floats up to there.


def bernoulli_exp(gamma: Fraction, words: Words | None = None) -> bool:
    """True with probability exp(-gamma), exactly, for any rational gamma >= 0."""
    if gamma < 0:
        raise ValueError("exp(-gamma) is a probability for gamma >= 0 only")
    return _coin(gamma.numerator, gamma.denominator, words or system_words())


def _coin(p: int, r: int, words: Words) -> bool:
    """Bernoulli(exp(-p/r)). exp(-gamma) = exp(-1)^k exp(-(gamma - k)): whole units are coins of their own."""
    while p > r:
        if not _unit_coin(1, 1, words):
            return False
        p -= r
    return p == 0 or _unit_coin(p, r, words)


def _unit_coin(p: int, r: int, words: Words) -> bool:
    """Bernoulli(exp(-p/r)) for 0 < p/r <= 1."""
    low = _low(p, r)
    u = words.one()
    if u < low:
        return True
    return u <= low + 2 * _MARGIN and _continue(u, p, r, words)


def _low(p: int, r: int) -> int:
    """lo for gamma = p/r in [0, 1]; hi is lo + 32 ulp. (Python divides ints of any size with one rounding.)"""
    return int(math.exp(-(p / r)) * _TWO64) - _MARGIN


def _lows(multiples: npt.NDArray[np.uint64], s: int, t: int) -> npt.NDArray[np.uint64]:
    """`_low` for every gamma = multiples[i] s/t in [0, 1], multiples[i] < 2^53."""
    return (np.exp(multiples.astype(np.float64) * -(s / t)) * _TWO64 - _MARGIN).astype(np.uint64)


def _continue(u: int, p: int, r: int, words: Words) -> bool:
    """Whether the uniform that begins with the 64 bits u is below exp(-p/r), 0 < p/r <= 1."""
    return is_below(u, lambda bits: enclosure(p, r, bits), words)


def is_below(u: int, around: Callable[[int], tuple[int, int]], words: Words) -> bool:
    """Whether the uniform that begins with the 64 bits u is below a number w: 64 more bits at a time until decided.

    around(bits): integers low <= 2^bits w <= high. Ends with probability 1 where high - low stays bounded, since the
    doubtful interval shrinks by about 2^64 at each step.
    """
    bits = 64
    while True:
        u = u << 64 | words.one()
        bits += 64
        low, high = around(bits)
        if u < low:
            return True
        if u >= high:
            return False


def enclosure(p: int, r: int, bits: int) -> tuple[int, int]:
    """Integers low <= 2^bits exp(-p/r) <= high for 0 < p/r <= 1, by rational arithmetic alone; high - low <= 2.

    Taylor's terms T_i = 2^w gamma^i / i! for w = bits + 32 are rounded down in turn, t_i = floor(t_(i-1) p / (r i)).
    The error e_i = T_i - t_i obeys e_i <= e_(i-1) gamma/i + 1, hence 0 <= e_i < 2. Let t_n be the first that is 0:
    then T_n < 2, and as the series alternates with falling terms, what is left out from n on is less than 2 as well.
    So the sum is within 2n + 2 of 2^w exp(-gamma); n < w here, far below the 2^32 that the last shift removes.
    """
    extra = 32
    term = total = 1 << bits + extra
    n = 0
    while term:
        n += 1
        term = term * p // (r * n)
        total += -term if n & 1 else term
    slack = 2 * n + 2
    return (total - slack) >> extra, -(-(total + slack) >> extra)


def _coins_of(multiples: npt.NDArray[np.uint64], s: int, t: int, words: Words) -> npt.NDArray[np.bool_]:
    """Independent coins, the i-th Bernoulli(exp(-multiples[i] s/t)); every multiples[i] < 2^53 and <= t/s."""
    u = words.take(len(multiples))
    low = _lows(multiples, s, t)
    heads = u < low
    doubtful = ~heads
    doubtful &= u - low <= np.uint64(2 * _MARGIN)  # u >= low here: no wrap
    for i in np.flatnonzero(doubtful).tolist():
        p = int(multiples[i]) * s
        heads[i] = p == 0 or _continue(int(u[i]), p, t, words)  # p = 0 is never tails, its u at most in doubt
    return heads


def _equal_coins(n: int, p: int, r: int, words: Words) -> npt.NDArray[np.bool_]:
    """n independent coins, each Bernoulli(exp(-p/r)), p > 0."""
    if p > r:  # one whole unit, then the rest for those that are still heads; few are, after a few units
        heads = _equal_coins(n, 1, 1, words)
        alive = np.flatnonzero(heads)
        while len(alive) and (p := p - r) > 0:
            alive = alive[_equal_coins(len(alive), min(p, r), r, words)]
        heads[:] = False
        heads[alive] = True
        return heads
    low = _low(p, r)
    u = words.take(n)
    heads = u < np.uint64(low)
    for i in np.flatnonzero(~heads & (u - np.uint64(low) <= np.uint64(2 * _MARGIN))).tolist():
        heads[i] = _continue(int(u[i]), p, r, words)
    return heads


# -- Discrete Laplace -------------------------------------------------------------------------------------------------
#
# P[X = x] = (1-q)/(1+q) q^|x| on the integers, q = exp(-gamma), gamma = 1/scale = s/t. After Canonne, Kamath, Steinke,
# The discrete Gaussian for differential privacy, 2020, section 5.2, with a power of two as block:
#   Let m = 2^k be the largest power of two with m gamma <= 1 (m = 1 where gamma >= 1).
#   1. U uniform on {0..m-1} (k bits), kept with probability exp(-gamma U), else begin again: P[U = u] ~ q^u.
#   2. V = number of heads before the first tail of coins Bernoulli(exp(-m gamma)): P[V = v] ~ q^(m v).
#   3. Y = U + m V: every y >= 0 is one pair (u, v), so P[Y = y] ~ q^u q^(m v) = q^y, the geometric law.
#   4. A fair sign B. B = minus and Y = 0: begin again, else 0 would count twice. X = -Y or Y.
# With t as block, as in the paper, U must be drawn below t by rejection and X divided by s; with a power of two
# neither is needed, and no integer grows with s or t, however many digits an epsilon has. Step 1 keeps at least 63 %.
#
# Time. Who knows how many coins were tossed in step 2 knows v, and with it the size of the noise but for a factor. So
# as many are tossed for every value: at least _TOSSES one by one (v is larger with a chance below e^-20, as m gamma is
# above 1/2), or in one array as many as all draws need with next to certainty. Drawing again in steps 1 and 4 tells
# nothing: what is drawn is independent of how often. (`tests/audit/test_audit_time.py` looks at a clock.)


def discrete_laplace(n: int, scale: Fraction, words: Words | None = None) -> Integers:
    """n independent draws of the discrete Laplace law with this scale > 0; int64 for scales below 2^53.

    In int64 every value is below 2^62 in size. (Were a larger one drawn, chance below e^-500, dtype is object.)
    """
    if n < 0 or scale <= 0:
        raise ValueError("discrete Laplace draws need n >= 0 and scale > 0")
    words = words or system_words()
    t, s = scale.numerator, scale.denominator
    block = _block(s, t)
    if block > _WIDEST_BLOCK:
        return _as_array([_draw(block, s, t, words) for _ in range(n)], block)
    batches: list[Integers] = [np.zeros(0, dtype=np.int64)]
    missing = n
    while missing > 0:
        batches.append(_draw_batch(min(_BATCH, 2 * missing + 16), block, s, t, words)[:missing])
        missing -= len(batches[-1])
    return np.concatenate(batches)


def geometric(n: int, scale: Fraction, words: Words | None = None) -> Integers:
    """n independent draws with P[X = x] = (1-q) q^x, x >= 0, q = exp(-1/scale): those of discrete Laplace draws that
    are not below 0. How many are drawn until there are n of them tells nothing of what they are."""
    found: list[Integers] = [np.zeros(0, dtype=np.int64)]
    missing = n
    while missing > 0:
        draws = discrete_laplace(2 * missing + 16, scale, words)
        found.append(draws[draws >= 0][:missing])
        missing -= len(found[-1])
    return np.concatenate(found)


def _block(s: int, t: int) -> int:
    """The k of step 1."""
    block = max(0, t.bit_length() - s.bit_length())
    return block - 1 if block and s << block > t else block


def _draw_batch(size: int, block: int, s: int, t: int, words: Words) -> Integers:
    """The draws that `size` candidates for (U, B) give: fewer than `size`, independent, in order."""
    first = words.take(size)
    u = first >> np.uint64(64 - block) if block else np.zeros(size, dtype=np.uint64)  # the top bits
    if block:
        kept = _coins_of(u, s, t, words)
        u, first = u[kept], first[kept]
    v = _runs(len(u), s << block, t, words)
    if v.max(initial=0) >> (62 - block):
        y: Integers = u.astype(object) + (v.astype(object) << block)
    else:
        y = u.astype(np.int64) + (v << block)
    minus = (first & np.uint64(1)).astype(np.bool_)  # the lowest bit: no bit of U, as block <= 52
    np.negative(y, out=y, where=minus)
    x: Integers = y[~(minus & (y == 0))]
    return x


def _runs(n: int, p: int, r: int, words: Words) -> npt.NDArray[np.int64]:
    """n independent geometric counts: heads before each tail in one sequence of coins Bernoulli(exp(-p/r)).

    The runs of an independent sequence are independent; coins after the n-th tail are thrown away unseen.
    """
    counts: list[npt.NDArray[np.int64]] = []
    missing, carried = n, 0  # carried: heads at the end of the coins so far, the beginning of the next run
    tail_chance = -math.expm1(-(p / r)) if p < 64 * r else 1.0
    while missing > 0:
        size = int((missing + 4 * math.sqrt(missing) + 4) / tail_chance)
        tails = np.flatnonzero(~_equal_coins(size, p, r, words))
        if not len(tails):
            carried += size
            continue
        runs = np.diff(tails, prepend=-1) - 1
        runs[0] += carried
        carried = size - 1 - int(tails[-1])
        counts.append(runs[:missing])
        missing -= len(counts[-1])
    return np.concatenate(counts) if counts else np.zeros(0, dtype=np.int64)


def _draw(block: int, s: int, t: int, words: Words) -> int:
    """One draw in Python integers, of any size."""
    bits = -(-(block + 1) // 64) * 64
    while True:
        first = words.one()
        for _ in range(bits // 64 - 1):
            first = first << 64 | words.one()
        u, minus = first >> (bits - block), first & 1
        if not _coin(s * u, t, words):
            continue
        v, coins = 0, [True]
        while all(coins):
            coins = [_coin(s << block, t, words) for _ in range(_TOSSES)]
            v += coins.index(False) if not all(coins) else _TOSSES
        y = u + (v << block)
        if y or not minus:
            return -y if minus else y


def _as_array(draws: list[int], block: int) -> Integers:
    if block > _WIDEST_BLOCK or any(abs(x) >> 62 for x in draws):
        return np.array(draws, dtype=object)
    return np.array(draws, dtype=np.int64)
