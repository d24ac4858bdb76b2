"""Any statement ends in an answer or in a typed refusal, and no refusal costs anything.

An engine that fails (DP501), a check of our own that finds something (DP9xx), or an exception that is no `dpsql.Error`
is a fault. So is DP502, a mistake in the public part of a statement, where plain DuckDB makes none of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from random import Random

import duckdb
import pytest

from dpsql.errors import Error
from dpsql.privacy import sampling
from dpsql.session import Session, open_session
from tests.properties.fuzz import Grammar, mutated

KNOWN = re.compile(r"\+\(DATE, BIGINT\)|FROM clause is missing|More than one row returned by a subquery")
"""Mistakes that DuckDB does not find: integers of public tables are BIGINT here, and a DATE takes no BIGINT; a subquery
without FROM that only names columns of the query around; EXISTS does not run what its query selects."""

FOLDER = Path(__file__).parent.parent / "semantics"
COUNT = 1000


@pytest.fixture(scope="module")
def plain() -> Iterator[duckdb.DuckDBPyConnection]:
    """The same tables, to ask whether a statement's public part is at fault."""
    with duckdb.connect(":memory:") as connection:
        connection.execute((FOLDER / "library.sql").read_text(encoding="utf-8"))
        yield connection


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    home = tmp_path_factory.mktemp("fuzz")
    database = home / "library.duckdb"
    with duckdb.connect(str(database)) as connection:
        connection.execute((FOLDER / "library.sql").read_text(encoding="utf-8"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(home / "cache"))
        # The same noise in each run: whether a public part fails may hang on it.
        patch.setattr(sampling._per_thread, "words", sampling.Words(Random("noise").randbytes))
        opened = open_session(FOLDER / "library.toml", database, ledger=home / "ledger.sqlite")
        opened.settings.set("epsilon", "0.001")
        yield opened
        opened.close()


def corpus() -> list[str]:
    """Statements of other tests over the same tables."""
    lines = (FOLDER / "relations.txt").read_text(encoding="utf-8").splitlines()
    return [line[2:].split("|||")[0].strip() for line in lines if line and not line.startswith("#")]


def statements(seed: int, count: int) -> Iterator[str]:
    """Half from the grammar, half by mutation."""
    rng, known = Random(seed), corpus()
    grammar = Grammar(rng)
    for i in range(count):
        yield grammar.statement() if i % 2 else mutated(rng, rng.choice(known), known)


def fault(session: Session, plain: duckdb.DuckDBPyConnection, sql: str) -> str:
    """What is wrong with how a statement ended; nothing where nothing is."""
    before = session.budget().spent_epsilon
    try:
        session.execute(sql)
        return ""
    except Error as error:
        if error.code.startswith("DP9") or error.code == "DP501":
            return str(error)
        if session.budget().spent_epsilon != before and error.code != "DP502":
            return f"{error.code} was charged"
        if error.code != "DP502" or KNOWN.search(error.reason):
            return ""
        found = f"{error.code}: {error.reason}"
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    try:
        plain.execute(sql).fetchall()
    except duckdb.Error:
        return ""
    return found


def check(session: Session, plain: duckdb.DuckDBPyConnection, seed: int, count: int) -> None:
    found = [f"{sql}\n    {wrong}" for sql in statements(seed, count) if (wrong := fault(session, plain, sql))]
    assert not found, f"seed {seed}: {len(found)} of {count}\n" + "\n".join(found[:20])


def test_statements_end_as_they_should(session: Session, plain: duckdb.DuckDBPyConnection) -> None:
    check(session, plain, 20260830, COUNT)


@pytest.mark.audit
@pytest.mark.parametrize("seed", range(10))
def test_more_statements_end_as_they_should(seed: int, session: Session, plain: duckdb.DuckDBPyConnection) -> None:
    check(session, plain, seed, COUNT)


def test_the_statements_are_worth_asking(session: Session) -> None:
    """A fair part of them is answered, and a fair part refused for each kind of reason."""
    codes = [code_of(session, sql) for sql in statements(1, 400)]
    assert codes.count("") >= 20
    assert len(set(codes)) >= 15


def code_of(session: Session, sql: str) -> str:
    try:
        session.compile(sql)
    except Error as error:
        return error.code
    return ""
