"""More epsilon for an old question: the difference is paid, and the finer answer is drawn given the old one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import date
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import pytest

import dpsql
from dpsql.privacy.mechanisms import law_of
from dpsql.repeats import differences
from dpsql.vault import noise
from dpsql.vault import open as vault_open
from dpsql.vault.open import Engines
from tests.conftest import Clinic
from tests.end.conftest import python

BY_REGION = "SELECT region, COUNT(*), SUM(age) FROM patients GROUP BY region"
QUESTIONS = [
    "SELECT COUNT(*) FROM patients",
    "SELECT COUNT(DISTINCT uid) FROM patients WHERE age > 30",
    "SELECT SUM(cost) FROM patients",
    "SELECT AVG(age), VAR_POP(age) FROM patients",
    BY_REGION,
    "SELECT COUNT(*) FROM visits",
    "SELECT COUNT(*), SUM(v.fee) FROM visits v JOIN patients p ON p.uid = v.uid WHERE p.age > 30",
]


@pytest.fixture
def make(make_clinic: Callable[..., Clinic]) -> Iterator[Callable[..., dpsql.Connection]]:
    """`make(**budget)`: a connection to a clinic with a large budget."""
    opened: list[dpsql.Connection] = []

    def connect(more: str = "", **options: Any) -> dpsql.Connection:
        clinic = make_clinic(epsilon="50", max_query_epsilon="10")
        clinic.policy.write_text(clinic.policy.read_text().replace('delta = "0"', f'delta = "1e-6"\n{more}'))
        opened.append(dpsql.connect(clinic.policy, clinic.database, **options))
        return opened[-1]

    yield connect
    for connection in opened:
        connection.close()


def paid(connection: dpsql.Connection, sql: str, epsilon: str) -> Fraction:
    connection.execute(f"SET epsilon = {epsilon}")
    receipt = connection.execute(sql).receipt
    assert receipt is not None
    return receipt.epsilon


@pytest.mark.parametrize("sql", QUESTIONS)
def test_all_that_is_paid_is_the_price_of_the_last(make: Callable[..., dpsql.Connection], sql: str) -> None:
    connection = make()
    assert [paid(connection, sql, epsilon) for epsilon in ("0.25", "0.25", "0.5", "2", "1")] == [
        Fraction(1, 4),
        0,
        Fraction(1, 4),
        Fraction(3, 2),
        0,
    ]
    assert connection.budget.spent_epsilon == 2


def test_explain_and_what_if_say_what_is_charged(make: Callable[..., dpsql.Connection]) -> None:
    connection = make()
    session = connection._session
    quotes = session.quotes()
    script = [("0.5", 0.5), ("1", 0.5), ("1", 0), ("4", 3)]
    for epsilon, price in script:
        connection.execute(f"SET epsilon = {epsilon}")
        assert session.quote(BY_REGION, quotes).charged.epsilon == price
    for epsilon, price in script:
        connection.execute(f"SET epsilon = {epsilon}")
        assert session.quote(BY_REGION, session.quotes()).charged.epsilon == price
        said = connection.explain(BY_REGION)
        assert ("the same question, with more noise; the difference is to pay" in said) == (0 < price < float(epsilon))
        assert paid(connection, BY_REGION, epsilon) == price


def test_it_is_as_exact_as_a_new_one(make: Callable[..., dpsql.Connection]) -> None:
    connection = make()
    paid(connection, BY_REGION, "0.5")
    connection.execute("SET epsilon = 2")
    refined = connection.execute(BY_REGION).receipt
    assert refined is not None
    (plan,) = connection._session.compile(BY_REGION).plan.releases
    slots = {measure.column: slot for slot in plan.slots for measure in slot.outputs}
    for column in refined.columns:
        slot = slots[column.name]
        assert column.half_width == law_of(slot).half_width() * slot.step
        assert (column.scale, column.epsilon) == (slot.scale * slot.step, slot.epsilon)


def test_each_group_is_refined_from_its_own(
    make: Callable[..., dpsql.Connection], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The noise that the sampler is given is the noise that was added: exact values and released ones stand in the same
    order, and in the same steps."""
    added: dict[int, list[int]] = {}
    seen: list[list[int]] = []
    add, refine = noise._add, noise.refined

    def recorded(exact: Any, law: Any) -> Any:
        noisy = add(exact, law)
        added[len(added)] = [int(x) for x in noisy - exact]
        return noisy

    def compared(exact: Any, released: Any, coarse: Fraction, fine: Fraction) -> Any:
        seen.append([int(x) for x in released - exact])
        return refine(exact, released, coarse, fine)

    monkeypatch.setattr(noise, "_add", recorded)
    monkeypatch.setattr(noise, "refined", compared)
    connection = make()
    for sql in QUESTIONS:
        added.clear()
        seen.clear()
        assert paid(connection, sql, "0.5") == Fraction(1, 2)
        assert paid(connection, sql, "1") == Fraction(1, 2)
        assert seen == list(added.values())


