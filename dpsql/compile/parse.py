"""From one query's text to a canonical tree.

Role: parse with sqlglot, put parameters in as typed literals, and repeat generate-and-parse until the tree stands
still. Promise: the tree that later passes see is exactly what its own SQL says, nothing the analyst wrote was lost
on the way, and whatever sqlglot does with a hostile text ends in a typed refusal. Must not: know tables or functions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from itertools import pairwise
from math import isfinite

from sqlglot import exp
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.errors import ErrorLevel, ParseError
from sqlglot.tokenizer_core import Token, TokenType

from dpsql.compile import essence, statement
from dpsql.compile.ir import Value
from dpsql.compile.statement import STRICT_NUMBER
from dpsql.errors import Error, Span, refusal

Parameters = Sequence[Value | None] | Mapping[str, Value | None]

MAX_NODES = 60_000
"""Nodes one parse may make. sqlglot tries some forms twice, so that `JOIN t JOIN t ...` doubles with each join."""

MAX_TREE_DEPTH = 150
"""Levels of the tree: `a + b + c + ...` is as deep as it is long, and the passes walk it by recursion."""

MAX_ROUNDS = 4

_DIALECT = DuckDB()
_MAX_INTEGER = 2**127 - 1


@dataclass(frozen=True, slots=True)
class Parsed:
    """A canonical query. `text`: what the spans of the tree's nodes count in."""

    tree: exp.Query
    text: str


def parse(text: str, parameters: Parameters | None = None) -> Parsed:
    """The canonical tree of one query; DP101, DP103, DP104, DP105, DP106, DP231 or DP003 otherwise."""
    tokens = statement.scan(text)
    numbered, slots = _number_placeholders(tokens)
    literals = {name: _literal(value, slots[name]) for name, value in _bind(slots, parameters).items()}
    first = _put(check_shape(parse_tokens(numbered, text)), literals, slots)
    tree, canonical = first, generate(first)
    for _ in range(MAX_ROUNDS):
        again = check_shape(reparse(canonical))
        if same(tree, again):
            break
        tree, canonical = again, generate(again)
    else:
        raise refusal("DP106", "the statement changes each time it is written out", repair="write it more plainly")
    spelled = {name: statement.tokenize(generate(literal)) for name, literal in literals.items()}
    lost, invented = essence.compare(numbered, statement.tokenize(canonical), spelled)
    if lost or invented:
        raise _unfaithful(lost, invented)
    return Parsed(tree, text) if _place(tree, first, tokens) else Parsed(tree, canonical)


def reparse(text: str) -> exp.Query:
    """The tree of a text that dpsql generated."""
    return parse_tokens(statement.tokenize(text), text)


def generate(tree: exp.Expr) -> str:
    """A tree's text in DuckDB's dialect, without comments (their text may end a comment and become SQL)."""
    try:
        return _DIALECT.generate(tree, comments=False, unsupported_level=ErrorLevel.RAISE)
    except RecursionError:
        raise _too_deep() from None
    except Exception:  # whatever a third party's code raises on a hostile tree is a refusal
        raise refusal("DP106", "sqlglot cannot write this statement for DuckDB") from None


def same(left: exp.Expr, right: exp.Expr, *, exact: bool = True) -> bool:
    """Whether two trees are equal node by node. sqlglot's own == compares hashes and ignores the case of strings;
    `exact=False` ignores case as well, but never takes a hash for the thing itself."""
    return all(pair is not None for pair in _pairs(left, right, exact))


def span_of(node: exp.Expr) -> Span | None:
    """From the first to the last leaf below `node` that has a position."""
    start, end = None, None
    for leaf in node.walk():
        meta = leaf._meta
        if meta and "start" in meta and "end" in meta:
            start = meta["start"] if start is None else min(start, meta["start"])
            end = meta["end"] if end is None else max(end, meta["end"])
    return None if start is None or end is None else Span(start, end + 1)


def check_shape(tree: exp.Query) -> exp.Query:
    """The tree itself, if it is shallow, its numbers are numbers and its parts of dates are such."""
    level: list[exp.Expr] = [tree]
    for _ in range(MAX_TREE_DEPTH):
        if not level:
            return tree
        for node in level:
            if isinstance(node, exp.Literal) and not node.is_string and not STRICT_NUMBER.fullmatch(node.this):
                raise refusal("DP101", "this is not a number", span=span_of(node), repair="put blanks around operators")
            unit = node.args.get("unit")
            if unit is not None and not is_unit(unit):
                raise _not_a_unit(unit)
            if isinstance(node, exp.Extract) and not is_unit(node.this):
                raise _not_a_unit(node.this)
        level = [child for node in level for child in node.iter_expressions()]
    raise _too_deep()


