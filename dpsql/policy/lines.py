"""Finds the line of each key of a TOML text that `tomllib` has already accepted (tomllib itself keeps no positions).

Serves error messages only: nothing that it returns decides what a policy means. Keys inside an inline table
are not looked for; `line_of` then gives the line of the nearest key around them.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping

Place = tuple[str | int, ...]
"""A dotted path into the document; an integer is a position in an array."""

_KEY_PART = re.compile(r"""[ \t]*([A-Za-z0-9_-]+|"(?:[^"\\\n]|\\.)*"|'[^'\n]*')[ \t]*""")
_SKIPPED = re.compile(  # what can hide a newline, a bracket or a hash; the long strings first
    r'"""(?:[^\\]|\\.)*?"{3,5}|' + r"'''.*?'{3,5}|" + r'"(?:[^"\\\n]|\\.)*"|' + r"'[^'\n]*'|" + r"#[^\n]*|[\[\]{}\n]",
    re.DOTALL,
)


def find_lines(text: str) -> dict[Place, int]:
    """The line (from 1) on which each key path, header and prefix of one first appears."""
    lines: dict[Place, int] = {}
    counts: dict[Place, int] = {}  # arrays of tables: how many elements so far
    prefix: Place = ()
    position, line, length = 0, 1, len(text)
    while position < length:
        blank = re.compile(r"[ \t\r\n]*").match(text, position)
        assert blank is not None  # the pattern matches the empty string
        line += text.count("\n", position, blank.end())
        position = blank.end()
        if position >= length:
            break
        if text[position] == "#":
            position = _end_of_line(text, position)
        elif text[position] == "[":
            repeated = text.startswith("[[", position)
            parts, position = _dotted(text, position + (2 if repeated else 1))
            prefix = _header(parts, repeated, counts)
            _note(lines, prefix, line)
            position = _end_of_line(text, position)
        else:
            parts, position = _dotted(text, position)
            _note(lines, prefix + parts, line)
            end = _end_of_value(text, position)
            line += text.count("\n", position, end)
            position = end
    return lines


def line_of(lines: Mapping[Place, int], place: Place) -> int | None:
    """The line of `place`, or of the nearest key around it."""
    while place:
        if place in lines:
            return lines[place]
        place = place[:-1]
    return None


def _note(lines: dict[Place, int], place: Place, line: int) -> None:
    for end in range(1, len(place) + 1):
        lines.setdefault(place[:end], line)


def _header(parts: Place, repeated: bool, counts: dict[Place, int]) -> Place:
    """The place that a header opens: names of arrays of tables are followed by their element's number."""
    place: Place = ()
    for number, part in enumerate(parts):
        place += (part,)
        if repeated and number == len(parts) - 1:
            counts[place] = counts.get(place, 0) + 1
        if place in counts:
            place += (counts[place] - 1,)
    return place


def _dotted(text: str, position: int) -> tuple[Place, int]:
    """Reads `a."b c".d` from `position`; returns the names and where they end."""
    parts: list[str] = []
    while (match := _KEY_PART.match(text, position)) is not None:
        word = match[1]
        parts.append(tomllib.loads(f"k = {word}")["k"] if word[0] in "\"'" else word)
        position = match.end()
        if not text.startswith(".", position):
            break
        position += 1
    return tuple(parts), position


def _end_of_line(text: str, position: int) -> int:
    end = text.find("\n", position)
    return len(text) if end < 0 else end


def _end_of_value(text: str, position: int) -> int:
    """Where the statement ends: the first newline outside of strings, comments and brackets."""
    depth = 0
    for match in _SKIPPED.finditer(text, position):
        token = match[0]
        if token in "[{":
            depth += 1
        elif token in "]}":
            depth -= 1
        elif token == "\n" and depth <= 0:
            return match.start()
    return len(text)
