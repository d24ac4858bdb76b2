"""BigQuery's clause: SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, max_groups_contributed = 2) ...

Role: sqlglot cannot read it, so it is taken out of the tokens, and noted at the SELECT that it stood in once there is a
tree. Promise: every clause is noted at its own SELECT, and is used by a release, or refused (DP120); the rest of the
text keeps its places. Must not: know the policy or prices. Meaning and names: GoogleSQL, query syntax, differential
privacy clause.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from dpsql.compile.scan import CLOSING, OPENING, STRINGS, span_of_token
from dpsql.compile.trees import nodes
from dpsql.errors import Error, Span, nearest, refusal
from dpsql.privacy.accounting import parse_amount

CLAUSE = "clause"
"""In a SELECT's meta: its `Clause`."""

PUBLIC_GROUPS = "PUBLIC_GROUPS"
_STRATEGIES = ("LAPLACE_THRESHOLD", PUBLIC_GROUPS)

_NAME = "DIFFERENTIAL_PRIVACY"
_EXAMPLE = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 0.5, max_groups_contributed = 2) ..."
_AMOUNTS = ("epsilon", "delta")
_LIMITS = {"max_groups_contributed": "max_groups_per_unit", "max_rows_contributed": "max_rows_per_unit"}
"""The options that limit what a unit adds, and what they are called in policies."""

_OPTIONS = (
    *_AMOUNTS,
    *_LIMITS,
    "privacy_unit_column",
    "group_selection_strategy",
    "min_privacy_units_per_group",
)
_MOST = 1 << 31
_MARK = "\0clause "  # no text can hold a NUL (see `scan`)


@dataclass(frozen=True, slots=True)
class Clause:
    """What a SELECT asks for; None where an option is not there.

    limits: by the policy's names; None = NULL, not limited so. unit: the column that is to be the privacy unit, by its
    parts. public_groups: whether all groups have to be public. min_units: of a group that is shown. span: of the whole;
    spans: of each option's value.
    """

    span: Span
    epsilon: Fraction | None = None
    delta: Fraction | None = None
    limits: Mapping[str, int | None] = field(default_factory=dict)
    unit: tuple[str, ...] = ()
    public_groups: bool = False
    min_units: int | None = None
    spans: Mapping[str, Span] = field(default_factory=dict)

    @property
    def is_priced(self) -> bool:
        """Whether it has a price of its own; otherwise its release shares that of the statement."""
        return self.epsilon is not None or self.delta is not None

    def span_of(self, option: str) -> Span:
        """Where an option's value stands, by its name here or in policies; the whole clause where it is not there."""
        names = {policy: name for name, policy in _LIMITS.items()}
        return self.spans.get(names.get(option, option), self.span)

    def __hash__(self) -> int:
        return hash(self.span)


def option_of(limit: str) -> str:
    """What a limit of the policy is called in a clause."""
    return next(name for name, policy in _LIMITS.items() if policy == limit)


@dataclass(frozen=True, slots=True)
class Taken:
    """A text without its clauses, of the same length, its tokens, and the clauses by where their SELECTs are."""

    text: str
    tokens: Sequence[Token]
    clauses: Mapping[int, Clause]


def take(text: str, tokens: Sequence[Token]) -> Taken:
    """The text without its clauses, for which blanks stand. Raises DP120 for those that are not well written."""
    found: dict[int, Clause] = {}
    kept: list[Token] = []
    rest = 0  # the first token that is not dealt with
    for i, token in enumerate(tokens):
        if i < rest or token.token_type is not TokenType.WITH or not i:
            continue
        before = tokens[i - 1]
        if before.token_type in (TokenType.DISTINCT, TokenType.ALL) and _word(tokens, i + 1) == _NAME:
            repair = f"write SELECT WITH {_NAME} OPTIONS(...) {before.text.upper()}"
            raise _wrong("the clause stands right behind SELECT", _across(tokens, i, i + 1), repair)
        if before.token_type is not TokenType.SELECT:
            continue
        last = _check_name(tokens, i)
        options: Sequence[tuple[Token, Sequence[Token]]] = ()
        if _word(tokens, last + 1) == "OPTIONS" and _kind(tokens, last + 2) is TokenType.L_PAREN:
            options, last = _split(tokens, last + 2)
        found[before.start] = _read(text, options, _across(tokens, i, last))
        kept += tokens[rest:i]
        rest = last + 1
        start, end = token.start, tokens[last].end + 1
        text = text[:start] + re.sub(r"[^\r\n]", " ", text[start:end]) + text[end:]
    return Taken(text, [*kept, *tokens[rest:]] if found else tokens, found)


