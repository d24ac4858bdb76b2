"""The two private choices of examples/choices: each statement chooses with the textbook's probabilities, and is charged
what the proof says."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Sequence
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import pytest

from dpsql.explain import explain
from dpsql.session import Session, open_session
from dpsql.vault.noise import release
from tests.end.conftest import ROOT, Run
from tests.kept import Kept
from tests.privacy.laws import ALARM
from tests.privacy.test_choices import exponential_law, fits, flip_law

FOLDER = ROOT / "examples" / "choices"
DRAWS = {"exponential": 3000, "permute_and_flip": 1000}
SPORTS, VOTES = ["football", "volleyball", "running", "rugby"], (30, 25, 8, 2)
PRICES = [Decimal("1.00"), Decimal("3.01"), Decimal("3.02")]
VOTE = "SELECT sport FROM votes WHERE sport IS NOT NULL GROUP BY sport ORDER BY COUNT(*) DESC LIMIT 1"
PRICE = "SELECT price FROM bids JOIN prices ON bid {} price GROUP BY price ORDER BY price * COUNT(*) DESC LIMIT 1"


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    spec = importlib.util.spec_from_file_location("choices_data", FOLDER / "data.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    target = tmp_path_factory.mktemp("choices") / "choices.duckdb"
    module.write(target)
    return target


@pytest.fixture(params=["exponential", "permute_and_flip"])
def session(request: pytest.FixtureRequest, database: Path, tmp_path: Path) -> Iterator[Session]:
    policy = tmp_path / "policy.toml"
    text = (FOLDER / "policy.toml").read_text(encoding="utf-8")
    policy.write_text(text.replace('"exponential"', f'"{request.param}"', 1), encoding="utf-8")
    opened = open_session(policy, database)
    yield opened
    opened.close()


def drawn(session: Session, sql: str, epsilon: str) -> list[object]:
    """Many answers to a statement, as if each had been asked for the first time."""
    session.settings.set("epsilon", epsilon)
    compiled = session.compile(sql)
    (planned,), (sealed,) = compiled.plan.releases, compiled.rewritten.inner
    exact, (key,) = Kept(session._engines.private.run(sealed.text)), planned.release.key_names
    found: list[object] = []
    for _ in range(DRAWS[session.policy.budget.selection]):
        noisy = release(exact, sealed, planned).table(planned)
        found += noisy.column(key).to_pylist()
    shown = session._outer.finish(compiled.rewritten, {planned.release.name: noisy})
    assert shown.column(0).to_pylist() == noisy.column(key).to_pylist()
    return found


def law(session: Session, utilities: Sequence[int], sensitivity: int, epsilon: str) -> list[Decimal]:
    of = exponential_law if session.policy.budget.selection == "exponential" else flip_law
    return of(utilities, sensitivity, Fraction(epsilon))


def test_the_vote_is_decided_with_the_exact_probabilities(session: Session) -> None:
    found = [SPORTS.index(str(s)) for s in drawn(session, VOTE, "0.1")]
    assert fits(found, law(session, VOTES, 1, "0.1")) > ALARM


def test_mode_is_the_same_choice(session: Session) -> None:
    plans = [session.compile(sql).plan.releases[0] for sql in (VOTE, "SELECT MODE(sport) FROM votes")]
    assert [(p.choosing, p.keys, p.pure) for p in plans] == [(plans[0].choosing, 4, Fraction(1, 2))] * 2


@pytest.mark.parametrize(("operator", "revenues"), [("=", (300, 301, 0)), (">=", (400, 301, 0))])
def test_the_price_is_chosen_with_the_exact_probabilities(
    operator: str, revenues: Sequence[int], session: Session
) -> None:
    found = [PRICES.index(p) for p in drawn(session, PRICE.format(operator), "5") if isinstance(p, Decimal)]
    assert len(found) == DRAWS[session.policy.budget.selection]
    assert fits(found, law(session, revenues, 302, "5")) > ALARM


def test_half_is_charged_and_repeats_are_free(session: Session) -> None:
    first = session.execute(VOTE)
    assert first.receipt is not None
    assert (first.receipt.epsilon, first.receipt.remaining_epsilon) == (Fraction(1, 2), Fraction(39, 2))
    (column,) = first.receipt.columns
    assert (column.name, column.epsilon, column.weighs) == ("COUNT(*)", Fraction(1, 2), 1)
    assert (column.scale, column.half_width) == (None, None)
    assert column.mechanism in ("exponential mechanism", "permute and flip")
    other = session.execute(VOTE.replace("sport", "sport AS winner", 1))
    assert other.receipt is not None
    assert other.table.column(0).to_pylist() == first.table.column(0).to_pylist()
    assert other.receipt.epsilon == 0


def test_scores_that_move_both_ways_cost_all(session: Session) -> None:
    sql = VOTE.replace("COUNT(*)", "SUM(LEAST(GREATEST(voter, -1), 1))")
    session.settings.set("epsilon", "0.5")
    (planned,) = session.compile(sql).plan.releases
    assert (planned.share, planned.pure) == (Fraction(1, 2), Fraction(1, 2))
    factors = VOTE.replace("COUNT(*)", "COUNT(*) * CASE sport WHEN 'rugby' THEN -1 ELSE 1 END")
    (planned,) = session.compile(factors).plan.releases
    assert (planned.share, planned.pure) == (Fraction(1, 2), Fraction(1, 2))


def test_winners_are_different_and_in_their_order(session: Session) -> None:
    answer = session.execute(VOTE.replace("LIMIT 1", "LIMIT 9"))
    assert sorted(answer.table.column(0).to_pylist()) == sorted(SPORTS)
    session.settings.set("epsilon", "19")
    strict = session.execute(VOTE.replace("LIMIT 1", "LIMIT 2"))
    assert strict.table.column(0).to_pylist() == SPORTS[:2]
    least = session.execute(VOTE.replace("DESC LIMIT 1", "ASC LIMIT 1"))
    assert least.table.column(0).to_pylist() in (["rugby"], ["running"])


def test_a_choice_may_stand_in_a_larger_statement(session: Session) -> None:
    session.settings.set("epsilon", "18")
    answer = session.execute(f"SELECT COUNT(*) AS n FROM votes WHERE sport = ({VOTE})")
    assert abs(answer.table.column(0)[0].as_py() - 30) < 15
    assert answer.receipt is not None
    assert answer.receipt.epsilon == Fraction(9, 2) + 9


def test_explain_says_which_of_the_two_a_statement_is(session: Session) -> None:
    chosen, released = (session.compile(s) for s in (VOTE, VOTE.replace("sport FROM", "sport, COUNT(*) FROM", 1)))
    said = explain(chosen.plan, chosen.rewritten)
    assert "choice: 1 of 4, of greatest COUNT(*)" in said
    assert "epsilon 1, charged 0.5" in said
    assert "with its score selected as well: every group released, ± 3 (95 %)" in said
    other = explain(released.plan, released.rewritten)
    assert "post-processing of what is released" in other
    assert "discrete Laplace" in other


def test_the_scripts_run_one_after_the_other(database: Path, process: Run) -> None:
    scripts = sorted(FOLDER.glob("*.sql"))
    given = ("--policy", FOLDER / "policy.toml", "--database", database, "--format", "csv", "-c", "SHOW BUDGET")
    done = process("run", *given, *scripts)
    assert done.returncode == 0, done.stderr
    # Two auctions by epsilon 2, and a vote, a MODE and two winners by epsilon 1; MODE is the same release as the vote.
    assert "choices,epsilon,20," in done.stdout
