"""A stored answer is refined once, whoever asks and however many at once."""

from __future__ import annotations

import sqlite3
import threading
from contextlib import closing
from fractions import Fraction

import pytest

from dpsql.errors import InternalError
from dpsql.ledger import AlreadyRefined


def keep(ledger, charge, name="f", **options):
    ledger.finish(ledger.charge(charge(fingerprint=name, **options)), {name: b"noisy"})


def marks(ledger, snapshot="s"):
    return {name: [kept.refined for kept in found] for name, found in ledger.find(["f", "g", "h"], snapshot).items()}


def test_once(account, charge, path):
    ledger = account()
    keep(ledger, charge)
    keep(ledger, charge, "g")
    assert marks(ledger) == {"f": [False], "g": [False]}
    keep(ledger, charge, "h", refines=("f",))
    assert marks(ledger) == {"f": [True], "g": [False], "h": [False]}
    before = ledger.balance()
    for names in (("f",), ("g", "f"), ("h", "h"), ("missing",)):
        with pytest.raises(AlreadyRefined):
            ledger.charge(charge(refines=names))
    with pytest.raises(AlreadyRefined):
        ledger.charge(charge(refines=("g",), snapshot="another"))
    assert ledger.balance() == before
    assert marks(ledger) == {"f": [True], "g": [False], "h": [False]}
    ledger.charge(charge(refines=("h", "g")))
    ledger.verify()
    with closing(sqlite3.connect(path)) as connection, pytest.raises(sqlite3.IntegrityError, match="refined once"):
        connection.execute("UPDATE release SET refined_by = NULL")


def test_it_stays_refined_where_no_answer_came(account, charge):
    ledger = account()
    keep(ledger, charge)
    ledger.fail(ledger.charge(charge(refines=("f",))))
    assert marks(account()) == {"f": [True]}


def test_of_many_at_once_one_is_charged(account, charge):
    keep(account(), charge)
    ledgers = [account() for _ in range(8)]
    barrier, found = threading.Barrier(8), []

    def refine(ledger):
        barrier.wait()
        try:
            found.append(ledger.charge(charge(refines=("f",))))
        except AlreadyRefined:
            found.append(None)

    threads = [threading.Thread(target=refine, args=(ledger,)) for ledger in ledgers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert [each for each in found if each is not None] == [2]
    assert account().balance().spent_epsilon == Fraction(1, 5)
    account().verify()


@pytest.mark.parametrize(
    "others", [{"analyst": "ann"}, {"renew": "day"}, {"composition": "gaussian"}], ids=lambda others: next(iter(others))
)
def test_only_where_charges_add_up_to_one_sum(account, charge, others):
    ledger = account(**others)
    assert not ledger.refines
    with pytest.raises(InternalError, match="DP901"):
        ledger.charge(charge(refines=("f",)))
    assert account("other", sources=("/data/other",)).refines
