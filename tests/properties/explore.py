"""Random worlds, whose units leave one by one while random statements are asked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from dpsql.compile import rewrite
from dpsql.compile.ir import Join, Scan
from dpsql.compile.limits import MOST_JOINED
from dpsql.compile.relations import is_private
from dpsql.vault.open import open_engines
from tests.properties import worlds
from tests.properties.asked import Asked, ways
from tests.properties.checks import check_noise, check_pair, check_same_outcome, check_variant, shuffled
from tests.properties.differences import Unoptimized, Violation
from tests.properties.grammar import Grammar
from tests.properties.sides import Bench, Ready, Side
from tests.properties.worlds import Database, Terms, World


def possible(r: Random, sql: str, side: Side) -> Asked:
    """The statement under a random strategy of those that it allows."""
    one = Asked(sql)
    for one in ways(r, sql):
        said = side.outcome(one)
        if isinstance(said, Ready) or not said.startswith("DP223"):
            break
    return one


def explore(
    folder: Path,
    seed: int,
    statements: int,
    neighbours: int,
    patch: pytest.MonkeyPatch,
    writer: type[Grammar] = Grammar,
) -> Counter[str]:
    """One world: units leave one by one. Returns how many neighbours there were, and how many statements of each
    strategy, kind of relation and with private keys were answered on them."""
    try:
        return _explore(folder, seed, statements, neighbours, patch, writer)
    except Violation as violation:
        again = f"explore(seed={seed}, statements={statements}, neighbours={neighbours}, {writer.__name__})"
        raise Violation(f"{violation}\n{again}") from None


def _explore(
    folder: Path,
    seed: int,
    statements: int,
    neighbours: int,
    patch: pytest.MonkeyPatch,
    writer: type[Grammar],
) -> Counter[str]:
    r = Random(seed)
    public = worlds.random_public(r)
    database: Database = worlds.random_rows(r)
    terms = Terms(private_keys=r.random() < 0.5, limits=r.random() < 0.7)
    grammar = writer(r, private_keys=terms.private_keys)
    texts = list(dict.fromkeys(grammar.statement() for _ in range(statements)))
    seen: Counter[str] = Counter()
    with patch.context() as cuts, Bench(World(folder, public, terms)) as bench:
        cut_scans(cuts, worst_case=r.choice([20, 2, 1]), most_rows=r.choice([10**7, 40]))
        larger = bench.side(database)
        asks = [possible(r, sql, larger) for sql in texts]
        answered = [one for one in asks if isinstance(larger.outcome(one), Ready)]
        for removed, smaller_rows in worlds.chain(r, database, neighbours):
            pairs = seen["neighbours"]
            smaller = bench.side(smaller_rows)
            if larger.snapshot.facts.tables != smaller.snapshot.facts.tables:
                raise Violation("(v) the planner is told another fact")
            for one in asks[pairs % 8 :: 8]:
                check_same_outcome(one, larger, smaller)
            check_pair(asks, larger, smaller, removed)
            if answered:
                one = answered[pairs % len(answered)]
                if check_noise(one, larger, patch) != check_noise(one, smaller, patch):
                    raise Violation(f"(v) the answer has another schema: {one}")
            match pairs % 3:
                case 0:
                    engine, how = bench.keep(Unoptimized(smaller.snapshot)), "no optimizer"
                case 1:
                    engine, how = bench.keep(open_engines(smaller.snapshot, threads=2)).private, "two threads"
                case _:
                    engine, how = bench.side(shuffled(r, smaller_rows)).engines.private, "another order of rows"
            check_variant(asks, smaller, engine, how)
            seen.update(what for one in answered for what in features(larger.outcome(one)))
            seen["neighbours"] += 1
            larger = smaller
    return seen


def cut_scans(patch: pytest.MonkeyPatch, worst_case: int, most_rows: int) -> None:
    """Limits on scans that bite on tables of a few rows."""
    for module in ("limits", "bounds"):
        patch.setattr(f"dpsql.compile.{module}.WORST_CASE", worst_case)
        patch.setattr(f"dpsql.compile.{module}.MOST_ROWS", most_rows)
        patch.setattr(f"dpsql.compile.{module}.MOST_JOINED", min(most_rows, MOST_JOINED))
    patch.setattr("dpsql.compile.rows.MOST_ROWS", most_rows)


def features(ready: Ready | str) -> set[str]:
    """What a statement is an example of."""
    assert isinstance(ready, Ready)
    found = {"answered"}
    for plan in ready.plans:
        found |= {plan.limits.strategy, "private keys" if plan.selection is not None else "public keys"}
        found |= {s.kind.value for s in plan.slots} | {"grouping sets" for _ in plan.release.sets}
        found |= {"salted" for _ in range(rewrite.is_salted(plan))} | {"reads results" for _ in ready.read(plan)}
        found |= set(shapes(plan.release.input))
    return found


def shapes(relation: object) -> Iterator[str]:
    """The kinds of nodes of a relation."""
    if isinstance(relation, Join):
        yield f"{relation.kind.value} join of {'private' if is_private(relation.right) else 'public'}"
    yield type(relation).__name__
    if isinstance(relation, Scan) and relation.limit is not None and relation.limit < 3:
        yield "cut scan"
    for name in ("input", "left", "right"):
        if hasattr(relation, name):
            yield from shapes(getattr(relation, name))
    for part in getattr(relation, "inputs", ()):
        yield from shapes(part)
