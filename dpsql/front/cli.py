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
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from dpsql import __version__
from dpsql.errors import Error
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
    spinner,
    visible,
)

if TYPE_CHECKING:
    from dpsql.front.script import Script
    from dpsql.ledger import Balance
    from dpsql.session import Session

_FORMATS = ("table", "csv", "json", "jsonl", "markdown")

_COMMANDS_HELP = """\
commands:
  dpsql POLICY [DATABASE]          ask questions interactively
  dpsql run FILE... --policy P     run scripts ('-' is standard input)
  dpsql explain FILE... --policy P show how queries would be answered: free
  dpsql budget POLICY              what is spent and what is left
  dpsql prepare POLICY [DATABASE]  make the snapshot that queries run on (owner)
  dpsql init DATABASE-OR-FOLDER    draft a policy from names and types (owner)
  dpsql check POLICY... [DATABASE] what is wrong in a policy, and what is unwise (owner)
  dpsql budget open --new POLICY   open the account anew under changed terms (owner)
  dpsql budget reopen POLICY       open a frozen account again (owner)
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
    _session_options(parser)
    parser.add_argument("--version", action="version", version=f"dpsql {__version__}")
    given = parser.parse_args(arguments)
    if given.policy is None:
        raise Usage("give a policy file" + _policies_here() + "; 'dpsql --help' shows all commands")
    if not Path(given.policy).exists():
        from dpsql.errors import nearest

        raise Usage(f"no such policy file: {given.policy}" + nearest(given.policy, commands))
    from dpsql.front.repl import run_repl

    with closing(_open(given)) as session:
        return run_repl(session, sys.stdout, sys.stderr)


def _policies_here() -> str:
    """Policies that stand where one would look, for the message."""
    found = sorted([*Path().glob("policies/*.toml"), *(p for p in Path().glob("*.toml") if p.name != "pyproject.toml")])
    return f", for example: dpsql {found[0]} DATABASE" if found else ""


def _run(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="dpsql run", description="Run the statements of scripts, in order.")
    _script_arguments(parser)
    parser.add_argument("--format", choices=_FORMATS, default="table", help="how results are written (default: table)")
    parser.add_argument("-o", "--output", metavar="FILE", help="write the results there instead of stdout")
    parser.add_argument(
        "--echo", action=argparse.BooleanOptionalAction, default=False, help="show each statement before its result"
    )
    parser.add_argument(
        "--keep-going", action="store_true", help="go on after an error; the first one's exit code counts"
    )
    given = parser.parse_args(arguments)
    scripts = _scripts(given)
    from dpsql.front.output import Output
    from dpsql.front.script import run_scripts

    with _results(given.output) as out, closing(_open(given)) as session:
        output = Output(out, sys.stderr, session.policy.budget.epsilon, format=given.format)
        return run_scripts(session, scripts, output, sys.stderr, echo=given.echo, keep_going=given.keep_going)


@contextmanager
def _results(path: str | None) -> Iterator[TextIO]:
    """Where results go; a file is opened before anything is charged."""
    if path is None:
        yield sys.stdout
        return
    try:
        file = Path(path).open("w", encoding="utf-8", newline="")  # noqa: SIM115 - closed below
    except OSError as error:
        raise Usage(f"can't write {path}: {error.strerror}") from None
    with file:
        yield file


def _explain(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="dpsql explain", description="Show how queries would be answered: both SQLs, limits, noise, price. Free."
    )
    _script_arguments(parser)
    given = parser.parse_args(arguments)
    scripts = _scripts(given)
    from dpsql.front.script import explain_scripts

    with closing(_open(given)) as session:
        return explain_scripts(session, scripts, sys.stdout, sys.stderr)


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
    if arguments[:1] == ["open"]:
        return _budget_open(arguments[1:])
    if arguments[:1] == ["reopen"]:
        return _budget_reopen(arguments[1:])
    parser = argparse.ArgumentParser(
        prog="dpsql budget",
        description="Show what is spent and what is left. 'dpsql budget open --new POLICY' opens the account anew, "
        "'dpsql budget reopen POLICY' opens a frozen one again.",
    )
    _account_arguments(parser)
    given = parser.parse_args(arguments)

    def asked() -> Balance:
        from dpsql.owner import balance_of

        return balance_of(given.policy, given.ledger)

    return _show_balance(given, asked)


def _budget_open(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="dpsql budget open",
        description="Open the policy's account anew, with its whole budget. For the owner: what was spent under "
        "the old terms is no longer counted, though the answers are still out there.",
    )
    parser.add_argument("--new", action="store_true", required=True, help="yes, forget what was spent")
    parser.add_argument("policy", metavar="POLICY")
    parser.add_argument("database", metavar="DATABASE", nargs="?")
    _ledger_option(parser)
    given = parser.parse_args(arguments)

    def opened() -> Balance:
        from dpsql.owner import open_account_anew

        return open_account_anew(given.policy, given.database, given.ledger)

    return _show_balance(given, opened)


def _budget_reopen(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="dpsql budget reopen", description="Open a frozen account again, with what it had left. For the owner."
    )
    _account_arguments(parser)
    given = parser.parse_args(arguments)

    def reopened() -> Balance:
        from dpsql.owner import reopen_account

        return reopen_account(given.policy, given.ledger)

    return _show_balance(given, reopened)


def _show_balance(given: argparse.Namespace, balance_now: Callable[[], Balance]) -> int:
    from dpsql.front.render import balance, signs_for
    from dpsql.policy.load import load_policy

    found = guarded(balance_now)
    account = guarded(partial(load_policy, given.policy)).budget.account
    print(balance(account, found, signs_for(sys.stdout)))
    return OK


def _ledger_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--ledger", metavar="FILE", help="the file of budgets (default: the one in your state folder)")


def _account_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("policy", metavar="POLICY")
    _ledger_option(parser)


def _session_options(parser: argparse.ArgumentParser) -> None:
    _ledger_option(parser)
    parser.add_argument("--analyst", metavar="NAME", help="who asks, where the policy counts per analyst")
    parser.add_argument(
        "--prepare",
        choices=("auto", "required"),
        default="auto",
        help="auto: make the snapshot where none exists (default); required: fail instead",
    )


def _script_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", nargs="*", metavar="FILE", help="scripts; - is standard input")
    parser.add_argument("-c", "--command", action="append", default=[], metavar="SQL", help="statements, run last")
    parser.add_argument("--policy", required=True, metavar="POLICY", help="the owner's policy file (TOML)")
    parser.add_argument("--database", metavar="DATABASE", help="the DuckDB file, where the policy needs one")
    _session_options(parser)


def _scripts(given: argparse.Namespace) -> list[Script]:
    """All scripts of the command line, read."""
    from dpsql.front.script import Script, read_script

    if not given.files and not given.command:
        raise Usage("nothing to run: give FILE..., - for standard input, or -c SQL")
    scripts = []
    for path in given.files:
        try:
            scripts.append(read_script(path, sys.stdin))
        except OSError as error:
            raise Usage(f"can't read {path}: {error.strerror}") from None
    return scripts + [Script("-c", sql) for sql in given.command]


def _open(given: argparse.Namespace) -> Session:
    """The session, with a sign turning where that takes long (a first use makes the snapshot)."""

    def opened() -> Session:
        from dpsql.session import open_session

        return open_session(
            given.policy, given.database, ledger=given.ledger, analyst=given.analyst, prepare=given.prepare
        )

    with spinner("opening; a first use prepares the snapshot"):
        return guarded(opened)
