"""Stored releases: what the ledger keeps of them, to be read again for the same question or another one.

A stored release is the columns that tell its groups apart, the noisy vectors of its slots, and a record of what they
are. It holds nothing exact, and no names of the statement that paid for it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import astuple, dataclass, field, replace
from dataclasses import fields as dataclass_fields
from fractions import Fraction
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np
import pyarrow as pa

from dpsql.answer import streamed, values_of
from dpsql.compile.cover import cover
from dpsql.compile.grid import Grid, grid_of
from dpsql.compile.identity import Identity, all_groups, argument_text, arguments, slot_text
from dpsql.compile.ir import Facts, Measure, Scalar, Statistic
from dpsql.compile.normalform import Aliases
from dpsql.compile.plan import ReleasePlan
from dpsql.compile.slots import Axis, Slot, SlotKind, is_always, is_read_from
from dpsql.compile.trees import column
from dpsql.errors import refusal
from dpsql.policy.facts import Kind, SqlType
from dpsql.privacy.sensitivity import Norms
from dpsql.vault.readings import Integers, Noised, Released

_FORM = 4
"""Of records. What is stored in another form is not found: a form ends where a record says something else, and where
the vault would make another exact vector of the same statement, since what is refined must have the same one."""

_RECORD = b"dpsql"

SMALL = 1 << 14
"""Bytes of a stored answer that is kept in memory once it was read."""


@dataclass(frozen=True, slots=True)
class StoredAxis:
    """A value of a Bernstein slot: its text, and whether every row has it."""

    text: str
    grid: Grid | None
    degree: int
    always: bool

    @staticmethod
    def of(axis: Axis, aliases: Aliases) -> StoredAxis:
        """The axis of a plan."""
        return StoredAxis(argument_text(axis.argument, aliases), axis.grid, axis.degree, is_always(axis.argument))


@dataclass(frozen=True, slots=True)
class Wanted:
    """A measure as stored slots are compared with it. planned: the slot that it would be read from, with its axes over
    texts. alone: the slot that it would have by itself, and the text of that one's argument. summed: of a SUM the grid
    of its value, by its text."""

    measure: Measure
    planned: Slot
    axes: tuple[StoredAxis, ...]
    alone: Slot
    argument: str | None
    summed: Mapping[str, Grid]

    @staticmethod
    def of(measure: Measure, planned: Slot, aliases: Aliases) -> Wanted:
        """The measure of a plan."""
        (alone,) = cover((measure,))
        summed = arguments([measure], aliases) if measure.statistic is Statistic.SUM else {}
        return Wanted(
            *(measure, planned, tuple(StoredAxis.of(axis, aliases) for axis in planned.axes), alone),
            None if alone.argument is None else argument_text(alone.argument, aliases),
            {text: grid_of(value.facts) for text, value in summed.items()},
        )


@dataclass(frozen=True, slots=True)
class StoredSlot:
    """A slot, over texts. asked: the epsilon that its statement named for it, by itself or together with others."""

    kind: SlotKind
    argument: str | None
    grid: Grid | None
    axes: tuple[StoredAxis, ...]
    subgrid: int
    part: tuple[int, int] | None
    norms: Norms
    epsilon: Fraction
    sigma: Fraction | None
    merges: int
    asked: Fraction

    @staticmethod
    def of(slot: Slot, aliases: Aliases, asked: Fraction) -> StoredSlot:
        """The slot of a plan."""
        return StoredSlot(
            kind=slot.kind,
            argument=None if slot.argument is None else argument_text(slot.argument, aliases),
            grid=slot.grid,
            axes=tuple(StoredAxis.of(axis, aliases) for axis in slot.axes),
            subgrid=slot.subgrid,
            part=slot.part,
            norms=slot.norms,
            epsilon=slot.epsilon,
            sigma=slot.sigma,
            merges=slot.merges,
            asked=slot.hint.share if slot.hint is not None else asked,
        )

    def is_of(self, slot: Slot, aliases: Aliases) -> bool:
        """Whether its exact vector is that of a slot, under the same limits over the same rows."""
        other = StoredSlot.of(slot, aliases, self.asked)
        return (self.kind, self.argument, self.grid, self.axes, self.subgrid, self.part, self.norms) == (
            *(other.kind, other.argument, other.grid, other.axes, other.subgrid, other.part, other.norms),
        )

    def slot_for(self, wanted: Wanted, values: Mapping[str, Scalar]) -> Slot | None:
        """The slot that a measure is read from, over the values of its release, by their texts; None where the measure
        is not in it."""
        planned, measure = wanted.planned, wanted.measure
        part = planned.part if planned.kind is self.kind else None
        if self.kind is not SlotKind.MOMENTS:
            alone, argument = wanted.alone, wanted.argument
            same = (self.kind, self.argument, self.grid, self.part) == (alone.kind, argument, alone.grid, part)
            return self._over(measure, alone.argument, ()) if same else None
        if self.part != part:
            return None  # means of each unit's own mean, and means of rows
        if self.part is not None:
            return self._over(measure, None, planned.axes) if self.axes == wanted.axes else None
        if measure.statistic in (Statistic.UNITS, Statistic.DISTINCT) or measure.per_group is not None:
            return None
        if any(axis.grid is not None and axis.grid != wanted.summed.get(axis.text, axis.grid) for axis in self.axes):
            return None  # on a coarser grid, which a mean may be read from
        axes = tuple(Axis(values.get(a.text) or _other(a), a.grid, a.degree) for a in self.axes)
        slot = self._over(measure, None, axes)
        return slot if is_read_from(measure, slot) else None

    def _over(self, measure: Measure, argument: Scalar | None, axes: tuple[Axis, ...]) -> Slot:
        return Slot(
            *(self.kind, argument, self.grid, (measure,), self.norms, self.epsilon),
            *(self.subgrid, axes, self.sigma, self.part, self.merges),
        )


def _other(axis: StoredAxis) -> Scalar:
    """A value that a measure does not name: whether every row has it is all that matters of it, and that it has a grid
    where the slot has one."""
    lo, hi = (Fraction(axis.grid.lo), Fraction(axis.grid.hi)) if axis.grid is not None else (None, None)
    return Scalar(column("other", axis.text), Facts(SqlType(Kind.INTEGER), lo, hi, nullable=not axis.always))


@dataclass(frozen=True, slots=True)
class Record:
    """What a stored release is. Its rows and conjuncts are what it is found by; the rest is as in `Identity`. additive:
    whether no limit acts in each group. complete: whether its groups are all that there are by what is known of each
    key. asked: the epsilon that its statement named. chosen_by: among what the planner chose its limits, so that others
    of its choice will do; '' where the statement named limits. decision: on private keys, what it goes by and spends,
    '' where there is none: no slot that is shown need tell it. made_by: a digest of all that its exact vectors hang on
    beside the snapshot, for who needs the same ones to the last bit; '' where nobody can have them. It makes no record
    another one."""

    keys: tuple[str, ...]
    sets: str
    limits: str
    local: bool
    additive: bool
    listed: str
    complete: bool
    enforced: tuple[bool, ...]
    min_units: int | None
    choice: str | None
    asked: Fraction
    chosen_by: str
    decision: str
    slots: tuple[StoredSlot, ...]
    made_by: str = field(default="", compare=False, repr=False)

    @staticmethod
    def of(plan: ReleasePlan, identity: Identity, chosen_by: str, made_by: str = "") -> Record:
        """Of a release whose groups are not known yet."""
        return Record(
            *(identity.keys, identity.sets, identity.limits, identity.local),
            additive=plan.limits.per_group is None and plan.limits.ball is None,
            listed=identity.listed,
            complete=False,
            enforced=identity.enforced,
            min_units=identity.min_units,
            choice=identity.choice,
            asked=plan.request.epsilon,
            chosen_by=chosen_by,
            decision=_decision(plan, identity.aliases),
            slots=tuple(StoredSlot.of(slot, identity.aliases, plan.request.epsilon) for slot in shown_slots(plan)),
            made_by=made_by,
        )

    def of_groups(self, plan: ReleasePlan, groups: Collection[Group] | None) -> Record:
        """The same, with these groups; None where they are not known yet."""
        complete = groups is not None and plan.selection is None and _is_complete(plan, groups)
        return replace(self, complete=complete) if complete else self


def _decision(plan: ReleasePlan, aliases: Aliases) -> str:
    selection = plan.selection
    if selection is None:
        return ""
    counted = "" if selection.counted is None else slot_text(selection.counted, aliases)
    return repr((selection.touched, str(selection.epsilon), str(selection.delta), counted))


Group = tuple[object, ...]
"""The values of a group's keys. NaN, which equals nothing in Python, is a text."""


