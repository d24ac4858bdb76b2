"""An account of Gaussian composition, end to end: what a statement costs, what is shown, and when it ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction

import pytest

import dpsql
from dpsql.privacy.accounting import gaussian_budget
from dpsql.privacy.gaussian import mu_squared_of_pure
from tests.conftest import Clinic
from tests.end.conftest import Run

MU_SQUARED, DELTAS = gaussian_budget(Fraction(3), Fraction(1, 10**6))
COUNT = "SELECT COUNT(*) FROM patients"


@pytest.fixture
def gaussian(make_clinic: Callable[..., Clinic]) -> Clinic:
    clinic = make_clinic(account="gaussian", epsilon="3", per_query_epsilon="0.1", max_query_epsilon="1")
    text = clinic.policy.read_text(encoding="utf-8")
    terms = 'delta = "1e-6"\ncomposition = "gaussian"'
    clinic.policy.write_text(text.replace('delta = "0"', terms), encoding="utf-8")
    return clinic


@pytest.fixture
def connection(gaussian: Clinic) -> Iterator[dpsql.Connection]:
    with dpsql.connect(gaussian.policy, gaussian.database) as opened:
        yield opened


def test_a_statement_is_charged_its_mu_squared(connection: dpsql.Connection) -> None:
    receipt = connection.execute(COUNT).receipt
    assert receipt is not None
    price = mu_squared_of_pure(Fraction(1, 10))
    assert (receipt.epsilon, receipt.delta, receipt.mu_squared) == (Fraction(1, 10), 0, price)
    assert receipt.remaining_mu_squared == MU_SQUARED - price
    assert receipt.remaining_delta == DELTAS
    assert 2 < receipt.remaining_epsilon < 3
    again = connection.execute(COUNT).receipt
    assert again is not None
    assert (again.epsilon, again.mu_squared, again.remaining_mu_squared) == (0, 0, MU_SQUARED - price)


def test_a_receipt_of_many_has_the_charges_of_all(connection: dpsql.Connection) -> None:
    many = connection.cursor().executemany(f"{COUNT} WHERE age > ?", [(20,), (30,), (20,)]).receipt
    assert many is not None
    assert many.mu_squared == 2 * mu_squared_of_pure(Fraction(1, 10)) == MU_SQUARED - many.remaining_mu_squared


def test_slots_of_one_statement_add_up_in_mu_squared(connection: dpsql.Connection) -> None:
    """Two slots at half of epsilon each cost about half of what one costs at all of it."""
    receipt = connection.execute("SELECT COUNT(*), COUNT(*) FILTER (WHERE age > 40) FROM patients").receipt
    assert receipt is not None
    assert receipt.mu_squared == 2 * mu_squared_of_pure(Fraction(1, 20)) < mu_squared_of_pure(Fraction(1, 10))


def test_the_budget_ends_where_mu_squared_does(connection: dpsql.Connection) -> None:
    connection.execute("SET epsilon = 0.3")
    connection.execute(f"{COUNT} WHERE age > 1")
    connection.execute(f"{COUNT} WHERE age > 2")
    with pytest.raises(dpsql.BudgetError, match=r"DP401.*mu\^2 about 0\.14.*left is mu\^2 about 0\.11"):
        connection.execute(f"{COUNT} WHERE age > 3")
    budget = connection.budget
    assert budget.spent_mu_squared == 2 * mu_squared_of_pure(Fraction(3, 10))
    assert budget.spent_epsilon > Fraction(6, 10)  # mu pays off for many small statements, not for two


def test_explain_show_and_the_command_line_say_both(
    gaussian: Clinic, connection: dpsql.Connection, command: Run
) -> None:
    said = connection.explain(COUNT)
    assert "counted as mu^2 0.01570234855, delta 0, since" in said
    assert "normal noise of the same variance would count as mu^2 0.00500046: SET mechanism = gaussian" in said
    connection.execute(COUNT)
    rows = {row[1]: row[2:5] for row in connection.execute("SHOW BUDGET").fetchall()}
    assert list(rows) == ["epsilon", "delta", "mu^2"]
    assert rows["delta"] == ("1e-6", "5e-7", "5e-7")
    assert rows["epsilon"][0] == "3"
    said = command("budget", gaussian.policy).stdout
    assert "μ²: 0.0157" in said
    assert "this adds up" in said
