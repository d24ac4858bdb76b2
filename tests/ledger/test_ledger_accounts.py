"""Accounts: their terms, their sources, their purses, and the owner's two commands."""

from __future__ import annotations

from fractions import Fraction

import pytest

from dpsql.errors import BudgetError
from tests.ledger.conftest import stored


def refused(code, action):
    with pytest.raises(BudgetError) as caught:
        action()
    assert caught.value.code == code
    return caught.value


def test_spending_outlives_the_session(account, charge):
    for number in range(10):
        ledger = account()
        assert ledger.balance().statements == number
        ledger.charge(charge())
        ledger.close()
    refused("DP401", lambda: account().charge(charge()))


@pytest.mark.parametrize(
    ("terms", "words"),
    [
        ({"unit": "person"}, 'unit "household", not "person"'),
        ({"composition": "gaussian"}, 'composition "basic", not "gaussian"'),
        ({"delta": Fraction(0)}, "delta 1/1000000, not 0"),
        ({"analyst": "a"}, "a budget for all analysts, not per analyst"),
    ],
)
def test_other_terms_are_refused_with_the_command_to_use(account, charge, terms, words):
    account().charge(charge())
    error = refused("DP404", lambda: account(**terms))
    assert words in error.reason
    assert "dpsql budget open --new" in error.repair
    assert account().balance().statements == 1


def test_a_changed_epsilon_keeps_what_was_spent(account, charge):
    first = account()
    first.charge(charge("9/10"))
    raised = account(epsilon=Fraction(2))
    assert raised.balance().remaining_epsilon == Fraction(11, 10)
    raised.charge(charge("1"))
    lowered = account(epsilon=Fraction(1))
    balance = lowered.balance()
    assert (balance.epsilon, balance.spent_epsilon, balance.remaining_epsilon) == (1, Fraction(19, 10), 0)
    refused("DP401", lambda: first.charge(charge("1/1000")))  # sessions that are open already are bound too


def test_a_source_spends_from_one_account(account):
    account(sources=("/data/a", "/data/b"))
    error = refused("DP404", lambda: account("copy", sources=("/data/new", "/data/b")))
    assert "/data/b" in error.reason
    assert '"shop"' in error.reason
    assert "/data/a" not in str(error)
    account("copy", sources=("/data/new",))  # the refused attempt took nothing
    account(sources=("/data/c",))  # an account gains sources as its policy grows
    refused("DP404", lambda: account("copy", sources=("/data/c",)))


def test_open_new_starts_afresh_and_the_old_spending_stays_on_record(account, charge, path):
    old = account()
    old.finish(old.charge(charge("1")), {"f": b"noisy"})
    new = account(new=True, unit="person")
    assert (new.balance().spent_epsilon, new.balance().remaining_epsilon) == (0, 1)
    assert stored(new, "f", "s") is None
    assert old.balance().spent_epsilon == 1
    refused("DP404", lambda: old.charge(charge("1/100")))
    refused("DP404", account)  # the old terms are no longer those of the account
    new.charge(charge("1"))
    refused("DP401", lambda: account(unit="person").charge(charge("1/100")))
    new.verify()


def test_open_new_takes_sources_over_and_stops_who_spent_from_them(account, charge):
    first = account("first", sources=("/data/a", "/data/b"))
    second = account("second", sources=("/data/b",), new=True)
    refused("DP404", lambda: first.charge(charge()))
    refused("DP404", lambda: account("first", sources=("/data/a", "/data/b")))
    second.charge(charge())
    account("first", sources=("/data/a",)).charge(charge())


def test_purses_of_analysts_are_apart(account, charge):
    one, two = account(analyst="one"), account(analyst="two")
    one.finish(one.charge(charge("1")), {"f": b"noisy"})
    assert two.balance().spent_epsilon == 0
    assert stored(two, "f", "s") is None  # an answer that another purse paid for would be a free look
    refused("DP401", lambda: account(analyst="one").charge(charge()))
    two.charge(charge("1"))
    refused("DP404", lambda: account(analyst=None))
    account(analyst="one", new=True)
    refused("DP404", lambda: two.charge(charge()))


def test_a_newly_opened_account_is_not_frozen(account, charge):
    ledger = account()
    for _ in range(3):
        ledger.fail(ledger.charge(charge()))
    account(new=True).charge(charge())
    refused("DP404", lambda: ledger.charge(charge()))


def test_one_file_holds_many_accounts(account, charge):
    for number in range(20):
        ledger = account(f"account {number}", sources=(f"/data/{number}",))
        ledger.charge(charge(Fraction(1, number + 1)))
        assert ledger.balance().spent_epsilon == Fraction(1, number + 1)
    ledger.verify()
