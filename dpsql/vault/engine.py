"""What dpsql asks of an engine: run one generated statement and return Arrow, or be cancelled.

An engine raises nothing but `EngineFailure`, so that nobody reads its own words unasked: engines quote row values in
their messages.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import pyarrow as pa


class EngineFailure(Exception):
    """The statement did not finish. `detail`: the engine's own words, which an analyst may read only where the engine
    has never seen a private row."""

    def __init__(self, detail: str, *, interrupted: bool = False):
        super().__init__("the engine could not finish")
        self.detail, self.interrupted = detail, interrupted


class Engine(Protocol):
    """A locked engine over one snapshot. One statement at a time; `cancel` may come from another thread."""

    def run(self, sql: str, tables: Mapping[str, pa.Table] | None = None) -> pa.Table:
        """The whole result of one SELECT that `compile/gate` sealed, over the snapshot and these public tables. Raises
        EngineFailure."""
        ...

    def cancel(self) -> None:
        """Interrupt the running statement, if any; its `run` raises EngineFailure(interrupted=True)."""
        ...

    def close(self) -> None:
        """Release everything. Idempotent."""
        ...


class OuterEngine(Engine, Protocol):
    """An engine that has never seen a private row."""

    def bind(self, sql: str, tables: Mapping[str, pa.Table] | None = None) -> list[str]:
        """The types of the columns of one SELECT, which is not run. Raises EngineFailure."""
        ...
