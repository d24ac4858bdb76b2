"""One answer, a thousand canaries: how far can whoever sees the answer tell who was in?

Every canary is a privacy unit that is in the data or not by a fair coin of the auditor's own. One statement is
answered once; from the answer alone, and never from the coins, the auditor guesses "in" or "out" for some canaries and
abstains on the rest. If the claim is true, few guesses can be right:

Theorem (Steinke, Nasr, Jagielski, Privacy auditing with one (1) training run, 2023, theorem 5.2). Let S in {-1, 1}^m be
uniform, T in {-1, 0, 1}^m made from M(S) alone with r entries other than 0, and M (epsilon, delta)-DP for a change of
one entry of S. With f(v) = P[Binomial(r, e^epsilon / (1 + e^epsilon)) >= v], for every v,

    P[at least v of the r guesses are right]  <=  f(v) + 2 m delta max_{1 <= i <= v} (f(v - i) - f(v)) / i.

For delta = 0 that is: guesses are right no more often than independent coins of bias e^epsilon / (1 + e^epsilon). (Why:
given the answer and the coins of all others, the odds of a coin are at most e^epsilon; the guesses taken one after the
other are dominated by such coins.) How the guesses are made is free. Those of canaries with the most extreme scores are
the most certain, so the extreme ones are guessed; how many is fixed beforehand.

The bound on the right is a p-value for the claim. The term in delta has no power for large delta (with m delta = 20 it
never falls below 2 m delta / r): claims of that kind are for `betting`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

_SLACK = 1e-9
"""Logarithms of factorials in floating point err by less than this, relatively: it is added, so that no p-value is
too small."""


def p_value(canaries: int, guesses: int, right: int, epsilon: float, delta: float = 0.0) -> float:
    """The bound of the theorem for `right` of `guesses` guesses about `canaries` canaries."""
    if not 0 <= right <= guesses <= canaries or epsilon < 0 or not 0 <= delta <= 1:
        raise ValueError("right guesses are among the guesses, guesses among the canaries; claims are not negative")
    masses = _masses(guesses, epsilon)
    beyond = math.fsum(masses[right:])
    steepest = between = 0.0
    if delta > 0:
        for i in range(1, right + 1):
            between += masses[right - i]  # f(v - i) - f(v)
            steepest = max(steepest, between / i)
    return min(1.0, (beyond + 2 * canaries * delta * steepest) * (1 + _SLACK))


def _masses(trials: int, epsilon: float) -> list[float]:
    """P[Binomial(trials, e^epsilon / (1 + e^epsilon)) = k] for k = 0..trials."""
    wrong = -math.log1p(math.exp(epsilon))
    hit = -math.log1p(math.exp(-epsilon))
    whole = math.lgamma(trials + 1)
    return [
        math.exp(whole - math.lgamma(k + 1) - math.lgamma(trials - k + 1) + k * hit + (trials - k) * wrong)
        for k in range(trials + 1)
    ]


def guess(scores: Sequence[float], guesses: int) -> list[int]:
    """1 ("in") for the highest scores, -1 ("out") for the lowest, half of the guesses each, 0 for the rest. Ties are
    broken by position, which knows nothing of the coins."""
    half = guesses // 2
    order = sorted(range(len(scores)), key=lambda i: (scores[i], i))
    guessed = [0] * len(scores)
    for i in order[:half]:
        guessed[i] = -1
    for i in order[len(order) - half :]:
        guessed[i] = 1
    return guessed


def count_right(guessed: Sequence[int], coins: Sequence[bool]) -> int:
    """How many guesses are right."""
    return sum(g == (1 if coin else -1) for g, coin in zip(guessed, coins, strict=True))


def shown_epsilon(canaries: int, guesses: int, right: int, delta: float = 0.0, error: float = 0.05) -> float:
    """The largest epsilon that this result refutes with at most this chance of error: what the answer gave away at
    least, by this attack. 0 where it refutes nothing."""
    low, high = 0.0, 64.0
    if p_value(canaries, guesses, right, low, delta) > error:
        return 0.0
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if p_value(canaries, guesses, right, middle, delta) <= error else (low, middle)
    return low
