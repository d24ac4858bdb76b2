"""Gaussian privacy: every bound holds against high-precision values, is close to them, and errs on the safe side.

The reference values were computed with mpmath 1.4.1 at 80 to 120 digits: erfc for the tails, bisection for the rest.
"""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsql.privacy import gaussian
from dpsql.privacy.enclosures import Arithmetic, Enclosure, upper_tail
from dpsql.privacy.gaussian import (
    delta_of,
    epsilon_of,
    is_private,
    largest_pure,
    mu_squared_for,
    mu_squared_of_pure,
    sigma_for,
)

CLOSE = Fraction(1, 10**9)

TAILS = [  # x, P[Z > x]
    ("-6", "0.999999999013412354962301859299135867601957981"),
    ("-0.5", "0.691462461274013103637704610608337739883602176"),
    ("0", "0.5"),
    ("1e-20", "0.499999999999999999996010577195985673220600539"),
    ("0.5", "0.308537538725986896362295389391662260116397824"),
    ("1", "0.158655253931457051414767454367962077522087033"),
    ("3", "0.00134989803163009452665181476759497737782936816"),
    ("5", "0.000000286651571879193911673752332874645353854423014"),
    ("5.000001", "0.000000286650085163395970216008924092778618383979632"),
    ("7.5", "0.0000000000000319089167291089622776728834472635531287563678"),
    ("10", "7.61985302416052606597334325159930836350403328e-24"),
    ("38", "2.88542836006878430835097048156690409466181777e-316"),
    ("1000", "2.29064614654549841064310908113818131679298776e-217151"),
]
MU_SQUARED = [  # epsilon, delta, the largest mu^2
    ("1", "1e-6", "0.056028963825260677084"),
    ("3", "1e-6", "0.41954965855805884458"),
    ("0.25", "1e-9", "0.0023148706292963255777"),
    ("0.01", "1e-12", "2.9829506763916740948e-6"),
    ("10", "1e-5", "4.0017826803000978475"),
    ("100", "0.5", "201.9967442691202316"),
    ("1e-3", "1e-10", "4.7584929781009860766e-8"),
    ("1", "1e-30", "0.0081409908256827744492"),
]
PURE = [  # epsilon, the least mu^2
    ("1e-6", "1.5707963267948404366e-12"),
    ("0.01", "0.00015707907085673425374"),
    ("0.25", "0.097956167095771447471"),
    ("1", "1.5179111907419586309"),
    ("3", "11.160167665229640679"),
    ("10", "61.276243753872394579"),
    ("100", "771.55906607729346856"),
]


@pytest.mark.parametrize("digits", [12, 25, 40, 60])
@pytest.mark.parametrize(("x", "tail"), TAILS)
def test_the_tail_lies_within_its_bounds(x: str, tail: str, digits: int) -> None:
    arithmetic = Arithmetic(digits)
    found = upper_tail(arithmetic.of(Fraction(x)))
    exact, doubt = Fraction(tail), Fraction(tail) / 10**44  # the last digit of the reference is rounded
    assert Fraction(found.low) <= exact + doubt
    assert Fraction(found.high) >= exact - doubt
    # of x, rounded to so many digits, and of what is lost between 1/2 and a small difference
    assert found.high - found.low <= Decimal(10) ** (14 - digits) * found.high


def test_bounds_hold_whatever_the_thread_has_set() -> None:
    with localcontext() as context:
        context.prec, context.Emax, context.Emin = 3, 9, -9
        found = upper_tail(Arithmetic(30).of(Fraction(10)))
    assert Fraction(found.low) <= Fraction(TAILS[10][1]) <= Fraction(found.high)


amounts = st.fractions(min_value=-50, max_value=50, max_denominator=10**6)


@given(amounts, amounts, amounts)
def test_arithmetic_contains_what_it_is_about(a: Fraction, b: Fraction, c: Fraction) -> None:
    """With 6 digits every operation rounds; the exact result is always inside."""
    of = Arithmetic(6).of
    width = abs(c) / 1000
    wide = Enclosure(of(a - width).low, of(a + width).high, Arithmetic(6))
    for x in (a - width, a, a + width):
        for found, exact in (
            (wide + of(b), x + b),
            (wide - of(b), x - b),
            (wide * of(b), x * b),
            (of(b) * wide, x * b),
            (-wide, -x),
            (wide / of(abs(b) + 1), x / (abs(b) + 1)),
        ):
            assert Fraction(found.low) <= exact <= Fraction(found.high)
    root = of(a * a + 1).sqrt()
    assert Fraction(root.low) ** 2 <= a * a + 1 <= Fraction(root.high) ** 2
    assert of(a).exp().low <= Arithmetic(40).of(a).exp().low <= Arithmetic(40).of(a).exp().high <= of(a).exp().high
    with pytest.raises(ValueError, match="divisor"):
        of(1) / of(-abs(a))


