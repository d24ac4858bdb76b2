"""Amounts of an account: what it allows, what is spent, what is left, and whether a charge still fits."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Context, Decimal
from fractions import Fraction

from dpsql.errors import Error, refusal
from dpsql.ledger.clock import shown
from dpsql.privacy.accounting import BASIC, GAUSSIAN, NOTHING, Price
from dpsql.privacy.gaussian import epsilon_of, largest_pure


@dataclass(frozen=True, slots=True)
class Balance:
    """What an account allows, what is spent and what is left; `statements` counts the charges.

    Under Gaussian composition it is mu_squared that adds up. The epsilons say what that comes to at half of the
    account's delta: spent rounded up, remaining rounded down, and they do not add up to the whole. The other half of
    delta counts as spent from the beginning: it is what the epsilons stand at.

    Where the account is renewed, all but `statements` speak of the present window, and `renews` says when the next one
    begins (seconds since 1970, by the ledger's clock). analyst: whose purse, '' for the one of all together.
    last: the price of the last statement that was charged; more_like_last: how many more at that price fit."""

    epsilon: Fraction
    delta: Fraction
    spent_epsilon: Fraction
    spent_delta: Fraction
    remaining_epsilon: Fraction
    remaining_delta: Fraction
    statements: int
    composition: str = BASIC
    mu_squared: Fraction = NOTHING
    spent_mu_squared: Fraction = NOTHING
    analyst: str = ""
    renew: str = "never"
    renews: int | None = None
    last: Price | None = None
    more_like_last: int | None = None

    @property
    def remaining_mu_squared(self) -> Fraction:
        return max(self.mu_squared - self.spent_mu_squared, NOTHING)

    def allows(self, price: Price) -> bool:
        """Whether the price is within what is left."""
        if self.composition == GAUSSIAN:
            within = price.mu_squared <= self.remaining_mu_squared
        else:
            within = price.epsilon <= self.remaining_epsilon
        return within and price.delta <= self.remaining_delta


def renewal(balance: Balance) -> str:
    """When the account is renewed, in words."""
    return "never" if balance.renews is None else shown(balance.renews)


@dataclass(frozen=True, slots=True)
class Charge:
    """One statement's price. `statement`: as it was asked, and what ran. `policy`: the policy's digest. mu_squared:
    above 0 under Gaussian composition, and 0 under basic.

    joint: where each analyst has a purse, the part of the price that is for answers which no purse of the account has
    paid for; None for all of it. See `accounts` for why the rest is charged to the analyst and not to all together.
    refines: the fingerprints of stored answers given which finer ones are drawn, for the difference."""

    epsilon: Fraction
    delta: Fraction
    statement: str
    fingerprint: str
    snapshot: str
    policy: str
    mu_squared: Fraction = NOTHING
    joint: Price | None = None
    refines: tuple[str, ...] = ()

    @property
    def price(self) -> Price:
        return Price(self.epsilon, self.delta, self.mu_squared)


class AlreadyRefined(Exception):
    """What a charge is to refine was refined by another one, and can be no more: nothing was charged."""


@dataclass(frozen=True, slots=True)
class Kept:
    """A stored answer. refined: whether a charge was made for a finer one given it, so that none is made again."""

    fingerprint: str
    answer: bytes
    refined: bool


@dataclass(frozen=True, slots=True)
class Paid:
    """One charge of a purse. at: when (seconds since 1970). statement: as `Charge` has it. state: "answered", "failed",
    or "asked" where the answer never came."""

    at: int
    price: Price
    statement: str
    state: str


@dataclass(frozen=True, slots=True)
class State:
    """What a purse may spend in a window, `allowed`, and has spent in this one. closed: whether another account has
    taken the place of this one."""

    composition: str
    allowed: Price
    spent: Price
    statements: int
    closed: bool

    @property
    def allowed_delta(self) -> Fraction:
        return self.allowed.delta / 2 if self.composition == GAUSSIAN else self.allowed.delta

    def allows(self, price: Price) -> bool:
        """Whether the price is within what is left."""
        after = self.spent + price
        if self.composition == GAUSSIAN:
            within = after.mu_squared <= self.allowed.mu_squared
        else:
            within = after.epsilon <= self.allowed.epsilon
        return within and after.delta <= self.allowed_delta

    @property
    def remaining(self) -> Price:
        """What is left of each amount."""
        return Price(
            max(self.allowed.epsilon - self.spent.epsilon, NOTHING),
            max(self.allowed_delta - self.spent.delta, NOTHING),
            max(self.allowed.mu_squared - self.spent.mu_squared, NOTHING),
        )

    def more_like(self, price: Price) -> int:
        """How many statements of this price fit, one after the other."""
        left = self.remaining
        pairs = [(left.delta, price.delta)]
        pairs.append(
            (left.mu_squared, price.mu_squared) if self.composition == GAUSSIAN else (left.epsilon, price.epsilon)
        )
        return min(rest // each for rest, each in pairs if each)

    def balance(
        self, *, analyst: str = "", renew: str = "never", renews: int | None = None, last: Price | None = None
    ) -> Balance:
        """Takes some milliseconds under Gaussian composition: not to be asked for while others wait for the file."""
        allowed, spent, rest = self.allowed, self.spent.epsilon, self.remaining
        left = rest.epsilon
        if self.composition == GAUSSIAN:
            spent = epsilon_of(self.spent.mu_squared, allowed.delta / 2)[1]
            left = min(epsilon_of(rest.mu_squared, allowed.delta / 2)[0], allowed.epsilon)
        return Balance(
            epsilon=allowed.epsilon,
            delta=allowed.delta,
            spent_epsilon=spent,
            spent_delta=allowed.delta - rest.delta,
            remaining_epsilon=left,
            remaining_delta=rest.delta,
            statements=self.statements,
            composition=self.composition,
            mu_squared=allowed.mu_squared,
            spent_mu_squared=self.spent.mu_squared,
            analyst=analyst,
            renew=renew,
            renews=renews,
            last=last,
            more_like_last=None if last is None else self.more_like(last),
        )


RAISE = "the data owner can raise epsilon in the policy's [budget]"


def exhausted(price: Price, state: State, renewed: str = "") -> Error:
    """The refusal (DP401) of a charge that is more than what is left. renewed: what is said of the next window."""
    amount, what, left = price.epsilon, "epsilon", state.remaining.epsilon
    most = left
    if state.composition == GAUSSIAN:
        amount, what, left = price.mu_squared, "mu^2", state.remaining.mu_squared
        most = largest_pure(left) if amount > left > 0 else NOTHING
    asked, remaining = f"{what} {_shown(amount)}", f"{what} {_shown(left)}"
    if price.delta:
        asked += f" and delta {_shown(price.delta)}"
        remaining += f" and delta {_shown(state.remaining.delta)}"
    repair = f"{renewed}; or {RAISE}" if renewed else RAISE
    if amount > left > 0:
        repair = f"SET epsilon = {_shown(most).removeprefix('about ')} or less; or {repair}"
    elif amount <= left:
        repair = "ask for what needs no delta: SET mechanism = laplace, and groups whose keys are public"
    return refusal("DP401", f"the statement asks for {asked}; what is left is {remaining}", repair=repair)


def exhausted_together(renewed: str = "") -> Error:
    """The refusal (DP401) where all analysts together have spent what they may. It names no amount: what others have
    spent may hang on what they were answered."""
    repair = "a smaller epsilon may still fit; or the data owner can raise joint_epsilon in the policy's [budget]"
    reason = "all analysts of this account together have less left than this statement asks for"
    return refusal("DP401", reason, repair=f"{renewed}; or {repair}" if renewed else repair)


def unfinished(how: str = "could not be finished") -> Error:
    """What is said (DP501) of a statement that was charged and has no answer."""
    return refusal("DP501", f"the statement {how}; its charge stays")


def _shown(amount: Fraction) -> str:
    """At most 9 digits, rounded down, so that what is shown as left is there."""
    context = Context(prec=9, rounding="ROUND_DOWN")
    value = context.divide(Decimal(amount.numerator), Decimal(amount.denominator)).normalize()
    text = f"{value:f}" if -7 < value.adjusted() < 9 else str(value)
    return text if Fraction(value) == amount else f"about {text}"
