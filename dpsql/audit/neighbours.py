"""Neighbour designs: pairs of databases that differ in one privacy unit, each made to show one way of going wrong.

The unit that makes the difference has twenty times the rows or keys that count, values at and far beyond the clamp, or
keys that nobody else has. Two designs differ in something else: rows that no unit owns must not matter at all (claim
0), and a unit that changes its rows, instead of coming or going, is worth two (claim 2 epsilon).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

import pyarrow as pa

from dpsql.audit.data import Column, Row, Rows, Table, Terms

ROWS, KEYS, PER_KEY, EXCESS = 3, 1, 2, 20
"""The limits of every table, and how many times more the one unit has at least."""
PLACES = 60
"""How many keys there are. Noise adds up over keys, too: so many, and an epsilon of 1, are needed for a unit in all of
them to stand out of the noise that covers one."""
ONE = 999
"""The unit that makes the difference."""
FRESH = "{n}"
"""Stands in every statement, in a condition that is always true; each run writes another number there, since an equal
statement would be given its stored answer again."""

_LIMITS = f"max_rows_per_unit = {ROWS}\nmax_groups_per_unit = {KEYS}\nmax_rows_per_group = {PER_KEY}"
_PLACE = Column(pa.int64(), f"values = {list(range(PLACES))}")
_UNIT = Column(pa.int64())
TABLES = {
    "people": Table(
        'unit = "uid"\nkey = ["uid"]\nmax_rows_per_unit = 1',
        {"uid": _UNIT, "place": _PLACE, "age": Column(pa.int32(), "bounds = [0, 120]")},
    ),
    "events": Table(
        f'unit = "uid"\n{_LIMITS}',
        {
            "uid": _UNIT,
            "place": _PLACE,
            "clinic": Column(pa.string()),
            "x": Column(pa.float64(), "bounds = [0, 10]"),
            "n": Column(pa.int64(), "bounds = [0, 10]"),
            "paid": Column(pa.decimal128(18, 2), "bounds = [0, 10]"),
        },
    ),
    "baskets": Table(
        f'unit = "uid"\nkey = ["bid"]\n{_LIMITS}', {"bid": Column(pa.int64()), "uid": _UNIT, "place": _PLACE}
    ),
    "lines": Table(
        f'unit = {{ via = "bid", to = "baskets" }}\n{_LIMITS}',
        {"bid": Column(pa.int64()), "price": Column(pa.float64(), "bounds = [0, 10]")},
    ),
    "towns": Table('public = true\nkey = ["place"]', {"place": Column(pa.int64()), "name": Column(pa.string())}),
}

PURE, APPROXIMATE = Terms("0.25"), Terms("0.25", "0.05")
STRONG = Terms("1")
NARROW, LAX = Terms("0.25", "0.02"), Terms("0.25", "0.1")


@dataclass(frozen=True, slots=True)
class Design:
    """larger, smaller: the neighbours. factor: how many times what is charged is claimed."""

    name: str
    larger: Rows
    smaller: Rows
    statements: tuple[str, ...]
    strategy: str = ""
    terms: Terms = PURE
    factor: int = 1

    @property
    def claim(self) -> tuple[float, float]:
        """(epsilon, delta) of all statements together, for the neighbours of this design: with d the delta of one
        step, two steps have d + e^epsilon d."""
        epsilon, delta = float(self.terms.epsilon) * len(self.statements), float(self.terms.delta)
        delta *= len(self.statements)
        steps = range(self.factor)
        return epsilon * self.factor, min(1.0, sum(math.exp(epsilon * step) for step in steps) * delta)


def event(
    unit: int | None,
    place: int | None = 1,
    clinic: str | None = "c1",
    x: float | None = 5.0,
    n: int | None = 5,
    paid: str | None = "5.00",
) -> Row:
    """One row of `events`."""
    return (unit, place, clinic, x, n, None if paid is None else Decimal(paid))


def _others() -> dict[str, list[Row]]:
    """Thirty units that are in both databases."""
    units = range(1, 31)
    return {
        "people": [(u, u % 5, 20 + u) for u in units],
        "events": [event(u, u % 5, f"c{u % 3}", float(u % 11)) for u in units for _ in range(2)],
        "baskets": [(u, u, u % 5) for u in units],
        "lines": [(u, 2.5) for u in units for _ in range(2)],
        "towns": [(p, f"town {p}") for p in range(PLACES)],
    }


def _design(
    name: str,
    *statements: str,
    strategy: str = "",
    terms: Terms = PURE,
    factor: int = 1,
    instead: Rows | None = None,
    alone: bool = False,
    **rows: Sequence[Row],
) -> Design:
    """rows: the unit's. instead: what the smaller database has in their place. alone: nobody else is there."""
    common = {t: list(r) if t == "towns" or not alone else [] for t, r in _others().items()}
    larger = {t: [*r, *rows.get(t, ())] for t, r in common.items()}
    smaller = {t: [*r, *(instead or {}).get(t, ())] for t, r in common.items()}
    return Design(name, larger, smaller, statements, strategy, terms, factor)


def _all(aggregates: str, table: str = "events", column: str = "uid", more: str = "") -> str:
    """A statement without groups. The column is one that is never below 0."""
    return f"SELECT {aggregates} FROM {table} WHERE {column} > -{FRESH}{more}"


