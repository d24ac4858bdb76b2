"""Ledgers under `tmp_path`, charges with few words, and processes that use the same file."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import dpsql.ledger
from dpsql.ledger import Charge, Ledger, Price, terms

ROOT = Path(dpsql.ledger.__file__).parents[2]
TERMS: dict[str, Any] = {
    "epsilon": Fraction(1),
    "delta": Fraction(1, 10**6),
    "composition": "basic",
    "unit": "household",
    "sources": ("/data/sales.parquet",),
    "analyst": None,
}
JOINT = Fraction(3)  # of all analysts together, where a test names one

PREAMBLE = """
import sys
from fractions import Fraction
from pathlib import Path
from dpsql.errors import Error
from dpsql.ledger import Charge, Ledger, terms
path = Path(sys.argv[1])
def account(epsilon):
    return Ledger.open(path, terms("shop", epsilon=Fraction(epsilon), delta=Fraction(1, 10**6), composition="basic",
                                   unit="household", sources=("/data/sales.parquet",), analyst=None))
def charge(epsilon):
    return Charge(Fraction(epsilon), Fraction(0), "SELECT 1", "f", "s", "p")
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "state").mkdir()
    return tmp_path / "state" / "ledger.sqlite"


@pytest.fixture
def account(path: Path) -> Iterator[Callable[..., Ledger]]:
    """`account(name="shop", new=False, at=path, **others)`; all are closed at the end."""
    with ExitStack() as stack:

        def open_account(name: str = "shop", *, new: bool = False, at: Path | None = path, **others: Any) -> Ledger:
            way = Ledger.open_new if new else Ledger.open
            if others.get("analyst") is not None:
                others = {"joint_epsilon": JOINT, **others}
            return stack.enter_context(closing(way(at, terms(name, **{**TERMS, **others}))))

        yield open_account


@pytest.fixture
def charge() -> Callable[..., Charge]:
    def make(
        epsilon: Fraction | str = "1/10",
        delta: Fraction | str = "0",
        *,
        statement: str = "SELECT COUNT(*) FROM sales",
        fingerprint: str = "f",
        snapshot: str = "s",
        joint: Price | None = None,
        refines: tuple[str, ...] = (),
    ) -> Charge:
        amounts = Fraction(epsilon), Fraction(delta)
        return Charge(*amounts, statement, fingerprint, snapshot, "digest", joint=joint, refines=refines)

    return make


@pytest.fixture
def process(path: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """`process(code)` starts Python on the code, after the preamble above; ended at the latest with the test."""
    started: list[subprocess.Popen[str]] = []
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]

    def start(code: str, **options: Any) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", PREAMBLE + code, str(path)]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
        pipe = subprocess.PIPE
        child = subprocess.Popen(command, env=environment, stdout=pipe, stderr=pipe, text=True, **options)
        started.append(child)
        return child

    yield start
    for child in started:
        child.kill()
        child.communicate()


def stored(ledger: Ledger, fingerprint: str, snapshot: str) -> bytes | None:
    """The answer under one fingerprint."""
    found = ledger.find([fingerprint], snapshot).get(fingerprint, [])
    return found[0].answer if found else None
