"""What `bench.accuracy` says of errors, on cases worked by hand."""

from __future__ import annotations

from math import sqrt

import pytest

from bench.accuracy_tables import tables
from bench.errors import errors

TRUTH = {("a",): 10.0, ("b",): 20.0}


def test_parts_of_an_error() -> None:
    found = errors(TRUTH, [{("a",): 11, ("b",): 24}, {("a",): 13, ("b",): 24}])
    assert found.bias == pytest.approx(3)  # (2 + 4) / 2
    assert found.deviation == pytest.approx(1)  # variances 2 and 0
    assert found.rmse == found.whole == pytest.approx(sqrt((1 + 16 + 9 + 16) / 4))
    assert found.whole_error == pytest.approx((8 / sqrt(2) / 2 / sqrt(2)) / (2 * found.whole))
    assert (found.draws, found.groups, found.lost) == (2, 2, 0)


def test_lost_groups_count_as_zero_and_others_not_at_all() -> None:
    found = errors(TRUTH, [{("a",): 10, ("c",): 5}, {("a",): 10}])
    assert found.lost == 0.5
    assert found.rmse == 0
    assert found.whole == pytest.approx(sqrt(20**2 / 2))


def test_nothing_shown() -> None:
    found = errors(TRUTH, [{}, {}])
    assert found.lost == 1
    assert found.rmse is found.bias is found.deviation is None


def test_an_aim_is_missed_only_beyond_the_errors_of_measurement() -> None:
    def of(whole: float) -> dict[str, float]:
        return {"whole": whole, "whole_error": whole / 100, "bias": 0.0, "deviation": whole, "lost": 0.0}

    limits = ("facts", "own", "published")
    peers = {"opendp": {"1": {name: {"q2": of(100)} for name in limits}}}
    missed = {w: tables({"1": {name: {"q2": of(w)} for name in limits}}, peers)[1] for w in (9, 100, 103, 105)}
    assert [len(found) for found in missed.values()] == [0, 1, 1, 3]  # against published limits a tenth is aimed at