def _by(key: str, aggregates: str = "COUNT(*) AS a1", table: str = "events", column: str = "uid") -> str:
    """A statement with groups."""
    return f"SELECT {key}, {aggregates} FROM {table} WHERE {column} > -{FRESH} GROUP BY {key} ORDER BY {key}"


_COUNT, _SUM, _UNITS = "COUNT(*) AS a1", "SUM(x) AS a1", "COUNT(DISTINCT uid) AS a1"
_THREE = "COUNT(*) AS a1, SUM(x) AS a2, AVG(x) AS a3"
_MANY = ROWS * EXCESS
_CROWDED = [event(ONE)] * _MANY
_SPREAD = [event(ONE, i % PLACES) for i in range(PLACES * PER_KEY)]
_LONE = [event(ONE, clinic=f"own {i}") for i in range(PLACES)]
_OWN = [event(ONE, clinic="own")]
_ENDS = [event(ONE, n=(1 << 63) - 1, paid=f"{10**16 - 1}.99"), event(ONE, n=-(1 << 63), paid=f"-{10**16 - 1}.99")]
_SHARED = [(basket, ONE, 1) for basket in range(1, EXCESS + 1)]
_BASKETS = [(500 + basket, ONE, 1) for basket in range(EXCESS)]
_LINES = [(500 + basket, 10.0) for basket in range(EXCESS)] * ROWS
_JOINED = "lines l JOIN baskets b ON l.bid = b.bid"
_TOWNS = "events e JOIN towns t ON e.place = t.place"

DESIGNS = (
    # -- limits on rows
    _design("many rows, one group in all", _all(_COUNT), events=_CROWDED),
    _design("many rows in one cell", _by("place"), strategy="cells", events=_CROWDED),
    _design("many rows, late", _all(_COUNT, more=" AND x > 4"), strategy="late", events=_CROWDED),
    _design("many rows, rescaled", _by("place", "SUM(n) AS a1"), strategy="rescale", events=_SPREAD),
    _design("one person, repeated", _by("place", "SUM(age) AS a1", "people"), people=[(ONE, 1, 120)] * _MANY),
    _design("a filter for one unit", _all(f"COUNT(*) FILTER (WHERE uid = {ONE}) AS a1"), events=_CROWDED),
    _design("nobody else", _by("place"), _all(_THREE), alone=True, events=_CROWDED),
    # -- limits on keys
    _design("many keys", _by("place"), strategy="cells", terms=STRONG, events=_SPREAD),
    _design("many keys, rows then cells", _by("place"), strategy="rows then cells", terms=STRONG, events=_SPREAD),
    _design("many keys, units counted", _by("place", _UNITS), strategy="cells", terms=STRONG, events=_SPREAD),
    _design("keys outside the list", _by("place"), events=[event(ONE, 77), event(ONE, -1)] * _MANY),
    # -- values
    # (under `cells` what a unit adds to a key is clamped once more, whatever its values are)
    _design("values twenty times the clamp", _by("place", _SUM), strategy="rows", events=[event(ONE, x=200.0)] * _MANY),
    _design("values that add up", _by("place", _SUM), strategy="cells", events=[event(ONE, x=200.0)] * _MANY),
    _design("values far beyond", _all(_SUM), events=[event(ONE, x=1e308)] * _MANY),
    _design("infinities", _all(_THREE), events=[event(ONE, x=math.inf), event(ONE, x=-math.inf)] * ROWS),
    _design("NaN", _all("SUM(x) AS a1, AVG(x) AS a2"), events=[event(ONE, x=math.nan)] * _MANY),
    _design("NULLs", _all(_THREE), events=[event(ONE, None, None, None, None, None)] * _MANY),
    _design("the ends of the types", _all("SUM(n) AS a1, SUM(paid) AS a2"), events=_ENDS * ROWS),
    _design(
        "rows changed, not added",
        _all(_SUM),
        factor=2,
        events=[event(ONE, x=1e308)] * _MANY,
        instead={"events": [event(ONE, x=-1e308)] * _MANY},
    ),
    # -- who owns a row
    _design("rows of nobody", _by("place"), factor=0, people=[(None, 1, 50)], events=[event(None)] * _MANY),
    _design("keys that others have, too", _all(_COUNT, "baskets", "bid"), baskets=_SHARED),
    _design("lines of shared baskets", _all("SUM(price) AS a1", "lines", "bid"), baskets=_SHARED),
    _design("two private tables joined", _all(_COUNT, _JOINED, "l.bid"), baskets=_BASKETS, lines=_LINES),
    _design("joined with a public table", _by("t.name", table=_TOWNS, column="e.uid"), events=_SPREAD),
    # -- private keys
    _design("a private key alone", _by("clinic"), terms=LAX, events=_OWN),
    _design("a private key alone, crowded", _by("clinic"), strategy="cells", terms=APPROXIMATE, events=_OWN * _MANY),
    _design("the same, units counted", _by("clinic", _UNITS), strategy="cells", terms=APPROXIMATE, events=_OWN * _MANY),
    _design("many private keys alone", _by("clinic"), strategy="cells", terms=LAX, events=_LONE),
    _design("the same, limited by rows", _by("clinic"), strategy="rows", terms=NARROW, events=_LONE),
    _design("the NULL key alone", _by("clinic"), terms=LAX, events=[event(ONE, clinic=None)] * _MANY),
    # -- composition
    _design("a session", _all(_COUNT), _all(_SUM), _by("place"), _all("AVG(n) AS a1"), events=_CROWDED),
)
"""Asked by `pairs`; the first kind of design that a fault breaks stands first."""
