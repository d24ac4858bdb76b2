"""What a clock beside the machine tells of one unit, and of the noise that was drawn (docs/privacy.md, "Time").

Of noise it must tell nothing that 10,000 draws show: the analyst who knew it would subtract it. Of one unit's rows it
does tell something, which no noise covers; the bounds here are what that page states.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from fractions import Fraction
from pathlib import Path
from time import perf_counter_ns

import duckdb
import numpy as np
import pytest

from dpsql.prices import Due
from dpsql.privacy.mechanisms import DiscreteLaplace, Law, RoundedNormal
from dpsql.privacy.selection import conditioned
from dpsql.repeats.lookup import Match
from dpsql.session import Session, open_session
from tests.audit.clocks import Told, raced, told

RUNS = 10_000
LIMIT = 20

POLICY = f"""\
version = 1
[unit]
name = "person"
[budget]
account = "ACCOUNT"
epsilon = "1000"
per_query_epsilon = "1"
[tables.t]
unit = "uid"
max_rows_per_unit = {LIMIT}
max_groups_per_unit = 2
max_rows_per_group = 5
[tables.t.columns]
uid = {{}}
x = {{ bounds = [0, 100] }}
g = {{ values = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9] }}
s = {{}}
"""
OTHERS = "SELECT 1000 + i % 2000 AS uid, i * 7 % 100 AS x, i % 10 AS g, 'text ' || i AS s FROM range(10000) t(i)"

COUNT = "SELECT COUNT(*) AS n FROM t"
GROUPS = "SELECT g, COUNT(*) AS n, SUM(x) AS x FROM t GROUP BY g"
PATTERN = (
    "SELECT SUM(CASE WHEN uid = 7 THEN length(regexp_replace(s, '[a-f]+[0-9]', 'x')) % 100 ELSE 0 END) AS n FROM t"
)


def many(rows: int, text: str = "'a'") -> str:
    """Rows of unit 7."""
    return f"SELECT 7 AS uid, i % 100 AS x, i % 10 AS g, {text} AS s FROM range({rows}) t(i)"


CASES = {
    "the same data": (many(0), COUNT, "rows"),
    "a unit of one row": (many(1), COUNT, "rows"),
    "as many rows as count": (many(LIMIT), GROUPS, "rows"),
    "rows far beyond the limit": (many(400), GROUPS, "rows"),
    "work of `late`": (many(400), f"{GROUPS.replace('FROM t', 'FROM t WHERE x > 10')}", "late"),
    "work of `cells`": (many(400), GROUPS, "cells"),
    "long texts": (many(LIMIT, "repeat('ab', 20000)"), "SELECT COUNT(*) AS n FROM t WHERE s LIKE '%b%a%c%'", "rows"),
    "a pattern for one unit": (many(LIMIT, "repeat('abcdef', 10000)"), PATTERN, "rows"),
}
WITHIN_CHANCE = ("the same data", "a unit of one row")
"""Of these the clock tells nothing. (Two files are never laid out alike, so even those are allowed an advantage.)"""

SMALL = 0.25
Release = Callable[[], object]


@pytest.fixture
def neighbours(tmp_path: Path) -> Iterator[Callable[[str, str, str], tuple[Release, Release]]]:
    """For the rows of unit 7, a statement and a strategy: the release with that unit, and without."""
    with ExitStack() as stack:

        def side(name: str, rows: str, sql: str, strategy: str) -> Release:
            database, policy = tmp_path / f"{name}.duckdb", tmp_path / f"{name}.toml"
            with duckdb.connect(str(database)) as connection:
                connection.execute(f"CREATE TABLE t AS {OTHERS} UNION ALL {rows}")
            policy.write_text(POLICY.replace("ACCOUNT", name), encoding="utf-8")
            session = open_session(policy, database)
            stack.callback(session.close)
            session.settings.set("strategy", strategy)
            return released(session, sql)

        def make(rows: str, sql: str, strategy: str) -> tuple[Release, Release]:
            return side("with", rows, sql, strategy), side("without", many(0), sql, strategy)

        yield make


def released(session: Session, sql: str) -> Release:
    """The only step that reads private rows: the engine, and the noise on what it gives."""
    compiled = session.compile(sql)
    (planned,), (sealed,) = compiled.plan.releases, compiled.rewritten.inner
    due = Due(planned, None, Match({}, planned, None))
    return lambda: session._release(due, sealed, {})


Neighbours = Callable[[str, str, str], tuple[Release, Release]]


@pytest.mark.audit
@pytest.mark.parametrize("case", CASES)
def test_what_a_clock_tells_of_one_unit(case: str, neighbours: Neighbours) -> None:
    found = raced(*neighbours(*CASES[case]), RUNS)
    print(f"\n{case}: {found}")
    if case in WITHIN_CHANCE:
        assert abs(found.advantage) < SMALL, found


@pytest.mark.audit
def test_a_planted_leak_is_found(neighbours: Neighbours) -> None:
    """200 microseconds for one unit, in runs of some milliseconds and in as many as elsewhere; and in a few runs what
    takes as long as the run itself, however busy the machine is."""
    larger, smaller = neighbours(*CASES["a unit of one row"])

    def leaking(seconds: float) -> Release:
        def run() -> None:
            time.sleep(seconds)
            larger()

        return run

    small = raced(leaking(200e-6), smaller, RUNS)
    assert small.apart, small
    large = raced(leaking(small.median / 1e6), smaller, 600)
    assert large.apart, large
    assert large.advantage > SMALL, large


LAWS = [
    *(DiscreteLaplace(Fraction(scale)) for scale in (Fraction(1, 2), 10, 1 << 20, 1 << 60)),
    *(RoundedNormal(Fraction(sigma)) for sigma in (Fraction(1, 2), 10, 1 << 20)),
]


def by_size(draw: Callable[[], int], runs: int) -> Told:
    """Draws larger than the median one, against the others."""
    took, sizes = np.zeros(runs, dtype=np.int64), np.zeros(runs)
    for i in range(runs):
        began = perf_counter_ns()
        size = draw()
        took[i], sizes[i] = perf_counter_ns() - began, size
    large = sizes > np.median(sizes)
    return told(took[large], took[~large])


@pytest.mark.audit
@pytest.mark.parametrize("n", [1, 5, 40])
@pytest.mark.parametrize("law", LAWS, ids=str)
def test_the_time_of_a_draw_does_not_tell_its_size(law: Law, n: int) -> None:
    found = by_size(lambda: max(abs(int(x)) for x in law.sample(n)), RUNS)
    assert not found.apart, found


@pytest.mark.audit
def test_the_time_of_a_decision_on_a_key_does_not_tell_how_many_units_it_has() -> None:
    decision = conditioned(Fraction(1), Fraction(1, 10**6), 1)
    few, many_ = np.array([1] * 5), np.array([10**6] * 5)
    found = raced(lambda: decision.keep(few), lambda: decision.keep(many_), RUNS)
    assert not found.apart, found


@pytest.mark.audit
def test_a_sampler_that_stops_early_is_found() -> None:
    """One coin after the other until the first tail: what step 2 of discrete Laplace must not do."""
    rng = np.random.default_rng(1)

    def draw() -> int:
        heads = 0
        while rng.random() < 0.6:
            heads += 1
        return heads

    assert by_size(draw, 2000).apart