def test_whatever_else_is_paid_in_full(make_clinic: Callable[..., Clinic], monkeypatch: pytest.MonkeyPatch) -> None:
    """Another text, other numbers beside it, private keys, of which others may be shown, and another engine."""
    clinic = make_clinic(epsilon="50", max_query_epsilon="10")
    clinic.policy.write_text(clinic.policy.read_text().replace('delta = "0"', 'delta = "1e-6"'))
    sql = "SELECT COUNT(*), SUM(age) FROM patients"
    with dpsql.connect(clinic.policy, clinic.database) as connection:
        assert paid(connection, sql, "0.5") == Fraction(1, 2)
        assert paid(connection, "SELECT COUNT(*), SUM(age), SUM(cost) FROM patients", "1") == 1
        assert paid(connection, "SELECT COUNT(*), SUM(age) FROM patients WHERE age > 1", "1") == 1
        by_name = "SELECT name, COUNT(*) FROM patients GROUP BY name"
        assert [paid(connection, by_name, epsilon) for epsilon in ("0.5", "1")] == [Fraction(1, 2), 1]
    monkeypatch.setattr(Engines, "signature", lambda _: "another")
    with dpsql.connect(clinic.policy, clinic.database) as connection:
        assert paid(connection, sql, "2") == 2


def test_another_processor_is_another_engine(make_clinic: Callable[..., Clinic], tmp_path: Path) -> None:
    """The same file on the same machine, whose library of mathematics is told to use other code: numbers may differ in
    their last bits, so that a row may be on the other side of a comparison."""
    clinic = make_clinic(epsilon="50", max_query_epsilon="10")
    script = f"""if True:
        import sys, duckdb, dpsql
        values = "SELECT SUM(HASH(SIN(i), POWER(i, 0.3), EXP(1e-4 * i), LN(i + 1))) FROM range(20000) t(i)"
        with dpsql.connect({str(clinic.policy)!r}, {str(clinic.database)!r}) as connection:
            connection.execute("SET epsilon = " + sys.argv[1])
            receipt = connection.execute("SELECT COUNT(*) FROM patients WHERE SIN(age) > 0.5").receipt
        print(receipt.epsilon, duckdb.sql(values).fetchall())
    """

    def run(epsilon: str, tunables: str) -> list[str]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("GLIBC_TUNABLES", tunables)
            return python("-c", script, epsilon, folder=tmp_path).stdout.split(" ", 1)

    plain, other = "", "glibc.cpu.hwcaps=-FMA,-FMA4,-AVX2"
    (first, _), (second, made), (third, others) = run("1", plain), run("2", plain), run("4", other)
    assert (first, second, third) == ("1", "1", "2" if made == others else "4")


def test_an_engine_that_cannot_say_which_it_is_refines_nothing(
    make_clinic: Callable[..., Clinic], monkeypatch: pytest.MonkeyPatch
) -> None:
    clinic = make_clinic(epsilon="50", max_query_epsilon="10")
    monkeypatch.setattr(vault_open, "_MATHEMATICS", "SELECT error('no')")
    with dpsql.connect(clinic.policy, clinic.database) as connection:
        assert [paid(connection, "SELECT COUNT(*) FROM patients", epsilon) for epsilon in ("0.5", "0.5", "1")] == [
            *(Fraction(1, 2), 0, 1)
        ]


def test_groups_of_dates_that_python_has_not(make_clinic: Callable[..., Clinic]) -> None:
    """They are answered and stored as others are, and each is refined from its own."""
    clinic = make_clinic(epsilon="50", max_query_epsilon="10")
    since = ["infinity", "-infinity", "10000-01-01", "9999-12-31", "0001-01-01", "0044-03-15 (BC)", "2024-02-29"]
    with duckdb.connect(str(clinic.database)) as database:
        database.execute("ALTER TABLE regions ADD COLUMN since DATE")
        for number, day in enumerate(since, 1):
            database.execute("UPDATE regions SET since = ?::DATE WHERE region = ?", [day, f"R{number}"])
    text = clinic.policy.read_text()
    clinic.policy.write_text(text.replace("label = {}", "label = {}\nsince = {}"))
    sql = "SELECT since, COUNT(*) AS n FROM patients JOIN regions USING (region) GROUP BY since"
    with dpsql.connect(clinic.policy, clinic.database) as connection:
        assert [paid(connection, sql, epsilon) for epsilon in ("0.5", "0.5", "1")] == [
            Fraction(1, 2),
            0,
            Fraction(1, 2),
        ]
        found = connection.execute(sql)
        days = {row[0] for row in found.fetchall()}
        assert days == {
            *("infinity", "-infinity", "10000-01-01", "-0043-03-15", None),
            *(date(9999, 12, 31), date(1, 1, 1), date(2024, 2, 29)),
        }
        assert found.to_arrow().num_rows == 8


