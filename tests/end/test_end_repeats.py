"""What was paid for answers more than its own text: which questions are free after which, and what they cost else."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path

import duckdb
import pytest

import dpsql
from dpsql.errors import BudgetError
from dpsql.repeats.stored import loads
from tests.conftest import Clinic

BY_REGION = "SELECT region, COUNT(*) AS n, SUM(age) AS s FROM patients WHERE age > 20 GROUP BY region"
AFTER_BY_REGION = [
    "SELECT region, COUNT(*) FROM patients WHERE age > 20 GROUP BY region",
    "SELECT SUM(age), region FROM patients WHERE NOT age <= 20 GROUP BY region",
    "SELECT AVG(age), region FROM patients WHERE 20 < age GROUP BY region",
    "SELECT region, COUNT(*) FROM patients WHERE age > 20 AND region = 'R1' GROUP BY region",
    "SELECT region, COUNT(*) FROM patients WHERE region IN ('R1', 'R2') AND NOT NOT age > 20 GROUP BY region",
    "SELECT COUNT(*) FROM patients WHERE age > 20 AND (region = 'R1' OR 'R2' = region)",
    "SELECT AVG(age) FROM patients WHERE age > 20 AND region IN ('R2', 'R1')",
    "SELECT COUNT(*) FROM patients WHERE region = 'R1' AND age > 20",
    "WITH t AS (SELECT region, SUM(age) AS s FROM patients WHERE age > 20 GROUP BY 1) SELECT MAX(s) FROM t",
]
"""Each free after it: fewer columns, another spelling, a mean, some groups, all groups together."""

NEW_AFTER_BY_REGION = [
    "SELECT COUNT(*) FROM patients WHERE age > 20",
    "SELECT COUNT(*) FROM patients WHERE age > 20 AND region IS NOT NULL",
    "SELECT COUNT(*) FROM patients WHERE age > 20 AND region IN ('R1', 'R9')",
    "SELECT COUNT(*) FROM patients WHERE age > 20 AND NOT region IN ('R1', 'R2')",
    "SELECT region, COUNT(*) FROM patients WHERE age > 21 GROUP BY region",
    "SELECT region, COUNT(*) FROM patients GROUP BY region",
    "SELECT region, COUNT(*) FROM patients WHERE age > 20 OR region = 'R1' GROUP BY region",
    "SELECT region, COUNT(*) FROM patients WHERE age > 20 AND cost > 5 GROUP BY region",
    "SELECT region, COUNT(DISTINCT uid) FROM patients WHERE age > 20 GROUP BY region",
    "SELECT region, SUM(age + 1) FROM patients WHERE age > 20 GROUP BY region",
    "SELECT region, SUM(age, contribution_bounds_per_row => (0, 30)) FROM patients WHERE age > 20 GROUP BY region",
    "SELECT region, VAR_POP(age) FROM patients WHERE age > 20 GROUP BY region",
    "SELECT age > 30 AS old, COUNT(*) FROM patients WHERE age > 20 GROUP BY 1",
]


@pytest.fixture
def clinic(make_clinic: Callable[..., Clinic]) -> Clinic:
    """Under a budget that one test exhausts."""
    return make_clinic(epsilon="100", max_query_epsilon="100")


@pytest.fixture
def connection(clinic: Clinic) -> Iterator[dpsql.Connection]:
    """The clinic, whose regions are declared. One patient has another."""
    listed = ", ".join(f'"R{i}"' for i in range(1, 9))
    text = clinic.policy.read_text()
    clinic.policy.write_text(text.replace('{ references = "regions.region" }', f"{{ values = [{listed}] }}"))
    with dpsql.connect(clinic.policy, clinic.database) as opened:
        yield opened


def paid(connection: dpsql.Connection, sql: str) -> Fraction:
    receipt = connection.execute(sql).receipt
    assert receipt is not None
    return receipt.epsilon


@pytest.mark.parametrize("sql", AFTER_BY_REGION)
def test_free_after_groups(connection: dpsql.Connection, sql: str) -> None:
    assert paid(connection, BY_REGION) == 1
    assert connection._session.quote(sql, connection._session.quotes()).free
    assert connection.explain(sql).splitlines()[1].startswith("to pay: nothing")
    assert paid(connection, sql) == 0
    assert connection.budget.spent_epsilon == 1


@pytest.mark.parametrize("sql", NEW_AFTER_BY_REGION)
def test_new_after_groups(connection: dpsql.Connection, sql: str) -> None:
    assert paid(connection, BY_REGION) == 1
    assert paid(connection, sql) == 1


def test_only_what_is_new_is_paid_for(connection: dpsql.Connection) -> None:
    assert paid(connection, "SELECT region, COUNT(*) AS n FROM patients GROUP BY region") == 1
    counts = connection.execute("SELECT region, COUNT(*) AS n FROM patients GROUP BY region ORDER BY 1").fetchall()
    both = "SELECT region, COUNT(DISTINCT name) AS d, COUNT(*) AS n FROM patients GROUP BY region ORDER BY 1"
    said = connection.explain(both).splitlines()
    assert said[1:3] == [
        "to pay: epsilon 0.5, delta 0, since what was paid for is free",
        "  released_1, COUNT(*): the same question, ± 9 (95 %)",
    ]
    answer = connection.execute(both)
    assert answer.receipt is not None
    assert answer.receipt.epsilon == Fraction(1, 2)
    assert [(region, n) for region, _, n in answer.fetchall()] == counts
    assert [column.epsilon for column in answer.receipt.columns] == [Fraction(1, 2), 1]
    assert paid(connection, both) == 0


def test_sums_of_groups_are_the_sums_of_what_was_shown(connection: dpsql.Connection) -> None:
    rows = connection.execute("SELECT region, COUNT(*) AS n FROM patients GROUP BY region").fetchall()
    listed = ", ".join(repr(region) for region, _ in rows if region)
    total = connection.execute(f"SELECT COUNT(*) AS n FROM patients WHERE region IN ({listed})")
    assert total.receipt is not None
    assert total.fetchall() == [(sum(n for region, n in rows if region),)]
    (column,) = total.receipt.columns
    assert (column.epsilon, column.scale) == (1, None)
    assert column.half_width is not None
    assert 9 < column.half_width < 9 * len(rows)


def test_a_mean_is_the_released_sum_over_the_released_count(connection: dpsql.Connection) -> None:
    connection.execute("SET epsilon = 50")  # so that counts of some 25 are above 10 but once in 10^50 runs
    sql = (
        "SELECT region, COUNT(age) AS n, SUM(age) AS s FROM patients GROUP BY region HAVING COUNT(age) > 10 ORDER BY 1"
    )
    means = connection.execute(sql).fetchall()
    found = dict(connection.execute("SELECT region, AVG(age) FROM patients GROUP BY region").fetchall())
    assert means
    assert {region: found[region] for region, _, _ in means} == {
        region: pytest.approx(min(max(s / n, 0), 120), abs=2) for region, n, s in means
    }


@pytest.mark.parametrize("mean", ["REGR_AVGX(age, cost)", "REGR_AVGY(cost, age)"])
def test_a_mean_of_pairs_is_no_quotient_of_a_sum_and_a_count(connection: dpsql.Connection, mean: str) -> None:
    """It is of the rows that have both values, and is charged."""
    for sql in ("SELECT SUM(age), COUNT(age) FROM patients", "SELECT SUM(cost), COUNT(cost) FROM patients"):
        connection.execute(sql)
    receipt = connection.execute(f"SELECT {mean} AS m FROM patients").receipt
    assert receipt is not None
    assert receipt.epsilon > 0


def test_who_asks_for_more_pays(connection: dpsql.Connection) -> None:
    """More epsilon, a hint, or weights ask for less noise than is stored; less is answered by it. For the very same
    statement the difference is paid."""
    connection.execute("SET epsilon = 0.5")
    assert paid(connection, "SELECT COUNT(*), SUM(age) FROM patients") == Fraction(1, 2)
    assert paid(connection, "SELECT COUNT(*) FROM patients") == 0
    assert paid(connection, "SELECT COUNT(*, epsilon => 0.5) FROM patients") == Fraction(1, 2)
    connection.execute("SET epsilon = 0.1")
    assert paid(connection, "SELECT COUNT(*) FROM patients") == 0
    connection.execute("SET epsilon = 1")
    assert paid(connection, "SELECT COUNT(*) FROM patients") == Fraction(1, 2)
    assert paid(connection, "SELECT SUM(age) FROM patients") == 1


def test_noise_that_is_much_larger_is_no_answer(connection: dpsql.Connection) -> None:
    """Of a hundred and more groups the sum is more than ten times as far off."""
    assert paid(connection, "SELECT age, COUNT(*) FROM patients GROUP BY age") == 1
    assert paid(connection, "SELECT COUNT(*) FROM patients") == 1
    assert paid(connection, "SELECT COUNT(*) FROM patients WHERE age BETWEEN 20 AND 29") == 0


def test_repeats_are_free_in_an_empty_account_and_for_others(connection: dpsql.Connection, clinic: Clinic) -> None:
    paid(connection, BY_REGION)
    while (left := connection.budget.remaining_epsilon) > 0:
        connection.execute(f"SET epsilon = {min(left, 10)}")
        paid(connection, f"SELECT COUNT(*) FROM visits WHERE fee > {left}")
    with dpsql.connect(clinic.policy, clinic.database) as other:
        with pytest.raises(BudgetError, match="DP401"):
            other.execute("SELECT COUNT(*) FROM visits WHERE fee > 0.125")
        for sql in AFTER_BY_REGION:
            assert paid(other, sql) == 0


def test_groups_that_may_not_be_all_are_not_added_up(clinic: Clinic) -> None:
    """A patient's region that the public table does not have is in no group, but in the total."""
    with dpsql.connect(clinic.policy, clinic.database) as opened:
        assert paid(opened, BY_REGION) == 1
        assert paid(opened, "SELECT region, COUNT(*) FROM patients WHERE age > 20 AND region = 'R1' GROUP BY 1") == 0
        assert paid(opened, "SELECT COUNT(*) FROM patients WHERE age > 20") == 1


