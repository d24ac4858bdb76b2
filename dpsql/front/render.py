"""Answers as text for people: the table, its footer, Markdown, HTML.

Promise: a number is never shown with more digits than its noise leaves (rules in `numerals`); NULL can't be taken
for a text; nothing in a value can steer the terminal; cost and what is left stand under every result. It adds
nothing to an answer and asks nobody: what it shows is in the `Answer`.

Text that reads NULL is shown in quotes, NULL is not. A table too wide for the terminal first shortens its texts
(never its numbers) and then turns into records, one `name │ value` line per column.
"""

from __future__ import annotations

import html as markup
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any, TextIO

from dpsql.front.diagnostics import visible
from dpsql.front.numerals import amount, digits, grouped, noised, plain

if TYPE_CHECKING:
    from dpsql.answer import Answer, Receipt
    from dpsql.ledger import Balance

_NARROWEST = 12  # a text column is not shortened below this
_SHOWN_BEHIND = 3  # releases behind a result that the footer names
_HTML_ROWS = 100


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
            return [_right(value, left) for value in self.values]
        gap = " " * (len(signs.plus_minus) + 2 + right)
        between = f" {signs.plus_minus} "
        return [
            _right(value, left) + (between + _right(error, right) if error else gap)
            for value, error in zip(self.values, self.errors, strict=True)
        ]


