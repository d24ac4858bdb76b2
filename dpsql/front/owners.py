"""The command line's part for owners of policies: `dpsql init`, `check`, `prepare`, `audit` and `why`.

Promise: a draft holds names and types alone, and is never written over a file that is there; advice is no error.
"""

from __future__ import annotations

import argparse
import logging
import sys
from functools import partial
from pathlib import Path

from dpsql.errors import Error
from dpsql.front.arguments import parser_of
from dpsql.front.diagnostics import ENGINE, OK, ProgressBar, Usage, exit_code, guarded, say_error, visible


def init_parser() -> argparse.ArgumentParser:
    parser = parser_of(
        "init",
        "Draft a policy from the names and types of tables, never from values. What is yours to choose stands in "
        "comments; 'dpsql check' says what is missing.",
        "init shop.duckdb -o shop.toml",
        "init folder-of-parquet-files",
    )
    parser.add_argument("data", metavar="DATABASE-OR-FOLDER", help="a DuckDB file, or a folder of Parquet or CSV files")
    parser.add_argument("-o", "--output", metavar="FILE", help="write the draft there instead of stdout")
    return parser


def init(arguments: list[str]) -> int:
    given = init_parser().parse_args(arguments)
    folder = Path() if given.output is None else Path(given.output).parent

    def drafted() -> str:
        from dpsql.owner import draft_policy

        return draft_policy(given.data, folder)

    text = guarded(drafted)
    if given.output is None:
        print(visible(text, keep="\n"), end="")
        return OK
    try:
        with Path(given.output).open("x", encoding="utf-8") as file:  # never over a policy that is there
            file.write(text)
    except OSError as error:
        raise Usage(f"can't write {given.output}: {error.strerror}") from None
    print(f"{visible(given.output)}: a draft; fill it in, then: dpsql check {visible(given.output)}")
    return OK


def check_parser() -> argparse.ArgumentParser:
    parser = parser_of(
        "check",
        "Read policy files and say what is wrong in them, then what is unwise. With a database, or where every table "
        "is read from files, names and types of the data are compared too.",
        "check shop.toml",
        "check shop.toml shop.duckdb",
    )
    parser.add_argument("policies", metavar="POLICY", nargs="+", help="policy files, and at most one database")
    return parser


def check(arguments: list[str]) -> int:
    given = check_parser().parse_args(arguments)
    databases = [file for file in given.policies[1:] if not file.lower().endswith(".toml")]
    if len(databases) > 1:
        raise Usage(f"one database at most, not {' and '.join(databases)}; policies end in .toml")
    database = databases[0] if databases else None
    code = OK
    for file in given.policies:
        if file != database:
            try:
                guarded(partial(_check_one, file, database))
            except Error as error:
                say_error(error, sys.stderr)
                code = code or exit_code(error)
    return code


def _check_one(file: str, database: str | None) -> None:
    from dpsql.policy.advice import advise
    from dpsql.policy.load import load_policy

    policy = load_policy(file)
    if database is not None or policy.reads_files_only:
        from dpsql.owner import check_data

        check_data(policy, database)
    private = sum(not table.public for table in policy.tables.values())
    print(
        f"{visible(file)}: ok (protects each {visible(policy.unit)}; {private} private and "
        f"{len(policy.tables) - private} public tables; account {visible(policy.budget.account)})"
    )
    from dpsql.ledger.yearly import yearly

    for sentence in yearly(policy.budget):
        print(f"  {visible(sentence)}")
    for advice in advise(policy):
        print(f"  advice: {visible(advice)}")


def why_parser() -> argparse.ArgumentParser:
    parser = parser_of("why", "Explain an error code: what it means, why, what to write, and an example.", "why DP205")
    parser.add_argument("code", metavar="CODE", help="as in error[DP204]; digits are enough")
    return parser


def why(arguments: list[str]) -> int:
    given = why_parser().parse_args(arguments)
    from dpsql.front.pages import page_of

    print(page_of(given.code))
    return OK


def prepare_parser() -> argparse.ArgumentParser:
    parser = parser_of(
        "prepare",
        "Make the snapshot that queries run on, and report what the policy's claims met. For the owner: the report "
        "speaks of private data.",
        "prepare shop.toml shop.duckdb",
        "prepare shop.toml shop.duckdb --refresh",
    )
    parser.add_argument("policy", metavar="POLICY")
    parser.add_argument("database", metavar="DATABASE", nargs="?")
    parser.add_argument("--refresh", action="store_true", help="make it again from the data as they are now")
    return parser


def prepare(arguments: list[str]) -> int:
    given = prepare_parser().parse_args(arguments)
    bar, log = ProgressBar(sys.stderr), _OwnersLog()

    def prepared() -> str:
        from dpsql.owner import prepare

        return prepare(given.policy, given.database, refresh=given.refresh, progress=bar)

    logging.getLogger("dpsql.owner").addHandler(log)
    try:
        report = guarded(prepared)
    finally:
        logging.getLogger("dpsql.owner").removeHandler(log)
        bar.close()
    print(visible(report.rstrip("\n"), keep="\n"))
    return OK


class _OwnersLog(logging.Handler):
    """The lines of the log, for whoever makes the snapshot on purpose: that is the owner."""

    def emit(self, record: logging.LogRecord) -> None:
        print(f"owner's log: {visible(record.getMessage())}", file=sys.stderr, flush=True)


def audit_parser() -> argparse.ArgumentParser:
    parser = parser_of(
        "audit",
        "Attack dpsql from outside, on made-up data in a temporary folder, and say which of its claims hold. Exit code "
        "0: all that were tested; 1: a claim is broken.",
        "audit --rounds 500 --seconds 600",
    )
    parser.add_argument("--rounds", type=int, default=120, metavar="N", help="of each pair of databases (default: 120)")
    parser.add_argument("--seconds", type=float, metavar="S", help="begin nothing new after so long")
    return parser


def audit(arguments: list[str]) -> int:
    given = audit_parser().parse_args(arguments)
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