def groups_of(keys: pa.Table) -> list[Group]:
    """The groups of a table of keys; one without columns has one."""
    if not keys.num_columns:
        return [()]
    columns = [[_NAN if v != v else v for v in values_of(column)] for column in keys.columns]
    return list(zip(*columns, strict=True))


_NAN = "NaN"


def _is_complete(plan: ReleasePlan, groups: Collection[Group]) -> bool:
    expected = all_groups(plan)
    return expected is not None and set(expected) == set(groups)


@dataclass(frozen=True, slots=True)
class Stored:
    """A record with the released keys and the vectors of its slots. Both are None of what is only asked about: a
    release that a script would pay for before. keys alone is None where they are selected privately. name: in the
    ledger. refined: whether a finer one was paid for, given this one."""

    record: Record
    keys: pa.Table | None
    vectors: tuple[tuple[Integers, ...], ...] | None
    name: str = ""
    refined: bool = False


def base_of(identity: Identity, conjuncts: Collection[str], snapshot: str) -> str:
    """What releases over the same rows have in common, by which they are found: the first part of their names."""
    return digest([_FORM, snapshot, identity.rows, sorted(conjuncts)])[:32]


def name_of(base: str, record: Record) -> str:
    """The name of a release in the ledger, its fingerprint: two of one name are the same question at the same price.
    record: of groups that are not known yet."""
    return f"{base}.{digest([base, repr(record)])}"


