"""Inns and those who stay in them: a world of two private tables and a public one, and random questions about it.

Awkward on purpose: hotels that nobody lists, and guests without any, a city that the public table does not have, NaN.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb

POLICY = """
version = 1
[unit]
name = "guest"
[budget]
epsilon = "1000"
delta = "{delta}"
per_query_epsilon = "1"
max_query_epsilon = "10"
{more}
[tables.stays]
unit = "guest"
{limits}
[tables.stays.columns]
hotel = {{ {hotels} }}
city = {{ references = "cities.city" }}
month = {{ bounds = [1, 4] }}
breakfast = {{}}
nights = {{ bounds = [0, 9] }}
price = {{ bounds = [0, 100] }}
day = {{ bounds = [2024-01-01, 2024-02-15] }}
guest = {{}}
room = {{}}
[tables.guests]
unit = "guest"
key = ["guest"]
max_rows_per_unit = 1
[tables.guests.columns]
guest = {{}}
home = {{ values = ["X", "Y"] }}
age = {{ bounds = [0, 3] }}
[tables.cities]
public = true
key = ["city"]
[tables.cities.columns]
city = {{}}
land = {{}}
size = {{ bounds = [1, 3] }}
"""
LISTED, UNLISTED = 'values = ["A", "B", "C"]', ""
SLACK = "max_rows_per_unit = 700\nmax_groups_per_unit = 700\nmax_rows_per_group = 700"
"""Limits that cut nothing."""


def policy(limits: str, *, listed: bool = True, delta: str = "0", more: str = "") -> str:
    """The text of a policy. listed: whether the hotels are."""
    return POLICY.format(limits=limits, hotels=LISTED if listed else UNLISTED, delta=delta, more=more)


def build(path: Path) -> Path:
    """The database."""
    with duckdb.connect(str(path)) as connection:
        connection.execute("SET threads = 1")
        connection.execute("SELECT setseed(0.25)")
        connection.execute(
            "CREATE TABLE stays AS SELECT (random() * 40)::INT AS guest,"
            " [NULL, 'A', 'B', 'C', 'D'][1 + (random() * 4.99)::INT % 5] AS hotel,"
            " [NULL, 'P', 'Q', 'Z'][1 + (random() * 3.99)::INT % 4] AS city,"
            " [NULL, 1, 2, 3, 4][1 + (random() * 4.99)::INT % 5]::BIGINT AS month,"
            " [NULL, true, false][1 + (random() * 2.99)::INT % 3] AS breakfast,"
            " [NULL, 0, 3, 4, 5, 9][1 + (random() * 5.99)::INT % 6]::BIGINT AS nights,"
            " ['nan'::DOUBLE, NULL, 0.5, 12.25, 100][1 + (random() * 4.99)::INT % 5] AS price,"
            " [NULL, DATE '2024-01-01', DATE '2024-01-03', DATE '2024-02-05'][1 + (random() * 3.99)::INT % 4] AS day,"
            " (random() * 5)::INT AS room FROM range(700)"
        )
        connection.execute(
            "CREATE TABLE guests AS SELECT guest, [NULL, 'X', 'Y', 'W'][1 + guest % 4] AS home,"
            " [NULL, 0, 1, 2, 3][1 + guest % 5]::BIGINT AS age FROM (SELECT DISTINCT guest FROM stays)"
        )
        connection.execute(
            "CREATE TABLE cities AS SELECT * FROM (VALUES ('P', 'North', 1), ('Q', 'South', 3), ('R', 'South', 2))"
            " t(city, land, size)"
        )
    return path


_OF_STAYS = {
    "keys": [
        *("hotel", "month", "breakfast", "month > 2", "day", "hotel = 'A'", "stays.city"),
        *("CASE WHEN month < 3 THEN 'early' WHEN month = 4 THEN 'late' END", "date_trunc('month', day)"),
        "CASE WHEN hotel = 'B' THEN 1 ELSE 0 END",
    ],
    "aggregates": [
        *("COUNT(*)", "COUNT(nights)", "SUM(nights)", "AVG(nights)", "SUM(price)", "COUNT(DISTINCT stays.guest)"),
        *(
            "COUNT(*) FILTER (WHERE nights > 4)",
            "AVG(price)",
            "COUNT(price)",
            "VAR_POP(nights)",
            "COUNT(DISTINCT room)",
        ),
        *("AVG(nights) FILTER (WHERE breakfast)", "SUM(nights + 1)", "SUM(CASE WHEN breakfast THEN nights END)"),
        *("CORR(nights, month)", "COVAR_POP(nights, month)", "STDDEV_SAMP(nights)", "COUNT(month)", "SUM(month)"),
        *(f"{f}(nights, contribution_bounds_per_row => (1, 5))" for f in ("SUM", "AVG")),
        *(f"{f}(nights, contribution_bounds_per_group => (1, 5))" for f in ("SUM", "AVG", "COUNT")),
        *("COUNT(*, contribution_bounds_per_group => (0, 2))", "COUNT(*, epsilon => 0.25)", "AVG(nights + month)"),
        *("SUM(LEAST(nights, 5))", "COUNT(DISTINCT stays.guest) FILTER (WHERE nights > 3)"),
    ],
    "conditions": [
        ["nights > 3", "3 < nights", "NOT nights <= 3", "NOT NOT nights > 3"],
        ["hotel IN ('A', 'B')", "hotel = 'A' OR hotel = 'B'", "NOT hotel NOT IN ('A', 'B')"],
        ["hotel IN ('A', 'B', 'C')", "hotel = 'A' OR hotel IN ('B', 'C')"],
        ["hotel IN ('A', 'D')"],
        ["hotel IN ('A')", "hotel = 'A'", "'A' = hotel"],
        ["month BETWEEN 2 AND 3", "month >= 2 AND month <= 3", "NOT (month < 2 OR month > 3)"],
        ["month IS NOT NULL", "NOT month IS NULL"],
        ["hotel IS NOT NULL"],
        ["hotel <> 'A'", "NOT 'A' = hotel"],
        ["stays.city = 'P'", "stays.city IN ('P')"],
        ["month = 2 OR nights = 5", "NOT (nights <> 5 AND month <> 2)"],
        ["month > 1 OR hotel = 'C'"],
        ["(hotel = 'A' AND month = 2) OR (hotel = 'D' AND month = 3)"],
        ["breakfast", "NOT NOT breakfast"],
        ["breakfast IS NOT DISTINCT FROM TRUE", "TRUE IS NOT DISTINCT FROM breakfast"],
        ["day < DATE '2024-02-01'", "DATE '2024-02-01' > day"],
        ["date_trunc('month', day) = DATE '2024-01-01'"],
        ["EXISTS (SELECT 1 FROM guests AS g WHERE g.guest = stays.guest AND g.age > 1)"],
        ["EXISTS (SELECT 1 FROM guests AS g WHERE g.guest = stays.guest AND g.age > 0)"],
        ["stays.guest IN (SELECT guest FROM guests WHERE home = 'X')"],
        ["stays.city NOT IN (SELECT city FROM cities WHERE size > 2)"],
    ],
}
_OF_GUESTS = {
    "keys": ["home", "age", "age > 1", "home = 'X'"],
    "aggregates": ["COUNT(*)", "COUNT(DISTINCT guests.guest)", "SUM(age)", "AVG(age)", "COUNT(age)"],
    "conditions": [
        *(["age >= 1", "NOT 1 > age"], ["home = 'X'", "home IN ('X')"], ["age IS NOT NULL"], ["home IS NOT NULL"]),
        ["home IN ('X', 'Y')"],
    ],
}
_CITIES = {"keys": ["land", "size", "cities.city"], "aggregates": [], "conditions": [["land = 'South'"], ["size > 1"]]}
_UNITS = {
    "keys": ["n > 15", "top", "h", "n"],
    "aggregates": ["COUNT(*)", "SUM(n)", "AVG(n)", "COUNT(DISTINCT u.guest)", "SUM(top)"],
    "conditions": [["top > 4"], ["n > 3"], ["h = 'A'"], ["h IN ('A', 'B')"], ["n BETWEEN 2 AND 9"]],
}
_FIRST = {
    "keys": ["place", "m", "h"],
    "aggregates": ["COUNT(*)", "SUM(x)", "AVG(x)", "COUNT(DISTINCT w.guest)"],
    "conditions": [["place = 1"], ["place <= 2"], ["m = 2"], ["h = 'A'"], ["x > 3"]],
}
_BOTH = {
    "keys": ["k", "m", "h"],
    "aggregates": ["COUNT(*)", "SUM(x)", "AVG(x)"],
    "conditions": [["k = 'a'"], ["m > 2"], ["h = 'A'"], ["h IN ('A', 'C')"]],
}
_PER_GUEST = "SELECT guest, hotel AS h, LEAST(COUNT(*), 20) AS n, MAX(nights) AS top FROM stays{} GROUP BY guest, hotel"
_PLACES = (
    "SELECT guest, month AS m, hotel AS h, nights AS x,"
    " ROW_NUMBER() OVER (PARTITION BY guest ORDER BY day, nights) AS place FROM stays QUALIFY place <= {}"
)
MENU = ("keys", "aggregates", "conditions")
FORMS: list[tuple[str, int, list[dict[str, list[Any]]]]] = [
    ("stays", 6, [_OF_STAYS]),
    ("guests", 2, [_OF_GUESTS]),
    ("stays JOIN guests ON stays.guest = guests.guest", 2, [_OF_STAYS, _OF_GUESTS]),
    ("stays LEFT JOIN guests ON stays.guest = guests.guest", 1, [_OF_STAYS, _OF_GUESTS]),
    ("stays JOIN cities ON stays.city = cities.city", 2, [_OF_STAYS, _CITIES]),
    ("stays LEFT JOIN cities ON stays.city = cities.city", 1, [_OF_STAYS, _CITIES]),
    ("cities LEFT JOIN stays ON stays.city = cities.city", 1, [_CITIES, _OF_STAYS]),
    (f"({_PER_GUEST.format('')}) AS u", 2, [_UNITS]),
    (f"({_PER_GUEST.format(' WHERE nights > 3')}) AS u", 1, [_UNITS]),
    (f"({_PLACES.format(2)}) AS w", 1, [_FIRST]),
    (f"({_PLACES.format(3)}) AS w", 1, [_FIRST]),
    (
        "(SELECT 'a' AS k, month AS m, hotel AS h, nights AS x FROM stays WHERE breakfast"
        " UNION ALL SELECT 'b', age, home, age FROM guests) AS b",
        1,
        [_BOTH],
    ),
]
"""What stands in FROM, how often, and of what its keys, aggregates and conditions may be."""

SETTINGS = [
    *("SET strategy = rows", "SET strategy = late", "SET strategy = cells", "SET strategy = rescale"),
    *("SET max_rows_per_unit = 3", "SET max_rows_per_group = 2", "SET max_groups_per_unit = 2"),
    *("SET epsilon = 2", "SET epsilon = 0.5"),
]


@dataclass(frozen=True, slots=True)
class Theme:
    """What several questions are about, so that some of them answer others."""

    source: str
    keys: list[str]
    aggregates: list[str]
    conditions: list[list[str]]

    @staticmethod
    def drawn(draw: random.Random) -> Theme:
        source, _, menus = draw.choices(FORMS, [weight for _, weight, _ in FORMS])[0]
        keys, aggregates, conditions = ([d for menu in menus for d in menu[name]] for name in MENU)
        return Theme(source, draw.sample(keys, 2), draw.sample(aggregates, 3), draw.sample(conditions, 2))

    def question(self, draw: random.Random) -> tuple[str, list[object]]:
        """Its text in some order and spelling, and its parameters."""
        keys = draw.sample(self.keys, draw.choice([0, 1, 1, 2]))
        aggregates = draw.sample(self.aggregates, draw.choice([1, 1, 2, 3]))
        conditions = [draw.choice(same) for same in draw.sample(self.conditions, draw.choice([0, 0, 0, 0, 1, 1]))]
        given: list[object] = []
        if draw.random() < 0.1 and self.source == "stays":
            conditions.append("hotel = ?")
            given.append(draw.choice("AB"))
        draw.shuffle(conditions)
        shown = [*(f"{k} AS k{i}" for i, k in enumerate(keys)), *(f"{a} AS a{i}" for i, a in enumerate(aggregates))]
        clause = "WITH DIFFERENTIAL_PRIVACY OPTIONS (max_rows_contributed = 4) " if draw.random() < 0.1 else ""
        text = f"SELECT {clause}{', '.join(shown)} FROM {self.source}"
        if conditions:
            text += f" WHERE {' AND '.join(f'({c})' if ' OR ' in c or draw.random() < 0.3 else c for c in conditions)}"
        if keys:
            listed = ", ".join(keys)
            text += f" GROUP BY ROLLUP ({listed})" if len(keys) > 1 and draw.random() < 0.1 else f" GROUP BY {listed}"
        if clause or not keys:
            return text, given
        tail = draw.random()
        if tail < 0.1:
            text = f"SELECT k0, a0 / 7 AS a0, a0 + 1 AS a1 FROM ({text}) AS q ORDER BY ALL"
        elif tail < 0.2:
            text += " HAVING COUNT(*) > 5"
        elif tail < 0.3:
            text = f"SELECT {', '.join(keys)} FROM {text.partition(' FROM ')[2]} ORDER BY COUNT(*) DESC LIMIT 2"
        return text, given
