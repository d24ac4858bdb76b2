"""How many rows of one unit can meet: the limits on every private scan, so that no unit can explode a query.

Every scan whose rows a unit can have several of is cut to W rows, a function of that unit alone. W is WORST_CASE times
the statement's R, as far as `worst_case` lets it be, and less, even than R, where joins of its rows with each other
would pass MOST_JOINED, or its rows MOST_ROWS: so the work for one unit is bounded, and sums over its rows cannot
overflow. (Joining a table with itself on the unit n times makes W^n rows of one unit and next to none of the others:
the only thing in a statement by which one unit could take longer than all others together.)
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import assert_never

from sqlglot import exp

from dpsql.compile.blocks import tables_of
from dpsql.compile.ir import Filter, Join, JoinKind, Mark, PerUnit, Project, Public, Relation, Scan, Union, Window
from dpsql.compile.kinds import DOUBLE
from dpsql.compile.limits import MOST_JOINED, MOST_ROWS, WORST_CASE, Declared
from dpsql.compile.literals import data_type, is_literal
from dpsql.compile.relations import leaves, scans
from dpsql.compile.trees import conjuncts, unwrapped
from dpsql.errors import Span, refusal

_PARTS = 1 << 10
"""Into so many parts R is divided where less than R has to do: W, which is WORST_CASE times R, into so many more."""


def rows_of(relation: Relation, declared: Mapping[str, Declared]) -> int:
    """R of a relation, from those of its scans by alias: the largest of what is joined, the sum of a union."""
    match relation:
        case Scan(alias=alias, public=public, many=many):
            return 0 if public or not many else declared[alias].rows
        case Public():
            return 0
        case Join(kind=kind, left=left, right=right):
            # Of two rows that a unit has once each a full join may keep both.
            return max(rows_of(left, declared), rows_of(right, declared)) or (2 if kind is JoinKind.FULL else 0)
        case Filter(input=source) | Project(input=source) | PerUnit(input=source):
            return rows_of(source, declared)
        case Window(input=source) | Mark(input=source):
            return rows_of(source, declared)
        case Union(inputs=inputs):
            return sum(rows_of(part, declared) or 1 for part in inputs)
        case _:
            assert_never(relation)


def limited(relation: Relation, most: Mapping[str, int], driving: Mapping[str, int], span: Span | None) -> Relation:
    """The relation with every scan cut. most: W by alias, of which a part is kept; driving: the limit that a strategy
    sets before WHERE. Raises DP223 where rows of one unit could still explode."""
    many = [s for s in scans(relation) if s.many and not s.public]
    most_parts = kept = WORST_CASE * _PARTS

    def cut(part: int) -> Relation:
        limits = {s.alias: driving.get(s.alias, max(1, most[s.alias] * part // most_parts)) for s in many}
        return _cut(relation, limits)

    def explodes(part: int) -> bool:
        found = _meeting(cut(part))
        return found.most > MOST_ROWS or found.joined > MOST_JOINED

    if explodes(kept):
        kept = bisect_left(range(most_parts), True, key=lambda part: explodes(part + 1))
    if kept > 0:
        return cut(kept)
    most_ways = MOST_JOINED if _meeting(cut(1)).joined > MOST_JOINED else MOST_ROWS
    reason = f"rows of one unit could meet in more than {most_ways:,} ways"
    repair = "join by keys, or aggregate each table per unit before they are joined"
    raise refusal("DP223", reason, span=span, repair=repair)


def most_rows(relation: Relation) -> int:
    """How many rows of one unit the relation can have."""
    return max(_meeting(relation).rows, 1)


@dataclass(frozen=True, slots=True)
class _Meeting:
    """Of one unit. rows: in the relation. most: rows, or pairs of rows that are looked at, at the worst point below.
    joined: pairs of all joins below of several rows with several."""

    rows: int
    most: int
    joined: int = 0


def _paired(rows: int, pairs: int, left: _Meeting, right: _Meeting, *, looked_up: bool = False) -> _Meeting:
    """Two relations joined: so many rows come of so many pairs. looked_up: each row of `left` meets one at most."""
    multiplied = 0 if looked_up or min(left.rows, right.rows) <= 1 else pairs
    return _Meeting(rows, max(left.most, right.most, pairs), left.joined + right.joined + multiplied)


def _meeting(relation: Relation) -> _Meeting:
    match relation:
        case Scan(public=public, many=many, limit=limit, meets=meets):
            rows = meets if public else limit if many else 1
            assert rows is not None
            return _Meeting(rows, rows)
        case Public():
            return _Meeting(1, 1)
        case Join(kind=kind, left=left, right=right, unique=unique):
            a, b = _meeting(left), _meeting(right)
            rows = a.rows if unique else joined_rows(a.rows, b.rows, full=kind is JoinKind.FULL)
            return _paired(rows, rows, a, b, looked_up=unique)
        case Mark(input=source, right=right):
            a, b = _meeting(source), _meeting(right)
            if _is_hashed(relation):
                return _Meeting(a.rows, max(a.most, b.most, a.rows + b.rows), a.joined + b.joined)
            return _paired(a.rows, a.rows * b.rows, a, b)
        case Filter(input=source) | Project(input=source) | PerUnit(input=source) | Window(input=source):
            return _meeting(source)
        case Union(inputs=inputs):
            found = [_meeting(part) for part in inputs]
            rows = sum(part.rows for part in found)
            return _Meeting(rows, max(rows, *(p.most for p in found)), sum(p.joined for p in found))
        case _:
            assert_never(relation)


def _is_hashed(mark: Mark) -> bool:
    """Whether rows of one relation are looked for by equality alone, of the unit and of columns outside, plus or minus
    a constant at most: so that a row equals one choice of values of these columns, whatever they are.

    DuckDB joins the rows inside with every such choice that there is outside, and the rows outside with what it found.
    It hashes both, and the first gives no more rows than are inside only by that. Of `day % 10`, each row equals 6,000
    days of one unit of 60,000: 40 s, against 0.1 s for 60,000 units (docs/decisions/0027). Under any other condition it
    tries the rows of a unit one by one; of several relations inside it may join two by the unit alone. What is said of
    DuckDB is read in its profile by `tests/end/test_end_exists.py`."""
    if len([*leaves(mark.right)]) > 1:
        return False
    inside, outside = _names(mark.right), _names(mark.input)
    told, used = set[exp.Expr](), set[exp.Expr]()
    for part in conjuncts(mark.on.tree):
        if part == exp.true():
            continue
        if not isinstance(part, exp.EQ):
            return False
        own, other = part.this, part.expression
        if tables_of(other) <= inside:
            own, other = other, own
        if not tables_of(own) <= inside or not tables_of(own) or not tables_of(other) <= outside:
            return False
        used |= set(other.find_all(exp.Column))
        told |= {_shifted(other)} & used
    return used == told


def _shifted(tree: exp.Expr) -> exp.Expr:
    """The column that an expression is, plus or minus a constant that is exact; else the expression."""
    tree = unwrapped(tree)
    if isinstance(tree, exp.Add | exp.Sub):
        parts = [unwrapped(part) for part in (tree.this, tree.expression)]
        rest = [p for p in parts if not (type(p) is exp.Cast and is_literal(p) and not p.is_type(data_type(DOUBLE)))]
        return rest[0] if len(rest) == 1 else tree
    return tree


def _names(relation: Relation) -> set[str]:
    """The aliases of a relation's columns, without those of marks and windows, which are computed where they stand."""
    match relation:
        case Join(left=left, right=right):
            return _names(left) | _names(right)
        case Filter(input=source) | Window(input=source) | Mark(input=source):
            return _names(source)
        case Scan() | Public() | Project() | PerUnit() | Union():
            return {relation.alias}
        case _:
            assert_never(relation)


def joined_rows(left: int, right: int, *, full: bool) -> int:
    """How many rows of a unit a join can have, of so many: without partners a FULL JOIN keeps those of both sides."""
    return max(left * right, left + right) if full else left * right


def _cut(relation: Relation, limits: Mapping[str, int]) -> Relation:
    match relation:
        case Scan(alias=alias):
            return replace(relation, limit=limits[alias]) if alias in limits else relation
        case Public():
            return relation
        case Join(left=left, right=right):
            return replace(relation, left=_cut(left, limits), right=_cut(right, limits))
        case Mark(input=source, right=right):
            return replace(relation, input=_cut(source, limits), right=_cut(right, limits))
        case Filter(input=source) | Project(input=source) | PerUnit(input=source) | Window(input=source):
            return replace(relation, input=_cut(source, limits))
        case Union(inputs=inputs):
            parts = [_cut(part, limits) for part in inputs]
            return replace(relation, inputs=tuple(p for p in parts if isinstance(p, Project)))
        case _:
            assert_never(relation)
