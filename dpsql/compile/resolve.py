"""Bind every name to the policy, as DuckDB would, and say of each SELECT block whether it is public or private.

In: a canonical tree. Out: `Resolved`: the same tree, in which public tables are written `pub."name"`, and beside it
one `PrivateBlock` per SELECT that reads private rows, with every column written `"alias"."column"` (aliases unique in
the statement), positions and aliases of GROUP BY and ORDER BY replaced by what they name, stars expanded and USING
turned into ON. It refuses names only (DP1xx). Whether a form can be answered is `lower`'s to say, so nothing is
refused twice and nothing twice allowed.

Columns resolve as `names` says. Of tables: `main.t` skips a CTE, and a CTE's own name inside its body is what it was
outside.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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
    is_release,
    item_name,
    rebound,
)
from dpsql.compile.names import Names, Prefer
from dpsql.compile.parse import Parsed, span_of
from dpsql.compile.trees import default_name, from_items, is_plain_subquery, is_star, rebuild
from dpsql.errors import nearest, refusal
from dpsql.policy.model import Policy, Table

PUBLIC_CATALOG = "pub"
_BEHIND = ("grouping_sets", "cube", "rollup")
"""Where sqlglot keeps what other dialects write behind the keys."""


def resolve(parsed: Parsed, policy: Policy) -> Resolved:
    """Bind all names of the statement. Raises DP110 to DP112."""
    resolver = _Resolver(policy)
    root = parsed.tree.copy()
    _check_reserved(root)
    bound = resolver.query(root, {})
    if bound is not None:
        resolver.blocks[id(root)] = bound
    return Resolved(root, resolver.blocks)


_Environment = Mapping[str, "_Cte"]


@dataclass(frozen=True, slots=True)
class _Cte:
    body: Private | None  # None: public
    columns: tuple[str, ...]


class _Resolver:
    def __init__(self, policy: Policy):
        self.policy = policy
        self.blocks: dict[int, Private] = {}
        self._used: dict[str, int] = {}

    # -- queries ------------------------------------------------------------------------------------------------

    def query(self, node: exp.Expr, env: _Environment) -> Private | None:
        """Resolve a query expression; None means public (releases inside included)."""
        env, ctes = self._with(node, env)
        if is_plain_subquery(node):
            return self.query(cast(exp.Expr, node.this), env)
        if isinstance(node, exp.Select):
            return self._select(node, env, ctes)
        private = False
        for child in node.iter_expressions():
            if isinstance(child, exp.With):
                continue
            if isinstance(child, exp.Query):
                bound = self.query(child, env)
                if isinstance(bound, PrivateBlock) and bound.is_release:
                    self.blocks[id(child.unnest())] = bound
                elif bound is not None:
                    private = True
            else:
                self._public_part(child, env)
        return PrivateOther(node) if private else None

    def _with(self, node: exp.Expr, env: _Environment) -> tuple[_Environment, tuple[exp.CTE, ...]]:
        """The environment inside `node`; private CTEs leave its WITH, public ones stay."""
        clause = node.args.get("with_")
        if clause is None:
            return env, ()
        inner = dict(env)
        kept: list[exp.CTE] = []
        if clause.args.get("recursive"):  # names that `lower` refuses must resolve first
            inner |= {cte.alias.lower(): _Cte(None, ()) for cte in clause.expressions}
        for cte in clause.expressions:
            body = cast(exp.Expr, cte.this)
            bound = self.query(body, inner)
            columns = tuple(c.name for c in cte.args["alias"].args.get("columns") or ())
            if isinstance(bound, PrivateBlock) and bound.is_release:
                self.blocks[id(body.unnest())] = bound
                bound = None
            if bound is None:
                kept.append(cte)
            inner[cte.alias.lower()] = _Cte(bound, columns)
        if kept or clause.args.get("recursive"):
            clause.set("expressions", kept or clause.expressions)
        else:
            node.set("with_", None)
        return inner, tuple(kept)

    def _select(self, node: exp.Select, env: _Environment, ctes: tuple[exp.CTE, ...]) -> PrivateBlock | None:
        if not any(self._holds_rows(item, env) for item in from_items(node)):
            for item in node.expressions:
                if not isinstance(item, exp.Alias) and item.find(exp.Query) is not None:
                    item.replace(exp.alias_(item.copy(), default_name(item), quoted=True))  # a release will stand in it
            for child in node.iter_expressions():
                if not isinstance(child, exp.With):
                    self._public_part(child, env)
            return None
        return self._private_select(node, env, ctes)

    def _public_part(self, node: exp.Expr, env: _Environment) -> None:
        """Bind the tables of a public block below `node`, and every query nested in it."""
        if isinstance(node, exp.Query):
            bound = self.query(node, env)
            if bound is not None:
                self.blocks[id(node.unnest())] = bound
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

    def _holds_rows(self, node: exp.Expr, env: _Environment) -> bool:
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
                return not is_release(node) and any(self._holds_rows(item, inner) for item in from_items(node))
            parts = [node.this, node.args.get("expression")]
            return any(self._holds_rows(part, inner) for part in parts if isinstance(part, exp.Expr))
        return False

    def _table(self, node: exp.Table) -> Table:
        """The policy's table of this name; `main.` may stand before it. Raises DP110."""
        shown = ".".join(p.name for p in node.parts)
        table = self.policy.table(shown)
        if table is not None:
            return table
        hint = nearest(shown, self.policy.tables)
        known = ", ".join(sorted(self.policy.tables)[:8])
        raise refusal(
            "DP110", f'no table "{shown}" is visible here.{hint}', span=span_of(node), repair=f"the tables are: {known}"
        )

    # -- private blocks -----------------------------------------------------------------------------------------

    def _private_select(self, node: exp.Select, env: _Environment, ctes: tuple[exp.CTE, ...]) -> PrivateBlock:
        names = Names()
        first = self._source(node.args["from_"].this, env, names)
        joins = [self._join(join, env, names) for join in node.args.get("joins") or ()]
        items = self._items(node, env, names)
        where = node.args.get("where")
        bound_where = self._expression(where.this, env, names, Prefer.COLUMN) if where else None
        groups = self._groups(node, env, names, items)
        having, qualify = node.args.get("having"), node.args.get("qualify")
        bound_having = self._expression(having.this, env, names, Prefer.ALIAS) if having else None
        bound_qualify = self._expression(qualify.this, env, names, Prefer.COLUMN) if qualify else None
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
            is_release=is_release(node),
        )

    def _source(self, node: exp.Expr, env: _Environment, names: Names) -> Source:
        """Bind one FROM item and make it visible. Nested joins in parentheses are left to `lower` to refuse."""
        alias = node.alias_or_name
        renamed = [c.name for c in (node.args["alias"].args.get("columns") or ())] if node.args.get("alias") else []
        source: Source = OtherSource(node)
        if isinstance(node, exp.Table) and isinstance(node.this, exp.Identifier) and not node.args.get("joins"):
            cte = env.get(node.name.lower()) if not node.db else None
            if cte is None:
                table = self._table(node)
                called = tuple(zip(_called(table.visible_columns, renamed), table.visible_columns, strict=True))
                source = TableSource(table, self._unique(table.name), called, node)
            elif isinstance(cte.body, PrivateBlock):
                source = BlockSource(cte.body, self._unique(alias), _items_of(cte.body, cte.columns, renamed), node)
        elif is_plain_subquery(node):
            bound = self.query(cast(exp.Expr, node.this), env)
            if isinstance(bound, PrivateBlock) and not bound.is_release:
                source = BlockSource(bound, self._unique(alias or "derived"), _items_of(bound, (), renamed), node)
        key = alias.lower() or f" {len(names.sources)}"
        if key in names.sources:
            reason = f'two tables in FROM are called "{alias}"'
            raise refusal("DP112", reason, span=span_of(node), repair="give one of them an alias")
        names.sources[key] = source
        return source

    def _join(self, join: exp.Join, env: _Environment, names: Names) -> BoundJoin:
        left_names = Names(dict(names.sources), dict(names.merged))
        source = self._source(join.this, env, names)
        words = [w for w in (join.method, join.side, join.kind) if w]
        kind = " ".join(w.upper() for w in words) or "INNER"
        kind = {"LEFT OUTER": "LEFT", "CROSS": "INNER"}.get(kind, kind)
        on = join.args.get("on")
        bound = self._expression(on, env, names, Prefer.COLUMN) if on is not None else None
        for identifier in join.args.get("using") or ():
            column = exp.Column(
                this=identifier.copy() if isinstance(identifier, exp.Identifier) else identifier.this.copy()
            )
            left, right = left_names.find(column), Names({"": source}).find(column)
            if left is None or right is None:
                raise (left_names if left is None else Names({"": source})).unknown(column)
            equal = exp.EQ(this=left, expression=right)
            bound = equal if bound is None else exp.And(this=bound, expression=equal)
            names.merged[column.name.lower()] = left
        return BoundJoin(kind, source, bound, join)

    def _items(self, node: exp.Select, env: _Environment, names: Names) -> list[Item]:
        items: list[Item] = []
        for written in node.expressions:
            if is_star(written):
                items += self._star(written, names)
                continue
            tree = self._expression(written.unalias(), env, names, Prefer.COLUMN)
            items.append(Item(written.alias or default_name(written), tree))
            if written.alias:
                names.aliases.setdefault(written.alias.lower(), tree)
        return items

    def _star(self, written: exp.Expr, names: Names) -> list[Item]:
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
            for called, actual in source.columns:
                if isinstance(source, TableSource) and actual not in source.table.columns:
                    continue  # a unit column that the policy does not list: it can be counted, not shown
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

    def _groups(self, node: exp.Select, env: _Environment, names: Names, items: list[Item]) -> tuple[exp.Expr, ...]:
        group = node.args.get("group")
        if group is None:
            distinct = node.args.get("distinct") is not None and not any(
                True for i in items for _ in aggregates(i.tree)
            )
            return tuple(i.tree.copy() for i in items) if distinct else ()
        if group.args.get("all"):
            return tuple(i.tree.copy() for i in items if not any(True for _ in aggregates(i.tree)))

        def leaf(part: exp.Expr) -> exp.Expr:
            position = _position(part)
            if position is not None:
                return self._at(position, part, items).copy()
            if isinstance(part, exp.Column) and not part.table and names.find(part) is None:
                alias = names.aliases.get(part.name.lower())
                return alias.copy() if alias is not None else self._expression(part, env, names, Prefer.COLUMN)
            return self._expression(part, env, names, Prefer.ONLY_COLUMN)

        behind = [v for clause in _BEHIND for v in group.args.get(clause) or () if isinstance(v, exp.Expr)]
        return tuple(rebound(element, leaf) for element in (*group.expressions, *behind))

    def _order(self, node: exp.Select, env: _Environment, names: Names, items: list[Item]) -> tuple[exp.Ordered, ...]:
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
                and names.find(exp.column("all")) is None
            ):
                bound += [exp.Ordered(**{**written.args, "this": i.tree.copy()}) for i in items]
                continue
            else:
                tree = self._expression(inner, env, names, Prefer.COLUMN)
            ordered = written.copy() if isinstance(written, exp.Ordered) else exp.Ordered()
            ordered.set("this", tree)
            bound.append(ordered)
        return tuple(bound)

    def _at(self, position: int, node: exp.Expr, items: list[Item]) -> exp.Expr:
        if not 1 <= position <= len(items):
            raise refusal(
                "DP111", f"position {position} is not in the SELECT list of {len(items)} columns", span=span_of(node)
            )
        return items[position - 1].tree

    def _expression(self, node: exp.Expr, env: _Environment, names: Names, rule: Prefer) -> exp.Expr:
        """A bound copy of an expression. Queries nested in it are resolved on their own."""
        if isinstance(node, exp.Query):
            copy = node.copy()
            bound = self.query(copy, env)
            if bound is not None:
                self.blocks[id(copy.unnest())] = bound
            return copy
        if isinstance(node, exp.Column) and isinstance(node.this, exp.Identifier):
            return names.bind(node, rule)
        if isinstance(node, exp.Star) or not any(True for _ in node.iter_expressions()):
            return node.copy()
        return rebuild(node, lambda child: self._expression(child, env, names, rule))

    def _unique(self, base: str) -> str:
        base = "".join(c if c.isalnum() or c == "_" else "_" for c in base).lower() or "t"
        self._used[base] = self._used.get(base, 0) + 1
        return base if self._used[base] == 1 else self._unique(f"{base}_{self._used[base]}")


