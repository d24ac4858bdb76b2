"""Answers as cells of text, which every format for people is made of; and the signs these are drawn with.

Promise: a number is never shown with more digits than its noise leaves (rules in `numerals`); NULL can't be taken for a
text; nothing in a value can steer a terminal; widths are those of the screen, where a sign may take two cells or none.
"""

from __future__ import annotations

from dataclasses import astuple, dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any, TextIO

from dpsql.front.diagnostics import visible
from dpsql.front.numerals import digits, grouped, noised, plain

if TYPE_CHECKING:
    from dpsql.answer import Answer


@dataclass(frozen=True, slots=True)
class Signs:
    """The signs beyond ASCII, or what stands for them where the output's encoding lacks them."""

    bar: str = "│"
    rule: str = "─"
    cross: str = "┼"
    plus_minus: str = "±"
    epsilon: str = "ε"
    delta: str = "δ"
    dot: str = "·"
    ellipsis: str = "…"
    infinity: str = "∞"
    mu_squared: str = "μ²"


UNICODE = Signs()
ASCII = Signs("|", "-", "+", "+-", "eps", "delta", ";", "~", "inf", "mu^2")


def signs_for(stream: TextIO) -> Signs:
    """The signs that the stream's encoding has."""
    try:
        "".join(astuple(UNICODE)).encode(getattr(stream, "encoding", None) or "utf-8")
    except (UnicodeEncodeError, LookupError):
        return ASCII
    return UNICODE


@dataclass(frozen=True, slots=True)
class Column:
    """A column ready to print. errors: the half-width of each cell, "" where it has none."""

    header: str
    numeric: bool
    values: list[str]
    errors: list[str]

    def cells(self, signs: Signs) -> list[str]:
        """Each cell in full; numbers and their half-widths right-aligned among themselves."""
        if not self.numeric:
            return self.values
        left = max((cells_wide(v) for v in self.values), default=0)
        right = max((len(e) for e in self.errors), default=0)
        if not right:
            return [to_the_right(value, left) for value in self.values]
        gap = " " * (len(signs.plus_minus) + 2 + right)
        between = f" {signs.plus_minus} "
        return [
            to_the_right(value, left) + (between + to_the_right(error, right) if error else gap)
            for value, error in zip(self.values, self.errors, strict=True)
        ]


def columns_of(answer: Answer, signs: Signs = UNICODE, rows: int | None = None) -> list[Column]:
    """The answer's columns as text; at most `rows` rows."""
    from dpsql.answer import values_of

    table = answer.table if rows is None else answer.table.slice(0, rows)
    return [
        _column(field, values_of(table.column(i)), None if w is None else list(w)[: table.num_rows], signs)
        for i, (field, w) in enumerate(zip(table.schema, answer.widths, strict=True))
    ]


def _column(field: Any, values: list[Any], half_widths: list[float | None] | None, signs: Signs) -> Column:
    import pyarrow.types as is_type

    kind = field.type
    numeric = is_type.is_integer(kind) or is_type.is_floating(kind) or is_type.is_decimal(kind)
    header = visible(field.name)
    if half_widths is None or not numeric:
        return Column(header, numeric, [_text(v) for v in values], [""] * len(values))
    places = 0 if is_type.is_integer(kind) else kind.scale if is_type.is_decimal(kind) else None
    pairs = [
        (_text(v), "") if v is None or w is None else noised(v, w, places)
        for v, w in zip(values, half_widths, strict=True)
    ]
    if any(error and max(digits(value), digits(error)) > 4 for value, error in pairs):
        pairs = [(grouped(value), grouped(error)) if error else (value, error) for value, error in pairs]
    return Column(header, True, [v for v, _ in pairs], [e.replace("∞", signs.infinity) for _, e in pairs])


def _text(value: Any) -> str:
    """One exact value."""
    match value:
        case None:
            return "NULL"
        case bool():
            return "true" if value else "false"
        case str():
            return f"'{value}'" if value.strip("'") == "NULL" else visible(value)
        case int() | float() | Decimal():
            return plain(value)
        case bytes():
            return "\\x" + value.hex()
        case list() | dict():
            from dpsql.front.export import json_text

            return json_text(value)
        case _:
            return visible(str(value))


def cells_wide(text: str) -> int:
    """The width of a text on the screen: wide characters take two cells, combining ones none."""
    if text.isascii():
        return len(text)
    from prompt_toolkit.utils import get_cwidth

    return int(get_cwidth(text))


def to_the_left(text: str, width: int) -> str:
    return text + " " * (width - cells_wide(text))


def to_the_right(text: str, width: int) -> str:
    return " " * (width - cells_wide(text)) + text


def shortened(text: str, width: int, signs: Signs) -> str:
    if cells_wide(text) <= width:
        return text
    kept, used = [], len(signs.ellipsis)
    for character in text:
        used += cells_wide(character)
        if used > width:
            break
        kept.append(character)
    return "".join(kept) + signs.ellipsis


def joined(column: Column, signs: Signs) -> list[str]:
    """The cells without padding."""
    pairs = zip(column.values, column.errors, strict=True)
    return [f"{value} {signs.plus_minus} {error}" if error else value for value, error in pairs]
