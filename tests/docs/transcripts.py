"""What the tutorials show, done: commands of a shell, the statements of an interactive session, and files.

In a page each of these is a fenced block, in the order in which a reader does them, in one folder:

    ```console          `$ ` and a command, and below it what it prints, on both streams; `dpsql POLICY [DATABASE]`
                        opens a session, whose greeting stands there, and the next ```console block ends it
    ```sql ask          what is typed there; the ```text block after it holds what it shows
    ```toml file NAME   a file of that name with this text; sql for toml and so on
    ```python run       the code runs

Noise varies, so a shown result agrees with another one as far as their intervals say. A line `...` stands for whatever
is left out. Only a block that does not agree is written anew by `--update`.
"""

from __future__ import annotations

import io
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from dpsql.front.arguments import opening
from dpsql.front.cli import main_parser
from dpsql.front.config import Preferences
from dpsql.front.repl import Repl
from tests.docs.pages import ROOT, Block, blocks
from tests.patience import PATIENCE

_MOST_APART = 10
"""Half-widths (95 %) between two results of one question. One is three scales of Laplace noise, so two draws are
farther apart by chance 16 e^-30, 2e-12; a page holds some hundred."""
_NOISY = re.compile(r"(-?[\d,]*\.?\d+) ± ([\d,]*\.?\d+)")
_NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?")
_TIME = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d(?::\d\d)?")


@dataclass(slots=True)
class Inputs:
    """Hands over what a page types, and keeps what had been shown before each."""

    texts: list[str]
    out: io.StringIO
    shown: list[str] = field(default_factory=list)

    def read(self, prompt: str, text: str = "") -> str:
        self.shown.append(self.out.getvalue())
        self.out.seek(0)
        self.out.truncate()
        if len(self.shown) > len(self.texts):
            raise EOFError
        return self.texts[len(self.shown) - 1].strip()


def session(arguments: list[str], texts: list[str]) -> list[str]:
    """What an interactive session shows: its greeting, then what follows each text."""
    out = io.StringIO()
    inputs = Inputs(texts, out)
    with closing(opening(main_parser().parse_args(arguments))) as opened:
        Repl(opened, out, out, Preferences(Path(), read=False), interactive=True).loop(inputs)
    return inputs.shown


def shell(command: str, folder: Path) -> str:
    """What a command prints, on both streams."""
    binaries = folder.parent / "bin"
    binaries.mkdir(exist_ok=True)
    for name, words in (("dpsql", "-m dpsql "), ("python", "")):
        script = binaries / name
        script.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} {words}"$@"\n')
        script.chmod(0o755)
    path = f"{binaries}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT), "PATH": path, "COLUMNS": "100", "PYTHONIOENCODING": "utf-8"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    return done.stdout


def opens(command: str) -> list[str] | None:
    """The arguments of a command that opens a session."""
    words = shlex.split(command, comments=True)
    return words[1:] if words[0] == "dpsql" and words[1].endswith(".toml") else None


def steps(text: str) -> Iterator[tuple[str, str]]:
    """The commands of a ```console block, each with what it shows below."""
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command, _, shows = part.partition("\n")
        yield command, shows


def performed(page: str, folder: Path) -> Iterator[tuple[Block, str]]:
    """Each block that shows something, with what is shown now."""
    found = blocks(page)
    names: dict[str, object] = {}
    for at, block in enumerate(found):
        kind, _, name = block.info.partition(" file ")
        if name:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(block.text, encoding="utf-8")
        elif block.info == "python run":
            exec(compile(block.text, "page", "exec"), names)
        elif kind == "console":
            yield block, "".join(console(block, found[at + 1 :], folder, later := []))
            yield from later


def console(block: Block, rest: list[Block], folder: Path, later: list[tuple[Block, str]]) -> Iterator[str]:
    """What a ```console block shows; what its session shows, block by block, goes to `later`."""
    for command, _ in steps(block.text):
        yield f"$ {command}\n"
        arguments = opens(command)
        if arguments is None:
            yield shell(command, folder)
            continue
        asked = []
        for one, after in zip(rest, [*rest[1:], None], strict=True):
            if one.info == "console":
                break
            if one.info == "sql ask":
                assert after is not None, one.text
                assert after.info == "text", one.text
                asked.append((one.text, after))
        greeting, *answers = session(arguments, [text for text, _ in asked])
        yield greeting
        later += [(after, answer) for (_, after), answer in zip(asked, answers, strict=True)]


def agree(page: str, now: str) -> bool:
    """Whether what a page shows could be what is shown now: the same but for noise."""
    lines, open_end = list(_lines(now)), False
    for line, values in _lines(page):
        if line == "...":
            open_end = True
            continue
        candidates = lines if open_end else lines[:1]
        at = next((i for i, other in enumerate(candidates) if _alike((line, values), other)), None)
        if at is None:
            return False
        del lines[: at + 1]
        open_end = False
    return open_end or not lines


Line = tuple[str, list[tuple[float, float]]]


def _lines(text: str) -> Iterator[Line]:
    """Lines without what varies, and their noisy values: in a table every number, elsewhere times."""
    table = False
    for line in text.rstrip("\n").split("\n"):
        table = "───" in line or (table and not re.match(r"\(\d+ rows?\)", line))
        values = [(float(v.replace(",", "")), float(w.replace(",", ""))) for v, w in _NOISY.findall(line)]
        line = _TIME.sub("TIME", _NOISY.sub("NOISY", line))
        if table:
            line = _NUMBER.sub("N", line)
        yield re.sub(r"─+", "─", " ".join(line.split())), values


def _alike(page: Line, now: Line) -> bool:
    if page[0] != now[0]:
        return False
    return all(
        abs(a - b) <= _MOST_APART * max(v, w) and max(v, w) <= 2 * min(v, w)
        for (a, v), (b, w) in zip(page[1], now[1], strict=True)
    )
