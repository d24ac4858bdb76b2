"""What the columns of random relations are: kinds, keys, and labels of the units and entities that they identify."""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.properties.grammar import COLUMNS, KEYS, VALUED, Scope

LABELS: dict[str, dict[str, str]] = {
    "people": {"uid": "unit"},
    "events": {"uid": "unit"},
    "orders": {"uid": "unit", "oid": "order"},
    "details": {"oid": "order"},
    "baskets": {"hid": "unit", "bid": "basket"},
    "lines": {"bid": "basket"},
}
"""The columns by which a table's rows are known to belong to a unit, or to an entity of one."""

FRIENDS = {"people": "friend", "orders": "giver"}
"""Columns that hold units, and not those of their rows."""

JOINS = ["JOIN"] * 4 + ["LEFT JOIN"] * 3 + ["RIGHT JOIN", "FULL JOIN", ",", "SEMI JOIN", "ANTI JOIN"]
FRAMES = [
    "",
    "",
    " ROWS BETWEEN 1 PRECEDING AND CURRENT ROW",
    " ROWS UNBOUNDED PRECEDING",
    " ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING",
]
OF_KEY = {"kind": "events", "grade": "events", "sex": "people", "status": "orders", "shop": "baskets"}
"""Valued keys, and a table to count by them."""

PUBLIC = {"region": "regions", "item": "items", "zone": "zones"}
"""Columns that refer to public tables."""


@dataclass(slots=True)
class Labelled(Scope):
    """labels: of the columns that have one, by label."""

    labels: dict[str, list[str]] = field(default_factory=dict)

    def add(self, other: Labelled) -> None:
        for mine, theirs in ((self.columns, other.columns), (self.labels, other.labels)):
            for kind, names in theirs.items():
                mine.setdefault(kind, []).extend(names)
        self.keys += other.keys

    def called(self, name: str) -> list[str]:
        """The columns of this name."""
        return [c for names in (*self.columns.values(), self.keys) for c in names if c.split(".")[1] == name]


def of_table(name: str, alias: str) -> Labelled:
    """The scope of a table."""
    scope = Labelled({kind: [f"{alias}.{n}" for n in names] for kind, names in COLUMNS[name].items()})
    scope.keys = [f"{alias}.{n}" for n in KEYS[name]]
    for column, label in LABELS[name].items():
        scope.labels.setdefault(label, []).append(f"{alias}.{column}")
    if name in FRIENDS:
        scope.columns["friend"] = [f"{alias}.{FRIENDS[name]}"]
    return scope


class Output:
    """The items of a query, and the scope that they make."""

    def __init__(self) -> None:
        self.items: list[tuple[str, str]] = []
        self._kinds: list[tuple[str, str]] = []
        self._labels: list[tuple[str, str]] = []
        self._keys: list[str] = []

    def add(self, tree: str, kind: str = "", *, label: str = "", key: bool = False, bounded: bool = False) -> None:
        """One item. A key keeps its name, a number with bounds is called b<i>."""
        name = f"{'b' if bounded else 'c'}{len(self.items)}"
        own = tree.split(".")[-1]
        if key and own not in [n for _, n in self.items]:
            name = own
        self.items.append((tree, name))
        if kind:
            self._kinds.append((kind, name))
        if label:
            self._labels.append((label, name))
        if key and (name in VALUED or name in PUBLIC):
            self._keys.append(name)

    @property
    def text(self) -> str:
        return ", ".join(f"{tree} AS {name}" for tree, name in self.items)

    def scope(self, alias: str) -> Labelled:
        scope = Labelled(keys=[f"{alias}.{n}" for n in self._keys])
        for kind, name in self._kinds:
            scope.columns.setdefault(kind, []).append(f"{alias}.{name}")
        for label, name in self._labels:
            scope.labels.setdefault(label, []).append(f"{alias}.{name}")
        return scope
