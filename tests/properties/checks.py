"""The check of the sensitivity property: what two snapshots that differ in one unit may differ in.

Norms, limits and slots are read from the plan, never worked out again from the policy. Whatever does not hold is a
`Violation`, which begins with the number of the property: (i) rows, (ii) norms, (iii) keys, (v) what is said, (vi)
circumstances.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from dpsql.compile.plan import ReleasePlan
from dpsql.errors import Error
from dpsql.explain import explain
from dpsql.ledger import Ledger
from dpsql.session import Compiled, Session
from dpsql.vault import noise
from dpsql.vault.engine import EngineFailure
from dpsql.vault.open import Engines, open_engines
from dpsql.vault.snapshot import Snapshot
from tests.properties import worlds
from tests.properties.grammar import Grammar
from tests.properties.worlds import Database, Difference, Removed, Row, Unoptimized, Violation, World

Vector = dict[tuple[object, ...], tuple[int, ...]]
"""Group key -> the components of a slot."""


def ask(engine: Any, compiled: Compiled) -> list[pa.Table]:
    """The exact results of a statement's releases. The engine cannot fail, by the total forms."""
    try:
        return [engine.run(text) for text in compiled.inner_sql]
    except EngineFailure as failure:
        raise Violation(f"the engine failed: {failure.detail}") from None


def vectors(table: pa.Table, plan: ReleasePlan) -> list[Vector]:
    """The vector of each slot, as the noise is added to it."""
    keys = [table.column(k.name).to_pylist() for k in plan.release.keys]
    rows = list(zip(*keys, strict=True)) if keys else [()]
    if len(set(rows)) != len(rows) or len(rows) != table.num_rows:
        raise Violation("a key stands twice")
    if plan.keys is not None and len(rows) > plan.keys:
        raise Violation(f"there are {len(rows)} keys, and the plan counts {plan.keys}")
    found = []
    for i, slot in enumerate(plan.slots, 1):
        parts = list(zip(*(c.tolist() for c in noise._components(table, i, slot, plan.limits)), strict=True))
        found.append(dict(zip(rows, parts, strict=True)))
    return found


def check_moves(plan: ReleasePlan, larger: pa.Table, smaller: pa.Table, alone: pa.Table) -> None:
    """Properties (ii) and (iii) of one release."""
    if larger.schema != smaller.schema:
        raise Violation("(v) the result has another schema")
    trio = zip(plan.slots, *(vectors(t, plan) for t in (larger, smaller, alone)), strict=True)
    for slot, big, small, unit in trio:
        if list(big) != list(small):
            raise Violation("(v) the result has other keys")
        moved = {k: tuple(a - b for a, b in zip(big[k], small[k], strict=True)) for k in big}
        l1 = sum(abs(x) for part in moved.values() for x in part)
        linf = max((abs(x) for part in moved.values() for x in part), default=0)
        changed = [k for k, part in moved.items() if any(part)]
        if l1 > slot.norms.l1 or linf > slot.norms.linf:
            raise Violation(f"(ii) {slot.kind} moved by {l1} in L1, {linf} at most; the plan says {slot.norms}")
        if len(changed) > slot.norms.keys:
            raise Violation(f"(iii) {slot.kind}: {len(changed)} keys changed; the plan says {slot.norms.keys}")
        if moved != unit:
            raise Violation(f"(iii) {slot.kind} moved by {moved}, and the unit's rows alone give {unit}")


# ---- sessions over the snapshots of a world


@dataclass
class Side:
    """One snapshot, with all that is asked of it."""

    snapshot: Snapshot
    engines: Engines
    session: Session
    outcomes: dict[str, Compiled | str]
    results: dict[str, list[pa.Table]]

    def outcome(self, sql: str) -> Compiled | str:
        """The compiled statement, or the words of its refusal. An internal error is neither."""
        if sql not in self.outcomes:
            try:
                self.outcomes[sql] = self.session.compile(sql)
            except Error as error:
                if error.code.startswith("DP9"):
                    raise
                self.outcomes[sql] = str(error)
        return self.outcomes[sql]

    def exact(self, sql: str) -> list[pa.Table]:
        if sql not in self.results:
            compiled = self.outcome(sql)
            assert isinstance(compiled, Compiled)
            self.results[sql] = ask(self.engines.private, compiled)
        return self.results[sql]


