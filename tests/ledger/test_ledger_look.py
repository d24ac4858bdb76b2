"""Who only looks leaves no trace."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from fractions import Fraction

from dpsql.ledger import Price, look, spent, terms
from tests.ledger.conftest import JOINT, TERMS, stored
from tests.ledger.test_ledger_accounts import refused


def entries(path):
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute("SELECT kind, detail FROM entry WHERE kind <> 'boot'").fetchall()


def test_an_analyst_has_a_purse_from_the_first_charge_on(account, charge, path):
    account(analyst="one").charge(charge())
    before = entries(path)
    two = account(analyst="two")
    assert (two.balance().remaining_epsilon, two.find(["f"], "s")) == (1, {})
    six = terms("shop", **{**TERMS, "joint_epsilon": JOINT, "analyst": "six"})
    assert look(path, six, every=False)[0].remaining_epsilon == 1
    assert entries(path) == before, "whoever only looks leaves no trace"
    refused("DP401", lambda: two.charge(charge("2")))
    assert entries(path) == before, "nor does a charge that is refused"
    again = account(analyst="two")
    two.finish(two.charge(charge("1/2")), {"f": b"noisy"})
    assert [kind for kind, _ in entries(path)[len(before) :]] == ["purse", "asked", "answered"]
    assert stored(again, "f", "s") == b"noisy"
    assert again.balance() == two.balance()
    refused("DP401", lambda: again.charge(charge("3/4")))
    again.verify()


def test_looking_writes_nothing_and_knows_what_opening_would_say(account, charge, path):
    for every in (False, True):
        (whole,) = look(path, terms("shop", **TERMS), every=every)
        assert (whole.spent_epsilon, whole.remaining_epsilon, whole.delta) == (0, 1, Fraction(1, 10**6))
    assert not path.exists()
    ledger = account()
    ledger.charge(charge("1/4"))
    before = entries(path)
    assert look(path, terms("shop", **TERMS), every=True) == ledger.balances()
    (raised,) = look(path, terms("shop", **{**TERMS, "epsilon": Fraction(2)}), every=False)
    assert raised.remaining_epsilon == Fraction(7, 4)
    refused("DP404", lambda: look(path, terms("shop", **{**TERMS, "unit": "day"}), every=False))
    assert spent(path, "shop") == (Price(Fraction(1, 4)), 1)
    assert spent(path, "other") == spent(path.with_name("none"), "shop") == (Price(), 0)
    assert entries(path) == before
    assert ledger.balance().epsilon == 1


def test_looking_at_a_gaussian_account_that_is_not_there(path, account):
    gaussian = terms("shop", **{**TERMS, "composition": "gaussian"})
    (seen,) = look(path, gaussian, every=False)
    assert seen == account(composition="gaussian").balance()
