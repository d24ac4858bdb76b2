"""Choose the strategy of a release: from the policy, the number of public keys and the analyst's wish, never from data.

- rows: at most R rows of the driving scan, chosen before WHERE. One pass, near the speed of the plain query.
- late: at most R rows, chosen after WHERE and joins: loses nothing to rows that the query filters out.
- cells: per (unit, key) at most r rows, and at most g keys. The error falls with units rather than rows.
- rows then cells, late then cells: R, g and r together.
- rescale: the unit's vector is scaled into a ball of R rows; nothing is sampled away.

The limits of the driving table count: its rows are the grain of the release. Any choice is private as long as what the
noise assumes is enforced, which `Limits` carries from here into the SQL.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import log

from dpsql.compile.clauses import Clause
from dpsql.errors import Span, refusal
from dpsql.policy.model import LIMITS, Budget, Policy, Table
from dpsql.privacy import variances
from dpsql.privacy.accounting import GAUSSIAN, gaussian_budget
from dpsql.privacy.gaussian import mu_squared_of_pure
from dpsql.privacy.sensitivity import Limits, of_rows, of_units, over_sets

WORST_CASE = 20
"""Without another limit a scan is cut to so many times R rows of each unit."""

MOST_ROWS = 10**7
"""Rows of one unit at any point of a statement: no sum can overflow."""

MOST_JOINED = 10**6
"""Pairs of rows of one unit that all joins of a release together may look at where both sides have several: no unit can
explode them, and what a clock tells of one unit is bounded."""

LAPLACE, NORMAL = MECHANISMS = ("laplace", "gaussian")

STRATEGIES = ("rows", "late", "cells", "rows then cells", "late then cells", "rescale")


@dataclass(frozen=True, slots=True)
class Request:
    """What a statement asks for, beyond its text.

    epsilon, delta: its price. strategy: one of STRATEGIES, mechanism: one of MECHANISMS, or None for the planner's
    choice. limits: overrides of
    max_rows_per_unit, max_groups_per_unit and max_rows_per_group, within the policy's ceilings. weights: shares of
    epsilon by column of the result; 1 for those not named.
    clause: of a release, whose options are in the other fields already; the limits that it names have to be enforced.
    """

    epsilon: Fraction
    delta: Fraction = Fraction(0)
    strategy: str | None = None
    mechanism: str | None = None
    limits: Mapping[str, int] = field(default_factory=dict)
    weights: Mapping[str, Fraction] = field(default_factory=dict)
    clause: Clause | None = None

    @property
    def selects_keys(self) -> bool:
        """Whether groups may be selected privately."""
        return self.delta > 0 and not (self.clause is not None and self.clause.public_groups)


def delta_of(budget: Budget, epsilon: Fraction) -> Fraction:
    """Of a statement: the policy's, or as large a part of the budget's as its price is of the budget."""
    if budget.per_query_delta is not None:
        return budget.per_query_delta
    if budget.composition != GAUSSIAN:
        return budget.delta * epsilon / budget.epsilon
    mu_squared, deltas = gaussian_budget(budget.epsilon, budget.delta)
    share = mu_squared_of_pure(epsilon) / mu_squared if mu_squared else Fraction(1)
    return deltas * min(share, Fraction(1))


def one_row_per_unit(table: Table) -> bool:
    """Whether a unit has one row by construction: the unit is the table's key, enforced by the snapshot."""
    return table.every_row_is_a_unit or table.key == (table.unit,)


Domains = tuple[int | None, ...]
"""D of each grouping set: how many public groups it has, None where some of its keys are private."""


def worst_case(table: Table) -> int:
    """How many rows of a unit a statement meets at all: W, or what the policy lets a statement set."""
    assert table.max_rows_per_unit is not None  # the loader requires it of private tables
    return max(WORST_CASE * table.max_rows_per_unit, ceiling(table, "max_rows_per_unit") or 0)


@dataclass(frozen=True, slots=True)
class Declared:
    """The limits that a release works from: those of its driving table, or, where none drives it, of all of them. late:
    whether R acts after WHERE; provable: whether it may act before."""

    rows: int
    groups: int | None
    per_group: int | None
    late: bool
    provable: bool