class Bench:
    """A world with its ledger; closes what it opens."""

    def __init__(self, world: World):
        self.world = world
        self._open: list[Any] = []
        budget = world.policy.budget
        file = world.folder / "ledger.sqlite"
        self.ledger = Ledger.open(
            file,
            "world",
            epsilon=budget.epsilon,
            delta=budget.delta,
            composition="basic",
            unit="person",
            sources=["s"],
            analyst=None,
        )

    def __enter__(self) -> Bench:
        return self

    def __exit__(self, *_: object) -> None:
        for thing in [*self._open, self.ledger]:
            thing.close()

    def side(self, database: Database) -> Side:
        snapshot = self.world.snapshot(database)
        engines = self.keep(open_engines(snapshot, threads=1))
        return Side(snapshot, engines, Session(self.world.policy, snapshot, engines, self.ledger), {}, {})

    def keep(self, thing: Any) -> Any:
        self._open.append(thing)
        return thing


def check_same_outcome(sql: str, a: Side, b: Side) -> None:
    """Property (v): all that is said before the engine is asked."""
    left, right = a.outcome(sql), b.outcome(sql)
    if isinstance(left, str) or isinstance(right, str):
        if left != right:
            raise Violation(f"(v) another outcome: {left} against {right}")
        return
    if left.rewritten != right.rewritten or left.plan.epsilon != right.plan.epsilon:
        raise Violation("(v) another plan")
    if explain(left.plan, left.rewritten) != explain(right.plan, right.rewritten):
        raise Violation("(v) another EXPLAIN")


def check_noise(sql: str, side: Side, patch: pytest.MonkeyPatch) -> list[str]:
    """The vault noises exactly the vectors that are measured here, with scale norms.l1 / epsilon, and nothing else
    leaves it. Returns the schema of the answer."""
    compiled = side.outcome(sql)
    assert isinstance(compiled, Compiled)
    seen: list[tuple[Fraction, list[int]]] = []
    plain = noise._add

    def add(exact: noise.Integers, draw: noise.DiscreteLaplace) -> noise.Integers:
        seen.append((draw.scale, [int(x) for x in exact]))
        return plain(exact, draw)

    with patch.context() as inner:
        inner.setattr(noise, "_add", add)
        answer = side.session.execute(sql)
    expected = []
    for plan, table in zip(compiled.plan.releases, side.exact(sql), strict=True):
        for slot, vector in zip(plan.slots, vectors(table, plan), strict=True):
            scale = Fraction(slot.norms.l1) / slot.epsilon
            columns = zip(*vector.values(), strict=True) if vector else [()] * (2 if slot.kind is SlotKind.MEAN else 1)
            expected += [(scale, list(column)) for column in columns]
    assert compiled.plan.epsilon == side.session.settings.request.epsilon == answer.receipt.epsilon  # type: ignore[union-attr]
    assert seen == expected, f"{sql}: noise is not added to what is measured, or at another scale"
    return [f"{f.name} {f.type}" for f in answer.table.schema]


# ---- pairs


def check_pair(statements: Sequence[str], a: Side, b: Side, removed: Removed) -> None:
    """Properties (i) to (iii) for one unit removed."""
    with Difference(a.snapshot, b.snapshot, removed) as unit:
        for sql in statements:
            compiled = a.outcome(sql)
            if isinstance(compiled, Compiled):
                try:
                    alone = [unit.run(text) for text in compiled.inner_sql]
                    trio = zip(compiled.plan.releases, a.exact(sql), exact_by(a, b, sql), alone, strict=True)
                    for plan, larger, smaller, one in trio:
                        check_moves(plan, larger, smaller, one)
                except Violation as violation:
                    raise Violation(f"{removed}: {violation}\n{sql}\n" + "\n".join(compiled.inner_sql)) from None


def exact_by(a: Side, b: Side, sql: str) -> list[pa.Table]:
    """b's results of a's statement: b need not compile it again."""
    if sql not in b.outcomes:
        b.outcomes[sql] = a.outcomes[sql]
    return b.exact(sql)


def check_variant(statements: Sequence[str], side: Side, engine: Any, how: str) -> None:
    """Property (vi): the same results under other circumstances."""
    for sql in statements:
        compiled = side.outcome(sql)
        if isinstance(compiled, Compiled):
            others = [engine.run(text) for text in compiled.inner_sql]
            for plan, one, other in zip(compiled.plan.releases, side.exact(sql), others, strict=True):
                if vectors(one, plan) != vectors(other, plan) or one.schema != other.schema:
                    raise Violation(f"(vi) {how} gives another result: {sql}")


def shuffled(r: Random, database: Database) -> dict[str, list[Row]]:
    return {name: r.sample(list(rows), len(rows)) for name, rows in database.items()}