def test_a_dashboard_pays_once(connection: dpsql.Connection) -> None:
    asked = [f"SELECT region, COUNT(*) AS n FROM patients WHERE age > {i} GROUP BY region" for i in range(20)]
    for _ in range(3):
        for sql in asked:
            connection.execute(sql)
    assert connection.budget.spent_epsilon == 20


def test_a_script_is_priced_with_what_it_would_leave(connection: dpsql.Connection) -> None:
    quotes = connection._session.quotes()
    prices = [connection._session.quote(sql, quotes).charged.epsilon for sql in [BY_REGION, *AFTER_BY_REGION]]
    assert prices == [1] + [0] * len(AFTER_BY_REGION)
    assert connection.budget.spent_epsilon == 0


def test_the_answer_to_a_choice_is_given_again(connection: dpsql.Connection) -> None:
    sql = "SELECT region FROM patients GROUP BY region ORDER BY COUNT(*) DESC LIMIT 1"
    first = connection.execute(sql).fetchall()
    assert connection.execute(sql.lower()).fetchall() == first
    assert paid(connection, sql) == 0
    assert paid(connection, sql.replace("LIMIT 1", "LIMIT 2")) > 0


def test_a_stored_answer_is_the_one_that_was_stored_or_an_error(connection: dpsql.Connection) -> None:
    """SQLite gives back damaged bytes of a value without a word."""
    paid(connection, "SELECT COUNT(*) FROM patients")
    with sqlite3.connect(Path(connection._session._ledger._file.path)) as file:
        ((stored,),) = file.execute("SELECT answer FROM release").fetchall()
    assert loads(stored).record.slots
    damaged = [stored[:at] + bytes([stored[at] ^ 1]) + stored[at + 1 :] for at in range(0, len(stored), 7)]
    for content in [*damaged, stored[:40], stored[:-1], b""]:
        with pytest.raises(BudgetError, match="DP403"):
            loads(content)


