"""`unit = "row"`: rows that are units themselves share no statement's rows with other private tables.

They are numbered as persons are. A union of both once gave a row and a person of one number one limit, so that a person
who left brought back a row of somebody else.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dpsql.errors import Error
from tests.attacks.neighbours import Pair

TABLES = """\
CREATE TABLE readings(place VARCHAR, level INTEGER);
INSERT INTO readings SELECT CASE WHEN i % 2 = 0 THEN 'in' ELSE 'out' END, i % 10 FROM range(50) t(i);
CREATE TABLE people(uid BIGINT, place VARCHAR);
INSERT INTO people SELECT 1 + i % 9, 'in' FROM range(40) t(i)"""
PERSON = "INSERT INTO people SELECT 0, 'in' FROM range(9)"
POLICY = """\
[tables.readings]
unit = "row"
[tables.readings.columns]
place = { values = ["in", "out"] }
level = { bounds = [0, 10] }
[tables.people]
unit = "uid"
max_rows_per_unit = 3
[tables.people.columns]
uid = {}
place = { values = ["in", "out"] }
"""


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    with Pair(tmp_path_factory.mktemp("pair"), TABLES, PERSON, POLICY) as made:
        yield made


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT COUNT(*) FROM (SELECT place FROM people UNION ALL SELECT place FROM readings) t",
        "SELECT place, COUNT(*) FROM (SELECT place FROM readings UNION ALL SELECT place FROM people) t GROUP BY place",
        "SELECT COUNT(*) FROM (SELECT place FROM (SELECT place FROM readings UNION ALL SELECT place FROM people) s) t",
        "SELECT COUNT(*) FROM readings, people",
        "SELECT COUNT(*) FROM readings r JOIN people p ON p.place = r.place",
        "SELECT COUNT(*) FROM readings r FULL JOIN people p ON p.uid = r.level",
        "SELECT COUNT(*) FROM readings r WHERE EXISTS (SELECT 1 FROM people p WHERE p.place = r.place)",
        "SELECT COUNT(*) FROM people p WHERE p.place IN (SELECT place FROM readings)",
        "SELECT COUNT(*) FROM readings a JOIN readings b ON a.level = b.level",
    ],
)
def test_they_meet_no_other_rows(pair: Pair, sql: str) -> None:
    with pytest.raises(Error, match=r"^DP210"):
        pair.check(sql)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT COUNT(*), AVG(level) FROM readings",
        "SELECT COUNT(*) FROM readings WHERE level > (SELECT AVG(level) FROM readings)",
        "SELECT COUNT(*) FROM people WHERE (SELECT COUNT(*) FROM readings) > 3",
        "SELECT COUNT(*) FROM (SELECT place FROM readings UNION ALL SELECT place FROM readings) t",
        "SELECT (SELECT COUNT(*) FROM readings) + (SELECT COUNT(*) FROM people)",
    ],
)
def test_alone_and_beside_released_results_they_are_answered(pair: Pair, sql: str) -> None:
    pair.check(sql)
