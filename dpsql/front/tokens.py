"""A rough reading of SQL, for people's sake only: colors, and whether the typed text is finished.

Nothing is decided here: a text that is read wrongly is colored wrongly, or handed over a line too early and then
refused by the session, whose parser alone counts. It never raises, whatever the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

_WORDS = """
    ALL AND ANTI AS ASC BETWEEN BY CASE CAST CROSS CUBE CURRENT DATE DESC DESCRIBE DISTINCT ELSE END EXCEPT EXISTS
    EXPLAIN EXTRACT FALSE FILTER FIRST FOLLOWING FROM FULL GROUP GROUPING HAVING IN INNER INTERSECT INTERVAL IS JOIN
    LAST LEFT LIKE LIMIT MATERIALIZED NOT NULL NULLS OFFSET ON OR ORDER OUTER OVER PARTITION PRECEDING QUALIFY RANGE
    RESET RIGHT ROLLUP ROWS SELECT SEMI SET SETS SHOW THEN TIMESTAMP TRUE UNBOUNDED UNION USING VALUES WHEN WHERE
    WINDOW WITH
"""
KEYWORDS = frozenset(_WORDS.split())

_TOKEN = re.compile(
    r"""
      (?P<comment> --[^\n]* | /\*(?:[^*]|\*(?!/))*(?:\*/)? )
    | (?P<string>  '(?:[^']|'')*'? | \$(?P<tag>[A-Za-z_]*)\$.*?(?:\$(?P=tag)\$|\Z) )
    | (?P<quoted>  "(?:[^"]|"")*"? )
    | (?P<number>  \d[\d_]*(?:\.\d*)?(?:[eE][+-]?\d+)? | \.\d+(?:[eE][+-]?\d+)? )
    | (?P<parameter> \? | \$\w+ )
    | (?P<word>    [^\W\d]\w* )
    | (?P<space>   \s+ )
    | (?P<end>     ; )
    | (?P<other>   . )
    """,
    re.VERBOSE | re.DOTALL,
)


class Token(NamedTuple):
    """kind: a group of the pattern, or "keyword"."""

    kind: str
    text: str


def tokens(text: str) -> Iterator[Token]:
    """The text in pieces; joined they are the text again."""
    for match in _TOKEN.finditer(text):
        kind = match.lastgroup if match.lastgroup != "tag" else "string"
        piece = match.group()
        yield Token("keyword" if kind == "word" and piece.upper() in KEYWORDS else str(kind), piece)


def finished(text: str) -> bool:
    """Whether the text ends with a `;` that is no part of a string, quoted name or comment."""
    pieces = list(tokens(text))
    kind, last = pieces[-1] if pieces else Token("space", "")
    if kind == "comment" and last.startswith("/*") and not last.endswith("*/"):
        return False
    return next((p.kind == "end" for p in reversed(pieces) if p.kind not in ("space", "comment")), False)


def first_word(text: str) -> str:
    """The first word outside comments, or ''."""
    return next((t.text for t in tokens(text) if t.kind in ("word", "keyword")), "")