def test_what_the_page_says_is_free_is_free(clinic: Clinic, tmp_path: Path) -> None:
    """The statements of docs/sql.md, over a table with the same columns."""
    page = (Path(__file__).parents[2] / "docs" / "sql.md").read_text(encoding="utf-8")
    section = page.partition("## What is free: what was paid for\n")[2].partition("\n## ")[0]
    blocks = re.findall(r"```sql run\n(.*?)```", section, re.S)
    first, *others = [sql for block in blocks for sql in block.split(";\n") if sql.strip()]
    with duckdb.connect(str(clinic.database)) as connection:
        connection.execute(
            "CREATE TABLE transactions AS SELECT uid AS household_id, uid % 9 AS week, 1 AS quantity FROM visits"
        )
    table = """
[tables.transactions]
unit = "household_id"
max_rows_per_unit = 30
[tables.transactions.columns]
household_id = {}
week = { bounds = [1, 53] }
quantity = { bounds = [0, 10] }
"""
    clinic.policy.write_text(clinic.policy.read_text() + table)
    with dpsql.connect(clinic.policy, clinic.database) as opened:
        assert paid(opened, first) == 1
        for sql in others:
            if not sql.startswith("EXPLAIN"):
                assert paid(opened, sql) == 0, sql
        assert len(others) == 5


