"""What statements cost: of their releases what was not paid for, and what a script would cost before it runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from dpsql.answer import ColumnReceipt
from dpsql.compile.gate import SealedSql
from dpsql.compile.plan import PrivatePlan, ReleasePlan
from dpsql.errors import refusal
from dpsql.privacy.accounting import Price
from dpsql.reads import Reads
from dpsql.repeats.lookup import Match, Repeats
from dpsql.repeats.question import Question
from dpsql.repeats.stored import Stored, groups_of
from dpsql.vault.readings import Released


@dataclass(frozen=True, slots=True)
class Due:
    """What has to be paid of a release. planned: all of it. question: None where it hangs on a release that is new
    itself. match: what of it is stored."""

    planned: ReleasePlan
    question: Question | None
    match: Match

    @property
    def name(self) -> str:
        return self.planned.release.name

    @property
    def left(self) -> ReleasePlan:
        """What would be drawn."""
        return self.match.left or self.planned

    @property
    def part(self) -> Question | None:
        """What will be stored of it."""
        return self.question.of_part(self.match.kept or self.planned) if self.question is not None else None


@dataclass(slots=True)
class Bill:
    """A statement's releases: those that are stored, as they are read, and their tables; those that are due; and twins,
    which are the same as another that is due. otherwise: those of which something is stored with other limits than are
    planned."""

    plan: PrivatePlan
    released: dict[str, Released] = field(default_factory=dict)
    tables: dict[str, pa.Table] = field(default_factory=dict)
    due: dict[str, Due] = field(default_factory=dict)
    twins: list[Due] = field(default_factory=list)
    matches: dict[str, Match] = field(default_factory=dict)
    otherwise: set[str] = field(default_factory=set)

    def add(self, name: str, planned: ReleasePlan, released: Released) -> None:
        """A release that is there."""
        self.released[name] = released
        self.tables[name] = released.table(planned)

    def same_as(self, due: Due) -> list[Due]:
        """The twins of a release that is due."""
        return [t for t in self.twins if t.question and due.question and t.question.name == due.question.name]

    def shareable(self) -> dict[str, str]:
        """The names of releases that another analyst may have paid for: new to this one, and not to all together. Not
        of what is merged: theirs may come from another stored vector than this analyst has seen, and tell more."""
        parts = {name: due.part for name, due in self.due.items() if not due.match.merges}
        return {name: part.name for name, part in parts.items() if part is not None}

    def stored(self) -> list[str]:
        """Of what is stored, in lines: what it is, why it is an answer, and how far off that is."""
        lines = []
        for planned in self.plan.releases:
            name = planned.release.name
            match = self.matches.get(name)
            if match is None:
                continue
            lines += [f"{name}: {match.why}"] if match.why else []
            for measure in (m for m in planned.release.shown if m.name in match.sources):
                source = match.sources[measure.name]
                error = "" if source.half_width is None else f", ± {source.half_width:,.6g} (95 %)"
                lines.append(f"{name}, {measure.text}: {source.why}{error}")
            if match.refinement is not None:
                lines.append(f"{name}: {match.refinement.fit.why}, with more noise; the difference is to pay")
            for merge in match.merges.values():
                what = ", ".join(measure.text for measure in merge.slot.outputs)
                lines.append(f"{name}, {what}: {merge.fit.why}, with more noise; the difference is to pay")
        return lines

    @property
    def refined(self) -> tuple[str, ...]:
        """The names of the stored releases that are refined."""
        found = (due.match.refinement for due in self.due.values())
        return tuple(refinement.name for refinement in found if refinement is not None)

    def price(self, names: Sequence[str] | None = None) -> Price:
        """What these releases cost; all that are due."""
        return self.plan.price([self.due[name].left for name in (self.due if names is None else names)])

    def price_again(self, said: Price | None) -> Price:
        """What all that is due costs, looked up again. said: what it was to cost. Raises DP402 where that was less: the
        answer that it was to refine is being refined by another session, and what that stores is not there yet."""
        cost = self.price()
        if said is not None and cost.exceeds(said):
            reason = "another session is paying for a finer answer to the same question, and without that one"
            raise refusal("DP402", f"{reason} this costs more than it was to", repair="ask again in a moment")
        return cost


def bill(plan: PrivatePlan, inner: Mapping[str, SealedSql], reads: Reads, repeats: Repeats) -> Bill:
    """What of a statement is stored, and what is due. inner: the statements of its releases, by name. Raises DP502
    where a public query over stored releases fails."""
    found = Bill(plan)
    for planned in plan.releases:
        name, given = planned.release.name, reads.of(planned, found.tables)
        if given is None:
            found.due[name] = Due(planned, None, Match({}, planned, None))
            continue
        question = repeats.question(planned, inner[name], reads.digests(planned, given, {}))
        match = repeats.look_up(question, taken=found.refined)
        found.matches[name] = match
        if not match.limited_as(question.identity.limits):
            found.otherwise.add(name)
        if match.left is None:
            found.add(name, planned, match.released())
        elif any(due.question is not None and due.question.name == question.name for due in found.due.values()):
            found.twins.append(Due(planned, question, match))
        else:
            found.due[name] = Due(planned, question, match)
    return found


@dataclass(frozen=True, slots=True)
class Quote:
    """charged: what the statement would be charged. spared: the price of its releases that were paid for already."""

    charged: Price
    spared: Price

    @property
    def free(self) -> bool:
        return not self.charged


@dataclass(frozen=True, slots=True)
class Estimate:
    """What one statement would be charged, and the noise that each of its released aggregates would carry."""

    quote: Quote
    columns: tuple[ColumnReceipt, ...]


class Quotes:
    """Prices of the statements of one script, each as if those before it had run. Nothing is charged or released. A
    release that reads another which is not there yet is new, unless the same statement came before."""

    def __init__(self, repeats: Repeats):
        self._repeats = repeats
        self._before: list[Stored] = []
        self._refined: set[str] = set()

    def of(self, plan: PrivatePlan, inner: Mapping[str, SealedSql], reads: Reads) -> Quote:
        """The price of one statement. Raises DP502 where a public query over stored releases fails."""
        tables: dict[str, pa.Table] = {}
        names: dict[str, str] = {}
        due: list[ReleasePlan] = []
        paid: list[Stored] = []
        for planned in plan.releases:
            name, given = planned.release.name, reads.of(planned, tables)
            question = self._repeats.question(planned, inner[name], reads.digests(planned, given, names))
            match = self._repeats.look_up(question, self._before, self._refined)
            if match.left is None:
                if match.is_there:
                    tables[name] = match.released().table(planned)
            elif given is None or question.name not in names.values():
                due.append(match.left)
                self._refined |= {match.refinement.name} if match.refinement is not None else set()
                groups, part = self._repeats.listed(planned), question.of_part(match.kept or planned)
                record = part.recorded(None if groups is None else groups_of(groups))
                paid.append(Stored(record, groups, None, part.name))
            names[name] = question.name
        self._before += paid
        whole, charged = plan.price(plan.releases), plan.price(due)
        pairs = zip(whole.amounts, charged.amounts, strict=True)
        return Quote(charged, Price(*(a - b for a, b in pairs)))
