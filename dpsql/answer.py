"""What may leave: the answer to one statement, and its receipt. Nothing here has ever held an exact value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import pyarrow as pa

HALF_WIDTH = "~"
"""Ends the name of a column that holds half-widths; `~<i>` in a result belongs to its i-th column (from 0)."""


@dataclass(frozen=True, slots=True)
class ColumnReceipt:
    """One released aggregate: the noise it carries.

    name: the column of the result (or the aggregate's text where the result has no column of its own for it).
    scale: the noise scale in the column's own units (None for a ratio such as AVG, whose error differs by row).
    half_width: of the 95 % interval, in the column's own units (for AVG: the widest of the result's rows).
    """

    name: str
    mechanism: str
    epsilon: Fraction
    scale: float | None
    half_width: float | None


@dataclass(frozen=True, slots=True)
class Receipt:
    """What the statement cost. epsilon and delta are 0 where nothing was charged (public, or a free repeat)."""

    epsilon: Fraction
    delta: Fraction
    remaining_epsilon: Fraction
    remaining_delta: Fraction
    columns: tuple[ColumnReceipt, ...] = ()
    releases: tuple[str, ...] = ()
    policy: str = ""
    snapshot: str = ""


@dataclass(frozen=True, slots=True)
class Answer:
    """table: the result. half_widths: one entry per column of `table`: None (exact, or no interval can be stated) or
    one number per row (the 95 % half-width of that cell). receipt: None for SET, SHOW, DESCRIBE, EXPLAIN."""

    table: pa.Table
    half_widths: Sequence[Sequence[float | None] | None] = field(default_factory=tuple)
    receipt: Receipt | None = None


def finished(result: pa.Table, receipt: Receipt) -> Answer:
    """The answer from the outer engine's result: its half-width columns are taken off and put beside."""
    shown = [name for name in result.column_names if not name.startswith(HALF_WIDTH)]
    count = len(result.column_names) - sum(1 for n in result.column_names if n.startswith(HALF_WIDTH))
    widths: list[Sequence[float | None] | None] = [None] * count
    for position, name in enumerate(result.column_names):
        if name.startswith(HALF_WIDTH):
            widths[int(name[len(HALF_WIDTH) :])] = result.column(position).to_pylist()
    return Answer(result.select(list(range(len(shown)))), tuple(widths), receipt)
