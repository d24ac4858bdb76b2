"""Bind every name to the policy, as DuckDB would, and say of each SELECT block whether it is public or private.

In: a canonical tree. Out: `Resolved`: the same tree, in which public tables are written `pub."name"`, and beside it
one `PrivateBlock` per SELECT that reads private rows, with every column written `"alias"."column"` (aliases unique in
the statement), positions and aliases of GROUP BY and ORDER BY replaced by what they name, stars expanded and USING
turned into ON. It refuses names only (DP1xx). Whether a form can be answered is `lower`'s to say, so nothing is
refused twice and nothing twice allowed.

How DuckDB resolves (tried on DuckDB 2.0.1, `tests/compile/test_names.py`): names are case-insensitive, also quoted
ones. WHERE and SELECT take a column before an alias; GROUP BY a column before an alias, and an alias only as a
whole; ORDER BY an alias before a column, as a whole; HAVING an alias before a column. `main.t` skips a CTE, and a
CTE's own name inside its body is what it was outside.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import cast

from sqlglot import exp

from dpsql.compile.blocks import (
    BlockSource,
    BoundJoin,
    Item,
    OtherSource,
    Private,
    PrivateBlock,
    PrivateOther,
    Resolved,
    Source,
    TableSource,
    aggregates,
)
from dpsql.compile.parse import Parsed, span_of
from dpsql.errors import nearest, refusal
from dpsql.policy.model import Policy, Table

PUBLIC_CATALOG = "pub"


def resolve(parsed: Parsed, policy: Policy) -> Resolved:
    """Bind all names of the statement. Raises DP110 to DP112."""
    resolver = _Resolver(policy)
    root = parsed.tree.copy()
    bound = resolver.query(root, {})
    if bound is not None:
        resolver.blocks[id(root)] = bound
    return Resolved(root, resolver.blocks)


_Environment = Mapping[str, "_Cte"]


@dataclass(frozen=True, slots=True)
class _Cte:
    body: Private | None  # None: public
    columns: tuple[str, ...]


@dataclass(slots=True)
class _Names:
    """What a block's expressions can refer to: sources by lower-case name, USING columns, select aliases."""

    sources: dict[str, Source] = field(default_factory=dict)
    merged: dict[str, exp.Column] = field(default_factory=dict)
    aliases: dict[str, exp.Expression] = field(default_factory=dict)

    def find(self, column: exp.Column) -> exp.Column | None:
        """The bound column, or None. Raises DP112 where two sources have it."""
        name, qualifier = column.name.lower(), column.table.lower()
        if not qualifier and name in self.merged:
            return _positioned(self.merged[name].copy(), column)
        found = [
            exp.column(exp.to_identifier(actual, quoted=True), table=exp.to_identifier(source.alias, quoted=True))
            for visible, source in self.sources.items()
            if not qualifier or visible == qualifier
            for called, actual in source.columns
            if called.lower() == name
        ]
        if len(found) > 1:
            repair = f"write the table's name before it, such as {next(iter(self.sources))}.{column.name}"
            raise refusal(
                "DP112", f'the column "{column.name}" is in several tables', span=span_of(column), repair=repair
            )
        return _positioned(found[0], column) if found else None

    def all_columns(self) -> list[str]:
        return [called for source in self.sources.values() for called, _ in source.columns]


def _positioned(bound: exp.Column, written: exp.Column) -> exp.Column:
    """Give the bound column the place of the written one, for carets."""
    bound.this.meta.update(written.this.meta)
    return bound


