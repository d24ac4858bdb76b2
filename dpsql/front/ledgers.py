"""`dpsql ledger`: for the owner of the budgets: checked, written out, or taken over as they are.

The ledger holds statements and noisy answers, and no exact value; what is written out is for whoever may know what was
asked.
"""

from __future__ import annotations

import argparse
import json

from dpsql.errors import Error
from dpsql.front.arguments import ledger_option, parser_of
from dpsql.front.diagnostics import OK, Usage, guarded, visible

_VERIFY = (
    "Read the whole ledger: whether its record is the one that was written, entry for entry, up to the head that is "
    "kept outside of it, and whether all that was spent is what the record says."
)
_EXPORT = (
    "Write the record out, an entry to a line: when, who, what was typed, what that came to, its price, and what "
    "became of it. docs/ledger.md says what each field is."
)
_ADOPT = (
    "Take the ledger as it is, under a new key: after you have put a backup back, moved the ledger to another machine "
    "or begun afresh on purpose. What a newer copy had spent is then no longer counted, though the answers are still "
    "out there."
)


def ledger_parser() -> argparse.ArgumentParser:
    parser = parser_of(
        "ledger",
        f"Check, write out or take over the ledger, the file of budgets: {_place()} unless --ledger names another.",
        "ledger verify",
        "ledger export --jsonl > record.jsonl",
        "ledger adopt --ledger restored.sqlite",
    )
    parser.add_argument("what", choices=("verify", "export", "adopt"), metavar="verify | export | adopt")
    return parser


def _place() -> str:
    from dpsql.ledger import default_path

    try:
        return str(default_path())
    except Error:
        return "no place, as you have no home folder,"


def verify_parser() -> argparse.ArgumentParser:
    return _parser("verify", _VERIFY, "ledger verify")


def export_parser() -> argparse.ArgumentParser:
    parser = _parser("export", _EXPORT, "ledger export --jsonl > record.jsonl")
    parser.add_argument("--jsonl", action="store_true", required=True, help="as JSON lines, the one format there is")
    return parser


def adopt_parser() -> argparse.ArgumentParser:
    return _parser("adopt", _ADOPT, "ledger adopt")


def _parser(word: str, description: str, example: str) -> argparse.ArgumentParser:
    parser = parser_of(f"ledger {word}", description, example)
    ledger_option(parser)
    return parser


def ledger(arguments: list[str]) -> int:
    """The command with these arguments; its exit code."""
    ways = {"verify": _verify, "export": _export, "adopt": _adopt}
    if arguments and arguments[0] in ways:
        return ways[arguments[0]](arguments[1:])
    ledger_parser().parse_args(arguments)
    raise Usage("options follow the word: dpsql ledger verify --ledger FILE")


def _verify(arguments: list[str]) -> int:
    given = verify_parser().parse_args(arguments)

    def verified() -> str:
        from dpsql.owner import verify_ledger

        found = verify_ledger(given.ledger)
        counts = (
            (found.entries, "entry", "entries"),
            (found.charges, "charge", "charges"),
            (found.releases, "stored answer", "stored answers"),
        )
        return ", ".join(f"{number} {one if number == 1 else more}" for number, one, more in counts)

    print(f"ok: {guarded(verified)}")
    return OK


def _export(arguments: list[str]) -> int:
    given = export_parser().parse_args(arguments)
    from dpsql.owner import export_ledger

    rows = guarded(lambda: export_ledger(given.ledger))
    while (row := guarded(lambda: next(rows, None))) is not None:
        print(json.dumps(row, ensure_ascii=False))
    return OK


def _adopt(arguments: list[str]) -> int:
    given = adopt_parser().parse_args(arguments)

    def adopted() -> str:
        from dpsql.owner import adopt_ledger

        return f"adopted with {adopt_ledger(given.ledger)} entries; `dpsql ledger verify` reads what they say"

    print(visible(guarded(adopted)))
    return OK
