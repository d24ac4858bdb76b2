"""Golden files: a statement, then the refusal it meets or the plan and both SQLs it becomes.

Cases of a file are divided by a line `====`; within one, `----` divides the statement from what dpsql says of it. A
first line `# ...` is a title; lines `SET ...;` before the statement hold for that case alone. A file `x.test` is under
the policy `x.toml` where there is one, else under `clinic.toml`. `pytest tests/compile/test_golden.py --update` writes
what is said now.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from dpsql.errors import CODES, Error
from dpsql.session import Session, open_session

FOLDER = Path(__file__).parent / "golden"
FILES = sorted(FOLDER.glob("*.test"))


@pytest.fixture
def session(path: Path, tmp_path: Path) -> Iterator[Session]:
    database = tmp_path / "clinic.duckdb"
    with duckdb.connect(str(database)) as connection:
        connection.execute((FOLDER / "clinic.sql").read_text(encoding="utf-8"))
    own = path.with_suffix(".toml")
    opened = open_session(own if own.exists() else FOLDER / "clinic.toml", database)
    yield opened
    opened.close()


def read_cases(path: Path) -> list[tuple[str, str, str]]:
    """(title, statement, expected) of every case."""
    cases = []
    for block in path.read_text(encoding="utf-8").split("\n====\n"):
        statement, _, expected = block.strip("\n").partition("\n----\n")
        title, _, rest = statement.partition("\n") if statement.startswith("#") else ("", "", statement)
        cases.append((title, rest, expected))
    return cases


def said_of(session: Session, statement: str) -> str:
    """EXPLAIN's text, or the refusal."""
    first, more, rest = statement.partition(";\n")
    if more and first.startswith("SET"):
        session.execute(first)
        said = said_of(session, rest)
        session.execute("RESET ALL")
        return said
    try:
        if statement.startswith("SET"):
            return str(session.execute(statement).table.to_pylist())
        return session.explain(statement)
    except Error as error:
        return str(error)


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_golden(path: Path, session: Session, request: pytest.FixtureRequest) -> None:
    cases = [(title, sql, expected, said_of(session, sql)) for title, sql, expected in read_cases(path)]
    if request.config.getoption("--update"):
        blocks = [f"{title}\n{sql}\n----\n{said}".strip("\n") for title, sql, _, said in cases]
        path.write_text("\n====\n".join(blocks) + "\n", encoding="utf-8")
        return
    for title, sql, expected, said in cases:
        assert said == expected, f"{path.name}: {title or sql}"
    assert session.budget().spent_epsilon == 0, "explaining is free"


def test_every_refusal_of_form_has_a_golden() -> None:
    said = "\n".join(path.read_text(encoding="utf-8") for path in FILES)
    missing = [code for code in CODES if code[2] in "12" and f"\n{code}: " not in said]
    assert missing == []
