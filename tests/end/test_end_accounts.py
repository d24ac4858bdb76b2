"""Accounts on the real product: purses per analyst, renewal, two policies over one account, records, what-if."""

from __future__ import annotations

import json
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import pytest

import dpsql
from dpsql.ledger import clock, default_path
from dpsql.owner import balances_of
from tests.conftest import Clinic
from tests.end.conftest import Run

COUNT = "SELECT COUNT(*) FROM patients"
GROUPS = "SELECT region, COUNT(*) AS n FROM patients GROUP BY region ORDER BY region"


def amend(clinic: Clinic, lines: str) -> Clinic:
    """The clinic with these lines more in its budget."""
    text = clinic.policy.read_text(encoding="utf-8")
    clinic.policy.write_text(text.replace('delta = "0"\n', f'delta = "0"\n{lines}\n', 1), encoding="utf-8")
    return clinic


def connect(clinic: Clinic, analyst: str | None = None) -> dpsql.Connection:
    return dpsql.connect(clinic.policy, clinic.database, analyst=analyst)


@pytest.fixture
def apart(make_clinic: Callable[..., Clinic]) -> Clinic:
    made = make_clinic(epsilon="3", max_query_epsilon="3")
    return amend(made, 'per_analyst = true\njoint_epsilon = "5"')


# ---------------------------------------------------------------------------------------------- per analyst


def test_the_same_answer_is_paid_for_by_each_and_by_all_once(apart: Clinic) -> None:
    with connect(apart, "ann") as ann, connect(apart, "bob") as bob:
        first = ann.execute(GROUPS)
        rows = first.fetchall()
        second = bob.execute(GROUPS)
        assert second.fetchall() == rows, "a second draw would cost all together twice"
        assert first.receipt.epsilon == second.receipt.epsilon == 1
        assert bob.execute(GROUPS).receipt.epsilon == 0
        assert (ann.budget.spent_epsilon, bob.budget.spent_epsilon) == (1, 1)
    joint, *purses = balances_of(apart.policy)
    assert (joint.analyst, joint.epsilon, joint.spent_epsilon) == ("", 5, 1)
    assert [(one.analyst, one.spent_epsilon) for one in purses] == [("ann", 1), ("bob", 1)]


def test_a_statement_of_a_new_and_a_known_release_is_charged_to_all_for_the_new_one(apart: Clinic) -> None:
    with connect(apart, "ann") as ann, connect(apart, "bob") as bob:
        ann.execute("SELECT COUNT(*) FROM visits")
        both = "SELECT (SELECT COUNT(*) FROM visits) AS v, (SELECT COUNT(*) FROM patients) AS p"
        priced = bob.execute(both).receipt.epsilon
        assert priced == bob.budget.spent_epsilon
        assert ann.execute(both).receipt is not None
    joint, first, second = balances_of(apart.policy)
    assert joint.spent_epsilon < first.spent_epsilon + second.spent_epsilon
    with connect(apart, "cem") as third:
        assert third.execute(both).receipt.epsilon == priced, "the price does not hang on what others asked"


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (
            "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(delta = 1e-6) clinic, COUNT(*) FROM visits GROUP BY clinic",
            "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(delta = 1e-9) clinic, COUNT(*) FROM visits GROUP BY clinic",
        ),
        (
            "SELECT clinic, COUNT(*, epsilon => 0.5) FROM visits GROUP BY clinic",
            "SELECT * FROM (SELECT clinic, COUNT(*, epsilon => 0.5) FROM visits GROUP BY clinic),"
            " (SELECT COUNT(*) FROM patients)",
        ),
    ],
    ids=["delta", "epsilon"],
)
def test_what_was_decided_at_another_price_is_not_given(apart: Clinic, first: str, second: str) -> None:
    """Of a decision on keys no released number tells what it spent: who pays less for it would see more than that."""
    apart.policy.write_text(apart.policy.read_text().replace('delta = "0"', 'delta = "1e-5"'))
    with connect(apart, "ann") as ann, connect(apart, "bob") as bob:
        paid = [ann.execute(first).receipt, bob.execute(second).receipt]
    joint = balances_of(apart.policy)[0]
    assert joint.spent_epsilon == sum(receipt.epsilon for receipt in paid)
    assert joint.spent_delta == sum(receipt.delta for receipt in paid)


