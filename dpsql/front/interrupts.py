"""Ctrl-C while a statement runs: asks the engine to stop, and leaves the rest of the program in order.

Promise: the first Ctrl-C calls `cancel` at once, even while the main thread is deep inside the engine; a second
one raises KeyboardInterrupt. Statements keep running on the main thread: a worker thread would need a session
whose ledger may be used from any thread. So the signal is heard where Python hears it first, on the wakeup file
descriptor, which C code writes and a watching thread reads; the ordinary handler alone would wait for the engine
to return.
"""

from __future__ import annotations

import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType


class Interrupt:
    """pressed: whether Ctrl-C came."""

    def __init__(self) -> None:
        self.pressed = False


@contextmanager
def interruptible(cancel: Callable[[], None]) -> Iterator[Interrupt]:
    """While the block runs, Ctrl-C calls `cancel`.

    Nothing changes outside the main thread, where no signal arrives, and where somebody else handles Ctrl-C or
    wants it ignored: the wakeup descriptor may be theirs (an event loop's).
    """
    interrupt = Interrupt()
    ours = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if not ours or threading.current_thread() is not threading.main_thread():
        yield interrupt
        return

    def note(_signal: int, _frame: FrameType | None) -> None:
        if interrupt.pressed:
            raise KeyboardInterrupt
        interrupt.pressed = True

    reader, writer = socket.socketpair()
    writer.setblocking(False)

    def watch() -> None:
        while signals := reader.recv(64):
            if signal.SIGINT in signals:
                with suppress(Exception):  # where it fails, the second Ctrl-C remains
                    cancel()

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    old_descriptor = signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
    signal.signal(signal.SIGINT, note)
    try:
        yield interrupt
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.set_wakeup_fd(old_descriptor)
        writer.close()
        watcher.join()
        reader.close()
