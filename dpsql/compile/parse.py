"""From one query's text to a canonical tree.

Role: parse with sqlglot, put parameters in as typed literals, and repeat writing and reading until the tree stands
still. Promise: the tree that later passes see is exactly what its own SQL says, it means what the analyst's text meant
when it was read first, and nothing that the analyst wrote was lost on the way. Must not: know tables or functions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from dpsql.compile import clauses, essence, hints
from dpsql.compile.canonical import Pair, alike, check_shape, parenthesised, plain, read, same, span_of, write
from dpsql.compile.foreign import refuse_foreign
from dpsql.compile.instead import instead_of, name_of, reasoned, several_distinct
from dpsql.compile.misread import FOR_PIVOT, FOR_UNPIVOT
from dpsql.compile.parameters import Parameters, literals_for, number, put
from dpsql.compile.places import place
from dpsql.compile.scan import STRINGS, WORD, scan, span_of_token, tokenize
from dpsql.compile.trees import dissolve, nodes
from dpsql.errors import Error, refusal

__all__ = ["Parameters", "Parsed", "parse", "span_of"]

MAX_ROUNDS = 4

_NOWHERE: dict[type[exp.Expr], str] = {
    exp.TableSample: "a sample",
    exp.Lateral: "LATERAL",
    exp.Lambda: "a lambda",
    exp.Columns: "COLUMNS()",
    exp.Struct: "a struct",
    exp.JSONExtract: "a path into JSON",
    exp.JSONExtractScalar: "a path into JSON",
}
_COMPARISONS = {TokenType.EQ, TokenType.NEQ, TokenType.LT, TokenType.LTE, TokenType.GT, TokenType.GTE}
_COMPARISONS |= {TokenType.PLUS, TokenType.DASH, TokenType.STAR, TokenType.SLASH, TokenType.DIV, TokenType.MOD}
_COMPARISONS |= {TokenType.DPIPE, TokenType.LIKE, TokenType.ILIKE, TokenType.BETWEEN, TokenType.SIMILAR_TO}


@dataclass(frozen=True, slots=True)
class Parsed:
    """A canonical query. `text`: the analyst's, in which the spans of the tree's nodes count. `sql`: the same with
    blanks for what is dpsql's own in it. `hints`, `clauses`: these; in the tree they are notes at calls and SELECTs,
    which no text made of it shows."""

    tree: exp.Query
    text: str
    sql: str
    hints: tuple[hints.Hint | hints.Bounds, ...] = ()
    clauses: tuple[clauses.Clause, ...] = ()


def parse(text: str, parameters: Parameters | None = None) -> Parsed:
    """The canonical tree of one query; DP101, DP103, DP104, DP105, DP106, DP120, DP231 or DP003 otherwise."""
    without = clauses.take(text, scan(text))
    taken = hints.take(without.text, without.tokens)
    tokens = taken.tokens
    refuse_foreign(tokens)
    _refuse_pivots(tokens)
    _refuse_loose_not(tokens)
    _refuse_unfinished(tokens)
    numbered, slots = number(tokens)
    literals = literals_for(slots, parameters)
    tree = clauses.put(read(clauses.marked(numbered, without.clauses), taken.text), without.clauses)
    _refuse_unclosed(tokens)
    first = check_shape(place(plain(put(tree, literals, slots)), tokens))
    hints.put(first, taken.hints)
    spelled = {name: tokenize(write(literal)) for name, literal in literals.items()}
    try:
        settled = _settle(first)
    except Error as error:
        raise _unwritable(first) or error from None
    lost, invented = essence.compare(numbered, settled.tokens, spelled)
    if lost or invented:
        raise _unfaithful(lost, invented, tokens, first)
    if settled.unlike is not None:
        reason = "dpsql cannot be sure that this is read as it is meant"
        repair = "put parentheses around its parts, or write it in another way"
        raise refusal("DP106", reason, span=span_of(settled.unlike), repair=repair)
    for node, origin in settled.pairs:
        node._meta = dict(origin._meta) if origin._meta else None
        if isinstance(node, exp.Identifier) and not node.quoted and not WORD.fullmatch(node.name):
            node.set("quoted", True)  # `a$b` and `né` mean the same in quotes; outside of them the gate lets none pass
    dissolve(nodes(first))
    return Parsed(settled.tree, text, taken.text, taken.given, tuple(without.clauses.values()))


@dataclass(frozen=True, slots=True)
class _Settled:
    """A tree that reads back as itself, its text's tokens, and its nodes beside those of the first reading; or,
    `unlike` set, the tokens of the text that came nearest and the node of the first reading that comes back as
    something else."""

    tree: exp.Query
    tokens: Sequence[Token]
    pairs: list[Pair]
    unlike: exp.Expr | None = None


def _settle(first: exp.Query) -> _Settled:
    """All readings must be alike. Where one is not, parentheses were lacking (they are put in and all is tried again),
    or sqlglot writes something else than it read."""
    unlike: exp.Expr = first
    for start in _starts(first):
        tree, text = start, write(start)
        for _ in range(MAX_ROUNDS):
            tokens = tokenize(text)
            again = _reread(tokens, text)
            pairs = alike(again, first)
            if not isinstance(pairs, list):
                unlike = pairs
                break
            if same(tree, again):
                return _Settled(again, tokens, pairs)
            tree, text = again, write(again)
    return _Settled(first, tokenize(write(first)), [], unlike)


def _starts(first: exp.Query) -> Iterator[exp.Query]:
    """As it is, and only where that does not do, with all parentheses."""
    yield first
    yield parenthesised(first)


def _reread(tokens: list[Token], text: str) -> exp.Query:
    """The tree of what was written; its errors count in a text that the analyst never saw, and so stay unsaid."""
    try:
        return check_shape(read(tokens, text))
    except Error as error:
        if error.code == "DP104":
            raise
    raise refusal("DP106", "there is no way to write this statement for DuckDB", repair="write it in another way")


def _unwritable(tree: exp.Query) -> Error | None:
    """The refusal of the smallest call that DuckDB's SQL has no form for; None where it is no single one."""
    for node in reversed(nodes(tree)):
        if isinstance(node, exp.Func):
            try:
                write(node)
            except Error:
                name, span = node.sql_name().lower(), span_of(node)
                reason, repair = f"{name} with these arguments is no SQL of DuckDB", "give it only what it needs"
                return reasoned(node, name, span) or refusal("DP106", reason, span=span, repair=repair)
    return None


