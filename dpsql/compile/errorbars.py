"""Which columns of a result can be given a 95 % interval, and the SQL that carries it there.

An aggregate that is shown as it is brings the half-width of its noise law along. An expression of aggregates, row by
row and without jumps (arithmetic, ROUND, ABS, casts, NULLIF, COALESCE, GREATEST, LEAST), is replayed: the same
expression over copies of the released table with fresh noise of the same law on top of the released values (`replay`).
CASE on a noisy value, ranks and other windows jump: a small error can turn them over, so no half-width is stated for
them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from sqlglot import exp

from dpsql.compile.ir import Measure, Release, Statistic
from dpsql.compile.slots import HALF_WIDTH
from dpsql.compile.trees import aliased, column, copied, nodes, select

_WITHOUT_JUMPS = (
    *(exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Neg, exp.Paren, exp.Column, exp.Literal, exp.Identifier),
    *(exp.Round, exp.Abs, exp.Cast, exp.DataType, exp.DataTypeParam, exp.Nullif, exp.Coalesce, exp.Greatest, exp.Least),
)


@dataclass(frozen=True, slots=True)
class ErrorBars:
    """outer: the statement with the half-widths as its last columns, which belong to the columns at `positions`.
    replay: over the released table `released`, the expressions whose half-widths stand in `released` as the columns
    `replayed` (x2~ for the expression at position 2); None where there is none."""

    outer: exp.Expr
    positions: tuple[int, ...]
    replay: exp.Select | None = None
    released: str = ""
    replayed: tuple[str, ...] = ()

    def never_negative(self, releases: Sequence[Release]) -> tuple[int, ...]:
        """The positions that show, as they are, counts or sums of values that are never below 0."""
        found = {m.name for r in releases if r.name == self.released for m in r.measures if _never_negative(m)}
        items = self.outer.selects if isinstance(self.outer, exp.Select) else []
        values = {position: items[position].unalias() for position in self.positions}
        return tuple(p for p, value in values.items() if _is_aggregate(value) and value.name in found)


def _never_negative(measure: Measure) -> bool:
    if measure.statistic is not Statistic.SUM:
        return measure.statistic.is_count
    lowest = measure.argument.facts.lo if measure.argument is not None else None
    return isinstance(lowest, Fraction | int) and lowest >= 0


def add_error_bars(outer: exp.Expr, released: frozenset[str]) -> ErrorBars:
    """Where the statement is one release, the bars of its columns; else none."""
    source = _source(outer, released)
    if source is None or not isinstance(outer, exp.Select):
        return ErrorBars(outer, ())
    shown = copied(outer)
    positions: list[int] = []
    expressions: list[exp.Expr] = []
    replayed: list[str] = []
    for position, item in enumerate(outer.selects):
        value = item.unalias()
        if _is_aggregate(value):
            hidden = value.name + HALF_WIDTH
        elif _is_smooth(value):
            hidden = f"x{position}{HALF_WIDTH}"
            replayed.append(hidden)
            number = exp.Cast(this=copied(value), to=exp.DataType(this=exp.DType.DOUBLE, nested=False))
            expressions.append(aliased(number, hidden))
        else:
            continue
        positions.append(position)
        shown.append("expressions", aliased(column(source, hidden), f"{HALF_WIDTH}{position}"))
    replay = select(expressions, exp.Table(this=exp.to_identifier(source))) if expressions else None
    return ErrorBars(shown, tuple(positions), replay, source, tuple(replayed))


def _source(outer: exp.Expr, released: frozenset[str]) -> str | None:
    """The one released table that a statement reads row by row."""
    if not isinstance(outer, exp.Select) or outer.args.get("distinct") or outer.args.get("joins"):
        return None
    from_ = outer.args.get("from_")
    table = from_.this if from_ is not None else None
    return table.name if isinstance(table, exp.Table) and not table.db and table.name in released else None


def _is_aggregate(value: exp.Expr) -> bool:
    return isinstance(value, exp.Column) and value.name.startswith("a")


def _is_smooth(value: exp.Expr) -> bool:
    """An expression of aggregates without jumps."""
    found = nodes(value)
    return any(_is_aggregate(n) for n in found) and all(type(n) in _WITHOUT_JUMPS for n in found)
