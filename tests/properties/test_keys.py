"""Every group that a row is in is in the key relation; and the relation is one for all rows.

Over random policies whose claims the rows keep and whose limits cut none, without noise, on the real engine: an answer
has every group that plain DuckDB shows, with DuckDB's count, and no other group has a row. A key relation that were too
small would lose rows, since rows of other groups are dropped. And the same statement has the same plan on other rows:
which groups are shown says nothing about anybody.
"""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from random import Random

import duckdb
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from dpsql.errors import Error
from dpsql.session import Session, open_session
from tests.properties import markets
from tests.semantics.sides import Sides, compare, without_noise

STATEMENTS = 20


def explore(home: Path, seed: int, statements: int) -> Counter[str]:
    """One policy over two sets of rows; how many statements were answered and refused."""
    r = Random(seed)
    home.mkdir(parents=True)
    policy = home / "policy.toml"
    policy.write_text(markets.policy(r), encoding="utf-8")
    grammar = markets.KeyGrammar(r)
    public = r.random()
    scripts = [markets.script(Random(f"{public}")), markets.script(Random(f"{public}"), Random(f"other {public}"))]
    seen: Counter[str] = Counter()
    with without_noise(home):
        sessions = [opened(home / str(i), policy, script) for i, script in enumerate(scripts)]
        with duckdb.connect(":memory:") as plain:
            plain.execute(scripts[0])
            for number in range(statements):
                keys, sql = grammar.statement()
                seen[check(sessions if number % 3 == 0 else sessions[:1], plain, keys, sql)] += 1
        for session in sessions:
            session.close()
    return seen


def opened(home: Path, policy: Path, script: str) -> Session:
    home.mkdir()
    with duckdb.connect(str(home / "data.duckdb")) as connection:
        connection.execute(script)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(home / "cache"))
        return open_session(policy, home / "data.duckdb", ledger=home / "ledger.sqlite")


def check(sessions: list[Session], plain: duckdb.DuckDBPyConnection, keys: int, sql: str) -> str:
    """The code of a refusal, or "answered"."""
    if len(sessions) > 1:
        said, other = (said_of(session, sql) for session in sessions)
        assert said == other, f"other rows, another plan: {sql}"
    try:
        compare(Sides(plain, sessions[0], (0,)), str(keys), sql)
    except AssertionError as difference:
        raise AssertionError(f"{sql}\n{said_of(sessions[0], sql)}\n{difference}") from None
    except Error as error:
        if error.code.startswith("DP9"):
            raise
        return error.code
    return "answered"


def said_of(session: Session, sql: str) -> str:
    """EXPLAIN's text, or the refusal."""
    try:
        return session.explain(sql)
    except Error as error:
        return str(error)


def test_no_row_is_outside_the_keys(tmp_path: Path) -> None:
    total: Counter[str] = Counter()

    @settings(max_examples=2, phases=[Phase.generate], database=None)
    @given(st.integers(0, 2**48))
    def run(seed: int) -> None:
        total.update(explore(tmp_path / os.urandom(8).hex(), seed, STATEMENTS))

    run()
    assert total["answered"] > sum(total.values()) / 3, total


@pytest.mark.audit
@settings(max_examples=40, phases=[Phase.generate], database=None)
@given(st.integers(0, 2**60))
def test_no_row_is_outside_the_keys_at_length(tmp_path_factory: pytest.TempPathFactory, seed: int) -> None:
    explore(tmp_path_factory.mktemp("market") / "home", seed, 120)
