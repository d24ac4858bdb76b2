"""One text for expressions that are equal whatever the rows hold: what a question is, apart from how it was written.

Two lowered expressions share a text only where SQL gives both the same value for every row. What is written alike but
for aliases is; beyond that only laws that hold in SQL's three values are used (De Morgan's; NOT over a comparison is
its complement, since the engine orders all values of a type, NaN among them; the sides of a comparison swap; AND and OR
take their operands in any order, each once; BETWEEN and IN are what the standard defines them to be). Operands of a
comparison, of BETWEEN and of IN have one type when they come here (`comparisons`), or the laws of the last two would
not hold; total forms cannot fail, or the order of operands would matter.

Nothing private hangs on it: where a text was wrong, a stored answer would be given to a question that it does not
answer. Source of the laws: ISO/IEC 9075-2, 8.2, 8.3 and 8.4.
"""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from dpsql.compile.trees import operands, unwrapped

Aliases = Mapping[str, str]
"""What the FROM items of a release are called in its texts, by their aliases in its SQL."""

_COMPLEMENT: dict[type[exp.Expr], type[exp.Expr]] = {
    exp.EQ: exp.NEQ,
    exp.NEQ: exp.EQ,
    exp.LT: exp.GTE,
    exp.GTE: exp.LT,
    exp.GT: exp.LTE,
    exp.LTE: exp.GT,
}
_SWAPPED: dict[type[exp.Expr], type[exp.Expr]] = {exp.GT: exp.LT, exp.GTE: exp.LTE}
_SYMMETRIC = (exp.EQ, exp.NEQ, exp.NullSafeEQ, exp.NullSafeNEQ)


def normal_form(node: exp.Expr, aliases: Aliases) -> str:
    """The text of an expression."""
    return _form(node, aliases, True)


def normal_conjuncts(node: exp.Expr, aliases: Aliases) -> dict[str, exp.Expr]:
    """The conjuncts of a condition by their texts, each once, without those that are TRUE. The expressions may be
    negations, or halves, of what stands there."""
    found: dict[str, exp.Expr] = {}
    _split(node, aliases, True, found)
    return found


def _split(node: exp.Expr, aliases: Aliases, want: bool, found: dict[str, exp.Expr]) -> None:
    node = unwrapped(node)
    if isinstance(node, exp.Not):
        _split(node.this, aliases, not want, found)
    elif isinstance(node, exp.And if want else exp.Or):
        for part in operands(node):
            _split(part, aliases, want, found)
    elif want and _is_between(node):
        _split(exp.GTE(this=node.this.copy(), expression=node.args["low"].copy()), aliases, True, found)
        _split(exp.LTE(this=node.this.copy(), expression=node.args["high"].copy()), aliases, True, found)
    elif not want and _is_list(node):
        for one in node.expressions:
            _split(exp.NEQ(this=node.this.copy(), expression=one.copy()), aliases, True, found)
    elif not (isinstance(node, exp.Boolean) and node.this is want):
        found[_form(node, aliases, want)] = node if want else exp.Not(this=exp.Paren(this=node))


def _form(node: exp.Expr, aliases: Aliases, want: bool) -> str:
    """want: whether it is the value itself that is asked for, or its negation."""
    node = unwrapped(node)
    kind = type(node)
    if isinstance(node, exp.Not):
        return _form(node.this, aliases, not want)
    if isinstance(node, exp.And | exp.Or):
        parts = sorted({_form(part, aliases, want) for part in operands(node)})
        name = "and" if isinstance(node, exp.And) is want else "or"
        return parts[0] if len(parts) == 1 else f"({name} {' '.join(parts)})"
    if _is_between(node):
        x, low, high = (_form(node.args[name], aliases, True) for name in ("this", "low", "high"))
        parts = [_compared(exp.GTE, x, low, want), _compared(exp.LTE, x, high, want)]
        return f"({'and' if want else 'or'} {' '.join(sorted(parts))})"
    if _is_list(node):
        x = _form(node.this, aliases, True)
        parts = sorted({_compared(exp.EQ, x, _form(one, aliases, True), want) for one in node.expressions})
        return parts[0] if len(parts) == 1 else f"({'or' if want else 'and'} {' '.join(parts)})"
    if kind in _COMPLEMENT:
        assert isinstance(node, exp.Binary)
        return _compared(kind, _form(node.this, aliases, True), _form(node.expression, aliases, True), want)
    text = _plain(node, aliases)
    return text if want else f"(not {text})"


def _is_between(node: exp.Expr) -> bool:
    return isinstance(node, exp.Between) and not node.args.get("symmetric")


def _is_list(node: exp.Expr) -> bool:
    return isinstance(node, exp.In) and bool(node.expressions) and not node.args.get("query")


def _compared(kind: type[exp.Expr], left: str, right: str, want: bool) -> str:
    if not want:
        kind = _COMPLEMENT[kind]
    if kind in _SWAPPED:
        kind, left, right = _SWAPPED[kind], right, left
    if kind in _SYMMETRIC and right < left:
        left, right = right, left
    return f"({kind.__name__} {left} {right})"


def _plain(node: exp.Expr, aliases: Aliases) -> str:
    """A prefix form in which no two trees are alike."""
    if isinstance(node, exp.Column):
        return f"(column {aliases.get(node.table, node.table)!r} {node.name!r})"
    if isinstance(node, exp.Identifier):
        return f"(name {node.name!r})"
    if isinstance(node, exp.Literal):
        return f"{node.this!r}" if node.is_string else f"(number {node.this})"
    if isinstance(node, exp.NullSafeEQ | exp.NullSafeNEQ):
        sides = sorted(_form(side, aliases, True) for side in (node.this, node.expression))
        return f"({type(node).__name__} {' '.join(sides)})"
    words = [type(node).__name__]
    for key, value in sorted(node.args.items()):
        if value is not None and value is not False and value != []:
            words.append(f"{key}={_value(value, aliases)}")
    return f"({' '.join(words)})"


def _value(value: object, aliases: Aliases) -> str:
    if isinstance(value, exp.Expr):
        return _form(value, aliases, True)
    if isinstance(value, list):
        return f"[{' '.join(_value(one, aliases) for one in value)}]"
    return repr(value)
