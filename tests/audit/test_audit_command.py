"""`dpsql audit`: the table, the exit code, and nobody's own files."""

from __future__ import annotations

import math
import os
from pathlib import Path

import pytest

from dpsql.audit import attack
from dpsql.audit.data import home as audit_home
from dpsql.audit.report import BET, ONE_RUN, Finding, broken, table
from dpsql.front.cli import main


def test_it_ends_with_0_where_nothing_is_found(capsys: pytest.CaptureFixture[str], home: Path) -> None:
    """No time: no designs, but the same path from the command line to the table. (A whole run is `make audit`.)"""
    assert main(["audit", "--seconds", "0"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["claim", "method", "verdict", "evidence"]
    assert lines[-1].endswith("0 holds, 0 BROKEN, " + lines[-1].split()[0] + " untested")
    assert not home.exists() or not list(home.rglob("*.duckdb"))


def test_it_ends_with_1_where_a_claim_is_broken(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = [Finding("a count: epsilon 1", "one run", 12.25, ONE_RUN, "500 of 500 right")]
    monkeypatch.setattr(attack, "_all", lambda *_: [(found, 1.0)])
    assert main(["audit", "--rounds", "3"]) == 1
    assert "a count: epsilon 1  one run  BROKEN   p = 1e-12.2  500 of 500 right" in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [["--rounds", "0"], ["--rounds", "x"], ["--what"]])
def test_other_arguments_are_refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["audit", *arguments]) == 2


def test_the_environment_is_as_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    before = dict(os.environ)
    with audit_home(tmp_path):
        assert os.environ["XDG_CACHE_HOME"] == str(tmp_path / "cache")
        assert os.environ["XDG_STATE_HOME"] == str(tmp_path / "state")
    assert dict(os.environ) == before


def test_findings_say_how_sure_they_are() -> None:
    findings = [
        Finding("one", "one run", 0.3, ONE_RUN),
        Finding("two", "pairs", 9.5, BET, "60 rounds"),
        Finding("three is answered", "one run", math.inf, ONE_RUN, "DP501"),
    ]
    assert [f.evidence for f in findings] == ["p = 0.501", "wealth 1e+9.5", "certain"]
    assert broken(findings) == findings[1:]
    assert [line.split()[-1] for line in table(findings).splitlines()[2:-2]] == ["0.501", "rounds", "DP501"]


@pytest.mark.audit
def test_a_whole_audit_holds(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["audit"]) == 0, capsys.readouterr().out
