"""Price: share a fund's epsilon and delta among its slots, and give each slot the noise that suits it. (See
`funds`: a statement has one, or several where clauses have prices of their own.)

Epsilon is shared by weight, but for slots with a hint: these have what they ask for, and the others what is left. A
slot of discrete Laplace noise, a choice and a decision on keys spend their shares each.
The slots of rounded normal noise pool theirs: together they are one Gaussian mechanism of that epsilon and of a share
of the delta, sum of (Delta_2/sigma)^2 = mu^2. Of its mu^2 each gets a part by the square of its share, so that a
share twice as large means half of the noise, as with discrete Laplace noise.

Why the shares add up, though the slots of several releases take turns, and later ones may read what earlier ones gave.
Let G be all normal slots of the statement, P all that is pure, and ' a neighbour. Run with G on D' and P on D: against
the run with both on D, P only answers by some fixed random rule of what it sees, so what differs are Gaussian
mechanisms chosen one after another, which are mu-GDP together (Dong, Roth, Su, Gaussian differential privacy, corollary
3.3), so (e, d)-DP. Against the run with both on D' it is now G that answers by a fixed rule, and each pure answer has a
density of at most e^(its price) times that on D'. Hence, for every event S and with e1 the sum of the pure prices,

    P[G(D), P(D) in S] <= e^e P[G(D'), P(D) in S] + d <= e^(e + e1) P[G(D'), P(D') in S] + d.

With several funds G is the normal slots of all. Those of fund j alone are mu_j-GDP, so (e_j, d_j)-DP; all of them are
mu-GDP, mu^2 the sum of mu_j^2 (corollary 3.3 again). The pair of normal laws that this compares with is the product of
the funds' own pairs, for which basic composition gives (sum e_j, sum d_j): so e and d are these sums.

A decision on keys is so but for a chance (`thresholds`): with a weight of at least 1 minus the sum of these chances all
releases are those over the keys of D alone, for which the above holds; what is left adds to d (as in `accounting`).

Which slots are normal is chosen by expected error, as `cover` chooses slots: by the sum over all aggregates of the
logarithm of their variance, and for a decision on keys of twice the logarithm of the units that a key needs to be shown
half of the time. Slots are tried in the order of Delta_1/Delta_2, since the larger that is, the more is gained. Floats
decide it, of public numbers alone; what was chosen is then computed exactly, and `check` proves it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import chain
from math import inf, log, sqrt

from dpsql.compile.cover import spread
from dpsql.compile.limits import LAPLACE, NORMAL, Request, delta_of
from dpsql.compile.plan import Joint, ReleasePlan, Selection
from dpsql.compile.slots import Slot, SlotKind
from dpsql.errors import refusal
from dpsql.policy.model import Budget
from dpsql.privacy import sensitivity, variances
from dpsql.privacy.accounting import show_amount, split
from dpsql.privacy.gaussian import mu_squared_for, sigma_for

Priced = tuple[tuple[ReleasePlan, ...], Joint | None]


@dataclass(frozen=True, slots=True)
class _Part:
    """What is paid for: a slot, or a decision on keys of its own, whose slot has no outputs. decides: the decision on
    keys that is made by it. chooses: whether a choice is made by it, without noise."""

    slot: Slot
    weight: Fraction
    decides: Selection | None = None
    chooses: bool = False

    @property
    def is_apart(self) -> bool:
        """Whether it is a decision on keys of its own: without normal noise, the slot is not drawn for."""
        return not self.slot.outputs


Cover = tuple[Sequence[ReleasePlan], Request]
"""Drafts of all releases, and the request at their price (see `asked`)."""


def priced(covers: Sequence[Cover]) -> Priced:
    """Of several ways to cover the same aggregates the one of least expected error: its drafts with their shares, and
    what the slots of normal noise are together. Raises DP223 where the delta is too small for the mechanism that is
    asked for."""
    chosen: tuple[float, Cover, list[list[_Part]], frozenset[int]] | None = None
    for drafts, request in covers:
        by_draft = [list(_parts(draft, request)) for draft in drafts]
        error, normal = _best([*chain(*by_draft)], request, compared=len(covers) > 1)
        if chosen is None or error < chosen[0] - 1e-9:
            chosen = error, (drafts, request), by_draft, normal
    assert chosen is not None
    _, (drafts, request), by_draft, normal = chosen
    parts = [*chain(*by_draft)]
    if not parts:
        return tuple(drafts), None
    shares = _shares(parts, request)
    pooled = sum((shares[i] for i in normal), Fraction(0))
    decisions = sum(d.selection is not None for d in drafts)
    deltas = iter(split(request.delta, [1] * (decisions + bool(normal))) if decisions or normal else ())
    joint = None
    if normal:
        delta = next(deltas)
        joint = Joint(pooled, delta, mu_squared_for(pooled, delta), frozenset(d.release.name for d in drafts))
        if not joint.mu_squared:
            reason = "no noise of a size that can be drawn is enough for this epsilon and delta"
            raise refusal("DP223", reason, repair="SET mechanism = laplace, or ask with a larger epsilon")
    squares = sum((shares[i] ** 2 for i in normal), Fraction(0))
    paid, found = iter(enumerate(shares)), []
    for draft, own_parts in zip(drafts, by_draft, strict=True):
        slots: list[Slot] = []
        selection = draft.selection
        for part in own_parts:
            at, share = next(paid)
            slot = part.slot
            if at in normal:
                assert joint is not None
                part_of = joint.mu_squared * share**2 / squares
                slots.append(_normal(slot, draft, share, sigma_for(slot.norms.l2_squared, part_of)))
            elif not part.is_apart:
                slots.append(replace(slot, epsilon=share))
            elif selection is not None:
                selection = replace(selection, epsilon=share)
        if selection is not None:
            counted = next((s for s in slots if s.counts_units), None)
            own = Fraction(0) if counted is not None else selection.epsilon
            selection = replace(selection, counted=counted, epsilon=own, delta=next(deltas))
        found.append(replace(draft, slots=tuple(slots), selection=selection))
    return tuple(found), joint


def asked(drafts: Sequence[ReleasePlan], request: Request, budget: Budget) -> Request:
    """The request at the price that the statement's hints leave: the sum of them where every part has one, else the
    epsilon of the settings. Raises DP120 where hints leave nothing for what has none, DP402 above the ceiling."""
    slots = [slot for draft in drafts for slot in (*draft.slots, *_apart(draft))]
    hinted = sorted((s.hint for s in slots if s.hint is not None), key=lambda h: h.span.start)
    if not hinted:
        return request
    rest = [s for s in slots if s.hint is None]
    whole = sum((h.share for h in hinted), Fraction(0))
    clause = request.clause
    most, shown = budget.max_query_epsilon if clause is None else request.epsilon, show_amount(whole)
    taken, beyond = Fraction(0), hinted[-1]  # the hint with which they are too much
    for hint in hinted:
        taken += hint.share
        if taken >= request.epsilon if rest else taken > most:
            beyond = hint
            break
    if not rest:
        if whole > most:
            allows = "the policy allows at most" if clause is None else "the clause has"
            per = " per statement" if clause is None else ""
            reason = f"{allows} epsilon {show_amount(most)}{per}, and the hints sum to {shown}"
            raise refusal("DP402", reason, span=beyond.span, repair=f"ask for {show_amount(most)} at most together")
        delta = delta_of(budget, whole)
        return replace(request, epsilon=whole, delta=delta if clause is None else min(delta, request.delta))
    if whole >= request.epsilon:
        named = list(dict.fromkeys(m.text for s in rest for m in s.outputs))
        others = ", ".join(named[:3]) + (", ..." if len(named) > 3 else "") if named else "the decision on keys"
        whose = "statement's" if clause is None else "clause's"
        left = "nothing" if whole == request.epsilon else f"less than nothing ({show_amount(request.epsilon - whole)})"
        reason = f"the hints take {shown} of the {whose} epsilon {show_amount(request.epsilon)}: {left} is left for"
        more = f"SET epsilon = {show_amount(min(2 * whole, most))}" if whole < most else f"ask for less than {shown}"
        repair = f"{more}, or give {others} a hint too" if named else f"{more}, or hint less"
        raise refusal("DP120", f"{reason} {others}", span=beyond.span, repair=repair)
    return request


def _shares(parts: Sequence[_Part], request: Request) -> list[Fraction]:
    """Of each part: its hint, or by weight of what hints leave."""
    hints = [part.slot.hint for part in parts]
    left = request.epsilon - sum((hint.share for hint in hints if hint is not None), Fraction(0))
    weights = [part.weight for part, hint in zip(parts, hints, strict=True) if hint is None]
    others = iter(split(left, weights) if weights else ())
    return [hint.share if hint is not None else next(others) for hint in hints]


def _normal(slot: Slot, draft: ReleasePlan, share: Fraction, sigma: Fraction) -> Slot:
    """The slot with normal noise. Where a unit's vector is scaled into a ball, it is then one of L2."""
    slot = replace(slot, epsilon=share, sigma=sigma)
    if draft.limits.ball is None or slot.kind is SlotKind.UNITS:
        return slot
    balls = [sensitivity.of_round_ball(draft.limits, slot.weight, len(slot.components), d) for d in draft.reach]
    return replace(slot, norms=sensitivity.over_sets(balls))


