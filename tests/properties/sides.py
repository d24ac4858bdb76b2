"""Snapshots of a world with all that is asked of them; what is read of earlier releases is made up, alike for all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from dpsql.compile import rewrite
from dpsql.compile.plan import ReleasePlan
from dpsql.compile.relations import publics
from dpsql.errors import Error
from dpsql.ledger import Ledger, terms
from dpsql.session import Compiled, Session
from dpsql.vault.engine import EngineFailure
from dpsql.vault.open import Engines, open_engines
from dpsql.vault.snapshot import Snapshot
from tests.properties import fed
from tests.properties.asked import Asked
from tests.properties.differences import Violation
from tests.properties.worlds import Database, World

UNREAD = "the public part of it cannot be computed"


@dataclass(frozen=True, slots=True)
class Ready:
    """A compiled statement, the SQL of its releases under its salt, and what they read of public queries."""

    compiled: Compiled
    texts: list[str]
    tables: Mapping[str, pa.Table]

    @property
    def plans(self) -> tuple[ReleasePlan, ...]:
        return self.compiled.plan.releases

    def read(self, plan: ReleasePlan) -> dict[str, pa.Table]:
        """The tables that a release reads beside the snapshot."""
        return {name: self.tables[name] for name in publics(plan.release.input)}

    def run(self, engine: Any) -> list[pa.Table]:
        """The exact results of the releases. The engine cannot fail, by the total forms."""
        pairs = zip(self.plans, self.texts, strict=True)
        return [run(engine, text, self.read(plan)) for plan, text in pairs]


def run(engine: Any, text: str, tables: Mapping[str, pa.Table]) -> pa.Table:
    try:
        return engine.run(text, tables)
    except EngineFailure as failure:
        raise Violation(f"the engine failed: {failure.detail}\n{text}") from None


@dataclass
class Side:
    """One snapshot, with all that is asked of it. fed: see `Bench`."""

    snapshot: Snapshot
    engines: Engines
    session: Session
    fed: dict[Asked, Mapping[str, pa.Table] | None]
    outcomes: dict[Asked, Ready | str]
    results: dict[Asked, list[pa.Table]]

    def set(self, one: Asked) -> None:
        """What is set for a statement, and nothing else."""
        self.session.settings.reset(None)
        for name, value in one.settings:
            self.session.settings.set(name, value)

    def outcome(self, one: Asked) -> Ready | str:
        """The compiled statement, or the words of its refusal. An internal error is neither."""
        if one not in self.outcomes:
            try:
                self.set(one)
                self.outcomes[one] = self._ready(one, self.session.compile(one.sql))
            except Error as error:
                if error.code.startswith("DP9"):
                    raise
                self.outcomes[one] = str(error)
        return self.outcomes[one]

    def _ready(self, one: Asked, compiled: Compiled) -> Ready | str:
        pairs = zip(compiled.plan.releases, compiled.inner_sql, strict=True)
        texts = [rewrite.seal_release(p, one.salt).text if rewrite.is_salted(p) else t for p, t in pairs]
        if one not in self.fed:
            self.fed[one] = fed.tables(one.salt, compiled, texts, self.engines)
        tables = self.fed[one]
        return Ready(compiled, texts, tables) if tables is not None else UNREAD

    def exact(self, one: Asked) -> list[pa.Table]:
        if one not in self.results:
            ready = self.outcome(one)
            assert isinstance(ready, Ready)
            self.results[one] = ready.run(self.engines.private)
        return self.results[one]


class Bench:
    """A world with its ledger; closes what it opens. fed: what each statement reads of public queries, on whichever
    side it was asked first: any values may stand there, as long as they are the same for all."""

    def __init__(self, world: World):
        self.world = world
        self.fed: dict[Asked, Mapping[str, pa.Table] | None] = {}
        self._open: list[Any] = []
        budget = world.policy.budget
        file = world.folder / "ledger.sqlite"
        self.ledger = Ledger.open(
            file,
            terms(
                "world",
                epsilon=budget.epsilon,
                delta=budget.delta,
                composition="basic",
                unit="person",
                sources=["s"],
                analyst=None,
            ),
        )

    def __enter__(self) -> Bench:
        return self

    def __exit__(self, *_: object) -> None:
        for thing in [*self._open, self.ledger]:
            thing.close()

    def side(self, database: Database) -> Side:
        snapshot = self.world.snapshot(database)
        engines = self.keep(open_engines(snapshot, threads=1))
        return Side(snapshot, engines, Session(self.world.policy, snapshot, engines, self.ledger), self.fed, {}, {})

    def keep(self, thing: Any) -> Any:
        self._open.append(thing)
        return thing
