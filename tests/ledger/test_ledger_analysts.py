"""A purse for each analyst: each one's view within its own budget, all views together within the joint one."""

from __future__ import annotations

from fractions import Fraction

import pytest

from dpsql.errors import BudgetError, Error
from dpsql.ledger import Price
from dpsql.ledger.balance import NOTHING
from tests.ledger.conftest import stored

KNOWN = Price()


def refused(code, action):
    with pytest.raises(Error) as caught:
        action()
    assert caught.value.code == code
    return caught.value


def test_each_has_a_budget_and_all_together_have_one(account, charge):
    names = ("ann", "bob", "cem")
    ann, bob, cem = (account(analyst=name, joint_epsilon=Fraction(2)) for name in names)
    ann.charge(charge("1"))
    refused("DP401", lambda: ann.charge(charge("1/100")))
    bob.charge(charge("3/4"))
    error = refused("DP401", lambda: cem.charge(charge("1/2")))
    assert "together" in error.reason
    assert not any(sign.isdigit() for sign in error.reason), "an amount would tell what others spend"
    cem.charge(charge("1/4"))
    refused("DP401", lambda: bob.charge(charge("1/100")))
    joint = account(analyst=None, joint_epsilon=Fraction(2)).balance()
    assert (joint.epsilon, joint.spent_epsilon) == (2, 2)
    ann.verify()


def test_delta_is_shared_in_proportion(account, charge):
    terms = {"joint_epsilon": Fraction(3), "epsilon": Fraction(2), "delta": Fraction(1, 100)}
    ann, bob = account(analyst="ann", **terms), account(analyst="bob", **terms)
    ann.charge(charge("1/100", "1/100"))
    refused("DP401", lambda: ann.charge(charge("1/100", "1/10000")))
    assert "together" in refused("DP401", lambda: bob.charge(charge("1/100", "3/400"))).reason
    bob.charge(charge("1/100", "1/200"))
    assert account(analyst=None, **terms).balance().delta == Fraction(3, 200)


def test_an_answer_that_another_paid_for_is_charged_to_the_analyst_and_not_to_all(account, charge):
    ann, bob = account(analyst="ann", joint_epsilon=Fraction(1)), account(analyst="bob", joint_epsilon=Fraction(1))
    assert ann.find_shared("f", "s") is None
    ann.finish(ann.charge(charge("1")), {"f": b"noisy"})
    assert stored(bob, "f", "s") is None, "an answer that another purse paid for would be a free look"
    assert bob.find_shared("f", "s") == b"noisy"
    assert bob.find_shared("f", "another snapshot") is None
    refused("DP401", lambda: bob.charge(charge("1/2")))  # anything new is beyond what all may spend
    bob.finish(bob.charge(charge("1", joint=KNOWN)), {"f": b"noisy"})
    assert stored(bob, "f", "s") == b"noisy"
    assert bob.balance().spent_epsilon == 1
    assert account(analyst=None, joint_epsilon=Fraction(1)).balance().spent_epsilon == 1
    refused("DP401", lambda: bob.charge(charge("1", joint=KNOWN)))
    ann.verify()


def test_the_price_does_not_hang_on_what_others_asked(account, charge):
    """What is charged to the purse is the whole price, whatever part of it the joint purse is spared."""
    ann, bob = account(analyst="ann"), account(analyst="bob")
    bob.charge(charge("1/3", joint=Price(Fraction(1, 10), NOTHING)))
    ann.charge(charge("1/3"))
    assert ann.balance().spent_epsilon == bob.balance().spent_epsilon == Fraction(1, 3)
    assert account(analyst=None, joint_epsilon=Fraction(3)).balance().spent_epsilon == Fraction(13, 30)


def test_the_joint_part_is_no_more_than_the_whole(account, charge):
    ann = account(analyst="ann")
    for joint in (Price(Fraction(1, 2)), Price(NOTHING, Fraction(1, 10**9)), Price(Fraction(-1, 2))):
        refused("DP901", lambda joint=joint: ann.charge(charge("1/3", joint=joint)))
    refused("DP901", lambda: account(analyst=None, joint_epsilon=Fraction(3)).charge(charge()))


