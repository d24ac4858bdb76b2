"""The norms of each strategy against units that do the worst which the limits allow.

A unit is what it has in each key: for rows, how many; for a sum, a number of rows and a total within their weights; for
a Bernstein slot, a vector of two parts that sum to M per row. A strategy's steps are applied to it as the SQL applies
them (integers, rounded towards 0), and the largest L1, L2 and L-infinity norm over all units of a small size are
compared with what is promised: never more, and for some unit exactly that.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from random import Random

import pytest

from dpsql.privacy.sensitivity import Limits, Norms, of_rows, of_units, of_values, over_sets, touched_keys

KEYS = 3
MOST = 4  # rows of a unit in a key, before limits
SUB = 4  # parts of a row, where vectors are scaled

Cell = tuple[int, int]
"""Rows, and the sum of their grid points 0..M (for counts: the rows again)."""
Unit = Sequence[Cell]


def every_limits() -> Iterator[tuple[Limits, int | None]]:
    """Each strategy with small limits, and a number of keys where keys are public (None = they are not)."""
    small = (1, 2, 3)
    for keys in (1, 2, 3, None):
        for r in (1, 2, 5):
            yield Limits("rows", rows=r), keys
            yield Limits("late", rows=r, late=True), keys
            for g in small:
                yield Limits("rescale", groups=g if keys is None else None, ball=r), keys
                for m in small:
                    yield Limits("cells", groups=g, per_group=r), keys
                    yield Limits("rows then cells", rows=m, groups=g, per_group=r), keys
                    yield Limits("late then cells", rows=m, late=True, groups=g, per_group=r), keys
        if keys is not None:
            yield Limits("cells", groups=None, per_group=2), keys


CASES = list(dict.fromkeys(every_limits()))


def units(limits: Limits, keys: int | None, span: int, r: Random) -> Iterator[list[Cell]]:
    """Units of at most MOST rows in each of the keys there are, their rows as `limits.rows` leaves them. Grid points at
    the ends and, now and then, between: extremes are what is looked for."""
    width = KEYS if keys is None else min(KEYS, keys)
    for counts in product(range(MOST + 1), repeat=width):
        if limits.rows is None or sum(counts) <= limits.rows:
            yield [(n, n * span) for n in counts]
            yield [(n, 0) for n in counts]
            yield [(n, r.randint(0, n * span)) for n in counts]


def enforced(limits: Limits, unit: list[Cell], shape: str, span: int) -> list[tuple[int, ...]]:
    """What a unit adds to the vector, in parts of 1/SUB of a row where it is scaled, else in whole rows."""
    vectors = [as_vector(cell, shape, span) for cell in unit]
    weight = 1 if shape == "count" else span
    if limits.per_group is not None:
        cut = [cut_to(limits.per_group, cell, vector, shape, span) for cell, vector in zip(unit, vectors, strict=True)]
    elif limits.ball is not None:
        norm = sum(abs(x) for v in vectors for x in v)
        radius = limits.ball * weight
        cut = [tuple(x * SUB * radius // norm if norm > radius else x * SUB for x in v) for v in vectors]
    else:
        cut = vectors
    if limits.groups is not None:  # any g of its keys: those that hold most are the worst choice
        chosen = sorted(range(len(cut)), key=lambda i: -sum(map(abs, cut[i])))[: limits.groups]
        cut = [v if i in chosen else (0,) * len(v) for i, v in enumerate(cut)]
    return cut


def as_vector(cell: Cell, shape: str, span: int) -> tuple[int, ...]:
    """A count, a sum over [0, span], or the two parts of a Bernstein slot."""
    n, total = cell
    return {"count": (n,), "sum": (total,), "mean": (n * span - total, total)}[shape]


def cut_to(most: int, cell: Cell, vector: tuple[int, ...], shape: str, span: int) -> tuple[int, ...]:
    n, total = cell
    if shape == "count":
        return (min(n, most),)
    if shape == "sum":
        return (min(total, most * span),)
    return tuple(x * SUB * most // n if n > most else x * SUB for x in vector)


def parts(limits: Limits, shape: str) -> int:
    scaled = limits.ball is not None or (limits.per_group is not None and shape == "mean")
    return SUB if scaled else 1


def reached(limits: Limits, keys: int | None, shape: str, span: int) -> Norms:
    """The largest norms over all units, and the largest number of keys touched."""
    r = Random(f"{limits} {keys} {shape}")
    linf = l1 = touched = squares = 0
    for unit in units(limits, keys, span, r):
        parts_of_keys = enforced(limits, unit, shape, span)
        flat = [abs(x) for v in parts_of_keys for x in v]
        linf, l1 = max(linf, *flat), max(l1, sum(flat))
        squares = max(squares, sum(x * x for x in flat))
        touched = max(touched, sum(any(v) for v in parts_of_keys))
    return Norms(linf, l1, touched, squares)


@pytest.mark.parametrize("shape", ["count", "sum", "mean"])
@pytest.mark.parametrize(("limits", "keys"), CASES, ids=str)
def test_no_unit_does_worse_and_some_unit_does_as_bad(limits: Limits, keys: int | None, shape: str) -> None:
    span = 1 if shape == "count" else 6
    promised = of_rows(limits, span * parts(limits, shape), keys)
    found = reached(limits, keys, shape, span)
    assert found.l1 <= promised.l1
    assert found.linf <= promised.linf
    assert found.keys <= promised.keys
    assert found.l2_squared <= promised.l2_squared
    # Units of the size that is tried here reach all but what needs more keys or more rows than they have.
    width = KEYS if keys is None else min(KEYS, keys)
    if promised.keys <= width and promised.l1 <= promised.keys * MOST * span * parts(limits, shape):
        assert found.l1 == promised.l1
        if promised.l1 % promised.linf == 0 and promised.linf <= MOST * span * parts(limits, shape):
            assert found.l2_squared == promised.l2_squared  # as many keys as full as one can be, and nothing else
    if promised.linf <= MOST * span * parts(limits, shape):
        assert found.linf == promised.linf
    if promised.keys <= width:
        assert found.keys == promised.keys


@pytest.mark.parametrize(("limits", "keys"), CASES, ids=str)
def test_a_unit_counts_once_in_each_key(limits: Limits, keys: int | None) -> None:
    """Of units: once in each key that is left; rescaling takes no key away."""
    promised = of_units(limits, keys)
    width = KEYS if keys is None else min(KEYS, keys)
    most = 0
    for unit in units(limits, keys, 1, Random(1)):
        held = sum(n > 0 for n, _ in unit)
        most = max(most, held if limits.groups is None else min(held, limits.groups))
    assert promised == Norms(1, *[touched_keys(limits, keys)] * 3)
    assert most <= promised.l1
    assert most == promised.l1 or promised.l1 > width


@pytest.mark.parametrize(("limits", "keys"), CASES, ids=str)
def test_a_value_comes_or_goes_with_a_row(limits: Limits, keys: int | None) -> None:
    """Of distinct values: all rows of the unit may hold different ones that nobody else has; any that others have move
    nothing."""
    if limits.ball is not None:
        with pytest.raises(ValueError, match="values"):
            of_values(limits, keys)
        return
    promised, r = of_values(limits, keys), Random(f"{limits} {keys}")
    assert promised == of_rows(limits, 1, keys)
    for unit in units(limits, keys, 1, r):
        brought = [{r.randrange(6) for _ in range(n)} for (n,) in enforced(limits, unit, "count", 1)]
        moved = [len(mine - {v for v in range(6) if r.random() < 0.5}) for mine in brought]
        assert max(moved) <= promised.linf
        assert sum(moved) <= promised.l1
        assert sum(map(bool, moved)) <= promised.keys


def test_counter_examples_of_mixed_formulas() -> None:
    """R = 400, g = 8, r = 100: cells alone allow 800 rows, and rows alone let all 400 fall into one key."""
    assert of_rows(Limits("cells", groups=8, per_group=100), 1, 50) == Norms(100, 800, 8, 80_000)
    assert of_rows(Limits("rows", rows=400), 1, 50) == Norms(400, 400, 50, 160_000)
    assert of_rows(Limits("rows then cells", rows=400, groups=8, per_group=100), 1, 50) == Norms(100, 400, 8, 40_000)


def test_of_grouping_sets_the_squares_add_up() -> None:
    """R = 3 and CUBE of two columns: a unit's three rows in one group of each of four sets."""
    cube = over_sets([of_rows(Limits("rows", rows=3), 1, keys) for keys in (1, 4, 4, 16)])
    assert cube == Norms(3, 12, 1 + 3 + 3 + 3, 36)
    vector = [3, 3, 3, 3]
    assert (sum(vector), sum(x * x for x in vector)) == (cube.l1, cube.l2_squared)
    apart = over_sets([of_units(Limits("cells", groups=2, per_group=1), keys) for keys in (1, None)])
    assert apart == Norms(1, 3, 3, 3)


def test_nothing_is_bounded_by_nothing() -> None:
    with pytest.raises(ValueError, match="keys"):
        touched_keys(Limits("cells", per_group=3), None)
    with pytest.raises(ValueError, match="keys"):
        of_rows(Limits("rescale", ball=3), 1, None)
    with pytest.raises(ValueError, match="rows"):
        of_rows(Limits("cells", groups=3), 1, 5)


@pytest.mark.parametrize("shape", ["count", "mean"])
def test_halves_would_be_seen(shape: str) -> None:
    """Of what is promised, half is too little for some unit, under every strategy."""
    for limits, keys in CASES:
        promised = of_rows(limits, (1 if shape == "count" else 6) * parts(limits, shape), keys)
        found = reached(limits, keys, shape, 1 if shape == "count" else 6)
        small = promised.keys <= (KEYS if keys is None else min(KEYS, keys))
        assert not small or 2 * found.l1 > promised.l1
