"""Arguments that several commands of the command line have, and what becomes of them: scripts and a session."""

from __future__ import annotations

import argparse
import sys
import textwrap
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from dpsql.front.diagnostics import Usage, guarded, spinner
from dpsql.places import expanded

if TYPE_CHECKING:
    from dpsql.front.opening import Opening
    from dpsql.front.script import Script
    from dpsql.policy.model import Policy
    from dpsql.session import Session


def parser_of(command: str, description: str, *examples: str) -> argparse.ArgumentParser:
    """The parser of `dpsql COMMAND`, whose help ends with examples: they are written without the leading `dpsql`."""
    made = argparse.ArgumentParser(
        prog=f"dpsql {command}", description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.description = "\n".join(textwrap.wrap(description, 100))
    if examples:
        made.epilog = "examples:\n" + "\n".join(f"  dpsql {example}" for example in examples)
    return made


def ledger_option(parser: argparse.ArgumentParser) -> None:
    """`--ledger`, wherever a ledger is used."""
    parser.add_argument("--ledger", metavar="FILE", help="the file of budgets (default: the one in your state folder)")


def session_options(parser: argparse.ArgumentParser) -> None:
    """What a session is opened with, but for policy and database."""
    ledger_option(parser)
    parser.add_argument("--analyst", metavar="NAME", help="who asks, where the policy counts per analyst")
    parser.add_argument(
        "--prepare",
        choices=("auto", "required"),
        default="auto",
        help="auto: make the snapshot where none exists (default); required: fail instead",
    )


def script_arguments(parser: argparse.ArgumentParser) -> None:
    """Scripts, and all that a session is opened with."""
    parser.add_argument("files", nargs="*", metavar="FILE", help="scripts; - is standard input")
    parser.add_argument("-c", "--command", action="append", default=[], metavar="SQL", help="statements, run last")
    parser.add_argument(
        "-v",
        dest="variable",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="the value of the parameter $NAME: a number, a date, 'text', true, null; all else is text",
    )
    parser.add_argument("--policy", required=True, metavar="POLICY", help="the owner's policy file (TOML)")
    parser.add_argument("--database", metavar="DATABASE", help="the DuckDB file, where the policy needs one")
    session_options(parser)


def scripts_of(given: argparse.Namespace) -> list[Script]:
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


def kept_files(given: argparse.Namespace, policy: Policy, snapshot: Iterable[Path]) -> list[Path]:
    """What results must not be written over, or into: policy, data, snapshots and ledger (an emptied one takes no
    charge any more), and the scripts. snapshot: its files and folders, and what it was made from, which may no longer
    be what the policy names."""
    from dpsql.ledger import chains, default_path

    ledger = default_path() if given.ledger is None else given.ledger
    named = [given.policy, given.database, *getattr(given, "files", ())]
    read = [policy.file.parent / expanded(table.source) for table in policy.tables.values() if table.reads_files]
    budgets = [*(Path(f"{ledger}{end}") for end in _OF_LEDGER), chains()]
    return [*(expanded(name) for name in named if name is not None), *read, *snapshot, *budgets]


_OF_LEDGER = ("", "-wal", "-shm")
"""Ends of the names of a ledger's files."""


def opening(given: argparse.Namespace) -> Opening:
    """What an interactive session starts from; a first use makes the snapshot."""

    def made() -> Opening:
        from dpsql.front.opening import Opening
        from dpsql.owner import opened

        by = opened(given.policy, given.database, ledger=given.ledger, analyst=given.analyst, prepare=given.prepare)
        return Opening(by, kept_files(given, by.policy, by.snapshot.kept))

    with spinner("opening; a first use prepares the snapshot"):
        return guarded(made)


def opened_session(given: argparse.Namespace) -> Session:
    """The session, with a sign turning where that takes long (a first use makes the snapshot)."""

    def opened() -> Session:
        from dpsql.session import open_session

        return open_session(
            given.policy, given.database, ledger=given.ledger, analyst=given.analyst, prepare=given.prepare
        )

    with spinner("opening; a first use prepares the snapshot"):
        return guarded(opened)
