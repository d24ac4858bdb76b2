"""The aggregates of a release: which are answered, and what each needs of a row."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from sqlglot import exp

from dpsql.compile.blocks import PrivateBlock, Source, TableSource, is_aggregate, is_optional, nested_in
from dpsql.compile.clamps import clamped, empty
from dpsql.compile.hints import PER_ROW, Bounds, Hint, arguments_of
from dpsql.compile.instead import argument_of, instead_of, name_of, not_single, sample, several, several_distinct
from dpsql.compile.ir import Measure, Scalar, Statistic, is_same
from dpsql.compile.joins import is_public
from dpsql.compile.labels import is_unit
from dpsql.compile.lowered import Lowered
from dpsql.compile.missing import is_missing
from dpsql.compile.parse import span_of
from dpsql.compile.rows import RowLowerer
from dpsql.compile.scalars import lower_condition, lower_scalar
from dpsql.compile.trees import called, conjunction, is_star, shown, wrapped
from dpsql.errors import Error, Span, refusal
from dpsql.policy.facts import Kind
from dpsql.policy.model import Policy

_ANSWERED = (
    "COUNT, COUNT(DISTINCT ...), COUNT_IF, SUM, AVG, VAR, STDDEV and COVAR (_POP and _SAMP), CORR and REGR (_SLOPE,"
    " _INTERCEPT, _R2, _COUNT, _AVGX, _AVGY)"
)

_OF_ONE: dict[type[exp.Expr], Statistic] = {
    exp.Sum: Statistic.SUM,
    exp.Avg: Statistic.AVG,
    exp.VariancePop: Statistic.VAR_POP,
    exp.Variance: Statistic.VAR_SAMP,
    exp.StddevPop: Statistic.STDDEV_POP,
    exp.StddevSamp: Statistic.STDDEV_SAMP,
    exp.Stddev: Statistic.STDDEV_SAMP,
}
_OF_TWO: dict[type[exp.Expr], Statistic] = {
    exp.CovarPop: Statistic.COVAR_POP,
    exp.CovarSamp: Statistic.COVAR_SAMP,
    exp.Corr: Statistic.CORR,
    exp.RegrSlope: Statistic.SLOPE,
    exp.RegrIntercept: Statistic.INTERCEPT,
    exp.RegrR2: Statistic.R2,
    exp.RegrAvgx: Statistic.AVG,
    exp.RegrAvgy: Statistic.AVG,
    exp.RegrCount: Statistic.VALUES,
}
_SYMMETRIC = frozenset([Statistic.COVAR_POP, Statistic.COVAR_SAMP, Statistic.CORR, Statistic.R2, Statistic.VALUES])
"""Of pairs, whose order says nothing."""


class Measures:
    """Collects the aggregates of one block; equal ones are one measure, hence one noise. unowned: whether the statement
    also asks for rows of public tables without a private partner: those are not there, so aggregates must pass over
    them."""

    def __init__(self, block: PrivateBlock, rows: RowLowerer, made: Lowered, *, unowned: bool = False):
        self.block, self.rows, self.made, self.unowned = block, rows, made, unowned
        self.policy: Policy = rows.policy
        self.found: list[Measure] = []
        self.spent: list[Hint | Bounds] = []  # the named arguments of their calls

    def add(self, node: exp.Expr, column: str, text: str = "") -> Measure:
        """The measure of an aggregate call that stands in this column. text: what it is part of, where that is more
        than itself. Raises DP203, DP204."""
        text = text or shown(node, bare=True)
        call, condition = unfiltered(node)
        self.check_unowned(call, condition, node)
        named = arguments_of(call)
        statistic, argument, second = self._statistic(call, condition, span_of(node))
        hint = named.hint
        self.spent += named.given
        per_group = _per_group(statistic, argument, named.per_group) if named.per_group is not None else None
        for i, measure in enumerate(self.found):
            same = is_same(measure.argument, argument) and is_same(measure.second, second)
            if statistic in _SYMMETRIC and second is not None:
                same |= is_same(measure.argument, second) and is_same(measure.second, argument)
            if measure.statistic is statistic and same and measure.per_group == per_group:
                if hint is not None and hint not in measure.hints:
                    self.found[i] = replace(measure, hints=(*measure.hints, hint))
                return self.found[i]
        hints = (hint,) if hint is not None else ()
        name = f"a{len(self.found) + 1}"
        measure = Measure(name, statistic, argument, text, column, span_of(node), second, hints, per_group)
        self.found.append(measure)
        return measure

    def check_unowned(self, call: exp.Expr, condition: exp.Expr | None, node: exp.Expr) -> None:
        """Raises DP212 unless the aggregate passes over rows whose private side is missing: by PRIVACY's rule it may
        then be computed without them."""
        if not self.unowned:
            return
        private = {s.alias for s in self.block.sources if not is_public(s)}
        if condition is not None and is_missing(condition, private, predicate=True):
            return
        argument = call.this.expressions[0] if isinstance(call.this, exp.Distinct) else call.this
        of_value = isinstance(argument, exp.Expr) and not isinstance(argument, exp.Star)
        if of_value and is_missing(argument, private, predicate=isinstance(call, exp.CountIf)):
            return
        if type(call) in _OF_TWO and is_missing(call.expression, private):
            return
        reason = f"rows of the public side without a partner belong to no {self.policy.unit}, and this counts them"
        first = next(s for s in self.block.sources if s.alias in private)
        listed = first.table.columns if isinstance(first, TableSource) else [name for name, _ in first.columns]
        column = f"{first.node.alias_or_name}.{next(iter(listed))}"
        raise refusal("DP212", reason, span=span_of(node), repair=f"count what has a partner: COUNT({column})")

    def _statistic(
        self, call: exp.Expr, condition: exp.Expr | None, span: Span | None
    ) -> tuple[Statistic, Scalar | None, Scalar | None]:
        """What is asked, and of which value or pair of values."""
        statistic = _OF_TWO.get(type(call))
        if statistic is None:
            return *self._of_one(call, condition, span), None
        if (bounds := arguments_of(call).per_row) is not None:
            reason = f"{bounds.name} => is for sums, means and variances of one value"
            raise refusal("DP203", reason, span=bounds.span, repair="bound each of them: LEAST(GREATEST(x, 0), 100)")
        pair = [self._bounded(tree, condition) for tree in (call.this, call.expression)]
        first, second = reversed(pair) if isinstance(call, exp.RegrAvgx) else pair
        return statistic, first, second

    def _of_one(self, call: exp.Expr, condition: exp.Expr | None, span: Span | None) -> tuple[Statistic, Scalar | None]:
        per_row = arguments_of(call).per_row
        if per_row is not None and type(call) not in _OF_ONE:
            reason = f"{per_row.name} => is for sums, means and variances of one value"
            raise refusal("DP203", reason, span=per_row.span, repair="leave it out here")
        match call:
            case exp.CountIf():
                predicate = (
                    call.this if condition is None else exp.And(this=wrapped(call.this), expression=wrapped(condition))
                )
                return Statistic.ROWS, self._predicate(predicate)
            case exp.Count() if call.args.get("expressions"):
                raise several(call, span)
            case exp.Count() if call.this is None or isinstance(call.this, exp.Star):
                return Statistic.ROWS, self._predicate(condition)
            case exp.Count() if isinstance(call.this, exp.Distinct):
                return self._distinct(call.this, condition, span)
            case exp.Count():
                return Statistic.VALUES, self._value(call.this, condition)
            case _ if type(call) in _OF_ONE:
                if isinstance(call.this, exp.Distinct):
                    name = name_of(call)
                    reason = f"{name} of DISTINCT values is not answered"
                    raise refusal("DP203", reason, span=span, repair="leave DISTINCT out")
                return _OF_ONE[type(call)], self._bounded(call.this, condition, per_row)
            case _:
                reason = f"{name_of(call)} over private rows is not answered"
                raise refusal("DP203", reason, span=span, repair=instead_of(call, _ANSWERED, self._sample(call)))

    def _sample(self, call: exp.Expr) -> str:
        """A literal of the type of what an aggregate takes."""
        argument = argument_of(call)
        try:
            return sample(self._value(argument, None).facts.type.kind) if argument is not None else ""
        except Error:
            return sample(Kind.INTEGER)

    def _distinct(
        self, distinct: exp.Distinct, condition: exp.Expr | None, span: Span | None
    ) -> tuple[Statistic, Scalar | None]:
        """COUNT(DISTINCT x). Where x is, unchanged, the unit of the row it counts units: each once in a group, however
        many rows it has. In a LEFT JOINed table the unit may be missing."""
        argument = distinct.expressions[0].unnest()
        if len(distinct.expressions) > 1 or isinstance(argument, exp.Tuple) or is_star(argument):
            raise several_distinct(distinct, span)
        unit = self._unit(argument)
        if unit is None:
            return Statistic.DISTINCT, self._value(argument, condition)
        present = exp.Not(this=exp.Is(this=argument.copy(), expression=exp.null()))
        optional = is_optional(self.block, unit, argument.name)
        both = [c for c in (condition, present if optional else None) if c is not None]
        return Statistic.UNITS, self._predicate(conjunction(both) if both else None)

    def _unit(self, argument: exp.Expr) -> Source | None:
        """The FROM item whose unit this is, unchanged."""
        if not isinstance(argument, exp.Column):
            return None
        source = next((s for s in self.block.sources if s.alias == argument.table), None)
        return source if source is not None and is_unit(source, argument.name, self.policy) else None

    def _predicate(self, condition: exp.Expr | None) -> Scalar | None:
        if condition is None:
            return None
        self._check_row(condition)
        condition = self.rows.expression(self.block, self.made, condition, "FILTER")
        return lower_condition(condition, self.made.kept, "FILTER")

    def _value(self, argument: exp.Expr, condition: exp.Expr | None) -> Scalar:
        """The argument, NULL where a FILTER is not true."""
        self._check_row(argument)
        if condition is not None:
            self._check_row(condition)
            argument = exp.Case(ifs=[exp.If(this=condition.copy(), true=argument.copy())])
        return lower_scalar(self.rows.expression(self.block, self.made, argument, "an aggregate"), self.made.kept)

    def _bounded(self, argument: exp.Expr, condition: exp.Expr | None, per_row: Bounds | None = None) -> Scalar:
        value = self._value(argument, condition)
        if value.facts.type.kind is Kind.BOOLEAN:
            value = self._value(exp.cast(argument.copy(), exp.DataType.build("BIGINT")), condition)
        if not value.facts.is_numeric:
            reason, text = f"{value.facts.type} values cannot be summed", shown(argument)
            repair = f"take a part of it, as in year({text})"
            if value.facts.type.kind is Kind.VARCHAR:
                repair = f"convert and bound it: LEAST(GREATEST(TRY_CAST({text} AS BIGINT), 0), 100)"
            raise refusal("DP232", reason, span=span_of(argument), repair=repair)
        if per_row is not None:
            value = clamped(value, per_row)
        if not value.facts.is_bounded:
            raise self._unbounded(argument)
        return value

    def _unbounded(self, argument: exp.Expr) -> Error:
        columns = [c for c in argument.find_all(exp.Column) if nested_in(c) is None]
        unbounded = [c for c in columns if (f := self.made.kept.get((c.table, c.name))) is None or not f.is_bounded]
        names = sorted({called(c) for c in unbounded or columns})
        text = shown(argument)
        reason = f"{text} has no bounds, so one {self.policy.unit} could move the result without limit"
        owner = f", or ask the owner for bounds of {', '.join(names)}" if unbounded else ""
        repair = f"give bounds: LEAST(GREATEST({text}, 0), 100){owner}"
        return refusal("DP204", reason, span=span_of(argument), repair=repair)

    def _check_row(self, tree: exp.Expr) -> None:
        for node in tree.walk():
            other = isinstance(node, exp.Window | exp.Query) or (isinstance(node, exp.Exists) and not _is_nested(node))
            if is_aggregate(node) or other:
                raise not_single(node)
            hidden = isinstance(node, exp.Column) and (node.table, node.name) not in self.made.scope
            if hidden and nested_in(node) is None:
                repair = f"it can be counted: COUNT(DISTINCT {node.name})"
                raise refusal("DP206", f"{node.name} is not listed in the policy", span=span_of(node), repair=repair)


def _per_group(statistic: Statistic, argument: Scalar | None, bounds: Bounds) -> tuple[Fraction, Fraction] | None:
    """Between what the part of a unit in a group is clamped; None where that changes nothing. Raises DP203 for
    aggregates that have no such part, DP120 for bounds that leave nothing of a mean. (AVG is then, as in BigQuery, the
    mean of the units' own means.)"""
    if statistic in (Statistic.ROWS, Statistic.VALUES, Statistic.SUM):
        return bounds.lo, bounds.hi
    if statistic is Statistic.AVG and argument is not None:
        lo, hi = argument.facts.lo, argument.facts.hi
        assert isinstance(lo, Fraction) and isinstance(hi, Fraction)
        if max(lo, bounds.lo) > min(hi, bounds.hi):
            raise empty(bounds, lo, hi)
        return bounds.lo, bounds.hi
    if statistic is Statistic.UNITS and bounds.lo <= 1 <= bounds.hi:
        return None
    reason = f"{bounds.name} => is for COUNT, SUM and AVG, of which a unit has a part in each group"
    repair = f"clamp each row: {PER_ROW} => (0, 100)"
    if statistic in (Statistic.UNITS, Statistic.DISTINCT):
        repair = "leave it out: a unit counts once in a group" if statistic is Statistic.UNITS else "leave it out here"
    raise refusal("DP203", reason, span=bounds.span, repair=repair)


def unfiltered(node: exp.Expr) -> tuple[exp.Expr, exp.Expr | None]:
    """An aggregate without its FILTER clauses, and what they say."""
    call, condition = node, None
    while isinstance(call, exp.Filter):
        more = call.expression.this
        condition = more if condition is None else exp.And(this=wrapped(more), expression=wrapped(condition))
        call = call.this
    return call, condition


def _is_nested(node: exp.Exists) -> bool:
    """Whether it is an EXISTS whose query has been resolved."""
    return isinstance(node.this, exp.Expr) and nested_in(node.this) is not None
