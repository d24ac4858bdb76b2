"""The first k rows of a unit have the noise of k rows: never of fewer than a unit has there, and none is left out."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from tests.attacks.neighbours import Pair

TABLES = """\
CREATE TABLE t AS SELECT i % 40 AS uid, i AS id, i % 7 AS x, ['a', 'b'][1 + i % 2] AS k FROM range(1200) r(i);
CREATE TABLE v AS SELECT i % 40 AS uid, i % 5 AS y FROM range(40) r(i)"""
PERSON = """\
INSERT INTO t SELECT 99, 5000 + i, i % 7, ['a', 'b'][1 + i % 2] FROM range(45) r(i);
INSERT INTO v SELECT 99, i % 5 FROM range(40) r(i)"""
POLICY = """\
[tables.t]
unit = "uid"
max_rows_per_unit = 50
[tables.t.columns]
uid = {}
id = {}
x = { bounds = [0, 6] }
k = { values = ["a", "b"] }
[tables.v]
unit = "uid"
max_rows_per_unit = 50
[tables.v.columns]
uid = {}
y = { bounds = [0, 4] }
"""
ROWS = "(SELECT uid, id, x, k, ROW_NUMBER() OVER (PARTITION BY uid ORDER BY id) AS rn FROM t)"
OF_ALL = 50


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("pair")


@pytest.fixture(scope="module")
def pair(folder: Path) -> Iterator[Pair]:
    with Pair(folder, TABLES, PERSON, POLICY) as made:
        yield made


@pytest.mark.parametrize(
    ("rows", "norm"),
    [
        (f"{ROWS} n WHERE rn <= 3", 3),
        (f"{ROWS} n WHERE rn < 2.5", 2),
        (f"{ROWS} n WHERE rn BETWEEN 2 AND 4", 3),
        (f"{ROWS} n WHERE rn IN (1, 5)", 5),
        (f"{ROWS} n WHERE NOT rn > 3", 3),
        (f"{ROWS} n WHERE rn <= x", 6),
        (f"{ROWS} n WHERE rn <= 3 OR x = 2", OF_ALL),
        (f"{ROWS} n WHERE NOT (rn > 3 AND x > 2)", OF_ALL),
        (f"{ROWS} n WHERE CASE WHEN rn <= 3 THEN TRUE ELSE x = 1 END", OF_ALL),
        (f"{ROWS} n WHERE rn <= 99999999999999999999", OF_ALL),
        (f"(SELECT uid, x AS rn, rn AS x FROM {ROWS} n) q WHERE rn <= 3", OF_ALL),
        (f"(SELECT uid, rn FROM {ROWS} n UNION ALL SELECT uid, rn FROM {ROWS} m) q WHERE rn <= 3", 2 * OF_ALL),
        ("(SELECT uid, ROW_NUMBER() OVER (PARTITION BY uid, k ORDER BY id) AS rn FROM t) q WHERE rn <= 3", OF_ALL),
        ("(SELECT uid, RANK() OVER (PARTITION BY uid ORDER BY x) AS rn FROM t) q WHERE rn <= 3", OF_ALL),
        ("(SELECT uid FROM t QUALIFY ROW_NUMBER() OVER (PARTITION BY uid ORDER BY id) <= 3 OR x = 2) q", OF_ALL),
        (f"{ROWS} n JOIN v ON v.uid = n.uid WHERE n.rn <= 1", OF_ALL),
        (f"v JOIN {ROWS} n ON v.uid = n.uid AND v.y = n.rn WHERE n.rn <= 3", OF_ALL),
        (f"{ROWS} n JOIN {ROWS} m ON m.uid = n.uid AND m.rn = n.rn + 1 WHERE n.rn <= 3", 3),
        (f"{ROWS} n FULL JOIN {ROWS} m ON m.uid = n.uid AND m.rn = n.rn WHERE n.rn <= 3 OR m.rn = 7", OF_ALL),
    ],
)
def test_as_many_rows_count_as_pass(pair: Pair, folder: Path, rows: str, norm: int) -> None:
    sql = f"SELECT COUNT(*) FROM {rows}"
    (moved,) = pair.check(sql)
    assert moved["norm"] == norm
    ((_, with_person, _, _),) = pair.exact(pair.sides[0].compile(sql))
    with duckdb.connect(folder / "with.duckdb", read_only=True) as plain:
        assert [(with_person["n1"][0].as_py(),)] == plain.execute(sql).fetchall()
