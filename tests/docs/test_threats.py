"""Every row of docs/threat-model.md that is a statement is asked, on two neighbouring databases.

`threats.test` holds lines `id | outcome | statement`; the outcome is `answered` or a code. Of each statement: it
ends as written there; outcome, message, price and columns are equal on both databases; a refusal costs nothing; no
message names a value of a private row. `pytest tests/docs --update` writes outcomes into `threats.test` and the page.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import closing
from fractions import Fraction
from pathlib import Path

import duckdb
import pytest

from dpsql.errors import Error
from dpsql.session import Session, open_session
from tests.conftest import Clinic
from tests.docs.pages import ROOT

PAGE = ROOT / "docs" / "threat-model.md"
CASES = Path(__file__).with_name("threats.test")
ROW = re.compile(r"^\| ([A-Z][0-9]{2}) \|(.*?)\|(.*?)\|(.*?)\|(.*?)\|$", re.MULTILINE)
ASKED = "threats.test"
"""In the last column of a row whose third column is written from the cases."""


def cases() -> list[tuple[str, str, str]]:
    """(id, outcome, statement) of each line."""
    lines = CASES.read_text(encoding="utf-8").splitlines()
    found = [line.split(" | ", 2) for line in lines]
    return [(identity, outcome, statement) for identity, outcome, statement in found]


def asked(session: Session, statement: str) -> tuple[str, str, Fraction]:
    """(outcome, what an analyst sees besides the numbers, what it cost)."""
    before = session.budget().spent_epsilon
    try:
        table = session.execute(statement.replace("\\n", "\n")).table
        outcome, seen = "answered", f"{table.schema}"
    except Error as error:
        outcome, seen = error.code, str(error)
    return outcome, seen, session.budget().spent_epsilon - before


def test_every_statement(make_clinic: Callable[..., Clinic], request: pytest.FixtureRequest) -> None:
    one, other = make_clinic(account="one"), make_clinic(account="other")
    with duckdb.connect(str(other.database)) as connection:
        connection.execute("DELETE FROM patients WHERE uid = 7; DELETE FROM visits WHERE uid = 7")
    found: list[tuple[str, str, str]] = []
    with (
        closing(open_session(one.policy, one.database)) as here,
        closing(open_session(other.policy, other.database)) as there,
    ):
        for identity, expected, statement in cases():
            outcome, seen, cost = asked(here, statement)
            assert (outcome, seen, cost) == asked(there, statement), f"{identity}: {statement}"
            assert outcome == "answered" or cost == 0, f"{identity}: {statement}"
            assert not re.search(r"name-[0-9]|clinic-9|nobody", seen.replace(statement, "")), f"{identity}: {seen}"
            found.append((identity, outcome, statement))
            if not request.config.getoption("--update"):
                assert outcome == expected, f"{identity}: {statement}: {seen}"
    if request.config.getoption("--update"):
        CASES.write_text("".join(" | ".join(case) + "\n" for case in found), encoding="utf-8")


def outcomes() -> dict[str, str]:
    """What the page says of each id that has cases."""
    seen: dict[str, set[str]] = {}
    for identity, outcome, _ in cases():
        seen.setdefault(identity, set()).add(outcome)
    texts = {}
    for identity, each in seen.items():
        codes = sorted(each - {"answered"})
        words = ["answered"] * ("answered" in each) + [f"refused: {', '.join(codes)}"] * bool(codes)
        texts[identity] = "; ".join(words)
    return texts


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
    rows = {match[1]: match[5] for match in ROW.finditer(page)}
    assert {identity for identity, test in rows.items() if ASKED in test} == set(told)


def test_each_row_stands_once() -> None:
    ids = [match[1] for match in ROW.finditer(PAGE.read_text(encoding="utf-8"))]
    assert len(ids) == len(set(ids)) == 112
