"""What releases read of public queries: computed by the outer engine, once in a statement.

A private block may join, look up or compare with a public query, of earlier releases too: that is post-processing, and
the private engine sees its result as one more public table.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping

import pyarrow as pa

from dpsql.answer import streamed
from dpsql.compile.gate import SealedSql
from dpsql.compile.plan import ReleasePlan
from dpsql.compile.relations import publics

Run = Callable[[SealedSql, Mapping[str, pa.Table]], pa.Table]
"""Runs a public query over these released tables. Raises DP502."""


class Reads:
    """The public queries of one statement, by name."""

    def __init__(self, queries: Mapping[str, SealedSql], run: Run):
        self._queries, self._run = queries, run
        self._results: dict[str, pa.Table] = {}

    def of(self, plan: ReleasePlan, released: Mapping[str, pa.Table]) -> dict[str, pa.Table] | None:
        """The tables that a release reads, None where one needs a release that is not there yet. Raises DP502."""
        names = set(publics(plan.release.input))
        ready = all(name in self._results or self._needs(name) <= released.keys() for name in names)
        return {name: self._result(name, released) for name in names} if ready else None

    def digests(
        self, plan: ReleasePlan, given: Mapping[str, pa.Table] | None, new: Mapping[str, str]
    ) -> dict[str, str]:
        """What stands for each: its result, or, where it reads releases that are not there yet, what is asked of which.
        given: what `of` gave. new: the names of those releases."""
        if given is not None:
            return {name: _digest(streamed(table)) for name, table in given.items()}
        asked = {name: self._queries[name] for name in set(publics(plan.release.input))}
        return {
            name: _digest(repr((query.text, sorted((n, new.get(n, "")) for n in self._needs(name)))).encode())
            for name, query in asked.items()
        }

    def _needs(self, name: str) -> frozenset[str]:
        return frozenset(table for table in self._queries[name].tables if "." not in table)

    def _result(self, name: str, released: Mapping[str, pa.Table]) -> pa.Table:
        if name not in self._results:
            result = self._run(self._queries[name], {n: released[n] for n in self._needs(name)})
            # In one order, so that the same rows are the same release again, whatever thread found them first.
            self._results[name] = result.sort_by([(column, "ascending") for column in result.column_names])
        return self._results[name]


def _digest(said: bytes) -> str:
    return hashlib.sha256(said).hexdigest()
