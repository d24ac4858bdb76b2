"""The interactive session on the real product, through a pseudo-terminal."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import dpsql
from tests.conftest import Clinic
from tests.end.conftest import ROOT
from tests.front.terminal import Terminal


def test_a_session_at_the_terminal(clinic: Clinic, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.end.launch_slow", str(clinic.policy), str(clinic.database)]
    environment = {"PYTHONPATH": f"{ROOT}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}
    with Terminal(command, tmp_path, lines=40, environment=environment) as terminal:
        terminal.wait_for("Account clinic protects each patient.")
        terminal.wait_for("dpsql ε 1000>")
        terminal.type("SELECT COUNT(*) AS people\r")
        terminal.type("FROM patients\r")
        terminal.type("WHERE age > 30;\r")
        terminal.wait_for("± 9")
        terminal.wait_for("cost ε = 1 · left ε = 999 of 1000")
        terminal.wait_for("dpsql ε 999>")
        terminal.type("SELECT name FROM patients;\r")
        terminal.wait_for("error[DP201]: this returns rows of single patients")
        assert any(line.endswith("|        ^^^^") for line in terminal.lines), terminal.lines
        terminal.type("SET epsilon = 0.5;\r")
        terminal.wait_for("next ε 0.5")
        terminal.type("SELECT SUM(fee) AS fees FROM visits;\r")
        terminal.wait_for("running; Ctrl-C stops it")
        terminal.type("\x03")
        terminal.wait_for("the statement was interrupted; its charge stays · left ε = 998.5 of 1000")
        terminal.wait_for("dpsql ε 998.5>")
        terminal.type("\\budget\r")
        terminal.wait_for("ε: 1.5 spent, 998.5 left of 1000")
        terminal.type("SELECT COUNT(*) AS people FROM patients;\r")
        terminal.wait_for("left ε = 998 of 1000")
        terminal.type("\\releases 2\r")
        terminal.wait_for("UTC  ε 0.5  SELECT COUNT(*) AS people FROM patients")
        terminal.wait_for("UTC  ε 0.5  SELECT SUM(fee) AS fees FROM visits (not")
        terminal.type("\\cost SELECT COUNT(*) FROM visits;\r")
        terminal.wait_for("would cost ε = 0.5; then left ε = 997.5 of 1000")
        terminal.type("\\d patients\r")
        terminal.wait_for(" region │ VARCHAR │ group      │ regions.region")
        terminal.type("\\q\r")
        assert terminal.wait_for_end() == 0
        assert "Traceback" not in terminal.output
    with dpsql.connect(clinic.policy, clinic.database) as connection:
        assert connection.budget.spent_epsilon == 2
