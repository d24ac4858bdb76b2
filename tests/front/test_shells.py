"""Help and completion: of every command, and made from the same parsers that read the command line."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

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


COMPLETED = [
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
]


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
@pytest.mark.parametrize(("words", "completed"), COMPLETED)
def test_what_bash_completes(capfd: Caught, words: str, completed: str) -> None:
    script = main(capfd, "completion", "bash")[1]
    done = subprocess.run(
        ["bash", "-c", f"{script}{TRY}ask {words}"], capture_output=True, text=True, check=True, timeout=PATIENCE
    )
    assert (done.stdout, done.stderr) == (f"{completed}\n", "")


# Stands for zsh's own, which work in its editor alone.
ZSH = """
compdef() { :; }
_files() { :; }
compadd() {
  shift; local each; local -a fitting
  for each in "$@"; do [[ $each == "$words[CURRENT]"* ]] && fitting+=($each); done
  print -r -- $fitting; (( $#fitting ))
}
"""


@pytest.mark.skipif(shutil.which("zsh") is None, reason="there is no zsh")
@pytest.mark.parametrize(("words", "completed"), COMPLETED)
def test_what_zsh_completes(capfd: Caught, words: str, completed: str) -> None:
    script = main(capfd, "completion", "zsh")[1]
    ask = f"{ZSH}{script}words=({words}); CURRENT=$#words; _dpsql"
    done = subprocess.run(["zsh", "-fc", ask], capture_output=True, text=True, check=True, timeout=PATIENCE)
    assert (done.stdout.split(), done.stderr) == (completed.split(), "")


@pytest.mark.skipif(shutil.which("fish") is None, reason="there is no fish")
@pytest.mark.parametrize(("words", "completed"), COMPLETED)
def test_what_fish_completes(capfd: Caught, tmp_path: Path, words: str, completed: str) -> None:
    (tmp_path / "dpsql.fish").write_text(main(capfd, "completion", "fish")[1])
    empty = tmp_path / "empty"  # of files, which the shell would offer
    empty.mkdir()
    typed = words.removesuffix("''")
    ask = ["fish", "--no-config", "-c", f"source ../dpsql.fish; complete -C '{typed}'"]
    done = subprocess.run(ask, cwd=empty, capture_output=True, text=True, check=True, timeout=PATIENCE)
    offered = [line.partition("\t")[0] for line in done.stdout.splitlines()]
    assert (sorted(offered), done.stderr) == (sorted(completed.split()), "")


@pytest.mark.parametrize("shell", SHELLS)
def test_scripts_know_every_option_and_are_read_by_their_shells(capfd: Caught, shell: str) -> None:
    script = main(capfd, "completion", shell)[1]
    for name, parser in parsers().items():
        assert all(word in script for word in name.split())
        for option in parser._option_string_actions:
            assert option.lstrip("-") in script, (name, option)
    if shutil.which(shell) is not None:
        subprocess.run([shell, "-n"], input=script, text=True, check=True, timeout=PATIENCE)
