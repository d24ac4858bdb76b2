"""Answers in markup: a Markdown table, and HTML for notebooks. What `cells` promises of every cell holds here."""

from __future__ import annotations

import html as escaping
from fractions import Fraction
from typing import TYPE_CHECKING

from dpsql.front.cells import UNICODE, Signs, columns_of, joined
from dpsql.front.render import counted, footer

if TYPE_CHECKING:
    from dpsql.answer import Answer

_HTML_ROWS = 100


def markdown(answer: Answer, signs: Signs = UNICODE) -> str:
    """The answer as a Markdown table."""

    def escaped(text: str) -> str:
        return text.replace("\\", "\\\\").replace("|", "\\|")

    columns = columns_of(answer, signs)
    if not columns:
        return ""
    rows = zip(*(joined(column, signs) for column in columns), strict=True)
    lines = [[escaped(c.header) for c in columns], ["---:" if c.numeric else "---" for c in columns]]
    lines += [[escaped(cell) for cell in row] for row in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def html(answer: Answer, total: Fraction) -> str:
    """The answer as an HTML table for notebooks: the first rows, with the footer."""
    columns = columns_of(answer, rows=_HTML_ROWS)
    head = "".join(f"<th>{escaping.escape(c.header)}</th>" for c in columns)
    align = [' style="text-align: right"' if c.numeric else ' style="text-align: left"' for c in columns]
    body = "".join(
        "<tr>" + "".join(f"<td{a}>{escaping.escape(cell)}</td>" for a, cell in zip(align, row, strict=True)) + "</tr>"
        for row in zip(*(joined(column, UNICODE) for column in columns), strict=True)
    )
    under = counted(answer.table.num_rows, _HTML_ROWS)[1:-1] + f" {UNICODE.dot} " + footer(answer, total)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table><p>{escaping.escape(under)}</p>"
