"""What releases cost together: basic and Gaussian composition, in Fractions, and amounts as people write them.

Promise: no float, no rounding: ten queries of 0.1 spend a budget of 1 exactly. Reading an amount accepts only what it
can keep exactly and refuses the rest; showing one never shows less than it is.
This module knows no account and no query: `ledger` remembers what was spent, the planner decides on what.

Why sums are enough. A session is an interaction: the analyst, who may be anybody's worst enemy and sees every earlier
answer, chooses a mechanism; it is run if its (e1, d1) is within what remains of (epsilon, delta), else refused; the
remainder shrinks by (e1, d1); and so on. Claim: all that the analyst sees is (epsilon, delta)-DP. Induction on the
number of answers still to come. None: the refusals depend on nothing private. Else let Y be the first answer, of an
(e1, d1)-DP mechanism, and Z the rest. For each y, Z given Y = y is an interaction with fewer answers and the remainder
(e2, d2) = (epsilon - e1, delta - d1): by induction it is (e2, d2)-DP, whatever the analyst does with y. So, with
' for the neighbour, S any event, S_y = {z : (y, z) in S} and g(y) = min(1, exp(e2) P'[Z in S_y | Y = y]):

    P[(Y, Z) in S] = E[ P[Z in S_Y | Y] ]  <=  E[g(Y)] + d2               (the rest is (e2, d2)-DP, and P <= 1)
                   <=  exp(e1) E'[g(Y)] + d1 + d2                         (g lies in [0, 1]; Y is (e1, d1)-DP)
                   <=  exp(e1 + e2) P'[(Y, Z) in S] + d1 + d2.

Charges are chosen from public knowledge only (the text, the policy, earlier answers), so being charged or refused
tells nothing more. (Dwork, Kenthapadi, McSherry, Mironov, Naor, Our data, ourselves, 2006, for the sums; Rogers, Roth,
Ullman, Vadhan, Privacy odometers and filters, 2016, for mechanisms and amounts chosen on the way.)
The same argument serves within one statement: its slots are mechanisms of epsilon_i each, which sum to its epsilon.

More epsilon for an old answer, under basic composition. An answer with discrete Laplace noise that was charged e1 may
once be followed by a finer one, drawn given it (`refinement`), for e2 - e1; and this by a finer one still. Given the
first answer, the second may tell more than e2 - e1, so that the induction above does not hold. What does hold is the
product along each way that the interaction takes. Let it be at most (epsilon, delta) that is charged on each way. For
every other step, charged (e, d), of the laws Q and Q' given what was seen, let m be the lesser of Q and exp(e) Q',
point by point. It has at least the mass 1 - d, since Q[S] <= exp(e) Q'[S] + d for the S where Q is larger. In the law P
of all that is seen put m for Q in each such step. What is lost is at most the expected sum of the d's on the way, and
so delta. What is left has on each way at most the density of P' times exp(e) for each such step, and for the answers
of each chain, whose steps multiply to the law of its last answer and of the others given that, times exp(e_k) where
that was worth e_k: the sum of what was charged for the chain. Together that is exp(epsilon) at most. So

    P[S] <= exp(epsilon) P'[S] + delta.

(A statement may refine, and have normal noise or decide on keys as well. Then Q and Q' are the laws of the whole of it
with the one and the other data behind these, but with the data of P behind the finer answers: against that, they answer
by some fixed random rule, as `compile/pricing` says of all that is pure, and so (e, d) is the price of the rest.)

The steps of a chain multiply to that because each follows the one before it, and only once: that is what the ledger
keeps. All of them count towards one sum: where a budget is renewed, a finer answer is charged in full.

Gaussian composition. A charge is (m, d): the mechanism is mu-GDP with mu^2 = m (see `gaussian`) but for a chance of d;
it is run if m and d are within what remains, and both are subtracted. Exactly, "mu-GDP but for d" says of the laws A
and A' on every two neighbours that A = (1-d) B + d R and A' = (1-d) B' + d R' for some laws, with (B, B') mu-GDP. An
(e, d)-DP mechanism is so for mu^2 = mu_squared_of_pure(e): with B and B' that are e-DP (Kairouz, Oh, Viswanath, The
composition theorem for differential privacy, 2015, theorem 3.1 and its proof; Murtagh, Vadhan 2016, lemma 3.2), and
every e-DP pair is mu-GDP. Claim: all that the analyst sees, with (m, d) remaining, is sqrt(m)-GDP but for d. Induction
on the number of answers still to come. None: nothing depends on anything private. Else let Y be the first answer,
charged (m1, d1), and Z the rest. Given Y = y, Z is an interaction with fewer answers and the remainder (m2, d2) = (m -
m1, d - d1), whatever y is: by induction its laws are (1-d2) B_y + d2 R_y and the like, with (B_y, B'_y) sqrt(m2)-GDP
for every y. So the law of (Y, Z) is, with weight (1-d1)(1-d2) >= 1 - d, that of Y from B and then Z from B_Y, and the
same of the neighbour. These two are sqrt(m1)-GDP, then sqrt(m2)-GDP for every value of the first: together they are
sqrt(m1 + m2)-GDP (Dong, Roth, Su, Gaussian differential privacy, theorem 3.2 and corollary 3.3, for mechanisms that may
depend on earlier outputs; what an output must not decide is m2, and it does not). That is the claim. It follows, for
every event,

    A[S] <= (1-d) B[S] + d <= (1-d) (e^epsilon B'[S] + delta_mu(epsilon)) + d
                           <= e^epsilon A'[S] + delta_mu(epsilon) + d.

An account of (epsilon, delta) opens with the largest m for which delta_mu(epsilon) is at most delta/2, and with d =
delta/2. (Filters of this kind: Feldman, Zrnic 2021; Koskela, Tobaben, Honkela 2023; Smith, Thakurta 2022.)
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from dpsql.errors import Error, refusal
from dpsql.privacy.gaussian import mu_squared_for

MOST = Fraction(10**6)
"""Above this an epsilon promises nothing: it is a slip of the pen, or an attempt."""
LEAST = Fraction(1, 10**30)
DIGITS = 30
"""Significant digits that an amount may have, so that sums, scales and the ledger stay of a size."""

_SHOWN = 6  # significant digits of an amount that is no finite decimal
_DECIMAL = re.compile(r"([+-]?)(?=\.?[0-9])([0-9]*)(?:\.([0-9]*))?(?:[eE]([+-]?[0-9]+))?")


BASIC, GAUSSIAN = "basic", "gaussian"
"""How the charges of an account add up."""


NOTHING = Fraction(0)


@dataclass(frozen=True, slots=True)
class Price:
    """What adds up: epsilon and delta, and mu_squared under Gaussian composition (else 0)."""

    epsilon: Fraction = NOTHING
    delta: Fraction = NOTHING
    mu_squared: Fraction = NOTHING

    def __add__(self, other: Price) -> Price:
        return Price(self.epsilon + other.epsilon, self.delta + other.delta, self.mu_squared + other.mu_squared)

    @property
    def amounts(self) -> tuple[Fraction, Fraction, Fraction]:
        return self.epsilon, self.delta, self.mu_squared

    def __bool__(self) -> bool:
        return any(self.amounts)

    def exceeds(self, other: Price) -> bool:
        """Whether any amount of it is more than that of the other."""
        return any(mine > theirs for mine, theirs in zip(self.amounts, other.amounts, strict=True))


def gaussian_budget(epsilon: Fraction, delta: Fraction) -> tuple[Fraction, Fraction]:
    """What an account of (epsilon, delta) may spend under Gaussian composition: mu^2, and chances of failure."""
    return mu_squared_for(epsilon, delta / 2), delta / 2


def split(epsilon: Fraction, weights: Sequence[Fraction | int]) -> tuple[Fraction, ...]:
    """Shares of epsilon in proportion to the weights; they sum to epsilon exactly. Every weight is above 0."""
    if epsilon <= 0 or not weights:
        raise ValueError("an epsilon above 0 is split over one share or more")
    if any(weight <= 0 for weight in weights):
        # A share of 0 would be noise without end, one below 0 would let others spend more than epsilon.
        raise refusal("DP120", "every weight must be above 0", repair="leave out what is to get nothing")
    whole = sum(map(Fraction, weights), Fraction(0))
    return tuple(epsilon * weight / whole for weight in weights)


def parse_amount(text: str | int | float | Decimal, *, what: str = "an amount") -> Fraction:
    """The exact value of a decimal number in [1e-30, 1e6] with at most 30 significant digits; else refused (DP120).

    A float stands for the shortest decimal that it prints as: 0.1 is one tenth, not 0.1000000000000000055... .
    """
    # Nothing is computed from a number before its size is known: 1e-999999999 has a billion digits as a Fraction.
    if isinstance(text, int) and not isinstance(text, bool):
        if not 0 < text <= MOST:
            raise _out_of_range(what)
        return Fraction(text)
    written = text.strip() if isinstance(text, str) else str(text) if isinstance(text, Decimal) else repr(text)
    found = _DECIMAL.fullmatch(written) if len(written) <= 100 else None
    if found is None:
        raise refusal("DP120", f"{what} must be a plain decimal number", repair='write it like 0.5 or "1e-6"')
    sign, before, after, exponent = found[1], found[2], found[3] or "", int(found[4] or 0)
    digits = (before + after).lstrip("0")
    exponent += len(digits) - len(digits.rstrip("0")) - len(after)
    digits = digits.rstrip("0")
    if len(digits) > DIGITS:
        raise refusal("DP120", f"{what} has more than {DIGITS} significant digits", repair="round it")
    if sign == "-" or not digits or abs(exponent) > 2 * DIGITS:  # 30 digits cannot bring such an exponent into range
        raise _out_of_range(what)
    value = Fraction(int(digits)) * Fraction(10) ** exponent
    if not LEAST <= value <= MOST:
        raise _out_of_range(what)
    return value


def show_amount(amount: Fraction) -> str:
    """The shortest decimal that is exactly `amount`; where no 30 digits are, one rounded up, after a "≤".

    What is not marked reads back as the same amount.
    """
    if amount == 0:
        return "0"
    sign = "-" if amount < 0 else ""
    place = _leading_place(abs(amount)) - DIGITS + 1
    exact = abs(amount) / Fraction(10) ** place
    if exact.denominator == 1:
        return sign + _positional(exact.numerator, place)
    place += DIGITS - _SHOWN
    return f"≤{sign}{_positional(abs(math.ceil(amount / Fraction(10) ** place)), place)}"


def _out_of_range(what: str) -> Error:
    return refusal("DP120", f"{what} must be above 0, at least 1e-30 and at most 1000000", repair="write 0.1")


def _leading_place(amount: Fraction) -> int:
    """The e with 10^e <= amount < 10^(e+1)."""
    # Sizes in bits bound it from above, without writing out integers that may have thousands of digits.
    e = math.floor((amount.numerator.bit_length() - amount.denominator.bit_length() + 1) * math.log10(2))
    while Fraction(10) ** e > amount:
        e -= 1
    return e


def _positional(digits: int, place: int) -> str:
    """digits times 10^place, without trailing zeros; with an exponent below 0.0001, as people write a delta."""
    text = str(digits)
    short = text.rstrip("0")
    place += len(text) - len(short)
    if place >= 0:
        return short + "0" * place
    lead = len(short) + place  # digits before the point
    if lead > 0:
        return f"{short[:lead]}.{short[lead:]}"
    if lead > -4:
        return f"0.{'0' * -lead}{short}"
    return f"{short[0]}{'.' if short[1:] else ''}{short[1:]}e{lead - 1}"
