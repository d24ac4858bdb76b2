"""The command line: exit codes, what goes to stdout and what to stderr, and that nothing ends in a traceback."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import dpsql as package
from dpsql.front import cli
from tests.front import fake_session
from tests.front.conftest import LAUNCH, ROOT, Dpsql
from tests.front.terminal import hear_ctrl_c
from tests.patience import PATIENCE, until

QUERY = "SELECT department, households FROM sales"
RUN = ("run", "--policy", "shop.toml")
TABLE = """\
 department │ households
────────────┼────────────
 GROCERY    │  2401 ± 14
 DRUG GM    │  1136 ± 14
 NULL       │     7 ± 14
(3 rows)
cost ε = 0.25 · left ε = 2.75 of 3 · ± is the half-width of the 95 % interval
"""


def main(capfd: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = cli.main(arguments)
    out, err = capfd.readouterr()
    assert "Traceback" not in err
    return code, out, err


# ---------------------------------------------------------------------------------------------------- exit codes


@pytest.mark.parametrize(
    ("sql", "code", "said"),
    [
        (QUERY, 0, ""),
        ("SELECT engine", 1, "error[DP501]: the statement could not be finished"),
        ("nonsense", 3, "error[DP101]: this is not SQL"),
        ("SELECT JOIN", 3, "error[DP210]: a join of two private tables"),
        ("SET epsilon = -1", 3, "error[DP120]: epsilon is more than 0"),
        ("SELECT dear", 4, "error[DP401]: the budget is exhausted"),
        ("SELECT lost", 70, "error[DP901]: a check failed"),
        ("SELECT crash", 70, "error[DP901]: dpsql met a fault of its own"),
    ],
)
def test_the_exit_code_tells_the_kind_of_error(
    fake: object, capfd: pytest.CaptureFixture[str], sql: str, code: int, said: str
) -> None:
    found, _, err = main(capfd, *RUN, "-c", sql)
    assert found == code
    assert err.startswith(said)
    assert fake_session.PRIVATE_DETAIL not in err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "dpsql: give a policy file; 'dpsql --help' shows all commands\n"),
        (("rum",), 'dpsql: no such policy file: rum. Did you mean "run"?\n'),
        (("run", "-c", "x"), "the following arguments are required: --policy"),
        (("run", "--format", "xml"), "invalid choice: 'xml'"),
        (RUN, "dpsql: nothing to run: give FILE..., - for standard input, or -c SQL\n"),
        ((*RUN, "missing.sql"), "dpsql: can't read missing.sql: No such file or directory\n"),
        ((*RUN, "."), "dpsql: can't read .: Is a directory\n"),
        ((*RUN, "-c", "x", "-o", "no/where.txt"), "dpsql: can't write no/where.txt: No such file or directory\n"),
        (
            ("run", "--policy", "broken.toml", "-c", "x"),
            "error[DP301]: unknown key `budgett`\n  = help: write `budget`\n",
        ),
        (("check", "missing.toml"), "error[DP301]: "),
        (("budget", "open", "shop.toml"), "the following arguments are required: --new"),
        (("prepare",), "the following arguments are required: POLICY"),
    ],
)
def test_wrong_use_is_told_in_a_line_and_costs_nothing(
    fake: object,
    capfd: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    said: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, err = main(capfd, *arguments)
    assert (code, out) == (2, "")
    assert said in err


def test_a_crash_on_opening_shows_nothing_of_it(fake: object, capfd: pytest.CaptureFixture[str]) -> None:
    code, out, err = main(capfd, "run", "--policy", "crash.toml", "-c", QUERY)
    assert (code, out) == (70, "")
    assert err.startswith("error[DP901]: dpsql met a fault of its own")
    assert fake_session.PRIVATE_DETAIL not in err


def test_a_policy_nearby_is_suggested(
    capfd: pytest.CaptureFixture[str], policy_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(policy_file.parent)
    assert "for example: dpsql shop.toml DATABASE" in main(capfd)[2]


# ------------------------------------------------------------------------------------------------- dpsql run


def test_a_table_with_its_cost_under_it(fake: object, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(capfd, *RUN, "-c", QUERY) == (0, TABLE, "")


def test_options_reach_the_session(fake: object, capfd: pytest.CaptureFixture[str]) -> None:
    options = ("--database", "d", "--ledger", "l", "--analyst", "a", "--prepare", "required")
    assert main(capfd, *RUN, *options, "-c", QUERY)[0] == 0
    assert fake_session.calls == [
        {"policy": "shop.toml", "database": "d", "ledger": "l", "analyst": "a", "prepare": "required"}
    ]


def test_several_results_are_set_apart(fake: object, capfd: pytest.CaptureFixture[str]) -> None:
    free = TABLE.replace("cost ε = 0.25", "free")
    assert main(capfd, *RUN, "-c", f"{QUERY}; {QUERY};", "-c", QUERY)[1] == f"{TABLE}\n{free}\n{free}"


def test_echo_shows_the_statement_with_its_comment(fake: object, capfd: pytest.CaptureFixture[str]) -> None:
    _, out, _ = main(capfd, *RUN, "--echo", "-c", f"-- how many?\n{QUERY};SET epsilon = 1")
    assert out == f"-- how many?\n{QUERY};\n{TABLE}\nSET epsilon = 1;\nok\nfree\n"


def test_echo_keeps_out_of_machine_formats(fake: object, capfd: pytest.CaptureFixture[str]) -> None:
    _, out, err = main(capfd, *RUN, "--echo", "--format", "csv", "-c", QUERY)
    assert out.startswith("department,households,households_half_width\n")
    assert err.startswith(f"{QUERY};\ncost ε = 0.25 · left ε = 2.75 of 3")


@pytest.mark.parametrize(
    ("format", "expected"),
    [
        ("csv", "department,households,households_half_width\nGROCERY,2401,14.0\nDRUG GM,1136,14.0\n,7,14.0\n"),
        ("jsonl", '{"department": "GROCERY", "households": 2401, "households_half_width": 14.0}\n'),
        ("json", '[{"columns": [{"name": "department", "type": "VARCHAR"}, {"name": "households", "type": "BIGINT"}]'),
        ("markdown", "| department | households |\n| --- | ---: |\n| GROCERY | 2401 ± 14 |\n"),
    ],
)
def test_machine_formats_keep_the_cost_on_stderr(
    fake: object, capfd: pytest.CaptureFixture[str], format: str, expected: str
) -> None:
    code, out, err = main(capfd, *RUN, "--format", format, "-c", f"SET epsilon = 1; {QUERY}")
    assert code == 0
    assert out.startswith(expected)
    assert err == TABLE.splitlines()[-1] + "\n"


def test_json_is_one_array_of_results_whatever_happens(fake: object, capfd: pytest.CaptureFixture[str]) -> None:
    for sql, rows in ((f"{QUERY}; SHOW TABLES", [3, 2]), (f"{QUERY}; SELECT JOIN", [3]), ("SET epsilon = 1", [])):
        _, out, _ = main(capfd, *RUN, "--format", "json", "-c", sql)
        assert [len(result["rows"]) for result in json.loads(out)] == rows


def test_an_error_shows_file_line_and_caret(dpsql: Dpsql, tmp_path: Path) -> None:
    (tmp_path / "report.sql").write_text(f"{QUERY};\n\nSELECT JOIN;\n{QUERY};\n", encoding="utf-8")
    done = dpsql(*RUN, "report.sql")
    assert done.returncode == 3
    assert done.stdout == TABLE
    assert done.stderr == (
        "error[DP210]: a join of two private tables must also match the privacy unit\n"
        "  --> report.sql:3:8\n"
        "3 | SELECT JOIN;\n"
        "  |        ^^^^\n"
        "  = help: add `AND t.household_id = r.household_id`\n"
    )


def test_keep_going_runs_on_and_returns_the_first_code(fake: object, capfd: pytest.CaptureFixture[str]) -> None:
    code, out, err = main(capfd, *RUN, "--keep-going", "-c", f"SELECT JOIN; SELECT dear; {QUERY}")
    assert (code, out) == (3, TABLE)
    assert [line[:13] for line in err.splitlines() if line.startswith("error")] == ["error[DP210]:", "error[DP401]:"]


def test_a_script_that_is_no_text_runs_nothing(fake: object, capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    good, bad = tmp_path / "good.sql", tmp_path / "bad.sql"
    good.write_text(QUERY, encoding="utf-8")
    bad.write_bytes(b"SELECT 1;\nSELECT '\xff';")
    code, out, err = main(capfd, *RUN, str(good), str(bad))
    assert (code, out) == (3, "")
    assert err.startswith(f"error[DP101]: {bad} is not UTF-8 text (line 2)")


def test_a_script_that_cannot_be_split_runs_nothing(fake: object, capfd: pytest.CaptureFixture[str]) -> None:
    code, out, err = main(capfd, *RUN, "-c", QUERY, "-c", "SELECT 'open")
    assert (code, out) == (3, "")
    assert "--> -c:1:8" in err


def test_standard_input_and_a_byte_order_mark(dpsql: Dpsql, tmp_path: Path) -> None:
    (tmp_path / "bom.sql").write_text(QUERY, encoding="utf-8-sig")
    done = dpsql(*RUN, "-", "bom.sql", stdin=f"{QUERY};")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("GROCERY") == 2


def test_results_in_a_file(fake: object, capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    target = tmp_path / "out.txt"
    assert main(capfd, *RUN, "-c", QUERY, "-o", str(target)) == (0, "", "")
    assert target.read_text(encoding="utf-8") == TABLE


def test_a_full_disk_is_told(fake: object, capfd: pytest.CaptureFixture[str]) -> None:
    code, _, err = main(capfd, *RUN, "-c", QUERY, "-o", "/dev/full")
    assert (code, err) == (1, "dpsql: can't write the output: No space left on device\n")


def test_a_terminal_without_our_signs(dpsql: Dpsql) -> None:
    done = dpsql(*RUN, "-c", QUERY, PYTHONIOENCODING="latin-1")
    assert done.returncode == 0
    assert done.stdout.splitlines()[2] == " GROCERY    | 2401 +- 14"


def test_a_reader_that_goes_away_ends_the_run_before_the_next_charge(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [*LAUNCH, *RUN, "-c", f"{QUERY}; SELECT crash"],
        stdout=writer,
        stderr=subprocess.PIPE,
        cwd=tmp_path,
        env=environment,
        timeout=PATIENCE,
        check=False,
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, b"")


# ------------------------------------------------------------------------------------------------- interrupts


def interrupted(tmp_path: Path, *arguments: str, presses: int = 1) -> tuple[int, str, str]:
    """Ctrl-C while `SELECT slowly` runs: the exit code, and both streams."""
    marker = tmp_path / "slowly"
    process = subprocess.Popen(
        [*LAUNCH, *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT), fake_session.MARKER: str(marker)},
        preexec_fn=hear_ctrl_c,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    until(marker.exists, "the statement runs")
    for _ in range(presses):
        process.send_signal(signal.SIGINT)
    out, err = process.stdout.read(), process.stderr.read()
    return process.wait(timeout=PATIENCE), out, err


def test_ctrl_c_stops_the_statement_and_the_script(tmp_path: Path) -> None:
    code, out, err = interrupted(tmp_path, *RUN, "--keep-going", "-c", f"{QUERY}; SELECT slowly; {QUERY}")
    assert (code, err) == (130, "interrupted; what the statement was charged stays charged\n")
    assert out.count("GROCERY") == 1


def test_ctrl_c_twice_is_no_traceback_either(tmp_path: Path) -> None:
    code, _, err = interrupted(tmp_path, *RUN, "-c", f"{QUERY}; SELECT slowly", presses=2)
    assert code == 130
    assert err.startswith("interrupted")
    assert "Traceback" not in err


# --------------------------------------------------------------------------------------------- other commands


def test_explain_follows_settings_and_skips_the_rest(fake: object, capfd: pytest.CaptureFixture[str]) -> None:
    code, out, err = main(
        capfd, "explain", "--policy", "shop.toml", "-c", f"SET epsilon = 0.5; SHOW TABLES; -- why\n{QUERY}; SELECT b"
    )
    assert (code, err) == (0, "")
    assert out.count("Release\n") == 2
    assert "epsilon 1/2" in out
    assert main(capfd, "explain", "--policy", "shop.toml", "-c", "SELECT JOIN")[0] == 3


def test_prepare_reports_and_shows_progress_in_lines(fake: object, capfd: pytest.CaptureFixture[str]) -> None:
    code, out, err = main(capfd, "prepare", "shop.toml", "d.duckdb", "--refresh")
    assert (code, out) == (0, "sales: 5 rows kept, 1 dropped (refresh: True)\n")
    assert err == "preparing sales ...\npreparing days ...\n"


def test_check_says_what_a_policy_is(fake: object, capfd: pytest.CaptureFixture[str], policy_file: Path) -> None:
    code, out, err = main(capfd, "check", str(policy_file))
    assert (code, err) == (0, "")
    ok, *advice = out.splitlines()
    assert ok == f"{policy_file}: ok (protects each household; 1 private and 0 public tables; account shop)"
    assert [line.split(": ")[:2] for line in advice] == [["  advice", "tables.sales"]]


def test_check_goes_on_after_a_bad_policy(fake: object, capfd: pytest.CaptureFixture[str], policy_file: Path) -> None:
    bad = policy_file.with_name("bad.toml")
    bad.write_text("version = 1\nbudgett = 3\n", encoding="utf-8")
    code, out, err = main(capfd, "check", str(bad), str(policy_file))
    assert code == 2
    assert err.startswith("error[DP301]")
    assert out.startswith(f"{policy_file}: ok")


BALANCE = "account shop\nε: 0.333334 spent, 2.66666 left of 3\nδ: 0 spent, 1e-6 left of 1e-6\n"


def test_the_budget_is_shown(fake: object, capfd: pytest.CaptureFixture[str], policy_file: Path) -> None:
    assert main(capfd, "budget", str(policy_file)) == (0, BALANCE, "")


def test_accounts_are_opened_and_reopened(fake: object, capfd: pytest.CaptureFixture[str], policy_file: Path) -> None:
    file = str(policy_file)
    spent = "the account has spent ε 0.333334 by 2 statements: no longer counted, though the answers are out there"
    unsure = ("budget", "open", "--new", file, "d.duckdb", "--ledger", "l")
    assert main(capfd, *unsure) == (2, "", f"dpsql: {spent}; say --yes to open it anew all the same\n")
    assert fake_session.accounts == []
    assert main(capfd, *unsure, "--yes") == (0, BALANCE, f"{spent}\n")
    assert main(capfd, "budget", "reopen", file) == (0, BALANCE, "")
    assert fake_session.accounts == [("anew", file, "d.duckdb", "l"), ("reopen", file, None)]


def test_help_of_every_command(capfd: pytest.CaptureFixture[str]) -> None:
    for command in ((), ("run",), ("explain",), ("prepare",), ("check",), ("budget",), ("budget", "open")):
        code, out, err = main(capfd, *command, "--help")
        assert (code, err) == (0, "")
        assert out.startswith("usage: dpsql")


def processor_time_of_children() -> float:
    times = os.times()
    return times.children_user + times.children_system


def test_the_version_comes_at_once() -> None:
    """At most 250 ms: no room for the engine or the parser. In processor time, since machines are shared."""
    best = 9.0
    for _ in range(3):
        started = processor_time_of_children()
        done = subprocess.run(
            [sys.executable, "-m", "dpsql", "--version"], cwd=ROOT, capture_output=True, text=True, check=True
        )
        best = min(best, processor_time_of_children() - started)
        assert done.stdout == f"dpsql {package.__version__}\n"
    assert best < 0.25
