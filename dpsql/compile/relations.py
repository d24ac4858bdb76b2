"""Relations as SQL: FROM, WHERE and joins of private blocks, and what is grouped and windowed per unit. Here stand the
limit on rows, the equality of units in every join and subquery, and the unit in every key and partition."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import assert_never

from sqlglot import exp

from dpsql.compile.ir import (
    FOUND,
    ColumnName,
    Filter,
    Join,
    JoinKind,
    Mark,
    PerUnit,
    Project,
    Public,
    Relation,
    Scan,
    Union,
    Window,
    WindowCall,
)
from dpsql.compile.literals import cast
from dpsql.compile.resolve import PUBLIC_CATALOG
from dpsql.compile.trees import add_join, aliased, column, copied, derived, rebuild, wrapped
from dpsql.compile.windows import CALLS
from dpsql.policy.facts import Kind, SqlType

PRIVATE_CATALOG = "priv"
UNIT, RANK = "$unit", "$rank"
UNITS, IDENTITY = "$units", "id"
"""The table of units: the number that the tables hold, and what stands for the unit whoever else is there."""


def select_from(relation: Relation, items: list[exp.Expr], *, ranked: bool = False) -> exp.Select:
    """SELECT items FROM relation. ranked: whether the order of its rows is asked of it (see `order_of`)."""
    parts = _Parts(ranked)
    tree = exp.Select()
    parts.add(tree, relation)
    tree.set("expressions", [parts.written(item) for item in items])
    for clause, node, predicates in (("where", exp.Where, parts.where), ("qualify", exp.Qualify, parts.qualify)):
        if predicates:
            tree.set(clause, node(this=exp.and_(*(wrapped(parts.written(p)) for p in predicates), copy=False)))
    return tree


@dataclass(slots=True)
class _Parts:
    """One SELECT in the making. where, qualify: its conjuncts. computed: what stands for the columns of marks and
    windows, by alias and name. windowed: whether what is added next stands above a window, which has seen all rows that
    are left so far."""

    ranked: bool
    where: list[exp.Expr] = field(default_factory=list)
    qualify: list[exp.Expr] = field(default_factory=list)
    computed: dict[tuple[str, str], exp.Expr] = field(default_factory=dict)
    windowed: bool = False

    def add(self, tree: exp.Select, relation: Relation, *, optional: bool = False) -> None:
        """Put a relation into FROM, and what it filters by into the conjuncts. optional: an outer join may leave it
        without a row, so that nothing of it can be filtered in WHERE."""
        match relation:
            case Scan() | Public() | Project() | PerUnit() | Union():
                tree.set("from_", exp.From(this=self.item(relation, optional)))
            case Filter(input=source, predicate=predicate):
                self.add(tree, source)
                (self.qualify if self.windowed else self.where).append(predicate.tree)
            case Mark(input=source, alias=alias):
                self.add(tree, source)
                self.computed[alias, FOUND] = self.exists(relation)
            case Window(input=source, alias=alias, calls=calls):
                self.ranked = self.ranked or any(call.ties for call in calls)
                self.add(tree, source)
                self.windowed = True
                for call in calls:
                    self.computed[alias, call.name] = self.over(call, source)
            case Join():
                self.join(tree, relation, optional)
            case _:
                assert_never(relation)

    def join(self, tree: exp.Select, relation: Join, optional: bool) -> None:
        """A join, with the equality of units where both sides have owners."""
        kind, left, right = relation.kind, relation.left, relation.right
        self.add(tree, left, optional=optional or kind in (JoinKind.RIGHT, JoinKind.FULL))
        condition = self.written(relation.on.tree)
        if is_private(left) and is_private(right):
            # Ownership never rests on what the analyst wrote: a joined row has one owner because of this line.
            owners = exp.EQ(this=unit(left), expression=unit(right))
            condition = owners if condition == exp.true() else exp.And(this=wrapped(condition), expression=owners)
        assert isinstance(right, Scan | Public | Project | PerUnit | Union)
        item = self.item(right, optional or kind in (JoinKind.LEFT, JoinKind.FULL))
        add_join(tree, kind.value.upper(), item, condition)

    def item(self, relation: Scan | Public | Project | PerUnit | Union, optional: bool) -> exp.Expr:
        """One FROM item. optional: a scan's limit stands inside it, since WHERE comes after an outer join."""
        match relation:
            case Public(name=name, alias=alias):
                return exp.Table(
                    this=exp.to_identifier(name, quoted=True),
                    alias=exp.TableAlias(this=exp.to_identifier(alias, quoted=True)),
                )
            case Scan():
                return self.scan(relation, optional)
            case Project(input=source, alias=alias, items=columns):
                items = [aliased(copied(s.tree), name) for name, s in columns]
                return derived(select_from(source, [*items, *self.carried(source)], ranked=self.ranked), alias)
            case PerUnit(alias=alias):
                return derived(_grouped(relation, ranked=self.ranked), alias)
            case Union(inputs=inputs, alias=alias):
                return derived(_union(inputs, ranked=self.ranked), alias)
            case _:
                assert_never(relation)

    def carried(self, source: Relation) -> list[exp.Expr]:
        """What every derived table hands on unseen: the unit, and the order of rows where that is asked for."""
        if not is_private(source):
            return []
        ranks = [aliased(r, _rank_name(i)) for i, r in enumerate(order_of(source))] if self.ranked else []
        return [aliased(unit(source), UNIT), *ranks]

    def scan(self, relation: Scan, optional: bool) -> exp.Expr:
        table = exp.Table(
            this=exp.to_identifier(relation.table, quoted=True),
            db=exp.to_identifier(PUBLIC_CATALOG if relation.public else PRIVATE_CATALOG),
            alias=exp.TableAlias(this=exp.to_identifier(relation.alias, quoted=True)),
        )
        if relation.limit is None:
            return table
        within = exp.LTE(this=column(relation.alias, RANK), expression=exp.Literal.number(relation.limit))
        if not optional:
            self.where.append(within)
            return table
        star = exp.Column(this=exp.Star(), table=exp.to_identifier(relation.alias, quoted=True))
        return derived(exp.select(star).from_(table).where(within), relation.alias)

    def exists(self, mark: Mark) -> exp.Expr:
        """EXISTS over rows of the same unit."""
        parts = _Parts(ranked=False)
        tree = exp.Select(expressions=[exp.Literal.number(1)])
        parts.add(tree, mark.right)
        where = [*parts.where, *([mark.on.tree] if mark.on.tree != exp.true() else [])]
        written = [self.written(parts.written(p)) for p in where]
        if is_private(mark.input) and is_private(mark.right):
            written.append(exp.EQ(this=unit(mark.right), expression=unit(mark.input)))
        if written:
            tree.set("where", exp.Where(this=exp.and_(*(wrapped(p) for p in written), copy=False)))
        return exp.Exists(this=tree)

    def over(self, call: WindowCall, source: Relation) -> exp.Expr:
        """A window call, its partition completed by the unit, its order by the ranks of rows."""
        order = [o.copy() for o in call.order]
        if call.ties:
            order += [_ascending(r) for r in order_of(source)]

        def windowed(node: exp.Expr) -> exp.Expr:
            if isinstance(node, CALLS):
                return exp.Window(
                    this=node.copy(),
                    partition_by=[unit(source), *(copied(p.tree) for p in call.partition)],
                    order=exp.Order(expressions=[o.copy() for o in order]) if order else None,
                    spec=call.frame.copy() if call.frame is not None else None,
                    over="OVER",
                )
            return rebuild(node, windowed)

        return self.written(windowed(call.function))

    def written(self, tree: exp.Expr) -> exp.Expr:
        """An expression with the columns of marks and windows put in their places."""
        return self._placed(tree) if self.computed else copied(tree)

    def _placed(self, tree: exp.Expr) -> exp.Expr:
        if isinstance(tree, exp.Column):
            found = self.computed.get((tree.table, tree.name))
            return wrapped(copied(found)) if found is not None else copied(tree)
        return rebuild(tree, self._placed)


