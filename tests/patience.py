"""Waiting for what other processes and threads do, however slow the machine is.

No test asserts that something was fast: it waits until it is so, and gives up only where something must be stuck.
"""

from __future__ import annotations

import time
from collections.abc import Callable

PATIENCE = 300.0
"""Seconds until what should have happened is missed: less than a whole test may take (`timeout` in pyproject.toml)."""


def until(happened: Callable[[], object], what: str) -> None:
    """Wait for it. Raises AssertionError where it does not come."""
    end = time.monotonic() + PATIENCE
    while not happened():
        assert time.monotonic() < end, f"still not: {what}"
        time.sleep(0.005)
