"""Named arguments of aggregates: COUNT(*, epsilon => 0.1), SUM(x, contribution_bounds_per_group => (0, 100)).

Role: sqlglot has no named argument in most aggregates, so they are taken out of the tokens before it reads them, and
put to the calls that they stood in once there is a tree. Promise: what looks like one is taken, put to a call, and
spent by an aggregate that gets noise, or refused (DP120); the rest of the text keeps its places. Must not: know prices.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from dpsql.compile.scan import CLOSING, OPENING, STRICT_NUMBER, STRINGS, span_of_token
from dpsql.compile.trees import nodes
from dpsql.errors import Error, Span, nearest, refusal
from dpsql.privacy.accounting import parse_amount

HINT = "hint"
"""In a call's meta: its `Arguments`."""

_EPSILON, PER_ROW, PER_GROUP = _NAMES = ("epsilon", "contribution_bounds_per_row", "contribution_bounds_per_group")
_EXAMPLES = {_EPSILON: "COUNT(*, epsilon => 0.1)", **dict.fromkeys((PER_ROW, PER_GROUP), "SUM(x, {} => (0, 100))")}
_NAMES_MEANT = ("eps", "e", "ε", "budget", "privacy_budget")
_DID_YOU_MEAN = "did you mean epsilon => 0.1, last in the parentheses of an aggregate?"
_ARROWS = {TokenType.FARROW, TokenType.COLON_EQ}
_NUMBER = {TokenType.NUMBER, TokenType.DOT}
_LARGEST = 10**30
"""Of a bound, whose digits are written out."""


@dataclass(frozen=True, slots=True)
class Hint:
    """The share of epsilon that an aggregate is to have. span: of the hint, from its name to its number."""

    share: Fraction
    span: Span

    @property
    def name(self) -> str:
        return _EPSILON


@dataclass(frozen=True, slots=True)
class Bounds:
    """Between which numbers something is clamped. name: PER_ROW or PER_GROUP. span: from the name to the numbers."""

    name: str
    lo: Fraction
    hi: Fraction
    span: Span


@dataclass(frozen=True, slots=True)
class Arguments:
    """The named arguments of one call."""

    given: tuple[Hint | Bounds, ...] = ()

    @property
    def hint(self) -> Hint | None:
        return next((a for a in self.given if isinstance(a, Hint)), None)

    @property
    def per_row(self) -> Bounds | None:
        return next((a for a in self.given if isinstance(a, Bounds) and a.name == PER_ROW), None)

    @property
    def per_group(self) -> Bounds | None:
        return next((a for a in self.given if isinstance(a, Bounds) and a.name == PER_GROUP), None)


@dataclass(frozen=True, slots=True)
class Taken:
    """A text without its named arguments, of the same length, its tokens, and what was taken by where the names of the
    calls are."""

    text: str
    tokens: Sequence[Token]
    hints: Mapping[int, Arguments]

    @property
    def given(self) -> tuple[Hint | Bounds, ...]:
        return tuple(argument for found in self.hints.values() for argument in found.given)


def take(text: str, tokens: Sequence[Token]) -> Taken:
    """The text without its named arguments, for which blanks stand. Raises DP120 for those that are not well
    written."""
    hints: dict[int, Arguments] = {}
    kept: list[Token] = []
    opened: list[int] = []
    rest = 0  # the first token that is not dealt with
    for i, token in enumerate(tokens):
        if i < rest:
            continue
        if token.token_type in OPENING:
            opened.append(i)
        elif token.token_type in CLOSING and opened:
            opened.pop()
        elif token.token_type in _ARROWS and i and _is_nearly(tokens[i - 1 : i + 1], tokens[i + 1 : i + 2]):
            span = Span(tokens[i - 1].start, token.end + 1)
            called = tokens[i - 1].text[:40]
            right = called.lower() == _EPSILON
            reason = "epsilon is written with =>" if right else f"no argument is called {called}"
            raise refusal("DP120", reason, span=span, repair=_DID_YOU_MEAN)
        elif token.token_type is TokenType.FARROW and i and _name(tokens[i - 1]):
            last = _last(tokens, i, opened[-1] if opened else -1)
            at = tokens[opened[-1] - 1].start
            hints[at] = _with(hints.get(at, Arguments()), text, tokens[i - 1 : last + 1])
            kept += tokens[rest : i - 2]
            rest = last + 1
            start, end = tokens[i - 2].start, tokens[last].end + 1
            text = text[:start] + re.sub(r"[^\r\n]", " ", text[start:end]) + text[end:]
    return Taken(text, [*kept, *tokens[rest:]] if hints else tokens, hints)


def put(tree: exp.Query, hints: Mapping[int, Arguments]) -> None:
    """Note the named arguments at the calls of a placed tree. Raises DP120 for those that stood in no call."""
    waiting = dict(hints)
    for node in nodes(tree) if waiting else ():
        start = node._meta.get("start") if isinstance(node, exp.Func) and node._meta else None
        if start in waiting:
            node.meta[HINT] = waiting.pop(start)
    check_spent([argument for found in waiting.values() for argument in found.given], ())


def arguments_of(call: exp.Expr) -> Arguments:
    """The named arguments of a call."""
    found = call._meta.get(HINT) if call._meta else None
    return found if isinstance(found, Arguments) else Arguments()


