"""Two databases that differ in one person, and what a statement's exact results may differ in.

Norms are read from the plan, and the vectors are those that the noise is added to, as in the property tests; here
policy and rows are chosen by hand, so that a test shows one attack.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import duckdb
import pyarrow as pa

from dpsql.compile.plan import ReleasePlan
from dpsql.owner import open_account
from dpsql.policy.load import load_policy
from dpsql.reads import Reads
from dpsql.session import Session
from dpsql.vault import snapshot as snapshots
from dpsql.vault.open import open_engines
from tests.properties.checks import difference, vectors
from tests.properties.worlds import SALT

BUDGET = """\
version = 1
[unit]
name = "person"
[budget]
account = "{account}"
epsilon = "1000"
delta = "{delta}"
per_query_epsilon = "1"
max_query_epsilon = "1000"
"""


class Pair:
    """A database with and without the rows of one person."""

    def __init__(self, folder: Path, tables: str, person: str, policy: str, *, delta: str = "0"):
        """tables: what both sides hold. person: inserts the rows of one."""
        self.sides: list[Session] = []
        for name, script in (("with", f"{tables};{person}"), ("without", tables)):
            database, file = folder / f"{name}.duckdb", folder / f"{name}.toml"
            with duckdb.connect(str(database)) as connection:
                connection.execute(script)
            file.write_text(BUDGET.format(account=name, delta=delta) + policy, encoding="utf-8")
            made = snapshots._make(load_policy(file), database, folder, lambda *_: None, SALT)
            ledger = open_account(load_policy(file), made, folder / "ledger.sqlite")
            self.sides.append(Session(load_policy(file), made, open_engines(made), ledger))

    def __enter__(self) -> Pair:
        return self

    def __exit__(self, *_: object) -> None:
        for side in self.sides:
            side.close()

    def settings(self, settings: Mapping[str, str]) -> None:
        """What is set from here on, and nothing else."""
        for side in self.sides:
            side.settings.reset(None)
            for name, value in settings.items():
                side.settings.set(name, value)

    def exact(self, sql: str) -> list[tuple[ReleasePlan, pa.Table, pa.Table]]:
        """Of each release: its plan, and the exact results with and without the person. Both read the same earlier
        releases."""
        compiled = [side.compile(sql) for side in self.sides]
        assert compiled[0].inner_sql == compiled[1].inner_sql
        queries = compiled[0].rewritten.publics
        reads, released = Reads(queries, self.sides[0]._run_public), {}
        found = []
        for i, plan in enumerate(compiled[0].plan.releases):
            sealed = compiled[0].rewritten.inner[i]
            tables = reads.of(plan, released)
            assert tables is not None
            results = [side._engines.private.run(sealed.text, tables) for side in self.sides]
            released[plan.release.name] = self.sides[0]._release(plan, sealed, tables)
            found.append((plan, *results))
        return found

    def check(self, sql: str) -> list[dict[str, int]]:
        """Raises AssertionError where one person moves a slot by more than its norms."""
        moves = []
        for plan, larger, smaller in self.exact(sql):
            for slot, big, small in zip(plan.slots, vectors(larger, plan), vectors(smaller, plan), strict=True):
                moved = difference(big, small)
                l1 = sum(abs(x) for part in moved.values() for x in part)
                assert l1 <= slot.norms.l1, f"moved by {l1}, and the plan says {slot.norms}: {sql}"
                assert len(moved) <= slot.norms.keys
                moves.append({"l1": l1, "norm": slot.norms.l1})
        return moves
