"""A statement with what is set before it: a strategy, limits, a price; and the salt of its random choice of keys."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

from dpsql.compile.limits import MECHANISMS, STRATEGIES

LIMITS = ("max_rows_per_unit", "max_groups_per_unit", "max_rows_per_group")


@dataclass(frozen=True, slots=True)
class Asked:
    """settings: (name, value) of each SET. salt: in place of the one that is drawn after the charge."""

    sql: str
    settings: tuple[tuple[str, str], ...] = ()
    salt: int = 0

    def __str__(self) -> str:
        return "".join(f"SET {name} = '{value}'; " for name, value in self.settings) + self.sql


def asked(sql: str, strategy: str = "", mechanism: str = "", **limits: int) -> Asked:
    """A statement under a strategy and a mechanism ("" = the planner's choice), and limits."""
    given = (("strategy", strategy), ("mechanism", mechanism))
    chosen = tuple((name, value) for name, value in given if value)
    return Asked(sql, (*chosen, *((name, str(most)) for name, most in limits.items())))


def ways(r: Random, sql: str) -> Iterator[Asked]:
    """The statement under every strategy, in a random order, each with random limits and a random price: to be tried
    until one is possible. Now and then the first stands alone, whatever comes of it."""
    strategies = r.sample(["", *STRATEGIES], len(STRATEGIES) + 1)
    for strategy in strategies if r.random() < 0.85 else strategies[:1]:
        settings = [("strategy", strategy)] if strategy else []
        settings += [(name, str(r.randint(1, 3))) for name in LIMITS if r.random() < 0.2]
        if r.random() < 0.3:
            settings.append(("epsilon", "20"))
        if r.random() < 0.3:  # Gaussian is refused where there is no delta: then another way is tried
            settings.append(("mechanism", r.choice(MECHANISMS)))
        yield Asked(sql, tuple(settings), r.getrandbits(62))
