"""Trees and their texts: reading, writing, and comparing.

Role: the only calls of sqlglot's parser and generator in this package, and exact equality of trees. Promise: whatever
sqlglot raises is a typed refusal, without its words (they may repeat any part of a text); equality is of the things
themselves (sqlglot compares hashes, and ignores the case of strings). Must not: decide what is allowed.
"""

from __future__ import annotations

import re
from typing import TypeGuard

from sqlglot import exp
from sqlglot.errors import ErrorLevel, ParseError
from sqlglot.tokenizer_core import Token

from dpsql.compile.essence import INTERVAL_UNITS, UNITS
from dpsql.compile.forgiven import JOIN_WORDS, misread
from dpsql.compile.misread import syntax_error
from dpsql.compile.scan import STRICT_NUMBER, tokenize
from dpsql.compile.trees import DIALECT, copied, dissolve, levels, node_copies, nodes
from dpsql.errors import Error, Span, refusal

MAX_NODES = 40_000
"""Nodes one parse may make. sqlglot tries some forms twice, so that `JOIN t JOIN t ...` doubles with each join."""

MAX_TREE_DEPTH = 150
"""Levels of the tree: `a + b + c + ...` is as deep as it is long, and the passes walk it by recursion."""

_STATEMENTS = (exp.DML, exp.DDL, exp.Command)
_OPERATORS = (exp.Binary, exp.Not, exp.Neg, exp.Between, exp.In)

Pair = tuple[exp.Expr, exp.Expr]


def read(tokens: list[Token], text: str) -> exp.Query:
    """The tree of one query."""
    parser = DIALECT.parser(error_level=ErrorLevel.IMMEDIATE, max_nodes=MAX_NODES)
    try:
        trees = parser.parse(tokens, text)
    except RecursionError:
        raise too_deep() from None
    except ParseError as error:
        raise _syntax(error, text, tokens) from None
    except Exception:  # whatever a third party's code raises on a hostile text is a refusal
        raise refusal("DP101", "the text cannot be read as SQL") from None
    if len(trees) != 1:
        raise refusal("DP102", "one statement at a time", repair="execute them one by one")
    tree: exp.Expr | None = trees[0]
    if isinstance(tree, exp.Values):
        tree = exp.Select(expressions=[exp.Star()], from_=exp.From(this=tree))
    if not isinstance(tree, exp.Select | exp.SetOperation | exp.Subquery):
        what = type(tree).__name__.upper() if tree is not None else "EMPTY"
        raise refusal("DP103", f"dpsql does not run {what} statements", repair="dpsql only reads: ask a SELECT")
    return tree


def reread(text: str) -> exp.Query:
    """The tree of a text that `write` wrote."""
    return read(tokenize(text), text)


def write(tree: exp.Expr) -> str:
    """A tree's text in DuckDB's dialect, without comments (the text of one may end it, and go on as SQL)."""
    try:
        # The generator changes what it writes, so it gets a copy: `tree` stays what the text is compared with.
        copies = [copy for _, copy in node_copies(tree)]
        text = DIALECT.generate(copies[0], copy=False, comments=False, unsupported_level=ErrorLevel.RAISE)
        dissolve(copies)
        return text
    except RecursionError:
        raise too_deep() from None
    except Exception:  # whatever a third party's code raises on a hostile tree is a refusal
        raise refusal("DP106", "there is no way to write this statement for DuckDB") from None


def same(left: exp.Expr, right: exp.Expr) -> bool:
    """Whether two trees are equal, node by node and to the letter."""
    node_class = exp.Expr
    stack: list[tuple[object, object]] = [(left, right)]
    while stack:
        one, other = stack.pop()
        if one.__class__ is not other.__class__:
            return False
        if isinstance(one, node_class) and isinstance(other, node_class):
            ours, theirs = one.args, other.args
            for key, mine in ours.items():
                yours = theirs.get(key)
                if mine is yours:
                    continue
                kind = mine.__class__
                if kind is not yours.__class__:
                    if _is_said(mine) or _is_said(yours):
                        return False
                elif kind is not str:
                    stack.append((mine, yours))
                elif mine != yours:
                    return False
            for key in theirs.keys() - ours.keys():
                if _is_said(theirs[key]):
                    return False
        elif isinstance(one, list) and isinstance(other, list):
            if len(one) != len(other):
                return False
            stack += zip(one, other, strict=True)
        elif one != other:
            return False
    return True


