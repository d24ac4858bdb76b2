"""What to write instead of functions and aggregates that are not answered."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction

from sqlglot import exp

from dpsql.compile.canonical import span_of
from dpsql.compile.ir import Key
from dpsql.compile.trees import WRITTEN, called, shown, wrapped
from dpsql.errors import Error, Span, nearest, refusal
from dpsql.policy.facts import Kind

ALIKE = 0.76
"""How alike a function's name must be to be offered: short names are all a little alike."""


def written(node: exp.Expr, otherwise: str) -> str:
    """The name of a call as the analyst wrote it."""
    return str(node.meta.get(WRITTEN) or otherwise)


def no_function(node: exp.Expr, name: str, known: Iterable[str], span: Span | None) -> Error:
    """DP230: the refusal of a call, or of an operator, by its name or by what sqlglot calls it."""
    found = reasoned(node, name, span)
    if found is not None:
        return found
    said = written(node, name).lower()[:40]
    hint = nearest(said, known, cutoff=ALIKE)
    return refusal("DP230", f"{said} is not answered{hint}", span=span, repair="use a function that docs/sql.md lists")


def reasoned(node: exp.Expr, name: str, span: Span | None) -> Error | None:
    """The same for what is refused for a reason of its own."""
    said = written(node, name).lower()[:40]
    for names, (reason, repair) in _REASONS.items():
        if name in names.split() or said in names.split():
            called = said if said.isidentifier() and isinstance(node, exp.Func) else _CONSTRUCTS.get(name, name)
            return refusal("DP230", f"{called} is not answered: {reason}", span=span, repair=repair)
    return None


def instead_of(call: exp.Expr, answered: str, value: str = "10") -> str:
    """What to ask instead of an aggregate; `answered` lists those that are. value: one to compare its argument with."""
    arguments = [a for a in (_argument(v) for v in _arguments(call)) if a is not None]
    name = name_of(call).lower()
    if not arguments:
        return f"the aggregates answered are {answered}"
    x = shown(wrapped(arguments[0]))
    if name in ("any_value", "arbitrary", "array_agg", "first", "group_concat", "histogram", "last", "list", "listagg",
                "mode", "string_agg"):  # fmt: skip
        return f"count each value: GROUP BY {shown(arguments[0])}, with COUNT(*)"
    if name in ("max", "min") and isinstance(call.find_ancestor(exp.Ordered, exp.Select, exp.Window), exp.Ordered):
        return f"order by a key, ORDER BY 1{f', or by AVG({shown(arguments[0])})' if value.isdigit() else ''}"
    found = {
        "max": f"count what is above a value: COUNT_IF({x} > {value})",
        "min": f"count what is below a value: COUNT_IF({x} < {value})",
        **dict.fromkeys(("bool_or", "logical_or"), f"write COUNT_IF({x}) > 0"),
        **dict.fromkeys(("bool_and", "logical_and"), f"write COUNT_IF(NOT {x}) = 0"),
        **dict.fromkeys(("approx_count_distinct", "approx_distinct"), f"write COUNT(DISTINCT {x})"),
    }.get(name)
    if found is None and name.startswith(("median", "quantile", "approx_quantile", "percentile")):
        return f"the share of rows up to a value is COUNT_IF({x} <= {value}) / COUNT(*)"
    return found or f"the aggregates answered are {answered}"


def name_of(call: exp.Expr) -> str:
    """The name of an aggregate as it was written, in capitals."""
    while not isinstance(call, exp.Func):
        call = call.this
    return written(call, call.name if isinstance(call, exp.Anonymous) else call.sql_names()[0]).upper()


def not_grouped(column: exp.Column) -> Error:
    """DP202: a column beside groups."""
    name = called(column)
    shown_ = name.replace('"', "")
    reason = f'"{shown_}" is neither grouped nor aggregated'
    return refusal("DP202", reason, span=span_of(column), repair=f"add {name} to GROUP BY, or aggregate it")


def not_single(node: exp.Expr) -> Error:
    """DP203: an aggregate, a window or a query in the argument of an aggregate."""
    reason = "an aggregate takes an expression of single rows"
    repair = "compute it in a subquery first: SELECT AVG(x) FROM (SELECT ... AS x FROM ...) AS t"
    return refusal("DP203", reason, span=span_of(node), repair=repair)


def several(call: exp.Expr, span: Span | None) -> Error:
    """DP203: COUNT of several columns."""
    values = [shown(wrapped(v)) for v in call.iter_expressions()]
    repair = f"write COUNT(*) FILTER (WHERE {' AND '.join(f'{v} IS NOT NULL' for v in values)})"
    return refusal("DP203", "COUNT takes one argument", span=span, repair=repair)


def several_distinct(distinct: exp.Distinct, span: Span | None) -> Error:
    """DP203: COUNT(DISTINCT a, b), or of a tuple or a star."""
    first = distinct.expressions[0].unnest()
    parts = first.expressions if isinstance(first, exp.Tuple) else distinct.expressions
    texts = [shown(p) for p in parts] if len(parts) > 1 else ["a", "b"]
    joined = ", '|', ".join(texts)
    repair = f"make one text of them: COUNT(DISTINCT CONCAT({joined}))"
    return refusal("DP203", "COUNT(DISTINCT ...) takes one expression", span=span, repair=repair)


