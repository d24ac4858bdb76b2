"""Calls of other databases are told from names that are spelled as they are."""

from __future__ import annotations

import pytest

from dpsql.compile.foreign import refuse_foreign
from dpsql.compile.parse import parse
from dpsql.compile.scan import tokenize
from dpsql.errors import Error


@pytest.mark.parametrize(
    "sql",
    [
        "WITH decode(a) AS (SELECT 1) SELECT a FROM decode",
        "WITH t AS (SELECT 2 AS b), convert (a, b) AS (SELECT 1, 2) SELECT a FROM convert",
        "WITH RECURSIVE decode(a) AS (SELECT 1) SELECT a FROM decode",
        "SELECT a FROM t decode (a)",
        'SELECT a FROM "t" decode (a)',
        "SELECT a FROM (SELECT 1) iif(a)",
        "SELECT a FROM (SELECT 1) AS iif(a)",
        "SELECT truncate, decode AS convert FROM t WHERE t.decode IN (1, 2) -- decode(x)",
        "SELECT 'iif(1)' /* convert(x) */ FROM t",
    ],
)
def test_a_name_is_no_call(sql: str) -> None:
    parse(sql)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT decode(a) FROM t",
        "SELECT COUNT(decode(a)) FROM t",
        "SELECT x, -decode(a, 1) AS b FROM t",
        "SELECT 1 FROM t WHERE NOT decode(a)",
        "SELECT CASE WHEN decode(a) THEN decode(b) ELSE decode(c) END FROM t",
        "WITH t AS (SELECT decode(a) AS b FROM u), v AS (SELECT 1) SELECT b FROM t",
        "SELECT 1 FROM t JOIN u ON decode(t.a) = u.a GROUP BY decode(a)",
    ],
)
def test_a_call_is_refused(sql: str) -> None:
    with pytest.raises(Error, match="DP230: decode is not answered"):
        parse(sql)


def test_names_of_many_ctes_take_no_time_each() -> None:
    refuse_foreign(tokenize("WITH t AS (SELECT 1)" + ", decode(a) AS (SELECT 1)" * 10_000 + " SELECT 1"))
