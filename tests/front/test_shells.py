"""Help and completion: of every command, and made from the same parsers that read the command line."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from dpsql.front import cli
from dpsql.front.shells import SHELLS, parsers
from tests.front.test_cli import main
from tests.patience import PATIENCE

Caught = pytest.CaptureFixture[str]
TRY = """
ask() { COMP_WORDS=("$@"); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); COMPREPLY=(); _dpsql; echo "${COMPREPLY[*]}"; }
"""


def test_every_command_has_help_with_examples(capfd: Caught) -> None:
    assert {name.split()[0] for name in parsers() if name} == set(cli._COMMANDS)
    for name in parsers():
        code, out, err = main(capfd, *name.split(), "--help")
        assert (code, err) == (0, "")
        assert "examples:\n  dpsql" in out, name
        assert f"usage: dpsql {name}".rstrip() in out
        assert max(map(len, out.splitlines())) <= 120, name
        if name:
            assert main(capfd, "help", *name.split())[:2] == (0, out)


def test_help_of_no_command(capfd: Caught) -> None:
    assert main(capfd, "help", "rum") == (2, "", 'dpsql: no command rum. Did you mean "run"?\n')
    assert main(capfd, "help")[1] == main(capfd, "--help")[1]


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
@pytest.mark.parametrize(
    ("words", "completed"),
    [
        ("dpsql bu", "budget"),
        ("dpsql budget ''", "what-if open reopen"),
        ("dpsql budget what-if --j", "--json"),
        ("dpsql budget open --y", "--yes"),
        ("dpsql run --format j", "json jsonl"),
        ("dpsql run a.sql --policy shop.toml --dry", "--dry-run"),
        ("dpsql run ''", ""),  # files, which the shell completes itself
        ("dpsql shop.toml ''", ""),
        ("dpsql ledger v", "verify"),
        ("dpsql completion z", "zsh"),
        ("dpsql --v", "--version"),
    ],
)
def test_what_bash_completes(capfd: Caught, words: str, completed: str) -> None:
    script = main(capfd, "completion", "bash")[1]
    done = subprocess.run(
        ["bash", "-c", f"{script}{TRY}ask {words}"], capture_output=True, text=True, check=True, timeout=PATIENCE
    )
    assert (done.stdout, done.stderr) == (f"{completed}\n", "")


@pytest.mark.parametrize("shell", SHELLS)
def test_scripts_know_every_option_and_are_read_by_their_shells(capfd: Caught, shell: str) -> None:
    script = main(capfd, "completion", shell)[1]
    for name, parser in parsers().items():
        assert all(word in script for word in name.split())
        for option in parser._option_string_actions:
            assert option.lstrip("-") in script, (name, option)
    if shutil.which(shell) is not None:
        subprocess.run([shell, "-n"], input=script, text=True, check=True, timeout=PATIENCE)
