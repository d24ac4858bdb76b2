"""The ± that is shown holds: at least 95 of 100 draws of the real noise lie within it, and not far more for integers.

Exact results are fixed by a stand-in for the engine, so that only the noise differs. Of 4,000 draws of true coverage
0.95 the share lies below 0.95 - 6.5 s, s = sqrt(0.95 * 0.05 / 4000), once in 10^9 times (exact binomial tail), and
above 0.95 + 6.5 s once in 10^12: a false alarm here and in `test_end_normal.py` is rarer than once in 10^7 runs.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from dpsql.compile.plan import ReleasePlan
from dpsql.compile.slots import HALF_WIDTH, Slot, SlotKind, power_column
from dpsql.session import Session
from dpsql.vault.noise import release

DRAWS = 4000
SLACK = 6.5 * (0.95 * 0.05 / DRAWS) ** 0.5

Exact = Callable[[int, Slot], dict[str, int]]


class Fixed:
    """An engine with one answer: the same exact value in each of many groups."""

    def __init__(self, plan: ReleasePlan, values: Exact) -> None:
        columns: dict[str, pa.Array] = {}
        for i, slot in enumerate(plan.slots, 1):
            for name, value in values(i, slot).items():
                columns[name] = pa.array([Decimal(value)] * DRAWS, pa.decimal128(38, 0))
        self._table = pa.table(columns)

    def run(self, sql: str, tables: object = None) -> pa.Table:
        return self._table

    def cancel(self) -> None:
        """Nothing runs."""

    def close(self) -> None:
        """Nothing is open."""


COUNTED, EACH = 400, 7
"""Rows in each group, and where each row's value of a sum stands above the lower end of its grid, in steps."""


def points(slot: Slot) -> tuple[list[int], ...]:
    """The values of a Bernstein slot on its grids, above their lower ends: they go up and down together, roughly."""
    return tuple(
        [((r * (7 + 2 * j) + j) % 40 + r % 11) * max(axis.span // 60, 1) % (axis.span + 1) for r in range(COUNTED)]
        for j, axis in enumerate(slot.axes)
    )


def exact(i: int, slot: Slot) -> dict[str, int]:
    match slot.kind:
        case SlotKind.MOMENTS:
            rows = list(zip(*points(slot), strict=True))
            if slot.is_linear:
                (axis,) = slot.axes
                assert axis.grid is not None
                rows = [(k + axis.grid.lo,) for (k,) in rows]
            powers = {
                e: sum(math.prod(k**p for k, p in zip(row, e, strict=True)) for row in rows) for e in slot.components
            }
            return {power_column(i, e): value for e, value in powers.items()}
        case SlotKind.SUM:
            return {f"s{i}": COUNTED * EACH}
        case _:
            return {f"n{i}": COUNTED}


def truth(statistic: str, slot: Slot) -> float:
    if slot.kind is not SlotKind.MOMENTS:
        assert statistic == "count" or slot.grid is not None
        return float(COUNTED * EACH * slot.grid.step) if statistic == "sum" and slot.grid is not None else COUNTED
    grids = [axis.grid for axis in slot.axes if axis.grid is not None]
    y, *others = ((np.array(k) + grid.lo) * float(grid.step) for k, grid in zip(points(slot), grids, strict=True))
    x = others[0] if others else y
    spread = float(np.cov(y, x, bias=True)[0, 1])
    values = {
        "sum": float(y.sum()),
        "avg": float(y.mean()),
        "count": float(COUNTED),
        "var_pop": float(y.var()),
        "variance": float(y.var(ddof=1)),
        "stddev": float(y.std(ddof=1)),
        "covar_pop": spread,
        "corr": spread / float(y.std() * x.std()),
        "regr_slope": spread / float(x.var()),
        "regr_intercept": float(y.mean()) - spread / float(x.var()) * float(x.mean()),
    }
    return values[statistic]


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
    "VAR_POP": ("SELECT VAR_POP(age) FROM patients", "var_pop", False),
    "VARIANCE of doubles": ("SELECT VARIANCE(cost) FROM patients", "variance", False),
    "STDDEV": ("SELECT STDDEV(age) FROM patients", "stddev", False),
    "AVG beside VAR": ("SELECT VAR_POP(age), AVG(age) FROM patients", "avg", False),
    "COUNT(x) beside VAR": ("SELECT VAR_POP(age), COUNT(age) FROM patients", "count", False),
    "SUM beside VAR": ("SELECT VAR_POP(age - 50), SUM(age - 50) FROM patients", "sum", False),
    "COVAR": ("SELECT COVAR_POP(age, cost) FROM patients", "covar_pop", False),
    "CORR": ("SELECT CORR(age, cost) FROM patients", "corr", False),
    "REGR_SLOPE": ("SELECT REGR_SLOPE(age, cost) FROM patients", "regr_slope", False),
    "REGR_INTERCEPT": ("SELECT REGR_INTERCEPT(age, cost) FROM patients", "regr_intercept", False),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("epsilon", ["0.1", "1", "3"])
def test_half_widths_cover(
    clinic_session: Session, record_property: Callable[[str, object], None], case: str, epsilon: str
) -> None:
    sql, statistic, tight = CASES[case]
    clinic_session.settings.set("epsilon", epsilon)
    compiled = clinic_session.compile(sql)
    (plan,), (sealed,) = compiled.plan.releases, compiled.rewritten.inner
    slot, measure = next(
        (slot, measure) for slot in plan.slots for measure in slot.outputs if measure.text.lower().startswith(statistic)
    )
    noisy = release(Fixed(plan, exact), sealed, plan).table(plan)
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
