"""The interactive session: read a statement, show its answer, say what is left.

Promise: it reads from a terminal, a dumb terminal or a pipe alike; Ctrl-C stops a statement and not the program;
an error never ends a session on a terminal. From a pipe nobody can react to an error, so there the first one ends
it: the statements after a failed `SET epsilon` would be charged another price than meant. A person is asked before a
statement takes much of what is left.
"""

from __future__ import annotations

import sys
import textwrap
from decimal import Decimal
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, TextIO

from dpsql.errors import Error, refusal
from dpsql.front import commands, editor
from dpsql.front.config import Preferences, config_file
from dpsql.front.costs import question
from dpsql.front.diagnostics import INTERRUPTED, OK, exit_code, fault, guarded, say_error, smart, visible
from dpsql.front.numerals import amount
from dpsql.front.reading import CALLS_FOR_HELP, GOODBYES, LineReader, Reader, whole, yes
from dpsql.front.screen import Screen
from dpsql.front.script import INTERRUPTED_NOTE, Statement, Stopped, ask, guarded_show, read_script
from dpsql.places import expanded

if TYPE_CHECKING:
    from dpsql.front.completion import Words
    from dpsql.front.opening import Opening


class Declined(Exception):
    """Whoever was asked whether to run a statement said no."""


class Repl:
    """One run of the interactive session: the desk that the commands work at."""

    def __init__(
        self, opening: Opening, out: TextIO, err: TextIO, preferences: Preferences, *, interactive: bool
    ) -> None:
        self.opening, self.preferences = opening, preferences
        self._out, self._err, self._interactive = out, err, interactive
        self._total = opening.policy.budget.epsilon
        self.screen = Screen(out, err, self._total, preferences, opening.kept, interactive=interactive)
        self.last_code = ""
        self._left = "?"
        self._asking = False
        self._statement = ""  # the last one, for the editor
        self._begun = ""  # what the next input begins as

    def loop(self, reader: Reader) -> int:
        """Read, run, show, until the end; returns the exit code."""
        try:
            if self._interactive:
                self._greet()
            while True:
                self._refresh()
                begun, self._begun = self._begun, ""
                try:
                    text = reader.read(f"dpsql {self.screen.signs.epsilon} {self._left}> ", begun)
                except EOFError:
                    if self._interactive:
                        self._out.write("\n")
                    return OK
                except KeyboardInterrupt:
                    if self._interactive:
                        continue  # Ctrl-C at the prompt drops what was typed
                    return INTERRUPTED
                try:
                    code = self._turn(text)
                except EOFError:  # \q
                    return OK
                except KeyboardInterrupt:
                    if self._asking or not self._interactive:
                        raise  # the second one while a statement runs
                    self._out.write("\n")
                    continue
                if code and not self._interactive:
                    return code
        finally:
            self.screen.close()

    def _turn(self, text: str) -> int:
        """Run one input and say what went wrong; the exit code that it would be."""
        start = text.strip()
        if start in GOODBYES:
            raise EOFError
        try:
            if start in CALLS_FOR_HELP:
                start = "\\?"
            if start.startswith("\\"):
                name, _, argument = start[1:].partition(" ")
                _, command = commands.found(name.rstrip(";"))
                long = name in commands.LONG
                command.act(self, argument if long else argument.strip().rstrip(";").rstrip())
            else:
                self._statement = start
                self.run(text)
            return OK
        except Error as error:
            found = error
        except Stopped as stopped:
            self._refresh()
            left = f"left {self.screen.signs.epsilon} = {self._left} of {amount(self._total)}"
            said = str(stopped) or INTERRUPTED_NOTE
            print(f"{said} {self.screen.signs.dot} {left}", file=self._err, flush=True)
            return INTERRUPTED
        except Declined:
            print("not run; nothing was charged for it", file=self._err, flush=True)
            return OK
        except (EOFError, OSError):  # \q, and an output that went away
            raise
        except Exception:
            found = fault()
        self.last_code = found.code
        say_error(found, self._err)
        return exit_code(found)

    # -- what the commands work with ------------------------------------------------------------------------------

    def run(self, text: str, name: str = "", *, echo: bool = False) -> None:
        """Run the statements of a text and show what they answer."""
        session, pressed = self.opening.session, False
        for statement in guarded(partial(session.statements, text, name)):
            if pressed:
                raise Stopped  # too late for the statement before, in time for this one
            if echo:
                self.screen.echo(statement)
            self._confirm(statement, name)
            self._asking = True
            try:
                answer, pressed = ask(session, statement, name, self._err)
            except (Error, Stopped):
                self._asking = False
                raise
            self._asking = False
            guarded_show(self.screen, answer)

    def include(self, path: str) -> None:
        """Run the statements of a file."""
        try:
            script = read_script(str(expanded(path)), sys.stdin)
        except OSError as error:
            reason = f"can't read {visible(path)}: {error.strerror}"
            raise refusal("DP120", reason, repair="\\i FILE, from the folder where dpsql was started") from None
        self.run(script.text, script.name, echo=True)

    def edit(self) -> None:
        """Let the editor change the last statement; what it leaves is where the next input begins."""
        if not self._interactive:
            raise refusal("DP120", "\\e needs a terminal")
        self._begun = editor.edited(self._statement)

    def _confirm(self, statement: str, name: str) -> None:
        """Ask before a statement that takes much of what is left. Raises Declined."""
        share = self.preferences["confirm"]
        if not self._interactive or share == "off" or not Statement(statement, name).is_query:
            return
        found = guarded(partial(self.opening.session.estimate, statement, name=name))
        asked = question(found.quote.charged, self.opening.budget(), share, self.screen.signs)
        if asked is not None and not yes(sys.stdin, self._err, asked):
            raise Declined

    # -- what is seen around them ---------------------------------------------------------------------------------

    def toolbar(self, columns: int) -> str:
        """The line at the bottom, as much of it as fits."""
        budget, session, signs = self.opening.policy.budget, self.opening.ready, self.screen.signs
        price = budget.per_query_epsilon if session is None else session.settings.get("epsilon")
        parts = [
            f"left {signs.epsilon} {self._left} of {amount(self._total)}",
            f"next {signs.epsilon} {_price(price)}",
            "\\? help",
            f"account {visible(budget.account)}",
        ]
        text = " "
        for part in parts:
            longer = text + (f" {signs.dot} " if text.strip() else "") + part
            if len(longer) >= columns:
                break
            text = longer
        return text

    def words(self) -> Words:
        """What completion offers: more once the session is there."""
        from dpsql.front.completion import Words

        known = self.opening.vocabulary()
        if known is None:
            return Words(self.opening.tables())
        return Words(known.tables, known.functions, known.settings)

    def _greet(self) -> None:
        self._refresh()
        budget, signs = self.opening.policy.budget, self.screen.signs
        lines = (
            f"dpsql: private answers to SQL. Account {visible(budget.account)} protects each "
            f"{visible(self.opening.policy.unit)}.",
            f"{signs.epsilon} {self._left} of {amount(self._total)} left; a statement costs "
            f"{amount(budget.per_query_epsilon)} and ends with ;  \\? help  \\d tables",
        )
        width = self.screen.width or 80
        for line in lines:
            print(textwrap.fill(line, max(width - 1, 20)), file=self._out)
        for problem in self.preferences.problems:
            print(visible(problem), file=self._err)
        self._out.flush()

    def _refresh(self) -> None:
        """What is left, asked once for each prompt; an unreadable ledger shows as `?`, the next charge says why."""
        try:
            self._left = amount(self.opening.budget().remaining_epsilon)
        except Error:
            self._left = "?"


