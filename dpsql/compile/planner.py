"""Plan: choose limits and slots for every release, and price them. `check` proves the result from the plan alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction

from dpsql.compile import instead
from dpsql.compile.bounds import limited, most_rows, rows_of
from dpsql.compile.cover import cover
from dpsql.compile.funds import Fund, check_sum, funds, of_release
from dpsql.compile.ir import MAX_INFERRED_KEYS, PublicKeys, Query, Release, Scalar, Statistic
from dpsql.compile.limits import (
    WORST_CASE,
    Asked,
    Declared,
    Domains,
    Request,
    choose,
    choose_for_choice,
    combined,
    declared,
    enforcing,
    worst_case,
)
from dpsql.compile.plan import Choosing, Joint, PrivatePlan, ReleasePlan, Selection, reach_of
from dpsql.compile.pricing import Priced, asked, check_weights, could_gain, priced
from dpsql.compile.relations import scans
from dpsql.compile.slots import SUBGRID, Slot, SlotKind, part_of_rows
from dpsql.errors import Error, NotSupportedError, refusal
from dpsql.policy.model import Policy, Table
from dpsql.privacy import sensitivity
from dpsql.privacy.accounting import show_amount
from dpsql.privacy.sensitivity import Limits, Norms, of_utilities

CountKeys = Callable[[PublicKeys, int | None], int]
"""How many rows a key relation has; counting may stop above the limit. Session gives it: compile has no engine."""

FactorRange = Callable[[PublicKeys, Scalar], tuple[Fraction, Fraction]]
"""The least and the largest value of a factor over a key relation. Session gives it."""


def plan(
    query: Query, policy: Policy, request: Request, count_keys: CountKeys, factor_range: FactorRange
) -> PrivatePlan:
    """The priced plan of a statement. Raises DP120, DP205, DP207, DP211, DP223, DP224, DP402."""
    found: dict[str, ReleasePlan] = {}
    joints: list[Joint] = []
    paid = [
        (fund, [_draft(r, fund, policy, count_keys, factor_range) for r in fund.releases])
        for fund in funds(query.releases, policy, request)
    ]
    check_weights([draft for _, drafts in paid for draft in drafts], request)
    prices: list[tuple[Fund, Fraction]] = []
    for fund, drafts in paid:
        releases, joint = _priced(fund, drafts)
        found |= {r.release.name: r for r in releases}
        joints += [joint] if joint is not None else []
        prices.append((fund, sum((r.share for r in releases), Fraction(0))))
    if len(prices) > 1:
        check_sum(prices, policy.budget.max_query_epsilon)
    planned = tuple(found[release.name] for release in query.releases)
    query = replace(query, releases=tuple(r.release for r in planned))
    return PrivatePlan(query, planned, request.weights, policy.budget.composition, tuple(joints))


def _priced(fund: Fund, drafts: Sequence[ReleasePlan]) -> Priced:
    """The releases of one fund with slots and shares."""
    request = fund.request
    slots = [slot for draft in drafts for slot in draft.slots]
    ratio = max((s.norms.l1**2 / s.norms.l2_squared for s in slots), default=0.0)
    covers = [drafts]
    decides = any(draft.selection is not None for draft in drafts)
    if could_gain(sum(len(s.outputs) for s in slots), ratio, request, decides=decides):
        others = [_covered(draft, normal=True) for draft in drafts]
        covers += [others] if others != drafts else []
    return priced([(cover, asked(cover, request, fund.budget)) for cover in covers])


def _draft(
    release: Release, fund: Fund, policy: Policy, count_keys: CountKeys, factor_range: FactorRange
) -> ReleasePlan:
    request = of_release(release, fund.request, policy)
    units = sum(m.statistic is Statistic.UNITS for m in release.measures)
    aggregates = Asked(units, len(release.measures) - units, sum(len(r.measures) for r in fund.releases))
    if release.choice is not None and (release.public_keys is None or release.private_keys):
        raise _no_candidates(release)
    domains = _domains(release, request, count_keys)
    if release.choice is not None and None in domains:
        raise _no_candidates(release)
    if None in domains and not release.private_keys:
        release = replace(release, public_keys=None, private_keys=tuple(k.name for k in release.keys))
        domains = _domains(release, request, count_keys)
    found = {s.alias: declared(policy.tables[s.table], request) for s in scans(release.input) if not s.public}
    most = {s.alias: _most(policy.tables[s.table], found[s.alias]) for s in scans(release.input) if not s.public}
    if release.one_row and _clamps(release):
        release = replace(release, one_row=False)
        limits = Limits("cells", groups=1 if release.keys else None, per_group=1)
    else:
        limits = _limits(release, found, domains, request, aggregates)
    early = {}
    if release.driving is not None and limits.rows is not None and not limits.late and not release.one_row:
        early[release.driving] = limits.rows
    release = replace(release, input=limited(release.input, most, early, release.span))
    cut = [s for s in scans(release.input) if s.alias not in early]
    fewer = (s.limit for s in cut if s.limit is not None and s.limit < found[s.alias].rows)
    draft = _covered(ReleasePlan(release, limits, domains, (), request, read=min(fewer, default=None)))
    if release.choice is not None:
        slot = draft.slots[0]
        released = _norms_if_released(release, slot, found, domains, request, aggregates)
        draft = replace(draft, choosing=_choosing(release, slot, domains, released, policy, factor_range))
    asked_units = release.clause.min_units if release.clause is not None else None
    if None in domains:
        touched = sum(sensitivity.touched_keys(limits, keys) for keys in draft.reach)
        least = max(policy.budget.min_units_per_group, asked_units or 1)
        draft = replace(draft, selection=Selection(None, touched, min_units=least))
    elif release.clause is not None and asked_units is not None:
        reason = "which groups are shown is public here, so none is left out for having few units"
        repair = "leave it out; HAVING can filter by a released count"
        span = release.clause.span_of("min_privacy_units_per_group")
        raise refusal("DP223", reason, span=span, repair=repair)
    return draft


def _most(table: Table, limits: Declared) -> int:
    """W of a table: so many rows of a unit can meet at all. Where a statement raises R, W rises with it, as far as
    `worst_case` says, by which ranges were inferred: R itself is always within that."""
    return min(worst_case(table), WORST_CASE * max(table.max_rows_per_unit or 1, limits.rows))


def _clamps(release: Release) -> bool:
    """Whether what a unit adds to a group is clamped."""
    return any(m.per_group is not None for m in release.measures)


def _covered(draft: ReleasePlan, *, normal: bool = False) -> ReleasePlan:
    """The draft with slots for its aggregates. normal: see `cover`."""
    release, rows = draft.release, most_rows(draft.release.input)
    found = cover(release.measures, normal=normal)
    return replace(draft, slots=tuple(_with_norms(slot, draft.limits, draft.reach, rows) for slot in found))


def _limits(
    release: Release, found: Mapping[str, Declared], domains: Domains, request: Request, aggregates: Asked
) -> Limits:
    """The limits of a release. A public table may multiply rows where what is limited are the joined rows of each
    (unit, key), however many there are (`bounds` bounds them): not where R is what bounds them. Raises DP211, DP223."""
    if release.one_row:
        return Limits("rows", rows=1)
    if release.driving is not None:
        given = found[release.driving]
    else:
        given = combined(list(found.values()), rows_of(release.input, found) or 1)
    early = (request.strategy or "").startswith("rows")
    if release.passing is not None and release.passing < given.rows and not early:
        # The rest of R would be noise for nothing. `late` enforces what is left, whatever the predicates are worth.
        given = replace(given, rows=max(release.passing, 1), late=True)
    multiplied = release.multiplied
    reach, clamps = reach_of(release, domains), _clamps(release)
    if not release.keys:
        given = replace(given, groups=None)
    given, request = enforcing(
        given, reach, request, clamps=clamps, multiplied=multiplied is not None, span=release.span
    )
    grouped = bool(release.keys) or clamps
    bounded = grouped and given.per_group is not None and (given.groups is not None or None not in reach)
    if release.choice is not None:
        limits = choose_for_choice(given, domains, reach, request, release.span)
    elif multiplied is not None and bounded and request.strategy is None:
        limits = choose(given, domains, reach, grouped, replace(request, strategy="cells"), aggregates, release.span)
    else:
        limits = choose(given, domains, reach, grouped, request, aggregates, release.span)
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
    aggregates: Asked,
) -> Norms | None:
    """Of a choice's score, if all groups were released with it instead; None where that is refused."""
    try:
        limits = _limits(replace(release, choice=None), found, domains, replace(request, strategy=None), aggregates)
    except NotSupportedError:
        return None
    return _with_norms(replace(slot, subgrid=1), limits, reach_of(release, domains), 0).norms


