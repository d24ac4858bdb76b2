"""New noise for one exact result of each side, as often as a test likes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pyarrow as pa

from dpsql.compile.gate import SealedSql
from dpsql.compile.plan import ReleasePlan
from dpsql.vault import noise
from tests.attacks.neighbours import Pair
from tests.kept import Kept


def draws(pair: Pair, sql: str) -> tuple[ReleasePlan, list[Callable[[], pa.Table]]]:
    """Of a statement with one release: its plan, and for each side what gives a new release each time."""
    compiled = pair.sides[0].compile(sql)
    ((plan, larger, smaller, _),) = pair.exact(compiled)
    (sealed,) = compiled.rewritten.inner
    return plan, [partial(_drawn, Kept(table), sealed, plan) for table in (larger, smaller)]


def _drawn(kept: Kept, sealed: SealedSql, plan: ReleasePlan) -> pa.Table:
    return noise.release(kept, sealed, plan, {}).table(plan)
