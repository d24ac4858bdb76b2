"""A second opinion on generated SQL: what DuckDB's own parser sees in it, before an engine runs it.

Promise: `check` passes only text in which DuckDB sees one SELECT, no base table but the given ones, no function but the
given ones, and no construct that is not listed below. sqlglot wrote the text and believes it holds that; where the
two parsers disagree (a quoted name or string that sqlglot writes out as raw SQL, for instance), DuckDB is the one that
will run it. Unknown kinds, fields and values are refused, so a construct of a later DuckDB is, too.

How DuckDB names things, in lower case: operators are functions under their sign ("+", "-" for minus of one or two,
"//", "||"), LIKE is "~~", ILIKE "~~*", NOT LIKE "!~~", GLOB "~~~", EXTRACT "date_part", COUNT(*) "count_star" (but
"count" as a window), AT TIME ZONE "timezone", INTERVAL n DAY "to_days" and "trunc", a list "list_value", x[i]
"array_extract", x[i:j] "array_slice". Comparisons, AND, OR, NOT, IN, BETWEEN, IS NULL, IS DISTINCT FROM, COALESCE,
GROUPING, CASE and casts to built-in types are syntax, and always allowed. Names such as current_date and user look
like columns: where nothing in the text is called so, they count as functions.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import duckdb

from dpsql.errors import refusal

Shape = Mapping[str, object]

_WALK, _FREE, _NONE = "walk", "free", frozenset({None})
_NO = frozenset({False})
_BARE = frozenset({""})
_EMPTY = "empty"

_COMMON: Shape = dict.fromkeys(("class", "type", "alias", "query_location", "query_location_length"), _FREE)
_CALL: Shape = {
    "function_name": _FREE,
    "qualified_name": _FREE,
    "schema": _BARE,
    "catalog": _BARE,
    "arguments": _WALK,
    "distinct": _FREE,
    "is_legacy_function_call": _NO,
}

_EXPRESSIONS: dict[str, Shape] = {
    "COLUMN_REF": {"column_names": _FREE},
    "CONSTANT": {"literal": _FREE, "value": _FREE},
    "COMPARISON": {"left": _WALK, "right": _WALK},
    "CONJUNCTION": {"children": _WALK},
    "BETWEEN": {"input": _WALK, "lower": _WALK, "upper": _WALK},
    "OPERATOR": {"children": _WALK},
    "FUNCTION": {**_CALL, "filter": _WALK, "order_bys": _WALK, "is_operator": _FREE, "export_state": _NO},
    "WINDOW": {
        **_CALL,
        **dict.fromkeys(("partitions", "orders", "arg_orders", "start_expr", "end_expr", "filter_expr"), _WALK),
        **dict.fromkeys(("offset_expr", "default_expr"), _WALK),
        **dict.fromkeys(("start", "end", "exclude_clause", "ignore_nulls", "has_ignore_nulls"), _FREE),
    },
    "CASE": {"case_checks": _WALK, "else_expr": _WALK},
    "CAST": {"child": _WALK, "try_cast": _FREE, "type_expr": _WALK},
    "TYPE": {"catalog": _BARE, "schema": _BARE, "type_name": _FREE, "children": _WALK, "qualified_name": _FREE},
    "SUBQUERY": {
        "subquery_type": frozenset({"ANY", "SCALAR", "EXISTS", "NOT_EXISTS"}),
        "subquery": _WALK,
        "child": _WALK,
        "comparison_type": _FREE,
    },
    "STAR": {
        "relation_name": _FREE,
        "columns": _NO,
        "expr": _NONE,
        **dict.fromkeys(("exclude_list", "replace_list", "qualified_exclude_list", "rename_list"), _EMPTY),
    },
}
_EXPRESSIONS = {kind: {**_COMMON, **shape} for kind, shape in _EXPRESSIONS.items()}
_OPERATORS: Mapping[str, str] = {
    "OPERATOR_NOT": "",
    "OPERATOR_IS_NULL": "",
    "OPERATOR_IS_NOT_NULL": "",
    "OPERATOR_COALESCE": "",
    "COMPARE_IN": "",
    "COMPARE_NOT_IN": "",
    "GROUPING_FUNCTION": "",
    "ARRAY_CONSTRUCTOR": "list_value",
    "ARRAY_EXTRACT": "array_extract",
    "ARRAY_SLICE": "array_slice",
}
"""Operators, and the function as which each counts ("" = syntax)."""

_QUERY: Shape = {"type": _FREE, "modifiers": _WALK, "cte_map": _FREE}
_FROM: Shape = {**_COMMON, "sample": _NONE}
_ORDER: Shape = {"type": _FREE, "null_order": _FREE, "expression": _WALK}

_OTHERS: dict[str, Shape] = {
    "SELECT_NODE": {
        **_QUERY,
        **dict.fromkeys(("select_list", "from_table", "where_clause", "having", "qualify", "group_expressions"), _WALK),
        "group_sets": _FREE,
        "aggregate_handling": _FREE,
        "sample": _NONE,
    },
    "SET_OPERATION_NODE": {
        **_QUERY,
        "setop_type": frozenset({"UNION", "EXCEPT", "INTERSECT"}),
        "setop_all": _FREE,
        "children": _WALK,
        "left": _NONE,
        "right": _NONE,
    },
    "EMPTY": _FROM,
    "BASE_TABLE": {
        **_FROM,
        **dict.fromkeys(("schema_name", "table_name", "catalog_name", "qualified_name", "column_name_alias"), _FREE),
        "at_clause": _NONE,
    },
    "SUBQUERY": {**_FROM, "subquery": _WALK, "column_name_alias": _FREE},
    "JOIN": {
        **_FROM,
        **dict.fromkeys(("left", "right", "condition"), _WALK),
        **dict.fromkeys(("using_columns", "is_implicit", "nearest_count", "nearest_order_type"), _FREE),
        "join_type": frozenset({"INNER", "LEFT", "RIGHT", "FULL", "SEMI", "ANTI"}),
        "ref_type": frozenset({"REGULAR", "CROSS", "NATURAL"}),
        "delim_flipped": _NO,
        "duplicate_eliminated_columns": _EMPTY,
        "ranking_expression": _NONE,
        "nearest_approx": _NO,
    },
    "TABLE_FUNCTION": {**_FROM, "function": _WALK, "column_name_alias": _FREE, "with_ordinality": _FREE},
    "EXPRESSION_LIST": {**_FROM, "values": _WALK, "expected_names": _FREE, "expected_types": _EMPTY},
    "ORDER_MODIFIER": {"type": _FREE, "orders": _WALK},
    "LIMIT_MODIFIER": {"type": _FREE, "limit": _WALK, "offset": _WALK, "limit_type": _FREE},
    "DISTINCT_MODIFIER": {"type": _FREE, "distinct_on_targets": _WALK},
    "ORDER_DEFAULT": _ORDER,
    "ASCENDING": _ORDER,
    "DESCENDING": _ORDER,
    # Known by their fields: an argument, a branch of CASE, a subquery, a common table expression.
    "expression name": {"expression": _WALK, "name": _BARE},
    "then_expr when_expr": {"when_expr": _WALK, "then_expr": _WALK},
    "named_param_map node": {"node": _WALK, "named_param_map": _EMPTY},
    "aliases key_targets materialized payload_aggregates query_node": {
        "aliases": _FREE,
        "key_targets": _EMPTY,
        "materialized": _FREE,
        "payload_aggregates": _EMPTY,
        "query_node": _WALK,
    },
}


def _rules(shapes: Mapping[str, Shape]) -> dict[str, tuple[frozenset[str], tuple[tuple[str, object], ...]]]:
    """Of each kind the fields that are known, and those with a rule."""
    return {
        kind: (frozenset(shape), tuple((name, rule) for name, rule in shape.items() if rule is not _FREE))
        for kind, shape in shapes.items()
    }


_EXPRESSION_RULES, _OTHER_RULES = _rules(_EXPRESSIONS), _rules(_OTHERS)

_TYPES = frozenset(
    {"bool", "boolean", "varchar", "text", "string", "date", "time", "timestamp", "timestamptz", "interval", "uuid"}
    | {"tinyint", "smallint", "int", "integer", "bigint", "hugeint", "int128", "float", "real", "double", "decimal"}
    | {"utinyint", "usmallint", "uinteger", "ubigint", "uhugeint", "blob", "list", "struct", "timestamp with time zone"}
)
_TABLE_FUNCTIONS = frozenset({"range", "generate_series", "unnest"})
_LOOK_LIKE_COLUMNS = frozenset(
    {"current_date", "current_time", "current_timestamp", "localtime", "localtimestamp", "user", "current_user"}
    | {"session_user", "current_role", "current_catalog", "current_schema", "current_database"}
)


@dataclass(frozen=True, slots=True)
class Seen:
    """What DuckDB sees. tables: as written, "catalog.table" or "table", those of WITH left out.
    functions: lower case. strange: the first thing that is not known here, or ""."""

    tables: frozenset[str] = frozenset()
    functions: frozenset[str] = frozenset()
    strange: str = ""


class _Strange(Exception):
    pass


def check(sql: str, tables: frozenset[str], functions: frozenset[str]) -> None:
    """Raises InternalError (DP901) unless DuckDB sees one SELECT over these tables with these functions."""
    seen = read(sql)
    if seen.strange or not seen.tables <= tables or not seen.functions <= functions:
        unknown = sorted(seen.tables - tables) + sorted(seen.functions - functions)
        what = seen.strange or ", ".join(unknown[:3])
        raise refusal("DP901", f"the second parser refused the rewritten statement ({what[:100]})")


def read(sql: str) -> Seen:
    """What DuckDB's parser sees in the text. Nothing is looked up and nothing runs."""
    try:
        return _look(sql)
    except (_Strange, RecursionError, KeyError, TypeError, ValueError, AttributeError) as error:
        return Seen(strange=str(error) if isinstance(error, _Strange) else "an unknown form")


