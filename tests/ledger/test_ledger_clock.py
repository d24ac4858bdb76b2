"""Renewal: one budget for each window that really passed, whatever is done to the clock."""

from __future__ import annotations

from datetime import UTC, datetime
from fractions import Fraction

import pytest

from dpsql.errors import BudgetError
from dpsql.ledger import clock
from tests.ledger.conftest import stored

DAY = 86400


class Machine:
    """A machine whose clock the test sets. `true`: the time that really passed; the wall clock may tell another."""

    def __init__(self, at: str):
        self.true = self.wall = int(datetime.fromisoformat(at).replace(tzinfo=UTC).timestamp())
        self.boot, self.booted = "first", self.true - 1000

    def pass_time(self, seconds: int) -> None:
        self.true += seconds
        self.wall += seconds

    def restart(self) -> None:
        self.boot, self.booted = f"{self.boot}+", self.true


@pytest.fixture
def machine(monkeypatch):
    found = Machine("2026-11-28T10:00:00")  # a Saturday
    monkeypatch.setattr(clock, "wall", lambda: found.wall)
    monkeypatch.setattr(clock, "started", lambda: (found.boot, found.true - found.booted))
    return found


def spend_all(ledger, charge) -> int:
    """How many tenths the ledger lets go."""
    count = 0
    while True:
        try:
            ledger.charge(charge("1/10"))
        except BudgetError as error:
            assert error.code == "DP401"  # noqa: PT017 - it is raised sooner or later
            return count
        count += 1


@pytest.mark.parametrize(
    ("renew", "hours", "next_window"),
    [
        ("day", 14, "2026-11-29 00:00 UTC"),
        ("week", 38, "2026-11-30 00:00 UTC"),
        ("month", 62, "2026-12-01 00:00 UTC"),
    ],
)
def test_a_budget_is_full_again_in_the_next_window_and_not_before(account, charge, machine, renew, hours, next_window):
    ledger = account(renew=renew)
    assert clock.shown(ledger.balance().renews) == next_window
    assert spend_all(ledger, charge) == 10
    machine.pass_time(hours * 3600 - 1)
    with pytest.raises(BudgetError) as caught:
        ledger.charge(charge())
    assert caught.value.repair.startswith(f"wait until {next_window}, when the budget is renewed")
    machine.pass_time(1)
    assert ledger.balance().spent_epsilon == 0
    assert spend_all(ledger, charge) == 10
    assert ledger.balance().statements == 20
    ledger.verify()


def test_without_renewal_time_changes_nothing(account, charge, machine):
    ledger = account()
    assert spend_all(ledger, charge) == 10
    assert ledger.balance().renews is None
    machine.pass_time(4000 * DAY)
    assert spend_all(ledger, charge) == 0
    machine.wall -= 8000 * DAY  # nor does a clock that was set back matter
    assert spend_all(ledger, charge) == 0
    ledger.verify()


def test_what_a_window_did_not_spend_is_gone(account, charge, machine):
    ledger = account(renew="day")
    machine.pass_time(30 * DAY)
    assert spend_all(ledger, charge) == 10


def test_stored_answers_stay_free_in_later_windows(account, charge, machine):
    ledger = account(renew="day")
    ledger.finish(ledger.charge(charge()), {"f": b"noisy"})
    machine.pass_time(40 * DAY)
    assert stored(ledger, "f", "s") == b"noisy"
    assert ledger.balance().spent_epsilon == 0


def test_a_clock_set_forward_opens_no_window(account, charge, machine):
    ledger = account(renew="day")
    assert spend_all(ledger, charge) == 10
    for _ in range(50):
        machine.wall += DAY
        assert spend_all(ledger, charge) == 0
    machine.wall = machine.true
    machine.pass_time(DAY)
    assert spend_all(ledger, charge) == 10


