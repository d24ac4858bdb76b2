"""Amounts of an account: what it allows, what is spent, what is left, and whether a charge still fits."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Context, Decimal
from fractions import Fraction

from dpsql.errors import Error, refusal
from dpsql.privacy.accounting import BASIC, GAUSSIAN
from dpsql.privacy.gaussian import epsilon_of, largest_pure


@dataclass(frozen=True, slots=True)
class Balance:
    """What an account allows, what is spent and what is left; `statements` counts the charges.

    Under Gaussian composition it is mu_squared that adds up. The epsilons say what that comes to at half of the
    account's delta: spent rounded up, remaining rounded down, and they do not add up to the whole. The other half of
    delta counts as spent from the beginning: it is what the epsilons stand at."""

    epsilon: Fraction
    delta: Fraction
    spent_epsilon: Fraction
    spent_delta: Fraction
    remaining_epsilon: Fraction
    remaining_delta: Fraction
    statements: int
    composition: str = BASIC
    mu_squared: Fraction = Fraction(0)
    spent_mu_squared: Fraction = Fraction(0)

    @property
    def remaining_mu_squared(self) -> Fraction:
        return max(self.mu_squared - self.spent_mu_squared, Fraction(0))


@dataclass(frozen=True, slots=True)
class Charge:
    """One statement's price. `statement`: its canonical text. `policy`: the policy's digest. mu_squared: above 0 under
    Gaussian composition, and 0 under basic."""

    epsilon: Fraction
    delta: Fraction
    statement: str
    fingerprint: str
    snapshot: str
    policy: str
    mu_squared: Fraction = Fraction(0)


@dataclass(frozen=True, slots=True)
class State:
    """The row of a purse and its account."""

    composition: str
    epsilon: Fraction
    delta: Fraction
    mu_squared: Fraction
    spent_epsilon: Fraction
    spent_delta: Fraction
    spent_mu_squared: Fraction
    statements: int
    failures: int
    closed: bool

    def allows(self, charge: Charge) -> bool:
        """Whether the charge is within what is left."""
        delta = self.spent_delta + charge.delta
        if self.composition == GAUSSIAN:
            return delta <= self.delta / 2 and self.spent_mu_squared + charge.mu_squared <= self.mu_squared
        return delta <= self.delta and self.spent_epsilon + charge.epsilon <= self.epsilon

    @property
    def remaining_mu_squared(self) -> Fraction:
        return max(self.mu_squared - self.spent_mu_squared, Fraction(0))

    @property
    def remaining_delta(self) -> Fraction:
        allowed = self.delta / 2 if self.composition == GAUSSIAN else self.delta
        return max(allowed - self.spent_delta, Fraction(0))

    @property
    def balance(self) -> Balance:
        """Takes some milliseconds under Gaussian composition: not to be asked for while others wait for the file."""
        spent, left = self.spent_epsilon, max(self.epsilon - self.spent_epsilon, Fraction(0))
        if self.composition == GAUSSIAN:
            spent = epsilon_of(self.spent_mu_squared, self.delta / 2)[1]
            left = min(epsilon_of(self.remaining_mu_squared, self.delta / 2)[0], self.epsilon)
        return Balance(
            self.epsilon,
            self.delta,
            spent,
            self.delta - self.remaining_delta,
            left,
            self.remaining_delta,
            self.statements,
            self.composition,
            self.mu_squared,
            self.spent_mu_squared,
        )


def exhausted(charge: Charge, state: State) -> Error:
    """The refusal (DP401) of a charge that is more than what is left."""
    amount, what, left = charge.epsilon, "epsilon", max(state.epsilon - state.spent_epsilon, Fraction(0))
    most = left
    if state.composition == GAUSSIAN:
        amount, what, left = charge.mu_squared, "mu^2", state.remaining_mu_squared
        most = largest_pure(left) if amount > left > 0 else Fraction(0)
    asked, remaining = f"{what} {_shown(amount)}", f"{what} {_shown(left)}"
    if charge.delta:
        asked += f" and delta {_shown(charge.delta)}"
        remaining += f" and delta {_shown(state.remaining_delta)}"
    repair = "the data owner can raise epsilon in the policy's [budget]"
    if amount > left > 0:
        repair = f"SET epsilon = {_shown(most).removeprefix('about ')} or less; or {repair}"
    elif amount <= left:
        repair = "ask for what needs no delta: SET mechanism = laplace, and groups whose keys are public"
    return refusal("DP401", f"the statement asks for {asked}; what is left is {remaining}", repair=repair)


def _shown(amount: Fraction) -> str:
    """At most 9 digits, rounded down, so that what is shown as left is there."""
    context = Context(prec=9, rounding="ROUND_DOWN")
    value = context.divide(Decimal(amount.numerator), Decimal(amount.denominator)).normalize()
    text = f"{value:f}" if -7 < value.adjusted() < 9 else str(value)
    return text if Fraction(value) == amount else f"about {text}"
