"""What may leave: the answer to one statement, and its receipt. Nothing here has ever held an exact value."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc


@dataclass(frozen=True, slots=True)
class ColumnReceipt:
    """One released aggregate: the noise it carries.

    name: the column of the result (or the aggregate's text where the result has no column of its own for it).
    scale: the size of its noise in the column's own units: of discrete Laplace noise the scale, of rounded normal noise
    the deviation. half_width: of the 95 % interval, in the same units. Both are None
    where count, sum and mean share one vector, so that none has a law of its own: see the answer's half_widths.
    A choice of the best groups has neither. epsilon: its share of what is charged; weighs: of a choice, the epsilon by
    which it weighs its candidates, of which half is charged where a unit moves all scores in one direction.
    """

    name: str
    mechanism: str
    epsilon: Fraction
    scale: float | None
    half_width: float | None
    weighs: Fraction | None = None


@dataclass(frozen=True, slots=True)
class Receipt:
    """What the statement cost. epsilon and delta are 0 where nothing was charged (public, or a free repeat).

    mu_squared: what was charged where charges add up by Gaussian composition, else 0; what remains is then told as an
    epsilon at the account's delta. limits: in words what of a unit's rows was counted, and which groups are not shown;
    no interval includes what these leave out."""

    epsilon: Fraction
    delta: Fraction
    remaining_epsilon: Fraction
    remaining_delta: Fraction
    columns: tuple[ColumnReceipt, ...] = ()
    releases: tuple[str, ...] = ()
    policy: str = ""
    snapshot: str = ""
    mu_squared: Fraction = Fraction(0)
    remaining_mu_squared: Fraction = Fraction(0)
    limits: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Answer:
    """table: the result. half_widths: one entry per column of `table`: None (exact, or no interval can be stated) or
    one number per row (the 95 % half-width of that cell); empty where no column has any. receipt: None for SET, SHOW,
    DESCRIBE, EXPLAIN."""

    table: pa.Table
    half_widths: Sequence[Sequence[float | None] | None] = field(default_factory=tuple)
    receipt: Receipt | None = None

    @property
    def widths(self) -> Sequence[Sequence[float | None] | None]:
        """half_widths, with a None for each column where there are none at all."""
        return self.half_widths or [None] * self.table.num_columns


def values_of(column: pa.Array | pa.ChunkedArray) -> list[Any]:
    """A column's values in Python. What Python has no type for (dates before the year 1, after 9999, infinite;
    intervals, which hold months) is a text, and no two of these are one; inside of lists and structs, too."""
    if "interval" not in str(column.type):
        with suppress(OverflowError, ValueError):
            found: list[Any] = column.to_pylist()
            return found
    return [_value(scalar) for scalar in column]


def _value(scalar: pa.Scalar) -> Any:
    if not scalar.is_valid:
        return None
    match scalar:
        case pa.ListScalar():
            return values_of(scalar.values)
        case pa.StructScalar():
            return {name: _value(scalar[name]) for name in scalar}
        case pa.MonthDayNanoIntervalScalar():
            return _interval(*scalar.as_py())
    try:
        return scalar.as_py()
    except (OverflowError, ValueError):
        infinite = (1 << (scalar.type.bit_width - 1)) - 1
        named = {infinite: "infinity", -infinite: "-infinity"}
        return named.get(scalar.value) or scalar.cast(pa.string()).as_py()


def _interval(months: int, days: int, nanoseconds: int) -> str:
    """As SQL reads it: the units that are not 0, each with its own sign."""
    seconds = Decimal(nanoseconds).scaleb(-9).normalize()
    parts = (
        f"{n:f} {unit}" for n, unit in ((Decimal(months), "months"), (Decimal(days), "days"), (seconds, "seconds")) if n
    )
    return " ".join(parts) or "0 days"


def floored(answer: Answer, positions: Sequence[int]) -> Answer:
    """The answer with 0 for what is below it in these columns. Post-processing: of noisy values alone, and free."""
    table = answer.table
    for position in positions:
        field, values = table.schema.field(position), table.column(position)
        zero = pa.scalar(0, pa.int64()).cast(field.type)
        table = table.set_column(position, field, pc.if_else(pc.less(values, zero), zero, values))
    return replace(answer, table=table)


def together(answers: Sequence[Answer]) -> Answer:
    """The answers to one statement, with other parameters each, one below the other, and the charges of all. One
    statement has one schema, so the tables fit."""
    last = answers[-1]
    half_widths: list[Sequence[float | None] | None] = []
    for index in range(len(last.half_widths)):
        parts = [(a.half_widths[index], a.table.num_rows) for a in answers]
        noised = any(widths is not None for widths, _ in parts)
        half_widths.append([w for widths, n in parts for w in (widths or [None] * n)] if noised else None)
    receipt = last.receipt
    if receipt is not None:
        receipts = [a.receipt for a in answers if a.receipt is not None]
        amounts = zip(*((r.epsilon, r.delta, r.mu_squared) for r in receipts), strict=True)
        epsilon, delta, mu_squared = (sum(each, start=Fraction(0)) for each in amounts)
        receipt = replace(receipt, epsilon=epsilon, delta=delta, mu_squared=mu_squared)
    return replace(last, table=pa.concat_tables([a.table for a in answers]), half_widths=half_widths, receipt=receipt)


def streamed(table: pa.Table) -> bytes:
    """A table as an Arrow stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def finished(result: pa.Table, half_widths: Sequence[int], receipt: Receipt) -> Answer:
    """The answer from the outer engine's result, whose last columns are the half-widths of those at these positions:
    they are taken off and put beside."""
    count = result.num_columns - len(half_widths)
    widths: list[Sequence[float | None] | None] = [None] * count
    for hidden, position in enumerate(half_widths, start=count):
        widths[position] = result.column(hidden).to_pylist()
    return Answer(result.select(list(range(count))), tuple(widths), receipt)
