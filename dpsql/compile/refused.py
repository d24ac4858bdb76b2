"""Refusals of rows of single units where only aggregates may stand, in words of what was asked."""

from __future__ import annotations

from sqlglot import exp

from dpsql.compile.blocks import Private, PrivateBlock, PrivateUnion, Shape, aggregates, is_aggregate, leaves
from dpsql.compile.labels import identify, labels_in, unit_called
from dpsql.compile.parse import span_of
from dpsql.compile.trees import shown
from dpsql.errors import Error, refusal
from dpsql.policy.model import Policy

_UNAGGREGATED = "a subquery over private rows can stand here only if it aggregates them"


def combined(private: Private, node: exp.Expr, policy: Policy) -> Error:
    """The refusal of a set operation whose rows belong to units."""
    span = span_of(node)
    if isinstance(private, PrivateUnion):
        repair = "aggregate them: SELECT COUNT(*) FROM (... UNION ALL ...) AS t"
        return refusal("DP201", f"this returns rows of single {policy.unit}s", span=span, repair=repair)
    repair = "aggregate each one first; instead of EXCEPT and INTERSECT write NOT IN and IN"
    return refusal("DP221", "rows of several private queries cannot be combined here", span=span, repair=repair)


def rows(block: PrivateBlock, policy: Policy, *, at_top: bool) -> Error:
    """The refusal of a SELECT that gives rows of units, at the top of the statement or in a public query."""
    span = span_of(block.items[0].tree) if block.items else span_of(block.node)
    if block.shape is Shape.PER_UNIT:
        return _groups(block, policy)
    if not at_top:
        repair = "aggregate in it: (SELECT AVG(x) FROM ...), or (SELECT COUNT(*) FROM ...) > 0 for EXISTS"
        return refusal("DP220", _UNAGGREGATED, span=span_of(block.node), repair=repair)
    window = next((n for i in block.items for n in i.tree.walk() if isinstance(n, exp.Window)), None)
    if window is not None:
        reason = f"a window leaves rows of single {policy.unit}s"
        repair = "aggregate first; a window over the groups is free, such as RANK() OVER (ORDER BY COUNT(*))"
        if window.args.get("partition_by") and is_aggregate(window.this):
            parts = ", ".join(map(shown, window.args["partition_by"]))
            repair = f"group instead: SELECT {parts}, {shown(window.this)} ... GROUP BY {parts}"
        return refusal("DP222", reason, span=span_of(window), repair=repair)
    repair = "aggregate them: COUNT(*), SUM(column), AVG(column), with GROUP BY where you want groups"
    return refusal("DP201", f"this returns rows of single {policy.unit}s", span=span, repair=repair)


def nested(private: Private, policy: Policy) -> Error:
    """The refusal of a subquery among groups over units, which is none of these."""
    span = span_of(private.node)
    if isinstance(private, PrivateBlock) and any(True for i in private.items for _ in aggregates(i.tree)):
        reason = f"this subquery has a value for each {policy.unit}, and here stands one for each group"
        repair = "aggregate its values: AVG((SELECT ...)), SUM((SELECT ...))"
        return refusal("DP220", reason, span=span, repair=repair)
    return refusal("DP220", _UNAGGREGATED, span=span, repair="aggregate in it, such as (SELECT AVG(x) FROM ...)")


def _groups(block: PrivateBlock, policy: Policy) -> Error:
    """The refusal of groups that each belong to one unit, naming the keys that make them so."""
    keys = [leaf for element in block.groups for leaf in leaves(element)]
    labelled = [(t, labels_in(t, block.sources, policy)) for t in keys]
    alone = [t for t, labels in labelled if identify([labels], policy)] or [t for t, ls in labelled if ls]
    names = [shown(tree) for tree in alone]
    whom = policy.unit
    reason = f"grouping by {' and '.join(names) or 'these keys'} gives rows of single {whom}s"
    unit = unit_called(block.sources, policy)
    count = f" (COUNT(DISTINCT {unit}) counts the {whom}s)" if unit else ""
    repair = (
        f"leave {', '.join(names)} out of SELECT, GROUP BY and ORDER BY{count},"
        " or aggregate these groups: SELECT COUNT(*) FROM (...) AS t"
    )
    return refusal("DP206", reason, span=span_of(alone[0]) if alone else span_of(block.node), repair=repair)
