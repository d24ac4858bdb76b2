"""The budget on the real product: what is charged, when, and that nothing gives it back."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import closing
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import dpsql
from dpsql.ledger import Ledger, default_path
from dpsql.owner import prepare, reopen_account
from dpsql.vault.engine import EngineFailure
from tests.conftest import Clinic
from tests.end.conftest import python
from tests.patience import PATIENCE, until

MakeClinic = Callable[..., Clinic]

COUNT = "SELECT COUNT(*) FROM patients"


def code_of(error: BaseException) -> str:
    return str(error)[:5]


def spent(connection: dpsql.Connection) -> Fraction:
    return connection.budget.spent_epsilon


def verified(policy: Path) -> None:
    """The ledger's own sums hold."""
    from dpsql.owner import open_account, snapshot_for
    from dpsql.policy.load import load_policy

    loaded = load_policy(policy)
    ledger: Ledger = open_account(loaded, snapshot_for(loaded, None, "required"), None)
    with closing(ledger):
        ledger.verify()


# ------------------------------------------------------------------------------------------------ many at once

CROWD = """\
import os, sys, threading, time
from pathlib import Path
os.cpu_count = lambda: 1
import dpsql
import dpsql.ledger.file
dpsql.ledger.file.BUSY_SECONDS = 200.0

policy, folder, first = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
ready, said = threading.Barrier(17), []

def ask(number):
    with dpsql.connect(policy) as connection:
        ready.wait()
        ready.wait()
        try:
            connection.execute(f"SELECT COUNT(*) FROM patients WHERE age > {number}")
            said.append("answered")
        except dpsql.BudgetError as error:
            said.append(str(error).splitlines()[0])

threads = [threading.Thread(target=ask, args=(first + i,)) for i in range(16)]
for thread in threads:
    thread.start()
ready.wait()
(folder / f"ready-{first}").touch()
while not (folder / "go").exists():
    time.sleep(0.005)
ready.wait()
for thread in threads:
    thread.join()
print("\\n".join(said))
"""


def test_thirty_two_connections_in_two_processes_get_the_five_answers_that_are_paid_for(
    make_clinic: MakeClinic, tmp_path: Path
) -> None:
    clinic = make_clinic(epsilon="5", max_query_epsilon="5")
    prepare(clinic.policy, clinic.database)
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", CROWD, str(clinic.policy), str(tmp_path), str(first)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).resolve().parents[2],
        )
        for first in (0, 50)
    ]

    def ready() -> bool:
        assert all(process.poll() is None for process in processes), [p.communicate() for p in processes]
        return all((tmp_path / f"ready-{first}").exists() for first in (0, 50))

    until(ready, "all are connected")
    (tmp_path / "go").touch()
    said: list[str] = []
    for process in processes:
        out, err = process.communicate(timeout=PATIENCE)
        assert err == ""
        said += out.splitlines()
    refused = "DP401: the statement asks for epsilon 1; what is left is epsilon 0"
    assert sorted(said) == [refused] * 27 + ["answered"] * 5
    with dpsql.connect(clinic.policy, clinic.database) as connection:
        assert connection.budget.remaining_epsilon == 0
        assert connection.budget.statements == 5
    verified(clinic.policy)


# ------------------------------------------------------------------------------------- a charge is final


def test_an_unread_answer_is_charged_and_kept(clinic: Clinic) -> None:
    with dpsql.connect(clinic.policy, clinic.database) as connection:
        connection.execute(COUNT)
    with dpsql.connect(clinic.policy, clinic.database) as connection:
        assert spent(connection) == 1
        assert connection.execute(COUNT).receipt.epsilon == 0
        assert spent(connection) == 1


def slow(connection: dpsql.Connection, monkeypatch: pytest.MonkeyPatch, started: threading.Event) -> None:
    """From now on the private engine takes minutes for each statement, and says when it has one."""
    engine = connection._session._engines.private
    run = engine.run

    def minutes(*_: object) -> Any:
        started.set()
        return run("SELECT SUM(a.range * b.range) FROM range(10000000) a, range(100000) b")

    monkeypatch.setattr(engine, "run", minutes)


