"""Worlds for the keys of groups: random policies and rows that keep them, and random statements that group by anything.

Public: cities, shops in them, goods, and the stock of a shop, which is a key of two columns. Private: people and their
sales, with NULLs, and references of which half may be NULL. A policy says more or less of each column: a reference,
values, bounds, or nothing; whatever it says is true of the rows, and its limits cut none.
"""

from __future__ import annotations

from random import Random

CITIES = ("Bath", "Cork", "Dijon", "Essen")
GOODS = ("ale", "bread", "cheese", "dates", "eggs")
TIERS, CHANNELS = ("gold", "iron", "tin"), ("phone", "shop", "web")


def _text(value: object) -> str:
    return "NULL" if value is None else f"'{value}'" if isinstance(value, str) else str(value)


def _insert(table: str, rows: list[tuple[object, ...]]) -> str:
    values = ", ".join(f"({', '.join(map(_text, row))})" for row in rows)
    return f"INSERT INTO {table} SELECT * FROM (VALUES {values})" if rows else ""


SCHEMA = """\
CREATE TABLE cities(city VARCHAR, land VARCHAR);
CREATE TABLE shops(shop INTEGER, city VARCHAR, size VARCHAR);
CREATE TABLE goods(good VARCHAR, brand VARCHAR, price DECIMAL(8,2));
CREATE TABLE stock(shop INTEGER, good VARCHAR, amount INTEGER);
CREATE TABLE people(uid BIGINT, phone VARCHAR, city VARCHAR, tier VARCHAR, born DATE, age INTEGER);
CREATE TABLE sales(sale BIGINT, uid BIGINT, shop INTEGER, good VARCHAR, channel VARCHAR, day DATE,
    moment TIMESTAMP, pieces INTEGER)"""


def script(r: Random, other: Random | None = None) -> str:
    """The tables, as SQL. other: makes the private rows, beside the same public ones."""
    cities = list(CITIES[: r.randint(1, 4)])
    shops = list(range(1, r.randint(2, 6)))
    goods = list(GOODS[: r.randint(1, 5)])
    stock = [(s, g) for s in shops for g in goods if r.random() < 0.6] or [(shops[0], goods[0])]
    public = [
        _insert("cities", [(c, _maybe(r, r.choice("AB"))) for c in cities]),
        _insert("shops", [(s, _maybe(r, r.choice(cities)), _maybe(r, r.choice(["small", "large"]))) for s in shops]),
        _insert("goods", [(g, _maybe(r, r.choice(["Fox", "Elk"])), r.randint(1, 9)) for g in goods]),
        _insert("stock", [(s, g, _maybe(r, r.randint(0, 9))) for s, g in stock]),
    ]
    r = other or r
    people = range(1, r.choice([1, 8, 25]))
    persons = [
        (
            p,
            _maybe(r, f"{r.randint(10, 13)}-{r.randint(0, 99)}"),
            _maybe(r, r.choice(cities)),
            _maybe(r, r.choice(TIERS)),
        )
        + (_maybe(r, f"{r.randint(1950, 2009)}-0{r.randint(1, 9)}-15"), _maybe(r, r.randint(0, 99)))
        for p in people
    ]
    sales: list[tuple[object, ...]] = []
    for sale in range(r.choice([0, 40, 160, 160]) if len(people) else 0):
        shop, good = r.choice(stock)
        day = f"202{r.choice('34')}-{r.randint(1, 12):02}-{r.randint(1, 28):02}"
        cells = (shop, good, r.choice(CHANNELS), day, f"{day} {r.randint(0, 23):02}:30:00", r.randint(0, 9))
        sales.append((sale, r.choice(people), *(_maybe(r, cell) for cell in cells)))
    return ";".join([SCHEMA, *public, _insert("people", persons), _insert("sales", sales)])


def _phone(r: Random) -> str:
    return f"{r.randint(10, 13)}-{r.randint(0, 99)}"


def _born(r: Random) -> str:
    return f"{r.randint(1950, 2009)}-0{r.randint(1, 9)}-15"


def _maybe(r: Random, value: object) -> object:
    return None if r.random() < 0.12 else value


