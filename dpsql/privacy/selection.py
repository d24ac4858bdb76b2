"""The private decision on a key that no released count decides: see `thresholds` for the law, and why it is private."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dpsql.privacy.mechanisms import DiscreteLaplace
from dpsql.privacy.sampling import bernoulli_exp, system_words
from dpsql.privacy.thresholds import conditioned_bound


@dataclass(frozen=True, slots=True)
class Conditioned:
    """Keep a key of n units when n + X > bound, X discrete Laplace of `scale` conditioned on |X| <= m = bound -
    shift."""

    scale: Fraction
    m: int
    shift: int

    def keep(self, units: NDArray[np.int64]) -> NDArray[np.bool_]:
        """One independent decision per key."""
        noise = self._narrow(len(units)) if self.m < self.scale else self._wide(len(units))
        kept: NDArray[np.bool_] = np.asarray(units.astype(object) + noise > self.m + self.shift, dtype=np.bool_)
        return kept

    def _wide(self, n: int) -> NDArray[np.object_]:
        """The law given |X| <= m, exactly: drawn again until it is. With m >= scale at least 63 % are."""
        noise = np.zeros(n, dtype=object)
        left = np.arange(n)
        law = DiscreteLaplace(self.scale)
        while len(left):
            drawn = law.sample(len(left)).astype(object)
            inside = np.asarray(np.abs(drawn) <= self.m, dtype=np.bool_)
            noise[left[inside]] = drawn[inside]
            left = left[~inside]
        return noise

    def _narrow(self, n: int) -> NDArray[np.object_]:
        """The same law for m < scale, where next to no unbounded draw would fall inside: x uniform on -m..m, kept with
        probability q^|x| > 1/e."""
        words, width = system_words(), 2 * self.m + 1
        blocks = -(-width.bit_length() // 64)
        spare = 64 * blocks - width.bit_length()
        noise = np.zeros(n, dtype=object)
        for i in range(n):
            while True:
                drawn = 0
                for _ in range(blocks):
                    drawn = drawn << 64 | words.one()
                x = (drawn >> spare) - self.m
                if x <= self.m and bernoulli_exp(abs(x) / self.scale, words):
                    noise[i] = x
                    break
        return noise


def conditioned(epsilon: Fraction, delta: Fraction, touched: int, min_units: int = 1) -> Conditioned:
    """The decision that spends epsilon and delta where a unit touches so many keys."""
    m = conditioned_bound(epsilon, delta, touched)
    return Conditioned(Fraction(touched) / epsilon, m, min_units - 1)