def test_a_cancelled_statement_is_charged(
    connection: dpsql.Connection, clinic: Clinic, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = threading.Event()
    slow(connection, monkeypatch, started)

    def stop() -> None:
        started.wait()
        until(lambda: connection._session._engines.private._running, "the statement runs")
        connection.cancel()

    canceller = threading.Thread(target=stop)
    canceller.start()
    with pytest.raises(dpsql.OperationalError) as caught:
        connection.execute(COUNT)
    canceller.join()
    assert str(caught.value) == "DP501: the statement was interrupted; its charge stays"
    assert not isinstance(caught.value, dpsql.BudgetError)
    assert spent(connection) == 1
    monkeypatch.undo()
    again = connection.execute(COUNT)  # nothing was stored, so it is paid for anew
    assert again.receipt.epsilon == 1
    assert spent(connection) == 2


def test_a_cancel_between_the_charge_and_the_engine_is_heard(
    connection: dpsql.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = threading.Event()
    slow(connection, monkeypatch, started)
    ledger = connection._session._ledger
    charge = ledger.charge

    def cancelled_meanwhile(asked: Any) -> int:
        connection.cancel()
        return charge(asked)

    monkeypatch.setattr(ledger, "charge", cancelled_meanwhile)
    with pytest.raises(dpsql.OperationalError, match=r"^DP501: the statement was interrupted; its charge stays$"):
        connection.execute(COUNT)
    assert not started.is_set()
    assert spent(connection) == 1
    monkeypatch.undo()
    connection.execute(COUNT)


KILLED = """\
import os, signal, sys
import dpsql
from dpsql.vault.duckdb import DuckDBEngine

def run(self, sql, tables=None):
    print("asked", flush=True)
    os.kill(os.getpid(), signal.SIGKILL)

with dpsql.connect(sys.argv[1], sys.argv[2]) as connection:
    DuckDBEngine.run = run
    connection.execute("SELECT COUNT(*) FROM patients")
"""


def test_a_process_killed_after_the_charge_leaves_it_charged(clinic: Clinic, tmp_path: Path) -> None:
    ended = python("-c", KILLED, str(clinic.policy), str(clinic.database), folder=tmp_path)
    assert (ended.returncode, ended.stdout) == (-signal.SIGKILL, "asked\n")
    with dpsql.connect(clinic.policy, clinic.database) as connection:
        assert spent(connection) == 1
        assert connection.execute(COUNT).receipt.epsilon == 1
        assert spent(connection) == 2
    verified(clinic.policy)


def test_reconnecting_copying_the_policy_and_a_new_snapshot_refill_nothing(clinic: Clinic, tmp_path: Path) -> None:
    for number in range(10):
        with dpsql.connect(clinic.policy, clinic.database) as connection:
            assert spent(connection) == number
            connection.execute(f"SELECT COUNT(*) FROM patients WHERE age > {number}")
    copy = tmp_path / "elsewhere" / "copy.toml"
    copy.parent.mkdir()
    copy.write_text(clinic.policy.read_text())
    with dpsql.connect(copy, clinic.database) as connection:
        assert spent(connection) == 10
        assert connection.execute("SELECT COUNT(*) FROM patients WHERE age > 3").receipt.epsilon == 0
    prepare(clinic.policy, clinic.database, refresh=True)
    with dpsql.connect(clinic.policy, clinic.database) as connection:
        assert spent(connection) == 10
    copy.write_text(clinic.policy.read_text().replace('account = "clinic"', 'account = "another"'))
    with pytest.raises(dpsql.BudgetError, match=r'^DP404: .* already spends from the account "clinic"'):
        dpsql.connect(copy, clinic.database)


def test_ten_tenths_are_one(make_clinic: MakeClinic) -> None:
    clinic = make_clinic(epsilon="1", per_query_epsilon="0.1", max_query_epsilon="1")
    with dpsql.connect(clinic.policy, clinic.database) as connection:
        for number in range(10):
            connection.execute(f"SELECT COUNT(*) FROM patients WHERE age > {number}")
        assert connection.budget.remaining_epsilon == 0
        with pytest.raises(dpsql.BudgetError, match=r"^DP401: .* asks for epsilon 0.1; what is left is epsilon 0"):
            connection.execute("SELECT COUNT(*) FROM patients WHERE age > 10")


def test_several_aggregates_cost_together_what_was_named(connection: dpsql.Connection) -> None:
    connection.execute("SET epsilon = 0.3")
    receipt = connection.execute("SELECT COUNT(*), SUM(age), COUNT(DISTINCT uid), SUM(age) FROM patients").receipt
    assert receipt.epsilon == Fraction(3, 10)
    assert spent(connection) == Fraction(3, 10)


def test_more_than_is_left_names_what_is_left(make_clinic: MakeClinic) -> None:
    clinic = make_clinic(epsilon="1.5", max_query_epsilon="1.5")
    with dpsql.connect(clinic.policy, clinic.database) as connection:
        connection.execute(COUNT)
        with pytest.raises(dpsql.BudgetError, match=r"^DP401: .* left is epsilon 0\.5\n  = help: SET epsilon = 0\.5"):
            connection.execute("SELECT COUNT(*) FROM visits")
        connection.execute("SET epsilon = 0.5")
        connection.execute("SELECT COUNT(*) FROM visits")
        assert connection.budget.remaining_epsilon == 0


# ---------------------------------------------------------------------------------------- silly amounts

SILLY = ["-1", "0", "NaN", "inf", "-inf", "1e308", "'one'", "one", "1e-400", "''", "'1 000'", "0x10", "1e999999999"]


def test_silly_amounts_are_refused_by_set_and_change_nothing(connection: dpsql.Connection) -> None:
    connection.execute("SET epsilon = '0.5'")
    for text in SILLY:
        with pytest.raises(dpsql.ProgrammingError) as caught:
            connection.execute(f"SET epsilon = {text}")
        assert code_of(caught.value) in ("DP120", "DP101"), text
        assert "\n1 | SET epsilon = " in str(caught.value), "no caret for " + text
    with pytest.raises(dpsql.BudgetError, match=r"^DP402: the policy allows at most epsilon 1000 per statement"):
        connection.execute("SET epsilon = 1000.0001")
    assert ("epsilon", "0.5") in connection.execute("SHOW SETTINGS").fetchall()
    assert connection.execute(COUNT).receipt.epsilon == Fraction(1, 2)


@pytest.mark.parametrize("key", ["epsilon", "per_query_epsilon", "max_query_epsilon"])
def test_silly_amounts_in_a_policy_are_one_error(make_clinic: MakeClinic, key: str) -> None:
    for text in ["-1", "0", "NaN", "inf", "1e308", "one", "1e-400", ""]:
        clinic = make_clinic(**{key: text})
        with pytest.raises(dpsql.PolicyError, match=r"^DP301: ") as caught:
            dpsql.connect(clinic.policy, clinic.database)
        assert key in str(caught.value), text
    assert not default_path().exists()


# --------------------------------------------------------------------------------------- what is free


def test_explain_and_refusals_cost_nothing(connection: dpsql.Connection) -> None:
    assert "price: epsilon 1" in connection.explain(COUNT)
    rows = connection.execute(f"EXPLAIN {COUNT}").fetchall()
    assert rows[0] == ("price: epsilon 1, delta 0",)
    for refused in (
        "SELECT name FROM patients",
        "SELECT MAX(age) FROM patients",
        "SELECT name, COUNT(*) FROM patients GROUP BY name",
        "SELECT COUNT(*) FROM nowhere",
        "SELECT COUNT(*) FROM patients WHERE CAST(name AS INTERVAL) IS NULL",
        "EXPLAIN SELECT name FROM patients",
    ):
        with pytest.raises(dpsql.Error, match=r"^DP[12]"):
            connection.execute(refused)
    connection.execute("SELECT region, label FROM regions")
    assert spent(connection) == 0


GROUPED = "SELECT region, COUNT(*) AS n FROM patients WHERE age > 20 GROUP BY region"
SAME_RELEASE = [
    "select  region,\n\tcount(*) as how_many -- the same\nfrom patients p where p.age > 20 group by region",
    "SELECT p.region AS r, COUNT(*) AS n FROM main.patients AS p WHERE (age > 20) GROUP BY 1",
    "SELECT region, COUNT(*) AS n FROM patients WHERE age > 20 GROUP BY region ORDER BY region DESC",
    "SELECT region, COUNT(*) FROM patients WHERE age > 20 GROUP BY region HAVING COUNT(*) > -1000 ORDER BY 2",
    "WITH t AS (SELECT region, COUNT(*) AS n FROM patients WHERE age > 20 GROUP BY region) SELECT region, n FROM t",
]


def test_the_same_release_is_free_and_equal(connection: dpsql.Connection, clinic: Clinic) -> None:
    first = connection.execute(GROUPED)
    rows = set(first.fetchall())
    assert first.receipt.epsilon == 1
    with dpsql.connect(clinic.policy, clinic.database) as other:  # the answer is the account's, not the session's
        for opened in (connection, other):
            for sql in [GROUPED, *SAME_RELEASE]:
                again = opened.execute(sql)
                assert again.receipt.epsilon == 0, sql
                assert set(again.fetchall()) == rows, sql
    ratio = connection.execute(GROUPED.replace("COUNT(*) AS n", "COUNT(*) * 2 AS n"))
    assert ratio.receipt.epsilon == 0
    assert {(region, n // 2) for region, n in ratio} == rows
    assert spent(connection) == 1


def test_another_predicate_or_snapshot_is_another_release(connection: dpsql.Connection, clinic: Clinic) -> None:
    connection.execute(COUNT)
    assert connection.execute(COUNT + " WHERE age > 20").receipt.epsilon == 1
    connection.execute("SET epsilon = 2")
    assert connection.execute(COUNT).receipt.epsilon == 1  # the difference: it is drawn given the first one
    connection.close()
    prepare(clinic.policy, clinic.database, refresh=True)
    with dpsql.connect(clinic.policy, clinic.database) as anew:
        assert anew.execute(COUNT).receipt.epsilon == 1
        assert spent(anew) == 4


WRONG_OUTSIDE = [
    "SELECT region, COUNT(*) AS n FROM patients GROUP BY region ORDER BY nothing",
    "SELECT region, COUNT(*) AS n FROM patients GROUP BY region HAVING nothing > 3",
    "SELECT region || n FROM (SELECT region, COUNT(*) AS c FROM patients GROUP BY region) t",
    "WITH t AS (SELECT region, COUNT(*) AS n FROM patients GROUP BY region) SELECT SUM(region) FROM t",
    "WITH t AS (SELECT region, COUNT(*) AS n FROM patients GROUP BY region) SELECT n + DATE '2024-01-01' - 'x' FROM t",
    "WITH t AS (SELECT region, COUNT(*) n FROM patients GROUP BY region) SELECT region FROM t JOIN regions USING (n)",
    "WITH t AS (SELECT region, COUNT(*) AS n FROM patients GROUP BY region) SELECT region, n FROM t GROUP BY region",
    "SELECT COUNT(*) + regions.label FROM patients, regions",
]


def test_a_mistake_above_the_release_is_found_before_the_charge(connection: dpsql.Connection) -> None:
    for sql in WRONG_OUTSIDE:
        with pytest.raises(dpsql.Error, match=r"^DP(1|2|502)"):
            connection.execute(sql)
        assert spent(connection) == 0, sql


# ------------------------------------------------------------------------------------ the engine fails


def check_three_failures(connection: dpsql.Connection) -> None:
    """Each is one text, and charged. One statement was answered before."""
    for number in range(3):
        with pytest.raises(dpsql.OperationalError) as caught:
            connection.execute(f"SELECT COUNT(*) FROM patients WHERE age > {number}")
        assert str(caught.value) == "DP501: the statement could not be finished; its charge stays"
        assert spent(connection) == 2 + number


@pytest.mark.parametrize(
    ("limit", "asked"),
    [
        ('statement_timeout = "60s"', "SELECT SUM(a.range * b.range) FROM range(10000000) a, range(100000) b"),
        ('memory_limit = "64MiB"', "SELECT list(i) AS l FROM range(100000000) r(i)"),
    ],
)
def test_time_and_memory_that_run_out_are_the_same_text(
    limit: str, asked: str, clinic: Clinic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Charged, and counted; what is asked of public values says what happened, and is not counted."""
    clinic.policy.write_text(f"{clinic.policy.read_text()}\n[engine]\n{limit}\n")
    with dpsql.connect(clinic.policy, clinic.database) as connection:
        connection.execute("SELECT COUNT(*) + 1 FROM visits")
        private, outer = connection._session._engines.private, connection._session._engines.outer

        def instead(engine: Any, run: Callable[[str], Any]) -> Any:
            with monkeypatch.context() as patch:
                if "timeout" in limit:
                    assert engine._timeout == 60
                    patch.setattr(engine, "_timeout", 0.5)  # of this one alone: others may be slow
                return run(asked)

        with monkeypatch.context() as patch:
            patch.setattr(outer, "run", lambda *_, run=outer.run: instead(outer, run))
            with pytest.raises(dpsql.OperationalError, match=r"^DP50[12]: (?s:.*)stored"):
                connection.execute("SELECT COUNT(*) + 2 FROM visits")
        with monkeypatch.context() as patch:
            patch.setattr(private, "run", lambda *_, run=private.run: instead(private, run))
            check_three_failures(connection)
        with pytest.raises(dpsql.BudgetError, match=r"^DP405: .* frozen after 3 failures"):
            connection.execute(COUNT)


def test_a_failing_engine_is_one_text_and_freezes_the_account(
    make_clinic: MakeClinic, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    clinic = make_clinic(epsilon="10", max_query_epsilon="10")
    connection = dpsql.connect(clinic.policy, clinic.database)
    request.addfinalizer(connection.close)

    def fail(*_: object) -> Any:
        raise EngineFailure("Conversion Error: Could not convert string 'name-7' to INT32")

    connection.execute("SELECT COUNT(*) FROM visits")
    with monkeypatch.context() as patch:
        patch.setattr(connection._session._engines.private, "run", fail)
        check_three_failures(connection)
        with pytest.raises(dpsql.BudgetError, match=r"^DP405: .* frozen after 3 failures"):
            connection.execute(COUNT)
    with (
        dpsql.connect(clinic.policy, clinic.database) as other,
        pytest.raises(dpsql.BudgetError, match=r"^DP405: "),  # it is the account that is frozen
    ):
        other.execute(COUNT)
    assert spent(connection) == 4
    assert connection.execute("SELECT COUNT(*) FROM visits").receipt.epsilon == 0  # what was paid for stays free
    assert reopen_account(clinic.policy).spent_epsilon == 4
    assert connection.execute(COUNT).receipt.epsilon == 1
    assert spent(connection) == 5
    verified(clinic.policy)