class _Resolver:
    def __init__(self, policy: Policy):
        self.policy = policy
        self.tables = {name.lower(): table for name, table in policy.tables.items()}
        self.blocks: dict[int, Private] = {}
        self._used: dict[str, int] = {}

    # -- queries ------------------------------------------------------------------------------------------------

    def query(self, node: exp.Expression, env: _Environment) -> Private | None:
        """Resolve a query expression; None means public (releases inside included)."""
        env, ctes = self._with(node, env)
        if _is_plain_subquery(node):
            return self.query(cast(exp.Expression, node.this), env)
        if isinstance(node, exp.Select):
            return self._select(node, env, ctes)
        private = False
        for child in node.iter_expressions():
            if isinstance(child, exp.With):
                continue
            if isinstance(child, exp.Query):
                bound = self.query(child, env)
                if isinstance(bound, PrivateBlock) and bound.is_release:
                    self.blocks[id(_unwrapped(child))] = bound
                elif bound is not None:
                    private = True
            else:
                self._public_part(child, env)
        return PrivateOther(node) if private else None

    def _with(self, node: exp.Expression, env: _Environment) -> tuple[_Environment, tuple[exp.CTE, ...]]:
        """The environment inside `node`; private CTEs leave its WITH, public ones stay."""
        clause = node.args.get("with_")
        if clause is None:
            return env, ()
        inner = dict(env)
        kept: list[exp.CTE] = []
        for cte in clause.expressions:
            body = cast(exp.Expression, cte.this)
            bound = self.query(body, inner)
            columns = tuple(c.name for c in cte.args["alias"].args.get("columns") or ())
            if isinstance(bound, PrivateBlock) and bound.is_release:
                self.blocks[id(_unwrapped(body))] = bound
                bound = None
            if bound is None:
                kept.append(cte)
            inner[cte.alias.lower()] = _Cte(bound, columns)
        if clause.args.get("recursive"):
            return inner, tuple(kept)
        if kept:
            clause.set("expressions", kept)
        else:
            node.set("with_", None)
        return inner, tuple(kept)

    def _select(self, node: exp.Select, env: _Environment, ctes: tuple[exp.CTE, ...]) -> PrivateBlock | None:
        if not any(self._holds_rows(item, env) for item in _from_items(node)):
            for child in node.iter_expressions():
                if not isinstance(child, exp.With):
                    self._public_part(child, env)
            return None
        return self._private_select(node, env, ctes)

    def _public_part(self, node: exp.Expression, env: _Environment) -> None:
        """Bind the tables of a public block below `node`, and every query nested in it."""
        if isinstance(node, exp.Query):
            bound = self.query(node, env)
            if bound is not None:
                self.blocks[id(_unwrapped(node))] = bound
            return
        if isinstance(node, exp.Table) and isinstance(node.this, exp.Identifier):
            self._bind_public_table(node, env)
        for child in list(node.iter_expressions()):
            self._public_part(child, env)

    def _bind_public_table(self, node: exp.Table, env: _Environment) -> None:
        if not node.db and node.name.lower() in env:
            return
        table = self._table(node)
        if not node.alias:
            node.set("alias", exp.TableAlias(this=exp.to_identifier(node.name, quoted=True)))
        identifier = exp.to_identifier(table.name, quoted=True)
        identifier.meta.update(node.this.meta)
        node.set("this", identifier)
        node.set("db", exp.to_identifier(PUBLIC_CATALOG))
        node.set("catalog", None)

    def _holds_rows(self, node: exp.Expression, env: _Environment) -> bool:
        """Whether a FROM item or query holds rows of units (a release's output does not count)."""
        if isinstance(node, exp.Table) and isinstance(node.this, exp.Identifier):
            if not node.db and node.name.lower() in env:
                return env[node.name.lower()].body is not None
            return not self._table(node).public
        if isinstance(node, exp.Query):
            inner = dict(env)
            for cte in node.ctes:
                rows = self._holds_rows(cte.this, inner)
                inner[cte.alias.lower()] = _Cte(PrivateOther(cte) if rows else None, ())
            if isinstance(node, exp.Select):
                return not _is_release(node) and any(self._holds_rows(item, inner) for item in _from_items(node))
            parts = [node.this, node.args.get("expression")]
            return any(self._holds_rows(part, inner) for part in parts if isinstance(part, exp.Expression))
        return False

    def _table(self, node: exp.Table) -> Table:
        """The policy's table of this name; `main.` may stand before it. Raises DP110."""
        parts = [p.name for p in node.parts]
        name = ".".join(parts).lower()
        for candidate in (name, name.removeprefix("main.")):
            if candidate in self.tables:
                return self.tables[candidate]
        shown = ".".join(parts)
        hint = nearest(shown, self.policy.tables)
        known = ", ".join(sorted(self.policy.tables)[:8])
        raise refusal(
            "DP110", f'no table "{shown}" is visible here.{hint}', span=span_of(node), repair=f"the tables are: {known}"
        )

    # -- private blocks -----------------------------------------------------------------------------------------

    def _private_select(self, node: exp.Select, env: _Environment, ctes: tuple[exp.CTE, ...]) -> PrivateBlock:
        names = _Names()
        first = self._source(node.args["from_"].this, env, names)
        joins = []
        for join in node.args.get("joins") or ():
            joins.append(self._join(join, env, names))
        items = self._items(node, env, names)
        where = node.args.get("where")
        bound_where = self._expression(where.this, env, names, _COLUMN_FIRST) if where else None
        groups = self._groups(node, env, names, items)
        having, qualify = node.args.get("having"), node.args.get("qualify")
        bound_having = self._expression(having.this, env, names, _ALIAS_FIRST) if having else None
        bound_qualify = self._expression(qualify.this, env, names, _COLUMN_FIRST) if qualify else None
        order = self._order(node, env, names, items)
        return PrivateBlock(
            node=node,
            first=first,
            joins=tuple(joins),
            where=bound_where,
            items=tuple(items),
            groups=groups,
            having=bound_having,
            qualify=bound_qualify,
            order=order,
            ctes=ctes,
            is_release=_is_release(node),
        )

    def _source(self, node: exp.Expression, env: _Environment, names: _Names) -> Source:
        """Bind one FROM item and make it visible. Nested joins in parentheses are left to `lower` to refuse."""
        alias = node.alias_or_name
        renamed = [c.name for c in (node.args["alias"].args.get("columns") or ())] if node.args.get("alias") else []
        source: Source = OtherSource(node)
        if isinstance(node, exp.Table) and isinstance(node.this, exp.Identifier) and not node.args.get("joins"):
            cte = env.get(node.name.lower()) if not node.db else None
            if cte is None:
                table = self._table(node)
                visible = list(table.columns)
                if isinstance(table.unit, str) and not table.every_row_is_a_unit and table.unit not in visible:
                    visible.append(table.unit)
                source = TableSource(table, self._unique(table.name), _renamed(visible, renamed), node)
            elif isinstance(cte.body, PrivateBlock):
                item_names = [i.name for i in cte.body.items]
                called = _renamed(item_names, list(cte.columns) or renamed)
                source = BlockSource(cte.body, self._unique(alias), called, node)
        elif _is_plain_subquery(node):
            bound = self.query(cast(exp.Expression, node.this), env)
            if isinstance(bound, PrivateBlock) and not bound.is_release:
                source = BlockSource(
                    bound, self._unique(alias or "derived"), _renamed([i.name for i in bound.items], renamed), node
                )
        key = alias.lower() or f" {len(names.sources)}"
        if key in names.sources:
            raise refusal(
                "DP112",
                f'two tables in FROM are called "{alias}"',
                span=span_of(node),
                repair="give one of them an alias",
            )
        names.sources[key] = source
        return source

    def _join(self, join: exp.Join, env: _Environment, names: _Names) -> BoundJoin:
        left_names = _Names(dict(names.sources), dict(names.merged))
        source = self._source(join.this, env, names)
        words = [w for w in (join.method, join.side, join.kind) if w]
        kind = " ".join(w.upper() for w in words) or "INNER"
        kind = {"LEFT OUTER": "LEFT", "CROSS": "INNER"}.get(kind, kind)
        on = join.args.get("on")
        bound = self._expression(on, env, names, _COLUMN_FIRST) if on is not None else None
        for identifier in join.args.get("using") or ():
            column = exp.Column(
                this=identifier.copy() if isinstance(identifier, exp.Identifier) else identifier.this.copy()
            )
            left, right = left_names.find(column), _Names({"": source}).find(column)
            if left is None or right is None:
                raise self._no_column(column, left_names if left is None else _Names({"": source}))
            equal = exp.EQ(this=left, expression=right)
            bound = equal if bound is None else exp.And(this=bound, expression=equal)
            names.merged[column.name.lower()] = left
        return BoundJoin(kind, source, bound, join)

    def _items(self, node: exp.Select, env: _Environment, names: _Names) -> list[Item]:
        items: list[Item] = []
        for written in node.expressions:
            if _is_star(written):
                items += self._star(written, names)
                continue
            tree = self._expression(written.unalias(), env, names, _COLUMN_FIRST)
            items.append(Item(written.alias or _default_name(written), tree))
            if written.alias:
                names.aliases.setdefault(written.alias.lower(), tree)
        return items

    def _star(self, written: exp.Expression, names: _Names) -> list[Item]:
        """The columns a star stands for; a star with EXCLUDE, REPLACE or RENAME stays, for `lower` to refuse."""
        star = written if isinstance(written, exp.Star) else written.this
        opaque = any(isinstance(s, OtherSource) for s in names.sources.values())
        if any(star.args.values()) or opaque:
            return [Item("*", written.copy())]
        qualifier = written.table.lower() if isinstance(written, exp.Column) else ""
        items, seen = [], set()
        for visible, source in names.sources.items():
            if qualifier and visible != qualifier:
                continue
            for called, _ in source.columns:
                merged = not qualifier and called.lower() in names.merged
                if merged and called.lower() in seen:
                    continue
                seen.add(called.lower())
                table = None if merged else exp.to_identifier(visible)
                column = exp.Column(this=exp.to_identifier(called, quoted=True), table=table)
                column.this.meta.update(star.meta)
                found = names.find(column)
                if found is not None:
                    items.append(Item(called, found))
        return items

    def _groups(
        self, node: exp.Select, env: _Environment, names: _Names, items: list[Item]
    ) -> tuple[exp.Expression, ...]:
        group = node.args.get("group")
        if group is None:
            return ()
        if group.args.get("all"):
            return tuple(i.tree.copy() for i in items if not any(True for _ in aggregates(i.tree)))
        bound: list[exp.Expression] = []
        for written in group.expressions:
            parts = written.expressions if isinstance(written, exp.Tuple) else [written.unnest()]
            for part in parts:
                position = _position(part)
                if position is not None:
                    bound.append(self._at(position, part, items).copy())
                elif isinstance(part, exp.Column) and not part.table and names.find(part) is None:
                    alias = names.aliases.get(part.name.lower())
                    bound.append(
                        alias.copy() if alias is not None else self._expression(part, env, names, _COLUMN_FIRST)
                    )
                else:
                    bound.append(self._expression(part, env, names, _COLUMN_ONLY))
        extra = [
            v
            for k in ("grouping_sets", "cube", "rollup")
            for v in group.args.get(k) or ()
            if isinstance(v, exp.Expression)
        ]
        return tuple(bound + extra)

    def _order(self, node: exp.Select, env: _Environment, names: _Names, items: list[Item]) -> tuple[exp.Ordered, ...]:
        order = node.args.get("order")
        bound = []
        for written in order.expressions if order else ():
            inner = written.this if isinstance(written, exp.Ordered) else written
            position = _position(inner)
            if position is not None:
                tree = self._at(position, inner, items).copy()
            elif isinstance(inner, exp.Column) and not inner.table and inner.name.lower() in names.aliases:
                tree = names.aliases[inner.name.lower()].copy()
            elif (
                isinstance(inner, exp.Var | exp.Column)
                and inner.name.lower() == "all"
                and names.find(_column("all")) is None
            ):
                bound += [exp.Ordered(**{**written.args, "this": i.tree.copy()}) for i in items]
                continue
            else:
                tree = self._expression(inner, env, names, _COLUMN_FIRST)
            ordered = written.copy() if isinstance(written, exp.Ordered) else exp.Ordered()
            ordered.set("this", tree)
            bound.append(ordered)
        return tuple(bound)

    def _at(self, position: int, node: exp.Expression, items: list[Item]) -> exp.Expression:
        if not 1 <= position <= len(items):
            raise refusal(
                "DP111", f"position {position} is not in the SELECT list of {len(items)} columns", span=span_of(node)
            )
        return items[position - 1].tree

    def _expression(self, node: exp.Expression, env: _Environment, names: _Names, rule: str) -> exp.Expression:
        """A bound copy of an expression. Queries nested in it are resolved on their own."""
        if isinstance(node, exp.Query):
            copy = node.copy()
            bound = self.query(copy, env)
            if bound is not None:
                self.blocks[id(_unwrapped(copy))] = bound
            return copy
        if isinstance(node, exp.Column) and isinstance(node.this, exp.Identifier):
            return self._column(node, names, rule)
        if isinstance(node, exp.Star) or not any(True for _ in node.iter_expressions()):
            return node.copy()
        copy = type(node)()
        copy._meta = dict(node.meta)
        for key, value in node.args.items():
            if isinstance(value, exp.Expression):
                copy.set(key, self._expression(value, env, names, rule))
            elif isinstance(value, list):
                copy.set(
                    key, [self._expression(v, env, names, rule) if isinstance(v, exp.Expression) else v for v in value]
                )
            else:
                copy.set(key, value)
        return copy

    def _column(self, node: exp.Column, names: _Names, rule: str) -> exp.Expression:
        alias = names.aliases.get(node.name.lower()) if not node.table and rule != _COLUMN_ONLY else None
        found = names.find(node) if rule != _ALIAS_FIRST or alias is None else None
        if found is not None:
            return found
        if alias is not None:
            simple = isinstance(alias, exp.Column | exp.Literal | exp.Func | exp.Paren)
            return alias.copy() if simple else exp.Paren(this=alias.copy())
        raise self._no_column(node, names)

    def _no_column(self, node: exp.Column, names: _Names) -> Exception:
        shown = f"{node.table}.{node.name}" if node.table else node.name
        if not node.table and node.name.lower() in names.sources:
            repair = "name its columns"
            return refusal(
                "DP111", f'"{shown}" is a table: whole rows are not values here', span=span_of(node), repair=repair
            )
        hint = nearest(node.name, names.all_columns())
        columns = ", ".join(dict.fromkeys(names.all_columns()))
        repair = f"the columns are: {columns[:200]}"
        return refusal("DP111", f'no column "{shown}" is visible here.{hint}', span=span_of(node), repair=repair)

    def _unique(self, base: str) -> str:
        base = "".join(c if c.isalnum() or c == "_" else "_" for c in base).lower() or "t"
        self._used[base] = self._used.get(base, 0) + 1
        return base if self._used[base] == 1 else self._unique(f"{base}_{self._used[base]}")