def policy(r: Random) -> str:
    """A policy that every script keeps."""

    def some(*claims: str) -> str:
        return "{ " + r.choice(["", *claims, *claims]) + " }"

    composite = '[[tables.sales.references]]\ncolumns = ["shop", "good"]\ntable = "stock"\ntarget = ["shop", "good"]\n'
    tiers, channels = (str(list(v)).replace("'", '"') for v in (TIERS, CHANNELS))
    return f"""\
version = 1
[unit]
name = "person"
[budget]
account = "market"
epsilon = "1000"
delta = "0"
per_query_epsilon = "0.01"
max_query_epsilon = "1"
[tables.people]
unit = "uid"
key = ["uid"]
max_rows_per_unit = 1
[tables.people.columns]
uid = {{}}
phone = {{}}
city = {some('references = "cities.city"')}
tier = {some(f"values = {tiers}")}
born = {some("bounds = [1950-01-01, 2010-12-31]")}
age = {some("bounds = [0, 99]")}
[tables.sales]
unit = {{ via = "uid", to = "people" }}
key = ["sale"]
max_rows_per_unit = 200
[tables.sales.columns]
sale = {{}}
uid = {{}}
shop = {some('references = "shops.shop"')}
good = {some('references = "goods.good"')}
channel = {some(f"values = {channels}")}
day = {some("bounds = [2023-01-01, 2024-12-31]")}
moment = {some("bounds = [2023-01-01T00:00:00, 2024-12-31T00:00:00]")}
pieces = {some("bounds = [0, 9]")}
{r.choice(["", composite, composite])}
[tables.cities]
public = true
key = ["city"]
[tables.shops]
public = true
key = ["shop"]
columns = {{ shop = {{}}, city = {{}}, size = {{}} }}
[tables.goods]
public = true
key = ["good"]
columns = {{ good = {{}}, brand = {{}}, price = {{}} }}
[tables.stock]
public = true
key = ["shop", "good"]
columns = {{ shop = {{}}, good = {{}}, amount = {{}} }}
""".replace('key = ["city"]\n', 'key = ["city"]\ncolumns = { city = {}, land = {} }\n')


_JOINS = {
    "h": ("shops h", "s.shop = h.shop", ("h.shop", "h.city", "h.size")),
    "c": ("cities c", "h.city = c.city", ("c.city", "c.land")),
    "g": ("goods g", "s.good = g.good", ("g.good", "g.brand", "g.price")),
    "k": ("stock k", "s.shop = k.shop AND k.good = s.good", ("k.shop", "k.good", "k.amount")),
    "p": ("people p", "s.uid = p.uid", ("p.phone", "p.city", "p.tier", "p.born", "p.age")),
    "d": ("cities d", "d.city = p.city", ("d.city", "d.land")),
}
_NEEDS = {"c": "h", "d": "p"}
_SALES = ("s.sale", "s.shop", "s.good", "s.channel", "s.day", "s.moment", "s.pieces")
_LITERALS = {
    "text": {
        "city": CITIES,
        "land": ("A", "B"),
        "size": ("small", "large"),
        "good": GOODS,
        "brand": ("Fox", "Elk"),
        "tier": TIERS,
        "channel": CHANNELS,
        "phone": ("10-7", "11-42", "x"),
    },
    "number": {
        "shop": range(7),
        "price": range(9),
        "amount": range(9),
        "age": (0, 7, 18, 99),
        "sale": range(9),
        "pieces": range(10),
    },
    "date": {
        "day": ("DATE '2023-05-06'", "DATE '2024-02-29'", "DATE '2023-12-31'"),
        "born": ("DATE '1960-06-15'", "DATE '2000-01-01'"),
        "moment": ("TIMESTAMP '2023-05-06 07:30:00'", "TIMESTAMP '2024-01-01 00:00:00'"),
    },
}


_CODES = ("10", "11", "al", "AL", "Ba", "BATH", "web", "WEB", "Fo")


