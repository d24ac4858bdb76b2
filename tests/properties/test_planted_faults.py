"""The check of `test_sensitivity.py` finds each fault that is planted here, on databases made to show it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import pytest
from sqlglot import exp

from dpsql.compile import grid as grids
from dpsql.compile import joins, relations, slots, steps, vectors
from dpsql.compile.check import check
from dpsql.compile.grid import Grid
from dpsql.compile.ir import Facts, Relation, Scalar, Scan
from dpsql.compile.trees import column
from dpsql.errors import Error
from dpsql.policy.facts import Kind, SqlType
from dpsql.privacy import sensitivity
from dpsql.privacy.sensitivity import Norms
from dpsql.vault import materialise
from tests.audit.faults import no_limit_on_rows, sensitivity_off_by_two
from tests.properties.checks import (
    COUNT,
    CROWDED,
    JOIN,
    LINE,
    MEAN,
    NOBODY,
    PRICES,
    SOUND,
    SPREAD,
    SUM,
    UNITS,
    examine,
    rows,
)
from tests.properties.differences import Violation
from tests.properties.worlds import Database


def test_nothing_is_found_where_nothing_is_wrong(tmp_path: Path) -> None:
    examine(tmp_path / "a", CROWDED, SOUND, "1", "2", "NULL")
    examine(tmp_path / "b", NOBODY, SOUND, "1", "NULL")


def drop_the_equality_of_units(patch: pytest.MonkeyPatch) -> None:
    plain = relations.is_private

    def is_private(relation: Relation) -> bool:
        return plain(relation) and not (isinstance(relation, Scan) and relation.table == "baskets")

    patch.setattr(relations, "is_private", is_private)


def drop_the_clamp(patch: pytest.MonkeyPatch) -> None:
    plain = steps.to_grid

    def to_grid(value: Any, grid: Any) -> Any:
        case = plain(value, grid)
        return case.args["ifs"][0].args["true"]

    patch.setattr(steps, "to_grid", to_grid)
    patch.setattr(vectors, "to_grid", to_grid)


def count_units_once_in_all(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(sensitivity, "of_units", lambda *_: Norms(1, 1, 1, 1))
    patch.setattr("dpsql.session.check", lambda *_: None)  # which finds it first: see below


def believe_that_public_tables_are_unique(patch: pytest.MonkeyPatch) -> None:
    plain = joins._is_unique
    patch.setattr(joins, "_is_unique", lambda source, *rest: source.table.public or plain(source, *rest))


def keep_rows_of_nobody(patch: pytest.MonkeyPatch) -> None:
    plain = materialise._Maker._owned

    def owned(self: Any, one: Any) -> tuple[str, bool]:
        text, shared = plain(self, one)
        if one.unit is None:
            return text, shared
        return text.replace(f"{one.unit[0]} = p.k0", f"coalesce({one.unit[0]}, 1) = p.k0"), shared

    patch.setattr(materialise._Maker, "_owned", owned)


def rank_by_place(patch: pytest.MonkeyPatch) -> None:
    """Ranks that count all rows, not each unit's."""
    plain = materialise._ranked
    patch.setattr(materialise, "_ranked", lambda *a: plain(*a).replace("PARTITION BY unit ORDER BY h", "ORDER BY h"))


def off_the_grid(patch: pytest.MonkeyPatch) -> None:
    """The values of a Bernstein slot are taken as they are: two steps above their bounds, too."""
    plain = vectors.above_lo

    def above_lo(value: exp.Expr, grid: Grid) -> exp.Expr:
        return exp.Add(this=plain(value, grid), expression=exp.Literal.number(2))

    patch.setattr(vectors, "above_lo", above_lo)


def forget_a_component(patch: pytest.MonkeyPatch) -> None:
    """What a row adds is put down as that of a mean."""
    patch.setattr(slots.bernstein, "weight", lambda _, spans: max(spans))
    patch.setattr("dpsql.session.check", lambda *_: None)  # which finds it first: see below


