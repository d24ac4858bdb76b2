"""Lower windows over rows of units: only such as stay within one unit.

The unit is always among what a window is partitioned by. Functions whose result depends on the order of rows have the
ranks of rows as last order, so that ties do not make it depend on how rows happen to lie; those that treat ties alike
(RANK, DENSE_RANK, PERCENT_RANK, CUME_DIST, and aggregates over RANGE and GROUPS frames) must not have them.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

from sqlglot import exp

from dpsql.compile.aggregates import aggregate
from dpsql.compile.blocks import PrivateBlock, is_optional
from dpsql.compile.grid import BIGINT, DOUBLE
from dpsql.compile.ir import Facts, Scalar, Window, WindowCall
from dpsql.compile.labels import identify, is_unit, labels_in, unit_called
from dpsql.compile.lowered import Lowered
from dpsql.compile.parse import span_of
from dpsql.compile.ranges import Interval, facts_of
from dpsql.compile.scalars import lower_scalar, narrow
from dpsql.compile.trees import column, rebuild, shown
from dpsql.errors import refusal
from dpsql.policy.model import Policy

if TYPE_CHECKING:
    from dpsql.compile.rows import RowLowerer

_TIED = (exp.Rank, exp.DenseRank, exp.PercentRank, exp.CumeDist)
_POSITION = (exp.RowNumber, exp.Rank, exp.DenseRank)
_SHARE = (exp.PercentRank, exp.CumeDist)
_PICKED = (exp.Lag, exp.Lead, exp.FirstValue, exp.LastValue, exp.NthValue)
_SUMMED = (exp.Count, exp.CountIf, exp.Sum, exp.Avg, exp.Min, exp.Max, exp.LogicalAnd, exp.LogicalOr, exp.Filter)
CALLS = (*_POSITION, *_SHARE, *_PICKED, exp.Ntile, exp.Count, exp.Sum, exp.Min, exp.Max, exp.LogicalAnd, exp.LogicalOr)
"""The nodes of a WindowCall's function that are computed over the window."""

_DIGITS = 10
"""Of the longest number that is read."""


def computed(rows: RowLowerer, block: PrivateBlock, made: Lowered) -> list[exp.Expr]:
    """The items of a block of rows, with its windows made columns of `made`, and its QUALIFY applied."""
    items = [item.tree for item in block.items]
    everything = [*items, *([block.qualify] if block.qualify is not None else [])]
    if not any(isinstance(n, exp.Window) for tree in everything for n in tree.walk()):
        if block.qualify is not None:
            reason = "QUALIFY chooses by a window, and there is none"
            raise refusal("DP221", reason, span=span_of(block.qualify), repair="use WHERE")
        return [_shown(rows, block, made, tree) for tree in items]
    alias = rows.name("windows")
    calls: list[WindowCall] = []
    written: list[exp.Expr] = []

    def replaced(node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Window):
            if node not in written:
                written.append(node)
                calls.append(_call(rows, block, made, node, f"w{len(written)}", facts))
            return column(alias, f"w{written.index(node) + 1}")
        if isinstance(node, exp.Column | exp.Star) or not any(True for _ in node.iter_expressions()):
            return node.copy()
        return rebuild(node, replaced)

    facts: list[Facts] = []
    items = [replaced(tree) for tree in items]
    qualify = replaced(block.qualify) if block.qualify is not None else None
    made.relation = Window(made.relation, alias, tuple(calls))
    made.scope |= {(alias, call.name): f for call, f in zip(calls, facts, strict=True)}
    made.numbers |= {(alias, call.name) for call in calls if _numbers(call)}
    if qualify is not None:
        rows.filter(block, made, qualify, "QUALIFY")
        before = made.kept
        made.narrowed = {
            **made.narrowed,
            **{n: f for n, f in narrow(before, qualify).items() if before.get(n) is not f},
        }
        made.count_passing()
    return [_shown(rows, block, made, tree) for tree in items]


def _numbers(call: WindowCall) -> bool:
    """Whether a call numbers the rows of each unit: 1, 2, 3 and no number twice, since the SQL parts them by the unit
    alone."""
    return isinstance(call.function, exp.RowNumber) and not call.partition


def _shown(rows: RowLowerer, block: PrivateBlock, made: Lowered, tree: exp.Expr) -> exp.Expr:
    return tree if rows.is_hidden(block, tree) else rows.expression(block, made, tree, "SELECT")


