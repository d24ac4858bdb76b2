"""The command line's part for owners of policies: `dpsql init`, `check` and `why`.

Promise: a draft holds names and types alone, and is never written over a file that is there; advice is no error.
"""

from __future__ import annotations

import argparse
import sys
from functools import partial
from pathlib import Path

from dpsql.errors import Error
from dpsql.front.diagnostics import OK, Usage, exit_code, guarded, say_error, visible


def init(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="dpsql init",
        description="Draft a policy from the names and types of tables, never from values. What is yours to choose "
        "stands in comments; 'dpsql check' says what is missing.",
    )
    parser.add_argument("data", metavar="DATABASE-OR-FOLDER", help="a DuckDB file, or a folder of Parquet or CSV files")
    parser.add_argument("-o", "--output", metavar="FILE", help="write the draft there instead of stdout")
    given = parser.parse_args(arguments)
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


def check(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="dpsql check",
        description="Read policy files and say what is wrong in them, then what is unwise. With a database, or where "
        "every table is read from files, names and types of the data are compared too.",
    )
    parser.add_argument("policies", metavar="POLICY", nargs="+", help="policy files, and at most one database")
    given = parser.parse_args(arguments)
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


def why(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="dpsql why", description="Explain an error code: what it means, why, what to write, and an example."
    )
    parser.add_argument("code", metavar="CODE", help="as in error[DP204]; digits are enough")
    given = parser.parse_args(arguments)
    from dpsql.front.pages import page_of

    print(page_of(given.code))
    return OK
