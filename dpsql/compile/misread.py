"""Why a text is no SQL: what sqlglot's parser stumbled over, in words of the text alone.

Keywords that are almost there, calls with too many or too few arguments, quotes and forms of other databases.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from sqlglot.tokenizer_core import Token, TokenType

from dpsql.errors import Error, Span, nearest, refusal

FOR_PIVOT = "write a column for each value: SELECT k, SUM(x) FILTER (WHERE c = 'a') AS a, ... GROUP BY k"
FOR_UNPIVOT = "write a SELECT for each column, with UNION ALL between them"

_KEYWORDS = "SELECT FROM WHERE GROUP ORDER HAVING LIMIT OFFSET JOIN LEFT RIGHT INNER USING DISTINCT UNION".split()
_ORDER = "the order is SELECT, FROM, WHERE, GROUP BY, HAVING, ORDER BY, LIMIT"
_ALIKE = 0.7
_ARGUMENTS = re.compile(r"arguments \((\d+)\) is greater than the maximum number of supported arguments \((\d+)\)")


def syntax_error(said: str, span: Span | None, tokens: Sequence[Token], text: str) -> Error:
    """The refusal of a text that does not parse. said: the parser's own words. span: where it stopped."""
    at = next((i for i, t in enumerate(tokens) if span is not None and t.end >= span.end - 1), len(tokens) - 1)
    if "argument" in said:
        return _arguments(said, span, tokens, at)
    for token in tokens[max(at - 1, 0) : at + 1]:
        if text[max(token.start - 1, 0) : token.start + 1].startswith("`"):
            break
        word = token.text.upper()
        hint = nearest(word, _KEYWORDS, cutoff=_ALIKE) if token.token_type is TokenType.VAR else ""
        if hint and word not in _KEYWORDS:
            place = Span(token.start, token.end + 1)
            return refusal("DP101", f'"{token.text}" is not expected here{hint}', span=place, repair=_ORDER)
    before = tokens[at - 1].text.upper() if at else ""
    repair = _ORDER
    if "`" in text:
        repair = 'names stand in double quotes, not in backquotes: "week"'
    elif before == "TOP":
        repair = f"write LIMIT {tokens[at].text} at the end"
    elif tokens[at].token_type is TokenType.L_BRACKET:
        repair = 'names stand in double quotes, not in brackets: "week"'
    reason = f": {said[0].lower()}{said[1:]}" if said.startswith("Expect") and "<" not in said else ""
    if not reason:
        shown = tokens[at].text[:40]
        last = at == len(tokens) - 1 and tokens[at].token_type is not TokenType.R_PAREN
        reason = f': it ends after "{shown}"' if last else f': "{shown}" is not expected here'
    return refusal("DP101", f"this is not SQL that dpsql can read{reason}", span=span, repair=repair)


def _arguments(said: str, span: Span | None, tokens: Sequence[Token], at: int) -> Error:
    """A call with another number of arguments than sqlglot knows."""
    depth, opened = 0, at
    for opened in range(at, 0, -1):
        kind = tokens[opened].token_type
        depth += (kind is TokenType.R_PAREN) - (kind is TokenType.L_PAREN)
        if kind is TokenType.L_PAREN and depth <= 0:
            break
    name = tokens[max(opened - 1, 0)]
    place = Span(name.start, max(tokens[at].end + 1, span.end if span is not None else 0))
    found = _ARGUMENTS.search(said)
    called = name.text[:40]
    if found is None:
        return refusal(
            "DP231", f"{called} needs more arguments", span=place, repair="docs/sql.md shows how it is called"
        )
    reason = f"{called} takes {found[2]} argument{'s' if found[2] != '1' else ''} at most, not {found[1]}"
    return refusal("DP231", reason, span=place, repair=f"leave the rest out of {called}(...)")
