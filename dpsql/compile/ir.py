"""The intermediate representation: a small closed algebra, walked by `match` with `assert_never`.

What has no node here cannot be asked: refusal by construction. Relations are private (each of their rows
belongs to exactly one unit, carried along unseen) unless every scan below them is public. A `Release` is an
aggregate over a private relation: its noised output is public from then on. `Query.outer` is ordinary SQL
over public tables and `released_1`, `released_2`, ...: post-processing, free.

Scalars are sqlglot expressions in *total form* (no input can make the engine raise), whose columns are all
`alias.column` with the alias of a FROM item that is unique in the statement.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from enum import Enum
from fractions import Fraction

from sqlglot import exp

from dpsql.compile.clauses import Clause
from dpsql.compile.hints import Hint
from dpsql.errors import Error, Span, refusal
from dpsql.policy.facts import Kind, SqlType

Value = bool | int | Decimal | float | str | date | datetime
"""A SQL value that is not NULL, as Python has it."""

ColumnName = tuple[str, str]
"""(alias of the FROM item, column)."""

MAX_INFERRED_KEYS = 10_000
"""Above so many values a domain is not inferred (declared ones have no limit)."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known of every value an expression can take, given that its columns hold what the snapshot enforces.

    lo, hi: inclusive bounds in the order of SQL's `<=`, None = unbounded that way. Numbers are Fraction, DATE is
    date, TIMESTAMP datetime; strings and booleans have none. An unbounded DOUBLE may also be NaN or infinite.
    domain: every value it can take but NULL, in ascending order, or None where that is unknown or too many.
    nullable: whether NULL can occur. step: for DOUBLE, the policy's grid (None = none declared).
    size: bound on the number of characters *per character of input* that a VARCHAR can reach (amplification).
    """

    type: SqlType
    lo: Fraction | date | datetime | None = None
    hi: Fraction | date | datetime | None = None
    domain: tuple[Value, ...] | None = None
    nullable: bool = True
    step: Fraction | None = None
    size: int = 1

    @property
    def is_numeric(self) -> bool:
        return self.type.kind in (Kind.INTEGER, Kind.DECIMAL, Kind.DOUBLE)

    @property
    def is_bounded(self) -> bool:
        return self.lo is not None and self.hi is not None


@dataclass(frozen=True, slots=True)
class Scalar:
    """One expression per row, in total form, with what is known of its values. `span`: where the analyst wrote it."""

    tree: exp.Expr
    facts: Facts
    span: Span | None = None


def is_same(one: Scalar | None, other: Scalar | None) -> bool:
    """Whether two arguments are one expression between the same bounds (see `clamps`), or both none."""
    if one is None or other is None or one is other:
        return one is other
    bounds, others = (one.facts.lo, one.facts.hi), (other.facts.lo, other.facts.hi)
    return one.tree == other.tree and bounds == others


@dataclass(frozen=True, slots=True)
class Scan:
    """A table of the snapshot. `limit`: rows of rank above it are cut (None = nothing is), which `plan` sets: the
    strategy's R, or the much larger limit that keeps a unit from exploding a join. many: whether a row of what it is
    joined with may meet several of its rows; where none can (a look-up by key), nothing needs to be cut. meets: how
    many rows of a public table that may be, at most."""

    table: str
    alias: str
    public: bool
    limit: int | None = None
    many: bool = True
    meets: int = 1


@dataclass(frozen=True, slots=True)
class Public:
    """The rows of a `PublicQuery`, whose name it has, under an alias."""

    name: str
    alias: str


class JoinKind(Enum):
    INNER = "inner"
    LEFT = "left"
    RIGHT = "right"
    FULL = "full"


def check_condition(scalar: Scalar) -> None:
    """Conditions are of type BOOLEAN: under any other type the engine casts each value by itself, and one that is no
    truth value ('Ann') makes it raise, which would tell of that row. `lower_condition` makes them so."""
    if scalar.facts.type.kind is not Kind.BOOLEAN:
        raise refusal("DP901", f"a condition came as {scalar.facts.type}", span=scalar.span)


@dataclass(frozen=True, slots=True)
class Join:
    """left JOIN right ON on. Where both sides are private, `rewrite` adds equality of their units. unique: whether a
    row of left meets one row of right at most, by a proof that the scans of right do not show."""

    kind: JoinKind
    left: Relation
    right: Relation
    on: Scalar
    unique: bool = False

    def __post_init__(self) -> None:
        check_condition(self.on)


@dataclass(frozen=True, slots=True)
class Mark:
    """`input` with a column more, `alias.found`: whether `right` has a row for which `on` is true, of the same unit
    where it is private (`rewrite` adds that). EXISTS, IN and their negations."""

    input: Relation
    right: Relation
    on: Scalar
    alias: str

    def __post_init__(self) -> None:
        check_condition(self.on)


@dataclass(frozen=True, slots=True)
class Filter:
    """The rows of `input` for which the predicate is true."""

    input: Relation
    predicate: Scalar

    def __post_init__(self) -> None:
        check_condition(self.predicate)


@dataclass(frozen=True, slots=True)
class Project:
    """A derived table: one column per item, under the new alias. The unit is carried along unseen."""

    input: Relation
    alias: str
    items: tuple[tuple[str, Scalar], ...]


@dataclass(frozen=True, slots=True)
class PerUnit:
    """The groups of a unit's rows by `keys`: one row each, with `measures`, under the new alias. The unit is always a
    key too. Measures are exact SQL aggregates that do not depend on the order of rows. DISTINCT has none."""

    input: Relation
    alias: str
    keys: tuple[tuple[str, Scalar], ...]
    measures: tuple[tuple[str, Scalar], ...]


@dataclass(frozen=True, slots=True)
class WindowCall:
    """function OVER (PARTITION BY the unit, partition ORDER BY order frame). ties: whether the rows of equal order are
    told apart by their ranks, so that the result does not depend on how they happen to lie."""

    name: str
    function: exp.Expr
    partition: tuple[Scalar, ...]
    order: tuple[exp.Ordered, ...]
    frame: exp.WindowSpec | None
    ties: bool


@dataclass(frozen=True, slots=True)
class Window:
    """`input` with a column more per call, `alias.name`. The unit is always among what a window is partitioned by."""

    input: Relation
    alias: str
    calls: tuple[WindowCall, ...]


@dataclass(frozen=True, slots=True)
class Union:
    """UNION ALL: the rows of all inputs, whose items agree in names and types, under the new alias."""

    inputs: tuple[Project, ...]
    alias: str


Relation = Scan | Public | Join | Mark | Filter | Project | PerUnit | Window | Union

FOUND = "found"
"""The column of a Mark."""


@dataclass(frozen=True, slots=True)
class Key:
    """One grouping expression. `name`: its column in the released table (k1, k2, ...). `text`: as an analyst writes
    it; column: the only one in it. of_unit: whether it has one value in all rows of a unit, by construction."""

    name: str
    scalar: Scalar
    text: str
    of_unit: bool = False
    column: str = ""


class Statistic(Enum):
    """What an analyst asks of the rows of a group. ROWS: how many; UNITS: of how many units; VALUES: how many of the
    argument's values are not NULL; DISTINCT: how many different ones; the others: of those values, or of pairs of two
    arguments of which neither is NULL (slope, intercept, R2: of the line of the first over the second)."""

    ROWS = "rows"
    UNITS = "units"
    VALUES = "values"
    DISTINCT = "distinct"
    SUM = "sum"
    AVG = "avg"
    VAR_POP = "var_pop"
    VAR_SAMP = "var_samp"
    STDDEV_POP = "stddev_pop"
    STDDEV_SAMP = "stddev_samp"
    COVAR_POP = "covar_pop"
    COVAR_SAMP = "covar_samp"
    CORR = "corr"
    SLOPE = "slope"
    INTERCEPT = "intercept"
    R2 = "r2"

    @property
    def is_count(self) -> bool:
        return self in (Statistic.ROWS, Statistic.UNITS, Statistic.VALUES, Statistic.DISTINCT)


@dataclass(frozen=True, slots=True)
class Measure:
    """One requested aggregate. `name`: its column in the released table (a1, a2, ...). `text`: as the analyst wrote it.
    `column`: the result's column that shows it first ("" where it stands in HAVING or ORDER BY alone).

    argument: for ROWS and UNITS a predicate (None = every row), else the value (a FILTER is folded into it as CASE).
    second: the other value of a pair; rows where either is NULL do not count. hints: of all its calls. per_group: where
    what a unit adds to a group is clamped, between what.
    """

    name: str
    statistic: Statistic
    argument: Scalar | None
    text: str
    column: str = ""
    span: Span | None = None
    second: Scalar | None = None
    hints: tuple[Hint, ...] = ()
    per_group: tuple[Fraction, Fraction] | None = None

    def __post_init__(self) -> None:
        if self.argument is not None and self.statistic in (Statistic.ROWS, Statistic.UNITS):
            check_condition(self.argument)


@dataclass(frozen=True, slots=True)
class PublicKeys:
    """The public relation of group keys: `tree` is a SELECT over public tables and literals whose columns are
    k1, k2, ... in order and whose rows are distinct. `inferred`: whether MAX_INFERRED_KEYS applies. `count`: its rows
    where the compiler knows them, so that no engine has to be asked. `parts`: of grouping sets, whose own keys stand
    together in `tree` with `g` before them: what each set has (None = nothing public)."""

    tree: exp.Select
    inferred: bool
    count: int | None = None
    parts: tuple[PublicKeys | None, ...] = ()


GROUPING = "g"
"""The key that says to which grouping set a group belongs."""


def grouping_id(names: Sequence[str], own: Sequence[str]) -> int:
    """GROUPING_ID of all keys, in order: a bit for each, 1 where it is not the set's own."""
    return sum(1 << i for i, name in enumerate(reversed(names)) if name not in own)


