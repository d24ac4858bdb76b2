"""The one table of keys: every key that a policy file may hold, and the shape of its value as JSON Schema.

`problems` takes the names from it, `schema` makes docs/policy.schema.json of it. Shapes are for editors: what they
accept, the readers still judge; what they refuse, the readers refuse too. TOML's dates and timestamps are strings to
an editor, so a pattern stands for them.
"""

from __future__ import annotations

from collections.abc import Mapping

from dpsql.policy.readers import DURATION, LARGEST_BOUND, MEMORY, MOST_EPSILON, MOST_FAILURES, MOST_ROWS, MOST_VALUES

Shape = Mapping[str, object]

_WORDS = {"type": "string"}
_NAME = {"type": "string", "minLength": 1, "maxLength": 128, "pattern": r'^[^$"][^"]*$'}
_NAMES = {"type": "array", "items": _NAME, "minItems": 1, "uniqueItems": True}
_DECIMAL = r"^[0-9]{1,20}(\.[0-9]{1,60})?([eE][+-]?[0-9]{1,3})?$"
_AMOUNT = {"anyOf": [{"type": "integer", "minimum": 0}, {"type": "string", "pattern": _DECIMAL}]}
_EPSILON = {
    "anyOf": [{"type": "integer", "minimum": 1, "maximum": MOST_EPSILON}, {"type": "string", "pattern": _DECIMAL}]
}
_ROWS = {"type": "integer", "minimum": 1, "maximum": MOST_ROWS}
_MOMENT = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}([Tt ][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]+)?)?)?$"
_NUMBER = {"type": "number", "minimum": -LARGEST_BOUND, "maximum": LARGEST_BOUND}
_BOUND = {"anyOf": [_NUMBER, {"type": "string", "pattern": _MOMENT}]}


def _said(shape: Shape, description: str) -> Shape:
    return {**shape, "description": description}


SHAPES: Mapping[str, Mapping[str, Shape]] = {
    "file": {
        "version": _said({"const": 1}, "the version of this format"),
        "reveal_timing": _said({"type": "boolean"}, "whether analysts are told how long statements took"),
        "unit": {"$ref": "#/$defs/unit"},
        "budget": {"$ref": "#/$defs/budget"},
        "engine": {"$ref": "#/$defs/engine"},
        "tables": _said(
            {
                "type": "object",
                "minProperties": 1,
                "propertyNames": _NAME,
                "additionalProperties": {"$ref": "#/$defs/table"},
            },
            "what may be seen, by the name that statements use",
        ),
    },
    "unit": {
        "name": _said({"type": "string", "minLength": 1, "pattern": r"\S"}, "the word for one protected unit"),
    },
    "budget": {
        "account": _said(
            {"type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"}, "what the ledger books under"
        ),
        "epsilon": _said(_EPSILON, "all that the account may ever spend, exact: in quotes"),
        "delta": _said(_AMOUNT, "chance left outside of the promise"),
        "per_query_epsilon": _said(_EPSILON, "what a statement costs where the analyst says nothing"),
        "max_query_epsilon": _said(_EPSILON, "the most that one statement may cost"),
        "per_query_delta": _said(_AMOUNT, "what a statement with private keys spends of delta"),
        "min_units_per_group": _said(_ROWS, "a private key is shown only where it seems to have so many units"),
        "selection": _said({"enum": ["exponential", "permute_and_flip"]}, "how one of several candidates is chosen"),
        "composition": _said({"enum": ["basic", "gaussian"]}, "how charges add up"),
        "renew": _said({"enum": ["never", "day", "week", "month"]}, "when the budget is filled again"),
        "per_analyst": _said({"type": "boolean"}, "one budget for each analyst, who do not pool their answers"),
        "joint_epsilon": _said(_EPSILON, "with per_analyst: all that all analysts together may spend"),
        "max_failures": _said(
            {"type": "integer", "minimum": 1, "maximum": MOST_FAILURES},
            "engine failures after which the account takes no more statements",
        ),
    },
    "engine": {
        "memory_limit": _said({"type": "string", "pattern": f"^{MEMORY}$"}, "what one engine may hold in memory"),
        "statement_timeout": _said({"type": "string", "pattern": f"^{DURATION}$"}, "when an engine is stopped"),
    },
    "table": {
        "public": _said({"type": "boolean"}, "true: nobody's rows, answered exactly"),
        "source": _said(
            {"type": "string", "minLength": 1, "maxLength": 1000},
            "table or view of the database, or a file or folder relative to the policy",
        ),
        "unit": _said(
            {
                "anyOf": [
                    _NAME,
                    {
                        "type": "object",
                        "additionalProperties": False,
                        "required": ["via", "to"],
                        "properties": {"via": {"$ref": "#/$defs/path/via"}, "to": {"$ref": "#/$defs/path/to"}},
                    },
                ]
            },
            'who owns a row: a column, a path to another table, or "row"',
        ),
        "key": _said(_NAMES, "the columns that identify a row"),
        "max_rows_per_unit": _said(_ROWS, "rows of one unit that count"),
        "max_groups_per_unit": _said(_ROWS, "groups to which one unit can contribute"),
        "max_rows_per_group": _said(_ROWS, "rows that one unit can contribute to one group"),
        "max_rows_per_unit_hard": _said(_ROWS, "how high an analyst may set max_rows_per_unit"),
        "max_groups_per_unit_hard": _said(_ROWS, "how high an analyst may set max_groups_per_unit"),
        "max_rows_per_group_hard": _said(_ROWS, "how high an analyst may set max_rows_per_group"),
        "limit": _said({"enum": ["rows", "late"]}, "whether max_rows_per_unit acts before WHERE or after it"),
        "cluster_by": _said({"const": ["unit"]}, "rows of a unit are kept together in the snapshot"),
        "columns": _said(
            {
                "type": "object",
                "minProperties": 1,
                "propertyNames": _NAME,
                "additionalProperties": {"$ref": "#/$defs/column"},
            },
            "what may be seen, a line for each column",
        ),
        "references": _said({"type": "array", "items": {"$ref": "#/$defs/reference"}}, "references of several columns"),
    },
    "path": {
        "via": _said({"anyOf": [_NAME, _NAMES]}, "this table's columns that hold the other's key"),
        "to": _said(_WORDS, "a private table that has a key"),
    },
    "reference": {
        "columns": _said(_NAMES, "columns of this table"),
        "table": _said(_WORDS, "the public table"),
        "target": _said(_NAMES, "its key, in the order of columns"),
    },
    "column": {
        "bounds": _said({"type": "array", "items": _BOUND, "minItems": 2, "maxItems": 2}, "lowest and highest value"),
        "step": _said(
            {"anyOf": [{"type": "number", "exclusiveMinimum": 0}, {"type": "string", "pattern": _DECIMAL}]},
            "the grid of a DOUBLE column",
        ),
        "values": _said(
            {
                "type": "array",
                "items": {"type": ["number", "string", "boolean"]},
                "minItems": 1,
                "maxItems": MOST_VALUES,
                "uniqueItems": True,
            },
            "the public keys: all values that a group can have",
        ),
        "references": _said({"type": "string", "pattern": r"^.+\..+$"}, "table.column of a public table's key"),
        "unit_of_measure": _said(_WORDS, "shown beside answers"),
        "description": _said(_WORDS, "shown by DESCRIBE"),
    },
}
"""By the kind of section that a key stands in."""
