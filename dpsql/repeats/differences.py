"""More epsilon for an old question: what is to pay where a stored release has its exact vectors, with more noise.

Normal noise is merged: a new vector of the mu^2 that is missing with the stored one (`merged` in `vault/readings`).
Discrete Laplace noise is refined: a finer vector is drawn given the stored one (`privacy/refinement`). For the first,
whether both are of the same exact vector is a question of what is right; for the second, privacy hangs on it. So a
release is refined as a whole, and only by the very same statement: the sealed text is the same byte by byte, over the
same snapshot and the same public tables, by the same engine on the same machine (`Repeats.question` makes a digest of
these, and `Engines.signature` says what the last two are). What the engine makes of that is the same to the last bit,
however many threads it has: sums are of integers, limits by keyed ranks, and that nothing hangs on the order of rows
the sensitivity needs as well. Nothing is refined whose text is not the whole of it: a choice of keys at random
(`rewrite.is_salted`), and keys that are selected privately, of which others may be shown.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import pyarrow as pa

from dpsql.compile.plan import ReleasePlan
from dpsql.compile.slots import Slot
from dpsql.privacy.gaussian import sigma_for
from dpsql.repeats.fits import SAME, Fit
from dpsql.repeats.question import Question
from dpsql.repeats.stored import groups_of
from dpsql.vault.readings import Noised, Released, merged

LEAST_MERGED = 16
"""Steps of the deviation of noise for which what merging is rounded by hardly matters."""


@dataclass(frozen=True, slots=True)
class Merge:
    """A stored vector of the same exact one with more normal noise, and the slot that it and a new one are together."""

    fit: Fit
    position: int
    stored: Slot
    slot: Slot

    def joined(self, drawn: Released) -> dict[str, Noised]:
        """What was drawn, merged with what is stored, by measure."""
        outputs = [measure.name for measure in self.slot.outputs]
        new = drawn.readings[outputs[0]]
        assert isinstance(new, Noised)
        stored = self.fit.noised(self.position, self.stored, groups_of(drawn.keys))
        return dict.fromkeys(outputs, merged(stored, new, self.slot))


def merges(question: Question, slots: Sequence[Slot], fits: Sequence[Fit]) -> dict[int, Merge]:
    """For slots that have to be drawn, by their places, the stored vector of least noise that a new one can be merged
    with. Both are of the same rows under the same limits; where units' keys are chosen at random, each has its own
    choice, and the result is of both."""
    found = {}
    for i, slot in enumerate(slots):
        several = list(_mergeable(question, slot, fits))
        if several:
            found[i] = min(several, key=lambda merge: merge.stored.size)
    return found


def _mergeable(question: Question, slot: Slot, fits: Sequence[Fit]) -> Iterator[Merge]:
    if slot.sigma is None or slot.sigma < LEAST_MERGED or question.plan.selection is not None:
        return
    for fit in fits:
        if fit.rows is None or fit.cells > 1 or fit.stored.record.limits != question.identity.limits:
            continue
        for position, stored in enumerate(fit.stored.record.slots):
            if stored.sigma is not None and stored.sigma > slot.sigma and stored.is_of(slot, question.identity.aliases):
                before = replace(slot, sigma=stored.sigma, merges=stored.merges)
                yield Merge(fit, position, before, replace(slot, merges=stored.merges + 1))


def rest_of(merge: Merge) -> Slot:
    """What has to be drawn: a slot of the mu^2 that is missing."""
    missing = merge.slot.mu_squared - merge.stored.mu_squared
    return replace(merge.slot, sigma=sigma_for(merge.slot.norms.l2_squared, missing), merges=0)


@dataclass(frozen=True, slots=True)
class Refinement:
    """A stored release of the same exact vectors, each with more discrete Laplace noise, given which the plan's are
    drawn; of the plan, its slots as they are paid."""

    fit: Fit
    plan: ReleasePlan

    @property
    def name(self) -> str:
        """Of what is refined, which can be once."""
        return self.fit.stored.name

    def before(self, keys: pa.Table) -> list[Noised]:
        """What was released of each slot for these groups."""
        groups = groups_of(keys)
        coarse = (replace(slot, epsilon=slot.paid, paid=Fraction(0)) for slot in self.plan.slots)
        return [self.fit.noised(position, slot, groups) for position, slot in enumerate(coarse)]


def refinement(question: Question, fits: Sequence[Fit], taken: Collection[str]) -> Refinement | None:
    """The stored release that leaves least to pay, of which none is `taken`. None where there is none."""
    found = [r for fit in fits if (r := _refined(question, fit)) is not None and r.name not in taken]
    return max(found, key=lambda r: sum(slot.paid for slot in r.plan.slots), default=None)


def _refined(question: Question, fit: Fit) -> Refinement | None:
    """See the module for why each condition is there."""
    plan, stored, record = question.plan, fit.stored, fit.stored.record
    same = question.record.made_by != "" and record.made_by == question.record.made_by
    if not same or stored.refined or fit.why != SAME or fit.columns is not None or fit.rows is None:
        return None
    if plan.selection is not None or plan.choosing is not None or record.limits != question.identity.limits:
        return None
    pairs = list(zip(plan.slots, record.slots, strict=False))
    if len(plan.slots) != len(record.slots) or not all(
        slot.sigma is None
        and before.sigma is None
        and before.is_of(slot, question.identity.aliases)
        and before.epsilon < slot.epsilon
        for slot, before in pairs
    ):
        return None
    slots = tuple(replace(slot, paid=before.epsilon) for slot, before in pairs)
    return Refinement(fit, replace(plan, slots=slots))
