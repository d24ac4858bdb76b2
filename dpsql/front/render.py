"""Answers as text for people: the table, and the lines under it.

Promise: what `cells` promises of every cell; cost and what is left stand under every result. It adds nothing to an
answer and asks nobody: what it shows is in the `Answer`.

Text that reads NULL is shown in quotes, NULL is not. A table too wide for the terminal first shortens its texts
(never its numbers) and then turns into records, one `name │ value` line per column.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

from dpsql.front.cells import UNICODE, Column, Signs, cells_wide, columns_of, shortened, to_the_left, to_the_right
from dpsql.front.cells import signs_for as signs_for
from dpsql.front.costs import half_width
from dpsql.front.diagnostics import visible
from dpsql.front.numerals import amount, grouped

if TYPE_CHECKING:
    from dpsql.answer import Answer, Receipt
    from dpsql.ledger import Balance

_NARROWEST = 12  # a text column is not shortened below this
_SHOWN_BEHIND = 3  # releases behind a result that the footer names


def table(
    answer: Answer,
    *,
    signs: Signs = UNICODE,
    width: int | None = None,
    rows: int | None = None,
    expanded: bool = False,
) -> str:
    """The answer as an aligned table that ends with its number of rows, within `width` cells where given; as records
    where it doesn't fit, or `expanded` asks for them."""
    if not answer.table.num_columns:
        return "ok"
    if answer.receipt is None and answer.table.column_names == ["explain"]:
        lines = (str(line) for line in answer.table.column(0).to_pylist())
        return "\n".join(visible(line, keep="\n") for line in lines)  # a report, not a relation
    columns = columns_of(answer, signs, rows)
    body = [column.cells(signs) for column in columns]
    fitted = None if expanded else _widths(columns, body, width)
    if fitted is None:
        text = _records(columns, body, signs)
    else:
        text = _grid(columns, body, fitted, signs)
    return text + "\n" + counted(answer.table.num_rows, rows)


def counted(total: int, shown: int | None) -> str:
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
            (to_the_right if column.numeric else to_the_left)(shortened(text, wide, signs), wide)
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
            f" {to_the_left(column.header, width)} {signs.bar} {cell.strip(' ')}"
            for column, cell in zip(columns, row, strict=True)
        ]
    return "\n".join(lines)


def footer(answer: Answer, total: Fraction, *, signs: Signs = UNICODE, width: int | None = None) -> str:
    """Cost, what is left of `total`, what limits leave of a unit, and what ± means, wrapped at the dots. `free` where
    nothing is counted."""
    receipt = answer.receipt
    if receipt is None:
        return "free"
    parts = [cost(receipt, signs), left(receipt.remaining_epsilon, total, receipt.remaining_delta, signs)]
    parts += _behind(answer, receipt, signs)
    if any(widths is not None for widths in answer.half_widths) or len(parts) > 2:
        parts += list(map(visible, receipt.limits))
        beyond = ", without what that leaves out" if receipt.limits else ""
        parts.append(f"{signs.plus_minus} is the half-width of the 95 % interval{beyond}")
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
        f"{shortened(visible(c.name), 40, signs)} {half_width(c.half_width or 0.0, signs)}"
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