def _no_candidates(release: Release) -> Error:
    """The refusal of a choice among keys that nobody listed."""
    key = next((k for k in release.keys if k.name in release.private_keys), release.keys[0])
    repair = (
        f"list the candidates, WHERE {key.text} IN (...), or use a column with `values` or a public table's; or select"
        " the score as well, so that the groups are released"
    )
    return refusal("DP205", f"the candidates of {key.text} are not public", span=key.scalar.span, repair=repair)


def _with_norms(slot: Slot, limits: Limits, reach: Domains, rows: int) -> Slot:
    """rows: of a unit that the SQL can meet at all."""

    def of_each(norms: Callable[[int | None], Norms]) -> Slot:
        return replace(slot, norms=sensitivity.over_sets([norms(keys) for keys in reach]))

    if slot.kind is SlotKind.UNITS:
        return of_each(lambda keys: sensitivity.of_units(limits, keys))
    if slot.kind is SlotKind.DISTINCT:
        if limits.ball is not None:
            reason, span = "scaling does not bound COUNT(DISTINCT ...)", slot.outputs[0].span
            raise refusal("DP223", reason, span=span, repair="SET strategy = rows, or RESET strategy")
        return of_each(lambda keys: sensitivity.of_values(limits, keys))
    if slot.part is not None and slot.kind is SlotKind.MOMENTS:  # each cell's mean counts as one row
        return of_each(lambda keys: sensitivity.of_rows(replace(limits, per_group=1), slot.weight, keys))
    if slot.part is not None:
        part = _part(slot, limits)
        slot = replace(slot, part=part)
        return of_each(lambda keys: sensitivity.of_parts(limits, slot.weight, part, keys))
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