def _refuse_loose_not(tokens: Sequence[Token]) -> None:
    """`a = NOT b IS NULL`: sqlglot and DuckDB disagree on how far a NOT reaches that is an operand."""
    negation = TokenType.NOT
    for i, token in enumerate(tokens[1:], 1):
        if token.token_type is not negation:
            continue
        after_from = tokens[i - 1].token_type is TokenType.FROM and tokens[i - 2].token_type is TokenType.DISTINCT
        if tokens[i - 1].token_type in _COMPARISONS or (i > 1 and after_from):
            repair = "put parentheses around NOT and what it is about"
            raise refusal("DP106", "the statement can be read in two ways", span=span_of_token(token), repair=repair)


_FOR_PIVOTS = {TokenType.PIVOT: FOR_PIVOT, TokenType.UNPIVOT: FOR_UNPIVOT}


def _refuse_pivots(tokens: Sequence[Token]) -> None:
    """Said before anything is said of their parts. Both words are reserved: only behind a dot or AS they are names."""
    for i, token in enumerate(tokens):
        repair = _FOR_PIVOTS.get(token.token_type)
        if repair is not None and not (i and tokens[i - 1].token_type in (TokenType.DOT, TokenType.ALIAS)):
            raise refusal("DP240", f"{token.text.upper()} is not answered", span=span_of_token(token), repair=repair)


_OPENS = (TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE)
_CLOSES = (TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE)


def _refuse_unclosed(tokens: Sequence[Token]) -> None:
    """`CAST(x AS TEXT FROM t`: of some calls sqlglot does not miss the end, and reads on as if it were there."""
    opened: list[Token] = []
    for token in tokens:
        if token.token_type in _OPENS:
            opened.append(token)
        elif token.token_type in _CLOSES and opened:
            opened.pop()
    if opened:
        reason = f'"{opened[-1].text}" is not closed'
        raise refusal("DP101", reason, span=span_of_token(opened[-1]), repair="write its other half where it ends")


_ENDS = frozenset(
    [TokenType.R_PAREN, TokenType.COMMA, TokenType.FROM, TokenType.WHERE, TokenType.GROUP_BY, TokenType.HAVING]
    + [TokenType.ORDER_BY, TokenType.LIMIT, TokenType.QUALIFY, TokenType.UNION, TokenType.JOIN, TokenType.ON]
)
_NEED_MORE = frozenset([TokenType.GROUP_BY, TokenType.ORDER_BY, TokenType.ALIAS])
_DIRECTIONS = (TokenType.ASC, TokenType.DESC)


def _refuse_unfinished(tokens: Sequence[Token]) -> None:
    """What sqlglot forgives, and DuckDB does not: a clause or an alias that nothing follows, USING without its
    parentheses, two directions of one ORDER BY, a name of no letters."""
    for i, token in enumerate(tokens):
        if token.token_type is TokenType.IDENTIFIER and not token.text:
            raise refusal("DP101", "a name has no letters", span=span_of_token(token), repair="write one, or none")
        after = tokens[i + 1] if i + 1 < len(tokens) else None
        bare = token.token_type in _NEED_MORE and (after is None or after.token_type in _ENDS)
        open_using = token.token_type is TokenType.USING and not (
            after is not None and (after.token_type is TokenType.L_PAREN or after.text.upper() == "SAMPLE")
        )
        twice = token.token_type in _DIRECTIONS and after is not None and after.token_type in _DIRECTIONS
        if bare or open_using or twice:
            word = token.text.upper()
            reason = f"{word} is not finished here" if not twice else "one direction is enough"
            repair = "write ASC or DESC" if twice else f"write what follows {word}, or leave it out"
            if open_using and after is not None:
                repair = f"write USING ({after.text})"
            raise refusal("DP101", reason, span=span_of_token(token), repair=repair)