def check_spent(asked: Iterable[Hint | Bounds], spent: Iterable[Hint | Bounds]) -> None:
    """Raises DP120 for the first argument that no aggregate with noise of its own has."""
    known = set(spent)
    for argument in sorted(asked, key=lambda a: a.span.start):
        if argument not in known:
            reason = f"{argument.name} => is for aggregates that noise is added to, and to this none is added"
            raise refusal("DP120", reason, span=argument.span, repair="leave it out here")


def _name(token: Token) -> str:
    """The named argument that a token is the name of, or ''."""
    name = token.text.lower()
    if token.token_type is TokenType.IDENTIFIER or token.token_type in STRINGS:
        return ""
    if name not in _NAMES and name.startswith("contribution_"):
        reason = f"no named argument {token.text[:40]}{nearest(name, _NAMES)}"
        raise refusal("DP120", reason, span=span_of_token(token), repair=f"there are {', '.join(_NAMES)}")
    return name if name in _NAMES else ""


def _with(found: Arguments, text: str, tokens: Sequence[Token]) -> Arguments:
    """These arguments, and the one that these tokens are."""
    name, span = _name(tokens[0]), Span(tokens[0].start, tokens[-1].end + 1)
    if any(argument.name == name for argument in found.given):
        raise _misplaced(f"one {name} => is enough", tokens[:2], "leave one of them out")
    value = Hint(_share(text, tokens), span) if name == _EPSILON else _bounds(name, text, tokens)
    return Arguments((*found.given, value))


def _is_nearly(called: Sequence[Token], value: Sequence[Token]) -> bool:
    """Whether `name =>` or `name :=` before a number is a slip of the pen for `epsilon =>`."""
    name, arrow = called
    if name.token_type is not TokenType.VAR or not value or value[0].token_type is not TokenType.NUMBER:
        return False
    right = name.text.lower() == _EPSILON
    close = name.text.lower() in _NAMES_MEANT or bool(nearest(name.text, [_EPSILON]))
    return close and not (right and arrow.token_type is TokenType.FARROW)


def _last(tokens: Sequence[Token], arrow: int, opened: int) -> int:
    """The position of the last token of a named argument. None but such stand behind it, and one that is not stands
    before it."""
    end, depth = arrow + 1, 0
    while end < len(tokens) and (depth or tokens[end].token_type not in (TokenType.COMMA, *CLOSING)):
        kind = tokens[end].token_type
        depth += (kind in OPENING) - (kind in CLOSING)
        end += 1
    called = opened > 0 and tokens[opened].token_type is TokenType.L_PAREN
    behind = arrow - 3 > opened and tokens[arrow - 2].token_type is TokenType.COMMA
    behind = behind and tokens[arrow - 3].token_type is not TokenType.COMMA
    closed = end < len(tokens) and (tokens[end].token_type is TokenType.R_PAREN or _follows(tokens, end))
    if not called or not behind or not closed:
        name = _name(tokens[arrow - 1])
        reason = f"{name} => stands last in the parentheses of an aggregate, behind a comma"
        raise _misplaced(reason, tokens[arrow - 1 : arrow + 1], f"write {_EXAMPLES[name].format(name)}")
    return end - 1


def _follows(tokens: Sequence[Token], comma: int) -> bool:
    """Whether another named argument follows behind a comma."""
    following = tokens[comma : comma + 3]
    kinds = [t.token_type for t in following]
    return len(kinds) == 3 and kinds[::2] == [TokenType.COMMA, TokenType.FARROW] and bool(_name(following[1]))


def _misplaced(reason: str, tokens: Sequence[Token], repair: str) -> Error:
    return refusal("DP120", reason, span=Span(tokens[0].start, tokens[-1].end + 1), repair=repair)


def _bounds(name: str, text: str, tokens: Sequence[Token]) -> Bounds:
    """What the tokens of an argument say: name, arrow, (lo, hi)."""
    value = tokens[2:]
    at = Span(value[0].start, value[-1].end + 1) if value else span_of_token(tokens[1])
    written = text[at.start : at.end]
    parts = written[1:-1].split(",") if written.startswith("(") and written.endswith(")") else []
    found = [bound for part in parts if (bound := _bound(part.strip())) is not None]
    if len(parts) != 2 or len(found) != 2:
        reason = f"{name} => takes two plain numbers, (lowest, highest)"
        raise refusal("DP120", reason, span=at, repair=f"write {name} => (0, 100)")
    lo, hi = found
    if lo > hi:
        reason = f"the lowest of these bounds is above the highest: {parts[0].strip()} > {parts[1].strip()}"
        raise refusal("DP120", reason, span=at, repair=f"write {name} => ({parts[1].strip()}, {parts[0].strip()})")
    return Bounds(name, lo, hi, Span(tokens[0].start, at.end))


def _bound(written: str) -> Fraction | None:
    """A number with its sign, written out; None where it is none, or beyond 10^30."""
    sign, digits = (-1, written[1:].lstrip()) if written.startswith("-") else (1, written)
    if len(digits) > 60 or not STRICT_NUMBER.fullmatch(digits) or "e" in digits.lower():
        return None
    value = sign * Fraction(digits)
    return value if abs(value) <= _LARGEST else None


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
