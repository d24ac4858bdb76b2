"""What a query's tokens say, whatever the spelling: to see whether sqlglot lost or invented something.

Role: compare the analyst's tokens with those of the canonical text as multisets. Each word, name, literal and
operator must occur as often on both sides, up to a closed list of spellings that mean the same. Promise: an argument
that sqlglot drops (`regexp_replace(x, 'a', 'b', 'g', 'l')`), defaults or reads as something else shows. Must not:
judge whether a construct is allowed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from sqlglot.tokenizer_core import Token, TokenType

UNITS: dict[str, str] = {
    spelling: unit
    for unit, spellings in {
        "YEAR": "YEAR YEARS Y YR YRS",
        "QUARTER": "QUARTER QUARTERS",
        "MONTH": "MONTH MONTHS MON MONS",
        "WEEK": "WEEK WEEKS W WEEKOFYEAR",
        "DAY": "DAY DAYS D DAYOFMONTH",
        "HOUR": "HOUR HOURS H HR HRS",
        "MINUTE": "MINUTE MINUTES M MIN MINS",
        "SECOND": "SECOND SECONDS S SEC SECS",
        "MILLISECOND": "MILLISECOND MILLISECONDS MS MSEC",
        "MICROSECOND": "MICROSECOND MICROSECONDS US USEC",
        "DECADE": "DECADE DECADES",
        "CENTURY": "CENTURY CENTURIES",
        "MILLENNIUM": "MILLENNIUM MILLENNIA",
        "DOW": "DOW DAYOFWEEK WEEKDAY",
        "ISODOW": "ISODOW",
        "DOY": "DOY DAYOFYEAR",
        "ISOYEAR": "ISOYEAR",
        "YEARWEEK": "YEARWEEK",
        "EPOCH": "EPOCH",
        "ERA": "ERA",
        "JULIAN": "JULIAN",
    }.items()
    for spelling in spellings.split()
}
"""The words that may stand for a part of a date, in all of DuckDB's spellings that mean the same."""

INTERVAL_UNITS = frozenset(
    unit + ending
    for unit in (
        "YEAR",
        "QUARTER",
        "MONTH",
        "WEEK",
        "DAY",
        "HOUR",
        "MINUTE",
        "SECOND",
        "MILLISECOND",
        "MICROSECOND",
        "DECADE",
    )
    for ending in ("", "S")
) | {"CENTURY", "CENTURIES", "MILLENNIUM", "MILLENNIA"}
"""The words that belong to INTERVAL in DuckDB's grammar. Others become an alias: INTERVAL '3' MON is 3 seconds."""

_FUNCTIONS: dict[str, tuple[str, ...]] = {
    "CEILING": ("CEIL",),
    "CHAR_LENGTH": ("LENGTH",),
    "CHARACTER_LENGTH": ("LENGTH",),
    "LEN": ("LENGTH",),
    "LCASE": ("LOWER",),
    "UCASE": ("UPPER",),
    "POW": ("POWER",),
    "SUBSTR": ("SUBSTRING",),
    "POSITION": ("STRPOS",),
    "INSTR": ("STRPOS",),
    "IFNULL": ("COALESCE",),
    "NVL": ("COALESCE",),
    "MOD": ("%MOD",),
    "IF": ("%CASE", "%WHEN", "%THEN", "%END"),
    "VAR_SAMP": ("VARIANCE",),
    "MAX_BY": ("ARG_MAX",),
    "MIN_BY": ("ARG_MIN",),
    "ARGMAX": ("ARG_MAX",),
    "ARGMIN": ("ARG_MIN",),
    "STRING_AGG": ("LISTAGG",),
    "GROUP_CONCAT": ("LISTAGG",),
    "COUNTIF": ("COUNT_IF",),
    "LIST": ("ARRAY_AGG",),
    "STRING_SPLIT": ("STR_SPLIT",),
    "STRING_TO_ARRAY": ("STR_SPLIT",),
    "DATETRUNC": ("DATE_TRUNC",),
    "DATEDIFF": ("DATE_DIFF",),
    "LOG10": ("LOG", "=10"),
    "LOG2": ("LOG", "=2"),
    "DATE_ADD": ("%PLUS",),
    "TODAY": ("%CURRENT_DATE",),
    "GEN_RANDOM_UUID": ("%UUID",),
    "LIST_CONTAINS": ("ARRAY_CONTAINS",),
    "LIST_HAS": ("ARRAY_CONTAINS",),
    "ARRAY_HAS": ("ARRAY_CONTAINS",),
    "ARRAY_CONCAT": ("LIST_CONCAT",),
    "ARRAY_CAT": ("LIST_CONCAT",),
    "ARRAY_DISTINCT": ("LIST_DISTINCT",),
    "ARRAY_SORT": ("LIST_SORT",),
    "LIST_REVERSE_SORT": ("ARRAY_REVERSE_SORT",),
    "ARRAY_APPEND": ("LIST_APPEND",),
    "ARRAY_PREPEND": ("LIST_PREPEND",),
    "TO_HEX": ("HEX",),
    "STRING_SPLIT_REGEX": ("STR_SPLIT_REGEX",),
}
"""Functions that sqlglot writes under another name, or as something else, with the same meaning in DuckDB."""

