"""From one query's text to a canonical tree.

Role: parse with sqlglot, put parameters in as typed literals, and repeat writing and reading until the tree stands
still. Promise: the tree that later passes see is exactly what its own SQL says, it means what the analyst's text meant
when it was read first, and nothing that the analyst wrote was lost on the way. Must not: know tables or functions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from dpsql.compile import essence
from dpsql.compile.canonical import Pair, alike, check_shape, plain, read, reread, same, span_of, wrapped, write
from dpsql.compile.parameters import Parameters, literals_for, number, put
from dpsql.compile.scan import scan, span_of_token, tokenize
from dpsql.errors import Error, refusal

__all__ = ["Parameters", "Parsed", "parse", "span_of"]

MAX_ROUNDS = 4

_COMPARISONS = {TokenType.EQ, TokenType.NEQ, TokenType.LT, TokenType.LTE, TokenType.GT, TokenType.GTE}
_COMPARISONS |= {TokenType.PLUS, TokenType.DASH, TokenType.STAR, TokenType.SLASH, TokenType.DIV, TokenType.MOD}
_COMPARISONS |= {TokenType.DPIPE, TokenType.LIKE, TokenType.ILIKE, TokenType.BETWEEN, TokenType.SIMILAR_TO}


@dataclass(frozen=True, slots=True)
class Parsed:
    """A canonical query. `text`: the analyst's, in which the spans of the tree's nodes count."""

    tree: exp.Query
    text: str


def parse(text: str, parameters: Parameters | None = None) -> Parsed:
    """The canonical tree of one query; DP101, DP103, DP104, DP105, DP106, DP231 or DP003 otherwise."""
    tokens = scan(text)
    _refuse_loose_not(tokens)
    numbered, slots = number(tokens)
    literals = literals_for(slots, parameters)
    first = plain(put(check_shape(read(numbered, text)), literals, slots))
    tree, canonical, pairs = _settle(first)
    lost, invented = essence.compare(
        numbered, tokenize(canonical), {name: tokenize(write(literal)) for name, literal in literals.items()}
    )
    if lost or invented:
        raise _unfaithful(lost, invented)
    _place(pairs, tokens)
    return Parsed(tree, text)


def _settle(first: exp.Query) -> tuple[exp.Query, str, list[Pair]]:
    """The tree that reads back as itself, its text, and its nodes beside those of the first reading. All readings must
    be alike: where one is not, parentheses were lacking (or something else is wrong with the statement)."""
    for start in (first, wrapped(first)):
        tree, text = start, write(start)
        for _ in range(MAX_ROUNDS):
            again = check_shape(reread(text))
            pairs = alike(again, first)
            if pairs is None:
                break
            if same(tree, again):
                return again, text, pairs
            tree, text = again, write(again)
    raise refusal("DP106", "the statement can be read in two ways", repair="put parentheses around its parts")


def _refuse_loose_not(tokens: Sequence[Token]) -> None:
    """`a = NOT b IS NULL`: sqlglot and DuckDB disagree on how far a NOT reaches that is an operand."""
    for i, token in enumerate(tokens[1:], 1):
        after_from = tokens[i - 1].token_type is TokenType.FROM and tokens[i - 2].token_type is TokenType.DISTINCT
        if token.token_type is TokenType.NOT and (tokens[i - 1].token_type in _COMPARISONS or (i > 1 and after_from)):
            repair = "put parentheses around NOT and what it is about"
            raise refusal("DP106", "the statement can be read in two ways", span=span_of_token(token), repair=repair)


def _unfaithful(lost: Sequence[Token], invented: Sequence[str]) -> Error:
    repair = "write it in another way, and give functions only the arguments they need"
    if lost:
        reason = f"{lost[0].text[:40]!r} would be lost or read as something else"
        return refusal("DP106", reason, span=span_of_token(lost[0]), repair=repair)
    return refusal("DP106", f"{invented[0][:40]!r} would have to be added to read this", repair=repair)


def _place(pairs: Sequence[Pair], tokens: Sequence[Token]) -> None:
    """Copy the analyst's positions onto the canonical tree; a call reaches to its closing parenthesis."""
    closing: dict[int, int] = {}
    opened: list[int] = []
    for before, token in pairwise(tokens):
        if token.token_type is TokenType.L_PAREN:
            opened.append(before.start)
        elif token.token_type is TokenType.R_PAREN and opened:
            closing[opened.pop()] = token.end
    for node, origin in pairs:
        node._meta = dict(origin._meta) if origin._meta else None
        if node._meta and isinstance(node, exp.Func) and node._meta.get("start") in closing:
            node._meta["end"] = closing[node._meta["start"]]
