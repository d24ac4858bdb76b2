"""Attacks that once worked: names of the engine's own columns, keys in another type, names alike but for case."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import duckdb
import pytest

from dpsql.errors import Error
from dpsql.session import Session, open_session
from dpsql.vault.open import open_engines
from tests.conftest import Clinic

# Rows that may count: at most three of each patient.
COUNTED = "SELECT sum(least(n, 3))::BIGINT FROM (SELECT count(*) AS n FROM visits WHERE uid IS NOT NULL GROUP BY uid)"


@pytest.fixture
def session(clinic: Clinic) -> Iterator[Session]:
    with closing(open_session(clinic.policy, clinic.database)) as opened:
        yield opened


def exact(session: Session, sql: str) -> list[dict[str, object]]:
    """What the private engine would give the noise."""
    with closing(open_engines(session.snapshot)) as engines:
        rows: list[dict[str, object]] = engines.private.run(session.compile(sql).inner_sql[0]).to_pylist()
    return rows


@pytest.mark.parametrize("strategy", ["rows", "late"])
@pytest.mark.parametrize("name", ['"$rank"', '"$RANK"', '"$unit"', '"$Unit"'])
def test_an_alias_is_not_the_engines_column(session: Session, clinic: Clinic, name: str, strategy: str) -> None:
    session.execute(f"SET strategy = {strategy}")
    with duckdb.connect(str(clinic.database), read_only=True) as database:
        counted = database.execute(COUNTED).fetchall()[0][0]
        units = database.execute("SELECT count(DISTINCT uid) FROM visits").fetchall()[0][0]
    source = f"(SELECT 1 AS {name}, uid, fee FROM visits) AS q"
    assert exact(session, f"SELECT COUNT(*) AS n FROM {source}") == [{"n1": counted}]
    nested = f"(SELECT uid, fee, 1 AS {name} FROM {source}) AS r"
    assert exact(session, f"SELECT COUNT(*) AS n FROM {nested}") == [{"n1": counted}]
    source = f"(SELECT visit_id AS {name}, uid FROM visits) AS q"
    assert exact(session, f"SELECT COUNT(DISTINCT uid) AS n FROM {source}") == [{"n1": units}]


def test_names_that_differ_in_case_are_two_columns(session: Session) -> None:
    subquery = '(SELECT CASE WHEN uid = 7 THEN 9223372036854775807 ELSE 0 END AS "x", 2 AS "X" FROM visits) AS q(p, r)'
    (row,) = exact(session, f"SELECT COUNT(*) FILTER (WHERE r * r > 3) AS n, COUNT(*) AS m FROM {subquery}")
    assert row["n1"] == row["n2"]
    unnamed = subquery.removesuffix("(p, r)")  # as in DuckDB, the second is X_1 then
    (row,) = exact(session, f'SELECT COUNT_IF("X_1" = 2) AS n, COUNT(*) AS m FROM {unnamed}')
    assert row["n1"] == row["n2"]
    (first,) = exact(session, f"SELECT COUNT_IF(x = 2) AS n FROM {unnamed}")
    (other,) = exact(session, f"SELECT COUNT_IF(X = 0 OR X > 2) AS n FROM {unnamed}")
    assert (first["n1"], other["n1"]) == (0, row["n1"])


BIG = 2**61


@pytest.fixture
def make_numbers(tmp_path: Path) -> Callable[[str, str], Session]:
    """A private table of numbers and a public one with a key that is big."""

    def make(private: str, public: str) -> Session:
        database = tmp_path / "numbers.duckdb"
        with duckdb.connect(str(database)) as connection:
            connection.execute(
                f"CREATE TABLE p(k {public}, label VARCHAR); INSERT INTO p VALUES ({BIG}, 'a'), ({BIG + 1}, 'b')"
            )
            connection.execute(
                f"CREATE TABLE t(u BIGINT, k {private}); INSERT INTO t SELECT i, {BIG} FROM range(9) r(i)"
            )
        policy = tmp_path / "numbers.toml"
        policy.write_text(
            'version = 1\n[unit]\nname = "person"\n[budget]\nepsilon = "9"\nper_query_epsilon = "1"\n'
            '[tables.t]\nunit = "u"\nmax_rows_per_unit = 2\n[tables.t.columns]\nk = { references = "p.k" }\n'
            '[tables.p]\npublic = true\nkey = ["k"]\n[tables.p.columns]\nk = {}\nlabel = {}\n',
            encoding="utf-8",
        )
        return open_session(policy, database)

    return make


@pytest.mark.parametrize("literal", [f"{BIG}e0", "2305843009213693952.0e0", f"{BIG}.5", "1e32"])
@pytest.mark.parametrize("join", ["JOIN", "LEFT JOIN"])
def test_a_key_is_compared_in_its_own_type(
    make_numbers: Callable[[str, str], Session], literal: str, join: str
) -> None:
    with closing(make_numbers("BIGINT", "BIGINT")) as session:
        with pytest.raises(Error, match=r"^DP211"):
            session.compile(f"SELECT COUNT(*) FROM t {join} p ON p.k = {literal}")
        session.compile(f"SELECT COUNT(*) FROM t {join} p ON p.k = {BIG}")


@pytest.mark.parametrize(("private", "public"), [("BIGINT", "DECIMAL(38,2)"), ("DECIMAL(38,2)", "BIGINT")])
def test_a_reference_has_one_type(make_numbers: Callable[[str, str], Session], private: str, public: str) -> None:
    with pytest.raises(Error, match=r"^DP302"):
        make_numbers(private, public)
