"""What is NULL, or not true, where an outer join found no partner.

A public table LEFT JOINed with a private one also gives rows that belong to nobody. They are left out, which changes
nothing for aggregates that pass over them: whose argument is NULL then, or whose FILTER is not true.
"""

from __future__ import annotations

from collections.abc import Set

from sqlglot import exp

from dpsql.compile.narrowing import STRICT
from dpsql.compile.trees import unwrapped


def is_missing(tree: exp.Expr, aliases: Set[str], *, predicate: bool = False) -> bool:
    """Whether an expression is proved to be NULL (of a predicate: not to be TRUE) where every column of these FROM
    items is NULL."""
    node = unwrapped(tree)
    if isinstance(node, exp.Null):
        return True
    if isinstance(node, exp.Column):
        return node.table in aliases
    if predicate and isinstance(node, exp.And):
        return any(is_missing(side, aliases, predicate=True) for side in (node.this, node.expression))
    if predicate and isinstance(node, exp.Or):
        return all(is_missing(side, aliases, predicate=True) for side in (node.this, node.expression))
    if predicate and isinstance(node, exp.Not) and isinstance(unwrapped(node.this), exp.Is):
        test = unwrapped(node.this)
        return isinstance(test.expression, exp.Null) and is_missing(test.this, aliases)
    if isinstance(node, exp.Case):
        whens = node.args["ifs"]
        default = node.args.get("default")
        tests = [when.this for when in whens]
        if node.this is not None:
            never = is_missing(node.this, aliases)
        else:
            never = all(is_missing(test, aliases, predicate=True) for test in tests)
        results = [when.args["true"] for when in whens]
        rest = [] if default is None else [default]
        return all(is_missing(r, aliases, predicate=predicate) for r in (rest if never else [*results, *rest]))
    if isinstance(node, exp.Between) or (isinstance(node, exp.In) and (predicate or node.expressions)):
        return is_missing(node.this, aliases)  # of an empty query IN is FALSE even for NULL
    if type(node) in STRICT:
        return any(is_missing(child, aliases) for child in node.iter_expressions())
    return False
