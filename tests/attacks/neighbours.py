"""Two databases that differ in one person, and what may differ of a statement between them.

Nothing of what is said: outcome, message, schema, price, EXPLAIN. Of the exact results, before noise, no more than the
norms in the plan, by the property tests' own check; here policy and rows are chosen by hand, so that a test shows one
attack. A third database holds the person's rows alone: what moves is what they give by themselves.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path

import duckdb
import pyarrow as pa

from dpsql.compile import rewrite
from dpsql.compile.parse import Parameters
from dpsql.compile.plan import ReleasePlan
from dpsql.errors import Error
from dpsql.explain import explain
from dpsql.owner import open_account
from dpsql.policy.load import load_policy
from dpsql.prices import Due
from dpsql.reads import Reads
from dpsql.repeats.lookup import Match
from dpsql.session import Compiled, Session
from dpsql.vault import snapshot as snapshots
from dpsql.vault.open import open_engines
from tests.end.test_end_leaks import told
from tests.properties.checks import check_moves, difference, vectors
from tests.properties.worlds import SALT

BUDGET = """\
version = 1
[unit]
name = "person"
[budget]
account = "pair"
epsilon = "1000"
delta = "{delta}"
per_query_epsilon = "0.5"
max_query_epsilon = "1000"
"""


@dataclass(frozen=True, slots=True)
class Seen:
    """What an analyst sees of a statement besides noisy numbers. outcome: "answered" or a code. told: all of its texts:
    message, EXPLAIN, or schema and receipt; in an error also what lies behind it. compiled: not of SET, SHOW, ..."""

    outcome: str
    told: tuple[str, ...]
    price: tuple[Fraction, Fraction]
    compiled: Compiled | None = field(compare=False)


class _Recorded(Session):
    """Keeps what it compiled last."""

    compiled: Compiled | None = None

    def compile(self, sql: str, parameters: Parameters | None = None, *, name: str = "") -> Compiled:
        self.compiled = super().compile(sql, parameters, name=name)
        return self.compiled


class Pair:
    """A database with and without the rows of one person."""

    def __init__(self, folder: Path, tables: str, person: str, policy: str, *, delta: str = "0"):
        """tables: what both sides hold. person: inserts the rows of one."""
        file = folder / "pair.toml"
        file.write_text(BUDGET.format(delta=delta) + policy, encoding="utf-8")
        loaded = load_policy(file)
        private = "".join(f";DELETE FROM {t.source}" for t in loaded.tables.values() if not t.public)
        made = {}
        for name, script in (
            ("with", f"{tables};{person}"),
            ("without", tables),
            ("alone", f"{tables}{private};{person}"),
        ):
            database = folder / f"{name}.duckdb"
            with duckdb.connect(str(database)) as connection:
                connection.execute(script)
            made[name] = snapshots._make(loaded, database, folder, lambda *_: None, SALT)
        self._alone = open_engines(made["alone"])
        self.sides: list[_Recorded] = []
        for name in ("with", "without"):
            ledger = open_account(loaded, made[name], folder / f"{name}.sqlite")
            self.sides.append(_Recorded(loaded, made[name], open_engines(made[name]), ledger))

    def __enter__(self) -> Pair:
        return self

    def __exit__(self, *_: object) -> None:
        self._alone.close()
        for side in self.sides:
            side.close()

    def settings(self, settings: Mapping[str, str]) -> None:
        """What is set from here on, and nothing else."""
        for side in self.sides:
            side.settings.reset(None)
            for name, value in settings.items():
                side.settings.set(name, value)

    def ask(self, sql: str) -> Seen:
        """What is seen of a statement. Raises AssertionError where the sides differ in it."""
        one, other = (_asked(side, sql) for side in self.sides)
        assert one == other, f"the neighbours differ in what is seen of {sql}"
        return one

    def exact(self, one: Compiled) -> list[tuple[ReleasePlan, pa.Table, pa.Table, pa.Table]]:
        """Of each release: its plan, and the exact results with the person, without, and of the person alone. All read
        the same earlier releases."""
        reads, released = Reads(one.rewritten.publics, self.sides[0]._outer.run), {}
        engines = [*(side._engines.private for side in self.sides), self._alone.private]
        found = []
        for plan, sealed in zip(one.plan.releases, one.rewritten.inner, strict=True):
            salted = rewrite.seal_release(plan, 1) if rewrite.is_salted(plan) else sealed
            tables = reads.of(plan, released)
            assert tables is not None
            larger, smaller, alone = (engine.run(salted.text, tables) for engine in engines)
            due = Due(plan, None, Match({}, plan, None))
            released[plan.release.name] = self.sides[0]._release(due, sealed, tables).table(plan)
            found.append((plan, larger, smaller, alone))
        return found

    def check(self, sql: str) -> list[dict[str, int]]:
        """`moves` of a statement. Raises Error where it is refused."""
        one, other = (side.compile(sql) for side in self.sides)
        assert one.rewritten == other.rewritten
        return self.moves(one)

    def moves(self, compiled: Compiled) -> list[dict[str, int]]:
        """How far the person moves each slot, and how far the plan says at most. Raises Violation where it is further,
        or where a row of somebody else moves."""
        moves = []
        for plan, larger, smaller, alone in self.exact(compiled):
            check_moves(plan, larger, smaller, alone)
            for slot, big, small in zip(plan.slots, vectors(larger, plan), vectors(smaller, plan), strict=True):
                l1 = sum(abs(x) for part in difference(big, small).values() for x in part)
                moves.append({"l1": l1, "norm": slot.norms.l1})
        return moves


def _asked(session: _Recorded, sql: str) -> Seen:
    before, session.compiled = session.budget(), None
    try:
        answer = session.execute(sql)
        compiled = session.compiled
        texts = [str(answer.table.schema), str(answer.receipt.columns if answer.receipt else "")]
        texts += [explain(compiled.plan, compiled.rewritten)] if compiled is not None else []
        outcome = "answered"
    except Error as error:
        outcome, texts = error.code, list(told(error))
    after = session.budget()
    price = (after.spent_epsilon - before.spent_epsilon, after.spent_delta - before.spent_delta)
    return Seen(outcome, tuple(texts), price, session.compiled)
