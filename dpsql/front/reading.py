"""Where the lines of an interactive session come from when the terminal can do no more, or from a pipe."""

from __future__ import annotations

from typing import Protocol, TextIO

from dpsql.errors import refusal
from dpsql.front.commands import LONG
from dpsql.front.tokens import finished, first_word

GOODBYES = frozenset(("exit", "quit", "exit;", "quit;"))
CALLS_FOR_HELP = frozenset(("help", "help;"))


class Reader(Protocol):
    """Hands over one input at a time; raises EOFError at the end."""

    def read(self, prompt: str, text: str = "") -> str:
        """text: what the input begins as."""
        ...


def whole(text: str) -> bool:
    """Whether Enter hands the text over: a finished statement or a command."""
    start = text.lstrip()
    if (start.startswith("\\") and first_word(start) not in LONG) or start.strip() in GOODBYES | CALLS_FOR_HELP:
        return True
    return finished(text)


class LineReader:
    """Reads lines until an input is whole. prompts: where they are shown, if anywhere."""

    def __init__(self, lines: TextIO, prompts: TextIO | None) -> None:
        self._lines, self._prompts = lines, prompts

    def read(self, prompt: str, text: str = "") -> str:
        if text:
            self._say(text.rstrip("\n") + "\n")
            if whole(text) and yes(self._lines, self._prompts, "Run it? [y/N] "):
                return text
        text = ""
        while True:
            self._say("...> ".rjust(len(prompt)) if text.strip() else prompt)
            try:
                line = self._lines.readline()
            except KeyboardInterrupt:
                self._say("\n")
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

    def _say(self, text: str) -> None:
        if self._prompts is not None:
            self._prompts.write(text)
            self._prompts.flush()


def yes(lines: TextIO, prompts: TextIO | None, question: str) -> bool:
    """Whether the answer is yes; no at Ctrl-C and at the end of the input."""
    if prompts is not None:
        prompts.write(question)
        prompts.flush()
    try:
        return lines.readline().strip().lower() in ("y", "yes")
    except KeyboardInterrupt:
        if prompts is not None:
            prompts.write("\n")
        return False
