"""One call over private rows: found in the table, its arguments counted and lowered, its rule applied.

What is not in the table is refused with the nearest name; a node of the table that carries an argument the table does
not know is refused too, since sqlglot keeps options (a zone, a separator, IGNORE NULLS) in such places. A function is
added together with its total form and a template in the tests that run it over adversarial values.
"""

from __future__ import annotations

from sqlglot import exp

from dpsql.compile.calls import Call, Function
from dpsql.compile.catalogue import NAMED, NODES
from dpsql.compile.instead import no_function
from dpsql.compile.ir import Lower, Scalar, Scope
from dpsql.compile.parse import span_of
from dpsql.compile.shifts import MAKERS
from dpsql.compile.trees import unwrapped
from dpsql.errors import Error, refusal


def apply(node: exp.Expr, scope: Scope, lower: Lower) -> Scalar:
    """The total form of a call, or a refusal."""
    function = NODES.get(type(node))
    if isinstance(node, exp.Anonymous):
        function = NAMED.get(str(node.this).lower())
    if function is None:
        raise unknown(_name(node), node)
    arguments: list[exp.Expr] = []
    for key in function.keys:
        value = node.args.get(key)
        arguments += value if isinstance(value, list) else [] if value is None else [value]
    for key, value in node.args.items():
        skip = key in function.keys or key in function.read or (isinstance(node, exp.Anonymous) and key == "this")
        if not skip and value not in (None, False, []) and function.neutral.get(key) != value:
            repair = f"write {function.name} with {_arity(function)} and nothing more"
            raise refusal("DP231", f"an option of {function.name} is not answered", span=span_of(node), repair=repair)
    if not function.least <= len(arguments) <= function.most:
        reason, places = f"{function.name} takes {_arity(function)}", "abcdefgh"[: max(function.least, 1)]
        repair = f"write {function.name}({', '.join(places)})"
        raise refusal("DP231", reason, span=span_of(node), repair=repair)
    age = _age(arguments[-1]) if function.takes_age else None
    if age is not None:
        arguments = [*arguments[:-1], *age.expressions]
    lowered = [lower(a, scope) for a in arguments]
    return function.rule(Call(function.name, node, lowered, span_of(node), age is not None))


def unknown(name: str, node: exp.Expr) -> Error:
    """The refusal of what has no rule, by what it is."""
    span = span_of(node)
    if isinstance(node, exp.AggFunc):
        reason = f"the aggregate {name} cannot stand inside an expression of single rows"
        return refusal("DP203", reason, span=span, repair="aggregate in SELECT, HAVING or ORDER BY")
    if isinstance(node, exp.Window):
        return refusal("DP222", "a window cannot stand here", span=span, repair="put it into the SELECT of a subquery")
    if isinstance(node, exp.Subquery | exp.Exists | exp.Select):
        return refusal("DP220", "a subquery cannot stand here", span=span, repair="join the table instead")
    return no_function(node, name, NAMES, span)


def _name(node: exp.Expr) -> str:
    if isinstance(node, exp.Anonymous):
        return str(node.this).lower()
    return node.sql_name().lower() if isinstance(node, exp.Func) else type(node).__name__.lower()


def _age(node: exp.Expr) -> exp.Anonymous | None:
    node = unwrapped(node)
    is_age = isinstance(node, exp.Anonymous) and str(node.this).lower() == "age" and len(node.expressions) == 2
    return node if is_age and isinstance(node, exp.Anonymous) else None


def _arity(function: Function) -> str:
    if function.least == function.most:
        return "1 argument" if function.least == 1 else f"{function.least} arguments"
    return f"{function.least} to {function.most} arguments"


_OTHER_NAMES = (
    "if case cast try_cast ifnull mod pow log10 log2 ceiling ltrim rtrim rpad substr len char_length position instr "
    "datediff date_add age"
).split()
_OTHER_NAMES += [maker.lower() if isinstance(maker, str) else "to_days" for maker in MAKERS.values()]
NAMES: tuple[str, ...] = tuple(
    sorted({f.name for f in [*NODES.values(), *NAMED.values()] if f.name.isidentifier()} | set(_OTHER_NAMES))
)
"""Every function that rows may be given to, for completion and for "did you mean"."""
