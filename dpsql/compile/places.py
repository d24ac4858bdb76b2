"""Where in the analyst's text each node of a tree stands, so that a caret points at all that a refusal speaks of.

sqlglot notes the place of names, literals and of most calls. Missing are calls that it reads in a way of its own (MAX,
CAST, ...), words that are calls without parentheses (CURRENT_DATE), and the keywords with which a clause begins.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from dpsql.compile.canonical import span_of
from dpsql.compile.trees import WRITTEN, nodes

_BEGINNINGS: dict[type[exp.Expr], TokenType] = {
    exp.Select: TokenType.SELECT,
    exp.Limit: TokenType.LIMIT,
    exp.Offset: TokenType.OFFSET,
    exp.Order: TokenType.ORDER_BY,
    exp.Distinct: TokenType.DISTINCT,
    exp.TableSample: TokenType.TABLE_SAMPLE,
    exp.Lateral: TokenType.LATERAL,
}
"""The keyword that a clause begins with, a few tokens before its first leaf."""

_REACH = 4
"""How many tokens before its first leaf a clause can begin: DISTINCT ON ( (."""

_NO_CALLS = (exp.Binary, exp.Connector, exp.Case, exp.Exists, exp.Anonymous)
_NAMED: dict[type[exp.Expr], str] = {exp.Cast: "CAST", exp.TryCast: "TRY_CAST", exp.RegexpLike: "REGEXP"}
"""Calls that can also be written as operators, and how their name begins where they are not."""


def place(tree: exp.Query, tokens: Sequence[Token]) -> exp.Query:
    """The tree itself, its nodes placed in the text of these tokens."""
    placer = _Placer(tokens)
    for node in reversed(nodes(tree)):  # children first: a call begins before its first argument
        placer.complete(node)
    return tree


class _Placer:
    def __init__(self, tokens: Sequence[Token]):
        self.tokens = tokens
        self.index = {token.start: i for i, token in enumerate(tokens)}
        self.closing = dict(_closing(tokens))
        self.words: dict[str, list[Token]] = {}  # of each word, the tokens that no node has taken
        for token in tokens:
            self.words.setdefault(token.text.upper(), []).append(token)

    def complete(self, node: exp.Expr) -> None:
        """Note a node's place, as far as its own tokens tell it. Its children have theirs."""
        if isinstance(node, exp.Func):
            self._call(node)
        elif isinstance(node, exp.Window):
            self._window(node)
        elif isinstance(node, exp.Interval):
            self._interval(node)
        elif isinstance(node, exp.Bracket):
            span = span_of(node)
            closed = (t for t in self.tokens if span is not None and t.start >= span.end)
            end = next((t for t in closed if t.token_type is TokenType.R_BRACKET), None)
            if span is not None and end is not None:
                node.meta.update(start=span.start, end=end.end)
        elif type(node) in _BEGINNINGS:
            first = self._first(node)
            for token in reversed(self.tokens[max(0, first - _REACH) : first]):
                if token.token_type is _BEGINNINGS[type(node)]:
                    node.meta.update(start=token.start, end=token.end)
                    break

    def _call(self, node: exp.Func) -> None:
        start = node._meta.get("start") if node._meta else None
        if start is None and not isinstance(node, _NO_CALLS):
            name = self._name(node)
            start = name.start if name is not None else None
        if start is None or start not in self.index:
            return
        name = self.tokens[self.index[start]]
        node.meta.update(start=start, end=self.closing.get(start, name.end))
        node.meta[WRITTEN] = name.text

    def _name(self, node: exp.Func) -> Token | None:
        """The name of a call, before the parenthesis in which its first argument stands."""
        first = self._first(node)
        if first < 0:
            free = self.words.get(node.sql_name().upper())
            return free.pop() if free else None
        at = first - (3 if isinstance(node, exp.Extract) else 1)  # EXTRACT(year FROM d)
        while at > 0 and self.tokens[at].token_type in (TokenType.DISTINCT, TokenType.L_PAREN):
            before = self.tokens[at - 1]
            if before.start in self.closing and before.text.upper().startswith(_NAMED.get(type(node), "")):
                return before if before.text.isidentifier() else None
            at -= 1
        return None

    def _interval(self, node: exp.Interval) -> None:
        """INTERVAL and what follows it, since sqlglot makes a text without a place of a number there."""
        free = self.words.get("INTERVAL")
        if free:
            word, span = free.pop(), span_of(node)
            after = self.tokens[min(self.index[word.start] + 1, len(self.tokens) - 1)]
            node.meta.update(start=word.start, end=max(after.end, span.end - 1 if span is not None else 0))

    def _window(self, node: exp.Window) -> None:
        """A window reaches to the parenthesis behind OVER."""
        span = span_of(node.this)
        over = next((t for t in self.tokens if span is not None and t.start >= span.end), None)
        if span is not None and over is not None and over.token_type is TokenType.OVER and over.start in self.closing:
            node.meta.update(start=span.start, end=self.closing[over.start])

    def _first(self, node: exp.Expr) -> int:
        """The position of the first token of its leaves; -1 where none is known."""
        span = span_of(node)
        return self.index.get(span.start, -1) if span is not None else -1


def _closing(tokens: Sequence[Token]) -> Iterable[tuple[int, int]]:
    """(start of the token before a parenthesis, end of the parenthesis that closes it)."""
    opened: list[int] = []
    for before, token in pairwise(tokens):
        if token.token_type is TokenType.L_PAREN:
            opened.append(before.start)
        elif token.token_type is TokenType.R_PAREN and opened:
            yield opened.pop(), token.end