def _grouped(relation: PerUnit, *, ranked: bool) -> exp.Select:
    """The groups of each unit: the unit is a key whatever the keys say. A group has the place of its first row."""
    source = relation.input
    keys = [(name, s.tree) for name, s in relation.keys]
    items = [aliased(copied(tree), name) for name, tree in [*keys, *((n, s.tree) for n, s in relation.measures)]]
    items.append(aliased(unit(source), UNIT))
    order = order_of(source)
    if ranked and len(order) == 1:
        items.append(aliased(exp.Min(this=order[0]), _rank_name(0)))
    tree = select_from(source, items, ranked=ranked)
    keyed = [copied(item.unalias()) for item in tree.selects[: len(keys)]]
    tree.set("group", exp.Group(expressions=[unit(source), *keyed]))
    return tree


def _union(inputs: tuple[Project, ...], *, ranked: bool) -> exp.Query:
    """UNION ALL of the branches; a row's place begins with its branch."""
    most = max(len(order_of(p.input)) for p in inputs)
    branches: list[exp.Query] = []
    for number, part in enumerate(inputs):
        items = [aliased(copied(s.tree), name) for name, s in part.items]
        items.append(aliased(unit(part.input), UNIT))
        if ranked:
            ranks = order_of(part.input)
            places = [exp.Literal.number(number), *ranks, *([exp.Literal.number(0)] * (most - len(ranks)))]
            items += [aliased(p, _rank_name(i)) for i, p in enumerate(places)]
        branches.append(select_from(part.input, items, ranked=ranked))
    tree = branches[0]
    for branch in branches[1:]:
        tree = exp.union(tree, branch, distinct=False, copy=False)
    return tree


