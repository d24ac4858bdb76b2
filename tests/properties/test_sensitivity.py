"""One unit moves no answer by more than the plan says, on the real engine, whatever the tables hold.

For any tables, claims violated too, and any unit removed, with the snapshot of the smaller database made from scratch:
(i) the unit's rows leave each relation and nothing else changes; (ii) each slot's vector over all keys and components
moves by at most `norms.l1` in L1 and `norms.linf` in L-infinity; (iii) at most `norms.keys` keys change, and what
changes is exactly what the unit's rows alone give; (v) refusals, plans, prices, schemas and EXPLAIN are the same;
(vi) exact results do not depend on threads, the order of the source or the optimizer. `test_planted_faults.py` shows
that the check finds what is wrong.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from tests.properties.checks import SOUND, examine, explore, people, rows

STATEMENTS = 20
NEIGHBOURS = 9


@pytest.mark.parametrize("shard", range(4))
def test_no_unit_moves_an_answer_too_far(shard: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    total = [0, 0]

    @settings(max_examples=3, phases=[Phase.generate], database=None)
    @given(st.integers(0, 2**48))
    def run(seed: int) -> None:
        folder = tmp_path / os.urandom(8).hex()
        pairs, answered = explore(folder, seed * 4 + shard, STATEMENTS, NEIGHBOURS, monkeypatch)
        total[0], total[1] = total[0] + pairs, total[1] + pairs * answered

    run()
    assert total[0] >= 12, "most worlds have several units to remove"
    assert total[1] >= 10 * total[0], "most statements are answered"


@pytest.mark.audit
@settings(max_examples=600, phases=[Phase.generate], database=None)
@given(st.integers(0, 2**60))
def test_no_unit_moves_an_answer_too_far_at_length(tmp_path_factory: pytest.TempPathFactory, seed: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        explore(tmp_path_factory.mktemp("world"), seed, 60, 8, patch)


def test_a_unit_of_ten_thousand_rows(tmp_path: Path) -> None:
    """One unit of 10,000 events, orders and lines: what it moves is what its first rows move."""
    many = range(10_000)
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
        "SELECT AVG(x), SUM(n), COUNT(amount) FROM events WHERE n > 2",
        "SELECT o.status, COUNT(*), SUM(o.total) FROM orders o JOIN people p ON o.uid = p.uid GROUP BY o.status",
        "SELECT i.category, COUNT(DISTINCT b.hid), SUM(l.price) FROM lines l JOIN baskets b USING (bid)"
        " LEFT JOIN items i ON l.item = i.item GROUP BY i.category",
    ]
    examine(tmp_path, crowd, statements, "1", "2", "NULL")
