"""privacy_unit_column: who is protected is the policy's to say. A statement may name the column that it takes for the
unit, and is refused where that is another one; it never changes the unit."""

from __future__ import annotations

from dpsql.compile.blocks import PrivateBlock
from dpsql.compile.clauses import Clause
from dpsql.compile.joins import is_public
from dpsql.compile.labels import is_unit
from dpsql.errors import refusal
from dpsql.policy.model import Policy


def check_unit_column(clause: Clause, block: PrivateBlock, policy: Policy) -> None:
    """Raises DP120 unless the column that a clause names, if it names one, is the unit of the block's private rows."""
    if not clause.unit:
        return
    *table, column = clause.unit
    qualifier = ".".join(table).lower().removeprefix("main.")
    private = [s for s in block.sources if not is_public(s)]
    named = [
        (source, actual)
        for source in private
        for called, actual in source.columns
        if called.lower() == column.lower() and qualifier in ("", source.node.alias_or_name.lower())
    ]
    if any(is_unit(source, actual, policy) for source, actual in named):
        return
    units = [
        f"{source.node.alias_or_name}.{called}" if len(private) > 1 else called
        for source in private
        for called, actual in source.columns
        if is_unit(source, actual, policy)
    ]
    shown = ".".join(clause.unit)
    if units:
        reason = f"{shown} is not the privacy unit: the policy protects each {policy.unit}, which is {units[0]} here"
        repair = f"write privacy_unit_column = {units[0]}, or leave it out"
    else:
        reason = f"{shown} is not the privacy unit: the policy protects each {policy.unit}, which no column here is"
        repair = "leave privacy_unit_column out: the unit is carried along unseen"
    raise refusal("DP120", reason, span=clause.span_of("privacy_unit_column"), repair=repair)
