"""EXPLAIN: one query, shown. Made from the plan alone, so it is free and the same on every database."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import isqrt

import sqlglot

from dpsql.compile.clauses import option_of
from dpsql.compile.estimates import linear, numerator
from dpsql.compile.gate import SealedSql
from dpsql.compile.ir import Measure
from dpsql.compile.plan import Choosing, PrivatePlan, ReleasePlan, Selection
from dpsql.compile.relations import publics
from dpsql.compile.rewrite import Rewritten
from dpsql.compile.slots import Slot, SlotKind
from dpsql.privacy.accounting import GAUSSIAN, Price, show_amount
from dpsql.privacy.choices import MECHANISMS, shortfall
from dpsql.privacy.intervals import linear_half_width
from dpsql.privacy.mechanisms import DiscreteLaplace, law_of
from dpsql.privacy.selection import conditioned
from dpsql.privacy.sensitivity import Limits
from dpsql.privacy.thresholds import threshold
from dpsql.privacy.variances import as_float, of_laplace


@dataclass(frozen=True, slots=True)
class Known:
    """What is stored of a statement: left, what it would be charged; stored, in lines, what is read from where."""

    left: Price
    stored: Sequence[str]


def explain(plan: PrivatePlan, rewritten: Rewritten, known: Known | None = None) -> str:
    """Price, limits, sensitivity, mechanism and expected error of every aggregate, then the SQLs that would run."""
    if not plan.releases:
        return "public: exact and free\n\n-- on the public tables\n" + _pretty(rewritten.outer)
    lines = [f"price: epsilon {show_amount(plan.epsilon)}, delta {show_amount(plan.delta)}"]
    if known is not None and known.stored:
        left = f"epsilon {show_amount(known.left.epsilon)}, delta {show_amount(known.left.delta)}"
        lines.append(f"to pay: {left if known.left else 'nothing'}, since what was paid for is free")
        lines += [f"  {line}" for line in known.stored]
    if plan.composition == GAUSSIAN:
        price = plan.price(plan.releases)
        counted = f"counted as mu^2 {show_amount(price.mu_squared)}, delta {show_amount(price.delta)}"
        lines.append(f"{counted}, since charges add up by Gaussian composition")
    lines += _joint(plan)
    if plan.weights:
        shares = ", ".join(f"{column} {show_amount(weight)}" for column, weight in plan.weights.items())
        hinted = any(slot.hint is not None for release in plan.releases for slot in release.slots)
        what = "what is not asked for is shared" if hinted else "shared"
        lines.append(f"{what} by weights: {shares}; 1 for what is not named")
    shown: set[str] = set()
    for release, sealed in zip(plan.releases, rewritten.inner, strict=True):
        read = [name for name in sorted(set(publics(release.release.input))) if name not in shown]
        shown.update(read)
        for name in read:
            lines += ["", f"-- {name}, on public and released results", _pretty(rewritten.publics[name])]
        lines += ["", *_release(release), "", "-- on the private tables", _pretty(sealed)]
    return "\n".join([*lines, "", "-- on the released results", _pretty(rewritten.outer)])


def _joint(plan: PrivatePlan) -> list[str]:
    """What the slots of normal noise are together; without any, where charges add up by mu, what they would be."""
    if not plan.joints:
        noised = [slot for release in plan.releases if release.choosing is None for slot in release.slots]
        if plan.composition != GAUSSIAN or not noised:
            return []
        as_normal = sum(s.norms.l2_squared / of_laplace(s.norms, as_float(s.epsilon)) for s in noised)
        said = f"normal noise of the same variance would count as mu^2 {_number(as_normal)}"
        return [f"{said}: SET mechanism = gaussian"]
    lines = []
    for joint in plan.joints:
        slots = sum(len(release.normal) for release in plan.releases if release.release.name in joint.releases)
        together = f"one Gaussian mechanism{f' of {slots} slots' if slots > 1 else ''}"
        price = f"epsilon {show_amount(joint.epsilon)}, delta {show_amount(joint.delta)}"
        lines.append(f"normal noise: {together}, {price} (mu {_number(float(joint.mu_squared) ** 0.5)})")
    return lines


def _release(plan: ReleasePlan) -> list[str]:
    if not plan.release.keys:
        groups = "one result"
    elif plan.keys is not None:
        groups = f"{plan.keys} public group{'s' * (plan.keys != 1)}"
    else:
        groups = f"groups selected privately, by {', '.join(k.text for k in plan.release.keys)}"
    if plan.release.sets:
        groups += f", in {len(plan.release.sets)} grouping sets; a row counts once in each"
    if plan.release.keys and all(k.of_unit for k in plan.release.keys):
        groups += "; a unit is in one of them"
    lines = [f"{plan.release.name}: {groups}", *_clause(plan), f"  strategy {plan.limits.strategy}: {_limits(plan)}"]
    if plan.read is not None:
        lines.append(
            f"  joins: at most {plan.read} rows of each unit are read, chosen at random, since so many pairs can meet"
        )
    lines += [f"  {said}: less noise" for said in plan.wide]
    if plan.selection is not None:
        lines.append(f"  {_selection(plan.selection)}")
    if plan.choosing is not None:
        return [*lines, *_choice(plan, plan.choosing)]
    if plan.release.ranked and plan.keys is not None:
        lines.append("  the first of the groups: post-processing of what is released; with the keys alone selected,")
        lines.append("  they would be chosen privately, without noise on any number")
    for slot in plan.slots:
        if not slot.outputs:
            continue  # what it is for was said of the keys
        lines.append(f"  {_mechanism(slot, plan.limits.per_group)}")
        for measure in slot.outputs:
            lines.append(f"    {measure.text}: {_error(slot, measure)}")
    return lines


def _clause(plan: ReleasePlan) -> list[str]:
    """What the clause of its SELECT asks for, where there is one."""
    clause = plan.release.clause
    if clause is None:
        return []
    said = [f"{n} {show_amount(x)}" for n, x in (("epsilon", clause.epsilon), ("delta", clause.delta)) if x is not None]
    said += [f"{option_of(n)} {'NULL' if most is None else most}" for n, most in clause.limits.items()]
    said += [f"privacy_unit_column {'.'.join(clause.unit)}"] if clause.unit else []
    said += ["public groups only"] if clause.public_groups else []
    said += [f"at least {clause.min_units} units in a group"] if clause.min_units is not None else []
    return [f"  its clause asks for: {', '.join(said)}"] if said else []


def _limits(plan: ReleasePlan) -> str:
    """What is enforced for each unit, in words."""
    limits = plan.limits
    if limits == Limits("rows", rows=1):
        return "each unit has one row"
    parts = []
    if limits.rows is not None:
        when = "after WHERE" if limits.late else "before WHERE"
        parts.append(f"at most {limits.rows} rows of each unit count, chosen at random {when}")
    if limits.per_group is not None:
        parts.append(f"at most {limits.per_group} rows of a unit count in a group")
    if limits.groups is not None:
        parts.append(f"in at most {limits.groups} groups, chosen at random")
    if limits.ball is not None:
        by = "; for normal noise the root of its squares is" if plan.normal else ""
        parts.append(f"a unit with more than {limits.ball} rows is scaled down to that weight{by}")
    return ", ".join(parts)


def _selection(selection: Selection) -> str:
    """How private keys are decided, and how many units one needs to be shown half of the time."""
    law = (selection.delta, selection.touched, selection.min_units)
    delta = show_amount(selection.delta)
    if selection.counted is not None:
        slot = selection.counted
        tau = threshold(slot.epsilon, slot.sigma, *law)
        price = "at no further epsilon" if slot.outputs else f"epsilon {show_amount(slot.epsilon)}"
        return f"keys: shown from a noisy count of {tau} units on, delta {delta}, {price}"
    rule = conditioned(selection.epsilon, *law)
    units = rule.m + rule.shift
    return f"keys: shown half of the time at {units} units, epsilon {show_amount(selection.epsilon)}, delta {delta}"


def _choice(plan: ReleasePlan, choosing: Choosing) -> list[str]:
    """How groups are chosen, at what price, and how good the choice is."""
    slot, choice = plan.slots[0], plan.release.choice
    assert choice is not None and plan.keys is not None
    order = "least" if choice.ascending else "greatest"
    times = "" if choice.factor is None else ", times a factor of the keys"
    several = (
        "" if choosing.winners == 1 else f", one after another at epsilon {show_amount(_each(plan, choosing))} each"
    )
    charged = "" if plan.pure == plan.share else f", charged {show_amount(plan.pure)}"
    name = MECHANISMS[choosing.mechanism]
    moved = _number(choosing.sensitivity * slot.step)
    reach = shortfall(choosing.sensitivity * slot.step, _each(plan, choosing), plan.keys, Fraction(19, 20))
    lines = [
        f"  choice: {choosing.winners} of {plan.keys}, of {order} {plan.release.measures[0].text}{times}{several}",
        f"  {name}: sensitivity {moved} of each score, {_share(slot)}{charged}",
    ]
    if charged:
        lines.append("    half is charged, since one unit moves all scores in one direction")
    lines.append(f"    each one chosen is within {_number(reach)} of the best that is left (95 %)")
    if choosing.released is None:
        lines.append("    its scores could not be released with these groups")
    else:
        width = DiscreteLaplace(choosing.released.l1 / plan.share).half_width() * slot.grid_step
        lines.append(
            f"    with its score selected as well: every group released, ± {_number(width)} (95 %), and ordered free"
        )
    return lines


def _each(plan: ReleasePlan, choosing: Choosing) -> Fraction:
    """The epsilon of one winner's choice."""
    return plan.share / choosing.winners


