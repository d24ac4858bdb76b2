"""Bernstein slots: one vector of integers that gives count, sums, mean, variance, covariance and correlation.

On the grid x = lo + k step, k in 0..M, a row gives the integers B_i(k) = C(d, i) k^i (M-k)^(d-i), i = 0..d, which are
at least 0 and sum to (k + M - k)^d = M^d without rounding. Over several values a row gives the products of their
weights, again at least 0, which sum to N, the product of the M^d. So **a row moves the vector by exactly N in L1,
whatever its values are**, as one row moves a count by 1: the slot costs what one count costs. (arXiv 2312.06658 and
2509.04919.)

The weights of a row are polynomials in its k, so the exact vector is a linear function of the exact sums of powers
(`weights`), and those of the noisy vector are a linear function of it (`dpsql.privacy.moments`): with u = k/M,

    u^e = sum over i of C(i, e)/C(d, e) * B_i(k)/M^d      for e <= d,

since C(d, i) C(i, e) = C(d, e) C(d-e, i-e) and what is left sums to (u + 1 - u)^(d-e) = 1. The factors lie in [0, 1].
Which degrees: 1 gives n and the sum, 2 the squares as well; covariance is read from 1 x 1, the slope of y over x from
1 x 2, correlation from 2 x 2 (9 numbers). Slots of their own for x, y and their product would share one epsilon: each
square would come with 9 times the variance of one count at the full epsilon, from 2 x 2 it is 3 times.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from math import comb, prod
from typing import Any

Index = tuple[int, ...]
"""One number for each value of a row: which weight of it, or which power."""


def indices(degrees: Index) -> list[Index]:
    """Of the components of a slot, and of the powers that they are made of, in order."""
    return list(product(*(range(d + 1) for d in degrees)))


def weight(degrees: Index, spans: Index) -> int:
    """N: what each row adds to the vector in L1."""
    return prod(m**d for m, d in zip(spans, degrees, strict=True))


def weights(powers: Mapping[Index, Any], degrees: Index, spans: Index) -> list[Any]:
    """The exact vector, from the exact sums of k^e over rows, of every e up to the degrees (integers, or arrays of
    them).

    C(d, i) k^i (M-k)^(d-i) = sum over e >= i of C(d, i) C(d-i, e-i) (-1)^(e-i) M^(d-e) k^e.
    """
    found = []
    for index in indices(degrees):
        terms = []
        for power in product(*(range(i, d + 1) for i, d in zip(index, degrees, strict=True))):
            axes = zip(index, power, degrees, spans, strict=True)
            factor = prod(comb(d, i) * comb(d - i, e - i) * (-1) ** (e - i) * m ** (d - e) for i, e, d, m in axes)
            terms.append(factor * powers[power])
        found.append(sum(terms[1:], terms[0]))
    return found


def factor(index: Index, power: Index, degrees: Index) -> int:
    """That of a component in the sum of u^power, times the product of the degrees, which makes it an integer for
    degrees up to 2."""
    axes = zip(index, power, degrees, strict=True)
    return prod(comb(i, e) * (d or 1) // comb(d, e) for i, e, d in axes)
