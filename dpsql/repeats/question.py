"""A release that is asked for, as stored ones are compared with it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

from dpsql.compile.identity import Identity, arguments
from dpsql.compile.ir import Scalar
from dpsql.compile.plan import ReleasePlan
from dpsql.repeats.stored import Group, Record, base_of, name_of


@dataclass(frozen=True, slots=True)
class Question:
    """A release of a statement, and what tells whether a stored one will do. record, name: of the release that would
    answer it, its groups not known yet, and its fingerprint. base: what its name begins with. values: the arguments of
    its measures by their texts."""

    plan: ReleasePlan
    identity: Identity
    snapshot: str
    record: Record
    base: str
    name: str
    values: Mapping[str, Scalar]

    @staticmethod
    def of(plan: ReleasePlan, identity: Identity, snapshot: str, declared: str, made_by: str) -> Question:
        """A release as a question. declared: all limits of the policy. made_by: see `Record`."""
        own_limits = plan.request.strategy is not None or plan.request.limits
        record = Record.of(plan, identity, "" if own_limits else declared, made_by)
        base = base_of(identity, identity.conjuncts, snapshot)
        values = arguments(plan.release.measures, identity.aliases)
        return Question(plan, identity, snapshot, record, base, name_of(base, record), values)

    def of_part(self, plan: ReleasePlan) -> Question:
        """The same of a plan of some of its slots."""
        if plan is self.plan:
            return self
        record = Record.of(plan, self.identity, self.record.chosen_by)
        return replace(self, plan=plan, record=record, name=name_of(self.base, record))

    @property
    def asked(self) -> Fraction:
        """The epsilon that the statement names."""
        return self.plan.request.epsilon

    def recorded(self, groups: Collection[Group] | None) -> Record:
        """The record of the release that would answer it, with these groups."""
        return self.record.of_groups(self.plan, groups)
