"""The prompt on a real terminal: editing over several lines, colors, history, completion, the budget in view.

Promise: what it offers for completion comes from the policy and the language alone, never from data; the history
file is the analyst's own (mode 0600). It reads text and returns it, and runs nothing.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.enums import DEFAULT_BUFFER
from prompt_toolkit.filters import Condition, has_focus
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.lexers import Lexer
from prompt_toolkit.output import ColorDepth
from prompt_toolkit.styles import Style

from dpsql.front.tokens import KEYWORDS, tokens

_TOO_LONG_TO_COLOR = 50_000

_STYLE = Style.from_dict(
    {
        "sql.keyword": "bold ansiblue",
        "sql.string": "ansigreen",
        "sql.quoted": "ansigreen",
        "sql.number": "ansicyan",
        "sql.parameter": "ansimagenta",
        "sql.comment": "italic ansibrightblack",
        "bottom-toolbar": "noreverse ansibrightblack",
    }
)

_RELATION = re.compile(r'\b(?:FROM|JOIN)\s+("[^"]+"|[\w.]+)(?:\s+(?:AS\s+)?("[^"]+"|\w+))?', re.IGNORECASE)
_BEFORE = re.compile(r"(?:(\w+)\s*\.\s*)?(\w*)\Z")
_WORD_BEFORE = re.compile(r"(\\?\w+)\s+[\w.]*\Z")


class SqlLexer(Lexer):
    """Colors by token."""

    def lex_document(self, document: Document) -> Callable[[int], StyleAndTextTuples]:
        lines: list[StyleAndTextTuples] = [[]]
        pieces = tokens(document.text) if len(document.text) < _TOO_LONG_TO_COLOR else [("other", document.text)]
        for kind, text in pieces:
            first, *more = text.split("\n")
            lines[-1].append((f"class:sql.{kind}", first))
            lines += [[(f"class:sql.{kind}", line)] for line in more]
        return lambda number: lines[number] if number < len(lines) else []


class SqlCompleter(Completer):
    """Names of the policy, functions, settings, keywords; after `table.` its columns, after FROM the tables."""

    def __init__(
        self,
        tables: Mapping[str, Iterable[str]],
        functions: Iterable[str] = (),
        settings: Iterable[str] = (),
        commands: Iterable[str] = (),
    ) -> None:
        self._tables = {name: list(columns) for name, columns in tables.items()}
        self._functions, self._settings, self._commands = list(functions), list(settings), list(commands)

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        before = document.text_before_cursor
        if before.startswith("\\") and " " not in before:
            for command in self._commands:
                if command.startswith(before):
                    yield Completion(command, -len(before))
            return
        if _inside_text(before):
            return
        match = _BEFORE.search(before)
        qualifier, word = (match.group(1), match.group(2)) if match else (None, "")
        if not (word or qualifier or complete_event.completion_requested or _WORD_BEFORE.search(before)):
            return
        for name, meaning in self._candidates(document.text, before, qualifier):
            if name.lower().startswith(word.lower()) and name.lower() != word.lower():
                written = _quoted(name) if meaning in ("table", "column") else name
                yield Completion(written, -len(word), display=name, display_meta=meaning)

    def _candidates(self, text: str, before: str, qualifier: str | None) -> Iterable[tuple[str, str]]:
        if qualifier is not None:
            return [(column, "column") for column in self._columns_of(text, qualifier)]
        match = _WORD_BEFORE.search(before)
        tables = [(name, "table") for name in self._tables]
        match match.group(1).upper() if match else "":
            case "FROM" | "JOIN" | "DESCRIBE" | "\\D":
                return tables
            case "SET" | "RESET":
                return [(name, "setting") for name in self._settings]
        if not _BEFORE.search(before) or before[-1:].isspace():
            return []
        near = dict.fromkeys(c for t in self._named(text) for c in self._tables[t])
        columns = near or dict.fromkeys(c for columns in self._tables.values() for c in columns)
        named = [*((c, "column") for c in columns), *tables, *((f, "function") for f in self._functions)]
        return [*named, *((k, "") for k in sorted(KEYWORDS))]

    def _named(self, text: str) -> list[str]:
        """The policy's tables that the statement speaks of."""
        lowered = {name.lower(): name for name in self._tables}
        found = (m.group(1).strip('"').lower() for m in _RELATION.finditer(text))
        return [lowered[name] for name in found if name in lowered]

    def _columns_of(self, text: str, qualifier: str) -> list[str]:
        """The columns of a table given by its name or alias."""
        wanted = qualifier.lower()
        for match in _RELATION.finditer(text):
            if (match.group(2) or "").strip('"').lower() == wanted:
                wanted = match.group(1).strip('"').lower()
        return next((columns for name, columns in self._tables.items() if name.lower() == wanted), [])


