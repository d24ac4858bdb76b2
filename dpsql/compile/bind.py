"""Bind the expressions of one private SELECT: stars, positions, aliases and columns become what they mean.

Role: turn a SELECT whose FROM items are known into a `PrivateBlock`. Columns resolve as `names` says. A query nested in
an expression is resolved by whoever made the binder, and a column that stands for it is put in its place. Refuses names
only (DP1xx).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlglot import exp

from dpsql.compile.blocks import (
    NESTED,
    BoundJoin,
    Item,
    OtherSource,
    PrivateBlock,
    Shape,
    Source,
    TableSource,
    aggregates,
    is_aggregate,
    is_aggregated,
    leaves,
    rebound,
    tables_of,
)
from dpsql.compile.labels import identify, labels_in
from dpsql.compile.names import Names, Prefer
from dpsql.compile.parse import span_of
from dpsql.compile.trees import CALLED, conjuncts, copied, default_name, folded, is_star, rebuild, shown, wrapped
from dpsql.errors import Span, refusal
from dpsql.policy.model import Policy

Nest = Callable[[exp.Expr, Names], exp.Expr]
"""What stands for a query nested in an expression, given the names that it may use from outside."""

Keep = Callable[[PrivateBlock, Span | None], exp.Expr]
"""What stands in an expression for a query that is bound already."""

_BEHIND = ("grouping_sets", "cube", "rollup")
"""Where sqlglot keeps what other dialects write behind the keys."""

_KINDS = {"LEFT OUTER": "LEFT", "RIGHT OUTER": "RIGHT", "FULL OUTER": "FULL", "CROSS": "INNER"}


class Binder:
    """Binds one SELECT over `names`, which its FROM items have filled."""

    def __init__(self, node: exp.Select, names: Names, nest: Nest, keep: Keep, policy: Policy):
        self.node, self.names, self.nest, self.keep, self.policy = node, names, nest, keep, policy
        self.items: list[Item] = []
        self._keys: list[exp.Expr] = []  # of GROUP BY
        self._tests: list[exp.Expr] = []  # of SEMI and ANTI joins, which are EXISTS by another name

    def block(self, first: Source, others: Sequence[Source], ctes: tuple[exp.CTE, ...]) -> PrivateBlock:
        """The SELECT over these FROM items."""
        node, names = self.node, self.names
        bound = (self._join(j, s) for j, s in zip(node.args.get("joins") or (), others, strict=True))
        joins = [join for join in bound if join is not None]
        self._bind_items()
        where = node.args.get("where")
        bound_where = self.expression(where.this, Prefer.COLUMN) if where else None
        groups = self._groups()
        having, qualify = node.args.get("having"), node.args.get("qualify")
        self._keys = [leaf for element in groups for leaf in leaves(element)]
        bound_having = self.expression(having.this, Prefer.ALIAS) if having else None
        bound_qualify = self.expression(qualify.this, Prefer.COLUMN) if qualify else None
        order = self._order()
        sources = [first, *(j.source for j in joins)]
        for test in self._tests:
            bound_where = test if bound_where is None else exp.And(this=wrapped(bound_where), expression=test)
        where_here, correlated = _split(bound_where, {s.alias for s in sources})
        return PrivateBlock(
            node=node,
            first=first,
            joins=tuple(joins),
            where=where_here,
            items=tuple(self.items),
            groups=groups,
            having=bound_having,
            qualify=bound_qualify,
            order=order,
            ctes=ctes,
            shape=self._shape(groups, correlated, sources, names),
            correlated=correlated,
        )

    def _shape(
        self,
        groups: Sequence[exp.Expr],
        correlated: Sequence[tuple[exp.Expr, exp.Expr]],
        sources: Sequence[Source],
        names: Names,
    ) -> Shape:
        if not is_aggregated(self.node):
            return Shape.ROWS
        found = [labels_in(leaf, sources, self.policy) for element in groups for leaf in leaves(element)]
        around = names.around()
        for inner, outer in correlated:  # a key too: each value of the query around has its own group
            found.append(labels_in(inner, sources, self.policy) & labels_in(outer, around, self.policy))
        return Shape.PER_UNIT if identify(found, self.policy) else Shape.RELEASE

    def expression(self, node: exp.Expr, rule: Prefer) -> exp.Expr:
        """A bound copy of an expression."""
        if isinstance(node, exp.Query):
            return self.nest(node, self.names)
        if isinstance(node, exp.Column) and isinstance(node.this, exp.Identifier):
            return self.names.bind(node, Prefer.COLUMN if self._is_key(node, rule) else rule)
        if isinstance(node, exp.Column):
            reason, repair = f"{shown(node)} is no value here", "name a column, or write COUNT(*)"
            raise refusal("DP230", reason, span=span_of(node), repair=repair)
        if rule is Prefer.ALIAS and is_aggregate(node):
            rule = Prefer.ONLY_COLUMN
        if isinstance(node, exp.Star) or not any(True for _ in node.iter_expressions()):
            return copied(node)
        return rebuild(node, lambda child: self.expression(child, rule))

    def _is_key(self, column: exp.Column, rule: Prefer) -> bool:
        """Whether a name of HAVING is a key of GROUP BY: that is what it means, whatever has it for an alias."""
        keys = [k for k in self._keys if isinstance(k, exp.Column)]
        return rule is Prefer.ALIAS and bool(keys) and self.names.find(column) in keys

    # -- FROM ---------------------------------------------------------------------------------------------------

    def _join(self, join: exp.Join, source: Source) -> BoundJoin | None:
        """A join with the FROM items before it. USING and NATURAL become ON; SEMI and ANTI become EXISTS."""
        sources = list(self.names.sources.items())
        before = next(i for i, (_, s) in enumerate(sources) if s is source)
        left = Names(dict(sources[:before]), self.names.merged)
        right = Names(dict([sources[before]]))
        words = " ".join(w.upper() for w in (join.method, join.side, join.kind) if w) or "INNER"
        kind = _KINDS.get(words, words)
        on = join.args.get("on")
        bound = None
        if on is not None:
            visible = Names({**left.sources, **right.sources}, left.merged, outer=self.names.outer)
            bound = Binder(self.node, visible, self.nest, self.keep, self.policy).expression(on, Prefer.COLUMN)
        shared = [u if isinstance(u, exp.Identifier) else u.this for u in join.args.get("using") or ()]
        if join.method.upper() == "NATURAL":
            kind = _KINDS.get(kind.removeprefix("NATURAL").strip(), kind.removeprefix("NATURAL").strip() or "INNER")
            theirs = {folded(name) for name in right.all_columns()}
            shared = [exp.to_identifier(n, quoted=True) for n in left.all_columns() if folded(n) in theirs]
        for identifier in shared:
            column = exp.Column(this=copied(identifier))
            ours, other = left.find(column), right.find(column)
            if ours is None or other is None:
                raise (left if ours is None else right).unknown(column)
            equal = exp.EQ(this=ours, expression=other)
            bound = equal if bound is None else exp.And(this=bound, expression=equal)
            if kind in ("SEMI", "ANTI"):
                continue
            merged = {"RIGHT": other, "FULL": exp.Coalesce(this=copied(ours), expressions=[copied(other)])}
            self.names.merged[folded(column.name)] = merged.get(kind, ours).copy()
        if kind in ("SEMI", "ANTI"):
            del self.names.sources[sources[before][0]]
            self._test(kind, source, bound)
            return None
        return BoundJoin(kind, source, bound, join)

    def _test(self, kind: str, source: Source, on: exp.Expr | None) -> None:
        where, correlated = _split(on, {source.alias})
        block = PrivateBlock(
            node=exp.Select(),
            first=source,
            joins=(),
            where=where,
            items=(Item("1", exp.Literal.number(1)),),
            groups=(),
            having=None,
            qualify=None,
            order=(),
            ctes=(),
            shape=Shape.ROWS,
            correlated=correlated,
        )
        found = exp.Exists(this=self.keep(block, span_of(source.node)))
        self._tests.append(exp.Not(this=found) if kind == "ANTI" else found)

    # -- the SELECT list ----------------------------------------------------------------------------------------

    def _bind_items(self) -> None:
        last = {folded(written.alias): written for written in self.node.expressions if written.alias}
        for written in self.node.expressions:
            if is_star(written):
                self.items += self._star(written)
                continue
            tree = self.expression(written.unalias(), Prefer.COLUMN)
            self.items.append(Item(written.alias or default_name(written), tree))
            if written.alias and last[folded(written.alias)] is written:
                self.names.aliases[folded(written.alias)] = tree

    def _star(self, written: exp.Expr) -> list[Item]:
        """The columns a star stands for."""
        names = self.names
        star = written if isinstance(written, exp.Star) else written.this
        opaque = any(isinstance(s, OtherSource) for s in names.sources.values())
        if any(star.args.values()):
            reason = "a star with EXCLUDE, REPLACE or RENAME is not answered over private rows"
            raise refusal("DP240", reason, span=span_of(written), repair="name the columns")
        if opaque:
            return [Item("*", copied(written))]
        qualifier = folded(written.table) if isinstance(written, exp.Column) else ""
        if isinstance(written, exp.Column) and qualifier and qualifier not in names.sources:
            raise names.no_source(written)
        items, seen = [], set()
        for visible, source in names.sources.items():
            if qualifier and visible != qualifier:
                continue
            for called, actual in source.columns:
                if isinstance(source, TableSource) and actual not in source.table.columns:
                    continue  # a unit column that the policy does not list: it can be counted, not shown
                merged = not qualifier and folded(called) in names.merged
                if merged and folded(called) in seen:
                    continue
                seen.add(folded(called))
                table = None if merged else exp.to_identifier(visible)
                column = exp.Column(this=exp.to_identifier(called, quoted=True), table=table)
                column.this.meta.update(star.meta)
                found = names.find(column)
                if found is not None:
                    found.meta[CALLED] = (called,)
                    items.append(Item(called, found))
        return items

    # -- GROUP BY, ORDER BY -------------------------------------------------------------------------------------

    def _groups(self) -> tuple[exp.Expr, ...]:
        group, items, names = self.node.args.get("group"), self.items, self.names
        if group is None:
            distinct = self.node.args.get("distinct") is not None and not any(
                True for i in items for _ in aggregates(i.tree)
            )
            return tuple(copied(i.tree) for i in items) if distinct else ()
        if group.args.get("all"):
            return tuple(copied(i.tree) for i in items if not any(True for _ in aggregates(i.tree)))

        def leaf(part: exp.Expr) -> exp.Expr:
            position = _position(part)
            if position is not None:
                return self._at(position, part).copy()
            if isinstance(part, exp.Column) and not part.table and names.find(part) is None:
                alias = names.aliases.get(folded(part.name))
                return copied(alias) if alias is not None else self.expression(part, Prefer.COLUMN)
            return self.expression(part, Prefer.ONLY_COLUMN)

        behind = [v for clause in _BEHIND for v in group.args.get(clause) or () if isinstance(v, exp.Expr)]
        return tuple(rebound(element, leaf) for element in (*group.expressions, *behind))

    def _order(self) -> tuple[exp.Ordered, ...]:
        bound = []
        order = self.node.args.get("order")
        for written in order.expressions if order else ():
            for tree in self._sorted_by(written.this if isinstance(written, exp.Ordered) else written):
                ordered = copied(written) if isinstance(written, exp.Ordered) else exp.Ordered()
                ordered.set("this", tree)
                bound.append(ordered)
        return tuple(bound)

    def _sorted_by(self, written: exp.Expr) -> list[exp.Expr]:
        """What a term of ORDER BY stands for. A constant of the SELECT list orders nothing and is left out: written
        here, a number would be a position."""
        names, position = self.names, _position(written)
        if position is not None:
            named = [self._at(position, written)]
        elif isinstance(written, exp.Column) and not written.table and folded(written.name) in names.aliases:
            named = [names.aliases[folded(written.name)]]
        elif (
            isinstance(written, exp.Var | exp.Column)
            and folded(written.name) == "all"
            and names.find(exp.column("all")) is None
        ):
            named = [item.tree for item in self.items]
        else:
            return [self.expression(written, Prefer.COLUMN)]
        return [copied(tree) for tree in named if not _is_constant(tree)]

    def _at(self, position: int, node: exp.Expr) -> exp.Expr:
        if not 1 <= position <= len(self.items):
            reason = f"position {position} is not in the SELECT list of {len(self.items)} columns"
            repair = f"write a position from 1 to {len(self.items)}, or the name of a column"
            raise refusal("DP111", reason, span=span_of(node), repair=repair)
        return self.items[position - 1].tree


def _split(where: exp.Expr | None, own: set[str]) -> tuple[exp.Expr | None, tuple[tuple[exp.Expr, exp.Expr], ...]]:
    """WHERE without those conjuncts that equate something of this SELECT with something of the query around it, and
    these."""
    kept: list[exp.Expr] = []
    correlated: list[tuple[exp.Expr, exp.Expr]] = []
    for part in conjuncts(where):
        sides = [(part.this, part.expression), (part.expression, part.this)] if isinstance(part, exp.EQ) else []
        for inner, outer in sides:
            mine, others = tables_of(inner), tables_of(outer)
            if mine and mine <= own and others and not others & {NESTED, *own}:
                correlated.append((inner, outer))
                break
        else:
            kept.append(part)
    if not correlated:
        return where, ()
    return (exp.and_(*(wrapped(k) for k in kept), copy=False) if kept else None), tuple(correlated)


def _position(node: exp.Expr) -> int | None:
    return int(node.name) if isinstance(node, exp.Literal) and not node.is_string and node.name.isdigit() else None


def _is_constant(tree: exp.Expr) -> bool:
    return isinstance(tree.this if isinstance(tree, exp.Neg) else tree, exp.Literal | exp.Boolean | exp.Null)
