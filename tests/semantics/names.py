"""Statements about names: the lines of `names.txt`, each with its choices made in every way.

Of a line with many ways some are taken, the same on every run: spread evenly over all of them, and more where a choice
is not among them yet.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

LINES = Path(__file__).parent / "names.txt"
MOST = 10

_CHOICE = re.compile(r"\[\[(\w+)=((?:[^\[\]]|\[\[\w+\]\])*)\]\]")


def lines() -> list[str]:
    """Those that hold statements."""
    return [line for line in LINES.read_text(encoding="utf-8").splitlines() if line and not line.startswith("#")]


def statements() -> list[str]:
    """All of them, each once."""
    return list(dict.fromkeys(sql for line in lines() for sql in some(line)))


def some(line: str) -> list[str]:
    """MOST of a line's ways, and as many more as it takes to have each of its choices once."""
    everything = list(ways(line))
    step = max(1, len(everything) / MOST) + (1 - 0.6180339887498949)
    order = list(dict.fromkeys(int(i * step) % len(everything) for i in range(len(everything) * 4)))
    chosen, seen = [], set[tuple[str, str]]()
    for number, place in enumerate(order):
        sql, choices = everything[place]
        if number < MOST or not seen.issuperset(choices):
            chosen.append(sql)
            seen.update(choices)
    assert seen == {choice for _, choices in everything for choice in choices}, line
    return chosen


def ways(line: str, chosen: tuple[tuple[str, str], ...] = ()) -> Iterator[tuple[str, tuple[tuple[str, str], ...]]]:
    """(statement, what was chosen for each name) for every way."""
    choice = _CHOICE.search(line)
    if choice is None:
        yield line, chosen
        return
    name, alternatives = choice.groups()
    for alternative in alternatives.split("|"):
        text = f"{line[: choice.start()]}{alternative}{line[choice.end() :]}"
        yield from ways(text.replace(f"[[{name}]]", alternative), (*chosen, (name, alternative)))
