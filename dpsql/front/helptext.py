"""The help of the interactive session, and other lists of names and meanings, laid out for any width."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

Entries = Sequence[tuple[str, str]]

SQL: Entries = (
    ("SELECT ...;", "ask; may take several lines, and ends with ;"),
    ("SET epsilon = 0.1;", "the price of a statement from now on: the lower, the noisier"),
    ("SHOW SETTINGS;", "what else SET changes"),
)
KEYS: Entries = (
    ("Tab", "names that can stand here"),
    ("Ctrl-R", "search earlier statements"),
    ("right arrow", "take the statement that is suggested in gray"),
    ("Alt-Enter", "hand over what is there, without ;"),
    ("Ctrl-C", "stop a statement (its charge stays), or drop what is typed"),
    ("Ctrl-D", "quit"),
)


def help_text(sections: Sequence[tuple[str, Entries]], columns: int) -> str:
    """Headings, and below each what is typed beside what it does."""
    left = max(len(usage) for _, entries in sections for usage, _ in entries) + 4
    lines: list[str] = []
    for heading, entries in sections:
        lines += ["", heading] if lines else [heading]
        lines += [line for usage, meaning in entries for line in _entry(usage, meaning, left, columns)]
    return "\n".join(lines)


def listed(entries: Entries, columns: int) -> str:
    """Names beside their meanings; one below the other on narrow screens."""
    left = max((len(name) for name, _ in entries), default=0) + 4
    return "\n".join(line for name, meaning in entries for line in _entry(name, meaning, left, columns))


def _entry(usage: str, meaning: str, left: int, columns: int) -> list[str]:
    if columns < left + 30:
        return [f"  {usage}", *(f"      {line}" for line in textwrap.wrap(meaning, max(columns - 7, 20)))]
    lines = textwrap.wrap(meaning, columns - left - 1) or [""]
    return [f"  {usage}".ljust(left) + lines[0], *(" " * left + line for line in lines[1:])]