_ADDED: dict[str, tuple[str, ...]] = {
    "BOOL_AND": ("CAST", "%BOOLEAN"),
    "BOOL_OR": ("CAST", "%BOOLEAN"),
    "STRING_AGG": ("=,",),
    "GROUP_CONCAT": ("=,",),
    "LISTAGG": ("=,",),
    "RANGE": ("=0",),
    "GENERATE_SERIES": ("=0",),
}
"""What sqlglot may add to a call of these: a cast of what is a boolean, and what DuckDB takes by default."""

_STRINGS = {TokenType.STRING, TokenType.HEREDOC_STRING, TokenType.BYTE_STRING, TokenType.NATIONAL_STRING}
_SILENT = {
    TokenType.L_PAREN,
    TokenType.R_PAREN,
    TokenType.COMMA,
    TokenType.SEMICOLON,
    TokenType.DOT,
    TokenType.ALIAS,
    TokenType.INNER,
    TokenType.OUTER,
    TokenType.ASC,
    TokenType.ELSE,
    TokenType.SELECT,
}
"""May come and go: nothing hangs on them that does not hang on a word beside them."""

_POWER = {TokenType.CARET, TokenType.DSTAR}
_SET_OPERATIONS = {TokenType.UNION, TokenType.EXCEPT, TokenType.INTERSECT}
_DATE_TYPES = {TokenType.DATE, TokenType.TIME, TokenType.TIMESTAMP, TokenType.TIMESTAMPNTZ, TokenType.TIMESTAMPTZ}
_TEXT_TYPES = ("VARCHAR", "TEXT", "STRING", "CHAR", "BPCHAR")
_BEFORE_SIGN = {
    *(TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.COMMA, TokenType.COLON, TokenType.SELECT, TokenType.DISTINCT),
    *(TokenType.PLUS, TokenType.DASH, TokenType.STAR, TokenType.SLASH, TokenType.DIV, TokenType.MOD, TokenType.DPIPE),
    *(TokenType.CARET, TokenType.DSTAR, TokenType.EQ, TokenType.NEQ, TokenType.LT, TokenType.LTE, TokenType.GT),
    *(TokenType.GTE, TokenType.AND, TokenType.OR, TokenType.NOT, TokenType.BETWEEN, TokenType.WHEN, TokenType.THEN),
    *(TokenType.ELSE, TokenType.CASE, TokenType.WHERE, TokenType.HAVING, TokenType.ON, TokenType.AMP, TokenType.PIPE),
    *(TokenType.LIMIT, TokenType.OFFSET, TokenType.FROM, TokenType.ORDER_BY, TokenType.GROUP_BY, TokenType.SENTINEL),
}
_BEFORE_FROM_FIRST = _SET_OPERATIONS | {TokenType.L_PAREN, TokenType.ALL, TokenType.ALIAS}

