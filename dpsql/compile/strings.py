"""Text: case, parts, lengths, searches, LIKE, concatenation. Nothing here grows or slows down by value.

An expression may repeat its input: `concat(s, s)` is twice as long, and `replace` and nesting multiply. How many
characters come out per character that goes in is kept in `Facts.size` and limited, since the engine's memory limit
does not bound the values of one row. Searches take a literal pattern, so that their time is linear in the text.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction

from sqlglot import exp

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
from dpsql.compile.literals import cast, is_literal
from dpsql.compile.ranges import Interval, Unsure, facts_of, held, mapped
from dpsql.compile.trees import wrapped
from dpsql.errors import Span, refusal
from dpsql.policy.facts import Kind

MAX_GROWTH = 64
"""Characters out per character in."""

_MAX_OFFSET = 2**32 - 1  # beyond it DuckDB raises "Substring offset outside of supported range"
_LENGTHS = Interval(Fraction(0), Fraction(2**32))


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
    domain, _ = mapped(lambda s: function(_ascii(s)), [a.facts])
    return _text(node(this=a.tree), [a], domain, a.facts.size, span)


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
    domain, _ = mapped(lambda s: strip(_ascii(s), _ascii(chosen)) if chosen else _ascii(s), [a.facts])
    return _text(tree, [a], domain, a.facts.size, span)


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
    return _text(tree, arguments, domain, a.facts.size, span)


def end_of(node: type[exp.Expr], a: Scalar, count: Scalar, span: Span | None) -> Scalar:
    """left(s, n), right(s, n): all but -n characters where n is negative."""
    name = node.__name__.lower()
    a, count = text(a, name), offset(count)
    cut: Callable[[str, int], str] = (lambda s, n: s[:n]) if node is exp.Left else _right
    domain, _ = mapped(lambda s, n: cut(_ascii(s), int(n)), [a.facts, count.facts])
    return _text(node(this=a.tree, expression=count.tree), [a, count], domain, a.facts.size, span)


def length(a: Scalar, span: Span | None) -> Scalar:
    """Characters; Unicode code points, as in DuckDB."""
    a = text(a, "length")
    domain, _ = mapped(lambda s: len(_ascii(s)), [a.facts])
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
    domain, _ = mapped(lambda s: _ascii(s).find(wanted) + 1, [a.facts])
    facts = facts_of(INTEGER, Interval(Fraction(0)), _LENGTHS, domain=domain, nullable=a.facts.nullable)
    return settled(exp.StrPosition(this=a.tree, substr=part.tree), facts, [a], span)


def replaced(a: Scalar, old: Scalar, new: Scalar, span: Span | None) -> Scalar:
    """replace(s, 'x', 'y')."""
    a = text(a, "replace")
    before, after = literal_text(old, "what replace looks for"), literal_text(new, "what replace puts in")
    factor = -(-len(after) // len(before)) if before else 1
    size = grown(a.facts.size * max(1, factor), span)
    domain, _ = mapped(lambda s: str(s).replace(before, after) if before else str(s), [a.facts])
    tree = exp.Replace(this=a.tree, expression=old.tree, replacement=new.tree)
    return _text(tree, [a], domain, size, span)


def concatenated(several: Sequence[Scalar], span: Span | None) -> Scalar:
    """concat(...): NULLs are left out, and it is never NULL itself. Other types become text."""
    typed = [as_text(s) for s in several]
    size = grown(sum(_weight(s) for s in typed), span)
    domain = None
    if not any(s.facts.nullable for s in typed):
        domain, _ = mapped(lambda *parts: "".join(map(str, parts)), [s.facts for s in typed])
    tree = exp.Concat(expressions=[s.tree for s in typed], safe=True, coalesce=True)
    return settled(tree, facts_of(VARCHAR, domain=domain, nullable=False, size=size), typed, span)


def joined_pair(a: Scalar, b: Scalar, span: Span | None) -> Scalar:
    """a || b: NULL where a side is. Other types become text."""
    a, b = as_text(a), as_text(b)
    size = grown(_weight(a) + _weight(b), span)
    domain, _ = mapped(lambda s, t: f"{s}{t}", [a.facts, b.facts])
    tree = exp.DPipe(this=wrapped(a.tree), expression=wrapped(b.tree), safe=True)
    return _text(tree, [a, b], domain, size, span)


def like(node: exp.Expr, a: Scalar, pattern: Scalar, span: Span | None) -> Scalar:
    """LIKE, ILIKE and their negations with a literal pattern that can be matched in linear time.

    DuckDB matches a pattern of `%` alone piece by piece; one that has `_` too it matches by trying every place for
    every `%` but a last one, which takes n^k steps: so there may be one such `%`. ILIKE is LIKE on lower case, which
    is what DuckDB's ILIKE does, without its matcher's n^k."""
    name = "ILIKE" if isinstance(node, exp.ILike) else "LIKE"
    a = text(a, name)
    wanted = literal_text(pattern, f"the pattern of {name}")
    pieces = wanted.rstrip("%").split("%")
    if "_" in wanted and len(pieces) > 2:
        raise refusal(
            "DP231",
            f"a pattern of {name} with _ has one % before its end at most",
            span=pattern.span,
            repair="split it: x LIKE '%a%' AND x LIKE '_b%', or use contains()",
        )
    if name == "ILIKE":
        wanted = _lowered(wanted, pattern.span)
        a = changed_case(exp.Lower, a, a.span)
    tree = exp.Like(this=wrapped(a.tree), expression=exp.Literal.string(wanted))
    if node.args.get("negate"):
        tree.set("negate", True)
    return Scalar(tree, facts_of(BOOLEAN, nullable=a.facts.nullable), span)


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


def as_text(a: Scalar) -> Scalar:
    """Any scalar as text."""
    if a.facts.type == VARCHAR or is_null(a):
        return convert(a, VARCHAR)
    return Scalar(cast(a.tree, VARCHAR), facts_of(VARCHAR, nullable=a.facts.nullable, size=0), a.span)


def grown(size: int, span: Span | None) -> int:
    """A growth factor within the limit, or a refusal."""
    if size > MAX_GROWTH:
        raise refusal(
            "DP233",
            f"the text can become more than {MAX_GROWTH} times as long as what it is made of",
            span=span,
            repair="repeat a column less often, or replace with a shorter text",
        )
    return max(1, size)


def _weight(a: Scalar) -> int:
    """What an operand adds to the growth: a literal adds a constant, which is not counted."""
    return 0 if is_literal(a.tree) else a.facts.size


def _text(tree: exp.Expr, arguments: list[Scalar], domain: list[Value] | None, size: int, span: Span | None) -> Scalar:
    nullable = any(a.facts.nullable for a in arguments)
    return settled(tree, facts_of(VARCHAR, domain=domain, nullable=nullable, size=size), arguments, span)


def _ascii(value: Value) -> str:
    """Text on which Python and DuckDB agree about case and characters."""
    if not isinstance(value, str) or not value.isascii():
        raise Unsure
    return value


def _substring(value: Value, start: Value, count: Value | None = None) -> str:
    """With positions from 1 and a length of at least 0; what else DuckDB allows is left to it."""
    first = int(start)  # type: ignore[arg-type]
    if first < 1 or (count is not None and int(count) < 0):  # type: ignore[arg-type]
        raise Unsure
    whole = _ascii(value)[first - 1 :]
    return whole if count is None else whole[: int(count)]  # type: ignore[arg-type]


def _right(value: str, count: int) -> str:
    return value[-count:] if count > 0 else value[-count:] if count < 0 else ""


def _lowered(pattern: str, span: Span | None) -> str:
    lowered = "".join(c.lower() if len(c.lower()) == 1 else "\0" for c in pattern)
    if "\0" in lowered:
        raise refusal("DP231", "the pattern has a letter without a lower case of its own", span=span)
    return lowered
