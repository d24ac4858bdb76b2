"""Slots: what noise is added to.

A *slot* is one integer vector per group, noised as a whole. COUNT(*), COUNT_IF, COUNT(DISTINCT unit) and
COUNT(DISTINCT x) are slots of their own, and so are a SUM or a COUNT(x) that stand alone. What needs more than one
number of a value, or of two, comes from a *Bernstein slot* (`dpsql.privacy.bernstein`): one row moves it by N in L1
whatever its values, so count, sum, mean, variance, covariance and correlation are read from one slot at the price of
one count. Which aggregates share one, `cover` decides.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from typing import assert_never

from dpsql.compile.grid import Grid
from dpsql.compile.hints import Hint
from dpsql.compile.ir import Measure, Scalar, Statistic, is_same
from dpsql.policy.facts import Kind, SqlType
from dpsql.privacy import bernstein
from dpsql.privacy.bernstein import Index
from dpsql.privacy.sensitivity import Norms

HALF_WIDTH = "~"
"""`a1~` of a released table holds the half-widths of `a1`."""

SUBGRID = 1 << 10
"""Parts of a row, where vectors are scaled."""

MOST_WEIGHT = 1 << 62
"""Of a row of a Bernstein slot, N. Below it every weight and every product of powers of one row is a BIGINT, and sums
over 2^64 rows a HUGEINT; noise is drawn exactly at any scale, and tested beyond this one times limits over epsilon.
Finer grids would be felt by nobody: 2^15 steps for each value of a correlation are left, 2^31 for a variance."""


class SlotKind(Enum):
    ROWS = "rows"
    UNITS = "units"
    DISTINCT = "distinct values"
    SUM = "sum"
    MOMENTS = "Bernstein slot"


@dataclass(frozen=True, slots=True)
class Axis:
    """A value of a Bernstein slot. degree: of its weights; 0 where it only has to be there, and then without grid.
    rows: where the value is the mean of a unit's own values in a group, the grid of these; `grid` is the mean's."""

    argument: Scalar
    grid: Grid | None
    degree: int
    rows: Grid | None = None

    @property
    def span(self) -> int:
        """M."""
        return self.grid.span if self.grid is not None else 1


@dataclass(frozen=True, slots=True)
class Slot:
    """One noised vector per key. `argument`: predicate (ROWS, UNITS; None = every row) or value (DISTINCT, SUM, which
    has its `grid`). axes: of MOMENTS, the values; rows where one is NULL do not count. outputs: the measures read from
    it; none where its noisy count only decides which keys are shown. epsilon: its share of the statement's. sigma: of
    its rounded normal noise; None where the noise is discrete Laplace. subgrid: into how many parts the SQL divides a
    row, where it scales a unit's vector (on whole rows everything would be floored to 0). part: between which
    grid points the SQL clamps what a unit adds to a group (a count, a sum, or its own mean), where that is asked.
    merges: how often it was merged from vectors with more normal noise. paid: the epsilon of a released vector with
    more discrete Laplace noise, given which it is drawn, so that the rest of its own is to pay; 0 where there is none.
    """

    kind: SlotKind
    argument: Scalar | None
    grid: Grid | None
    outputs: tuple[Measure, ...]
    norms: Norms
    epsilon: Fraction
    subgrid: int = 1
    axes: tuple[Axis, ...] = ()
    sigma: Fraction | None = None
    part: tuple[int, int] | None = None
    merges: int = 0
    paid: Fraction = Fraction(0)

    @property
    def hint(self) -> Hint | None:
        """What was asked for: the largest hint of its aggregates. A number that several are read from is drawn once."""
        return max((h for m in self.outputs for h in m.hints), key=lambda h: h.share, default=None)

    @property
    def degrees(self) -> Index:
        return tuple(a.degree for a in self.axes)

    @property
    def spans(self) -> Index:
        return tuple(a.span for a in self.axes)

    @property
    def is_linear(self) -> bool:
        """Whether it is a mean's: of one value to the first degree, whose exact vector needs no squares."""
        return sum(self.degrees) == 1

    @property
    def components(self) -> tuple[Index, ...]:
        """Of the vector: () stands for the one number of a slot that is no Bernstein slot."""
        return tuple(bernstein.indices(self.degrees))

    @property
    def weight(self) -> int:
        """What one row adds to the vector at most, in L1."""
        match self.kind:
            case SlotKind.ROWS | SlotKind.UNITS | SlotKind.DISTINCT:
                return self.subgrid
            case SlotKind.SUM:
                assert self.grid is not None
                return max(abs(self.grid.lo), abs(self.grid.hi), 1) * self.subgrid
            case SlotKind.MOMENTS:
                return bernstein.weight(self.degrees, self.spans) * self.subgrid
            case _:
                assert_never(self.kind)

    @property
    def counts_units(self) -> bool:
        """Whether it is the plain count of units, which can decide on keys at no further cost; so is a count of rows of
        which a unit has one at most in each group."""
        once = self.kind is SlotKind.UNITS or (self.kind is SlotKind.ROWS and self.norms.linf == self.weight == 1)
        return once and self.argument is None

    @property
    def is_one_sided(self) -> bool:
        """Whether every row moves the vector in the same direction, so that a unit does."""
        if self.kind is SlotKind.SUM:
            assert self.grid is not None
            return self.grid.lo >= 0 or self.grid.hi <= 0
        return True

    @property
    def scale(self) -> Fraction:
        """Of discrete Laplace noise, in parts of a grid unit."""
        return self.norms.l1 / self.epsilon

    @property
    def size(self) -> Fraction:
        """Of its noise: the scale or the deviation, in parts of a grid unit."""
        return self.scale if self.sigma is None else self.sigma

    @property
    def mu_squared(self) -> Fraction:
        """Of rounded normal noise: what it adds to the mu^2 of its statement."""
        assert self.sigma is not None
        return self.norms.l2_squared / self.sigma**2

    @property
    def grid_step(self) -> Fraction:
        """What one unit of the grid is worth."""
        return self.grid.step if self.grid is not None else Fraction(1)

    @property
    def step(self) -> Fraction:
        """What one unit of the vector is worth: of a mean's slot in its value, of other Bernstein slots in rows."""
        if self.kind is SlotKind.MOMENTS and not self.is_linear:
            return Fraction(1, self.weight)
        grid = next((a.grid for a in self.axes if a.degree), self.grid)
        return (grid.step if grid is not None else Fraction(1)) / self.subgrid

    def places(self, measure: Measure) -> tuple[int, ...]:
        """Which of the axes a measure's arguments are, where they are any: a value that every row has may be none."""
        named = [v for v in (measure.argument, measure.second) if v is not None]
        return tuple(i for v in named for i, axis in enumerate(self.axes) if is_same(axis.argument, v))


