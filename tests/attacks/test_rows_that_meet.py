"""How many rows of a unit can meet: of joins that keep what has no partner, of one query used twice, of long unions.

The compiler proves from that number that no sum overflows and no row is counted twice; it was once too small, and a
sum failed by the values of one person's rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from time import process_time

import pytest

from dpsql.errors import Error
from tests.attacks.neighbours import Pair

TABLES = """\
CREATE TABLE people(uid BIGINT, age INTEGER, points BIGINT);
INSERT INTO people SELECT i, 20 + i, i FROM range(1, 10) t(i);
CREATE TABLE visits(vid BIGINT, uid BIGINT, big BIGINT);
INSERT INTO visits SELECT i, 1 + i % 9, i FROM range(30) t(i)"""
PERSON = """\
INSERT INTO people VALUES (99, 40, 9223372036854775807);
INSERT INTO visits SELECT 100 + i, 99, 9007199254740992 FROM range(60) t(i)"""
POLICY = """\
[tables.people]
unit = "uid"
key = ["uid"]
max_rows_per_unit = 1
[tables.people.columns]
uid = {}
age = { bounds = [0, 120] }
points = {}
[tables.visits]
unit = { via = "uid", to = "people" }
key = ["vid"]
max_rows_per_unit = 1
max_rows_per_unit_hard = 50
[tables.visits.columns]
vid = {}
uid = {}
big = { bounds = [0, 9007199254740992] }
"""
# No person has an age that is NULL: the two rows of each do not match, and both stay.
UNMATCHED = "people p FULL JOIN people q ON p.uid = q.uid AND p.age IS NULL"


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    with Pair(tmp_path_factory.mktemp("pair"), TABLES, PERSON, POLICY) as made:
        yield made


@pytest.mark.parametrize(
    ("sql", "rows"),
    [
        (f"SELECT COUNT(*) FROM {UNMATCHED}", 2),
        (f"SELECT COUNT(*), COUNT(DISTINCT p.uid) FROM {UNMATCHED}", 2),
        (f"SELECT COUNT(m) FROM (SELECT COUNT(*) OVER (PARTITION BY p.uid) AS m FROM {UNMATCHED}) t", 2),
        ("SELECT COUNT(*) FROM people p FULL JOIN people q ON p.uid = q.uid", 1),
    ],
)
def test_a_full_join_of_single_rows_may_keep_both(pair: Pair, sql: str, rows: int) -> None:
    pair.settings({})
    assert {"l1": rows, "norm": 2} in pair.check(sql)


@pytest.mark.parametrize(
    "sql",
    [
        f"SELECT COUNT(s) FROM (SELECT SUM(COALESCE(p.points, q.points)) OVER (PARTITION BY p.uid) AS s"
        f" FROM {UNMATCHED}) t",
        f"SELECT COUNT(s) FROM (SELECT p.uid, SUM(COALESCE(p.points, q.points)) AS s FROM {UNMATCHED} GROUP BY ALL) t",
        "SELECT COUNT(s) FROM (SELECT SUM(big * 40) OVER (PARTITION BY uid) AS s FROM visits) t",
        "SELECT COUNT(s) FROM (SELECT uid, SUM(big * 40) AS s FROM visits GROUP BY uid) t",
    ],
)
def test_no_sum_overflows(pair: Pair, sql: str) -> None:
    """Also where a statement raises R as far as the policy lets it, which may be more than the usual multiple."""
    pair.settings({"max_rows_per_unit": "50"})
    pair.check(sql)


@pytest.mark.parametrize(
    "source",
    [
        "p JOIN p q ON q.uid = p.uid",
        "p JOIN p q ON q.vid = p.vid",
        "p LEFT JOIN p q ON q.vid = p.vid JOIN p r ON r.vid = q.vid",
        "p WHERE EXISTS (SELECT 1 FROM p q WHERE q.uid = p.uid)",
        "p WHERE p.vid NOT IN (SELECT vid FROM p q WHERE q.uid = p.uid AND q.big > 3)",
    ],
)
@pytest.mark.parametrize("rows", ["1", "3"])
def test_one_query_used_twice(pair: Pair, source: str, rows: str) -> None:
    pair.settings({"max_rows_per_unit": rows})
    pair.check(f"WITH p AS (SELECT * FROM visits) SELECT COUNT(*) FROM {source}")


def test_what_is_too_deep_once_rewritten_is_refused_as_such(pair: Pair) -> None:
    pair.settings({})
    where = "TRUE"
    for i in range(30, 0, -1):
        where = f"EXISTS (SELECT 1 FROM visits v{i} WHERE v{i}.uid = v{i - 1}.uid AND {where})"
    with pytest.raises(Error, match=r"^DP104"):
        pair.sides[0].compile(f"SELECT COUNT(*) FROM visits v0 WHERE {where}")


def test_a_long_union_is_one_union(pair: Pair) -> None:
    """Nested pair by pair, it took minutes: each level had one more place for a row."""
    pair.settings({})
    branches = " UNION ALL ".join(f"SELECT uid, {i} AS k FROM visits" for i in range(90))
    start = process_time()
    (text,) = pair.sides[0].compile(f"SELECT COUNT(*) FROM ({branches}) t").inner_sql
    assert '"$rank3"' not in text
    assert process_time() - start < 60
