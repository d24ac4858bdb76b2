"""What the passes that lower private rows hand to each other, and the checks that they share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

from sqlglot import exp

from dpsql.compile.blocks import PrivateBlock, PublicBlock, Source, item_name
from dpsql.compile.ir import ColumnName, Facts, Project, Public, PublicQuery, Relation, Scalar, Scope
from dpsql.compile.limits import MOST_ROWS
from dpsql.compile.parse import span_of
from dpsql.compile.trees import shown
from dpsql.errors import Error, refusal

Ask = Callable[[PublicBlock | PrivateBlock, bool], PublicQuery]
"""Makes of a public query or a release one that private blocks can read; of one row, if the flag is set."""


@dataclass(slots=True)
class Lowered:
    """A relation as far as it is made, and what is known of it.

    scope: the columns that expressions may use. narrowed: those of which more is known of rows that pass WHERE and the
    inner joins.
    grain: the FROM item of whose rows each row stems from another one. unique: sets of its columns that identify a row
    (within a unit, where it is private). driving: the alias of the scan that these come from in the end; None where
    there is none. one_row: whether a unit has one row at most, by construction. most: how many it can have, since every
    scan is cut. multiplied: the refusal of a public table
    of which a row may meet several, unless the plan limits what a unit adds to each group. of_unit: of a release, the
    FROM items whose row is the same in all rows of a unit (see `joins.of_unit`). numbers: columns that number the
    rows of a unit, so that no two of them are alike. passing: how many rows of a unit pass, as far as predicates tell;
    no proof rests on it, since a predicate may compare with a column that only claims its values."""

    relation: Relation
    scope: dict[ColumnName, Facts]
    unique: tuple[frozenset[str], ...] = ()
    grain: Source | None = None
    driving: str | None = None
    one_row: bool = False
    most: int = 1
    multiplied: Error | None = None
    of_unit: frozenset[str] = frozenset()
    narrowed: Scope = field(default_factory=dict)
    numbers: frozenset[ColumnName] = frozenset()
    passing: int = MOST_ROWS

    @property
    def kept(self) -> Scope:
        """The columns of the rows that pass."""
        return {**self.scope, **self.narrowed}

    def count_passing(self) -> None:
        """Note how many rows of a unit pass by what predicates say of a number, of which each row has another."""
        ranges = [self.kept[name] for name in self.numbers]
        counts = [int(f.hi - f.lo) + 1 for f in ranges if isinstance(f.lo, Fraction) and isinstance(f.hi, Fraction)]
        self.passing = min([self.passing, *counts])


# The clauses of a SELECT that a private block may have; those of a release are carried to the outer SQL.
# ORDER BY of rows is bound, and passed over: a query around them sees them in no order, and without LIMIT no row goes.
ROW_CLAUSES = {"with_", "expressions", "from_", "joins", "where", "qualify", "order"}
GROUP_CLAUSES = {"with_", "expressions", "from_", "joins", "where", "group", "having", "distinct", "order"}
RELEASE_CLAUSES = ROW_CLAUSES | GROUP_CLAUSES | {"limit", "offset"}
_CLAUSE_NAMES = {"windows": "WINDOW", "sample": "SAMPLE", "when": "a version"}
_REPAIRS = {
    "windows": "write the window in OVER (...) itself",
    **dict.fromkeys(("limit", "offset"), "leave it out, or put it on the aggregated result"),
    "group": "aggregate in the outer query",
}


def check_arguments(node: exp.Expr, allowed: Iterable[str]) -> None:
    """A FROM item says nothing that would be passed over: PIVOT, samples, versions."""
    for key, value in node.args.items():
        if value and key not in allowed:
            name = _CLAUSE_NAMES.get(key, key.rstrip("_s").upper())
            reason = f"{name} over private rows is not answered"
            raise refusal("DP221", reason, span=span_of(node), repair="name the table alone")


def check_clauses(block: PrivateBlock, allowed: Iterable[str]) -> None:
    """A SELECT has no clause but these."""
    for clause, value in block.node.args.items():
        if not value or clause in allowed:
            continue
        name = _CLAUSE_NAMES.get(clause, clause.rstrip("_").upper())
        where = span_of(value) if isinstance(value, exp.Expr) else span_of(block.node)
        repair = _REPAIRS.get(clause, "leave it out")
        raise refusal("DP221", f"{name} over private rows is not answered", span=where, repair=repair)
    distinct = block.node.args.get("distinct")
    if distinct is not None and distinct.args.get("on") is not None:
        keys = [shown(key) for key in distinct.args["on"].expressions]
        order = [shown(o) for o in block.order if shown(o.this) not in keys]
        window = f"PARTITION BY {', '.join(keys)}{' ORDER BY ' if order else ''}{', '.join(order)}"
        repair = (
            "use GROUP BY" if block.is_release else f"leave it out, and write QUALIFY ROW_NUMBER() OVER ({window}) = 1"
        )
        raise refusal("DP221", "DISTINCT ON is not answered", span=span_of(distinct), repair=repair)


def public(query: PublicQuery, alias: str) -> Lowered:
    """What was asked of the public side, as a relation."""
    columns = {(alias, item_name(i)): Facts(type_) for i, type_ in enumerate(query.types)}
    return Lowered(Public(query.name, alias), columns, query.unique)


def project(made: Lowered, alias: str, scalars: Sequence[Scalar | None]) -> Lowered:
    """A derived table of these items, without those that cannot be shown. The alias of what drives it stays that of the
    scan inside."""
    items = tuple((item_name(i), s) for i, s in enumerate(scalars) if s is not None)
    scope = {(alias, name): s.facts for name, s in items}
    relation = Project(made.relation, alias, items)
    return Lowered(relation, scope, driving=made.driving, one_row=made.one_row, most=made.most, passing=made.passing)


def nullable(columns: Scope) -> dict[ColumnName, Facts]:
    """Columns that an outer join may leave without a value."""
    return {name: replace(facts, nullable=True) for name, facts in columns.items()}
