"""`dpsql run`: statements from files, the command line or standard input, one result after the other.

Promise: all scripts are read, split and priced before the first statement runs: a missing file costs nothing, and a
script that can't be paid is refused whole. It stops at the first error, or goes on where told to, and returns the first
error's exit code either way. Ctrl-C and a reader that went away stop it always, before another statement is charged.
What was answered before a stop is stored: run again, a script is charged only for the rest.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TextIO

from dpsql.errors import Error, refusal
from dpsql.front.diagnostics import INTERRUPTED, OK, Usage, exit_code, guarded, say_error, spinner, visible
from dpsql.front.interrupts import interruptible
from dpsql.front.output import Results
from dpsql.front.tokens import first_word

if TYPE_CHECKING:
    from dpsql.answer import Answer
    from dpsql.front.dbapi import Parameter
    from dpsql.front.stats import Stats
    from dpsql.front.variables import Variables
    from dpsql.session import Session

INTERRUPTED_NOTE = "interrupted; what the statement was charged stays charged"


@dataclass(frozen=True, slots=True)
class Script:
    """A text of statements, and the name that its errors show."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement, padded so that positions count in its script. parameters: those that it has values for."""

    text: str
    script: str
    parameters: Mapping[str, Parameter] = field(default_factory=dict)

    @property
    def verb(self) -> str:
        return first_word(self.text).upper()

    @property
    def sets(self) -> bool:
        """Whether it changes settings and gives no result."""
        return self.verb in ("SET", "RESET")

    @property
    def is_query(self) -> bool:
        """Whether it may be charged; what is no statement at all is asked, and refused, as a query."""
        return not self.sets and self.verb not in ("SHOW", "DESCRIBE", "DESC", "EXPLAIN")


class Stopped(Exception):
    """Ctrl-C ended a statement, in good order: the session can go on. Its text: what became of the charge, if told."""


class Shows(Protocol):
    """What answers are handed to."""

    def show(self, answer: Answer) -> None:
        """Show an answer, and what it cost."""


def read_script(path: str, standard_input: TextIO) -> Script:
    """The script of a file, or of standard input for `-`. OSError where it can't be read."""
    try:
        if path == "-":
            return Script("standard input", standard_input.read().removeprefix("\ufeff"))
        return Script(path, Path(path).read_text(encoding="utf-8-sig"))
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
    raise refusal("DP101", f"{visible(path)} is not UTF-8 text (line {line})", repair="save it as UTF-8")


def ask(
    session: Session, statement: str, name: str, err: TextIO, parameters: Mapping[str, Parameter] | None = None
) -> tuple[Answer, bool]:
    """Execute one statement under Ctrl-C: its answer, and whether Ctrl-C came too late to stop it.

    Raises Error; Stopped where Ctrl-C ended the statement; KeyboardInterrupt where it was pressed twice.
    """
    timed = session.policy.reveal_timing
    with interruptible(session.cancel) as interrupt, spinner("running; Ctrl-C stops it", err, timed=timed):
        try:
            return guarded(partial(session.execute, statement, parameters or None, name=name)), interrupt.pressed
        except Error as error:
            if not (interrupt.pressed and error.code.startswith("DP5")):
                raise
            reason = error.reason
    raise Stopped(reason)


def split(session: Session, scripts: Iterable[Script], variables: Variables | None = None) -> list[Statement]:
    """The statements of all scripts with the values of their parameters. Raises Usage for a value that none takes."""
    values = variables or {}
    found, used = [], set[str]()
    for script in scripts:
        for text in guarded(partial(session.statements, script.text, script.name)):
            names = _parameters(session, text) if values else frozenset()
            used |= names
            found.append(Statement(text, script.name, {n: v for n, v in values.items() if n in names}))
    unused = [name for name in values if name not in used]
    if unused:
        raise Usage(f"-v {unused[0]}: no statement has a parameter ${unused[0]}")
    return found


def _parameters(session: Session, text: str) -> frozenset[str]:
    """The names of a statement's parameters; none where it can't be read, which its own turn will tell."""
    try:
        return guarded(partial(session.parameters, text))
    except Error:
        return frozenset()


def run_statements(
    session: Session,
    statements: Sequence[Statement],
    results: Results,
    err: TextIO,
    *,
    echo: bool = False,
    keep_going: bool = False,
    stats: Stats | None = None,
) -> int:
    """Run one after the other; returns the exit code."""
    code, pressed = OK, False
    for statement in statements:
        try:
            if pressed:
                raise Stopped  # too late for the statement before, in time for this one
            if echo:
                results.echo(statement.text)
            answer, pressed = ask(session, statement.text, statement.script, err, statement.parameters)
            if stats is not None:
                stats.answered(statement, answer)
            if results.for_people or not statement.sets:
                guarded_show(results, answer)
        except Error as error:
            say_error(error, err)
            code = code or exit_code(error)
            if not keep_going:
                break
        except (Stopped, KeyboardInterrupt):
            print(INTERRUPTED_NOTE, file=err, flush=True)
            return INTERRUPTED
    return code


def guarded_show(results: Shows, answer: Answer) -> None:
    """Show the answer; a stream that can't be written is the caller's matter, any other failure is our fault."""
    failures: list[OSError] = []

    def show() -> None:
        try:
            results.show(answer)
        except OSError as error:
            failures.append(error)

    guarded(show)
    if failures:
        raise failures[0]


def explain_statements(session: Session, statements: Sequence[Statement], out: TextIO, err: TextIO) -> int:
    """Explain each query. SET and RESET are carried out on the way, since they change what follows; what says something
    of the account or the policy is passed over. All is free."""
    parting = ""
    try:
        for statement in statements:
            if statement.sets:
                guarded(partial(session.execute, statement.text, name=statement.script))
            elif statement.is_query:
                text = guarded(partial(session.explain, statement.text, statement.parameters or None))
                print(parting + visible(text.rstrip("\n"), keep="\n"), file=out, flush=True)
                parting = "\n"
    except Error as error:
        say_error(error, err)
        return exit_code(error)
    return OK