def _called(names: Sequence[str], renamed: Sequence[str]) -> list[str]:
    """Names under `AS t(a, b)`: the first columns are renamed, the rest keep theirs."""
    return [*renamed[: len(names)], *names[len(renamed) :]]


def _items_of(block: PrivateBlock, of_cte: Sequence[str], renamed: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """(called, actual) pairs of a subquery's columns. In the SQL that is made they are c1, c2, ...: no name of an
    analyst's can stand beside, or in the place of, "$unit" and "$rank" (DuckDB takes the first of two equal names)."""
    called = _called(_called([item.name for item in block.items], of_cte), renamed)
    return tuple((name, item_name(i)) for i, name in enumerate(called))


def _position(node: exp.Expr) -> int | None:
    return int(node.name) if isinstance(node, exp.Literal) and not node.is_string and node.name.isdigit() else None


def _check_reserved(root: exp.Expr) -> None:
    """The outer SQL calls released tables released_1, ...: a name of the analyst's must not stand in their place."""
    for node in root.find_all(exp.TableAlias, exp.Table):
        name = node.name.lower()
        if name.startswith("released_") and name[9:].isdigit():
            reason = f'"{node.name}" is a name of dpsql\'s own'
            raise refusal("DP112", reason, span=span_of(node), repair="use another name")
