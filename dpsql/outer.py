"""What is asked of the outer engine, which has never seen a private row: it finishes statements, and answers what
planning asks of public tables and of released results.

All of it speaks of public values, so that its failures are told in full.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
from sqlglot import exp

from dpsql import releases
from dpsql.compile.gate import SealedSql
from dpsql.compile.lower import Schema
from dpsql.compile.plan import PrivatePlan
from dpsql.compile.rewrite import Rewritten, seal_public
from dpsql.errors import Error, refusal
from dpsql.policy.facts import SqlType
from dpsql.vault.engine import EngineFailure, OuterEngine
from dpsql.vault.readings import Released
from dpsql.vault.second_parser import check as second_check

MAX_FITTING = 256
"""Outer SQL that a session remembers as fitting its releases."""


class Outer:
    """One session's use of it."""

    def __init__(self, engine: OuterEngine):
        self._engine = engine
        self._fitting: set[tuple[object, ...]] = set()  # outer SQL, and the schemas over which it was bound

    def describe(self, tree: exp.Query, schemas: Mapping[str, Schema]) -> tuple[SqlType, ...]:
        """The column types of a public query that private rows are to be compared with."""
        sealed = seal_public(tree, frozenset(schemas))
        second_check(sealed.text, sealed.tables, sealed.functions)
        named = {name: schema for name, schema in schemas.items() if name in sealed.tables}
        try:
            types = self._engine.bind(sealed.text, releases.empty_tables(named))
        except EngineFailure as failure:
            raise _unfit("the subquery does not fit its tables", failure) from None
        return tuple(releases.type_of(name) for name in types)

    def ask(self, query: SealedSql, released: Mapping[str, pa.Table] | None = None) -> pa.Table | None:
        """What is asked of the public tables, and of what is released, before anything is paid; None where the engine
        fails."""
        second_check(query.text, query.tables, query.functions)
        try:
            return self._engine.run(query.text, released or {})
        except EngineFailure:
            return None

    def bind(self, priced: PrivatePlan, rewritten: Rewritten) -> None:
        """Let the outer engine bind the outer SQL over empty releases: its mistakes are found before they cost.

        Whether it fits hangs on the text, on the columns of the releases and on the public tables, which stay as they
        are in a snapshot: what fitted once fits again. A projection fits where the columns it names are there."""
        columns = releases.columns(priced, rewritten.bars)
        plain = rewritten.projection
        if plain is not None and {name for name, _ in plain.columns} <= {name for name, _ in columns[plain.released]}:
            return
        schemas = {name: pa.schema(fields) for name, fields in columns.items()}
        asked = (rewritten.outer.text, *schemas.items())
        if asked in self._fitting:
            return
        try:
            self._engine.bind(rewritten.outer.text, {n: s.empty_table() for n, s in schemas.items()})
        except EngineFailure as failure:
            raise _unfit("the statement does not fit its results", failure) from None
        if len(self._fitting) >= MAX_FITTING:
            self._fitting.clear()
        self._fitting.add(asked)

    def run(self, query: SealedSql, released: Mapping[str, pa.Table]) -> pa.Table:
        """A public query that releases read. Its failures speak of public values."""
        try:
            return self._engine.run(query.text, released)
        except EngineFailure as failure:
            reason = f"a subquery over public results cannot be answered: {failure.detail}"
            raise refusal("DP502", reason, repair="what was released is stored: asked again, it is free") from None

    def with_error_bars(
        self, plan: PrivatePlan, rewritten: Rewritten, released: Mapping[str, Released], tables: dict[str, pa.Table]
    ) -> dict[str, pa.Table]:
        """The released tables, with the half-widths of expressions where the outer SQL shows them (see `errorbars`)."""
        bars, replay = rewritten.bars, rewritten.replay
        if replay is None:
            return tables
        table = tables[bars.released]
        count = releases.replays(table.num_rows)
        planned = next(r for r in plan.releases if r.release.name == bars.released)
        widths: dict[str, list[float | None]] = {name: [None] * table.num_rows for name in bars.replayed}
        if count:
            copies = released[bars.released].replicates(planned, count)
            at = self._engine.run(replay.text, {bars.released: table})
            around = self._engine.run(replay.text, {bars.released: copies})
            widths = {n: releases.half_widths(at.column(n), around.column(n), count) for n in bars.replayed}
        for name, values in widths.items():
            table = table.append_column(name, pa.array(values, pa.float64()))
        return {**tables, bars.released: table}

    def finish(self, rewritten: Rewritten, released: dict[str, pa.Table]) -> pa.Table:
        """What the outer SQL makes of the released tables."""
        plain = rewritten.projection
        result = releases.projected(released[plain.released], plain.columns) if plain is not None else None
        return result if result is not None else self._engine.run(rewritten.outer.text, released)


def _unfit(reason: str, failure: EngineFailure) -> Error:
    """DP502 with the first line of what the outer engine says: it has seen public values and empty releases alone."""
    said = failure.detail.partition("\n")[0].removeprefix("BinderException: ").removeprefix("Binder Error: ")
    return refusal("DP502", f"{reason}: {said}", repair="mend it there; EXPLAIN shows what is asked of the results")
