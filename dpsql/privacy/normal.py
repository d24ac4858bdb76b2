"""Normal noise on the integers: round(sigma Z), Z a standard normal, drawn exactly for every rational sigma.

Promise: the law is that of a real number Z with the normal density, multiplied by sigma and rounded to the nearest
integer, without any error: floats decide only what a proved bound leaves no doubt about, all else is decided in
integers on the same random bits. Nothing here takes a seed, looks at data, or makes its work depend on data.

Why rounding: for an integer q, q + round(sigma Z) = round(q + sigma Z), a function of the output of the Gaussian
mechanism on q. So what is proved of that mechanism holds for this noise as it is (post-processing). The discrete
Gaussian, restricted instead of rounded, is another law, for which the analytic formula does not hold.

Method: rejection on the digits of a number that is read only as far as needed (Karney, Sampling exactly from the
normal distribution, 2016: his algorithm N with its first two steps drawn as one). Let y >= 0 be drawn with density
w_k/4096 on [k, k+1), k = 0, 1, ..., by the weights w below, then kept with probability

    p(y) = w_0/w_k exp(-y^2/2),    which is at most 1:   w_k >= w_0 exp(-k^2/2) for every k (see `_WEIGHTS`).

The density of what is kept is proportional to w_k/4096 p(y), hence to exp(-y^2/2): with a fair sign it is the normal
one. y is k and a uniform x = 0.b1 b2 b3 ... in binary; to keep it is [V < p(k + x)] for a uniform V. Of x and V the
first bits are drawn. Where they leave a doubt, fresh bits of the same x and V follow until none is left. If the first
bits suffice, the decision is the same for all that could follow: then the bits of x not yet drawn are still uniform and
independent of all that was seen, so they may be drawn later, when sigma y is rounded, or not at all.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from dpsql.privacy.sampling import Integers, Words, enclosure, system_words

_WEIGHTS = (2334, 1416, 317, 27, 1)
"""w_k in parts of 4096; what is left, one part, is for k >= 5, with w_k = 2^(4-k), which adds up to that part.

