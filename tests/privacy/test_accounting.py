"""Amounts are exact, sums are exact, and what is no amount is refused."""

from __future__ import annotations

import math
import re
import tracemalloc
from decimal import Decimal
from fractions import Fraction
from time import process_time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dpsql.errors import ProgrammingError
from dpsql.privacy.accounting import DIGITS, LEAST, MOST, gaussian_budget, parse_amount, show_amount, split
from dpsql.privacy.gaussian import delta_of, epsilon_of, is_private, mu_squared_of_pure

amounts = st.builds(
    lambda digits, place: Fraction(digits) * Fraction(10) ** place,
    st.integers(1, 10**DIGITS - 1),
    st.integers(-DIGITS, 6),
).filter(lambda amount: LEAST <= amount <= MOST)
fractions = st.fractions(min_value=Fraction(1, 10**6), max_value=10**6)


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("0.1", Fraction(1, 10)),
        ("1", Fraction(1)),
        ("1e-6", Fraction(1, 10**6)),
        ("1E-6", Fraction(1, 10**6)),
        (".5", Fraction(1, 2)),
        ("5.", Fraction(5)),
        ("+2", Fraction(2)),
        (" 2 ", Fraction(2)),
        ("0012.50", Fraction(25, 2)),
        ("1e6", MOST),
        ("1000000", MOST),
        ("0." + "0" * 29 + "1", LEAST),
        ("0.1" + "0" * 80, Fraction(1, 10)),
        ("0.123456789012345678901234567891", Fraction(123456789012345678901234567891, 10**30)),
        (3, Fraction(3)),
        (10**6, MOST),
        (Decimal("0.25"), Fraction(1, 4)),
        (Decimal("1E+3"), Fraction(1000)),
        (0.1, Fraction(1, 10)),
        (1e-07, Fraction(1, 10**7)),
    ],
)
def test_read_exactly(written: str | int | float | Decimal, value: Fraction) -> None:
    assert parse_amount(written) == value


WRONG = [
    *("0", "-0", "0.0", "0e5", "-1", "-0.1", "nan", "NaN", "-nan", "snan", "inf", "-inf", "Infinity", "one", "ten", ""),
    *("1e308", "1e-400", "1e7", "1000000.1", "1e-31", "0.9e-30", "1e999999999999", "1e-999999999999", "9" * 99),
    *(
        "1_0",
        "1,5",
        "0x1",
        "1/3",
        "1e",
        "e1",
        ".",
        "1.2.3",
        "1 2",
        "--1",
        "٣",
        "½",
        "1\x00",
        "'1'",
        "1" * 31,
        "0" * 200,
    ),
    *(0, -1, 10**6 + 1, 10**5000, True, False, None, (1,), b"1", Fraction(1, 3)),
    *(0.0, -0.0, -1.5, 1e308, 1e-320, float("nan"), float("inf"), float("-inf")),
    *(Decimal(0), Decimal("-1"), Decimal("NaN"), Decimal("sNaN"), Decimal("Infinity"), Decimal("1e-999999")),
    *(Decimal("1e999999"), Decimal("0.1234567890123456789012345678901")),
]


@pytest.mark.parametrize("written", WRONG, ids=lambda written: "" if isinstance(written, int) else repr(written)[:20])
def test_refused(written: str) -> None:
    with pytest.raises(ProgrammingError) as caught:
        parse_amount(written, what="epsilon")
    assert caught.value.code == "DP120"
    assert "epsilon" in caught.value.reason
    assert len(str(caught.value)) < 200, "the text is not repeated at length"


def test_refusing_is_cheap_whatever_the_exponent() -> None:
    tracemalloc.start()
    began = process_time()
    for written in ("1e-999999999", "1e999999999", "1" * 10**6, Decimal("1e999999"), 10**100_000):
        with pytest.raises(ProgrammingError):
            parse_amount(written)
    assert process_time() - began < 1
    assert tracemalloc.get_traced_memory()[1] < 10**7
    tracemalloc.stop()


@given(amounts)
def test_shown_reads_back_as_the_same(amount: Fraction) -> None:
    shown = show_amount(amount)
    assert parse_amount(shown) == amount
    assert not re.search(r"\.\d*0(e|$)|\.(e|$)", shown), "no digit too many"