def leaves(relation: Relation) -> Iterator[Scan | Public]:
    """What a relation reads, from left to right."""
    match relation:
        case Scan() | Public():
            yield relation
        case Join(left=left, right=right) | Mark(input=left, right=right):
            yield from leaves(left)
            yield from leaves(right)
        case Filter(input=source) | Project(input=source) | PerUnit(input=source) | Window(input=source):
            yield from leaves(source)
        case Union(inputs=inputs):
            for part in inputs:
                yield from leaves(part)
        case _:
            assert_never(relation)


def scans(relation: Relation) -> Iterator[Scan]:
    """Every scan below a relation."""
    return (leaf for leaf in leaves(relation) if isinstance(leaf, Scan))


def publics(relation: Relation) -> Iterator[str]:
    """The names of the public queries that a relation reads."""
    return (leaf.name for leaf in leaves(relation) if isinstance(leaf, Public))


def totals(relation: Relation) -> frozenset[ColumnName]:
    """The columns that are counts or sums over rows of a unit: what they can be grows with all that is read of it."""
    match relation:
        case PerUnit(alias=alias, measures=measures):
            return frozenset((alias, name) for name, scalar in measures if _is_total(scalar.tree))
        case Project(input=source, alias=alias, items=items):
            inner = totals(source)
            columns = [(n, s.tree) for n, s in items if isinstance(s.tree, exp.Column)]
            return frozenset((alias, name) for name, tree in columns if (tree.table, tree.name) in inner)
        case Join(left=left, right=right):
            return totals(left) | totals(right)
        case Filter(input=source) | Window(input=source) | Mark(input=source):
            return totals(source)
        case Scan() | Public() | Union():
            return frozenset()
        case _:
            assert_never(relation)


def _is_total(tree: exp.Expr) -> bool:
    """Whether it is a count or a sum, converted or in units of a grid."""
    while isinstance(tree, exp.Cast | exp.TryCast | exp.Paren | exp.Mul):
        tree = tree.this
    return isinstance(tree, exp.Sum | exp.Count)