def is_unit(node: object) -> bool:
    """Whether a node is a part of a date, as a bare word or a string of the fixed list."""
    if isinstance(node, exp.Var) or (isinstance(node, exp.Literal) and node.is_string):
        return str(node.this).upper() in essence.UNITS
    return False


def parse_tokens(tokens: list[Token], text: str) -> exp.Query:
    parser = _DIALECT.parser(error_level=ErrorLevel.IMMEDIATE, max_nodes=MAX_NODES)
    try:
        trees = parser.parse(tokens, text)
    except RecursionError:
        raise _too_deep() from None
    except ParseError as error:
        raise _syntax(error, text) from None
    except Exception:  # whatever a third party's code raises on a hostile text is a refusal
        raise refusal("DP101", "the text cannot be read as SQL") from None
    if len(trees) != 1:
        raise refusal("DP102", "one statement at a time", repair="execute them one by one")
    tree = trees[0]
    if not isinstance(tree, exp.Query):
        what = type(tree).__name__.upper() if tree is not None else "EMPTY"
        raise refusal("DP103", f"dpsql does not run {what} statements", repair="dpsql only reads: ask a SELECT")
    return tree


def _syntax(error: ParseError, text: str) -> Error:
    found = error.errors[0] if error.errors else {}
    reason = str(found.get("description") or "")
    if "number of AST nodes" in reason:
        return _too_deep()
    line, column, shown = found.get("line"), found.get("col"), str(found.get("highlight") or "")
    span = None
    if isinstance(line, int) and isinstance(column, int):
        starts = [0, *(found.end() for found in re.finditer(r"\r\n|\r|\n", text))]
        end = min(starts[min(line, len(starts)) - 1] + column, len(text))
        span = Span(max(end - max(len(shown), 1), 0), end)
    said = f": {reason[0].lower()}{reason[1:]}" if reason.startswith("Expect") and "<" not in reason else ""
    return refusal("DP101", f"this is not SQL that dpsql can read{said}", span=span)


def _too_deep() -> Error:
    repair = "name intermediate results in a WITH clause, use IN for lists of alternatives, give each join its ON"
    return refusal("DP104", "the statement is too deeply nested", repair=repair)


def _not_a_unit(unit: exp.Expr) -> Error:
    repair = "write 'year', 'quarter', 'month', 'week', 'day', 'hour', 'minute' or 'second'"
    return refusal("DP231", "a part of a date is one word of a fixed list", span=span_of(unit), repair=repair)


def _unfaithful(lost: Sequence[Token], invented: Sequence[str]) -> Error:
    if lost:
        token = lost[0]
        reason = f"{token.text[:40]!r} would be lost or read as something else"
        span = Span(token.start, token.end + 1)
    else:
        reason, span = f"dpsql would have to add {invented[0][:40]!r} to read this", None
    return refusal(
        "DP106", reason, span=span, repair="write it in another way; give functions only the arguments they need"
    )


def _pairs(left: exp.Expr, right: exp.Expr, exact: bool) -> Iterator[tuple[exp.Expr, exp.Expr] | None]:
    """Pairs of nodes at the same place, as long as the trees are equal; then None, and no more."""
    stack: list[tuple[object, object]] = [(left, right)]
    while stack:
        one, other = stack.pop()
        if isinstance(one, exp.Expr) and type(one) is type(other):
            assert isinstance(other, exp.Expr)
            yield one, other
            ours = {key: value for key, value in one.args.items() if _is_said(value)}
            theirs = {key: value for key, value in other.args.items() if _is_said(value)}
            if ours.keys() != theirs.keys():
                yield None
                return
            stack += [(value, theirs[key]) for key, value in ours.items()]
        elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
            stack += zip(one, other, strict=True)
        elif not (type(one) is type(other) and (one == other or (not exact and _fold(one) == _fold(other)))):
            yield None
            return


def _is_said(value: object) -> bool:
    """sqlglot writes the same for an argument that is missing, None, False or an empty list."""
    return value is not None and value is not False and value != []


def _fold(value: object) -> object:
    return value.lower() if isinstance(value, str) else value


def _place(tree: exp.Query, first: exp.Query, tokens: Sequence[Token]) -> bool:
    """Copy the analyst's positions onto an equal canonical tree; a call reaches to its closing parenthesis."""
    pairs = list(_pairs(tree, first, exact=False))
    if None in pairs:
        return False
    closing: dict[int, int] = {}
    opened: list[int] = []
    for before, token in pairwise(tokens):
        if token.token_type is TokenType.L_PAREN:
            opened.append(before.start)
        elif token.token_type is TokenType.R_PAREN and opened:
            closing[opened.pop()] = token.end
    for pair in pairs:
        if pair is None:
            continue
        node, origin = pair
        node._meta = dict(origin._meta) if origin._meta else None
        if node._meta and isinstance(node, exp.Func) and node._meta.get("start") in closing:
            node._meta["end"] = closing[node._meta["start"]]
    return True


