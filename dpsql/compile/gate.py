"""The one place where a text for an engine is made.

Role: write a tree as SQL and prove, without knowing what it is for, that the text says what the tree says and no
more. sqlglot writes the content of some strings and quoted names as raw SQL (25 functions and some forms of syntax:
the tests of this module list them); a text in which that happened parses to another tree, or its unit or name has no
strict shape. Promise: fail closed, with DP901: a text that is not proved is never returned. Must not: repair anything.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from dpsql.compile import public
from dpsql.compile.canonical import check_shape, read, same, write
from dpsql.compile.scan import WORD, tokenize
from dpsql.compile.trees import dissolve, nodes
from dpsql.errors import CODES, Error, refusal

_NO_CALLS = frozenset(
    ["IN", "ANY", "ALL", "SOME", "EXISTS", "OVER", "FILTER", "AS", "FROM", "JOIN", "ON", "USING", "WHERE", "HAVING"]
    + ["AND", "OR", "NOT", "WHEN", "THEN", "ELSE", "SELECT", "DISTINCT", "BY", "VALUES", "UNION", "EXCEPT", "INTERSECT"]
    + ["INTERVAL", "EXCLUDE", "LIMIT", "OFFSET", "QUALIFY", "SETS", "MATERIALIZED", "BETWEEN", "LIKE", "ILIKE", "CASE"]
    + ["DECIMAL", "ROLLUP", "CUBE", "DESC", "ASC", "IS", "WITH", "GROUP", "ORDER", "PARTITION", "CAST", "TRY_CAST"]
    + ["WITHIN", "RECURSIVE"]
)
"""Words before a parenthesis that call nothing."""


_WRITTEN_BARE = (exp.Var, exp.Anonymous)

_OURS = frozenset({"hash"})
"""What dpsql itself calls and analysts may not: its values are those of one DuckDB version."""

_OPERATORS: dict[type[exp.Expr], tuple[str, ...]] = {
    exp.Add: ("+",),
    exp.Sub: ("-",),
    exp.Neg: ("-",),
    exp.Mul: ("*",),
    exp.Div: ("/",),
    exp.IntDiv: ("//",),
    exp.Mod: ("%",),
    exp.DPipe: ("||",),
    exp.BitwiseAnd: ("&",),
    exp.BitwiseOr: ("|",),
    exp.BitwiseLeftShift: ("<<",),
    exp.BitwiseRightShift: (">>",),
    exp.BitwiseNot: ("~",),
    exp.Like: ("~~", "!~~"),
    exp.ILike: ("~~*", "!~~*"),
    exp.Escape: ("like_escape", "ilike_escape", "not_like_escape", "not_ilike_escape"),
    exp.SimilarTo: ("regexp_full_match",),
    exp.Glob: ("~~~",),
    exp.Array: ("list_value",),
    exp.Bracket: ("array_extract", "array_slice"),
    exp.Tuple: ("row",),
    exp.Extract: ("date_part",),
    exp.Count: ("count_star", "count"),
    exp.Interval: ("trunc", "to_years", "to_quarters", "to_months", "to_weeks", "to_days", "to_hours", "to_minutes")
    + ("to_seconds", "to_milliseconds", "to_microseconds", "to_decades", "to_centuries", "to_millennia"),
}
"""DuckDB's parser makes these functions of what sqlglot has nodes for."""


@dataclass(frozen=True, slots=True)
class SealedSql:
    """A text an engine may run, and what a second parser must find in it: no table and no function beyond these.

    tables: `catalog.table`, or the bare name of a released table. functions: DuckDB's names, in lower case."""

    text: str
    tables: frozenset[str]
    functions: frozenset[str]


def seal(
    tree: exp.Expr, tables: frozenset[str], functions: frozenset[str] | None = None, *, recurs: bool = False
) -> SealedSql:
    """The text of a SELECT over `tables`, proved equal to the tree.

    tables: `catalog.table` or a bare name. functions: what may be called; None = what public SQL may call. recurs:
    whether other statements are likely to have the same text; what is read in it is kept then (see `_seen`)."""
    if not isinstance(tree, exp.Query):
        raise _broken(f"a {type(tree).__name__} is no query")
    try:
        return _seal(tree, tables, functions, recurs)
    except Error as error:
        if error.code == "DP901":
            raise
        if error.code == "DP104":  # a statement may be as large as it may be, and what is made of it larger
            raise refusal("DP104", f"rewritten, {error.reason}", repair=error.repair) from None
        raise _broken(CODES[error.code]) from None


