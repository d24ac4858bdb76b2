"""Four processes on one ledger, each killed at a line of the ledger's own code: whatever line that is, nothing is lost
that was acknowledged, nothing is counted twice, and the record is good.

A kill point is the k-th line that the process executes in `dpsql/ledger/` once it is at work, so that the points cover
all steps of opening, charging, settling and keeping the head, and not only moments between them.
"""

from __future__ import annotations

import random
import signal
from fractions import Fraction
from pathlib import Path

import pytest

import dpsql.ledger
from tests.ledger.conftest import stored
from tests.patience import PATIENCE

FOLDER = str(Path(dpsql.ledger.__file__).parent)

WORK = f"""
import os, signal
point, first = POINT, FIRST
seen = 0
def line(frame, event, argument):
    global seen
    if event == "line":
        seen += 1
        if seen >= point:
            os.kill(os.getpid(), signal.SIGKILL)
    return line
def trace(frame, event, argument):
    return line if frame.f_code.co_filename.startswith({FOLDER!r}) else None
account(10**6).close()
print("ready", flush=True)
sys.stdin.readline()
sys.settrace(trace)
number = first
while True:
    ledger = account(10**6)
    for _ in range(3):
        number += 1
        print("asking", number, flush=True)
        identity = ledger.charge(charge("1/3"))
        print("charged", number, identity, flush=True)
        if number % 4:
            ledger.finish(identity, {{f"{{number}}": b"noisy"}})
            print("answered", number, flush=True)
        elif number % 8:
            ledger.fail(identity)
            Ledger.reopen(path, "shop")
    ledger.close()
"""


def kill(process, points: list[int], first: int) -> list[list[str]]:
    """Four processes at work, until each is at its point; what each told."""
    told, children = [], []
    for n, point in enumerate(points):
        code = WORK.replace("POINT", str(point)).replace("FIRST", str(first + 10_000 * n))
        children.append(process(code, stdin=-1))
    for child in children:
        assert child.stdout.readline() == "ready\n", child.communicate()[1]
    for child in children:
        child.stdin.write("go\n")
        child.stdin.flush()
    for child in children:
        out, errors = child.communicate(timeout=PATIENCE)
        assert child.returncode == -signal.SIGKILL, errors
        told.append(out.splitlines())
    return told


def check(account, process, rounds: int, seed: int) -> None:
    dice = random.Random(seed)
    charged: set[int] = set()
    answered: set[str] = set()
    asked = under_way = 0
    for turn in range(rounds):
        points = [dice.randrange(1, 1200) for _ in range(4)]
        for lines in kill(process, points, 100_000 * turn):
            words = [line.split() for line in lines if line]
            asked += sum(line[0] == "asking" for line in words)
            new = {int(line[2]) for line in words if line[0] == "charged"}
            assert not charged & new
            charged |= new
            answered |= {line[1] for line in words if line[0] == "answered"}
            under_way += bool(words) and words[-1][0] == "asking"
        ledger = account(epsilon=Fraction(10**6))
        ledger.verify()
        count = ledger.balance().statements
        with ledger._file.transaction(write=False) as connection:
            kept = {identity for (identity,) in connection.execute("SELECT id FROM charge")}
        assert charged <= kept, "a charge that was acknowledged is lost"
        assert len(charged) <= count == len(kept) <= len(charged) + under_way, (
            "a charge is counted twice, or not at all"
        )
        assert ledger.balance().spent_epsilon == Fraction(count, 3)
        assert all(stored(ledger, name, "s") == b"noisy" for name in answered)
        ledger.close()
    assert asked > rounds
    assert charged
    assert answered


def test_killed_at_twelve_points(account, process):
    check(account, process, 3, 1)


@pytest.mark.audit
def test_killed_at_two_hundred_points(account, process):
    check(account, process, 50, 2)