w_k >= w_0 exp(-k^2/2): 1416 >= 1415.7, 317 >= 315.9, 27 >= 25.93, 1 >= 0.783, 1/2 >= 0.0087, and from k >= 5 on the
right side falls by exp(-(2k+1)/2) < 1/2 at each step while the left halves. Of the candidates 71 % are kept.
"""
_TAIL = len(_WEIGHTS)
_CELLS = np.repeat(np.arange(_TAIL + 1, dtype=np.uint8), (*_WEIGHTS, 4096 - sum(_WEIGHTS)))
_HEIGHTS = np.array([_WEIGHTS[0] / w for w in _WEIGHTS] + [0.0])
_CELL_BITS, _V_BITS = 12, 51  # of a candidate's first word; the last bit is the sign

# A float64 f stands for 2^51 p(y), y < 5 known to 64 bits of x. x is rounded once and cut off after 2^-64, y = k + x is
# rounded once: |dy| <= 2^-53 + 2^-64 + 2^-51 < 2^-50. Squaring rounds once more (halving is exact): y^2/2 <= 12.5 errs
# by less than 5 * 2^-50 + 12.5 * 2^-53 < 2^-47, and p(y) <= 1 by no more. An exp that errs by at most 8 ulp, the
# height and the product add less than 2^-48. Together less than 2^-46, or 32 in f; f - v rounds by less than 1. So v,
# the first 51 bits of V, decides where it is more than 34 away.
_DOUBT = 40.0

_BATCH = 1 << 15
_NARROW = Fraction(1 << 36)
"""Below this, sigma y is rounded in float64 where it is not next to a half. sigma y + 1/2 errs by less than sigma (dy +
5 * 2^-52) + 2^-53 (5 sigma + 1) < (sigma + 1) 2^-48, and fewer than one in 1,000 lie within twice that of an integer.
"""
_INT64 = Fraction(1 << 53)  # scales from here on give Python integers, as those of discrete Laplace noise do


def rounded_normal(n: int, sigma: Fraction, words: Words | None = None) -> Integers:
    """n independent draws of round(sigma Z), sigma > 0: int64, each below 2^62 in size; for sigma >= 2^53 Python ints.

    (Were a larger one drawn below 2^53, chance below e^-100000, dtype is object.)
    """
    if n < 0 or sigma <= 0:
        raise ValueError("normal draws need n >= 0 and sigma > 0")
    words = words or system_words()
    batches: list[Integers] = [np.zeros(0, dtype=np.int64 if sigma < _INT64 else object)]
    missing = n
    while missing > 0:
        batches.append(_draw_batch(min(_BATCH, missing + missing // 2 + 8), sigma, words)[:missing])
        missing -= len(batches[-1])
    return np.concatenate(batches)


def _draw_batch(size: int, sigma: Fraction, words: Words) -> Integers:
    """The draws that `size` candidates give: fewer than `size`, independent, in order."""
    first, x = words.take(size), words.take(size)
    k = _CELLS[first >> np.uint64(64 - _CELL_BITS)]
    v = (first >> np.uint64(1)) & np.uint64((1 << _V_BITS) - 1)
    y = x * 2.0**-64
    y += k
    margin = np.exp(y * y * -0.5)
    margin *= _HEIGHTS[k]
    margin *= 2.0**_V_BITS
    margin -= v
    kept = margin > _DOUBT
    doubtful = np.abs(margin) <= _DOUBT
    doubtful |= k == _TAIL
    if sigma < _NARROW:
        scale = sigma.numerator / sigma.denominator
        y *= scale
        y += 0.5
        close = kept & (np.abs(y - np.rint(y)) <= (scale + 1) * 2.0**-47)
        sizes: Integers = np.floor(y).astype(np.int64)
    else:
        close = kept.copy()
        sizes = np.zeros(size, dtype=object)
    for i in np.flatnonzero(doubtful | close).tolist():
        found: tuple[int, int] | None = (int(k[i]) << 64 | int(x[i]), 64)
        if doubtful[i]:
            found = _kept(int(k[i]), int(v[i]), int(x[i]), words)
            kept[i] = found is not None
        if found is not None:
            value = _rounded(*found, sigma, words)
            if value >> 62 and sizes.dtype != object:
                sizes = sizes.astype(object)
            sizes[i] = value
    minus = (first & np.uint64(1)).astype(np.bool_)
    np.negative(sizes, out=sizes, where=minus)
    draws: Integers = sizes[kept]
    if draws.dtype == object and sigma < _INT64 and all(abs(z) >> 62 == 0 for z in draws):
        return draws.astype(np.int64)
    return draws


def _kept(k: int, v: int, x: int, words: Words) -> tuple[int, int] | None:
    """The y and its number of bits after the point, if the candidate whose cell, V and x begin so is kept: decided in
    integers, with as many more bits as that needs."""
    while k >= _TAIL:  # one cell further for each head of fair coins
        heads = _ones(words.one())
        k += heads
        if heads < 64:
            break
    v_bits, x_bits, y = _V_BITS, 64, k << 64 | x
    while True:
        low, high = _chance(k, y, x_bits, v_bits)
        if v >= high:
            return None
        if v + 1 <= low:
            return y, x_bits
        v, v_bits = v << 64 | words.one(), v_bits + 64
        y, x_bits = y << 64 | words.one(), x_bits + 64


def _ones(word: int) -> int:
    """How many ones a word ends with."""
    return (~word & word + 1).bit_length() - 1


def _rounded(y: int, bits: int, sigma: Fraction, words: Words) -> int:
    """round(sigma y): floor(sigma y + 1/2), where it is the same for both ends of what y can be."""
    t, d = sigma.numerator, sigma.denominator
    while True:
        least, most = ((2 * t * end + (d << bits)) // (d << bits + 1) for end in (y, y + 1))
        if least == most:
            return least
        y, bits = y << 64 | words.one(), bits + 64


def _chance(k: int, y: int, x_bits: int, bits: int) -> tuple[int, int]:
    """Integers low <= 2^bits p(z) <= high for every z between y and y + 1 in units of 2^-x_bits; p falls."""
    up, down = (_WEIGHTS[0], _WEIGHTS[k]) if k < _TAIL else (_WEIGHTS[0] << k - 4, 1)
    whole = 1 << 2 * x_bits + 1
    low, _ = exp_bounds((y + 1) ** 2, whole, bits + 16)
    _, high = exp_bounds(y**2, whole, bits + 16)
    return (up * low // down) >> 16, (-(-up * high // down) >> 16) + 1


def exp_bounds(p: int, r: int, bits: int) -> tuple[int, int]:
    """Integers low <= 2^bits exp(-p/r) <= high for p/r >= 0: `enclosure` of the fraction, times one of exp(-1) for each
    whole unit, rounded outwards."""
    units, p = divmod(p, r)
    low, high = enclosure(p, r, bits) if p else (1 << bits, 1 << bits)
    low_unit, high_unit = enclosure(1, 1, bits)
    for _ in range(units):
        low, high = low * low_unit >> bits, -(-high * high_unit >> bits)
    return low, high
