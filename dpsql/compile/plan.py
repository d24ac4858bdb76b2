"""Plan: choose limits and slots for every release, and price them. `check` proves the result from the plan alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction

from dpsql.compile import instead
from dpsql.compile.bounds import limited, most_rows, rows_of
from dpsql.compile.cover import cover
from dpsql.compile.ir import MAX_INFERRED_KEYS, PublicKeys, Query, Release, Scalar
from dpsql.compile.limits import Declared, Domains, Request, choose, choose_for_choice, combined, declared
from dpsql.compile.relations import scans
from dpsql.compile.slots import SUBGRID, Slot, SlotKind
from dpsql.errors import Error, NotSupportedError, refusal
from dpsql.policy.model import Policy
from dpsql.privacy import sensitivity
from dpsql.privacy.accounting import BASIC, split
from dpsql.privacy.gaussian import mu_squared_of_pure
from dpsql.privacy.sensitivity import Limits, Norms, of_utilities


@dataclass(frozen=True, slots=True)
class Selection:
    """How private keys are chosen. `counted`: the slot whose noisy count of units decides (None: a decision of its own,
    which is charged). epsilon, delta: what the decision may spend; epsilon is 0 where a released count decides."""

    counted: Slot | None
    touched: int
    epsilon: Fraction
    delta: Fraction
    min_units: int


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
    choosing: where it chooses among its groups by its only slot, to which then no noise is added."""

    release: Release
    limits: Limits
    domains: Domains
    slots: tuple[Slot, ...]
    selection: Selection | None = None
    choosing: Choosing | None = None

    @property
    def keys(self) -> int | None:
        """How many public groups there are, None where keys are private."""
        return sum(n for n in self.domains if n is not None) if None not in self.domains else None

    @property
    def share(self) -> Fraction:
        """Its part of the epsilon that the analyst names."""
        chosen = self.selection.epsilon if self.selection is not None else Fraction(0)
        return sum((s.epsilon for s in self.slots), chosen)

    @property
    def epsilon(self) -> Fraction:
        """What is charged: the share, and of a choice whose utilities all move in one direction half of it. Its
        probabilities are those of the textbook at the whole share."""
        return self.share / 2 if self.choosing is not None and self.choosing.one_sided else self.share

    @property
    def delta(self) -> Fraction:
        return self.selection.delta if self.selection is not None else Fraction(0)

    @property
    def mu_squared(self) -> Fraction:
        """Its price under Gaussian composition: each slot, decision and winner of a choice is a pure mechanism, but for
        the delta."""
        if self.choosing is not None:
            winners = self.choosing.winners
            return winners * mu_squared_of_pure(self.epsilon / winners)
        shares = [s.epsilon for s in self.slots]
        if self.selection is not None and self.selection.epsilon > 0:
            shares.append(self.selection.epsilon)
        return sum(map(mu_squared_of_pure, shares), Fraction(0))


@dataclass(frozen=True, slots=True)
class PrivatePlan:
    """A priced statement."""

    query: Query
    releases: tuple[ReleasePlan, ...]
    weights: Mapping[str, Fraction] = field(default_factory=dict)
    composition: str = BASIC

    @property
    def epsilon(self) -> Fraction:
        return sum((r.epsilon for r in self.releases), Fraction(0))

    @property
    def delta(self) -> Fraction:
        return sum((r.delta for r in self.releases), Fraction(0))


CountKeys = Callable[[PublicKeys, int | None], int]
"""How many rows a key relation has; counting may stop above the limit. Session gives it: compile has no engine."""

FactorRange = Callable[[PublicKeys, Scalar], tuple[Fraction, Fraction]]
"""The least and the largest value of a factor over a key relation. Session gives it."""


def plan(
    query: Query, policy: Policy, request: Request, count_keys: CountKeys, factor_range: FactorRange
) -> PrivatePlan:
    """Split epsilon evenly over the statement's slots, choices and key decisions, delta over its key decisions. Raises
    DP205, DP207, DP211, DP223, DP224."""
    drafts = [_draft(release, policy, request, count_keys, factor_range) for release in query.releases]
    decisions = sum(d.selection is not None for d in drafts)
    weights = [w for draft in drafts for w in _weights(draft, request)]
    _check_weights(drafts, request)
    shares = iter(split(request.epsilon, weights) if weights else ())
    deltas = iter(split(request.delta, [1] * decisions) if decisions else ())
    priced = []
    for draft in drafts:
        slots = tuple(replace(s, epsilon=next(shares)) for s in draft.slots)
        selection = draft.selection
        if selection is not None:
            counted = next((s for s in slots if _counts_units(s)), None)
            own = Fraction(0) if counted is not None else next(shares)
            selection = replace(selection, counted=counted, epsilon=own, delta=next(deltas))
        priced.append(replace(draft, slots=slots, selection=selection))
    query = replace(query, releases=tuple(d.release for d in priced))
    return PrivatePlan(query, tuple(priced), request.weights, policy.budget.composition)