@pytest.mark.parametrize(
    ("fault", "database", "statements", "found"),
    [
        (off_the_grid, CROWDED, [SPREAD], r"\(ii\)"),
        (off_the_grid, CROWDED, [LINE], r"\(ii\)"),
        (forget_a_component, CROWDED, [LINE], r"\(ii\)"),
        (forget_a_component, CROWDED, [SPREAD], r"\(ii\)"),
        (no_limit_on_rows, CROWDED, [COUNT], r"\(ii\)"),
        (drop_the_equality_of_units, CROWDED, [JOIN], r"\(i+\)"),
        (drop_the_clamp, CROWDED, [SUM], r"\(ii\)"),
        (drop_the_clamp, CROWDED, [MEAN], r"\(ii\)"),
        (sensitivity_off_by_two, CROWDED, [COUNT], r"\(ii\)"),
        (count_units_once_in_all, rows(events=[["1", "'a'", g] for g in "123"]), [UNITS], r"\(i+\)"),
        (believe_that_public_tables_are_unique, CROWDED, [PRICES], r"\(ii\)"),
        (keep_rows_of_nobody, NOBODY, [COUNT], r"\(i\)"),
        (rank_by_place, CROWDED, [COUNT], r"\(i\)"),
    ],
)
def test_a_planted_fault_is_found(
    fault: Callable[[pytest.MonkeyPatch], None],
    database: Database,
    statements: Sequence[str],
    found: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fault(monkeypatch)
    with pytest.raises(Violation, match=found):
        examine(tmp_path / "world", database, statements, "1", "2", "NULL")


def test_the_plan_does_not_pass_with_weights_that_do_not_add_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    forget_a_component(monkeypatch)
    monkeypatch.setattr("dpsql.session.check", check)
    with pytest.raises(Error, match="the weights of a row add up"):
        examine(tmp_path / "world", CROWDED, [SPREAD], "1")


@pytest.mark.parametrize("fault", [sensitivity_off_by_two, count_units_once_in_all])
def test_the_plan_does_not_pass_with_too_little_noise(
    fault: Callable[[pytest.MonkeyPatch], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fault(monkeypatch)
    monkeypatch.setattr("dpsql.session.check", check)
    with pytest.raises(Error, match="the noise covers the sensitivity"):
        examine(tmp_path / "world", CROWDED, [COUNT, UNITS], "1")


def test_a_join_that_could_multiply_rows_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Error, match="could match one row several times"):
        examine(tmp_path / "world", CROWDED, [PRICES], "1")


# ---- the grid, on every double: what is inside the snapshot's clamp and what is not

DOUBLES = [
    "'nan'",
    "'inf'",
    "'-inf'",
    "1e308",
    "-1e308",
    "4.9e-324",
    "-0.0",
    "0.1",
    "99.9",
    "99.87",
    "50.125",
    "1e17",
    "NULL",
]


def points(to_grid: Callable[[Scalar, Grid], exp.Expr], grid: Grid) -> dict[str, int | None]:
    """Where each of the doubles is put."""
    value = Scalar(column("t", "v"), Facts(SqlType(Kind.DOUBLE)))
    sql = to_grid(value, grid).sql(dialect="duckdb")
    with duckdb.connect() as connection:
        return {x: connection.execute(f"SELECT {sql} FROM (SELECT {x}::DOUBLE) t(v)").fetchall()[0][0] for x in DOUBLES}


def check_grid(to_grid: Callable[[Scalar, Grid], exp.Expr]) -> None:
    grid = grids.grid_of(Facts(SqlType(Kind.DOUBLE), Fraction("0.1"), Fraction("99.9"), step=Fraction(1, 4)))
    found = points(to_grid, grid)
    if found["'nan'"] is not None or found["NULL"] is not None:
        raise Violation("NaN and NULL are no values")
    if any(k is not None and not grid.lo <= k <= grid.hi for k in found.values()):
        raise Violation("a value lies outside its grid")
    if (found["'inf'"], found["'-inf'"], found["50.125"]) not in ((grid.hi, grid.lo, 200), (grid.hi, grid.lo, 201)):
        raise Violation("a value stands at another place")


def test_the_grid_takes_every_double() -> None:
    check_grid(grids.to_grid)


@pytest.mark.parametrize(
    ("dropped", "found"), [(0, "another place"), (1, "another place"), (2, "no values"), (3, "another place")]
)
def test_a_branch_of_the_grid_that_is_dropped_is_found(dropped: int, found: str) -> None:
    """Branch 2 is the test for NaN: without it NaN is the upper bound, within the norms, and counts as a value."""

    def to_grid(value: Scalar, grid: Grid) -> exp.Expr:
        case = grids.to_grid(value, grid)
        case.args["ifs"].pop(dropped)
        return case

    with pytest.raises(Violation, match=found):
        check_grid(to_grid)
