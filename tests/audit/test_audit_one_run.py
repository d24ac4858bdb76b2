"""The one-run audit of every aggregate under every strategy, from `dpsql.connect` to the guess.

False alarms: where the product should pass, p must be above 10^-10, and there are fewer than 90 claims here: below 1e-8
for all together. (`dpsql audit` refutes at 10^-8.5, which is what is asked where a fault is planted.)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random

import pytest

from dpsql.audit import canaries
from dpsql.audit.canaries import AGGREGATES, BROAD, DEEP, SESSION, Canaries, Question
from dpsql.audit.data import home as audit_home
from dpsql.audit.report import Finding, broken, table
from tests.audit import faults
from tests.audit.faults import Fault

SURE = 10.0
FULL = Question(("COUNT(*)", "SUM(beyond)", "AVG(near)", "COUNT(DISTINCT uid)"))


def surely(findings: list[Finding]) -> list[Finding]:
    """Those that no test may show by chance."""
    return [finding for finding in findings if finding.doubt >= SURE]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("canaries")


@pytest.fixture(scope="module")
def deep(folder: Path) -> Canaries:
    return canaries.deep(folder / "deep", Random(20230515), "1.5")


@pytest.fixture(autouse=True)
def shared_home(folder: Path, home: Path) -> Iterator[None]:
    """Snapshots are kept between the tests of this file."""
    with audit_home(folder / "home"):
        yield


def test_every_aggregate_passes(deep: Canaries) -> None:
    """Each under half of the strategies; the long test and `dpsql audit` ask all."""
    passes(deep, [question for i, question in enumerate(DEEP) if (i + i // len(AGGREGATES)) % 2 == 0 or i >= 48])


@pytest.mark.audit
def test_every_aggregate_passes_under_every_strategy(deep: Canaries) -> None:
    passes(deep, DEEP)


def passes(made: Canaries, questions: Sequence[Question]) -> None:
    findings = canaries.audit(made, questions)
    assert len(findings) >= len(questions)
    assert not surely(findings), table(findings)


def test_a_whole_session_passes(deep: Canaries) -> None:
    (finding,) = canaries.audit_session(deep, SESSION)
    assert not surely([finding]), finding
    assert finding.claim.endswith("epsilon 2")


def test_units_with_many_keys_pass(folder: Path) -> None:
    findings = canaries.audit(canaries.wide(folder / "wide", Random(1), "1"), BROAD)
    assert len(findings) == len(BROAD)
    assert not surely(findings), table(findings)


def test_it_would_refute_half_of_the_epsilon(folder: Path) -> None:
    """Power: answers of epsilon 3 refute epsilon 1.5 at p <= 1e-6.

    Of 500 guesses 476 are right in the mean, deviation 4.8, and 451 are enough: each of the eight fails with
    probability below 1e-6, so that one fails is expected once in 100,000 runs, and that two do, once in 10^11.
    """
    made = canaries.deep(folder / "power", Random(7), "3")
    refuted = []
    for aggregate in AGGREGATES:
        strategy = "cells" if "DISTINCT" in aggregate else "rows"
        with made.world.connect() as connection:
            ((scores,), epsilon) = canaries.ask(connection, Question((aggregate,), strategy), made)
        assert epsilon == 3
        assert not surely([canaries.judge(aggregate, made.coins, scores, 3.0)])
        refuted.append(canaries.judge(aggregate, made.coins, scores, 1.5).doubt >= 6)
    assert sum(refuted) >= len(AGGREGATES) - 1


FOUND = [
    (faults.sensitivity_off_by_two, [Question((a,), "rows") for a in AGGREGATES[:-1]]),
    (faults.no_limit_on_rows, [Question(("COUNT(*)",), "rows")]),
    (faults.constant_noise, [Question(("COUNT(*)",), "rows")]),
    (faults.a_column_without_noise, [FULL]),
]


@pytest.mark.parametrize(("fault", "questions"), FOUND)
def test_it_finds(fault: Fault, questions: list[Question], deep: Canaries, monkeypatch: pytest.MonkeyPatch) -> None:
    """Noise of half the scale is missed by one question with probability 1e-4, so by all seven never; the others give
    every canary away."""
    fault(monkeypatch)
    findings = canaries.audit(deep, questions)
    assert broken(findings), table(findings)


SNAPSHOT_FAULTS = [
    (faults.no_clamp, Question(("SUM(beyond)",))),
    (faults.nan_is_not_clamped, Question(("SUM(odd)",))),
    (faults.an_error_that_depends_on_data, Question(("SUM(far)",))),
]


@pytest.mark.parametrize(("fault", "question"), SNAPSHOT_FAULTS)
def test_it_finds_values_that_are_not_clamped(
    fault: Fault, question: Question, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fault(monkeypatch)
    findings = canaries.audit(canaries.deep(folder / fault.__name__, Random(3), "1.5"), [question])
    assert broken(findings), table(findings)


def test_it_finds_keys_that_are_not_limited(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every canary counts in all of its twenty groups. Five of a hundred guesses are wrong, which would be too many,
    once in 400,000 answers; here are two."""
    faults.no_limit_on_keys(monkeypatch)
    findings = canaries.audit(canaries.wide(folder / "unlimited", Random(4), "1"), BROAD[:2])
    assert broken(findings), table(findings)
