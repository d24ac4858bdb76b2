"""Inputs at random, and what they led to: the loop that all targets share.

A target changes inputs that are known already. What ends in a way that no input before it did (another error from
another line, another kind of plan) is kept and changed further, so the hunt works its way into the code without any
instrumentation of it. What ends as nothing may end is a finding: it is made smaller, and becomes a file that every
run of the tests asks again.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from traceback import extract_tb
from types import TracebackType
from typing import Protocol

CORPUS = Path(__file__).parent / "corpus"
SLOW = 15.0
"""Seconds after which an input has taken too long, on a machine that others use too."""
_SHRINKS = 60.0
"""Seconds for making a finding smaller: one that takes long is asked for two hundred times otherwise."""


@dataclass(frozen=True, slots=True)
class End:
    """How an input ended. kind: the same for inputs that took the same way. wrong: what is wrong with it, or ''."""

    kind: str
    wrong: str = ""


class Target(Protocol):
    """What is hunted. name: the folder of its corpus. ending: of its files' names."""

    name: str
    ending: str

    def seeds(self) -> Iterable[bytes]: ...

    def mutated(self, rng: Random, known: Sequence[bytes]) -> bytes: ...

    def ask(self, content: bytes) -> End: ...

    def parts(self, content: bytes) -> list[bytes]:
        """What can be left out to make an input smaller; b"".join puts it together again."""
        ...


@dataclass(slots=True)
class Hunt:
    """What came of one. findings: inputs by what is wrong with them. kinds: the first input of each kind of end."""

    findings: dict[str, bytes] = field(default_factory=dict)
    kinds: dict[str, bytes] = field(default_factory=dict)
    asked: int = 0


def hunt(
    target: Target,
    seconds: float,
    seed: int,
    before: Callable[[bytes], None] = lambda _: None,
    told: Callable[[str, bytes], None] = lambda *_: None,
) -> Hunt:
    """Ask for so long; first everything known. before: is told each input before it is asked. told: each finding, at
    once, since a later input may end the process."""
    rng, found, end = Random(seed), Hunt(), time.monotonic() + seconds
    known: list[bytes] = []

    def ask(content: bytes) -> None:
        before(content)
        ended = timed(target, content)
        found.asked += 1
        if ended.kind not in found.kinds:
            found.kinds[ended.kind] = content
            known.append(content)
        if ended.wrong and signature(ended.wrong) not in map(signature, found.findings):
            small = smaller(target, content, ended.wrong, before)
            wrong = timed(target, small).wrong or ended.wrong
            found.findings[wrong] = small
            told(wrong, small)

    for content in [*target.seeds(), *(content for _, content in corpus(target))]:
        if time.monotonic() < end:
            ask(content)
    while time.monotonic() < end and known:
        ask(target.mutated(rng, known))
    return found


def timed(target: Target, content: bytes) -> End:
    """How the input ends; taking long is wrong, too: of the process's own work, whatever others do on the machine.
    (Asked again before that is said: something may be done once only.)"""
    for _ in range(2):
        started = time.process_time()
        ended = target.ask(content)
        taken = time.process_time() - started
        if ended.wrong or taken < SLOW:
            return ended
    return End(ended.kind, f"took {taken:.0f} s")


def signature(wrong: str) -> str:
    """What is wrong, without what differs from input to input."""
    return "".join(c for c in wrong.partition("\n")[0] if not c.isdigit())[:120]


def smaller(
    target: Target, content: bytes, wrong: str, before: Callable[[bytes], None] = lambda _: None, tries: int = 200
) -> bytes:
    """The input with as much left out, within a minute, as leaves it wrong in the same way."""
    parts, step = target.parts(content), max(1, len(target.parts(content)) // 2)
    end = time.monotonic() + _SHRINKS
    while tries > 0 and time.monotonic() < end:
        at = 0
        while at < len(parts) and tries > 0 and time.monotonic() < end:
            fewer = parts[:at] + parts[at + step :]
            tries -= 1
            if not fewer:
                break
            smallest = b"".join(fewer)
            before(smallest)
            if signature(timed(target, smallest).wrong) == signature(wrong):
                parts = fewer
            else:
                at += step
        if step == 1:
            break
        step //= 2
    return b"".join(parts)


def corpus(target: Target) -> Iterator[tuple[str, bytes]]:
    """The inputs that are kept, with the names of their files."""
    for file in sorted((CORPUS / target.name).glob(f"*{target.ending}")):
        yield file.name, file.read_bytes()


def keep(target: Target, content: bytes) -> Path:
    """Make a file of the corpus of an input."""
    file = CORPUS / target.name / (hashlib.sha256(content).hexdigest()[:12] + target.ending)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)
    return file


def raised_at(traceback: TracebackType | None) -> str:
    """The innermost lines of the product that an exception came through: what tells one refusal from another."""
    frames = [f for f in extract_tb(traceback) if "/dpsql/" in f.filename and "/tests/" not in f.filename]
    return " ".join(f"{Path(f.filename).stem}:{f.lineno}" for f in frames[-2:])