@dataclass(frozen=True, slots=True)
class Asked:
    """The aggregates of a release: how many count units, and how many add up rows; and how many its statement has."""

    units: int
    others: int
    of_statement: int


def all_declared(policy: Policy) -> str:
    """All limits of a policy, as a text: among these the planner chooses."""
    tables = [(name, [getattr(t, limit) for limit in LIMITS], t.limit) for name, t in policy.tables.items()]
    return repr(sorted(tables))


def declared(table: Table, request: Request) -> Declared:
    """The limits of the table whose rows are the grain."""
    if one_row_per_unit(table):
        return Declared(1, None, None, late=False, provable=True)
    rows = _limit(table, "max_rows_per_unit", request)
    assert rows is not None  # the loader requires it of private tables
    groups, per_group = (_limit(table, name, request) for name in LIMITS[1:])
    return Declared(rows, groups, per_group, late=table.limit == "late", provable=True)


def combined(several: Sequence[Declared], rows: int) -> Declared:
    """The limits of rows that come from several tables: the largest r and the smallest g, and R as it is given. Any
    choice is private as long as it is enforced."""
    groups = [d.groups for d in several if d.groups is not None]
    most = [d.per_group for d in several if d.rows > 1]
    per_group = max((n for n in most if n is not None), default=None) if None not in most else None
    return Declared(rows, min(groups, default=None), per_group, late=True, provable=False)


def choose(
    limits: Declared,
    domains: Domains,
    reach: Domains,
    grouped: bool,
    request: Request,
    asked: Asked,
    span: Span | None,
) -> Limits:
    """The limits of a release. reach: how many groups of each grouping set a unit can
    be in; grouped: whether there are keys at all; asked: its aggregates. Raises DP223
    where the strategy asked for is not possible."""
    rows = limits.rows
    groups, per_group = (limits.groups, limits.per_group) if grouped else (None, None)
    default = Limits("late" if limits.late else "rows", rows=rows, late=limits.late)
    private = None in domains
    bounded = per_group is not None and (groups is not None or None not in reach)
    cells = Limits("cells", groups=groups, per_group=per_group) if bounded else None
    if request.strategy is None:
        return default if cells is None or not _is_less(cells, default, reach, private, request, asked) else cells
    if request.strategy.startswith("rows") and not limits.provable:
        reason = f'strategy "{request.strategy}" limits the rows of one table, and here no single one gives the rows'
        raise refusal("DP223", reason, span=span, repair="SET strategy = late, or RESET strategy")
    if request.strategy in ("rows", "late"):
        return Limits(request.strategy, rows=rows, late=request.strategy == "late")
    if request.strategy == "rescale":
        if None in reach and groups is None:
            reason = 'strategy "rescale" bounds no keys, and these groups are not public'
            raise refusal("DP223", reason, span=span, repair="SET strategy = rows, or RESET strategy")
        return Limits("rescale", groups=groups if None in reach else None, ball=rows)
    if cells is None:
        missing = "GROUP BY" if not grouped else "max_rows_per_group" if per_group is None else "max_groups_per_unit"
        reason = f'strategy "{request.strategy}" needs {missing}'
        raise refusal("DP223", reason, span=span, repair="SET strategy = rows, or RESET strategy")
    if request.strategy == "cells":
        return cells
    late = request.strategy.startswith("late")
    return Limits(request.strategy, rows=rows, late=late, groups=groups, per_group=per_group)


