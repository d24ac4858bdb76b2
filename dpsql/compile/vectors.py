"""The SQL of Bernstein slots: the values of a row on their grids, and what is added up of them.

One row's weights and products of powers are below N <= 2^62 (`slots.MOST_WEIGHT`) by the clamp that stands in the same
statement: products of BIGINTs cannot overflow, nor can sums, which are HUGEINTs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce
from math import comb

from sqlglot import exp

from dpsql.compile.grid import BIGINT, above_lo, to_grid
from dpsql.compile.literals import literal
from dpsql.compile.slots import Axis, Slot, component_column, power_column
from dpsql.compile.trees import aliased, column


def row_items(i: int, slot: Slot, *, per_unit: bool) -> list[exp.Expr]:
    """The values of slot i per row: each k - lo on its grid, or what only has to be there."""
    values = [_on_axis(axis, linear=slot.is_linear and not per_unit) for axis in slot.axes]
    return [aliased(value, name) for value, name in zip(values, _names(i, slot), strict=True)]


def _on_axis(axis: Axis, *, linear: bool) -> exp.Expr:
    """linear: of a sum of k the vault takes lo off itself; sums of DECIMALs are faster so."""
    grid = axis.rows if axis.rows is not None else axis.grid
    if grid is None:
        return axis.argument.tree.copy()
    value = to_grid(axis.argument, grid)
    return value if linear else above_lo(value, grid)


def _names(i: int, slot: Slot) -> list[str]:
    return [f"v{i}_{j}" if len(slot.axes) > 1 else f"v{i}" for j in range(1, len(slot.axes) + 1)]


def figures(i: int, slot: Slot, source: str, *, per_unit: bool) -> list[exp.Expr]:
    """Over the rows of a group that have every value: their number, and the sums of the components (per_unit), or of
    the powers that the components are made of."""
    values = [column(source, name) for name in _names(i, slot)]
    sums: list[tuple[exp.Expr, str]] = []
    for place, index in enumerate(slot.components):
        if slot.part is not None:
            sums = [(values[0].copy(), component_column(i, 1))]  # of which the next step makes a mean
        elif per_unit:
            factors = [_weight(v, a, e) for v, a, e in zip(values, slot.axes, index, strict=True)]
            sums.append((_product(factors), component_column(i, place)))
        elif any(index):
            factors = [[v.copy() for _ in range(e)] for v, e in zip(values, index, strict=True)]
            sums.append((_product(factors), power_column(i, index)))
    found = []
    for tree, name in sums:
        total = _of_present(exp.Sum(this=tree), values)
        found.append(aliased(exp.Coalesce(this=total, expressions=[exp.Literal.number(0)]), name))
    counted = exp.Star() if len(values) > 1 else values[0].copy()
    return [*found, aliased(_of_present(exp.Count(this=counted, big_int=True), values), power_column(i, (0,)))]


def _of_present(call: exp.Expr, values: Sequence[exp.Expr]) -> exp.Expr:
    """An aggregate over the rows that have every value: of one value alone it passes over NULL by itself."""
    if len(values) == 1:
        return call
    present = [exp.Not(this=exp.Is(this=v.copy(), expression=exp.null())) for v in values]
    return exp.Filter(this=call, expression=exp.Where(this=exp.and_(*present, copy=False)))


def _weight(k: exp.Expr, axis: Axis, index: int) -> list[exp.Expr]:
    """The factors of C(d, i) k^i (M-k)^(d-i), k in 0..M."""
    rest = exp.Paren(this=exp.Sub(this=literal(axis.span, BIGINT), expression=k.copy()))
    times = comb(axis.degree, index)
    factors = [literal(times, BIGINT)] if times > 1 else []
    return [*factors, *(k.copy() for _ in range(index)), *(rest.copy() for _ in range(axis.degree - index))]


def _product(factors: Iterable[Sequence[exp.Expr]]) -> exp.Expr:
    return reduce(lambda a, b: exp.Mul(this=a, expression=b), [f for group in factors for f in group])