def digest(said: Sequence[object]) -> str:
    """Of what JSON can say."""
    return hashlib.sha256(json.dumps(said).encode()).hexdigest()


def dumps(plan: ReleasePlan, record: Record, released: Released) -> bytes:
    """A release -> bytes: an Arrow stream behind its SHA-256."""
    columns = {name: released.keys.column(name) for name in released.keys.column_names}
    if record.choice is None:
        for i, slot in enumerate(shown_slots(plan)):
            reading = released.readings[slot.outputs[0].name]
            assert isinstance(reading, Noised)
            for part, component in enumerate(reading.vector):
                columns[f"v{i}.{part}"] = pa.array([str(int(v)) for v in component], pa.string())
    table = pa.table(columns).replace_schema_metadata({_RECORD: _written(record).encode()})
    stream = streamed(table)
    return hashlib.sha256(stream).digest() + stream


def loads(answer: bytes, name: str = "", *, refined: bool = False) -> Stored:
    """The inverse of `dumps`, with what the ledger says of it. Raises DP403 where a byte is not as it was: SQLite
    itself does not notice that, and the answer would be another one than was paid for.

    Small ones are kept, by all their bytes: with each new question about the same rows they are looked at again."""
    return replace((_kept if len(answer) <= SMALL else _read)(answer), name=name, refined=refined)


def _read(answer: bytes) -> Stored:
    said, stream = answer[:32], answer[32:]
    if hashlib.sha256(stream).digest() != said:
        repair = "`dpsql ledger verify` says more; put a backup back"
        raise refusal("DP403", "the ledger is damaged: a stored answer is not the one that was stored", repair=repair)
    table = pa.ipc.open_stream(stream).read_all().combine_chunks()
    record = _record_read(table.schema.metadata[_RECORD].decode())
    names = [name for name in table.column_names if not name.startswith("v")]
    vectors = []
    for i, slot in enumerate(record.slots):
        parts = range(prod(a.degree + 1 for a in slot.axes))
        found = [[int(v) for v in table.column(f"v{i}.{part}").to_pylist()] for part in parts]
        vectors.append(tuple(np.array(part, dtype=object) for part in found))
    return Stored(record, table.select(names), tuple(vectors))


_kept = lru_cache(maxsize=512)(_read)


def shown_slots(plan: ReleasePlan) -> tuple[Slot, ...]:
    """The slots of a release of numbers that are stored: not one that only decides on keys."""
    return tuple(slot for slot in plan.slots if slot.outputs) if plan.choosing is None else ()


def _written(record: Record) -> str:
    fields = {f.name: getattr(record, f.name) for f in dataclass_fields(record)}
    slots = [
        [
            *(s.kind.value, s.argument, _grid_written(s.grid)),
            [[a.text, _grid_written(a.grid), a.degree, a.always] for a in s.axes],
            *(s.subgrid, s.part, astuple(s.norms), str(s.epsilon), s.sigma and str(s.sigma), s.merges, str(s.asked)),
        ]
        for s in record.slots
    ]
    return json.dumps({**fields, "asked": str(record.asked), "slots": slots})


def _record_read(text: str) -> Record:
    fields = json.loads(text)
    slots = tuple(map(_slot_read, fields.pop("slots")))
    keys, enforced, asked = tuple(fields.pop("keys")), tuple(fields.pop("enforced")), Fraction(fields.pop("asked"))
    return Record(**fields, keys=keys, enforced=enforced, asked=asked, slots=slots)


def _slot_read(found: Any) -> StoredSlot:
    kind, argument, grid, axes, subgrid, part, norms, epsilon, sigma, merges, asked = found
    return StoredSlot(
        kind=SlotKind(kind),
        argument=argument,
        grid=_grid_read(grid),
        axes=tuple(StoredAxis(text, _grid_read(own), degree, always) for text, own, degree, always in axes),
        subgrid=subgrid,
        part=None if part is None else (part[0], part[1]),
        norms=Norms(*norms),
        epsilon=Fraction(epsilon),
        sigma=Fraction(sigma) if sigma else None,
        merges=merges,
        asked=Fraction(asked),
    )


def _grid_written(grid: Grid | None) -> list[object] | None:
    return None if grid is None else [grid.lo, grid.hi, str(grid.step), grid.storage.value, grid.digits]


def _grid_read(found: Any) -> Grid | None:
    return found and Grid(found[0], found[1], Fraction(found[2]), Kind(found[3]), found[4])
