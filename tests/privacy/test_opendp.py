"""OpenDP, an independent implementation of the same noise, agrees: in law, in privacy, in accuracy."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import opendp.prelude as dp
import pytest

from dpsql.privacy.mechanisms import DiscreteLaplace
from tests.privacy.laws import ALARM, chi_square_of_two, counts, cuts, fits

dp.enable_features("contrib")

N = 20_000


def theirs(scale: float) -> Any:
    domain = dp.vector_domain(dp.atom_domain(T="i64"))
    return dp.m.make_laplace(domain, dp.l1_distance(T="i64"), scale=scale)


@pytest.mark.parametrize(
    "scale", [Fraction(1, 2), Fraction(1), Fraction(7, 4), Fraction(10), Fraction(2**20), Fraction(2**40)]
)
def test_same_law(scale: Fraction) -> None:
    """Scales that a float holds exactly, since OpenDP takes floats."""
    ours = DiscreteLaplace(scale).sample(5 * N)
    other = np.array(theirs(float(scale))([0] * N), dtype=np.int64)
    edges = cuts(scale, N)
    assert chi_square_of_two(counts(ours, edges), counts(other, edges)) > ALARM
    assert fits(other, scale) > ALARM, "the exact law of these tests is the one OpenDP samples, too"


def test_the_comparison_sees_another_scale() -> None:
    """With so many draws, by ten deviations."""
    scale = Fraction(10)
    ours = DiscreteLaplace(scale * Fraction(11, 10)).sample(25 * N)
    other = np.array(theirs(float(scale))([0] * 5 * N), dtype=np.int64)
    edges = cuts(scale, 5 * N)
    assert chi_square_of_two(counts(ours, edges), counts(other, edges)) < ALARM


@pytest.mark.parametrize("delta_1", [1, 3, 400])
@pytest.mark.parametrize("epsilon", [Fraction(1, 8), Fraction(1), Fraction(3)])
def test_same_privacy(delta_1: int, epsilon: Fraction) -> None:
    noise = DiscreteLaplace(delta_1 / epsilon)
    assert math.isclose(theirs(float(noise.scale)).map(delta_1), epsilon, rel_tol=1e-12)


@pytest.mark.parametrize("scale", [Fraction(1, 2), Fraction(1), Fraction(7, 4), Fraction(10), Fraction(2**20)])
@pytest.mark.parametrize("alpha", [Fraction(1, 2), Fraction(1, 10), Fraction(1, 20), Fraction(1, 1000)])
def test_same_accuracy(scale: Fraction, alpha: Fraction) -> None:
    """Theirs is the a with P[|X| >= a] = alpha as if X were continuous; ours the least h with P[|X| > h] <= alpha."""
    accuracy = dp.discrete_laplacian_scale_to_accuracy(float(scale), float(alpha))
    assert DiscreteLaplace(scale).half_width(1 - alpha) == max(0, math.ceil(accuracy) - 1)
