"""DuckDB's own reading of generated SQL: what passes, and everything else."""

from __future__ import annotations

import threading

import pytest

from dpsql.errors import InternalError
from dpsql.vault.second_parser import Mistake, check, mistake, read

TABLES = frozenset({"priv.orders", "pub.nation", "pub.s.t", "released_1"})
FUNCTIONS = frozenset(
    {"count_star", "count", "sum", "+", "-", "*", "~~", "date_part", "row_number", "list_value", "unnest"}
)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT count(*) FROM priv.orders AS o WHERE o.a BETWEEN 1 AND 2 AND o.b IN (1, 2) AND NOT o.c IS NULL",
        'SELECT "o"."a" + 1, -o.b FROM "priv"."orders" AS o JOIN pub."s.t" AS t ON o.a = t.a',
        "WITH q AS MATERIALIZED (SELECT 1 AS a), r AS (SELECT a FROM q) SELECT * FROM r UNION ALL SELECT 2",
        "SELECT * FROM (WITH q AS (SELECT 1) SELECT * FROM q) AS d, (VALUES (1), (2)) AS v(x)",
        "SELECT CASE WHEN a LIKE 'x%' THEN CAST(b AS DECIMAL(10, 2)) ELSE TRY_CAST(c AS DATE) END FROM released_1",
        "SELECT sum(a) FILTER (WHERE b), sum(a) OVER (PARTITION BY b ORDER BY c ROWS 1 PRECEDING) FROM released_1",
        "SELECT DISTINCT a FROM pub.nation GROUP BY ROLLUP (a) HAVING count(*) > 1 ORDER BY a DESC NULLS LAST LIMIT 3",
        "SELECT a FROM released_1 QUALIFY row_number() OVER (ORDER BY a) = 1",
        "SELECT EXISTS (SELECT 1), a IN (SELECT b FROM pub.nation), a > ALL (SELECT 1), COALESCE(a, b) FROM released_1",
        "SELECT * FROM pub.nation LEFT JOIN released_1 USING (a) FULL JOIN pub.nation AS n ON TRUE",
        "SELECT * FROM pub.nation AS n SEMI JOIN released_1 AS r ON n.a = r.a ANTI JOIN pub.nation AS m ON TRUE",
        "SELECT x FROM unnest([1, 2]) AS u(x)",
        "SELECT EXTRACT(year FROM d), 'FROM secret', \"user\".a FROM released_1 AS \"user\"",
        "SELECT a AS \"user\" FROM released_1 ORDER BY \"user\"",
    ],
)  # fmt: skip
def test_these_pass(sql: str) -> None:
    check(sql, TABLES, FUNCTIONS)


