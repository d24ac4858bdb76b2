"""Bind every name to the policy, as DuckDB would, and say of each SELECT block whether it is public or private.

In: a canonical tree. Out: `Resolved`: the same tree, in which public tables are written `pub."name"`, and beside it
one `PrivateBlock` per SELECT that reads private rows, with every column written `"alias"."column"` (aliases unique in
the statement), positions and aliases of GROUP BY and ORDER BY replaced by what they name, stars expanded and USING
turned into ON. It refuses names only (DP1xx). Whether a form can be answered is `lower`'s to say, so nothing is
refused twice and nothing twice allowed.

Columns resolve as `names` says. Of tables: `main.t` skips a CTE, and a CTE's own name inside its body is what it was
outside. A query may name columns of the queries around it, which are looked up after its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import cast

from sqlglot import exp

from dpsql.compile.bind import Binder
from dpsql.compile.blocks import (
    BlockSource,
    Nested,
    OtherSource,
    Private,
    PrivateBlock,
    PrivateOther,
    PrivateUnion,
    PublicBlock,
    PublicSource,
    Resolved,
    Source,
    TableSource,
    check_blocks,
    check_from,
    holds_rows,
    item_name,
    nested_column,
    tables_of,
    united,
)
from dpsql.compile.names import Names, Prefer, called_columns
from dpsql.compile.outputs import Cte, Environment, as_written, columns_of, items_of, kept_in
from dpsql.compile.parse import Parsed, span_of
from dpsql.compile.trees import aliased, copied, default_name, folded, from_items, is_plain_subquery
from dpsql.errors import Error, Span, nearest, refusal
from dpsql.policy.model import Policy, Table

PUBLIC_CATALOG = "pub"
_OURS = ("released_", "public_")
"""How the tables that dpsql makes are called, with a number behind."""


def resolve(parsed: Parsed, policy: Policy) -> Resolved:
    """Bind all names of the statement. Raises DP110 to DP112."""
    resolver = _Resolver(policy)
    root = copied(parsed.tree)
    _check_reserved(root)
    bound = resolver.query(root, {})
    if bound is not None:
        resolver.blocks[id(root)] = bound
    return Resolved(root, resolver.blocks, resolver.nested, resolver.doubts, parsed.hints, parsed.clauses)


class _Resolver:
    def __init__(self, policy: Policy):
        self.policy = policy
        self.blocks: dict[int, Private] = {}
        self.nested: list[Nested] = []
        self.doubts: list[Error] = []
        self._used: dict[str, int] = {}
        self._ctes: set[str] = set()

    # -- queries ------------------------------------------------------------------------------------------------

    def query(self, node: exp.Expr, env: Environment, outer: Names | None = None) -> Private | None:
        """Resolve a query expression; None means public (releases inside included)."""
        env, ctes = self._with(node, env)
        if is_plain_subquery(node):
            return self.query(cast(exp.Expr, node.this), env, outer)
        if isinstance(node, exp.Select):
            return self._select(node, env, ctes, outer)
        found: list[Private | None] = []
        for child in node.iter_expressions():
            if isinstance(child, exp.With):
                continue
            if isinstance(child, exp.Query):
                found.append(self._public_or_rows(child, env, outer))
            else:
                self._public_part(child, env, outer)
        if not any(found):
            return None
        rows = [b for b in found if isinstance(b, PrivateBlock | PrivateUnion)]
        plain = not any(node.args.get(k) for k in ("order", "limit", "offset", "by_name", "side", "kind", "on"))
        if isinstance(node, exp.Union) and plain and len(rows) == len(found) == 2:
            return united(node, rows, distinct=bool(node.args.get("distinct")))
        return PrivateOther(node)

    def _public_or_rows(self, node: exp.Expr, env: Environment, outer: Names | None) -> Private | None:
        """Resolve a query in a place where a release is public."""
        bound = self.query(node, env, outer)
        if isinstance(bound, PrivateBlock) and bound.is_release:
            self.blocks[id(node.unnest())] = bound
            return None
        return bound

    def _with(self, node: exp.Expr, env: Environment) -> tuple[Environment, tuple[exp.CTE, ...]]:
        """The environment inside `node`; private CTEs leave its WITH, public ones stay."""
        clause = node.args.get("with_")
        if clause is None:
            return env, ()
        inner = dict(env)
        kept: list[exp.CTE] = []
        recursive = bool(clause.args.get("recursive"))
        if recursive:  # names that `lower` refuses must resolve first
            inner |= {folded(cte.alias): Cte(None, ()) for cte in clause.expressions}
        for cte in clause.expressions:
            bound = self._public_or_rows(cast(exp.Expr, cte.this), inner, None)
            columns = tuple(c.name for c in cte.args["alias"].args.get("columns") or ())
            name = folded(cte.alias)
            if bound is None:
                kept.append(cte)
                if not recursive:
                    self._make_unique(cte)
            inner.pop(name, None)  # so that a WITH of all that are left can name them in this order
            inner[name] = Cte(bound, columns, cte if bound is None else None)
        if kept or recursive:
            clause.set("expressions", kept or clause.expressions)
        else:
            node.set("with_", None)
        return inner, tuple(kept)

    def _make_unique(self, cte: exp.CTE) -> None:
        """A public CTE whose name another has had gets one of its own: they may have to stand in one WITH."""
        name = folded(cte.alias)
        if name in self._ctes:
            name = next(n for i in range(2, len(self._ctes) + 3) if (n := f"{name}_{i}") not in self._ctes)
            cte.args["alias"].set("this", exp.to_identifier(name, quoted=True))
        self._ctes.add(name)

    def _select(
        self, node: exp.Select, env: Environment, ctes: tuple[exp.CTE, ...], outer: Names | None
    ) -> PrivateBlock | None:
        names = Names(outer=outer)
        items = from_items(node)
        check_from(items)
        sources = [self._source(item, env, names) for item in items]
        if any(map(holds_rows, sources)):
            return self._private(node, sources, env, ctes, names)
        for item in node.expressions:
            if not isinstance(item, exp.Alias) and item.find(exp.Query) is not None:
                item.replace(aliased(copied(item), default_name(item)))  # a release will stand in it
        for visible in names.sources:  # the aliases of private blocks below are not to hide these
            self._used.setdefault(visible, 1)
        written = Names({visible: as_written(s, visible) for visible, s in names.sources.items()}, outer=outer)
        self._doubt(node, written)
        joins = node.args.get("joins") or ()
        for part in [
            *(c for c in node.iter_expressions() if not isinstance(c, exp.With | exp.From | exp.Join)),
            *joins,
        ]:
            for child in part.iter_expressions() if isinstance(part, exp.Join) else [part]:
                if child is not part.this or not isinstance(part, exp.Join):
                    self._public_part(child, env, written)
        return None

    def _doubt(self, node: exp.Select, written: Names) -> None:
        """Note the names of a public SELECT that none of its tables has, and none of its aliases is."""
        if not written.sources or any(not s.columns for s in written.sources.values()):
            return
        aliases: dict[str, exp.Expr] = {folded(i.alias): i for i in node.expressions if i.alias}
        names = Names(written.sources, aliases=aliases, outer=written.outer)
        for column in node.find_all(exp.Column):
            if isinstance(column.this, exp.Identifier) and column.find_ancestor(exp.Query) is node:
                try:
                    names.bind(column, Prefer.COLUMN)
                except Error as error:
                    self.doubts.append(error)

    def _private(
        self,
        node: exp.Select,
        sources: Sequence[Source],
        env: Environment,
        ctes: tuple[exp.CTE, ...],
        names: Names,
    ) -> PrivateBlock:
        sizes = [s.block.size for s in sources if isinstance(s, BlockSource)]

        def kept(nested: Nested, span: Span | None = None) -> exp.Expr:
            sizes.append(nested.size if isinstance(nested, PrivateBlock | PrivateUnion) else 0)
            return self._kept(nested, span)

        binder = Binder(node, names, lambda query, around: kept(*self._nest(query, env, around)), kept, self.policy)
        check_blocks(1 + sum(sizes), node)
        block = replace(binder.block(sources[0], sources[1:], ctes), size=1 + sum(sizes))
        check_blocks(block.size, node)
        return block

    def _kept(self, nested: Nested, span: Span | None = None) -> exp.Expr:
        """What stands for a nested query in the expression around it, at its place."""
        self.nested.append(nested)
        return nested_column(len(self.nested) - 1, span)

    def _public_part(self, node: exp.Expr, env: Environment, outer: Names | None) -> None:
        """Resolve what is nested below a part of a public query."""
        if isinstance(node, exp.Query):
            bound = self.query(node, env, outer)
            if bound is not None:
                self.blocks[id(node.unnest())] = bound
            return
        if isinstance(node, exp.Table) and isinstance(node.this, exp.Identifier):
            self._bind_public_table(node, env)
        for child in list(node.iter_expressions()):
            self._public_part(child, env, outer)

    def _nest(self, node: exp.Expr, env: Environment, names: Names) -> tuple[Nested, Span | None]:
        """Resolve a query in an expression of a private block; and where it stands."""
        copy = copied(node)
        bound: Nested | None = self.query(copy, env, names)
        if bound is None:
            bound = self._correlated(node, env, names) or PublicBlock(copy, kept_in(env))
        return bound, span_of(node)

    def _correlated(self, node: exp.Expr, env: Environment, names: Names) -> PrivateBlock | None:
        """A public SELECT that names columns of the private block around it, bound like a private one."""
        select = copied(node).unnest()
        if not isinstance(select, exp.Select) or select.args.get("with_") or not from_items(select):
            return None
        inner = Names(outer=names)
        try:
            sources = [self._source(item, env, inner) for item in from_items(select)]
            if not all(isinstance(s, TableSource) for s in sources):
                return None
            block = self._private(select, sources, env, (), inner)
        except Error:
            return None
        own = {s.alias for s in block.sources}
        trees = [*(i.tree for i in block.items), block.where, *(j.on for j in block.joins), *block.groups, block.having]
        around = block.correlated or any(tables_of(t) - own for t in trees if t is not None)
        return block if around else None

    # -- FROM ---------------------------------------------------------------------------------------------------

    def _source(self, node: exp.Expr, env: Environment, names: Names) -> Source:
        """Bind one FROM item and make it visible. Nested joins in parentheses are left to `lower` to refuse."""
        alias = node.alias_or_name
        renamed = [c.name for c in (node.args["alias"].args.get("columns") or ())] if node.args.get("alias") else []
        source: Source | None = None
        rows = False
        if isinstance(node, exp.Table) and isinstance(node.this, exp.Identifier) and not node.args.get("joins"):
            cte = env.get(folded(node.name)) if not node.db else None
            if cte is None:
                table = self._table(node)
                called = called_columns(table.visible_columns, renamed, span_of(node))
                columns = tuple(zip(called, table.visible_columns, strict=True))
                source = TableSource(table, self._unique(table.name), columns, node)
                if table.public:
                    self._bind_public_table(node, env)
            elif isinstance(cte.body, PrivateBlock | PrivateUnion):
                source = BlockSource(
                    cte.body, self._unique(alias), items_of(cte.body, cte.columns, renamed, node), node
                )
            elif cte.body is None:
                source = self._public_cte(node, cte, alias, renamed, env)
            else:
                rows = True
        elif isinstance(node, exp.Subquery) and isinstance(node.this, exp.Query):
            bound = self._public_or_rows(node.this if is_plain_subquery(node) else node, env, None)
            if isinstance(bound, PrivateBlock | PrivateUnion):
                source = BlockSource(bound, self._unique(alias or "derived"), items_of(bound, (), renamed, node), node)
            elif bound is None:
                source = self._public(node, alias, renamed, env)
            else:
                rows = True
        elif isinstance(node, exp.Lateral):
            rows = any(self._reads_rows(table, env) for table in node.find_all(exp.Table))
        elif self._reads_rows(node, env):
            rows = True
        else:
            self._public_part(node, env, None)
            source = self._public(node, alias, renamed, env)
        source = source or OtherSource(node, rows=rows)
        key = folded(alias) or f" {len(names.sources)}"
        if key in names.sources:
            reason = f'two tables in FROM are called "{alias}"'
            repair = f"give one of them another alias: {alias}2"
            raise refusal("DP112", reason, span=span_of(node), repair=repair)
        names.sources[key] = source
        return source

    def _public_cte(
        self, node: exp.Expr, cte: Cte, alias: str, renamed: Sequence[str], env: Environment
    ) -> PublicSource | None:
        """A public CTE in FROM, written by the name that it has now."""
        if cte.kept is None:
            return None
        self._write_cte(node, cte.kept)
        inside = columns_of(cast(exp.Expr, cte.kept.this), env, self._policy_columns)
        if inside is None or node.args.get("joins"):
            return None
        columns = called_columns(inside, cte.columns, span_of(node), spare=True)
        query = exp.select("*").from_(exp.Table(this=exp.to_identifier(cte.kept.alias, quoted=True)))
        return self._public_source(node, query, alias, called_columns(columns, renamed, span_of(node)), env)

    def _public(self, node: exp.Expr, alias: str, renamed: Sequence[str], env: Environment) -> PublicSource | None:
        """A public subquery or VALUES in FROM."""
        columns = columns_of(node, env, self._policy_columns)
        if columns is None:
            return None
        if is_plain_subquery(node):
            query = cast(exp.Expr, node.this)
        else:
            query = copied(node)
            query.set("alias", None)
            query = exp.select("*").from_(query) if isinstance(query, exp.Values) else query
        return self._public_source(node, query, alias, called_columns(columns, renamed, span_of(node)), env)

    def _public_source(
        self, node: exp.Expr, query: exp.Expr, alias: str, called: Sequence[str], env: Environment
    ) -> PublicSource:
        columns = tuple((name, item_name(i)) for i, name in enumerate(called))
        return PublicSource(PublicBlock(query, kept_in(env)), self._unique(alias or "derived"), columns, node)

    def _write_cte(self, node: exp.Expr, cte: exp.CTE) -> None:
        """Name a CTE in FROM as it is called now, and by its old name for the columns."""
        if folded(cte.alias) != folded(node.name):
            if not node.args.get("alias"):
                node.set("alias", exp.TableAlias(this=exp.to_identifier(node.name, quoted=True)))
            node.set("this", exp.to_identifier(cte.alias, quoted=True))

    def _reads_rows(self, node: exp.Expr, env: Environment) -> bool:
        """Whether a FROM item that is neither table nor query names a private table or CTE."""
        for table in node.walk(prune=lambda n: isinstance(n, exp.Select | exp.SetOperation)):
            if isinstance(table, exp.Table) and isinstance(table.this, exp.Identifier):
                cte = env.get(folded(table.name)) if not table.db else None
                if cte.body is not None if cte is not None else not self._table(table).public:
                    return True
        return False

    def _bind_public_table(self, node: exp.Table, env: Environment) -> None:
        if not node.db and folded(node.name) in env:
            kept = env[folded(node.name)].kept
            if kept is not None:
                self._write_cte(node, kept)
            return
        table = self._table(node)
        if not table.public:
            raise refusal("DP901", "a private table stands in a public place")
        if not node.alias:
            node.set("alias", exp.TableAlias(this=exp.to_identifier(node.name, quoted=True)))
        identifier = exp.to_identifier(table.name, quoted=True)
        identifier.meta.update(node.this.meta)
        node.set("this", identifier)
        node.set("db", exp.to_identifier(PUBLIC_CATALOG))
        node.set("catalog", None)

    def _table(self, node: exp.Table, *, catalog: bool = False) -> Table:
        """The policy's table of this name; `main.` may stand before it, and the public catalog where that is ours
        already. Raises DP110."""
        parts = node.parts[1:] if catalog and node.db == PUBLIC_CATALOG else node.parts
        shown = ".".join(p.name for p in parts)
        table = self.policy.table(shown)
        if table is not None:
            return table
        hint = nearest(shown, self.policy.tables)
        known = ", ".join(sorted(self.policy.tables)[:8])
        raise refusal(
            "DP110", f'no table "{shown}" is visible here{hint}', span=span_of(node), repair=f"the tables are: {known}"
        )

    def _policy_columns(self, node: exp.Table) -> Sequence[str]:
        return self._table(node, catalog=True).visible_columns

    def _unique(self, base: str) -> str:
        base = "".join(c if c.isalnum() or c == "_" else "_" for c in base).lower() or "t"
        self._used[base] = self._used.get(base, 0) + 1
        return base if self._used[base] == 1 else self._unique(f"{base}_{self._used[base]}")


def _check_reserved(root: exp.Expr) -> None:
    """The outer SQL calls released tables released_1, ...: a name of the analyst's must not stand in their place."""
    for node in root.find_all(exp.TableAlias, exp.Table):
        name = node.name.lower()
        if any(name.startswith(ours) and name[len(ours) :].isdigit() for ours in _OURS):
            reason = f'"{node.name}" is a name of dpsql\'s own'
            raise refusal("DP112", reason, span=span_of(node), repair="use another name")
