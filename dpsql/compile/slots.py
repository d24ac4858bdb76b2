"""Slots: what noise is added to.

A *slot* is one integer vector per group, noised as a whole; a release's aggregates are covered by the cheapest set of
them. COUNT(*), COUNT_IF, COUNT(DISTINCT unit) and COUNT(DISTINCT x) are slots of their own, and so are a SUM or a
COUNT(x) that stand alone. AVG(x), or SUM(x) with COUNT(x), share one *Bernstein slot of degree 1*: on the grid x = lo +
k of M + 1 points a row contributes (M - k, k), which sums to M without rounding. So one row moves the slot by M in L1
whatever its value, and count, sum and mean are all read from the one slot, at the price of one count. Compared with a
sum and a count at half the budget each, the count has half the variance and the sum (lo^2 + hi^2) against 4 max(lo^2,
hi^2).
(Bernstein weights: arXiv 2312.06658 and 2509.04919.)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import Enum
from fractions import Fraction
from typing import TypeVar, assert_never

from sqlglot import exp

from dpsql.compile.grid import Grid, grid_of
from dpsql.compile.ir import Measure, Scalar, Statistic, is_same
from dpsql.compile.trees import wrapped
from dpsql.policy.facts import Kind, SqlType
from dpsql.privacy.sensitivity import Norms

HALF_WIDTH = "~"
"""`a1~` of a released table holds the half-widths of `a1`."""

SUBGRID = 1 << 10
"""Parts of a row, where vectors are scaled."""


class SlotKind(Enum):
    ROWS = "rows"
    UNITS = "units"
    DISTINCT = "distinct values"
    SUM = "sum"
    MEAN = "mean"


@dataclass(frozen=True, slots=True)
class Slot:
    """One noised vector per key. `argument`: predicate (ROWS, UNITS; None = every row) or value (the others).
    outputs: the measures read from it. epsilon: its share of the statement's. subgrid: into how many parts the SQL
    divides a row, where it scales a unit's vector (on whole rows everything would be floored to 0)."""

    kind: SlotKind
    argument: Scalar | None
    grid: Grid | None
    outputs: tuple[Measure, ...]
    norms: Norms
    epsilon: Fraction
    subgrid: int = 1

    @property
    def weight(self) -> int:
        """What one row adds to the vector at most, in L1."""
        match self.kind:
            case SlotKind.ROWS | SlotKind.UNITS | SlotKind.DISTINCT:
                return self.subgrid
            case SlotKind.SUM:
                assert self.grid is not None
                return max(abs(self.grid.lo), abs(self.grid.hi), 1) * self.subgrid
            case SlotKind.MEAN:
                assert self.grid is not None
                return self.grid.span * self.subgrid
            case _:
                assert_never(self.kind)

    @property
    def scale(self) -> Fraction:
        """Of the discrete Laplace noise, in parts of a grid unit."""
        return self.norms.l1 / self.epsilon

    @property
    def step(self) -> Fraction:
        """What one unit of the vector is worth."""
        return (self.grid.step if self.grid is not None else Fraction(1)) / self.subgrid


def cover(measures: tuple[Measure, ...]) -> Iterator[tuple[SlotKind, Scalar | None, Grid | None, tuple[Measure, ...]]]:
    """The slots that give these measures."""
    counts: list[tuple[Scalar | None, list[Measure]]] = []
    values: list[tuple[Scalar, list[Measure]]] = []
    for measure in measures:
        match measure.statistic:
            case Statistic.ROWS:
                _join_group(counts, measure.argument, measure)
            case Statistic.UNITS:
                yield SlotKind.UNITS, measure.argument, None, (measure,)
            case Statistic.DISTINCT:
                yield SlotKind.DISTINCT, measure.argument, None, (measure,)
            case Statistic.VALUES | Statistic.SUM | Statistic.AVG:
                assert measure.argument is not None
                _join_group(values, measure.argument, measure)
            case _:
                assert_never(measure.statistic)
    for argument, group in values:
        statistics = {m.statistic for m in group}
        if statistics == {Statistic.VALUES}:
            present = exp.Not(this=exp.Is(this=wrapped(argument.tree.copy()), expression=exp.null()))
            _join_group(counts, replace(argument, tree=present), *group)
        elif statistics == {Statistic.SUM}:
            yield SlotKind.SUM, argument, grid_of(argument.facts), tuple(group)
        else:
            yield SlotKind.MEAN, argument, grid_of(argument.facts), tuple(group)
    for predicate, group in counts:
        yield SlotKind.ROWS, predicate, None, tuple(group)


_Argument = TypeVar("_Argument", bound=Scalar | None)


def _join_group(groups: list[tuple[_Argument, list[Measure]]], argument: _Argument, *measures: Measure) -> None:
    """Add measures to the group of the same argument, or open one."""
    for other, group in groups:
        if is_same(other, argument):
            group.extend(measures)
            return
    groups.append((argument, list(measures)))


def output_type(measure: Measure, slot: Slot) -> SqlType:
    """The type of a released aggregate: fixed by query and policy, never by data."""
    match measure.statistic:
        case Statistic.ROWS | Statistic.UNITS | Statistic.VALUES | Statistic.DISTINCT:
            return SqlType(Kind.INTEGER)
        case Statistic.AVG:
            return SqlType(Kind.DOUBLE)
        case Statistic.SUM:
            assert slot.argument is not None and slot.grid is not None
            return slot.grid.sum_type(slot.argument.facts.type, slot.norms.linf // slot.weight)
        case _:
            assert_never(measure.statistic)
