"""Stored releases whose groups have the exact vectors that are asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from sqlglot import exp

from dpsql.compile.gate import SealedSql
from dpsql.compile.plan import ReleasePlan
from dpsql.compile.rewrite import groups_where_sql, keys_sql
from dpsql.compile.slots import Slot
from dpsql.compile.trees import column, operands, unwrapped
from dpsql.policy.facts import Kind
from dpsql.repeats.question import Question
from dpsql.repeats.stored import Group, Stored, groups_of
from dpsql.vault.readings import Noised

Ask = Callable[[SealedSql, Mapping[str, pa.Table]], pa.Table | None]
"""Runs a statement over public values; None where the engine fails."""

SAME, SOME, SUMS = "the same question", "some of the stored groups", "sums of stored groups"
"""Why a stored release is an answer."""

KEYS, ROW = "released_0", "row"
"""What stored groups are called where conditions are asked of them, and the number of each."""


@dataclass(frozen=True, slots=True, eq=False)
class Fit:
    """A stored release whose groups have the exact vectors that are asked for. rows: for each group that is asked for
    those of its own, None where they are not known yet. columns: where its keys stand among the stored ones, None where
    all of these are asked for. cells: how many rows a group has at most. why: in words."""

    stored: Stored
    rows: Mapping[Group, Sequence[int]] | None
    columns: tuple[int, ...] | None
    cells: int
    why: str

    @property
    def keys(self) -> pa.Table | None:
        """The groups, in the order of their keys; None where they are not known yet."""
        if self.stored.keys is None or self.rows is None:
            return None
        if self.columns is None:
            return self.stored.keys
        chosen = self.stored.keys.take(pa.array([rows[0] for rows in self.rows.values()], pa.int64()))
        names = [f"k{i}" for i in range(1, len(self.columns) + 1)]
        keys = chosen.select([chosen.column_names[p] for p in self.columns]).rename_columns(names)
        return keys.sort_by([(name, "ascending") for name in names]) if names else keys

    def noised(self, position: int, slot: Slot, groups: Sequence[Group]) -> Noised:
        """The vector of one of its slots for these groups."""
        assert self.stored.vectors is not None and self.rows is not None
        places = [self.rows[group] for group in groups]
        vector = []
        for component in self.stored.vectors[position]:
            cells = (sum((component[i] for i in rows[1:]), component[rows[0]]) for rows in places)
            vector.append(np.fromiter(cells, dtype=object, count=len(places)))
        return Noised(slot, tuple(vector), self.cells)


class Fits:
    """Finds fits; the outer engine says which groups are public, and for which of them a condition holds."""

    def __init__(self, ask: Ask):
        self._ask = ask

    def of(self, question: Question, kept: frozenset[str], stored: Stored) -> Fit | None:
        """The fit of a stored release, over what `kept` of the question's conjuncts leaves; None where it has not the
        groups that are asked for (see the package)."""
        asked, record, plan = question.identity, stored.record, question.plan
        more = [tree for text, tree in asked.conjuncts.items() if text not in kept]
        same_keys = len(record.keys) == len(asked.keys) and set(record.keys) == set(asked.keys)
        if record.choice is not None or record.min_units != asked.min_units or record.sets != asked.sets:
            return None
        if record.limits != asked.limits and not record.chosen_by == question.record.chosen_by != "":
            return None
        if not more and record.keys == asked.keys and record.listed == asked.listed:
            groups = None if stored.keys is None else {g: [i] for i, g in enumerate(groups_of(stored.keys))}
            return Fit(stored, groups, None, 1, SAME)
        kinds = {k.scalar.facts.type.kind for k in plan.release.keys}
        if asked.sets or Kind.DOUBLE in kinds or len(set(record.keys)) < len(record.keys):
            return None
        if more and not record.local:
            return None
        if not set(asked.keys) <= set(record.keys) or len(set(asked.keys)) < len(asked.keys):
            return None
        coarser = not same_keys
        if coarser and not (record.complete and record.additive):
            return None
        conditions = [asked.over_keys(tree, record.keys, KEYS) for tree in more]
        if None in conditions:
            return None
        why = SUMS if coarser else SOME if more else SAME
        if stored.keys is None:  # which there will be is not known yet, and does not matter
            return Fit(stored, None, (), 1, why)
        over_keys = [c for c in conditions if c is not None]
        dropped = [place for place, text in enumerate(record.keys) if text not in asked.keys]  # what is added up over
        if not all(self._has_all(stored, place, over_keys) for place in dropped):
            return None
        return self._placed(question, stored, over_keys, why)

    def _has_all(self, stored: Stored, place: int, conditions: Sequence[exp.Expr]) -> bool:
        """Whether every row that meets the conditions has one of the stored values of a key, where the groups are
        complete: no claim is behind these, or a condition lists values that are all among them."""
        if stored.record.enforced[place]:
            return True
        key = column(KEYS, f"k{place + 1}")
        several = [values for c in conditions if (values := _listed(c, key)) is not None]
        for values in several:
            found = [self._where(stored.keys, [exp.NullSafeEQ(this=key.copy(), expression=v.copy())]) for v in values]
            if all(found):
                return True
        return False

    def _placed(self, question: Question, stored: Stored, conditions: Sequence[exp.Expr], why: str) -> Fit | None:
        """The rows of a stored release for each group of the question; None where one has none."""
        assert stored.keys is not None
        asked, record = question.identity, stored.record
        kept = self._where(stored.keys, conditions)
        if kept is None:
            return None
        places = [record.keys.index(text) for text in asked.keys]
        found: dict[Group, list[int]] = {}
        for i, group in enumerate(groups_of(stored.keys)):
            if i in kept:
                found.setdefault(tuple(group[p] for p in places), []).append(i)
        if asked.min_units is None:
            listed = self.listed(question.plan)
            groups = groups_of(listed) if listed is not None else []
            if not groups or not all(group in found for group in groups):
                return None
            found = {group: found[group] for group in groups}
        cells = max(map(len, found.values()), default=1)
        return Fit(stored, found, tuple(places), cells, why)

    def _where(self, keys: pa.Table, conditions: Sequence[exp.Expr]) -> frozenset[int] | None:
        """The rows of released keys for which the conditions are true."""
        if not conditions:
            return frozenset(range(keys.num_rows))
        numbered = keys.append_column(ROW, pa.array(range(keys.num_rows), pa.int64()))
        found = self._ask(groups_where_sql(conditions, KEYS, ROW), {KEYS: numbered})
        return None if found is None else frozenset(found.column(0).to_pylist())

    def listed(self, plan: ReleasePlan) -> pa.Table | None:
        """The public groups of a release; None where there are none."""
        if plan.selection is not None or plan.choosing is not None:
            return None
        public = plan.release.public_keys
        return pa.table({}) if public is None else self._ask(keys_sql(public.tree), {})


def _listed(condition: exp.Expr, key: exp.Column) -> list[exp.Expr] | None:
    """Values of which a key has one wherever a condition is true; None where that does not say so."""
    node = unwrapped(condition)
    if isinstance(node, exp.Or):
        several = [_listed(part, key) for part in operands(node)]
        return None if None in several else [value for values in several for value in values or ()]
    if isinstance(node, exp.EQ) and key in (sides := [unwrapped(node.this), unwrapped(node.expression)]):
        values = [side for side in sides if side != key]
    elif isinstance(node, exp.In) and unwrapped(node.this) == key and not node.args.get("query"):
        values = node.expressions
    else:
        return None
    return None if any(value.find(exp.Column) for value in values) else values
