"""How many rows of one unit can meet: the limits on every private scan, so that no unit can explode a query.

Every scan whose rows a unit can have several of is cut to W rows, a function of that unit alone. W is WORST_CASE times
the statement's R, as far as `worst_case` lets it be, and less, even than R, where the product over joined scans would
pass MOST_ROWS: so the work for one unit is bounded, and sums over its rows cannot overflow.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import replace
from typing import assert_never

from dpsql.compile.ir import Filter, Join, JoinKind, Mark, PerUnit, Project, Public, Relation, Scan, Union, Window
from dpsql.compile.limits import MOST_ROWS, WORST_CASE, Declared
from dpsql.compile.relations import scans
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
        return _meeting(cut(part))[1] > MOST_ROWS

    if explodes(kept):
        kept = bisect_left(range(most_parts), True, key=lambda part: explodes(part + 1))
    if kept > 0:
        return cut(kept)
    reason = f"rows of one unit could meet in more than {MOST_ROWS:,} ways"
    repair = "join by keys, or aggregate each table per unit before they are joined"
    raise refusal("DP223", reason, span=span, repair=repair)


def most_rows(relation: Relation) -> int:
    """How many rows of one unit the relation can have."""
    return max(_meeting(relation)[0], 1)


def _meeting(relation: Relation) -> tuple[int, int]:
    """(rows of one unit in the relation, pairs of rows that are looked at for it at the worst point below)."""
    match relation:
        case Scan(public=public, many=many, limit=limit, meets=meets):
            rows = meets if public else limit if many else 1
            assert rows is not None
            return rows, rows
        case Public():
            return 1, 1
        case Join(kind=kind, left=left, right=right, unique=unique):
            (a, worst), (b, other) = _meeting(left), _meeting(right)
            rows = a if unique else joined_rows(a, b, full=kind is JoinKind.FULL)
            return rows, max(worst, other, rows)
        case Mark(input=source, right=right):
            (a, worst), (b, other) = _meeting(source), _meeting(right)
            return a, max(worst, other, a * b)
        case Filter(input=source) | Project(input=source) | PerUnit(input=source) | Window(input=source):
            return _meeting(source)
        case Union(inputs=inputs):
            found = [_meeting(part) for part in inputs]
            return sum(rows for rows, _ in found), max(sum(rows for rows, _ in found), *(worst for _, worst in found))
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