def part_of_rows(slot: Slot, most: int) -> tuple[int, int]:
    """Between which grid points a count or a sum over at most so many rows lies."""
    if slot.kind is SlotKind.ROWS:
        return 0, most
    assert slot.kind is SlotKind.SUM and slot.grid is not None
    return most * min(slot.grid.lo, 0), most * max(slot.grid.hi, 0)


def power_column(i: int, exponents: Index) -> str:
    """Of slot i in its statement, the exact sum of products of powers of its values."""
    if not any(exponents):
        return f"n{i}"
    return f"s{i}" if exponents == (1,) else f"s{i}_" + "".join(map(str, exponents))


def component_column(i: int, place: int) -> str:
    """Of slot i in its statement, a component of the exact vector where the SQL has formed it."""
    return f"w{i}_{place}"


def vector_columns(i: int, slot: Slot) -> list[str]:
    """The columns that hold a slot's vector where the SQL forms it per cell."""
    match slot.kind:
        case SlotKind.DISTINCT:
            return []
        case SlotKind.ROWS | SlotKind.UNITS:
            return [f"n{i}"]
        case SlotKind.SUM:
            return [f"s{i}"]
        case SlotKind.MOMENTS:
            return [component_column(i, place) for place in range(len(slot.components))]
        case _:
            assert_never(slot.kind)


def is_always(value: Scalar) -> bool:
    """Whether every row has it: a DOUBLE may be NaN, which counts as NULL."""
    return not value.facts.nullable and value.facts.type.kind is not Kind.DOUBLE


def needs(measure: Measure) -> tuple[tuple[Scalar, int], ...]:
    """The values that a measure is made of, and the degree of each in a Bernstein slot that gives it."""
    match measure.statistic:
        case Statistic.ROWS | Statistic.UNITS | Statistic.DISTINCT:
            return ()
        case Statistic.VALUES:
            degrees = (0, 0)
        case Statistic.SUM | Statistic.AVG:
            degrees = (1, 0)
        case Statistic.COVAR_POP | Statistic.COVAR_SAMP:
            degrees = (1, 1)
        case Statistic.SLOPE | Statistic.INTERCEPT:
            degrees = (1, 2)
        case Statistic.CORR | Statistic.R2:
            degrees = (2, 2)
        case Statistic.VAR_POP | Statistic.VAR_SAMP | Statistic.STDDEV_POP | Statistic.STDDEV_SAMP:
            degrees = (2, 0)
        case _:
            assert_never(measure.statistic)
    assert measure.argument is not None
    if measure.second is None:
        return ((measure.argument, degrees[0]),)
    if is_same(measure.argument, measure.second):  # its products with itself are squares
        return ((measure.argument, 2 if degrees[1] else degrees[0]),)
    return (measure.argument, degrees[0]), (measure.second, degrees[1])


def is_read_from(measure: Measure, slot: Slot) -> bool:
    """Whether a Bernstein slot is over the rows of a measure, and to the degrees that it needs."""
    wanted = needs(measure)
    if measure.statistic is Statistic.ROWS and measure.argument is not None:
        return False
    named = [(a, d) for a in slot.axes for v, d in wanted if is_same(v, a.argument)]
    missing = [(v, d) for v, d in wanted if not any(is_same(v, a.argument) for a in slot.axes)]
    others = [a for a in slot.axes if not any(is_same(v, a.argument) for v, _ in wanted)]
    return (
        all(axis.degree >= degree for axis, degree in named)
        and all(is_always(v) and not degree for v, degree in missing)
        and all(is_always(a.argument) for a in others)
    )


def output_type(measure: Measure, slot: Slot) -> SqlType:
    """The type of a released aggregate: fixed by query and policy, never by data."""
    if measure.statistic.is_count:
        return SqlType(Kind.INTEGER)
    if measure.statistic is not Statistic.SUM:
        return SqlType(Kind.DOUBLE)
    assert measure.argument is not None
    grid = slot.axes[slot.places(measure)[0]].grid if slot.kind is SlotKind.MOMENTS else slot.grid
    assert grid is not None
    return grid.sum_type(measure.argument.facts.type, -(-slot.norms.linf // slot.weight))