@given(st.fractions(min_value=-(10**6), max_value=10**6))
@example(Fraction(1, 3))
@example(Fraction(999_999_999, 3 * 10**8))
@example(Fraction(29_999_999_999, 3 * 10**10))
def test_shown_is_exact_or_marked_and_never_less(amount: Fraction) -> None:
    shown = show_amount(amount)
    marked = shown.startswith("≤")
    value = Fraction(shown.removeprefix("≤"))
    if marked:
        assert amount < value <= amount + abs(amount) / 10**5
    else:
        assert value == amount


@pytest.mark.parametrize(
    ("amount", "shown"),
    [
        (Fraction(0), "0"),
        (Fraction(1), "1"),
        (Fraction(1, 10), "0.1"),
        (Fraction(25, 2), "12.5"),
        (Fraction(1000), "1000"),
        (Fraction(10**7), "10000000"),
        (Fraction(1, 8), "0.125"),
        (Fraction(1, 10**4), "0.0001"),
        (Fraction(1, 10**6), "1e-6"),
        (Fraction(12, 10**7), "1.2e-6"),
        (Fraction(1, 3), "≤0.333334"),
        (Fraction(2, 3), "≤0.666667"),
        (Fraction(10, 3), "≤3.33334"),
        (Fraction(1, 3 * 10**6), "≤3.33334e-7"),
        (Fraction(29_999_999_999, 3 * 10**10), "≤1"),
        (Fraction(-1, 2), "-0.5"),
        (Fraction(-1, 3), "≤-0.333333"),
        (Fraction(1, 2**200), "≤6.22302e-61"),
    ],
)
def test_shown(amount: Fraction, shown: str) -> None:
    assert show_amount(amount) == shown


def test_huge_fractions_can_be_shown() -> None:
    assert show_amount(Fraction(1, 3 * 10**6000)) == "≤3.33334e-6001"
    assert len(show_amount(Fraction(10**6000))) == 6001


@given(fractions, st.lists(fractions | st.integers(1, 10**9), min_size=1, max_size=20))
def test_shares_sum_to_the_whole_and_keep_their_proportions(epsilon: Fraction, weights: list[Fraction | int]) -> None:
    shares = split(epsilon, weights)
    assert sum(shares) == epsilon
    assert all(share * weights[0] == shares[0] * weight for share, weight in zip(shares, weights, strict=True))


def test_an_even_split() -> None:
    assert split(Fraction(1), [1, 1, 1]) == (Fraction(1, 3),) * 3
    assert split(Fraction(1, 4), [Fraction(1, 2), Fraction(3, 2)]) == (Fraction(1, 16), Fraction(3, 16))


@pytest.mark.parametrize("weights", [[0], [1, 0], [1, -1, 5], [Fraction(-1, 2), 1]])
def test_a_weight_of_nothing_or_less_is_refused(weights: list[Fraction | int]) -> None:
    with pytest.raises(ProgrammingError, match="DP120"):
        split(Fraction(1), weights)


def test_a_split_of_nothing_is_our_own_error() -> None:
    for epsilon, weights in ((Fraction(0), [1]), (Fraction(-1), [1]), (Fraction(1), [])):
        with pytest.raises(ValueError, match="split"):
            split(epsilon, weights)


def joint(epsilons: list[Fraction], flips: int) -> list[float]:
    """The law of what an adaptive analyst sees who asks randomised response about one bit, and after each answer
    chooses the next epsilon: the first of the list after a 0, the last after a 1, until the budget of 2 is spent."""
    found: list[float] = []

    def ask(remaining: Fraction, last: int, chance: float) -> None:
        epsilon = epsilons[-last]
        if epsilon > remaining:
            found.append(chance)
            return
        truth = 1 / (1 + math.exp(-epsilon))
        for answer in (0, 1):
            ask(remaining - epsilon, answer, chance * (truth if answer == flips else 1 - truth))

    ask(Fraction(2), 0, 1.0)
    return found


def test_an_adaptive_analyst_learns_no_more_than_the_budget() -> None:
    """The induction of `accounting`, computed: the worst ratio over all that can be seen is e^2, and is reached."""
    zero, one = (joint([Fraction(1, 2), Fraction(1, 3)], bit) for bit in (0, 1))
    assert sum(zero) == pytest.approx(1)
    worst = max(max(a / b, b / a) for a, b in zip(zero, one, strict=True))
    assert worst == pytest.approx(math.exp(2))