class KeyGrammar:
    """Writes statements that count sales by keys. The same Random gives the same ones."""

    def __init__(self, r: Random):
        self.r = r

    def statement(self) -> tuple[int, str]:
        """How many leading columns are keys, and the text."""
        r = self.r
        columns, source, conditions = self._from()
        kinds = {c: c.split(".")[1] for c in columns}
        for level in range(r.choice([0, 0, 1, 1, 2, 3])):
            columns, source, kinds, conditions = self._derived(level, columns, source, kinds, conditions)
            if r.random() < 0.25 and level == 0:
                source = self._joined_after(columns, source, kinds)
        keys = [self._key(columns, kinds, conditions) for _ in range(r.choice([1, 1, 2, 2, 3]))]
        conditions += [self._predicate(columns, kinds, 2) for _ in range(r.choice([0, 1, 1, 2]))]
        if r.random() < 0.1:  # a condition that is a key, too
            keys.append(f"({self._predicate(columns, kinds, 0)})")
            conditions += keys[-1:] if r.random() < 0.7 else []
        if r.random() < 0.3:
            conditions.append(self._of_keys(keys, columns, kinds))
        items = ", ".join([*(f"{key} AS k{i}" for i, key in enumerate(keys, 1)), "COUNT(*) AS n"])
        where = f" WHERE {' AND '.join(f'({c})' for c in conditions)}" if conditions else ""
        return len(keys), f"SELECT {items} FROM {source}{where} GROUP BY {', '.join(keys)}"

    # -- FROM

    def _from(self) -> tuple[list[str], str, list[str]]:
        chosen = [a for a in "hcgkpd" if self.r.random() < 0.35 or (a == "k" and self.r.random() < 0.2)]
        chosen = [a for a in chosen if _NEEDS.get(a, a) in chosen]
        columns, text, conditions, comma = list(_SALES), "sales s", [], self.r.random() < 0.3
        for alias in chosen:
            table, on, more = _JOINS[alias]
            columns += more
            if comma:
                text += f", {table}"
                conditions.append(on)
            else:
                left = self.r.random() < 0.25
                extra = f" AND {self._literal(self.r.choice(more))}" if left and self.r.random() < 0.5 else ""
                text += f" {'LEFT JOIN' if left else 'JOIN'} {table} ON {on}{extra}"
        if comma and conditions and self.r.random() < 0.3:  # an OR that has the joins in every branch
            parts = [" AND ".join([*conditions, self._literal(self.r.choice(columns))]) for _ in range(2)]
            conditions = [" OR ".join(f"({p})" for p in parts)]
        return columns, text, conditions

    def _derived(
        self, level: int, columns: list[str], source: str, kinds: dict[str, str], conditions: list[str]
    ) -> tuple[list[str], str, dict[str, str], list[str]]:
        """A subquery of some columns under new names, and of expressions of them."""
        taken = self.r.sample(columns, min(len(columns), self.r.randint(2, 6)))
        alias = f"t{level}"
        items, renamed = [], {}
        for i, column in enumerate(taken):
            if self.r.random() < 0.75:
                items.append(f"{column} AS x{i}")
                renamed[f"{alias}.x{i}"] = kinds[column]
            else:
                tree, kind = self._expression(column, kinds[column])
                items.append(f"{tree} AS x{i}")
                renamed[f"{alias}.x{i}"] = kind
        if self.r.random() < 0.6:
            conditions = [*conditions, self._predicate(columns, kinds, 1)]
        where = f" WHERE {' AND '.join(f'({c})' for c in conditions)}" if conditions else ""
        return list(renamed), f"(SELECT {', '.join(items)} FROM {source}{where}) AS {alias}", renamed, []

    def _joined_after(self, columns: list[str], source: str, kinds: dict[str, str]) -> str:
        """A public table joined with what a subquery gives."""
        for column in list(columns):
            name = kinds[column]
            if name in ("shop", "good", "city"):
                table = {"shop": "shops", "good": "goods", "city": "cities"}[name]
                more = {"shop": ("size", "city"), "good": ("brand",), "city": ("land",)}[name]
                columns += [f"z.{m}" for m in more]
                kinds.update({f"z.{m}": m for m in more})
                return f"{source} {self.r.choice(['JOIN', 'LEFT JOIN'])} {table} z ON {column} = z.{name}"
        return source

    # -- keys and expressions

    def _key(self, columns: list[str], kinds: dict[str, str], conditions: list[str]) -> str:
        column = self.r.choice(columns)
        tree, kind = (column, kinds[column]) if self.r.random() < 0.6 else self._expression(column, kinds[column])
        if self.r.random() < 0.35 and kind in _LITERALS["text"] | _LITERALS["number"] | {"part": (), "code": ()}:
            conditions.append(f"{tree} IN ({', '.join(self._values(kind, 3))})")
        return tree

    def _expression(self, column: str, kind: str) -> tuple[str, str]:
        """An expression of a column, and what its values are like."""
        if kind in _LITERALS["date"]:
            part = self.r.choice(["year", "month", "quarter", "dow"])
            return f"EXTRACT({part} FROM {column})", "part"
        if kind in _LITERALS["number"] or kind == "part":
            written = ["{} // 2", "{} % 3", "CASE WHEN {} > 3 THEN 1 ELSE 2 END", "COALESCE({}, 0)"]
            return self.r.choice(written).replace("{}", column), "part"
        written = ["substring({}, 1, 2)", "UPPER({})", "left({}, 2)", "COALESCE({}, '10')", "{} || '!'"]
        return self.r.choice(written).replace("{}", column), "code"

    def _values(self, kind: str, most: int) -> list[str]:
        if kind == "part":
            return [str(self.r.randint(0, 9)) for _ in range(most)]
        if kind == "code":
            return [
                f"'{self.r.choice(['10', '11', 'al', 'AL', 'Ba', 'BATH', 'web', 'WEB', 'Fo'])}'" for _ in range(most)
            ]
        for of, known in _LITERALS.items():
            if kind in known:
                chosen = [self.r.choice(list(known[kind])) for _ in range(most)]
                return [str(v) if of == "date" else _text(v) for v in chosen]
        raise KeyError(kind)

    # -- predicates

    def _literal(self, column: str, kind: str | None = None) -> str:
        """A predicate of one column."""
        kind = kind or column.split(".")[1]
        if self.r.random() < 0.3 and kind not in ("part", "code"):
            column, kind = self._expression(column, kind)
        one, two = self._values(kind, 2)
        return self.r.choice(
            [
                f"{column} = {one}",
                f"{column} IN ({one}, {two})",
                f"{column} <> {one}",
                f"{column} NOT IN ({one})",
                f"{column} BETWEEN {min(one, two)} AND {max(one, two)}",
                f"{column} >= {one}",
                f"{column} < {one}",
                f"{column} IS NOT NULL",
                f"{column} IS NULL",
                f"{column} IS DISTINCT FROM {one}",
                f"{column} IS NOT DISTINCT FROM {one}",
            ]
        )

    def _predicate(self, columns: list[str], kinds: dict[str, str], depth: int) -> str:
        if depth == 0 or self.r.random() < 0.4:
            column = self.r.choice(columns)
            twins = [c for c in columns if kinds[c] == kinds[column] and c != column]
            if twins and self.r.random() < 0.4:
                return f"{column} {self.r.choice(['=', '=', '<', '<>'])} {self.r.choice(twins)}"
            return self._literal(column, kinds[column])
        parts = [self._predicate(columns, kinds, depth - 1) for _ in range(2)]
        if self.r.random() < 0.2:
            return f"NOT ({parts[0]})"
        return f"({parts[0]}) {self.r.choice(['AND', 'OR', 'OR'])} ({parts[1]})"

    def _of_keys(self, keys: list[str], columns: list[str], kinds: dict[str, str]) -> str:
        """Pairs of keys, each with something that no key says."""
        pairs = []
        for _ in range(2):
            said = [f"{key} IS NOT NULL" if self.r.random() < 0.4 else f"CAST({key} AS VARCHAR) < 'm'" for key in keys]
            pairs.append(f"({' AND '.join([*said, self._predicate(columns, kinds, 0)])})")
        return " OR ".join(pairs)
