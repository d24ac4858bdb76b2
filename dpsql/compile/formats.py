"""Formats of strftime and strptime: literals, made of the specifiers that mean the same for every locale and zone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime

from dpsql.compile.ir import Scalar
from dpsql.compile.strings import literal_text
from dpsql.errors import Span, refusal

MAX_FORMAT = 200

_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MONTHS = "January February March April May June July August September October November December".split()

Piece = Callable[[datetime], object]

PIECES: dict[str, Piece] = {
    "%a": lambda t: _DAYS[t.weekday()][:3],
    "%A": lambda t: _DAYS[t.weekday()],
    "%w": lambda t: t.isoweekday() % 7,
    "%u": lambda t: t.isoweekday(),
    "%d": lambda t: f"{t.day:02}",
    "%-d": lambda t: t.day,
    "%b": lambda t: _MONTHS[t.month - 1][:3],
    "%B": lambda t: _MONTHS[t.month - 1],
    "%m": lambda t: f"{t.month:02}",
    "%-m": lambda t: t.month,
    "%y": lambda t: f"{t.year % 100:02}",
    "%-y": lambda t: t.year % 100,
    "%Y": lambda t: f"{t.year:04}",
    "%G": lambda t: f"{t.isocalendar().year:04}",
    "%V": lambda t: f"{t.isocalendar().week:02}",
    "%H": lambda t: f"{t.hour:02}",
    "%-H": lambda t: t.hour,
    "%I": lambda t: f"{(t.hour + 11) % 12 + 1:02}",
    "%-I": lambda t: (t.hour + 11) % 12 + 1,
    "%p": lambda t: "AM" if t.hour < 12 else "PM",
    "%M": lambda t: f"{t.minute:02}",
    "%-M": lambda t: t.minute,
    "%S": lambda t: f"{t.second:02}",
    "%-S": lambda t: t.second,
    "%f": lambda t: f"{t.microsecond:06}",
    "%j": lambda t: f"{t.timetuple().tm_yday:03}",
    "%-j": lambda t: t.timetuple().tm_yday,
    "%%": lambda _: "%",
}
"""What DuckDB writes for each specifier."""

_OF_A_TIME = frozenset(["%H", "%-H", "%I", "%-I", "%p", "%M", "%-M", "%S", "%-S", "%f"])


def format_of(a: Scalar, what: str, span: Span | None) -> str:
    """A format of known specifiers, or DP231."""
    text = literal_text(a, f"the format of {what}")
    unknown = next((piece for piece in pieces_of(text) if piece[0] == "%" and piece not in PIECES), None)
    if unknown is not None or not 0 < len(text) <= MAX_FORMAT:
        reason = f"the format of {what} is empty or too long"
        reason = reason if unknown is None else f'"{unknown}" is not answered in a format'
        raise refusal("DP231", reason, span=a.span or span, repair="use %Y %m %d %H %M %S %j %a %b %V and their like")
    return text


def pieces_of(text: str) -> Iterator[str]:
    """Specifiers, and the characters between them one by one."""
    at = 0
    while at < len(text):
        size = 1
        if text[at] == "%":
            size = 3 if text[at + 1 : at + 2] == "-" else 2
        yield text[at : at + size]
        at += size


def is_of_days(text: str) -> bool:
    """Whether a format says nothing of the time of a day."""
    return not any(piece in _OF_A_TIME for piece in pieces_of(text))


def written(moment: datetime, text: str) -> str:
    """What strftime makes of a moment."""
    return "".join(str(PIECES[piece](moment)) if piece[0] == "%" else piece for piece in pieces_of(text))
