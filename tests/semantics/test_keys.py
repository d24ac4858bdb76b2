"""Keys of groups: with slack limits and no noise, every group that DuckDB shows is there with DuckDB's values, whatever
the keys come through; and there are no more groups than public tables, policy and text leave possible.

A line of `keys.txt` begins with how many of its leading columns are keys, and with how many groups the answer has.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlglot import exp

from dpsql.compile import domains, keyrelation, lineage, narrowing, trees
from tests.semantics.sides import Sides, compare, opened, rows_of

FOLDER = Path(__file__).parent


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sides]:
    script = (FOLDER / "market.sql").read_text(encoding="utf-8")
    with opened(tmp_path_factory.mktemp("market"), FOLDER / "market.toml", script, "", (0,)) as both:
        yield both


def statements() -> list[tuple[str, int, str]]:
    """(keys, groups, statement) of each line that is no comment."""
    lines = (FOLDER / "keys.txt").read_text(encoding="utf-8").splitlines()
    written = [line.partition("|") for line in lines if line and not line.startswith("#")]
    return [(head.split()[0], int(head.split()[1]), sql.strip()) for head, _, sql in written]


@pytest.mark.parametrize(
    ("keys", "groups", "sql"), statements(), ids=lambda x: x if isinstance(x, str) and len(x) > 1 else ""
)
def test_groups_are_duckdbs_and_no_more_than_possible(keys: str, groups: int, sql: str, sides: Sides) -> None:
    compare(sides, keys, sql)
    assert len(rows_of(sides.session.execute(sql))) == groups


def _as_if_and(self: keyrelation.KeyRelation, node: exp.Expr, want: bool, aliases: Any) -> exp.Expr | None:
    node = node.copy().transform(lambda n: exp.And(**n.args) if isinstance(n, exp.Or) else n)
    return weakened(self, node, want, aliases)


table_read = lineage._Reader._table
weakened = keyrelation.KeyRelation._weakened
FAULTS: list[tuple[Any, str, Any, str, str]] = [
    (
        lineage._Reader,
        "_table",
        lambda self, source, _: table_read(self, source, False),
        "1",
        "SELECT size, COUNT(*) AS n FROM (SELECT h.size FROM sales s LEFT JOIN shops h ON s.shop = h.shop) t"
        " GROUP BY size",
    ),
    (
        keyrelation.KeyRelation,
        "_weakened",
        _as_if_and,
        "1",
        "SELECT channel, COUNT(*) AS n FROM sales WHERE channel = 'web' OR channel > 'shop' OR pieces > 3"
        " GROUP BY channel",
    ),
    (
        narrowing,
        "_either",
        lambda _, several: several[0],
        "1",
        "SELECT pieces, COUNT(*) AS n FROM sales WHERE pieces < 3 OR shop = 2 GROUP BY pieces",
    ),
    (
        narrowing,
        "meaning",
        lambda tree: type(tree).__name__,
        "1",
        "SELECT substring(phone, 4, 1) AS d, COUNT(*) AS n FROM people WHERE substring(phone, 1, 2) IN ('13', '22')"
        " AND substring(phone, 4, 1) IN ('1', '2', '3', '4') GROUP BY d",
    ),
    (
        trees,
        "_in_every_branch",
        lambda node: trees.implied(trees.operands(node)[0]),
        "1",
        "SELECT brand, COUNT(*) AS n FROM sales JOIN goods USING (good)"
        " WHERE (brand = 'Fox' AND pieces > 1) OR pieces > 4 GROUP BY brand",
    ),
    (
        domains,
        "product",
        lambda *ways: [tuple(False for _ in ways)],
        "2",
        "SELECT shop, good, COUNT(*) AS n FROM sales GROUP BY shop, good",
    ),
]


@pytest.mark.parametrize(("place", "name", "fault", "keys", "sql"), FAULTS, ids=[f[1] for f in FAULTS])
def test_a_lost_group_would_be_seen(
    place: Any, name: str, fault: Any, keys: str, sql: str, sides: Sides, monkeypatch: pytest.MonkeyPatch
) -> None:
    compare(sides, keys, sql)
    monkeypatch.setattr(place, name, fault)
    with pytest.raises(AssertionError):
        compare(sides, keys, sql)