def _part(slot: Slot, limits: Limits) -> tuple[int, int]:
    """Between what a unit's part in a group is clamped: what r rows can bring, and what the statement asks for. Raises
    DP120 where these have nothing in common, DP223 where r is not limited."""
    assert slot.part is not None and limits.per_group is not None
    least, most = part_of_rows(slot, limits.per_group)
    lo, hi = max(slot.part[0], least), min(slot.part[1], most)
    if lo > hi:
        step, measure = slot.grid_step, slot.outputs[0]
        shown = f"from {show_amount(least * step)} to {show_amount(most * step)}"
        reason = f"a unit's part of {measure.text} in a group is {shown}, and these bounds leave nothing of that"
        raise refusal("DP120", reason, span=measure.span, repair=f"choose bounds {shown}")
    return lo, hi


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
        elif request.selects_keys:
            found.append(None)
        else:
            raise _not_public(release, request)
    return tuple(found)


def _count(public: PublicKeys, release: Release, request: Request, count_keys: CountKeys) -> int | None:
    """How many keys there are; None where they are inferred, and too many."""
    most = MAX_INFERRED_KEYS if public.inferred else None
    keys = public.count if public.count is not None else count_keys(public, most)
    if most is not None and keys > most:
        if request.selects_keys:
            return None
        names = ", ".join(k.text for k in release.keys)
        reason = f"{names} {'have' if len(release.keys) > 1 else 'has'} more than {most} possible groups"
        repair = f"restrict a key, {instead.listed(release.keys[-1])}, or group by fewer keys"
        raise refusal("DP207", reason, span=release.keys[0].scalar.span, repair=repair)
    return max(keys, 1)


def _not_public(release: Release, request: Request) -> Error:
    """The refusal of a private key where none may be selected."""
    if not release.measures:
        names = ", ".join(k.text for k in release.keys)
        repair = f"count the groups: SELECT {names}, COUNT(*) ... GROUP BY {names}, with keys that have public values"
        return refusal("DP205", "which groups exist is not public", span=release.keys[0].scalar.span, repair=repair)
    key = next(k for k in release.keys if k.name in release.private_keys)
    coarser = instead.coarser(key) or "a column with `values` or of a public table"
    clause = release.clause
    selected = "with a delta above 0 in the policy, keys can be selected privately"
    if clause is not None and clause.public_groups and request.delta > 0:
        selected = "without PUBLIC_GROUPS, keys are selected privately"
    elif clause is not None and clause.delta == 0:
        selected = "with a delta above 0, keys are selected privately"
    repair = f"list the groups you want, {instead.listed(key)}, or group by {coarser}; {selected}"
    if release.unit is not None:
        names = ", ".join(k.text for k in release.keys)
        repair = f"if groups of each unit are meant, GROUP BY {release.unit}, {names}; else {repair}"
    return refusal("DP205", f"the groups of {key.text} are not public", span=key.scalar.span, repair=repair)
