"""Relations as SQL: FROM, WHERE and joins of a private block. Here stand the limit on rows and the equality of
units."""

from __future__ import annotations

from typing import assert_never

from sqlglot import exp

from dpsql.compile.ir import Filter, Join, JoinKind, Project, Relation, Scan
from dpsql.compile.plan import scans
from dpsql.compile.resolve import PUBLIC_CATALOG
from dpsql.compile.trees import add_join, aliased, column, copied, derived, wrapped

PRIVATE_CATALOG = "priv"
UNIT, RANK = "$unit", "$rank"
UNITS, IDENTITY = "$units", "id"
"""The table of units: the number that the tables hold, and what stands for the unit whoever else is there."""


def select_from(relation: Relation, items: list[exp.Expr], ranked: str | None = None) -> exp.Select:
    """SELECT items FROM relation. ranked: the scan whose ranks derived tables hand on."""
    tree = exp.Select(expressions=items)
    predicates: list[exp.Expr] = []
    _from(tree, relation, predicates, ranked)
    if predicates:
        tree.set("where", exp.Where(this=exp.and_(*(wrapped(p) for p in predicates), copy=False)))
    return tree


def _from(tree: exp.Select, relation: Relation, predicates: list[exp.Expr], ranked: str | None) -> None:
    """Add a relation to FROM and what it filters to `predicates`."""
    match relation:
        case Scan() | Project():
            tree.set("from_", exp.From(this=_item(relation, predicates, ranked)))
        case Filter(input=source, predicate=predicate):
            _from(tree, source, predicates, ranked)
            predicates.append(copied(predicate.tree))
        case Join(kind=kind, left=left, right=right, on=on):
            _from(tree, left, predicates, ranked)
            condition = copied(on.tree)
            if is_private(left) and is_private(right):
                # Ownership never rests on what the analyst wrote: a joined row has one owner because of this line.
                owners = exp.EQ(this=unit(left), expression=unit(right))
                condition = owners if condition == exp.true() else exp.And(this=wrapped(condition), expression=owners)
            assert isinstance(right, Scan | Project)
            word = "LEFT" if kind is JoinKind.LEFT else "INNER"
            add_join(tree, word, _item(right, predicates, ranked), condition)
        case _:
            assert_never(relation)


def _item(relation: Scan | Project, predicates: list[exp.Expr], ranked: str | None) -> exp.Expr:
    if isinstance(relation, Project):
        items = [aliased(copied(s.tree), name) for name, s in relation.items]
        items.append(aliased(unit(relation.input), UNIT))
        if any(s.alias == ranked for s in scans(relation)):
            assert ranked is not None
            items.append(aliased(rank(relation.input, ranked), RANK))
        return derived(select_from(relation.input, items, ranked), relation.alias)
    if relation.limit is not None:
        limit = exp.Literal.number(relation.limit)
        predicates.append(exp.LTE(this=column(relation.alias, RANK), expression=limit))
    return exp.Table(
        this=exp.to_identifier(relation.table, quoted=True),
        db=exp.to_identifier(PUBLIC_CATALOG if relation.public else PRIVATE_CATALOG),
        alias=exp.TableAlias(this=exp.to_identifier(relation.alias, quoted=True)),
    )


def is_private(relation: Relation) -> bool:
    """Whether its rows belong to units."""
    return any(not s.public for s in scans(relation))


def unit(relation: Relation) -> exp.Column:
    """The column that says whom a row belongs to: by lineage, never by name."""
    match relation:
        case Scan(alias=alias) | Project(alias=alias):
            return column(alias, UNIT)
        case Filter(input=source):
            return unit(source)
        case Join(left=left, right=right):
            return unit(left) if is_private(left) else unit(right)
        case _:
            assert_never(relation)


def rank(relation: Relation, driving: str) -> exp.Column:
    """The column that holds a row's place among its unit's rows of the driving scan."""
    match relation:
        case Scan(alias=alias) | Project(alias=alias):
            return column(alias, RANK)
        case Filter(input=source):
            return rank(source, driving)
        case Join(left=left, right=right):
            return rank(left if any(s.alias == driving for s in scans(left)) else right, driving)
        case _:
            assert_never(relation)
