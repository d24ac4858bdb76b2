"""What SQL over public tables and released results may be made of.

Role: a closed list of constructs and of functions. Promise: nothing on it reads a file, the catalogue, a setting, a
clock, a random number or a sequence, so that an answer is a function of the query, the released values and the public
tables; and nothing on it makes rows without a table but UNNEST, range and generate_series, whose sizes are literals.
What is not on it is refused: DP230 a function, DP231 its arguments, DP240 a construct. Must not: know which tables
there are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from sqlglot import exp

from dpsql.compile.canonical import is_unit, no_unit, span_of
from dpsql.compile.essence import INTERVAL_UNITS, UNITS
from dpsql.compile.instead import no_function
from dpsql.compile.sizes import check_growth, check_size
from dpsql.compile.trees import nodes
from dpsql.errors import Error, Span, refusal

# name, sqlglot's class for it (- where sqlglot has none), least and largest number of arguments
_TABLE = """
abs Abs 1 1 / acos Acos 1 1 / acosh Acosh 1 1 / asin Asin 1 1 / asinh Asinh 1 1 / atan Atan 1 1 / atan2 Atan2 2 2
atanh Atanh 1 1 / bin - 1 1 / bit_count - 1 1 / cbrt Cbrt 1 1 / ceil Ceil 1 1 / coalesce Coalesce 1 99 / cos Cos 1 1
cosh Cosh 1 1 / cot Cot 1 1 / degrees Degrees 1 1 / even - 1 1 / exp Exp 1 1 / factorial Factorial 1 1 / fdiv - 2 2
floor Floor 1 1 / fmod - 2 2 / gamma - 1 1 / gcd - 2 2 / greatest Greatest 1 99 / greatest_common_divisor - 2 2
hex Hex 1 1 / isfinite - 1 1 / isinf IsInf 1 1 / isnan IsNan 1 1 / lcm - 2 2 / least Least 1 99
least_common_multiple - 2 2 / lgamma - 1 1 / ln Ln 1 1 / log Log 1 2 / nextafter - 2 2 / nullif Nullif 2 2 / pi Pi 0 0
power Pow 2 2 / radians Radians 1 1 / round Round 1 2 / round_even - 2 2 / roundbankers - 2 2 / sign Sign 1 1
signbit - 1 1 / sin Sin 1 1 / sinh Sinh 1 1 / sqrt Sqrt 1 1 / tan Tan 1 1 / tanh Tanh 1 1 / to_base - 2 3
trunc Trunc 1 2 / typeof Typeof 1 1

ascii Ascii 1 1 / bar - 3 4 / bit_length BitLength 1 1 / chr Chr 1 1 / concat Concat 1 99 / concat_ws ConcatWs 2 99
contains Contains 2 2 / damerau_levenshtein - 2 2 / ends_with EndsWith 2 2 / format Format 1 99 / format_bytes - 1 1
hamming - 2 2 / jaccard - 2 2 / jaro_similarity - 2 2 / jaro_winkler_similarity JarowinklerSimilarity 2 2
left Left 2 2 / left_grapheme - 2 2 / length Length 1 1 / length_grapheme - 1 1 / levenshtein Levenshtein 2 2
lower Lower 1 1 / lpad Pad 3 3 / ltrim Trim 1 2 / md5 MD5 1 1 / nfc_normalize - 1 1 / ord - 1 1 / overlay Overlay 3 4
prefix - 2 2 / printf - 1 99 / regexp_escape - 1 1 / regexp_extract RegexpExtract 2 4
regexp_extract_all RegexpExtractAll 2 3 / regexp_full_match RegexpFullMatch 2 3 / regexp_matches RegexpLike 2 3
regexp_replace RegexpReplace 3 4 / regexp_split_to_array - 2 2 / repeat Repeat 2 2 / replace Replace 3 3
reverse Reverse 1 1 / right Right 2 2 / right_grapheme - 2 2 / rpad Pad 3 3 / rtrim Trim 1 2 / sha1 SHA 1 1
sha256 SHA2 1 1 / split_part SplitPart 3 3 / starts_with StartsWith 2 2 / str_split Split 2 2
str_split_regex RegexpSplit 2 2 / strip_accents - 1 1 / strlen - 1 1 / strpos StrPosition 2 2
substring Substring 2 3 / substring_grapheme - 2 3 / suffix - 2 2 / translate Translate 3 3 / trim Trim 1 2
unicode Unicode 1 1 / upper Upper 1 1 / url_decode - 1 1 / url_encode - 1 1