def _number_placeholders(tokens: list[Token]) -> tuple[list[Token], dict[str, Token]]:
    """The tokens with each `?` as `$1`, `$2`, ... in the order of the text, and where each name stands first."""
    numbered: list[Token] = []
    slots: dict[str, Token] = {}
    questions = 0
    for i, token in enumerate(tokens):
        if token.token_type is TokenType.PLACEHOLDER and token.text == "?":
            questions += 1
            slots[str(questions)] = token
            numbered.append(_token(TokenType.PARAMETER, "$", token))
            numbered.append(_token(TokenType.NUMBER, str(questions), token))
            continue
        if token.token_type is TokenType.PARAMETER and token.text == "$" and i + 1 < len(tokens):
            slots.setdefault(tokens[i + 1].text, token)
        numbered.append(token)
    if questions and len(slots) != questions:
        raise refusal("DP003", "`?` and `$name` do not mix", repair="use one of them in a statement")
    return numbered, slots


def _token(kind: TokenType, text: str, at: Token) -> Token:
    return Token(kind, text=text, line=at.line, col=at.col, start=at.start, end=at.end)


def _bind(slots: Mapping[str, Token], parameters: Parameters | None) -> dict[str, Value | None]:
    if isinstance(parameters, str | bytes) or not isinstance(parameters, Mapping | Sequence | None):
        raise refusal("DP003", "parameters are a list of values, or a mapping of names to values")
    if isinstance(parameters, Mapping):
        given = {str(name): value for name, value in parameters.items()}
    else:
        given = {str(i): value for i, value in enumerate(parameters or (), 1)}
    for name, token in slots.items():
        if name not in given:
            at = Span(token.start, token.end + 1)
            raise refusal(
                "DP003", f"no value is given for parameter {name[:40]}", span=at, repair="pass one value for each"
            )
    unused = [name for name in given if name not in slots]
    if unused:
        raise refusal(
            "DP003", f"the statement has no parameter {unused[0][:40]}", repair="pass one value for each parameter"
        )
    return given


def _literal(value: Value | None, at: Token) -> exp.Expr:
    """A parameter as a typed literal of the tree: never text, and exact."""
    match value:
        case None:
            return exp.Null()
        case bool():
            return exp.Boolean(this=value)
        case int() if abs(value) <= _MAX_INTEGER:
            return _number(str(abs(value)), value < 0)
        case Decimal() if value.is_finite() and len(text := format(abs(value), "f")) <= 39:
            return _number(text, value < 0)
        case float() if isfinite(value):
            text = repr(abs(value))
            return _number(text if "e" in text else f"{text}e0", value < 0)  # the exponent makes it a DOUBLE
        case str() if "\0" not in value and value.isprintable() is not None and _is_unicode(value):
            return exp.Literal.string(value)
        case datetime() if value.tzinfo is None:
            return exp.Cast(this=exp.Literal.string(str(value)), to=exp.DataType.build("TIMESTAMP", dialect="duckdb"))
        case date() if not isinstance(value, datetime):
            return exp.Cast(this=exp.Literal.string(str(value)), to=exp.DataType.build("DATE", dialect="duckdb"))
    raise refusal(
        "DP003",
        f"SQL has no literal for this value of type {type(value).__name__[:40]}",
        span=Span(at.start, at.end + 1),
        repair="pass None, bool, int, Decimal, float, str, date or datetime (finite, without time zone, without NUL)",
    )


def _number(text: str, negative: bool) -> exp.Expr:
    literal = exp.Literal.number(text)
    return exp.Paren(this=exp.Neg(this=literal)) if negative else literal


def _is_unicode(text: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in text)


def _put(tree: exp.Query, literals: Mapping[str, exp.Expr], slots: Mapping[str, Token]) -> exp.Query:
    """The tree with a copy of its literal in place of each placeholder."""
    seen = set()
    for node in list(tree.find_all(exp.Placeholder, exp.Parameter)):
        name = node.this.name if isinstance(node.this, exp.Expr) else str(node.this)
        if name not in literals or node.parent is None:
            raise refusal("DP003", "a parameter stands where no value can", repair="write the value itself")
        seen.add(name)
        literal = literals[name].copy()
        literal.meta.update(start=slots[name].start, end=slots[name].end)
        node.replace(literal)
    for name, token in slots.items():
        if name not in seen:
            at = Span(token.start, token.end + 1)
            raise refusal("DP003", "a parameter stands where no value can", span=at, repair="write the value itself")
    return tree
