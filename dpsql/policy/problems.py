"""Collects everything that is wrong with a policy file, so that its owner sees all of it at once.

A reader (`readers`) looks at one value and raises `Wrong`; a `Section` knows where that value stands and
turns it into a `Problem`. Only `Problems.error` makes a DP301 of them. Nothing here reads a database.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from dpsql.errors import Error, nearest, refusal
from dpsql.policy.keys import SHAPES
from dpsql.policy.lines import Place, find_lines, line_of
from dpsql.policy.readers import Wrong, called, escaped, shown

T = TypeVar("T")

KEYS: dict[str, tuple[str, ...]] = {section: tuple(keys) for section, keys in SHAPES.items()}
"""Every key that a policy may hold, by the kind of section it stands in."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong: where it stands, what it is, what to write instead."""

    place: Place
    text: str
    repair: str


class Problems:
    """The problems of one policy file. `name` is what messages call the file."""

    def __init__(self, name: str, text: str = ""):
        self.name, self.text = name, text
        self._found: list[Problem] = []
        self._places: set[Place] = set()

    def add(self, place: Place, text: str, repair: str) -> None:
        """Text and repair may quote names of the file: what a terminal would obey is shown escaped."""
        self._found.append(Problem(place, escaped(text), escaped(repair)))
        self._places.add(place)

    def excuse(self, place: Place) -> None:
        """What is missing at `place` is explained by a problem that stands elsewhere: a misspelt key."""
        self._places.add(place)

    def at(self, place: Place) -> bool:
        """Whether a problem is known at `place` or around it, so that what follows from it is not reported again."""
        return any(place[:end] in self._places for end in range(len(place) + 1))

    def error(self) -> Error | None:
        """All problems as one DP301 in the order of the file, or None."""
        if not self._found:
            return None
        lines = find_lines(self.text)
        located = sorted(((line_of(lines, p.place), p) for p in self._found), key=lambda pair: pair[0] or 0)
        if len(located) == 1:
            line, problem = located[0]
            file = self.name if line is None else f"{self.name}:{line}"
            return refusal("DP301", f"{file}: {dotted(problem.place)}: {problem.text}", repair=problem.repair)
        report = [f"{self.name} has {len(located)} problems"]
        for line, problem in located:
            before = "" if line is None else f"line {line}: "
            report.append(f"  {before}{dotted(problem.place)}: {problem.text}")
            report.append(f"    = help: {problem.repair}")
        return refusal("DP301", "\n".join(report))


def dotted(place: Place) -> str:
    """The path as TOML would write it: `tables."sales.orders".references[0].columns`."""
    written = ""
    for part in place:
        if isinstance(part, int):
            written += f"[{part}]"
        else:
            written += "." * bool(written) + (part if re.fullmatch(r"[A-Za-z0-9_-]{1,60}", part) else shown(part))
    return written


class Section:
    """One table of the file. Making it reports every key that is not in `known`; `read` hands out the others."""

    def __init__(self, data: object, place: Place, known: Sequence[str], problems: Problems):
        self.place, self._problems = place, problems
        self._data: Mapping[str, object] = data if isinstance(data, dict) else {}
        if not isinstance(data, dict):
            problems.add(
                place, f"must be a table of keys, not {called(data)}", f"keys that can stand there: {', '.join(known)}"
            )
        for key in self._data:
            if key not in known:
                self._unknown(key, known)

    def __contains__(self, key: str) -> bool:
        return key in self._data

    def raw(self, key: str) -> object:
        return self._data.get(key)

    def read(self, key: str, reader: Callable[[object], T]) -> T | None:
        """The value as `reader` understands it; None where the key is absent or wrong (which is then reported)."""
        if key not in self._data:
            return None
        try:
            return reader(self._data[key])
        except Wrong as wrong:
            self.wrong(key, wrong.text, wrong.repair)
            return None

    def need(self, key: str, repair: str) -> None:
        """Reports the key if it is missing, unless why it is missing has been reported."""
        if key not in self._data and not self._problems.at((*self.place, key)):
            self.wrong(key, "is missing", f"write {repair}")

    def require(self, key: str, reader: Callable[[object], T], repair: str) -> T | None:
        """Like `read`, for a key that must be there."""
        self.need(key, repair)
        return self.read(key, reader)

    def wrong(self, key: str, text: str, repair: str) -> None:
        self._problems.add((*self.place, key), text, repair)

    def _unknown(self, key: str, known: Sequence[str]) -> None:
        near = nearest(key[:60], known)
        if not near and self.place[:1] == ("tables",) and len(self.place) == 2 and isinstance(self._data[key], dict):
            whole = shown(f"{self.place[1]}.{key}")
            text = f"holds a table {shown(key)}"
            self._problems.add(self.place, text, f"the table of a schema is written [tables.{whole}]")
            return
        for word in known:
            if f'"{word}"' in near:
                self._problems.excuse((*self.place, word))
        self.wrong(key, sentence("is not a known key", near), f"keys that can stand here: {', '.join(known)}")


def sentence(text: str, suggestion: str) -> str:
    """The text and, where there is one, the sentence that `nearest` suggests."""
    return text + suggestion