age - 2 2 / century - 1 1 / date_diff DateDiff 3 3 / date_part - 2 2 / date_sub - 3 3 / date_trunc DateTrunc 2 2
date_trunc TimestampTrunc 2 2 / datesub - 3 3 / day Day 1 1 / dayname Dayname 1 1 / dayofmonth DayOfMonth 1 1
dayofweek DayOfWeek 1 1 / dayofyear DayOfYear 1 1 / days_in_month - 1 1 / decade - 1 1 / epoch TimeToUnix 1 1
epoch_ms UnixToTime 1 1 / epoch_ns - 1 1 / epoch_us - 1 1 / era - 1 1 / extract Extract 2 2 / hour Hour 1 1
isodow DayOfWeekIso 1 1 / isoyear - 1 1 / julian - 1 1 / last_day LastDay 1 1 / make_date DateFromParts 3 3
make_timestamp TimestampFromParts 6 6 / microsecond - 1 1 / millennium - 1 1 / millisecond - 1 1 / minute Minute 1 1
month Month 1 1 / monthname Monthname 1 1 / nanosecond - 1 1 / quarter Quarter 1 1 / second Second 1 1
strftime TimeToStr 2 2 / strptime StrToTime 2 2 / time_bucket DateBin 2 3 / to_centuries - 1 1 / to_days ToDays 1 1
to_decades - 1 1 / to_hours - 1 1 / to_microseconds - 1 1 / to_millennia - 1 1 / to_milliseconds - 1 1
to_minutes - 1 1 / to_months - 1 1 / to_quarters - 1 1 / to_seconds - 1 1 / to_weeks - 1 1 / to_years - 1 1
try_strptime - 2 2 / week Week 1 1 / weekday - 1 1 / weekofyear WeekOfYear 1 1 / year Year 1 1 / yearweek - 1 1

any_value AnyValue 1 1 / approx_count_distinct ApproxDistinct 1 1 / arg_max ArgMax 2 3 / arg_min ArgMin 2 3
array_agg ArrayAgg 1 1 / avg Avg 1 1 / bit_and BitwiseAndAgg 1 1 / bit_or BitwiseOrAgg 1 1 / bit_xor BitwiseXorAgg 1 1
bool_and LogicalAnd 1 1 / bool_or LogicalOr 1 1 / corr Corr 2 2 / count Count 0 1 / count_if CountIf 1 1
covar_pop CovarPop 2 2 / covar_samp CovarSamp 2 2 / entropy - 1 1 / favg - 1 1 / first First 1 1 / fsum - 1 1
geomean - 1 1 / geometric_mean - 1 1 / kahan_sum - 1 1 / kurtosis Kurtosis 1 1 / kurtosis_pop - 1 1 / last Last 1 1
listagg GroupConcat 1 2 / mad - 1 1 / max Max 1 2 / mean - 1 1 / median Median 1 1 / min Min 1 2 / mode Mode 1 1
product - 1 1 / quantile Quantile 2 2 / quantile_cont PercentileCont 2 2 / quantile_disc PercentileDisc 2 2
regr_avgx RegrAvgx 2 2 / regr_avgy RegrAvgy 2 2 / regr_count RegrCount 2 2 / regr_intercept RegrIntercept 2 2
regr_r2 RegrR2 2 2 / regr_slope RegrSlope 2 2 / regr_sxx RegrSxx 2 2 / regr_sxy RegrSxy 2 2 / regr_syy RegrSyy 2 2
sem - 1 1 / skewness Skewness 1 1 / stddev Stddev 1 1 / stddev_pop StddevPop 1 1 / stddev_samp StddevSamp 1 1
sum Sum 1 1 / var_pop VariancePop 1 1 / variance Variance 1 1 / wavg - 2 2 / weighted_avg - 2 2