def test_all_together_stop_at_the_joint_budget(apart: Clinic) -> None:
    with connect(apart, "ann") as ann, connect(apart, "bob") as bob:
        for number in range(3):
            ann.execute(f"{COUNT} WHERE age > {number}")
        with pytest.raises(dpsql.BudgetError, match=r"^DP401: the statement asks for epsilon 1; what is left is"):
            ann.execute(f"{COUNT} WHERE age > 50")
        for number in range(10, 12):
            bob.execute(f"{COUNT} WHERE age > {number}")
        with pytest.raises(dpsql.BudgetError, match=r"^DP401: all analysts of this account together have less left"):
            bob.execute(f"{COUNT} WHERE age > 50")
        assert bob.execute(f"{COUNT} WHERE age > 1").receipt.epsilon == 1  # known already: nothing new to all
        assert bob.budget.remaining_epsilon == 0


def test_what_is_shown_is_ones_own(apart: Clinic, command: Run) -> None:
    with connect(apart, "ann") as ann, connect(apart, "bob") as bob:
        before = bob.execute("SHOW BUDGET").fetchall()
        ann.execute(COUNT)
        assert bob.execute("SHOW BUDGET").fetchall() == before
        shown = ann.execute("SHOW BUDGET")
        assert [column[0] for column in shown.description] == [
            *("account", "analyst", "amount", "total", "spent", "left", "renews", "more_like_last")
        ]
        assert shown.fetchall()[0] == ("clinic", "ann", "epsilon", "3", "1", "2", "never", 2)
    said = command("budget", apart.policy).stdout
    assert said.index("all analysts together") < said.index("analyst ann")
    assert "bob" not in said, "who only looked has no purse"
    assert command("budget", apart.policy, "--analyst", "ann").stdout.splitlines() == [
        "account clinic, analyst ann",
        "ε: 1 spent, 2 left of 3",
        "the last statement cost ε = 1: 2 more like it fit",
    ]


def test_who_asks_must_be_said_and_only_there(apart: Clinic, clinic: Clinic, command: Run) -> None:
    with pytest.raises(dpsql.BudgetError, match=r"^DP406: .*who asks"):
        connect(apart)
    refused = command("run", "--policy", apart.policy, "--database", apart.database, "-c", COUNT)
    assert (refused.returncode, "error[DP406]" in refused.stderr) == (4, True)
    given = ("--policy", apart.policy, "--database", apart.database, "--analyst", "ann", "-c", COUNT)
    assert command("run", *given).returncode == 0


# -------------------------------------------------------------------------------------------------- renewal


def test_renewal_on_the_real_product(make_clinic: Callable[..., Clinic], monkeypatch: pytest.MonkeyPatch) -> None:
    clinic = amend(make_clinic(epsilon="2", max_query_epsilon="2"), 'renew = "day"')
    now = [1_800_000_000]
    monkeypatch.setattr(clock, "wall", lambda: now[0])
    monkeypatch.setattr(clock, "started", lambda: ("boot", now[0]))
    with connect(clinic) as connection:
        connection.execute(COUNT)
        connection.execute(f"{COUNT} WHERE age > 1")
        with pytest.raises(dpsql.BudgetError, match=r"wait until 2027-01-16 00:00 UTC, when the budget is renewed"):
            connection.execute(f"{COUNT} WHERE age > 2")
        row = connection.execute("SHOW BUDGET").fetchall()[0]
        assert row == ("clinic", "epsilon", "2", "2", "0", "2027-01-16 00:00 UTC", 0)
        now[0] += 86400
        assert connection.execute(COUNT).receipt.epsilon == 0
        assert connection.execute(f"{COUNT} WHERE age > 2").receipt.remaining_epsilon == 1


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ('renew = "day"', 'renew = "day": a calendar year can have 366 windows, worth epsilon 1098'),
        ('renew = "month"', 'renew = "month": a calendar year can have 12 windows, worth epsilon 36'),
        (
            'renew = "week"\nper_analyst = true\njoint_epsilon = "5"',
            "a calendar year can have 54 windows, for all analysts together worth epsilon 270",
        ),
    ],
)
def test_check_prints_what_a_year_comes_to(
    make_clinic: Callable[..., Clinic], command: Run, lines: str, said: str
) -> None:
    clinic = amend(make_clinic(epsilon="3", max_query_epsilon="3"), lines)
    checked = command("check", clinic.policy)
    assert checked.returncode == 0
    assert said in checked.stdout
    assert "windows" not in command("check", make_clinic(account="other").policy).stdout