def marked(tokens: Sequence[Token], clauses: Collection[int]) -> list[Token]:
    """The tokens with one more item at the head of the list of every SELECT that had a clause: a text that no analyst
    can write, so that the parser itself says which SELECT that is. `put` takes it away again."""
    found: list[Token] = []
    waiting: int | None = None
    for token in tokens:
        if waiting is not None and token.token_type not in (TokenType.DISTINCT, TokenType.ALL):
            place = (token.line, token.col, token.start, token.start)
            found.append(Token(TokenType.STRING, f"{_MARK}{waiting}", *place))
            found.append(Token(TokenType.COMMA, ",", *place))
            waiting = None
        found.append(token)
        if token.token_type is TokenType.SELECT and token.start in clauses:
            waiting = token.start
    return found


def put(tree: exp.Query, clauses: Mapping[int, Clause]) -> exp.Query:
    """The tree itself, without marks, its clauses noted at their SELECTs. Raises DP120 for one that stood in none."""
    waiting = dict(clauses)
    for node in nodes(tree) if waiting else ():
        first = node.expressions[0] if isinstance(node, exp.Select) and node.expressions else None
        if isinstance(first, exp.Literal) and first.is_string and first.name.startswith(_MARK):
            clause = waiting.pop(int(first.name.removeprefix(_MARK)), None)
            if clause is None or len(node.expressions) == 1:
                span, repair = clause.span if clause is not None else None, "write what is to be counted: COUNT(*)"
                raise refusal("DP101", "SELECT lists nothing", span=span, repair=repair)
            node.set("expressions", node.expressions[1:])
            node.meta[CLAUSE] = clause
    check_spent(waiting.values(), ())
    return tree


def clause_of(node: exp.Expr) -> Clause | None:
    """The clause of a SELECT."""
    found = node._meta.get(CLAUSE) if node._meta else None
    return found if isinstance(found, Clause) else None


def check_spent(asked: Iterable[Clause], spent: Iterable[Clause]) -> None:
    """Raises DP120 for the first clause whose SELECT gives no result with noise."""
    known = {clause.span for clause in spent}
    for clause in sorted(asked, key=lambda c: c.span.start):
        if clause.span not in known:
            reason = "the clause belongs to a SELECT that aggregates private rows over units, and this one does not"
            repair = "leave it out here: public rows are exact and free, and rows of one unit get no noise"
            raise refusal("DP120", reason, span=clause.span, repair=repair)


def _check_name(tokens: Sequence[Token], at: int) -> int:
    """The position of the clause's name behind the WITH at this one."""
    word = _word(tokens, at + 1)
    if word == _NAME:
        return at + 1
    span = _across(tokens, at, min(at + 1, len(tokens) - 1))
    if word == "ANONYMIZATION":
        raise _wrong("ANONYMIZATION is BigQuery's old name of this clause", span, f"write {_NAME}")
    reason = f"only {_NAME} follows SELECT WITH{nearest(word, [_NAME])}"
    raise refusal("DP101", reason, span=span, repair=_EXAMPLE)


def _split(tokens: Sequence[Token], opened: int) -> tuple[list[tuple[Token, Sequence[Token]]], int]:
    """(name, tokens of the value) of each option in the parentheses that open here, and where they close."""
    parts: list[list[Token]] = [[]]
    depth, at = 0, opened + 1
    while at < len(tokens):
        token = tokens[at]
        if depth == 0 and token.token_type is TokenType.R_PAREN:
            break
        depth += (token.token_type in OPENING) - (token.token_type in CLOSING)
        if depth == 0 and token.token_type is TokenType.COMMA:
            parts.append([])
        else:
            parts[-1].append(token)
        at += 1
    if at == len(tokens):
        raise _wrong("OPTIONS( is not closed", span_of_token(tokens[opened]), "write OPTIONS(epsilon = 0.5)")
    if parts == [[]]:
        return [], at
    found: list[tuple[Token, Sequence[Token]]] = []
    for part in parts:
        if len(part) < 3 or not _is_word(part[0]) or part[1].token_type is not TokenType.EQ:
            span = _across(part, 0, -1) if part else span_of_token(tokens[at])
            raise _wrong("an option is written name = constant", span, "write OPTIONS(epsilon = 0.5)")
        found.append((part[0], part[2:]))
    return found, at


