"""Which columns identify a row of a public query, where its form shows it.

A private row that is joined with such a query by these columns meets one of its rows at most. Nothing else keeps a
unit's rows from being multiplied there, so what is not seen to be unique is taken not to be.
"""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from dpsql.compile.blocks import aggregates, item_name
from dpsql.compile.trees import is_star


def unique_columns(tree: exp.Query, keys: Mapping[str, frozenset[str]]) -> tuple[frozenset[str], ...]:
    """Sets of columns that identify a row of a public query, where its form shows it: the keys of the release that it
    reads, the columns of DISTINCT, the keys of GROUP BY. keys: of each release."""
    if not isinstance(tree, exp.Select):
        return ()
    if any(map(is_star, tree.selects)):
        body = _only_cte(tree)
        return unique_columns(body, keys) if body is not None else ()
    items = [item.unalias() for item in tree.selects]
    found = []
    if tree.args.get("distinct") is not None and tree.args["distinct"].args.get("on") is None:
        found.append(frozenset(item_name(i) for i in range(len(items))))
    if any(item.find(exp.Explode, exp.Unnest) for item in items):  # after grouping, each row becomes several
        return tuple(found)
    table, group = _only_table(tree), tree.args.get("group")
    if group is not None:
        if {key for key, value in group.args.items() if value} == {"expressions"}:
            places = [_place(key, tree) for key in group.expressions]
            if None not in places:
                found.append(frozenset(item_name(i) for i in places if i is not None))
    elif any(True for item in items for _ in aggregates(item)):
        found.append(frozenset())
    elif table is not None:
        read = keys.get(table.name)
        shown_ = {i.name: item_name(n) for n, i in reversed(list(enumerate(items))) if isinstance(i, exp.Column)}
        if read is not None and read <= shown_.keys():
            found.append(frozenset(shown_[name] for name in read))
    return tuple(found)


def _only_cte(tree: exp.Select) -> exp.Query | None:
    """The query of the CTE that `SELECT * FROM cte` reads."""
    table = _only_table(tree)
    if table is None or len(tree.selects) != 1:
        return None
    body = next((cte.this for cte in tree.ctes if cte.alias == table.name), None)
    return body if isinstance(body, exp.Query) else None


def _only_table(tree: exp.Select) -> exp.Table | None:
    """The released table or CTE that is all of FROM: nothing multiplies its rows."""
    from_ = tree.args.get("from_")
    table = from_.this if from_ is not None else None
    if not isinstance(table, exp.Table) or {k for k, v in table.args.items() if v} - {"this", "alias"}:
        return None
    clauses = {key for key, value in tree.args.items() if value}
    return table if clauses <= {"with_", "expressions", "from_", *_NARROWING} else None


_NARROWING = {"where", "having", "qualify", "order", "limit", "offset", "distinct"}
"""The clauses of a SELECT that leave rows out, at most."""


def _place(key: exp.Expr, tree: exp.Select) -> int | None:
    """Which item a key of GROUP BY is; None where it is none."""
    if isinstance(key, exp.Literal) and key.name.isdigit() and int(key.name) <= len(tree.selects):
        return int(key.name) - 1
    return next((i for i, item in enumerate(tree.selects) if item.unalias() == key), None)