def _weights(draft: ReleasePlan, request: Request) -> Iterator[Fraction]:
    """The share of each slot, the largest that its columns are given, and of a key decision that is paid apart."""
    for slot in draft.slots:
        yield max(request.weights.get(m.column.lower(), Fraction(1)) for m in slot.outputs)
    if draft.selection is not None and draft.selection.counted is None:
        yield Fraction(1)


def _check_weights(drafts: list[ReleasePlan], request: Request) -> None:
    """A weight for a column that this statement does not release is a mistake, not a wish."""
    columns = {m.column.lower() for d in drafts for s in d.slots for m in s.outputs if m.column}
    for name in request.weights:
        if drafts and name not in columns:
            reason = f'weights name "{name}", which is no aggregate column of this statement'
            raise refusal(
                "DP120", reason, repair=f"the columns are {', '.join(sorted(columns)) or 'none'}; or RESET weights"
            )


def _draft(
    release: Release, policy: Policy, request: Request, count_keys: CountKeys, factor_range: FactorRange
) -> ReleasePlan:
    if release.choice is not None and (release.public_keys is None or release.private_keys):
        raise _no_candidates(release)
    domains = _domains(release, request, count_keys)
    if release.choice is not None and None in domains:
        raise _no_candidates(release)
    if None in domains and not release.private_keys:
        release = replace(release, public_keys=None, private_keys=tuple(k.name for k in release.keys))
        domains = _domains(release, request, count_keys)
    found = {s.alias: declared(policy.tables[s.table], request) for s in scans(release.input) if not s.public}
    most = {s.alias: policy.tables[s.table].max_rows_per_unit or 1 for s in scans(release.input) if not s.public}
    limits = _limits(release, found, domains, request)
    early = {}
    if release.driving is not None and limits.rows is not None and not limits.late and not release.one_row:
        early[release.driving] = limits.rows
    release = replace(release, input=limited(release.input, most, early, release.span))
    early_rows = most_rows(release.input)
    unpriced = Fraction(1)
    slots = tuple(_with_norms(slot, limits, domains, early_rows) for slot in cover(release.measures))
    selection = choosing = None
    if release.choice is not None:
        released = _norms_if_released(release, slots[0], found, domains, request)
        choosing = _choosing(release, slots[0], domains, released, policy, factor_range)
    if None in domains:
        touched = sum(sensitivity.touched_keys(limits, keys) for keys in domains)
        counted = next((s for s in slots if _counts_units(s)), None)
        selection = Selection(counted, touched, unpriced, unpriced, policy.budget.min_units_per_group)
    return ReleasePlan(release, limits, domains, slots, selection, choosing)


def _limits(release: Release, found: Mapping[str, Declared], domains: Domains, request: Request) -> Limits:
    """The limits of a release. A public table may multiply rows where what is limited are the joined rows of each
    (unit, key), however many there are (`bounds` bounds them): not where R is what bounds them. Raises DP211, DP223."""
    if release.one_row:
        return Limits("rows", rows=1)
    if release.driving is not None:
        given = found[release.driving]
    else:
        given = combined(list(found.values()), rows_of(release.input, found) or 1)
    multiplied = release.multiplied
    bounded = bool(release.keys) and given.per_group is not None and (given.groups is not None or None not in domains)
    if release.choice is not None:
        limits = choose_for_choice(given, domains, request, release.span)
    elif multiplied is not None and bounded and request.strategy is None:
        limits = choose(given, domains, bool(release.keys), replace(request, strategy="cells"), release.span)
    else:
        limits = choose(given, domains, bool(release.keys), request, release.span)
    if multiplied is not None and (limits.rows is not None or not limits.per_unit):
        raise multiplied
    return limits


def _choosing(
    release: Release,
    slot: Slot,
    domains: Domains,
    released: Norms | None,
    policy: Policy,
    factor_range: FactorRange,
) -> Choosing:
    """What the mechanism of a choice needs."""
    choice, keys, (candidates,) = release.choice, release.public_keys, domains
    assert choice is not None and keys is not None and candidates is not None
    one = Fraction(1)
    factors = factor_range(keys, choice.factor) if choice.factor is not None else (one, one)
    one_sided = slot.is_one_sided and (factors[0] >= 0 or factors[1] <= 0)
    sensitivity = of_utilities(slot.norms, factors)
    winners = min(choice.winners, candidates)
    return Choosing(policy.budget.selection, winners, factors, sensitivity, one_sided, released)


