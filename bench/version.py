"""What the command line takes where no data is asked: its version, and the help of its commands.

    python -m bench.version [--turns 20]

Each figure is a whole process, the interpreter's own start included, which stands beside it; the aim is at most 250 ms
for `--version`. On a machine that others use too, the least of many turns is the one that says something.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time

COMMANDS = {
    "the interpreter alone": ["-c", "pass"],
    "dpsql --version": ["-m", "dpsql", "--version"],
    "dpsql --help": ["-m", "dpsql", "--help"],
    "dpsql run --help": ["-m", "dpsql", "run", "--help"],
    "dpsql completion bash": ["-m", "dpsql", "completion", "bash"],
}


def processor() -> float:
    """The seconds that ended child processes took on the processor."""
    times = os.times()
    return times.children_user + times.children_system


def milliseconds(arguments: list[str], turns: int) -> tuple[float, float]:
    """The least time of a turn by the clock, and the least on the processor."""
    clock, work = [], []
    for _ in range(turns):
        started, before = time.perf_counter(), processor()
        subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)
        clock.append(1000 * (time.perf_counter() - started))
        work.append(1000 * (processor() - before))
    return min(clock), min(work)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--turns", type=int, default=20)
    turns = parser.parse_args().turns
    for name, arguments in COMMANDS.items():
        clock, work = milliseconds(arguments, turns)
        print(f"{name:<22} {clock:5.0f} ms by the clock, {work:5.0f} on the processor")


if __name__ == "__main__":
    main()
