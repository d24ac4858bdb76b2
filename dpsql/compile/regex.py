r"""Which regular expressions are answered: a subset of RE2's syntax, checked without an engine.

DuckDB matches with RE2, whose time is linear in the text; its patterns may be refused at run time, or be so large that
each character costs much. So a pattern is read here: what this grammar does not have (look-around, back-references,
\p, flags in the middle) is refused, repetitions are counted out, and a pattern has MAX_ATOMS steps at the most. Every
pattern that passes is one that RE2 takes and reads alike; tests/compile/test_regex.py tries thousands on the engine.

    pattern  = ["(?i)"] branch { "|" branch }
    branch   = { piece [ "*" | "+" | "?" | "{n}" | "{n,}" | "{n,m}" ] [ "?" ] | "^" | "$" | "\b" | "\B" | "\A" | "\z" }
    piece    = character | "." | class | "\d" "\D" "\w" "\W" "\s" "\S" | "\" punctuation | "(" [ "?:" ] pattern ")"
    class    = "[" [ "^" ] { character [ "-" character ] | "\d" ... | "[:alpha:]" ... } "]"
"""

from __future__ import annotations

import re
import string
from dataclasses import dataclass

MAX_LENGTH = 1_000
MAX_ATOMS = 500
MAX_COUNT = 200
MAX_DEPTH = 20

_PUNCTUATION = frozenset(string.punctuation)
_CLASSES = frozenset("dDwWsS")
_CONTROLS = frozenset("tnrfv")
_EDGES = frozenset("bBAz")
_COUNT = re.compile(r"\{(\d{1,4})(?:(,)(\d{1,4})?)?\}", re.ASCII)
_NAMED = re.compile(r"\[:\^?(?:alnum|alpha|ascii|blank|cntrl|digit|graph|lower|print|punct|space|upper|word|xdigit):\]")


class BadPattern(Exception):
    """Why a pattern is not answered."""


@dataclass(slots=True)
class _Reader:
    text: str
    at: int = 0
    groups: int = 0
    depth: int = 0

    def peek(self) -> str:
        return self.text[self.at : self.at + 1]

    def take(self) -> str:
        char = self.peek()
        if not char:
            raise BadPattern("it ends too early")
        self.at += 1
        return char

    def takes(self, word: str) -> bool:
        if not self.text.startswith(word, self.at):
            return False
        self.at += len(word)
        return True


def groups_of(pattern: str) -> int:
    """The number of capturing groups of a pattern that is answered; else BadPattern."""
    if len(pattern) > MAX_LENGTH:
        raise BadPattern(f"it has more than {MAX_LENGTH} characters")
    reader = _Reader(pattern)
    reader.takes("(?i)")
    _branches(reader)
    if reader.peek():
        raise BadPattern("a parenthesis is closed that was not opened")
    return reader.groups


def literally(text: str) -> str:
    """A pattern that matches just this text."""
    return "".join(f"\\{c}" if c in _PUNCTUATION else c for c in text)


def _branches(reader: _Reader) -> int:
    """The atoms of a pattern, repetitions counted out."""
    reader.depth += 1
    if reader.depth > MAX_DEPTH:
        raise BadPattern("its parentheses are too deeply nested")
    atoms = 1
    while reader.peek() not in ("", ")"):
        atoms += 1 if reader.takes("|") else _repeated(reader)
        if atoms > MAX_ATOMS:
            raise BadPattern(f"it has more than {MAX_ATOMS} steps, repetitions counted out")
    reader.depth -= 1
    return atoms


def _repeated(reader: _Reader) -> int:
    atoms = _piece(reader)
    if atoms == 0:  # an edge, which nothing repeats
        if reader.peek() in ("*", "+", "?", "{"):
            raise BadPattern("a repetition has nothing to repeat")
        return 1
    if reader.peek() in ("*", "+", "?"):
        reader.take()
    elif reader.peek() == "{":
        atoms *= _count(reader)
    else:
        return atoms
    reader.takes("?")
    if reader.peek() in ("*", "+", "?", "{"):
        raise BadPattern("a repetition is repeated")
    return atoms


def _count(reader: _Reader) -> int:
    match = _COUNT.match(reader.text, reader.at)
    if match is None:
        raise BadPattern("{ begins no repetition; as a character write \\{")
    least, comma, most = match.groups()
    top = int(most or least)
    if top > MAX_COUNT or int(least) > top:
        raise BadPattern(f"a number of repetitions is above {MAX_COUNT}, or they are in the wrong order")
    reader.at = match.end()
    return max(1, top + (1 if comma and not most else 0))


def _piece(reader: _Reader) -> int:
    """Atoms of what a repetition would repeat; 0 for an edge."""
    char = reader.take()
    if char in "*+?{":
        raise BadPattern("a repetition has nothing to repeat")
    if char in "^$":
        return 0
    if char == "\\":
        return 0 if _escaped(reader) in _EDGES else 1
    if char == "[":
        _class(reader)
    if char == "(":
        if not reader.takes("?:"):
            if reader.peek() == "?":
                raise BadPattern("(? begins nothing that is answered here, but (?: and a leading (?i)")
            reader.groups += 1
        atoms = _branches(reader)
        if not reader.takes(")"):
            raise BadPattern("a parenthesis is not closed")
        return atoms
    return 1


def _escaped(reader: _Reader, *, in_class: bool = False) -> str:
    char = reader.take()
    known = _PUNCTUATION | _CLASSES | _CONTROLS | (frozenset() if in_class else _EDGES)
    if char not in known:
        raise BadPattern(f"\\{char} is not answered")
    return char


def _class(reader: _Reader) -> None:
    reader.takes("^")
    empty = True
    while not reader.takes("]"):
        named = _NAMED.match(reader.text, reader.at)
        if named is not None:
            reader.at = named.end()
        else:
            first = _member(reader)
            if reader.peek() == "-":
                reader.take()
                last = _member(reader)
                if first is None or last is None or first > last:
                    raise BadPattern("a range of characters is in the wrong order")
        empty = False
    if empty:
        raise BadPattern("a class of characters is empty; as a character write \\]")


def _member(reader: _Reader) -> str | None:
    """A character of a class; None where it stands for several, or for one that has no order here."""
    char = reader.take()
    if char in "[-]":
        raise BadPattern(f"in a class write \\{char}")
    if char != "\\":
        return char
    char = _escaped(reader, in_class=True)
    return char if char in _PUNCTUATION else None
