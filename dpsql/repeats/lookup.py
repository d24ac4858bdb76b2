"""Looks a question up among stored releases."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations

import pyarrow as pa

from dpsql.compile.gate import SealedSql
from dpsql.compile.identity import Identity, identify
from dpsql.compile.ir import ColumnName
from dpsql.compile.plan import ReleasePlan
from dpsql.compile.rewrite import is_salted
from dpsql.ledger import Kept
from dpsql.repeats.differences import Merge, Refinement, merges, refinement, rest_of
from dpsql.repeats.fits import SAME, Ask, Fit, Fits
from dpsql.repeats.question import Question
from dpsql.repeats.sources import Source, sources
from dpsql.repeats.stored import Stored, base_of, digest, groups_of, loads
from dpsql.vault.readings import Noised, Quotient, Reading, Released

MAX_LOOKED_UP = 64
"""Sets of conjuncts under which stored releases are looked for."""

Find = Callable[[Sequence[str]], Mapping[str, Sequence[Kept]]]
"""Stored answers by name; a name that ends in a point stands for all that begin with it."""


@dataclass(frozen=True, slots=True)
class Match:
    """What is stored of a question. sources: by measure. left: of its plan what has to be paid for, None where nothing
    has. keys: the groups that are asked for; None where something is left, or not all is there yet. why: in words, of a
    release that is all stored and has no measures. merges: for slots of what is left by their places in it, the stored
    vectors that new ones are merged with. refinement: of a release that is all left, the stored one that it refines."""

    sources: Mapping[str, Source]
    left: ReleasePlan | None
    keys: pa.Table | None
    why: str = ""
    merges: Mapping[int, Merge] = field(default_factory=dict)
    refinement: Refinement | None = None

    @property
    def kept(self) -> ReleasePlan | None:
        """What is left as it will be stored, once it is drawn and merged; None where that is the whole release."""
        if self.left is None or self.refinement is not None:
            return None
        if not self.merges:
            return self.left
        slots = (self.merges[i].slot if i in self.merges else slot for i, slot in enumerate(self.left.slots))
        return replace(self.left, slots=tuple(slots))

    def joined(self, drawn: Released) -> Released:
        """What was drawn, merged with what is stored."""
        readings = dict(drawn.readings)
        for merge in self.merges.values():
            readings |= merge.joined(drawn)
        return Released(drawn.keys, readings)

    def limited_as(self, limits: str) -> bool:
        """Whether all that is stored of it has these limits."""
        return all(fit.stored.record.limits == limits for source in self.sources.values() for fit, _, _ in source.parts)

    @property
    def is_there(self) -> bool:
        """Whether all of it has been released, rather than being asked about."""
        fits = [fit for source in self.sources.values() for fit, _, _ in source.parts]
        return self.keys is not None and all(fit.stored.vectors is not None for fit in fits)

    def released(self, new: Released | None = None) -> Released:
        """The release, from what is stored and, where something is left, from what was drawn for that."""
        keys = new.keys if new is not None else self.keys
        assert keys is not None
        readings: dict[str, Reading] = dict(new.readings) if new is not None else {}
        groups = groups_of(keys) if self.sources else []
        cache: dict[tuple[int, int], Noised] = {}
        for name, source in self.sources.items():
            if name in readings:
                continue
            for fit, position, slot in source.parts:
                if (id(fit), position) not in cache:  # what is read from one vector shares its noise
                    cache[id(fit), position] = fit.noised(position, slot, groups)
            parts = [cache[id(fit), position] for fit, position, _ in source.parts]
            readings[name] = parts[0] if len(parts) == 1 else Quotient(*parts)
        return Released(keys, readings)


class Repeats:
    """Looks questions up among stored releases."""

    def __init__(
        self, find: Find, ask: Ask, snapshot: str, limits: str, claimed: Collection[ColumnName], engine: str | None
    ):
        """limits: all that the policy declares. claimed: see `types.claimed`. engine: which one it is, by all that its
        results hang on; None where no stored answer is refined."""
        self._find, self._fits = find, Fits(ask)
        self._snapshot, self._limits, self._claimed, self._engine = snapshot, limits, claimed, engine

    def question(self, release: ReleasePlan, sealed: SealedSql, read: Mapping[str, str]) -> Question:
        """A release, and its statement, as a question. read: what stands for the public queries that it reads, by
        name."""
        private = release.selection is not None or release.choosing is not None or is_salted(release)
        made_by = "" if self._engine is None or private else digest([self._engine, sealed.text, sorted(read.items())])
        identity = identify(release, read, self._claimed)
        return Question.of(release, identity, self._snapshot, self._limits, made_by)

    def look_up(self, question: Question, others: Sequence[Stored] = (), taken: Collection[str] = ()) -> Match:
        """What is stored of a question. others: releases that are as good as stored. taken: the names of those that are
        refined already.

        Where something is missing, the slots that have it are drawn anew; with keys that are selected privately all of
        them, since the groups are those of one selection."""
        if question.plan.choosing is not None:
            return self._chosen(question, others)
        texts = frozenset(question.identity.conjuncts)
        match = _match(question, list(self._fitting(question, {question.name: texts}, others)))
        if match.left is None:
            return match
        wider = {f"{base_of(question.identity, kept, question.snapshot)}.": kept for kept in _parts(question.identity)}
        return _match(question, list(self._fitting(question, wider, others)), taken)

    def _chosen(self, question: Question, others: Sequence[Stored]) -> Match:
        """A choice is the same where all that it goes by is."""
        for _, stored in self._stored([question.name], others):
            if replace(stored.record, complete=False) == question.record:
                return Match({}, None, stored.keys, SAME)
        return Match({}, question.plan, None)

    def _fitting(
        self, question: Question, wanted: Mapping[str, frozenset[str]], others: Sequence[Stored]
    ) -> Iterator[Fit]:
        """wanted: the conjuncts of stored releases by their names, or by what these begin with."""
        for prefix, stored in self._stored(list(wanted), others):
            fit = self._fits.of(question, wanted[prefix], stored)
            if fit is not None:
                yield fit

    def _stored(self, prefixes: Sequence[str], others: Sequence[Stored]) -> Iterator[tuple[str, Stored]]:
        """What the ledger has, then what is as good as stored."""
        for prefix, answers in self._find(prefixes).items():
            yield from ((prefix, loads(kept.answer, kept.fingerprint, refined=kept.refined)) for kept in answers)
        for stored in others:
            yield from ((prefix, stored) for prefix in prefixes if stored.name.startswith(prefix))

    def listed(self, plan: ReleasePlan) -> pa.Table | None:
        """The public groups of a release; None where there are none."""
        return self._fits.listed(plan)


def _match(question: Question, fits: Sequence[Fit], taken: Collection[str] = ()) -> Match:
    """What these releases give."""
    plan = question.plan
    measures = plan.release.measures
    if plan.selection is None:
        found = sources(question, fits)
        whole = bool(measures) and all(m.name in found for m in measures)
    else:
        several = [(fit, sources(question, [fit])) for fit in fits if fit.stored.record.asked >= question.asked]
        complete = [(fit, some) for fit, some in several if all(m.name in some for m in measures)]
        whole = bool(complete)
        fits, found = ([complete[0][0]], complete[0][1]) if complete else ([], {})
    if whole:
        first = next(iter(found.values())).parts[0][0] if found else fits[0]
        return Match(found, None, first.keys, "" if found else first.why)
    slots = tuple(s for s in plan.slots if not s.outputs or any(m.name not in found for m in s.outputs))
    drawn = {m.name for s in slots for m in s.outputs}
    kept = {name: source for name, source in found.items() if name not in drawn}
    merged = merges(question, slots, fits)
    if not kept and not merged and (refined := refinement(question, fits, taken)) is not None:
        return Match({}, refined.plan, None, refinement=refined)
    rest = tuple(rest_of(merged[i]) if i in merged else slot for i, slot in enumerate(slots))
    return Match(kept, plan if rest == plan.slots else replace(plan, slots=rest), None, merges=merged)


def _parts(identity: Identity) -> Iterator[frozenset[str]]:
    """The sets of conjuncts under which a stored release may answer the question: all of them, then ever fewer."""
    texts = sorted(identity.conjuncts)
    looked_up = 0
    for dropped in range(len(texts) + 1):
        for some in combinations(texts, dropped):
            if looked_up == MAX_LOOKED_UP:
                return
            looked_up += 1
            yield frozenset(texts) - frozenset(some)