def test_a_year_under_gaussian_composition(make_clinic: Callable[..., Clinic], command: Run) -> None:
    from dpsql.privacy.accounting import gaussian_budget
    from dpsql.privacy.gaussian import is_private

    clinic = make_clinic(epsilon="1", per_query_epsilon="0.1", max_query_epsilon="1")
    text = clinic.policy.read_text().replace('delta = "0"', 'delta = "1e-6"\ncomposition = "gaussian"\nrenew = "month"')
    clinic.policy.write_text(text)
    words = command("check", clinic.policy).stdout.split("12 windows, worth ")[1].splitlines()[0].split()
    mu, epsilon, delta = Fraction(words[1]), Fraction(words[words.index("epsilon") + 1]), Fraction(words[-1])
    squared = 12 * gaussian_budget(Fraction(1), Fraction(1, 10**6))[0]
    assert squared <= mu**2 <= squared * Fraction(1002, 1000) ** 2
    assert delta == Fraction(12, 10**6)
    assert is_private(squared, epsilon, delta / 2)
    assert not is_private(squared, epsilon * Fraction(99, 100), delta / 2)


# ------------------------------------------------------------------------------------ policies over one account


def test_two_policies_over_one_account_spend_from_one_budget(
    make_clinic: Callable[..., Clinic], tmp_path: Path
) -> None:
    clinic = make_clinic(epsilon="3", max_query_epsilon="3")
    second = Clinic(clinic.database, tmp_path / "second.toml")
    text = clinic.policy.read_text().replace("max_rows_per_unit = 3", "max_rows_per_unit = 2")
    second.policy.write_text(text.replace('epsilon = "3"', 'epsilon = "4"'))
    with connect(clinic) as one:
        one.execute(COUNT)
        with connect(second) as two:
            assert two.execute(COUNT).receipt.epsilon == 1  # under other limits it is another release
            assert (two.budget.epsilon, two.budget.spent_epsilon) == (4, 2)
        assert one.budget.spent_epsilon == 2
    with connect(clinic) as again:
        assert (again.budget.epsilon, again.budget.remaining_epsilon) == (3, 1)


def test_max_failures_is_the_policys(make_clinic: Callable[..., Clinic], monkeypatch: pytest.MonkeyPatch) -> None:
    from dpsql.vault.engine import EngineFailure

    clinic = amend(make_clinic(), "max_failures = 1")
    with connect(clinic) as connection:

        def fail(*_: object) -> None:
            raise EngineFailure("no")

        with monkeypatch.context() as patch:
            patch.setattr(connection._session._engines.private, "run", fail)
            with pytest.raises(dpsql.OperationalError, match=r"^DP501"):
                connection.execute(COUNT)
        with pytest.raises(dpsql.BudgetError, match=r"^DP405: .* frozen after 1 failures"):
            connection.execute(f"{COUNT} WHERE age > 1")
        amended = clinic.policy.read_text().replace("max_failures = 1", "max_failures = 2")
        clinic.policy.write_text(amended)
        connect(clinic).close()
        connection.execute(f"{COUNT} WHERE age > 1")


# --------------------------------------------------------------------------------------------- the last one


def test_how_many_more_like_the_last_one_fit(make_clinic: Callable[..., Clinic]) -> None:
    clinic = make_clinic(epsilon="2", per_query_epsilon="0.3", max_query_epsilon="2")
    with connect(clinic) as connection:

        def more() -> int | None:
            (number,) = {row[-1] for row in connection.execute("SHOW BUDGET").fetchall()}
            return number

        assert more() is None
        connection.execute(COUNT)
        fits = more()
        assert fits == 5
        connection.execute(COUNT)  # free, so the last one that was charged stays
        for number in range(fits):
            assert more() == fits - number
            connection.execute(f"{COUNT} WHERE age > {number}")
        assert more() == 0
        with pytest.raises(dpsql.BudgetError, match=r"^DP401"):
            connection.execute(f"{COUNT} WHERE age > 90")
        connection.execute("SET epsilon = 0.1")
        connection.execute(f"{COUNT} WHERE age > 90")
        assert more() == 1


# ------------------------------------------------------------------------------------------ records, what-if

SCRIPT = """\
SELECT COUNT(*) FROM patients;
SET epsilon = 0.5;
SELECT COUNT(*) FROM visits;
SELECT region, label FROM regions;
SELECT COUNT(*) FROM visits;
SELECT (SELECT COUNT(*) FROM visits) AS v, (SELECT COUNT(*) FROM patients WHERE age > 3) AS p;
SELECT COUNT(*) FROM patients WHERE age > (SELECT COUNT(*) FROM visits) / 100;
SELECT COUNT(*) FROM patients WHERE age > (SELECT COUNT(*) FROM visits) / 100;
SHOW BUDGET;
"""