def _price(value: object) -> str:
    """The setting `epsilon`, in whatever exact type the session keeps it."""
    return amount(Fraction(value)) if isinstance(value, (int, Fraction, Decimal)) else visible(str(value))


def run_repl(opening: Opening, out: TextIO, err: TextIO) -> int:
    """The interactive session on whatever standard input is. What an analyst prefers holds on a terminal: what comes
    out of a pipe must not depend on it."""
    interactive = sys.stdin.isatty()
    repl = Repl(opening, out, err, Preferences(config_file(), read=interactive), interactive=interactive)
    if not (interactive and smart(out)):
        opening.begin()
        return repl.loop(LineReader(sys.stdin, err if interactive else None))
    from dpsql.front.colors import Reader as Pieces
    from dpsql.front.colors import SqlLexer
    from dpsql.front.completion import SqlCompleter
    from dpsql.front.prompt import Prompt, history_file, open_history

    def pieces() -> Pieces | None:
        return None if opening.ready is None else opening.ready.pieces

    prompt = Prompt(
        SqlCompleter(repl.words, partial(commands.words_after, repl)),
        SqlLexer(pieces),
        whole,
        repl.toolbar,
        open_history(history_file()),
        repl.preferences.__getitem__,
        opening.begin,
    )
    return repl.loop(prompt)
