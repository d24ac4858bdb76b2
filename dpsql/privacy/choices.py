"""Private choices: from candidates with utilities take one that is among the best, without noise on any number.

Two mechanisms over integer utilities u_1, ..., u_k of sensitivity D (one unit moves each of them by at most D), with
weights w_i = exp(-rate (max u - u_i)), rate = epsilon / (2 D):

- *exponential*: i with probability w_i / sum w (McSherry and Talwar, Mechanism design via differential privacy, 2007);
- *permute and flip*: each candidate is a coin with P[heads] = w_i; of the heads, the first in a uniform permutation
  (McKenna and Sheldon, Permute-and-flip, 2020). Its expected loss is never larger.

Privacy. Let u' belong to a neighbour, d_i = u'_i - u_i, and a = rate D = epsilon/2.
Exponential: P[i] = exp(rate u_i) / S. In P'[i] / P[i] = exp(rate d_i) * S/S' both factors lie in [e^-a, e^a], so it is
epsilon-DP. Where a unit moves all utilities in one direction only (all d_i >= 0 or all d_i <= 0: counts, sums of values
of one sign, times factors of one sign), the first factor lies in [1, e^a] and the second in [e^-a, 1], or the other way
round: the product lies in [e^-a, e^a], and the choice costs epsilon/2.
Permute and flip: its law is that of the largest u_i + Z_i, Z_i independent exponential of that rate (Ding, Kifer,
Sayed, Steinke, Wang, Xiao, Zhang, The permute-and-flip mechanism is identical to report-noisy-max with exponential
noise, 2021). Fix all Z but Z_i: i wins where Z_i > t = max over j of (u_j + Z_j) - u_i, with probability
exp(-rate max(t, 0)). On the neighbour t moves by at most 2 D, and by at most D where all d have one sign: the ratio is
at most e^(2a), and e^a. The same for every value of the other Z, hence for their mean: the same two prices.
k winners are k choices, one after another, each among those that are left, at epsilon/k: basic composition, since
which candidates are left is a function of what was already chosen.

Exactness. One uniform V decides an exponential choice, and one decides each coin: they are compared in float64, and
where its proved error leaves a doubt, the *same* V is continued with fresh bits against rational enclosures until it is
decided (see `sampling`). The work depends on k alone, but for that doubt, whose chance is below k^2 2^-49.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from decimal import Decimal
from fractions import Fraction
from functools import partial

import numpy as np
import numpy.typing as npt

from dpsql.privacy.sampling import Words, enclosure, is_below, system_words

EXPONENTIAL, PERMUTE_AND_FLIP = "exponential", "permute_and_flip"

_UNDERFLOW = 700  # exp(-700) is about 1e-304: below, a float weight is 0, which errs by less


def choose(
    mechanism: str,
    utilities: Sequence[int],
    sensitivity: int,
    epsilon: Fraction,
    winners: int = 1,
    words: Words | None = None,
) -> list[int]:
    """The positions of the winners, in the order in which they were chosen; all positions where there are fewer.

    epsilon: by which the textbook weighs candidates, shared evenly by the winners; 0 chooses uniformly.
    """
    if sensitivity < 1 or epsilon < 0 or winners < 1:
        raise ValueError("a choice needs a sensitivity and winners from 1 on, and an epsilon from 0 on")
    one = _CHOICES[mechanism]
    rate = epsilon / (2 * sensitivity * winners)
    left = list(range(len(utilities)))
    chosen: list[int] = []
    while left and len(chosen) < winners:
        best = max(utilities[i] for i in left)
        gammas = [rate.numerator * (best - utilities[i]) for i in left]
        chosen.append(left.pop(one(gammas, rate.denominator, words or system_words())))
    return chosen


def number_of(value: object) -> Fraction | None:
    """A number as an engine gives it, exactly; None for what is none: NULL, NaN, infinities."""
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        return None
    return Fraction(value) if math.isfinite(value) else None


def shortfall(sensitivity: Fraction | int, epsilon: Fraction, candidates: int, confidence: Fraction) -> float:
    """How far below the best utility one choice is at most, with this probability.

    A candidate that is worse than the best by t wins with probability exp(-rate t) at most: its share of weights that
    sum to 1 or more, or the chance that its coin is heads. There are fewer than k of them.
    """
    return float(2 * sensitivity / epsilon) * math.log(candidates / float(1 - confidence))


def _exponential(gammas: Sequence[int], scale: int, words: Words) -> int:
    """i with probability proportional to exp(-gammas[i] / scale); the least gamma is 0.

    Let C_i = w_1 + ... + w_i and S = C_k >= 1: i is chosen where C_(i-1) <= V S < C_i. Error of C_i / S in float64:
    a quotient of integers is rounded once, so gamma errs by at most 2^-53 gamma, which moves w = exp(-gamma) by less
    than 2^-53 (x e^-x < 1); exp errs by less than 8 ulp of w, or 2^-49 w. k weights: (k 2^-53 + 2^-49 S). Their k sums,
    rounded one after another, add k 2^-53 S at most. So C_i and S err by at most (2k 2^-53 + 2^-49) S, their quotient
    by little more than twice that, and V's first 64 bits as a float by 2^-53. (4k + 64) 2^-52 is beyond all of it.
    """
    weights = _weights(gammas, scale)
    bounds = np.cumsum(weights)
    bounds /= bounds[-1]
    margin = (4 * len(weights) + 64) * 2.0**-52
    u = words.one()
    at = u * 2.0**-64
    i = min(int(np.searchsorted(bounds, at, side="right")), len(weights) - 1)
    # Below the first boundary is nothing, and nothing is beyond the last one.
    above_low = i == 0 or at - float(bounds[i - 1]) > margin
    below_high = i == len(weights) - 1 or float(bounds[i]) - at > margin
    return i if above_low and below_high else _exponential_exactly(u, gammas, scale, words)


def _exponential_exactly(u: int, gammas: Sequence[int], scale: int, words: Words) -> int:
    """The same choice, for the uniform that begins with the 64 bits u: 64 more bits at a time until it is decided."""
    bits = 64
    while True:
        u = u << 64 | words.one()
        bits += 64
        low, high = [0], [0]
        for gamma in gammas:
            a, b = weight(gamma, scale, bits)
            low.append(low[-1] + a)
            high.append(high[-1] + b)
        # V S lies in [u low_S, (u + 1) high_S], and 2^bits C_i in [2^bits low_i, 2^bits high_i].
        least, most = u * low[-1], (u + 1) * high[-1]
        for i in range(len(gammas)):
            from_here = i == 0 or least >= high[i] << bits
            before_next = i == len(gammas) - 1 or most <= low[i + 1] << bits
            if from_here and before_next:
                return i


def _permute_and_flip(gammas: Sequence[int], scale: int, words: Words) -> int:
    """All coins are flipped, then the first head in a uniform permutation wins; a candidate of gamma 0 is always heads.

    (Flipping one after another until the first head has the same law, and a running time that tells of the data.)
    """
    weights = _weights(gammas, scale)
    u = words.take(len(gammas))
    at = u * 2.0**-64
    heads = at < weights
    # A weight errs by less than 2^-53 + 2^-49, as above, and V's first bits by 2^-53.
    for i in np.flatnonzero(np.abs(at - weights) <= 2.0**-47).tolist():
        heads[i] = gammas[i] == 0 or is_below(int(u[i]), partial(weight, gammas[i], scale), words)
    order = _permutation(len(gammas), words)
    return int(order[int(np.argmax(heads[order]))])


def _permutation(n: int, words: Words) -> npt.NDArray[np.int64]:
    """A uniform permutation: the order of n independent words, all drawn again where two are equal (given that none
    are, every order is as likely as any other)."""
    while True:
        drawn = words.take(n)
        order = np.argsort(drawn, kind="stable")
        if n < 2 or not bool(np.any(np.diff(drawn[order]) == 0)):
            return order


def _weights(gammas: Sequence[int], scale: int) -> npt.NDArray[np.float64]:
    """exp(-gamma / scale) of each; Python divides integers of any size with one rounding."""
    most = _UNDERFLOW * scale
    return np.exp(np.array([-(g / scale) if g < most else -math.inf for g in gammas], dtype=np.float64))


def weight(gamma: int, scale: int, bits: int) -> tuple[int, int]:
    """Integers low <= 2^bits exp(-gamma/scale) <= high, for any gamma >= 0, by rational arithmetic alone.

    exp(-gamma/scale) = exp(-1)^n exp(-rest), rest < 1; beyond n = bits it is below 2^-bits. Each product of two
    enclosures in [0, 2^w] is one again, its ends rounded outwards; the 32 bits more than asked for take the widths.
    """
    n, rest = divmod(gamma, scale)
    if n > bits:
        return 0, 1
    extra = bits + 32
    low, high = enclosure(rest, scale, extra) if rest else (1 << extra, 1 << extra)
    a, b = enclosure(1, 1, extra)
    for _ in range(n):
        low, high = low * a >> extra, -(-high * b >> extra)
    return low >> 32, -(-high >> 32)


MECHANISMS = {EXPONENTIAL: "exponential mechanism", PERMUTE_AND_FLIP: "permute and flip"}
"""Their names, as people call them."""

_One = Callable[[Sequence[int], int, Words], int]
_CHOICES: dict[str, _One] = {EXPONENTIAL: _exponential, PERMUTE_AND_FLIP: _permute_and_flip}
