"""Bernstein weights add up to one row whatever its values, and give back what they were made of."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpsql.privacy.bernstein import Index, indices, weight, weights
from dpsql.privacy.intervals import linear_half_width, two_laplace_half_width
from dpsql.privacy.moments import Moments

DEGREES = [(1,), (2,), (1, 0), (1, 1), (1, 2), (2, 1), (2, 2)]


def powers_of(rows: list[Index], degrees: Index) -> dict[Index, int]:
    return {e: sum(prod(k**p for k, p in zip(row, e, strict=True)) for row in rows) for e in indices(degrees)}


@given(st.sampled_from(DEGREES), st.data())
def test_a_row_adds_the_same_whatever_its_values(degrees: Index, data: st.DataObject) -> None:
    spans = tuple(data.draw(st.integers(1, 2**31)) for _ in degrees)
    row = tuple(data.draw(st.integers(0, m)) for m in spans)
    found = weights(powers_of([row], degrees), degrees, spans)
    assert len(found) == prod(d + 1 for d in degrees)
    assert min(found) >= 0
    assert sum(found) == weight(degrees, spans)


@pytest.mark.parametrize("degrees", DEGREES)
def test_moments_are_those_of_the_rows(degrees: Index) -> None:
    spans = (72, 5000)[: len(degrees)]
    rows = [tuple((7 * r + j * r * r + r % 5) % (m + 1) for j, m in enumerate(spans)) for r in range(300)]
    vector = weights(powers_of(rows, degrees), degrees, spans)
    moments = Moments([np.array([w], dtype=object) for w in vector], degrees, weight(degrees, spans))
    u = [np.array(values) / m for values, m in zip(zip(*rows, strict=True), spans, strict=True)]
    assert moments.count[0] == 300 * moments.parts
    assert moments.mean(0)[0] == pytest.approx(u[0].mean(), rel=1e-14)
    if degrees[0] == 2:
        assert moments.variance(0)[0] == pytest.approx(u[0].var(), rel=1e-12)
    if degrees[1:] and min(degrees) == 1:
        assert moments.covariance(0, 1)[0] == pytest.approx(np.cov(*u, bias=True)[0, 1], rel=1e-12)
    if degrees[1:] == (2,):
        assert moments.slope(0, 1)[0] == pytest.approx(np.polyfit(u[1], u[0], 1)[0], rel=1e-9)
    if degrees == (2, 2):
        assert moments.correlation(0, 1)[0] == pytest.approx(np.corrcoef(*u)[0, 1], rel=1e-12)


@given(st.lists(st.integers(-(10**6), 10**6), min_size=9, max_size=9))
def test_no_noise_takes_a_moment_out_of_its_range(vector: list[int]) -> None:
    moments = Moments([np.array([v], dtype=object) for v in vector], (2, 2), 1000)
    assert 0 <= moments.mean(0)[0] <= 1
    assert 0 <= moments.variance(1)[0] <= 0.25
    assert -0.25 <= moments.covariance(0, 1)[0] <= 0.25
    assert -1 <= moments.correlation(0, 1)[0] <= 1
    assert np.isfinite(moments.slope(0, 1)[0])
    assert 1 < moments.sample()[0] <= 2


def test_the_half_width_of_a_sum_of_noises() -> None:
    """Against the closed form where there is one, and draws of the law where there is none."""
    nearly = linear_half_width((3.0, 2.0, 1e-9), normal=False)
    assert nearly == pytest.approx(two_laplace_half_width(3.0, 2.0), rel=1e-5)
    assert linear_half_width((3.0, 0.0, 2.0), normal=False) == two_laplace_half_width(3.0, 2.0)
    r = np.random.default_rng(1)
    for scales in ((1.0, 1.0, 1.0), (1.0,) * 9, (2.0, 1.0, 0.5, 0.1)):
        drawn = sum(np.abs(s) * r.laplace(size=400_000) for s in scales)
        within = float(np.mean(np.abs(drawn) <= linear_half_width(scales, normal=False)))
        assert within == pytest.approx(0.95, abs=5 * (0.95 * 0.05 / 400_000) ** 0.5)