_COLUMN_FIRST, _ALIAS_FIRST, _COLUMN_ONLY = "column first", "alias first", "column only"


def _column(name: str) -> exp.Column:
    return exp.Column(this=exp.to_identifier(name))


def _renamed(names: list[str], called: list[str]) -> tuple[tuple[str, str], ...]:
    """(called, actual) pairs for `AS t(a, b)`: the first columns are renamed, the rest keep their names."""
    return tuple((called[i] if i < len(called) else name, name) for i, name in enumerate(names))


def _is_star(node: exp.Expression) -> bool:
    return isinstance(node, exp.Star) or (isinstance(node, exp.Column) and isinstance(node.this, exp.Star))


def _position(node: exp.Expression) -> int | None:
    return int(node.name) if isinstance(node, exp.Literal) and not node.is_string and node.name.isdigit() else None


def _default_name(node: exp.Expression) -> str:
    """The name of a column without an alias: as DuckDB calls it for the common cases, else its text."""
    if isinstance(node, exp.Column):
        return node.name
    if isinstance(node, exp.Count) and isinstance(node.this, exp.Star | None):
        return "count_star()"
    return node.sql(dialect="duckdb", comments=False, normalize_functions="lower")


def _is_plain_subquery(node: exp.Expression) -> bool:
    """Parentheses around a query, without clauses of their own such as (SELECT ...) LIMIT 5."""
    plain = isinstance(node, exp.Subquery) and isinstance(node.this, exp.Query)
    return plain and not any(v for k, v in node.args.items() if k not in ("this", "alias"))


def _from_items(node: exp.Select) -> list[exp.Expression]:
    from_ = node.args.get("from_")
    return [from_.this, *(j.this for j in node.args.get("joins") or ())] if from_ else []


def _is_release(node: exp.Select) -> bool:
    """Whether a SELECT aggregates: GROUP BY, HAVING, or an aggregate outside a window's own function."""
    if node.args.get("group") is not None or node.args.get("having") is not None:
        return True
    parts = [*node.expressions, node.args.get("qualify"), node.args.get("order")]
    return any(True for part in parts if part is not None for _ in aggregates(part))


def _unwrapped(node: exp.Expression) -> exp.Expression:
    while isinstance(node, exp.Subquery):
        node = node.this
    return node
