"""Refusals as an analyst meets them: where the caret stands, and that the repair which is printed works.

`repairs.test` holds cases: policy and code; the mistaken statement, in which «...» marks what the caret points at; the
mended one, in which «...» marks text that the refusal prints, word for word. Where the repair is to leave something
out, the words that say so stand behind the code. `mistakes.test` holds mistakes with no such mechanical repair.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import duckdb
import pytest

from dpsql.errors import Error
from dpsql.session import Session, open_session

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
POLICIES = {
    "clinic": (ROOT / "tests/compile/golden/clinic.toml", ROOT / "tests/compile/golden/clinic.sql"),
    "grocery": (ROOT / "policies/grocery.toml", ROOT / "tests/docs/shop.sql"),
    "cdnow": (ROOT / "policies/cdnow.toml", HERE / "cdnow.sql"),
    "tpch": (ROOT / "policies/tpch.toml", HERE / "tpch.sql"),
}


class Case(NamedTuple):
    """says: words that the refusal has beside those marked in `mended`."""

    policy: str
    code: str
    says: str
    mistaken: str
    mended: str


def read_cases() -> list[Case]:
    text = re.sub(r"^#.*\n", "", (HERE / "repairs.test").read_text(encoding="utf-8"), flags=re.MULTILINE)
    cases = []
    for block in text.strip().split("\n\n"):
        head, mistaken, mended = block.strip().split("\n")
        policy, code, *says = head.split(" ", 2)
        cases.append(Case(policy, code, "".join(says), mistaken, mended))
    return cases


def read_mistakes() -> list[tuple[str, str]]:
    lines = (HERE / "mistakes.test").read_text(encoding="utf-8").splitlines()
    return [(policy, sql) for policy, sql in (line.split(" ", 1) for line in lines if line and line[0] != "#")]


Sessions = Callable[[str], Session]


@pytest.fixture(scope="module")
def sessions(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sessions]:
    """The session of each policy, opened when it is first asked for. Whatever a test asks is free, or the end fails."""
    opened: dict[str, Session] = {}
    patch = pytest.MonkeyPatch()

    def session(name: str) -> Session:
        if name not in opened:
            policy, data = POLICIES[name]
            folder = tmp_path_factory.mktemp(name)
            patch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
            with duckdb.connect(str(folder / "data.duckdb")) as connection:
                connection.execute(data.read_text(encoding="utf-8"))
            opened[name] = open_session(policy, folder / "data.duckdb", ledger=folder / "ledger.sqlite")
        return opened[name]

    yield session
    patch.undo()
    spent = {name: each.budget().spent_epsilon for name, each in opened.items()}
    for each in opened.values():
        each.close()
    assert not any(spent.values()), "neither refusals nor compiling cost anything"


def refused(session: Session, sql: str) -> Error:
    with pytest.raises(Error) as caught:
        session.execute(sql)
    return caught.value


def unmarked(statement: str) -> str:
    return re.sub("[«»]", "", statement)


@pytest.mark.parametrize("case", read_cases(), ids=lambda c: f"{c.policy} {unmarked(c.mistaken)}")
def test_the_repair_works(case: Case, sessions: Sessions) -> None:
    session = sessions(case.policy)
    error = refused(session, unmarked(case.mistaken))
    said = f"{error.reason}\n{error.repair}"
    assert error.code == case.code
    pointed = re.search("«(.*)»", case.mistaken)
    if pointed is not None:
        assert error.span is not None
        assert error.source[error.span.start : error.span.end] == pointed[1]
    assert case.says in error.repair
    for printed in re.findall("«(.*?)»", case.mended):
        assert printed.strip() in said
    session.compile(unmarked(case.mended))


@pytest.mark.parametrize(("policy", "sql"), read_mistakes())
def test_every_mistake_is_explained(policy: str, sql: str, sessions: Sessions) -> None:
    """It is refused for its text alone; the refusal points into it and says what to write instead."""
    error = refused(sessions(policy), sql)
    assert re.match("DP(00|1|2|402|502)", error.code)
    assert error.repair
    assert error.span is not None or error.code in ("DP003", "DP502") or not re.search("[a-z]", sql)


def test_there_are_enough() -> None:
    assert len(read_cases()) + len(read_mistakes()) > 300


@pytest.mark.parametrize("sql", ["SELECT 1;", ";SELECT 1", "SELECT 1;;", ";;SELECT 1; -- done", "EXPLAIN SELECT 1;"])
def test_semicolons_around_one_statement_are_nothing(sql: str, sessions: Sessions) -> None:
    sessions("clinic").execute(sql)
    if not sql.startswith("EXPLAIN"):
        assert sessions("clinic").explain(sql)