def _parts(draft: ReleasePlan, request: Request) -> Iterator[_Part]:
    """Its slots, and after them the decision on keys where no released count makes it."""
    decider = next((s for s in draft.slots if s.counts_units), None)
    for slot in draft.slots:
        weight = max(request.weights.get(m.column.lower(), Fraction(1)) for m in slot.outputs)
        yield _Part(slot, weight, draft.selection if slot is decider else None, draft.choosing is not None)
    for slot in _apart(draft):
        yield _Part(slot, Fraction(1), decides=draft.selection)


def _apart(draft: ReleasePlan) -> list[Slot]:
    """The count of units that would decide on keys with normal noise, where none is released: it has no outputs."""
    if draft.selection is None or any(s.counts_units for s in draft.slots):
        return []
    norms = sensitivity.over_sets([sensitivity.of_units(draft.limits, keys) for keys in draft.reach])
    return [Slot(SlotKind.UNITS, None, None, (), norms, Fraction(1))]


def _best(parts: Sequence[_Part], request: Request, *, compared: bool) -> tuple[float, frozenset[int]]:
    """The least expected error, and the parts that have normal noise then. compared: whether the error is of any use,
    where there is no choice."""
    noised = [i for i, part in enumerate(parts) if not part.chooses]
    norms = [part.slot.norms for part in parts]
    gains = {i: norms[i].l1 ** 2 / norms[i].l2_squared for i in noised}
    order = sorted(noised, key=lambda i: -gains[i])
    tried = [frozenset(order[:n]) for n in range(len(order) + 1)]
    decides = any(part.decides is not None and part.decides.touched > 1 for part in parts)
    if request.mechanism == NORMAL:
        tried = tried[-1:]
    elif not could_gain(len(noised), max(gains.values(), default=0.0), request, decides=decides):
        tried = tried[:1]
    if len(tried) == 1 and not compared:
        return 0.0, tried[0]
    each = [variances.as_float(share) for share in _shares(parts, request)]
    spreads = sum(log(spread(m, part.slot)) for part in parts for m in part.slot.outputs)
    errors = [spreads + _error(parts, normal, each, float(request.delta)) for normal in tried]
    least = min(range(len(tried)), key=lambda n: errors[n])
    return errors[least], tried[least]


