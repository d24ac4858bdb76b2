"""How long until the first prompt: the interactive session on a pseudo-terminal, with the snapshot made.

python -m bench.prompt build/tpch-0.01.duckdb
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

import pexpect

from dpsql.owner import prepare

POLICY = Path(__file__).resolve().parents[1] / "policies" / "tpch.toml"
RUNS, WARM = 21, 2


def until_prompt(database: str) -> float:
    """Seconds from the start of the process to a prompt that takes keys."""
    begun = time.perf_counter()
    # The second variable: pseudo-terminals do not answer where the cursor is.
    environment = os.environ | {"TERM": "xterm-256color", "PROMPT_TOOLKIT_NO_CPR": "1"}
    command = ["-m", "dpsql", str(POLICY), database]
    session = pexpect.spawn(sys.executable, command, env=environment, encoding="utf-8", timeout=60)
    session.expect(r"dpsql \S+ [0-9.]+>")
    seconds = time.perf_counter() - begun
    session.close(force=True)
    return seconds


def main(database: str) -> None:
    with tempfile.TemporaryDirectory() as home:
        os.environ |= {f"XDG_{name}_HOME": f"{home}/{name.lower()}" for name in ("STATE", "CACHE", "CONFIG")}
        prepare(POLICY, database)
        seconds = [until_prompt(database) for _ in range(WARM + RUNS)][WARM:]
    low, middle, high = min(seconds), statistics.median(seconds), max(seconds)
    print(f"first prompt: {middle * 1000:.0f} ms (median of {RUNS}; {low * 1000:.0f} to {high * 1000:.0f})")


if __name__ == "__main__":
    main(sys.argv[1])
