"""SQL in colors, as far as it has been typed.

A text is colored by the tokens that the parser reads; where it reads none (an open quote, or no session yet), by the
rough reading of `tokens`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache

from prompt_toolkit.document import Document
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.lexers import Lexer
from prompt_toolkit.styles import Style

from dpsql.errors import Error, Span
from dpsql.front.tokens import tokens

_TOO_LONG = 50_000
"""Characters: a longer text is not colored, since all of it is read again at every key."""

STYLE = Style.from_dict(
    {
        "sql.keyword": "bold ansiblue",
        "sql.function": "ansicyan",
        "sql.string": "ansigreen",
        "sql.quoted": "ansigreen",
        "sql.number": "ansicyan",
        "sql.parameter": "ansimagenta",
        "sql.comment": "italic ansibrightblack",
        "command": "bold",
        "auto-suggestion": "ansibrightblack",
        "bottom-toolbar": "noreverse ansibrightblack",
    }
)

Pieces = Sequence[tuple[Span, str]]
Reader = Callable[[str], Pieces]


class SqlLexer(Lexer):
    """Colors by token. reader: the parser's tokens of a text, once there is somebody to ask."""

    def __init__(self, reader: Callable[[], Reader | None] = lambda: None) -> None:
        self._reader = reader
        self._read = lru_cache(maxsize=8)(self._lines)

    def lex_document(self, document: Document) -> Callable[[int], StyleAndTextTuples]:
        lines = self._read(document.text, self._reader())
        return lambda number: lines[number] if number < len(lines) else []

    def _lines(self, text: str, reader: Reader | None) -> list[StyleAndTextTuples]:
        lines: list[StyleAndTextTuples] = [[]]
        for kind, piece in _styled(text, reader):
            first, *more = piece.split("\n")
            lines[-1].append((f"class:{kind}", first))
            lines += [[(f"class:{kind}", line)] for line in more]
        return lines


def _styled(text: str, reader: Reader | None) -> Iterator[tuple[str, str]]:
    if len(text) > _TOO_LONG:
        yield "sql.other", text
        return
    if text.lstrip().startswith("\\"):
        name, space, rest = text.partition(" ")
        yield "command", name + space
        text = rest
    try:
        pieces = reader(text) if reader is not None else None
    except Error:
        pieces = None
    if pieces is None:
        yield from ((f"sql.{kind}", piece) for kind, piece in tokens(text))
        return
    at = 0
    for (start, end), kind in pieces:
        if start > at:
            yield "sql.comment" if text[at:start].strip() else "sql.space", text[at:start]
        yield f"sql.{kind}", text[start:end]
        at = end
    yield "sql.comment", text[at:]
