"""SET, RESET and SHOW SETTINGS on the real product: what they take, refuse and change. All are free."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import duckdb
import pytest

from dpsql.compile.plan import PrivatePlan
from dpsql.errors import Error
from dpsql.session import Session, open_session

POLICY = """\
version = 1

[unit]
name = "person"

[budget]
account = "settings"
epsilon = "5"
per_query_epsilon = "0.5"
max_query_epsilon = "2"

[tables.visits]
unit = "person_id"
max_rows_per_unit = 20
max_groups_per_unit = 4
max_rows_per_group = 8
{hard}

[tables.visits.columns]
person_id = {{}}
day = {{ bounds = [1, 10] }}
minutes = {{ bounds = [0, 60] }}
"""

DATA = "CREATE TABLE visits AS SELECT i % 30 AS person_id, i % 10 + 1 AS day, i % 61 AS minutes FROM range(300) t(i)"

HARD = "max_rows_per_unit_hard = 50\nmax_groups_per_unit_hard = 6\nmax_rows_per_group_hard = 10"

COUNT = "SELECT COUNT(*) AS n FROM visits"
DAYS = "SELECT day, COUNT(*) AS n FROM visits WHERE day IS NOT NULL GROUP BY day"
THREE = "SELECT COUNT(*) AS n, COUNT(DISTINCT person_id) AS people, SUM(minutes) AS minutes FROM visits WHERE day < 5"


def opened(folder: Path, hard: str = "") -> Session:
    policy, database = folder / "visits.toml", folder / "visits.duckdb"
    policy.write_text(POLICY.format(hard=hard), encoding="utf-8")
    with duckdb.connect(str(database)) as connection:
        connection.execute(DATA)
    return open_session(policy, database)


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    """Every test here ends with the whole budget."""
    session = opened(tmp_path)
    yield session
    assert session.budget().spent_epsilon == 0
    session.close()


def planned(session: Session, sql: str) -> PrivatePlan:
    return session.compile(sql).plan


def sensitivity(session: Session, sql: str = COUNT) -> int:
    (slot,) = planned(session, sql).releases[0].slots
    return slot.norms.l1


def shown(session: Session) -> dict[str, str]:
    answer = session.execute("SHOW SETTINGS")
    assert answer.receipt is None
    return {row["setting"]: row["value"] for row in answer.table.to_pylist()}


def test_what_cannot_be_negative_is_shown_so(tmp_path: Path) -> None:
    session = opened(tmp_path)
    sql = (
        "SELECT day, minutes % 8 AS part, COUNT(*) AS n, SUM(minutes) AS m, SUM(minutes - 60) AS s,"
        " COUNT(*) - 1 AS less, COUNT(*) < 0 AS b"
        " FROM visits WHERE minutes < 0 AND day IS NOT NULL AND minutes IS NOT NULL GROUP BY day, part"
    )
    before = session.execute(sql).table.to_pylist()
    assert len(before) >= 80
    assert min(row["n"] for row in before) < 0, "noise around 0, in 80 groups: all at 0 or above once in 10^23 runs"
    session.execute("SET non_negative = on")
    after = session.execute(sql)
    assert after.receipt is not None
    assert after.receipt.epsilon == 0
    assert after.table.to_pylist() == [row | {"n": max(row["n"], 0), "m": max(row["m"], 0)} for row in before]
    session.execute("SET non_negative = FALSE")
    assert session.execute(sql).table.to_pylist() == before
    with pytest.raises(Error, match="DP120: non_negative is on or off"):
        session.execute("SET non_negative = 1")
    session.close()


DEFAULTS = {
    "epsilon": "0.5",
    "strategy": "as the policy says",
    "mechanism": "as the policy says",
    "weights": "even",
    "non_negative": "off",
    "max_rows_per_unit": "as the policy says",
    "max_groups_per_unit": "as the policy says",
    "max_rows_per_group": "as the policy says",
}

GOOD = [
    ("SET epsilon = 0.1", "epsilon", "0.1"),
    ("SET epsilon TO 0.1", "epsilon", "0.1"),
    ("set EPSILON = '2'", "epsilon", "2"),
    ("SET epsilon = 1e-6", "epsilon", "1e-6"),
    ("SET strategy = cells", "strategy", "cells"),
    ("SET strategy = 'LATE'", "strategy", "late"),
    ("SET mechanism = 'Laplace'", "mechanism", "laplace"),
    ("SET strategy = 'rows then cells'", "strategy", "rows then cells"),
    ("SET weights = 'n: 4, people: 2'", "weights", "n: 4, people: 2"),
    ("SET weights = 'n:0.5,  people :1e-3'", "weights", "n: 0.5, people: 0.001"),
    ("SET non_negative = On", "non_negative", "on"),
    ("SET max_rows_per_unit = 1", "max_rows_per_unit", "1"),
    ("SET max_rows_per_unit = 20", "max_rows_per_unit", "20"),
    ("SET max_groups_per_unit = '3'", "max_groups_per_unit", "3"),
    ("SET MAX_ROWS_PER_GROUP TO 8", "max_rows_per_group", "8"),
]


def test_good_values_are_shown_and_reset(session: Session) -> None:
    assert shown(session) == DEFAULTS
    for statement, name, value in GOOD:
        answer = session.execute(statement)
        assert answer.receipt is None
        assert answer.table.num_rows == 0
        assert shown(session) == DEFAULTS | {name: value}, statement
        session.execute(f"RESET {name.upper()}")
        assert shown(session) == DEFAULTS


BAD = [
    ("SET epsilon = 0", "DP120"),
    ("SET epsilon = -1", "DP120"),
    ("SET epsilon = nan", "DP120"),
    ("SET epsilon = inf", "DP120"),
    ("SET epsilon = 1e-31", "DP120"),
    ("SET epsilon = 0.1234567890123456789012345678901", "DP120"),
    ("SET epsilon = 1 + 1", "DP120"),
    ("SET epsilon = ''", "DP120"),
    ("SET epsilon", "DP120"),
    ("SET", "DP120"),
    ("SET epsilon = 2.000001", "DP402"),
    ("SET epsilon = 1000000", "DP402"),
    ("SET epsilons = 1", "DP120"),
    ("SET delta = 1", "DP120"),
    ("SET strategy = fast", "DP120"),
    ("SET mechanism = uniform", "DP120"),
    ("SET strategy = ''", "DP120"),
    ("SET strategy = 1", "DP120"),
    ("SET weights = 3", "DP120"),
    ("SET weights = ''", "DP120"),
    ("SET weights = 'n'", "DP120"),
    ("SET weights = 'n: '", "DP120"),
    ("SET weights = ': 1'", "DP120"),
    ("SET weights = 'n: 0'", "DP120"),
    ("SET weights = 'n: -1'", "DP120"),
    ("SET weights = 'n: inf'", "DP120"),
    ("SET weights = 'n: 1, n: 2'", "DP120"),
    ("SET weights = 'n: 1,'", "DP120"),
    ("SET max_rows_per_unit = 0", "DP120"),
    ("SET max_rows_per_unit = -1", "DP120"),
    ("SET max_rows_per_unit = 1.5", "DP120"),
    ("SET max_rows_per_unit = 1e1", "DP120"),
    ("SET max_rows_per_unit = many", "DP120"),
    ("SET max_rows_per_unit = '٣'", "DP120"),
    ("SET max_rows_per_unit = 99999999999999999999", "DP120"),
    ("SET max_rows_per_unit = 21", "DP402"),
    ("SET max_groups_per_unit = 5", "DP402"),
    ("SET max_rows_per_group = 9", "DP402"),
    ("SET max_rows_per_unit_hard = 100", "DP120"),
    ("RESET", "DP120"),
    ("RESET budget", "DP120"),
    ("RESET epsilon, weights", "DP120"),
    ("SHOW epsilon", "DP103"),
]


def test_bad_values_are_refused_and_change_nothing(session: Session) -> None:
    session.execute("SET epsilon = 0.25")
    for statement, code in BAD:
        with pytest.raises(Error) as caught:
            session.execute(statement)
        assert caught.value.code == code, statement
        assert caught.value.span is not None, statement
        assert caught.value.repair or "1e-30" in caught.value.reason, statement
        assert shown(session) == DEFAULTS | {"epsilon": "0.25"}, statement
    assert planned(session, COUNT).epsilon == Fraction(1, 4)


def test_settings_take_no_parameters(session: Session) -> None:
    with pytest.raises(Error) as caught:
        session.execute("SET epsilon = 1", (1,))
    assert caught.value.code == "DP003"


def test_reset_all(session: Session) -> None:
    for statement, _, _ in GOOD:
        session.execute(statement)
    assert set(shown(session).items()).isdisjoint(DEFAULTS.items())
    session.execute("RESET ALL")
    assert shown(session) == DEFAULTS


def test_a_typing_error_names_what_was_meant(session: Session) -> None:
    for statement, meant in [
        ("SET epsilom = 1", "epsilon"),
        ("SET strategy = cell", "cells"),
        ("SET max_row_per_unit = 3", "max_rows_per_unit"),
    ]:
        with pytest.raises(Error) as caught:
            session.execute(statement)
        assert f'"{meant}"' in caught.value.reason


# -------------------------------------------------------------------------------------------- effects on the plan


def test_epsilon_is_the_price_and_sets_the_scale(session: Session) -> None:
    for text, epsilon in [("0.1", Fraction(1, 10)), ("2", Fraction(2)), ("0.3333", Fraction(3333, 10000))]:
        session.execute(f"SET epsilon = {text}")
        plan = planned(session, COUNT)
        assert plan.epsilon == epsilon
        assert plan.releases[0].slots[0].scale == 20 / epsilon
    session.execute("RESET epsilon")
    assert planned(session, COUNT).epsilon == Fraction(1, 2)


def test_a_lower_limit_is_a_smaller_sensitivity(session: Session) -> None:
    assert sensitivity(session) == 20
    session.execute("SET max_rows_per_unit = 3")
    assert sensitivity(session) == 3
    assert "at most 3 rows of each unit count" in session.explain(COUNT)
    assert '"$rank" <= 3' in session.compile(COUNT).inner_sql[0]
    session.execute("RESET max_rows_per_unit")
    assert sensitivity(session) == 20


def test_limits_per_group(session: Session) -> None:
    session.execute("SET strategy = cells")
    assert sensitivity(session, DAYS) == 4 * 8
    session.execute("SET max_groups_per_unit = 2")
    assert sensitivity(session, DAYS) == 2 * 8
    session.execute("SET max_rows_per_group = 3")
    assert sensitivity(session, DAYS) == 2 * 3
    session.execute("RESET strategy")
    assert planned(session, DAYS).releases[0].limits.strategy == "cells"  # 6 is less than 20


STRATEGIES = [
    ("rows", 20, "rows"),
    ("late", 20, "late"),
    ("cells", 32, "cells"),
    ("'rows then cells'", 20, "rows then cells"),
    ("'late then cells'", 20, "late then cells"),
    ("rescale", 20 * 1024, "rescale"),
]


@pytest.mark.parametrize(("value", "l1", "strategy"), STRATEGIES, ids=[s[2] for s in STRATEGIES])
def test_the_strategy_is_the_plans(session: Session, value: str, l1: int, strategy: str) -> None:
    session.execute(f"SET strategy = {value}")
    plan = planned(session, DAYS)
    assert plan.releases[0].limits.strategy == strategy
    assert sensitivity(session, DAYS) == l1
    assert f"  strategy {strategy}: " in session.explain(DAYS)


@pytest.mark.parametrize("strategy", ["cells", "rows then cells", "late then cells"])
def test_a_strategy_that_needs_groups_is_refused_without(session: Session, strategy: str) -> None:
    session.execute(f"SET strategy = '{strategy}'")
    with pytest.raises(Error) as caught:
        session.compile(COUNT)
    assert caught.value.code == "DP223"
    assert "RESET strategy" in caught.value.repair


def shares(session: Session, sql: str) -> dict[str, Fraction]:
    return {slot.outputs[0].column: slot.epsilon for r in planned(session, sql).releases for slot in r.slots}


def test_weights_share_epsilon(session: Session) -> None:
    session.execute("SET epsilon = 1")
    assert set(shares(session, THREE).values()) == {Fraction(1, 3)}
    session.execute("SET weights = 'n: 4, people: 2, minutes: 1'")
    assert shares(session, THREE) == {"n": Fraction(4, 7), "people": Fraction(2, 7), "minutes": Fraction(1, 7)}
    assert "\nshared by weights: n 4, people 2, minutes 1; 1 for what is not named\n" in session.explain(THREE)
    session.execute("SET weights = 'minutes: 0.5'")  # the others have 1
    assert shares(session, THREE) == {"n": Fraction(2, 5), "people": Fraction(2, 5), "minutes": Fraction(1, 5)}
    session.execute("SET weights = 'n: 4000, people: 2000, minutes: 1000'")  # proportions are what counts
    assert shares(session, THREE)["n"] == Fraction(4, 7)
    assert planned(session, THREE).epsilon == 1
    session.execute("RESET weights")
    assert "shared by weights" not in session.explain(THREE)


def test_weights_that_name_no_column_are_refused(session: Session) -> None:
    session.execute("SET weights = 'visitors: 2'")
    with pytest.raises(Error) as caught:
        session.compile(THREE)
    assert caught.value.code == "DP120"
    assert '"visitors"' in caught.value.reason
    assert "minutes, n, people" in caught.value.repair
    session.execute("SELECT 1 + 1")  # nothing is released here, so there is nothing to share


def test_weights_follow_the_subquery_that_names_the_column(session: Session) -> None:
    sql = "SELECT a.n, b.m FROM (SELECT COUNT(*) AS n FROM visits) a, (SELECT SUM(minutes) AS m FROM visits) b"
    session.execute("SET weights = 'n: 1, m: 3'")
    assert shares(session, sql) == {"n": Fraction(1, 8), "m": Fraction(3, 8)}


# -------------------------------------------------------------------------------------------------- ceilings, life


def test_a_limit_is_raised_only_where_the_policy_says_how_far(tmp_path: Path) -> None:
    session = opened(tmp_path, HARD)
    assert sensitivity(session) == 20
    session.execute("SET max_rows_per_unit = 50")
    assert sensitivity(session) == 50
    session.execute("SET max_groups_per_unit = 6")
    session.execute("SET max_rows_per_group = 10")
    session.execute("SET strategy = cells")
    assert sensitivity(session, DAYS) == 6 * 10
    for statement in ("max_rows_per_unit = 51", "max_groups_per_unit = 7", "max_rows_per_group = 11"):
        with pytest.raises(Error) as caught:
            session.execute(f"SET {statement}")
        assert caught.value.code == "DP402"
    session.execute("SET max_rows_per_unit = 2")
    session.execute("RESET strategy")
    assert sensitivity(session) == 2
    assert session.budget().spent_epsilon == 0
    session.close()


def test_settings_live_and_end_with_the_connection(tmp_path: Path) -> None:
    session = opened(tmp_path)
    other = open_session(tmp_path / "visits.toml", tmp_path / "visits.duckdb")
    session.execute("SET epsilon = 2")
    session.execute("SET max_rows_per_unit = 3")
    assert shown(other) == DEFAULTS
    session.close()
    other.close()
    again = open_session(tmp_path / "visits.toml", tmp_path / "visits.duckdb")
    assert shown(again) == DEFAULTS
    again.close()


def test_what_is_set_is_what_is_charged(tmp_path: Path) -> None:
    """The one test here that spends: a statement under another limit is another release."""
    session = opened(tmp_path)
    for statement, spent in [
        (None, Fraction(1, 2)),
        (None, Fraction(1, 2)),  # again, free
        ("SET epsilon = 0.25", Fraction(1, 2)),  # for less, what is stored is better
        ("SET epsilon = 0.75", Fraction(3, 4)),  # for more, the difference
        ("SET max_rows_per_unit = 3", Fraction(3, 2)),
        ("RESET ALL", Fraction(3, 2)),  # the first once more
    ]:
        if statement is not None:
            session.execute(statement)
        session.execute(COUNT)
        assert session.budget().spent_epsilon == spent
    session.close()
