"""Thirteen ways to be wrong, each planted in the product by a patch: here alone, and never in the product itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from sqlglot import exp

from dpsql import session
from dpsql.compile import cutting, grid, relations, steps, vectors
from dpsql.compile.ir import Scan
from dpsql.compile.plan import ReleasePlan
from dpsql.compile.slots import SlotKind, vector_columns
from dpsql.privacy import sensitivity
from dpsql.privacy.mechanisms import DiscreteLaplace
from dpsql.privacy.sensitivity import Limits, Norms
from dpsql.vault import materialise, noise, source
from dpsql.vault.mapping import Reading

Fault = Callable[[pytest.MonkeyPatch], None]


def sensitivity_off_by_two(patch: pytest.MonkeyPatch) -> None:
    plain = sensitivity.of_rows

    def of_rows(limits: Limits, weight: int, keys: int | None) -> Norms:
        full = plain(limits, weight, keys)
        return Norms(full.linf // 2, full.l1 // 2, full.keys, full.l2_squared // 4)

    patch.setattr(sensitivity, "of_rows", of_rows)
    patch.setattr(session, "check", lambda *_: None)  # which would find it first


def no_limit_on_keys(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ReleasePlan, "chooses_keys", False)


def no_limit_on_rows(patch: pytest.MonkeyPatch) -> None:
    plain = relations._Parts.scan

    def scan(self: Any, relation: Scan, optional: bool) -> Any:
        return plain(self, replace(relation, limit=None), optional)

    patch.setattr(relations._Parts, "scan", scan)


def no_limit_on_a_cell(patch: pytest.MonkeyPatch) -> None:
    """All rows of a unit count in a key, whatever they add up to."""

    def cut(i: int, slot: Any, _most: int, source: str) -> list[exp.Expr]:
        return [exp.alias_(exp.column(n, source, quoted=True), n, quoted=True) for n in vector_columns(i, slot)]

    patch.setattr(cutting, "_cut", cut)


def no_clamp(patch: pytest.MonkeyPatch) -> None:
    """Neither in the snapshot nor on the grid."""
    _unclamped_snapshot(patch)
    _grid(patch, lambda case, _: case.args["ifs"][0].args["true"])


def nan_is_not_clamped(patch: pytest.MonkeyPatch) -> None:
    """As where NaN compares like everywhere but in DuckDB: neither below nor above a bound, and on to the cast."""
    _unclamped_snapshot(patch)

    def changed(case: Any, value: Any) -> Any:
        if len(case.args["ifs"]) == 4:
            case.args["ifs"][2].set("true", _raising_cast(value))
        return case

    _grid(patch, changed)


def an_error_that_depends_on_data(patch: pytest.MonkeyPatch) -> None:
    """Values beyond the clamp are not clamped but cast, which raises where they do not fit."""
    _unclamped_snapshot(patch)

    def changed(case: Any, value: Any) -> Any:
        for branch in case.args["ifs"][1:]:
            branch.set("true", _raising_cast(value))
        return case

    _grid(patch, changed)


def _grid(patch: pytest.MonkeyPatch, changed: Callable[[Any, Any], Any]) -> None:
    """Values come to their grid in another way, whatever kind of slot they are for."""
    plain = grid.to_grid
    for module in (steps, vectors):
        patch.setattr(module, "to_grid", lambda value, known: changed(plain(value, known), value))


def _raising_cast(value: Any) -> exp.Expr:
    return exp.Cast(this=value.tree.copy(), to=exp.DataType.build("BIGINT"))


def _unclamped_snapshot(patch: pytest.MonkeyPatch) -> None:
    plain = source.listed

    def listed(sql: str, declared: str, column: Any) -> Reading:
        clamped = plain(sql, declared, column)
        if declared == "DOUBLE" and column.bounds is not None:
            return replace(clamped, stored=f"CAST({sql} AS DOUBLE)", moved="")
        return clamped

    patch.setattr(source, "listed", listed)


def exact_keys(patch: pytest.MonkeyPatch) -> None:
    """Every key that a row has is shown."""
    patch.setattr(noise, "_selected", lambda exact, *_: exact)


def threshold_on_rows(patch: pytest.MonkeyPatch) -> None:
    """A unit counts in a key as often as it has rows there."""
    plain = steps._figures

    def figures(i: int, slot: Any, *rest: Any, per_unit: bool) -> Any:
        found = plain(i, slot, *rest, per_unit=per_unit)
        if slot.kind is SlotKind.UNITS:
            return [exp.alias_(exp.Count(this=exp.Star(), big_int=True), f"n{i}", quoted=True)]
        return found

    patch.setattr(steps, "_figures", figures)


def a_charge_that_depends_on_data(patch: pytest.MonkeyPatch) -> None:
    """Large answers cost twice."""
    plain, charge, factor = session.Session._releases, session.Charge, [Fraction(1)]

    def releases(self: Any, compiled: Any) -> Any:
        rows = self._engines.private.run("SELECT count(*) AS n FROM priv.events").column(0)[0].as_py()
        factor[0] = Fraction(2) if rows > 100 else Fraction(1)
        return plain(self, compiled)

    def charged(**parts: Any) -> Any:
        return charge(**{**parts, "epsilon": parts["epsilon"] * factor[0]})

    patch.setattr(session.Session, "_releases", releases)
    patch.setattr(session, "Charge", charged)


def rows_of_nobody_kept(patch: pytest.MonkeyPatch) -> None:
    """NULL is a unit like any other."""
    plain_units, plain_owned = materialise._Maker._all_units, materialise._Maker._owned

    def all_units(self: Any) -> str:
        run = self._run
        self._run = lambda sql: run(sql.replace("WHERE v IS NOT NULL", "WHERE true"))
        try:
            return plain_units(self)
        finally:
            self._run = run

    def owned(self: Any, one: Any) -> tuple[str, bool]:
        text, shared = plain_owned(self, one)
        return (text.replace(" = p.k0", " IS NOT DISTINCT FROM p.k0") if one.unit is not None else text), shared

    patch.setattr(materialise._Maker, "_all_units", all_units)
    patch.setattr(materialise._Maker, "_owned", owned)


def constant_noise(patch: pytest.MonkeyPatch) -> None:
    """One draw for all cells."""
    plain = DiscreteLaplace.sample
    patch.setattr(DiscreteLaplace, "sample", lambda self, n: np.repeat(plain(self, 1), n))


def a_column_without_noise(patch: pytest.MonkeyPatch) -> None:
    """The second vector of a release goes out as it is."""
    plain, calls = noise._add, [0]

    def add(exact: Any, draw: Any) -> Any:
        calls[0] += 1
        return exact if calls[0] % 2 == 0 else plain(exact, draw)

    patch.setattr(noise, "_add", add)
