"""How much the amplifiers of public SQL may make: rows of range and generate_series, characters of repeat, padding and
formats; and how much longer a text may become by being put together with itself, again and again.

Role: bound these from the text alone, so that one short statement cannot fill the memory of the engine that holds
public tables and released results. Promise: what passes names its size in literals. Must not: read any value.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from fractions import Fraction

from sqlglot import exp

from dpsql.compile.canonical import span_of
from dpsql.compile.literals import number_of, timestamp_of
from dpsql.compile.moments import epoch_of
from dpsql.errors import Error, refusal

MAX_ROWS = 1_000_000
MAX_CHARACTERS = 10_000
MAX_GROWTH = 10_000
THOUSAND = 1_000

_SAME = (exp.Paren, exp.Cast, exp.TryCast, exp.Round, exp.Floor, exp.Ceil, exp.Trunc)
_SECONDS = {"SECOND": 1, "MINUTE": 60, "HOUR": 3_600, "DAY": 86_400, "WEEK": 604_800}
_SECONDS |= {"MONTH": 28 * 86_400, "QUARTER": 89 * 86_400, "YEAR": 365 * 86_400}
"""The least length of each unit."""


def check_size(node: exp.Expr, name: str, arguments: list[exp.Expr]) -> None:
    """DP231 where a call can make more than its share, or where the text does not say how much it makes."""
    if name in ("repeat", "lpad", "rpad", "bar"):
        size = arguments[3] if name == "bar" and len(arguments) == 4 else arguments[1] if name != "bar" else None
        most = None if size is None else most_of(size)
        if size is not None and (most is None or most > MAX_CHARACTERS):
            repair = f"write a number up to {MAX_CHARACTERS}, or LEAST(n, 80)"
            raise refusal("DP231", f"the text does not bound the size of {name}", span=span_of(node), repair=repair)
    elif name in ("format", "printf"):
        written = arguments[0]
        if not (isinstance(written, exp.Literal) and written.is_string) or _widest(str(written.this)) > MAX_CHARACTERS:
            repair = f"write the format as a literal, with widths up to {MAX_CHARACTERS} and none taken from arguments"
            raise refusal("DP231", f"the text does not bound the size of {name}", span=span_of(node), repair=repair)
    elif isinstance(node, exp.GenerateSeries):
        rows = rows_of(node)
        if rows is None or rows > MAX_ROWS:
            raise _unbounded(node)


def _widest(written: str) -> float:
    """The largest width or precision that a format asks for; without end where an argument gives it."""
    nested = re.search(r"%[^a-zA-Z%]*\*|\{[^{}]*:[^{}]*\{", written)
    return math.inf if nested else max((float(digits) for digits in re.findall(r"[0-9]+", written)), default=0.0)


def check_growth(found: Iterable[exp.Expr]) -> None:
    """DP231 where the texts of a statement, one made of the other, can become more than MAX_GROWTH times as long. What
    stands side by side counts too: how values go from one query to the next is not followed."""
    growth = 1
    for node in found:
        growth *= max(_growth(node), 1)
        if growth > MAX_GROWTH:
            reason = (
                f"texts of this statement can become more than {MAX_GROWTH:,} times as long as what they are made of"
            )
            repair = "repeat a literal, replace by texts that are no longer, or put fewer columns together"
            raise refusal("DP231", reason, span=span_of(node), repair=repair)


def _growth(node: exp.Expr) -> int:
    """How many times as long as a text that it reads the value of a call can be; what it makes of literals counts by
    thousands of characters."""
    match node:
        case exp.DPipe() if isinstance(node.parent, exp.DPipe):
            return 1
        case exp.DPipe() | exp.Concat() | exp.ConcatWs():
            parts = node.flatten() if isinstance(node, exp.DPipe) else node.expressions
            return sum(not isinstance(part, exp.Literal) for part in parts)
        case exp.Repeat():
            times = math.ceil(most_of(node.args["times"]) or 0)
            return -(-times * len(node.name) // THOUSAND) if isinstance(node.this, exp.Literal) else times
        case exp.Pad():
            return -(-math.ceil(most_of(node.expression) or 0) // THOUSAND)
        case exp.Replace() | exp.RegexpReplace():
            old, new = node.expression, node.args.get("replacement")
            if new is None:
                return 1
            if not isinstance(new, exp.Literal):
                return MAX_CHARACTERS
            if isinstance(node, exp.RegexpReplace) or not isinstance(old, exp.Literal):
                return len(new.name) + 1  # a pattern may match between any two characters
            return -(-len(new.name) // max(len(old.name), 1))
        case _:
            return 1


def _unbounded(node: exp.Expr) -> Error:
    return refusal(
        "DP231",
        f"the text does not bound the rows of a series to {MAX_ROWS:,}",
        span=span_of(node),
        repair="write its ends and its step as literals: range(1, 100), or LEAST(n, 100)",
    )


def most_of(node: exp.Expr) -> Fraction | None:
    """A number that the value of an integer expression never passes, from its literals; None where there is none."""
    if isinstance(node, exp.Literal):
        number = None if node.is_string else number_of(str(node.this))
        return None if number is None or number == math.inf else Fraction(number)
    if isinstance(node, exp.Neg) and isinstance(node.this, exp.Literal):
        size = most_of(node.this)
        return None if size is None else -size
    if isinstance(node, _SAME):  # a rounding adds 1 at the most
        most = most_of(node.this)
        return None if most is None else most + 1
    if isinstance(node, exp.Least | exp.Greatest):
        ends = [most_of(part) for part in (node.this, *node.expressions)]
        known = [end for end in ends if end is not None]
        if isinstance(node, exp.Least):
            return min(known, default=None)
        return max(known) if len(known) == len(ends) else None
    return None


def rows_of(node: exp.GenerateSeries) -> Fraction | None:
    """How many rows a series has at the most."""
    start, end, step = node.args.get("start"), node.args.get("end"), node.args.get("step")
    first, last = _moment(start), _moment(end)
    if first is not None and last is not None:
        width = _width(step)
    else:
        first, last = _exactly(start), None if end is None else most_of(end)
        width = Fraction(1) if step is None else _exactly(step)
        if width is not None and width < 0:  # counted down: only literals say how far
            last = _exactly(end)
    if first is None or last is None or not width:
        return None
    return max(Fraction(0), (last - first) / width) + 1


def _exactly(node: object) -> Fraction | None:
    """An integer literal, as analysts and as dpsql itself write it."""
    inner = node.this if isinstance(node, exp.Cast) else node
    bare = inner.this if isinstance(inner, exp.Neg) else inner
    return most_of(inner) if isinstance(inner, exp.Expr) and isinstance(bare, exp.Literal) else None


def _moment(node: object) -> Fraction | None:
    """Seconds since 1970 of a date literal."""
    text = node.this if isinstance(node, exp.Cast) else None
    moment = timestamp_of(str(text.this)) if isinstance(text, exp.Literal) and text.is_string else None
    return None if moment is None else Fraction(epoch_of(moment), 1_000_000)


def _width(node: object) -> Fraction | None:
    """The least number of seconds of an INTERVAL literal of one unit."""
    if not isinstance(node, exp.Interval) or not isinstance(node.this, exp.Literal):
        return None
    unit = node.args.get("unit")
    seconds = _SECONDS.get(str(unit.this).upper().removesuffix("S")) if isinstance(unit, exp.Var) else None
    count = number_of(str(node.this.this).removeprefix("-"))
    if seconds is None or not isinstance(count, int):
        return None
    return Fraction(seconds * count) * (-1 if str(node.this.this).startswith("-") else 1)