cume_dist CumeDist 0 0 / dense_rank DenseRank 0 0 / first_value FirstValue 1 1 / lag Lag 1 3
last_value LastValue 1 1 / lead Lead 1 3 / nth_value NthValue 2 2 / ntile Ntile 1 1 / percent_rank PercentRank 0 0
rank Rank 0 0 / row_number RowNumber 0 0

array_contains ArrayContains 2 2 / array_has_any - 2 2 / array_intersect ArrayIntersect 2 2
array_length ArraySize 1 1 / array_position ArrayPosition 2 2 / array_reverse ArrayReverse 1 1
array_reverse_sort - 1 1 / array_slice ArraySlice 3 3 / array_to_string ArrayToString 2 2 / flatten Flatten 1 1
generate_series GenerateSeries 2 3 / grouping Grouping 1 99 / list_any_value - 1 1 / list_append ArrayAppend 2 2
list_avg - 1 1 / list_bool_and - 1 1 / list_bool_or - 1 1 / list_concat ArrayConcat 2 2 / list_cosine_similarity - 2 2
list_count - 1 1 / list_distance EuclideanDistance 2 2 / list_distinct ArrayDistinct 1 1 / list_dot_product - 2 2
list_extract - 2 2 / list_first - 1 1 / list_has_all - 2 2 / list_intersect - 2 2 / list_last - 1 1
list_max ArrayMax 1 1 / list_median - 1 1 / list_min ArrayMin 1 1 / list_mode - 1 1 / list_position - 2 2
list_prepend ArrayPrepend 2 2 / list_product - 1 1 / list_reverse - 1 1 / list_slice - 3 3 / list_sort ArraySort 1 3
list_stddev_pop - 1 1 / list_stddev_samp - 1 1 / list_string_agg - 1 1 / list_sum - 1 1 / list_unique - 1 1
list_var_pop - 1 1 / list_var_samp - 1 1 / range GenerateSeries 2 3 / unnest Explode 1 1 / unnest Unnest 1 1
xor - 2 2
"""

_ENTRIES = [line.split() for row in _TABLE.splitlines() for line in row.split("/") if line.strip()]
FUNCTIONS: dict[str, tuple[int, int]] = {name: (int(least), int(most)) for name, _, least, most in _ENTRIES}
"""What public SQL may call, by DuckDB's name as the canonical text writes it: number of arguments."""

_NAMES: dict[type[exp.Expr], str] = {getattr(exp, cls): name for name, cls, _, _ in _ENTRIES[::-1] if cls != "-"}

_BINARY = "this expression"
CONSTRUCTS: dict[type[exp.Expr], frozenset[str]] = {
    getattr(exp, name): frozenset(arguments.split())
    for names, arguments in (
        ("Select", "with_ distinct expressions from_ joins where group having qualify windows order limit offset"),
        ("Union Except Intersect", "with_ this expression distinct order limit offset"),
        ("Subquery", "with_ this alias order limit offset joins"),
        ("Values", "expressions alias"),
        ("With", "expressions"),
        ("CTE", "this alias materialized"),
        ("From Where Having Qualify", "this"),
        ("Table", "this db alias joins"),
        ("TableAlias", "this columns"),
        ("Join", "this side kind method on using"),
        ("Group", "expressions all"),
        ("Rollup Cube GroupingSets Tuple Distinct Array", "expressions on value_constructor"),
        ("Order", "this expressions"),
        ("Ordered", "this desc nulls_first"),
        ("Limit Offset", "expression"),
        ("Window", "this partition_by order spec alias over"),
        ("WindowSpec", "kind start start_side end end_side exclude"),
        ("Filter", _BINARY),
        ("IgnoreNulls RespectNulls", "this"),
        ("Alias", "this alias"),
        ("Column", "this table"),
        ("Identifier", "this quoted"),
        ("Star", ""),
        ("Paren Neg BitwiseNot Not Exists Any All", "this"),
        ("Literal", "this is_string"),
        ("Boolean", "this"),
        ("Null", ""),
        ("Var", "this"),
        ("Cast TryCast", "this to safe"),
        ("DataType", "this expressions nested"),
        ("DataTypeParam", "this"),
        ("Interval", "this unit"),
        ("Case", "this ifs default"),
        ("If", "this true false"),
        ("In", "this expressions query"),
        ("Between", "this low high symmetric"),
        ("Is NullSafeEQ NullSafeNEQ EQ NEQ GT GTE LT LTE And Or BitwiseXor", _BINARY),
        ("DPipe", "this expression safe"),
        ("Add Sub Mul IntDiv Mod BitwiseAnd BitwiseOr BitwiseLeftShift BitwiseRightShift", _BINARY),
        ("Div", "this expression typed safe"),
        ("Like ILike SimilarTo", "this expression negate"),
        ("Glob Escape", _BINARY),
        ("Bracket", "this expressions offset"),
        ("Slice", "this expression step"),
    )
    for name in names.split()
}
"""The nodes of public SQL that are not function calls, and which of their arguments may be given."""

