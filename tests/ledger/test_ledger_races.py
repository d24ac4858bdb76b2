"""Many at once, and processes that die: never one charge too many, never an acknowledged one lost."""

from __future__ import annotations

import random
import threading
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

import pytest

from dpsql.errors import Error
from dpsql.ledger import Ledger
from tests.ledger.conftest import stored
from tests.patience import PATIENCE


def test_two_processes_of_sixteen_threads_and_a_budget_for_five(account, path, process):
    code = """
import threading, dpsql.ledger.file
dpsql.ledger.file.BUSY_SECONDS = 200.0
barrier = threading.Barrier(16)
lines = []
def work():
    barrier.wait()
    ledger = account(1)
    for _ in range(2):
        try:
            lines.append(f"charge {ledger.charge(charge('1/5'))}")
        except Error as error:
            lines.append(error.code)
print("ready", flush=True)
sys.stdin.readline()
threads = [threading.Thread(target=work) for _ in range(16)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print("\\n".join(lines))
"""
    children = [process(code, stdin=-1) for _ in range(2)]
    for child in children:
        assert child.stdout.readline() == "ready\n"
    assert not path.exists()  # they also race to make the file
    lines = []
    for child in children:
        child.stdin.write("go\n")
        child.stdin.flush()
    for child in children:
        output, errors = child.communicate(timeout=PATIENCE)
        assert not errors
        lines += output.split("\n")[:-1]
    assert sorted(line for line in lines if line != "DP401") == [f"charge {number}" for number in range(1, 6)]
    assert len(lines) == 64
    ledger = account()
    assert (ledger.balance().spent_epsilon, ledger.balance().statements) == (1, 5)
    ledger.verify()
    assert sorted(child.name for child in path.parent.iterdir() if child.name.startswith(".")) == []


def test_threads_that_share_one_ledger(account, charge):
    ledger = account()

    def work(number: int) -> str:
        try:
            identity = ledger.charge(charge("1/5", fingerprint=str(number)))
            ledger.finish(identity, {str(number): b"noisy"})
            assert stored(ledger, str(number), "s") == b"noisy"
            return "charged"
        except Error as error:
            return error.code

    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(work, range(64)))
    assert sorted(answers) == ["DP401"] * 59 + ["charged"] * 5


def test_a_fork_amid_charging_threads(account, charge, process):
    """Each fork waits for the charges under way, and both sides go on."""
    code = """
import os, threading
ledgers = [account(1000) for _ in range(4)]
stop = threading.Event()
counts = [0] * 4
def work(number):
    while not stop.is_set():
        ledgers[number].charge(charge("1/1000")); counts[number] += 1
threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
for thread in threads: thread.start()
children = 0
for _ in range(20):
    child = os.fork()
    if not child:
        try:
            for ledger in ledgers: ledger.charge(charge("1/1000"))
            os._exit(0)
        finally:
            os._exit(1)
    children += os.waitpid(child, 0)[1] == 0
stop.set()
for thread in threads: thread.join()
ledgers[0].verify()
print(children, ledgers[0].balance().statements - sum(counts))
"""
    output, errors = process(code).communicate(timeout=PATIENCE)
    assert output.split() == ["20", "80"], errors


def test_killed_while_charging(account, path, process):
    """A child prints a charge's id only after `charge` returned; it is killed at a moment by chance."""
    code = """
for number in range(10**6):
    if number % 7 == 0:
        ledger = account(10**6)
    identity = ledger.charge(charge("1/3"))
    print(identity, flush=True)
    if number % 3 == 0:
        ledger.finish(identity, {str(identity): b"noisy" * 100})
    if number % 7 == 6:
        ledger.close()
"""
    dice = random.Random(3)
    acknowledged: list[int] = []
    for _ in range(24):
        child = process(code)
        told = [child.stdout.readline() for _ in range(dice.randrange(1, 20))]
        threading.Event().wait(dice.random() * 0.01)
        child.kill()
        told += child.stdout.readlines()
        assert not child.stderr.read()
        acknowledged += [int(line) for line in told if line.endswith("\n")]
        ledger = account(epsilon=Fraction(10**6))
        ledger.verify()
        with ledger._file.transaction(write=False) as connection:
            kept = {identity for (identity,) in connection.execute("SELECT id FROM charge")}
        assert set(acknowledged) <= kept
        assert ledger.balance().spent_epsilon == Fraction(len(kept), 3)
        ledger.close()
    assert len(acknowledged) == len(set(acknowledged)) > 100


def test_killed_while_the_file_is_made(path, process, account):
    code = """
folder = path
for number in range(10**6):
    path = folder / f"{number}.sqlite"
    print(number, flush=True)
    account(1).close()
"""
    dice = random.Random(4)
    for turn in range(12):
        folder = path.with_name(str(turn))
        folder.mkdir()
        child = process(code.replace("folder = path", f"folder = path.with_name('{turn}')"))
        first = child.stdout.readline()
        threading.Event().wait(dice.random() * 0.05)
        child.kill()
        last = int([first, *child.stdout.readlines()][-1])
        for number in range(last + 1):
            ledger = account(at=folder / f"{number}.sqlite")  # a good file or none
            ledger.verify()
            ledger.close()


def test_opening_waits_for_a_writer(account, charge, path):
    ledger = account()
    entered, leave = threading.Event(), threading.Event()

    def hold():
        with ledger._file.transaction(write=True):
            entered.set()
            leave.wait(PATIENCE)

    holder = threading.Thread(target=hold)
    holder.start()
    entered.wait(PATIENCE)
    threading.Timer(0.3, leave.set).start()
    other: Ledger = account()
    assert leave.is_set()
    holder.join()
    other.charge(charge())


def test_an_interrupt_leaves_no_lock_and_no_charge(account, charge, monkeypatch):
    ledger, other = account(), account()

    def interrupted(*arguments):
        raise KeyboardInterrupt

    for place in ("accounts.written", "chain.seal", "clock.wall"):
        with monkeypatch.context() as patch:
            patch.setattr(f"dpsql.ledger.{place}", interrupted)
            with pytest.raises(KeyboardInterrupt):
                ledger.charge(charge())
        other.charge(charge("1/100"))
    assert ledger.balance().statements == 3
    ledger.charge(charge())
    ledger.verify()
