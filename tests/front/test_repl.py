"""The interactive session as a person has it: on a terminal, a narrow one, a dumb one, and through a pipe."""

from __future__ import annotations

import io
import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dpsql.front import repl
from dpsql.front.config import Preferences
from dpsql.front.opening import Opening
from tests.front.conftest import LAUNCH, ROOT, Dpsql
from tests.front.fake_session import MARKER
from tests.front.terminal import Terminal
from tests.patience import PATIENCE, until

QUERY = "SELECT department FROM sales;"
Start = Callable[..., Terminal]


@pytest.fixture
def start(tmp_path: Path) -> Start:
    (tmp_path / "shop.toml").touch()

    def begin(*, columns: int = 80, lines: int = 24, term: str = "xterm-256color", **environment: str) -> Terminal:
        variables = {"PYTHONPATH": str(ROOT)} | environment
        terminal = Terminal(
            [*LAUNCH, "shop.toml"], tmp_path, columns=columns, lines=lines, term=term, environment=variables
        )
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
            "dpsql: private answers to SQL. Account shop protects each household.",
            "ε 3 of 3 left; a statement costs 0.25 and ends with ;  \\? help  \\d tables",
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
        terminal.wait_for("error[DP120]: no command \\nothing")
        terminal.type("\\formt\r")
        terminal.wait_for("no command \\formt. Did you mean \\format?")
        terminal.type("\\q\r")
        assert terminal.wait_for_end() == 0
        assert "Traceback" not in terminal.output


def test_ctrl_c_stops_a_statement_and_not_the_session(start: Start) -> None:
    with start() as terminal:
        terminal.type("SELECT slowly;\r")
        terminal.wait_for("running; Ctrl-C stops it")
        terminal.type("\x03")
        terminal.wait_for("the statement was interrupted; its charge stays · left ε = 2.75 of 3")
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
    with start(lines=50) as terminal:
        for command, expected in (
            ("\\? chart", "bars with error bars"),
            ("\\d", " days"),
            ("\\dt", " days"),
            ("\\d sales", " household_id │ VARCHAR │ unit"),
            ("\\budget", "ε: 0 spent, 3 left of 3"),
            ("\\policy", "sales: of each household count at most 10 rows"),
            ("\\explain SELECT a;", "  SELECT a with None, epsilon 1/4"),
            ("\\explain", "= help: \\explain SELECT ...;"),
            ("\\cost SELECT department FROM sales;", "would cost ε = 0.25; then left ε = 2.75 of 3"),
            ("\\cost SELECT slowly;", "  households: ± 14"),
            ("\\releases", "nothing was charged so far"),
            ("\\why", "no such setting, or not a value for it"),
            ("\\chart", "there is no result to draw"),
            ("\\i missing.sql", "can't read missing.sql: No such file or directory"),
            ("\\i two.sql", "dpsql ε 2.75>"),
            ("\\releases 5", "UTC  ε 1/4  SELECT department FROM sales"),
            ("\\why 205", "a group key without public values"),
        ):
            terminal.type(command)
            terminal.wait_for(command)
            terminal.type("\x1b\r" if command == "\\explain" else "\r")
            terminal.wait_for(expected)
            terminal.clear()


def test_errors_break_between_words_on_narrow_screens(start: Start) -> None:
    with start(columns=40) as terminal:
        terminal.type("SELECT department, 1, 2 FROM sales JOIN x;\r")
        terminal.wait_for("r.household_id`")
        shown = terminal.lines
        at = next(n for n, line in enumerate(shown) if line.startswith("error"))
        assert shown[at : at + 8] == [
            "error[DP210]: a join of two private",
            "  tables must also match the privacy",
            "  unit",
            "  --> statement:1:36",
            "1 |  1, 2 FROM sales JOIN x;",
            "  |                  ^^^^",
            "  = help: add `AND t.household_id =",
            "          r.household_id`",
        ]


def test_results_are_shown_as_it_pleases(start: Start, tmp_path: Path) -> None:
    with start(lines=50) as terminal:
        for typed, expected in (
            ("\\x", "expanded is on"),
            (QUERY, "── row 3 ──"),
            ("\\x auto", "expanded is auto"),
            ("\\format jsn", 'format is not "jsn". Did you mean "json"?'),
            ("\\format csv", "format is csv"),
            (QUERY, "DRUG GM,1136,14.0"),
            ("\\format table", "format is table"),
            ("\\chart", " DRUG GM ████"),
            ("\\chart on", "chart is on"),
            (QUERY, " GROCERY ██████"),
            ("\\o answers.txt", "results go to answers.txt; \\o shows them here again"),
            (QUERY, "free · left ε = 2.75 of 3"),
            ("\\o", "results are shown here"),
            ("\\o shop.toml", "can't write shop.toml: it is a file that dpsql works with"),
            ("\\o nowhere/answers.txt", "can't write nowhere/answers.txt: No such file or directory"),
        ):
            terminal.type(f"{typed}\r")
            terminal.wait_for(expected)
            terminal.clear()
    text = (tmp_path / "answers.txt").read_text(encoding="utf-8")
    assert " DRUG GM    │  1136 ± 14\n" in text
    assert "free · left ε = 2.75 of 3" in text


