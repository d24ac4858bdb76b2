"""The budget, what noise is made from, and what the owner writes: each row once, from end to end. `tests/ledger`,
`tests/end` and `tests/privacy` go further."""

from __future__ import annotations

import inspect
import os
import random
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from fractions import Fraction
from math import exp
from pathlib import Path
from statistics import NormalDist
from threading import Barrier, Event, Thread
from typing import Any

import duckdb
import numpy as np
import pytest

import dpsql
import dpsql.ledger.file
from dpsql.ledger import Ledger, default_path
from dpsql.owner import prepare, verify_ledger
from dpsql.privacy.mechanisms import DiscreteLaplace
from dpsql.privacy.sampling import system_words
from dpsql.vault.engine import EngineFailure
from tests.conftest import Clinic
from tests.patience import PATIENCE

COUNT = "SELECT COUNT(*) FROM patients"
MakeClinic = Callable[..., Clinic]


def ages(number: int) -> str:
    """Statements that are all new."""
    return f"{COUNT} WHERE age > {number}"


def spent(clinic: Clinic) -> Fraction:
    """As somebody sees it who connects now."""
    with dpsql.connect(clinic.policy, clinic.database) as connection:
        return connection.budget.spent_epsilon


@pytest.fixture
def small(make_clinic: MakeClinic) -> Clinic:
    """A clinic with a budget for five statements."""
    made = make_clinic(epsilon="5", max_query_epsilon="5")
    prepare(made.policy, made.database)
    return made


