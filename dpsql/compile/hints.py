"""Shares of epsilon that stand in the text: COUNT(*, epsilon => 0.1).

Role: sqlglot has no named argument in most aggregates, so hints are taken out of the tokens before it reads them, and
put to the calls that they stood in once there is a tree. Promise: what looks like a hint is taken, put to a call, and
spent by an aggregate that gets noise, or refused (DP120); the rest of the text keeps its places. Must not: know prices.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from dpsql.compile.scan import CLOSING, OPENING, STRINGS, span_of_token
from dpsql.compile.trees import nodes
from dpsql.errors import Error, Span, refusal
from dpsql.privacy.accounting import parse_amount

HINT = "hint"
"""In a call's meta: its `Hint`."""

_NAME = "EPSILON"
_NUMBER = {TokenType.NUMBER, TokenType.DOT}


@dataclass(frozen=True, slots=True)
class Hint:
    """The share of epsilon that an aggregate is to have. span: of the hint, from its name to its number."""

    share: Fraction
    span: Span


@dataclass(frozen=True, slots=True)
class Taken:
    """A text without its hints, of the same length, its tokens, and the hints by where the names of their calls are."""

    text: str
    tokens: Sequence[Token]
    hints: Mapping[int, Hint]


def take(text: str, tokens: Sequence[Token]) -> Taken:
    """The text without its hints, for which blanks stand. Raises DP120 for those that are not well written."""
    hints: dict[int, Hint] = {}
    kept: list[Token] = []
    opened: list[int] = []
    rest = 0  # the first token that is not dealt with
    for i, token in enumerate(tokens):
        if token.token_type in OPENING:
            opened.append(i)
        elif token.token_type in CLOSING and opened:
            opened.pop()
        elif token.token_type is TokenType.FARROW and i and _is_name(tokens[i - 1]):
            last = _last(tokens, i, opened[-1] if opened else -1)
            hint = Hint(_share(text, tokens[i - 1 : last + 1]), Span(tokens[i - 1].start, tokens[last].end + 1))
            hints[tokens[opened[-1] - 1].start] = hint
            kept += tokens[rest : i - 2]
            rest = last + 1
            start, end = tokens[i - 2].start, tokens[last].end + 1
            text = text[:start] + re.sub(r"[^\r\n]", " ", text[start:end]) + text[end:]
    return Taken(text, [*kept, *tokens[rest:]] if hints else tokens, hints)


def put(tree: exp.Query, hints: Mapping[int, Hint]) -> None:
    """Note the hints at the calls of a placed tree. Raises DP120 for one that stood in no call."""
    waiting = dict(hints)
    for node in nodes(tree) if waiting else ():
        start = node._meta.get("start") if isinstance(node, exp.Func) and node._meta else None
        if start in waiting:
            node.meta[HINT] = waiting.pop(start)
    check_spent(waiting.values(), ())


def hint_of(call: exp.Expr) -> Hint | None:
    """The hint of a call."""
    found = call._meta.get(HINT) if call._meta else None
    return found if isinstance(found, Hint) else None


def check_spent(asked: Iterable[Hint], spent: Iterable[Hint]) -> None:
    """Raises DP120 for the first hint that no aggregate with noise of its own has."""
    known = set(spent)
    for hint in sorted(asked, key=lambda h: h.span.start):
        if hint not in known:
            reason = "epsilon => is for aggregates that noise is added to, and to this none is added"
            raise refusal("DP120", reason, span=hint.span, repair="leave it out here")


def _is_name(token: Token) -> bool:
    quoted = token.token_type is TokenType.IDENTIFIER or token.token_type in STRINGS
    return not quoted and token.text.upper() == _NAME


def _last(tokens: Sequence[Token], arrow: int, opened: int) -> int:
    """The position of the last token of a hint, which is the last argument of a call, and not the only one."""
    end, depth = arrow + 1, 0
    while end < len(tokens) and (depth or tokens[end].token_type not in (TokenType.COMMA, *CLOSING)):
        kind = tokens[end].token_type
        depth += (kind in OPENING) - (kind in CLOSING)
        end += 1
    called = opened > 0 and tokens[opened].token_type is TokenType.L_PAREN
    behind = arrow - 3 > opened and tokens[arrow - 2].token_type is TokenType.COMMA
    behind = behind and tokens[arrow - 3].token_type is not TokenType.COMMA
    if end < len(tokens) and tokens[end].token_type is TokenType.COMMA and _repeats(tokens, end):
        raise _misplaced("one epsilon => is enough", tokens[arrow - 1 : arrow + 1], "leave one of them out")
    if not called or not behind or end == len(tokens) or tokens[end].token_type is not TokenType.R_PAREN:
        reason = "epsilon => stands last in the parentheses of an aggregate, behind a comma"
        raise _misplaced(reason, tokens[arrow - 1 : arrow + 1], "write COUNT(*, epsilon => 0.1)")
    return end - 1


def _repeats(tokens: Sequence[Token], comma: int) -> bool:
    """Whether another hint follows."""
    following = tokens[comma + 1 : comma + 3]
    return len(following) == 2 and _is_name(following[0]) and following[1].token_type is TokenType.FARROW


def _misplaced(reason: str, tokens: Sequence[Token], repair: str) -> Error:
    return refusal("DP120", reason, span=Span(tokens[0].start, tokens[-1].end + 1), repair=repair)


def _share(text: str, tokens: Sequence[Token]) -> Fraction:
    """What the tokens of a hint say: name, arrow, number."""
    value = tokens[2:]
    span = Span(value[0].start, value[-1].end + 1) if value else span_of_token(tokens[1])
    if not value or any(token.token_type not in _NUMBER for token in value):
        reason = "a share of epsilon is a plain decimal number above 0, written out"
        raise refusal("DP120", reason, span=span, repair="write epsilon => 0.1")
    try:
        return parse_amount(text[span.start : span.end], what="a share of epsilon")
    except Error as error:
        error.span = span
        raise
