"""From text to one statement, on tokens alone.

Role: split scripts, and tell SELECT from EXPLAIN, SET, RESET, SHOW and DESCRIBE. Promise: one statement comes out, or
a typed refusal that says what to write instead. Must not: build a tree, or know the policy.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from sqlglot.tokenizer_core import Token, TokenType

from dpsql.compile.misread import FOR_PIVOT, FOR_UNPIVOT
from dpsql.compile.scan import STRINGS, WORD, scan, span_of_token, tokenize
from dpsql.errors import Span, nearest, refusal

MAX_SCRIPT = 10_000_000
MAX_PADDED = 100_000_000
"""Characters of all padded statements of a script together: 100,000 of them on one line would be gigabytes."""


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
        ("PIVOT PIVOT_WIDER", FOR_PIVOT),
        ("UNPIVOT PIVOT_LONGER", FOR_UNPIVOT),
        ("TABLE", "write SELECT * FROM the table"),
    )
    for verb in verbs.split()
}


def split(script: str, name: str = "") -> list[Source]:
    """The statements of a script, in order; those without any token (blank, comments) are left out."""
    if len(script) > MAX_SCRIPT:
        raise refusal("DP104", f"the script has more than {MAX_SCRIPT:,} characters", repair="split it")
    sources: list[Source] = []
    first: Token | None = None
    last: Token | None = None
    line, counted, padded = 0, 0, 0
    for token in [*tokenize(script, name), None]:
        if token is not None and token.token_type is not TokenType.SEMICOLON:
            first, last = first or token, token
        elif first is not None and last is not None:
            start = first.start
            line, counted = line + script.count("\n", counted, start), start
            column = start - (script.rfind("\n", 0, start) + 1)
            padded += line + column + last.end + 1 - start
            if padded > MAX_PADDED:
                reason, repair = "the script has too many statements", "split it into several scripts"
                raise refusal("DP104", reason, span=span_of_token(first), repair=repair)
            sources.append(Source(script[start : last.end + 1], start, line, column, name))
            first = last = None
    return sources


def read(text: str) -> Statement:
    """The one statement that `text` holds."""
    tokens = list(scan(text))
    while tokens and tokens[-1].token_type is TokenType.SEMICOLON:
        tokens.pop()
    while tokens and tokens[0].token_type is TokenType.SEMICOLON:
        tokens.pop(0)
    if not tokens:
        raise refusal("DP101", "there is no statement here", repair=_STATEMENTS)
    for before, token in pairwise(tokens):
        if before.token_type is TokenType.SEMICOLON and token.token_type is not TokenType.SEMICOLON:
            raise refusal(
                "DP102", "one statement at a time", span=span_of_token(token), repair="execute them one by one"
            )
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
        raise refusal("DP101", "a statement starts with a verb", span=span_of_token(tokens[0]), repair=_STATEMENTS)
    raise refusal(
        "DP103",
        f"dpsql does not run {verb[:40]} statements",
        span=span_of_token(tokens[0]),
        repair=_REPAIRS.get(verb, _STATEMENTS + nearest(verb, known)),
    )


def _read_explain(text: str, tokens: Sequence[Token]) -> Explain:
    if len(tokens) == 1:
        raise refusal("DP101", "EXPLAIN needs a query", span=span_of_token(tokens[0]), repair="EXPLAIN SELECT ...")
    inner = tokens[1]
    after = _word(tokens[2]) if len(tokens) > 2 else ""
    query = _word(inner) in _QUERY_VERBS or (
        inner.token_type is TokenType.L_PAREN and (after in _QUERY_VERBS or tokens[2].token_type is TokenType.L_PAREN)
    )
    if not query:
        raise refusal(
            "DP103",
            f"dpsql explains queries only, not EXPLAIN {_word(inner)[:40]}".rstrip(),
            span=span_of_token(inner),
            repair="EXPLAIN SELECT ... shows the plan, its price and its expected error, for free",
        )
    return Explain(re.sub(r"[^\n]", " ", text[: inner.start]) + text[inner.start :])


def _read_set(tokens: Sequence[Token]) -> Set:
    form = "SET name = literal, for instance SET epsilon = 0.1; SHOW SETTINGS lists the names"
    if len(tokens) < 2 or not _word(tokens[1]):
        raise refusal("DP120", "SET needs the name of a setting", span=span_of_token(tokens[0]), repair=form)
    name = tokens[1]
    if len(tokens) < 3 or not (tokens[2].token_type is TokenType.EQ or _word(tokens[2]) == "TO"):
        raise refusal("DP120", "SET is written with = or TO", span=span_of_token(name), repair=form)
    value = list(tokens[3:])
    sign = ""
    if [t.token_type for t in value] == [TokenType.DASH, TokenType.NUMBER]:
        sign = value.pop(0).text
    literal = len(value) == 1 and (value[0].token_type in (TokenType.NUMBER, TokenType.STRING) or bool(_word(value[0])))
    if not literal:
        at = Span(tokens[3].start, tokens[-1].end + 1) if len(tokens) > 3 else span_of_token(tokens[-1])
        raise refusal("DP120", "SET takes a literal, not an expression", span=at, repair=form)
    return Set(name.text.lower(), sign + value[0].text, span_of_token(name), Span(tokens[3].start, tokens[-1].end + 1))


def _read_reset(tokens: Sequence[Token]) -> Reset:
    if len(tokens) != 2 or not _word(tokens[1]):
        at = span_of_token(tokens[-1])
        raise refusal("DP120", "RESET takes the name of a setting, or ALL", span=at, repair="RESET epsilon")
    name = _word(tokens[1])
    return Reset(None if name == "ALL" else name.lower(), span_of_token(tokens[1]))


def _read_show(tokens: Sequence[Token]) -> Show:
    what = _word(tokens[1]).lower() if len(tokens) == 2 else ""
    if what not in _SHOWN:
        raise refusal(
            "DP103",
            "dpsql shows the budget, the tables or the settings",
            span=Span(tokens[1].start, tokens[-1].end + 1) if len(tokens) > 1 else span_of_token(tokens[0]),
            repair="SHOW BUDGET, SHOW TABLES, SHOW SETTINGS; DESCRIBE t shows a table's columns"
            + nearest(what, _SHOWN),
        )
    return Show(what)


def _read_describe(tokens: Sequence[Token]) -> Describe:
    rest = tokens[1:]
    names = rest[::2]
    good = len(rest) in (1, 3) and all(t.token_type is TokenType.DOT for t in rest[1::2])
    good = good and all(t.token_type is TokenType.IDENTIFIER or _word(t) for t in names)
    if not good:
        at = Span(rest[0].start, rest[-1].end + 1) if rest else span_of_token(tokens[0])
        repair = "DESCRIBE t; for a query, EXPLAIN SELECT ..."
        raise refusal("DP103", "DESCRIBE takes the name of a table", span=at, repair=repair)
    return Describe(".".join(t.text for t in names), Span(rest[0].start, rest[-1].end + 1))


def _word(token: Token) -> str:
    """An unquoted word in upper case, or ''."""
    quoted = token.token_type is TokenType.IDENTIFIER or token.token_type in STRINGS
    return token.text.upper() if not quoted and WORD.fullmatch(token.text) else ""