def _read(text: str, options: Sequence[tuple[Token, Sequence[Token]]], span: Span) -> Clause:
    amounts: dict[str, Fraction] = {}
    limits: dict[str, int | None] = {}
    spans: dict[str, Span] = {}
    unit: tuple[str, ...] = ()
    public_groups, min_units = False, None
    for name, value in options:
        option, at = name.text.lower(), _across(value, 0, -1)
        if option not in _OPTIONS:
            hint = nearest(option, _OPTIONS)
            if option == "kappa":
                hint = '. Did you mean "max_groups_contributed"?'
            reason = f"the clause has no option {name.text[:40]}{hint}"
            raise _wrong(reason, span_of_token(name), f"the options are: {', '.join(_OPTIONS)}")
        if option in spans:
            raise _wrong(f"{option} stands here twice", span_of_token(name), "leave one of them out")
        spans[option] = at
        if option in _AMOUNTS:
            amounts[option] = _amount(option, text[at.start : at.end], at)
        elif option in _LIMITS:
            limits[_LIMITS[option]] = _whole(option, value, at, nullable=True)
        elif option == "min_privacy_units_per_group":
            min_units = _whole(option, value, at)
        elif option == "privacy_unit_column":
            unit = _path(value, at)
        else:
            public_groups = _strategy(value, at) == PUBLIC_GROUPS
    return Clause(
        span,
        amounts.get("epsilon"),
        amounts.get("delta"),
        limits,
        unit,
        public_groups=public_groups,
        min_units=min_units,
        spans=spans,
    )


def _amount(option: str, written: str, span: Span) -> Fraction:
    if option == "delta" and re.fullmatch(r"0+(\.0*)?|\.0+", written):
        return Fraction(0)
    try:
        return parse_amount(written, what=option)
    except Error as error:
        error.span, error.repair = span, f"write {option} = {'0.1' if option == 'epsilon' else '1e-6'}, a constant"
        raise


def _whole(option: str, value: Sequence[Token], span: Span, *, nullable: bool = False) -> int | None:
    if nullable and len(value) == 1 and value[0].token_type is TokenType.NULL:
        return None
    written = value[0].text if len(value) == 1 and value[0].token_type is TokenType.NUMBER else ""
    if not written.isascii() or not written.isdigit() or len(written) > 10 or not 1 <= int(written) <= _MOST:
        reason = f"{option} is a whole number from 1 on{', or NULL' if nullable else ''}, written out"
        raise _wrong(reason, span, f"write {option} = 2")
    return int(written)


def _path(value: Sequence[Token], span: Span) -> tuple[str, ...]:
    names, dots = value[::2], value[1::2]
    named = all(t.token_type is TokenType.IDENTIFIER or _is_word(t) for t in names)
    if not named or len(names) != len(dots) + 1 or any(t.token_type is not TokenType.DOT for t in dots):
        reason = "privacy_unit_column is the name of a column"
        raise _wrong(reason, span, "write privacy_unit_column = user_id, or leave it out")
    return tuple(t.text for t in names)


def _strategy(value: Sequence[Token], span: Span) -> str:
    written = value[0].text.upper() if len(value) == 1 else ""
    if written not in _STRATEGIES:
        reason = f"no group_selection_strategy of this name{nearest(written, _STRATEGIES)}"
        raise _wrong(reason, span, f"write {' or '.join(_STRATEGIES)}")
    return written


def _is_word(token: Token) -> bool:
    quoted = token.token_type is TokenType.IDENTIFIER or token.token_type in STRINGS
    return not quoted and token.text.isidentifier()


def _word(tokens: Sequence[Token], at: int) -> str:
    """The unquoted word at a position, in upper case, or ''."""
    return tokens[at].text.upper() if at < len(tokens) and _is_word(tokens[at]) else ""


def _kind(tokens: Sequence[Token], at: int) -> TokenType | None:
    return tokens[at].token_type if at < len(tokens) else None


def _across(tokens: Sequence[Token], first: int, last: int) -> Span:
    return Span(tokens[first].start, tokens[last].end + 1)


def _wrong(reason: str, span: Span, repair: str) -> Error:
    return refusal("DP120", reason, span=span, repair=repair)
