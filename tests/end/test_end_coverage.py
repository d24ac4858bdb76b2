"""The ± that is shown holds: at least 95 of 100 draws of the real noise lie within it, and not far more for integers.

Exact results are fixed by a stand-in for the engine, so that only the noise differs. With n draws of true coverage 0.95
the share found below 0.95 - 5 s, s = sqrt(0.95 * 0.05 / n), has a chance under 3e-7: that is the false-alarm rate here.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest

import dpsql
from dpsql.compile.plan import ReleasePlan
from dpsql.compile.slots import HALF_WIDTH, Slot, SlotKind
from dpsql.vault.noise import release

DRAWS = 4000
SLACK = 5 * (0.95 * 0.05 / DRAWS) ** 0.5

Exact = Callable[[int, Slot], dict[str, int]]


class Fixed:
    """An engine with one answer: the same exact value in each of many groups."""

    def __init__(self, plan: ReleasePlan, values: Exact) -> None:
        columns: dict[str, pa.Array] = {}
        for i, slot in enumerate(plan.slots, 1):
            for name, value in values(i, slot).items():
                columns[name] = pa.array([value] * DRAWS, pa.int64())
        self._table = pa.table(columns)

    def run(self, sql: str, tables: object = None) -> pa.Table:
        return self._table

    def cancel(self) -> None:
        """Nothing runs."""

    def close(self) -> None:
        """Nothing is open."""


COUNTED, EACH = 400, 7
"""Rows in each group, and where each row's value stands above the lower end of its grid, in steps."""


def exact(i: int, slot: Slot) -> dict[str, int]:
    match slot.kind:
        case SlotKind.MEAN:
            assert slot.grid is not None
            return {f"n{i}": COUNTED, f"s{i}": COUNTED * (slot.grid.lo + EACH)}
        case SlotKind.SUM:
            return {f"s{i}": COUNTED * EACH}
        case _:
            return {f"n{i}": COUNTED}


def truth(statistic: str, slot: Slot) -> float:
    grid = slot.grid
    match statistic:
        case "sum":
            assert grid is not None
            low = grid.lo if slot.kind is SlotKind.MEAN else 0
            return float(COUNTED * (low + EACH) * grid.step)
        case "avg":
            assert grid is not None
            return float((grid.lo + EACH) * grid.step)
        case _:
            return float(COUNTED)


CASES = {
    "COUNT": ("SELECT COUNT(*) FROM patients", "count", True),
    "COUNT(DISTINCT unit)": ("SELECT COUNT(DISTINCT uid) FROM patients", "count", True),
    "COUNT_IF": ("SELECT COUNT_IF(age > 30) FROM patients", "count", True),
    "SUM of integers": ("SELECT SUM(age) FROM patients", "sum", True),
    "SUM of decimals": ("SELECT SUM(fee) FROM visits", "sum", True),
    "AVG": ("SELECT AVG(age) FROM patients", "avg", False),
    "AVG of doubles": ("SELECT AVG(cost) FROM patients", "avg", False),
    "AVG of what can be negative": ("SELECT AVG(age - 50) FROM patients", "avg", False),
    "COUNT(x) beside AVG": ("SELECT AVG(age), COUNT(age) FROM patients", "count", False),
    "SUM beside AVG": ("SELECT AVG(age), SUM(age) FROM patients", "sum", False),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("epsilon", ["0.1", "1", "3"])
def test_half_widths_cover(
    connection: dpsql.Connection, record_property: Callable[[str, object], None], case: str, epsilon: str
) -> None:
    sql, statistic, tight = CASES[case]
    connection.execute(f"SET epsilon = {epsilon}")
    compiled = connection._session.compile(sql)
    (plan,), (sealed,) = compiled.plan.releases, compiled.rewritten.inner
    slot, measure = next(
        (slot, measure) for slot in plan.slots for measure in slot.outputs if measure.text.lower().startswith(statistic)
    )
    noisy = release(Fixed(plan, exact), sealed, plan)
    values = np.array([float(v) for v in noisy.column(measure.name).to_pylist()])
    widths = np.array(noisy.column(measure.name + HALF_WIDTH).to_pylist())
    within = np.abs(values - truth(statistic, slot)) <= widths * (1 + 1e-12)
    coverage = float(within.mean())
    record_property("coverage", coverage)
    print(f"{case} at {epsilon}: {coverage:.2%} of {DRAWS} within ± {np.median(widths):.6g}")
    assert coverage >= 0.95 - SLACK
    if tight:
        step = float(slot.grid.step) if slot.grid is not None else 1.0
        narrower = np.abs(values - truth(statistic, slot)) <= (widths - step) * (1 + 1e-12)
        assert narrower.mean() < 0.95 + SLACK  # not one grid step more than is needed
        assert coverage <= (0.995 if slot.scale >= 1 else 1)
