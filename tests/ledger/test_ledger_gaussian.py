"""Accounts of Gaussian composition: mu^2 adds up, half of delta is set aside, and epsilons say what it comes to."""

from __future__ import annotations

from fractions import Fraction

import pytest

from dpsql.errors import BudgetError, InternalError
from dpsql.ledger import Charge
from dpsql.privacy.accounting import gaussian_budget
from dpsql.privacy.gaussian import is_private, mu_squared_of_pure

TERMS = {"epsilon": Fraction(3), "delta": Fraction(1, 10**6), "composition": "gaussian"}
MU_SQUARED, DELTAS = gaussian_budget(Fraction(3), Fraction(1, 10**6))


BASIC = Charge(Fraction(1, 4), Fraction(0), "SELECT 1", "f", "s", "p")


def charge(epsilon: str, delta: str = "0") -> Charge:
    amount = Fraction(epsilon)
    return Charge(amount, Fraction(delta), "SELECT 1", "f", "s", "p", mu_squared_of_pure(amount))


def test_mu_squared_adds_up_and_says_what_it_comes_to(account):
    ledger = account(**TERMS)
    fresh = ledger.balance()
    assert (fresh.spent_epsilon, fresh.spent_delta, fresh.remaining_delta) == (0, DELTAS, DELTAS)
    assert Fraction(299999, 100000) < fresh.remaining_epsilon <= 3
    for _ in range(10):
        ledger.charge(charge("1/20"))
    balance = ledger.balance()
    assert balance.spent_mu_squared == 10 * mu_squared_of_pure(Fraction(1, 20))
    assert balance.remaining_mu_squared == MU_SQUARED - balance.spent_mu_squared
    assert is_private(balance.spent_mu_squared, balance.spent_epsilon, DELTAS)
    assert not is_private(balance.remaining_mu_squared, balance.remaining_epsilon, DELTAS)
    assert balance.statements == 10
    ledger.verify()


def test_the_budget_is_never_passed_and_more_small_statements_fit_than_their_sum(account):
    ledger = account(**TERMS)
    for _ in range(101):  # of which basic composition allows 60
        ledger.charge(charge("1/20"))
    with pytest.raises(BudgetError) as caught:
        ledger.charge(charge("1/20"))
    assert caught.value.code == "DP401"
    assert caught.value.reason.startswith("the statement asks for mu^2 about 0.0039")
    assert ledger.balance().spent_mu_squared <= MU_SQUARED


def test_the_repair_fits(account):
    ledger = account(**TERMS)
    ledger.charge(charge("2/5"))
    with pytest.raises(BudgetError) as caught:
        ledger.charge(charge("2/5"))
    words = caught.value.repair.split()
    assert words[:3] == ["SET", "epsilon", "="]
    ledger.charge(charge(words[3]))
    assert ledger.balance().remaining_mu_squared < MU_SQUARED / 10**6


def test_chances_have_half_of_delta(account):
    ledger = account(**TERMS)
    ledger.charge(charge("1/100", "1/2000000"))
    with pytest.raises(BudgetError) as caught:
        ledger.charge(charge("1/100", "1/10000000"))
    repair = "ask for what needs no delta: SET mechanism = laplace, and groups whose keys are public"
    assert caught.value.repair == repair
    assert ledger.balance().remaining_delta == 0
    ledger.charge(charge("1/100"))


def test_a_charge_is_counted_as_its_account_counts(account):
    without = Charge(Fraction(1, 10), Fraction(0), "SELECT 1", "f", "s", "p")
    with pytest.raises(InternalError, match="another composition"):
        account(**TERMS).charge(without)
    with pytest.raises(InternalError, match="another composition"):
        account("basic", sources=("/b",)).charge(charge("1/10"))
    with pytest.raises(InternalError, match="composition"):
        account("pure", **{**TERMS, "delta": Fraction(0), "sources": ("/c",)})


def test_a_changed_epsilon_keeps_what_was_spent(account):
    account(**TERMS).charge(charge("1/5"))
    more = account(**{**TERMS, "epsilon": Fraction(4)}).balance()
    assert more.mu_squared == gaussian_budget(Fraction(4), Fraction(1, 10**6))[0] > MU_SQUARED
    assert more.spent_mu_squared == mu_squared_of_pure(Fraction(1, 5))
