"""Whether a statement fails must not hang on a row: that it does would be one exact bit about that row.

Before it filters: DuckDB merges the conditions of a query and of the subquery below it into one, and begins with the
cheapest. So a value may be computed of rows for which the inner condition is not true: no proof that it cannot overflow
may rest on that condition, whether it speaks of the ends of a column or of its being there.

Only for some values: what is computed has a type and a range by proof, from the ends that values can have.

Only where there is a row: what DuckDB finds out when it runs, and not when it binds, fails over nobody's rows least of
all. So nothing that the analyst writes reaches it that it could still refuse then.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dpsql.compile import choices
from tests.attacks.neighbours import Pair

PEOPLE = "CREATE TABLE t AS SELECT i AS uid, 1 + i % 100 AS x, i % 1000 AS y FROM range(3000) r(i)"
PERSON = "INSERT INTO t VALUES (9999, NULL, 9000000000000000000)"
POLICY = """\
[tables.t]
unit = "uid"
max_rows_per_unit = 3
[tables.t.columns]
uid = {}
x = { bounds = [0, 100] }
y = {}
"""
DEAR = "length(upper(lower(CAST(x AS VARCHAR)))) + x > 0"
"""True wherever x is there, and dearer than what is asked of the subquery's rows."""


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    with Pair(tmp_path_factory.mktemp("pair"), PEOPLE, PERSON, POLICY) as made:
        yield made


def asked(value: str) -> str:
    return f"SELECT COUNT(*) FROM (SELECT {value} AS z FROM t WHERE {DEAR}) q WHERE z > 5"


@pytest.mark.parametrize(
    "value",
    [
        "LEAST(x, GREATEST(y, 0)) * 1000000000000",
        "LEAST(GREATEST(y, 0), x) * 1000000000000",
        "LEAST(COALESCE(x, y), GREATEST(y, x)) * 1000000000000",
        "-GREATEST(x, LEAST(-y, 0)) * 1000000000000 + GREATEST(-x, LEAST(-y, 0)) * 1000000000000",
        "CASE WHEN x > 3 THEN LEAST(x, GREATEST(y, 0)) * 1000000000000 ELSE 7 END",
        "CAST('2024-01-01' AS DATE) + LEAST(x, GREATEST(y, 0))",
        "LEAST(x, GREATEST(y, 0)) << 40",
    ],
)
def test_no_value_of_a_row_that_is_left_out_fails(pair: Pair, value: str) -> None:
    test = asked(value) if "DATE" not in value else asked(value).replace("z > 5", "z > DATE '2024-01-05'")
    assert pair.ask(test).outcome == "answered"


def test_one_that_fails_is_found(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a proof that takes a column for there because WHERE says so."""
    monkeypatch.setattr(choices, "_is_there", lambda _: True)
    with pytest.raises(AssertionError, match="the neighbours differ"):
        pair.ask(asked("LEAST(x, GREATEST(y, 0)) * 1000000000000"))


@pytest.mark.parametrize("value", ["CAST(acos({}) AS BIGINT)", "CAST(asin({}) * 10 AS DECIMAL(9, 2))"])
def test_a_quotient_that_is_rounded_up_fails_for_nobody(pair: Pair, value: str) -> None:
    """21 / 0.7 is 30.000000000000004 of DOUBLEs, for who has no more than 0.7 alone."""
    cosine = "21 / GREATEST(CAST(x AS DECIMAL(9, 2)), 0.7) / 30"
    assert pair.ask(f"SELECT COUNT(*) FROM t WHERE {value.format(cosine)} < 500").outcome == "answered"


MONEY = (
    "CREATE TABLE t AS SELECT i % 50 AS uid, ['a', 'b'][1 + i % 2] AS k, i::DECIMAL(18, 6) AS x FROM range(200) r(i)"
)
RICH = "INSERT INTO t VALUES (999, 'a', 9000000), (999, 'b', -9000000)"
WIDE = """\
[tables.t]
unit = "uid"
max_rows_per_unit = 20
max_groups_per_unit = 2
max_rows_per_group = 5
[tables.t.columns]
uid = {}
k = { values = ["a", "b"] }
x = { bounds = [-10_000_000, 10_000_000] }
"""


@pytest.mark.parametrize("strategy", ["", "rows", "late", "cells", "rescale"])
def test_a_sum_of_decimals_fails_for_no_large_one(tmp_path: Path, strategy: str) -> None:
    """9,000,000.000000 has 13 digits, and 19 as a whole number of millionths."""
    with Pair(tmp_path, MONEY, RICH, WIDE) as wide:
        wide.settings({"strategy": strategy} if strategy else {})
        for items in ("SUM(x)", "AVG(x)", "COUNT(x), SUM(x)", "VAR_POP(x)"):
            sql = f"SELECT k, {items} FROM t GROUP BY k"
            assert wide.ask(sql).outcome == "answered"
            wide.check(sql)
        inner = "SELECT uid, AVG(CAST(x AS DECIMAL(38, 6))) AS m FROM t GROUP BY uid"
        assert wide.ask(f"SELECT COUNT(*) FROM ({inner}) q WHERE m > 5").outcome == "answered"


FRAMES = ("ROWS BETWEEN {} PRECEDING AND CURRENT ROW", "GROUPS BETWEEN CURRENT ROW AND {} FOLLOWING")


@pytest.mark.parametrize("frame", FRAMES)
@pytest.mark.parametrize("number", [2**31, 2**63, 10**30, 10**50, "9" * 5_000])
def test_a_frame_that_no_row_could_have_is_refused(pair: Pair, frame: str, number: object) -> None:
    """2^63 preceding rows are an error, but over no rows at all."""
    window = f"SUM(x) OVER (PARTITION BY uid ORDER BY x {frame.format(number)})"
    before = pair.sides[0].budget()
    asked = f"SELECT COUNT(*) FROM (SELECT {window} AS s FROM t WHERE uid = 9999) q WHERE s > 5"
    assert pair.ask(asked).outcome == "DP222"
    assert pair.sides[0].budget() == before


@pytest.mark.parametrize("frame", FRAMES)
@pytest.mark.parametrize("number", [0, 2**31 - 1])
def test_a_frame_that_a_row_may_have_is_answered(pair: Pair, frame: str, number: int) -> None:
    window = f"SUM(x) OVER (PARTITION BY uid ORDER BY x {frame.format(number)})"
    assert pair.ask(f"SELECT COUNT(*) FROM (SELECT {window} AS s FROM t) q WHERE s > 5").outcome == "answered"
