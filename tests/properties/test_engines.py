"""However the private engine goes about it, exact results are the same: with and without its optimizer, on one thread
and on two, in memory and spilled to disk."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from random import Random

import pytest

from tests.properties import worlds
from tests.properties.checks import check_variant
from tests.properties.differences import Unoptimized
from tests.properties.explore import possible
from tests.properties.grammar import Grammar
from tests.properties.relational import Relational
from tests.properties.sides import Bench, Ready
from tests.properties.worlds import Terms, World


def compare(folder: Path, seed: int, plans: int, writer: type[Grammar]) -> None:
    """Run so many plans over one world on every kind of engine."""
    r = Random(seed)
    terms = Terms(private_keys=r.random() < 0.5, limits=r.random() < 0.7)
    public, database = worlds.random_public(r), worlds.random_rows(r)
    grammar = writer(r, private_keys=terms.private_keys)
    with Bench(World(folder, public, terms)) as bench:
        side = bench.side(database)
        drawn = (possible(r, grammar.statement(), side) for _ in range(50 * plans))
        asks = list(islice((one for one in drawn if isinstance(side.outcome(one), Ready)), plans))
        assert len(asks) == plans
        spill = folder / "spill"
        for how, engine in (
            ("no optimizer", Unoptimized(side.snapshot)),
            ("no optimizer, two threads", Unoptimized(side.snapshot, threads=2)),
            ("two threads", Unoptimized(side.snapshot, kept=None, threads=2)),
            ("spilled", Unoptimized(side.snapshot, kept=None, spill=spill)),
            ("spilled, two threads", Unoptimized(side.snapshot, kept=None, threads=2, spill=spill)),
        ):
            check_variant(asks, side, bench.keep(engine), f"seed {seed}: {how}")


@pytest.mark.parametrize("writer", [Grammar, Relational])
def test_plans_are_the_same_on_every_engine(writer: type[Grammar], tmp_path: Path) -> None:
    compare(tmp_path, 0, 10, writer)


@pytest.mark.audit
@pytest.mark.parametrize("seed", range(1, 26))
def test_more_plans_are_the_same_on_every_engine(seed: int, tmp_path: Path) -> None:
    compare(tmp_path, seed, 20, (Grammar, Relational)[seed % 2])
