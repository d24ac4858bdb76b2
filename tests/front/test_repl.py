"""The interactive session as a person has it: on a terminal, a narrow one, a dumb one, and through a pipe."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.front.conftest import LAUNCH, ROOT, Dpsql
from tests.front.terminal import Terminal

QUERY = "SELECT department FROM sales;"
Start = Callable[..., Terminal]


@pytest.fixture
def start(tmp_path: Path) -> Start:
    (tmp_path / "shop.toml").touch()

    def begin(*, columns: int = 80, term: str = "xterm-256color", **environment: str) -> Terminal:
        variables = {"PYTHONPATH": str(ROOT)} | environment
        terminal = Terminal([*LAUNCH, "shop.toml"], tmp_path, columns=columns, term=term, environment=variables)
        terminal.wait_for(">")
        return terminal

    return begin


def test_a_question_over_several_lines(start: Start) -> None:
    with start() as terminal:
        terminal.wait_for("left ε 3 of 3 · next ε 0.25 · \\? help · account shop")
        terminal.type("SELECT department\r")
        terminal.wait_for("...>")
        terminal.type("FROM sales;\r")
        terminal.wait_for("dpsql ε 2.75>")
        assert terminal.lines[:11] == [
            "account shop: protects each household",
            "end statements with ;  help with \\?",
            "dpsql ε 3> SELECT department",
            "      ...> FROM sales;",
            " department │ households",
            "────────────┼────────────",
            " GROCERY    │  2401 ± 14",
            " DRUG GM    │  1136 ± 14",
            " NULL       │     7 ± 14",
            "(3 rows)",
            "cost ε = 0.25 · left ε = 2.75 of 3 · ± is the half-width of the 95 % interval",
        ]
        terminal.wait_for("left ε 2.75 of 3 · next")
        terminal.type("SET epsilon = 0.5;\r")
        terminal.wait_for("next ε 0.5")
        terminal.type("\x04")
        assert terminal.wait_for_end() == 0


def test_an_error_goes_on(start: Start) -> None:
    with start() as terminal:
        terminal.type("SELECT JOIN;\r")
        terminal.wait_for("= help: add `AND t.household_id = r.household_id`")
        terminal.type("SELECT crash;\r")
        terminal.wait_for("error[DP901]: dpsql met a fault of its own")
        terminal.type("\\nothing\r")
        terminal.wait_for("no command \\nothing; \\? shows all")
        terminal.type("\\q\r")
        assert terminal.wait_for_end() == 0
        assert "Traceback" not in terminal.output


def test_ctrl_c_stops_a_statement_and_not_the_session(start: Start) -> None:
    with start() as terminal:
        terminal.type("SELECT slowly;\r")
        terminal.wait_for("running; Ctrl-C stops it (1 s)")
        terminal.type("\x03")
        terminal.wait_for("interrupted; what the statement was charged stays charged")
        terminal.wait_for("dpsql ε 2.75>")
        assert "running" not in "\n".join(terminal.lines)
        terminal.type(f"{QUERY}\r")
        terminal.wait_for("dpsql ε 2.5>")


def test_ctrl_c_at_the_prompt_drops_the_text(start: Start) -> None:
    with start() as terminal:
        terminal.type("SELECT nonsense")
        terminal.wait_for("SELECT nonsense")
        terminal.type("\x03")
        terminal.type(f"{QUERY}\r")
        terminal.wait_for("dpsql ε 2.75>")


def test_commands(start: Start, tmp_path: Path) -> None:
    (tmp_path / "two.sql").write_text("SELECT public;\n" + QUERY, encoding="utf-8")
    with start() as terminal:
        for command, expected in (
            ("\\?", "\\explain SQL;  plan and price: free"),
            ("\\d", " days"),
            ("\\d sales", " sales_value"),
            ("\\budget", "ε: 0 spent, 3 left of 3"),
            ("\\explain SELECT a;", "  SELECT a with None, epsilon 1/4"),
            ("\\explain", "write \\explain SELECT ...;"),
            ("\\i missing.sql", "can't read missing.sql: No such file or directory"),
            ("\\i two.sql", "dpsql ε 2.75>"),
        ):
            terminal.type(command)
            terminal.wait_for(command)
            terminal.type("\x1b\r" if command == "\\explain" else "\r")
            terminal.wait_for(expected)


def test_completion_by_tab(start: Start) -> None:
    with start() as terminal:
        terminal.type("SELECT hous")
        terminal.wait_for("household_id  column")
        terminal.type("\t")
        terminal.wait_for("> SELECT household_id")
        terminal.type("\r")  # takes what is picked
        terminal.wait_for("household_id  column", gone=True)
        terminal.type(", 1 FROM \t")
        terminal.wait_for("sales  table")


def test_history_outlives_the_session(start: Start) -> None:
    with start() as terminal:
        terminal.type(f"{QUERY}\r")
        terminal.wait_for("dpsql ε 2.75>")
        terminal.type("\x04")
        terminal.wait_for_end()
    with start() as terminal:
        terminal.type("\x1b[A")
        terminal.wait_for(f"dpsql ε 3> {QUERY}")


def test_colors_and_their_absence(start: Start) -> None:
    color = re.compile(r"\x1b\[[0-9;]*3[0-9][0-9;]*m")
    with start() as terminal:
        terminal.type("SELECT 1")
        terminal.wait_for("SELECT 1")
        assert color.search(terminal.output)
    with start(NO_COLOR="1") as terminal:
        terminal.type("SELECT JOIN;\r")
        terminal.wait_for("= help")
        assert not color.search(terminal.output)


def test_forty_columns(start: Start) -> None:
    with start(columns=40) as terminal:
        terminal.wait_for("left ε 3 of 3 · next ε 0.25 · \\? help")
        terminal.type("SELECT wide;\r")
        terminal.wait_for("± is the half-width of the 95 % interval")
        assert terminal.lines[2:15] == [
            "dpsql ε 3> SELECT wide;",
            "── row 1 ──",
            " column_0 │ a rather long text in a cell",
            " column_1 │ a rather long text in a cell",
            " column_2 │ a rather long text in a cell",
            " total    │ 123,456 ± 9",
            "── row 2 ──",
            " column_0 │ short",
            " column_1 │ short",
            " column_2 │ short",
            " total    │ 7 ± 9",
            "(2 rows)",
            "cost ε = 0.25 · left ε = 2.75 of 3",
        ]


def test_a_dumb_terminal_gets_plain_text(start: Start) -> None:
    with start(term="dumb") as terminal:
        terminal.type("SELECT department\n")
        terminal.wait_for("      ...>")
        terminal.type("FROM sales;\n")
        terminal.wait_for("dpsql ε 2.75>")
        terminal.type("SELECT slowly;\n")
        time.sleep(0.5)
        terminal.type("\x03")
        terminal.wait_for("interrupted; what the statement")
        terminal.type("\x03")
        terminal.wait_for("^C\n")
        terminal.type("\\q\n")
        assert terminal.wait_for_end() == 0
        assert "\x1b" not in terminal.output


def test_a_pipe(dpsql: Dpsql, policy_file: Path) -> None:
    done = dpsql("shop.toml", stdin=f"\n{QUERY}\nSELECT public\n  FROM days;\n\\budget\n{QUERY.removesuffix(';')}")
    assert (done.returncode, done.stderr) == (0, "")
    assert [line for line in done.stdout.splitlines() if line.startswith(("cost", "free", "ε"))] == [
        "cost ε = 0.25 · left ε = 2.75 of 3 · ± is the half-width of the 95 % interval",
        "free · left ε = 2.75 of 3",
        "ε: 0.25 spent, 2.75 left of 3",
        "free · left ε = 2.75 of 3 · ± is the half-width of the 95 % interval",
    ]
    assert "dpsql ε" not in done.stdout


def test_a_pipe_stops_at_the_first_error(dpsql: Dpsql, policy_file: Path) -> None:
    """What follows a refused SET would be charged another price than meant."""
    done = dpsql("shop.toml", stdin=f"SET epsilon = -1;\n{QUERY}\n")
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.startswith("error[DP120]")


def test_a_pipe_that_is_no_text(tmp_path: Path, policy_file: Path) -> None:
    for arguments in (["shop.toml"], ["run", "--policy", "shop.toml", "-"]):
        done = subprocess.run(
            [*LAUNCH, *arguments],
            input=b"SELECT '\xff';\n",
            capture_output=True,
            cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
            timeout=30,
            check=False,
        )
        assert (done.returncode, done.stdout) == (3, b"")
        assert done.stderr.startswith(b"error[DP101]: ")


def test_an_empty_pipe(dpsql: Dpsql, policy_file: Path) -> None:
    done = dpsql("shop.toml")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
