"""The command line: `dpsql [POLICY] [DATABASE]` is interactive, `dpsql run` runs scripts, the rest is for owners.

Promise: stdout is data, stderr the rest; the exit code says which kind of thing went wrong; no failure, foreseen
or not, ends in a traceback. `--version` and `--help` load neither the engine nor the parser.

Exit codes: 0 ok, 1 engine, 2 usage or policy, 3 refused form, 4 budget, 130 interrupt, 70 dpsql's own fault (and 141
where the reader of stdout went away). A script's is its first error's.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import closing
from io import TextIOWrapper
from pathlib import Path

from dpsql import __version__
from dpsql.errors import Error
from dpsql.front.arguments import opening, session_options
from dpsql.front.diagnostics import (
    BROKEN_PIPE,
    ENGINE,
    INTERRUPTED,
    OK,
    USAGE,
    Usage,
    exit_code,
    fault,
    say_error,
    visible,
)

_COMMANDS = {
    "run": "run scripts, or statements given with -c",
    "explain": "show how queries would be answered: free",
    "budget": "what is spent and left; what-if: what a script would cost; open, reopen (owner)",
    "prepare": "make the snapshot that queries run on (owner)",
    "init": "draft a policy from names and types (owner)",
    "check": "what is wrong in a policy, and what is unwise (owner)",
    "ledger": "verify, export or adopt the file of budgets (owner)",
    "audit": "attack dpsql itself, on made-up data",
    "why": "what an error code means, and what to write instead",
    "completion": "a script that completes these words in bash, zsh or fish",
    "help": "the help of a command",
}
_EXAMPLES = """\
examples:
  dpsql shop.toml shop.duckdb                      ask questions interactively
  dpsql run report.sql --policy shop.toml          run a script
  dpsql budget what-if report.sql --policy shop.toml
  dpsql why DP205

'dpsql help COMMAND' tells more. The file of budgets is $XDG_STATE_HOME/dpsql/ledger.sqlite (~/.local/state/dpsql/
ledger.sqlite) unless --ledger names another; docs/cli.md is the whole story.
exit codes: 0 ok, 1 engine, 2 usage or policy, 3 refused, 4 budget, 130 interrupted, 70 dpsql's own fault
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    closed = sys.stdout is None
    _open_standard_streams()
    if closed:
        print("dpsql: can't write the output: it is closed", file=sys.stderr)
        return ENGINE
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a sign that the terminal lacks is no reason to fail
    if isinstance(sys.stdin, TextIOWrapper):
        sys.stdin.reconfigure(encoding="utf-8", errors="strict")  # SQL is UTF-8, whatever the locale
    try:
        code = _dispatch(list(sys.argv[1:] if arguments is None else arguments))
        sys.stdout.flush()
        return code
    except Usage as error:
        print(f"dpsql: {visible(str(error))}", file=sys.stderr)
        return USAGE
    except Error as error:
        say_error(error, sys.stderr)
        return exit_code(error)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        # Whoever read our output has enough. Python would complain once more when it flushes at the end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    except OSError as error:
        print(f"dpsql: can't write the output: {error.strerror}", file=sys.stderr)
        return ENGINE
    except Exception:
        unforeseen = fault()
    say_error(unforeseen, sys.stderr)
    return exit_code(unforeseen)


def _open_standard_streams() -> None:
    """What is closed reads nothing, and drops what is written: else a file that is opened next, such as the ledger,
    would get its number, and what is meant for people would go into that."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115 - for as long as the process


def _dispatch(words: list[str]) -> int:
    try:
        if words and words[0] in _COMMANDS:
            return _command(words[0])(words[1:])
        return _interactive(words)
    except SystemExit as end:  # argparse has said what is wrong, or shown its help
        return OK if end.code is None else int(end.code)


def _command(name: str) -> Callable[[list[str]], int]:
    """The command of this name, loaded now: none waits for what another needs."""
    match name:
        case "run" | "explain":
            from dpsql.front import runs

            return runs.run if name == "run" else runs.explain
        case "budget":
            from dpsql.front.budgets import budget

            return budget
        case "ledger":
            from dpsql.front.ledgers import ledger

            return ledger
        case "completion" | "help":
            from dpsql.front import shells

            return shells.completion if name == "completion" else shells.help
    from dpsql.front import owners

    owned = {"prepare": owners.prepare, "init": owners.init, "check": owners.check, "audit": owners.audit}
    return owned.get(name, owners.why)


def main_parser() -> argparse.ArgumentParser:
    """Of `dpsql` without a command, whose help lists them."""
    parser = argparse.ArgumentParser(
        prog="dpsql",
        usage="dpsql POLICY [DATABASE] [options]\n       dpsql COMMAND ...",
        description="Ordinary SQL over private data, answered with noise and priced against a budget.",
        epilog="commands:\n" + "".join(f"  {name:<11} {said}\n" for name, said in _COMMANDS.items()) + "\n" + _EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("policy", nargs="?", metavar="POLICY", help="the owner's policy file (TOML)")
    parser.add_argument("database", nargs="?", metavar="DATABASE", help="the DuckDB file, where the policy needs one")
    session_options(parser)
    parser.add_argument("--version", action="version", version=f"dpsql {__version__}")
    return parser


def _interactive(words: list[str]) -> int:
    given = main_parser().parse_args(words)
    if given.policy is None:
        raise Usage("give a policy file" + _policies_here() + "; 'dpsql --help' shows all commands")
    if not Path(given.policy).exists():
        from dpsql.errors import nearest

        raise Usage(f"no such policy file: {given.policy}" + nearest(given.policy, _COMMANDS))
    from dpsql.front.repl import run_repl

    with closing(opening(given)) as session:
        return run_repl(session, sys.stdout, sys.stderr)


def _policies_here() -> str:
    """Policies that stand where one would look, for the message."""
    found = sorted([*Path().glob("policies/*.toml"), *(p for p in Path().glob("*.toml") if p.name != "pyproject.toml")])
    return f", for example: dpsql {found[0]} DATABASE" if found else ""
