"""EXPLAIN: one query, shown. Made from the plan alone, so it is free and the same on every database."""

from __future__ import annotations

from fractions import Fraction

import sqlglot

from dpsql.compile.gate import SealedSql
from dpsql.compile.ir import Statistic
from dpsql.compile.plan import PrivatePlan, ReleasePlan, Slot, SlotKind
from dpsql.compile.rewrite import Rewritten
from dpsql.privacy.accounting import show_amount
from dpsql.privacy.intervals import two_laplace_half_width
from dpsql.privacy.mechanisms import DiscreteLaplace


def explain(plan: PrivatePlan, rewritten: Rewritten) -> str:
    """Price, limits, sensitivity, mechanism and expected error of every aggregate, then the SQLs that would run."""
    if not plan.releases:
        return "public: exact and free\n\n-- on the public tables\n" + _pretty(rewritten.outer)
    lines = [f"price: epsilon {show_amount(plan.epsilon)}, delta 0"]
    for release, sealed in zip(plan.releases, rewritten.inner, strict=True):
        lines += ["", *_release(release), "", "-- on the private tables", _pretty(sealed)]
    return "\n".join([*lines, "", "-- on the released results", _pretty(rewritten.outer)])


def _release(plan: ReleasePlan) -> list[str]:
    groups = "one result" if plan.release.public_keys is None else f"{plan.keys} public groups"
    lines = [
        f"{plan.release.name}: {groups}",
        f"  strategy {plan.strategy}: {_limit(plan.limit)}",
    ]
    for slot in plan.slots:
        lines.append(f"  {_mechanism(slot)}")
        for measure in slot.outputs:
            lines.append(f"    {measure.text}: {_error(slot, measure.statistic)}")
    return lines


def _limit(rows: int) -> str:
    if rows == 1:
        return "each unit has one row"
    return f"at most {rows} rows of each unit count, chosen at random before WHERE"


def _mechanism(slot: Slot) -> str:
    step = slot.grid.step if slot.grid is not None else Fraction(1)
    unit = f" steps of {_number(step)}" if step != 1 else ""
    kind = "Bernstein slot" if slot.kind is SlotKind.MEAN else slot.kind.value
    return (
        f"{kind}: sensitivity {slot.norms.l1}{unit} (L1), epsilon {show_amount(slot.epsilon)},"
        f" discrete Laplace of scale {_number(slot.scale)}{unit}"
    )


def _error(slot: Slot, statistic: Statistic) -> str:
    """The expected error in the aggregate's own units."""
    if slot.kind is not SlotKind.MEAN:
        step = slot.grid.step if slot.grid is not None else Fraction(1)
        return f"± {_number(DiscreteLaplace(slot.scale).half_width() * step)} (95 %)"
    assert slot.grid is not None
    grid, scale = slot.grid, float(slot.scale)
    match statistic:
        case Statistic.VALUES:
            return f"± {_number(two_laplace_half_width(scale, scale) / grid.span + 1)} (95 %)"
        case Statistic.SUM:
            ends = (abs(grid.lo) * scale / grid.span, abs(grid.hi) * scale / grid.span)
            return f"± {_number((two_laplace_half_width(*ends) + 1) * float(grid.step))} (95 %)"
        case _:
            reach = two_laplace_half_width(0, scale) * float(grid.step)
            return f"± at most about {_number(reach)} / (number of values) (95 %)"


def _number(x: float | Fraction) -> str:
    return f"{float(x):,.6g}"


def _pretty(sealed: SealedSql) -> str:
    tree = sqlglot.parse_one(sealed.text, read="duckdb")
    return str(tree.sql(dialect="duckdb", pretty=True, comments=False))