def _share(slot: Slot) -> str:
    """Its epsilon, and whether the statement asks for it."""
    return f"epsilon {show_amount(slot.epsilon)}{' (asked for)' if slot.hint is not None else ''}"


def _mechanism(slot: Slot, per_group: int | None) -> str:
    kind, unit, step = slot.kind.value, "", slot.step
    if slot.kind is SlotKind.MOMENTS and not slot.is_linear:
        kind += f" of degree {' x '.join(map(str, slot.degrees))}"
        unit = " rows"
    elif step != 1:
        unit, step = f" steps of {_number(step)}", Fraction(1)
    if slot.kind is SlotKind.DISTINCT and per_group is not None:
        kind += f", at most {per_group} of a unit in a group, chosen at random"
    if slot.part is not None:
        means = slot.kind is SlotKind.MOMENTS
        step_of_part = next((a.grid.step for a in slot.axes if a.grid is not None), slot.grid_step)
        lo, hi = (_number(bound * step_of_part) for bound in slot.part)
        kind += " of the units' own means in a group, clamped" if means else ", what a unit adds to a group clamped"
        kind += f" to [{lo}, {hi}]"
    law = law_of(slot)
    moved = slot.norms.l1 if slot.sigma is None else isqrt(slot.norms.l2_squared - 1) + 1
    moved_as_shown = _number(moved * step) if unit == " rows" else moved
    named = "of scale" if slot.sigma is None else "of deviation"
    return (
        f"{kind}: sensitivity {moved_as_shown}{unit} ({'L1' if slot.sigma is None else 'L2'}),"
        f" {_share(slot)}, {law.name} {named} {_number(law.size * step)}{unit}"
    )


def _error(slot: Slot, measure: Measure) -> str:
    """The expected error in the aggregate's own units."""
    if slot.kind is not SlotKind.MOMENTS:
        return f"± {_number(law_of(slot).half_width() * slot.step)} (95 %)"
    error, most, normal = linear(measure, slot), numerator(measure, slot), slot.sigma is not None
    if error is not None:
        return f"± {_number(linear_half_width(error[0], normal) + error[1])} (95 %)"
    if most is not None:
        counted = "values" if slot.part is None else "units"
        return f"± at most about {_number(linear_half_width(most, normal))} / (number of {counted}) (95 %)"
    return "± as the answer says: it hangs on how far the values lie apart"


def _number(x: float | Fraction) -> str:
    return f"{float(x):,.6g}"


def _pretty(sealed: SealedSql) -> str:
    tree = sqlglot.parse_one(sealed.text, read="duckdb")
    return str(tree.sql(dialect="duckdb", pretty=True, comments=False))