def columns_of(answer: Answer, signs: Signs = UNICODE, rows: int | None = None) -> list[Column]:
    """The answer's columns as text; at most `rows` rows."""
    table = answer.table if rows is None else answer.table.slice(0, rows)
    return [
        _column(field, table.column(i).to_pylist(), None if w is None else list(w)[: table.num_rows], signs)
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
        case _:
            return visible(str(value))


def cells_wide(text: str) -> int:
    """The width of a text on the screen: wide characters take two cells, combining ones none."""
    if text.isascii():
        return len(text)
    from prompt_toolkit.utils import get_cwidth

    return int(get_cwidth(text))


def _left(text: str, width: int) -> str:
    return text + " " * (width - cells_wide(text))


def _right(text: str, width: int) -> str:
    return " " * (width - cells_wide(text)) + text


def _shortened(text: str, width: int, signs: Signs) -> str:
    if cells_wide(text) <= width:
        return text
    kept, used = [], len(signs.ellipsis)
    for character in text:
        used += cells_wide(character)
        if used > width:
            break
        kept.append(character)
    return "".join(kept) + signs.ellipsis


def table(answer: Answer, *, signs: Signs = UNICODE, width: int | None = None, rows: int | None = None) -> str:
    """The answer as an aligned table that ends with its number of rows, within `width` cells where given."""
    if not answer.table.num_columns:
        return "ok"
    if answer.receipt is None and answer.table.column_names == ["explain"]:
        lines = (str(line) for line in answer.table.column(0).to_pylist())
        return "\n".join(visible(line, keep="\n") for line in lines)  # a report, not a relation
    columns = columns_of(answer, signs, rows)
    body = [column.cells(signs) for column in columns]
    fitted = _widths(columns, body, width)
    if fitted is None:
        text = _records(columns, body, signs)
    else:
        text = _grid(columns, body, fitted, signs)
    return text + "\n" + _count(answer.table.num_rows, rows)


def _count(total: int, shown: int | None) -> str:
    said = "1 row" if total == 1 else f"{total} rows"
    return f"({said})" if shown is None or total <= shown else f"({said}; the first {shown} shown)"


def _widths(columns: Sequence[Column], body: Sequence[Sequence[str]], limit: int | None) -> list[int] | None:
    """Each column's width such that the table fits; None where it can't."""
    content = [max(map(cells_wide, cells), default=0) for cells in body]
    widths = [max(cells_wide(c.header), w) for c, w in zip(columns, content, strict=True)]
    if limit is None:
        return widths
    least = [
        max(w, min(full, _NARROWEST)) if column.numeric else min(full, _NARROWEST)
        for column, w, full in zip(columns, content, widths, strict=True)
    ]
    excess = sum(widths) + 3 * len(widths) - 1 - limit
    while excess > 0:
        spare, widest = max((w - m, i) for i, (w, m) in enumerate(zip(widths, least, strict=True)))
        if spare <= 0:
            return None
        widths[widest] -= 1
        excess -= 1
    return widths


def _grid(columns: Sequence[Column], body: Sequence[Sequence[str]], widths: Sequence[int], signs: Signs) -> str:
    def line(texts: Sequence[str]) -> str:
        parts = [
            (_right if column.numeric else _left)(_shortened(text, wide, signs), wide)
            for text, wide, column in zip(texts, widths, columns, strict=True)
        ]
        return (" " + f" {signs.bar} ".join(parts)).rstrip(" ")

    rule = signs.cross.join(signs.rule * (w + 2) for w in widths)
    return "\n".join([line([c.header for c in columns]), rule, *(line(row) for row in zip(*body, strict=True))])


def _records(columns: Sequence[Column], body: Sequence[Sequence[str]], signs: Signs) -> str:
    width = max(cells_wide(c.header) for c in columns)
    lines = []
    for number, row in enumerate(zip(*body, strict=True), 1):
        lines.append(f"{signs.rule * 2} row {number} {signs.rule * 2}")
        lines += [
            f" {_left(c.header, width)} {signs.bar} {cell.strip(' ')}" for c, cell in zip(columns, row, strict=True)
        ]
    return "\n".join(lines)


def footer(answer: Answer, total: Fraction, *, signs: Signs = UNICODE, width: int | None = None) -> str:
    """Cost, what is left of `total`, and what ± means, wrapped at the dots. `free` where nothing is counted."""
    receipt = answer.receipt
    if receipt is None:
        return "free"
    parts = [cost(receipt, signs), left(receipt.remaining_epsilon, total, receipt.remaining_delta, signs)]
    parts += _behind(answer, receipt, signs)
    if any(widths is not None for widths in answer.half_widths) or len(parts) > 2:
        parts.append(f"{signs.plus_minus} is the half-width of the 95 % interval")
    return _wrapped(parts, signs, width)


def cost(receipt: Receipt, signs: Signs = UNICODE) -> str:
    """`cost ε = 0.25`, with δ where it was charged, or `free`."""
    if not receipt.epsilon and not receipt.delta:
        return "free"
    text = f"cost {signs.epsilon} = {amount(receipt.epsilon, up=True)}"
    text += f", {signs.delta} = {amount(receipt.delta, up=True)}" if receipt.delta else ""
    return text + (f", {signs.mu_squared} = {amount(receipt.mu_squared, up=True)}" if receipt.mu_squared else "")


def left(epsilon: Fraction, total: Fraction, delta: Fraction, signs: Signs = UNICODE) -> str:
    """`left ε = 2.75 of 3`, with δ where the policy has one."""
    text = f"left {signs.epsilon} = {amount(epsilon)} of {amount(total)}"
    return text + (f", {signs.delta} = {amount(delta)}" if delta else "")


def balance(account: str, spent: Balance, signs: Signs = UNICODE, *, many: bool = False) -> str:
    """The state of an account, or of one of its many purses, in some lines."""
    whose = f", analyst {visible(spent.analyst)}" if spent.analyst else ", all analysts together" if many else ""
    lines = [
        f"account {visible(account)}{whose}",
        f"{signs.epsilon}: {amount(spent.spent_epsilon, up=True)} spent, "
        f"{amount(spent.remaining_epsilon)} left of {amount(spent.epsilon)}",
    ]
    if spent.delta:
        lines.append(
            f"{signs.delta}: {amount(spent.spent_delta, up=True)} spent, "
            f"{amount(spent.remaining_delta)} left of {amount(spent.delta)}"
        )
    if spent.composition != "basic":
        lines.append(
            f"{signs.mu_squared}: {amount(spent.spent_mu_squared, up=True)} spent, "
            f"{amount(spent.remaining_mu_squared)} left of {amount(spent.mu_squared)}; this adds up, "
            f"and {signs.epsilon} is what it comes to"
        )
    if spent.renews is not None:
        from dpsql.ledger import renewal

        lines.append(f"renewed every {spent.renew}: next at {renewal(spent)}")
    if spent.last is not None and spent.more_like_last is not None:
        price = f"{signs.epsilon} = {amount(spent.last.epsilon, up=True)}"
        price += f", {signs.delta} = {amount(spent.last.delta, up=True)}" if spent.last.delta else ""
        lines.append(f"the last statement cost {price}: {grouped(str(spent.more_like_last))} more like it fit")
    return "\n".join(lines)


def _behind(answer: Answer, receipt: Receipt, signs: Signs) -> list[str]:
    """The noise of releases that no column of the result shows with its own ± (a ratio, a rank, a HAVING)."""
    shown = {n for n, w in zip(answer.table.column_names, answer.widths, strict=True) if w is not None}
    hidden = [c for c in receipt.columns if c.name not in shown and c.half_width is not None]
    said = [
        f"{_shortened(visible(c.name), 40, signs)} {signs.plus_minus} "
        + grouped(noised(0, c.half_width or 0.0, None)[1]).replace("∞", signs.infinity)
        for c in hidden[:_SHOWN_BEHIND]
    ]
    return ["from " + ", ".join(said) + (f", {signs.ellipsis}" if len(hidden) > _SHOWN_BEHIND else "")] if said else []


def _wrapped(parts: Sequence[str], signs: Signs, width: int | None) -> str:
    lines = [parts[0]]
    for part in parts[1:]:
        longer = f"{lines[-1]} {signs.dot} {part}"
        if width is None or cells_wide(longer) <= width:
            lines[-1] = longer
        else:
            lines.append(part)
    return "\n".join(lines)


def _joined(column: Column, signs: Signs) -> list[str]:
    """The cells without padding."""
    pairs = zip(column.values, column.errors, strict=True)
    return [f"{value} {signs.plus_minus} {error}" if error else value for value, error in pairs]


def markdown(answer: Answer, signs: Signs = UNICODE) -> str:
    """The answer as a Markdown table."""

    def escaped(text: str) -> str:
        return text.replace("\\", "\\\\").replace("|", "\\|")

    columns = columns_of(answer, signs)
    if not columns:
        return ""
    rows = zip(*(_joined(column, signs) for column in columns), strict=True)
    lines = [[escaped(c.header) for c in columns], ["---:" if c.numeric else "---" for c in columns]]
    lines += [[escaped(cell) for cell in row] for row in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def html(answer: Answer, total: Fraction) -> str:
    """The answer as an HTML table for notebooks: the first rows, with the footer."""
    columns = columns_of(answer, rows=_HTML_ROWS)
    head = "".join(f"<th>{markup.escape(c.header)}</th>" for c in columns)
    align = [' style="text-align: right"' if c.numeric else ' style="text-align: left"' for c in columns]
    body = "".join(
        "<tr>" + "".join(f"<td{a}>{markup.escape(cell)}</td>" for a, cell in zip(align, row, strict=True)) + "</tr>"
        for row in zip(*(_joined(column, UNICODE) for column in columns), strict=True)
    )
    under = _count(answer.table.num_rows, _HTML_ROWS)[1:-1] + f" {UNICODE.dot} " + footer(answer, total)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table><p>{markup.escape(under)}</p>"
