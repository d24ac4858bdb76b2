"""Types that go together: refusals about arguments, the common type of several expressions, conversions.

DuckDB converts implicitly, and raises where a value does not fit. Here every conversion is written into the tree,
is proved total from the held interval, or becomes a TRY_CAST.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime
from fractions import Fraction

from sqlglot import exp

from dpsql.compile.guards import as_moment
from dpsql.compile.ir import Facts, Scalar, Value
from dpsql.compile.literals import (
    cast,
    date_of,
    decimal_of,
    is_literal,
    literal,
    moment_of,
    null,
    timestamp_of,
    try_cast,
)
from dpsql.compile.ranges import Interval, bound_of, facts_of, finite, floating, held, known, magnitude, step_of
from dpsql.compile.scan import STRICT_NUMBER
from dpsql.compile.trees import called
from dpsql.errors import Error, Span, refusal
from dpsql.policy.facts import Kind, SqlType

BOOLEAN, INTEGER, DOUBLE = SqlType(Kind.BOOLEAN), SqlType(Kind.INTEGER), SqlType(Kind.DOUBLE)
VARCHAR, DATE, TIMESTAMP = SqlType(Kind.VARCHAR), SqlType(Kind.DATE), SqlType(Kind.TIMESTAMP)
MAX_DIGITS = 38
FAST_DIGITS = 18
"""A DECIMAL of up to so many digits is a 64-bit integer in DuckDB."""

NULL = facts_of(INTEGER, Interval(Fraction(0), Fraction(0)), domain=(), nullable=True)
"""Facts of a bare NULL: no value at all, and a type that follows its surroundings."""

_WORDS = {
    Kind.BOOLEAN: "a boolean",
    Kind.INTEGER: "an integer",
    Kind.DECIMAL: "a decimal number",
    Kind.DOUBLE: "a number",
    Kind.VARCHAR: "text",
    Kind.DATE: "a date",
    Kind.TIMESTAMP: "a timestamp",
}


def decimal(width: int, scale: int) -> SqlType:
    return SqlType(Kind.DECIMAL, width, scale)


def words(facts: Facts) -> str:
    """The kind of a value in a sentence."""
    return _WORDS[facts.type.kind]


def mismatch(reason: str, span: Span | None, repair: str) -> Error:
    """DP232: types that do not go together."""
    return refusal("DP232", reason, span=span, repair=repair)


def is_null(scalar: Scalar) -> bool:
    """Whether an expression is a bare NULL."""
    return isinstance(scalar.tree, exp.Null)


def constant(scalar: Scalar) -> Value | None:
    """The value of a literal; None for all else, NULL included."""
    domain = scalar.facts.domain
    return domain[0] if domain is not None and len(domain) == 1 and is_literal(scalar.tree) else None


def constant_of(value: Value, type_: SqlType, span: Span | None = None) -> Scalar:
    """A literal as an expression."""
    bound = None if type_.kind in (Kind.BOOLEAN, Kind.VARCHAR) else bound_of(value)
    if type_.kind is Kind.DECIMAL:
        assert isinstance(bound, Fraction)
        value = decimal_of(bound, type_.scale)
    return Scalar(literal(value, type_), Facts(type_, bound, bound, (value,), nullable=False), span)


def settled(tree: exp.Expr, facts: Facts, arguments: Sequence[Scalar], span: Span | None = None) -> Scalar:
    """The expression, or its value where it has literals only and one value.

    Folding matters beyond speed: `DATE '1998-12-01' - INTERVAL 90 DAY` stays a bound that a zone map can use."""
    domain = facts.domain
    if domain is not None and len(domain) == 1 and not facts.nullable and all(is_literal(a.tree) for a in arguments):
        return constant_of(domain[0], facts.type, span)
    return Scalar(tree, facts, span)


def room(interval: Interval, scale: int) -> int:
    """The width of a DECIMAL for an interval: a digit before the point at least, as DuckDB writes '.5' without one."""
    return max(scale + 1, digits(interval, scale))


def digits(interval: Interval, scale: int) -> int:
    """Decimal digits that a DECIMAL of this scale needs for every value of a bounded interval."""
    size = magnitude(interval).hi
    assert isinstance(size, Fraction)
    return max(1, scale, len(str(int(size * 10**scale))))


def as_decimal(scalar: Scalar) -> Scalar:
    """An INTEGER as the narrowest DECIMAL that holds it, or a DOUBLE where none does; all else as it is."""
    if scalar.facts.type.kind is not Kind.INTEGER:
        return scalar
    width = digits(held(scalar.facts), 0)
    return convert(scalar, decimal(width, 0) if width <= MAX_DIGITS else DOUBLE)


def convert(scalar: Scalar, target: SqlType) -> Scalar:
    """The same value as `target`, by a total cast. Callers ask only for what SQL converts implicitly."""
    source, facts = scalar.facts.type, scalar.facts
    if source == target and not is_null(scalar):
        return scalar
    if is_null(scalar):
        bounds = Interval(Fraction(0), Fraction(0)) if facts_of(target, nullable=True).is_numeric else Interval()
        return Scalar(null(target), facts_of(target, bounds, bounds, domain=(), nullable=True), scalar.span)
    value = constant(scalar)
    if value is not None:
        changed = value_as(value, target)
        if changed is not None:
            return constant_of(changed, target, scalar.span)
    interval, holds = known(facts), held(facts)
    domain = finite(facts) if facts.type.kind in (Kind.BOOLEAN, Kind.DATE) else facts.domain
    values = None if domain is None else [value_as(v, target) for v in domain]
    certain = None if values is None or None in values else [v for v in values if v is not None]
    total = True
    if target.kind in (Kind.INTEGER, Kind.DECIMAL, Kind.DOUBLE) and source.kind is Kind.BOOLEAN:
        interval = holds = Interval(Fraction(0), Fraction(1))
    elif target.kind is Kind.DOUBLE:
        interval, holds = floating(interval), floating(holds)
    elif target.kind is Kind.DECIMAL:
        total = digits(holds, target.scale) <= target.width
    elif target.kind is Kind.TIMESTAMP:
        scalar = as_moment(scalar)
        facts = scalar.facts
        interval, holds = _midnights(interval), _midnights(held(facts))
    elif target.kind is Kind.BOOLEAN:
        interval = holds = Interval()
    tree = cast(scalar.tree, target) if total else try_cast(scalar.tree, target)
    result = facts_of(
        target,
        interval,
        holds,
        domain=certain,
        nullable=facts.nullable or not total,
        step=step_of(facts),
        size=facts.size,
    )
    return Scalar(tree, result, scalar.span)


def value_as(value: Value | Fraction, target: SqlType) -> Value | None:
    """A value in another type where the conversion is exact (a DOUBLE: nearest); None where it is not."""
    kind = target.kind
    if isinstance(value, str):
        if kind is Kind.VARCHAR:
            return value
        return date_of(value) if kind is Kind.DATE else timestamp_of(value) if kind is Kind.TIMESTAMP else None
    if isinstance(value, date):
        if kind is Kind.TIMESTAMP:
            return moment_of(value)
        return value if kind is Kind.DATE and not isinstance(value, datetime) else None
    if kind is Kind.BOOLEAN:
        return bool(value)
    if kind is Kind.DOUBLE:
        return float(value)
    exact = Fraction(value)
    if kind is Kind.INTEGER:
        return int(exact) if exact.denominator == 1 else None
    if kind is not Kind.DECIMAL or (exact * 10**target.scale).denominator != 1:
        return None
    fits = abs(exact) * 10**target.scale < 10**target.width
    return decimal_of(exact, target.scale) if fits else None


def unify(scalars: Sequence[Scalar], what: str) -> tuple[SqlType, list[Scalar]]:
    """All as one type, chosen as DuckDB chooses it, or DP232. `what` names the place in the refusal.

    BOOLEAN goes into any number; INTEGER into DECIMAL; both into DOUBLE (beyond 2^53 to the nearest DOUBLE, as in
    DuckDB); DATE into TIMESTAMP; a text literal becomes the date or timestamp that it spells. Text never becomes a
    number, since that conversion fails by value."""
    some = [s for s in scalars if not is_null(s)]
    if not some:
        return INTEGER, [convert(s, INTEGER) for s in scalars]
    dated = [s for s in some if s.facts.type.kind in (Kind.DATE, Kind.TIMESTAMP)]
    if dated and len(dated) < len(some):
        some = [_as_date(s, dated[0], what) for s in some]
        typed = iter(some)
        scalars = [s if is_null(s) else next(typed) for s in scalars]
    target = _common([s.facts for s in some], some, what)
    return target, [convert(s, target) for s in scalars]


def _as_date(scalar: Scalar, partner: Scalar, what: str) -> Scalar:
    """A text literal as a date or timestamp; other texts and numbers do not go with dates."""
    if scalar.facts.type.kind in (Kind.DATE, Kind.TIMESTAMP):
        return scalar
    value = constant(scalar)
    if not isinstance(value, str):
        raise mismatch(
            f"{what} mixes {words(partner.facts)} and {words(scalar.facts)}",
            scalar.span,
            _with_date(scalar, text_of(partner)),
        )
    return spelled(value, partner.facts.type, scalar.span)


def _with_date(scalar: Scalar, date_: str) -> str:
    """How something else is brought together with a date."""
    if scalar.facts.type.kind is Kind.VARCHAR:
        return f"convert the text: TRY_CAST({text_of(scalar)} AS DATE)"
    value = constant(scalar)
    year = isinstance(value, int) and 1000 <= value <= 9999
    return f"compare its year: year({date_})" if year else "write the day as DATE '2020-01-31'"


def text_of(scalar: Scalar) -> str:
    """A column as it was written; `x` for all else."""
    return called(scalar.tree) if isinstance(scalar.tree, exp.Column) else "x"


def spelled(text: str, target: SqlType, span: Span | None) -> Scalar:
    """The date or timestamp literal that a text spells, or DP232."""
    moment = timestamp_of(text)
    if moment is None:
        name = "date" if target.kind is Kind.DATE else "timestamp"
        raise mismatch(f"the text does not spell a {name}", span, "write it as '2020-01-31' or '2020-01-31 23:59:59'")
    if target.kind is Kind.DATE:
        return constant_of(moment.date(), DATE, span)
    return constant_of(moment, TIMESTAMP, span)


def _common(several: Sequence[Facts], scalars: Sequence[Scalar], what: str) -> SqlType:
    kinds = {f.type.kind for f in several}
    if kinds == {Kind.DECIMAL} or (kinds <= {Kind.BOOLEAN, Kind.INTEGER, Kind.DECIMAL} and Kind.DECIMAL in kinds):
        return _common_decimal(several)
    if len(kinds) == 1:
        return several[0].type
    if kinds <= {Kind.BOOLEAN, Kind.INTEGER, Kind.DECIMAL, Kind.DOUBLE}:
        return DOUBLE if Kind.DOUBLE in kinds else INTEGER
    if kinds == {Kind.DATE, Kind.TIMESTAMP}:
        return TIMESTAMP
    first = several[0]
    odd = next(s for s in scalars if s.facts.type.kind is not first.type.kind)
    texts = [s for s in scalars if s.facts.type.kind is Kind.VARCHAR]
    others = [s for s in scalars if s not in texts]
    raise mismatch(f"{what} mixes {words(first)} and {words(odd.facts)}", odd.span, _alike(texts, others))


def _alike(texts: Sequence[Scalar], others: Sequence[Scalar]) -> str:
    """How texts and values of other kinds are brought together."""
    value = next((v for s in texts if (v := constant(s)) is not None), None)
    if any(s.facts.type.kind is Kind.BOOLEAN for s in others):
        return "write TRUE or FALSE without quotes"
    if isinstance(value, str) and STRICT_NUMBER.fullmatch(value):
        return f"write the number without quotes: {value}"
    number = next((v for s in others if (v := constant(s)) is not None), None)
    if value is None and number is not None and texts:
        return f"write it in quotes: '{number}'"
    if value is not None:
        as_text = f"CAST({text_of(others[0])} AS VARCHAR)" if others else ""
        return f"write a number, such as 10; {as_text} is the number as text" if others else "convert one with CAST"
    x = text_of(texts[0]) if texts else "x"
    return f"convert the text with TRY_CAST({x} AS DOUBLE), which is NULL where it spells no number"


def _common_decimal(several: Sequence[Facts]) -> SqlType:
    """The DECIMAL that holds all, by their types, or by their held values where the types need too many digits."""
    scale = max(f.type.scale for f in several)
    declared = [f.type.width - f.type.scale if f.type.kind is Kind.DECIMAL else _integer_digits(f) for f in several]
    width = max(1, max(declared) + scale)
    if width <= MAX_DIGITS:
        return decimal(width, scale)
    needed = max(room(held(f), scale) if f.type.kind is not Kind.BOOLEAN else 1 + scale for f in several)
    return decimal(needed, scale) if needed <= MAX_DIGITS else DOUBLE


def _integer_digits(facts: Facts) -> int:
    return 1 if facts.type.kind is Kind.BOOLEAN else digits(held(facts), 0)


def _midnights(interval: Interval) -> Interval:
    lo, hi = (None if b is None else datetime(b.year, b.month, b.day) for b in (interval.lo, interval.hi))  # type: ignore[union-attr]
    return Interval(lo, hi)
