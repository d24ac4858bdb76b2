"""Scripts on the real product: what is priced, what a stop leaves paid, what parameters are."""

from __future__ import annotations

import json
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import pytest

import dpsql
from dpsql.front.cli import main
from dpsql.vault.duckdb import DuckDBEngine
from dpsql.vault.engine import EngineFailure
from tests.conftest import Clinic
from tests.end.conftest import Run

COUNT = "SELECT COUNT(*) AS n FROM patients"


def given(clinic: Clinic) -> tuple[str, ...]:
    return "run", "--policy", str(clinic.policy), "--database", str(clinic.database)


def spent(clinic: Clinic) -> Fraction:
    with dpsql.connect(clinic.policy, clinic.database) as connection:
        return connection.budget.spent_epsilon


def test_a_run_after_a_stop_pays_only_for_the_rest(clinic: Clinic, command: Run, tmp_path: Path) -> None:
    script = tmp_path / "report.sql"
    first, second, third = (f"{COUNT} WHERE age > {n};\n" for n in (10, 20, 30))
    # The mistake shows only when it runs: the released result divides nothing, but casts a text that is no number.
    script.write_text(f"SET epsilon = 0.5;\n{first}SELECT CAST('x' AS INT) + n FROM ({COUNT});\n{second}{third}")
    stopped = command(*given(clinic), "--format", "json", script)
    assert stopped.returncode == 1, stopped.stderr
    (answered,) = json.loads(stopped.stdout)
    assert spent(clinic) == 1  # the first, and what the mistake was made of
    script.write_text(f"SET epsilon = 0.5;\n{first}SELECT 1 + n FROM ({COUNT});\n{second}{third}")
    # 0.5 is left to pay for the second, and for the third: what was answered is free, in the price and in the run.
    assert command(*given(clinic), "--max-cost", "0.99", script).returncode == 4
    rerun = command(*given(clinic), "--max-cost", "1", "--format", "json", script)
    assert rerun.returncode == 0, rerun.stderr
    results = json.loads(rerun.stdout)
    assert [result["receipt"]["epsilon"] for result in results] == ["0", "0", "1/2", "1/2"]
    assert results[0]["rows"] == answered["rows"]
    assert spent(clinic) == 2


def test_settings_of_the_script_count_in_its_price(make_clinic: Callable[..., Clinic], command: Run) -> None:
    clinic = make_clinic(epsilon="2", max_query_epsilon="2")  # a statement costs 1 unless it says otherwise
    dear = f"SET epsilon = 1.5; {COUNT}; RESET epsilon; SELECT COUNT(*) FROM visits"
    refused = command(*given(clinic), "-c", dear)
    assert (refused.returncode, refused.stdout) == (4, "")
    assert "the script costs ε 2.5, and left are 2 of ε" in refused.stderr
    cheap = f"{COUNT}; SET epsilon = 0.5; SELECT COUNT(*) FROM visits"
    done = command(*given(clinic), "--max-cost", "1.5", "-c", cheap, "-c", "SHOW SETTINGS")
    assert done.returncode == 0, done.stderr
    assert spent(clinic) == Fraction(3, 2)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("SELECT 1;\nSELECT 'abc", "2:8"),
        ("SELECT 1;\n /* abc", "2:2"),
        ("SELECT 1;\nSELECT\0", "2:7"),
        (f"SELECT 1;\n SELECT '{'x' * 200_000}'", "2:2"),
        (f"SELECT 1;\n SELECT {'1,' * 9_999}1, 2", "2:20008"),
        ("SELECT 1;\n" * 15_000, "14135:1"),
        (f"SELECT 1;\nSELECT {'(' * 31}1{')' * 31}", "2:38"),
    ],
)
def test_what_is_no_statement_is_shown_in_its_script(clinic: Clinic, command: Run, text: str, place: str) -> None:
    bad = clinic.policy.with_name("bad.sql")
    bad.write_text(text)
    found = command(*given(clinic), bad, "-c", "SELECT 1")
    assert found.returncode == 3
    _, where, _, caret, *_ = found.stderr.splitlines()
    assert where.strip() == f"--> {bad}:{place}"
    assert "^" in caret


def test_a_mark_of_byte_order_is_no_statement(clinic: Clinic, command: Run) -> None:
    assert command(*given(clinic), "-", stdin="\ufeffSELECT 1").returncode == 0


def test_pricing_leaves_the_settings_as_they_were(clinic: Clinic, command: Run) -> None:
    done = command(*given(clinic), "--format", "json", "-c", f"{COUNT}; SET epsilon = 0.5; {COUNT} WHERE age > 1")
    assert [result["receipt"]["epsilon"] for result in json.loads(done.stdout)] == ["1", "1/2"]


def test_parameters_are_values_and_never_text(clinic: Clinic, command: Run) -> None:
    sql = "SELECT $t AS t, $n AS n, $d AS d, $x AS x"
    values = ("-v", "t=x' OR '1'='1", "-v", "n=-2.50", "-v", "d=2024-02-29", "-v", "x='42'")
    done = command(*given(clinic), *values, "--format", "json", "-c", sql)
    assert done.returncode == 0, done.stderr
    (result,) = json.loads(done.stdout)
    assert result["rows"] == [["x' OR '1'='1", -2.5, "2024-02-29", "42"]]
    assert [column["type"] for column in result["columns"]] == ["VARCHAR", "DECIMAL", "DATE", "VARCHAR"]
    same = command(*given(clinic), "-v", "n=30", "-c", f"{COUNT} WHERE age > $n; {COUNT} WHERE age > 30")
    assert spent(clinic) == 1, same.stderr
    missing = command(*given(clinic), "-c", f"{COUNT} WHERE age > $n")
    assert missing.returncode == 2
    assert "-v n=value" in missing.stderr


def test_a_failing_engine_stops_the_script(clinic: Clinic) -> None:
    assert main([*given(clinic), "-c", COUNT]) == 0

    def fail(*_: object) -> None:
        raise EngineFailure("secret")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DuckDBEngine, "run", fail)
        assert main([*given(clinic), "-c", f"{COUNT} WHERE age > 1; {COUNT} WHERE age > 2"]) == 1
    assert spent(clinic) == 2
