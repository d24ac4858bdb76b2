"""python -m tests.fuzz --minutes 30 [--target text|tree|policy|ledger|snapshot] [--seed N] [--keep]

Hunts in a process of its own for each target, so that what ends the process is a finding, too. Findings are written
into the corpus, where every run of the tests asks them again, and end with exit code 1. With --keep also one small
input for each new kind of end is written there: that is how the corpus was made.
"""

from __future__ import annotations

import argparse
import faulthandler
import logging
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from random import SystemRandom

from tests.fuzz.hunt import Target, corpus, hunt, keep
from tests.fuzz.targets import TARGETS

HANGS = 120
"""Seconds after which a process that does not come back from an input is ended."""

_SMALL = 2048
_FOUND = 3
"""With what a process ends that has findings: not 1, as one does that Python's own errors or `faulthandler` end."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description="hunt for inputs that end as none may")
    parser.add_argument("--minutes", type=float, default=30.0, help="in total (default 30)")
    parser.add_argument("--target", choices=TARGETS, action="append", help="default: all, one after the other")
    parser.add_argument("--seed", type=int, default=None, help="default: another one each time")
    parser.add_argument("--keep", action="store_true", help="make files of inputs that ended in a new way")
    parser.add_argument("--here", type=Path, help=argparse.SUPPRESS)  # in this process; inputs are noted in that file
    given = parser.parse_args()
    seed = SystemRandom().getrandbits(32) if given.seed is None else given.seed
    names = given.target or list(TARGETS)
    if given.here is not None:
        return _hunt(names[0], given.minutes * 60, seed, given.here, kept=given.keep)
    found = [_watched(name, given.minutes * 60 / len(names), seed, kept=given.keep) for name in names]
    return int(any(found))


def _watched(name: str, seconds: float, seed: int, *, kept: bool) -> bool:
    """Hunt in another process; after its end, whatever that was, in a new one until the time is over. Whether there
    are findings."""
    found, end = False, time.monotonic() + seconds
    while (left := end - time.monotonic()) > 1:
        with tempfile.TemporaryDirectory() as folder:
            note = Path(folder) / "input"
            command = [sys.executable, "-m", "tests.fuzz", "--target", name, "--minutes", f"{left / 60:.3f}"]
            command += ["--seed", str(seed), "--here", str(note), *(["--keep"] if kept else [])]
            ended = subprocess.run(command, check=False).returncode
            if ended in (0, _FOUND):
                return found or ended == _FOUND
            target = TARGETS[name]
            content = note.read_bytes() if note.exists() else b""
            file = keep(target, content)
            print(f"{name}: the process ended with {ended}; the input is {file}", flush=True)
            found, seed = True, seed + 1
    return found


def _hunt(name: str, seconds: float, seed: int, note: Path, *, kept: bool) -> int:
    logging.getLogger("sqlglot").disabled = True

    def before(content: bytes) -> None:
        faulthandler.dump_traceback_later(HANGS, exit=True)
        note.write_bytes(content)

    def told(wrong: str, content: bytes) -> None:
        print(f"{name}: {keep(target, content)}\n    {wrong}", flush=True)

    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as folder:
        target = TARGETS[name](Path(folder) / name)
        try:
            found = hunt(target, seconds, seed, before, told)
        finally:
            faulthandler.cancel_dump_traceback_later()
            target.close()
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(f"{name}: {found.asked:,} inputs, {len(found.kinds)} kinds of ends, seed {seed}, {memory} MB", flush=True)
    if kept:
        _keep_kinds(target, found.kinds.values())
    return _FOUND if found.findings else 0


def _keep_kinds(target: Target, contents: object) -> None:
    known = {content for _, content in corpus(target)} | set(target.seeds())
    for content in contents:
        if len(content) <= _SMALL and content not in known:
            keep(target, content)


if __name__ == "__main__":
    sys.exit(main())