def test_a_script_costs_no_more_than_its_quote(connection: dpsql.Connection) -> None:
    """What is stored of a release in part is not stored of it as a whole, and two releases that read one which is new
    are two, whatever they ask."""
    by_age = "SELECT age, seen IS NULL AS u, COUNT(*) FROM patients WHERE age BETWEEN 0 AND 59 GROUP BY 1, 2"
    reading = "(SELECT COUNT(*) FROM patients WHERE region IN (SELECT r FROM t WHERE n > 3))"
    script = [
        "SELECT seen IS NULL AS u, COUNT(*), COUNT(DISTINCT name) FROM patients WHERE age BETWEEN 0 AND 59 GROUP BY 1",
        "SELECT COUNT(*) FROM patients WHERE age BETWEEN 0 AND 59",
        f"WITH t AS (SELECT region AS r, COUNT(*) AS n FROM patients GROUP BY 1) SELECT {reading} AS a, {reading} AS b",
    ]
    assert paid(connection, by_age) == 1
    quotes = connection._session.quotes()
    prices = [connection._session.quote(sql, quotes).charged.epsilon for sql in script]
    assert prices == [paid(connection, sql) for sql in script] == [Fraction(1, 2), 1, 1]


MEANS = "AVG(fee, contribution_bounds_per_group => (1, 50))"


def test_a_mean_of_means_is_no_mean(connection: dpsql.Connection) -> None:
    """Nor is the number of units in it one of rows."""
    assert paid(connection, f"SELECT {MEANS} FROM visits") == 1
    assert paid(connection, f"SELECT {MEANS} + 1 FROM visits") == 0
    assert paid(connection, "SELECT AVG(fee) FROM visits") == 1
    assert paid(connection, "SELECT COUNT(fee), SUM(fee) FROM visits WHERE fee > 0") == 1
    assert paid(connection, f"SELECT {MEANS} FROM visits WHERE fee > 0") == 1


def test_where_groups_are_cut_a_mean_is_no_quotient(clinic: Clinic) -> None:
    """Nor is a sum read from a mean's vector: that is scaled as a whole, and a sum is clamped."""
    text = clinic.policy.read_text()
    clinic.policy.write_text(text.replace("max_groups_per_unit = 1", "max_groups_per_unit = 1\nmax_rows_per_group = 1"))
    half, of = "epsilon => 0.5", "FROM visits WHERE fee > 1 GROUP BY 1"
    with dpsql.connect(clinic.policy, clinic.database) as opened:
        opened.execute("SET strategy = cells")
        assert paid(opened, f"SELECT clinic IS NULL AS k, SUM(fee, {half}), COUNT(fee) {of}") == 1
        assert paid(opened, f"SELECT clinic IS NULL AS k, AVG(fee) {of}") == 1
        of = of.replace("1", "2", 1)
        assert paid(opened, f"SELECT clinic IS NULL AS k, AVG(fee) {of}") == 1
        assert paid(opened, f"SELECT clinic IS NULL AS k, SUM(fee) {of}") == 1