PLACE = "place"
"""Of a choice: the column that says in which order its winners were chosen, from 1 on."""


FACTOR = "factor"
"""Of a choice: the exact result's column of the candidates' public factors."""


@dataclass(frozen=True, slots=True)
class Choice:
    """Of a release that chooses among its groups: the `winners` first ones by its only measure times `factor`, a number
    over the columns k1, ... of the public keys (None = 1). ascending: the least ones."""

    winners: int
    ascending: bool
    factor: Scalar | None


@dataclass(frozen=True, slots=True)
class Release:
    """GROUP BY keys over a private relation. With no keys there is one group, and `public_keys` is None. sets: of
    ROLLUP, CUBE and GROUPING SETS, the names of each set's keys; () where all keys are one set.

    public_keys: of the keys that have a public list; rows with other values are dropped. private_keys: names of the
    keys that have none (all of them where the release asks which groups exist): they are selected privately.
    `driving`: alias of the scan whose rows are the release's grain (every row stems from one of its rows, and no two
    from the same); None where there is none. one_row: whether a unit has one row at most, by construction. passing: how
    many rows of a unit pass, as far as the text tells; where that is less than R, it is enforced in its place. choice:
    instead of its measure, the release gives the keys of the groups that are best by it. ranked: whether the statement
    shows the first of its groups by an aggregate. multiplied: the refusal of a public table that may multiply rows,
    unless the plan limits what a unit adds to each group. clause: of its SELECT. unit: its name in a subquery."""

    name: str
    input: Relation
    driving: str | None
    keys: tuple[Key, ...]
    public_keys: PublicKeys | None
    private_keys: tuple[str, ...]
    measures: tuple[Measure, ...]
    one_row: bool = False
    passing: int | None = None
    unit: str | None = None
    span: Span | None = None
    sets: tuple[tuple[str, ...], ...] = ()
    choice: Choice | None = None
    ranked: bool = False
    multiplied: Error | None = None
    clause: Clause | None = None

    @property
    def shown(self) -> tuple[Measure, ...]:
        """The measures that the released table has."""
        return self.measures if self.choice is None else ()

    @property
    def grouping(self) -> tuple[tuple[str, ...], ...]:
        """The names of the keys of each set: of one set, where there are no others."""
        return self.sets or (tuple(k.name for k in self.keys),)

    @property
    def key_columns(self) -> tuple[tuple[str, SqlType], ...]:
        """What tells the groups of the released table apart: names and types of its first columns."""
        keys = tuple((k.name, k.scalar.facts.type) for k in self.keys)
        return ((GROUPING, SqlType(Kind.INTEGER)), *keys) if self.sets else keys

    @property
    def key_names(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.key_columns)


@dataclass(frozen=True, slots=True)
class PublicQuery:
    """A query over public tables and earlier releases that a private block reads: it is run by the outer engine, and
    its result handed to the private one under `name`. tree: as `Query.outer`; its columns are c1, c2, ... of `types`.
    unique: sets of them that identify a row."""

    name: str
    tree: exp.Query
    types: tuple[SqlType, ...]
    unique: tuple[frozenset[str], ...] = ()


@dataclass(frozen=True, slots=True)
class Query:
    """A statement: its releases in order of execution, what they read of public queries, and the public SQL over them.

    outer: canonical sqlglot tree; its tables are `pub.<table>` and `released_<i>`.
    """

    releases: tuple[Release, ...]
    outer: exp.Expr
    publics: tuple[PublicQuery, ...] = ()


Scope = Mapping[ColumnName, Facts]
"""The columns an expression may use, and what is known of each."""

Lower = Callable[[exp.Expr, Scope], Scalar]
"""What makes a scalar of a bound expression. Rules that lower their operands are handed it."""
