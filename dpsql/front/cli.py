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
    ProgressBar,
    Usage,
    exit_code,
    fault,
    guarded,
    say_error,
    visible,
)

_COMMANDS_HELP = """\
commands:
  dpsql POLICY [DATABASE]          ask questions interactively
  dpsql run FILE... --policy P     run scripts ('-' is standard input)
  dpsql explain FILE... --policy P show how queries would be answered: free
  dpsql budget POLICY              what is spent and what is left
  dpsql prepare POLICY [DATABASE]  make the snapshot that queries run on (owner)
  dpsql init DATABASE-OR-FOLDER    draft a policy from names and types (owner)
  dpsql budget what-if FILE... --policy P   what a script would cost: free
  dpsql check POLICY... [DATABASE] what is wrong in a policy, and what is unwise (owner)
  dpsql budget open --new POLICY   open the account anew under changed terms (owner)
  dpsql budget reopen POLICY       open a frozen account again (owner)
  dpsql ledger verify | export | adopt      check, write out or take over the ledger (owner)
  dpsql audit                      attack dpsql itself, on made-up data
  dpsql why CODE                   what an error means, and what to write instead

'dpsql COMMAND --help' tells more.
exit codes: 0 ok, 1 engine, 2 usage or policy, 3 refused, 4 budget, 130 interrupted, 70 dpsql's own fault
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
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


def _dispatch(arguments: list[str]) -> int:
    commands: dict[str, Callable[[list[str]], int]] = {
        "run": _run,
        "explain": _explain,
        "prepare": _prepare,
        "init": _init,
        "check": _check,
        "why": _why,
        "budget": _budget,
        "ledger": _ledger,
        "audit": _audit,
    }
    try:
        if arguments and arguments[0] in commands:
            return commands[arguments[0]](arguments[1:])
        return _interactive(arguments, list(commands))
    except SystemExit as end:  # argparse has said what is wrong, or shown its help
        return OK if end.code is None else int(end.code)


def _interactive(arguments: list[str], commands: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="dpsql",
        description="Ordinary SQL over private data, answered with noise and priced against a budget.",
        epilog=_COMMANDS_HELP,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("policy", nargs="?", metavar="POLICY", help="the owner's policy file (TOML)")
    parser.add_argument("database", nargs="?", metavar="DATABASE", help="the DuckDB file, where the policy needs one")
    session_options(parser)
    parser.add_argument("--version", action="version", version=f"dpsql {__version__}")
    given = parser.parse_args(arguments)
    if given.policy is None:
        raise Usage("give a policy file" + _policies_here() + "; 'dpsql --help' shows all commands")
    if not Path(given.policy).exists():
        from dpsql.errors import nearest

        raise Usage(f"no such policy file: {given.policy}" + nearest(given.policy, commands))
    from dpsql.front.repl import run_repl

    with closing(opening(given)) as session:
        return run_repl(session, sys.stdout, sys.stderr)


def _policies_here() -> str:
    """Policies that stand where one would look, for the message."""
    found = sorted([*Path().glob("policies/*.toml"), *(p for p in Path().glob("*.toml") if p.name != "pyproject.toml")])
    return f", for example: dpsql {found[0]} DATABASE" if found else ""


def _run(arguments: list[str]) -> int:
    from dpsql.front.runs import run

    return run(arguments)


def _explain(arguments: list[str]) -> int:
    from dpsql.front.runs import explain

    return explain(arguments)


def _prepare(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="dpsql prepare",
        description="Make the snapshot that queries run on, and report what the policy's claims met. "
        "For the owner: the report speaks of private data.",
    )
    parser.add_argument("policy", metavar="POLICY")
    parser.add_argument("database", metavar="DATABASE", nargs="?")
    parser.add_argument("--refresh", action="store_true", help="make it again from the data as they are now")
    given = parser.parse_args(arguments)
    bar = ProgressBar(sys.stderr)

    def prepared() -> str:
        from dpsql.owner import prepare

        return prepare(given.policy, given.database, refresh=given.refresh, progress=bar)

    try:
        report = guarded(prepared)
    finally:
        bar.close()
    print(visible(report.rstrip("\n"), keep="\n"))
    return OK


def _init(arguments: list[str]) -> int:
    from dpsql.front.owners import init

    return init(arguments)


def _check(arguments: list[str]) -> int:
    from dpsql.front.owners import check

    return check(arguments)


def _why(arguments: list[str]) -> int:
    from dpsql.front.owners import why

    return why(arguments)


def _audit(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="dpsql audit",
        description="Attack dpsql from outside, on made-up data in a temporary folder, and say which of its claims "
        "hold. Exit code 0: all that were tested; 1: a claim is broken.",
    )
    parser.add_argument("--rounds", type=int, default=120, metavar="N", help="of each pair of databases (default: 120)")
    parser.add_argument("--seconds", type=float, metavar="S", help="begin nothing new after so long")
    given = parser.parse_args(arguments)
    if given.rounds < 1:
        raise Usage("--rounds is a whole number from 1 on")
    from dpsql.audit.attack import attack
    from dpsql.audit.report import broken, table

    bar = ProgressBar(sys.stderr)
    try:
        findings = attack(given.rounds, given.seconds, bar)
    finally:
        bar.close()
    print(table(findings))
    return ENGINE if broken(findings) else OK


def _budget(arguments: list[str]) -> int:
    from dpsql.front.budgets import budget

    return budget(arguments)


def _ledger(arguments: list[str]) -> int:
    from dpsql.front.ledgers import ledger

    return ledger(arguments)
