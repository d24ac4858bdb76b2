"""What a priced statement is: limits, slots, mechanisms, price. `planner` makes it, `check` proves it from itself."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from sqlglot import exp

from dpsql.compile.ir import Query, Release
from dpsql.compile.limits import Domains, Request
from dpsql.compile.relations import totals
from dpsql.compile.slots import Slot
from dpsql.privacy.accounting import BASIC, Price
from dpsql.privacy.gaussian import epsilon_of, mu_squared_of_pure, rounded_up
from dpsql.privacy.sensitivity import Limits, Norms


def reach_of(release: Release, domains: Domains) -> Domains:
    """How many groups of each grouping set a unit can be in: one, where it determines all keys, else any of a list."""
    fixed = {k.name for k in release.keys if k.of_unit}
    return tuple(1 if fixed.issuperset(own) else n for own, n in zip(release.grouping, domains, strict=True))


@dataclass(frozen=True, slots=True)
class Selection:
    """How private keys are chosen. `counted`: the slot whose noisy count of units decides (None: a decision of its own,
    which is charged). epsilon, delta: what the decision may spend; epsilon is 0 where a noisy count decides."""

    counted: Slot | None
    touched: int
    epsilon: Fraction = Fraction(0)
    delta: Fraction = Fraction(0)
    min_units: int = 1


@dataclass(frozen=True, slots=True)
class Choosing:
    """How a release chooses among its groups. mechanism: its name in `privacy.choices`. winners: how many. factors: the
    least and the largest factor of any candidate. sensitivity: of every utility. one_sided: whether a unit moves all
    utilities in one direction, which halves the price (see `privacy.choices`). released: what the score would move by
    if all groups were released instead, for EXPLAIN; None where they could not be."""

    mechanism: str
    winners: int
    factors: tuple[Fraction, Fraction]
    sensitivity: Fraction
    one_sided: bool
    released: Norms | None


@dataclass(frozen=True, slots=True)
class ReleasePlan:
    """A release with its limits in place. domains: of its grouping sets; without ROLLUP and its like there is one.
    request: what its statement, or its own clause, asks for. choosing: where it chooses among its groups by its only
    slot, to which then no noise is added. read: how many rows of a unit are read of some table, where joins leave it
    fewer than the R that was declared."""

    release: Release
    limits: Limits
    domains: Domains
    slots: tuple[Slot, ...]
    request: Request
    selection: Selection | None = None
    choosing: Choosing | None = None
    read: int | None = None

    @property
    def reach(self) -> Domains:
        """Of each grouping set: how many of its groups a unit can be in, None where only limits bound that."""
        return reach_of(self.release, self.domains)

    @property
    def wide(self) -> tuple[str, ...]:
        """Which of its aggregates take counts or sums over a unit's rows as they are, and between what: in words."""
        found, added = [], totals(self.release.input)
        for measure in self.release.measures:
            value = measure.argument
            if value is None or not isinstance(value.tree, exp.Column) or measure.statistic.is_count:
                continue
            ends = [f"{float(end):,.10g}" for end in (value.facts.lo, value.facts.hi) if isinstance(end, Fraction)]
            if (value.tree.table, value.tree.name) in added and len(ends) == 2:
                found.append(f"{measure.text} is of values from {ends[0]} to {ends[1]}, which LEAST would narrow")
        return tuple(found)

    @property
    def keys(self) -> int | None:
        """How many public groups there are, None where keys are private."""
        return sum(n for n in self.domains if n is not None) if None not in self.domains else None

    @property
    def chooses_keys(self) -> bool:
        """Whether a unit may be in more groups than it counts in, so that those are chosen among all that it has."""
        groups = self.limits.groups
        return groups is not None and any(keys is None or keys > groups for keys in self.reach)

    @property
    def share(self) -> Fraction:
        """Its part of the epsilon that the analyst names."""
        chosen = self.selection.epsilon if self.selection is not None else Fraction(0)
        return sum((s.epsilon for s in self.slots), chosen)

    @property
    def pure(self) -> Fraction:
        """What is charged for it as mechanisms of pure epsilon: the shares of all but the slots of normal noise, less
        what was paid for vectors that they refine, and of a choice whose utilities all move in one direction half of
        it. Its probabilities are those of the textbook at the whole share."""
        share = self.share - sum((s.epsilon for s in self.normal), Fraction(0)) - sum(s.paid for s in self.slots)
        return share / 2 if self.choosing is not None and self.choosing.one_sided else share

    @property
    def normal(self) -> tuple[Slot, ...]:
        """Its slots of rounded normal noise."""
        return tuple(s for s in self.slots if s.sigma is not None)

    @property
    def delta(self) -> Fraction:
        """Of its decision on keys."""
        return self.selection.delta if self.selection is not None else Fraction(0)

    @property
    def mu_squared_of_pure(self) -> Fraction:
        """The price of what is pure under Gaussian composition: each slot, decision and winner of a choice is a
        mechanism of its own, but for the delta."""
        if self.choosing is not None:
            winners = self.choosing.winners
            return winners * mu_squared_of_pure(self.pure / winners)
        shares = [s.epsilon for s in self.slots if s.sigma is None]
        if self.selection is not None and self.selection.epsilon > 0:
            shares.append(self.selection.epsilon)
        return sum(map(mu_squared_of_pure, shares), Fraction(0))