def test_what_is_chosen_at_random_is_paid_in_full(make_clinic: Callable[..., Clinic]) -> None:
    """A patient's two rows may be in two regions, of which one counts."""
    clinic = make_clinic(epsilon="50", max_query_epsilon="10")
    limited = clinic.policy.read_text().replace("max_groups", "max_rows_per_group = 1\nmax_groups", 1)
    clinic.policy.write_text(limited)
    with dpsql.connect(clinic.policy, clinic.database) as connection:
        connection.execute("SET strategy = cells")
        assert [paid(connection, BY_REGION, epsilon) for epsilon in ("0.5", "1")] == [Fraction(1, 2), 1]


def test_another_limit_is_another_question(make: Callable[..., dpsql.Connection]) -> None:
    connection = make()
    connection.execute("SET max_rows_per_unit = 2")
    assert paid(connection, "SELECT COUNT(*) FROM visits", "0.5") == Fraction(1, 2)
    connection.execute("SET max_rows_per_unit = 3")
    assert paid(connection, "SELECT COUNT(*) FROM visits", "1") == 1


@pytest.mark.parametrize(
    "more", ["renew = 'month'", "per_analyst = true\njoint_epsilon = '100'", "composition = 'gaussian'"]
)
def test_only_in_accounts_of_one_sum(make: Callable[..., dpsql.Connection], more: str) -> None:
    connection = make(more, **({"analyst": "ann"} if "analyst" in more else {}))
    connection.execute("SET mechanism = laplace")
    sql = "SELECT COUNT(*) FROM patients"
    assert paid(connection, sql, "0.5") == Fraction(1, 2)
    assert paid(connection, sql, "1") == 1


def test_two_who_refine_at_once_pay_once(
    make: Callable[..., dpsql.Connection], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other was first, between the look-up of this one and its charge: what it stored is free."""
    connection = make()
    sql = "SELECT COUNT(*) FROM patients"
    paid(connection, sql, "0.5")
    session = connection._session
    charge, others = session._ledger.charge, []

    def late(asked: Any) -> int:
        if not others:
            others.append(None)
            connection._session._releases(session.compile(sql))
        return charge(asked)

    monkeypatch.setattr(session._ledger, "charge", late)
    connection.execute("SET epsilon = 1")
    receipt = connection.execute(sql).receipt
    assert receipt is not None
    assert receipt.epsilon == 0
    assert connection.budget.spent_epsilon == 1


def test_who_is_second_is_never_charged_more_than_was_said(
    make: Callable[..., dpsql.Connection], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other was charged and has not stored its answer yet: a full price was never told."""
    connection = make()
    sql = "SELECT COUNT(*) FROM patients"
    paid(connection, sql, "0.5")
    ledger, others = connection._session._ledger, list[int]()
    charge = ledger.charge

    def late(asked: Any) -> int:
        if not others:
            others.append(charge(asked))
        return charge(asked)

    monkeypatch.setattr(ledger, "charge", late)
    connection.execute("SET epsilon = 1")
    with pytest.raises(dpsql.BudgetError, match=r"^DP402: another session is paying for .*\n.* ask again in a moment"):
        connection.execute(sql)
    assert connection.budget.spent_epsilon == 1
    assert connection.budget.statements == 2
    assert paid(connection, sql, "1") == 1  # as EXPLAIN says by now: that other answer never came


def test_two_of_one_statement_do_not_refine_one(make: Callable[..., dpsql.Connection]) -> None:
    """Twice the same under different shares: one is refined, the other new."""
    connection = make()
    assert paid(connection, "SELECT COUNT(*) FROM patients", "0.25") == Fraction(1, 4)
    twice = "SELECT (SELECT COUNT(*, epsilon => 0.5) FROM patients), (SELECT COUNT(*, epsilon => 0.75) FROM patients)"
    assert paid(connection, twice, "2") == Fraction(1, 2) + Fraction(3, 4) - Fraction(1, 4)
    assert connection.budget.spent_epsilon == Fraction(5, 4)


def test_an_answer_that_was_lost_is_paid_in_full(
    make: Callable[..., dpsql.Connection], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The charge marks what it refines; nobody knows whether the finer one was seen."""
    connection = make()
    sql = "SELECT COUNT(*) FROM patients"
    assert paid(connection, sql, "0.5") == Fraction(1, 2)
    session = connection._session
    with monkeypatch.context() as patch:
        patch.setattr(session._ledger, "finish", lambda *_: 1 / 0)
        with pytest.raises(dpsql.InternalError, match="what was charged stays charged"):
            paid(connection, sql, "1")
    assert connection.budget.spent_epsilon == 1
    assert paid(connection, sql, "1") == 1


def test_the_vault_takes_no_other_vector(
    make: Callable[..., dpsql.Connection], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is paid less for is drawn given a vector of just that price, or not at all."""
    connection = make()
    paid(connection, BY_REGION, "0.5")
    before = differences.Refinement.before

    def other(self: differences.Refinement, keys: Any) -> Any:
        return [replace(v, slot=replace(v.slot, epsilon=v.slot.epsilon * 2)) for v in before(self, keys)]

    monkeypatch.setattr(differences.Refinement, "before", other)
    connection.execute("SET epsilon = 1")
    with pytest.raises(dpsql.InternalError):
        connection.execute(BY_REGION)
