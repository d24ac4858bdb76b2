"""The names that the expressions of one block can use, and which of them a written name means.

DuckDB's rules (tried on 2.0.1): names are case-insensitive, quoted ones too. WHERE and SELECT take a column before an
alias; GROUP BY a column before an alias, and an alias only as a whole; ORDER BY an alias before a column, as a whole;
HAVING a key of GROUP BY before an alias, and an alias before any other column, but within an aggregate only columns. Of
two aliases the last counts, and in the SELECT list it is known only after it. `main.t.a` needs a table of the policy
without an alias.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import chain, count

from sqlglot import exp

from dpsql.compile.blocks import OtherSource, Source, TableSource
from dpsql.compile.parse import span_of
from dpsql.compile.trees import CALLED, folded, spelled, wrapped
from dpsql.compile.trees import column as bound_column
from dpsql.errors import Error, Span, listed, nearest, refusal


class Prefer(Enum):
    """Which meaning of a name a clause takes where it has two."""

    COLUMN = "column"
    ALIAS = "alias"
    ONLY_COLUMN = "only column"


@dataclass(slots=True)
class Names:
    """sources: by lower-case name. merged: USING columns. aliases: of the SELECT list, in lower case. outer: the names
    of the query around this one, which are looked up last."""

    sources: dict[str, Source] = field(default_factory=dict)
    merged: dict[str, exp.Expr] = field(default_factory=dict)
    aliases: dict[str, exp.Expr] = field(default_factory=dict)
    outer: Names | None = None

    def around(self) -> list[Source]:
        """The FROM items of the queries around this one."""
        return [] if self.outer is None else [*self.outer.sources.values(), *self.outer.around()]

    def find(self, column: exp.Column) -> exp.Expr | None:
        """The bound column, or None. Raises DP112 where two sources have it."""
        name, qualifier = folded(column.name), folded(column.table)
        if not qualifier and name in self.merged:
            return _positioned(self.merged[name].copy(), column)
        found = [
            bound_column(source.alias, actual)
            for visible, source in self.sources.items()
            if not qualifier or (visible == qualifier and (not column.db or _is_bare(source)))
            for called, actual in source.columns
            if folded(called) == name
        ]
        if len(found) > 1:
            repair = f"write the table's name before it, such as {next(iter(self.sources))}.{column.name}"
            reason = f'the column "{column.name}" is in several tables'
            raise refusal("DP112", reason, span=span_of(column), repair=repair)
        if found:
            found[0].meta[CALLED] = (column.table, column.name) if column.table else (column.name,)
            return _positioned(found[0], column)
        opaque = [
            s for v, s in self.sources.items() if isinstance(s, OtherSource) and not s.columns and qualifier in ("", v)
        ]
        if opaque:  # it may be a column of a FROM item that `lower` refuses: that refusal says more
            table = exp.to_identifier(opaque[0].alias or "?", quoted=True)
            return _positioned(exp.Column(this=exp.to_identifier(column.name, quoted=True), table=table), column)
        return None

    def bind(self, column: exp.Column, prefer: Prefer) -> exp.Expr:
        """What a written name means in a clause. Raises DP111 where it means nothing."""
        alias = self.aliases.get(folded(column.name)) if not column.table and prefer is not Prefer.ONLY_COLUMN else None
        if alias is not None and prefer is Prefer.ALIAS:
            return wrapped(alias.copy())
        found = self.find(column)
        if found is not None:
            return found
        if alias is not None:
            return wrapped(alias.copy())
        names = self.outer
        while names is not None:
            found = names.find(column)
            if found is not None:
                return found
            names = names.outer
        raise self.unknown(column)

    def all_columns(self) -> list[str]:
        """Every column as it is called here."""
        return [called for source in self.sources.values() for called, _ in source.columns]

    def unknown(self, column: exp.Column) -> Error:
        """The refusal of a name that means nothing here."""
        span = span_of(column)
        if column.table and folded(column.table) not in self.sources:
            return self.no_source(column)
        name = folded(column.name)
        if not column.table and name in self.sources:
            reason = f'"{column.name}" is a table: whole rows are not values here'
            repair = f"name its columns, such as {column.name}.{next(iter(self._columns_of(name)), 'x')}"
            return refusal("DP111", reason, span=span, repair=repair)
        known = self._columns_of(folded(column.table)) if column.table else [*self.all_columns(), *self.aliases]
        hint = nearest(column.name, known)
        repair = f"the columns are: {listed(dict.fromkeys(known))}"
        if not hint and not column.table and _is_text(column.this):
            text = column.name.strip(_CURLY).replace("'", "''")
            repair = f"a text stands in single quotes: '{text}'"
        written = spelled(*filter(None, (column.table, column.name))).replace('"', "")
        return refusal("DP111", f'no column "{written}" is visible here{hint}', span=span, repair=repair)

    def no_source(self, column: exp.Column) -> Error:
        """The refusal of a column of a table that FROM does not have."""
        wanted = folded(column.table)
        alias = next((v for v, s in self.sources.items() if folded(s.node.name) == wanted), None)
        if alias is not None:
            reason = f'the table "{column.table}" is called "{alias}" here'
            return refusal("DP111", reason, span=span_of(column), repair=f"write {alias}.{column.name}")
        reason = f'no table "{column.table}" is in FROM here{nearest(column.table, self.sources)}'
        visible = [v for v in self.sources if v.strip()]
        repair = f"the tables are: {', '.join(visible)}" if visible else "name it in FROM"
        return refusal("DP111", reason, span=span_of(column), repair=repair)

    def _columns_of(self, visible: str) -> list[str]:
        return [called for called, _ in self.sources[visible].columns] if visible in self.sources else []


_CURLY = "\u2018\u2019\u201c\u201d"
"""Quotes of typesetters, which SQL takes for letters."""


def _is_text(identifier: exp.Expr) -> bool:
    """Whether a name looks like a text in the wrong quotes."""
    return bool(identifier.args.get("quoted")) or identifier.name[:1] in _CURLY


def called_columns(
    names: Sequence[str], renamed: Sequence[str], span: Span | None, *, spare: bool = False
) -> list[str]:
    """What the columns of a FROM item are called: the first ones as `AS t(a, b)` says, the rest as they were. The first
    of equal names keeps it; the next are a_1, a_2, as in DuckDB. Raises DP111 where there are not as many columns,
    but for WITH (spare)."""
    if spare:
        renamed = renamed[: len(names)]
    if len(renamed) > len(names):
        reason = f"there are {len(renamed)} names for columns here, and {len(names)} to be named"
        raise refusal("DP111", reason, span=span, repair=f"name {len(names)} at most")
    found: list[str] = []
    taken: set[str] = set()
    for name in [*renamed, *names[len(renamed) :]]:
        free = next(n for n in chain([name], (f"{name}_{i}" for i in count(1))) if folded(n) not in taken)
        taken.add(folded(free))
        found.append(free)
    return found


def _is_bare(source: Source) -> bool:
    """Whether a FROM item is a table of the policy without an alias: only then has its name a schema."""
    return isinstance(source, TableSource) and not source.node.args.get("alias")


def _positioned(bound: exp.Expr, written: exp.Column) -> exp.Expr:
    """Give the bound column, or each of those merged into one, the place of the written one, for carets."""
    table = written.args.get("table")
    for column in bound.find_all(exp.Column):
        column.this.meta.update(written.this.meta)
        if table is not None and "start" in table.meta:
            column.this.meta["start"] = table.meta["start"]
    return bound
