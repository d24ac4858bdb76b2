"""Pages agree with the code and with each other: error codes, links, names of files, rows of the threat model."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dpsql.compile.functions import NAMES
from dpsql.errors import CODES
from tests.docs.pages import EVERY_PAGE, ROOT, without_blocks

SQL = ROOT / "docs" / "sql.md"
CODES_TABLE = re.compile(r"(?<=<!-- codes -->\n).*?(?=<!-- end of codes -->)", re.DOTALL)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
NAMED = re.compile(r"`((?:dpsql|tests|docs|examples|policies|bench)/[A-Za-z0-9_./-]+|[a-z]+\.toml)`")


def anchors(path: Path) -> set[str]:
    """The fragments that headings of a page give."""
    headings = re.findall(r"^#+ (.+)$", without_blocks(path.read_text(encoding="utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("path", EVERY_PAGE, ids=lambda p: p.name)
def test_links_resolve(path: Path) -> None:
    broken = []
    for target in LINK.findall(without_blocks(path.read_text(encoding="utf-8"))):
        if target.startswith(("https:", "http:")):
            continue
        file, _, fragment = target.partition("#")
        there = (path.parent / file).resolve() if file else path
        if not there.exists() or (fragment and fragment not in anchors(there)):
            broken.append(target)
    assert broken == []


@pytest.mark.parametrize("path", EVERY_PAGE, ids=lambda p: p.name)
def test_files_that_pages_name_exist(path: Path) -> None:
    named = set(NAMED.findall(path.read_text(encoding="utf-8")))
    assert [name for name in sorted(named) if "/" in name and not (ROOT / name).exists()] == []


def codes_table() -> str:
    rows = "".join(f"| {code} | {meaning} |\n" for code, meaning in CODES.items())
    return f"| code | meaning |\n|---|---|\n{rows}"


def test_every_code_is_documented(request: pytest.FixtureRequest) -> None:
    page = SQL.read_text(encoding="utf-8")
    if request.config.getoption("--update"):
        SQL.write_text(CODES_TABLE.sub(codes_table().replace("\\", r"\\"), page), encoding="utf-8")
        return
    found = CODES_TABLE.search(page)
    assert found is not None
    assert found[0] == codes_table()


def test_every_function_is_documented() -> None:
    page = SQL.read_text(encoding="utf-8").lower()
    assert [name for name in NAMES if not re.search(rf"\b{name}\b", page)] == []


def test_decisions_are_numbered_once_and_have_their_parts() -> None:
    decisions = sorted((ROOT / "docs" / "decisions").glob("*.md"))
    numbers = [path.name[:4] for path in decisions]
    assert numbers == [f"{i:04}" for i in range(len(decisions))]
    for path in decisions:
        text = path.read_text(encoding="utf-8")
        parts = re.findall(r"^## (.+)$", text, re.MULTILINE)
        assert parts == ["The question", "What was decided", "What was not", "What follows"], path.name
        assert text.startswith("# NNNN" if path.name.startswith("0000") else f"# {path.name[:4]}: "), path.name


def test_the_readme_stays_short() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 250