def _seal(tree: exp.Query, tables: frozenset[str], functions: frozenset[str] | None, recurs: bool) -> SealedSql:
    text = write(tree)
    if "\x00" in text:
        raise _broken("a text holds NUL")
    kept = recurs and len(text) <= _SHORT
    seen = (_seen if kept else _look)(text)
    if not same(tree, seen.tree):
        raise _broken("a text does not say what its tree says")
    if not seen.tables <= tables:
        raise _broken("a text reads a table that it was not sealed for")
    unknown = seen.called - (public.FUNCTIONS.keys() | _OURS if functions is None else functions)
    if unknown:
        raise _broken(f"a text calls {min(unknown)}")
    if not kept:
        dissolve(nodes(seen.tree))
    return SealedSql(text, tables, seen.called | seen.operators)


@dataclass(frozen=True, slots=True)
class _Seen:
    """What sqlglot reads in a text. tree: nobody changes it. tables: as in SealedSql, those of WITH left out. called:
    functions under the names that stand in the text; operators: those that DuckDB's parser makes of operators."""

    tree: exp.Query
    tables: frozenset[str]
    called: frozenset[str]
    operators: frozenset[str]


def _look(text: str) -> _Seen:
    """Read a text back and check all that can be said of it alone."""
    tokens = tokenize(text)
    tree = read(tokens, text)
    check_shape(tree)
    found = nodes(tree)
    public.check_nodes(found, _OURS)
    _check_names(found)
    operators = {name for node in found for name in _OPERATORS.get(type(node), ())}
    return _Seen(tree, frozenset(_tables(found)), frozenset(_called(tokens, found)), frozenset(operators))


_SHORT = 2_000
_seen = lru_cache(maxsize=64)(_look)
"""The outer SQL of many statements is the same text. `_look` is a function of the whole text, so what it saw once is
what it would see again; a refusal is not kept. Nor are long texts (a tree takes a hundred times the memory of its
text), nor those that do not recur: Python's collector would look at their trees again and again."""


def _check_names(found: list[exp.Expr]) -> None:
    """sqlglot writes a name that is not quoted, and a bare word, as it is: it must be one word (or end a frame)."""
    for node in found:
        bare = isinstance(node, _WRITTEN_BARE) or (isinstance(node, exp.Identifier) and not node.quoted)
        if isinstance(node, exp.Var) and node.this in ("CURRENT ROW", "NO OTHERS"):
            continue
        if bare and not (isinstance(node.this, str) and WORD.fullmatch(node.this)):
            raise _broken("a name is neither quoted nor one word")


def _tables(found: list[exp.Expr]) -> Iterator[str]:
    """The tables that a text reads, but those of its own WITH clauses."""
    for table in found:
        if not isinstance(table, exp.Table) or not isinstance(table.this, exp.Identifier):
            continue  # a table function: its call is checked with the functions
        if table.catalog:
            raise _broken("a text reads a table that it was not sealed for")
        if table.db or not _is_cte(table):
            yield f"{table.db}.{table.name}" if table.db else table.name


def _is_cte(table: exp.Table) -> bool:
    """Whether a bare name is one of the WITH clauses around it (names in DuckDB do not tell cases apart)."""
    node: exp.Expr | None = table
    while node is not None:
        with_ = node.args.get("with_")
        if isinstance(with_, exp.With) and any(cte.alias.lower() == table.name.lower() for cte in with_.expressions):
            return True
        node = node.parent
    return False


def _called(tokens: list[Token], found: list[exp.Expr]) -> set[str]:
    """The words before a parenthesis, in lower case, but keywords, and names whose columns are being named: t(a, b)."""
    called: Counter[str] = Counter()
    opening = TokenType.L_PAREN
    for before, token in pairwise(tokens):
        if token.token_type is opening and WORD.fullmatch(before.text):
            quoted = before.token_type in (TokenType.IDENTIFIER, TokenType.STRING)
            if not quoted and before.text.upper() not in _NO_CALLS:
                called[before.text.lower()] += 1
    for alias in found:
        if (
            isinstance(alias, exp.TableAlias)
            and alias.columns
            and isinstance(alias.this, exp.Identifier)
            and not alias.this.quoted
        ):
            called[alias.name.lower()] -= 1
    return {name for name, times in called.items() if times > 0}


def _broken(reason: str) -> Error:
    return refusal("DP901", f"dpsql made a statement that it cannot prove: {reason}; nothing was run")
