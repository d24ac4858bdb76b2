"""What the columns of a query are called, as a query around it sees them, and which WITH entries it can name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from sqlglot import exp

from dpsql.compile.blocks import OtherSource, Private, PublicSource, Rows, Source, TableSource, item_name
from dpsql.compile.names import called_columns
from dpsql.compile.parse import span_of
from dpsql.compile.trees import default_name, folded, from_items, is_star


@dataclass(frozen=True, slots=True)
class Cte:
    """body: of private rows, None where it is public. columns: as its WITH names them. kept: its entry there."""

    body: Private | None
    columns: tuple[str, ...]
    kept: exp.CTE | None = None


Environment = Mapping[str, Cte]
"""The WITH entries that can be named, by their names in lower case, in the order in which they can name each other."""

OfTable = Callable[[exp.Table], Sequence[str]]
"""The columns of a table of the policy."""


def columns_of(query: exp.Expr, env: Environment, of_table: OfTable) -> list[str] | None:
    """What the columns of a public query are called; None where that is not known."""
    query = query.unnest()
    if isinstance(query, exp.SetOperation):
        return columns_of(cast(exp.Expr, query.this), env, of_table)
    if isinstance(query, exp.Values):
        first = query.expressions[0]
        return [f"col{i}" for i in range(len(first.expressions) if isinstance(first, exp.Tuple) else 1)]
    if not isinstance(query, exp.Select):
        return None
    inside = dict(env)
    for cte in query.ctes:
        inside[folded(cte.alias)] = Cte(None, tuple(cte.args["alias"].columns or ()), cte)
    found: list[str] = []
    for item in query.expressions:
        if not is_star(item):
            found.append(item.alias or default_name(item))
            continue
        if any(j.args.get("using") or j.method for j in query.args.get("joins") or ()) or any(
            item.find(exp.Star).args.values()
        ):
            return None
        for source in from_items(query):
            if isinstance(item, exp.Column) and folded(source.alias_or_name) != folded(item.table):
                continue
            columns = _columns_of_item(source, inside, of_table)
            if columns is None:
                return None
            found += columns
    return found


def _columns_of_item(node: exp.Expr, env: Environment, of_table: OfTable) -> list[str] | None:
    columns: Sequence[str] | None = None
    if isinstance(node, exp.Table) and isinstance(node.this, exp.Identifier):
        cte = next((c for c in env.values() if c.kept is not None and c.kept.alias == node.name), None)
        if not node.db and cte is not None and cte.kept is not None:
            columns = columns_of(cast(exp.Expr, cte.kept.this), env, of_table)
            if columns is not None:
                columns = called_columns(columns, cte.columns, span_of(node), spare=True)
        else:
            columns = of_table(node)
    elif isinstance(node, exp.Subquery | exp.Values):
        columns = columns_of(node, env, of_table)
    if columns is None:
        return None
    alias = node.args.get("alias")
    renamed = [c.name for c in (alias.columns if alias is not None else ())]
    return called_columns(columns, renamed, span_of(node))


def as_written(source: Source, visible: str) -> Source:
    """A FROM item of a public query: its columns keep the names that they are called by in the text."""
    if isinstance(source, TableSource | PublicSource):
        names = tuple((called, called) for called, _ in source.columns)
        return OtherSource(source.node, visible, names)
    return source


def kept_in(env: Environment) -> tuple[exp.CTE, ...]:
    """The public WITH entries that can be named here, in an order in which each names those before it."""
    return tuple(cte.kept for cte in env.values() if cte.kept is not None)


def items_of(block: Rows, of_cte: Sequence[str], renamed: Sequence[str], node: exp.Expr) -> tuple[tuple[str, str], ...]:
    """(called, actual) pairs of a subquery's columns. In the SQL that is made they are c1, c2, ...: no name of an
    analyst's can stand beside, or in the place of, "$unit" and "$rank" (DuckDB takes the first of two equal names)."""
    span = span_of(node)
    inside = called_columns(block.names, of_cte, span, spare=True)
    called = called_columns(inside, renamed, span)
    return tuple((name, item_name(i)) for i, name in enumerate(called))
