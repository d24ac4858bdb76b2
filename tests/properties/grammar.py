"""Random statements over the tables of `worlds`: every form that is answered, and some that are not.

One grammar over one source of randomness. Expressions are typed, so that most statements mean something; a few do not,
and the property says that even a refusal is the same on both databases.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random

BOUNDED = ("age", "cost", "x", "n", "amount", "wide", "huge", "total", "pieces", "worth", "level", "price", "tax")
COLUMNS = {
    "people": {"num": ["age", "cost", "raw"], "str": ["name", "region", "sex"], "date": ["born"], "bool": ["smoker"]},
    "events": {
        "num": ["x", "n", "amount", "wide", "huge", "tally", "grade"],
        "str": ["kind"],
        "date": ["seen"],
        "id": ["item"],
    },
    "orders": {"num": ["total"], "str": ["status"], "date": ["day"], "id": ["oid"]},
    "details": {"num": ["pieces"], "id": ["oid", "item"]},
    "baskets": {"num": ["worth"], "str": ["shop"], "id": ["bid"]},
    "lines": {"num": ["price"], "id": ["bid", "item"]},
    "readings": {"num": ["level"], "str": ["place"]},
    "regions": {"str": ["label", "zone"]},
    "items": {"num": ["tax"], "str": ["category"]},
    "zones": {"str": ["land"]},
    "prices": {"id": ["item"]},
}
KEYS = {
    "people": ["region", "sex"],
    "events": ["kind", "grade", "n", "item"],
    "orders": ["status"],
    "details": ["item", "pieces"],
    "baskets": ["shop"],
    "lines": ["item"],
    "readings": ["place"],
    "regions": ["label", "zone", "region"],
    "items": ["category", "item"],
    "zones": ["land", "zone"],
    "prices": ["item"],
}
VALUED = ("sex", "kind", "grade", "n", "status", "pieces", "shop", "place")
_UNITS = {"people": "uid", "events": "uid", "orders": "uid", "baskets": "hid"}

# (text of FROM with the driving table first, aliases and their tables)
_FROM: list[tuple[str, dict[str, str]]] = [
    ("people p", {"p": "people"}),
    ("events e", {"e": "events"}),
    ("orders o", {"o": "orders"}),
    ("details d", {"d": "details"}),
    ("baskets b", {"b": "baskets"}),
    ("lines l", {"l": "lines"}),
    ("readings q", {"q": "readings"}),
    ("orders o JOIN people p ON o.uid = p.uid", {"o": "orders", "p": "people"}),
    ("people p JOIN orders o USING (uid)", {"o": "orders", "p": "people"}),
    ("orders o LEFT JOIN people p ON p.uid = o.uid", {"o": "orders", "p": "people"}),
    ("events e JOIN people p ON e.uid = p.uid", {"e": "events", "p": "people"}),
    ("events e LEFT JOIN people p USING (uid)", {"e": "events", "p": "people"}),
    ("people p JOIN people p2 ON p.uid = p2.uid", {"p": "people", "p2": "people"}),
    ("details d JOIN orders o ON d.oid = o.oid", {"d": "details", "o": "orders"}),
    ("details d LEFT JOIN orders o ON d.oid = o.oid", {"d": "details", "o": "orders"}),
    (
        "details d JOIN orders o USING (oid) JOIN people p ON o.uid = p.uid",
        {"d": "details", "o": "orders", "p": "people"},
    ),
    ("lines l JOIN baskets b ON l.bid = b.bid", {"l": "lines", "b": "baskets"}),
    ("baskets b JOIN lines l USING (bid)", {"l": "lines", "b": "baskets"}),
    ("lines l LEFT JOIN baskets b ON l.bid = b.bid AND b.worth > 1", {"l": "lines", "b": "baskets"}),
    ("baskets b JOIN people p ON b.hid = p.uid", {"b": "baskets", "p": "people"}),
    ("orders o JOIN people p ON o.uid = p.uid AND p.age >= 18", {"o": "orders", "p": "people"}),
]
# Comma joins: what WHERE has to say.
_COMMA: list[tuple[str, dict[str, str], str]] = [
    ("orders o, people p", {"o": "orders", "p": "people"}, "o.uid = p.uid"),
    ("lines l, baskets b", {"l": "lines", "b": "baskets"}, "l.bid = b.bid"),
    (
        "details d, orders o, people p",
        {"d": "details", "o": "orders", "p": "people"},
        "d.oid = o.oid AND o.uid = p.uid",
    ),
]
_NUMBERS = ("0", "1", "-1", "2", "0.5", "7", "100", "-3.25", "1e10", "9007199254740993", "NULL")
_STRINGS = ("'a'", "''", "'R1'", "'b '", "'F'", "'12'", "'%'", "'new'", "NULL")
_PAIRED = ("COVAR_POP", "CORR", "REGR_SLOPE", "REGR_INTERCEPT", "REGR_AVGX", "REGR_COUNT")
_PATTERNS = ("'a%'", "'%b%'", "'_'")
_DATES = ("DATE '2024-01-01'", "DATE '2024-06-15'", "DATE '2025-01-01'", "DATE '2024-02-29'")


@dataclass(slots=True)
class Scope:
    """What expressions can name. unit: the column that COUNT(DISTINCT ...) takes, if any."""

    columns: dict[str, list[str]] = field(default_factory=dict)
    keys: list[str] = field(default_factory=list)
    unit: str = ""


class Grammar:
    """Writes statements. The same Random gives the same statements."""

    def __init__(self, r: Random, *, private_keys: bool = False):
        self.r, self.private_keys = r, private_keys

    def one(self, *choices: Callable[[], str]) -> str:
        return self.r.choice(choices)()

    def maybe(self, probability: float) -> bool:
        return self.r.random() < probability

    # -- statements

    def statement(self) -> str:
        """One SELECT."""
        source, scope, conditions = self._from()
        cte = ""
        if self.maybe(0.2):
            source, scope, cte = self._derived(source, scope, conditions)
            conditions = []
        keys = [self._key(scope, conditions) for _ in range(self.r.choice([0, 0, 1, 1, 1, 2]))]
        if self.maybe(0.6):
            conditions.append(self.boolean(scope, 2))
        measures = [self._measure(scope) for _ in range(self.r.choice([1, 1, 2, 3]))]
        if keys and self.private_keys and self.maybe(0.2):
            return self._groups_alone(keys, f"{cte}%s FROM {source}", conditions)
        if keys and self.maybe(0.15):
            return self._choice(keys, measures[0], f"{cte}SELECT {', '.join(keys)} FROM {source}", conditions)
        items = [f"{k} AS g{i}" for i, k in enumerate(keys)] + [f"{m} AS m{i}" for i, m in enumerate(measures)]
        sets = self._sets(keys) if keys and self.maybe(0.3) else ""
        items += [f"GROUPING({keys[0]}) AS r"] if sets else []
        text = f"{cte}SELECT {', '.join(items)} FROM {source}"
        if conditions:
            text += " WHERE " + " AND ".join(f"({c})" for c in conditions)
        if sets:
            text += f" GROUP BY {sets}"
        elif keys:
            text += " GROUP BY " + self.r.choice(
                [", ".join(keys), "ALL", ", ".join(str(i + 1) for i in range(len(keys)))]
            )
        if self.maybe(0.1):
            text += f" HAVING {measures[0]} > 1"
        if self.maybe(0.2):
            text += " ORDER BY m0 DESC, 1 LIMIT 3"
        return text

    def _sets(self, keys: list[str]) -> str:
        """Several grouping sets, some of them refused: those that stand there twice."""
        first, last = keys[0], keys[-1]
        every = ", ".join(keys)
        choices = [f"ROLLUP ({every})", f"CUBE ({every})", f"ROLLUP (({every}))", f"{first}, ROLLUP ({last})"]
        choices += [f"GROUPING SETS (({every}), ({last}), ())", f"GROUPING SETS (({first}), ({last}))"]
        choices += [f"GROUPING SETS (CUBE ({first}), ({every}))"]
        return self.r.choice(choices)

    def _choice(self, keys: list[str], score: str, text: str, conditions: list[str]) -> str:
        """The keys of the best groups."""
        if conditions:
            text += " WHERE " + " AND ".join(f"({c})" for c in conditions)
        factor = f"CASE WHEN {keys[0]} IS NULL THEN 0.5 ELSE {self.r.choice(['2', '-1', '1e10', 'NULL'])} END"
        score = self.r.choice([score, score, f"{score} * {factor}", f"-2.5 * {score}", f"{score} / ({factor})"])
        order = self.r.choice(["DESC", "DESC", "ASC"])
        return f"{text} GROUP BY {', '.join(keys)} ORDER BY {score} {order} LIMIT {self.r.choice([1, 1, 2, 9])}"

    def _groups_alone(self, keys: list[str], text: str, conditions: list[str]) -> str:
        """Which groups there are, and nothing of them."""
        if conditions:
            text += " WHERE " + " AND ".join(f"({c})" for c in conditions)
        if self.maybe(0.5):
            return text.replace("%s", f"SELECT DISTINCT {', '.join(keys)}", 1)
        return (
            text.replace("%s", f"SELECT {', '.join(keys)}", 1) + f" GROUP BY {self.r.choice([self._sets(keys), 'ALL'])}"
        )

    def _from(self) -> tuple[str, Scope, list[str]]:
        conditions: list[str] = []
        if self.maybe(0.12):
            text, aliases, condition = self.r.choice(_COMMA)
            conditions.append(condition)
        else:
            text, aliases = self.r.choice(_FROM)
        aliases = dict(aliases)
        if "people" in aliases.values() and self.maybe(0.35):
            text += self._public(aliases, conditions, "p", "region", "regions", "r")
            if self.maybe(0.4):
                text += self._public(aliases, conditions, "r", "zone", "zones", "z")
        holder = next((a for a, t in aliases.items() if t in ("events", "details", "lines")), None)
        if holder is not None and self.maybe(0.35):
            text += self._public(aliases, conditions, holder, "item", "items", "i")
        scope = Scope()
        for alias, table in aliases.items():
            for kind, names in COLUMNS[table].items():
                scope.columns.setdefault(kind, []).extend(f"{alias}.{name}" for name in names)
            scope.keys += [f"{alias}.{name}" for name in KEYS[table]]
        units = [f"{a}.{_UNITS[t]}" for a, t in aliases.items() if t in _UNITS]
        scope.unit = self.r.choice(units) if units else ""
        return text, scope, conditions

    def _public(
        self, aliases: dict[str, str], conditions: list[str], holder: str, name: str, table: str, alias: str
    ) -> str:
        aliases[alias] = table
        equal = self.r.choice([f"{holder}.{name} = {alias}.{name}", f"{alias}.{name} = {holder}.{name}"])
        if self.maybe(0.04):
            conditions.append(equal)
            return f" CROSS JOIN {table} {alias}"
        if name == "item" and self.maybe(0.04):
            aliases[alias] = "prices"
            return f" JOIN prices {alias} ON {equal}"
        return f" {self.r.choice(['JOIN', 'LEFT JOIN', 'INNER JOIN'])} {table} {alias} ON {equal}"

    def _derived(self, source: str, scope: Scope, conditions: list[str]) -> tuple[str, Scope, str]:
        """(FROM, its scope, WITH clause)."""
        inner = Scope()
        items: list[str] = []
        for position, key in enumerate(self.r.sample(scope.keys, min(2, len(scope.keys)))):
            items.append(f"{key} AS c{position}")
            if key.split(".")[1] in VALUED or self.maybe(0.1):
                inner.keys.append(f"t.c{position}")
        for kind, write in (("num", self.bounded), ("str", self.string), ("bool", self.boolean)):
            items.append(f"{write(scope, 1)} AS {kind}_")
            inner.columns[kind] = [f"t.{kind}_"]
        if self.maybe(0.5):
            conditions.append(self.boolean(scope, 1))
        where = " WHERE " + " AND ".join(f"({c})" for c in conditions) if conditions else ""
        text = f"SELECT {', '.join(items)} FROM {source}{where}"
        if self.maybe(0.4):
            return "t", inner, f"WITH t AS ({text}) "
        if self.maybe(0.2):
            text = f"SELECT * FROM ({text}) AS deeper"
        return f"({text}) AS t", inner, ""

    def _key(self, scope: Scope, conditions: list[str]) -> str:
        """A key with public values; sometimes its values are said in WHERE."""
        if self.private_keys and self.maybe(0.4):
            return self.any(scope, self.r.choice([0, 0, 1]))
        dates = scope.columns.get("date", [])
        choices: list[Callable[[], str]] = [
            lambda: f"CASE WHEN {self.boolean(scope, 1)} THEN 'u' WHEN {self.boolean(scope, 1)} THEN 'v' ELSE 'w' END",
            lambda: f"({self.boolean(scope, 1)})",
        ]
        if scope.keys:
            choices += [lambda: self.r.choice(scope.keys)] * 5
        if dates:
            choices += [
                lambda: f"EXTRACT({self.r.choice(['month', 'quarter', 'dow', 'year'])} FROM {self.r.choice(dates)})"
            ]
        if scope.columns.get("id"):
            choices += [lambda: self._listed(scope, conditions)]
        return self.one(*choices)

    def _listed(self, scope: Scope, conditions: list[str]) -> str:
        name = self.r.choice(scope.columns["id"])
        conditions.append(
            self.r.choice([f"{name} IN (1, 2, 9223372036854775807)", f"{name} BETWEEN 1 AND 4", f"{name} = 1"])
        )
        return name

    def _measure(self, scope: Scope) -> str:
        def unit() -> str:
            return f"COUNT(DISTINCT {scope.unit})" if scope.unit else "COUNT(*)"

        text = self.one(
            lambda: "COUNT(*)",
            lambda: f"COUNT({self.any(scope, 2)})",
            lambda: f"SUM({self.bounded(scope, 2)})",
            lambda: f"SUM({self.bounded(scope, 1)})",
            lambda: f"AVG({self.bounded(scope, 2)})",
            lambda: f"{self.r.choice(['VAR_POP', 'STDDEV'])}({self.bounded(scope, 2)})",
            lambda: f"{self.r.choice(_PAIRED)}({self.bounded(scope, 1)}, {self.bounded(scope, 1)})",
            unit,
            unit,
            lambda: f"COUNT(DISTINCT {self.any(scope, self.r.choice([0, 0, 1]))})",
            lambda: f"COUNT(DISTINCT {self.any(scope, 0)})",
        )
        if self.maybe(0.25):
            text += f" FILTER (WHERE {self.boolean(scope, 1)})"
        elif self.maybe(0.1):
            text = f"COUNT_IF({self.boolean(scope, 2)})"
        return text

    # -- expressions

    def any(self, scope: Scope, depth: int) -> str:
        return self.one(*(lambda w=w: w(scope, depth) for w in (self.number, self.string, self.boolean, self.date)))

    def is_bounded(self, column: str) -> bool:
        return column.split(".")[1] in BOUNDED

    def bounded(self, scope: Scope, depth: int) -> str:
        """A number with bounds, by its columns or by what is written around it."""
        known = [c for c in scope.columns.get("num", []) if self.is_bounded(c)]
        choices: list[Callable[[], str]] = [
            lambda: f"LEAST(GREATEST({self.number(scope, depth)}, -5), 20)",
            lambda: f"CASE WHEN {self.boolean(scope, 1)} THEN 1 ELSE 0 END",
            lambda: f"CASE WHEN {self.boolean(scope, 1)} THEN -2.5 WHEN {self.boolean(scope, 1)} THEN 4 END",
            lambda: f"LEAST(LENGTH({self.string(scope, 1)}), 6)",
        ]
        if known:
            a, b = self.r.choice(known), self.r.choice(known)
            choices += [lambda: a] * 3
            choices += [
                lambda: f"{a} * {b}",
                lambda: f"{a} - {b} * 2",
                lambda: f"COALESCE({a}, 3)",
                lambda: f"ROUND({a}, {self.r.choice([0, 1, -1])})",
                lambda: f"ABS({a}) + {b}",
                lambda: f"{a} / 4",
                lambda: f"({a}) * (1 - {b} / 10)",
                lambda: f"CASE WHEN {a} > 5 THEN 5 ELSE {a} END",
                lambda: f"CAST({a} AS {self.r.choice(['INTEGER', 'DOUBLE', 'DECIMAL(12, 3)', 'BIGINT'])})",
                lambda: f"-{a}",
                lambda: f"NULLIF({a}, 0)",
            ]
        return self.one(*choices)

    def number(self, scope: Scope, depth: int) -> str:
        columns = scope.columns.get("num", [])
        if depth == 0 or self.maybe(0.2):
            return self.r.choice(columns) if columns and self.maybe(0.75) else self.r.choice(_NUMBERS)
        a: Callable[[], str] = lambda: self.number(scope, depth - 1)  # noqa: E731
        return self.one(
            lambda: f"({a()} {self.r.choice('+-*/%')} {a()})",
            lambda: f"({a()} // {a()})",
            lambda: f"{self.r.choice(['ABS', 'FLOOR', 'CEIL', 'SIGN', 'ROUND'])}({a()})",
            lambda: f"{self.r.choice(['GREATEST', 'LEAST', 'COALESCE', 'NULLIF'])}({a()}, {a()})",
            lambda: f"CASE WHEN {self.boolean(scope, depth - 1)} THEN {a()} ELSE {a()} END",
            lambda: f"LENGTH({self.string(scope, depth - 1)})",
            lambda: (
                f"TRY_CAST({self.string(scope, depth - 1)} AS {self.r.choice(['DOUBLE', 'INTEGER', 'DECIMAL(9, 2)'])})"
            ),
            lambda: f"EXTRACT({self.r.choice(['year', 'day', 'week', 'doy'])} FROM {self.date(scope, depth - 1)})",
            lambda: f"date_diff('day', {self.date(scope, 0)}, {self.date(scope, depth - 1)})",
            lambda: f"strpos({self.string(scope, 0)}, {self.r.choice(_STRINGS[:-1])})",
            lambda: f"(-{a()})",
        )

    def string(self, scope: Scope, depth: int) -> str:
        columns = scope.columns.get("str", [])
        if depth == 0 or self.maybe(0.3):
            return self.r.choice(columns) if columns and self.maybe(0.75) else self.r.choice(_STRINGS)
        a: Callable[[], str] = lambda: self.string(scope, depth - 1)  # noqa: E731
        return self.one(
            lambda: f"{self.r.choice(['UPPER', 'LOWER', 'TRIM'])}({a()})",
            lambda: f"SUBSTRING({a()}, {self.r.choice('1235')}, 2)",
            lambda: f"{self.r.choice(['LEFT', 'RIGHT'])}({a()}, 2)",
            lambda: f"({a()} || {a()})",
            lambda: f"CONCAT({a()}, {self.number(scope, 0)})",
            lambda: f"REPLACE({a()}, 'a', 'bc')",
            lambda: f"COALESCE({a()}, 'z')",
            lambda: f"CAST({self.number(scope, depth - 1)} AS VARCHAR)",
        )

    def date(self, scope: Scope, depth: int) -> str:
        columns = scope.columns.get("date", [])
        if depth == 0 or self.maybe(0.4):
            return self.r.choice(columns) if columns and self.maybe(0.8) else self.r.choice(_DATES)
        a: Callable[[], str] = lambda: self.date(scope, depth - 1)  # noqa: E731
        return self.one(
            lambda: f"({a()} + INTERVAL {self.r.choice(['1 DAY', '3 MONTH', '40 YEAR', '7 HOUR'])})",
            lambda: f"date_trunc('{self.r.choice(['month', 'week', 'day'])}', {a()})",
            lambda: f"CAST({a()} AS DATE)",
        )

    def boolean(self, scope: Scope, depth: int) -> str:
        columns = scope.columns.get("bool", [])
        if columns and self.maybe(0.1):
            return self.r.choice(columns)
        deeper = max(depth - 1, 0)
        a: Callable[[], str] = lambda: self.number(scope, deeper)  # noqa: E731
        s: Callable[[], str] = lambda: self.string(scope, deeper)  # noqa: E731
        choices: Sequence[Callable[[], str]] = (
            lambda: f"{a()} {self.r.choice(['<', '<=', '>', '>=', '=', '<>'])} {a()}",
            lambda: f"{s()} {self.r.choice(['<', '=', '<>'])} {s()}",
            lambda: f"{self.date(scope, deeper)} {self.r.choice(['<', '>='])} {self.r.choice(_DATES)}",
            lambda: f"{a()} BETWEEN {self.r.choice(_NUMBERS)} AND {self.r.choice(_NUMBERS)}",
            lambda: f"{a()} {self.r.choice(['IN', 'NOT IN'])} (1, 2, 0.5)",
            lambda: f"{s()} IN ('a', 'F', 'R1')",
            lambda: f"{s()} {self.r.choice(['LIKE', 'NOT LIKE', 'ILIKE'])} {self.r.choice(_PATTERNS)}",
            lambda: f"{self.any(scope, deeper)} IS {self.r.choice(['', 'NOT '])}NULL",
            lambda: f"{a()} IS DISTINCT FROM {a()}",
            lambda: f"{self.r.choice(['contains', 'starts_with'])}({s()}, {self.r.choice(_STRINGS[:-1])})",
        )
        text = self.one(*choices)
        if depth > 0 and self.maybe(0.4):
            other = self.boolean(scope, depth - 1)
            return self.r.choice([f"({text}) AND ({other})", f"({text}) OR ({other})", f"NOT ({text})"])
        return text