_TYPES = frozenset(
    ["BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "INT128", "UTINYINT", "USMALLINT", "UINT", "UBIGINT", "FLOAT"]
    + ["DOUBLE", "DECIMAL", "TEXT", "VARCHAR", "DATE", "TIME", "TIMESTAMP", "TIMESTAMPNTZ", "INTERVAL"]
)
_JOINS = {
    "method": ("NATURAL",),
    "side": ("LEFT", "RIGHT", "FULL"),
    "kind": ("INNER", "OUTER", "CROSS", "SEMI", "ANTI"),
}
_FRAMES = {
    "kind": ("ROWS", "RANGE", "GROUPS"),
    "start": ("UNBOUNDED", "CURRENT ROW"),
    "end": ("UNBOUNDED", "CURRENT ROW"),
    "start_side": ("PRECEDING", "FOLLOWING"),
    "end_side": ("PRECEDING", "FOLLOWING"),
}
_WORDS = frozenset(["TIES", "GROUP", "CURRENT ROW", "NO OTHERS"])
_CASTS = "cast to BOOLEAN, BIGINT, DECIMAL(w, s), DOUBLE, VARCHAR, DATE or TIMESTAMP"
_UNIT_FIRST = ("date_part", "date_sub", "datesub")


def check_public(tree: exp.Expr, also: frozenset[str] = frozenset()) -> None:
    """Refuse the first thing in `tree` that public SQL does not have here. also: functions that dpsql itself calls."""
    found = nodes(tree)
    check_nodes(found, also)
    check_growth(found)


def check_nodes(found: Iterable[exp.Expr], also: frozenset[str]) -> None:
    """The same of the nodes of a tree."""
    for node in found:
        allowed = CONSTRUCTS.get(type(node))
        if allowed is not None:
            _check_construct(node, allowed)
        elif isinstance(node, exp.Func) and type(node) not in _WORDS_FOR:
            _check_call(node, also)
        else:
            raise _no_construct(node, _word_for(node))


def _check_construct(node: exp.Expr, allowed: frozenset[str]) -> None:
    for key, value in node.args.items():
        if key not in allowed and not (value is None or value is False or value == []):
            if isinstance(node, exp.DataType):
                raise _no_construct(node, "this type", _CASTS)
            if isinstance(node, exp.Column):
                raise _no_construct(node, "a name with several dots", "write table.column")
            raise _no_construct(node, f"{_word_for(node)} with {key.strip('_').upper()}")
    rule = _RULES.get(type(node))
    if rule is not None:
        rule(node)


def _check_words(node: exp.Expr, words: Mapping[str, Sequence[str]], said: str) -> None:
    for key, choice in words.items():
        value = node.args.get(key)
        if isinstance(value, str) and value and value.upper() not in choice:
            raise _no_construct(node, said.format(value.upper()))


def _check_table(node: exp.Expr) -> None:
    if not isinstance(node.this, exp.Identifier | exp.GenerateSeries):
        raise _no_function(node.this if isinstance(node.this, exp.Func) else node)


def _check_type(node: exp.Expr) -> None:
    if not isinstance(node.this, exp.DType) or node.this.value not in _TYPES:
        raise _no_construct(node, f"the type {node.sql(dialect='duckdb')[:40]}", _CASTS)


def _check_word(node: exp.Expr) -> None:
    if not (is_unit(node) or str(node.this).upper() in _WORDS):
        raise _no_construct(node, f"the word {str(node.this)[:40]}")


def _check_interval(node: exp.Expr) -> None:
    if isinstance(node, exp.Interval) and node.args.get("unit") is None and not _is_plain_interval(node):
        raise _no_construct(node, "this INTERVAL")


_RULES: Mapping[type[exp.Expr], Callable[[exp.Expr], None]] = {
    exp.Join: lambda node: _check_words(node, _JOINS, "{} JOIN"),
    exp.WindowSpec: lambda node: _check_words(node, _FRAMES, "the frame {}"),
    exp.Table: _check_table,
    exp.DataType: _check_type,
    exp.Var: _check_word,
    exp.Interval: _check_interval,
}
"""What is asked of the values of some constructs."""


def _is_plain_interval(node: exp.Interval) -> bool:
    """INTERVAL '1 year 2 months': numbers and parts of dates in turn."""
    parts = str(node.this.this).split() if isinstance(node.this, exp.Literal) else []
    return (
        bool(parts) and len(parts) % 2 == 0 and all(UNITS.get(word.upper()) in INTERVAL_UNITS for word in parts[1::2])
    )


def _check_call(node: exp.Func, also: frozenset[str]) -> None:
    name = _name_of(node)
    if name in also:
        return
    arity = FUNCTIONS.get(name)
    if arity is None or (type(node) not in _NAMES and not isinstance(node, exp.Anonymous)):
        raise _no_function(node)
    arguments = list(_arguments(node))
    least, most = arity
    if not least <= len(arguments) <= most:
        wanted = f"{least}" if least == most else f"{least} to {most}"
        reason = f"{name} takes {wanted} argument{'s' if wanted != '1' else ''} here, not {len(arguments)}"
        raise refusal("DP231", reason, span=span_of(node), repair=f"give {name} {wanted}")
    if name in _UNIT_FIRST and not is_unit(arguments[0]):
        raise no_unit(node)
    if isinstance(node, exp.UnixToTime) and not node.args.get("scale"):
        reason, repair = (
            "to_timestamp depends on a time zone",
            "write epoch_ms(n * 1000), or make_timestamp(n * 1000000)",
        )
        raise refusal("DP230", reason, span=span_of(node), repair=repair)
    check_size(node, name, arguments)


def _name_of(node: exp.Func) -> str:
    if isinstance(node, exp.Anonymous):
        return str(node.this).lower()
    return _NAMES.get(type(node), node.sql_name().lower())


def _arguments(node: exp.Func) -> Iterator[exp.Expr]:
    """A call's arguments, without DISTINCT, ORDER BY and what sqlglot notes beside them."""
    for key, value in node.args.items():
        for part in value if isinstance(value, list) else [value]:
            if isinstance(part, exp.Distinct):
                yield from part.expressions
            elif (
                isinstance(part, exp.Expr)
                and not isinstance(part, exp.TableAlias)
                and key not in ("zone", "length", "scale")
            ):
                yield part


def _no_function(node: exp.Expr) -> Error:
    return no_function(node, _name_of(node) if isinstance(node, exp.Func) else "this", FUNCTIONS, _where(node))


def _no_construct(node: exp.Expr, what: str, repair: str = "leave it out") -> Error:
    return refusal("DP240", f"{what} is not answered", span=_where(node), repair=repair)


def _where(node: exp.Expr | None) -> Span | None:
    """The span of a node, or of the nearest node around it that has one (types and keywords have none)."""
    while node is not None and (span := span_of(node)) is None:
        node = node.parent
    return span if node is not None else None


def _word_for(node: exp.Expr) -> str:
    return _WORDS_FOR.get(type(node), type(node).__name__.upper())


_WORDS_FOR: dict[type[exp.Expr], str] = {
    exp.TableSample: "a sample",
    exp.Lateral: "LATERAL",
    exp.Dot: "a method call or a field of a value",
    exp.Columns: "COLUMNS()",
    exp.Lambda: "a lambda",
    exp.Collate: "COLLATE",
    exp.AtTimeZone: "AT TIME ZONE",
    exp.Struct: "a struct",
    exp.ToMap: "a map",
    exp.Map: "a map",
    exp.DataType: "this type",
    exp.ByteString: "a string with escapes (e'...')",
    exp.With: "a recursive WITH clause",
}