_SAMPLES = {
    Kind.BOOLEAN: "TRUE",
    Kind.VARCHAR: "'a', 'b'",
    Kind.DATE: "DATE '2020-01-31', DATE '2020-02-29'",
    Kind.TIMESTAMP: "TIMESTAMP '2020-01-31 00:00:00'",
}


def sample(kind: Kind) -> str:
    """A value of a kind, as a literal."""
    return _SAMPLES.get(kind, "10").partition(", ")[0]


def listed(key: Key) -> str:
    """The condition that makes the groups of a key public, with values of its kind."""
    return f"WHERE {key.text} IN ({_SAMPLES.get(key.scalar.facts.type.kind, '1, 2')})"


def coarser(key: Key) -> str:
    """An expression over a key within bounds that has fewer values; '' where there is none."""
    facts = key.scalar.facts
    if not facts.is_bounded:
        return ""
    if not isinstance(facts.lo, Fraction) or not isinstance(facts.hi, Fraction):
        return f"date_trunc('month', {key.text})"
    if key.column and key.scalar.tree.find(exp.Floor, exp.Ceil, exp.Round, exp.Trunc):
        return f"it WHERE {key.column} BETWEEN 0 AND 500"
    step = 10 ** max(0, len(str(int(facts.hi - facts.lo))) - 2)
    return f"FLOOR({key.text})" if step == 1 else f"FLOOR({key.text} / {step})"


def _arguments(call: exp.Expr) -> list[exp.Expr]:
    while isinstance(call, exp.IgnoreNulls | exp.RespectNulls):
        call = call.this
    if isinstance(call, exp.WithinGroup):
        return [call.expression]
    if isinstance(call, exp.Anonymous):
        return list(call.expressions)
    return list(call.iter_expressions())


def argument_of(call: exp.Expr) -> exp.Expr | None:
    """The first value that an aggregate takes."""
    return next((a for a in map(_argument, _arguments(call)) if a is not None), None)


def _argument(node: exp.Expr) -> exp.Expr | None:
    """The value that is aggregated, without DISTINCT, ORDER BY and casts that sqlglot adds."""
    if isinstance(node, exp.Cast) and isinstance(node.parent, exp.LogicalAnd | exp.LogicalOr):
        node = node.this
    while isinstance(node, exp.Order | exp.Distinct | exp.Ordered):
        inner = node.this or next(iter(node.expressions), None)
        if inner is None:
            return None
        node = inner
    return node


_CONSTRUCTS = {
    "any": "= ANY (...)",
    "attimezone": "AT TIME ZONE",
    "bracket": "a subscript",
    "collate": "COLLATE",
    "dot": "a method call or a field",
    "glob": "GLOB",
    "is": "this IS",
    "order": "ORDER BY in an aggregate",
    "star": "a star in a call",
}
"""What nodes that are no calls are called."""

_REASONS: dict[str, tuple[str, str]] = {
    "now today get_current_timestamp transaction_timestamp current_date current_time current_timestamp localtime "
    "localtimestamp current_localtime current_localtimestamp": (
        "it reads a clock",
        "write the day as a literal: DATE '2026-01-31'",
    ),
    "rand random uuid uuidv4 uuidv7 gen_random_uuid setseed": (
        "it is random",
        "choose rows by a column: WHERE n % 10 = 0",
    ),
    "hash md5_number": (
        "its values differ between versions of the engine",
        "use the column itself",
    ),
    "attimezone timezone": ("it depends on a time zone", "use the TIMESTAMP as it is, without a zone"),
    "collate": ("it depends on a locale", "compare lower(s)"),
    "age": (
        "it is an INTERVAL",
        "take its years, EXTRACT(year FROM age(a, b)), or count: date_diff('day', a, b)",
    ),
    "levenshtein damerau_levenshtein jaccard jaro_similarity jaro_winkler_similarity hamming": (
        "its time grows with the product of two lengths, or it fails by value",
        "compare with =, LIKE or starts_with",
    ),
    "format printf bar": (
        "the rows would decide how long its text is",
        "use concat, lpad or CAST(x AS VARCHAR)",
    ),
    "dot": ("rows have no fields", "write the function around its argument: lower(s)"),
    "is": ("IS is followed by NULL, NOT NULL, TRUE, FALSE or DISTINCT FROM", "write ="),
    "order": ("the order of rows changes no sum", "leave ORDER BY out"),
    "star": ("a star is no value", "name a column, or write COUNT(*)"),
    "current_user session_user user current_database current_schema version current_version current_setting "
    "getvariable": ("it reads the engine's own state", "write the value itself"),
    "md5 sha1 sha256": ("hashes have no use here", "compare the text itself"),
    "bracket": ("text has no subscripts here", "write substring(s, 1, 2)"),
    "glob": ("its time can grow without limit", "use LIKE or SIMILAR TO"),
    "regexp_i_like": ("DuckDB has no ~*", "write regexp_matches(s, 'a', 'i')"),
    "any array_contains list_contains list_has list_has_any": (
        "rows have no lists here",
        "list the values: x IN ('a', 'b')",
    ),
    "array_agg split str_split regexp_split_to_array regexp_extract_all": (
        "rows have no lists here",
        "use split_part or regexp_extract",
    ),
}
"""Why some functions have no rule, and what to write instead."""
