"""A condition that is no truth value: the engine would cast each row's value, and raise on the first that is none.

That it raises is one exact bit about a row: `WHERE CASE WHEN person = 7 THEN 'x' ELSE 'true' END` fails where person 7
is there. So text and dates are no conditions, wherever one stands, and the IR takes no other type than BOOLEAN.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from sqlglot import exp

from dpsql.compile.ir import Facts, Filter, Join, JoinKind, Mark, Measure, Scalar, Scan, Statistic
from dpsql.errors import Error
from dpsql.policy.facts import Kind, SqlType
from dpsql.session import Session

VALUES = ("name", "'x'", "seen", "DATE '2024-01-01'", "CASE WHEN uid = 7 THEN 'x' ELSE 'true' END", "UPPER(name)")
PLACES = (
    "SELECT COUNT(*) FROM patients WHERE {}",
    "SELECT COUNT(*) FROM patients WHERE ({})",
    "SELECT COUNT(*) FROM patients WHERE age > 3 AND {}",
    "SELECT COUNT(*) FROM patients WHERE age > 3 OR NOT ({})",
    "SELECT COUNT(*) FILTER (WHERE {}) FROM patients",
    "SELECT COUNT(age) FILTER (WHERE {}) FROM patients",
    "SELECT SUM(age) FILTER (WHERE {}) FROM patients",
    "SELECT COUNT(DISTINCT uid) FILTER (WHERE {}) FROM patients",
    "SELECT COUNT_IF({}) FROM patients",
    "SELECT SUM(CASE WHEN {} THEN 1 END) FROM patients",
    "SELECT SUM(IF({}, 1, 2)) FROM patients",
    "SELECT COUNT(*) FROM patients p JOIN regions r ON p.region = r.region AND {}",
    "SELECT COUNT(*) FROM patients p LEFT JOIN regions r ON p.region = r.region AND {}",
    "SELECT COUNT(*) FROM (SELECT {} AS c FROM patients) t WHERE c",
    "SELECT COUNT(*) FROM (SELECT * FROM patients WHERE {}) t",
)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("value", VALUES)
def test_text_and_dates_are_no_conditions(place: str, value: str, clinic_session: Session) -> None:
    before = clinic_session.budget()
    with pytest.raises(Error, match="DP232"):
        clinic_session.execute(place.format(value))
    assert clinic_session.budget() == before


def test_numbers_are_as_in_duckdb(clinic_session: Session) -> None:
    for value in ("age", "cost", "1.5", "NULL", "age - age"):
        clinic_session.execute(f"SELECT COUNT(*) FROM patients WHERE {value}")


def test_the_ir_takes_no_other_type() -> None:
    """Should a pass forget to ask, nothing is answered."""
    scan, text = Scan("patients", "p", public=False), Scalar(exp.Literal.string("x"), Facts(SqlType(Kind.VARCHAR)))
    makers: list[Callable[[], object]] = [
        lambda: Filter(scan, text),
        lambda: Join(JoinKind.INNER, scan, scan, text),
        lambda: Mark(scan, scan, text, "m"),
        lambda: Measure("a1", Statistic.ROWS, text, "COUNT(*)"),
        lambda: Measure("a1", Statistic.UNITS, text, "COUNT(DISTINCT uid)"),
    ]
    for make in makers:
        with pytest.raises(Error, match="DP901"):
            make()
