"""Charges: exact, bounded by the budget, final; and the answers they paid for."""

from __future__ import annotations

import sqlite3
import sys
from contextlib import closing
from fractions import Fraction

import pytest

from dpsql.errors import BudgetError, Error, InternalError, OperationalError
from dpsql.ledger import Charge, Ledger
from tests.ledger.conftest import stored


def test_ten_tenths_are_one(account, charge):
    ledger = account()
    for number in range(10):
        assert ledger.balance().remaining_epsilon == 1 - Fraction(number, 10)
        ledger.charge(charge("1/10"))
    with pytest.raises(BudgetError) as caught:
        ledger.charge(charge("1/10"))
    assert caught.value.code == "DP401"
    assert caught.value.reason == "the statement asks for epsilon 0.1; what is left is epsilon 0"
    balance = ledger.balance()
    assert (balance.spent_epsilon, balance.remaining_epsilon, balance.statements) == (1, 0, 10)


def test_what_is_asked_and_what_is_left_are_both_named(account, charge):
    ledger = account(epsilon=Fraction(3))
    ledger.charge(charge("4/3", "1/2000000"))
    with pytest.raises(BudgetError) as caught:
        ledger.charge(charge("5/2", "1/1000000"))
    assert caught.value.reason == (
        "the statement asks for epsilon 2.5 and delta 0.000001; what is left is epsilon about 1.66666666 and delta 5E-7"
    )
    assert caught.value.repair.startswith("SET epsilon = 1.66666666 or less")
    ledger.charge(charge("1.66666666"))


def test_delta_alone_can_be_exhausted(account, charge):
    ledger = account()
    ledger.charge(charge("1/100", "1/1000000"))
    with pytest.raises(BudgetError, match=r"what is left is epsilon 0\.99 and delta 0"):
        ledger.charge(charge("1/100", "1/1000000000"))
    ledger.charge(charge("1/100", "0"))


def test_the_last_grain_counts(account, charge):
    ledger = account()
    grain = Fraction(1, 10**300)
    for epsilon, delta in ((1 + grain, 0), (1, Fraction(1, 10**6) + grain)):
        with pytest.raises(BudgetError):
            ledger.charge(charge(epsilon, delta))
    ledger.charge(charge(1 - grain, Fraction(1, 10**6)))
    ledger.charge(charge(grain))
    with pytest.raises(BudgetError):
        ledger.charge(charge(grain))
    assert ledger.balance().remaining_epsilon == 0


def test_a_refused_charge_leaves_no_trace(account, charge):
    ledger = account()
    before = ledger.balance()
    with pytest.raises(BudgetError):
        ledger.charge(charge("11/10"))
    assert ledger.balance() == before


@pytest.mark.parametrize(
    ("epsilon", "delta"),
    [
        (Fraction(-1, 10), Fraction(0)),
        (Fraction(1, 10), Fraction(-1, 10**9)),
        (Fraction(0), Fraction(0)),
        (0.1, Fraction(0)),
        (float("nan"), Fraction(0)),
        (float("inf"), Fraction(0)),
        ("1/10", Fraction(0)),
        (Fraction(1, 10), 0.0),
    ],
)
def test_what_is_no_price_is_refused(account, epsilon, delta):
    ledger = account()
    with pytest.raises(InternalError):
        ledger.charge(Charge(epsilon, delta, "SELECT 1", "f", "s", "p"))
    assert ledger.balance().statements == 0


def test_amounts_beyond_reason_are_refused_and_harm_nothing(account, charge):
    ledger = account()
    with pytest.raises(BudgetError) as caught:
        ledger.charge(charge(Fraction(1, 10**2000)))
    assert caught.value.code == "DP402"
    with pytest.raises(BudgetError) as caught:
        ledger.charge(charge(Fraction(10**900)))
    assert caught.value.code == "DP401"
    ledger.charge(charge(Fraction(1, 10**900)))
    ledger.charge(charge(Fraction(1, 2**1074)))  # the smallest float
    assert ledger.balance().spent_epsilon == Fraction(1, 10**900) + Fraction(1, 2**1074)

    # Denominators without a common factor make the sum's digits grow: refused before Python's own limit is met.
    def charge_again_and_again():
        for exponent in range(1, 40):
            ledger.charge(charge(Fraction(1, 3 ** (20 * exponent) + 2)))

    with pytest.raises(BudgetError) as caught:
        charge_again_and_again()
    assert caught.value.code == "DP402"
    assert len(str(ledger.balance().spent_epsilon.denominator)) < sys.int_info.default_max_str_digits
    ledger.charge(charge("1/10"))
    ledger.verify()


