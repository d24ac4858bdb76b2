"""Joins and look-ups that were taken to meet one row, and met several: a unit counted more often than the noise covers.

Each statement once moved by more than its plan says, or failed by what rows hold. Person 99 has 40 visits, two of which
have keys that are one DOUBLE; most have a fee above 3, some have not, so that an outer join on it finds a partner for
some of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dpsql.errors import Error
from tests.attacks.neighbours import Pair

BIG = 2**53  # as DOUBLE it equals its successor
TABLES = """\
CREATE TABLE regions(region VARCHAR, label VARCHAR);
INSERT INTO regions VALUES ('R1', 'x'), ('R2', 'x'), ('R3', 'y');
CREATE TABLE repeated(k BIGINT);
INSERT INTO repeated SELECT i % 3 FROM range(30) t(i);
CREATE TABLE people(uid BIGINT, age INTEGER, region VARCHAR);
INSERT INTO people SELECT i, 20 + i, 'R' || (1 + i % 3) FROM range(1, 10) t(i);
CREATE TABLE visits(vid BIGINT, uid BIGINT, region VARCHAR, fee DECIMAL(10,2), day DATE, x DOUBLE, n BIGINT);
INSERT INTO visits SELECT i, 1 + i % 9, 'R2', i, DATE '2024-01-02', 3, i FROM range(30) t(i);
CREATE TABLE items(vid BIGINT, line BIGINT);
INSERT INTO items SELECT i % 30, i FROM range(60) t(i)"""
PERSON = f"""\
INSERT INTO people VALUES (99, 40, 'R1');
INSERT INTO visits SELECT {BIG} + i, 99, 'R1', i % 5, DATE '2024-02-01' + i::INTEGER, {BIG}, {BIG} + i % 2
FROM range(40) t(i);
INSERT INTO items SELECT {BIG} + i % 40, i FROM range(200) t(i)"""
POLICY = """\
[tables.people]
unit = "uid"
key = ["uid"]
max_rows_per_unit = 1
[tables.people.columns]
uid = {}
age = { bounds = [0, 120] }
region = { references = "regions.region" }
[tables.visits]
unit = { via = "uid", to = "people" }
key = ["vid"]
max_rows_per_unit = 3
[tables.visits.columns]
vid = {}
uid = {}
region = {}
fee = { bounds = [0, 50] }
day = {}
x = {}
n = {}
[tables.items]
unit = { via = "vid", to = "visits" }
key = ["vid", "line"]
max_rows_per_unit = 4
[tables.items.columns]
vid = {}
line = {}
[tables.regions]
public = true
key = ["region"]
[tables.regions.columns]
region = {}
label = {}
[tables.repeated]
public = true
[tables.repeated.columns]
k = {}
"""


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    with Pair(tmp_path_factory.mktemp("pair"), TABLES, PERSON, POLICY) as made:
        yield made


# A left join on `fee > 3` leaves some rows of a person without a partner: `u` is the person in some, NULL in others.
SOMETIMES = "SELECT {} FROM visits a LEFT JOIN people b ON a.uid = b.uid AND a.fee > 3"


@pytest.mark.parametrize(
    "sql",
    [
        f"SELECT COUNT(*) FROM people q JOIN ({SOMETIMES.format('b.uid AS u, a.uid AS w')} GROUP BY b.uid, a.uid) t"
        " ON t.w = q.uid",
        f"SELECT COUNT(*) FROM (SELECT u, COUNT(*) FROM ({SOMETIMES.format('b.uid AS u')}) s GROUP BY u) t",
        f"SELECT COUNT(*) FROM (SELECT u, COUNT(*) FROM ({SOMETIMES.format('(b.uid) AS u')}) s GROUP BY u) t",
        f"SELECT COUNT(*) FROM (SELECT u FROM ({SOMETIMES.format('b.uid AS u')} UNION ALL SELECT uid FROM visits) s"
        " GROUP BY u) t",
        f"SELECT COUNT(*) FROM (SELECT DISTINCT u FROM (SELECT u FROM ({SOMETIMES.format('(b.uid) AS u')}) r) s"
        " WHERE u IS NULL OR u = u) t",
    ],
)
def test_a_unit_that_may_be_missing_makes_two_groups(pair: Pair, sql: str) -> None:
    (moved,) = pair.check(sql)
    assert moved["l1"] == 2


@pytest.mark.parametrize("type_", ["DOUBLE", "FLOAT"])
@pytest.mark.parametrize(
    "sql",
    [
        "SELECT COUNT((SELECT COUNT(*) FROM visits w WHERE w.uid = v.uid AND w.n = {})) FROM visits v",
        f"SELECT COUNT(*) FROM visits v WHERE (SELECT COUNT(*) FROM visits w WHERE w.n IN ({BIG}, {BIG + 1})"
        " AND w.n = {}) > -1e9",
        "SELECT COUNT((SELECT MAX(w.fee) FROM visits w WHERE w.uid = v.uid AND w.n = {} + 0)) FROM visits v",
    ],
)
def test_a_value_is_looked_up_by_keys_of_its_own_type(pair: Pair, sql: str, type_: str) -> None:
    with pytest.raises(Error, match=r"^DP220: .* compared with keys of type BIGINT"):
        pair.check(sql.format(f"CAST(v.x AS {type_})"))
    pair.check(sql.format("v.n"))


@pytest.mark.parametrize(
    "public",
    [
        "SELECT region AS k, unnest([1, 2, 3]) AS u, COUNT(*) AS n FROM people GROUP BY region",
        "SELECT region AS k, unnest([1, 2, 3]) AS u FROM regions GROUP BY region",
        "SELECT MIN(region) AS k, unnest([1, 2, 3]) AS u FROM regions",
    ],
)
def test_unnest_makes_several_rows_of_one(pair: Pair, public: str) -> None:
    with pytest.raises(Error, match=r"^DP211"):
        pair.check(f"SELECT COUNT(*) FROM people p JOIN ({public}) r ON r.k = p.region")


@pytest.mark.parametrize("join", ["CROSS JOIN repeated r", "JOIN repeated r ON r.k = a.n", "JOIN repeated r ON TRUE"])
@pytest.mark.parametrize("outer", ["FULL JOIN", "LEFT JOIN"])
def test_public_rows_multiply_none_behind_an_outer_join(pair: Pair, outer: str, join: str) -> None:
    """Nothing but the rows of a unit would tell those rows apart: which of them count was for their order to say."""
    with pytest.raises(Error, match=r"^DP211"):
        pair.check(f"SELECT COUNT(*) FROM visits a {outer} items b ON a.vid = b.vid {join}")


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT COUNT(*) FROM people p LEFT JOIN visits v ON p.uid = v.uid LEFT JOIN regions r ON r.region = v.region",
        "SELECT COUNT(*) FROM visits v LEFT JOIN regions r ON r.region = v.region FULL JOIN items i ON i.vid = v.vid",
    ],
)
def test_public_rows_found_by_key_multiply_none(pair: Pair, sql: str) -> None:
    pair.check(sql)


@pytest.mark.parametrize("column", ["day", "fee", "n", "region", "x", "fee > 3"])
def test_branches_of_a_union_have_places_of_one_type(pair: Pair, column: str) -> None:
    """Groups over several tables have their keys for places, and these may be dates: the engine failed, at a charge."""
    groups = f"SELECT a.{column} AS c FROM visits a JOIN visits b ON a.uid = b.uid GROUP BY a.{column}, a.uid"
    pair.check(f"SELECT COUNT(*) FROM (SELECT c FROM ({groups}) t UNION ALL SELECT {column} FROM visits) u")
    pair.check(f"SELECT COUNT(*) FROM (SELECT {column} AS c FROM visits UNION ALL ({groups})) u")


SHARED = """\
CREATE TABLE calls(cid BIGINT, uid BIGINT, day BIGINT);
INSERT INTO calls SELECT i, 1 + i % 9, 10 FROM range(30) t(i)"""
SHARES = "INSERT INTO calls SELECT i, 99, 5 + i % 2 * 10 FROM range(10) t(i)"
CALLS = """\
[tables.calls]
unit = "uid"
key = ["cid"]
max_rows_per_unit = 3
[tables.calls.columns]
cid = {}
uid = {}
day = { bounds = [0, 20] }
"""


@pytest.mark.parametrize("strategy", ["rows", "late"])
@pytest.mark.parametrize(
    ("call", "condition"),
    [
        ("ROW_NUMBER() OVER (PARTITION BY cid ORDER BY day)", "n = 1"),
        ("RANK() OVER (PARTITION BY cid ORDER BY day DESC)", "n > 1"),
        ("COUNT(*) OVER (PARTITION BY cid)", "n = 1"),
        ("LAG(day) OVER (PARTITION BY cid ORDER BY day)", "n IS NULL"),
    ],
)
def test_a_key_that_two_units_have_makes_no_common_partition(
    tmp_path: Path, strategy: str, call: str, condition: str
) -> None:
    """The policy says that `cid` tells calls apart, and one person's calls have the numbers of others'. Whoever a row
    belongs to is in the partition whatever a key promises: else that person would change which rows of others count."""
    with Pair(tmp_path, SHARED, SHARES, CALLS) as pair:
        pair.settings({"strategy": strategy})
        (moved,) = pair.check(f"SELECT COUNT(*) FROM (SELECT {call} AS n FROM calls) t WHERE {condition}")
    assert moved["l1"] == (0 if "> 1" in condition else 3)
