"""The DB-API on the real product: types, fetch methods, receipts, parameters, commands."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pyarrow as pa
import pytest

import dpsql
from tests.patience import until

COUNT = "SELECT COUNT(*) FROM patients"


def answered(connection: dpsql.Connection, sql: str, parameters: Any = None) -> list[tuple[Any, ...]]:
    return connection.execute(sql, parameters).fetchall()


def test_values_arrive_as_pythons_own_types(connection: dpsql.Connection) -> None:
    cursor = connection.execute(
        "SELECT 1 AS i, 1.5 AS d, CAST(1.5 AS DOUBLE) AS f, 'it''s' AS s, TRUE AS b, DATE '2024-02-29' AS day,"
        " TIMESTAMP '2024-02-29 10:11:12.5' AS ts, NULL AS nothing"
    )
    moment = datetime(2024, 2, 29, 10, 11, 12, 500_000)
    (row,) = cursor.fetchall()
    assert row == (1, Decimal("1.5"), 1.5, "it's", True, date(2024, 2, 29), moment, None)
    assert [type(v) for v in row] == [int, Decimal, float, str, bool, date, datetime, type(None)]
    assert [(d[0], d[1]) for d in cursor.description or ()] == [
        ("i", "BIGINT"), ("d", "DECIMAL"), ("f", "DOUBLE"), ("s", "VARCHAR"), ("b", "BOOLEAN"), ("day", "DATE"),
        ("ts", "TIMESTAMP"), ("nothing", "NULL"),
    ]  # fmt: skip
    types: Sequence[Any] = [d[1] for d in cursor.description or ()]
    assert all(code == dpsql.NUMBER for code in types[:3])
    assert types[3] == dpsql.STRING
    assert all(code == dpsql.DATETIME for code in types[5:7])
    assert cursor.receipt is not None
    assert cursor.receipt.epsilon == 0


def test_released_values_have_types_fixed_by_the_policy(connection: dpsql.Connection) -> None:
    cursor = connection.execute("SELECT COUNT(*) AS n, SUM(age) AS years, AVG(age) AS mean FROM patients")
    (row,) = cursor.fetchall()
    assert [type(v) for v in row] == [int, int, float]
    (fees,) = connection.execute("SELECT SUM(fee) AS fees FROM visits").fetchone() or ()
    assert type(fees) is Decimal
    assert fees.as_tuple().exponent == -2


def test_fetching_and_arrow(connection: dpsql.Connection) -> None:
    cursor = connection.execute("SELECT region FROM regions ORDER BY region")
    assert cursor.rowcount == 8
    assert cursor.fetchone() == ("R1",)
    assert cursor.fetchmany(2) == [("R2",), ("R3",)]
    assert next(cursor) == ("R4",)
    assert [region for (region,) in cursor] == ["R5", "R6", "R7", "R8"]
    assert cursor.fetchone() is None
    assert cursor.fetchall() == []
    table = cursor.to_arrow()
    assert isinstance(table, pa.Table)
    assert table.column("region").to_pylist() == [f"R{i}" for i in range(1, 9)]
    assert "~" not in "".join(connection.execute(COUNT).to_arrow().column_names)
    assert "<table" in connection.execute(COUNT)._repr_html_()


def test_the_receipt_says_price_rest_and_noise(connection: dpsql.Connection) -> None:
    cursor = connection.execute(f"{COUNT} WHERE age > 30")
    receipt = cursor.receipt
    assert receipt is not None
    assert (receipt.epsilon, receipt.delta, receipt.remaining_epsilon, receipt.remaining_delta) == (1, 0, 999, 0)
    (column,) = receipt.columns
    assert (column.name, column.epsilon, column.scale, column.half_width) == ("count_star()", Fraction(1), 3.0, 9.0)
    assert cursor.half_widths == [[9.0]]
    assert receipt.releases == ("released_1",)
    grouped = connection.execute("SELECT region, COUNT(*) AS n, AVG(age) AS a FROM patients GROUP BY region")
    region, counts, means = grouped.half_widths
    assert region is None
    assert counts is not None
    assert means is not None
    assert len(counts) == len(means) == grouped.rowcount
    assert all(width and width > 0 for width in [*counts, *means])
    ratio = next(c for c in grouped.receipt.columns if c.name == "a")  # type: ignore[union-attr]
    assert (ratio.scale, ratio.half_width is None or ratio.half_width > 0) == (None, True)


def test_question_marks(connection: dpsql.Connection) -> None:
    for sql, parameters in (
        (f"{COUNT} WHERE cost < ?", [Decimal("33.50")]),
        (f"{COUNT} WHERE seen > ?", [date(2024, 3, 1)]),
        (f"{COUNT} WHERE name = ?", ["O'Brien \"--\" /* ; $1 ?"]),
        (f"{COUNT} WHERE age > ? AND age < ?", (30, 60)),
        (f"{COUNT} WHERE cost > ?", [1.25e1]),
        (f"{COUNT} WHERE (age > 30) = ?", [True]),
        ("SELECT COUNT(*) FROM visits WHERE ts < ?", [datetime(2024, 1, 9, 12, 30)]),
        ("SELECT region, COUNT(*) AS n, ? AS tag FROM patients GROUP BY region HAVING COUNT(*) > ? LIMIT ?",
         ["it's", -10_000, 3]),
    ):  # fmt: skip
        assert answered(connection, sql, parameters), sql
    rows = answered(connection, "SELECT region, COUNT(*), ? FROM patients GROUP BY region LIMIT ?", ["it's", 3])
    assert len(rows) == 3
    assert {tag for _, _, tag in rows} == {"it's"}
    # The value is a literal of the same statement: the written form is the same release, and so free.
    first = answered(connection, f"{COUNT} WHERE cost < ?", [Decimal("33.50")])
    again = connection.execute(f"{COUNT} WHERE cost < 33.50")
    assert (again.fetchall(), again.receipt.epsilon) == (first, 0)  # type: ignore[union-attr]
    with pytest.raises(dpsql.InterfaceError, match=r"^DP003: "):
        connection.execute(f"{COUNT} WHERE name = ?", ["x"] * 2)


def test_named_parameters(connection: dpsql.Connection) -> None:
    first = answered(
        connection, f"{COUNT} WHERE seen > $since AND cost < $cost", {"since": date(2024, 3, 1), "cost": 5}
    )
    again = connection.execute(f"{COUNT} WHERE seen > ? AND cost < ?", [date(2024, 3, 1), 5])
    assert (again.fetchall(), again.receipt.epsilon) == (first, 0)  # type: ignore[union-attr]
    assert answered(connection, "SELECT $a || $b || $a AS t", {"a": "x'", "b": "-"}) == [("x'-x'",)]
    for parameters in (None, {}, {"since": 1}, {"low": 1, "high": 2}, [1]):
        with pytest.raises(dpsql.InterfaceError, match=r"^DP003: "):
            connection.execute(f"{COUNT} WHERE age > $low", parameters)


def test_an_explanation_is_explained(connection: dpsql.Connection, caplog: pytest.LogCaptureFixture) -> None:
    plain = connection.explain("SELECT COUNT(*) FROM patients WHERE age > ?", (3,))
    assert connection.explain("EXPLAIN SELECT COUNT(*) FROM patients WHERE age > ?", (3,)) == plain
    assert not caplog.records


def test_scripts_commands_and_executemany(connection: dpsql.Connection) -> None:
    cursors = connection.executescript(
        f"SET epsilon = 0.25; -- a comment; with a semicolon\n{COUNT};\nSELECT ';' AS s;\nSHOW BUDGET;\n;"
    )
    assert len(cursors) == 4
    assert cursors[1].receipt is not None
    assert cursors[1].receipt.epsilon == Fraction(1, 4)
    assert cursors[2].fetchall() == [(";",)]
    assert cursors[3].fetchall()[0] == ("clinic", "epsilon", "1000", "0.25", "999.75", "never", 3999)
    assert dict(answered(connection, "SHOW SETTINGS"))["epsilon"] == "0.25"
    connection.execute("RESET epsilon")
    assert dict(answered(connection, "SHOW SETTINGS"))["epsilon"] == "1"
    assert [row[0] for row in answered(connection, "SHOW TABLES")] == ["patients", "visits", "regions"]
    columns = answered(connection, "DESCRIBE patients")
    assert [row[:4] for row in columns[2:4]] == [("age", "BIGINT", "0", "120"), ("region", "VARCHAR", None, None)]
    assert connection.execute("SHOW TABLES").receipt is None
    with pytest.raises(dpsql.ProgrammingError, match=r"script|statement"):
        connection.executescript(f"{COUNT} WHERE age > 3;\n\nSELECT * FROM nowhere")
    assert connection.budget.spent_epsilon == Fraction(5, 4)
    many = connection.cursor().executemany(f"{COUNT} WHERE age > ?", [[41], [42]])
    assert many.rowcount == 2
    assert many.receipt is not None
    assert many.receipt.epsilon == 2
    assert connection.explain(f"{COUNT} WHERE age > ?", [41]).startswith("price: epsilon 1, delta 0\n")


LONG = "SELECT COUNT(*) AS n FROM " + ", ".join(f"regions r{i}" for i in range(11))


def test_another_thread_cancels_a_long_statement(connection: dpsql.Connection) -> None:
    """8.6 billion rows of public tables: nothing is charged, and nothing but the cancel ends it in time."""
    engine = connection._session._engines.outer

    def stop() -> None:
        until(lambda: engine._running, "the statement runs")
        threading.Event().wait(0.2)
        connection.cancel()

    connection.explain(LONG)
    thread = threading.Thread(target=stop)
    thread.start()
    with pytest.raises(dpsql.OperationalError, match=r"^DP501: ") as caught:
        connection.execute(LONG)
    thread.join()
    assert "interrupted" in str(caught.value)
    assert connection.budget.statements == 0
    assert answered(connection, COUNT)
