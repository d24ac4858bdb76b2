"""Text that is made of texts: concat, ||, replace, lpad, rpad, repeat.

An expression may repeat its input: `concat(s, s)` is twice as long, and `replace` and nesting multiply. How many
characters come out per character that goes in is kept in `Facts.size` and limited, since the engine's memory limit
does not bound the values of one row. What is added beside is a constant: literals, and padding up to MAX_PADDED.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from math import prod

from sqlglot import exp

from dpsql.compile.casts import to_text
from dpsql.compile.ir import MAX_INFERRED_KEYS, Scalar, Value
from dpsql.compile.kinds import INTEGER, VARCHAR, constant_of, convert, is_null
from dpsql.compile.literals import is_literal
from dpsql.compile.ranges import finite, how_many, mapped
from dpsql.compile.strings import ascii_only, literal_number, literal_text, made, text
from dpsql.compile.trees import wrapped
from dpsql.errors import Span, refusal

MAX_GROWTH = 64
"""Characters out per character in."""

MAX_PADDED = 1_000
"""Characters that lpad and rpad may fill up to."""


def replaced(a: Scalar, old: Scalar, new: Scalar, span: Span | None) -> Scalar:
    """replace(s, 'x', 'y')."""
    a = text(a, "replace")
    before, after = literal_text(old, "what replace looks for"), literal_text(new, "what replace puts in")
    factor = -(-len(after) // len(before)) if before else 1
    size = grown(a.facts.size * max(1, factor), span)
    domain, _ = mapped(lambda s: str(s).replace(before, after) if before else str(s), [a.facts])
    tree = exp.Replace(this=a.tree, expression=old.tree, replacement=new.tree)
    return made(tree, [a], domain, size, span)


def concatenated(several: Sequence[Scalar], span: Span | None) -> Scalar:
    """concat(...): NULLs are left out, and it is never NULL itself. Other types become text."""
    typed = [as_text(s) for s in several]
    size = grown(sum(_weight(s) for s in typed), span)
    domain = _joined("", typed)
    tree = exp.Concat(expressions=[s.tree for s in typed], safe=True, coalesce=True)
    return made(tree, typed, domain, size, span, nullable=False)


def joined_by(separator: Scalar, several: Sequence[Scalar], span: Span | None) -> Scalar:
    """concat_ws('-', ...): NULLs are left out, and it is never NULL itself. Other types become text."""
    between = literal_text(separator, "the separator of concat_ws")
    typed = [as_text(s) for s in several]
    size = grown(sum(_weight(s) for s in typed), span)
    domain = _joined(between, typed)
    tree = exp.ConcatWs(expressions=[separator.tree, *(s.tree for s in typed)], safe=True, coalesce=True)
    return made(tree, typed, domain, size, span, nullable=False)


def _joined(between: str, several: Sequence[Scalar]) -> list[Value] | None:
    """All texts that parts can be joined to, of which those that are NULL are left out."""
    if any(how_many(s.facts) is None for s in several):
        return None
    if prod((how_many(s.facts) or 0) + s.facts.nullable for s in several) > MAX_INFERRED_KEYS:
        return None
    choices = [[*(finite(s.facts) or ()), *([None] if s.facts.nullable else [])] for s in several]
    return [between.join(str(part) for part in row if part is not None) for row in product(*choices)]


def joined_pair(a: Scalar, b: Scalar, span: Span | None) -> Scalar:
    """a || b: NULL where a side is. Other types become text."""
    a, b = as_text(a), as_text(b)
    size = grown(_weight(a) + _weight(b), span)
    domain, _ = mapped(lambda s, t: f"{s}{t}", [a.facts, b.facts])
    tree = exp.DPipe(this=wrapped(a.tree), expression=wrapped(b.tree), safe=True)
    return made(tree, [a, b], domain, size, span)


def padded(left: bool, a: Scalar, count: Scalar, fill: Scalar, span: Span | None) -> Scalar:
    """lpad, rpad: filled up, or cut, to so many characters."""
    name = "lpad" if left else "rpad"
    a = text(a, name)
    most, filler = literal_number(count, name, MAX_PADDED), literal_text(fill, f"what {name} fills up with")
    if not filler:
        raise refusal("DP231", f"{name} has nothing to fill up with", span=fill.span, repair="write lpad(s, 5, ' ')")

    def filled(value: Value) -> str:
        held = ascii_only(value)
        more = (filler * most)[: max(0, most - len(held))] if filler.isascii() else ascii_only(filler)
        return (more + held if left and len(held) < most else held + more)[: max(0, most)]

    domain, _ = mapped(filled, [a.facts])
    number = constant_of(most, INTEGER)
    tree = exp.Pad(this=a.tree, expression=_as_int(number), fill_pattern=fill.tree, is_left=left)
    return made(tree, [a], domain, max(1, a.facts.size), span)


def repeated(a: Scalar, count: Scalar, span: Span | None) -> Scalar:
    """repeat(s, 3)."""
    a = text(a, "repeat")
    times = literal_number(count, "repeat", MAX_GROWTH)
    size = grown(max(1, a.facts.size) * max(1, times), span)
    domain, _ = mapped(lambda s: str(s) * times, [a.facts])
    return made(exp.Repeat(this=a.tree, times=constant_of(times, INTEGER).tree), [a], domain, size, span)


def _as_int(a: Scalar) -> exp.Expr:
    """As a 32-bit integer, which is what DuckDB's function takes."""
    return exp.Cast(this=a.tree, to=exp.DataType(this=exp.DType.INT, nested=False))


def as_text(a: Scalar) -> Scalar:
    """Any scalar as text."""
    if a.facts.type == VARCHAR or is_null(a):
        return convert(a, VARCHAR)
    written = to_text(a, a.span)
    return replace(written, facts=replace(written.facts, size=0))  # short, whatever it says


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