@dataclass(frozen=True, slots=True)
class Mistake:
    """Why a text is no SQL of DuckDB's. words: its parser's, of the text alone. at: the character where it stopped."""

    words: str
    at: int | None


def mistake(sql: str) -> Mistake | None:
    """What DuckDB's parser stumbles over in a text; None where it reads it. (To read it alone takes a tenth of what
    its tree takes, which is asked for where there is something to say.)"""
    try:
        _own().extract_statements(sql)
        return None
    except duckdb.Error:
        pass
    try:
        answer = json.loads(_serialised(sql))
    except (_Strange, ValueError):
        return Mistake("it cannot be read", None)
    words, at = str(answer.get("error_message", "")), str(answer.get("position", ""))
    if not at.isdecimal():
        return Mistake(words, None)
    return Mistake(words, len(sql.encode()[: int(at)].decode(errors="ignore")))


@lru_cache(maxsize=64)
def _look(sql: str) -> Seen:
    """A parser's answer depends on the text alone, and much of what dpsql writes it has written before (the outer SQL
    of many statements is the same): so an answer is kept under the whole text. What failed is not kept."""
    answer = json.loads(_serialised(sql))
    if answer.get("error") is not False or len(answer["statements"]) != 1:
        raise _Strange("not one SELECT")
    walk = _Walk()
    walk.visit(answer["statements"][0], frozenset())
    return Seen(frozenset(walk.tables), frozenset(walk.functions | (walk.maybe_columns - walk.called)))