def test_what_one_sees_of_the_budget_is_ones_own(account, charge):
    ann, bob = account(analyst="ann"), account(analyst="bob")
    before = bob.balance()
    for _ in range(3):
        ann.charge(charge("1/5"))
    assert bob.balance() == before


def test_an_account_freezes_for_all(account, charge):
    """Names are easily made: a purse with failures of its own would be three exact bits for each."""
    for name in ("ann", "bob", "cem"):
        ledger = account(analyst=name)
        ledger.fail(ledger.charge(charge()))
    refused("DP405", lambda: account(analyst="dee").charge(charge()))
    ledger.verify()


def test_changed_budgets_keep_what_was_spent(account, charge):
    account(analyst="ann", joint_epsilon=Fraction(2)).charge(charge("1"))
    bob = account(analyst="bob", joint_epsilon=Fraction(1))
    assert "together" in refused("DP401", lambda: bob.charge(charge())).reason
    account(analyst="ann", joint_epsilon=Fraction(11, 10))
    bob.charge(charge())
    assert "together" in refused("DP401", lambda: bob.charge(charge())).reason


def test_gaussian_budgets_of_each_and_all(account):
    from dpsql.ledger import Charge
    from dpsql.privacy.accounting import gaussian_budget
    from dpsql.privacy.gaussian import mu_squared_of_pure

    terms = {
        "composition": "gaussian",
        "epsilon": Fraction(1),
        "delta": Fraction(1, 10**6),
        "joint_epsilon": Fraction(3, 2),
    }
    cost = mu_squared_of_pure(Fraction(1, 100))
    small = Charge(Fraction(1, 100), NOTHING, "SELECT 1", "f", "s", "p", cost)
    each, _ = gaussian_budget(Fraction(1), Fraction(1, 10**6))
    joint, chance = gaussian_budget(Fraction(3, 2), Fraction(3, 2 * 10**6))
    purses = [account(analyst=name, **terms) for name in ("ann", "bob", "cem", "dee")]
    answered = 0
    for ledger in purses:
        try:
            for _ in range(each // cost + 1):
                ledger.charge(small)
                answered += 1
        except BudgetError as error:
            assert error.code == "DP401"  # noqa: PT017 - it need not be raised
    assert answered == joint // cost
    found = account(analyst=None, **terms).balance()
    assert (found.mu_squared, found.spent_mu_squared) == (joint, answered * cost)
    assert found.spent_delta == chance


@pytest.mark.parametrize("name", ["", "a b", "x" * 65, "-ann", "ann\n", "Änne", "a'b"])
def test_names_that_are_none(account, name):
    refused("DP406", lambda: account(analyst=name))


def test_a_name_where_none_is_needed(account):
    refused("DP406", lambda: account(analyst="ann", joint_epsilon=None))


def test_each_sees_what_was_charged_to_it_alone(account, charge):
    """The list of one analyst's charges is made of that purse's rows: what others asked does not show in it."""
    ann, bob = (account(analyst=name, joint_epsilon=Fraction(2)) for name in ("ann", "bob"))
    first = ann.charge(charge("1/4", statement="SELECT 1"))
    ann.finish(first, {"f": b"noisy"})
    ann.fail(ann.charge(charge("1/8", statement="SELECT 2")))
    bob.charge(charge("1/2", statement="SELECT 3"))
    assert [(p.statement, p.state, p.price.epsilon) for p in ann.paid(10)] == [
        ("SELECT 2", "failed", Fraction(1, 8)),
        ("SELECT 1", "answered", Fraction(1, 4)),
    ]
    assert [(p.statement, p.state) for p in bob.paid(10)] == [("SELECT 3", "asked")]
    assert [p.statement for p in ann.paid(1)] == ["SELECT 2"]
    assert account(analyst=None, joint_epsilon=Fraction(2)).paid(10) == []
