"""`dpsql budget`: what is spent and left, what a script would cost, and what the owner does about accounts.

Promise: nothing here is charged. stdout is the figures, as a text for people or with `--json` for programs: amounts are
exact there, as texts like "1/10".
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING

from dpsql.front.arguments import ledger_option, opened_session, parser_of, script_arguments, scripts_of
from dpsql.front.diagnostics import OK, Usage, guarded

if TYPE_CHECKING:
    from dpsql.ledger import Balance


def budget_parser() -> argparse.ArgumentParser:
    parser = parser_of(
        "budget",
        "Show what is spent and what is left: free, and needs no data. 'dpsql budget what-if' tells what a script "
        "would cost, 'dpsql budget open --new' opens the account anew, 'dpsql budget reopen' opens a frozen one again.",
        "budget shop.toml",
        "budget shop.toml --analyst ann --json",
        "budget what-if report.sql --policy shop.toml",
    )
    _account_arguments(parser)
    parser.add_argument("--analyst", metavar="NAME", help="whose budget, where each has one (default: all of them)")
    parser.add_argument("--json", action="store_true", help="write JSON")
    return parser


def budget(arguments: list[str]) -> int:
    """The command with these arguments; its exit code."""
    ways = {"open": _open_anew, "reopen": _reopen, "what-if": _what_if}
    if arguments and arguments[0] in ways:
        return ways[arguments[0]](arguments[1:])
    given = budget_parser().parse_args(arguments)

    def asked() -> list[Balance]:
        from dpsql.owner import balances_of

        return balances_of(given.policy, given.ledger, given.analyst)

    return _show(given, guarded(asked), as_json=given.json)


def open_parser() -> argparse.ArgumentParser:
    parser = parser_of(
        "budget open",
        "Open the policy's account anew, with its whole budget. For the owner: what was spent is no longer counted, "
        "though the answers are still out there. It says how much that is, and asks; --yes where nobody can answer.",
        "budget open --new shop.toml shop.duckdb",
        "budget open --new --yes shop.toml",
    )
    parser.add_argument("--new", action="store_true", required=True, help="what it is to be opened as: the one way")
    parser.add_argument("--yes", action="store_true", help="do not ask whether what was spent may be forgotten")
    parser.add_argument("policy", metavar="POLICY")
    parser.add_argument("database", metavar="DATABASE", nargs="?")
    ledger_option(parser)
    return parser


def _open_anew(arguments: list[str]) -> int:
    given = open_parser().parse_args(arguments)
    _confirm(given)

    def opened() -> Balance:
        from dpsql.owner import open_account_anew

        return open_account_anew(given.policy, given.database, given.ledger)

    return _show(given, [guarded(opened)])


def _confirm(given: argparse.Namespace) -> None:
    """Say what would no longer be counted, and go on only where the owner wants that. Raises Usage."""
    from dpsql.owner import spent_of

    price, statements = guarded(partial(spent_of, given.policy, given.ledger))
    if not statements:
        return
    from dpsql.front.whatif import priced

    times = f"{statements} statement{'s' * (statements != 1)}"
    said = f"the account has spent {priced(price)} by {times}: no longer counted, though the answers are out there"
    if not given.yes:
        if not sys.stdin.isatty():
            raise Usage(f"{said}; say --yes to open it anew all the same")
        print(f"{said}.\nOpen it anew, with its whole budget? [y/N] ", end="", file=sys.stderr, flush=True)
        if sys.stdin.readline().strip().lower() not in ("y", "yes"):
            raise Usage("left as it was")
    else:
        print(said, file=sys.stderr)


def reopen_parser() -> argparse.ArgumentParser:
    parser = parser_of(
        "budget reopen",
        "Open a frozen account again, with what it had left. For the owner.",
        "budget reopen shop.toml",
    )
    _account_arguments(parser)
    return parser


def _reopen(arguments: list[str]) -> int:
    given = reopen_parser().parse_args(arguments)

    def reopened() -> Balance:
        from dpsql.owner import reopen_account

        return reopen_account(given.policy, given.ledger)

    return _show(given, [guarded(reopened)])


def what_if_parser() -> argparse.ArgumentParser:
    parser = parser_of(
        "budget what-if",
        "Tell what the statements of scripts would cost, one after the other: what would be charged, and what is free "
        "because it was paid for. Nothing is charged, and nothing is asked of private rows. Exit codes: 3 where a "
        "statement is refused, which the others' prices leave out; 4 where the budget does not reach.",
        "budget what-if report.sql --policy shop.toml --database shop.duckdb",
        "budget what-if --policy shop.toml --json -c 'SELECT COUNT(*) FROM sales'",
    )
    script_arguments(parser)
    parser.add_argument("--json", action="store_true", help="write JSON")
    return parser


def _what_if(arguments: list[str]) -> int:
    given = what_if_parser().parse_args(arguments)
    scripts = scripts_of(given)
    from dpsql.front import whatif
    from dpsql.front.script import split
    from dpsql.front.variables import variables

    values = variables(given.variable)
    with closing(opened_session(given)) as session:
        return whatif.show(session, split(session, scripts, values), as_json=given.json)


def _show(given: argparse.Namespace, found: Sequence[Balance], *, as_json: bool = False) -> int:
    from dpsql.front.render import balance, signs_for
    from dpsql.front.whatif import purse
    from dpsql.policy.load import load_policy

    account = guarded(partial(load_policy, given.policy)).budget.account
    if as_json:
        print(json.dumps({"account": account, "purses": [purse(one) for one in found]}, indent=2))
    else:
        print("\n".join(balance(account, one, signs_for(sys.stdout), many=len(found) > 1) for one in found))
    return OK


def _account_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("policy", metavar="POLICY")
    ledger_option(parser)
