"""What is free is what would be new: random questions, settings and policies, against an account that has nothing.

Noise is off, and so are the salts of random choices: an answer that is read from what earlier questions left has the
very values, groups, order and types of one that was drawn for its question. And what a statement is charged is what its
draws cost, by the scale of each and the sensitivity of what it is added to.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dpsql
from dpsql import session as sessions
from dpsql.compile import rewrite
from dpsql.compile.plan import ReleasePlan
from dpsql.privacy import mechanisms
from dpsql.vault import noise
from tests.properties.inns import SETTINGS, SLACK, Theme, build, policy

WORLDS = {
    "rows": policy("max_rows_per_unit = 700"),
    "late": policy('max_rows_per_unit = 700\nlimit = "late"'),
    "all": policy(SLACK),
    "unlisted": policy(SLACK, listed=False, delta="0.5", more='per_query_delta = "1e-6"'),
    "gaussian": policy(SLACK, delta="1e-6", more='composition = "gaussian"\nper_query_delta = "1e-9"'),
    "narrow": policy("max_rows_per_unit = 5\nmax_groups_per_unit = 3\nmax_rows_per_group = 2"),
}
NARROW = ("rows", "late", "cells", "rescale")


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("inns") / "inns.duckdb")


@dataclass
class Draws:
    """Whatever noise is drawn: of each slot of a release its sensitivity over the scale."""

    releases: list[ReleasePlan] = field(default_factory=list)
    costs: list[Fraction] = field(default_factory=list)

    def cost(self) -> Fraction:
        """Of all since the last time."""
        found = sum(self.costs, Fraction(0))
        self.costs.clear()
        return found


@pytest.fixture
def draws(monkeypatch: pytest.MonkeyPatch) -> Draws:
    """Noise of size 0, and what it would have cost."""
    found = Draws()
    drawn: list[Fraction] = []

    def silent(n: int, size: Fraction) -> Any:
        drawn.append(size)
        return np.zeros(n, dtype=np.int64)

    def release(engine: Any, sealed: Any, plan: ReleasePlan, tables: Any) -> Any:
        drawn.clear()
        released = noise.release(engine, sealed, plan, tables)
        sizes = iter(drawn)
        for slot in plan.slots if plan.choosing is None else ():
            (size,) = {next(sizes) for _ in slot.components}
            if slot.sigma is None:
                found.costs.append(slot.norms.l1 / size)
        if plan.choosing is not None:
            found.costs.append(plan.pure)
        return released

    def best(_: str, utilities: list[int], *__: Any) -> list[int]:
        return sorted(range(len(utilities)), key=lambda i: (-utilities[i], i))[: __[-1]]

    monkeypatch.setattr(mechanisms, "discrete_laplace", silent)
    monkeypatch.setattr(mechanisms, "rounded_normal", silent)
    monkeypatch.setattr(noise, "choose", best)
    monkeypatch.setattr(sessions, "release", release)
    monkeypatch.setattr(sessions, "seal_release", lambda plan, _: rewrite.seal_release(plan, 0))
    return found


class Pair:
    """Two accounts over one snapshot: one that remembers, and one that has nothing stored."""

    def __init__(self, text: str, database: Path, folder: Path):
        path = folder / "policy.toml"
        path.write_text(text)
        self.old = dpsql.connect(path, database, ledger=folder / "old.ledger")
        self.new = dpsql.connect(path, database, ledger=folder / "new.ledger")
        self.new._session._repeats._find = lambda _: {}

    def set(self, statement: str) -> bool:
        """Whether the policy lets it."""
        try:
            for one in (self.old, self.new):
                one.execute(statement)
        except dpsql.Error:
            return False
        return True

    def close(self) -> None:
        self.old.close()
        self.new.close()


@pytest.fixture(params=list(WORLDS))
def pair(request: pytest.FixtureRequest, database: Path, tmp_path: Path, draws: Draws) -> Iterator[Pair]:
    found = Pair(WORLDS[request.param], database, tmp_path)
    found.name = request.param  # type: ignore[attr-defined]
    yield found
    found.close()


def same(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return one == pytest.approx(other, abs=1e-3, nan_ok=True)
    return type(one) is type(other) and one == other


def check(pair: Pair, draws: Draws, number: int, seed: int, explained: float = 1) -> Counter[str]:
    """explained: how often EXPLAIN is asked too."""
    draw, seen = random.Random(seed), Counter[str]()
    narrow = pair.name == "narrow"  # type: ignore[attr-defined]
    for i in range(number):
        if i % 10 == 0:
            theme = Theme.drawn(draw)
            pair.set("RESET ALL")
            if narrow:  # whichever the planner likes keeps other rows
                pair.set(f"SET strategy = {draw.choice(NARROW)}")
            if draw.random() < 0.6:
                seen["settings"] += pair.set(draw.choice(SETTINGS[4:] if narrow else SETTINGS))
        text, given = theme.question(draw)
        try:
            fresh = pair.new.execute(text, given)
        except dpsql.Error as error:
            seen[error.code] += 1
            with pytest.raises(dpsql.Error):
                pair.old.execute(text, given)
            continue
        draws.cost()
        said = pair.old.explain(text, given).splitlines() if draw.random() < explained else []
        quote = pair.old._session.quote(text, pair.old._session.quotes(), given).charged
        before = pair.old.budget.spent_epsilon
        found = pair.old.execute(text, given)
        receipt = found.receipt
        assert receipt is not None
        assert (quote.epsilon, quote.mu_squared) == (receipt.epsilon, receipt.mu_squared), text
        assert receipt.mu_squared or receipt.epsilon == pair.old.budget.spent_epsilon - before, text
        assert not said or any(line.startswith("to pay: nothing") for line in said) == (receipt.epsilon == 0), text
        if not receipt.mu_squared and not receipt.delta:
            assert draws.cost() == receipt.epsilon, text
        assert found.description == fresh.description, text
        mine, theirs = found.fetchall(), fresh.fetchall()
        assert len(mine) == len(theirs), (text, said[:5])
        for row, other in zip(mine, theirs, strict=True):
            assert all(map(same, row, other)), (text, row, other, said[:5])
        seen[
            "free" if receipt.epsilon == 0 else "partly" if receipt.epsilon < fresh.receipt.epsilon else "charged"
        ] += 1
    return seen


def test_what_is_free_is_what_would_be_new(pair: Pair, draws: Draws) -> None:
    seen = check(pair, draws, 20, 3, 0.2)
    assert seen["free"] + seen["partly"]
    assert seen["charged"]


@pytest.mark.audit
@pytest.mark.parametrize("seed", range(20))
def test_much_that_is_free_is_what_would_be_new(pair: Pair, draws: Draws, seed: int) -> None:
    check(pair, draws, 300, seed)
