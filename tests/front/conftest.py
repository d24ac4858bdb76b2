"""The fake session installed, a policy file to name, and the command line as a process."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.front import fake_session
from tests.patience import PATIENCE

ROOT = Path(__file__).resolve().parents[2]
LAUNCH = [sys.executable, "-m", "tests.front.launch"]

POLICY = """\
version = 1
[unit]
name = "household"
[budget]
account = "shop"
epsilon = "3"
delta = "0"
per_query_epsilon = "0.25"
max_query_epsilon = "1"
[tables.sales]
unit = "household_id"
max_rows_per_unit = 10
[tables.sales.columns]
household_id = {}
department = { values = ["GROCERY"] }
"""


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> object:
    """The fake in the place of `dpsql.session` and `dpsql.owner`, with nothing opened yet."""
    monkeypatch.setitem(sys.modules, "dpsql.session", fake_session)
    monkeypatch.setitem(sys.modules, "dpsql.owner", fake_session)
    fake_session.calls.clear()
    fake_session.accounts.clear()
    return fake_session


@pytest.fixture
def policy_file(tmp_path: Path) -> Path:
    path = tmp_path / "shop.toml"
    path.write_text(POLICY, encoding="utf-8")
    return path


Dpsql = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def dpsql(tmp_path: Path) -> Dpsql:
    """Runs the command line (with the fake session) in the test's folder."""

    def run(*arguments: str, stdin: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*LAUNCH, *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": str(ROOT)} | environment,
            timeout=PATIENCE,
            check=False,
        )

    return run