def could_gain(slots: int, ratio: float, request: Request, *, decides: bool) -> bool:
    """Whether normal noise may be less than discrete Laplace noise where so many slots share epsilon, of which one has
    that ratio of Delta_1^2 to Delta_2^2. With all shares pooled its variance is slots Delta_2^2 / mu^2, against 2
    (slots Delta_1 / epsilon)^2; with a part of them mu/epsilon is somewhat larger, for which there is room. decides:
    whether a decision on keys of which a unit has several is among what it is for."""
    if request.delta == 0 or request.mechanism == LAPLACE:
        return False
    epsilon = variances.as_float(request.epsilon)
    slope = variances.mu(epsilon, float(request.delta)) / epsilon
    return decides or slots * ratio * 2 * slope**2 >= 0.5 or epsilon > 3  # of larger epsilons rounding decides


def _error(parts: Sequence[_Part], normal: frozenset[int], each: Sequence[float], delta: float) -> float:
    """The sum of logarithms that is to be least, up to what does not depend on the noise. each: the shares."""
    decisions = sum(p.decides is not None for p in parts)
    delta /= max(decisions + bool(normal), 1)
    mu = variances.mu(sum(each[i] for i in normal), delta) if normal else 0.0
    if normal and mu < 1e-12:
        return inf
    root = sqrt(sum(each[i] ** 2 for i in normal))
    total = 0.0
    for i, part in enumerate(parts):
        slot = part.slot
        if i in normal:
            variance = variances.of_normal(slot.norms, mu * each[i] / root)
        else:
            variance = variances.of_laplace(slot.norms, each[i])
        total += len(slot.outputs) * (log(max(variance, 1e-300)) - 2 * log(slot.weight))
        if part.decides is None:
            continue
        touched = part.decides.touched
        if i in normal:
            units = variances.half_kept_by_normal(sqrt(variance), delta, touched)
        elif part.is_apart:
            units = variances.half_kept_by_conditioned(each[i], delta, touched)
        else:
            units = variances.half_kept_by_laplace(each[i], delta, touched)
        total += 2 * log(units)
    return total


def check_weights(drafts: Sequence[ReleasePlan], request: Request) -> None:
    """A weight for a column that this statement does not release is a mistake, not a wish."""
    columns = {m.column.lower() for d in drafts for s in d.slots for m in s.outputs if m.column}
    for name in request.weights:
        if drafts and name not in columns:
            reason = f'weights name "{name}", which is no aggregate column of this statement'
            raise refusal(
                "DP120", reason, repair=f"the columns are {', '.join(sorted(columns)) or 'none'}; or RESET weights"
            )