def _call(
    rows: RowLowerer, block: PrivateBlock, made: Lowered, node: exp.Window, name: str, facts: list[Facts]
) -> WindowCall:
    span = span_of(node)
    if node.args.get("alias") or str(node.args.get("over") or "OVER").upper() != "OVER" or node.args.get("first"):
        repair = "write PARTITION BY and ORDER BY in OVER (...) itself"
        raise refusal("DP222", "named windows over private rows are not answered", span=span, repair=repair)
    partition = node.args.get("partition_by") or []
    policy = rows.policy
    if not identify([labels_in(tree, block.sources, policy) for tree in partition], policy):
        reason = f"a window over rows of several {policy.unit}s is not answered"
        unit = unit_called(block.sources, policy)
        repair = f"write PARTITION BY {', '.join([unit or 'u', *map(shown, partition)])}; a window over groups is free"
        order = node.args.get("order")
        if isinstance(node.this, exp.Ntile | exp.PercentRank | exp.CumeDist) and order is not None:
            x = shown(order.expressions[0].this)
            repair = f"choose the limits of the parts yourself, CASE WHEN {x} < 10 THEN 1 ELSE 2 END, or {repair}"
        if unit is None:
            repair = f"select the {policy.unit} in the subquery as u, and {repair}"
        raise refusal("DP222", reason, span=span, repair=repair)
    scope = made.kept
    kept = [
        lower_scalar(rows.expression(block, made, tree, "PARTITION BY"), scope)
        for tree in partition
        if not (rows.is_hidden(block, tree) or _is_unit(block, tree, policy))
    ]
    order = []
    for item in node.args["order"].expressions if node.args.get("order") is not None else ():
        ordered = item if isinstance(item, exp.Ordered) else exp.Ordered(this=item)
        key = lower_scalar(rows.expression(block, made, ordered.this, "ORDER BY"), scope).tree
        order.append(exp.Ordered(**{**ordered.args, "this": key}))
    frame = node.args.get("spec")
    function = node.this
    if isinstance(function, exp.IgnoreNulls | exp.RespectNulls):
        raise refusal("DP222", "IGNORE NULLS over private rows is not answered", span=span, repair="leave it out")
    for argument in function.iter_expressions():
        rows.check_units(block, argument)
    value = _value(function, made)
    by_rows = frame is not None and str(frame.args.get("kind") or "").upper() == "ROWS"
    ties = not isinstance(function, _TIED) and (by_rows or not isinstance(function, _SUMMED))
    if frame is not None:
        _check_frame(frame, ties and bool(order))
    facts.append(value.facts)
    return WindowCall(name, value.tree, tuple(kept), tuple(order), frame.copy() if frame is not None else None, ties)


def _is_unit(block: PrivateBlock, tree: exp.Expr, policy: Policy) -> bool:
    """Whether an expression is the unit of the row, in every row: parting a unit's rows by it does nothing."""
    source = next((s for s in block.sources if isinstance(tree, exp.Column) and s.alias == tree.table), None)
    return source is not None and is_unit(source, tree.name, policy) and not is_optional(block, source, tree.name)


def _check_frame(frame: exp.WindowSpec, ties: bool) -> None:
    """A frame whose ends are whole numbers of rows, or its own edges."""
    kind = str(frame.args.get("kind") or "ROWS").upper()
    for key in ("start", "end"):
        end = frame.args.get(key)
        number = _number(end) is not None
        word = isinstance(end, str) and end.upper() in ("UNBOUNDED", "CURRENT ROW")
        if not (end is None or word or (number and kind in ("ROWS", "GROUPS"))) or (
            ties and kind != "ROWS" and not word
        ):
            repair = "use ROWS BETWEEN n PRECEDING AND CURRENT ROW"
            raise refusal("DP222", "this frame is not answered over private rows", span=span_of(frame), repair=repair)
    if frame.args.get("exclude"):
        raise refusal("DP222", "EXCLUDE is not answered over private rows", span=span_of(frame), repair="leave it out")


def _value(function: exp.Expr, made: Lowered) -> Scalar:
    """The function in total form, over a window that is put around its call when it is written."""
    span = span_of(function)
    if isinstance(function, _SUMMED):
        scalar = aggregate(function, made.kept, made.most)
        return replace(scalar, facts=replace(scalar.facts, nullable=True))
    if isinstance(function, _POSITION):
        ends = Interval(Fraction(1), Fraction(made.most))
        return Scalar(type(function)(), facts_of(BIGINT, ends, ends, nullable=False), span)
    if isinstance(function, _SHARE):
        ends = Interval(Fraction(0), Fraction(1))
        return Scalar(type(function)(), facts_of(DOUBLE, ends, ends, nullable=False), span)
    if isinstance(function, exp.Ntile):
        most = _whole(function.this)
        ends = Interval(Fraction(1), Fraction(most))
        return Scalar(exp.Ntile(this=exp.Literal.number(most)), facts_of(BIGINT, ends, ends, nullable=False), span)
    if isinstance(function, _PICKED):
        value = lower_scalar(function.this, made.kept)
        tree = type(function)(this=value.tree)
        offset = function.args.get("offset")
        if offset is not None:
            tree.set("offset", exp.Literal.number(_whole(offset)))
        if function.args.get("default") is not None:
            raise refusal("DP222", "a default of LAG and LEAD is not answered", span=span, repair="use COALESCE")
        return Scalar(tree, replace(value.facts, nullable=True), span)
    repair = "use ROW_NUMBER, RANK, LAG, LEAD, FIRST_VALUE, COUNT, SUM, AVG, MIN or MAX"
    raise refusal("DP222", "this window function is not answered over private rows", span=span, repair=repair)


def _whole(node: exp.Expr) -> int:
    number = _number(node)
    if number:
        return number
    raise refusal("DP222", "a whole number from 1 on stands here", span=span_of(node), repair="write 1")


def _number(node: object) -> int | None:
    """A literal that is a whole number of 31 bits. Of one that 64 bits do not hold DuckDB would say so only where there
    is a row to compute a frame for: an exact bit."""
    if isinstance(node, exp.Literal) and not node.is_string and node.name.isdigit() and len(node.name) <= _DIGITS:
        return number if (number := int(node.name)) < 1 << 31 else None
    return None
