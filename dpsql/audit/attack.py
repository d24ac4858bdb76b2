"""The whole audit: every design, within the time there is."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import SystemRandom

from dpsql.audit import canaries, pairs
from dpsql.audit.data import home
from dpsql.audit.neighbours import DESIGNS
from dpsql.audit.report import Finding

EPSILON = "1.5"
"""Of a statement in the one-run audit: noise that covers half of the sensitivity is refuted in almost every run."""

Progress = Callable[[str, float], None]


def attack(rounds: int = pairs.ROUNDS, seconds: float | None = None, progress: Progress | None = None) -> list[Finding]:
    """All findings, those that hold and those that do not. seconds: after which nothing new is begun."""
    end = None if seconds is None else time.monotonic() + seconds

    def going() -> bool:
        return end is None or time.monotonic() < end

    findings: list[Finding] = []
    with tempfile.TemporaryDirectory(prefix="dpsql-audit-") as temporary:
        folder = Path(temporary)
        with home(folder / "home"):
            for finding, share in _all(folder, rounds, going):
                findings += finding
                if progress is not None:
                    progress(findings[-1].method if findings else "", share)
    return findings


def _all(folder: Path, rounds: int, going: Callable[[], bool]) -> Iterator[tuple[list[Finding], float]]:
    random, steps = SystemRandom(), len(DESIGNS) + 3
    made = canaries.deep(folder / "deep", random, EPSILON)
    yield canaries.audit(made, canaries.DEEP, going), 1 / steps
    yield canaries.audit_session(made, canaries.SESSION) if going() else [], 2 / steps
    yield canaries.audit(canaries.wide(folder / "wide", random, "1"), canaries.BROAD, going), 3 / steps
    for i, design in enumerate(DESIGNS, 4):
        yield [pairs.audit(folder / f"pair-{i}", design, rounds, going)], i / steps