def test_b01_eight_at_once_get_five_answers(small: Clinic, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dpsql.ledger.file, "BUSY_SECONDS", PATIENCE)
    barrier, said = Barrier(8), list[str]()

    def ask(number: int) -> None:
        with dpsql.connect(small.policy, small.database) as connection:
            barrier.wait()
            try:
                connection.execute(ages(number))
                said.append("answered")
            except dpsql.BudgetError as error:
                said.append(str(error)[:5])

    threads = [Thread(target=ask, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(said) == ["DP401"] * 3 + ["answered"] * 5
    assert spent(small) == 5


@pytest.fixture
def connection(small: Clinic) -> Iterator[dpsql.Connection]:
    with dpsql.connect(small.policy, small.database) as opened:
        yield opened


def test_b02_s01_s02_a_failure_is_charged_and_tells_nothing(
    connection: dpsql.Connection, small: Clinic, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> Any:
        raise EngineFailure("Conversion Error: Could not convert string 'Xanthippe' to INT32")

    monkeypatch.setattr(connection._session._engines.private, "run", fail)
    with pytest.raises(dpsql.OperationalError) as caught:
        connection.execute(COUNT)
    assert str(caught.value) == "DP501: the statement could not be finished; its charge stays"
    assert caught.value.__context__ is None
    assert spent(small) == 1


def test_s02_many_failures_at_once_tell_no_more_than_some(small: Clinic, monkeypatch: pytest.MonkeyPatch) -> None:
    """Five statements are charged before any of them has ended; of those the account then freezes after three, and who
    ends later is told the same whether or not the engine could finish."""
    charged, frozen, said = Barrier(5), Event(), list[str]()

    def ask(number: int) -> None:
        with dpsql.connect(small.policy, small.database) as connection:
            engine = connection._session._engines.private
            run = engine.run

            def running(*arguments: Any) -> Any:
                charged.wait(PATIENCE)
                if number < 4:
                    raise EngineFailure("it failed")
                frozen.wait(PATIENCE)
                return run(*arguments)

            monkeypatch.setattr(engine, "run", running)
            try:
                connection.execute(ages(number))
                said.append("answered")
            except dpsql.Error as error:
                said.append(str(error))

    threads = [Thread(target=ask, args=(number,)) for number in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads[:4]:
        thread.join()
    frozen.set()
    threads[4].join()
    assert said == ["DP501: the statement could not be finished; its charge stays"] * 5
    assert spent(small) == 5


def test_b02_an_answer_that_nobody_reads_is_charged(small: Clinic) -> None:
    with dpsql.connect(small.policy, small.database) as connection:
        connection.execute(COUNT).close()
    assert spent(small) == 1


def test_b03_the_charge_is_on_disk_before_the_engine_is_asked(
    connection: dpsql.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, found = connection._session._engines.private, list[int]()
    run = engine.run

    def running(*arguments: Any) -> Any:
        with sqlite3.connect(f"file:{default_path()}?mode=ro", uri=True) as other:
            found.extend(other.execute("SELECT count(*) FROM charge").fetchall()[0])
        return run(*arguments)

    monkeypatch.setattr(engine, "run", running)
    connection.execute(COUNT)
    assert found == [1]


def test_b04_nothing_refills_a_budget(small: Clinic, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    with dpsql.connect(small.policy, small.database) as connection:
        connection.execute(ages(1))
    shutil.copytree(default_path().parent, kept)
    for number in range(2, 5):
        with dpsql.connect(small.policy, small.database) as connection:
            connection.execute(ages(number))
    assert spent(small) == 4
    prepare(small.policy, small.database, refresh=True)
    assert spent(small) == 4
    renamed = tmp_path / "renamed.toml"
    renamed.write_text(small.policy.read_text(encoding="utf-8").replace('account = "clinic"', 'account = "x"'))
    with pytest.raises(dpsql.Error, match="DP40"):
        dpsql.connect(renamed, small.database)
    for file in kept.glob("ledger.sqlite*"):  # the ledger of yesterday, without its key and head
        shutil.copy(file, default_path().parent / file.name)
    with pytest.raises(dpsql.BudgetError, match="DP403"), dpsql.connect(small.policy, small.database) as connection:
        connection.execute(ages(9))


@pytest.mark.parametrize("amount", ["5", "0.5"])
def test_b05_nobody_lowers_what_was_spent(small: Clinic, amount: str) -> None:
    with dpsql.connect(small.policy, small.database) as connection:
        connection.execute(COUNT)
    with sqlite3.connect(default_path()) as ledger, pytest.raises(sqlite3.DatabaseError, match="a charge is final"):
        ledger.execute("UPDATE charge SET epsilon = ?", [amount])
    with sqlite3.connect(default_path()) as ledger:
        ledger.execute("UPDATE purse SET spent_epsilon = ?", [amount])
    with pytest.raises(dpsql.Error, match="DP403"):
        verify_ledger(None)


def test_b06_no_seed_makes_noise_again(make_clinic: MakeClinic) -> None:
    told = []
    for account in ("one", "other"):
        random.seed(0)
        np.random.seed(0)
        clinic = make_clinic(account=account)
        with dpsql.connect(clinic.policy, clinic.database) as connection:
            connection.execute("SET epsilon = '0.001'")
            told.append(connection.execute("SELECT region, COUNT(*) FROM patients GROUP BY region").fetchall())
    assert told[0] != told[1]  # alike by chance: one in 10^27
    for public in (dpsql.connect, dpsql.Connection, dpsql.Connection.execute, dpsql.Cursor.execute):
        assert not [p for p in inspect.signature(public).parameters if "seed" in p or "random" in p]


def test_b06_a_fork_draws_other_noise(make_clinic: MakeClinic) -> None:
    """Parent and child ask the same of equal clinics, after words were drawn ahead."""
    law = DiscreteLaplace(Fraction(10**6))
    system_words().one()  # reads many ahead, and few words are taken from those
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        os.write(writer, repr([int(x) for x in law.sample(8)]).encode())
        os._exit(0)
    mine = repr([int(x) for x in law.sample(8)])
    os.waitpid(child, 0)
    assert os.read(reader, 4096).decode() != mine
    os.close(reader)
    os.close(writer)


@pytest.mark.parametrize("composition", ["basic", "gaussian"])
def test_b10_many_statements_cost_what_the_formula_says(make_clinic: MakeClinic, composition: str) -> None:
    clinic = make_clinic(epsilon="2", per_query_epsilon="0.1", max_query_epsilon="2")
    text = clinic.policy.read_text(encoding="utf-8")
    delta, terms = ("0", "") if composition == "basic" else ("1e-6", '\ncomposition = "gaussian"')
    clinic.policy.write_text(text.replace('delta = "0"', f'delta = "{delta}"{terms}'), encoding="utf-8")
    with dpsql.connect(clinic.policy, clinic.database) as connection:
        for number in range(500):
            try:
                connection.execute(ages(number))
            except dpsql.BudgetError:
                break
        balance = connection.budget
    answered = balance.statements
    if composition == "basic":
        assert (answered, balance.spent_epsilon) == (20, 2)
        return
    mu = 2 * NormalDist().inv_cdf(1 / (1 + exp(-0.1)))  # of any mechanism that is 0.1-DP (Dong, Roth, Su 2022)
    assert float(balance.spent_mu_squared) == pytest.approx(answered * mu**2, rel=1e-6)
    half_of_delta = 5e-7  # for this; the rest is for thresholds
    assert delta_at(2, mu * answered**0.5) <= half_of_delta < delta_at(2, mu * (answered + 1) ** 0.5)


def delta_at(epsilon: float, mu: float) -> float:
    """The delta of mu-GDP at this epsilon (Balle, Wang 2018)."""
    a, b = epsilon / mu, mu / 2
    return NormalDist().cdf(b - a) - exp(epsilon) * NormalDist().cdf(-a - b)


def test_b11_r14_ten_tenths(make_clinic: MakeClinic) -> None:
    clinic = make_clinic(epsilon="1", per_query_epsilon="0.1", max_query_epsilon="1")
    with dpsql.connect(clinic.policy, clinic.database) as connection:
        for number in range(10):
            connection.execute(ages(number))
        with pytest.raises(dpsql.BudgetError, match="DP401"):
            connection.execute(ages(99))
        assert connection.budget.remaining_epsilon == 0


LINES = [
    ('delta = "0"', 'delta = "1"'),
    ('delta = "0"', 'delta = "-0.1"'),
    ('epsilon = "1000"', 'epsilon = "nan"'),
    ('epsilon = "1000"', 'epsilon = "inf"'),
    ('epsilon = "1000"', 'epsilon = "1e308"'),
    ('epsilon = "1000"', 'epsilon = "0"'),
    ('epsilon = "1000"', "epsilon = true"),
    ("max_groups_per_unit = 1", "max_groups_per_unit = 0"),
    ("max_rows_per_unit = 3", "max_rows_per_unit = -1"),
    ("max_rows_per_unit = 3", "max_rows_per_unit = 2147483648000"),
    ("max_rows_per_unit = 3\n", ""),  # R15: what is missing is named
    ("cost = { bounds = [0, 100] }", "cost = { bounds = [100, 0] }"),
    ("cost = { bounds = [0, 100] }", "cost = { bounds = [0, 1e308] }"),
    ("cost = { bounds = [0, 100] }", "cost = { bounds = [nan, 100] }"),
]


@pytest.mark.parametrize(("old", "new"), LINES)
def test_b12_r15_r18_silly_policies(clinic: Clinic, old: str, new: str) -> None:
    text = clinic.policy.read_text(encoding="utf-8")
    assert old in text
    clinic.policy.write_text(text.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(dpsql.Error, match=r"^DP301: .*clinic-1\.toml:\d+: \S+\.\S+: ") as caught:
        dpsql.connect(clinic.policy, clinic.database)
    if not new:
        assert "tables.patients" in str(caught.value)
        assert "max_rows_per_unit" in str(caught.value)


def test_b18_who_asks_what_another_paid_for_is_charged(make_clinic: MakeClinic) -> None:
    clinic = make_clinic(epsilon="5", max_query_epsilon="5")
    text = clinic.policy.read_text(encoding="utf-8")
    clinic.policy.write_text(text.replace('delta = "0"', 'delta = "0"\nper_analyst = true\njoint_epsilon = "9"'))
    prices = []
    for name in ("ann", "bob"):
        with dpsql.connect(clinic.policy, clinic.database, analyst=name) as connection:
            prices += [connection.execute(sql).receipt.epsilon for sql in (COUNT, COUNT)]
    assert prices == [1, 0, 1, 0]


def test_d09_an_owner_who_adds_rows_changes_no_snapshot(small: Clinic) -> None:
    """Until they prepare anew: then the same statement is another release, and is charged."""
    seen = []
    for step in range(3):
        with dpsql.connect(small.policy, small.database) as connection:
            cursor = connection.execute(COUNT)
            seen.append((cursor.receipt.epsilon, cursor.receipt.snapshot))
            exact = connection._session._engines.private.run("SELECT count(*) AS n FROM priv.patients")
            seen[-1] += (exact.column(0)[0].as_py(),)
        with duckdb.connect(str(small.database)) as database:
            database.execute("INSERT INTO patients SELECT 5000 + i, 'x', 1, 'R1', 1, NULL FROM range(50) t(i)")
        if step == 1:
            prepare(small.policy, small.database, refresh=True)
    (first, one, rows), (second, same, still), (third, other, more) = seen
    assert (first, second, third) == (1, 0, 1)
    assert one == same != other
    assert rows == still < more
    assert spent(small) == 2


@pytest.mark.parametrize("value", ["x' OR 1=1", "'; DROP TABLE patients; --", "\\", "é🦆", "", "a\nb", "$name", "?"])
def test_p25_a_parameter_is_a_literal(connection: dpsql.Connection, value: str) -> None:
    """It stands in the SQL as one literal of its type, and adds no word."""
    (plain,) = connection._session.compile(f"{COUNT} WHERE name = 'x'").inner_sql
    (text,) = connection._session.compile(f"{COUNT} WHERE name = ?", [value]).inner_sql
    assert text.replace("'" + value.replace("'", "''") + "'", "'x'") == plain


@pytest.mark.parametrize("value", ["x", "7", "0 OR 1=1", float("nan"), float("inf"), b"x", [1], {"a": 1}, Path("x")])
def test_p25_a_parameter_has_a_type(connection: dpsql.Connection, value: object) -> None:
    with pytest.raises(dpsql.Error, match=r"^DP(003|232)"):
        connection.execute(f"{COUNT} WHERE age = ?", [value])
    assert connection.budget.spent_epsilon == 0


@pytest.mark.parametrize("sql", ["SELECT region FROM regions LIMIT ?", "SELECT COUNT(*) FROM ?", "SELECT 1 AS ?"])
@pytest.mark.parametrize("value", ["patients", "1; DROP TABLE patients", "(SELECT MAX(name) FROM patients)"])
def test_p25_a_parameter_is_no_sql(connection: dpsql.Connection, sql: str, value: str) -> None:
    with pytest.raises(dpsql.Error):
        connection.execute(sql, [value])
    assert connection.budget.spent_epsilon == 0


def test_s09_no_second_ledger_for_the_same_answer(connection: dpsql.Connection) -> None:
    first, again = (connection.execute(sql) for sql in (COUNT, COUNT.lower() + "  -- again"))
    assert first.fetchall() == again.fetchall()
    assert (first.receipt.epsilon, again.receipt.epsilon) == (1, 0)
    assert isinstance(connection._session._ledger, Ledger)
