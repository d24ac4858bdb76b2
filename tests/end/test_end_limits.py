"""What limits leave out is said under every answer that they are behind: no interval includes it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import dpsql
from dpsql.owner import prepare
from tests.conftest import Clinic

SAID = [
    ("SELECT COUNT(*) FROM visits", ("counts at most 3 rows of each patient",)),
    ("SELECT COUNT(*) FROM patients", ("counts at most 3 rows of each patient",)),
    (
        "SELECT clinic, COUNT(*) FROM visits GROUP BY clinic",
        ("counts at most 3 rows of each patient", "leaves out small groups"),
    ),
    ("SELECT COUNT(*) FROM (SELECT uid, COUNT(*) AS n FROM visits GROUP BY uid) t WHERE n > 1", ()),
    (
        "SELECT AVG(n) FROM (SELECT uid, COUNT(*) AS n FROM visits GROUP BY uid) t",
        ("AVG(n) is of values from 0 to 60, which LEAST would narrow",),
    ),
    (
        "SELECT SUM(s), AVG(a) FROM (SELECT uid, SUM(fee) AS s, AVG(fee) AS a FROM visits GROUP BY uid) t WHERE s > 1",
        ("SUM(s) is of values from 1.01 to 3,000, which LEAST would narrow",),
    ),
    ("SELECT AVG(LEAST(n, 9)) FROM (SELECT uid, COUNT(*) AS n FROM visits GROUP BY uid) t", ()),
    ("SELECT COUNT(*) FROM regions", ()),
    (
        "SELECT (SELECT COUNT(*) FROM visits), (SELECT COUNT(*) FROM patients WHERE age > 3)",
        ("counts at most 3 rows of each patient",),
    ),
]


@pytest.fixture
def clinic(make_clinic: Callable[..., Clinic]) -> Clinic:
    made = make_clinic(epsilon="50", max_query_epsilon="10")
    made.policy.write_text(made.policy.read_text().replace('delta = "0"', 'delta = "1e-6"'))
    return made


@pytest.mark.parametrize(("sql", "said"), SAID)
def test_a_receipt_says_what_its_limits_leave(clinic: Clinic, sql: str, said: tuple[str, ...]) -> None:
    with dpsql.connect(clinic.policy, clinic.database) as connection:
        receipt = connection.execute(sql).receipt
    assert receipt is not None
    assert receipt.limits == said


@pytest.mark.parametrize(
    ("strategy", "said"),
    [
        ("cells", "counts at most 2 rows of each patient in a group and 1 group of each patient"),
        ("rescale", "scales each patient down to 3 rows"),
    ],
)
def test_each_strategy_in_words(clinic: Clinic, strategy: str, said: str) -> None:
    limited = clinic.policy.read_text().replace("max_groups", "max_rows_per_group = 2\nmax_groups")
    clinic.policy.write_text(limited)
    with dpsql.connect(clinic.policy, clinic.database) as connection:
        connection.execute(f"SET strategy = {strategy}")
        receipt = connection.execute("SELECT region, COUNT(*) FROM patients GROUP BY region").receipt
    assert receipt is not None
    assert receipt.limits == (said,)


def test_a_stored_answer_has_the_limits_that_it_was_given(clinic: Clinic) -> None:
    """Which the planner may choose otherwise for another question over the same rows."""
    limited = clinic.policy.read_text().replace("max_groups", "max_rows_per_group = 2\nmax_groups")
    clinic.policy.write_text(limited)
    with dpsql.connect(clinic.policy, clinic.database) as connection:
        (whole,) = connection._session.compile("SELECT COUNT(*) FROM visits").plan.releases
        assert whole.limits.per_group is None
        first = connection.execute("SELECT COUNT(*), SUM(fee), AVG(fee) FROM visits").receipt
        again = connection.execute("SELECT COUNT(*) FROM visits").receipt
    assert first is not None
    assert again is not None
    assert again.epsilon == 0
    assert again.limits == first.limits


def test_the_owner_is_told_how_many_rows_are_beyond(clinic: Clinic) -> None:
    """Of the snapshot: a patient with 40 visits has 37 beyond 3."""
    said = prepare(clinic.policy, clinic.database)
    with dpsql.connect(clinic.policy, clinic.database) as connection:
        private = connection._session._engines.private._connection
        (beyond,) = private.execute('SELECT count(*) FROM priv.visits WHERE "$rank" > 3').fetchone()
    assert beyond >= 37
    assert f"\n  {beyond} rows are beyond max_rows_per_unit = 3: not counted under that limit\n" in said
