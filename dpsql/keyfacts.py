"""What planning asks of the public tables: how many keys there are, and between which numbers a factor of them lies.

Public tables do not change within a snapshot, so each question is asked once.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import pyarrow as pa

from dpsql.compile.gate import SealedSql
from dpsql.compile.ir import PublicKeys, Scalar
from dpsql.compile.rewrite import count_keys_sql, factor_range_sql
from dpsql.errors import refusal
from dpsql.privacy.choices import number_of

Ask = Callable[[SealedSql], pa.Table | None]
"""Runs a statement over public tables; None where the engine fails."""


class KeyFacts:
    """The answers of one session."""

    def __init__(self, ask: Ask):
        self._ask = ask
        self._counts: dict[tuple[str, int | None], int] = {}
        self._factors: dict[tuple[str, str], tuple[Fraction, Fraction]] = {}

    def count(self, keys: PublicKeys, limit: int | None) -> int:
        """How many public keys there are; above the limit counting may stop."""
        asked = (keys.tree.sql(dialect="duckdb"), limit)
        if asked not in self._counts:
            counted = self._ask(count_keys_sql(keys.tree, limit))
            if counted is None:
                raise refusal("DP901", "the public keys cannot be listed")
            self._counts[asked] = int(counted.column(0)[0].as_py())
        return self._counts[asked]

    def factors(self, keys: PublicKeys, factor: Scalar) -> tuple[Fraction, Fraction]:
        """The least and the largest factor of a candidate; 0 where none has one. Raises DP224 where one is NaN or
        infinite."""
        asked = (keys.tree.sql(dialect="duckdb"), factor.tree.sql(dialect="duckdb"))
        if asked not in self._factors:
            found = self._ask(factor_range_sql(keys.tree, factor.tree))
            if found is None:
                raise refusal("DP224", "the factor of the score cannot be computed for every group", span=factor.span)
            ends = [found.column(name)[0].as_py() for name in ("lo", "hi")]
            lo, hi = (number_of(0 if end is None else end) for end in ends)
            if lo is None or hi is None:
                reason, repair = "the factor of the score is no number for some group", "leave such groups out in WHERE"
                raise refusal("DP224", reason, span=factor.span, repair=repair)
            self._factors[asked] = lo, hi
        return self._factors[asked]
