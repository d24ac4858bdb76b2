"""Every statement of `cases.test`, on neighbours that differ in one person with the worst rows there can be.

A line is `ids | outcome | statement`. The outcome is "answered" or a code, and where the policy with a delta ends
otherwise, "A/B". Steps of one statement are parted by " ;; " (settings, say), "\\n" is a line's end. Of each: it ends
as written there; all that is seen is equal on both databases (`Pair.ask`); a refusal costs nothing; nothing told holds
a value of a private row; and what is answered moves by no more than its noise is for (`Pair.moves`).
`pytest tests/attacks --update` writes the outcomes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from tests.attacks import ward
from tests.attacks.neighbours import Pair

CASES = Path(__file__).with_name("cases.test")


@dataclass(frozen=True, slots=True)
class Case:
    """ids: rows of `failures.txt`. expected: outcomes without and with a delta."""

    ids: tuple[str, ...]
    expected: tuple[str, str]
    statement: str

    @property
    def line(self) -> str:
        one, other = self.expected
        return f"{' '.join(self.ids)} | {one if one == other else f'{one}/{other}'} | {self.statement}"


def cases() -> list[Case]:
    """Those of the file, in its order."""
    found = []
    for line in CASES.read_text(encoding="utf-8").splitlines():
        ids, expected, statement = line.split(" | ", 2)
        one, _, other = expected.partition("/")
        found.append(Case(tuple(ids.split()), (one, other or one), statement))
    return found


def attacked(case: Case, pair: Pair) -> str:
    """The outcome of a case. Raises AssertionError where it is answered unsoundly, or tells of a row."""
    pair.settings({})
    *before, last = [step.replace("\\n", "\n") for step in case.statement.split(" ;; ")]
    for step in before:
        assert pair.ask(step).outcome == "answered", step
    seen = pair.ask(last)
    assert not ward.found(seen.told, case.statement)
    if seen.outcome == "answered":
        if seen.compiled is not None:
            pair.moves(seen.compiled)
    else:
        assert seen.outcome[:3] not in ("DP5", "DP9"), "neither the engine nor dpsql itself fails"
        assert seen.price == (0, 0), "a refusal costs nothing"
    return seen.outcome


@pytest.mark.parametrize("row", sorted({case.ids[0] for case in cases()}))
def test_row(row: str, pure: Pair, keyed: Pair, request: pytest.FixtureRequest) -> None:
    asked = [case for case in cases() if case.ids[0] == row]
    ends = {case: replace(case, expected=(attacked(case, pure), attacked(case, keyed))) for case in asked}
    if request.config.getoption("--update"):
        CASES.write_text("".join(f"{ends.get(case, case).line}\n" for case in cases()), encoding="utf-8")
    for case, end in ends.items():
        assert end.line == case.line or request.config.getoption("--update")
