"""Calls as other databases have them, and what DuckDB has in their place.

Looked for in the tokens, before the parser reads them: it would take some of them for names of columns, and pass over
parts of others.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot.tokenizer_core import Token, TokenType

from dpsql.compile.scan import STRINGS, WORD, span_of_token
from dpsql.errors import refusal

_CLOCK = "write the day as a literal: DATE '2026-01-31'"
_INSTEAD: dict[str, str] = {
    name: repair
    for names, repair in (
        ("dateadd timestampadd adddate add_months", "write d + INTERVAL 30 DAY, or d - INTERVAL 1 MONTH"),
        ("timestampdiff months_between", "write date_diff('month', a, b)"),
        ("getdate sysdate sysdatetime curdate", _CLOCK),
        ("iif", "write IF(x > 0, 1, 0), or CASE WHEN x > 0 THEN 1 ELSE 0 END"),
        ("decode", "write CASE x WHEN 'a' THEN 1 ELSE 0 END"),
        ("to_char date_format format_date format_timestamp datename", "write strftime(d, '%Y-%m')"),
        ("to_date str_to_date parse_date", "write strptime(s, '%Y-%m-%d'), or CAST(s AS DATE)"),
        ("datefromparts dateserial", "write make_date(2026, 1, 31)"),
        ("eomonth", "write last_day(d)"),
        ("weeknum", "write week(d)"),
        ("safe_divide div0", "write a / NULLIF(b, 0)"),
        ("zeroifnull", "write COALESCE(x, 0)"),
        ("isnull notnull", "write x IS NULL or x IS NOT NULL; COALESCE(x, 0) puts a value in its place"),
        ("nvl2", "write CASE WHEN x IS NOT NULL THEN a ELSE b END"),
        ("convert try_convert safe_cast to_varchar", "write TRY_CAST(x AS VARCHAR)"),
        ("to_number try_to_number", "write TRY_CAST(x AS DOUBLE)"),
        ("truncate", "write trunc(x)"),
        ("charindex", "write strpos(s, 'a')"),
        ("substring_index", "write split_part(s, ',', 1)"),
        ("unix_timestamp", "write epoch(d)"),
        ("regexp_like rlike", "write regexp_matches(s, 'a')"),
        ("regexp_substr", "write regexp_extract(s, 'a')"),
        ("stdev", "write STDDEV(x)"),
        ("sumif sum_if", "write SUM(x) FILTER (WHERE y > 0)"),
    )
    for name in names.split()
}

_OF_PARTS = {
    **dict.fromkeys(("datediff", "date_diff"), "a, b"),
    **dict.fromkeys(("datepart", "date_part", "datetrunc", "date_trunc"), "d"),
}
"""Calls whose first argument is a part of a date, and the others."""

_PARTS = frozenset("year quarter month week day hour minute second".split())

_NAMED = frozenset(
    (TokenType.ALIAS, TokenType.WITH, TokenType.RECURSIVE, TokenType.DOT)
    + (TokenType.VAR, TokenType.IDENTIFIER, TokenType.R_PAREN)
)
"""Behind these stands no call, but a name of an item of FROM or of a CTE, which parentheses may follow, too."""


def refuse_foreign(tokens: Sequence[Token]) -> None:
    """Raises DP230 for a call of another database, and for a part of a date that is no text."""
    opening = TokenType.L_PAREN
    for i, token in enumerate(tokens[:-2]):
        if tokens[i + 1].token_type is not opening or (i and tokens[i - 1].token_type in _NAMED):
            continue
        if token.token_type in STRINGS or token.token_type is TokenType.IDENTIFIER:
            continue
        name = token.text.lower()
        if name in _INSTEAD and not _is_cte(tokens, i + 2):
            reason = f"{name} is not answered: DuckDB has another form for it"
            raise refusal("DP230", reason, span=span_of_token(token), repair=_INSTEAD[name])
        part = tokens[i + 2]
        if name in _OF_PARTS and part.token_type not in STRINGS and WORD.fullmatch(part.text):
            reason = f"the first argument of {name} is a part of a date, as a text"
            word = part.text.lower() if part.text.lower() in _PARTS else "day"
            repair = f"write {name}('{word}', {_OF_PARTS[name]})"
            raise refusal("DP231", reason, span=span_of_token(part), repair=repair)


def _is_cte(tokens: Sequence[Token], at: int) -> bool:
    """Whether the parentheses around this place hold the columns of a CTE: names, then AS and its query."""
    ends = (TokenType.L_PAREN, TokenType.R_PAREN)
    end = next((j for j in range(at, len(tokens)) if tokens[j].token_type in ends), at)
    return [t.token_type for t in tokens[end : end + 3]] == [TokenType.R_PAREN, TokenType.ALIAS, TokenType.L_PAREN]
