"""Hints put into statements that know nothing of them: each is in the plan, with its share, or refused."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlglot.tokenizer_core import TokenType

from dpsql.compile.parse import parse
from dpsql.compile.scan import scan
from dpsql.errors import Error
from dpsql.session import Compiled, Session, open_session
from tests.compile.test_golden import FILES, FOLDER, read_cases

HINT = ", epsilon => 0.015625"
PLAIN = [path for path in FILES if not path.with_suffix(".toml").exists() and path.stem != "hints"]


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    database = tmp_path / "clinic.duckdb"
    with duckdb.connect(str(database)) as connection:
        connection.execute((FOLDER / "clinic.sql").read_text(encoding="utf-8"))
    with closing(open_session(FOLDER / "clinic.toml", database)) as opened:
        yield opened


def hinted(statement: str) -> Iterator[str]:
    """The statement with a hint before each closing parenthesis in turn."""
    for token in scan(statement):
        if token.token_type is TokenType.R_PAREN:
            yield statement[: token.start] + HINT + statement[token.start :]


def outcome(session: Session, statement: str) -> Compiled | Error:
    try:
        return session.compile(statement)
    except Error as error:
        return error


def test_a_hint_anywhere_is_in_the_plan_or_refused(session: Session) -> None:
    """Of the statements that have a plan, with a hint in each of their parentheses. What it is put into is the same
    otherwise."""
    taken = refused = 0
    for path in PLAIN:
        for _, sql, expected in read_cases(path):
            if not expected.startswith("price: ") or sql.startswith("SET"):
                continue
            plain = session.compile(sql)
            for statement in hinted(sql):
                made = outcome(session, statement)
                if isinstance(made, Error):
                    assert made.code in ("DP101", "DP106", "DP120"), statement
                    assert made.code != "DP120" or made.span is not None, statement
                    refused += 1
                    continue
                slots = [s for r in made.plan.releases for s in r.slots]
                found = [s for s in slots for m in s.outputs if m.hints]
                assert [s.epsilon for s in found] == [Fraction(1, 64)], statement
                assert sum(r.share for r in made.plan.releases) == (1 if len(slots) > 1 else Fraction(1, 64)), statement
                assert made.rewritten.outer.text == plain.rewritten.outer.text
                taken += 1
    assert taken > 50
    assert refused > 30


WORDS = "SELECT FROM WHERE t a 'x' 1 0.5 + - * ( ) ) , , , count( sum( abs( corr( [ ] CASE END FILTER OVER DISTINCT ;"
HINTS = ["epsilon => 0.5", "epsilon", "=>", ", epsilon => 0.5)", ", epsilon => 1 )", "count(*, epsilon => .5)"]
soups = st.lists(st.sampled_from([*WORDS.split(), *HINTS]), max_size=14).map(lambda words: "SELECT " + " ".join(words))


@given(soups)
def test_of_any_words_every_hint_is_read_or_refused(statement: str) -> None:
    """And nothing but a refusal is raised."""
    try:
        parsed = parse(statement)
    except Error:
        return
    pairs = pairwise(scan(statement))
    named = [one for one, other in pairs if other.token_type is TokenType.FARROW and one.text == "epsilon"]
    assert [hint.span.start for hint in parsed.hints] == [token.start for token in named]
