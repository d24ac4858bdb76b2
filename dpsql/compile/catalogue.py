"""The table of allowed functions: which sqlglot node stands for which function, its arguments, and its rule.

It is closed, and every row has a template in tests/properties/adversaries.py, which runs it over adversarial values.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from dpsql.compile import bits, choices, composed, dates, elementary, parts, patterns, rounding, shifts, strings
from dpsql.compile.calls import MANY, Call, Function, Rule, of_kind, plain
from dpsql.compile.casts import cast_to
from dpsql.compile.ir import Scalar
from dpsql.compile.kinds import DATE, INTEGER
from dpsql.compile.literals import data_type
from dpsql.errors import refusal


def _round(call: Call) -> Scalar:
    places = rounding.places_of(call.arguments[1], call.name) if len(call.arguments) == 2 else 0
    rule = rounding.truncated if isinstance(call.node, exp.Trunc) else rounding.rounded
    return rule(call.arguments[0], places, call.span)


def _log(call: Call) -> Scalar:
    second = call.arguments[1] if len(call.arguments) == 2 else None
    return elementary.logarithm(call.arguments[0], second, call.span)


def _part_of(part: str, call: Call, arguments: Sequence[Scalar]) -> Scalar:
    if call.of_age:
        return dates.age_part(part, arguments[0], arguments[1], call.span)
    return parts.extract(part, arguments[0], call.span)


def _extract(call: Call) -> Scalar:
    return _part_of(_unit(call.node.this, call, tuple(parts.PARTS)), call, call.arguments)


def _date_part(call: Call) -> Scalar:
    name = strings.literal_text(call.arguments[0], "the part of date_part")
    return _part_of(parts.part_named(name, call.span), call, call.arguments[1:])


def _part(part: str) -> Rule:
    return lambda call: _part_of(part, call, call.arguments)


def _truncate(call: Call) -> Scalar:
    return dates.truncate(_unit(call.node.args.get("unit"), call, shifts.UNITS), call.arguments[0], call.span)


def _difference(call: Call) -> Scalar:
    unit = _unit(call.node.args.get("unit"), call, shifts.UNITS)
    return dates.difference(unit, call.arguments[1], call.arguments[0], call.span)


def _whole_units(call: Call) -> Scalar:
    name = strings.literal_text(call.arguments[0], f"the unit of {call.name}")
    unit = parts.part_named(name, call.span, shifts.UNITS)
    return dates.whole_units(unit, call.arguments[1], call.arguments[2], call.span)


def _bucket(call: Call) -> Scalar:
    width = call.node.this
    if not isinstance(width, exp.Interval):
        raise refusal(
            "DP231", "the width of time_bucket is an INTERVAL literal", span=call.span, repair="write INTERVAL 7 DAY"
        )
    step = shifts.step_of_literal(width, call.span)
    if len(step.trees) != 1:
        raise refusal("DP231", "the width of time_bucket has one unit", span=call.span, repair="write INTERVAL 7 DAY")
    return dates.bucket(step, call.arguments[0], call.span)


def _since_1970(call: Call) -> Scalar:
    """epoch_ms: of a date a number, of a number a date. sqlglot keeps the scale of its siblings in its node."""
    scale = call.node.args.get("scale")
    if not isinstance(scale, exp.Literal) or scale.this != "3":
        raise refusal("DP230", "this conversion of seconds is not answered", span=call.span, repair="write epoch_ms(n)")
    if call.arguments[0].facts.type == INTEGER:
        return parts.since_1970(call.arguments[0], call.span)
    return parts.count_since_1970("epoch_ms", parts.dated(call.arguments[0], "epoch_ms"), call.span)


def _microseconds(call: Call) -> Scalar:
    return parts.count_since_1970(call.name, parts.dated(call.arguments[0], call.name), call.span)


def _unit(node: object, call: Call, among: tuple[str, ...]) -> str:
    """A part of a date as sqlglot keeps it: a bare word or a string, of the list."""
    word = str(node.this) if isinstance(node, exp.Var | exp.Literal) else ""
    return parts.part_named(word, call.span, among)


def _to_date(call: Call) -> Scalar:
    return cast_to(exp.Cast(this=exp.Null(), to=data_type(DATE)), call.arguments[0], call.span)


def _trim(call: Call) -> Scalar:
    characters = call.arguments[1] if len(call.arguments) == 2 else None
    return strings.trimmed(call.arguments[0], characters, call.node.args.get("position"), call.span)


def _substring(call: Call) -> Scalar:
    length = call.arguments[2] if len(call.arguments) == 3 else None
    return strings.substring(call.arguments[0], call.arguments[1], length, call.span)


def _tested(call: Call) -> Scalar:
    return strings.tested(call.node, call.name, call.arguments[0], call.arguments[1], call.span)


def _measured(call: Call) -> Scalar:
    return strings.measured(call.node, call.name, call.arguments[0], call.span)


def _code(call: Call) -> Scalar:
    return strings.code(call.node, call.name, call.arguments[0], call.span)


def _float_test(call: Call) -> Scalar:
    return strings.float_test(call.node, call.name, call.arguments[0], call.span)


def _pad(call: Call) -> Scalar:
    value, count, fill = call.arguments
    return composed.padded(bool(call.node.args.get("is_left")), value, count, fill, call.span)


def _like(call: Call) -> Scalar:
    return patterns.like(call.node, call.arguments[0], call.arguments[1], None, call.span)


def _match(call: Call) -> Scalar:
    return patterns.matched(call.node, call.name, call.arguments, call.span)


def _with_options(rule: patterns.WithOptions) -> Rule:
    def applied(call: Call) -> Scalar:
        options = call.arguments[3] if len(call.arguments) == 4 else None
        first, second, third = call.arguments[:3]
        return rule(first, second, third, options, call.span)

    return applied


_PAIR = ("this", "expression")
_ONE = ("this",)
_ALL = ("expressions",)


def _parts_by_node() -> dict[type[exp.Expr], Function]:
    by_node: dict[type[exp.Expr], tuple[str, str]] = {
        exp.Year: ("year", "year"),
        exp.Quarter: ("quarter", "quarter"),
        exp.Month: ("month", "month"),
        exp.Week: ("week", "week"),
        exp.WeekOfYear: ("weekofyear", "week"),
        exp.Day: ("day", "day"),
        exp.DayOfMonth: ("dayofmonth", "day"),
        exp.DayOfWeek: ("dayofweek", "dow"),
        exp.DayOfWeekIso: ("isodow", "isodow"),
        exp.DayOfYear: ("dayofyear", "doy"),
        exp.Hour: ("hour", "hour"),
        exp.Minute: ("minute", "minute"),
        exp.Second: ("second", "second"),
        exp.TimeToUnix: ("epoch", "epoch"),
    }
    return {node: Function(name, _ONE, _part(part), takes_age=True) for node, (name, part) in by_node.items()}


_PARTS_BY_NAME = ("weekday isoyear yearweek decade century millennium era millisecond microsecond julian").split()

NODES: dict[type[exp.Expr], Function] = {
    exp.Abs: Function("abs", _ONE, plain(rounding.absolute)),
    exp.Round: Function("round", ("this", "decimals"), _round, 1, 2),
    exp.Trunc: Function("trunc", ("this", "decimals"), _round, 1, 2),
    exp.Floor: Function("floor", _ONE, plain(rounding.floor)),
    exp.Ceil: Function("ceil", _ONE, plain(rounding.ceiling)),
    exp.Sign: Function("sign", _ONE, plain(rounding.sign)),
    exp.IsNan: Function("isnan", _ONE, _float_test),
    exp.IsInf: Function("isinf", _ONE, _float_test),
    **{shape.node: Function(shape.name, _ONE, elementary.rule(shape)) for shape in elementary.SHAPES},
    exp.Log: Function("log", _PAIR, _log, 1, 2),
    exp.Pow: Function("power", _PAIR, plain(elementary.power), 2, 2),
    exp.Atan2: Function("atan2", _PAIR, plain(elementary.angle_of), 2, 2),
    exp.Pi: Function("pi", (), plain(elementary.pi), 0, 0),
    exp.BitwiseAnd: Function("&", _PAIR, of_kind(bits.both), 2, 2),
    exp.BitwiseOr: Function("|", _PAIR, of_kind(bits.both), 2, 2),
    exp.BitwiseXor: Function("xor", _PAIR, of_kind(bits.both), 2, 2),
    exp.BitwiseNot: Function("~", _ONE, plain(bits.inverse)),
    exp.BitwiseLeftShift: Function("<<", _PAIR, plain(bits.shifted_left), 2, 2),
    exp.BitwiseRightShift: Function(">>", _PAIR, plain(bits.shifted_right), 2, 2),
    exp.Coalesce: Function("coalesce", ("this", "expressions"), choices.coalesce, 1, MANY),
    exp.Nullif: Function("nullif", _PAIR, choices.nullif, 2, 2),
    exp.Greatest: Function("greatest", ("this", "expressions"), choices.extreme, 1, MANY, (), {"ignore_nulls": True}),
    exp.Least: Function("least", ("this", "expressions"), choices.extreme, 1, MANY, (), {"ignore_nulls": True}),
    exp.Extract: Function("extract", ("expression",), _extract, 1, 1, ("this",), takes_age=True),
    **_parts_by_node(),
    exp.TimestampTrunc: Function("date_trunc", _ONE, _truncate, 1, 1, ("unit",)),
    exp.DateTrunc: Function("date_trunc", _ONE, _truncate, 1, 1, ("unit",)),
    exp.DateDiff: Function("date_diff", _PAIR, _difference, 2, 2, ("unit",), {"date_part_boundary": True}),
    exp.Date: Function("date", _ONE, _to_date),
    exp.LastDay: Function("last_day", _ONE, plain(dates.last_day)),
    exp.Dayname: Function("dayname", _ONE, of_kind(parts.named)),
    exp.Monthname: Function("monthname", _ONE, of_kind(parts.named)),
    exp.TimeToStr: Function("strftime", ("this", "format"), plain(parts.formatted), 2, 2),
    exp.StrToTime: Function("strptime", ("this", "format"), plain(parts.read), 2, 2),
    exp.DateBin: Function("time_bucket", ("expression",), _bucket, 1, 1, ("this",)),
    exp.DateFromParts: Function("make_date", ("year", "month", "day"), plain(dates.made_of), 3, 3),
    exp.UnixToTime: Function("epoch_ms", _ONE, _since_1970, 1, 1, ("scale",)),
    exp.Lower: Function("lower", _ONE, of_kind(strings.changed_case)),
    exp.Upper: Function("upper", _ONE, of_kind(strings.changed_case)),
    exp.Trim: Function("trim", _PAIR, _trim, 1, 2, ("position",)),
    exp.Substring: Function("substring", ("this", "start", "length"), _substring, 2, 3),
    exp.Left: Function("left", _PAIR, of_kind(strings.end_of), 2, 2),
    exp.Right: Function("right", _PAIR, of_kind(strings.end_of), 2, 2),
    exp.Length: Function("length", _ONE, plain(strings.length)),
    exp.BitLength: Function("bit_length", _ONE, _measured),
    exp.Ascii: Function("ascii", _ONE, _code),
    exp.Unicode: Function("unicode", _ONE, _code),
    exp.Chr: Function("chr", _ALL, plain(strings.character)),
    exp.Reverse: Function("reverse", _ONE, plain(strings.reversed_text)),
    exp.Translate: Function("translate", ("this", "from_", "to"), plain(strings.translated), 3, 3),
    exp.SplitPart: Function("split_part", ("this", "delimiter", "part_index"), plain(strings.part_between), 3, 3),
    exp.Contains: Function("contains", _PAIR, _tested, 2, 2),
    exp.StartsWith: Function("starts_with", _PAIR, _tested, 2, 2),
    exp.EndsWith: Function("ends_with", _PAIR, _tested, 2, 2),
    exp.StrPosition: Function("strpos", ("this", "substr"), plain(strings.place), 2, 2),
    exp.Replace: Function("replace", ("this", "expression", "replacement"), plain(composed.replaced), 3, 3),
    exp.Repeat: Function("repeat", ("this", "times"), plain(composed.repeated), 2, 2),
    exp.Pad: Function("lpad", ("this", "expression", "fill_pattern"), _pad, 3, 3, ("is_left",)),
    exp.Concat: Function(
        "concat",
        _ALL,
        lambda call: composed.concatenated(call.arguments, call.span),
        1,
        MANY,
        (),
        {"safe": True, "coalesce": True},
    ),
    exp.ConcatWs: Function(
        "concat_ws",
        _ALL,
        lambda call: composed.joined_by(call.arguments[0], call.arguments[1:], call.span),
        2,
        MANY,
        (),
        {"safe": True, "coalesce": True},
    ),
    exp.DPipe: Function("||", _PAIR, plain(composed.joined_pair), 2, 2, (), {"safe": True}),
    exp.Like: Function("like", _PAIR, _like, 2, 2, ("negate",)),
    exp.ILike: Function("ilike", _PAIR, _like, 2, 2, ("negate",)),
    exp.SimilarTo: Function("similar to", _PAIR, _match, 2, 2),
    exp.RegexpLike: Function("regexp_matches", ("this", "expression", "flag"), _match, 2, 3),
    exp.RegexpFullMatch: Function("regexp_full_match", ("this", "expression", "options"), _match, 2, 3),
    exp.RegexpExtract: Function(
        "regexp_extract",
        ("this", "expression", "group", "parameters"),
        _with_options(patterns.extracted),
        3,
        4,
        (),
        {"null_if_pos_overflow": True},
    ),
    exp.RegexpReplace: Function(
        "regexp_replace",
        ("this", "expression", "replacement", "modifiers"),
        _with_options(patterns.replaced),
        3,
        4,
        (),
        {"single_replace": True},
    ),
}
NAMED: dict[str, Function] = {
    "date_part": Function("date_part", _ALL, _date_part, 2, 2, takes_age=True),
    "datepart": Function("datepart", _ALL, _date_part, 2, 2, takes_age=True),
    "date_sub": Function("date_sub", _ALL, _whole_units, 3, 3),
    "datesub": Function("datesub", _ALL, _whole_units, 3, 3),
    **{name: Function(name, _ALL, _part("dow" if name == "weekday" else name)) for name in _PARTS_BY_NAME},
    "epoch_us": Function("epoch_us", _ALL, _microseconds),
    "try_strptime": Function("try_strptime", _ALL, plain(parts.read), 2, 2),
    "prefix": Function("prefix", _ALL, _tested, 2, 2),
    "suffix": Function("suffix", _ALL, _tested, 2, 2),
    "isfinite": Function("isfinite", _ALL, _float_test),
    "strlen": Function("strlen", _ALL, _measured),
    "ord": Function("ord", _ALL, _code),
    "gcd": Function("gcd", _ALL, plain(bits.common_divisor), 2, 2),
    "lcm": Function("lcm", _ALL, plain(bits.common_multiple), 2, 2),
}
