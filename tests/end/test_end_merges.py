"""More epsilon for an old question: the difference is paid, and what was released before is merged with what is new."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction

import numpy as np
import pytest

import dpsql
from dpsql.compile.slots import Slot, SlotKind
from dpsql.privacy import mechanisms
from dpsql.privacy.gaussian import is_private
from dpsql.privacy.sensitivity import Norms
from dpsql.vault.readings import Noised, merged
from tests.conftest import Clinic

SQL = "SELECT region, COUNT(*), SUM(age) FROM patients GROUP BY region"


@pytest.fixture(params=["gaussian", "basic"])
def connection(request: pytest.FixtureRequest, make_clinic: Callable[..., Clinic]) -> Iterator[dpsql.Connection]:
    clinic = make_clinic(epsilon="50", max_query_epsilon="10")
    text = clinic.policy.read_text().replace('delta = "0"', f'delta = "1e-6"\ncomposition = "{request.param}"')
    clinic.policy.write_text(text)
    with dpsql.connect(clinic.policy, clinic.database) as opened:
        opened.execute("SET mechanism = gaussian")
        yield opened


def asked(connection: dpsql.Connection, epsilon: str, sql: str = SQL) -> dpsql.Receipt:
    connection.execute(f"SET epsilon = {epsilon}")
    receipt = connection.execute(sql).receipt
    assert receipt is not None
    return receipt


@pytest.mark.parametrize("connection", ["gaussian"], indirect=True)
def test_all_that_is_paid_is_the_price_of_the_last(connection: dpsql.Connection) -> None:
    """Under mu the differences add up to what one answer at the last price costs, but for rounding up."""
    paid = [asked(connection, epsilon).mu_squared for epsilon in ("0.25", "0.25", "0.5", "0.5", "1")]
    assert [price > 0 for price in paid] == [True, False, True, False, True]
    whole = connection._session.compile(SQL).plan
    price = whole.price(whole.releases).mu_squared
    assert price <= sum(paid) < price * (1 + Fraction(1, 10**6))


def test_the_answer_is_as_exact_as_one_at_the_last_price(connection: dpsql.Connection) -> None:
    asked(connection, "0.25")
    before = connection.explain(SQL)
    assert "to pay: nothing" in before
    connection.execute("SET epsilon = 0.5")
    assert "the difference is to pay" in connection.explain(SQL)
    receipt = asked(connection, "0.5")
    (plan,) = connection._session.compile(SQL).plan.releases
    slots = {measure.column: slot for slot in plan.slots for measure in slot.outputs}
    for column in receipt.columns:
        slot = slots[column.name]
        assert column.half_width is not None
        alone = mechanisms.law_of(slot).half_width() * float(slot.step)
        assert alone <= column.half_width <= alone + float(slot.step)
    rows = connection.execute(SQL).fetchall()
    assert rows == connection.execute(SQL).fetchall()


def test_what_is_charged_is_what_is_drawn(connection: dpsql.Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sum of Delta_2^2/sigma^2 over all draws, whatever was merged with what, is within what was charged."""
    drawn: list[Fraction] = []
    sampler = mechanisms.rounded_normal

    def recorded(n: int, sigma: Fraction) -> object:
        drawn.append(sigma)
        return sampler(n, sigma)

    monkeypatch.setattr(mechanisms, "rounded_normal", recorded)
    (plan,) = connection._session.compile(SQL).plan.releases
    squares = [slot.norms.l2_squared for slot in plan.slots]
    for epsilon in ("0.25", "0.5", "0.75", "2"):
        drawn.clear()
        receipt = asked(connection, epsilon)
        spent = sum(square / sigma**2 for square, sigma in zip(squares, drawn, strict=True))
        joints = connection._session.compile(SQL).plan.joints
        if receipt.mu_squared:
            assert spent <= receipt.mu_squared
        else:
            assert is_private(spent, receipt.epsilon, joints[0].delta)


def test_merged_noise_covers() -> None:
    """Three times merged: the variance that the inverse variances add up to, and half-widths that hold, each within
    more than six deviations: a false alarm once in 10^8 runs."""
    count = 50_000
    norms = Norms(1, 1, 1, 1)

    def vector(sigma: Fraction, merges: int = 0) -> Noised:
        slot = Slot(SlotKind.ROWS, None, None, (), norms, Fraction(1), sigma=sigma, merges=merges)
        return Noised(slot, (mechanisms.RoundedNormal(sigma).sample(count).astype(object),))

    found = vector(Fraction(64))
    for _ in range(3):
        more = vector(Fraction(48))
        variance = 1 / (1 / found.slot.sigma**2 + 1 / more.slot.sigma**2)  # type: ignore[operator]
        sigma = Fraction(float(variance) ** 0.5)
        slot = Slot(SlotKind.ROWS, None, None, (), norms, Fraction(1), sigma=sigma, merges=found.slot.merges + 1)
        found = merged(found, more, slot)
    errors = found.vector[0].astype(float)
    assert found.slot.merges == 3
    assert np.var(errors) == pytest.approx(float(found.slot.sigma or 0) ** 2, rel=0.04)
    assert abs(np.mean(errors)) < 6 * float(found.slot.sigma or 0) / count**0.5
    assert found.half_width is not None
    assert np.mean(np.abs(errors) <= found.half_width) > 0.95 - 6.2 * (0.95 * 0.05 / count) ** 0.5
