"""Arbitrary values in the place of earlier releases: what a release reads of them is public, and may be anything."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from random import Random
from typing import Any

import pyarrow as pa

from dpsql import releases
from dpsql.compile.relations import publics
from dpsql.reads import Reads
from dpsql.session import Compiled
from dpsql.vault.engine import EngineFailure
from dpsql.vault.open import Engines

_WILD: dict[str, Sequence[Any]] = {
    "float": [None, float("nan"), float("inf"), float("-inf"), -0.0, 0.0, 1e308, 5e-324, 0.5, 1.0, 2.0, -3.25],
    "int": [0, 1, 2, 3, -1, 2**63 - 1, -(2**63)],
    "decimal": [0, 1, -1, 10**20, -(10**20)],
}
_TAME: dict[str, Sequence[Any]] = {"float": [0.5, 1.0, -2.0], "int": [0, 1, -1, 3], "decimal": [0, 1, -1]}


def tables(salt: int, compiled: Compiled, texts: Sequence[str], engines: Engines) -> Mapping[str, pa.Table] | None:
    """What the releases of a statement read, by name. None where no values were found for which its public queries do
    not fail (an overflow of public numbers, say), which is the analyst's mistake and tells of nobody."""
    for values in (_WILD, _TAME):
        try:
            return _tables(Random(salt), values, compiled, texts, engines)
        except EngineFailure:
            continue
    return None


def _tables(
    r: Random, values: Mapping[str, Sequence[Any]], compiled: Compiled, texts: Sequence[str], engines: Engines
) -> dict[str, pa.Table]:
    columns = releases.columns(compiled.plan, compiled.rewritten.bars)
    reads = Reads(compiled.rewritten.publics, lambda query, given: engines.outer.run(query.text, given))
    released: dict[str, pa.Table] = {}
    found: dict[str, pa.Table] = {}
    for plan, text in zip(compiled.plan.releases, texts, strict=True):
        read = reads.of(plan, released)
        assert read is not None, "releases stand in the order in which they read each other"
        found |= read
        if any(publics(later.release.input) for later in compiled.plan.releases):
            exact = engines.private.run(text, read)
            shown = [plan.selection is None or r.random() < 0.7 for _ in range(exact.num_rows)]
            exact = exact.filter(pa.array(shown, pa.bool_()))
            if plan.choosing is not None:
                won = r.sample(range(exact.num_rows), min(plan.choosing.winners, exact.num_rows))
                exact = exact.take(pa.array(won, pa.int64()))
            released[plan.release.name] = _made_up(r, values, exact, pa.schema(columns[plan.release.name]))
    return found


def _made_up(r: Random, values: Mapping[str, Sequence[Any]], exact: pa.Table, schema: pa.Schema) -> pa.Table:
    """Groups as they are, and aggregates as they may be."""
    columns = []
    for field in schema:
        if field.name in exact.column_names and field.name.startswith(("k", "g")):
            columns.append(exact.column(field.name).combine_chunks().cast(field.type))
            continue
        kind = "float" if pa.types.is_floating(field.type) else "int"
        kind = "decimal" if pa.types.is_decimal(field.type) else kind
        cells = [r.choice(values[kind]) for _ in range(exact.num_rows)]
        if kind == "decimal":
            cells = [Decimal(c).scaleb(-field.type.scale) for c in cells]
        columns.append(pa.array(cells, field.type))
    return pa.Table.from_arrays(columns, schema=schema)
