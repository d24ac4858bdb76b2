"""Random statements over relations of every kind: joined, grouped per unit, windowed, united, tested and looked up.

Nested two or three deep, and meant per unit but for a few. Columns keep the names of what they are, so that a key with
public values is known through any number of subqueries.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from random import Random

from tests.properties.grammar import COLUMNS, KEYS, Grammar, Scope
from tests.properties.labelled import FRAMES, JOINS, OF_KEY, PUBLIC, Labelled, Output, of_table


class Relational(Grammar):
    """Writes statements whose rows come from relations of every kind."""

    def __init__(self, r: Random, *, private_keys: bool = False):
        super().__init__(r, private_keys=private_keys)
        self._aliases, self._left, self._unowned = 0, 0, False
        self._ctes: list[str] = []
        self._known: list[tuple[str, Callable[[str], Labelled]]] = []

    def statement(self) -> str:
        self._aliases, self._left, self._unowned = 0, 3, False
        self._ctes, self._known = [], []
        text = super().statement()
        if self._ctes:
            text = f"WITH {', '.join(self._ctes)}" + (f", {text[5:]}" if text.startswith("WITH ") else f" {text}")
        return text

    @contextmanager
    def without_subqueries(self) -> Iterator[None]:
        left, self._left = self._left, 0
        yield
        self._left = left

    def alias(self) -> str:
        self._aliases += 1
        return f"t{self._aliases}"

    # -- FROM

    def _from(self) -> tuple[str, Scope, list[str]]:
        if self.maybe(0.1):
            return self._public_first()
        text, scope, conditions = self.relation(self.r.choice([0, 1, 1, 2, 2, 3]))
        scope.unit = self.r.choice(scope.labels["unit"]) if scope.labels.get("unit") else ""
        return text, scope, conditions

    def _derived(self, source: str, scope: Scope, conditions: list[str]) -> tuple[str, Scope, str]:
        return source, scope, ""

    def _public_first(self) -> tuple[str, Scope, list[str]]:
        """Public rows, with or without rows of units."""
        name, other = self.r.choice([("region", "people"), ("item", "events"), ("item", "lines")])
        alias, table = self.alias(), PUBLIC[name]
        text, scope = self.table(other)
        (own,) = [c for c in (*scope.keys, *scope.columns.get("id", [])) if c.endswith(f".{name}")][:1]
        self._unowned = True
        more = ""
        if self.maybe(0.3):
            with self.without_subqueries():
                more = f" AND {self.boolean(scope, 1)}"
        scope.keys = [f"{alias}.{n}" for n in KEYS[table]]
        scope.unit = scope.labels["unit"][0] if "unit" in scope.labels else ""
        return f"{table} {alias} LEFT JOIN {text} ON {alias}.{name} = {own}{more}", scope, []

    def relation(self, depth: int) -> tuple[str, Labelled, list[str]]:
        """(text of FROM, its scope, what WHERE has to say)."""
        text, scope = self.item(depth)
        conditions: list[str] = []
        for _ in range(self.r.choice([0, 0, 1, 1, 1, 2])):
            if self.maybe(0.3):
                text += self.joined_public(scope)
                continue
            other, right = self.item(max(depth - 1, 0))
            kind = self.r.choice(JOINS)
            on = self.same(scope, right)
            if not on and self.maybe(0.9):
                continue
            if kind == ",":
                conditions.append(on or "TRUE")
                text += f", {other}"
            else:
                both = Labelled()
                both.add(scope)
                both.add(right)
                with self.without_subqueries():
                    on = f"{on or 'TRUE'} AND {self.boolean(both, 1)}" if self.maybe(0.3) else on or "TRUE"
                text += f" {kind} {other} ON {on}"
            if kind not in ("SEMI JOIN", "ANTI JOIN"):
                scope.add(right)
        return text, scope, conditions

    def same(self, left: Labelled, right: Labelled) -> str:
        """Equality of what two relations have in common: now and then of two units that need not be the same."""
        labels = sorted(left.labels.keys() & right.labels.keys())
        friends = [c for c in left.columns.get("friend", []) if right.labels.get("unit")]
        if friends and self.maybe(0.05):
            return f"{self.r.choice(friends)} = {self.r.choice(right.labels['unit'])}"
        if not labels:
            return ""
        label = self.r.choice(labels)
        sides = [self.r.choice(side.labels[label]) for side in (left, right)]
        self.r.shuffle(sides)
        return " = ".join(sides)

    def joined_public(self, scope: Labelled) -> str:
        """A join with public rows, or with a result that is public."""
        alias = self.alias()
        kind = self.r.choice(["JOIN", "LEFT JOIN"])
        name = self.r.choice([*PUBLIC, *OF_KEY])
        own = scope.called(name)
        if not own or self.maybe(0.15):
            scope.columns.setdefault("num", []).append(f"{alias}.a")
            return f" CROSS JOIN (SELECT AVG(n) AS a FROM events) {alias}"
        equal = f"{alias}.{name} = {self.r.choice(own)}"
        if name in OF_KEY:
            scope.columns.setdefault("num", []).append(f"{alias}.c")
            source = f"SELECT {name}, COUNT(*) AS c FROM {OF_KEY[name]} GROUP BY {name}"
            return f" {kind} ({source}{self.r.choice(['', ' HAVING COUNT(*) > 1'])}) {alias} ON {equal}"
        if name == "item" and self.maybe(0.4):
            scope.columns.setdefault("num", []).append(f"{alias}.most")
            source = self.r.choice(["SELECT item, MAX(price) AS most FROM prices GROUP BY item"] * 3 + ["FROM prices"])
            return f" {kind} ({source}) {alias} ON {equal}"
        table = PUBLIC[name]
        for kind_, names in COLUMNS[table].items():
            scope.columns.setdefault(kind_, []).extend(f"{alias}.{n}" for n in names)
        scope.keys += [f"{alias}.{n}" for n in KEYS[table]]
        return f" {kind} {table} {alias} ON {equal}"

    # -- FROM items

    def item(self, depth: int) -> tuple[str, Labelled]:
        """(text, scope) of one FROM item."""
        if depth == 0 or self.maybe(0.25):
            return self.table(self.r.choice(["people", "events", "events", "orders", "details", "baskets", "lines"]))
        if self._known and self.maybe(0.3):
            name, scope_of = self.r.choice(self._known)
            alias = self.alias()
            return f"{name} {alias}", scope_of(alias)
        text, scope_of = self.query(depth)
        alias = self.alias()
        if self.maybe(0.2):
            name = f"w{len(self._ctes) + 1}"
            self._ctes.append(f"{name} AS ({text})")
            self._known.append((name, scope_of))
            return f"{name} {alias}", scope_of(alias)
        return f"({text}) {alias}", scope_of(alias)

    def table(self, name: str) -> tuple[str, Labelled]:
        alias = self.alias()
        return f"{name} {alias}", of_table(name, alias)

    def query(self, depth: int) -> tuple[str, Callable[[str], Labelled]]:
        """(text, what gives its scope under an alias) of a query of rows."""
        return self.r.choice(
            [self.rows, self.windows, self.windows, self.groups, self.groups, self.different, self.united]
        )(depth)

    def _selected(self, scope: Labelled, out: Output, labels: Sequence[str] | None = None) -> None:
        """Some of the columns that make a scope: labels, and keys by their names."""
        for label in sorted(scope.labels) if labels is None else labels:
            out.add(self.r.choice(scope.labels[label]), label=label)
        for key in self.r.sample(scope.keys, min(len(scope.keys), self.r.choice([0, 1, 2]))):
            out.add(key, key=True)

    def _typed(self, scope: Labelled, out: Output) -> None:
        """An expression of any kind."""
        kind = self.r.choice(["num", "str", "date", "bool"])
        write = {"num": self.number, "str": self.string, "date": self.date, "bool": self.boolean}[kind]
        out.add(write(scope, 1), kind)

    def _where(self, scope: Labelled, conditions: list[str]) -> str:
        if self.maybe(0.4):
            conditions = [*conditions, self.boolean(scope, 1)]
        return " WHERE " + " AND ".join(f"({c})" for c in conditions) if conditions else ""

    def rows(self, depth: int) -> tuple[str, Callable[[str], Labelled]]:
        text, scope, conditions = self.relation(depth - 1)
        out = Output()
        self._selected(scope, out)
        out.add(self.bounded(scope, 1), "num", bounded=True)
        self._typed(scope, out)
        if self.maybe(0.6):
            self._typed(scope, out)
        return f"SELECT {out.text} FROM {text}{self._where(scope, conditions)}", out.scope

    def windows(self, depth: int) -> tuple[str, Callable[[str], Labelled]]:
        text, scope, conditions = self.relation(depth - 1)
        if not scope.labels:
            return self.rows(depth)
        out = Output()
        self._selected(scope, out)
        where = self._where(scope, conditions)
        with self.without_subqueries():
            for _ in range(self.r.choice([1, 1, 2])):
                out.add(self.window(scope), "num", bounded=self.maybe(0.3))
            qualify = ""
            if self.maybe(0.4):
                qualify = f" QUALIFY {self.window(scope)} {self.r.choice(['<=', '=', '>'])} {self.r.choice('123')}"
                qualify += f" AND {self.boolean(scope, 1)}" if self.maybe(0.2) else ""
        return f"SELECT {out.text} FROM {text}{where}{qualify}", out.scope

    def window(self, scope: Labelled) -> str:
        label = self.r.choice(self.r.choice(list(scope.labels.values())))
        per = [label, *self.r.sample(scope.keys, min(len(scope.keys), self.r.choice([0, 0, 1])))]
        by = f"{self.any(scope, 0)}{self.r.choice(['', ' DESC', ' NULLS FIRST', ' DESC NULLS LAST'])}"
        x, b = (lambda: self.number(scope, 1)), (lambda: self.bounded(scope, 1))
        if self.maybe(0.5):
            call = self.one(
                lambda: "ROW_NUMBER()",
                lambda: self.r.choice(["RANK()", "DENSE_RANK()", "PERCENT_RANK()", "CUME_DIST()", "NTILE(3)"]),
                lambda: f"{self.r.choice(['LAG', 'LEAD'])}({x()}{self.r.choice(['', ', 2'])})",
            )
            return f"{call} OVER (PARTITION BY {', '.join(per)} ORDER BY {by})"
        call = self.one(
            lambda: f"{self.r.choice(['FIRST_VALUE', 'LAST_VALUE'])}({x()})",
            lambda: f"NTH_VALUE({x()}, 2)",
            lambda: f"{self.r.choice(['SUM', 'AVG'])}({b()})",
            lambda: self.r.choice(["COUNT(*)", f"COUNT({self.any(scope, 1)})"]),
            lambda: f"{self.r.choice(['MIN', 'MAX'])}({x()})",
        )
        return f"{call} OVER (PARTITION BY {', '.join(per)} ORDER BY {by}{self.r.choice(FRAMES)})"

    def groups(self, depth: int) -> tuple[str, Callable[[str], Labelled]]:
        text, scope, conditions = self.relation(depth - 1)
        if not scope.labels:
            return self.rows(depth)
        out = Output()
        self._selected(scope, out, [self.r.choice(sorted(scope.labels))])
        if self.maybe(0.15):
            self._typed(scope, out)
        keys = len(out.items)
        where = self._where(scope, conditions)
        for _ in range(self.r.choice([1, 1, 2])):
            kind, call = self.aggregate(scope)
            out.add(call, kind, bounded=kind == "num")
        having = f" HAVING {self.aggregate(scope)[1]} {self.r.choice(['> 1', '< 3', 'IS NOT NULL'])}"
        by = ", ".join(str(i + 1) for i in range(keys))
        return f"SELECT {out.text} FROM {text}{where} GROUP BY {by}{having if self.maybe(0.3) else ''}", out.scope

    def aggregate(self, scope: Labelled) -> tuple[str, str]:
        """(kind, call) of an aggregate over rows of one unit."""
        with self.without_subqueries():
            kind, call = self.r.choice(
                [
                    ("num", "COUNT(*)"),
                    ("num", f"COUNT({self.any(scope, 1)})"),
                    ("num", f"COUNT(DISTINCT {self.any(scope, 1)})"),
                    ("num", f"SUM({self.bounded(scope, 1)})"),
                    ("num", f"AVG({self.bounded(scope, 1)})"),
                    ("num", f"{self.r.choice(['MIN', 'MAX'])}({self.number(scope, 1)})"),
                    ("str", f"{self.r.choice(['MIN', 'MAX'])}({self.string(scope, 1)})"),
                    ("bool", f"{self.r.choice(['BOOL_AND', 'BOOL_OR'])}({self.boolean(scope, 1)})"),
                ]
            )
            return kind, f"{call} FILTER (WHERE {self.boolean(scope, 1)})" if self.maybe(0.15) else call

    def different(self, depth: int) -> tuple[str, Callable[[str], Labelled]]:
        text, scope, conditions = self.relation(depth - 1)
        out = Output()
        self._selected(scope, out)
        self._typed(scope, out)
        return f"SELECT DISTINCT {out.text} FROM {text}{self._where(scope, conditions)}", out.scope

    def united(self, depth: int) -> tuple[str, Callable[[str], Labelled]]:
        """Two or three queries, one below the other, of columns of the same kinds."""
        parts, scope_of = [], Output().scope
        for _ in range(self.r.choice([2, 2, 3])):
            text, scope, conditions = self.relation(depth - 1)
            if "unit" not in scope.labels:
                text, scope = self.table("events")
                conditions = []
            out = Output()
            out.add(self.r.choice(scope.labels["unit"]), label="unit")
            out.add(self.bounded(scope, 1), "num", bounded=True)
            out.add(self.string(scope, 1), "str")
            parts.append(f"SELECT {out.text} FROM {text}{self._where(scope, conditions)}")
            scope_of = out.scope if len(parts) == 1 else scope_of
        return self.r.choice([" UNION ALL ", " UNION ALL ", " UNION "]).join(parts), scope_of

    # -- subqueries in expressions

    def _key(self, scope: Scope, conditions: list[str]) -> str:
        """A key is written twice, and two subqueries are never one: few keys have some."""
        if self.maybe(0.1):
            return super()._key(scope, conditions)
        with self.without_subqueries():
            return super()._key(scope, conditions)

    def boolean(self, scope: Scope, depth: int) -> str:
        if self._left > 0 and isinstance(scope, Labelled) and self.maybe(0.3):
            self._left -= 1
            with self.without_subqueries():
                test = self.test(scope)
            if self.maybe(0.3):
                return self.r.choice([f"({test}) OR ({super().boolean(scope, 1)})", f"NOT ({test})"])
            return test
        return super().boolean(scope, depth)

    def number(self, scope: Scope, depth: int) -> str:
        if self._left > 0 and isinstance(scope, Labelled) and self.maybe(0.15):
            self._left -= 1
            with self.without_subqueries():
                return self.value(scope)
        return super().number(scope, depth)

    def _other(self, scope: Labelled) -> tuple[str, Labelled, str, str] | None:
        """(text, scope) of another item, and what it has in common with this one: (mine, its)."""
        text, other = self.item(self.r.choice([0, 0, 1, 2]))
        labels = sorted(scope.labels.keys() & other.labels.keys())
        if not labels:
            return None
        label = self.r.choice(labels)
        return text, other, self.r.choice(scope.labels[label]), self.r.choice(other.labels[label])

    def test(self, scope: Labelled) -> str:
        """A predicate with a subquery in it."""
        found = self._other(scope) if self.maybe(0.75) else None
        if found is None:
            return self._public_test(scope)
        text, other, mine, its = found
        both = Labelled()
        both.add(scope)
        both.add(other)
        where = f" WHERE {self.boolean(other, 1)}" if self.maybe(0.4) else ""
        across = f" AND {self.boolean(both, 1)}" if self.maybe(0.5) else ""
        x, y = self.number(scope, 0), self.number(other, 0)
        sign = self.r.choice(["=", "<>", "<", "<=", ">", ">="])
        return self.one(
            lambda: f"{self.r.choice(['', 'NOT '])}EXISTS (SELECT 1 FROM {text} WHERE {its} = {mine}{across})",
            lambda: f"{mine} {self.r.choice(['', 'NOT '])}IN (SELECT {its} FROM {text}{where})",
            lambda: f"({mine}, {x}) {self.r.choice(['', 'NOT '])}IN (SELECT {its}, {y} FROM {text}{where})",
            lambda: f"{x} {sign} {self.r.choice(['ANY', 'ALL'])} (SELECT {y} FROM {text} WHERE {its} = {mine})",
            lambda: f"{x} {self.r.choice(['', 'NOT '])}IN (SELECT {y} FROM {text} WHERE {its} = {mine})",
            lambda: f"CASE WHEN {mine} IN (SELECT {its} FROM {text}{where}) THEN {x} > 1 ELSE {x} < 1 END",
        )

    def _public_test(self, scope: Labelled) -> str:
        x, items = self.number(scope, 0), scope.called("item")
        kinds = [c for name in OF_KEY for c in scope.called(name)]
        choices: list[Callable[[], str]] = [
            lambda: f"{x} {self.r.choice(['', 'NOT '])}IN (SELECT tax FROM items)",
            lambda: f"{x} > (SELECT AVG(n) FROM events)",
            lambda: f"{x} IN (SELECT COUNT(*) FROM events GROUP BY kind)",
        ]
        if items:
            item, no = self.r.choice(items), self.r.choice(["", "NOT "])
            choices += [lambda: f"{item} {no}IN (SELECT item FROM items)"]
            choices += [lambda: f"{no}EXISTS (SELECT 1 FROM prices z WHERE z.item = {item} AND z.price > {x})"]
        if kinds:
            own = self.r.choice(kinds)
            name = own.split(".")[1]
            source = f"SELECT {name} FROM {OF_KEY[name]} GROUP BY {name} HAVING COUNT(*) > 1"
            choices += [lambda: f"{own} {self.r.choice(['', 'NOT '])}IN ({source})"] * 2
        return self.one(*choices)

    def value(self, scope: Labelled) -> str:
        """A subquery that stands for one number."""
        found = self._other(scope) if self.maybe(0.5) else None
        if found is not None:
            text, other, mine, its = found
            more = ""
            if self.maybe(0.3) and other.columns.get("num") and scope.columns.get("num"):
                more = f" AND {self.r.choice(other.columns['num'])} = {self.r.choice(scope.columns['num'])}"
            return f"(SELECT {self.aggregate(other)[1]} FROM {text} WHERE {its} = {mine}{more})"
        choices: list[Callable[[], str]] = [
            lambda: "(SELECT AVG(n) FROM events)",
            lambda: "(SELECT COUNT(*) FROM orders WHERE status = 'new')",
            lambda: "(SELECT MAX(tax) FROM items)",
        ]
        if scope.labels.get("unit"):
            choices += [lambda: f"(SELECT z.age FROM people z WHERE z.uid = {self.r.choice(scope.labels['unit'])})"] * 2
        if scope.labels.get("order"):
            choices += [lambda: f"(SELECT z.total FROM orders z WHERE z.oid = {self.r.choice(scope.labels['order'])})"]
        kinds = [c for name in OF_KEY for c in scope.called(name)]
        if kinds:
            own = self.r.choice(kinds)
            name = own.split(".")[1]
            call = self.r.choice(["COUNT(*)", "COUNT(*) + 1", f"SUM({'n' if OF_KEY[name] == 'events' else '1'})"])
            choices += [lambda: f"(SELECT {call} FROM {OF_KEY[name]} z WHERE z.{name} = {own})"] * 3
        if scope.called("item"):
            choices += [lambda: f"(SELECT z.tax FROM items z WHERE z.item = {self.r.choice(scope.called('item'))})"]
        return self.one(*choices)

    # -- measures

    def _measure(self, scope: Scope) -> str:
        if not self._unowned:
            return super()._measure(scope)
        known = [c for c in scope.columns.get("num", []) if self.is_bounded(c)]
        choices = [f"COUNT({self.r.choice([c for names in scope.columns.values() for c in names])})"]
        choices += [f"COUNT(DISTINCT {scope.unit})"] if scope.unit else []
        choices += [f"SUM({self.r.choice(known)})", f"AVG({self.r.choice(known)})"] if known else []
        return self.r.choice(choices)

    def is_bounded(self, column: str) -> bool:
        return super().is_bounded(column) or column.split(".")[1].startswith("b")