def _unfaithful(lost: Sequence[Token], invented: Sequence[str], tokens: Sequence[Token], tree: exp.Query) -> Error:
    """What is not as it was, or, where the tree holds what is answered nowhere, that."""
    for node in tree.walk():
        if type(node) in _NOWHERE:
            reason = f"{_NOWHERE[type(node)]} is not answered"
            return refusal("DP240", reason, span=span_of(node), repair="leave it out")
        if isinstance(node, exp.WithinGroup):
            reason = f"{name_of(node)} ... WITHIN GROUP is not answered"
            return refusal("DP203", reason, span=span_of(node), repair=instead_of(node, "COUNT, SUM and AVG"))
        if isinstance(node, exp.Count) and isinstance(node.this, exp.Distinct) and len(node.this.expressions) > 1:
            return several_distinct(node.this, span_of(node))
    repair = "write it in another way, and give functions only the arguments they need"
    if not lost:
        limit = tree.args.get("limit") if invented[0] == "OFFSET" else None
        if limit is not None:
            offset = next((n.expression.name for n in tree.find_all(exp.Offset)), "n")
            reason, repair = "LIMIT takes one number", f"write LIMIT {limit.expression.name} OFFSET {offset}"
            return refusal("DP101", reason, span=span_of(limit), repair=repair)
        return refusal("DP106", f"{invented[0][:40]!r} would have to be added to read this", repair=repair)
    at = next(i for i, token in enumerate(tokens) if token.start == lost[0].start)
    span = span_of_token(lost[0])
    if lost[0].token_type in STRINGS and at and tokens[at - 1].token_type in (TokenType.FROM, TokenType.JOIN):
        return refusal(
            "DP110", "a string is not a table; files are not read", span=span, repair="SHOW TABLES lists them"
        )
    return _lost(at, tokens)


_RESERVED = frozenset(
    "ALL ANY AS ASC BOTH CASE CHECK COLUMN CREATE DEFAULT DESC DISTINCT ELSE END EXCEPT FETCH FOR FROM GROUP HAVING IN"
    " INTO LIMIT OFFSET ON ONLY OR ORDER PRIMARY REFERENCES SELECT SOME TABLE THEN TO UNION UNIQUE USER USING WHEN"
    " WHERE WINDOW WITH".split()
)
"""Words that stand for names only in double quotes."""


def _lost(at: int, tokens: Sequence[Token]) -> Error:
    """The refusal of a token that sqlglot has read past, or read as another one."""
    token, span = tokens[at], span_of_token(tokens[at])
    word, said = token.text.upper(), token.text[:40]
    before, after = tokens[max(at - 1, 0)].text, tokens[min(at + 1, len(tokens) - 1)].text
    if word == "JOIN":
        repair = "write JOIN ... ON a.x = b.x, or JOIN ... USING (x)"
        return refusal("DP101", "JOIN needs ON or USING", span=span, repair=repair)
    if word in ("REGEXP", "RLIKE", "~*"):
        flags = ", 'i'" if word == "~*" else ""
        repair = f"write regexp_matches({before}, '{after}'{flags})"
        return refusal("DP230", f"the operator {said} is not answered", span=span, repair=repair)
    if word in ("ANY", "ALL", "SOME") and before.upper() in ("LIKE", "ILIKE"):
        column, how = tokens[max(at - 2, 0)].text, before.upper()
        reason, repair = f"{how} {word} is not answered", f"write {column} {how} 'a' OR {column} {how} 'b'"
        return refusal("DP230", reason, span=span, repair=repair)
    if word in ("ROW", "ROWS") and before.isdigit():
        return refusal("DP101", f"{word} follows a number here", span=span, repair="write LIMIT 10 OFFSET 20")
    if word in ("ALL", "DISTINCT") and before == "(":
        return refusal("DP101", f"{word} is not needed in this call", span=span, repair=f"leave {word} out")
    if word in _RESERVED:
        repair = f'put it into double quotes where it is a name: "{said}"'
        return refusal("DP106", f'"{said}" is a keyword, and here a name would be read', span=span, repair=repair)
    repair = "write it in another way, and give functions only the arguments they need"
    return refusal("DP106", f"{said!r} would be lost or read as something else", span=span, repair=repair)