def enforcing(
    limits: Declared, reach: Domains, request: Request, *, clamps: bool, multiplied: bool, span: Span | None
) -> tuple[Declared, Request]:
    """The limits and the request under which `choose` takes a strategy whose SQL enforces every limit that the clause
    names. clamps: whether what a unit adds to a group is clamped, which only cells do; multiplied: whether a public
    table may multiply rows, so that R bounds nothing. Raises DP223 where SET names a strategy that cannot do it.

    Groups are limited by cells, rows by a rank, both by one after the other. Where no r is declared a unit can have no
    more rows in a group than R in all, which then is enforced beside it. NULL takes a limit away: of groups, what R
    leaves; of rows, what g and r leave, r no more than the policy's R.
    """
    named = request.clause.limits if request.clause is not None else {}
    if request.clause is not None and named:
        span = request.clause.span
    groups = named.get("max_groups_per_unit")
    cells = clamps or (groups is not None and any(keys is None or keys > groups for keys in reach))
    most = named.get("max_rows_per_unit")
    rows = most is not None
    unlimited = "max_rows_per_unit" in named and not rows
    if "max_groups_per_unit" in named:
        limits = replace(limits, groups=groups if groups is None else min(groups, limits.groups or groups))
    if most is not None:  # of a union, whose R is a sum
        limits = replace(limits, rows=min(most, limits.rows))
    if not (cells or rows or unlimited):
        return limits, request
    if unlimited and limits.groups is None and None in reach:
        reason = "where rows are not limited, groups have to be limited, or public"
        raise refusal("DP223", reason, span=span, repair="add max_groups_contributed = 2")
    strategy, first = request.strategy, "late" if limits.late else "rows"
    if strategy == "rescale" and (cells or unlimited):
        repair = "RESET strategy, or leave the limits on groups out"
        raise refusal("DP223", 'strategy "rescale" limits weights, not groups', span=span, repair=repair)
    declared_r = limits.per_group is not None
    if cells or unlimited:
        limits = replace(limits, per_group=limits.per_group if declared_r else limits.rows)
    if strategy is None:
        alone = multiplied or unlimited or (declared_r and not rows)
        strategy = first if not (cells or unlimited) else "cells" if alone else f"{first} then cells"
    elif cells and strategy in ("rows", "late"):
        strategy = f"{strategy} then cells"
    elif rows and strategy == "cells":
        strategy = f"{first} then cells"
    elif unlimited and strategy != "cells":
        reason = f'strategy "{strategy}" limits the rows of a unit, and the clause asks for no limit'
        raise refusal("DP223", reason, span=span, repair="RESET strategy, or name a number")
    return limits, replace(request, strategy=strategy)


def choose_for_choice(
    limits: Declared, domains: Domains, reach: Domains, request: Request, span: Span | None
) -> Limits:
    """The limits of a private choice: only what one unit adds to each candidate matters, not to how many. So r acts on
    each (unit, candidate) alone, and R in its place where no r is declared; neither R nor g cuts anything across
    candidates."""
    if request.strategy not in (None, "cells") or (request.clause is not None and request.clause.limits):
        return choose(limits, domains, reach, True, request, Asked(0, 1, 1), span)
    return Limits("cells", per_group=min(n for n in (limits.per_group, limits.rows) if n is not None))


def ceiling(table: Table, name: str) -> int | None:
    """How high a statement may set a limit over this table; None where the policy declares none, so that any limit
    that a statement sets is one more."""
    declared: int | None = getattr(table, name)
    return table.hard.get(name, declared) if declared is not None else None


def _limit(table: Table, name: str, request: Request) -> int | None:
    """The limit of this table for this statement: what was asked, within the table's own ceiling."""
    declared: int | None = getattr(table, name)
    asked = request.limits.get(name)
    if asked is None:
        return declared
    most = ceiling(table, name)
    return asked if most is None else min(asked, most)


def _is_less(cells: Limits, other: Limits, reach: Domains, private: bool, request: Request, asked: Asked) -> bool:
    """Whether aggregates carry less noise under `cells`, and, where keys are private, need fewer units to be shown: by
    the sum of logarithms that `pricing` goes by."""
    epsilon, delta = variances.as_float(request.epsilon), float(request.delta)
    apart = private and not asked.units  # a decision on keys that no released count makes is one more slot
    slots = max(asked.of_statement + apart, 1)
    if private:
        delta /= 2

    laplace, normal = request.mechanism != NORMAL, request.mechanism != LAPLACE

    def noise(limits: Limits) -> float:
        units = over_sets([of_units(limits, keys) for keys in reach])
        rows = over_sets([of_rows(limits, 1, keys) for keys in reach])
        found = asked.units * log(variances.least(units, slots, epsilon, delta, laplace=laplace, normal=normal))
        found += asked.others * log(variances.least(rows, slots, epsilon, delta, laplace=laplace, normal=normal))
        if private:
            found += 2 * log(variances.half_kept(rows.keys, epsilon / slots, delta))
        return found

    tie = 1e-9 if not asked.others else -1e-9  # units are counted once however many rows they have: no row is lost
    return noise(cells) < noise(other) + tie