@dataclass(frozen=True, slots=True)
class Joint:
    """What all slots of rounded normal noise of these releases, which share a fund, are together: mu-GDP, and so
    (epsilon, delta)-DP."""

    epsilon: Fraction
    delta: Fraction
    mu_squared: Fraction
    releases: frozenset[str]


@dataclass(frozen=True, slots=True)
class PrivatePlan:
    """A priced statement. joints: one for each fund with normal noise (see `pricing` for why they add up)."""

    query: Query
    releases: tuple[ReleasePlan, ...]
    weights: Mapping[str, Fraction] = field(default_factory=dict)
    composition: str = BASIC
    joints: tuple[Joint, ...] = ()

    @property
    def epsilon(self) -> Fraction:
        return self.price(self.releases).epsilon

    @property
    def delta(self) -> Fraction:
        """That of its promise: it is (epsilon, delta)-DP by itself, however it is charged."""
        joint = sum((joint.delta for joint in self.joints), Fraction(0))
        return sum((r.delta for r in self.releases), joint)

    def price(self, releases: Sequence[ReleasePlan]) -> Price:
        """What is charged for these of its releases, where the others were paid for before. Under Gaussian composition
        the delta of normal slots is part of the account's, and not charged. Fewer normal slots are a Gaussian mechanism
        of less mu^2, which is (epsilon, delta)-DP for a lesser epsilon at the same delta."""
        epsilon = sum((r.pure for r in releases), Fraction(0))
        delta = sum((r.delta for r in releases), Fraction(0))
        for joint in self.joints:
            mu_squared = _mu_squared(r for r in releases if r.release.name in joint.releases)
            if not mu_squared:
                continue
            part = joint.epsilon
            if mu_squared < _mu_squared(r for r in self.releases if r.release.name in joint.releases):
                part = min(part, rounded_up(epsilon_of(mu_squared, joint.delta)[1]))
            epsilon += part
            delta += joint.delta if self.composition == BASIC else 0
        if self.composition == BASIC:
            return Price(epsilon, delta, Fraction(0))
        pure = sum((r.mu_squared_of_pure for r in releases), Fraction(0))
        mu_squared = _mu_squared(releases)
        return Price(epsilon, delta, pure + (rounded_up(mu_squared) if mu_squared else 0))


def _mu_squared(releases: Iterable[ReleasePlan]) -> Fraction:
    """Of all normal slots of some releases."""
    return sum((s.mu_squared for r in releases for s in r.normal), Fraction(0))
