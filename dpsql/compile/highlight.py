"""The pieces of a text as the parser's own tokenizer reads them: for colors, which decide nothing.

Promise: the pieces lie in order and do not overlap; what stands between them is space or comments. A text that is not
whole yet (an open quote) is refused like any other that is not SQL.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest

from sqlglot.tokenizer_core import TokenType

from dpsql.compile.scan import STRINGS, span_of_token, tokenize
from dpsql.errors import Span

_KINDS = {
    **dict.fromkeys(STRINGS, "string"),
    TokenType.IDENTIFIER: "quoted",
    TokenType.NUMBER: "number",
    TokenType.PARAMETER: "parameter",
    TokenType.PLACEHOLDER: "parameter",
    TokenType.SEMICOLON: "end",
}


def pieces(text: str) -> Iterator[tuple[Span, str]]:
    """Each token's place and kind: keyword, function, word, string, quoted, number, parameter, end or other. DP101."""
    tokens = tokenize(text)
    for token, following in zip_longest(tokens, tokens[1:]):
        yield span_of_token(token), _kind(token.token_type, token.text, following)


def _kind(kind: TokenType, text: str, following: object) -> str:
    if kind in _KINDS:
        return _KINDS[kind]
    if not "".join(text.replace("_", "").split()).isalnum():
        return "other"
    called = getattr(following, "token_type", None) is TokenType.L_PAREN
    return ("function" if called else "word") if kind is TokenType.VAR else "keyword"