@pytest.mark.parametrize(("epsilon", "delta", "largest"), MU_SQUARED)
def test_mu_of_epsilon_and_delta(epsilon: str, delta: str, largest: str) -> None:
    e, d, exact = Fraction(epsilon), Fraction(delta), Fraction(largest)
    found = mu_squared_for(e, d)
    assert exact * (1 - CLOSE) <= found <= exact * (1 + Fraction(1, 10**18))
    assert found.denominator <= gaussian.GRID
    assert is_private(found, e, d)
    assert not is_private(found * (1 + CLOSE), e, d)


@pytest.mark.parametrize(("epsilon", "least"), PURE)
def test_mu_of_pure_epsilon(epsilon: str, least: str) -> None:
    exact, found = Fraction(least), mu_squared_of_pure(Fraction(epsilon))
    slack = Fraction(1, 10**30)  # the grid of amounts
    assert exact * (1 - Fraction(1, 10**18)) <= found <= exact * (1 + CLOSE) + slack


@pytest.mark.parametrize(("epsilon", "least"), PURE)
def test_the_largest_epsilon_that_a_mu_pays_for(epsilon: str, least: str) -> None:
    exact, found = Fraction(epsilon), largest_pure(Fraction(least))
    assert exact * (1 - 2 * CLOSE) <= found < exact
    assert mu_squared_of_pure(found) <= Fraction(least) + Fraction(1, 10**30)


@pytest.mark.parametrize(("epsilon", "delta", "largest"), MU_SQUARED)
def test_epsilon_of_mu_and_delta(epsilon: str, delta: str, largest: str) -> None:
    e, d, m = Fraction(epsilon), Fraction(delta), Fraction(largest)
    low, found = epsilon_of(m, d)
    assert e * (1 - CLOSE) <= found <= e * (1 + CLOSE)
    assert is_private(m, found, d)
    assert low < found <= low * (1 + CLOSE)
    assert not is_private(m, low, d)


@settings(deadline=None, max_examples=12)
@given(st.fractions(min_value="1/1000", max_value=20), st.integers(2, 15))
def test_there_and_back_never_gains(epsilon: Fraction, digits: int) -> None:
    delta = Fraction(1, 10**digits)
    mu_squared = mu_squared_for(epsilon, delta)
    assert epsilon * (1 - CLOSE * 1000) <= epsilon_of(mu_squared, delta)[1] <= epsilon * (1 + CLOSE)
    assert mu_squared <= mu_squared_of_pure(epsilon) + 2 * delta


def test_less_than_delta_at_no_epsilon_costs_none() -> None:
    assert epsilon_of(Fraction(0), Fraction(1, 10)) == (0, 0)
    assert epsilon_of(Fraction(1, 10**20), Fraction(1, 10)) == (0, 0)


def test_extremes_end_on_the_safe_side() -> None:
    assert mu_squared_for(Fraction(1, 10**30), Fraction(1, 10**30)) == 0
    assert mu_squared_of_pure(Fraction(1, 10**30)) == Fraction(1, 10**30)
    assert 7_999_000 < mu_squared_of_pure(Fraction(10**6)) < 8_000_000
    assert mu_squared_for(Fraction(10**6), Fraction(1, 10**6)) < 2 * 10**6
    with pytest.raises(ValueError, match="above 0"):
        sigma_for(1, mu_squared_for(Fraction(1, 10**30), Fraction(1, 10**30)))


@pytest.mark.parametrize(
    "bad", [(Fraction(1), Fraction(0)), (Fraction(1), Fraction(1)), (Fraction(-1), Fraction(1, 2))]
)
def test_impossible_amounts(bad: tuple[Fraction, Fraction]) -> None:
    with pytest.raises(ValueError, match="delta lies"):
        mu_squared_for(*bad)
    with pytest.raises(ValueError, match="delta lies"):
        epsilon_of(*bad)
    with pytest.raises(ValueError, match="epsilon"):
        mu_squared_of_pure(min(bad[0], Fraction(0)))


@given(st.integers(1, 10**40), st.fractions(min_value=Fraction(1, 10**12), max_value=10**6))
def test_sigma_is_rounded_up_and_by_little(l2_squared: int, mu_squared: Fraction) -> None:
    sigma = sigma_for(l2_squared, mu_squared)
    assert l2_squared <= mu_squared * sigma**2 <= l2_squared * (1 + CLOSE)


