"""One unit moves no answer by more than the plan says, on the real engine, whatever the tables hold.

For any tables, claims violated too, any strategy and limits, and any unit removed, with the snapshot of the smaller
database made from scratch:
(i) the unit's rows leave each relation and nothing else changes; (ii) each slot's vector over all keys and components
moves by at most `norms.l1` in L1 and `norms.linf` in L-infinity; (iii) at most `norms.keys` keys change, and what
changes is exactly what the unit's rows alone give; of private keys only those vanish that the unit alone holds, and no
count of units moves by more than 1; (iv) no utility of a choice moves by more than its sensitivity, all in one
direction where that halves the price; (v) refusals, plans, prices, schemas and EXPLAIN are the same; (vi) exact results
do not depend on threads, the order of the source or the optimizer. Salts are the same on both sides, and so is what
releases read of earlier ones, in whose place any values may stand. (i) is checked of the rows that each release counts
as well: joined, grouped and windowed as they are, before any limit.
`test_planted_faults.py`, `test_planted_limits.py` and `test_planted_relations.py` show that the check finds what is
wrong.
"""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from tests.properties.asked import Asked, asked
from tests.properties.checks import COUNT, CROWDED, PUBLIC, SOUND, check_noise, examine, people, rows
from tests.properties.explore import explore
from tests.properties.relational import Relational
from tests.properties.sides import Bench
from tests.properties.worlds import Terms, World

STATEMENTS = 12
NEIGHBOURS = 4


@pytest.mark.parametrize("shard", range(2))
def test_no_unit_moves_an_answer_too_far(shard: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    total: Counter[str] = Counter()

    @settings(max_examples=3, phases=[Phase.generate], database=None)
    @given(st.integers(0, 2**48))
    def run(seed: int) -> None:
        folder = tmp_path / os.urandom(8).hex()
        total.update(explore(folder, seed * 3 + shard, STATEMENTS, NEIGHBOURS, monkeypatch))

    run()
    assert total["neighbours"] >= 6, "most worlds have several units to remove"
    assert total["answered"] >= STATEMENTS // 2 * total["neighbours"], "most statements are answered"
    assert all(total[name] for name in ("late", "rescale", "salted", "distinct values", "grouping sets")), total


def test_no_unit_moves_an_answer_over_relations_too_far(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Over joins, groups, windows, unions and subqueries, nested."""
    total: Counter[str] = Counter()

    @settings(max_examples=2, phases=[Phase.generate], database=None)
    @given(st.integers(0, 2**48))
    def run(seed: int) -> None:
        total.update(explore(tmp_path / os.urandom(8).hex(), seed, 16, 2, monkeypatch, Relational))

    run()
    assert total["answered"] >= 7 * total["neighbours"], "most statements are answered"
    assert all(total[name] for name in ("Join", "Mark", "PerUnit", "Window", "reads results")), total


def test_all_noise_is_seen_where_an_answer_is_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the second would be given for nothing, and for the third the difference would be drawn alone."""
    with Bench(World(tmp_path, PUBLIC, Terms(private_keys=True))) as bench:
        side = bench.side(CROWDED)
        for epsilon, mechanism in (
            ("1", "laplace"),
            ("1", "laplace"),
            ("2", "laplace"),
            ("1", "gaussian"),
            ("2", "gaussian"),
        ):
            check_noise(Asked(COUNT, (("epsilon", epsilon), ("mechanism", mechanism))), side, monkeypatch)


@pytest.mark.audit
@settings(max_examples=20, phases=[Phase.generate], database=None)
@given(st.integers(0, 2**60))
def test_no_unit_moves_an_answer_over_relations_too_far_at_length(
    tmp_path_factory: pytest.TempPathFactory, seed: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        explore(tmp_path_factory.mktemp("world"), seed, 40, 6, patch, Relational)


@pytest.mark.audit
@settings(max_examples=20, phases=[Phase.generate], database=None)
@given(st.integers(0, 2**60))
def test_no_unit_moves_an_answer_too_far_at_length(tmp_path_factory: pytest.TempPathFactory, seed: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        explore(tmp_path_factory.mktemp("world"), seed, 60, 8, patch)


def test_a_unit_of_thousands_of_rows(tmp_path: Path) -> None:
    """One unit of 2,100 events, orders and lines: what it moves is what its first rows move."""
    many = range(2_100)  # more than one vector of the engine
    crowd = rows(
        people=people("1", "2"),
        events=[["1", "'a'", "1", "1", "7", str(i % 10), f"{i % 50}"] for i in many]
        + [["2", "'b'", "2", "2", "-5", "3"]],
        orders=[[str(i), "1", "50", "DATE '2024-01-01'", "'new'"] for i in many] + [["3", "2", "50"]],
        baskets=[["1", "1", "'north'"], ["1", "2", "'south'"]],
        lines=[["1", str(i % 3), "20"] for i in many],
    )
    statements = [
        *SOUND,
        "SELECT kind, AVG(x), SUM(n), COUNT(amount) FROM events WHERE n > 2 GROUP BY kind",
        "SELECT kind, STDDEV(x), CORR(x, n), COVAR_SAMP(wide, x) FROM events GROUP BY kind",
        "SELECT o.status, VAR_POP(o.total) FROM orders o JOIN people p ON o.uid = p.uid GROUP BY o.status",
        "SELECT i.category, COUNT(DISTINCT b.hid), SUM(l.price) FROM lines l JOIN baskets b USING (bid)"
        " LEFT JOIN items i ON l.item = i.item GROUP BY i.category",
    ]
    others = [asked(sql, strategy) for sql in statements[-4:] for strategy in ("late", "rescale", "late then cells")]
    others += [asked(sql, strategy, "gaussian") for sql in statements[-4:] for strategy in ("", "cells", "rescale")]
    examine(tmp_path, crowd, [*statements, *others], "1", "2", "NULL", terms=Terms(private_keys=True, limits=True))
