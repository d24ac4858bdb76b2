"""What a budget that is renewed comes to in a year: figures for the owner, from the policy alone."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Context, Decimal
from fractions import Fraction

from dpsql.ledger.clock import A_YEAR
from dpsql.policy.model import Budget
from dpsql.privacy.accounting import GAUSSIAN, gaussian_budget
from dpsql.privacy.gaussian import epsilon_of


def yearly(budget: Budget) -> Iterator[str]:
    """A sentence for each purse: w windows of (epsilon, delta) are (w epsilon, w delta)-DP; under Gaussian composition
    sqrt(w) mu-GDP but for w times the chance (see `clock`). Nothing where the budget is not renewed."""
    windows = A_YEAR[budget.renew]
    if windows == 1:
        return
    whose = "for each analyst " if budget.joint_epsilon is not None else ""
    yield _sentence(budget, windows, whose, budget.epsilon, budget.delta)
    if budget.joint_epsilon is not None:
        delta = budget.delta * budget.joint_epsilon / budget.epsilon
        yield _sentence(budget, windows, "for all analysts together ", budget.joint_epsilon, delta)


def _sentence(budget: Budget, windows: int, whose: str, epsilon: Fraction, delta: Fraction) -> str:
    start = f'renew = "{budget.renew}": a calendar year can have {windows} windows, {whose}worth'
    whole = windows * delta
    if budget.composition != GAUSSIAN:
        return f"{start} epsilon {_up(windows * epsilon)}" + (f" and delta {_up(whole)}" if delta else "")
    squared, _ = gaussian_budget(epsilon, delta)
    root = _up_root(windows * squared)
    if whole / 2 >= 1:
        return f"{start} mu {root}, and a delta of 1: no promise"
    year = epsilon_of(windows * squared, whole / 2)[1]
    return f"{start} mu {root} (the root of {windows} times that of one), or epsilon {_up(year)} and delta {_up(whole)}"


def _up(amount: Fraction) -> str:
    """Four digits, rounded up."""
    value = Context(prec=4, rounding="ROUND_CEILING").divide(Decimal(amount.numerator), Decimal(amount.denominator))
    value = value.normalize()
    return f"{value:f}" if -5 < value.adjusted() < 9 else str(value).lower()


def _up_root(amount: Fraction) -> str:
    context = Context(prec=30, rounding="ROUND_CEILING")
    ratio = context.divide(Decimal(amount.numerator), Decimal(amount.denominator))
    return _up(Fraction(context.next_plus(context.sqrt(ratio))))