def _inside_text(before: str) -> bool:
    """Whether the cursor stands in a string, quoted name or comment."""
    kind, text = ([("space", "")] + list(tokens(before)))[-1]
    closed = len(text) > 1 and text.endswith(("'", '"', "*/", "$"))
    return kind in ("string", "quoted", "comment") and not closed


def _quoted(name: str) -> str:
    """The name as SQL needs it."""
    plain = re.fullmatch(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)?", name)
    return name if plain and name.upper() not in KEYWORDS else '"' + name.replace('"', '""') + '"'


def open_history(file: Path) -> History:
    """The history file, made for its owner alone; in memory where it can't be made."""
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(file, os.O_CREAT | os.O_RDWR, 0o600)
        try:
            os.fchmod(descriptor, stat.S_IRUSR | stat.S_IWUSR)
        finally:
            os.close(descriptor)
    except OSError:
        return InMemoryHistory()
    return FileHistory(str(file))


def history_file() -> Path:
    """`$XDG_STATE_HOME/dpsql/history`."""
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(state) / "dpsql" / "history"


class Prompt:
    """Reads one input (a command, or text up to `;`) at a time from the terminal."""

    def __init__(
        self, completer: Completer, finished: Callable[[str], bool], toolbar: Callable[[int], str], history: History
    ) -> None:
        self._session: PromptSession[str] = PromptSession(
            history=history,
            completer=completer,
            lexer=SqlLexer(),
            style=_STYLE,
            color_depth=ColorDepth.DEPTH_1_BIT if os.environ.get("NO_COLOR") else None,
            multiline=True,
            key_bindings=_bindings(finished),
            prompt_continuation=lambda width, *_: "...> ".rjust(width),
            bottom_toolbar=lambda: toolbar(self._session.output.get_size().columns),
            complete_while_typing=True,
            reserve_space_for_menu=6,
        )

    def read(self, prompt: str) -> str:
        """The text typed. EOFError for Ctrl-D, KeyboardInterrupt for Ctrl-C."""
        return self._session.prompt(prompt)


def _bindings(finished: Callable[[str], bool]) -> KeyBindings:
    """Enter hands a finished text over and starts a new line in any other; Alt-Enter hands over what is there."""
    bindings = KeyBindings()

    @Condition
    def picked() -> bool:
        from prompt_toolkit.application import get_app

        state = get_app().current_buffer.complete_state
        return state is not None and state.current_completion is not None

    @bindings.add("enter", filter=has_focus(DEFAULT_BUFFER) & picked)
    def _take(event: KeyPressEvent) -> None:
        event.current_buffer.complete_state = None

    @bindings.add("enter", filter=has_focus(DEFAULT_BUFFER) & ~picked)
    def _enter(event: KeyPressEvent) -> None:
        if finished(event.current_buffer.text):
            event.current_buffer.validate_and_handle()
        else:
            event.current_buffer.newline(copy_margin=True)

    @bindings.add("escape", "enter", filter=has_focus(DEFAULT_BUFFER))
    def _hand_over(event: KeyPressEvent) -> None:
        event.current_buffer.validate_and_handle()

    return bindings
