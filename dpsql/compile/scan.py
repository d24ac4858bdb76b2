"""The tokens of a text, and what no parser should see.

Role: turn away texts that are too large, too deep, unreadable, or hold characters nobody can see, before sqlglot's
parser starts. Promise: on what passes, the parser ends quickly and without exhausting the stack. Must not: know what
a statement is.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from typing import ClassVar

from sqlglot.dialects.duckdb import DuckDB
from sqlglot.errors import SqlglotError
from sqlglot.tokenizer_core import Token, TokenType

from dpsql.compile.trees import DIALECT
from dpsql.errors import Error, Span, refusal

MAX_CHARACTERS = 200_000
MAX_TOKENS = 20_000

MAX_DEPTH = 30
"""Nested brackets and CASEs. sqlglot's parser takes up to 25 Python frames for each, so that 37 nested subqueries
or 42 parentheses end at Python's default of 1,000 frames (measured); 30 leave 250 frames to the caller."""

MAX_RUN = 20
"""Operators and keywords in a row without an operand: `NOT NOT NOT ...` and `- - - ...` recurse without brackets."""

MAX_CHAIN = 100
"""Links of `x[1][1]...`, `x.f().f()...` or `a -> b -> ...`, and joins: these recurse, or are copied at each link."""

STRICT_NUMBER = re.compile(r"(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
"""What a number looks like. sqlglot's tokenizer also lets `1e`, `1e0.5` and the first half of `1e0+1e0` pass."""


WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
"""A name or keyword that any dialect reads as one word without quotes."""


class _Tokenizer(DuckDB.Tokenizer):
    """DuckDB's tokens, without sqlglot's habit of reading all that follows EXPLAIN or RESET as one string."""

    COMMANDS: ClassVar[set[TokenType]] = set()


class _ParameterTokenizer(_Tokenizer):
    """The same for texts without dollar quotes: there sqlglot takes `$a, $` of `IN ($a, $b)` for the start of one."""

    HEREDOC_STRINGS: ClassVar[list[str | tuple[str, str]]] = []


STRINGS = {
    TokenType.STRING,
    TokenType.HEREDOC_STRING,
    TokenType.BYTE_STRING,
    TokenType.NATIONAL_STRING,
    TokenType.RAW_STRING,
    TokenType.UNICODE_STRING,
}
OPENING = frozenset([TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE])
CLOSING = frozenset([TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE])
_OPENERS, _CLOSERS = OPENING | {TokenType.CASE}, CLOSING | {TokenType.END}
_OPERANDS = STRINGS | _CLOSERS
_OPERANDS |= {TokenType.NUMBER, TokenType.IDENTIFIER, TokenType.VAR, TokenType.COMMA, TokenType.STAR}
_LINKS = {TokenType.ARROW, TokenType.DARROW, TokenType.JOIN}
_LINKED = {(TokenType.R_BRACKET, TokenType.L_BRACKET), (TokenType.R_PAREN, TokenType.DOT)}

_UNUSUAL = re.compile(r"[^\t\n\r\x20-\x7e]")
NEVER = re.compile("[\x00\ud800-\udfff]")
_DOLLAR_QUOTE = re.compile(r"\$(?:[^\W\d]\w*)?\$")


@lru_cache(maxsize=4)  # a text is scanned to see which statement it is, and again to be parsed
def scan(text: str) -> tuple[Token, ...]:
    """The tokens of one text, or a refusal: too large, too deep, unreadable, or with characters nobody can see."""
    repair = "join with a public table instead of listing values"
    size = len(text.strip())
    if size > MAX_CHARACTERS:
        start = len(text) - len(text.lstrip())
        reason = f"the statement has {size:,} characters, more than {MAX_CHARACTERS:,}"
        raise refusal("DP104", reason, span=Span(start, start + 1), repair=repair)
    tokens = tokenize(text)
    if len(tokens) > MAX_TOKENS:
        reason = f"the statement has more than {MAX_TOKENS:,} words and symbols"
        raise refusal("DP104", reason, span=span_of_token(tokens[MAX_TOKENS]), repair=repair)
    _refuse_depth(tokens)
    _refuse_invisible(text, tokens)
    _refuse_joined_tokens(text, tokens)
    return tuple(tokens)


def tokenize(text: str, name: str = "") -> list[Token]:
    """The tokens of any text, or DP101 or DP105."""
    never = NEVER.search(text)
    if never is not None:
        raise _invisible(never.group(), never.start(), "in a statement")
    tokenizer = (_Tokenizer if _DOLLAR_QUOTE.search(text) else _ParameterTokenizer)(dialect=DIALECT)
    try:
        tokens = tokenizer.tokenize(text)
    except (SqlglotError, RecursionError, ValueError, IndexError, KeyError, AssertionError):
        done = tokenizer.tokens
        start = _gap_end(text, done[-1].end + 1 if done else 0)
        what = "this comment has no end" if text.startswith("/*", start) else "this string or quoted name has no end"
        span, repair = Span(start, min(start + 1, len(text))), "close it; a quote within a text is written twice: ''"
        raise refusal("DP101", what, span=span, repair=repair, source=text, name=name) from None
    return tokens


def _refuse_depth(tokens: Sequence[Token]) -> None:
    depth = run = links = 0
    previous: TokenType | None = None
    for token in tokens:
        kind = token.token_type
        if kind in _OPENERS:
            depth += 1
        elif kind in _CLOSERS and depth:
            depth -= 1
        if kind in _OPERANDS:
            run = 0
        elif kind not in _OPENERS:
            run += 1
        if kind in _LINKS or (previous, kind) in _LINKED:
            links += 1
        if depth > MAX_DEPTH or run > MAX_RUN or links > MAX_CHAIN:
            raise refusal(
                "DP104",
                "the statement is too deeply nested",
                span=span_of_token(token),
                repair="name intermediate results in a WITH clause, use IN for lists of alternatives",
            )
        previous = kind


def _refuse_invisible(text: str, tokens: Sequence[Token]) -> None:
    """Characters that cannot be seen may stand in strings and comments only: elsewhere they make texts look equal."""
    if _UNUSUAL.search(text) is None and "/*" not in text and "{#" not in text:
        return
    position = 0
    for token in tokens:
        _check_gap(text, position, token.start)
        if token.token_type not in STRINGS:
            for found in _UNUSUAL.finditer(text, token.start, token.end + 1):
                if _is_invisible(found.group()):
                    raise _invisible(found.group(), found.start(), "outside a string")
        position = token.end + 1
    _check_gap(text, position, len(text))


def _check_gap(text: str, start: int, end: int) -> None:
    """Between two tokens stand blanks and comments, nothing else."""
    while start < end:
        if text[start] in " \t\n\r":
            start += 1
            continue
        after = _comment_end(text, start)
        if after < 0:
            raise refusal("DP101", "this comment has no end", span=Span(start, start + 2))
        if after == start:
            if _is_invisible(text[start]):
                raise _invisible(text[start], start, "outside a string")
            raise refusal("DP101", "this is not SQL", span=Span(start, start + 1), repair="comments are -- and /* */")
        start = after


def _comment_end(text: str, start: int) -> int:
    """Where the comment at `start` ends; `start` where none begins there, -1 where it never ends."""
    if text.startswith("--", start):
        found = re.compile(r"[\n\r]").search(text, start)
        return found.start() if found else len(text)
    if not text.startswith("/*", start):
        return start
    depth = 0
    for found in re.compile(r"/\*|\*/").finditer(text, start):
        depth += 1 if found.group() == "/*" else -1
        if depth == 0:
            return found.end()
    return -1


def _gap_end(text: str, start: int) -> int:
    """The first character after `start` that is neither blank nor in a comment."""
    while start < len(text):
        after = start + 1 if text[start].isspace() else _comment_end(text, start)
        if after in (start, -1):
            break
        start = after
    return min(start, max(len(text) - 1, 0))


def _refuse_joined_tokens(text: str, tokens: Sequence[Token]) -> None:
    """`0x1F`, `1e0+1e0`, `1abc`, `x'ff'` and `'a'b`: sqlglot and DuckDB cut these into different tokens."""
    heredoc, number, dot = TokenType.HEREDOC_STRING, TokenType.NUMBER, TokenType.DOT  # once: Python 3.11 is slow at it
    for token in tokens:
        if token.token_type is heredoc and not _DOLLAR_QUOTE.match(text, token.start):
            raise refusal("DP101", "a dollar quote starts with $$ or $tag$", span=span_of_token(token))
        if token.token_type is number and not STRICT_NUMBER.fullmatch(token.text):
            raise refusal(
                "DP101", "this is not a number", span=span_of_token(token), repair="put blanks around operators"
            )
    for i, (before, token) in enumerate(pairwise(tokens)):
        if before.end + 1 != token.start or before.text == "$":
            continue
        words = _in_word(text[before.end]) and _in_word(text[token.start])
        point = before.token_type is number and token.token_type is dot  # 1.2.3
        field = before.token_type is dot and token.token_type is number  # a.1, but not .1
        if words or point or (field and i and text[before.start - 1] not in " \t\r\n(,[+-*/%=<>"):
            at = Span(before.start, token.end + 1)
            raise refusal("DP101", "two words run into each other", span=at, repair="put a blank between them")


def _in_word(character: str) -> bool:
    return character.isalnum() or character in "_'\"$"


def _is_invisible(character: str) -> bool:
    if character in "\t\n\r ":
        return False
    return unicodedata.category(character) in ("Cc", "Cf", "Co", "Cs", "Zl", "Zp", "Zs")


def _invisible(character: str, position: int, where: str) -> Error:
    name = unicodedata.name(character, "")
    return refusal(
        "DP105",
        f"an invisible or control character {where}: U+{ord(character):04X}{' ' + name if name else ''}",
        span=Span(position, position + 1),
        repair="delete it; a blank, tab or line break may stand there",
    )


def span_of_token(token: Token) -> Span:
    """Where a token stands."""
    return Span(token.start, token.end + 1)
