"""The interactive session: read a statement, show its answer, say what is left.

Promise: it reads from a terminal, a dumb terminal or a pipe alike; Ctrl-C stops a statement and not the program;
an error never ends a session on a terminal. From a pipe nobody can react to an error, so there the first one ends
it: the statements after a failed `SET epsilon` would be charged another price than meant.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Protocol, TextIO

from dpsql.errors import Error, refusal
from dpsql.front import render
from dpsql.front.diagnostics import INTERRUPTED, OK, USAGE, exit_code, guarded, say_error, smart, visible
from dpsql.front.numerals import amount
from dpsql.front.output import Output
from dpsql.front.script import INTERRUPTED_NOTE, Stopped, ask, guarded_show, read_script
from dpsql.front.tokens import finished, first_word

if TYPE_CHECKING:
    from dpsql.session import Session

HELP = """\
  statement;     may take several lines
  \\d             tables
  \\d TABLE       its columns
  \\budget        what is spent and left
  \\explain SQL;  plan and price: free
  \\i FILE        run a file
  \\?             this help
  \\q             quit (Ctrl-D too)
  SET epsilon = 0.1;  price from now on
  Ctrl-C stops a running statement;
  what it was charged stays charged."""

_GOODBYES = frozenset(("\\q", "\\quit", "exit", "quit", "exit;", "quit;"))
_CALLS_FOR_HELP = frozenset(("help", "help;"))

COMMANDS = ("\\?", "\\budget", "\\d", "\\explain", "\\i", "\\q")


class Reader(Protocol):
    """Hands over one input at a time; raises EOFError at the end."""

    def read(self, prompt: str) -> str: ...


class LineReader:
    """Reads lines until an input is whole: from a pipe, or from a terminal that can do no more."""

    def __init__(self, lines: TextIO, prompts: TextIO | None) -> None:
        self._lines, self._prompts = lines, prompts

    def read(self, prompt: str) -> str:
        text = ""
        while True:
            if self._prompts is not None:
                self._prompts.write("...> ".rjust(len(prompt)) if text.strip() else prompt)
                self._prompts.flush()
            try:
                line = self._lines.readline()
            except KeyboardInterrupt:
                if self._prompts is not None:
                    self._prompts.write("\n")
                raise
            except UnicodeDecodeError:
                raise refusal("DP101", "the input is not UTF-8 text") from None
            if not line:
                if text.strip():
                    return text
                raise EOFError
            text = text + line if text.strip() else line
            if ((";" in line or "*/" in line) or text is line) and whole(text):
                return text


def whole(text: str) -> bool:
    """Whether Enter hands the text over: a finished statement or a command."""
    start = text.lstrip()
    if (start.startswith("\\") and first_word(start) != "explain") or start.strip() in _GOODBYES | _CALLS_FOR_HELP:
        return True
    return finished(text)


class Repl:
    """One run of the interactive session."""

    def __init__(self, session: Session, out: TextIO, err: TextIO, *, interactive: bool) -> None:
        self._session, self._out, self._err, self._interactive = session, out, err, interactive
        self._total = session.policy.budget.epsilon
        self._signs = render.signs_for(out)
        self._output = Output(out, err, self._total, dialogue=interactive)
        self._left = "?"
        self._commands: dict[str, Callable[[str], int]] = {
            "?": self._help,
            "help": self._help,
            "d": self._describe,
            "budget": self._budget,
            "explain": self._explain,
            "i": self._include,
        }

    def loop(self, reader: Reader) -> int:
        """Read, run, show, until the end; returns the exit code."""
        if self._interactive:
            self._greet()
        while True:
            self._refresh()
            try:
                text = reader.read(f"dpsql {self._signs.epsilon} {self._left}> ")
            except EOFError:
                if self._interactive:
                    self._out.write("\n")
                return OK
            except KeyboardInterrupt:
                if self._interactive:
                    continue  # Ctrl-C at the prompt drops what was typed
                return INTERRUPTED
            if text.strip() in _GOODBYES:
                return OK
            code = self._run(text)
            if code and not self._interactive:
                return code

    def _run(self, text: str) -> int:
        """Run one input and say what went wrong; the exit code that it would be."""
        try:
            start = text.strip()
            if start in _CALLS_FOR_HELP:
                start = "\\?"
            if start.startswith("\\"):
                return self._command(start)
            self._statements(text, "")
            return OK
        except Error as error:
            say_error(error, self._err)
            return exit_code(error)
        except Stopped:
            print(INTERRUPTED_NOTE, file=self._err, flush=True)
            return INTERRUPTED

    def toolbar(self, columns: int) -> str:
        """The line at the bottom, as much of it as fits."""
        budget = self._session.policy.budget
        price = _price(self._session.settings.get("epsilon", budget.per_query_epsilon))
        left = f"left {self._signs.epsilon} {self._left} of {amount(self._total)}"
        parts = [left, f"next {self._signs.epsilon} {price}", "\\? help", f"account {visible(budget.account)}"]
        text = " "
        for part in parts:
            longer = text + (f" {self._signs.dot} " if text.strip() else "") + part
            if len(longer) >= columns:
                break
            text = longer
        return text

    def _greet(self) -> None:
        budget = self._session.policy.budget
        print(f"account {visible(budget.account)}: protects each {visible(self._session.policy.unit)}", file=self._out)
        print("end statements with ;  help with \\?", file=self._out, flush=True)

    def _refresh(self) -> None:
        """What is left, asked once for each prompt; an unreadable ledger shows as `?`, the next charge says why."""
        try:
            self._left = amount(guarded(self._session.budget).remaining_epsilon)
        except Error:
            self._left = "?"

    def _statements(self, text: str, name: str, echo: bool = False) -> None:
        pressed = False
        for statement in guarded(partial(self._session.statements, text, name)):
            if pressed:
                raise Stopped  # too late for the statement before, in time for this one
            if echo:
                self._output.echo(statement)
            answer, pressed = ask(self._session, statement, name, self._err)
            guarded_show(self._output, answer)

    def _command(self, text: str) -> int:
        name, _, argument = text[1:].partition(" ")
        command = self._commands.get(name.rstrip(";"))
        if command is None:
            return self._misuse(f"no command \\{visible(name)}; \\? shows all")
        code = command(argument.strip())
        self._out.flush()
        return code

    def _misuse(self, words: str) -> int:
        print(words, file=self._err, flush=True)
        return USAGE

    def _help(self, _: str) -> int:
        print(HELP, file=self._out)
        return OK

    def _describe(self, table: str) -> int:
        table = table.rstrip("; ")
        self._statements(f"DESCRIBE {table};" if table else "SHOW TABLES;", "")
        return OK

    def _budget(self, _: str) -> int:
        balance = guarded(self._session.budget)
        print(render.balance(self._session.policy.budget.account, balance, self._signs), file=self._out)
        return OK

    def _explain(self, sql: str) -> int:
        if not sql.strip(" ;"):
            return self._misuse("write \\explain SELECT ...;")
        for statement in guarded(partial(self._session.statements, sql, "")):
            text = guarded(partial(self._session.explain, statement))
            print(visible(text.rstrip("\n"), keep="\n"), file=self._out)
        return OK

    def _include(self, path: str) -> int:
        if not path:
            return self._misuse("write \\i FILE")
        try:
            script = read_script(os.path.expanduser(path), sys.stdin)
        except OSError as error:
            return self._misuse(f"can't read {visible(path)}: {error.strerror}")
        self._statements(script.text, script.name, echo=True)
        return OK


def _price(value: object) -> str:
    """The setting `epsilon`, in whatever exact type the session keeps it."""
    return amount(Fraction(value)) if isinstance(value, (int, Fraction, Decimal)) else visible(str(value))


def run_repl(session: Session, out: TextIO, err: TextIO) -> int:
    """The interactive session on whatever standard input is."""
    interactive = sys.stdin.isatty()
    repl = Repl(session, out, err, interactive=interactive)
    if not (interactive and smart(out)):
        return repl.loop(LineReader(sys.stdin, err if interactive else None))
    from dpsql.front.prompt import Prompt, SqlCompleter, history_file, open_history

    names = guarded(session.vocabulary)
    completer = SqlCompleter(names.tables, names.functions, names.settings, COMMANDS)
    return repl.loop(Prompt(completer, whole, repl.toolbar, open_history(history_file())))
