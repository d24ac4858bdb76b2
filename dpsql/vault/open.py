"""Opens the engines of a snapshot: the one place that says which engine an address means.

The private engine sees both files, as catalogs `priv` and `pub`; the outer one, for post-processing, `pub` alone.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

import duckdb

from dpsql.errors import Error, refusal
from dpsql.policy.model import USUAL_LIMITS, EngineLimits
from dpsql.vault.duckdb import DuckDBEngine, DuckDBOuterEngine
from dpsql.vault.engine import EngineFailure
from dpsql.vault.snapshot import Snapshot, Spill


@dataclass(frozen=True, slots=True)
class Engines:
    """Two engines that share no instance and no folder."""

    private: DuckDBEngine
    outer: DuckDBOuterEngine
    spill: Spill

    @property
    def signature(self) -> str:
        """What the results of a statement over one snapshot may hang on: what reads it, and the machine, whose library
        of mathematics decides on the last bits of a DOUBLE."""
        machine, library = os.uname(), "CS_GNU_LIBC_VERSION"
        version = os.confstr(library) if library in os.confstr_names else machine.version
        return repr((duckdb.__version__, version, machine.sysname, machine.machine, machine.nodename))

    def close(self) -> None:
        """Idempotent."""
        self.private.close()
        self.outer.close()
        self.spill.close()


def open_engines(snapshot: Snapshot, limits: EngineLimits = USUAL_LIMITS, *, threads: int | None = None) -> Engines:
    """threads: of each engine; default: one per core. Raises PolicyError (DP305) where the snapshot is gone, as it is
    when the owner refreshed it in between."""
    both = {"priv": snapshot.private, "pub": snapshot.public}
    only = {"pub": snapshot.public}
    try:
        spill = Spill(snapshot.folder.parent)
    except OSError:
        raise _gone() from None
    try:
        private = DuckDBEngine(both, spill.folder / "private", limits, threads)
        outer = DuckDBOuterEngine(only, spill.folder / "outer", limits, threads)
    except EngineFailure:
        spill.close()
        raise _gone() from None
    return Engines(private, outer, spill)


def _gone() -> Error:
    return refusal("DP305", "the snapshot cannot be opened", repair="connect again, or run `dpsql prepare --refresh`")