_thread = threading.local()


def _own() -> duckdb.DuckDBPyConnection:
    """A DuckDB of this thread's own that can do nothing but parse."""
    connection: duckdb.DuckDBPyConnection | None = getattr(_thread, "connection", None)
    if connection is None:
        connection = duckdb.connect(":memory:")
        connection.execute(
            """SET threads = 1; SET autoload_known_extensions = false; SET autoinstall_known_extensions = false;
            PRAGMA disable_optimizer; -- of one call, where it takes a sixth of the time
            SET python_enable_replacements = false; SET enable_external_access = false; SET lock_configuration = true"""
        )
        (_thread.question,) = connection.extract_statements("SELECT json_serialize_sql(?)")
        _thread.connection = connection
    return connection


def _serialised(sql: str) -> str:
    """The syntax tree as JSON."""
    connection = _own()
    try:
        row = connection.execute(_thread.question, [sql]).fetchone()
    except duckdb.Error:
        raise _Strange("not SQL") from None
    return str(row[0]) if row else ""


class _Walk:
    """Visits every node once and checks its shape. `scope`: names that WITH defines around the node."""

    def __init__(self) -> None:
        self.tables: set[str] = set()
        self.functions: set[str] = set()
        self.called: set[str] = set()
        self.maybe_columns: set[str] = set()

    def visit(self, value: object, scope: frozenset[str]) -> None:
        if isinstance(value, dict):
            self._node(value, scope)
        elif isinstance(value, list):
            for item in value:
                self.visit(item, scope)
        else:
            raise _Strange("a bare value")

    def _node(self, node: dict[str, object], scope: frozenset[str]) -> None:
        kind = str(node.get("class") or node.get("type") or " ".join(sorted(node)))
        shape = (_EXPRESSION_RULES if "class" in node else _OTHER_RULES).get(kind)
        if shape is None:
            raise _Strange(kind.lower())
        if "cte_map" in node:
            scope = self._with(node["cte_map"], scope)
        self._names(kind, node, scope)
        known, rules = shape
        if not node.keys() <= known:
            raise _Strange(f"{kind.lower()} {min(node.keys() - known)}")
        for name, rule in rules:
            content = node.get(name)
            if rule is _WALK:
                if content is not None:
                    self.visit(content, scope)
            elif name not in node:
                continue
            elif rule is _EMPTY:
                if content != []:
                    raise _Strange(f"{kind.lower()} {name}")
            elif not isinstance(rule, frozenset) or isinstance(content, list | dict) or content not in rule:
                raise _Strange(f"{kind.lower()} {name}")

    def _with(self, ctes: object, scope: frozenset[str]) -> frozenset[str]:
        """Common table expressions in order: each sees those before it."""
        if not isinstance(ctes, dict) or set(ctes) != {"map"}:
            raise _Strange("with")
        for entry in ctes["map"]:
            if set(entry) != {"key", "value"}:
                raise _Strange("with")
            self.visit(entry["value"], scope)
            scope |= {str(entry["key"]).lower()}
        return scope

    def _names(self, kind: str, node: dict[str, object], scope: frozenset[str]) -> None:
        """What the node names, beyond its shape."""
        for word in ("alias", "column_name_alias", "aliases"):
            if node.get(word):
                names = node[word] if isinstance(node[word], list) else [node[word]]
                self.called.update(str(name).lower() for name in _list(names))
        match kind:
            case "BASE_TABLE":
                self._table(_path(node), scope)
            case "FUNCTION" | "WINDOW":
                path = _path(node)
                if len(path) != 1 or path[0] != node.get("function_name"):
                    raise _Strange("a qualified function")
                self.functions.add(path[0].lower())
            case "TABLE_FUNCTION":
                function = node.get("function")
                if not isinstance(function, dict) or _path(function)[0].lower() not in _TABLE_FUNCTIONS:
                    raise _Strange("a table function")
            case "OPERATOR":
                name = _OPERATORS.get(str(node.get("type")))
                if name is None:
                    raise _Strange(str(node.get("type")).lower())
                self.functions |= {name} if name else set()
            case "TYPE":
                if str(node.get("type_name")).lower() not in _TYPES or len(_path(node)) != 1:
                    raise _Strange("a type")
            case "COLUMN_REF":
                names = _list(node.get("column_names"))
                if len(names) == 1 and str(names[0]).lower() in _LOOK_LIKE_COLUMNS:
                    self.maybe_columns.add(str(names[0]).lower())

    def _table(self, path: list[str], scope: frozenset[str]) -> None:
        if len(path) == 1 and path[0].lower() in scope:
            return
        if len(path) > 2 or "." in path[0]:  # so that two ways to write a name never give one string
            raise _Strange("a table of a schema")
        self.tables.add(".".join(path))


def _path(node: Mapping[str, object]) -> list[str]:
    name = node.get("qualified_name")
    parts = _list(name.get("path")) if isinstance(name, dict) else []
    if not parts:
        raise _Strange("a name")
    return [str(part) for part in parts]


def _list(value: object) -> list[object]:
    if not isinstance(value, list):
        raise _Strange("a list")
    return value