def test_preferences_are_kept(start: Start, home: Path) -> None:
    with start() as terminal:
        terminal.type("\\set keys vi\r")
        terminal.wait_for("keys is vi, and stays so")
        terminal.wait_for("[insert] left ε 3")
        terminal.type("\\set epsilon\r")
        terminal.wait_for("epsilon is a setting of statements")
    assert (home / "config" / "dpsql" / "config.toml").read_text(encoding="utf-8") == '[repl]\nkeys = "vi"\n'
    with start() as terminal:
        terminal.wait_for("[insert] left ε 3")
        terminal.type("SELECT department FROM sale\x1b")
        terminal.wait_for("[vi] left")
        terminal.type("as;\x1b")
        terminal.wait_for("sales;")
        terminal.type("\r")  # a finished statement, from the other mode too
        terminal.wait_for("dpsql ε 2.75>")
        terminal.type("\\set\r")
        terminal.wait_for("keys        = vi")


def test_a_dear_statement_is_asked_about(start: Start) -> None:
    with start(lines=50) as terminal:
        terminal.type("\\set confirm 0.05\r")
        terminal.wait_for("confirm is 0.05")
        terminal.type(f"{QUERY}\r")
        terminal.wait_for("This costs ε = 0.25, and ε = 3 is left. Run it? [y/N]")
        terminal.type("\r")
        terminal.wait_for("not run; nothing was charged for it")
        terminal.wait_for("left ε 3 of 3")
        terminal.clear()
        terminal.type(f"{QUERY}\r")
        terminal.wait_for("Run it? [y/N]")
        terminal.type("\x03")
        terminal.wait_for("not run; nothing was charged for it")
        terminal.clear()
        terminal.type(f"{QUERY}\r")
        terminal.wait_for("Run it? [y/N]")
        terminal.type("y\r")
        terminal.wait_for("dpsql ε 2.75>")
        terminal.clear()
        terminal.type(f"{QUERY}\r")  # free by now
        terminal.wait_for("free · left ε = 2.75 of 3")
        terminal.type("\\set confirm off\r")
        terminal.wait_for("confirm is off")
        terminal.type("SELECT wide;\r")
        terminal.wait_for("dpsql ε 2.5>")


def test_the_editor_gets_the_last_statement(start: Start, tmp_path: Path) -> None:
    editor = tmp_path / "editor"
    editor.write_text("#!/bin/sh\nsed -i s/nothing/department/ $1\n", encoding="utf-8")
    editor.chmod(0o700)
    with start(VISUAL=str(editor)) as terminal:
        terminal.type("SELECT nothing FROM sales;\r")
        terminal.wait_for("error[DP101]")
        terminal.clear()
        terminal.type("\\e\r")
        terminal.wait_for(f"dpsql ε 3> {QUERY}")  # to be looked at, and not run
        terminal.type("\r")
        terminal.wait_for("dpsql ε 2.75>")
    with start(VISUAL="false") as terminal:
        terminal.type("\\e\r")
        terminal.wait_for("the editor, false, could not be used")
    with start(term="dumb", VISUAL=str(editor)) as terminal:
        terminal.type("SELECT nothing FROM sales;\n")
        terminal.wait_for("error[DP101]")
        terminal.type("\\e\n")
        terminal.wait_for("Run it? [y/N]")
        terminal.type("y\n")
        terminal.wait_for("dpsql ε 2.75>")


def test_what_is_longer_than_the_screen_is_paged(start: Start, tmp_path: Path) -> None:
    pager = tmp_path / "pager"
    pager.write_text("#!/bin/sh\nwc -l > paged.txt\necho paged\n", encoding="utf-8")
    pager.chmod(0o700)
    with start(PAGER=str(pager)) as terminal:
        terminal.type("SELECT many;\r")
        terminal.wait_for("paged")
        terminal.wait_for("free · left ε = 3 of 3")
        assert (tmp_path / "paged.txt").read_text(encoding="utf-8").strip() == "1003"
        terminal.clear()
        terminal.type("\\set pager off\r")
        terminal.wait_for("pager is off")
        terminal.type("SELECT many;\r")
        terminal.wait_for("(1000 rows; the first 200 shown)")
    with start(PAGER="no-such-pager") as terminal:
        terminal.type("\\set pager on\r")
        terminal.type("SELECT many;\r")
        terminal.wait_for("(1000 rows)")


