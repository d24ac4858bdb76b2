"""Public SQL does not compare every row of a large table with every row of another."""

from __future__ import annotations

import pytest
from sqlglot import parse_one

from dpsql.compile.pairs import check_pairs
from dpsql.errors import NotSupportedError

TABLES = {"big": 1_000_000, "small": 1_000}
RELEASED = {f"one_{number}": 1 for number in range(1, 5)}

REFUSED = [
    "SELECT a.x FROM pub.big a, pub.big b WHERE a.x * b.x = -1",
    "SELECT a.x FROM pub.big a JOIN pub.big b ON a.x < b.x AND a.y > b.y",
    "SELECT a.x FROM pub.big a LEFT JOIN pub.big b ON a.x < b.x",
    "SELECT a.x FROM pub.big a CROSS JOIN pub.big b",
    "SELECT a.x FROM pub.big a JOIN pub.big b ON a.x = a.y",
    "SELECT a.x FROM pub.big a JOIN pub.big b ON b.x = 3",
    "SELECT a.x FROM pub.small a, pub.small b, pub.small c, pub.small d",
    "SELECT a.x FROM pub.big a, (SELECT * FROM pub.big WHERE x > 3) b",
    "WITH b AS (SELECT * FROM pub.big) SELECT a.x FROM b a, b",
    "WITH b AS (SELECT * FROM pub.small s, pub.small t) SELECT a.x FROM b a, b",
    "SELECT * FROM range(1, 1000000) a, range(1, 1000000) b",
    "SELECT * FROM pub.big a, unnest(range(1, 1000000)) b",
    "SELECT 1 FROM pub.small WHERE EXISTS (SELECT 1 FROM pub.big a, pub.big b WHERE a.x < b.x)",
    "SELECT * FROM released_1 a, released_2 b, released_3 c",
    "SELECT x FROM pub.small UNION ALL SELECT a.x FROM pub.big a, pub.big b",
    "SELECT a.x FROM (SELECT x FROM pub.big UNION ALL SELECT x FROM pub.big) a, pub.big b",
]
ANSWERED = [
    "SELECT a.x FROM pub.big a JOIN pub.big b ON a.x = b.x",
    "SELECT a.x FROM pub.big a JOIN pub.big b USING (x)",
    "SELECT a.x FROM pub.big a, pub.big b WHERE a.x = b.x AND a.y < b.y",
    "SELECT a.x FROM pub.big a, pub.big b WHERE b.x + 1 = a.x",
    "SELECT a.x FROM pub.big a, pub.small b",
    "SELECT a.x FROM pub.big a, pub.small b, pub.big c WHERE c.x = a.x",
    "SELECT a.x FROM pub.big a, (SELECT x FROM pub.big LIMIT 10) b",
    "SELECT a.x FROM pub.big a, (SELECT MAX(x) AS m FROM pub.big) b",
    "SELECT * FROM released_1 a, released_2 b",
    "SELECT * FROM (SELECT * FROM one_1) a, (SELECT * FROM one_2) b, one_3, one_4, released_1",
    "SELECT * FROM range(1, 1000) a, range(1, 1000) b",
]


@pytest.mark.parametrize("sql", REFUSED)
def test_too_many_pairs_are_refused(sql: str) -> None:
    with pytest.raises(NotSupportedError, match=r"^DP240: FROM compares more than 10,000,000,000 pairs of rows"):
        check_pairs(parse_one(sql, dialect="duckdb"), TABLES, RELEASED)


@pytest.mark.parametrize("sql", ANSWERED)
def test_others_are_answered(sql: str) -> None:
    check_pairs(parse_one(sql, dialect="duckdb"), TABLES, RELEASED)