def alike(left: exp.Expr, right: exp.Expr) -> list[Pair] | exp.Expr:
    """The pairs of equal nodes of trees that differ in parentheses and the spelling of words only, else the node of
    `right` where they differ in more."""
    pairs: list[Pair] = []
    stack: list[tuple[object, object, exp.Expr]] = [(left, right, right)]
    while stack:
        one, other, owner = stack.pop()
        while isinstance(one, exp.Paren):
            one = one.this
        while isinstance(other, exp.Paren):
            other = other.this
        if isinstance(one, exp.Expr) and isinstance(other, exp.Expr):
            if one.__class__ is not other.__class__:
                return other
            pairs.append((one, other))
            ours, theirs = one.args, other.args
            for key in [*ours, *(key for key in theirs if key not in ours)]:
                mine, yours = ours.get(key), theirs.get(key)
                if _is_said(mine) and _is_said(yours):
                    stack.append((mine, yours, other))
                elif _is_said(mine) or _is_said(yours):
                    return other
        elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
            stack += [(mine, yours, owner) for mine, yours in zip(one, other, strict=True)]
        elif one.__class__ is not other.__class__ or not (one == other or _fold(one) == _fold(other)):
            return owner
    return pairs


def _is_said(value: object) -> bool:
    """sqlglot writes the same for an argument that is missing, None, False or an empty list."""
    return value is not None and value is not False and not (value.__class__ is list and not value)


def _fold(value: object) -> object:
    """Words without their case; the spellings of one part of a date (DOY, DAYOFYEAR) are one."""
    return UNITS.get(value.upper(), value.lower()) if isinstance(value, str) else value


def plain(tree: exp.Query) -> exp.Query:
    """The tree with forms that sqlglot writes as other nodes replaced by these nodes (in place)."""
    for node in nodes(tree):
        other = _plain(node)
        if other is not None and node.parent is not None:
            node.replace(other)
    return tree


def _plain(node: exp.Expr) -> exp.Expr | None:
    match node:
        case exp.If() if not isinstance(node.parent, exp.Case):
            branch = exp.If(this=node.this, true=node.args.get("true"))
            return exp.Case(ifs=[branch], default=node.args.get("false"))
        case exp.RawString() | exp.National():
            return exp.Literal.string(node.this)
        case exp.DateAdd() if isinstance(node.expression, exp.Interval) and not node.args.get("unit"):
            return exp.Paren(this=exp.Add(this=node.this, expression=node.expression))
        case exp.Interval():
            if isinstance(node.this, exp.Literal) and not node.this.is_string:
                node.this.set("is_string", True)
            unit = node.args.get("unit")
            if is_unit(unit) and unit.name.upper() not in INTERVAL_UNITS:
                node.set("unit", exp.var(UNITS[unit.name.upper()]))
        case exp.Trim() if node.args.get("position") == "BOTH":
            node.set("position", None)
        case exp.LogicalAnd() | exp.LogicalOr() if not isinstance(node.this, exp.Cast):
            node.set("this", exp.Cast(this=node.this, to=exp.DataType.build("BOOLEAN")))
        case exp.WindowSpec() if node.args.get("start") and not node.args.get("end"):
            node.set("end", "CURRENT ROW")
        case exp.Join() if isinstance(node.this, exp.Unnest) and not any(node.args.get(k) for k in JOIN_WORDS):
            node.set("kind", "CROSS")
        case exp.Fetch() if not (options := node.args.get("limit_options")) or not (
            options.args.get("percent") or options.args.get("with_ties")
        ):
            return exp.Limit(expression=node.args.get("count") or exp.Literal.number(1))
        case exp.GroupConcat() if not node.args.get("separator"):
            node.set("separator", exp.Literal.string(","))
    return None


