"""Statements about names: the lines of `names.txt`, each with its choices made in every way.

Where a line has more ways than `MOST`, that many are taken, spread evenly over all of them: the same on every run, and
each choice among them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

LINES = Path(__file__).parent / "names.txt"
MOST = 12

_CHOICE = re.compile(r"\[\[(\w+)=((?:[^\[\]]|\[\[\w+\]\])*)\]\]")


def lines() -> list[str]:
    """Those that hold statements."""
    return [line for line in LINES.read_text(encoding="utf-8").splitlines() if line and not line.startswith("#")]


def statements() -> list[str]:
    """All of them, each once."""
    return list(dict.fromkeys(sql for line in lines() for sql in some(list(ways(line)))))


def ways(line: str) -> Iterator[str]:
    choice = _CHOICE.search(line)
    if choice is None:
        yield line
        return
    name, alternatives = choice.groups()
    for alternative in alternatives.split("|"):
        chosen = f"{line[: choice.start()]}{alternative}{line[choice.end() :]}"
        yield from ways(chosen.replace(f"[[{name}]]", alternative))


def some(all_ways: list[str]) -> list[str]:
    """At most MOST, by a step that meets every remainder of the choices' numbers."""
    if len(all_ways) <= MOST:
        return all_ways
    step = len(all_ways) * 0.6180339887498949
    return [all_ways[int(i * step) % len(all_ways)] for i in range(MOST)]
