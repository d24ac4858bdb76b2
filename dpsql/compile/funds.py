"""What a statement pays from: a fund for each clause with a price of its own, one for all releases without.

The clause belongs to its SELECT, so its epsilon and delta are those of that SELECT's release, as if it were a statement
by itself. The prices of all funds add up (basic composition), and their sum is held to `max_query_epsilon` as the
price of any statement is. Of a fixed `per_query_delta` each fund has an equal part at most; a delta that goes by
epsilon is its fund's own, and these add up to no more than that of the sum.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from dpsql.compile.clauses import Clause, option_of
from dpsql.compile.ir import Release
from dpsql.compile.limits import NORMAL, Request, ceiling, delta_of, one_row_per_unit
from dpsql.compile.relations import scans
from dpsql.errors import refusal
from dpsql.policy.model import Budget, Policy, Table
from dpsql.privacy.accounting import show_amount


@dataclass(frozen=True, slots=True)
class Fund:
    """Releases that share an epsilon and a delta. request: at their price; its clause is the one that says it, if any.
    budget: the policy's, with the part of a fixed delta per statement that the fund may have."""

    releases: tuple[Release, ...]
    request: Request
    budget: Budget


def funds(releases: Sequence[Release], policy: Policy, request: Request) -> list[Fund]:
    """In order of their first releases. Raises DP402 for what a clause asks for beyond the policy."""
    grouped: dict[Clause | None, list[Release]] = {}
    for release in releases:
        grouped.setdefault(own_price(release), []).append(release)
    budget = share_of(policy.budget, len(grouped))
    found = []
    for clause, own in grouped.items():
        asked = replace(request, delta=delta_of(budget, request.epsilon)) if len(grouped) > 1 else request
        if clause is not None:
            asked = _priced(clause, request, budget)
        found.append(Fund(tuple(own), asked, budget))
    return found


def own_price(release: Release) -> Clause | None:
    """The clause that prices a release, where one does."""
    clause = release.clause
    return clause if clause is not None and clause.is_priced else None


def share_of(budget: Budget, funds: int) -> Budget:
    """The budget as each of so many funds of a statement sees it."""
    whole = budget.per_query_delta
    return budget if whole is None else replace(budget, per_query_delta=whole / max(funds, 1))


def _priced(clause: Clause, request: Request, budget: Budget) -> Request:
    epsilon, most = clause.epsilon or request.epsilon, budget.max_query_epsilon
    if epsilon > most:
        reason, repair = f"the policy allows at most epsilon {show_amount(most)} per statement", show_amount(most)
        raise refusal("DP402", reason, span=clause.span_of("epsilon"), repair=f"write epsilon = {repair}")
    allowed = delta_of(budget, epsilon)
    if clause.delta is not None and clause.delta > allowed:
        shown = show_amount(allowed)
        if shown.startswith("≤"):
            shown = f"{float(allowed) * (1 - 1e-9):.6e}"
        reason = f"the policy allows at most delta {shown} here, at epsilon {show_amount(epsilon)}"
        repair = f"write delta = {shown}, or leave it out"
        raise refusal("DP402", reason, span=clause.span_of("delta"), repair=repair)
    if clause.delta == 0 and request.mechanism == NORMAL:
        reason, repair = "Gaussian noise needs a delta above 0", "RESET mechanism, or leave delta out"
        raise refusal("DP402", reason, span=clause.span_of("delta"), repair=repair)
    return replace(request, epsilon=epsilon, delta=allowed if clause.delta is None else clause.delta, clause=clause)


def of_release(release: Release, request: Request, policy: Policy) -> Request:
    """The request of one release of a fund: with what its clause says of it. Raises DP402 for a limit above the
    ceilings of all its tables. (Where the policy has none of its kind, it is one more limit than that has.)"""
    clause = release.clause
    if clause is None:
        return request
    limits = dict(request.limits)
    tables = _tables(release, policy)
    for name, value in clause.limits.items():
        if value is None:
            limits.pop(name, None)
            continue
        ceilings = [ceiling(t, name) for t in tables if not one_row_per_unit(t)]
        known = [c for c in ceilings if c is not None]
        if known and len(known) == len(ceilings) and value > max(known):
            option = option_of(name)
            reason = f"the policy allows at most {max(known)} for {option} here"
            repair = f"write {option} = {max(known)}, or less"
            raise refusal("DP402", reason, span=clause.span_of(option), repair=repair)
        limits[name] = value
    return replace(request, limits=limits, clause=clause)


def _tables(release: Release, policy: Policy) -> list[Table]:
    """Whose limits count: the driving table's, or where none drives it, those of all."""
    read = [s for s in scans(release.input) if not s.public]
    driving = [s for s in read if s.alias == release.driving]
    return [policy.tables[s.table] for s in driving or read]


def check_sum(funds: Iterable[tuple[Fund, Fraction]], most: Fraction) -> None:
    """Raises DP402 where funds of these prices are more together than one statement may cost."""
    total = Fraction(0)
    for fund, price in funds:
        total += price
        clause = fund.request.clause
        if total > most:
            reason = (
                f"the policy allows at most epsilon {show_amount(most)} per statement, and its releases ask for more"
            )
            span = clause.span_of("epsilon") if clause is not None else fund.releases[0].span
            raise refusal("DP402", reason, span=span, repair="ask for less in each, or for one at a time")