def parenthesised(tree: exp.Query) -> exp.Query:
    """A copy with parentheses around every operator that is an operand: sqlglot's generator leaves some out, and
    `(NOT x BETWEEN 1 AND 2) < y` comes back as NOT of the comparison."""
    tree = copied(tree)
    for node in nodes(tree):
        parent = node.parent
        if not isinstance(node, _OPERATORS) or not isinstance(parent, _OPERATORS) or isinstance(parent, exp.Escape):
            continue
        if not (isinstance(node, exp.And | exp.Or) and type(node) is type(parent)):
            parenthesis = exp.Paren()
            node.replace(parenthesis)
            parenthesis.set("this", node)
    return tree


def check_shape(tree: exp.Query) -> exp.Query:
    """The tree itself, if it is shallow, its numbers are numbers, its parts of dates are such, and DuckDB's grammar
    has it."""
    for depth, level in enumerate(levels(tree)):
        if depth == MAX_TREE_DEPTH:
            raise too_deep()
        for node in level:
            if isinstance(node, exp.Identifier):
                continue
            if isinstance(node, exp.Literal):
                if not (node.is_string or STRICT_NUMBER.fullmatch(node.this)):
                    raise refusal("DP101", "this is not a number", repair="put blanks around operators")
                continue
            if isinstance(node, _STATEMENTS):
                what = type(node).__name__.upper()
                raise refusal("DP240", f"{what} is not answered", span=span_of(node), repair="dpsql only reads")
            if isinstance(node, exp.Select) and not node.expressions:
                raise refusal("DP101", "a SELECT without columns", repair="write what to select; * is all")
            error = misread(node)
            if error is not None:
                error.span = span_of(node)
                raise error
            unit = node.this if isinstance(node, exp.Extract) else node.args.get("unit")
            if unit is None:
                continue
            in_list = is_unit(unit) and (not isinstance(node, exp.Interval) or unit.name.upper() in INTERVAL_UNITS)
            if not in_list:
                raise no_unit(unit, node)
    return tree


def is_unit(node: object) -> TypeGuard[exp.Var | exp.Literal]:
    """Whether a node is a part of a date, as a bare word or a string of the fixed list."""
    if isinstance(node, exp.Var) or (isinstance(node, exp.Literal) and node.is_string):
        return str(node.this).upper() in UNITS
    return False


def no_unit(node: exp.Expr, around: exp.Expr | None = None) -> Error:
    """The refusal of what stands where a part of a date should; `around` it is a node with a place."""
    repair = "write 'year', 'quarter', 'month', 'week', 'day', 'hour', 'minute' or 'second'"
    span = span_of(node) or (span_of(around) if around is not None else None)
    return refusal("DP231", "a part of a date is one word of a fixed list", span=span, repair=repair)


def span_of(node: exp.Expr) -> Span | None:
    """From the first to the last leaf below `node` that has a position."""
    start, end = None, None
    for leaf in nodes(node):
        meta = leaf._meta
        if meta and "start" in meta and "end" in meta:
            start = meta["start"] if start is None else min(start, meta["start"])
            end = meta["end"] if end is None else max(end, meta["end"])
    return None if start is None or end is None else Span(start, end + 1)


def _syntax(error: ParseError, text: str, tokens: list[Token]) -> Error:
    found = error.errors[0] if error.errors else {}
    reason = str(found.get("description") or "")
    if "number of AST nodes" in reason:
        return too_deep()
    line, column, shown = found.get("line"), found.get("col"), str(found.get("highlight") or "")
    span = None
    if isinstance(line, int) and isinstance(column, int):
        starts = [0, *(newline.end() for newline in re.finditer(r"\r\n|\r|\n", text))]
        end = min(starts[min(line, len(starts)) - 1] + column, len(text))
        span = Span(max(end - max(len(shown), 1), 0), end)
    return syntax_error(reason, span, tokens, text)


def too_deep() -> Error:
    """The refusal of what no pass could walk."""
    repair = "name intermediate results in a WITH clause, use IN for lists of alternatives, give each join its ON"
    return refusal("DP104", "the statement is too deeply nested", repair=repair)
