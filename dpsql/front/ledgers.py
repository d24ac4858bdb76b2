"""`dpsql ledger`: for the owner of the budgets: checked, written out, or taken over as they are.

The ledger holds statements and noisy answers, and no exact value; what is written out is for whoever may know what was
asked.
"""

from __future__ import annotations

import argparse
import json

from dpsql.front.arguments import ledger_option
from dpsql.front.diagnostics import OK, Usage, guarded, visible


def ledger(arguments: list[str]) -> int:
    """The command with these arguments; its exit code."""
    ways = {"verify": _verify, "export": _export, "adopt": _adopt}
    if arguments and arguments[0] in ways:
        return ways[arguments[0]](arguments[1:])
    parser = argparse.ArgumentParser(prog="dpsql ledger", description="Check, write out or take over the ledger.")
    parser.add_argument("what", choices=list(ways), metavar="verify | export | adopt")
    parser.parse_args(arguments)
    raise Usage("options follow the word: dpsql ledger verify --ledger FILE")


def _verify(arguments: list[str]) -> int:
    given = _given(
        arguments,
        "verify",
        "Read the whole ledger: whether its record is the one that was written, entry for entry, up to the head that "
        "is kept outside of it, and whether all that was spent is what the record says.",
    )

    def verified() -> str:
        from dpsql.owner import verify_ledger

        found = verify_ledger(given.ledger)
        return f"{found.entries} entries, {found.charges} charges, {found.releases} stored answers"

    print(f"ok: {guarded(verified)}")
    return OK


def _export(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="dpsql ledger export",
        description="Write the record out, an entry to a line: when, who, which statement, its fingerprint, what "
        "became of it (asked, answered, failed), its price, the policy's digest and the snapshot.",
    )
    parser.add_argument("--jsonl", action="store_true", required=True, help="as JSON lines, the one format there is")
    ledger_option(parser)
    given = parser.parse_args(arguments)
    from dpsql.owner import export_ledger

    rows = guarded(lambda: export_ledger(given.ledger))
    while (row := guarded(lambda: next(rows, None))) is not None:
        print(json.dumps(row, ensure_ascii=False))
    return OK


def _adopt(arguments: list[str]) -> int:
    given = _given(
        arguments,
        "adopt",
        "Take the ledger as it is, under a new key: after you have put a backup back, moved the ledger to another "
        "machine or begun afresh on purpose. What a newer copy had spent is then no longer counted, though the answers "
        "are still out there.",
    )

    def adopted() -> str:
        from dpsql.owner import adopt_ledger

        return f"adopted with {adopt_ledger(given.ledger)} entries; `dpsql ledger verify` reads what they say"

    print(visible(guarded(adopted)))
    return OK


def _given(arguments: list[str], word: str, description: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog=f"dpsql ledger {word}", description=description)
    ledger_option(parser)
    return parser.parse_args(arguments)