def test_earlier_statements_are_suggested_and_found(start: Start) -> None:
    with start() as terminal:
        terminal.type(f"{QUERY}\r")
        terminal.wait_for("dpsql ε 2.75>")
        terminal.clear()
        terminal.type("SELECT dep")
        terminal.wait_for(QUERY)
        terminal.type("\x1b[C\r")
        terminal.wait_for("free · left")
        terminal.clear()
        terminal.type("\x12sales")
        terminal.wait_for(QUERY)
        terminal.type("\r\r")
        terminal.wait_for("free · left")


def test_completion_by_tab(start: Start) -> None:
    with start() as terminal:
        terminal.type("SELECT hous")
        terminal.wait_for("household_id  unit")
        terminal.type("\t")
        terminal.wait_for("> SELECT household_id")
        terminal.type("\r")  # takes what is picked
        terminal.wait_for("household_id  unit", gone=True)
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
        assert terminal.lines[:17] == [
            "dpsql: private answers to SQL. Account",
            "shop protects each household.",
            "ε 3 of 3 left; a statement costs 0.25",
            "and ends with ;  \\? help  \\d tables",
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


@pytest.mark.parametrize(("columns", "lines"), [(0, 0), (0, 24), (80, 0)])
def test_a_terminal_without_a_size(start: Start, columns: int, lines: int) -> None:
    """As pseudo-terminals have that nobody looks at."""
    asked = {"\\set": "suggestions", QUERY: "1136", "\\chart": "GROCERY", "SELECT JOIN;": "DP210"}
    with start() as terminal:
        terminal.resize(columns, lines)
        for typed, expected in asked.items():
            terminal.type(f"{typed}\r")
            terminal.wait_for_output(expected)
        terminal.type("\\q\r")
        assert terminal.wait_for_end() == 0
        assert "DP901" not in terminal.output


def test_a_fault_of_a_command_does_not_end_the_session(fake: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    out, err = io.StringIO(), io.StringIO()
    desk = repl.Repl(Opening(fake.opened("shop.toml")), out, err, Preferences(None), interactive=True)
    monkeypatch.setattr(desk.screen, "say", lambda _: 1 / 0)
    assert desk._turn("\\set") == 70
    assert err.getvalue().startswith("error[DP901]: dpsql met a fault of its own")
    assert desk.last_code == "DP901"
    assert desk._turn("SELECT JOIN;") == 3


def test_a_dumb_terminal_gets_plain_text(start: Start, tmp_path: Path) -> None:
    marker = tmp_path / "slowly"
    with start(term="dumb", **{MARKER: str(marker)}) as terminal:
        terminal.type("SELECT department\n")
        terminal.wait_for("      ...>")
        terminal.type("FROM sales;\n")
        terminal.wait_for("dpsql ε 2.75>")
        terminal.type("SELECT slowly;\n")
        until(marker.exists, "the statement runs")
        terminal.type("\x03")
        terminal.wait_for("the statement was interrupted; its charge stays")
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
            timeout=PATIENCE,
            check=False,
        )
        assert (done.returncode, done.stdout) == (3, b"")
        assert done.stderr.startswith(b"error[DP101]: ")


def test_a_pipe_takes_commands_and_no_preferences(dpsql: Dpsql, policy_file: Path, home: Path) -> None:
    """What comes out of a pipe must not depend on how somebody likes to look at a screen."""
    (home / "config" / "dpsql").mkdir(parents=True)
    (home / "config" / "dpsql" / "config.toml").write_text('[repl]\nformat = "json"\nconfirm = "0.01"\n')
    done = dpsql("shop.toml", stdin=f"\\format csv\n{QUERY}\n\\cost {QUERY}\n\\e\n")
    assert done.stdout == (
        "department,households,households_half_width\nGROCERY,2401,14.0\nDRUG GM,1136,14.0\n,7,14.0\n"
        "free; left ε = 2.75\npaid for already: ε = 0.25\n  households: ± 14\n"
    )
    assert done.stderr.endswith("error[DP120]: \\e needs a terminal\n")
    assert done.returncode == 3


def test_an_empty_pipe(dpsql: Dpsql, policy_file: Path) -> None:
    done = dpsql("shop.toml")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