def explore(folder: Path, seed: int, statements: int, neighbours: int, patch: pytest.MonkeyPatch) -> tuple[int, int]:
    """One world: units leave one by one. Returns (neighbours, statements answered)."""
    r = Random(seed)
    public = worlds.random_public(r)
    database: Database = worlds.random_rows(r)
    grammar = Grammar(r)
    texts = list(dict.fromkeys(grammar.statement() for _ in range(statements)))
    pairs = 0
    with Bench(World(folder, public)) as bench:
        larger = bench.side(database)
        answered = [sql for sql in texts if isinstance(larger.outcome(sql), Compiled)]
        for removed, smaller_rows in worlds.chain(r, database, neighbours):
            smaller = bench.side(smaller_rows)
            if larger.snapshot.facts.tables != smaller.snapshot.facts.tables:
                raise Violation("(v) the planner is told another fact")
            for sql in texts[pairs % 8 :: 8]:
                check_same_outcome(sql, larger, smaller)
            check_pair(texts, larger, smaller, removed)
            if answered:
                sql = answered[pairs % len(answered)]
                if check_noise(sql, larger, patch) != check_noise(sql, smaller, patch):
                    raise Violation(f"(v) the answer has another schema: {sql}")
            match pairs % 3:
                case 0:
                    engine, how = bench.keep(Unoptimized(smaller.snapshot)), "no optimizer"
                case 1:
                    engine, how = bench.keep(open_engines(smaller.snapshot, threads=2)).private, "two threads"
                case _:
                    engine, how = bench.side(shuffled(r, smaller_rows)).engines.private, "another order of rows"
            check_variant(texts, smaller, engine, how)
            larger, pairs = smaller, pairs + 1
    return pairs, len(answered)


# ---- databases and statements that show what a fault spoils

PUBLIC = ["INSERT INTO zones VALUES ('z0', 'X')", "INSERT INTO regions VALUES ('R1', 'L', 'z0'), ('R2', NULL, NULL)"]
PUBLIC += [
    "INSERT INTO items VALUES (1, 'food', 0.19), (2, 'tool', 1)",
    "INSERT INTO prices VALUES (1, 10), (1, 20), (2, 5)",
]


def rows(**tables: Sequence[Sequence[str]]) -> dict[str, list[Row]]:
    """A database; each row gives the first columns, and the others are NULL."""
    made: dict[str, list[Row]] = {name: [] for name in worlds.TABLES}
    for name, given_rows in tables.items():
        width = len(worlds.TABLES[name].columns)
        made[name] = [(*row, *["NULL"] * (width - len(row))) for row in given_rows]
    return made


def people(*units: str) -> list[list[str]]:
    return [[unit, "'a'", "30", "'R1'", "'F'", "99.9"] for unit in units]


CROWDED = rows(
    people=people("1", "2"),
    events=[["1", "'a'", "1", "1", "7", str(i % 10)] for i in range(9)] + [["2", "'b'", "2", "2", "-5", "3"]],
    # A basket of two units, with five lines: each of the two owns copies of all.
    baskets=[["1", "1", "'north'"], ["1", "2", "'south'"], ["2", "1", "'north'"]],
    lines=[["1", str(i % 3), "20"] for i in range(5)],
)
NOBODY = rows(people=people("NULL", "1"), events=[["NULL", "'a'", "1", "1"], ["1", "'a'", "1", "1"]])

# What the check is asked, by what a fault would spoil.
COUNT = "SELECT COUNT(*) FROM events"
JOIN = "SELECT COUNT(*) FROM lines l JOIN baskets b ON l.bid = b.bid"
SUM = "SELECT region, SUM(cost) FROM people GROUP BY region"
MEAN = "SELECT AVG(cost), SUM(cost) FROM people"
UNITS = "SELECT grade, COUNT(DISTINCT uid) FROM events GROUP BY grade"
PRICES = "SELECT COUNT(*) FROM events e JOIN prices p ON e.item = p.item"
SOUND = [COUNT, JOIN, SUM, MEAN, UNITS, "SELECT kind, SUM(x), COUNT(n) FROM events GROUP BY kind"]


def examine(folder: Path, database: Database, statements: Sequence[str], *units: str) -> None:
    """The check, for each of these units."""
    with Bench(World(folder, PUBLIC)) as bench:
        whole = bench.side(database)
        for sql in statements:
            whole.session.compile(sql)  # refusals are not what is examined
        for unit in units:
            removed = Removed(unit)
            check_pair(statements, whole, bench.side(worlds.without(database, removed)), removed)
