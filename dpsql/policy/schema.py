"""The JSON Schema of a policy file, made from the table of keys; published as docs/policy.schema.json.

It is a help for editors, which then complete keys and mark mistakes. It knows shapes alone: that names exist, that
limits and bounds fit each other is known to `load_policy`.
"""

from __future__ import annotations

import json

from dpsql.policy.keys import SHAPES, Shape

_REQUIRED = {
    "file": ["version", "unit", "budget", "tables"],
    "unit": ["name"],
    "budget": ["epsilon", "per_query_epsilon"],
    "reference": ["columns", "table"],
}
_OF_UNITS = [
    key for key in SHAPES["table"] if key.startswith("max_") or key in ("unit", "limit", "cluster_by")
]  # a public table has none of these
_IS_PUBLIC: Shape = {"properties": {"public": {"const": True}}, "required": ["public"]}
_IS_ROW: Shape = {"properties": {"unit": {"type": "string", "pattern": "^[Rr][Oo][Ww]$"}}, "required": ["unit"]}
_TABLE: Shape = {
    "if": _IS_PUBLIC,
    "then": {"properties": dict.fromkeys(_OF_UNITS, False)},
    "else": {
        "required": ["unit", "columns"],
        "if": _IS_ROW,
        "then": {"properties": {key: {"const": 1} for key in _OF_UNITS if key.startswith("max_")}},
        "else": {"required": ["max_rows_per_unit"]},
    },
    "dependentRequired": {
        "max_groups_per_unit_hard": ["max_groups_per_unit"],
        "max_rows_per_group_hard": ["max_rows_per_group"],
    },
}
_APART: Shape = {"properties": {"per_analyst": {"const": True}}, "required": ["per_analyst"]}
_BUDGET: Shape = {
    "if": _APART,
    "then": {"required": ["joint_epsilon"]},
    "else": {"properties": {"joint_epsilon": False}},
}
_COLUMN: Shape = {"dependentRequired": {"step": ["bounds"]}, "not": {"required": ["values", "references"]}}


def policy_schema() -> dict[str, object]:
    """JSON Schema (2020-12) of a policy file."""
    definitions: dict[str, object] = {"path": SHAPES["path"]}
    for kind in ("unit", "budget", "engine", "table", "column", "reference"):
        definitions[kind] = _section(kind)
    definitions["table"] = {**_section("table"), **_TABLE}
    definitions["budget"] = {**_section("budget"), **_BUDGET}
    definitions["column"] = {**_section("column"), **_COLUMN}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "dpsql policy",
        **_section("file"),
        "$defs": definitions,
    }


def rendered() -> str:
    """As the text of the published file."""
    return json.dumps(policy_schema(), indent=2, ensure_ascii=False) + "\n"


def _section(kind: str) -> dict[str, object]:
    section: dict[str, object] = {"type": "object", "additionalProperties": False, "properties": dict(SHAPES[kind])}
    if kind in _REQUIRED:
        section["required"] = _REQUIRED[kind]
    return section
