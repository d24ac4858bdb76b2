"""Check: prove a plan from its own nodes, apart from how it was made."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from sqlglot import exp

from dpsql.compile.clauses import Clause
from dpsql.compile.funds import share_of
from dpsql.compile.limits import Request, ceiling, delta_of, one_row_per_unit
from dpsql.compile.plan import PrivatePlan, ReleasePlan
from dpsql.compile.relations import scans
from dpsql.compile.resolve import PUBLIC_CATALOG
from dpsql.compile.slots import MOST_WEIGHT, Slot, SlotKind, is_read_from
from dpsql.errors import refusal
from dpsql.policy.model import Budget, Policy
from dpsql.privacy.gaussian import is_private
from dpsql.privacy.sensitivity import Limits


def check(plan: PrivatePlan, policy: Policy, request: Request) -> None:
    """Recompute limits, sensitivities and price from the plan's own nodes; raises DP901 where anything disagrees.

    Written apart from `plan`: a limit before WHERE is read from the driving scan that `rewrite` turns into SQL, not
    from what the planner wrote down, so a plan whose SQL enforces less than its noise assumes cannot pass.
    """
    for release in plan.releases:
        node, limits = release.release, release.limits
        private = [s for s in scans(node.input) if not s.public]
        _require(all(s.limit is not None or not s.many for s in private), "every unit is cut")
        driving = [s for s in private if s.alias == node.driving]
        _require(len(driving) == (node.driving is not None), "one private scan drives the release")
        single = node.one_row
        if driving:
            table = policy.tables[driving[0].table]
            _require(not single or one_row_per_unit(table), "one row per unit is so by its table")
        if limits.rows is not None and not limits.late and not single:
            _require(bool(driving) and driving[0].limit == limits.rows, "the limit on rows is enforced")
        _require(not single or limits == Limits("rows", rows=1), "one row per unit needs no other limit")
        _require(limits.groups is None or limits.per_unit, "the limit on groups is enforced")
        _require(not limits.late or limits.rows is not None, "the limit after WHERE is enforced")
        _check_keys(release, policy)
        multiplied = any(s.meets > 1 for s in scans(node.input))
        _require(not multiplied or (limits.rows is None and limits.per_unit), "joined rows of a unit are limited")
        _check_fixed(release, policy)
        fixed = {k.name for k in node.keys if k.of_unit}
        most = [1 if fixed.issuperset(own) else d for own, d in zip(node.grouping, release.domains, strict=True)]
        reach = [min(n for n in (limits.rows, limits.groups, d) if n is not None) for d in most]
        touched = sum(reach)
        _check_clause(release, policy, reach)
        for slot in release.slots:
            _check_norms(slot, limits, reach)
        for slot in release.slots:
            _require(slot.epsilon > 0, "every slot is charged")
            _check_moments(slot)
        _check_choice(release, limits)
        if release.selection is not None:
            chosen = release.selection
            _require(chosen.touched == touched and chosen.delta > 0, "the decision on keys covers every key of a unit")
            own, counted = chosen.epsilon > 0, chosen.counted
            paid = own if counted is None else counted in release.slots and counted.counts_units and not own
            _require(paid, "the decision on keys is charged")
            once = counted is None or (counted.norms.linf == 1 and counted.norms.l1 == touched)
            _require(once, "a unit counts once in each key")
        outputs = [m.name for s in release.slots for m in s.outputs]
        _require(sorted(outputs) == sorted(m.name for m in node.measures), "every aggregate has one slot")
    _require(plan.composition == policy.budget.composition, "charges add up as the policy says")
    _check_prices(plan, policy, request)


def _check_prices(plan: PrivatePlan, policy: Policy, request: Request) -> None:
    """Every fund spends what its clause or, without one, the settings ask for, and all together no more than one
    statement may."""
    by_clause: dict[Clause | None, list[ReleasePlan]] = {}
    for release in plan.releases:
        clause = release.release.clause
        by_clause.setdefault(clause if clause is not None and clause.is_priced else None, []).append(release)
    budget = share_of(policy.budget, len(by_clause))
    deltas = Fraction(0)
    for clause, releases in by_clause.items():
        shares = sum((r.share for r in releases), Fraction(0))
        epsilon, delta = _asked(releases, budget, request, clause, alone=len(by_clause) == 1)
        _require(shares == epsilon, "the shares are the epsilon that was asked")
        names = {r.release.name for r in releases}
        joints = [j for j in plan.joints if not names.isdisjoint(j.releases)]
        _require(len(joints) <= 1 and all(j.releases == names for j in joints), "normal noise is charged once")
        spent = sum((r.delta for r in releases), sum((j.delta for j in joints), Fraction(0)))
        _require(spent in (0, delta), "the price is the delta that was asked")
        deltas += spent
    shares = sum((r.share for r in plan.releases), Fraction(0))
    halved = sum((r.share / 2 for r in plan.releases if _is_one_sided(r)), Fraction(0))
    _require(plan.epsilon == shares - halved, "the price is the epsilon that was asked")
    _require(plan.delta == deltas, "the price is the delta that was asked")
    _require(len(by_clause) <= 1 or shares <= policy.budget.max_query_epsilon, "no statement costs more than it may")
    _check_joints(plan)


def _check_clause(release: ReleasePlan, policy: Policy, reach: Sequence[int]) -> None:
    """What a clause names is enforced, and no limit is above its ceiling."""
    node, limits, clause = release.release, release.limits, release.release.clause
    driving = next((s for s in scans(node.input) if s.alias == node.driving), None)
    table = policy.tables[driving.table] if driving is not None else None
    if table is not None and not one_row_per_unit(table) and not node.one_row:
        most = ceiling(table, "max_rows_per_unit")
        rows = limits.rows if limits.rows is not None else limits.ball
        _require(rows is None or most is None or rows <= most, "rows are limited as the policy says")
        for limit, name in ((limits.groups, "max_groups_per_unit"), (limits.per_group, "max_rows_per_group")):
            most = ceiling(table, name)
            _require(limit is None or most is None or limit <= most, "groups are limited as the policy says")
    if clause is None:
        return
    groups, rows_ = clause.limits.get("max_groups_per_unit"), clause.limits.get("max_rows_per_unit")
    _require(groups is None or not node.keys or all(n <= groups for n in reach), "groups are limited as asked")
    bounds = [n for n in (limits.rows, limits.ball) if n is not None]
    single = table is not None and one_row_per_unit(table) and all(s.meets <= 1 for s in scans(node.input))
    bounds += [1] if single else []
    bounds += [sum(reach) * limits.per_group] if limits.per_group is not None and not node.sets else []
    _require(rows_ is None or any(n <= rows_ for n in bounds), "rows are limited as asked")
    _require(not clause.public_groups or release.keys is not None, "all groups are public")
    chosen = release.selection
    few = clause.min_units is not None and (chosen is None or chosen.min_units < clause.min_units)
    _require(not few, "groups of few units are not shown")


def _check_fixed(release: ReleasePlan, policy: Policy) -> None:
    """Keys that a unit determines read no table of which it may have several rows."""
    several = {s.alias for s in scans(release.release.input) if not s.public}
    several -= {s.alias for s in scans(release.release.input) if one_row_per_unit(policy.tables[s.table])}
    fixed = (c for k in release.release.keys if k.of_unit for c in k.scalar.tree.find_all(exp.Column))
    _require(all(c.table not in several for c in fixed), "a unit has one value of a key that it determines")


def _asked(
    releases: Sequence[ReleasePlan], budget: Budget, request: Request, clause: Clause | None, *, alone: bool
) -> tuple[Fraction, Fraction]:
    """The price that settings, clause and hints ask for, by the hints of the aggregates: each slot with hints has the
    largest of them, and where a slot or a decision on keys has none, something of the whole is left for it."""
    epsilon = request.epsilon if clause is None or clause.epsilon is None else clause.epsilon
    delta = request.delta if clause is None and alone else delta_of(budget, epsilon)
    if clause is not None:
        _require(epsilon <= budget.max_query_epsilon, "the clause asks for no more than the policy allows")
        _require(clause.delta is None or clause.delta <= delta, "the clause asks for no more than the policy allows")
        delta = delta if clause.delta is None else clause.delta
    hinted, others = Fraction(0), False
    for release in releases:
        others |= release.selection is not None and release.selection.epsilon > 0
        for slot in release.slots:
            hints = [hint.share for measure in slot.outputs for hint in measure.hints]
            others |= not hints
            hinted += max(hints, default=Fraction(0))
            _require(not hints or slot.epsilon == max(hints), "a share is the one that was asked")
    if others:
        _require(hinted < epsilon, "hints leave something for what has none")
        return epsilon, delta
    most = budget.max_query_epsilon if clause is None else epsilon
    _require(hinted <= most, "hints ask for no more than the policy allows")
    of_hints = delta_of(budget, hinted)
    return hinted, of_hints if clause is None else min(of_hints, delta)


def _check_norms(slot: Slot, limits: Limits, reach: Sequence[int]) -> None:
    """What a unit moves a slot by, over all grouping sets (a row counts once in every one), in L1 and squared in L2;
    and that its noise is for that much. A ball is one of L1 under discrete Laplace noise, of L2 under normal noise."""
    in_one = min(n for n in (limits.rows, limits.ball, limits.per_group) if n is not None) * slot.weight
    part, around_0 = 0, True
    if slot.part is not None:
        _require(limits.per_group is not None and limits.ball is None, "parts are clamped")
        _require(slot.part[0] <= slot.part[1] and len(slot.outputs) == 1, "parts are clamped")
        if slot.kind is SlotKind.MOMENTS:
            (axis,) = slot.axes
            means = axis.rows is not None and axis.grid is not None and slot.subgrid == 1 == axis.degree
            _require(means and slot.part == (axis.grid.lo, axis.grid.hi), "means are clamped")  # type: ignore[union-attr]
            part = slot.weight
        else:
            _require(slot.kind in (SlotKind.ROWS, SlotKind.SUM), "parts are clamped")
            part, around_0 = max(-slot.part[0], slot.part[1], 1), slot.part[0] <= 0 <= slot.part[1]
        in_one = min(part, in_one) if around_0 else part
    l1 = l2_squared = 0
    for keys in reach:
        rows = [n for n in (limits.rows, limits.ball) if n is not None]
        rows += [keys * limits.per_group] if limits.per_group is not None else []
        in_all = keys if slot.kind is SlotKind.UNITS else min(rows) * slot.weight
        if slot.part is not None:
            in_all = min(keys * part, in_all) if around_0 else keys * part
        l1 += in_all
        l2_squared += in_all * (1 if slot.kind is SlotKind.UNITS else in_one)
    _require(limits.ball is None or slot.kind is not SlotKind.DISTINCT, "distinct values are limited")
    covered = slot.norms.l2_squared == l2_squared > 0 and slot.norms.keys == sum(reach)
    if slot.sigma is None:
        covered = covered and slot.norms.l1 == l1 > 0 and slot.scale * slot.epsilon == l1
    _require(covered, "the noise covers the sensitivity")


def _check_joints(plan: PrivatePlan) -> None:
    """All normal noise of a fund is one Gaussian mechanism of the epsilon that its slots pooled, whose mu^2 is proved
    to be private anew."""
    charged = [name for joint in plan.joints for name in joint.releases]
    _require(len(charged) == len(set(charged)), "normal noise is charged once")
    _require({r.release.name for r in plan.releases if r.normal} <= set(charged), "normal noise is charged")
    for joint in plan.joints:
        normal = [s for r in plan.releases if r.release.name in joint.releases for s in r.normal]
        spent = sum((s.norms.l2_squared / (s.sigma or Fraction(0)) ** 2 for s in normal), Fraction(0))
        pooled = sum((s.epsilon for s in normal), Fraction(0))
        _require(0 < spent <= joint.mu_squared and joint.epsilon == pooled, "the noise is enough together")
        _require(joint.delta > 0 and is_private(joint.mu_squared, pooled, joint.delta), "it is private")
    _require(all(r.choosing is None for r in plan.releases if r.normal), "a choice adds no noise")


def _check_moments(slot: Slot) -> None:
    """What a row adds is N = product of M^d, whatever its values, where each is on its grid of M steps; and each
    aggregate is over the rows of its slot."""
    if slot.kind is not SlotKind.MOMENTS:
        _require(not slot.axes, "one value is one number")
        return
    whole = slot.subgrid
    for axis in slot.axes:
        _require((axis.grid is None) == (axis.degree == 0) and 0 <= axis.degree <= 2, "every value is on a grid")
        whole *= max(axis.grid.hi - axis.grid.lo, 1) ** axis.degree if axis.grid is not None else 1
    _require(slot.weight == whole <= MOST_WEIGHT * slot.subgrid, "the weights of a row add up")
    _require(all(is_read_from(m, slot) for m in slot.outputs), "every aggregate is over the rows of its slot")


def _check_keys(release: ReleasePlan, policy: Policy) -> None:
    """Each set of keys is there once, and is public as a whole, its list enforced by the SQL, or selected privately."""
    node, private = release.release, set(release.release.private_keys)
    if node.public_keys is not None:  # joined on fewer columns than it has, it would multiply what units bring
        columns = [item.alias_or_name for item in node.public_keys.tree.selects]
        _require(_is_public(node.public_keys.tree, policy), "public keys are public")
        _require(columns == [n for n in node.key_names if n not in private], "no group is joined twice")
    _require(len(set(node.grouping)) == len(node.grouping) == len(release.domains), "every set of keys is there once")
    for names, keys in zip(node.grouping, release.domains, strict=True):
        _require(bool(names) or keys == 1, "a set without keys is one group")
        listed = node.public_keys is not None and private.isdisjoint(names)
        _require(keys is None or not names or listed, "public keys are listed")
    _require((release.keys is None) == (release.selection is not None), "private keys are selected")


def _check_choice(release: ReleasePlan, limits: Limits) -> None:
    """A choice: one slot, whose score in any one group a unit moves by no more than the sensitivity says, by itself and
    times any factor."""
    choice, choosing = release.release.choice, release.choosing
    _require((choice is None) == (choosing is None), "a choice has a mechanism")
    if choice is None or choosing is None:
        return
    _require(len(release.slots) == 1 and release.slots[0].kind is not SlotKind.MOMENTS, "a choice goes by one number")
    _require(release.keys is not None and not release.release.sets, "the candidates are public")
    slot = release.slots[0]
    bounds = [n for n in (limits.rows, limits.per_group, limits.ball) if n is not None]
    moved = 1 if slot.kind is SlotKind.UNITS else min(bounds) * slot.weight
    lo, hi = choosing.factors
    _require(lo <= hi and (choice.factor is not None or lo == hi == 1), "the factors are bounded")
    largest = max(-lo, hi)
    _require(choosing.sensitivity >= moved * largest and choosing.sensitivity > 0, "the choice covers the sensitivity")
    _require(not choosing.one_sided or _is_one_sided(release), "the choice is charged")
    _require(1 <= choosing.winners <= choice.winners, "no more groups are chosen than were asked")


def _is_one_sided(release: ReleasePlan) -> bool:
    """Whether all utilities move in one direction: rows add to the score with one sign, factors have one sign."""
    if release.choosing is None:
        return False
    slot, (lo, hi) = release.slots[0], release.choosing.factors
    bounds = (slot.grid.lo, slot.grid.hi) if slot.kind is SlotKind.SUM and slot.grid is not None else (0, 1)
    return (bounds[0] >= 0 or bounds[1] <= 0) and (lo >= 0 or hi <= 0)


def _is_public(tree: exp.Expr, policy: Policy) -> bool:
    """Whether a relation reads public tables alone: which groups an answer shows must tell nothing of private rows."""
    tables = [t for t in tree.find_all(exp.Table) if isinstance(t.this, exp.Identifier)]
    return all(t.db == PUBLIC_CATALOG and t.name in policy.tables and policy.tables[t.name].public for t in tables)


def _require(condition: bool, promise: str) -> None:
    if not condition:
        raise refusal("DP901", f"the plan does not prove that {promise}; nothing was run")
