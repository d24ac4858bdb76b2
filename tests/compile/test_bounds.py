"""However often a table is joined with itself on the unit, its rows of one unit meet in a bounded number of ways."""

from __future__ import annotations

from itertools import accumulate
from math import prod
from operator import mul

import pytest
from sqlglot import exp, parse_one

from dpsql.compile.bounds import limited
from dpsql.compile.ir import Facts, Join, JoinKind, Mark, Relation, Scalar, Scan
from dpsql.compile.limits import MOST_JOINED, MOST_ROWS, WORST_CASE
from dpsql.compile.relations import scans
from dpsql.errors import NotSupportedError
from dpsql.policy.facts import Kind, SqlType

TRUE = Scalar(exp.true(), Facts(SqlType(Kind.BOOLEAN), nullable=False))
R = 20


def scan(number: int) -> Scan:
    return Scan("visits", f"v{number}", public=False)


def joined(tables: int) -> Relation:
    relation: Relation = scan(0)
    for number in range(1, tables):
        relation = Join(JoinKind.INNER, relation, scan(number), TRUE)
    return relation


def condition(text: str) -> Scalar:
    return Scalar(parse_one(text, dialect="duckdb"), Facts(SqlType(Kind.BOOLEAN)))


def marked(tests: int) -> Relation:
    relation: Relation = scan(0)
    for number in range(1, tests + 1):
        relation = Mark(relation, scan(number), condition(f"v{number}.day > v0.day"), f"m{number}")
    return relation


def limits_of(relation: Relation, rows: int = R, driving: int | None = None) -> list[int]:
    """What is left of W = 20 R in each scan."""
    most = {s.alias: WORST_CASE * rows for s in scans(relation)}
    cut = limited(relation, most, {} if driving is None else {"v0": driving}, None)
    limits = [s.limit for s in scans(cut)]
    return [limit for limit in limits if limit is not None]


@pytest.mark.parametrize("tables", range(2, 12))
def test_joins_together_look_at_no_more_pairs(tables: int) -> None:
    limits = limits_of(joined(tables))
    assert len(limits) == tables
    assert sum(list(accumulate(limits, mul))[1:]) <= MOST_JOINED
    more = [limit + 1 for limit in limits]
    assert prod(limits) == prod([WORST_CASE * R] * tables) or sum(list(accumulate(more, mul))[1:]) > MOST_JOINED


@pytest.mark.parametrize("tests", [1, 2, 10, 100])
def test_exists_counts_for_each_time_it_is_asked(tests: int) -> None:
    first, *others = limits_of(marked(tests), rows=500)
    assert sum(first * other for other in others) <= MOST_JOINED


@pytest.mark.parametrize(
    "text", ["TRUE", "v1.day = v0.day", "v1.day = v0.day + CAST(1 AS BIGINT) AND v0.kind = lower(v1.kind)"]
)
def test_rows_that_are_looked_for_by_equality_meet_their_bucket_once(text: str) -> None:
    assert limits_of(Mark(scan(0), scan(1), condition(text), "m"), rows=5000) == [100_000, 100_000]


@pytest.mark.parametrize(
    "text",
    [
        "v1.day <> v0.day",
        "v1.day + v0.day = 5",
        "v1.day - v0.day = v0.fee",
        "v1.day = v0.day OR v1.kind = v0.kind",
        "v1.day = v0.day AND v1.fee > v0.fee",
        "v0.day = v0.fee",
        "v1.day = 5",
        "v1.day IS NOT DISTINCT FROM v0.day",
        "v1.day = v0.day % CAST(10 AS BIGINT)",
        "v1.day = v0.day + CAST(1.0e0 AS DOUBLE)",
        "v1.day = v0.day + v0.day",
        "v1.day = v0.day AND lower(v0.kind) = v1.kind",
        "CAST(v1.day AS DOUBLE) = CAST(v0.day AS DOUBLE)",
    ],
)
def test_rows_that_are_looked_for_in_another_way_are_tried_one_by_one(text: str) -> None:
    first, second = limits_of(Mark(scan(0), scan(1), condition(text), "m"), rows=5000)
    assert first * second <= MOST_JOINED


@pytest.mark.parametrize("several", ["inside", "nested"])
def test_several_relations_may_be_joined_in_another_order(several: str) -> None:
    found = condition("v1.day = v0.day")
    looked_up = Join(JoinKind.INNER, scan(1), scan(2), condition("v1.day = v2.day"), unique=True)
    right = looked_up if several == "inside" else Mark(scan(1), scan(2), TRUE, "n")
    first, second, _ = limits_of(Mark(scan(0), right, found, "m"), rows=5000)
    assert first * second <= MOST_JOINED


def test_a_scan_alone_and_a_look_up_are_not_cut_by_joins() -> None:
    rows = MOST_ROWS // WORST_CASE
    assert limits_of(scan(0), rows) == [MOST_ROWS]
    looked_up = Join(JoinKind.LEFT, scan(0), Scan("visits", "v1", public=False, many=False), TRUE)
    assert limits_of(looked_up, rows) == [MOST_ROWS]
    assert limits_of(Join(JoinKind.LEFT, scan(0), scan(1), TRUE, unique=True), rows) == [MOST_ROWS, MOST_ROWS]


def test_a_driving_scan_keeps_its_limit() -> None:
    assert limits_of(joined(2), driving=R) == [R, WORST_CASE * R]
    assert limits_of(joined(2), rows=5000, driving=5000) == [5000, MOST_JOINED // 5000]


def test_what_no_cut_can_bound_is_refused() -> None:
    with pytest.raises(NotSupportedError, match=r"^DP223: rows of one unit could meet in more than 1,000,000 ways"):
        limits_of(Mark(scan(0), scan(0), condition("v0.day > v0.fee"), "m"), driving=1001)
    with pytest.raises(NotSupportedError, match=r"^DP223: .* more than 10,000,000 ways"):
        limits_of(scan(0), driving=MOST_ROWS + 1)