# -- Gaussian composition


def views(budget: Fraction, first: Fraction, epsilons: list[Fraction], flips: int) -> list[float]:
    """As `joint`, where answers are charged the mu^2 of their epsilon and one is refused that no longer fits."""
    found: list[float] = []

    def ask(remaining: Fraction, last: int, chance: float) -> None:
        epsilon = first if last < 0 else epsilons[-last]
        if mu_squared_of_pure(epsilon) > remaining:
            found.append(chance)
            return
        truth = 1 / (1 + math.exp(-epsilon))
        for answer in (0, 1):
            share = truth if answer == flips else 1 - truth
            ask(remaining - mu_squared_of_pure(epsilon), answer, chance * share)

    ask(budget, -1, 1.0)
    return found


@pytest.mark.parametrize("epsilons", [["1/2", "1/2"], ["1/2", "1/4"], ["1/5", "1"]])
def test_an_adaptive_analyst_learns_no_more_than_mu(epsilons: list[str]) -> None:
    """The induction, computed: the amounts are chosen by the answers, and delta at every epsilon is within that of the
    budget's mu. At half the budget it is not, so the check would see a wrong sum."""
    budget = Fraction(3)
    zero, one = (views(budget, Fraction(1, 2), [Fraction(e) for e in epsilons], bit) for bit in (0, 1))
    assert sum(zero) == pytest.approx(1)

    def exceeds(mu_squared: Fraction) -> bool:
        spent = [
            (
                sum(max(a - math.exp(e) * b, 0.0) for a, b in zip(zero, one, strict=True)),
                Fraction(e).limit_denominator(9),
            )
            for e in (0, 0.5, 1, 1.5, 2, 3)
        ]
        return any(found > float(delta_of(mu_squared, e).high) + 1e-12 for found, e in spent)

    assert not exceeds(budget)
    assert exceeds(budget / 4)


def test_a_budget_is_split_between_mu_and_chances() -> None:
    mu_squared, deltas = gaussian_budget(Fraction(3), Fraction(1, 10**6))
    assert deltas == Fraction(1, 2 * 10**6)
    assert is_private(mu_squared, Fraction(3), Fraction(1, 10**6) - deltas)


OPTIMISTIC = [  # releases, epsilon of each, and what dp-accounting 0.6.0 says of them at least, at delta = 5e-7
    (1, "1", "0.999999"),
    (10, "0.2", "2.96463"),
    (100, "0.05", "2.52667"),
    (1000, "0.01", "1.51674"),
]


@pytest.mark.parametrize(("releases", "epsilon", "least"), OPTIMISTIC)
def test_never_below_the_optimistic_estimate_of_another_accountant(releases: int, epsilon: str, least: str) -> None:
    """A third each of discrete Laplace of sensitivity 4, of Gaussian noise of the same price, and of randomised
    response. (Privacy buckets of width 1e-4, pessimistic_estimate=False.) Nor much above it, for many."""
    total = releases * mu_squared_of_pure(Fraction(epsilon))
    _, found = epsilon_of(total, Fraction(1, 2 * 10**6))
    assert found >= Fraction(least)
    assert releases == 1 or found < Fraction(least) * Fraction(4, 3)


def test_the_other_accountant_says_so() -> None:
    """The table above, computed anew where the package is installed."""
    laws = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")
    width = {"value_discretization_interval": 1e-4, "pessimistic_estimate": False}
    for releases, epsilon, least in OPTIMISTIC:
        e, sigma = float(epsilon), 1 / math.sqrt(mu_squared_of_pure(Fraction(epsilon)))
        each = [
            laws.from_discrete_laplace_mechanism(e / 4, sensitivity=4, **width),
            laws.from_gaussian_mechanism(sigma, **width),
            laws.from_randomized_response(2 / (1 + math.exp(e)), 2, **width),
        ]
        total = None
        for i, law in enumerate(each):
            count = releases // 3 + (i < releases % 3)
            if count:
                part = law.self_compose(count)
                total = part if total is None else total.compose(part)
        assert total.get_epsilon_for_delta(5e-7) == pytest.approx(float(least), rel=1e-4)
