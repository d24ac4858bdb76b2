"""The real product for every test here: a connection to the clinic, and the command line as a process."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import dpsql
from tests.conftest import Clinic
from tests.patience import PATIENCE

ROOT = Path(__file__).resolve().parents[2]

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def connection(clinic: Clinic) -> Iterator[dpsql.Connection]:
    """The clinic, opened, under a budget that no test exhausts."""
    with dpsql.connect(clinic.policy, clinic.database) as opened:
        yield opened


@pytest.fixture
def command(tmp_path: Path) -> Run:
    """Runs the real command line in the test's folder and home."""

    def run(*arguments: str | Path, stdin: str = "") -> subprocess.CompletedProcess[str]:
        return python("-m", "dpsql", *map(str, arguments), folder=tmp_path, stdin=stdin)

    return run


def python(*arguments: str, folder: Path, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """A Python process that sees the code under test."""
    return subprocess.run(
        [sys.executable, *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        timeout=PATIENCE,
        check=False,
    )
