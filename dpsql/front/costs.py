"""Prices before they are charged, in words, and whether one is worth a question."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from dpsql.front.cells import UNICODE, Signs
from dpsql.front.numerals import amount, grouped, noised

if TYPE_CHECKING:
    from dpsql.ledger import Balance, Price


def priced(price: Price, signs: Signs = UNICODE) -> str:
    """`ε = 0.25, δ = 1e-7`, rounded up."""
    names = (signs.epsilon, signs.delta, signs.mu_squared)
    parts = [f"{name} = {amount(each, up=True)}" for name, each in zip(names, price.amounts, strict=True) if each]
    return ", ".join(parts) or "nothing"


def would_cost(price: Price, left: Balance, signs: Signs = UNICODE) -> str:
    """What a statement would cost, and what would be left."""
    if not price:
        return f"free; left {_left(left, signs)}"
    if not left.allows(price):
        return f"would cost {priced(price, signs)}: more than is left, {_left(left, signs)}"
    text = f"would cost {priced(price, signs)}"
    if left.composition == "basic":
        text += f"; then left {signs.epsilon} = {amount(left.remaining_epsilon - price.epsilon)}"
        return text + f" of {amount(left.epsilon)}"
    return text + f"; left {_left(left, signs)}"


def question(price: Price, left: Balance, share: str, signs: Signs = UNICODE) -> str | None:
    """What to ask before a statement of this price, or None: where it takes no more than that share of any amount that
    is left, and where the ledger will refuse it anyway. share: "0.25", or "off"."""
    if share == "off" or not price or not left.allows(price):
        return None
    gaussian = left.composition != "basic"
    pairs = (
        (price.delta, left.remaining_delta),
        (price.mu_squared, left.remaining_mu_squared) if gaussian else (price.epsilon, left.remaining_epsilon),
    )
    if all(part <= Fraction(share) * whole for part, whole in pairs):
        return None
    return f"This costs {priced(price, signs)}, and {_left(left, signs)} is left. Run it? [y/N] "


def half_width(width: float, signs: Signs = UNICODE) -> str:
    """`± 83,900`; whole where it is whole."""
    shown = noised(0, width, 0 if width.is_integer() else None)[1]
    return f"{signs.plus_minus} {grouped(shown).replace('∞', signs.infinity)}"


def _left(left: Balance, signs: Signs) -> str:
    text = f"{signs.epsilon} = {amount(left.remaining_epsilon)}"
    return text + (f", {signs.delta} = {amount(left.remaining_delta)}" if left.delta else "")
