"""From text to one statement, on tokens alone.

Role: split scripts, tell SELECT from EXPLAIN, SET, RESET, SHOW and DESCRIBE, and turn away what no parser should
see. Promise: a text that passes `scan` is small, shallow and visible, so sqlglot's parser ends on it quickly;
whatever else happens is a typed refusal. Must not: build a tree, or know the policy.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

from sqlglot.dialects.duckdb import DuckDB
from sqlglot.errors import SqlglotError
from sqlglot.tokenizer_core import Token, TokenType

from dpsql.errors import Error, Span, nearest, refusal

MAX_CHARACTERS = 200_000
MAX_SCRIPT = 10_000_000
MAX_TOKENS = 20_000

MAX_DEPTH = 30
"""Nested brackets and CASEs. sqlglot's parser takes up to 25 Python frames for each, so that 37 nested subqueries
or 42 parentheses end at Python's default of 1,000 frames (measured); 30 leave 250 frames to the caller."""

MAX_RUN = 20
"""Operators and keywords in a row without an operand: `NOT NOT NOT ...` and `- - - ...` recurse without brackets."""

MAX_CHAIN = 100
"""Links of `x[1][1]...` or `a -> b -> ...`, and joins: these recurse too."""

STRICT_NUMBER = re.compile(r"(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
"""What a number looks like. sqlglot's tokenizer also lets `1e`, `1e0.5` and the first half of `1e0+1e0` pass."""


@dataclass(frozen=True, slots=True)
class Select:
    """A query. Positions in `text` are those in the statement's text."""

    text: str


@dataclass(frozen=True, slots=True)
class Explain:
    """EXPLAIN of a query, whose text is padded so that positions still count in the statement's text."""

    text: str


@dataclass(frozen=True, slots=True)
class Set:
    """SET name = literal. `value` is the literal's text as written (a string's without quotes): exact."""

    name: str
    value: str
    name_span: Span
    value_span: Span


@dataclass(frozen=True, slots=True)
class Reset:
    """RESET name, or RESET ALL (None)."""

    name: str | None
    span: Span | None = None


@dataclass(frozen=True, slots=True)
class Show:
    """SHOW BUDGET, SHOW TABLES, SHOW SETTINGS: `what` in lower case."""

    what: str


@dataclass(frozen=True, slots=True)
class Describe:
    """DESCRIBE table; `schema.table` is one name with a dot."""

    table: str
    span: Span


Statement = Select | Explain | Set | Reset | Show | Describe


@dataclass(frozen=True, slots=True)
class Source:
    """One statement of a script: its text, where that starts (offset, line and column from 0) and the script's name."""

    text: str
    offset: int
    line: int
    column: int
    name: str = ""

    @property
    def padded(self) -> str:
        """The text behind blank lines, so that lines and columns of errors count in the script."""
        return "\n" * self.line + " " * self.column + self.text


class _Tokenizer(DuckDB.Tokenizer):
    """DuckDB's tokens, without sqlglot's habit of reading all that follows EXPLAIN or RESET as one string."""

    COMMANDS: ClassVar[set[TokenType]] = set()


_STRINGS = {
    TokenType.STRING,
    TokenType.HEREDOC_STRING,
    TokenType.BYTE_STRING,
    TokenType.NATIONAL_STRING,
    TokenType.RAW_STRING,
    TokenType.UNICODE_STRING,
}
_OPENERS = {TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE, TokenType.CASE}
_CLOSERS = {TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE, TokenType.END}
_OPERANDS = _STRINGS | _CLOSERS
_OPERANDS |= {TokenType.NUMBER, TokenType.IDENTIFIER, TokenType.VAR, TokenType.COMMA, TokenType.STAR}
_LINKS = {TokenType.ARROW, TokenType.DARROW, TokenType.JOIN}

_UNUSUAL = re.compile(r"[^\t\n\r\x20-\x7e]")
_NEVER = re.compile("[\x00\ud800-\udfff]")
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

_QUERY_VERBS = {"SELECT", "WITH", "FROM", "VALUES"}
_SHOWN = ("budget", "tables", "settings")
_STATEMENTS = "dpsql answers SELECT, EXPLAIN of a query, SET, RESET, SHOW BUDGET | TABLES | SETTINGS, DESCRIBE t"

_ONLY_READS = "dpsql only reads: ask a SELECT; a WITH clause holds intermediate results"
_REPAIRS: dict[str, str] = {
    verb: repair
    for verbs, repair in (
        ("CREATE INSERT UPDATE DELETE MERGE DROP ALTER TRUNCATE REPLACE COMMENT VACUUM ANALYZE", _ONLY_READS),
        ("COPY EXPORT IMPORT", "fetch the rows of a SELECT and write them on your side"),
        ("ATTACH DETACH USE INSTALL LOAD FORCE CONNECT DISCONNECT", "the tables are those that SHOW TABLES lists"),
        ("PRAGMA CALL", "SHOW TABLES, DESCRIBE and SHOW SETTINGS say what there is"),
        ("BEGIN START COMMIT ROLLBACK ABORT END CHECKPOINT", "leave it out: each statement stands alone"),
        ("PREPARE EXECUTE DEALLOCATE", "write `?` or `$name` and pass the values beside the text"),
        ("SUMMARIZE", "ask for what you need: SELECT COUNT(*), AVG(x) FROM t"),
        ("PIVOT PIVOT_WIDER UNPIVOT", "group by the column, and turn the rows of the answer on your side"),
        ("TABLE", "write SELECT * FROM the table"),
    )
    for verb in verbs.split()
}


def scan(text: str) -> list[Token]:
    """The tokens of one text, or a refusal: too large, too deep, unreadable, or with characters nobody can see."""
    if len(text) - len(text[: len(text) - len(text.lstrip())]) > MAX_CHARACTERS:
        raise refusal(
            "DP104",
            f"the statement has {len(text):,} characters; dpsql reads up to {MAX_CHARACTERS:,}",
            repair="join with a public table instead of listing values",
        )
    tokens = tokenize(text)
    if len(tokens) > MAX_TOKENS:
        raise refusal(
            "DP104",
            f"the statement has {len(tokens):,} words and symbols; dpsql reads up to {MAX_TOKENS:,}",
            repair="join with a public table instead of listing values",
        )
    _refuse_depth(tokens)
    _refuse_invisible(text, tokens)
    _refuse_joined_tokens(text, tokens)
    return tokens


def split(script: str, name: str = "") -> list[Source]:
    """The statements of a script, in order; those without any token (blank, comments) are left out."""
    if len(script) > MAX_SCRIPT:
        raise refusal("DP104", f"the script has more than {MAX_SCRIPT:,} characters", repair="split it", name=name)
    sources: list[Source] = []
    first: Token | None = None
    last: Token | None = None
    line, counted = 0, 0
    for token in [*tokenize(script, name), None]:
        if token is not None and token.token_type is not TokenType.SEMICOLON:
            first, last = first or token, token
        elif first is not None and last is not None:
            start = first.start
            line, counted = line + script.count("\n", counted, start), start
            column = start - (script.rfind("\n", 0, start) + 1)
            sources.append(Source(script[start : last.end + 1], start, line, column, name))
            first = last = None
    return sources


def read(text: str) -> Statement:
    """The one statement that `text` holds."""
    tokens = scan(text)
    while tokens and tokens[-1].token_type is TokenType.SEMICOLON:
        tokens.pop()
    while tokens and tokens[0].token_type is TokenType.SEMICOLON:
        tokens.pop(0)
    if not tokens:
        raise refusal("DP101", "there is no statement here", repair=_STATEMENTS)
    for before, token in pairwise(tokens):
        if before.token_type is TokenType.SEMICOLON and token.token_type is not TokenType.SEMICOLON:
            raise refusal("DP102", "one statement at a time", span=_span(token), repair="execute them one by one")
    text = text[: tokens[-1].end + 1]
    verb = _word(tokens[0])
    if verb in _QUERY_VERBS or tokens[0].token_type is TokenType.L_PAREN:
        return Select(" " * tokens[0].start + text[tokens[0].start :] if ";" in text[: tokens[0].start] else text)
    match verb:
        case "EXPLAIN":
            return _read_explain(text, tokens)
        case "SET":
            return _read_set(tokens)
        case "RESET":
            return _read_reset(tokens)
        case "SHOW":
            return _read_show(tokens)
        case "DESCRIBE" | "DESC":
            return _read_describe(tokens)
    known = [*_QUERY_VERBS, "EXPLAIN", "SET", "RESET", "SHOW", "DESCRIBE"]
    if not verb:
        raise refusal("DP101", "a statement starts with a verb", span=_span(tokens[0]), repair=_STATEMENTS)
    raise refusal(
        "DP103",
        f"dpsql does not run {verb[:40]} statements",
        span=_span(tokens[0]),
        repair=_REPAIRS.get(verb, _STATEMENTS + "." + nearest(verb, known)),
    )


def tokenize(text: str, name: str = "") -> list[Token]:
    """The tokens of any text, or DP101 or DP105."""
    never = _NEVER.search(text)
    if never is not None:
        raise _invisible(never.group(), never.start(), "in a statement")
    tokenizer = _Tokenizer(dialect="duckdb")
    try:
        tokens = tokenizer.tokenize(text)
    except (SqlglotError, RecursionError, ValueError, IndexError, KeyError, AssertionError):
        done = tokenizer.tokens
        start = _gap_end(text, done[-1].end + 1 if done else 0)
        what = "this comment has no end" if text.startswith("/*", start) else "this string or quoted name has no end"
        raise refusal("DP101", what, span=Span(start, min(start + 1, len(text))), source=text, name=name) from None
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
        run = 0 if kind in _OPERANDS else run + 1
        if kind in _LINKS or (kind is TokenType.L_BRACKET and previous is TokenType.R_BRACKET):
            links += 1
        if depth > MAX_DEPTH or run > MAX_RUN or links > MAX_CHAIN:
            raise refusal(
                "DP104",
                "the statement is too deeply nested",
                span=_span(token),
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
        if token.token_type not in _STRINGS:
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
    for token in tokens:
        if token.token_type is TokenType.NUMBER and not STRICT_NUMBER.fullmatch(token.text):
            raise refusal("DP101", "this is not a number", span=_span(token), repair="put blanks around operators")
    for before, token in pairwise(tokens):
        if before.end + 1 == token.start and _in_word(text[before.end]) and _in_word(text[token.start]):
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


def _read_explain(text: str, tokens: Sequence[Token]) -> Explain:
    if len(tokens) == 1:
        raise refusal("DP101", "EXPLAIN needs a query", span=_span(tokens[0]), repair="EXPLAIN SELECT ...")
    inner = tokens[1]
    after = _word(tokens[2]) if len(tokens) > 2 else ""
    query = _word(inner) in _QUERY_VERBS or (
        inner.token_type is TokenType.L_PAREN and (after in _QUERY_VERBS or tokens[2].token_type is TokenType.L_PAREN)
    )
    if not query:
        raise refusal(
            "DP103",
            f"dpsql explains queries only, not EXPLAIN {_word(inner)[:40]}".rstrip(),
            span=_span(inner),
            repair="EXPLAIN SELECT ... shows the plan, its price and its expected error, for free",
        )
    return Explain(re.sub(r"[^\n]", " ", text[: inner.start]) + text[inner.start :])


def _read_set(tokens: Sequence[Token]) -> Set:
    form = "SET name = literal, for instance SET epsilon = 0.1; SHOW SETTINGS lists the names"
    if len(tokens) < 2 or not _word(tokens[1]):
        raise refusal("DP120", "SET needs the name of a setting", span=_span(tokens[0]), repair=form)
    name = tokens[1]
    if len(tokens) < 3 or not (tokens[2].token_type is TokenType.EQ or _word(tokens[2]) == "TO"):
        raise refusal("DP120", "SET is written with = or TO", span=_span(name), repair=form)
    value = list(tokens[3:])
    sign = ""
    if [t.token_type for t in value] == [TokenType.DASH, TokenType.NUMBER]:
        sign = value.pop(0).text
    literal = len(value) == 1 and (value[0].token_type in (TokenType.NUMBER, TokenType.STRING) or bool(_word(value[0])))
    if not literal:
        at = Span(tokens[3].start, tokens[-1].end + 1) if len(tokens) > 3 else _span(tokens[-1])
        raise refusal("DP120", "SET takes a literal, not an expression", span=at, repair=form)
    return Set(name.text.lower(), sign + value[0].text, _span(name), Span(tokens[3].start, tokens[-1].end + 1))


def _read_reset(tokens: Sequence[Token]) -> Reset:
    if len(tokens) != 2 or not _word(tokens[1]):
        at = _span(tokens[-1])
        raise refusal("DP120", "RESET takes the name of a setting, or ALL", span=at, repair="RESET epsilon")
    name = _word(tokens[1])
    return Reset(None if name == "ALL" else name.lower(), _span(tokens[1]))


def _read_show(tokens: Sequence[Token]) -> Show:
    what = _word(tokens[1]).lower() if len(tokens) == 2 else ""
    if what not in _SHOWN:
        raise refusal(
            "DP103",
            "dpsql shows the budget, the tables or the settings",
            span=Span(tokens[1].start, tokens[-1].end + 1) if len(tokens) > 1 else _span(tokens[0]),
            repair="SHOW BUDGET, SHOW TABLES, SHOW SETTINGS; DESCRIBE t shows a table's columns."
            + nearest(what, _SHOWN),
        )
    return Show(what)


def _read_describe(tokens: Sequence[Token]) -> Describe:
    rest = tokens[1:]
    names = rest[::2]
    good = len(rest) in (1, 3) and all(t.token_type is TokenType.DOT for t in rest[1::2])
    good = good and all(t.token_type is TokenType.IDENTIFIER or _word(t) for t in names)
    if not good:
        at = Span(rest[0].start, rest[-1].end + 1) if rest else _span(tokens[0])
        repair = "DESCRIBE t; for a query, EXPLAIN SELECT ..."
        raise refusal("DP103", "DESCRIBE takes the name of a table", span=at, repair=repair)
    return Describe(".".join(t.text for t in names), Span(rest[0].start, rest[-1].end + 1))


def _word(token: Token) -> str:
    """An unquoted word in upper case, or ''."""
    quoted = token.token_type is TokenType.IDENTIFIER or token.token_type in _STRINGS
    return token.text.upper() if not quoted and _WORD.fullmatch(token.text) else ""


def _span(token: Token) -> Span:
    return Span(token.start, token.end + 1)
