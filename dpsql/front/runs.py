"""`dpsql run` and `dpsql explain`: from the arguments to the exit code.

Promise: stdout (or the file of -o) gets results and nothing else. Before the first charge everything is known that can
be: the files, the parameters, where results go, and whether the whole can be paid.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from fractions import Fraction
from typing import TYPE_CHECKING

from dpsql.errors import Error
from dpsql.front.arguments import kept_files, opened_session, parser_of, script_arguments, scripts_of
from dpsql.front.diagnostics import INTERRUPTED, OK, Usage, exit_code, guarded, say_error, visible

if TYPE_CHECKING:
    from dpsql.front.outfiles import Target
    from dpsql.front.output import Results
    from dpsql.front.script import Statement
    from dpsql.session import Session

FORMATS = ("table", "csv", "json", "jsonl", "markdown", "parquet")


def run_parser() -> argparse.ArgumentParser:
    parser = parser_of(
        "run",
        "Run the statements of scripts, in order. The whole is priced first, and refused whole if it can't be paid; "
        "then it stops at the first error. Run again after that, it is charged for what was not answered. "
        "Exit codes: 0 ok, 1 engine, 2 usage or policy, 3 refused, 4 budget, 130 interrupted: the first error's.",
        "run report.sql --policy shop.toml --database shop.duckdb",
        "run report.sql --policy shop.toml -v day=2024-02-29 -v store=\"'0042'\"",
        "run report.sql --policy shop.toml --dry-run            (what it would cost: free)",
        "run report.sql --policy shop.toml --max-cost 0.5 --format json -o report.json",
        "run a.sql b.sql --policy shop.toml --format parquet -o 'result-{}.parquet'",
        "run - --policy shop.toml --format csv < report.sql",
    )
    script_arguments(parser)
    parser.add_argument(
        "--format",
        choices=FORMATS,
        default="table",
        help="how results are written (default: table). csv: parted by an empty line; json: one array of results; "
        "jsonl: one object a row; parquet: a file for each result",
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        help="write the results there instead of stdout; it is replaced once all are in, and stays as it was after a "
        "stop. For parquet, {} in it stands for the number of the result",
    )
    parser.add_argument(
        "--echo", action=argparse.BooleanOptionalAction, default=False, help="show each statement before its result"
    )
    parser.add_argument(
        "--keep-going",
        action="store_true",
        help="go on after an error, answering what can be paid; the first error's exit code counts",
    )
    parser.add_argument("--dry-run", action="store_true", help="show what it would cost, and run nothing")
    parser.add_argument("--max-cost", metavar="EPSILON", help="refuse the whole if its ε come to more than this")
    parser.add_argument(
        "--stats",
        action="store_true",
        help="tell rows and price of each statement, on stderr; its time, where the policy reveals timing",
    )
    return parser


def run(words: list[str]) -> int:
    """The command with these arguments; its exit code."""
    given = run_parser().parse_args(words)
    scripts = scripts_of(given)
    most = None if given.max_cost is None else _epsilon(given.max_cost)
    if given.format == "parquet" and given.output is None and not given.dry_run:
        raise Usage("Parquet is written to files: give -o FILE")
    from dpsql.front import script, whatif
    from dpsql.front.stats import Stats
    from dpsql.front.variables import variables

    values = variables(given.variable)
    with _target(given) as target, closing(opened_session(given)) as session:
        statements = script.split(session, scripts, values)
        if given.dry_run:
            return whatif.show(session, statements, most=most)
        results = _results(given, target, session, statements)
        error = _refused_whole(session, statements, given.keep_going, most)
        if error is not None:
            say_error(error, sys.stderr)
            return exit_code(error)
        stats = Stats(sys.stderr, timed=session.policy.reveal_timing) if given.stats else None
        code = script.run_statements(
            session, statements, results, sys.stderr, echo=given.echo, keep_going=given.keep_going, stats=stats
        )
        results.end()
        if code == OK or (given.keep_going and code != INTERRUPTED):
            target.complete()
        elif given.output is not None and given.format != "parquet":
            said = f"{visible(given.output)} was not written; what was answered is stored, and free in the next run"
            print(said, file=sys.stderr)
        if stats is not None:
            stats.summary(guarded(session.budget))
        return code


def _epsilon(text: str) -> Fraction:
    """An ε from 0 on."""
    from dpsql.privacy.accounting import parse_amount

    try:
        return Fraction(0) if text.strip() in ("0", "0.0") else parse_amount(text, what="--max-cost")
    except Error as error:
        raise Usage(error.reason) from None


@contextmanager
def _target(given: argparse.Namespace) -> Iterator[Target]:
    """Where text goes; a file is opened before anything is charged."""
    from dpsql.front.outfiles import Target, replacing

    if given.output in (None, "-") or given.format == "parquet" or given.dry_run:
        yield Target(sys.stdout)
        return
    with replacing(given.output) as target:
        yield target


def _results(given: argparse.Namespace, target: Target, session: Session, statements: Sequence[Statement]) -> Results:
    total, kept = session.policy.budget.epsilon, kept_files(given, session.policy, session.kept)
    if given.format == "parquet":
        from dpsql.front.outfiles import ParquetFiles

        return ParquetFiles(given.output, sum(not each.sets for each in statements), total, sys.stderr, kept)
    target.spare(kept)
    from dpsql.front.output import Output

    return Output(target.stream, sys.stderr, total, format=given.format)


def _refused_whole(
    session: Session, statements: Sequence[Statement], keep_going: bool, most: Fraction | None
) -> Error | None:
    """Why nothing of it is run. A single query is priced by its own charge, and with `keep_going` each is."""
    if most is None and (keep_going or sum(each.is_query for each in statements) < 2):
        return None
    from dpsql.front import whatif

    found = whatif.lines(session, statements, keep_going=keep_going)
    return whatif.unaffordable(found, None if keep_going else guarded(session.budget), most)


def explain_parser() -> argparse.ArgumentParser:
    parser = parser_of(
        "explain",
        "Show how queries would be answered: both SQLs, limits, noise, price. Free.",
        "explain report.sql --policy shop.toml --database shop.duckdb",
        "explain --policy shop.toml -c 'SELECT COUNT(*) FROM sales'",
    )
    script_arguments(parser)
    return parser


def explain(words: list[str]) -> int:
    """The command with these arguments; its exit code."""
    given = explain_parser().parse_args(words)
    scripts = scripts_of(given)
    from dpsql.front import script
    from dpsql.front.variables import variables

    values = variables(given.variable)
    with closing(opened_session(given)) as session:
        return script.explain_statements(session, script.split(session, scripts, values), sys.stdout, sys.stderr)