def _norms_if_released(
    release: Release,
    slot: Slot,
    found: Mapping[str, Declared],
    domains: Domains,
    request: Request,
) -> Norms | None:
    """Of a choice's score, if all groups were released with it instead; None where that is refused."""
    try:
        limits = _limits(replace(release, choice=None), found, domains, replace(request, strategy=None))
    except NotSupportedError:
        return None
    return _with_norms(replace(slot, subgrid=1), limits, domains, 0).norms


def _no_candidates(release: Release) -> Error:
    """The refusal of a choice among keys that nobody listed."""
    key = next((k for k in release.keys if k.name in release.private_keys), release.keys[0])
    repair = (
        f"list the candidates, WHERE {key.text} IN (...), or use a column with `values` or a public table's; or select"
        " the score as well, so that the groups are released"
    )
    return refusal("DP205", f"the candidates of {key.text} are not public", span=key.scalar.span, repair=repair)


def _counts_units(slot: Slot) -> bool:
    """Whether a slot is the plain count of units, which can decide on keys at no further cost."""
    return slot.kind is SlotKind.UNITS and slot.argument is None


def _with_norms(slot: Slot, limits: Limits, domains: Domains, rows: int) -> Slot:
    """rows: of a unit that the SQL can meet at all."""

    def of_each(norms: Callable[[int | None], Norms]) -> Slot:
        return replace(slot, norms=sensitivity.over_sets([norms(keys) for keys in domains]))

    if slot.kind is SlotKind.UNITS:
        return of_each(lambda keys: sensitivity.of_units(limits, keys))
    if slot.kind is SlotKind.DISTINCT:
        if limits.ball is not None:
            reason, span = "scaling does not bound COUNT(DISTINCT ...)", slot.outputs[0].span
            raise refusal("DP223", reason, span=span, repair="SET strategy = rows, or RESET strategy")
        return of_each(lambda keys: sensitivity.of_values(limits, keys))
    if limits.ball is not None or (limits.per_group is not None and slot.kind is SlotKind.MOMENTS):
        # The SQL multiplies a component by a limit before it divides: both have to fit a HUGEINT.
        radius = (limits.ball or 0) * (1 if slot.kind is SlotKind.MOMENTS else slot.weight)
        largest = SUBGRID * (rows * slot.weight) * max(limits.per_group or 0, radius)
        if largest >= 1 << 126:
            reason = f'the bounds are too wide for strategy "{limits.strategy}"'
            raise refusal("DP223", reason, repair="SET strategy = rows, or narrow the values with LEAST and GREATEST")
        slot = replace(slot, subgrid=SUBGRID)
    weight = slot.weight
    return of_each(lambda keys: sensitivity.of_rows(limits, weight, keys))


def _domains(release: Release, request: Request, count_keys: CountKeys) -> Domains:
    """Of each grouping set. Only where the SQL drops other keys than the public ones does their number bound any."""
    public = release.public_keys
    parts = public.parts if release.sets and public is not None else (public,) * len(release.grouping)
    found: list[int | None] = []
    for names, part in zip(release.grouping, parts, strict=True):
        if not names:
            found.append(1)
        elif part is not None and set(names).isdisjoint(release.private_keys):
            found.append(_count(part, release, request, count_keys))
        elif request.delta > 0:
            found.append(None)
        else:
            raise _not_public(release)
    return tuple(found)


def _count(public: PublicKeys, release: Release, request: Request, count_keys: CountKeys) -> int | None:
    """How many keys there are; None where they are inferred, and too many."""
    most = MAX_INFERRED_KEYS if public.inferred else None
    keys = public.count if public.count is not None else count_keys(public, most)
    if most is not None and keys > most:
        if request.delta > 0:
            return None
        names = ", ".join(k.text for k in release.keys)
        reason = f"{names} {'have' if len(release.keys) > 1 else 'has'} more than {most} possible groups"
        repair = f"restrict a key, {instead.listed(release.keys[-1])}, or group by fewer keys"
        raise refusal("DP207", reason, span=release.keys[0].scalar.span, repair=repair)
    return max(keys, 1)


def _not_public(release: Release) -> Error:
    """The refusal of a private key under a budget without delta."""
    if not release.measures:
        names = ", ".join(k.text for k in release.keys)
        repair = f"count the groups: SELECT {names}, COUNT(*) ... GROUP BY {names}, with keys that have public values"
        return refusal("DP205", "which groups exist is not public", span=release.keys[0].scalar.span, repair=repair)
    key = next(k for k in release.keys if k.name in release.private_keys)
    coarser = instead.coarser(key) or "a column with `values` or of a public table"
    repair = (
        f"list the groups you want, {instead.listed(key)}, or group by {coarser};"
        " with a delta above 0 in the policy, keys can be selected privately"
    )
    return refusal("DP205", f"the groups of {key.text} are not public", span=key.scalar.span, repair=repair)
