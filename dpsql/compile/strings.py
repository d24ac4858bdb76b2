"""Text: case, parts, lengths, codes, searches. Nothing here grows or slows down by value.

Searches take a literal, so that their time is linear in the text. What makes a text longer is in `composed`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction

from sqlglot import exp

from dpsql.compile.guards import guarded, repeatable
from dpsql.compile.ir import Scalar, Value
from dpsql.compile.kinds import (
    BOOLEAN,
    DOUBLE,
    INTEGER,
    VARCHAR,
    constant,
    constant_of,
    convert,
    is_null,
    settled,
    words,
)
from dpsql.compile.literals import cast
from dpsql.compile.ranges import Interval, Unsure, facts_of, held, mapped
from dpsql.errors import Span, refusal
from dpsql.policy.facts import Kind

_MAX_OFFSET = 2**32 - 1  # beyond it DuckDB raises "Substring offset outside of supported range"
_LENGTHS = Interval(Fraction(0), Fraction(2**32))
_LAST_CODE, _LAST_PLAIN_CODE = 0x10FFFF, 0xD7FF
MAX_PART = 1_000_000
MAX_FOLDED = 10_000
"""Characters of a text that the compiler computes."""

MAX_LISTED = 1_000_000
"""Characters of a domain."""


def text(a: Scalar, what: str) -> Scalar:
    """The scalar, which must be text."""
    if a.facts.type == VARCHAR or is_null(a):
        return convert(a, VARCHAR)
    raise refusal(
        "DP232",
        f"{what} needs text and is given {words(a.facts)}",
        span=a.span,
        repair="convert it with CAST(x AS VARCHAR)",
    )


def literal_text(a: Scalar, what: str) -> str:
    """An argument that must be a text literal."""
    value = constant(a)
    if not isinstance(value, str):
        raise refusal("DP231", f"{what} is not a text literal", span=a.span, repair="write it in quotes: 'abc'")
    return value


def changed_case(node: type[exp.Expr], a: Scalar, span: Span | None) -> Scalar:
    """lower, upper: character by character, so the length stays."""
    a = text(a, node.__name__.lower())
    function = str.lower if node is exp.Lower else str.upper
    domain, _ = mapped(lambda s: function(ascii_only(s)), [a.facts])
    return made(node(this=a.tree), [a], domain, a.facts.size, span)


def trimmed(a: Scalar, characters: Scalar | None, position: str | None, span: Span | None) -> Scalar:
    """trim, ltrim, rtrim: of spaces, or of the characters of a literal."""
    a = text(a, "trim")
    chosen = " " if characters is None else literal_text(characters, "the second argument of trim")
    tree = exp.Trim(this=a.tree)
    if characters is not None:
        tree.set("expression", characters.tree)
    if position in ("LEADING", "TRAILING"):
        tree.set("position", position)
    strip = {"LEADING": str.lstrip, "TRAILING": str.rstrip}.get(position or "", str.strip)
    domain, _ = mapped(lambda s: strip(ascii_only(s), ascii_only(chosen)) if chosen else ascii_only(s), [a.facts])
    return made(tree, [a], domain, a.facts.size, span)


def substring(a: Scalar, start: Scalar, length: Scalar | None, span: Span | None) -> Scalar:
    """substring(s, start [, length]): counts from 1, from the end where negative."""
    a, start = text(a, "substring"), offset(start)
    length = None if length is None else offset(length)
    tree = exp.Substring(this=a.tree, start=start.tree)
    arguments = [a, start]
    if length is not None:
        tree.set("length", length.tree)
        arguments.append(length)
    domain, _ = mapped(_substring, [s.facts for s in arguments])
    return made(tree, arguments, domain, a.facts.size, span)


def end_of(node: type[exp.Expr], a: Scalar, count: Scalar, span: Span | None) -> Scalar:
    """left(s, n), right(s, n): all but -n characters where n is negative."""
    name = node.__name__.lower()
    a, count = text(a, name), offset(count)
    cut: Callable[[str, int], str] = (lambda s, n: s[:n]) if node is exp.Left else _right
    domain, _ = mapped(lambda s, n: cut(ascii_only(s), int(n)), [a.facts, count.facts])
    return made(node(this=a.tree, expression=count.tree), [a, count], domain, a.facts.size, span)


def length(a: Scalar, span: Span | None) -> Scalar:
    """Characters; Unicode code points, as in DuckDB."""
    a = text(a, "length")
    domain, _ = mapped(lambda s: len(ascii_only(s)), [a.facts])
    facts = facts_of(INTEGER, Interval(Fraction(0)), _LENGTHS, domain=domain, nullable=a.facts.nullable)
    return settled(exp.Length(this=a.tree), facts, [a], span)


def tested(node: exp.Expr, name: str, a: Scalar, part: Scalar, span: Span | None) -> Scalar:
    """contains, starts_with, ends_with and their other names. Only contains needs a literal: the others look once."""
    a, part = text(a, name), text(part, name)
    if name == "contains":
        literal_text(part, "the second argument of contains")
    test = {"contains": str.__contains__, "starts_with": str.startswith, "prefix": str.startswith}.get(
        name, str.endswith
    )
    domain, _ = mapped(lambda s, t: test(str(s), str(t)), [a.facts, part.facts])
    if isinstance(node, exp.Anonymous):
        tree: exp.Expr = exp.Anonymous(this=name.upper(), expressions=[a.tree, part.tree])
    else:
        tree = type(node)(this=a.tree, expression=part.tree)
    facts = facts_of(BOOLEAN, domain=domain or None, nullable=a.facts.nullable or part.facts.nullable)
    return settled(tree, facts, [a, part], span)


def place(a: Scalar, part: Scalar, span: Span | None) -> Scalar:
    """strpos(s, 'x'): where x begins, from 1; 0 where it does not stand."""
    a = text(a, "strpos")
    wanted = literal_text(part, "what strpos looks for")
    domain, _ = mapped(lambda s: ascii_only(s).find(wanted) + 1, [a.facts])
    facts = facts_of(INTEGER, Interval(Fraction(0)), _LENGTHS, domain=domain, nullable=a.facts.nullable)
    return settled(exp.StrPosition(this=a.tree, substr=part.tree), facts, [a], span)


def reversed_text(a: Scalar, span: Span | None) -> Scalar:
    """reverse(s): by what people see as one character, as in DuckDB."""
    a = text(a, "reverse")
    domain, _ = mapped(lambda s: ascii_only(s)[::-1], [a.facts])
    return made(exp.Reverse(this=a.tree), [a], domain, a.facts.size, span)


def translated(a: Scalar, old: Scalar, new: Scalar, span: Span | None) -> Scalar:
    """translate(s, 'abc', 'xy'): each character as the one in its place, or left out where there is none."""
    a = text(a, "translate")
    for part in (old, new):
        literal_text(part, "what translate puts in place of characters")
    return made(exp.Translate(this=a.tree, from_=old.tree, to=new.tree), [a], None, a.facts.size, span)


def part_between(a: Scalar, separator: Scalar, number: Scalar, span: Span | None) -> Scalar:
    """split_part(s, ',', 2): the n-th part, from the end where n is negative, '' where there is none."""
    a = text(a, "split_part")
    between = literal_text(separator, "the separator of split_part")
    place = literal_number(number, "split_part", MAX_PART)
    if not between:
        raise refusal("DP231", "the separator of split_part is empty", span=separator.span, repair="use substring()")
    repeatable(a)

    def part(value: Value) -> str:
        parts = str(value).split(between)
        index = place - 1 if place > 0 else len(parts) + place if place else -1
        return parts[index] if 0 <= index < len(parts) else ""

    domain, _ = mapped(part, [a.facts])
    index = constant_of(place, INTEGER)
    tree = exp.SplitPart(this=a.tree, delimiter=separator.tree, part_index=index.tree)
    return made(tree, [a], domain, a.facts.size, span)


def measured(node: exp.Expr, name: str, a: Scalar, span: Span | None) -> Scalar:
    """strlen: bytes. bit_length: bits."""
    a = text(a, name)
    unit = 8 if name == "bit_length" else 1
    domain, _ = mapped(lambda s: len(str(s).encode()) * unit, [a.facts])
    tree: exp.Expr = exp.BitLength(this=a.tree)
    if isinstance(node, exp.Anonymous):
        tree = exp.Anonymous(this=name.upper(), expressions=[a.tree])
    most = Interval(Fraction(0), Fraction(2**34 * unit))
    facts = facts_of(INTEGER, Interval(Fraction(0)), most, domain=domain, nullable=a.facts.nullable)
    return settled(tree, facts, [a], span)


def code(node: exp.Expr, name: str, a: Scalar, span: Span | None) -> Scalar:
    """ascii, unicode, ord: the number of the first character; of '' it is 0, or -1."""
    a = text(a, name)
    empty = 0 if name == "ascii" else -1
    domain, _ = mapped(lambda s: ord(str(s)[0]) if s else empty, [a.facts])
    tree: exp.Expr = type(node)(this=a.tree)
    if isinstance(node, exp.Anonymous):
        tree = exp.Anonymous(this="ORD", expressions=[a.tree])
    codes = Interval(Fraction(empty), Fraction(_LAST_CODE))
    facts = facts_of(INTEGER, codes, codes, domain=domain, nullable=a.facts.nullable)
    return settled(cast(tree, INTEGER), facts, [a], span)


def character(a: Scalar, span: Span | None) -> Scalar:
    """chr(n): the character of a number from 1 to 55295 (beyond are surrogates, and characters of two of them), else
    NULL: DuckDB raises where there is none."""
    if a.facts.type != INTEGER:
        raise refusal("DP232", f"chr needs an integer and is given {words(a.facts)}", span=a.span)
    a = guarded(convert(a, INTEGER), Interval(Fraction(1), Fraction(_LAST_PLAIN_CODE)))
    domain, null = mapped(lambda n: chr(int(n)) if 1 <= int(n) <= _LAST_PLAIN_CODE else None, [a.facts])
    tree = exp.Chr(expressions=[exp.Cast(this=a.tree, to=exp.DataType(this=exp.DType.INT, nested=False))])
    facts = facts_of(VARCHAR, domain=domain, nullable=a.facts.nullable or null)
    return settled(tree, facts, [a], span)


def float_test(node: exp.Expr, name: str, a: Scalar, span: Span | None) -> Scalar:
    """isnan, isinf, isfinite of a number; the last two of a date too."""
    if a.facts.is_numeric:
        a = convert(a, DOUBLE)
    elif name == "isnan" or a.facts.type.kind not in (Kind.DATE, Kind.TIMESTAMP):
        raise refusal("DP232", f"{name} needs a number and is given {words(a.facts)}", span=a.span)
    domain = [name == "isfinite"] if held(a.facts).is_bounded else None
    tree: exp.Expr = type(node)(this=a.tree)
    if isinstance(node, exp.Anonymous):
        tree = exp.Anonymous(this=name.upper(), expressions=[a.tree])
    return Scalar(tree, facts_of(BOOLEAN, domain=domain, nullable=a.facts.nullable), span)


def literal_number(a: Scalar, what: str, most: int) -> int:
    """An argument that must be an integer literal of at most so much."""
    value = constant(a)
    if not isinstance(value, int) or isinstance(value, bool) or abs(value) > most:
        reason = f"a number that {what} takes is not an integer literal up to {most}"
        raise refusal("DP231", reason, span=a.span, repair=f"write a number up to {most}")
    return value


def offset(a: Scalar) -> Scalar:
    """A position or a number of characters that DuckDB takes: a literal, or an integer proved to be in range."""
    value = constant(a)
    if isinstance(value, int) and not isinstance(value, bool):
        return constant_of(max(-_MAX_OFFSET, min(_MAX_OFFSET, value)), INTEGER, a.span)
    if is_null(a):
        return convert(a, INTEGER)
    holds = held(a.facts)
    if a.facts.type == INTEGER and holds.lo >= -_MAX_OFFSET and holds.hi <= _MAX_OFFSET:  # type: ignore[operator]
        return a
    raise refusal(
        "DP231",
        "a position or length is neither an integer literal nor an integer with bounds",
        span=a.span,
        repair="bound it: LEAST(GREATEST(n, 0), 1000)",
    )


def made(
    tree: exp.Expr,
    arguments: Sequence[Scalar],
    domain: list[Value] | None,
    size: int,
    span: Span | None,
    *,
    nullable: bool | None = None,
) -> Scalar:
    """A text from its arguments; unless said otherwise, NULL where one of them is. Long ones are neither listed nor
    folded: each step would multiply what the compiler itself holds."""
    if domain is not None:
        lengths = [len(str(value)) for value in domain]
        if sum(lengths) > MAX_LISTED or max(lengths, default=0) > MAX_FOLDED:
            domain = None
    null = any(a.facts.nullable for a in arguments) if nullable is None else nullable
    return settled(tree, facts_of(VARCHAR, domain=domain, nullable=null, size=size), arguments, span)


def ascii_only(value: Value) -> str:
    """Text on which Python and DuckDB agree about case and characters."""
    if not isinstance(value, str) or not value.isascii():
        raise Unsure
    return value


def _substring(value: Value, start: Value, count: Value | None = None) -> str:
    """With positions from 1 and a length of at least 0; what else DuckDB allows is left to it."""
    first = int(start)  # type: ignore[arg-type]
    if first < 1 or (count is not None and int(count) < 0):  # type: ignore[arg-type]
        raise Unsure
    whole = ascii_only(value)[first - 1 :]
    return whole if count is None else whole[: int(count)]  # type: ignore[arg-type]


def _right(value: str, count: int) -> str:
    return value[-count:] if count > 0 else value[-count:] if count < 0 else ""
