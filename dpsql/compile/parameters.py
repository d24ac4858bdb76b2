"""Parameters: `?` and `$name` become typed literals of the tree, never text.

Role: number the placeholders, match them with values, and put literals in their place. Promise: a value arrives in the
engine exactly as Python has it, or is refused (DP003). Must not: write SQL.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from math import copysign, isfinite

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from dpsql.compile.ir import Value
from dpsql.compile.scan import MAX_CHARACTERS, NEVER, scan, span_of_token
from dpsql.errors import refusal

Parameters = Sequence[Value | None] | Mapping[str, Value | None]

_MAX_INTEGER = 2**127 - 1
_NO_VALUES = (exp.Table, exp.TableAlias, exp.Identifier)


def number(tokens: Sequence[Token]) -> tuple[list[Token], dict[str, Token]]:
    """The tokens with each `?` as `$1`, `$2`, ... in the order of the text, and where each name stands first."""
    numbered: list[Token] = []
    slots: dict[str, Token] = {}
    questions = 0
    for i, token in enumerate(tokens):
        if token.text in ("?", "?::") and token.token_type in (TokenType.PLACEHOLDER, TokenType.QDCOLON):
            questions += 1
            slots[str(questions)] = token
            numbered.append(_token(TokenType.PARAMETER, "$", token))
            numbered.append(_token(TokenType.NUMBER, str(questions), token))
            if token.text == "?::":
                numbered.append(_token(TokenType.DCOLON, "::", token))
            continue
        if token.token_type is TokenType.PARAMETER and token.text == "$" and i + 1 < len(tokens):
            slots.setdefault(tokens[i + 1].text, token)
        numbered.append(token)
    if questions and len(slots) != questions:
        raise refusal("DP003", "`?` and `$name` do not mix", repair="use one of them in a statement")
    return numbered, slots


def names(text: str) -> frozenset[str]:
    """The names of all placeholders of a text."""
    return frozenset(number(scan(text))[1])


def _token(kind: TokenType, text: str, at: Token) -> Token:
    return Token(kind, text=text, line=at.line, col=at.col, start=at.start, end=at.end)


def literals_for(slots: Mapping[str, Token], values: Parameters | None) -> dict[str, exp.Expr]:
    """The literal for each name."""
    return {name: _literal(value, slots[name]) for name, value in _bind(slots, values).items()}


def _bind(slots: Mapping[str, Token], parameters: Parameters | None) -> dict[str, Value | None]:
    if isinstance(parameters, str | bytes) or not isinstance(parameters, Mapping | Sequence | None):
        reason, repair = "parameters are a list of values, or a mapping of names to values", "pass [value, ...]"
        raise refusal("DP003", reason, repair=repair)
    if isinstance(parameters, Mapping):
        given = {str(name): value for name, value in parameters.items()}
    else:
        given = {str(i): value for i, value in enumerate(parameters or (), 1)}
    for name, token in slots.items():
        if name not in given:
            at = span_of_token(token)
            repair = "pass one value for each" if name.isdigit() else _wanted(name[:40])
            raise refusal("DP003", f"no value is given for parameter {name[:40]}", span=at, repair=repair)
    unused = [name for name in given if name not in slots]
    if unused:
        name = unused[0][:40]
        count = f"it has {len(slots)}; " if slots else ""
        repair = f"{count}write ? for each value" if name.isdigit() else f"{count}write ${name} in it"
        raise refusal("DP003", f"the statement has no parameter {name}", repair=repair)
    return given


def _wanted(name: str) -> str:
    return f'pass a mapping: {{"{name}": value}}; for a script: dpsql run -v {name}=value'


def _literal(value: Value | None, at: Token) -> exp.Expr:
    """A parameter as a typed literal of the tree: never text, and exact."""
    match value:
        case None:
            return exp.Null()
        case bool():
            return exp.Boolean(this=value)
        case int() if abs(value) <= _MAX_INTEGER:
            return _number(str(abs(value)), value < 0)
        case Decimal() if value.is_finite() and len((text := format(value.copy_abs(), "f")).replace(".", "")) <= 38:
            return _number(text, value < 0)
        case float() if isfinite(value):
            text = repr(abs(value))
            return _number(text if "e" in text else f"{text}e0", copysign(1, value) < 0)  # the exponent makes a DOUBLE
        case str() if len(value) <= MAX_CHARACTERS and not NEVER.search(value):
            return exp.Literal.string(value)
        case datetime() if value.tzinfo is None:
            return exp.Cast(this=exp.Literal.string(str(value)), to=exp.DataType.build("TIMESTAMP", dialect="duckdb"))
        case date() if not isinstance(value, datetime):
            return exp.Cast(this=exp.Literal.string(str(value)), to=exp.DataType.build("DATE", dialect="duckdb"))
    reason, repair = _unfit(value)
    raise refusal("DP003", reason, span=span_of_token(at), repair=repair)


def _unfit(value: object) -> tuple[str, str]:
    """Why SQL has no literal for a value, and what to pass instead."""
    match value:
        case float() | Decimal() if not isfinite(value):
            return "NaN and infinities are no values of a parameter", "pass a finite number, or None for NULL"
        case int():
            return "this whole number is larger than any of SQL's: 2^127 - 1 is the largest", "pass it as a float"
        case Decimal():
            return "this Decimal has more than the 38 digits of SQL's", "round it, or pass it as a float"
        case str():
            return (
                f"this text has more than {MAX_CHARACTERS:,} characters, or one that SQL has not: NUL, a surrogate",
                "pass a shorter one without it",
            )
        case datetime():
            return "a parameter has no time zone", "pass value.replace(tzinfo=None), in the time zone of the column"
    kind = type(value).__name__[:40]
    return (
        f"SQL has no literal for a value of type {kind}",
        "pass None, bool, int, Decimal, float, str, date or datetime",
    )


def _number(text: str, negative: bool) -> exp.Expr:
    literal = exp.Literal.number(text)
    return exp.Paren(this=exp.Neg(this=literal)) if negative else literal


def put(tree: exp.Query, literals: Mapping[str, exp.Expr], slots: Mapping[str, Token]) -> exp.Query:
    """The tree with a copy of its literal in place of each placeholder."""
    seen = set()
    for node in list(tree.find_all(exp.Placeholder, exp.Parameter)):
        name = node.this.name if isinstance(node.this, exp.Expr) else str(node.this)
        if (
            name not in literals
            or isinstance(node.parent, _NO_VALUES)
            or node.parent is None
            or node.arg_key == "alias"
        ):
            raise refusal("DP101", "a parameter stands where no value can", repair="write the value itself")
        seen.add(name)
        literal = literals[name].copy()
        literal.meta.update(start=slots[name].start, end=slots[name].end)
        node.replace(literal)
    for name, token in slots.items():
        if name not in seen:
            at = span_of_token(token)
            raise refusal("DP101", "a parameter stands where no value can", span=at, repair="write the value itself")
    return tree
