"""New noise for one exact result as often as a test likes: what nobody can have who asks through an account."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from dpsql.compile.plan import ReleasePlan
from dpsql.vault import noise
from tests.attacks.neighbours import Pair


@dataclass(frozen=True, slots=True)
class _Kept:
    """An engine that has the result already."""

    table: pa.Table

    def run(self, *_: Any) -> pa.Table:
        return self.table


def draws(pair: Pair, sql: str) -> tuple[ReleasePlan, list[Callable[[], pa.Table]]]:
    """Of a statement with one release: its plan, and for each side what gives a new release each time."""
    compiled = pair.sides[0].compile(sql)
    ((plan, larger, smaller, _),) = pair.exact(compiled)
    (sealed,) = compiled.rewritten.inner
    return plan, [lambda kept=_Kept(t): noise.release(kept, sealed, plan, {}).table(plan) for t in (larger, smaller)]
