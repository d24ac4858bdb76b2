"""Statements at random over the library: from a grammar that knows the tables and little else, and by mutation of the
statements of other tests. Most say something that can be bound; a good part does not, on purpose.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from random import Random

from sqlglot import exp

from dpsql.compile.canonical import reread
from dpsql.errors import Error

TABLES = {
    "people": ["person", "name", "town", "age", "score", "friend", "joined"],
    "loans": ["loan", "person", "book", "days", "fee", "lent", "shared_with"],
    "fines": ["loan", "number", "amount", "reason"],
    "visits": ["person", "day", "room", "minutes", "warmth"],
    "books": ["book", "genre", "price"],
    "genres": ["genre", "label", "shelf"],
}
KINDS = {
    **dict.fromkeys("name town reason room genre label".split(), "text"),
    **dict.fromkeys("joined lent day".split(), "date"),
}
"""Columns that are no numbers."""

_LITERALS = {
    "number": "0 1 2 3 10 -1 2.5 1e3 9223372036854775807 NULL",
    "text": "'A' 'hall' 'late' 'law' '' NULL",
    "date": "DATE¬'2024-02-01' '2024-01-05' TIMESTAMP¬'2024-01-05¬08:00:00' NULL",
}
# {n}, {t} and {d} are holes for a number, a text and a date, {b} for a condition.
_FUNCTIONS = {
    "number": (
        "ABS({n}) LENGTH({t}) COALESCE({n},{n}) NULLIF({n},{n}) LEAST({n},{n}) GREATEST({n},{n},0) ROUND({n})"
        " ROUND({n},1) EXTRACT(month¬FROM¬{d}) CAST({n}¬AS¬INTEGER) TRY_CAST({t}¬AS¬INTEGER) date_diff('day',{d},{d})"
        " SIGN({n}) -{n} IF({b},{n},{n}) year({d}) CASE¬WHEN¬{b}¬THEN¬{n}¬ELSE¬{n}¬END CASE¬{n}¬WHEN¬{n}¬THEN¬{n}¬END"
        " ({n}) ln({n}) random() {n}¬+¬{n} {n}¬-¬{n} {n}¬*¬{n} {n}¬/¬{n} {n}¬//¬{n} {n}¬%¬{n} {d}¬-¬{d} [{n},{n}]"
        " {t}::INTEGER"
    ),
    "text": (
        "UPPER({t}) SUBSTRING({t},1,2) {n}::VARCHAR CONCAT({t},{t}) COALESCE({t},{t}) CASE¬WHEN¬{b}¬THEN¬{t}¬END"
        " {t}¬||¬{t} repeat({t},3) {t}.upper() REPLACE({t},'a',{t}) CAST({d}¬AS¬VARCHAR) LEFT({t},2) NULLIF({t},{t})"
    ),
    "date": (
        "date_trunc('month',{d}) TRY_CAST({t}¬AS¬DATE) {d}¬+¬INTERVAL¬1¬DAY COALESCE({d},{d}) CAST({d}¬AS¬DATE)"
        " {d}¬+¬{n} LEAST({d},{d}) last_day({d}) current_date"
    ),
}
_CONDITIONS = (
    "{n}¬=¬{n} {n}¬<¬{n} {n}¬>=¬{n} {t}¬=¬{t} {t}¬<>¬{t} {d}¬<¬{d} {n}¬IS¬NULL {t}¬IS¬NOT¬NULL {n}¬BETWEEN¬{n}¬AND¬{n}"
    " {n}¬IN¬({n},{n}) {t}¬NOT¬IN¬({t},{t}) {t}¬LIKE¬'%a%' {n}¬IS¬DISTINCT¬FROM¬{n} NOT¬({b})"
    " ({b}¬AND¬{b}) ({b}¬OR¬{b}) regexp_matches({t},'a') TRUE {n}¬=¬{t}"
)
_AGGREGATES = (
    "COUNT(*) COUNT(*) COUNT({t}) COUNT(DISTINCT¬{n}) SUM({n}) SUM({n}) AVG({n}) MIN({n}) MAX({n}) COUNT_IF({b})"
    " SUM({n})¬FILTER¬(WHERE¬{b}) SUM(DISTINCT¬{n}) MEDIAN({n}) ANY_VALUE({t}) string_agg({t},',') STDDEV({n})"
    " COUNT(*) SUM({n}) AVG({n}) SUM(SUM({n})) COUNT(*)¬+¬SUM({n}) ROUND(AVG({n}))"
)
_JOINS = "JOIN JOIN JOIN LEFT¬JOIN RIGHT¬JOIN FULL¬JOIN SEMI¬JOIN ANTI¬JOIN CROSS¬JOIN NATURAL¬JOIN , ASOF¬JOIN"
_WORDS = (
    "SELECT FROM WHERE GROUP BY HAVING ORDER LIMIT 5 ALL DISTINCT AS ON USING ( ) , . * ; AND OR NOT NULL IN EXISTS"
    " UNION WITH RECURSIVE JOIN LEFT FULL LATERAL CASE END OVER FILTER QUALIFY ROLLUP EXCEPT INTERSECT VALUES ?"
    ' $a $$ \' " -- /* */ :: -> => :: [ ] { } @ # ! ~ \\ \u00e4 \u200b 1e400 0x1F main pub priv "$unit" "$rank" rowid'
    " released_1 TABLESAMPLE PIVOT DESC NULLS FIRST ROWS BETWEEN UNBOUNDED PRECEDING WITHIN INTERVAL COLLATE EXCLUDE"
)


def _split(text: str) -> list[str]:
    return [part.replace("¬", " ") for part in text.split()]


LITERALS = {kind: _split(text) for kind, text in _LITERALS.items()}
FUNCTIONS = {kind: _split(text) for kind, text in _FUNCTIONS.items()}
CONDITIONS, AGGREGATES, JOINS, WORDS = map(_split, (_CONDITIONS, _AGGREGATES, _JOINS, _WORDS))
_HOLE = re.compile(r"\{([ntdb])\}")
_KIND = {"n": "number", "t": "text", "d": "date"}


class Grammar:
    """One statement at a time. `depth` is how many levels of subqueries may still come."""

    def __init__(self, rng: Random):
        self.rng, self.ctes = rng, dict[str, list[str]]()

    def statement(self) -> str:
        self.ctes, entries = {}, []
        for name in ("w", "z", "loans")[: self.rng.choice((0, 0, 0, 1, 2, 3))]:
            query, columns = self.query(1)
            entries.append(f"{name} AS ({query})")
            self.ctes[name] = columns
        body, columns = self.query(2)
        with_ = ""
        for entry in reversed(entries):  # DuckDB does not look at one that nothing uses, and dpsql does
            if f"{entry.split()[0]} AS " in body + with_:
                with_ = f"{entry}, {with_}" if with_ else f"{entry} "
        return f"{'WITH ' if with_ else ''}{with_}{body}{self.tail(columns)}"

    def query(self, depth: int) -> tuple[str, list[str]]:
        text, columns = self.select(depth)
        if self.maybe(0.1):
            kind = self.rng.choice(("UNION ALL", "UNION ALL", "UNION", "EXCEPT", "INTERSECT"))
            text = f"{text} {kind} {self.select(depth, width=len(columns))[0]}"
        return text, columns

    def select(self, depth: int, width: int = 0, around: Sequence[str] = ()) -> tuple[str, list[str]]:
        from_, visible = self.sources(depth)
        grouped = self.maybe(0.85 if depth == 2 else 0.5)
        keys = [self.key(visible) for _ in range(self.rng.choice((0, 1, 1, 2)))] if grouped else []
        scope = [*visible, *(around if self.maybe(0.5) else ())]
        items = list(keys) if self.maybe(0.9) else []
        for _ in range(width - len(items) if width else self.rng.choice((1, 1, 2, 3))):
            aggregated = grouped and self.maybe(0.9)
            items.append(self.aggregate(scope) if aggregated else self.scalar(scope, depth))
        items = items[:width] if width else items
        names = [f"c{i}" for i in range(len(items))]
        star = not grouped and not width and self.maybe(0.15)
        shown = "*" if star else ", ".join(f"{i} AS {n}" for i, n in zip(items, names, strict=True))
        text = f"SELECT {'DISTINCT ' if self.maybe(0.07) else ''}{shown} FROM {from_}"
        if self.maybe(0.5):
            text += f" WHERE {self.predicate(scope, depth)}"
        if keys:
            chosen = ["ALL"] if self.maybe(0.1) else [str(i + 1) for i in range(len(keys))] if self.maybe(0.2) else keys
            text += f" GROUP BY {', '.join(chosen)}"
        if grouped and self.maybe(0.2):
            text += f" HAVING {self.aggregate(scope)} > {self.literal()}"
        if self.maybe(0.06):
            text += f" QUALIFY {self.window(scope)} <= 2"
        return text, [column.split(".")[-1] for column in visible] if star else names

    def tail(self, columns: Sequence[str]) -> str:
        text = f" ORDER BY {self.rng.choice([*columns, '1', 'ALL'])}" if self.maybe(0.3) else ""
        return text + (" LIMIT 3" if self.maybe(0.1) else "")

    def sources(self, depth: int) -> tuple[str, list[str]]:
        text, visible = "", list[str]()
        for i in range(self.rng.choice((1, 1, 1, 1, 2, 2, 3))):
            item, columns = self.source(depth)
            alias = f"{self.rng.choice('abcdefgh')}{i}"
            mine = [f"{alias}.{c}" for c in columns]
            if i == 0:
                text, visible = f"{item} AS {alias}", mine
                continue
            join = self.rng.choice(JOINS)
            shared = sorted({c.split(".")[1] for c in visible} & set(columns))
            text += f"{join} {item} AS {alias}" if join == "," else f" {join} {item} AS {alias}"
            if join not in (",", "CROSS JOIN", "NATURAL JOIN"):
                if shared and self.maybe(0.4):
                    text += f" USING ({self.rng.choice(shared)})"
                elif shared and self.maybe(0.95):
                    name = self.rng.choice(shared)
                    left = next(c for c in visible if c.endswith(f".{name}"))
                    text += f" ON {left} = {alias}.{name}" + (
                        f" AND {self.predicate(mine, 0)}" if self.maybe(0.2) else ""
                    )
                else:
                    text += f" ON {self.predicate([*visible, *mine], 0)}"
            visible = visible if join in ("SEMI JOIN", "ANTI JOIN") else [*visible, *mine]
        return text, visible

    def source(self, depth: int) -> tuple[str, list[str]]:
        if depth and self.maybe(0.2):
            query, columns = self.query(depth - 1)
            return f"({query})", columns
        names = {**TABLES, **self.ctes, **({"nothing": ["x"]} if self.maybe(0.02) else {})}
        name = self.rng.choice([*names, *self.ctes])
        return name, names[name]

    def key(self, visible: Sequence[str]) -> str:
        good = [c for c in visible if c.split(".")[1] in ("town", "reason", "room", "book", "genre", "label", "number")]
        if good and self.maybe(0.8):
            return self.rng.choice(good)
        return f"LEAST({self.column(visible)}, 3)" if self.maybe(0.3) else self.column(visible)

    def column(self, visible: Sequence[str], kind: str = "") -> str:
        fitting = [c for c in visible if KINDS.get(c.split(".")[1], "number") == kind]
        column = self.rng.choice(fitting if fitting and self.maybe(0.97) else visible)
        return column.split(".")[1] if self.maybe(0.1) else column

    def literal(self, kind: str = "number") -> str:
        return self.rng.choice(LITERALS[kind])

    def scalar(self, visible: Sequence[str], depth: int, size: int = 2, kind: str = "") -> str:
        kind = kind or self.rng.choice(("number", "number", "text", "date"))
        draw = self.rng.random()
        if size == 0 or draw < 0.5:
            return self.literal(kind) if self.maybe(0.25) else self.column(visible, kind)
        if draw < 0.93 or not depth:
            return self.filled(self.rng.choice(FUNCTIONS[kind]), visible, size)
        if draw < 0.96:
            return self.window(visible)
        return f"({self.select(depth - 1, 1, visible)[0]})"

    def predicate(self, visible: Sequence[str], depth: int) -> str:
        if not depth or self.maybe(0.7):
            return self.filled(self.rng.choice(CONDITIONS), visible, 2)
        column = self.column(visible)
        query = self.select(depth - 1, 1, visible)[0]
        form = self.rng.choice((f"{column} IN", f"{column} NOT IN", "EXISTS", "NOT EXISTS", f"{column} > ALL"))
        return f"{form} ({query})" + (f" OR {self.predicate(visible, 0)}" if self.maybe(0.2) else "")

    def aggregate(self, visible: Sequence[str]) -> str:
        return self.filled(self.rng.choice(AGGREGATES), visible, 1)

    def window(self, visible: Sequence[str]) -> str:
        functions = ("ROW_NUMBER()", "RANK()", f"SUM({self.column(visible)})", "COUNT(*)", "SUM(COUNT(*))")
        part = f"PARTITION BY {self.column(visible)} " if self.maybe(0.7) else ""
        return f"{self.rng.choice(functions)} OVER ({part}ORDER BY {self.column(visible)})"

    def filled(self, template: str, visible: Sequence[str], size: int) -> str:
        """A template with its holes filled by smaller expressions."""

        def part(hole: re.Match[str]) -> str:
            kind = hole.group(1)
            if kind == "b":
                return self.filled(self.rng.choice(CONDITIONS if size > 0 else CONDITIONS[:6]), visible, size - 1)
            return self.scalar(visible, 0, max(0, size - 1), _KIND[kind])

        return _HOLE.sub(part, template)

    def maybe(self, probability: float) -> bool:
        return self.rng.random() < probability


def mutated(rng: Random, statement: str, others: Sequence[str]) -> str:
    """The statement with one to three changes: of a word, or of a part of its tree against one of another statement."""
    for _ in range(rng.choice((1, 1, 2, 3))):
        statement = grafted(rng, statement, rng.choice(others)) if rng.random() < 0.4 else reworded(rng, statement)
    return statement


def reworded(rng: Random, statement: str) -> str:
    """A word left out, doubled, swapped with another, replaced, or put in."""
    words = statement.split(" ")
    i, j = (rng.randrange(len(words)) for _ in range(2))
    match rng.randrange(5):
        case 0:
            del words[i]
        case 1:
            words.insert(i, words[j])
        case 2:
            words[i], words[j] = words[j], words[i]
        case 3:
            words[i] = rng.choice(WORDS)
        case _:
            words.insert(i, rng.choice(WORDS))
    return " ".join(words)


def grafted(rng: Random, statement: str, other: str) -> str:
    """An expression, or a whole query, of the other statement in the place of one of this; the statement itself where
    one of them cannot be parsed, or what comes of it cannot be written."""
    try:
        tree, donor = (reread(text) for text in (statement, other))  # with a limit: some texts are read for minutes
    except Error:
        return statement
    kind = rng.choice((exp.Condition, exp.Condition, exp.Query, exp.Join, exp.Column))
    places, parts = ([n for n in t.find_all(kind) if n.parent is not None] for t in (tree, donor))
    if not places or not parts:
        return statement
    try:
        rng.choice(places).replace(rng.choice(parts).copy())
        return tree.sql(dialect="duckdb")
    except RecursionError:
        return statement