def test_what_if_says_what_running_it_then_charges(clinic: Clinic, tmp_path: Path, command: Run) -> None:
    script = tmp_path / "script.sql"
    script.write_text(SCRIPT)
    given = ("--policy", clinic.policy, "--database", clinic.database)
    with connect(clinic) as connection:
        connection.execute(COUNT)
        before = connection.budget
        entries = len(command("ledger", "export", "--jsonl").stdout.splitlines())
        told = json.loads(command("budget", "what-if", script, *given, "--json").stdout)
        text = command("budget", "what-if", script, *given)
        assert connection.budget == before
        assert len(command("ledger", "export", "--jsonl").stdout.splitlines()) == entries
        charged = [cursor.receipt.epsilon for cursor in connection.executescript(SCRIPT) if cursor.receipt is not None]
    assert [Fraction(each["charged"]["epsilon"]) for each in told["statements"]] == charged
    assert Fraction(told["charged"]["epsilon"]) == sum(charged)
    free = [Fraction(each["free"]["epsilon"]) for each in told["statements"]]
    assert charged[0] == 0
    assert free[0] == 1
    assert free[3] > 0, "asked before in the script"
    assert (charged[3], charged[6]) == (0, 0)
    assert all(each["fits"] for each in told["statements"])
    assert text.returncode == 0
    assert "Nothing was charged." in text.stdout
    assert len(text.stdout.splitlines()) == 1 + len(charged) + 1


def test_what_if_says_where_the_budget_ends(make_clinic: Callable[..., Clinic], command: Run) -> None:
    clinic = make_clinic(epsilon="2", max_query_epsilon="2")
    three = [argument for n in range(3) for argument in ("-c", f"{COUNT} WHERE age > {n}")]
    given = ("--policy", clinic.policy, "--database", clinic.database, *three)
    said = command("budget", "what-if", *given).stdout.splitlines()
    assert [line.endswith("(more than is left)") for line in said[1:4]] == [False, False, True]
    refused = command("budget", "what-if", "--policy", clinic.policy, "-c", "SELECT name FROM patients")
    assert (refused.returncode, "error[DP201]" in refused.stderr) == (3, True)


def test_the_record_of_what_was_asked(clinic: Clinic, command: Run) -> None:
    with connect(clinic) as connection:
        receipt = connection.execute(COUNT).receipt
        connection.execute(COUNT)
    rows = [json.loads(line) for line in command("ledger", "export", "--jsonl").stdout.splitlines()]
    asked, answered = (next(row for row in rows if row["event"] == event) for event in ("asked", "answered"))
    assert Fraction(asked["epsilon"]) == receipt.epsilon
    assert (asked["policy"], asked["snapshot"]) == (receipt.policy, receipt.snapshot)
    assert "patients" in asked["statement"]
    assert answered["charge"] == asked["charge"]
    assert len(asked["fingerprint"]) == 97  # what its rows are, and all of it
    assert asked["account"] == "clinic"
    assert len(rows) == len({row["seal"] for row in rows})


def test_the_owner_checks_and_takes_over_the_ledger(clinic: Clinic, command: Run) -> None:
    none = command("ledger", "verify")
    assert (none.returncode, "does not exist" in none.stderr) == (4, True)
    assert not default_path().exists()
    with connect(clinic) as connection:
        connection.execute(COUNT)
    good = command("ledger", "verify")
    assert (good.returncode, good.stdout.endswith("1 charge, 1 stored answer\n")) == (0, True), good.stderr
    old = default_path().read_bytes()
    with connect(clinic) as connection:
        connection.execute(f"{COUNT} WHERE age > 1")
    default_path().write_bytes(old)
    bad = command("ledger", "verify")
    assert (bad.returncode, "an older copy was put back" in bad.stderr) == (4, True)
    with pytest.raises(dpsql.BudgetError, match=r"^DP403: .*an older copy was put back"):
        connect(clinic)
    assert command("ledger", "adopt").returncode == 0
    assert command("ledger", "verify").returncode == 0
    with connect(clinic) as connection:
        assert connection.budget.spent_epsilon == 1


def test_the_budget_for_programs(clinic: Clinic, command: Run) -> None:
    with connect(clinic) as connection:
        connection.execute("SET epsilon = 0.1")
        connection.execute(COUNT)
    told = json.loads(command("budget", clinic.policy, "--json").stdout)
    (purse,) = told["purses"]
    assert told["account"] == "clinic"
    assert purse["epsilon"] == {"total": "1000", "spent": "1/10", "left": "9999/10"}
    assert (purse["statements"], purse["renew"], purse["analyst"], purse["more_like_last"]) == (1, "never", None, 9999)
    assert purse["last"] == {"epsilon": "1/10", "delta": "0", "mu_squared": "0"}


def test_misuse_of_the_commands(clinic: Clinic, command: Run) -> None:
    for arguments in (("ledger",), ("ledger", "forget"), ("ledger", "export"), ("budget", "what-if")):
        assert command(*arguments).returncode == 2, arguments
