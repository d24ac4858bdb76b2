"""What wall time tells: runs of two kinds, taken in turns in a random order, and how well a clock tells them apart.

One unit's data, or the value of a draw, decides the kind. A distinguisher is a threshold and a side, learned on one
half of the runs; its *advantage* is P[yes | one kind] - P[yes | other], counted on the other half: 0 where time tells
nothing, 1 where it tells all. Beside it the rank test (Mann, Whitney 1947), whose z is normal where both kinds have
one law: beyond 6 with a chance of 2e-9.
"""

from __future__ import annotations

import gc
import math
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from time import perf_counter_ns

import numpy as np
from numpy.typing import NDArray

CHANCE = 6.0
"""|z| beyond which time is said to tell the kinds apart."""

Times = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Told:
    """What the clock told of two kinds of runs. difference: of the medians, in microseconds."""

    z: float
    advantage: float
    difference: float
    median: float

    @property
    def apart(self) -> bool:
        return abs(self.z) > CHANCE

    def __str__(self) -> str:
        return (
            f"median {self.median:.0f} us, difference {self.difference:+.1f} us,"
            f" z {self.z:+.1f}, advantage {self.advantage:+.3f}"
        )


def raced(one: Callable[[], object], other: Callable[[], object], runs: int, seed: int = 1) -> Told:
    """Both, so many times in all, in a random order; Python's collector rests meanwhile."""
    rng, took = Random(seed), ([], [])
    for run in (one, other) * 20:
        run()
    gc.collect()
    gc.disable()
    try:
        for number in range(runs):
            if number % 500 == 0:
                gc.collect()
            which = rng.randrange(2)
            run = (one, other)[which]
            began = perf_counter_ns()
            run()
            took[which].append(perf_counter_ns() - began)
    finally:
        gc.enable()
    return told(np.array(took[0]), np.array(took[1]))


def told(one: Times, other: Times) -> Told:
    """What two samples of times, each in the order in which it was taken, tell."""
    threshold, sign = _learned(one[::2], other[::2])
    yes = [float(np.mean(sign * times[1::2] > sign * threshold)) for times in (one, other)]
    difference = float(np.median(one) - np.median(other)) / 1e3
    return Told(rank_z(one, other), yes[0] - yes[1], difference, float(np.median(other)) / 1e3)


def rank_z(one: Times, other: Times) -> float:
    """The rank sum of the first sample, in standard deviations from what it is where both have one law."""
    both = np.concatenate([one, other])
    _, inverse, counts = np.unique(both, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[inverse]
    n, m = len(one), len(other)
    ties = float(np.sum(counts.astype(float) ** 3 - counts))
    variance = n * m / 12 * (n + m + 1 - ties / ((n + m) * (n + m - 1)))
    return float((ranks[:n].sum() - n * (n + m + 1) / 2) / math.sqrt(variance))


def _learned(one: Times, other: Times) -> tuple[float, int]:
    """The threshold, and the side of it, that tells the two best apart."""
    candidates = np.quantile(np.concatenate([one, other]), np.linspace(0.01, 0.99, 99))
    above = [float(np.mean(one > t) - np.mean(other > t)) for t in candidates]
    best = int(np.argmax(np.abs(above)))
    return float(candidates[best]), 1 if above[best] > 0 else -1
