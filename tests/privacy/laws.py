"""What the tests of noise share: the exact discrete Laplace law in decimal arithmetic, chi-square, scripted words.

Independent of the code under test: exp comes from `decimal` (correctly rounded), never from the sampler's enclosures.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Sequence
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal
from fractions import Fraction
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from dpsql.privacy.sampling import Integers, Words

ALARM = 1e-9
"""False-alarm rate of one chi-square check. All tests of noise together make fewer than 500, so that one run in two
million, at the most, is red without a cause."""

ARITHMETIC = Context(prec=80, Emin=MIN_EMIN, Emax=MAX_EMAX)


def decimal(x: Fraction | int) -> Decimal:
    x = Fraction(x)
    return ARITHMETIC.divide(Decimal(x.numerator), Decimal(x.denominator))


def exp_minus(gamma: Fraction | int, context: Context = ARITHMETIC) -> Decimal:
    """exp(-gamma) to the digits of the context."""
    gamma = Fraction(gamma)
    return context.exp(context.divide(Decimal(-gamma.numerator), Decimal(gamma.denominator)))


def below(x: int, scale: Fraction) -> Decimal:
    """P[X <= x] for discrete Laplace noise."""
    one_and_q = ARITHMETIC.add(Decimal(1), exp_minus(1 / scale))
    if x < 0:
        return ARITHMETIC.divide(exp_minus(-x / scale), one_and_q)
    return ARITHMETIC.subtract(Decimal(1), ARITHMETIC.divide(exp_minus((x + 1) / scale), one_and_q))


def at_residues(start: int, stop: int, modulus: int, scale: Fraction) -> Decimal:
    """P[start <= X mod modulus < stop]. The residue j >= 0 has (1-q)/(1+q) (q^j + q^(modulus-j)) / (1 - q^modulus)."""
    c, q = ARITHMETIC, exp_minus(1 / scale)
    rising = c.subtract(exp_minus(start / scale), exp_minus(stop / scale))
    falling = c.subtract(exp_minus((modulus - stop + 1) / scale), exp_minus((modulus - start + 1) / scale))
    whole = c.multiply(c.add(Decimal(1), q), c.subtract(Decimal(1), exp_minus(modulus / scale)))
    return c.divide(c.add(rising, falling), whole)


def quantile(share: float, scale: Fraction) -> int:
    """About the `share` quantile: where to cut; the chance between two cuts is then taken from `below`."""
    side = share if share <= 0.5 else 1 - share
    return round(Fraction(math.log(2 * side)) * scale * (1 if share <= 0.5 else -1))


def chi_square(observed: Sequence[int] | npt.NDArray[np.int64], expected: Sequence[float]) -> float:
    """A bound from above on the chance of a chi-square as large as this one, by Chernoff: no table, no library.

    Every bin must be expected 300 times or more, so that the statistic has its limit law far into the tail.
    """
    assert len(observed) == len(expected) >= 2
    assert min(expected) >= 300, f"too few draws for these bins: {min(expected)}"
    assert math.isclose(sum(expected), sum(map(int, observed)), rel_tol=1e-9)
    statistic = math.fsum((o - e) ** 2 / e for o, e in zip(map(int, observed), expected, strict=True))
    return _tail(statistic, len(expected) - 1)


def chi_square_of_two(first: npt.NDArray[np.int64], second: npt.NDArray[np.int64]) -> float:
    """The same for two samples' counts in the same bins: do they follow one law?"""
    assert (first + second).min() >= 300
    weight = math.sqrt(first.sum() / second.sum())
    return _tail(float(((second * weight - first / weight) ** 2 / (first + second)).sum()), len(first) - 1)


def _tail(statistic: float, freedom: int) -> float:
    excess = statistic / freedom
    return 1.0 if excess <= 1 else math.exp(-freedom / 2 * (excess - 1 - math.log(excess)))


def cuts(scale: Fraction, draws: int) -> list[int]:
    """Where to cut the integers into bins: at every integer that enough draws fall on, and at 64 quantiles."""
    enough = 400 / draws
    middle = [x for x in range(-60, 61) if scale < 1000 and below(x, scale) - below(x - 1, scale) > enough]
    edges = sorted({quantile(i / 64, scale) for i in range(1, 64)} | set(middle) | {min(middle, default=0) - 1})
    kept: list[int] = []
    for edge in edges:
        last = below(kept[-1], scale) if kept else Decimal(0)
        if below(edge, scale) - last > enough and 1 - below(edge, scale) > enough:
            kept.append(edge)
    return kept


def counts(draws: Integers, edges: Sequence[int]) -> npt.NDArray[np.int64]:
    """How many draws lie in (-inf, e_0], (e_0, e_1], ..., (e_last, inf)."""
    at = np.array(list(edges), dtype=draws.dtype).searchsorted(draws, side="left")
    return np.bincount(at, minlength=len(edges) + 1)


def expected(edges: Sequence[int], scale: Fraction, draws: int) -> list[float]:
    """How many draws the exact law puts there."""
    at = [Decimal(0), *(below(edge, scale) for edge in edges), Decimal(1)]
    return [float(ARITHMETIC.subtract(b, a)) * draws for a, b in pairwise(at)]


def fits(draws: Integers, scale: Fraction) -> float:
    """The chance of draws as far from the exact law as these, or less."""
    edges = cuts(scale, len(draws))
    return chi_square(counts(draws, edges), expected(edges, scale, len(draws)))


def script(words: Iterable[int]) -> Words:
    """Words that were chosen beforehand, one at a time; asking for more than there are is an error."""
    rest = deque(words)

    def read(size: int) -> bytes:
        return b"".join([rest.popleft().to_bytes(8, "little") for _ in range(size // 8)])

    return Words(read, ahead=8)
