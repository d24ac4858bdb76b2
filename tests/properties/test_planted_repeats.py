"""Each condition of a proof in `dpsql/repeats` is left out once: the comparison with new answers finds that."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from dpsql.compile import identity
from dpsql.compile.normalform import normal_form
from dpsql.repeats import fits, lookup, stored
from tests.properties.inns import SLACK, build, policy
from tests.properties.test_repeats_fresh import Draws, Pair, draws, same

assert draws  # a fixture

CUT = policy("max_rows_per_unit = 12\nmax_groups_per_unit = 2\nmax_rows_per_group = 4")
WIDE = policy(SLACK)
FEW = "SET strategy = cells"


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("planted") / "inns.duckdb")


def everything_is_there(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(fits.Fits, "_has_all", lambda *_: True)


def record_with(**said: object) -> Callable[[pytest.MonkeyPatch], None]:
    def plant(patch: pytest.MonkeyPatch) -> None:
        of = stored.Record.of
        patch.setattr(stored.Record, "of", lambda *a, **k: replace(of(*a, **k), **said))

    return plant


def a_conjunct_is_ignored(patch: pytest.MonkeyPatch) -> None:
    identify = lookup.identify

    def fewer(*given: object) -> object:
        found = identify(*given)  # type: ignore[arg-type]
        return replace(found, conjuncts={t: c for t, c in found.conjuncts.items() if "nights" not in t})

    patch.setattr(lookup, "identify", fewer)


def bounds_are_ignored(patch: pytest.MonkeyPatch) -> None:
    for module in (identity, stored):
        patch.setattr(module, "argument_text", lambda scalar, aliases: normal_form(scalar.tree, aliases))


def limits_are_ignored(patch: pytest.MonkeyPatch) -> None:
    of = stored.Record.of
    patch.setattr(stored.Record, "of", lambda plan, identity, _, made_by: of(plan, identity, "any", made_by))


def means_are_one(patch: pytest.MonkeyPatch) -> None:
    of = stored.StoredSlot.of
    patch.setattr(stored.StoredSlot, "of", lambda *given: replace(of(*given), part=None))


BY_HOTEL = "SELECT hotel, COUNT(*) AS n FROM stays GROUP BY hotel"
PLANTED = [
    (everything_is_there, WIDE, [BY_HOTEL, "SELECT COUNT(*) AS n FROM stays"]),
    (
        record_with(local=True),
        CUT,
        [FEW, BY_HOTEL, "SELECT hotel, COUNT(*) AS n FROM stays WHERE hotel = 'A' GROUP BY hotel"],
    ),
    (
        record_with(additive=True),
        CUT,
        [
            FEW,
            "SELECT breakfast, month, COUNT(*) AS n FROM stays GROUP BY breakfast, month",
            "SELECT breakfast, COUNT(*) AS n FROM stays GROUP BY breakfast",
        ],
    ),
    (a_conjunct_is_ignored, WIDE, [BY_HOTEL, BY_HOTEL.replace("GROUP", "WHERE nights > 3 GROUP")]),
    (
        limits_are_ignored,
        CUT,
        ["SET strategy = rows", BY_HOTEL, FEW, BY_HOTEL],
    ),
    (
        bounds_are_ignored,
        WIDE,
        [
            "SELECT AVG(nights, contribution_bounds_per_row => (1, 5)) AS m FROM stays",
            "SELECT AVG(nights) AS m FROM stays",
        ],
    ),
    (
        means_are_one,
        WIDE,
        [
            "SELECT AVG(nights, contribution_bounds_per_group => (1, 5)) AS m FROM stays",
            "SELECT AVG(nights) AS m FROM stays",
        ],
    ),
]


@pytest.mark.parametrize("planted", [False, True])
@pytest.mark.parametrize(("plant", "text", "script"), PLANTED)
def test_a_proof_without_a_condition_is_found(
    plant: Callable[[pytest.MonkeyPatch], None],
    text: str,
    script: list[str],
    planted: bool,
    database: Path,
    tmp_path: Path,
    draws: Draws,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if planted:
        plant(monkeypatch)
    pair, right = Pair(text, database, tmp_path), True
    for statement in script:
        if statement.startswith("SET"):
            assert pair.set(statement)
            continue
        mine, theirs = (one.execute(statement).fetchall() for one in (pair.old, pair.new))
        right = right and all(same(a, b) for x, y in zip(mine, theirs, strict=True) for a, b in zip(x, y, strict=True))
    pair.close()
    assert right is not planted
