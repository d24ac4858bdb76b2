"""The table of allowed functions: which sqlglot node stands for which function, its arguments, and its rule.

It is closed. What is not in it is refused with the nearest name; a node of the table that carries an argument the
table does not know is refused too, since sqlglot keeps options (a zone, a separator, IGNORE NULLS) in such places.
A function is added together with its total form and a row in the tests that run it over adversarial values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from sqlglot import exp

from dpsql.compile import arithmetic, comparisons, dates, rounding, strings
from dpsql.compile.casts import cast_to
from dpsql.compile.guards import repeatable
from dpsql.compile.ir import Lower, Scalar, Scope
from dpsql.compile.kinds import DATE, is_null, unify
from dpsql.compile.literals import data_type
from dpsql.compile.parse import span_of
from dpsql.compile.ranges import Interval, facts_of, finite, held, joined, known
from dpsql.errors import Error, Span, nearest, refusal
from dpsql.policy.facts import Kind


@dataclass(frozen=True, slots=True)
class Call:
    """One call: its node, its lowered arguments, where it stands."""

    name: str
    node: exp.Expr
    arguments: list[Scalar]
    span: Span | None


Rule = Callable[[Call], Scalar]


@dataclass(frozen=True, slots=True)
class Function:
    """name: as SQL spells it. keys: where the node keeps its arguments, in SQL's order. least, most: how many
    (most None = any number). read: further keys, which the rule reads itself. neutral: keys a node may carry besides,
    with the one value that changes nothing."""

    name: str
    keys: tuple[str, ...]
    rule: Rule
    least: int = 1
    most: int | None = 1
    read: tuple[str, ...] = ()
    neutral: Mapping[str, object] = field(default_factory=dict)


def apply(node: exp.Expr, scope: Scope, lower: Lower) -> Scalar:
    """The total form of a call, or a refusal."""
    function = _NODES.get(type(node))
    if isinstance(node, exp.Anonymous):
        function = _NAMED.get(str(node.this).lower())
    if function is None:
        raise unknown(_name(node), node)
    arguments: list[exp.Expr] = []
    for key in function.keys:
        value = node.args.get(key)
        arguments += value if isinstance(value, list) else [] if value is None else [value]
    for key, value in node.args.items():
        skip = key in function.keys or key in function.read or (isinstance(node, exp.Anonymous) and key == "this")
        if not skip and value not in (None, False, []) and function.neutral.get(key) != value:
            raise refusal("DP231", f"an option of {function.name} is not answered", span=span_of(node))
    if len(arguments) < function.least or (function.most is not None and len(arguments) > function.most):
        raise refusal("DP231", f"{function.name} takes {_arity(function)}", span=span_of(node))
    return function.rule(Call(function.name, node, [lower(a, scope) for a in arguments], span_of(node)))


def unknown(name: str, node: exp.Expr) -> Error:
    """The refusal of what has no rule, by what it is."""
    span = span_of(node)
    if isinstance(node, exp.AggFunc):
        return refusal("DP203", f"the aggregate {name} cannot stand inside an expression of single rows", span=span)
    if isinstance(node, exp.Window):
        return refusal("DP222", "a window cannot stand here", span=span)
    if isinstance(node, exp.Subquery | exp.Exists | exp.Select):
        return refusal("DP220", "a subquery cannot stand here", span=span, repair="join the table instead")
    return refusal("DP230", f"{name} is not answered.{nearest(name, NAMES)}", span=span)


def _name(node: exp.Expr) -> str:
    if isinstance(node, exp.Anonymous):
        return str(node.this).lower()
    return node.sql_name().lower() if isinstance(node, exp.Func) else type(node).__name__.lower()


def _arity(function: Function) -> str:
    if function.most is None:
        return f"at least {function.least} arguments"
    if function.least == function.most:
        return "1 argument" if function.least == 1 else f"{function.least} arguments"
    return f"{function.least} to {function.most} arguments"


def _plain(rule: Callable[..., Scalar]) -> Rule:
    """A rule that takes the arguments and the span, and nothing else of the call."""
    return lambda call: rule(*call.arguments, call.span)


def _round(call: Call) -> Scalar:
    places = rounding.places_of(call.arguments[1]) if len(call.arguments) == 2 else 0
    return rounding.rounded(call.arguments[0], places, call.span)


def _coalesce(call: Call) -> Scalar:
    type_, typed = unify(call.arguments, "COALESCE")
    if len(typed) == 1:
        return typed[0]
    tree = exp.Coalesce(this=typed[0].tree, expressions=[t.tree for t in typed[1:]])
    facts = joined([t.facts for t in typed], type_, nullable=all(t.facts.nullable for t in typed))
    return arithmetic.in_its_type(Scalar(tree, facts, call.span), typed)


def _nullif(call: Call) -> Scalar:
    """NULLIF(a, b): of the type of a, also where the two are compared in another type."""
    a, b = call.arguments
    type_, typed = unify([a, b], "NULLIF")
    if type_ == a.facts.type or is_null(a):
        tree: exp.Expr = exp.Nullif(this=repeatable(typed[0]).tree, expression=typed[1].tree)
        facts = typed[0].facts
    else:
        test = comparisons.compare(exp.EQ, a, b, call.span)
        tree = exp.Case(ifs=[exp.If(this=test.tree, true=exp.Null())], default=repeatable(a).tree.copy())
        facts = a.facts
    return Scalar(
        tree,
        facts_of(
            facts.type,
            known(facts),
            held(facts),
            domain=facts.domain,
            nullable=True,
            step=facts.step,
            size=facts.size,
        ),
        call.span,
    )


def _extreme(call: Call) -> Scalar:
    """GREATEST, LEAST: NULLs are ignored, as in DuckDB; NULL where all are. NaN is the greatest."""
    greatest = isinstance(call.node, exp.Greatest)
    type_, typed = unify(call.arguments, call.name)
    if len(typed) == 1:
        return typed[0]
    facts = [t.facts for t in typed]
    base = joined(facts, type_, nullable=all(f.nullable for f in facts))
    certain = [f for f in facts if not f.nullable and f.domain != ()]
    if certain and type_ == facts[0].type and base.type.kind not in (Kind.VARCHAR, Kind.BOOLEAN):
        ends = [_beyond(of(base), [of(f) for f in certain], greatest) for of in (known, held)]
        domain = finite(base) if base.domain is not None else None
        if domain is not None:
            domain = tuple(v for v in domain if _inside(v, ends[0]))
        base = facts_of(type_, *ends, domain=domain, nullable=False, step=base.step, size=base.size)
    node = exp.Greatest if greatest else exp.Least
    tree = node(this=typed[0].tree, expressions=[t.tree for t in typed[1:]], ignore_nulls=True)
    return arithmetic.in_its_type(Scalar(tree, base, call.span), typed)


def _beyond(base: Interval, certain: list[Interval], greatest: bool) -> Interval:
    """A greatest value is at least every operand that is never NULL; a least one at most."""
    if greatest:
        los = [i.lo for i in certain if i.lo is not None]
        lows = los if base.lo is None else [base.lo, *los]
        return Interval(max(lows) if lows else None, base.hi)
    his = [i.hi for i in certain if i.hi is not None]
    highs = his if base.hi is None else [base.hi, *his]
    return Interval(base.lo, min(highs) if highs else None)


def _inside(value: object, interval: Interval) -> bool:
    return (interval.lo is None or value >= interval.lo) and (interval.hi is None or value <= interval.hi)  # type: ignore[operator]


def _extract(call: Call) -> Scalar:
    return dates.extract(_unit(call.node.this, call, tuple(dates.PARTS)), call.arguments[0], call.span)


def _date_part(call: Call) -> Scalar:
    name = strings.literal_text(call.arguments[0], "the part of date_part")
    return dates.extract(dates.part_named(name, call.span), call.arguments[1], call.span)


def _part(part: str) -> Rule:
    return lambda call: dates.extract(part, call.arguments[0], call.span)


def _truncate(call: Call) -> Scalar:
    return dates.truncate(_unit(call.node.args.get("unit"), call, dates.UNITS), call.arguments[0], call.span)


def _difference(call: Call) -> Scalar:
    unit = _unit(call.node.args.get("unit"), call, dates.UNITS)
    return dates.difference(unit, call.arguments[1], call.arguments[0], call.span)


def _unit(node: object, call: Call, among: tuple[str, ...]) -> str:
    """A part of a date as sqlglot keeps it: a bare word or a string, of the list."""
    word = str(node.this) if isinstance(node, exp.Var | exp.Literal) else ""
    return dates.part_named(word, call.span, among)


def _to_date(call: Call) -> Scalar:
    return cast_to(exp.Cast(this=exp.Null(), to=data_type(DATE)), call.arguments[0], call.span)


def _case_of(call: Call) -> Scalar:
    return strings.changed_case(type(call.node), call.arguments[0], call.span)


def _trim(call: Call) -> Scalar:
    characters = call.arguments[1] if len(call.arguments) == 2 else None
    return strings.trimmed(call.arguments[0], characters, call.node.args.get("position"), call.span)


def _substring(call: Call) -> Scalar:
    length = call.arguments[2] if len(call.arguments) == 3 else None
    return strings.substring(call.arguments[0], call.arguments[1], length, call.span)


def _end_of(call: Call) -> Scalar:
    return strings.end_of(type(call.node), call.arguments[0], call.arguments[1], call.span)


def _tested(call: Call) -> Scalar:
    return strings.tested(call.node, call.name, call.arguments[0], call.arguments[1], call.span)


def _like(call: Call) -> Scalar:
    return strings.like(call.node, call.arguments[0], call.arguments[1], call.span)


def _float_test(call: Call) -> Scalar:
    return strings.float_test(call.node, call.name, call.arguments[0], call.span)


_PAIR = ("this", "expression")
_NODES: dict[type[exp.Expr], Function] = {
    exp.Abs: Function("abs", ("this",), _plain(rounding.absolute)),
    exp.Round: Function("round", ("this", "decimals"), _round, 1, 2),
    exp.Floor: Function("floor", ("this",), _plain(rounding.floor)),
    exp.Ceil: Function("ceil", ("this",), _plain(rounding.ceiling)),
    exp.Sign: Function("sign", ("this",), _plain(rounding.sign)),
    exp.IsNan: Function("isnan", ("this",), _float_test),
    exp.IsInf: Function("isinf", ("this",), _float_test),
    exp.Coalesce: Function("coalesce", ("this", "expressions"), _coalesce, 1, None),
    exp.Nullif: Function("nullif", _PAIR, _nullif, 2, 2),
    exp.Greatest: Function("greatest", ("this", "expressions"), _extreme, 1, None, (), {"ignore_nulls": True}),
    exp.Least: Function("least", ("this", "expressions"), _extreme, 1, None, (), {"ignore_nulls": True}),
    exp.Extract: Function("extract", ("expression",), _extract, 1, 1, ("this",)),
    exp.Year: Function("year", ("this",), _part("year")),
    exp.Quarter: Function("quarter", ("this",), _part("quarter")),
    exp.Month: Function("month", ("this",), _part("month")),
    exp.Week: Function("week", ("this",), _part("week")),
    exp.WeekOfYear: Function("weekofyear", ("this",), _part("week")),
    exp.Day: Function("day", ("this",), _part("day")),
    exp.DayOfMonth: Function("dayofmonth", ("this",), _part("day")),
    exp.DayOfWeek: Function("dayofweek", ("this",), _part("dow")),
    exp.DayOfWeekIso: Function("isodow", ("this",), _part("isodow")),
    exp.DayOfYear: Function("dayofyear", ("this",), _part("doy")),
    exp.Hour: Function("hour", ("this",), _part("hour")),
    exp.Minute: Function("minute", ("this",), _part("minute")),
    exp.Second: Function("second", ("this",), _part("second")),
    exp.TimestampTrunc: Function("date_trunc", ("this",), _truncate, 1, 1, ("unit",)),
    exp.DateTrunc: Function("date_trunc", ("this",), _truncate, 1, 1, ("unit",)),
    exp.DateDiff: Function("date_diff", _PAIR, _difference, 2, 2, ("unit",), {"date_part_boundary": True}),
    exp.Date: Function("date", ("this",), _to_date),
    exp.Lower: Function("lower", ("this",), _case_of),
    exp.Upper: Function("upper", ("this",), _case_of),
    exp.Trim: Function("trim", _PAIR, _trim, 1, 2, ("position",)),
    exp.Substring: Function("substring", ("this", "start", "length"), _substring, 2, 3),
    exp.Left: Function("left", _PAIR, _end_of, 2, 2),
    exp.Right: Function("right", _PAIR, _end_of, 2, 2),
    exp.Length: Function("length", ("this",), _plain(strings.length)),
    exp.Contains: Function("contains", _PAIR, _tested, 2, 2),
    exp.StartsWith: Function("starts_with", _PAIR, _tested, 2, 2),
    exp.EndsWith: Function("ends_with", _PAIR, _tested, 2, 2),
    exp.StrPosition: Function("strpos", ("this", "substr"), _plain(strings.place), 2, 2),
    exp.Replace: Function("replace", ("this", "expression", "replacement"), _plain(strings.replaced), 3, 3),
    exp.Concat: Function(
        "concat",
        ("expressions",),
        lambda call: strings.concatenated(call.arguments, call.span),
        1,
        None,
        (),
        {"safe": True, "coalesce": True},
    ),
    exp.DPipe: Function(
        "||",
        _PAIR,
        _plain(strings.joined_pair),
        2,
        2,
        (),
        {"safe": True},
    ),
    exp.Like: Function("like", _PAIR, _like, 2, 2, ("negate",)),
    exp.ILike: Function("ilike", _PAIR, _like, 2, 2, ("negate",)),
}
_NAMED: dict[str, Function] = {
    "date_part": Function("date_part", ("expressions",), _date_part, 2, 2),
    "datepart": Function("datepart", ("expressions",), _date_part, 2, 2),
    "weekday": Function("weekday", ("expressions",), _part("dow")),
    "prefix": Function("prefix", ("expressions",), _tested, 2, 2),
    "suffix": Function("suffix", ("expressions",), _tested, 2, 2),
    "isfinite": Function("isfinite", ("expressions",), _float_test),
}
_OTHER_NAMES = ("if", "case", "cast", "try_cast", "ltrim", "rtrim", "substr", "len", "position", "datediff", "date_add")
NAMES: tuple[str, ...] = tuple(
    sorted({f.name for f in [*_NODES.values(), *_NAMED.values()] if f.name.isidentifier()} | set(_OTHER_NAMES))
)
"""Every function that rows may be given to, for completion and for "did you mean"."""
