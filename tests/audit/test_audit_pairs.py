"""Pairs of neighbours: they are neighbours, all of a run is seen, faults are found and the product passes.

False alarms: a bet is won at a wealth of 1e9 and a design has at most twelve bets, so 31 designs that hold give a false
alarm with probability below 4e-7.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from dpsql.audit import pairs
from dpsql.audit.events import KINDS, Event, learn
from dpsql.audit.neighbours import DESIGNS, ONE, TABLES, Design
from dpsql.audit.pairs import Side
from dpsql.privacy.mechanisms import DiscreteLaplace
from dpsql.privacy.selection import Conditioned
from tests.audit import faults
from tests.audit.faults import Fault

BY_NAME = {design.name: design for design in DESIGNS}


@pytest.mark.parametrize("design", DESIGNS, ids=lambda d: d.name)
def test_neighbours_differ_in_one_unit(design: Design) -> None:
    assert (design.larger, len(design.statements)) != (design.smaller, 0)
    owner = None if design.factor == 0 else ONE
    differences = 0
    for name, table in TABLES.items():
        larger, smaller = Counter(map(repr, design.larger[name])), Counter(map(repr, design.smaller[name]))
        position = list(table.columns).index("uid") if "uid" in table.columns else -1
        known = {repr(row): row for row in [*design.larger[name], *design.smaller[name]]}
        for text in (larger - smaller) + (smaller - larger):
            differences += 1
            if position >= 0:
                assert known[text][position] == owner
            else:  # reached by its basket alone
                assert name == "lines"
                assert known[text][0] in {row[0] for row in design.larger["baskets"] if row[1] == ONE}
    assert differences


def test_designs_are_many_and_each_has_its_name() -> None:
    assert len(BY_NAME) == len(DESIGNS) >= 16
    assert {d.factor for d in DESIGNS} == {0, 1, 2}
    assert {float(d.terms.delta) for d in DESIGNS} == {0, 0.02, 0.05, 0.1}


def test_claims_of_several_statements_and_steps_add_up() -> None:
    assert BY_NAME["a session"].claim == (1.0, 0.0)
    assert BY_NAME["rows changed, not added"].claim == (0.5, 0.0)
    assert BY_NAME["rows of nobody"].claim == (0.0, 0.0)


def test_all_of_a_run_is_seen(tmp_path: Path) -> None:
    design = BY_NAME["a private key alone"]
    side = Side(tmp_path / "side", design, design.larger)
    seen = side.run()
    more = [side.run() for _ in range(20)]
    shown = any("'c1'" in str(run["order 1"]) for run in more)
    side.close()
    assert {channel.split()[0] for run in (seen, *more) for channel in run} == set(KINDS)  # a key is not always shown
    assert seen["charge receipt 1"] == seen["charge balance 1"] == "1/4 1/10"
    assert isinstance(seen["value 1: a1 in all"], float)
    assert shown, "a key of several units, which is shown more often than not"


def test_errors_are_seen_and_end_the_session(tmp_path: Path) -> None:
    design = Design("no such table", DESIGNS[0].larger, DESIGNS[0].smaller, ("SELECT COUNT(*) FROM nothing",))
    side = Side(tmp_path / "side", design, design.larger)
    assert [str(side.run()["error 1"])[:5] for _ in range(2)] == ["DP110", "DP110"]
    side.close()
    side.close()


def test_events_are_learned_for_both_directions() -> None:
    training: list[tuple[dict[str, float | str], dict[str, float | str]]] = [
        ({"value x": 10.0 + i, "key k": "present", "error 1": "none"}, {"value x": float(i), "error 1": "none"})
        for i in range(8)
    ]
    value, key = learn("value", training, 0.25, 0.0), learn("key", training, 0.25, 0.0)
    assert value is not None
    assert key is not None
    assert value[0].above
    assert not value[1].above
    assert key[0] == Event("key k", "present")
    assert all(key[0].happened(a) and not key[0].happened(b) for a, b in training)
    assert learn("order", training, 0.25, 0.0) is None
    assert not Event("value y", 3.0, above=False).happened(training[0][0])  # absent is neither above nor below
    assert str(value[0]) == "value x above 10"


def test_a_few_rounds_find_what_one_look_tells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of nobody, in the counts of one key: the claim is 0, so little is enough."""
    faults.rows_of_nobody_kept(monkeypatch)
    finding = pairs.audit(tmp_path, BY_NAME["rows of nobody"], 12)
    assert finding.doubt > 0
    assert finding.verdict == "untested"  # twelve rounds are too few to refute anything


def test_no_time_is_no_verdict(tmp_path: Path) -> None:
    finding = pairs.audit(tmp_path, DESIGNS[0], 10, going=lambda: False)
    assert (finding.verdict, finding.evidence, finding.remark) == ("untested", "", "no time")


@pytest.mark.parametrize("design", DESIGNS, ids=lambda d: d.name)
def test_the_usual_rounds_are_enough_to_refute(design: Design) -> None:
    assert pairs._could_win(pairs.ROUNDS, *design.claim)


PAIR_FAULTS = [
    (faults.exact_keys, "a private key alone"),
    (faults.threshold_on_rows, "the same, units counted"),
    (faults.a_charge_that_depends_on_data, "many rows, one group in all"),
    (faults.rows_of_nobody_kept, "rows of nobody"),
    (faults.an_error_that_depends_on_data, "values far beyond"),
    (faults.nan_is_not_clamped, "NaN"),
    (faults.no_clamp, "values twenty times the clamp"),
    (faults.no_limit_on_rows, "many rows, one group in all"),
    (faults.no_limit_on_keys, "many keys"),
    (faults.no_limit_on_a_cell, "many rows in one cell"),
    (faults.no_limit_on_a_cell, "values that add up"),
]


@pytest.mark.parametrize(("fault", "design"), PAIR_FAULTS)
def test_a_fault_reaches_what_is_seen(
    fault: Fault, design: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without noise the difference between neighbours is another one than where nothing is wrong: no second limit
    stands behind the one that the fault takes away. (Whether it stands out of the noise is the long test's question.)
    """
    monkeypatch.setattr(DiscreteLaplace, "sample", lambda _, n: np.zeros(n, dtype=np.int64))
    monkeypatch.setattr(Conditioned, "_narrow", lambda _, n: np.zeros(n, dtype=object))

    def differences(folder: Path) -> dict[str, tuple[object, object]]:
        sides = [Side(folder / name, BY_NAME[design], getattr(BY_NAME[design], name)) for name in ("larger", "smaller")]
        larger, smaller = (side.run() for side in sides)
        for side in sides:
            side.close()
        channels = {*larger, *smaller}
        found = {c: (larger.get(c), smaller.get(c)) for c in channels}
        return {c: seen for c, seen in found.items() if seen[0] != seen[1]}

    sound = differences(tmp_path / "sound")
    fault(monkeypatch)
    assert differences(tmp_path / "faulty") != sound


# ---- the long ones


@pytest.mark.audit
@pytest.mark.parametrize(("fault", "design"), PAIR_FAULTS)
def test_it_finds(fault: Fault, design: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Chances of missing it: where values decide they lie five scales of noise apart, and 200 rounds are three times
    what is needed; the rest is certain."""
    fault(monkeypatch)
    finding = pairs.audit(tmp_path, BY_NAME[design], 200)
    assert finding.broken, finding


@pytest.mark.audit
@pytest.mark.parametrize("design", DESIGNS, ids=lambda d: d.name)
def test_the_product_passes(design: Design, tmp_path: Path) -> None:
    finding = pairs.audit(tmp_path, design, 150)
    assert not finding.broken, finding