def test_answers_are_found_under_fingerprint_and_snapshot(account, charge):
    ledger = account()
    assert stored(ledger, "f", "s") is None
    identity = ledger.charge(charge(fingerprint="statement", snapshot="s"))
    assert stored(ledger, "f", "s") is None
    ledger.finish(identity, {"f": b"noisy", "g": b"\x00\xff"})
    assert (stored(ledger, "f", "s"), stored(ledger, "g", "s")) == (b"noisy", b"\x00\xff")
    assert stored(ledger, "f", "another snapshot") is None
    assert stored(account(), "f", "s") == b"noisy"


def test_of_two_answers_to_one_release_the_first_stays(account, charge):
    ledger, other = account(), account()
    first, second = ledger.charge(charge()), other.charge(charge())
    ledger.finish(first, {"f": b"first"})
    other.finish(second, {"f": b"second"})
    assert stored(ledger, "f", "s") == stored(other, "f", "s") == b"first"
    assert ledger.balance().statements == 2


def test_a_charge_is_settled_once_and_by_its_own_purse(account, charge):
    mine, theirs = account(analyst="a"), account(analyst="b")
    identity = mine.charge(charge())
    with pytest.raises(InternalError):
        theirs.finish(identity, {"f": b"x"})
    mine.finish(identity, {})
    for settle in (lambda: mine.finish(identity, {"f": b"x"}), lambda: mine.fail(identity), lambda: mine.fail(999)):
        with pytest.raises(InternalError):
            settle()
    assert stored(mine, "f", "s") is None


def test_failures_are_counted_never_refunded_and_freeze_the_account(account, charge, path):
    ledger = account()
    ledger.finish(ledger.charge(charge()), {"f": b"noisy"})
    for _ in range(3):
        ledger.fail(ledger.charge(charge()))
    assert ledger.balance().spent_epsilon == Fraction(4, 10)
    for session in (ledger, account()):
        with pytest.raises(BudgetError) as caught:
            session.charge(charge())
        assert caught.value.code == "DP405"
    assert stored(account(), "f", "s") == b"noisy"  # repeats stay free
    Ledger.reopen(path, "shop")
    ledger.charge(charge())
    assert ledger.balance().spent_epsilon == Fraction(5, 10)


def test_what_is_under_way_when_the_account_freezes_has_failed(account, charge, path):
    """Whether the engine failed or not: both are told, counted and recorded alike, and nothing is kept."""
    ledger = account()
    charges = [ledger.charge(charge()) for _ in range(5)]
    for identity in charges[:3]:
        ledger.fail(identity)
    with pytest.raises(OperationalError, match="DP501: the statement could not be finished; its charge stays"):
        ledger.finish(charges[3], {"f": b"noisy"})
    ledger.fail(charges[4])
    assert stored(account(), "f", "s") is None
    assert {paid.state for paid in ledger.paid(9)} == {"failed"}
    with pytest.raises(BudgetError, match="after 5 failures"):
        ledger.charge(charge())
    assert ledger.verify()
    Ledger.reopen(path, "shop")
    ledger.finish(ledger.charge(charge()), {"f": b"noisy"})
    assert stored(account(), "f", "s") == b"noisy"


def test_reopening_an_account_that_is_not_there(account, path):
    account()
    with pytest.raises(BudgetError) as caught:
        Ledger.reopen(path, "shpo")
    assert caught.value.code == "DP404"


def test_the_file_itself_refuses_to_change_a_charge(account, charge, path):
    ledger = account()
    ledger.finish(ledger.charge(charge()), {})
    ledger.charge(charge())
    with closing(sqlite3.connect(path)) as connection:
        for change in (
            "DELETE FROM charge",
            "UPDATE charge SET epsilon = '0/1'",
            "UPDATE charge SET state = 'asked' WHERE state = 'answered'",
            "UPDATE charge SET state = 'refunded' WHERE state = 'asked'",
        ):
            with pytest.raises(sqlite3.IntegrityError):
                connection.execute(change)


def test_text_that_utf8_cannot_write_is_kept_as_escapes(account, charge):
    ledger = account(sources=("/data/\udcff.parquet",))
    identity = ledger.charge(charge(statement="SELECT '\ud800\x00'", fingerprint="\udc80"))
    ledger.finish(identity, {"\udc80": b"noisy"})
    assert stored(ledger, "\udc80", "s") == b"noisy"


def test_an_empty_account_name_or_budget_is_refused(account):
    for terms in ({"name": ""}, {"epsilon": Fraction(0)}, {"delta": Fraction(1)}, {"max_failures": 0}):
        with pytest.raises(Error, match="an account needs"):
            account(**terms)