def is_private(relation: Relation) -> bool:
    """Whether its rows belong to units."""
    match relation:
        case Scan(public=public):
            return not public
        case Public():
            return False
        case Join(left=left, right=right):
            return is_private(left) or is_private(right)
        case Mark(input=source) | Filter(input=source) | Project(input=source) | PerUnit(input=source):
            return is_private(source)
        case Window(input=source):
            return is_private(source)
        case Union():
            return True
        case _:
            assert_never(relation)


def unit(relation: Relation) -> exp.Expr:
    """What says whom a row belongs to: by lineage, never by name."""
    match relation:
        case Scan(alias=alias) | Project(alias=alias) | PerUnit(alias=alias) | Union(alias=alias) | Public(alias=alias):
            return column(alias, UNIT)
        case Filter(input=source) | Mark(input=source) | Window(input=source):
            return unit(source)
        case Join(kind=kind, left=left, right=right):
            if not (is_private(left) and is_private(right)):
                return unit(left) if is_private(left) else unit(right)
            if kind is JoinKind.FULL:
                return exp.Coalesce(this=unit(left), expressions=[unit(right)])
            return unit(right) if kind is JoinKind.RIGHT else unit(left)
        case _:
            assert_never(relation)


def order_of(relation: Relation) -> list[exp.Expr]:
    """What tells the rows of a unit apart: the ranks of the scans that they stem from (of a look-up by key there is
    nothing to tell), the branch of a union, the keys of groups of which no single scan knows the first row."""
    match relation:
        case Scan(alias=alias, public=public, many=many):
            return [column(alias, RANK)] if many and not public else []
        case Public():
            return []
        case Join(kind=JoinKind.FULL, left=left, right=right):
            return [*order_of(left), *order_of(right), _side(left, right)]
        case Join(left=left, right=right, unique=unique):
            return [*order_of(left), *([] if unique else order_of(right))]
        case Filter(input=source) | Mark(input=source) | Window(input=source):
            return order_of(source)
        case Project(input=source, alias=alias):
            return [column(alias, _rank_name(i)) for i in range(len(order_of(source)))]
        case PerUnit(input=source, alias=alias, keys=keys):
            if len(order_of(source)) == 1:
                return [column(alias, _rank_name(0))]
            # As text, in which all that are different stay so: branches of a union have places of one type.
            return [cast(column(alias, name), SqlType(Kind.VARCHAR)) for name, _ in keys]
        case Union(inputs=inputs, alias=alias):
            return [column(alias, _rank_name(i)) for i in range(1 + max(len(order_of(p.input)) for p in inputs))]
        case _:
            assert_never(relation)


def _side(left: Relation, right: Relation) -> exp.Expr:
    """Which side of a FULL JOIN a row lacks: where no rank is left of either (`people` with itself, which has one row
    of a unit, and without a partner two), nothing else tells its rows apart."""
    missing = [exp.Is(this=unit(side), expression=exp.null()) for side in (left, right)]
    ifs = [exp.If(this=test, true=exp.Literal.number(i)) for i, test in enumerate(missing, 1)]
    return exp.Case(ifs=ifs, default=exp.Literal.number(0))


def is_stored_rank(relation: Relation) -> bool:
    """Whether `order_of` is one column of ranks of a scan: different whole numbers from 1 on, never missing."""
    match relation:
        case Scan(public=public, many=many):
            return many and not public
        case Join(kind=kind, left=left, right=right, unique=unique):
            if unique or not order_of(right):
                return is_stored_rank(left) and kind in (JoinKind.INNER, JoinKind.LEFT)
            return not order_of(left) and is_stored_rank(right) and kind in (JoinKind.INNER, JoinKind.RIGHT)
        case Filter(input=source) | Mark(input=source) | Window(input=source) | Project(input=source):
            return is_stored_rank(source)
        case PerUnit(input=source):
            return is_stored_rank(source)
        case Public() | Union():
            return False
        case _:
            assert_never(relation)


def _rank_name(position: int) -> str:
    return RANK if position == 0 else f"{RANK}{position + 1}"


def _ascending(tree: exp.Expr) -> exp.Ordered:
    return exp.Ordered(this=tree, desc=False, nulls_first=False)
