"""A bar chart of a grouped result: one bar for each group, with the 95 % interval at its end.

    GROCERY ██████████████████████████├─┼─┤  2,460 ± 48
    MEAT    ████████████████████├─┼─┤        2,136 ± 48

A bar goes from 0 to the value (for values below 0 to the left), and the interval over it from the lowest to the highest
value it allows. It draws what is in the `Answer`, and no more exactly than one screen column.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from typing import TYPE_CHECKING

from dpsql.errors import nearest, refusal
from dpsql.front.cells import ASCII, UNICODE, Column, Signs, cells_wide, columns_of, shortened, to_the_left

if TYPE_CHECKING:
    from dpsql.answer import Answer

MOST_BARS = 50
_NARROWEST, _WIDEST = 8, 60  # screen columns of a bar
_DEFAULT_WIDTH = 80


@dataclass(frozen=True, slots=True)
class _Strokes:
    bar: str = "█"
    low: str = "├"
    middle: str = "┼"
    high: str = "┤"
    between: str = "─"
    point: str = "│"


_ASCII = _Strokes("#", "[", "+", "]", "-", "|")


def drawable(answer: Answer) -> bool:
    """Whether it is a grouped result: two rows at least, a column that names them, and one with an interval."""
    measured = [widths is not None for widths in answer.widths]
    return answer.receipt is not None and answer.table.num_rows > 1 and any(measured) and not all(measured)


def chart(answer: Answer, *, signs: Signs = UNICODE, width: int | None = None, column: str = "") -> str:
    """The chart. column: whose values are drawn; default: the first with an interval. Raises DP111 for no such column,
    DP002 where there is nothing to draw."""
    names = answer.table.column_names
    measured = [name for name, widths in zip(names, answer.widths, strict=True) if widths is not None]
    if not measured or not answer.table.num_rows:
        raise refusal("DP002", "the last result has no column with an interval to draw")
    wanted = next((n for n in measured if n.lower() == column.lower()), None) if column else measured[0]
    if wanted is None:
        reason = f'the last result has no column "{column}" with an interval{nearest(column, measured)}'
        raise refusal("DP111", reason, repair=f"there is {', '.join(measured)}")
    place = names.index(wanted)
    columns = columns_of(answer, signs, MOST_BARS)
    labels = _labels(
        [c for c, widths in zip(columns, answer.widths, strict=True) if widths is None], len(columns[0].values)
    )
    values = answer.table.column(place).slice(0, MOST_BARS).to_pylist()
    widths = list(answer.widths[place] or ())[:MOST_BARS]
    bars = [(_number(v), _number(w)) for v, w in zip(values, widths, strict=True)]
    lines = _lines(labels, bars, columns[place], signs, width or _DEFAULT_WIDTH)
    more = answer.table.num_rows - len(lines)
    return "\n".join([columns[place].header, *lines, *([f"({more} more not drawn)"] if more else [])])


def _number(value: object) -> float | None:
    """What can be drawn of it."""
    if value is None:
        return None
    number = float(value)  # type: ignore[arg-type] # of a column of numbers
    return number if isfinite(number) else None


def _labels(columns: Sequence[Column], rows: int) -> list[str]:
    return [", ".join(c.values[row] for c in columns) for row in range(rows)]


def _lines(
    labels: Sequence[str], bars: Sequence[tuple[float | None, float | None]], column: Column, signs: Signs, width: int
) -> list[str]:
    numbers = [cell.rstrip() for cell in column.cells(signs)]
    beside = max(map(cells_wide, numbers))
    named = min(max(map(cells_wide, labels)), max(6, width // 3))
    room = min(max(width - named - beside - 4, _NARROWEST), _WIDEST)
    ends = [end for value, half in bars if value is not None for end in (value - (half or 0), value + (half or 0))]
    low, high = min(0.0, *ends, 0.0), max(0.0, *ends, 0.0)
    strokes = _ASCII if signs == ASCII else _Strokes()
    found = []
    for label, (value, half), number in zip(labels, bars, numbers, strict=True):
        shown = shortened(label, named, signs)
        bar = " " * room if value is None else _bar(value, half, (low, high), room, strokes)
        found.append(f" {to_the_left(shown, named)} {bar}  {number}".rstrip())
    return found


def _bar(value: float, half: float | None, scale: tuple[float, float], room: int, strokes: _Strokes) -> str:
    low, high = scale

    def at(number: float) -> int:
        """The screen column of a value, from 0 to room - 1."""
        return round((number - low) / (high - low) * (room - 1)) if high > low else 0

    zero, end = at(0.0), at(value)
    signs = [strokes.bar if min(zero, end) <= place <= max(zero, end) and value else " " for place in range(room)]
    if half is None:
        return "".join(signs)
    first, last = at(value - half), at(value + half)
    if first == last:
        signs[first] = strokes.point
        return "".join(signs)
    signs[first : last + 1] = [strokes.low, *(strokes.between * (last - first - 1)), strokes.high]
    if first < end < last:
        signs[end] = strokes.middle
    return "".join(signs)