def test_at_most_one_window_for_each_that_really_passed(account, charge, machine):
    """Forward, back, and time that passes, in any order: never more than the calendar allows, plus what a clock that is
    put right by an hour can hasten."""
    import random

    dice = random.Random(7)
    ledger, opened, answered = account(renew="day"), machine.true, 0
    for _ in range(300):
        match dice.randrange(4):
            case 0:
                machine.wall += dice.randrange(5 * DAY)
            case 1:
                machine.wall -= dice.randrange(5 * DAY)
            case _:
                machine.pass_time(dice.randrange(DAY // 3))
        try:
            answered += spend_all(ledger, charge)
        except AssertionError:
            continue  # refused for its clock, not its budget
        windows = clock.window("day", machine.true + clock.SLACK) - clock.window("day", opened) + 1
        assert answered <= 10 * windows
    assert answered > 50
    ledger.verify()


def test_after_a_restart_the_clock_counts_from_what_it_then_says(account, charge, machine):
    ledger = account(renew="day")
    spend_all(ledger, charge)
    machine.pass_time(DAY)
    machine.restart()
    assert spend_all(ledger, charge) == 10
    machine.wall += 10 * DAY
    assert spend_all(ledger, charge) == 0
    # A machine that starts with a clock of long ago is no point to count from; once the clock is right, it is.
    machine.wall = 0
    machine.restart()
    with pytest.raises(BudgetError, match="than the clock of this machine tells"):
        ledger.charge(charge())
    machine.wall = machine.true
    machine.pass_time(DAY)
    assert spend_all(ledger, charge) == 10


def test_a_clock_set_back_is_an_error_and_opens_nothing(account, charge, machine):
    ledger = account(renew="day")
    ledger.finish(ledger.charge(charge()), {"f": b"noisy"})
    machine.wall -= 2 * DAY
    for session in (ledger, account(renew="day")):
        with pytest.raises(BudgetError) as caught:
            session.charge(charge())
        assert caught.value.code == "DP403"
        assert "has seen a later time, 2026-11-28 10:00 UTC" in caught.value.reason
        assert caught.value.repair == "set the clock right; what is stored is answered meanwhile"
        assert stored(session, "f", "s") == b"noisy"
        assert session.balance().spent_epsilon == Fraction(1, 10)
    machine.wall = machine.true
    ledger.charge(charge())
    assert ledger.balance().statements == 2


def test_a_clock_put_right_by_minutes_is_no_error(account, charge, machine):
    ledger = account(renew="day")
    ledger.charge(charge())
    machine.wall -= 600
    ledger.charge(charge())
    with ledger._file.transaction(write=False) as connection:
        times = [at for (at,) in connection.execute("SELECT at FROM entry ORDER BY id")]
    assert times == sorted(times)


def test_systems_that_do_not_tell_when_they_started(account, charge, machine, monkeypatch):
    monkeypatch.setattr(clock, "started", lambda: None)
    ledger = account(renew="day")
    assert spend_all(ledger, charge) == 10
    machine.pass_time(DAY)
    assert spend_all(ledger, charge) == 10
    machine.wall -= DAY
    with pytest.raises(BudgetError, match="later time"):
        ledger.charge(charge())


def test_analysts_share_windows(account, charge, machine):
    terms = {"renew": "week", "joint_epsilon": Fraction(3, 2)}
    ann, bob = account(analyst="ann", **terms), account(analyst="bob", **terms)
    assert spend_all(ann, charge) + spend_all(bob, charge) == 15
    machine.pass_time(7 * DAY)
    assert spend_all(bob, charge) + spend_all(ann, charge) == 15
    ann.verify()


def test_renewal_is_a_term_of_the_account(account, charge):
    account(renew="day").charge(charge())
    with pytest.raises(BudgetError, match=r'DP404: .* renew "day", not "never"'):
        account()


@pytest.mark.parametrize("renew", ["day", "week", "month"])
def test_windows_follow_each_other_without_a_gap(renew):
    at = 1_600_000_000
    for _ in range(3000):
        number = clock.window(renew, at)
        assert clock.begins(renew, number) <= at < clock.begins(renew, number + 1)
        assert clock.window(renew, clock.begins(renew, number + 1) - 1) == number
        at += 40_000
    assert datetime.fromtimestamp(clock.begins("week", number if renew == "week" else 3000), UTC).weekday() == 0


def test_how_many_windows_a_year_can_have():
    def days(year):
        start = datetime(year, 1, 1, tzinfo=UTC).timestamp()
        return range(int(start), int(datetime(year + 1, 1, 1, tzinfo=UTC).timestamp()), DAY)

    for renew, most in clock.A_YEAR.items():
        assert most == max(len({clock.window(renew, at) for at in days(year)}) for year in range(1970, 2100))


def test_the_machine_tells_when_it_started():
    found = clock.started()
    assert found is None or (len(found[0]) == 36 and found[1] > 0)
