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

_FUNCTIONS = "ln log10 exp cbrt sin cos tan cot asin acos atan sinh cosh tanh asinh atanh".split()
_OF_MORE = ["acosh(1 + x)", "sin(999 * x)", "power(x, 0.7)", "atan2(x, 0.3)"]
_MATHEMATICS = (
    f"SELECT CAST(SUM(HASH({', '.join([*(f'{f}(x)' for f in _FUNCTIONS), *_OF_MORE])})) AS VARCHAR)"
    " FROM (SELECT (i + 0.5) / 1000 AS x FROM range(1000) t(i))"
)
"""All bits of what the engine makes of a thousand numbers by functions that no standard says the last bit of, as one
number."""


@dataclass(frozen=True, slots=True)
class Engines:
    """Two engines that share no instance and no folder."""

    private: DuckDBEngine
    outer: DuckDBOuterEngine
    spill: Spill

    def signature(self) -> str | None:
        """What the results of a statement over one snapshot may hang on: what reads it, and the machine, whose library
        of mathematics decides on the last bits of a DOUBLE. That has code of its own for each kind of processor, and a
        machine may move to another kind and keep its name: so what it makes of some numbers is part of this. None where
        the engine can't say."""
        machine, library = os.uname(), "CS_GNU_LIBC_VERSION"
        version = os.confstr(library) if library in os.confstr_names else machine.version
        try:
            bits = self.private.run(_MATHEMATICS).column(0)[0].as_py()
        except EngineFailure:
            return None
        return repr((duckdb.__version__, version, machine.sysname, machine.machine, machine.nodename, bits))

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
