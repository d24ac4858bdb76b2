"""docs/threat-model.md lists every failure of `tests/attacks/failures.txt`, says of each what happens, and names tests
that are there.

What happens is asked by `tests/attacks/test_every_row.py`; here the page is compared with the outcomes in `cases.test`.
`pytest tests/docs --update` writes them into the page.
"""

from __future__ import annotations

import re

import pytest

from tests.attacks.test_every_row import cases
from tests.docs.pages import ROOT

PAGE = ROOT / "docs" / "threat-model.md"
ATTACKS = ROOT / "tests" / "attacks"
CELL = r"([^|\n]*)\|"
ROW = re.compile(rf"^\| ([A-Z][0-9]{{2}}) \|{CELL * 4}$", re.MULTILINE)
ASKED = "cases.test"
"""In the last column of a row whose third column is written from the cases."""
FILE = re.compile(r"`((?:dpsql|tests)/[\w/.]+)`")


def failures() -> dict[str, str]:
    """Each id with the short name of its failure."""
    lines = (ATTACKS / "failures.txt").read_text(encoding="utf-8").splitlines()
    return dict(line.split(" ", 1) for line in lines)


def shown_by_a_test_of_its_own() -> dict[str, set[str]]:
    """By id, the files of tests/attacks with a test whose name starts with it: `test_b14_b16_what_is_tried`."""
    found: dict[str, set[str]] = {}
    for file in ATTACKS.glob("test_*.py"):
        for name in re.findall(r"^def test_((?:[a-z][0-9]{2}_)+)", file.read_text(encoding="utf-8"), re.MULTILINE):
            for identity in name.upper().strip("_").split("_"):
                found.setdefault(identity, set()).add(f"tests/attacks/{file.name}")
    return found


def outcomes() -> dict[str, str]:
    """What the page says of each id that has cases."""
    seen: dict[str, set[str]] = {}
    for case in cases():
        for identity in case.ids:
            seen.setdefault(identity, set()).add(case.expected[0])
    texts = {}
    for identity, each in seen.items():
        codes = sorted(each - {"answered"})
        words = ["answered"] * ("answered" in each) + [f"refused: {', '.join(codes)}"] * bool(codes)
        texts[identity] = "; ".join(words)
    return texts


def rows() -> list[tuple[str, ...]]:
    return ROW.findall(PAGE.read_text(encoding="utf-8"))


def test_the_page_says_what_happens(request: pytest.FixtureRequest) -> None:
    page, told = PAGE.read_text(encoding="utf-8"), outcomes()

    def row(match: re.Match[str]) -> str:
        identity, failure, here, defence, test = match.groups()
        here = f" {told[identity]} " if ASKED in test else here
        return f"| {identity} |{failure}|{here}|{defence}|{test}|"

    written = ROW.sub(row, page)
    if request.config.getoption("--update"):
        PAGE.write_text(written, encoding="utf-8")
        return
    assert page == written


def test_every_failure_stands_there_once_by_its_name() -> None:
    assert [(identity, failure.strip()) for identity, failure, *_ in rows()] == list(failures().items())


def test_every_failure_is_tried_in_tests_attacks() -> None:
    own = shown_by_a_test_of_its_own()
    assert own.keys() | outcomes().keys() == failures().keys()
    for identity, _, _, _, test in rows():
        assert (ASKED in test) == (identity in outcomes()), identity
        assert own.get(identity, set()) <= set(FILE.findall(test)), f"{identity}: {own.get(identity)} are not named"


def test_what_is_named_is_there() -> None:
    for identity, _, _, defence, test in rows():
        assert "`" in defence or "(" in defence or identity in outcomes(), f"{identity} has no line of defence"
        for file in FILE.findall(defence + test):
            assert (ROOT / file).exists(), f"{identity}: {file}"
