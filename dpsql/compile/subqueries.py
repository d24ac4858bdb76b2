"""Queries in expressions of private rows: EXISTS, IN and scalar subqueries.

EXISTS and IN become a `Mark`: a column that says whether the subquery has such a row. Over private rows they look at
rows of the same unit only, which `rewrite` sees to (one NULL of another unit would take every `NOT IN` to nothing);
and they are refused unless they are meant so, by an equality of the unit or of an entity that belongs to one.

A scalar subquery becomes a LEFT JOIN that cannot multiply: with a public result (a release among them), looked up by
what it is correlated on; with groups of the same unit's rows; or with a row found by its key.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sqlglot import exp

from dpsql.compile import joins, perunit
from dpsql.compile.blocks import (
    NESTED,
    Nested,
    PrivateBlock,
    PrivateOther,
    PrivateUnion,
    PublicBlock,
    Shape,
    is_optional,
    item_name,
    nested_in,
    tables_of,
)
from dpsql.compile.comparisons import NEGATED
from dpsql.compile.ir import FOUND, Facts, Mark, Scope
from dpsql.compile.joins import left_join
from dpsql.compile.kinds import BOOLEAN
from dpsql.compile.labels import identify, is_unit, labels_in, labels_of_output
from dpsql.compile.lowered import ROW_CLAUSES, Lowered, check_clauses, public
from dpsql.compile.parse import span_of
from dpsql.compile.scalars import lower_condition
from dpsql.compile.trees import column, conjuncts, is_star, rebuild, shown, unwrapped, wrapped
from dpsql.errors import Error, Span, refusal

if TYPE_CHECKING:
    from dpsql.compile.rows import RowLowerer


def in_predicate(
    rows: RowLowerer, block: PrivateBlock, made: Lowered, predicate: exp.Expr, around: Scope | None
) -> exp.Expr:
    """A predicate of rows with its subqueries made columns of `made`. As a conjunct, IN has to be told from FALSE and
    NULL alike, and NOT IN from both as well: one mark does for either."""
    parts = []
    for part in conjuncts(predicate):
        negated, inner = False, unwrapped(part)
        while isinstance(inner, exp.Not):
            negated, inner = not negated, unwrapped(inner.this)
        test = _test_of(inner)
        if test is None:
            parts.append(in_value(rows, block, made, part, around))
            continue
        value = in_value(rows, block, made, test.value, around)
        found = _Marker(rows, block, made, around).test(replace(test, value=value), negated, span_of(part))
        parts.append(exp.Not(this=found) if negated else found)
    return exp.and_(*(wrapped(p) for p in parts), copy=False)


def in_value(
    rows: RowLowerer, block: PrivateBlock, made: Lowered, tree: exp.Expr, around: Scope | None = None
) -> exp.Expr:
    """An expression of a row with its subqueries made columns of `made`."""
    if not any(nested_in(node) is not None for node in tree.walk()):
        return tree
    marker = _Marker(rows, block, made, around)

    def replaced(node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Exists) and isinstance(node.this, exp.Expr):
            position = nested_in(node.this)
            if position is not None:
                return marker.exists(position, span_of(node))
        test = _test_of(node)
        if test is not None:
            test = replace(test, value=replaced(test.value))
            sure, perhaps = (marker.test(test, maybe, span_of(node)) for maybe in (False, True))
            ifs = [exp.If(this=sure, true=exp.true()), exp.If(this=perhaps, true=exp.null())]
            return exp.Case(ifs=ifs, default=exp.false())
        position = nested_in(node)
        if position is not None:
            return marker.scalar(position, span_of(node))
        if isinstance(node, exp.Column | exp.Star) or not any(True for _ in node.iter_expressions()):
            return node.copy()
        return rebuild(node, replaced)

    return replaced(tree)


@dataclass(frozen=True, slots=True)
class _Test:
    """value IN (query), value op ANY (query), value op ALL (query). position: of the query; operator: EQ for IN."""

    position: int
    value: exp.Expr
    operator: type[exp.Binary]
    every: bool = False


def _test_of(node: exp.Expr) -> _Test | None:
    """The test of a value against the rows of a query that a node is."""
    if isinstance(node, exp.In):
        query = node.args.get("query")
        position = nested_in(query) if isinstance(query, exp.Expr) else None
        return _Test(position, node.this, exp.EQ) if position is not None else None
    if isinstance(node, exp.Binary) and type(node) in NEGATED and isinstance(node.expression, exp.Any | exp.All):
        query = unwrapped(node.expression.this)
        position = nested_in(query)
        if position is not None:
            return _Test(position, node.this, type(node), every=isinstance(node.expression, exp.All))
    return None


class _Marker:
    """Adds columns to the rows of one block."""

    def __init__(self, rows: RowLowerer, block: PrivateBlock, made: Lowered, around: Scope | None):
        self.rows, self.block, self.made, self.around = rows, block, made, around or {}

    # -- EXISTS, IN ---------------------------------------------------------------------------------------------

    def exists(self, position: int, span: Span | None) -> exp.Expr:
        """Whether the query has a row."""
        return self._marked(position, None, maybe=False, span=span)

    def test(self, test: _Test, maybe: bool, span: Span | None) -> exp.Expr:
        """Whether the test is TRUE; with `maybe`, whether it is TRUE or NULL.

        ALL is TRUE where there is no row for which the comparison is FALSE or NULL, and FALSE where one is FALSE."""
        found = self._marked(test.position, test, maybe=maybe != test.every, span=span)
        return exp.Not(this=found) if test.every else found

    def _marked(self, position: int, test: _Test | None, *, maybe: bool, span: Span | None) -> exp.Expr:
        nested = self.rows.nested[position]
        of_unit = not self._is_public(nested)
        right, items, conditions, equal = self._right(nested, span)
        if test is not None:
            values = test.value.expressions if isinstance(test.value, exp.Tuple) else [test.value]
            if len(values) != len(items):
                reason = f"{len(values)} values are compared with {len(items)} columns"
                raise refusal("DP220", reason, span=span, repair="select as many columns as are compared with")
            if len(values) > 1 and (test.operator is not exp.EQ or test.every):
                raise refusal("DP220", "rows of several values are compared with IN only", span=span)
            operator = NEGATED[test.operator] if test.every else test.operator
            for value, item in zip(values, items, strict=True):
                if test.operator is exp.EQ and not test.every:
                    equal.append((item, value))
                    if self._are_units(nested, item, value):
                        continue
                self.rows.check_row(self.block, value, "WHERE")
                compared = operator(this=wrapped(value), expression=wrapped(item))
                conditions.append(_or_unknown(compared) if maybe else compared)
        if of_unit:
            self._check_meant(nested, equal, span)
        scope = {**self.around, **self.made.scope, **right.scope}
        both = exp.and_(*(wrapped(c) for c in conditions), copy=False) if conditions else exp.true()
        on = lower_condition(both, scope, "WHERE")
        alias = self.rows.name("mark")
        self.made.relation = Mark(self.made.relation, right.relation, on, alias)
        self.made.scope[alias, FOUND] = Facts(BOOLEAN, nullable=False)
        return column(alias, FOUND)

    def _right(
        self, nested: Nested, span: Span | None
    ) -> tuple[Lowered, list[exp.Expr], list[exp.Expr], list[tuple[exp.Expr, exp.Expr]]]:
        """The rows of a subquery, its items, what must hold between them and the row outside, and what of that are
        equalities (inner, outer)."""
        if isinstance(nested, PublicBlock) or (isinstance(nested, PrivateBlock) and nested.is_release):
            right = self._asked(nested, span)
            return right, [column(*name) for name in right.scope], [], []
        if isinstance(nested, PrivateOther):
            raise _not_combined(nested)
        if isinstance(nested, PrivateUnion) or nested.shape is Shape.PER_UNIT:
            correlated = [] if isinstance(nested, PrivateUnion) else list(nested.correlated)
            nested = self._without_units(nested) if isinstance(nested, PrivateBlock) else nested
            pairs = list(nested.correlated) if isinstance(nested, PrivateBlock) else []
            alias = self.rows.name("sub")
            right = self.rows.derived(nested, alias, [inner for inner, _ in pairs])
            width = len(nested.names)
            items: list[exp.Expr] = [column(alias, item_name(i)) for i in range(width)]
            outer = [self._outer(tree) for _, tree in pairs]
            keys = [column(alias, item_name(width + i)) for i in range(len(pairs))]
            conditions: list[exp.Expr] = [
                exp.EQ(this=k, expression=wrapped(o)) for k, o in zip(keys, outer, strict=True)
            ]
            return right, items, conditions, correlated
        return self._flat(nested)

    def _flat(
        self, block: PrivateBlock
    ) -> tuple[Lowered, list[exp.Expr], list[exp.Expr], list[tuple[exp.Expr, exp.Expr]]]:
        """A subquery of plain rows: what its WHERE says of the row outside goes into the condition."""
        check_clauses(block, ROW_CLAUSES - {"qualify"})
        inside = [p for p in conjuncts(block.where) if tables_of(p) & self._outside() == set()]
        across = [p for p in conjuncts(block.where) if tables_of(p) & self._outside()]
        kept = replace(block, where=exp.and_(*(wrapped(p) for p in inside)) if inside else None)
        self.rows.enclosing.append(self.block)
        right = self.rows.block(kept, {**self.around, **self.made.scope})
        self.rows.enclosing.pop()
        kept_pairs = self._without_units(block).correlated
        conditions = [exp.EQ(this=wrapped(i), expression=wrapped(o)) for i, o in kept_pairs] + across
        for condition in conditions:
            self.rows.check_row(block, condition, "WHERE")
            self.rows.check_row(self.block, condition, "WHERE")
        items = [
            self.rows.expression(block, right, i.tree, "SELECT") if NESTED in tables_of(i.tree) else i.tree
            for i in block.items
            if not isinstance(i.tree, exp.Star)
        ]
        return right, items, conditions, list(block.correlated)

    def _without_units(self, block: PrivateBlock) -> PrivateBlock:
        """The block without equalities of its unit and that of the row outside, both there: they say no more than what
        every subquery over private rows is given; and the columns need not be listed."""
        kept = [(inner, outer) for inner, outer in block.correlated if not self._are_units(block, inner, outer)]
        return replace(block, correlated=tuple(kept))

    def _are_units(self, nested: Nested, inner: exp.Expr, outer: exp.Expr) -> bool:
        """Whether both are, unchanged, the unit of a row that is there: then they are equal."""
        if not isinstance(nested, PrivateBlock) or self._is_public(nested):
            return False
        around = [self.block, *self.rows.enclosing]
        return self._is_unit([nested], inner) and self._is_unit(around, outer)

    def _is_unit(self, blocks: Sequence[PrivateBlock], tree: exp.Expr) -> bool:
        tree = unwrapped(tree)
        if not isinstance(tree, exp.Column):
            return False
        found = ((b, s) for b in blocks for s in b.sources if s.alias == tree.table)
        return any(is_unit(s, tree.name, self.rows.policy) and not is_optional(b, s, tree.name) for b, s in found)

    def _outside(self) -> set[str]:
        """The FROM items of the queries around a subquery."""
        return {alias for alias, _ in (*self.around, *self.made.scope)}

    def _check_meant(self, nested: Nested, equal: Sequence[tuple[exp.Expr, exp.Expr]], span: Span | None) -> None:
        """Raises DP210 unless the equalities say that the subquery is about the same unit."""
        assert isinstance(nested, PrivateBlock | PrivateUnion)
        policy, outside = self.rows.policy, self._outside()
        around = [s for block in (self.block, *self.rows.enclosing) for s in block.sources]
        shared = [  # `x IN (SELECT p.y FROM ...)`, p being outside: says nothing of the rows inside
            labels_of_output(nested, inner, policy) & labels_in(outer, around, policy)
            for inner, outer in equal
            if not tables_of(inner) & outside
        ]
        if identify(shared, policy):
            return
        reason = f"a subquery over private rows looks at rows of the same {policy.unit} only"
        if isinstance(nested, PrivateBlock):
            private = [s for s in nested.sources if not joins.is_public(s)]
            others = [s for s in self.block.sources if not joins.is_public(s)]
            raise refusal("DP210", reason, span=span, repair=joins.meant(private[0], others, policy, "its WHERE"))
        raise refusal("DP210", reason, span=span, repair=f"compare columns that identify the {policy.unit}")

    def _is_public(self, nested: Nested) -> bool:
        """Whether a subquery gives public rows. Raises DP220 for one that aggregates them by what stands outside."""
        if isinstance(nested, PublicBlock) or not isinstance(nested, PrivateBlock):
            return isinstance(nested, PublicBlock)
        public_only = all(map(joins.is_public, nested.sources))
        if public_only and nested.shape is not Shape.ROWS:
            reason = "an aggregate over public rows that depends on the private row outside is not answered"
            repair = "join it instead: JOIN (SELECT key, MAX(x) AS x FROM ... GROUP BY key) USING (key)"
            raise refusal("DP220", reason, span=span_of(nested.node), repair=repair)
        return nested.is_release or public_only

    # -- scalars ------------------------------------------------------------------------------------------------

    def scalar(self, position: int, span: Span | None) -> exp.Expr:
        """The value of the query for this row."""
        nested = self.rows.nested[position]
        self._is_public(nested)
        if isinstance(nested, PrivateUnion):
            reason = "a subquery that stands for one value has one row"
            raise refusal("DP220", reason, span=span, repair="aggregate in it, such as (SELECT AVG(x) FROM ...)")
        if isinstance(nested, PrivateOther):
            raise _not_combined(nested)
        if isinstance(nested, PublicBlock) or nested.is_release:
            return self._public_value(nested, span)
        _one_column(nested, span)
        self._check_scalar(nested, span)
        nested = self._without_units(nested)
        if nested.shape is Shape.PER_UNIT and not nested.groups:
            return perunit.looked_up(self.rows, self.made, nested, {**self.around, **self.made.scope})
        alias = self.rows.name("value")
        inner = [i for i, _ in nested.correlated]
        right = self.rows.derived(nested, alias, inner)
        keys = [column(alias, item_name(1 + i)) for i in range(len(inner))]
        pairs = [(k, self._outer(o)) for k, (_, o) in zip(keys, nested.correlated, strict=True)]
        scope = {**self.around, **self.made.scope, **right.scope}
        covered = {k.name for k, o in pairs if joins.same_type(k, unwrapped(o), scope)}
        if not any(names <= covered for names in right.unique):
            raise _several_rows(span, nested)
        left_join(self.made, right, pairs, {**self.around, **self.made.scope})
        return column(alias, item_name(0))

    def _check_scalar(self, nested: PrivateBlock, span: Span | None) -> None:
        if not self._is_public(nested):
            self._check_meant(nested, nested.correlated, span)
        outside = self._outside()
        trees = [i.tree for i in nested.items] + [t for t in (nested.where, nested.having) if t is not None]
        if any(tables_of(t) & outside for t in trees):
            reason = "what a subquery takes from the query around it must stand in an equality of its WHERE"
            raise refusal("DP220", reason, span=span, repair="write it as WHERE inner.column = outer.column AND ...")

    def _public_value(self, nested: PublicBlock | PrivateBlock, span: Span | None) -> exp.Expr:
        """A public result: one value, or one for each value of what it is correlated on."""
        _one_column(nested, span)
        right = self._asked(nested, span, single=True)
        alias = next(iter(right.scope))[0]
        correlated = nested.correlated if isinstance(nested, PrivateBlock) else ()
        keys = [column(alias, item_name(1 + i)) for i in range(len(correlated))]
        pairs = [(k, self._outer(o)) for k, (_, o) in zip(keys, correlated, strict=True)]
        if correlated and not any(names <= {key.name for key in keys} for names in right.unique):
            raise _several_rows(span, nested)
        left_join(self.made, right, pairs, {**self.around, **self.made.scope})
        value: exp.Expr = column(alias, item_name(0))
        if correlated and isinstance(nested, PrivateBlock) and _counts(nested):
            value = exp.Coalesce(this=value, expressions=[exp.Literal.number(0)])
        return value

    def _asked(self, nested: PublicBlock | PrivateBlock, span: Span | None, *, single: bool = False) -> Lowered:
        if isinstance(nested, PrivateBlock) and nested.correlated and not single:
            reason = "a subquery of groups over units cannot depend on the row outside here"
            raise refusal("DP220", reason, span=span, repair="compare with a count: (SELECT COUNT(*) ...) > 0")
        return public(self.rows.ask(nested, single), self.rows.name("value"))

    def _outer(self, tree: exp.Expr) -> exp.Expr:
        """What a subquery is correlated on, as an expression of the row outside."""
        self.rows.check_row(self.block, tree, "a subquery")
        return tree


def _or_unknown(compared: exp.Binary) -> exp.Expr:
    """A comparison, or one side of it NULL."""
    sides = (compared.this, compared.expression)
    return exp.or_(compared, *(exp.Is(this=s.copy(), expression=exp.null()) for s in sides), copy=False)


def _several_rows(span: Span | None, nested: PublicBlock | PrivateBlock) -> Error:
    reason = "a subquery that stands for one value has one row"
    x = shown(nested.items[0].tree) if isinstance(nested, PrivateBlock) else "x"
    return refusal("DP220", reason, span=span, repair=f"aggregate in it: (SELECT MAX({x}) FROM ...)")


def _counts(block: PrivateBlock) -> bool:
    """Whether a subquery without groups is a count: over nothing it is 0, where others are NULL."""
    tree = unwrapped(block.items[0].tree)
    return isinstance(tree, exp.Count | exp.CountIf)


def _one_column(block: PublicBlock | PrivateBlock, span: Span | None) -> None:
    query = block.node.unnest()
    items = [i.tree for i in block.items] if isinstance(block, PrivateBlock) else query.expressions
    star = any(map(is_star, items))
    if isinstance(query, exp.Select) and (len(items) != 1 or (star and isinstance(block, PrivateBlock))):
        repair = "select one column in it"
        raise refusal("DP220", "a subquery that stands for one value has one column", span=span, repair=repair)


def _not_combined(nested: PrivateOther) -> Error:
    reason = "rows of several private queries cannot be combined here"
    repair = "combine them with UNION ALL; instead of EXCEPT and INTERSECT write NOT IN and IN"
    return refusal("DP221", reason, span=span_of(nested.node), repair=repair)
