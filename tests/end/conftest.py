"""The real product for every test here: a connection to the clinic, and the command line, called and as a process."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from io import BytesIO, TextIOWrapper
from pathlib import Path

import pytest

import dpsql
from dpsql.front.cli import main
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
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Calls the real command line in the test's folder and home: what a process would say and end with."""

    def run(*arguments: str | Path, stdin: str = "") -> subprocess.CompletedProcess[str]:
        out, err = TextIOWrapper(BytesIO(), "utf-8"), TextIOWrapper(BytesIO(), "utf-8")
        with monkeypatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
            patch.chdir(tmp_path)
            patch.setattr(sys, "stdin", TextIOWrapper(BytesIO(stdin.encode()), "utf-8"))
            code = main([*map(str, arguments)])
        said = [_text(stream) for stream in (out, err)]
        return subprocess.CompletedProcess(arguments, code, *said)

    return run


def _text(stream: TextIOWrapper) -> str:
    """All that was written to it."""
    stream.seek(0)
    return stream.read()


@pytest.fixture
def process(tmp_path: Path) -> Run:
    """The same as a process."""

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
