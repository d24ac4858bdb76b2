"""What stands between two releases of one statement: a public query over the first, which the second reads.

It may fail, by released values alone. Then the charge stays and the first release is kept: asked again, it is the same
noise, at no price. A second noise for one price could be averaged away.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from fractions import Fraction

import pytest

from dpsql.errors import Error
from dpsql.session import Session, open_session
from tests.conftest import Clinic


@pytest.fixture
def session(make_clinic: Callable[..., Clinic]) -> Iterator[Session]:
    clinic = make_clinic()
    with closing(open_session(clinic.policy, clinic.database)) as opened:
        yield opened


GROUPS = "SELECT region, COUNT(*) AS n FROM patients GROUP BY region"


@pytest.mark.parametrize(
    "between",
    [
        f"SELECT n FROM ({GROUPS}) t",  # of eight rows
        f"SELECT CAST('x' || MAX(n) AS INTEGER) FROM ({GROUPS}) t",
        f"SELECT 1 // (MAX(n) - MAX(n)) FROM ({GROUPS}) t",
    ],
)
def test_a_failure_between_two_releases(session: Session, between: str) -> None:
    statement = f"SELECT COUNT(*) FROM patients WHERE cost > ({between})"
    for spent in (1, 1):
        with pytest.raises(Error, match=r"^DP502"):
            session.execute(statement)
        assert session.budget().spent_epsilon == spent
    mended = statement.replace("WHERE cost > (", "WHERE cost > (SELECT MIN(v) FROM (", 1) + " AS u(v))"
    if between.startswith("SELECT n"):
        session.execute(mended)  # the groups are free, the count is new
        assert session.budget().spent_epsilon == Fraction(3, 2)


def test_one_query_is_one_noise(session: Session) -> None:
    first = f"WITH g AS ({GROUPS}), h AS (SELECT p.region, COUNT(*) AS n FROM patients p JOIN g ON p.region = g.region"
    statement = f"{first} GROUP BY p.region) SELECT g.n, f.n AS m, h.n AS k FROM g, g AS f, h"
    statement += " WHERE g.region = f.region AND h.region = g.region ORDER BY g.region"
    rows = session.execute(statement).table.to_pylist()
    assert all(row["n"] == row["m"] for row in rows)
    assert session.budget().spent_epsilon == 1
    assert session.execute(statement).table.to_pylist() == rows
    assert session.budget().spent_epsilon == 1
