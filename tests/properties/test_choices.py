"""Property (iv): one unit moves no candidate of a choice by more than the plan says; and joins that multiply rows.

The same check as in `test_sensitivity.py`, on statements that choose, under every strategy, on a database made to be
awkward and on random ones; and faults planted to see it find them.
"""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from random import Random

import pytest

from dpsql.compile import bounds, cutting, planner
from dpsql.compile.limits import STRATEGIES
from dpsql.compile.slots import Slot
from dpsql.errors import Error
from dpsql.privacy.sensitivity import Norms
from tests.properties import worlds
from tests.properties.asked import Asked, asked
from tests.properties.checks import CROWDED, PUBLIC, Bench, Ready, check_noise, check_pair, examine
from tests.properties.differences import Removed, Violation
from tests.properties.worlds import Terms, World

COUNT = "SELECT kind FROM events GROUP BY kind ORDER BY COUNT(*) DESC LIMIT 1"
SUM = "SELECT grade FROM events GROUP BY grade ORDER BY SUM(n) LIMIT 2"
AUCTION = (
    "SELECT p.price FROM events e JOIN prices p ON e.x >= p.price - 10 GROUP BY p.price"
    " ORDER BY p.price * COUNT(*) DESC LIMIT 1"
)
CHOICES = [
    COUNT,
    SUM,
    AUCTION,
    AUCTION.replace("COUNT(*)", "COUNT(DISTINCT e.uid)"),
    AUCTION.replace("COUNT(*)", "SUM(e.x)").replace("DESC", "ASC"),
    "SELECT p.price FROM prices p LEFT JOIN events e ON e.n < p.price GROUP BY p.price ORDER BY COUNT(e.n) LIMIT 2",
    "SELECT p.item FROM lines l JOIN prices p ON l.item = p.item GROUP BY 1 ORDER BY COUNT(DISTINCT l.bid) LIMIT 1",
    "SELECT kind, grade FROM events GROUP BY ALL ORDER BY -COUNT_IF(x > 0) * grade LIMIT 3",
    "SELECT sex FROM people GROUP BY sex ORDER BY SUM(cost) / CASE sex WHEN 'F' THEN 3 END DESC LIMIT 5",
    "SELECT MODE(kind) FILTER (WHERE n > 0), MODE(grade), COUNT(*) FROM events",
    "SELECT COUNT(*) FROM events WHERE kind = (SELECT sex FROM people GROUP BY sex ORDER BY COUNT(*) DESC LIMIT 1)",
]
MULTIPLIED = [
    "SELECT p.price, COUNT(*), SUM(e.x), AVG(e.n) FROM events e JOIN prices p ON e.item = p.item GROUP BY p.price",
    "SELECT p.price, COUNT(DISTINCT e.uid) FROM events e JOIN prices p ON e.item <= p.item GROUP BY p.price",
]
LIMITED = Terms(limits=True)


@pytest.mark.parametrize("terms", [Terms(), LIMITED], ids=["plain", "limits"])
def test_no_unit_moves_a_candidate_too_far(terms: Terms, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    r = Random("choices")
    statements = [*CHOICES, *(MULTIPLIED if terms is LIMITED else [])]
    tries = [asked(sql, s) for sql in statements for s in ("", *r.sample(STRATEGIES, 2))]
    answered = 0
    for number, database in enumerate((CROWDED, worlds.random_rows(r))):
        with Bench(World(tmp_path / str(number), PUBLIC, terms)) as bench:
            whole = bench.side(database)
            ready = [one for one in tries if isinstance(whole.outcome(one), Ready)]
            assert {one.sql for one in ready} == set(statements), "each is answered under some strategy"
            for one in ready[number::5]:
                check_noise(one, whole, monkeypatch)
            for unit in ("1", "2"):
                removed = Removed(unit)
                check_pair(ready, whole, bench.side(worlds.without(database, removed)), removed)
            answered += len(ready)
    assert answered > 2 * len(statements), "most strategies are possible"


def test_a_join_that_multiplies_rows_needs_a_limit_on_each_group(tmp_path: Path) -> None:
    for sql in (*MULTIPLIED, "SELECT COUNT(*) FROM events e JOIN prices p ON e.item = p.item"):
        for strategy in ("", "rows", "late"):
            with pytest.raises(Error, match=r"DP2(11|23)"):
                examine(tmp_path / "plain", CROWDED, [asked(sql, strategy)], "1")
    for strategy in ("rows", "late", "rows then cells", "late then cells"):
        with pytest.raises(Error, match=r"DP2(11|23)"):
            examine(tmp_path / "limits", CROWDED, [asked(MULTIPLIED[0], strategy)], "1", terms=LIMITED)
    with pytest.raises(Error, match="DP211"):
        examine(tmp_path / "query", CROWDED, [AUCTION.replace("prices p", "(SELECT price FROM prices) p")], "1")


def test_no_unit_explodes_a_join_with_a_public_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The public table's rows count in the bound on what may meet: 60 rows of a unit meet three prices."""
    monkeypatch.setattr(bounds, "MOST_JOINED", 60)
    with Bench(World(tmp_path / "world", PUBLIC, Terms())) as bench:
        ready = bench.side(CROWDED).outcome(Asked(AUCTION))
        assert isinstance(ready, Ready)
        assert '"events"."$rank" <= 20' in ready.texts[0]
    monkeypatch.setattr(bounds, "MOST_ROWS", 2)  # one row meets three prices
    with pytest.raises(Error, match="could meet in more than 2 ways"):
        examine(tmp_path / "two", CROWDED, [AUCTION], "1")


def half_the_sensitivity(patch: pytest.MonkeyPatch) -> None:
    plain = planner.of_utilities

    def of_utilities(norms: Norms, factors: tuple[Fraction, Fraction]) -> Fraction:
        return plain(norms, factors) / 2

    patch.setattr(planner, "of_utilities", of_utilities)


def forget_factors(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(planner, "of_utilities", lambda norms, _: Fraction(norms.linf))


def no_limit_on_cells(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(cutting, "_least", lambda x, _: x)


def all_sums_grow(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Slot, "is_one_sided", property(lambda _: True))


MIXED = {**CROWDED, "events": [["1", "'a'", "1", "1", "7", "9"], ["1", "'a'", "2", "1", "7", "-3"]]}
MIXED["events"] = [(*row, *["NULL"] * (len(worlds.TABLES["events"].columns) - len(row))) for row in MIXED["events"]]


@pytest.mark.parametrize(
    ("fault", "sql", "found", "promise"),
    [
        (half_the_sensitivity, COUNT, r"\(iv\)", "the choice covers the sensitivity"),
        (forget_factors, AUCTION, r"\(iv\)", "the choice covers the sensitivity"),
        (no_limit_on_cells, COUNT, r"\(iv\)", ""),
        (all_sums_grow, SUM, r"\(iv\)", "the choice is charged"),
    ],
)
def test_a_planted_fault_is_found(
    fault: object, sql: str, found: str, promise: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert callable(fault)
    database = MIXED if fault is all_sums_grow else CROWDED
    fault(monkeypatch)
    if promise:
        with pytest.raises(Error, match=promise):
            examine(tmp_path / "checked", database, [sql], "1")
        monkeypatch.setattr("dpsql.session.check", lambda *_: None)
    with pytest.raises(Violation, match=found):
        examine(tmp_path / "world", database, [sql], "1")
