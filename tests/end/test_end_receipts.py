"""Mixed statements from four processes at once: what the ledger says was spent is the sum of the receipts, exactly."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from fractions import Fraction

import pytest

import dpsql
from dpsql.owner import balances_of, export_ledger, prepare, verify_ledger
from tests.conftest import ROOT, Clinic
from tests.patience import PATIENCE

# Each asks statements of its own, some that all ask, repeats, refusals and what the engine fails at, at prices whose
# sum no float holds.
WORK = """
import json, os, random, sys
os.cpu_count = lambda: 1
import dpsql
import dpsql.ledger.file
from dpsql.vault.duckdb import DuckDBEngine
from dpsql.vault.engine import EngineFailure
dpsql.ledger.file.BUSY_SECONDS = 200.0

policy, worker, count, analyst = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4] or None
dice, paid = random.Random(worker), []
run = DuckDBEngine.run
def fails_at_times(self, sql, tables=None):
    if "$rank" in sql and dice.random() < 0.02:
        raise EngineFailure("at times")
    return run(self, sql, tables)
DuckDBEngine.run = fails_at_times
with dpsql.connect(policy, analyst=analyst) as connection:
    print("ready", flush=True)
    sys.stdin.readline()
    for number in range(count):
        mine = 1000 * worker + number
        connection.execute(f"SET epsilon = {dice.choice(['0.1', '0.3', '0.007', '0.123456789'])}")
        sql = dice.choice([
            f"SELECT COUNT(*) FROM patients WHERE age <> {mine}",
            f"SELECT region, COUNT(*), SUM(age) FROM patients WHERE age <> {mine} GROUP BY region",
            f"SELECT AVG(fee) FROM visits WHERE visit_id <> {dice.randrange(20)}",
            f"SELECT (SELECT COUNT(*) FROM visits) + (SELECT COUNT(*) FROM patients WHERE age <> {mine})",
            "SELECT COUNT(*) FROM patients",
            "SELECT region, label FROM regions",
            "SELECT name FROM patients",
            "EXPLAIN SELECT COUNT(*) FROM visits",
        ])
        try:
            r = connection.execute(sql).receipt
            paid.append(None if r is None else [str(r.epsilon), str(r.delta), str(r.mu_squared)])
        except dpsql.BudgetError:
            raise
        except dpsql.OperationalError as error:
            assert str(error) == "DP501: the statement could not be finished; its charge stays", error
            paid.append("failed")
        except dpsql.NotSupportedError:
            paid.append("refused")
print(json.dumps(paid), flush=True)
"""


def ask(clinic: Clinic, each: int, analysts: tuple[str, ...] = ("", "", "", "")) -> list[list[object]]:
    """What four processes of so many statements were charged, statement by statement."""
    prepare(clinic.policy, clinic.database)
    workers = [
        subprocess.Popen(
            [sys.executable, "-c", WORK, str(clinic.policy), str(number), str(each), analyst],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        for number, analyst in enumerate(analysts)
    ]
    for worker in workers:
        assert worker.stdout is not None
        assert worker.stdout.readline() == "ready\n", worker.communicate()[1]
    for worker in workers:
        assert worker.stdin is not None
        worker.stdin.write("go\n")
        worker.stdin.flush()
    told: list[list[object]] = []
    for worker in workers:
        out, errors = worker.communicate(timeout=PATIENCE)
        assert worker.returncode == 0, errors
        told.append(json.loads(out))
    return told


def sums(paid: list[object]) -> tuple[Fraction, ...]:
    receipts = [each for each in paid if isinstance(each, list)]
    return tuple(sum((Fraction(each[place]) for each in receipts), Fraction(0)) for place in range(3))


def failed_charges() -> dict[str | None, tuple[Fraction, ...]]:
    """What failed statements cost, by analyst: nobody has a receipt for these."""
    found: dict[str | None, tuple[Fraction, ...]] = {}
    asked: dict[object, dict[str, object]] = {}
    for row in export_ledger(None):
        if row["event"] == "asked":  # which tells what it is charged; what became of it names its number
            asked[row["charge"]] = row
        if row["event"] == "failed":
            charge = asked[row["charge"]]
            amounts = [Fraction(str(charge[name])) for name in ("epsilon", "delta", "mu_squared")]
            analyst = None if row["analyst"] is None else str(row["analyst"])
            before = found.get(analyst, (Fraction(0),) * 3)
            found[analyst] = tuple(a + b for a, b in zip(before, amounts, strict=True))
    return found


def check(make_clinic: Callable[..., Clinic], each: int) -> None:
    clinic = make_clinic(epsilon="1000", per_query_epsilon="0.1")
    clinic.policy.write_text(clinic.policy.read_text().replace('delta = "0"', 'delta = "0"\nmax_failures = 100'))
    told = ask(clinic, each)
    everything = [one for paid in told for one in paid]
    assert len(everything) == 4 * each
    kinds = {"failed" if one == "failed" else "refused" if one == "refused" else type(one) for one in everything}
    assert kinds >= {"refused", list, type(None)}
    failed = failed_charges().get(None, (Fraction(0),) * 3)
    (balance,) = balances_of(clinic.policy)
    expected = tuple(a + b for a, b in zip(sums(everything), failed, strict=True))
    assert (balance.spent_epsilon, balance.spent_delta, balance.spent_mu_squared) == expected
    found = verify_ledger(None)
    charged = sum(isinstance(one, list) and Fraction(one[0]) > 0 for one in everything)
    assert found.charges == balance.statements == charged + everything.count("failed")
    asked = sum((Fraction(str(row["epsilon"])) for row in export_ledger(None) if row["event"] == "asked"), Fraction(0))
    assert asked == balance.spent_epsilon


def test_the_ledgers_totals_are_the_sum_of_receipts(make_clinic: Callable[..., Clinic]) -> None:
    check(make_clinic, 30)


@pytest.mark.audit
def test_the_totals_of_a_thousand_statements(make_clinic: Callable[..., Clinic]) -> None:
    check(make_clinic, 250)


def test_each_purse_is_the_sum_of_its_analysts_receipts(make_clinic: Callable[..., Clinic]) -> None:
    clinic = make_clinic(epsilon="100", per_query_epsilon="0.1", max_query_epsilon="100")
    lines = 'delta = "0"\nmax_failures = 100\nper_analyst = true\njoint_epsilon = "400"'
    clinic.policy.write_text(clinic.policy.read_text().replace('delta = "0"', lines))
    told = ask(clinic, 15, ("ann", "ann", "bob", "cem"))
    for paid, analyst in ((told[0], "ann"), (told[2], "bob")):  # and one that two ask, for certain
        with dpsql.connect(clinic.policy, clinic.database, analyst=analyst) as connection:
            receipt = connection.execute("SELECT COUNT(*) FROM patients WHERE cost > 20").receipt
        assert receipt is not None
        paid.append([str(amount) for amount in (receipt.epsilon, receipt.delta, receipt.mu_squared)])
    failed = failed_charges()
    joint, *purses = balances_of(clinic.policy)
    assert [purse.analyst for purse in purses] == ["ann", "bob", "cem"]
    for purse, paid in zip(purses, (told[0] + told[1], told[2], told[3]), strict=True):
        assert purse.spent_epsilon == sums(paid)[0] + failed.get(purse.analyst, (Fraction(0),))[0]
    assert joint.spent_epsilon < sum(purse.spent_epsilon for purse in purses), "what all asked is counted once"
    verify_ledger(None)
