"""Paths that lead nowhere: links in a circle, and a home that nobody has. Each is one error that speaks of the path."""

from __future__ import annotations

from pathlib import Path

import pytest

import dpsql
from tests.conftest import Clinic
from tests.end.conftest import Run

NOWHERE = ("circle", "~nobody-of-this-name/data.duckdb")
COUNT = "SELECT COUNT(*) FROM patients"
POLICY = """\
version = 1
[unit]
name = "rider"
[budget]
epsilon = "1"
per_query_epsilon = "1"
[tables.rides]
source = "{}/"
unit = "rider"
max_rows_per_unit = 1
[tables.rides.columns]
rider = {{}}
"""


@pytest.fixture(autouse=True)
def circle(tmp_path: Path) -> None:
    (tmp_path / "circle").symlink_to("circle")
    (tmp_path / "files.toml").write_text(POLICY.format("circle"))
    (tmp_path / "home.toml").write_text(POLICY.format(NOWHERE[1]))


@pytest.mark.parametrize("where", NOWHERE)
@pytest.mark.parametrize(
    "arguments",
    [
        ["run", "--policy", "POLICY", "--database", "PATH", "-c", COUNT],
        ["run", "--policy", "PATH", "-c", COUNT],
        ["run", "--policy", "POLICY", "--database", "DATABASE", "--ledger", "PATH", "-c", COUNT],
        ["run", "--policy", "POLICY", "--database", "DATABASE", "PATH"],
        ["explain", "--policy", "POLICY", "--database", "PATH", "-c", COUNT],
        ["prepare", "POLICY", "PATH"],
        ["prepare", "PATH"],
        ["check", "POLICY", "PATH"],
        ["check", "PATH"],
        ["init", "PATH"],
        ["budget", "PATH"],
        ["ledger", "verify", "--ledger", "PATH"],
    ],
    ids=" ".join,
)
def test_a_path_that_leads_nowhere(arguments: list[str], where: str, clinic: Clinic, command: Run) -> None:
    given = {"POLICY": str(clinic.policy), "DATABASE": str(clinic.database), "PATH": where}
    done = command(*(given.get(word, word) for word in arguments))
    assert done.returncode in (1, 2, 4)
    assert done.stdout == ""
    assert where in done.stderr
    assert "DP901" not in done.stderr
    assert "Traceback" not in done.stderr


def test_sources_that_lead_nowhere(command: Run) -> None:
    for policy in ("files.toml", "home.toml"):
        done = command("prepare", policy)
        assert (done.returncode, "DP302" in done.stderr, "rides" in done.stderr) == (2, True, True), done.stderr


@pytest.mark.parametrize("where", NOWHERE)
def test_connections(where: str, clinic: Clinic, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(dpsql.Error, match=r"^DP302"):
        dpsql.connect(clinic.policy, where)
    with dpsql.connect(clinic.policy, clinic.database):
        pass
    with pytest.raises(dpsql.Error, match=r"^DP30"):  # another database than the snapshot was made from
        dpsql.connect(clinic.policy, where)