# Python 3.11 takes as long to look up a member of an enum as for a call, and these are asked of every token.
_ALL, _BETWEEN, _CARET_AT, _COLON = TokenType.ALL, TokenType.BETWEEN, TokenType.CARET_AT, TokenType.COLON
_COMMA, _DCOLON, _DECIMAL, _DISTINCT = TokenType.COMMA, TokenType.DCOLON, TokenType.DECIMAL, TokenType.DISTINCT
_DOT, _FETCH, _FILTER, _FROM = TokenType.DOT, TokenType.FETCH, TokenType.FILTER, TokenType.FROM
_IDENTIFIER, _IN, _INTERVAL, _L_PAREN = TokenType.IDENTIFIER, TokenType.IN, TokenType.INTERVAL, TokenType.L_PAREN
_NUMBER, _PARAMETER, _PLUS, _R_PAREN = TokenType.NUMBER, TokenType.PARAMETER, TokenType.PLUS, TokenType.R_PAREN
_SELECT, _SENTINEL, _TILDE, _UNNEST = TokenType.SELECT, TokenType.SENTINEL, TokenType.TILDE, TokenType.UNNEST
_VALUES, _VAR, _WHERE = TokenType.VALUES, TokenType.VAR, TokenType.WHERE
_OPENERS = frozenset([_L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE])
_CLOSERS = frozenset([_R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE])


def compare(
    analyst: Sequence[Token], canonical: Sequence[Token], literals: Mapping[str, Sequence[Token]]
) -> tuple[list[Token], list[str]]:
    """The analyst's tokens that the canonical text lost, and the words that it invented.

    literals: the tokens that stand for each `$name` of the analyst's text."""
    said = list(_essence(analyst, literals))
    again = [key for key, _ in _essence(canonical, {})]
    if again == [key for key, _ in said]:
        return [], []
    written = Counter(again)
    count = Counter(key for key, _ in said)
    added = Counter(key for _, token in said for key in _ADDED.get(token.text.upper(), ()))
    invented = [key[1:] if key[0] in '%=~"' else key for key in (written - count - added)]
    missing = count - written
    lost: list[Token] = []
    for key, token in reversed(said):
        if missing[key] > 0:
            missing[key] -= 1
            lost.append(token)
    return lost[::-1], invented


def _essence(tokens: Sequence[Token], literals: Mapping[str, Sequence[Token]]) -> Iterator[tuple[str, Token]]:
    """A key for each thing said: `=literal`, `"quoted name`, `~part of a date`, `%keyword or operator`, or a word."""
    open_brackets: list[str] = [""]  # the word before each open parenthesis, else the bracket
    closed = ""  # the word before the parenthesis that was closed last
    kinds = [*(token.token_type for token in tokens), _SENTINEL, _SENTINEL]  # of which one is before the first, too
    words = [token.text.upper() for token in tokens]
    skip = 0
    for i, token in enumerate(tokens):
        kind, word = kinds[i], words[i]
        before, after, second = kinds[i - 1], kinds[i + 1], kinds[i + 2]
        inside = open_brackets[-1]
        if kind in _OPENERS:
            open_brackets.append(words[i - 1] if kind is _L_PAREN and i else token.text)
        elif kind in _CLOSERS and len(open_brackets) > 1:
            closed = open_brackets.pop()
        if skip:
            skip -= 1
        elif kind in _STRINGS:
            parts = token.text.split() if before is _INTERVAL else [token.text]
            for part in parts:
                yield _unit(part) or f"={part}", token
        elif kind is _NUMBER:
            length = before is _L_PAREN and after is _R_PAREN and inside in _TEXT_TYPES
            leading_dot = before is _DOT and tokens[i - 1].end + 1 == token.start
            whole = inside == "REGEXP_EXTRACT" and token.text == "0" and after is _R_PAREN  # DuckDB's default
            if not length and not whole:  # VARCHAR(10) is VARCHAR in DuckDB, too
                yield f"={'0.' if leading_dot else ''}{token.text}", token
        elif kind is _IDENTIFIER:
            yield f'"{token.text}', token
        elif kind is _PARAMETER and word == "$" and i + 1 < len(tokens) and tokens[i + 1].text in literals:
            skip = 1
            for key, _ in _essence(literals[tokens[i + 1].text], {}):
                yield key, token
        elif kind is _COMMA and after is _UNNEST:
            yield "%CROSS", token
            yield "%JOIN", token
        elif kind is _VALUES and i == 0:
            for key in ("%FROM", "%STAR", "%VALUES"):
                yield key, token
        elif kind is _FROM:
            if inside not in ("EXTRACT", "SUBSTRING", "SUBSTR", "TRIM", "OVERLAY"):
                yield "%FROM", token
            if (i == 0 or before in _BEFORE_FROM_FIRST) and not _selects(tokens, i):
                yield "%STAR", token
        elif kind is _FETCH and i + 2 < len(tokens):
            skip = 1  # FETCH FIRST n ROWS ONLY is LIMIT n
            yield "%LIMIT", token
        elif word in ("ROW", "ROWS") and words[i + 1 : i + 2] == ["ONLY"]:
            skip = 1
        elif word == "NULLS" and words[i + 1 : i + 2] == ["LAST"]:
            skip = 1  # DuckDB's default for both directions
        elif kind is _TILDE and (before not in _BEFORE_SIGN or tokens[i - 1].text == "!"):
            yield "REGEXP_MATCHES", token  # x ~ 'a', x !~ 'a'; before a number it turns its bits
        elif not _is_silent(kind, word, before, inside):
            # A part of a date in INTERVAL 1 d and INTERVAL (n) d, an alias in SELECT 1 d and COUNT(*) d.
            dated = (i > 1 and kinds[i - 2] is _INTERVAL) or (before is _R_PAREN and closed == "INTERVAL")
            for key in _word(kind, word, before, after, second, inside, dated):
                yield key, token


