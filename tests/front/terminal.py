"""A terminal that a test can read: a process on a pseudo-terminal, and the screen a person would see."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

import pexpect
import pyte

from tests.patience import PATIENCE


def hear_ctrl_c() -> None:
    """For a child process: Ctrl-C as on a terminal, also where the tests run in the background and ignore it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


class _Screen(pyte.Screen):
    """A screen that answers questions about the cursor, as terminals do."""

    def __init__(self, columns: int, lines: int, process: pexpect.spawn) -> None:
        super().__init__(columns, lines)
        self._process = process

    def write_process_input(self, data: str) -> None:
        self._process.send(data)


class Terminal:
    """Types, waits and reads."""

    def __init__(
        self,
        command: Sequence[str],
        folder: Path,
        *,
        columns: int = 80,
        lines: int = 24,
        term: str = "xterm-256color",
        environment: dict[str, str] | None = None,
    ) -> None:
        self._process = pexpect.spawn(
            command[0],
            list(command[1:]),
            cwd=str(folder),
            env=os.environ | {"TERM": term} | (environment or {}),
            dimensions=(lines, columns),
            encoding="utf-8",
            timeout=PATIENCE,
            preexec_fn=hear_ctrl_c,
        )
        self._screen = _Screen(columns, lines, self._process)
        self._stream = pyte.Stream(self._screen)
        self.output, self._waited = "", 0

    def __enter__(self) -> Terminal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.close(force=True)

    def type(self, text: str) -> None:
        self._process.send(text)

    def resize(self, columns: int, lines: int) -> None:
        """What the process is told of the size; what is read stays as it is."""
        self._process.setwinsize(lines, columns)

    def read(self) -> None:
        """Take in what the process has written."""
        try:
            text = self._process.read_nonblocking(65536, timeout=0.05)
        except pexpect.TIMEOUT:
            return
        self.output += text
        self._stream.feed(text)

    def clear(self) -> None:
        """Wipe the screen, so that what is waited for next is new."""
        self._screen.erase_in_display(2)

    @property
    def lines(self) -> list[str]:
        """The screen without what is blank at the right and below."""
        lines = [line.rstrip() for line in self._screen.display]
        while lines and not lines[-1]:
            lines.pop()
        return lines

    def wait_for(self, text: str, *, gone: bool = False) -> None:
        """Wait until the text is on the screen (or no longer)."""
        deadline = time.monotonic() + PATIENCE
        while (text in "\n".join(self.lines)) == gone:
            if time.monotonic() > deadline:
                raise AssertionError(
                    f"{text!r} {'stays on' if gone else 'is not on'} the screen:\n" + "\n".join(self.lines)
                )
            self.read()

    def wait_for_output(self, text: str) -> None:
        """Wait until the process has written the text since this was last waited for, wherever that stands."""
        deadline = time.monotonic() + PATIENCE
        while text not in self.output[self._waited :]:
            assert time.monotonic() < deadline, f"{text!r} is not in what was written: {self.output[self._waited :]!r}"
            self.read()
        self._waited = len(self.output)

    def wait_for_end(self) -> int:
        """Wait for the process; its exit code."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            try:
                self.read()
            except pexpect.EOF:
                break
        self._process.close()
        return int(self._process.exitstatus if self._process.exitstatus is not None else -self._process.signalstatus)
