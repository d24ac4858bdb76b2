"""A released number with less noise, for the difference in epsilon: drawn given the released one.

The law. Let q1 = exp(-1/coarse) > q2 = exp(-1/fine), and let N2 be discrete Laplace noise of the scale `fine`. The
generating function of such noise is (1-q)^2 / ((1-qz)(1-q/z)), so that of scale `coarse` over that of scale `fine` is

    ((1-q1)/(1-q2))^2 (1 - q2 z)(1 - q2/z) / ((1 - q1 z)(1 - q1/z))
        = ((1-q1)/(1-q2))^2 ( r + (1-r)(1-q) / ((1 - q1 z)(1 - q1/z)) ),     r = q2/q1,  q = q1 q2,

since 1 + q2^2 - r (1 + q1^2) = (1-r)(1-q). No coefficient is below 0: it is the law h of some noise Z, and N2 + Z is
discrete Laplace noise of the scale `coarse`. (Koufogiannis, Han, Pappas, Gradual release of sensitive data under
differential privacy, 2015, for the continuous law.)

Privacy. Y1 = x + N1 was released with noise of scale `coarse`. Here N2 is drawn from its law given N2 + Z = N1, and
Y2 = x + N2 is released. With f1, f2 the laws of both noises, the two together have the law

    f1(y1 - x) . f2(y2 - x) h(y1 - y2) / f1(y1 - x)  =  f2(y2 - x) h(y1 - y2):

that of Y2 as it would be alone, and of Y1 made from it without x. So all that both tell of x, Y2 tells: they cost what
Y2 costs, Delta_1/fine, and what is left to pay is the difference. A third, Y3, is drawn given Y2 alone, and the same
product f3(y3 - x) h(y2 - y3) h(y1 - y2) says that the three cost what Y3 costs. Two things are needed. x is the very
number to which the first noise was added: for another one the quotient above is not 1, and both cost the sum and more.
And no released number is refined twice: the law of two, each drawn given Y1, is no such product. `repeats` proves the
first, the ledger keeps the second, and `accounting` says what that comes to among other charges.

The draw. For N1 = y >= 0 (and by symmetry below) the weights of N2 = k are f2(k) h(y - k), which is proportional to
q2^|k| q1^|y-k|, with an atom at k = y. Summed up, with R = r^y and T = 1 - r q:

    k < 0: (1-r) q/T, where -1-k is geometric in q;       0 <= k <= y: (1 - r R)(1-q)/T, where k is geometric in r;
    k > y: R (1-r) q/T, where k-y-1 is geometric in q;    and the atom: R (r-q)/T.

Let A, B, M, C, D, G be independent geometric numbers, P[X = x] = (1-p) p^x, in q, r, r, q1^2, r, q. Then P[A > B] is
the sum over b of (1-r) r^b q^(b+1) = (1-r) q/T: that is k < 0. Else M <= y, of chance 1 - r R, is 0 <= k <= y, and M
has that law. Else, of chance r R, C > D, of chance q1^2 (1-r)/(1-q), is k > y, and r R (1-q)/T times that is R (1-r)
q/T. What is left is the atom. So there is nothing but exact geometric draws, the same for every x: nothing that takes
time hangs on it.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from dpsql.privacy.sampling import Integers, Words, geometric


def refined(
    exact: Integers, released: Integers, coarse: Fraction, fine: Fraction, words: Words | None = None
) -> Integers:
    """Numbers with discrete Laplace noise of the scale `fine` around the exact ones, drawn given the released ones,
    whose noise is of the scale `coarse` (above `fine`). Python integers (dtype object)."""
    if not 0 < fine < coarse or len(exact) != len(released):
        raise ValueError("numbers are refined from as many, with more noise")
    difference = released.astype(object) - exact.astype(object)
    noise = abs(difference)
    inner, outer = 1 / (1 / fine - 1 / coarse), 1 / (1 / fine + 1 / coarse)

    def drawn(scale: Fraction) -> Integers:
        return geometric(len(exact), scale, words).astype(object)

    below = drawn(outer) > drawn(inner)
    within = drawn(inner)
    beyond = drawn(coarse / 2) > drawn(inner)
    steps = drawn(outer)
    finer = np.where(within <= noise, within, np.where(beyond, noise + 1 + steps, noise))
    finer = np.where(below, -1 - steps, finer)
    result: Integers = exact.astype(object) + np.where(difference < 0, -finer, finer)
    return result
