"""Fenced blocks of Markdown pages, and what their info strings ask for.

A block is checked where a word follows its language:

    ```sql run         every statement is answered; statements end with a semicolon
    ```sql refused     one statement is refused; the ```text block after it holds the whole error
    ```sql explain     one statement is explained; the ```text block after it holds what EXPLAIN says
    ```python run      the code runs, in a folder that has policies/grocery.toml and build/grocery.duckdb
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
TUTORIALS = tuple(sorted((ROOT / "docs").glob("tutorial-*.md")))
"""These are done from beginning to end, by test_tutorials.py."""
PAGES = (ROOT / "README.md", *(page for page in sorted((ROOT / "docs").glob("*.md")) if page not in TUTORIALS))
EVERY_PAGE = (*PAGES, *TUTORIALS, *sorted((ROOT / "docs" / "decisions").glob("*.md")))

_FENCE = re.compile(r"^```([^\n`]*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Block:
    """info: what stands after the fence. start, end: where the text is in the page."""

    info: str
    text: str
    start: int
    end: int


def blocks(page: str) -> list[Block]:
    """The fenced blocks of a page, in order."""
    return [Block(m[1].strip(), m[2], m.start(2), m.end(2)) for m in _FENCE.finditer(page)]


def without_blocks(page: str) -> str:
    """A page's prose: links are looked for here only."""
    return _FENCE.sub("", page)
