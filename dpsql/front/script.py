"""`dpsql run`: statements from files, the command line or standard input, one result after the other.

Promise: all scripts are read and split before the first statement runs, so a missing file costs nothing. It stops
at the first error, or goes on where told to, and returns the first error's exit code either way. Ctrl-C and a
reader that went away stop it always, before another statement is charged.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from dpsql.errors import Error, refusal
from dpsql.front.diagnostics import INTERRUPTED, OK, exit_code, guarded, say_error, spinner, visible
from dpsql.front.interrupts import interruptible
from dpsql.front.output import Output
from dpsql.front.tokens import first_word

if TYPE_CHECKING:
    from dpsql.answer import Answer
    from dpsql.session import Session

INTERRUPTED_NOTE = "interrupted; what the statement was charged stays charged"


@dataclass(frozen=True, slots=True)
class Script:
    """A text of statements, and the name that its errors show."""

    name: str
    text: str


class Stopped(Exception):
    """Ctrl-C ended a statement, in good order: the session can go on."""


def read_script(path: str, standard_input: TextIO) -> Script:
    """The script of a file, or of standard input for `-`. OSError where it can't be read."""
    try:
        if path == "-":
            return Script("standard input", standard_input.read())
        return Script(path, Path(path).read_text(encoding="utf-8-sig"))
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
    raise refusal("DP101", f"{visible(path)} is not UTF-8 text (line {line})", repair="save it as UTF-8")


def ask(session: Session, statement: str, name: str, err: TextIO) -> tuple[Answer, bool]:
    """Execute one statement under Ctrl-C: its answer, and whether Ctrl-C came too late to stop it.

    Raises Error; Stopped where Ctrl-C ended the statement; KeyboardInterrupt where it was pressed twice.
    """
    with interruptible(session.cancel) as interrupt, spinner("running; Ctrl-C stops it", err):
        try:
            return guarded(partial(session.execute, statement, name=name)), interrupt.pressed
        except Error as error:
            if not (interrupt.pressed and error.code.startswith("DP5")):
                raise
    raise Stopped


def split(session: Session, scripts: Iterable[Script]) -> list[tuple[str, str]]:
    """The statements of all scripts, each with its script's name."""
    return [
        (statement, script.name)
        for script in scripts
        for statement in guarded(partial(session.statements, script.text, script.name))
    ]


def run_scripts(
    session: Session,
    scripts: Iterable[Script],
    output: Output,
    err: TextIO,
    *,
    echo: bool = False,
    keep_going: bool = False,
) -> int:
    """Run every statement of every script; returns the exit code."""
    try:
        statements = split(session, scripts)
    except Error as error:
        say_error(error, err)
        return exit_code(error)
    code, pressed = OK, False
    for statement, name in statements:
        try:
            if pressed:
                raise Stopped  # too late for the statement before, in time for this one
            if echo:
                output.echo(statement)
            answer, pressed = ask(session, statement, name, err)
            if output.for_people or first_word(statement).upper() not in ("SET", "RESET"):
                guarded_show(output, answer)
        except Error as error:
            say_error(error, err)
            code = code or exit_code(error)
            if not keep_going:
                break
        except (Stopped, KeyboardInterrupt):
            print(INTERRUPTED_NOTE, file=err, flush=True)
            return INTERRUPTED
    return code


def guarded_show(output: Output, answer: Answer) -> None:
    """Show the answer; a stream that can't be written is the caller's matter, any other failure is our fault."""
    failures: list[OSError] = []

    def show() -> None:
        try:
            output.show(answer)
        except OSError as error:
            failures.append(error)

    guarded(show)
    if failures:
        raise failures[0]


def queries(session: Session, scripts: Iterable[Script]) -> Iterator[tuple[str, str]]:
    """The queries of the scripts and the names of these, to be looked at and not asked. SET and RESET are carried out
    on the way, since they change what follows; what says something of the account or the policy is passed over."""
    for statement, name in split(session, scripts):
        match first_word(statement).upper():
            case "SET" | "RESET":
                guarded(partial(session.execute, statement, name=name))
            case "SHOW" | "DESCRIBE" | "EXPLAIN":
                continue
            case _:
                yield statement, name


def explain_scripts(session: Session, scripts: Iterable[Script], out: TextIO, err: TextIO) -> int:
    """Explain each query of the scripts. All is free."""
    parting = ""
    try:
        for statement, _ in queries(session, scripts):
            text = guarded(partial(session.explain, statement))
            print(parting + visible(text.rstrip("\n"), keep="\n"), file=out, flush=True)
            parting = "\n"
    except Error as error:
        say_error(error, err)
        return exit_code(error)
    return OK
