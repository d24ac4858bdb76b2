"""How long a statement took is told where the policy says `reveal_timing = true`, and nowhere else."""

from __future__ import annotations

import ast
import io
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import dpsql
from dpsql.front import script
from dpsql.front.cli import main
from dpsql.front.diagnostics import spinner
from dpsql.policy.load import load_policy
from dpsql.session import open_session
from tests.conftest import Clinic
from tests.patience import until

ROOT = Path(dpsql.__file__).parent
SECONDS = re.compile(r"\d\s?(s|ms|sec|secs|seconds?|minutes?)\b")
"""How a length of time is written."""

ASKED = "SELECT region, COUNT(*) AS n FROM patients GROUP BY region"
CLOCKED = {"front/stats.py", "front/types.py"}
"""What imports a clock of all that analysts see: figures, gated by the policy, and PEP 249's constructors."""


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    monkeypatch.setenv("TERM", "xterm")
    return Terminal()


def revealing(clinic: Clinic, revealed: bool) -> Clinic:
    """The clinic's policy, with the key in it where timing is revealed: left out is `false`."""
    text = clinic.policy.read_text(encoding="utf-8")
    if revealed:
        clinic.policy.write_text(text.replace("version = 1", "version = 1\nreveal_timing = true"), encoding="utf-8")
    return clinic


def surfaces(clinic: Clinic, terminal: Terminal, capsys: pytest.CaptureFixture[str]) -> dict[str, str]:
    """All that is said of one statement, by where it is said. Each asks for a higher price, so that none is free. On
    the terminal its engine takes as long as a sign needs to turn."""
    said = {}
    with dpsql.connect(clinic.policy, clinic.database) as connection:
        cursor = connection.execute(ASKED)
        said["DB-API"] = f"{cursor.description} {cursor.receipt} {connection.budget}"
        said["explain"] = connection.explain(ASKED)
        for command in ("SHOW BUDGET", "SHOW TABLES", "SHOW SETTINGS", "DESCRIBE patients", f"EXPLAIN {ASKED}"):
            said[command] = str(connection.execute(command).fetchall())
        said["html"] = connection.execute(ASKED)._repr_html_()
    asked = [str(clinic.policy), "--database", str(clinic.database), "-c"]
    for number, style in enumerate(("table", "csv", "json"), 1):
        main(["run", "--stats", "--format", style, "--policy", *asked, f"SET epsilon = {1 + number / 8}; {ASKED}"])
        captured = capsys.readouterr()
        said[f"run {style}"] = captured.out + captured.err
        clinic.policy.touch()
    session = open_session(clinic.policy, clinic.database)
    session.settings.set("epsilon", "1.5")
    run = session._engines.private.run

    def turning(*given: Any) -> Any:
        until(terminal.getvalue, "the sign turns")
        return run(*given)

    session._engines.private.run = turning  # type: ignore[method-assign]
    script.ask(session, ASKED, "", terminal)
    session.close()
    said["turning sign"] = terminal.getvalue()
    return said


def test_no_surface_tells_how_long_it_took(
    make_clinic: Callable[..., Clinic], terminal: Terminal, capsys: pytest.CaptureFixture[str]
) -> None:
    said = surfaces(revealing(make_clinic(), False), terminal, capsys)
    assert not {where: found.group() for where, text in said.items() if (found := SECONDS.search(text))}
    assert "running" in said["turning sign"]
    assert "answered for" in said["run csv"]


def test_where_the_policy_says_so_two_do(
    make_clinic: Callable[..., Clinic], terminal: Terminal, capsys: pytest.CaptureFixture[str]
) -> None:
    """The search finds what there is to be found."""
    said = surfaces(revealing(make_clinic(), True), terminal, capsys)
    told = {where for where, text in said.items() if SECONDS.search(text)}
    assert told == {"run table", "run csv", "run json", "turning sign"}


def test_opening_shows_no_seconds_either(terminal: Terminal) -> None:
    """No policy has been read then, and how long a snapshot takes depends on private rows."""
    with spinner("opening", terminal, after=0.0):
        until(lambda: terminal.getvalue().count("opening") > 1, "the sign turns")
    assert not SECONDS.search(terminal.getvalue())


def test_no_other_part_that_analysts_see_has_a_clock() -> None:
    files = [*ROOT.joinpath("front").glob("*.py"), *(p for p in ROOT.glob("*.py") if p.name != "owner.py")]
    clocked = set()
    for file in files:
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import) and any(name.name == "time" for name in node.names):
                clocked.add(str(file.relative_to(ROOT)))
            if isinstance(node, ast.ImportFrom) and node.module == "time":
                clocked.add(str(file.relative_to(ROOT)))
            assert not (isinstance(node, ast.Attribute) and node.attr in ("now", "utcnow", "today", "times")), file
    assert clocked == CLOCKED


def test_the_key(clinic: Clinic) -> None:
    assert not load_policy(clinic.policy).reveal_timing
    assert load_policy(revealing(clinic, True).policy).reveal_timing
