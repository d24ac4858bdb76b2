"""Many answers over two neighbouring databases: a bet against the claim, which cannot win often while it is true.

For an event S fixed beforehand, a round asks once over D and once over its neighbour D', independently, and looks
whether S happened: a and b, each 0 or 1. The claim P[M(D) in S] <= e^epsilon P[M(D') in S] + delta says that

    X = a - e^epsilon b - delta        has mean at most 0, and    -(e^epsilon + delta) <= X <= 1.

For 0 <= lambda < 1 / (e^epsilon + delta) the wealth W_n = prod (1 + lambda X_i) is never negative, and under the claim
E[W_n | the past] <= W_(n-1), also where S and lambda are chosen anew from the past. So W is a supermartingale that
starts at 1, and

    Theorem (Ville 1939).  P[W_n >= 1/alpha for some n]  <=  alpha.

The test may look after every round and stop when it likes. A mixture of bets is a bet: wealth here is the average over
a few lambdas, so that none has to be tuned. (Waudby-Smith, Ramdas, Estimating means of bounded random variables by
betting, 2023.)
"""

from __future__ import annotations

import math

STAKES = (0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 0.97)
"""The lambdas, as shares of 1 / (e^epsilon + delta)."""


class Wager:
    """The wealth of one bet against one claim about one event."""

    def __init__(self, epsilon: float, delta: float = 0.0):
        if epsilon < 0 or not 0 <= delta <= 1:
            raise ValueError("claims are not negative")
        self._ratio, self._delta = math.exp(epsilon), delta
        most = 1 / (self._ratio + delta)
        self._lambdas = [share * most for share in STAKES]
        self._logs = [0.0] * len(STAKES)
        self.rounds = 0
        self.peak = 0.0
        """The highest log10 of the wealth so far: Ville's theorem is about that."""

    def add(self, hit: bool, other: bool) -> None:
        """One more round: whether the event happened over D, and over D'."""
        x = hit - self._ratio * other - self._delta
        self._logs = [log + math.log1p(stake * x) for log, stake in zip(self._logs, self._lambdas, strict=True)]
        self.rounds += 1
        self.peak = max(self.peak, self.log10)

    @property
    def log10(self) -> float:
        """The logarithm of the wealth now."""
        top = max(self._logs)
        mean = math.fsum(math.exp(log - top) for log in self._logs) / len(self._logs)
        return (top + math.log(mean)) / math.log(10)