@pytest.mark.parametrize(
    ("sql", "what"),
    [
        # other tables
        ("SELECT * FROM priv.customer", "priv.customer"),
        ("SELECT * FROM orders", "orders"),
        ("SELECT * FROM priv.main.orders", "a table of a schema"),
        ('SELECT * FROM "priv.orders"', ""),
        ('SELECT * FROM "pub.s".t', "a table of a schema"),
        ("SELECT (SELECT max(a) FROM secret) FROM released_1", "secret"),
        ("SELECT * FROM 'file.csv'", ""),
        ("SELECT 1 FROM q, (WITH q AS (SELECT 1) SELECT * FROM q)", "q"),
        ("WITH r AS (SELECT * FROM q), q AS (SELECT 1) SELECT * FROM r", "q"),
        ("WITH orders AS (SELECT 1) SELECT * FROM priv.customer", "priv.customer"),
        # other functions
        ("SELECT max(a) FROM released_1", "max"),
        ("SELECT a || b FROM released_1", "||"),
        ("SELECT getenv('HOME')", "getenv"),
        ("SELECT main.sum(1)", "a qualified function"),
        ("SELECT a.sum() FROM released_1", "a qualified function"),
        ("SELECT current_user", "current_user"),
        ("SELECT current_timestamp FROM released_1", "current_timestamp"),
        ("SELECT a[1] FROM released_1", "array_extract"),
        ("SELECT nth_value(a, 2) OVER (ORDER BY a) FROM released_1", "nth_value"),
        # table functions
        ("SELECT * FROM read_csv('x')", "a table function"),
        ("SELECT * FROM range(3)", "range"),
        ("SELECT * FROM query('SELECT 1')", "a table function"),
        ("SELECT * FROM duckdb_tables()", "a table function"),
        # not one SELECT
        ("", "not one SELECT"),
        ("SELECT 1; SELECT 2", "not one SELECT"),
        ("SELECT", "not one SELECT"),
        ("DELETE FROM released_1", "not one SELECT"),
        ("COPY (SELECT 1) TO 'x'", "not one SELECT"),
        ("EXPLAIN SELECT 1", "not one SELECT"),
        ("PIVOT released_1 ON a USING sum(b)", ""),
        ("SHOW TABLES", "show_ref"),
        ("DESCRIBE released_1", "show_ref"),
        ("SUMMARIZE released_1", "show_ref"),
        # constructs that are never generated
        ("SELECT * FROM (DESCRIBE released_1)", "show_ref"),
        ("SELECT ?", "parameter"),
        ("SELECT $x", "parameter"),
        ("SELECT #1 FROM released_1", "positional_reference"),
        ("SELECT COLUMNS('a.*') FROM released_1", "star columns"),
        ("SELECT * EXCLUDE (a) FROM released_1", "star exclude_list"),
        ("SELECT TRY(a) FROM released_1", "operator_try"),
        ("SELECT a COLLATE nocase FROM released_1", "collate"),
        ("SELECT list_value(x -> x + 1)", "lambda"),
        ("SELECT CAST(a AS mytype) FROM released_1", "a type"),
        ("SELECT CAST(a AS main.integer) FROM released_1", ""),
        ("SELECT a FROM released_1 TABLESAMPLE 10%", "sample"),
        ("SELECT a FROM released_1 USING SAMPLE 3", "sample"),
        ("SELECT * FROM released_1 POSITIONAL JOIN pub.nation", "ref_type"),
        ("SELECT * FROM released_1 ASOF JOIN pub.nation ON released_1.a >= nation.a", "ref_type"),
        ("SELECT * FROM released_1 AT (VERSION => 1)", "at_clause"),
        ("WITH RECURSIVE r AS (SELECT 1 UNION ALL SELECT * FROM r) SELECT * FROM r", "recursive_cte_node"),
        ("SELECT 1 UNION BY NAME SELECT 2", "setop_type"),
    ],
)
def test_these_do_not(sql: str, what: str) -> None:
    with pytest.raises(InternalError) as caught:
        check(sql, TABLES, FUNCTIONS)
    assert caught.value.code == "DP901"
    assert what in str(caught.value)


def test_it_sees_through_what_sqlglot_writes_out_raw() -> None:
    """A unit and a quoted name that close their own quotes: to DuckDB they are SQL."""
    seen = read("SELECT EXTRACT(year FROM (SELECT max(d) FROM priv.secret)) FROM released_1")
    assert seen.tables == {"priv.secret", "released_1"}
    assert seen.functions == {"date_part", "max"}


def test_deep_nesting_is_refused_not_crashed_on() -> None:
    for sql in ("SELECT " + "(" * 5000 + "1" + ")" * 5000, "SELECT " + "-(" * 400 + "1" + ")" * 400):
        seen = read(sql)
        assert seen.strange or seen.functions <= {"-"}


def test_every_thread_has_a_parser_of_its_own() -> None:
    found: list[str] = []

    def ask(number: int) -> None:
        found.append(read(f"SELECT max(a) + {number} FROM t").strange)  # a text of its own: answers are kept by text

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [""] * 4


def test_what_was_seen_once_is_no_leave_for_other_tables() -> None:
    text = "SELECT max(a) FROM priv.t"
    for _ in range(2):
        check(text, frozenset({"priv.t"}), frozenset({"max"}))
        for tables, functions in (
            (frozenset({"pub.t"}), frozenset({"max"})),
            (frozenset({"priv.t"}), frozenset({"min"})),
        ):
            with pytest.raises(InternalError):
                check(text, tables, functions)


def test_a_mistake_is_told_with_its_place() -> None:
    """In characters, whatever stands before."""
    assert mistake("FROM t SELECT a WHERE b > ? -- é") is None
    assert mistake("SELECT 'é\U0001f986', a IS 3") == Mistake('syntax error at or near "3"', 18)
    assert mistake("SELECT a FROM") is not None
