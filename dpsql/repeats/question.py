"""A release that is asked for, as stored ones are compared with it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from fractions import Fraction

from dpsql.compile.identity import Identity, arguments
from dpsql.compile.ir import Scalar
from dpsql.compile.plan import ReleasePlan
from dpsql.repeats.stored import Group, Record, base_of, name_of


@dataclass(frozen=True, slots=True)
class Question:
    """A release of a statement, and what tells whether a stored one will do. declared: all limits of the policy."""

    plan: ReleasePlan
    identity: Identity
    snapshot: str
    declared: str

    @property
    def asked(self) -> Fraction:
        """The epsilon that the statement names."""
        return self.plan.request.epsilon

    @property
    def base(self) -> str:
        return base_of(self.identity, self.identity.conjuncts, self.snapshot)

    @property
    def name(self) -> str:
        """Of the release that would answer it: its fingerprint."""
        return name_of(self.base, self.record(None))

    def record(self, groups: Collection[Group] | None) -> Record:
        """Of the release that would answer it, with these groups."""
        return Record.of(self.plan, self.identity, self.chosen_by, groups)

    @property
    def chosen_by(self) -> str:
        """Among what the planner chose its limits, so that others of its choice will do; '' where the statement names
        limits."""
        return "" if self.plan.request.strategy is not None or self.plan.request.limits else self.declared

    @property
    def values(self) -> dict[str, Scalar]:
        """The arguments of its measures by their texts."""
        return arguments(self.plan.release.measures, self.identity.aliases)
