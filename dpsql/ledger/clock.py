"""The ledger's clock, and the windows in which a budget is renewed by it.

Promise: the clock never goes back, and it never runs ahead of time that has really passed. It reads the machine's
wall clock, and holds it against the time since the machine was started, which nobody sets (CLOCK_BOOTTIME; it counts
while the machine sleeps): since the first reading after a start, the wall clock may have run ahead of that by SLACK;
what is more does not count. So an account that is renewed every day gets at most one window for each day that passed
since it was opened, whatever is done to the wall clock while the machine runs. What remains is trusted: the wall clock
at the first use after a start, and the wall clock of systems that do not tell when they were started (not Linux).

Why a window may be filled again at all is the owner's choice and costs as much as it says: each window is an
interaction of its own that is (epsilon, delta)-DP given all that was seen before, so w windows are (w epsilon, w
delta)-DP by the induction in `privacy/accounting`, or sqrt(w) mu-GDP but for w times the chance. Windows are those of
the calendar in UTC. What a window did not spend is gone with it.
"""

from __future__ import annotations

import sqlite3
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

RENEWALS = ("never", "day", "week", "month")
A_YEAR: dict[str, int] = {"never": 1, "day": 366, "week": 54, "month": 12}
"""How many windows a calendar year can have at the most (a leap year that begins on a Sunday touches 54 weeks)."""

SLACK = 3600
"""Seconds by which the wall clock may have been put right since the machine was started."""

_DAY = 86400
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True, slots=True)
class Boot:
    """A start of the machine, when the ledger first saw it, and how long the machine had run by then (seconds)."""

    name: str
    at: int
    uptime: int


@dataclass(frozen=True, slots=True)
class Reading:
    """The ledger's time, in seconds since 1970; `behind`: by how much the wall clock stands before it; `boot`: what the
    ledger is to remember, where that is new."""

    at: int
    behind: int
    boot: Boot | None = None

    @property
    def set_back(self) -> bool:
        return self.behind > SLACK


def wall() -> int:
    """The machine's wall clock."""
    return int(time.time())


def started() -> tuple[str, int] | None:
    """A name for this start of the machine, and the seconds since; None where the system does not tell."""
    name = _boot_id()
    return None if name is None else (name, int(time.clock_gettime(time.CLOCK_BOOTTIME)))


@cache
def _boot_id() -> str | None:
    """A random name for this start of the machine. No process outlives it."""
    try:
        time.clock_gettime(time.CLOCK_BOOTTIME)
        return _BOOT_ID.read_text("utf-8").strip()
    except (OSError, AttributeError, ValueError):
        return None


def read(connection: sqlite3.Connection) -> Reading:
    """The ledger's time now."""
    row = connection.execute("SELECT at FROM entry ORDER BY id DESC LIMIT 1").fetchone()
    last = row[0] if row is not None and isinstance(row[0], int) else 0
    now, machine, boot = wall(), started(), None
    if machine is not None:
        name, uptime = machine
        known = connection.execute("SELECT boot, boot_at, boot_uptime FROM ledger").fetchone()
        if known is not None and known[0] == name and isinstance(known[1], int) and isinstance(known[2], int):
            now = min(now, known[1] + uptime - known[2] + SLACK)
        elif now >= last:  # a clock that is not set yet is no point to count from
            boot = Boot(name, now, uptime)
    return Reading(max(last, now), last - wall(), boot)


def window(renew: str, at: int) -> int:
    """The number of the window that this time lies in; 0 where there is one for ever."""
    day = at // _DAY
    match renew:
        case "day":
            return day
        case "week":
            return (day + 3) // 7  # 1970-01-01 was a Thursday: weeks begin on Mondays
        case "month":
            moment = datetime.fromtimestamp(at, UTC)
            return moment.year * 12 + moment.month - 1
    return 0


def begins(renew: str, number: int) -> int | None:
    """When the window of this number begins; None where there is one for ever."""
    match renew:
        case "day":
            return number * _DAY
        case "week":
            return (number * 7 - 3) * _DAY
        case "month":
            return int(datetime(number // 12, number % 12 + 1, 1, tzinfo=UTC).timestamp())
    return None


def shown(at: int) -> str:
    """A time as people read it: `2026-11-30 00:00 UTC`."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M UTC")
