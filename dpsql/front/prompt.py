"""The prompt on a real terminal: editing over several lines, keys, history, the budget in view.

Promise: the history file is the analyst's own (mode 0600). It reads text and returns it, and runs nothing.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

from prompt_toolkit import PromptSession
from prompt_toolkit.application import get_app
from prompt_toolkit.auto_suggest import AutoSuggestFromHistory
from prompt_toolkit.completion import Completer
from prompt_toolkit.enums import DEFAULT_BUFFER, EditingMode
from prompt_toolkit.filters import Condition, has_focus, vi_insert_mode
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.output import ColorDepth

from dpsql.front.colors import STYLE, SqlLexer
from dpsql.places import base


def open_history(file: Path | None) -> History:
    """The history file, made for its owner alone; in memory where it can't be made."""
    if file is None:
        return InMemoryHistory()
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


def history_file() -> Path | None:
    """`$XDG_STATE_HOME/dpsql/history`; None where the user has no home."""
    state = base("XDG_STATE_HOME", ".local/state")
    return None if state is None else state / "dpsql" / "history"


class Prompt:
    """Reads one input (a command, or text up to `;`) at a time from the terminal. preference: of `config`, asked each
    time. shown: called when the prompt stands on the screen for the first time."""

    def __init__(
        self,
        completer: Completer,
        lexer: SqlLexer,
        finished: Callable[[str], bool],
        toolbar: Callable[[int], str],
        history: History,
        preference: Callable[[str], str],
        shown: Callable[[], None],
    ) -> None:
        self._preference = preference
        self._session: PromptSession[str] = PromptSession(
            history=history,
            completer=completer,
            lexer=lexer,
            style=STYLE,
            color_depth=ColorDepth.DEPTH_1_BIT if os.environ.get("NO_COLOR") else None,
            multiline=True,
            key_bindings=_bindings(finished),
            prompt_continuation=lambda width, *_: "...> ".rjust(width),
            bottom_toolbar=lambda: _mode() + toolbar(self._session.output.get_size().columns - len(_mode())),
            complete_while_typing=Condition(lambda: preference("completion") == "on"),
            auto_suggest=AutoSuggestFromHistory(),
            enable_open_in_editor=False,  # `\e` hands over what was edited, and forgets no statement
            reserve_space_for_menu=6,
            search_ignore_case=True,
        )
        self._suggest = self._session.auto_suggest

        def once(_: object) -> None:
            self._session.app.after_render -= once
            shown()

        self._session.app.after_render += once

    def read(self, prompt: str, text: str = "") -> str:
        """The text typed, which begins as `text`. EOFError for Ctrl-D, KeyboardInterrupt for Ctrl-C."""
        self._session.editing_mode = EditingMode.VI if self._preference("keys") == "vi" else EditingMode.EMACS
        # Without color a suggestion looks like what was typed.
        suggesting = self._preference("suggestions") == "on" and not os.environ.get("NO_COLOR")
        self._session.auto_suggest = self._suggest if suggesting else None
        return self._session.prompt(prompt, default=text)


def _mode() -> str:
    """Where letters are commands, people must see it."""
    app = get_app()
    if app.editing_mode != EditingMode.VI:
        return ""
    return " [insert]" if vi_insert_mode() else " [vi]"


def _bindings(finished: Callable[[str], bool]) -> KeyBindings:
    """Enter hands a finished text over and starts a new line in any other; Alt-Enter hands over what is there."""
    bindings = KeyBindings()

    @Condition
    def picked() -> bool:
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
