"""What somebody new does first: looks before anything is prepared, names the wrong file, asks without ORDER BY."""

from __future__ import annotations

import json
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import pytest

import dpsql
from dpsql.ledger import default_path
from tests.conftest import Clinic
from tests.end.conftest import Run

COUNT = "SELECT COUNT(*) FROM patients"


def test_the_budget_is_told_before_anything_is_prepared(clinic: Clinic, command: Run) -> None:
    told = command("budget", clinic.policy)
    assert (told.returncode, told.stderr) == (0, "")
    assert "0 spent, 1000 left of 1000" in told.stdout
    assert not default_path().exists()


def test_whoever_looks_leaves_no_purse(make_clinic: Callable[..., Clinic], command: Run, tmp_path: Path) -> None:
    clinic = make_clinic(epsilon="500", max_query_epsilon="500")
    text = clinic.policy.read_text(encoding="utf-8")
    terms = 'per_analyst = true\njoint_epsilon = "1000"\n'
    clinic.policy.write_text(text.replace("[tables.patients]", f"{terms}\n[tables.patients]", 1), encoding="utf-8")
    given = ("--policy", clinic.policy, "--database", clinic.database)
    assert command("run", *given, "--analyst", "ann", "-c", COUNT).returncode == 0
    looks: tuple[tuple[str | Path, ...], ...] = (
        ("budget", clinic.policy, "--analyst", "bob"),
        ("budget", "what-if", *given, "--analyst", "bob", "-c", COUNT),
        ("run", "--dry-run", *given, "--analyst", "bob", "-c", COUNT),
        ("run", *given, "--analyst", "bob", "-c", "SHOW BUDGET"),
    )
    for look in looks:
        done = command(*look)
        assert done.returncode == 0, done.stderr
        assert "500" in done.stdout
    purses = json.loads(command("budget", clinic.policy, "--json").stdout)["purses"]
    assert [purse["analyst"] for purse in purses] == [None, "ann"]


def test_a_whole_budget_is_given_anew_only_when_asked_for(clinic: Clinic, command: Run) -> None:
    again = ("budget", "open", "--new", clinic.policy, clinic.database)
    assert command(*again).returncode == 0, "nothing is spent: nothing to ask"
    assert command("run", "--policy", clinic.policy, "--database", clinic.database, "-c", COUNT).returncode == 0
    unsure = command(*again)
    assert unsure.returncode == 2
    assert "the account has spent ε 1 by 1 statement" in unsure.stderr
    assert "999 left" in command("budget", clinic.policy).stdout
    assert command(*again, "--yes").returncode == 0
    assert "1000 left" in command("budget", clinic.policy).stdout


@pytest.mark.parametrize(("magic", "kind"), [(b"", "a DuckDB database"), (b"PAR1", "a Parquet file")])
def test_data_in_the_place_of_a_policy_is_known(clinic: Clinic, command: Run, magic: bytes, kind: str) -> None:
    file = clinic.database
    if magic:
        file = file.with_suffix(".parquet")
        file.write_bytes(magic + bytes(100))
    done = command("check", file)
    assert done.returncode == 2
    assert f"is {kind}, not a policy" in done.stderr
    assert f"`dpsql init {file}` drafts one" in done.stderr


def test_a_misspelt_folder_of_a_ledger_is_no_new_budget(clinic: Clinic, tmp_path: Path) -> None:
    with pytest.raises(dpsql.BudgetError, match="lies in a folder that does not exist"):
        dpsql.connect(clinic.policy, clinic.database, ledger=tmp_path / "sate" / "ledger.sqlite")
    dpsql.connect(clinic.policy, clinic.database, ledger=tmp_path / "ledger.sqlite").close()


def test_distinct_groups_come_in_the_order_of_their_keys(clinic: Clinic) -> None:
    text = clinic.policy.read_text(encoding="utf-8")
    clinic.policy.write_text(text.replace('delta = "0"', 'delta = "1e-3"'), encoding="utf-8")
    with dpsql.connect(clinic.policy, clinic.database) as connection:
        connection.execute("SET epsilon = 1000")
        rows = connection.execute("SELECT DISTINCT label FROM patients JOIN regions USING (region)").fetchall()
        assert rows == sorted(rows)
        assert len(rows) > 5


def test_the_ledger_tells_what_was_typed(clinic: Clinic, command: Run) -> None:
    typed = "select count(*) -- how many?\nfrom patients where age > ?"
    with dpsql.connect(clinic.policy, clinic.database) as connection:
        connection.execute(typed, [30])
    rows = [json.loads(line) for line in command("ledger", "export", "--jsonl").stdout.splitlines()]
    (asked,) = (row for row in rows if row["event"] == "asked")
    assert asked["statement"].startswith(f"{typed}\n")
    assert "30" in asked["statement"]
    assert sum(Fraction(row.get("epsilon", "0")) for row in rows) == 1
    assert command("ledger", "verify").returncode == 0
