"""Sudden death anywhere in mixed work: no answer without its charge, no unreadable ledger, no unreadable snapshot.

Some processes at a time open the clinic (the first ones make its snapshot), ask new questions, repeat old ones and are
refused, each telling every answer it got before it goes on. All are killed at a moment of chance. Whatever they told
is then in the ledger: what was spent is at least what the answers cost.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from fractions import Fraction

import pytest

import dpsql
from dpsql.owner import balances_of, verify_ledger
from tests.conftest import ROOT, Clinic

WORK = """
import sys, dpsql, dpsql.ledger.file
dpsql.ledger.file.BUSY_SECONDS = 200.0
policy, database, start = sys.argv[1:]
connection = dpsql.connect(policy, database)
print("open", flush=True)
n = int(start)
while True:
    n += 1
    for sql in (f"SELECT COUNT(*) FROM visits WHERE visit_id <> {n}", "SELECT AVG(age) FROM patients"):
        cursor = connection.execute(sql)
        rows = cursor.fetchall()
        print("answer", cursor.receipt.epsilon, len(rows), flush=True)
    try:
        connection.execute("SELECT * FROM patients")
    except dpsql.NotSupportedError:
        print("refused", flush=True)
"""


def run_and_kill(clinic: Clinic, start: int, delay: float | None, count: int) -> list[str]:
    """So many workers, killed after `delay` seconds (None: once the first has done everything once); what they told."""
    command = [sys.executable, "-c", WORK, str(clinic.policy), str(clinic.database)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    workers = [
        subprocess.Popen(
            [*command, str(start + 10_000 * i)],
            bufsize=0,  # lines read before the kill leave the rest in the pipe
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
        )
        for i in range(count)
    ]
    told: list[str] = []
    if delay is not None:
        time.sleep(delay)
    else:
        assert workers[0].stdout is not None
        for line in iter(workers[0].stdout.readline, b""):
            told.append(line.decode().strip())
            if told[-1] == "refused":
                break
    for worker in workers:
        worker.send_signal(signal.SIGKILL)
    for worker in workers:
        out, errors = worker.communicate()
        assert worker.returncode == -signal.SIGKILL, errors.decode()
        told += out.decode().splitlines()
    return told


def check(make_clinic: Callable[..., Clinic], kills: int, seed: int, workers: int) -> None:
    clinic = make_clinic(epsilon="1000", per_query_epsilon="0.001")
    chance, told = random.Random(seed), list[str]()
    for kill in range(kills - 1):
        told += run_and_kill(
            clinic, 100_000 * kill, chance.choice([0.3, 0.8, 1.5, 2.5]) * chance.random() + 0.05, workers
        )
    told += run_and_kill(clinic, 100_000 * kills, None, workers)  # however slow the machine is
    with dpsql.connect(clinic.policy, clinic.database) as connection:  # reads the snapshot, or makes the missing one
        connection.execute("SELECT COUNT(*) FROM patients WHERE age > 1").fetchall()
    charged = sum((Fraction(line.split()[1]) for line in told if line.startswith("answer")), Fraction(0))
    (balance,) = balances_of(clinic.policy)
    assert charged + Fraction(1, 1000) <= balance.spent_epsilon
    under_way = 1 + 2 * workers * kills
    assert balance.spent_epsilon <= charged + Fraction(1, 1000) * under_way
    verify_ledger(None)
    assert any(line == "refused" for line in told), "the workers got somewhere"


def test_killed_in_the_middle_of_anything(make_clinic: Callable[..., Clinic]) -> None:
    check(make_clinic, 6, 1, 2)


@pytest.mark.audit
def test_four_killed_fifty_times(make_clinic: Callable[..., Clinic]) -> None:
    check(make_clinic, 50, 2, 4)
