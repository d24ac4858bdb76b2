"""How accurate aggregates from one Bernstein slot are, beside the same from sums that share the epsilon.

    python -m bench.accuracy_slots

Draws the product's own noise on top of exact vectors, and makes the product's estimates of it; no engine is asked, as
its part is exact. The other way: each of the power sums that the aggregate is made of is released by itself, with the
sensitivity of its largest power and an equal share of epsilon. Prints the root of the mean squared error of both. Fails
where the mean is not 3.5 times as good.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from math import prod

import numpy as np
from numpy.typing import NDArray

from dpsql.privacy.bernstein import Index, indices, weight, weights
from dpsql.privacy.mechanisms import DiscreteLaplace
from dpsql.privacy.moments import Moments

EPSILON = Fraction(1)
ROWS = 2000
DRAWS = 20_000
AT_LEAST = 3.5

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Values:
    """Whole numbers in lo..hi, of one row of each unit."""

    values: NDArray[np.int64]
    lo: int
    hi: int


def made_up(lo: int, hi: int, mean: float) -> Values:
    """ROWS values of this mean, a tenth of the range apart on average."""
    z = np.sqrt(12) * ((np.arange(ROWS) * 0.6180339887) % 1 - 0.5)
    return Values(np.rint(np.clip(mean + z * (hi - lo) / 10, lo, hi)).astype(np.int64), lo, hi)


AGES, LATE, EARLY, SIGNED = made_up(18, 90, 54), made_up(18, 90, 80), made_up(18, 90, 28), made_up(-50, 50, 10)
PAYS = Values(AGES.values[::-1] // 2 + AGES.values // 2, 0, 100)


def from_slot(degrees: Index, sources: tuple[Values, ...]) -> Moments:
    """DRAWS noisy vectors of the values, at the full epsilon."""
    spans = tuple(s.hi - s.lo for s in sources)
    moved = [[int(v) - s.lo for v in s.values] for s in sources]
    rows = list(zip(*moved, strict=True))
    powers = {e: sum(prod(k**p for k, p in zip(row, e, strict=True)) for row in rows) for e in indices(degrees)}
    law = DiscreteLaplace(weight(degrees, spans) / EPSILON)
    vector = [(law.sample(DRAWS) + exact).astype(np.float64) for exact in weights(powers, degrees, spans)]
    return Moments(vector, degrees, weight(degrees, spans))


def from_sums(sources: tuple[Values, ...], powers: tuple[Index, ...]) -> list[Floats]:
    """DRAWS noisy sums of each of these products of powers, which share epsilon evenly."""
    found = []
    for power in powers:
        exact = sum(
            prod(int(v) ** p for v, p in zip(row, power, strict=True))
            for row in zip(*(s.values for s in sources), strict=True)
        )
        largest = prod(max(abs(s.lo), abs(s.hi)) ** p for s, p in zip(sources, power, strict=True))
        law = DiscreteLaplace(Fraction(largest * len(powers)) / EPSILON)
        found.append((law.sample(DRAWS) + exact).astype(np.float64))
    return found


def root_mean_square(found: Floats, exact: float) -> float:
    return float(np.sqrt(np.mean((found - exact) ** 2)))


def mean(source: Values) -> tuple[float, float]:
    exact = float(source.values.mean())
    ours = source.lo + (source.hi - source.lo) * from_slot((1,), (source,)).mean(0)
    n, total = from_sums((source,), ((0,), (1,)))
    return root_mean_square(ours, exact), root_mean_square(np.clip(total / n, source.lo, source.hi), exact)


def variance(source: Values) -> tuple[float, float]:
    exact = float(source.values.var())
    ours = (source.hi - source.lo) ** 2 * from_slot((2,), (source,)).variance(0)
    n, total, squares = from_sums((source,), ((0,), (1,), (2,)))
    most = (source.hi - source.lo) ** 2 / 4
    return root_mean_square(ours, exact), root_mean_square(np.clip(squares / n - (total / n) ** 2, 0, most), exact)


def correlation(one: Values, other: Values) -> tuple[float, float]:
    exact = float(np.corrcoef(one.values, other.values)[0, 1])
    ours = from_slot((2, 2), (one, other)).correlation(0, 1)
    n, x, y, xx, yy, xy = from_sums((one, other), ((0, 0), (1, 0), (0, 1), (2, 0), (0, 2), (1, 1)))
    spread = np.maximum(xx / n - (x / n) ** 2, 0) * np.maximum(yy / n - (y / n) ** 2, 0)
    found = np.divide(xy / n - x * y / n**2, np.sqrt(spread), out=np.zeros_like(n), where=spread > 0)
    return root_mean_square(ours, exact), root_mean_square(np.clip(found, -1, 1), exact)


def count_beside_mean(source: Values) -> tuple[float, float]:
    moments = from_slot((1,), (source,))
    return root_mean_square(moments.count / moments.parts, ROWS), root_mean_square(
        from_sums((source,), ((0,), (1,)))[0], ROWS
    )


CASES: dict[str, Callable[[], tuple[float, float]]] = {
    "AVG on [18, 90], mean 54": lambda: mean(AGES),
    "AVG on [18, 90], mean 80": lambda: mean(LATE),
    "AVG on [18, 90], mean 28": lambda: mean(EARLY),
    "AVG on [-50, 50], mean 10": lambda: mean(SIGNED),
    "COUNT(x) beside AVG(x)": lambda: count_beside_mean(AGES),
    "VAR_POP on [18, 90], mean 54": lambda: variance(AGES),
    "CORR on [18, 90] and [0, 100]": lambda: correlation(AGES, PAYS),
}


def main() -> None:
    """Print the table of `docs/accuracy.md`."""
    print(f"{ROWS} rows of as many units, epsilon {EPSILON}, {DRAWS} draws")
    print("| aggregate | one slot | shared epsilon | ratio |\n|---|---|---|---|")
    ratios = {}
    for name, case in CASES.items():
        ours, theirs = case()
        ratios[name] = theirs / ours
        print(f"| {name} | {ours:.3g} | {theirs:.3g} | {theirs / ours:.1f} |")
    first = next(iter(CASES))
    if ratios[first] < AT_LEAST:
        raise SystemExit(f"{first} is {ratios[first]:.2f} times as good, not {AT_LEAST}")


if __name__ == "__main__":
    main()