def test_sigma_of_nothing() -> None:
    for l2_squared, mu_squared in ((0, Fraction(1)), (1, Fraction(0))):
        with pytest.raises(ValueError, match="sensitivity"):
            sigma_for(l2_squared, mu_squared)
    assert sigma_for(9, Fraction(1)) == 3


# -- what is promised, of the noise that is drawn


def law(sigma: Fraction, reach: int) -> np.ndarray:
    """P[round(sigma Z) = m] for |m| <= reach, in float64."""
    ends = [math.erfc(-float((m + Fraction(1, 2)) / sigma) / math.sqrt(2)) / 2 for m in range(-reach - 1, reach + 1)]
    upper = ends[: reach + 1]  # mirrored, so that both tails keep their digits
    falling = np.diff(upper)
    middle = 1 - 2 * upper[-1]
    return np.concatenate([falling, [middle], falling[::-1]])


def hockey_stick(p: np.ndarray, q: np.ndarray, epsilon: float) -> float:
    return float(np.maximum(p - math.exp(epsilon) * q, 0).sum())


@pytest.mark.parametrize("shift", [1, 2, 7])
@pytest.mark.parametrize(("epsilon", "delta"), [("1", "1e-6"), ("0.25", "1e-5"), ("3", "1e-3"), ("8", "1e-6")])
def test_rounded_noise_keeps_the_promise_and_little_less_would_not(epsilon: str, delta: str, shift: int) -> None:
    """The exact delta of the integer noise at the analytic sigma, for the vector that moves by `shift` in one place."""
    e, d = Fraction(epsilon), Fraction(delta)
    sigma = sigma_for(shift**2, mu_squared_for(e, d))
    reach = int(14 * sigma) + shift + 2

    def spent(deviation: Fraction) -> float:
        p = law(deviation, reach)
        moved = np.concatenate([np.zeros(shift), p])
        return hockey_stick(np.concatenate([p, np.zeros(shift)]), moved, float(e))

    assert spent(sigma) <= float(d) * (1 + 1e-9)
    if sigma > 3 * shift:  # where the grid is fine, rounding hides next to nothing
        assert spent(sigma * Fraction(95, 100)) > float(d)


def test_two_components_are_one_mechanism() -> None:
    """A vector that moves by (3, 4) is as private as a number that moves by 5, and no more."""
    e, d = Fraction(1), Fraction(1, 10**4)
    sigma = sigma_for(25, mu_squared_for(e, d))
    reach = int(8 * sigma)
    p = law(sigma, reach)
    both = np.outer(p, p)
    moved = np.zeros_like(both)
    moved[3:, 4:] = both[:-3, :-4]
    assert 0.9 * float(d) < hockey_stick(both[3:, 4:].ravel(), moved[3:, 4:].ravel(), float(e)) <= float(d)


@pytest.mark.parametrize("epsilon", ["0.1", "0.5", "1", "2", "5"])
def test_a_pure_mechanism_is_covered_and_a_smaller_mu_would_not_do(epsilon: str) -> None:
    """Randomised response is the worst epsilon-DP mechanism: its delta at every other epsilon is at most that of
    mu-GDP, and for mu 1 % smaller it is more at some."""
    e = float(Fraction(epsilon))
    truth, lie = 1 / (1 + math.exp(-e)), 1 / (1 + math.exp(e))
    mu_squared = mu_squared_of_pure(Fraction(epsilon))

    def excess(square: Fraction) -> float:
        others = [Fraction(i, 40) * Fraction(epsilon) for i in range(41)]
        deltas = [(max(0.0, truth - math.exp(x) * lie), float(delta_of(square, x).low)) for x in others]
        return max(worst - covered for worst, covered in deltas)

    assert excess(mu_squared) <= 1e-15
    assert excess(mu_squared * Fraction(98, 100)) > 0
    assert math.sqrt(mu_squared) < 1.2534 * e  # and the price is that of the textbook


def test_delta_rises_with_mu_and_falls_with_epsilon() -> None:
    squares = [Fraction(i, 10) for i in range(1, 40)]
    for epsilon in (Fraction(1, 10), Fraction(2)):
        assert all(delta_of(a, epsilon).high < delta_of(b, epsilon).low for a, b in pairwise(squares))
    assert all(delta_of(Fraction(1), a).low > delta_of(Fraction(1), b).high for a, b in pairwise(squares))
