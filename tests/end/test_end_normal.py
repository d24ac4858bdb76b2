"""Rounded normal noise, end to end: when it is chosen, what it is charged, and that answers follow its law."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from math import sqrt
from pathlib import Path

import numpy as np
import pytest
from sqlglot import exp

import dpsql
from dpsql.compile.ir import Facts, Key, Release, Scalar, Scan
from dpsql.compile.limits import Asked, Declared, Request, choose
from dpsql.compile.plan import PrivatePlan, ReleasePlan, Selection
from dpsql.compile.pricing import priced
from dpsql.compile.slots import HALF_WIDTH
from dpsql.policy.facts import Kind, SqlType
from dpsql.privacy.enclosures import Arithmetic, upper_tail
from dpsql.privacy.gaussian import is_private, mu_squared_for
from dpsql.privacy.mechanisms import RoundedNormal
from dpsql.privacy.sensitivity import Limits
from dpsql.privacy.variances import half_kept_by_conditioned, half_kept_by_normal, mu
from dpsql.vault.noise import release
from tests.conftest import CLINIC_POLICY, Clinic
from tests.end.test_end_coverage import CASES, DRAWS, SLACK, Fixed, exact, truth
from tests.privacy.laws import ALARM, chi_square

DELTA = Fraction(1, 10**6)
TEN = ", ".join(f"SUM(age - {50 + i}) AS s{i}" for i in range(10))
"""Ten sums, no two of which share a slot."""


TERMS = 'delta = "1e-3"\nper_query_delta = "1e-6"\ncomposition = "{}"'


@pytest.fixture
def mu_account(make_clinic: Callable[..., Clinic]) -> Iterator[dpsql.Connection]:
    clinic = make_clinic(account="normal-in-mu", epsilon="100", per_query_epsilon="1", max_query_epsilon="20")
    text = clinic.policy.read_text(encoding="utf-8")
    clinic.policy.write_text(text.replace('delta = "0"', TERMS.format("gaussian")), encoding="utf-8")
    with dpsql.connect(clinic.policy, clinic.database) as connection:
        yield connection


@pytest.fixture(scope="module")
def kept_open(tmp_path_factory: pytest.TempPathFactory, clinic_database: Path) -> Iterator[dpsql.Connection]:
    folder = tmp_path_factory.mktemp("normal")
    amounts = {"epsilon": "100", "per_query_epsilon": "1", "max_query_epsilon": "20"}
    text = CLINIC_POLICY.format(account="normal", **amounts).replace('delta = "0"', TERMS.format("basic"))
    (folder / "normal.toml").write_text(text, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
        connection = dpsql.connect(folder / "normal.toml", clinic_database, ledger=folder / "ledger.sqlite")
    with connection:
        yield connection


@pytest.fixture
def connection(kept_open: dpsql.Connection) -> dpsql.Connection:
    """One for all tests here, which look at plans and draw beside the ledger."""
    kept_open.execute("RESET ALL")
    return kept_open


def planned(connection: dpsql.Connection, sql: str) -> PrivatePlan:
    return connection._session.compile(sql).plan


def test_one_number_has_laplace_noise_and_spends_no_delta(connection: dpsql.Connection) -> None:
    plan = planned(connection, "SELECT COUNT(*) FROM patients")
    assert (plan.joints, plan.epsilon, plan.delta) == ((), 1, 0)


def test_many_sums_are_one_gaussian_mechanism(connection: dpsql.Connection) -> None:
    """Ten sums at epsilon 1, delta 1e-6: sigma 13.4 for a sensitivity of 1, where Laplace noise deviates by 14.1;
    twenty at 18.9 against 28.3."""
    for count, sigma in ((10, 13.36), (20, 18.89)):
        sums = ", ".join(f"SUM(age - {30 + i}) AS s{i}" for i in range(count))
        plan = planned(connection, f"SELECT {sums} FROM patients")
        (only,) = plan.releases
        assert plan.joints
        assert (plan.joints[0].epsilon, plan.joints[0].delta) == (1, DELTA) == (plan.epsilon, plan.delta)
        assert len(only.normal) == len(only.slots) == count
        for slot in only.normal:
            assert float(slot.sigma or 0) / sqrt(slot.norms.l2_squared) == pytest.approx(sigma, rel=2e-3)
        assert sum(slot.mu_squared for slot in only.normal) <= mu_squared_for(Fraction(1), DELTA)


def test_the_mechanism_can_be_set(connection: dpsql.Connection) -> None:
    sql = "SELECT COUNT(*), SUM(age) FROM patients"
    connection.execute("SET mechanism = gaussian")
    text = connection._session.explain(sql)
    assert "normal noise: one Gaussian mechanism of 2 slots, epsilon 1, delta 1e-6 (mu 0.2367" in text
    assert "rounded normal of deviation" in text
    connection.execute("SET mechanism = laplace")
    assert planned(connection, f"SELECT {TEN} FROM patients").joints == ()
    connection.execute("RESET mechanism")
    assert planned(connection, f"SELECT {TEN} FROM patients").joints


def test_limits_are_chosen_for_the_mechanism() -> None:
    """With R = 400, g = 8, r = 100, `cells` has twice the L1 norm of `rows`, and less of L2."""
    declared = Declared(400, 8, 100, late=False, provable=True)
    for mechanism, strategy in (("laplace", "rows"), ("gaussian", "cells"), (None, "rows")):
        request = Request(Fraction(1), DELTA, mechanism=mechanism)
        assert choose(declared, (12,), (12,), True, request, Asked(0, 1, 1), None).strategy == strategy
    many = choose(declared, (12,), (12,), True, Request(Fraction(1), DELTA), Asked(0, 1, 20), None)
    assert many.strategy == "cells", "of twenty aggregates all have normal noise, wherever they stand"


@pytest.mark.parametrize("groups", [1, 2, 4, 7, 20])
def test_a_decision_on_keys_takes_the_noise_that_shows_more(groups: int) -> None:
    """Private keys alone: by the law that shows a key of fewer units half of the time."""
    limits = Limits("cells", groups=groups, per_group=1)
    selection = Selection(None, groups)
    key = Key("k1", Scalar(exp.column("x", "t"), Facts(SqlType(Kind.VARCHAR))), "x")
    release = Release("released_1", Scan("t", "t", public=False), "t", (key,), None, ("k1",), ())
    request = Request(Fraction(1), DELTA)
    draft = ReleasePlan(release, limits, (None,), (), request, selection)
    ((planned,), joint) = priced([([draft], request)])
    assert planned.selection is not None
    by_laplace = half_kept_by_conditioned(1, 1e-6, groups)
    by_normal = half_kept_by_normal(sqrt(groups) / mu(1, 5e-7), 5e-7, groups)
    assert (joint is not None) == (by_normal < by_laplace) == (groups >= 4)
    assert (planned.selection.counted is not None) == (joint is not None)


def test_a_weight_of_two_means_half_of_the_noise(connection: dpsql.Connection) -> None:
    connection.execute("SET mechanism = gaussian")
    connection.execute("SET weights = 'a: 2'")
    plan = planned(connection, "SELECT COUNT(*) AS a, COUNT(*) FILTER (WHERE age > 30) AS b FROM patients")
    a, b = (float(slot.sigma or 0) for slot in plan.releases[0].slots)
    assert b == pytest.approx(2 * a, rel=1e-6)


def test_a_count_of_one_row_each_decides_on_keys(connection: dpsql.Connection) -> None:
    """Where each patient has one row, COUNT(*) counts patients: it decides which groups are shown, at no further
    price."""
    connection.execute("SET max_rows_per_unit = 1")
    (counted,) = planned(connection, "SELECT name, COUNT(*) FROM patients GROUP BY name").releases
    assert counted.selection is not None
    assert counted.selection.counted == counted.slots[0]
    assert (counted.slots[0].epsilon, counted.selection.epsilon) == (1, 0)
    (filtered,) = planned(connection, "SELECT name, COUNT_IF(age > 30) FROM patients GROUP BY name").releases
    assert filtered.selection is not None
    assert filtered.selection.counted not in filtered.slots[:1], "it counts some of them only"


def test_without_delta_there_is_none(make_clinic: Callable[..., Clinic]) -> None:
    clinic = make_clinic(account="pure", epsilon="100", per_query_epsilon="1", max_query_epsilon="20")
    with dpsql.connect(clinic.policy, clinic.database) as connection:
        assert planned(connection, f"SELECT {TEN} FROM patients").joints == ()
        with pytest.raises(dpsql.Error, match=r"DP402.*delta above 0"):
            connection.execute("SET mechanism = gaussian")


def test_what_was_paid_for_is_taken_off_the_joint_price(connection: dpsql.Connection) -> None:
    """Two releases whose slots are one mechanism: asked for again beside another statement's text, each is free; a
    statement of which one release is stored pays for a Gaussian mechanism of the mu that is left."""
    connection.execute("SET mechanism = gaussian")
    plan = planned(connection, "SELECT (SELECT COUNT(*) FROM patients), (SELECT SUM(age) FROM patients)")
    first, second = plan.releases
    whole, part = plan.price(plan.releases), plan.price([first])
    assert (whole.epsilon, whole.delta) == (1, DELTA)
    assert plan.joints
    assert 0 < part.epsilon < whole.epsilon
    assert part.delta == DELTA
    assert is_private(sum((s.mu_squared for s in first.normal), Fraction(0)), part.epsilon, DELTA)
    assert part.epsilon + plan.price([second]).epsilon > 1, "apart they cost more than together"


def test_under_gaussian_composition_its_delta_is_the_accounts(mu_account: dpsql.Connection) -> None:
    mu_account.execute("SET mechanism = gaussian")
    before = mu_account.budget
    receipt = mu_account.execute("SELECT COUNT(*), SUM(age) FROM patients").receipt
    assert receipt is not None
    assert (receipt.epsilon, receipt.delta) == (1, 0)
    assert float(receipt.mu_squared) == pytest.approx(float(mu_squared_for(Fraction(1), DELTA)), rel=1e-8)
    assert receipt.mu_squared <= mu_squared_for(Fraction(1), DELTA)
    after = mu_account.budget
    assert after.spent_mu_squared == receipt.mu_squared
    assert after.remaining_delta == before.remaining_delta


def test_answers_follow_the_law(connection: dpsql.Connection) -> None:
    """What the vault gives, less what is true, against the exact chances of the rounded normal law."""
    connection.execute("SET mechanism = gaussian")
    connection.execute("SET epsilon = 3")
    compiled = connection._session.compile("SELECT COUNT(*) FROM patients")
    (plan,), (sealed,) = compiled.plan.releases, compiled.rewritten.inner
    (slot,) = plan.slots
    assert slot.sigma is not None
    noisy = release(Fixed(plan, exact), sealed, plan).table(plan)
    off = np.array(noisy.column(plan.release.measures[0].name).to_pylist()) - truth("count", slot)
    edges = range(-1, 2)

    def above(x: int) -> float:
        """P[round(sigma Z) >= x]."""
        return float(upper_tail(Arithmetic(40).of((x - Fraction(1, 2)) / slot.sigma)).low)

    seen = [int((off < edges[0]).sum()), *(int((off == x).sum()) for x in edges), int((off > edges[-1]).sum())]
    chances = [1 - above(edges[0]), *(above(x) - above(x + 1) for x in edges), above(edges[-1] + 1)]
    assert chi_square(seen, [chance * len(off) for chance in chances]) > ALARM
    width = noisy.column(plan.release.measures[0].name + HALF_WIDTH).to_pylist()[0]
    assert width == RoundedNormal(slot.sigma).half_width()


SHARE = "AVG(CASE WHEN age > 50 THEN 1 ELSE 0 END)"


@pytest.mark.parametrize("sql", [f"SELECT {SHARE} FROM patients", f"SELECT {SHARE}, COUNT(*) FROM patients"])
@pytest.mark.parametrize("epsilon", [1, 8, 20])
def test_half_widths_of_a_share_cover(connection: dpsql.Connection, sql: str, epsilon: int) -> None:
    """Of a value of two steps, at a price where the noise is smaller than one."""
    connection.execute(f"SET epsilon = {epsilon}")
    check_coverage(connection, sql, "avg", tight=False)


@pytest.mark.parametrize("case", CASES)
def test_half_widths_cover(connection: dpsql.Connection, case: str) -> None:
    sql, statistic, tight = CASES[case]
    check_coverage(connection, sql, statistic, tight=tight)


def check_coverage(connection: dpsql.Connection, sql: str, statistic: str, *, tight: bool) -> None:
    connection.execute("SET mechanism = gaussian")
    compiled = connection._session.compile(sql)
    (plan,), (sealed,) = compiled.plan.releases, compiled.rewritten.inner
    slot, measure = next(
        (slot, measure) for slot in plan.slots for measure in slot.outputs if measure.text.lower().startswith(statistic)
    )
    assert slot.sigma is not None
    noisy = release(Fixed(plan, exact), sealed, plan).table(plan)
    values = np.array([float(v) for v in noisy.column(measure.name).to_pylist()])
    widths = np.array(noisy.column(measure.name + HALF_WIDTH).to_pylist())
    coverage = float((np.abs(values - truth(statistic, slot)) <= widths * (1 + 1e-12)).mean())
    print(f"{sql}: {coverage:.2%} of {DRAWS} within ± {np.median(widths):.6g}")
    assert coverage >= 0.95 - SLACK
    assert coverage <= 0.995 or not tight