def _is_silent(kind: TokenType, word: str, before: TokenType, inside: str) -> bool:
    return (
        kind in _SILENT
        or (kind is _DISTINCT and before in _SET_OPERATIONS)
        or (kind is _ALL and before is _SELECT)
        or (kind is _PLUS and before in _BEFORE_SIGN)
        or (kind is _COLON and before in (_VAR, _IDENTIFIER) and inside not in ("[", "{"))
        or (inside in ("SUBSTRING", "SUBSTR") and word == "FOR")
        or (inside == "POSITION" and kind is _IN)
        or (inside == "TRIM" and word == "BOTH")
    )


def _word(
    kind: TokenType, word: str, before: TokenType, after: TokenType, second: TokenType, inside: str, dated: bool
) -> Iterator[str]:
    call = after is _L_PAREN
    if word in ("ROWS", "RANGE", "GROUPS") and not call and after is not _BETWEEN:
        yield from ("%BETWEEN", "%AND", "CURRENT", "%STRUCT")  # ROWS n PRECEDING ends at the CURRENT ROW
    if kind is _FILTER and call and second is not _WHERE:
        yield "%WHERE"
    if call and word in _FUNCTIONS:
        yield from _FUNCTIONS[word]
    elif kind in _POWER:
        yield "POWER"
    elif kind is _CARET_AT:
        yield "STARTS_WITH"
    elif kind is _DCOLON:
        yield "CAST"
    elif word in ("ISNULL", "NOTNULL") and not call:
        yield from ("%IS", "%NULL") if word == "ISNULL" else ("%NOT", "%IS", "%NULL")
    elif not call and (dated or inside == "EXTRACT") and _unit(word):
        yield _unit(word)
    elif kind is _VAR:
        yield word
    else:
        if kind in _DATE_TYPES and after in _STRINGS:
            yield "CAST"
        if kind is _DECIMAL and not call and (before is _DCOLON or inside in ("CAST", "TRY_CAST")):
            yield from ("=18", "=3")
        yield f"%{kind.name}"


def _unit(text: str) -> str:
    unit = UNITS.get(text.upper())
    return f"~{unit}" if unit else ""


def _selects(tokens: Sequence[Token], start: int) -> bool:
    """Whether the FROM at `start` is followed by its SELECT (FROM t SELECT x)."""
    depth = 0
    for token in tokens[start + 1 :]:
        kind = token.token_type
        depth += (kind is _L_PAREN) - (kind is _R_PAREN)
        if depth < 0 or (depth == 0 and kind in _SET_OPERATIONS):
            return False
        if depth == 0 and kind is _SELECT:
            return True
    return False
