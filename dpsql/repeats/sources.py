"""From which stored slots a measure is read, if they are as good as is asked for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from dpsql.compile.cover import spread
from dpsql.compile.grid import grid_of
from dpsql.compile.ir import Measure, Statistic
from dpsql.compile.slots import Slot, SlotKind
from dpsql.privacy import variances
from dpsql.repeats.fits import Fit
from dpsql.repeats.question import Question
from dpsql.repeats.stored import StoredSlot, Wanted
from dpsql.vault.readings import Noised

MOST_NOISE = 10
"""How many times as wide as a new answer a stored one may be."""

_ADDITIVE = (SlotKind.ROWS, SlotKind.SUM, SlotKind.MOMENTS)


@dataclass(frozen=True, slots=True)
class Source:
    """Where a measure is read from: slots of stored releases; of a quotient two."""

    parts: tuple[tuple[Fit, int, Slot], ...]
    error: float

    @property
    def why(self) -> str:
        of = " and ".join(dict.fromkeys(fit.why for fit, _, _ in self.parts))
        return f"a stored sum over a stored count: {of}" if len(self.parts) > 1 else of

    @property
    def half_width(self) -> float | None:
        """The 95 % half-width of each value, where that is one number."""
        (fit, _, slot), *others = self.parts
        return None if others else Noised(slot, (), fit.cells).half_width


def sources(question: Question, fits: Sequence[Fit]) -> dict[str, Source]:
    """Of each measure that is stored and good enough the stored slot of least noise."""
    planned = {m.name: slot for slot in question.plan.slots for m in slot.outputs}
    found: dict[str, Source] = {}
    for measure in question.plan.release.shown:
        slot = planned[measure.name]
        exacting = bool(question.plan.request.weights) or slot.hint is not None
        several = list(_read(question, measure, slot, fits, exacting=exacting))
        mean = measure.statistic is Statistic.AVG and measure.per_group is None and measure.second is None
        if not several and mean and not exacting:  # (a mean of pairs, REGR_AVGX, is of fewer rows than SUM and COUNT)
            several = _quotients(question, measure, slot, fits)
        if several:
            found[measure.name] = min(several, key=lambda source: source.error)
    return found


def _read(
    question: Question, measure: Measure, planned: Slot, fits: Sequence[Fit], *, exacting: bool
) -> Iterator[Source]:
    """The slots of stored releases that give a measure as well as is asked for."""
    new = _error(measure, planned, 1)
    for fit, position, stored, slot in _slots(question, measure, planned, fits):
        if fit.cells > 1 and (slot.kind not in _ADDITIVE or slot.part is not None):
            continue
        if measure.statistic is Statistic.SUM and slot.kind is not planned.kind and not fit.stored.record.additive:
            continue  # where a limit acts in each group, a sum alone is clamped, and a Bernstein vector scaled
        error = _error(measure, slot, fit.cells)
        as_asked = not exacting and stored.asked >= question.asked and error <= new * MOST_NOISE**2
        if as_asked or error <= new * (1 + 1e-9):
            yield Source(((fit, position, slot),), error)


def _slots(
    question: Question, measure: Measure, planned: Slot, fits: Sequence[Fit]
) -> Iterator[tuple[Fit, int, StoredSlot, Slot]]:
    """The stored slots that a measure is in, and what each is for it."""
    wanted = Wanted.of(measure, planned, question.identity.aliases)
    for fit in fits:
        for position, stored in enumerate(fit.stored.record.slots):
            slot = stored.slot_for(wanted, question.values)
            if slot is not None:
                yield fit, position, stored, slot


def _quotients(question: Question, measure: Measure, planned: Slot, fits: Sequence[Fit]) -> list[Source]:
    """A mean from a sum and a count of the same rows, each good enough for itself at the epsilon that was named. Where
    a limit acts in each group, a sum and a count are cut each by itself, and their quotient is no mean."""
    parts = []
    for statistic in (Statistic.SUM, Statistic.VALUES):
        part = replace(measure, statistic=statistic)
        found = [
            (fit, position, slot)
            for fit, position, stored, slot in _slots(question, part, planned, fits)
            if slot.kind in (SlotKind.SUM, SlotKind.ROWS)
            and stored.asked >= question.asked
            and fit.stored.record.additive
        ]
        if not found:
            return []
        parts.append(min(found, key=lambda f: f[2].size * f[0].cells))
    (total, _, sum_slot), (count, _, count_slot) = parts
    grid = sum_slot.grid
    assert grid is not None
    if measure.argument is None or grid != grid_of(measure.argument.facts):
        return []
    if total.stored.record.limits != count.stored.record.limits:
        return []  # of other rows
    # With e and f the noise of sum and count, u the mean in [0, 1] of the range: (e - lo f)/M - u f, over all u alike.
    low = grid.lo / grid.span
    of_count = _variance(count_slot) * count.cells * (low**2 + low + 1 / 3)
    error = _variance(sum_slot) * total.cells / grid.span**2 + of_count
    return [Source(tuple(parts), error)] if error <= _error(measure, planned, 1) * MOST_NOISE**2 else []


def _error(measure: Measure, slot: Slot, cells: int) -> float:
    """How far off a measure is, squared, in a unit that all slots of a measure share."""
    return spread(measure, slot) * _variance(slot) * cells / slot.weight**2


def _variance(slot: Slot) -> float:
    """Of the noise of one cell."""
    if slot.sigma is None:
        return variances.of_laplace(slot.norms, variances.as_float(slot.epsilon))
    return variances.as_float(slot.sigma) ** 2 + 1 / 12
