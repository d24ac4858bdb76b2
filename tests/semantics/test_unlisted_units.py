"""A unit column that the policy does not list can be matched and counted by lineage, and never seen or compared with
anything else."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest

from dpsql.errors import Error
from dpsql.session import Session, open_session

POLICY = """
version = 1
[unit]
name = "person"
[budget]
account = "unlisted"
epsilon = "1000"
delta = "0"
per_query_epsilon = "1"
max_query_epsilon = "1"
[tables.people]
unit = "uid"
key = ["uid"]
max_rows_per_unit = 1
[tables.people.columns]
age = { bounds = [0, 100] }
code = {}
[tables.visits]
unit = "uid"
max_rows_per_unit = 50
[tables.visits.columns]
fee = { bounds = [0, 100] }
item = { references = "items.item" }
kind = { values = ["a", "b"] }
weight = {}
[tables.items]
public = true
key = ["item"]
[tables.items.columns]
item = {}
tax = { bounds = [0, 10] }
"""
DATA = """
CREATE TABLE people AS SELECT i AS uid, i % 90 AS age, (i % 7)::VARCHAR AS code FROM range(100) t(i);
CREATE TABLE visits AS SELECT (i * i) % 97 AS uid, i % 50 AS fee, i % 10 AS item,
    CASE WHEN i % 3 = 0 THEN 'a' ELSE 'b' END AS kind, (i % 10)::DOUBLE AS weight FROM range(1000) t(i);
CREATE TABLE items AS SELECT i AS item, i % 5 AS tax FROM range(10) t(i);
"""
MATCHED = """
SELECT COUNT(*) FROM people p JOIN visits v ON p.uid = v.uid WHERE v.fee > 3
SELECT COUNT(*), SUM(p.age) FROM people p, visits v WHERE p.uid = v.uid AND v.fee > 3
SELECT COUNT(*), COUNT(v.fee) FROM people p LEFT JOIN visits v ON p.uid = v.uid AND v.fee > 45
SELECT COUNT(*) FROM people p WHERE EXISTS (SELECT 1 FROM visits v WHERE v.uid = p.uid AND v.fee > 40)
SELECT COUNT(*) FROM people WHERE uid IN (SELECT uid FROM visits WHERE fee > 40)
SELECT COUNT(*) FROM people WHERE uid NOT IN (SELECT uid FROM visits WHERE fee > 40)
SELECT COUNT(*) FROM people p WHERE (uid, age) IN (SELECT uid, fee FROM visits)
SELECT COUNT(*) FROM people p WHERE age > (SELECT AVG(fee) FROM visits v WHERE v.uid = p.uid)
SELECT COUNT(*) FROM people p WHERE 4 < (SELECT COUNT(*) FROM visits v WHERE v.uid = p.uid)
SELECT COUNT(*) FROM people p WHERE EXISTS\
 (SELECT 1 FROM visits v WHERE v.uid = p.uid AND EXISTS (SELECT 1 FROM visits w WHERE w.uid = p.uid AND w.fee < v.fee))
SELECT COUNT(*) FROM people p WHERE EXISTS\
 (SELECT uid FROM visits v WHERE v.uid = p.uid GROUP BY uid HAVING SUM(fee) > 300)
SELECT COUNT(*) FROM (SELECT uid, COUNT(*) AS n FROM visits GROUP BY uid) t JOIN people p ON p.uid = t.uid WHERE n > 3
SELECT COUNT(*) FROM (SELECT uid, kind FROM visits UNION SELECT uid, code FROM people) t
SELECT COUNT(*) FROM (SELECT uid, kind FROM visits UNION ALL SELECT uid, code FROM people) t
SELECT COUNT(DISTINCT t.uid) FROM (SELECT uid, fee FROM visits) t
SELECT COUNT(*) FROM (SELECT DISTINCT uid, item FROM visits) t
SELECT COUNT(*) FROM (SELECT uid, ROW_NUMBER() OVER (PARTITION BY uid ORDER BY fee) AS r FROM visits) t WHERE r = 2
SELECT COUNT(*) FROM visits v WHERE fee > (SELECT tax FROM items i WHERE i.item = v.item + 1)
"""
REFUSED = [
    ("SELECT COUNT(*) FROM people WHERE uid = 3", "DP206"),
    ("SELECT COUNT(*) FROM people WHERE uid IN (1, 2)", "DP206"),
    ("SELECT COUNT(*) FROM people WHERE uid IN (SELECT item FROM items)", "DP206"),
    ("SELECT COUNT(*) FROM (SELECT uid + 1 AS x FROM people) t", "DP206"),
    ("SELECT COUNT(*) FROM (SELECT uid FROM people) t WHERE uid > 3", "DP206"),
    ("SELECT SUM(uid) FROM people", "DP206"),
    ("SELECT uid, COUNT(*) FROM visits GROUP BY uid", "DP206"),
    ("SELECT COUNT(*) FROM visits GROUP BY uid % 2", "DP206"),
]


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    home = tmp_path_factory.mktemp("unlisted")
    (home / "policy.toml").write_text(POLICY, encoding="utf-8")
    with duckdb.connect(str(home / "data.duckdb")) as connection:
        connection.execute(DATA)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(home / "cache"))
        opened = open_session(home / "policy.toml", home / "data.duckdb", ledger=home / "ledger.sqlite")
        yield opened
        opened.close()


@pytest.mark.parametrize("sql", MATCHED.strip().splitlines())
def test_it_is_matched_and_counted(sql: str, session: Session) -> None:
    plain = duckdb.connect()
    plain.execute(DATA)
    compiled = session.compile(sql)
    (exact,) = session._engines.private.run(compiled.inner_sql[0]).to_pylist()
    wanted = plain.execute(sql).fetchone()
    assert wanted is not None
    assert sorted(exact.values()) == sorted(wanted)


@pytest.mark.parametrize(("sql", "code"), REFUSED)
def test_it_is_not_seen(sql: str, code: str, session: Session) -> None:
    with pytest.raises(Error, match=code):
        session.execute(sql)
    assert session.budget().spent_epsilon == 0


@pytest.mark.parametrize(
    "outer",
    ["v.weight", "v.weight::VARCHAR", "v.fee * 1.0", "(v.item::DECIMAL(18, 1))"],
    ids=["double", "text", "n", "d"],
)
def test_a_look_up_compares_in_the_type_of_its_keys(outer: str, session: Session) -> None:
    """In another type several keys could equal one value, and a row would count once for each."""
    for inner in ("AVG(fee) FROM visits w", "COUNT(*) FROM visits w"):
        with pytest.raises(Error, match="DP220"):
            session.compile(f"SELECT COUNT(*) FROM visits v WHERE fee > (SELECT {inner} WHERE w.item = {outer})")
    with pytest.raises(Error, match="DP220"):
        session.compile(
            "SELECT COUNT(*) FROM visits v WHERE fee > (SELECT AVG(fee) FROM visits w WHERE w.uid = v.uid"
            f" AND w.item = {outer})"
        )
