"""Attacks that need a whole session, from `dpsql.connect` to the guess: reconstruction, membership inference,
differencing, averaging, and analysts who work together.

What is tested is the promise itself. Who is in the data is decided by fair coins; under an account of epsilon, each
guess about a coin is right with probability at most e^epsilon / (1 + e^epsilon), an advantage of (e^epsilon - 1) /
(e^epsilon + 1) over guessing blindly, and n guesses are right no more often than n independent coins of that bias (the
theorem in `dpsql.audit.one_run`). A test fails where more are right than happens once in 10^8 times. Each attack is
also shown to work where there is no noise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from random import Random

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import dpsql
from dpsql.audit import canaries
from dpsql.audit.data import home as audit_home
from dpsql.audit.one_run import count_right, guess, p_value
from dpsql.audit.report import broken, table
from dpsql.owner import balances_of
from dpsql.vault import noise
from tests.attacks.draws import draws
from tests.attacks.neighbours import Pair
from tests.audit import faults

RARE = 1e-8
PEOPLE, QUESTIONS, AT_ONCE = 120, 240, 24
POLICY = """\
version = 1
[unit]
name = "person"
[budget]
account = "{account}"
epsilon = "{epsilon}"
per_query_epsilon = "{epsilon}"
max_query_epsilon = "{epsilon}"
{more}
[tables.people]
unit = "uid"
key = ["uid"]
max_rows_per_unit = 1
[tables.people.columns]
uid = {{}}
"""


def people(folder: Path, coins: Sequence[bool], epsilon: str, more: str = "") -> tuple[Path, Path]:
    """(policy, database) of those whose coin fell so."""
    database, policy = folder / "people.duckdb", folder / "people.toml"
    with duckdb.connect(str(database)) as connection:
        connection.execute("CREATE TABLE people(uid BIGINT)")
        connection.executemany("INSERT INTO people VALUES (?)", [[i] for i, coin in enumerate(coins) if coin])
    policy.write_text(POLICY.format(account="people", epsilon=epsilon, more=more), encoding="utf-8")
    return policy, database


def subsets(random: Random) -> list[tuple[str, np.ndarray]]:
    """Questions about pseudo-random halves of all people who might be there: as SQL, and who is in them."""
    made = []
    who = np.arange(PEOPLE)
    for _ in range(QUESTIONS):
        a, b = random.randrange(1, 10007), random.randrange(10007)
        made.append((f"COUNT_IF(({a} * uid + {b}) % 10007 < 5003)", ((a * who + b) % 10007 < 5003).astype(float)))
    return made


def reconstructed(questions: Sequence[np.ndarray], answers: Sequence[float]) -> list[float]:
    """How much of each person is there, in [0, 1]: the linear program's relaxation, in least squares, by accelerated
    projected gradients (Beck, Teboulle 2009)."""
    a, y = np.array(questions), np.array(answers)
    step = 1 / np.linalg.norm(a, 2) ** 2
    x = ahead = np.full(a.shape[1], 0.5)
    momentum = 1.0
    for _ in range(500):
        after = np.clip(ahead - step * (a.T @ (a @ ahead - y)), 0, 1)
        faster = (1 + (1 + 4 * momentum**2) ** 0.5) / 2
        x, ahead, momentum = after, after + (momentum - 1) / faster * (after - x), faster
    return [float(v) for v in x]


def attack(connections: Sequence[dpsql.Connection], coins: Sequence[bool], epsilon: str, seed: int) -> int:
    """How many of all coins are guessed right from the answers to all questions, each asked over the next of these
    connections at an even part of epsilon."""
    questions, answers = subsets(Random(seed)), list[float]()
    for i in range(0, QUESTIONS, AT_ONCE):
        connection = connections[i // AT_ONCE % len(connections)]
        connection.execute(f"SET epsilon = '{float(epsilon) * AT_ONCE / QUESTIONS}'")
        asked = ", ".join(f"{sql} AS q{k}" for k, (sql, _) in enumerate(questions[i : i + AT_ONCE]))
        (row,) = connection.execute(f"SELECT {asked} FROM people").fetchall()
        answers += [float(value) for value in row]
    return count_right(guess(reconstructed([inside for _, inside in questions], answers), PEOPLE), coins)


def coins_of(seed: int) -> list[bool]:
    random = Random(seed)
    return [random.random() < 0.5 for _ in range(PEOPLE)]


@pytest.mark.parametrize("epsilon", ["1", *(pytest.param(e, marks=pytest.mark.audit) for e in ("0.25", "2", "8"))])
def test_b16_reconstruction_of_everybody(tmp_path: Path, epsilon: str) -> None:
    coins = coins_of(int(float(epsilon) * 4) + 1)  # at epsilon 1 half of them are in, as is guessed
    policy, database = people(tmp_path, coins, epsilon)
    with dpsql.connect(policy, database) as connection:
        right = attack([connection], coins, epsilon, 1)
        assert connection.budget.spent_epsilon == connection.budget.epsilon
        with pytest.raises(dpsql.BudgetError, match="DP401"):
            connection.execute("SELECT COUNT(*) FROM people WHERE uid > 3")
    assert p_value(PEOPLE, PEOPLE, right, float(epsilon)) > RARE, f"{right} of {PEOPLE} are known"


def test_b16_reconstruction_works_without_noise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(noise, "_add", lambda exact, _: exact)
    coins = coins_of(5)  # half of them are in, as is guessed
    policy, database = people(tmp_path, coins, "1")
    with dpsql.connect(policy, database) as connection:
        right = attack([connection], coins, "1", 1)
    assert right > 0.95 * PEOPLE
    assert p_value(PEOPLE, PEOPLE, right, 1.0) < RARE


def test_b17_two_analysts_who_pool_what_they_are_told(tmp_path: Path) -> None:
    """Each has a budget of 1, and both together have no more: the bound is that of 1, not that of 2."""
    coins = coins_of(4)
    policy, database = people(tmp_path, coins, "1", 'per_analyst = true\njoint_epsilon = "1"')
    with ExitStack() as stack:
        both = [stack.enter_context(dpsql.connect(policy, database, analyst=name)) for name in ("ann", "bob")]
        right = attack(both, coins, "1", 2)
        for one in both:
            with pytest.raises(dpsql.BudgetError, match="DP401: all analysts of this account together"):
                one.execute("SELECT COUNT(*) FROM people WHERE uid > 3")
    joint, *_ = balances_of(policy)
    assert joint.spent_epsilon == joint.epsilon == 1
    assert p_value(PEOPLE, PEOPLE, right, 1.0) > RARE


def test_b17_who_asks_the_same_is_told_the_same(tmp_path: Path) -> None:
    policy, database = people(tmp_path, coins_of(5), "1", 'per_analyst = true\njoint_epsilon = "2"')
    with (
        dpsql.connect(policy, database, analyst="ann") as ann,
        dpsql.connect(policy, database, analyst="bob") as bob,
    ):
        one, other = (c.execute("SELECT COUNT(*) FROM people WHERE uid > 3").fetchall() for c in (ann, bob))
    assert one == other
    assert balances_of(policy)[0].spent_epsilon == 1


# --------------------------------------------------------------------------------------- membership by canaries


@pytest.fixture
def made(tmp_path: Path) -> canaries.Canaries:
    return canaries.deep(tmp_path / "canaries", Random(16), "1")


ONE_GROUP_BY = [canaries.Question(("COUNT(*)", "SUM(beyond)"), "rows")]


def test_b16_a_thousand_canaries_in_one_group_by(made: canaries.Canaries, tmp_path: Path) -> None:
    with audit_home(tmp_path / "own"):
        findings = canaries.audit(made, ONE_GROUP_BY)
    assert len(findings) == 2
    assert not [f for f in findings if f.doubt > 8], table(findings)


@pytest.mark.parametrize("fault", [faults.a_column_without_noise, faults.no_limit_on_rows, faults.constant_noise])
def test_b16_canaries_find_a_fault(
    made: canaries.Canaries, fault: faults.Fault, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fault(monkeypatch)
    with audit_home(tmp_path / "own"):
        assert broken(canaries.audit(made, ONE_GROUP_BY))


# ------------------------------------------------------------------------------------ differencing and averaging

ALL, BUT_ONE = "SELECT COUNT(*) FROM patients", "SELECT COUNT(*) FROM patients WHERE uid <> 7"
ROUNDS = 6000


def test_b14_the_difference_of_two_counts_tells_no_more_than_both_cost(pure: Pair) -> None:
    """Both counts of one side, drawn anew in each round; the guess is from their difference alone. The person's three
    rows move the first count by its whole sensitivity."""
    pure.settings({})
    every, but_one = draws(pure, ALL)[1], draws(pure, BUT_ONE)[1]
    random = Random(14)
    coins = [random.random() < 0.5 for _ in range(ROUNDS)]
    differences = [_count(every[not coin]) - _count(but_one[not coin]) for coin in coins]
    right = count_right([1 if d > 1.5 else -1 for d in differences], coins)
    assert p_value(ROUNDS, ROUNDS, right, 2 * 0.5) > RARE, "epsilon is 0.5 for each of the two"
    # 56.2 % are right by the law of the two noises: the blind, 50 %, are beaten by 6.5 standard deviations beyond this.
    assert p_value(ROUNDS, ROUNDS, right, 0) < 1e-3, "the attack sees something"


def _count(draw: Callable[[], pa.Table]) -> int:
    return int(draw().column("a1")[0].as_py())


SPELLINGS = [
    "SELECT COUNT(*) FROM people WHERE uid > 30",
    "select count(*)  b from people where (uid>30)",
    "SELECT COUNT(*) AS n FROM people p WHERE p.uid > 30 ORDER BY n",
    "SELECT n FROM (SELECT COUNT(*) AS n FROM people WHERE uid > 30) t",
    "WITH t AS (SELECT COUNT(*) AS n FROM main.people WHERE uid > 30) SELECT n + 0 FROM t",
    "SELECT COUNT(*) FROM people WHERE NOT uid <= 30",
    "SELECT COUNT(*) FROM people WHERE uid >= 31",
    "SELECT COUNT(*) FROM people WHERE 30 < uid",
    "SELECT COUNT(uid) FROM people WHERE uid > 30",
    "SELECT COUNT_IF(uid > 30) FROM people",
]


def test_b07_s09_a_repeat_is_the_same_noise(tmp_path: Path) -> None:
    """However it is spelled: what is not free is charged, and only what is charged has a noise of its own. So the mean
    of all that was told is worth no more than what was paid."""
    policy, database = people(tmp_path, coins_of(6), "20")
    told: list[int] = []
    with dpsql.connect(policy, database) as connection:
        connection.execute("SET epsilon = '1'")
        for sql in SPELLINGS * 4:
            cursor = connection.execute(sql)
            assert cursor.receipt is not None
            ((value,),) = cursor.fetchall()
            if told and cursor.receipt.epsilon == 0:
                assert value in told
            told.append(value)
        spent = connection.budget.spent_epsilon
    assert told[: len(SPELLINGS)] * 4 == told
    assert told[:5] == told[:1] * 5
    assert len(set(told)) <= spent <= len(SPELLINGS)
