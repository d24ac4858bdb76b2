"""Count, sums, mean, variance, covariance, correlation and slope, from a noisy Bernstein vector: post-processing."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpsql.privacy.bernstein import Index, factor, indices

Vector = Sequence[NDArray[Any]]
"""Per component, its cells: Python ints, or floats where no exactness is needed."""

Floats = NDArray[np.float64]


class Moments:
    """What a vector says of the values u = k/M in [0, 1] of a cell's rows: post-processing of the noisy vector.

    Counts and sums are left as they are, so they are unbiased. What is made of them is a number within its range
    always: where the noise has left no rows, the middle of the range (`mean` 1/2, `variance` 1/8, all others 0). Values
    are numbered by their place in the slot. `parts`: what counts and sums are multiples of (`count` / `parts` rows).
    """

    def __init__(self, vector: Vector, degrees: Index, unit: int):
        """unit: what one row adds to the vector, the parts of a row included."""
        self._degrees = degrees
        self._vector = dict(zip(indices(degrees), vector, strict=True))
        self.parts = unit * prod(d or 1 for d in degrees)  # see `factor`
        self.count = self.sum_of((0,) * len(degrees))
        self._some = np.asarray(self.count > 0, dtype=np.bool_)
        self._n = np.where(self._some, self.count, 1)

    def sum_of(self, power: Index) -> NDArray[Any]:
        """The sum of u^power over rows, times `parts`."""
        factors = {index: factor(index, power, self._degrees) for index in self._vector}
        terms = [component * factors[index] for index, component in self._vector.items() if factors[index]]
        return np.asarray(sum(terms[1:], terms[0]))

    def power(self, *axes: int) -> Index:
        """The exponents of a product of these values."""
        return tuple(axes.count(j) for j in range(len(self._degrees)))

    def mean(self, axis: int) -> Floats:
        """In [0, 1]."""
        return self._of_rows(self.sum_of(self.power(axis)) / self._n, 0.0, 1.0, 0.5)

    def variance(self, axis: int) -> Floats:
        """Of the population, in [0, 1/4]."""
        return self._of_rows(self._spread(axis, axis), 0.0, 0.25, 0.125)

    def covariance(self, one: int, other: int) -> Floats:
        """Of the population, in [-1/4, 1/4]."""
        return self._of_rows(self._spread(one, other), -0.25, 0.25, 0.0)

    def correlation(self, one: int, other: int) -> Floats:
        """In [-1, 1]; 0 where a variance is not above 0."""
        spread = np.sqrt(self.variance(one) * self.variance(other))
        found = self._over(self.covariance(one, other), spread)
        return self._of_rows(found, -1.0, 1.0, 0.0)

    def slope(self, y: int, x: int) -> Floats:
        """Of y over x: 0 where the variance of x is not above 0. At most 1/2 over the deviation of x, which is what a
        covariance of values in [0, 1] allows."""
        deviation = np.sqrt(self.variance(x))
        steepest = self._over(np.full_like(deviation, 0.5), deviation)
        found = self._over(self.covariance(y, x), deviation * deviation)
        return self._of_rows(np.clip(found, -steepest, steepest), -np.inf, np.inf, 0.0)

    def sample(self) -> Floats:
        """n/(n-1), with at least two rows: from the variance of a population to that of a sample."""
        n = np.maximum(np.asarray(self.count / self.parts, dtype=np.float64), 2.0)
        return np.asarray(n / (n - 1.0))

    def _spread(self, one: int, other: int) -> NDArray[Any]:
        """Of products, less the product of means: its numerator is exact where the vector is."""
        first, second = self.sum_of(self.power(one)), self.sum_of(self.power(other))
        numerator = self.count * self.sum_of(self.power(one, other)) - first * second
        return np.asarray(numerator / (self._n * self._n))

    def _of_rows(self, found: NDArray[Any], lo: float, hi: float, nothing: float) -> Floats:
        """Within its range; `nothing` where no rows are left."""
        return np.where(self._some, np.clip(found.astype(np.float64), lo, hi), nothing)

    @staticmethod
    def _over(numerator: Floats, denominator: Floats) -> Floats:
        """0 where the denominator is."""
        return np.divide(numerator, denominator, out=np.zeros_like(numerator), where=denominator > 0)
