"""How a number is written: digits follow the noise, amounts of budget are exact or err on the safe side.

The rules, which the tests spell out:
- A noised value shows `value ± half-width`. The half-width keeps two significant digits, rounded up so that the
  interval shown is never narrower than the true one; the value is rounded to the same place. Whole numbers stay
  whole, decimals keep at most the places of their type. Machine formats (CSV, JSON) round nothing.
- Noised numbers are grouped in threes with commas where the column has a noised number of five digits or more:
  `1136 ± 14`, `1,469,300 ± 8,400`. Exact values (keys, public data) are never grouped: they may be identifiers.
- A DOUBLE without an interval shows ten significant digits.
"""

from __future__ import annotations

from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Context, Decimal
from fractions import Fraction
from math import isfinite

_WIDE = Context(prec=800)  # every double, to every place shown, without rounding before we say so
_LONGEST = 21  # digits in a cell before a noised number is written with an exponent

Number = int | float | Decimal


def noised(value: Number, half_width: float, places: int | None) -> tuple[str, str]:
    """Value and half-width as digits. places: the fraction digits of the type (0 for integers, None for DOUBLE)."""
    exact = Decimal(value)
    if not isfinite(half_width):
        return plain(value), "∞"
    width = abs(Decimal(repr(float(half_width))))
    if not width:
        return plain(value), "0"
    place = width.adjusted() - 1
    if not exact.is_finite():
        return plain(value), f"{_round(width, place, ROUND_CEILING):f}"
    if places is not None:
        place = max(place, -places)
    shown, error = _round(exact, place, ROUND_HALF_EVEN), _round(width, place, ROUND_CEILING)
    if max(shown.adjusted(), -place) >= _LONGEST:
        return f"{float(exact):.6g}", f"{float(_round(width, width.adjusted() - 1, ROUND_CEILING)):.2g}"
    return f"{shown:f}", f"{error:f}"


def _round(number: Decimal, place: int, rounding: str) -> Decimal:
    """To a multiple of 10^place; places left of the point are filled with zeros, and zero has no sign."""
    tens = Decimal(1).scaleb(place)
    rounded = number.quantize(tens, rounding=rounding, context=_WIDE)
    if place > 0:
        rounded = rounded.quantize(Decimal(1), context=_WIDE)
    return rounded if rounded else abs(rounded)


def plain(value: Number) -> str:
    """A number without an interval."""
    if isinstance(value, float):
        text = f"{value:.10g}"
        return text + ".0" if text.lstrip("-").isdigit() else text
    return f"{value:f}" if isinstance(value, Decimal) else str(value)


def digits(text: str) -> int:
    """How many digits stand before the point."""
    whole = text.lstrip("-").partition(".")[0]
    return len(whole) if whole.isdigit() else 0


def grouped(text: str) -> str:
    """The number with commas every three digits before the point."""
    if digits(text) < 4:
        return text
    sign = "-" if text.startswith("-") else ""
    whole, point, rest = text.removeprefix("-").partition(".")
    return f"{sign}{int(whole):,}{point}{rest}"


def amount(fraction: Fraction, up: bool = False) -> str:
    """An ε or δ: exact where six digits suffice; else rounded down (what is left), or `up` (what it costs)."""
    if not fraction:
        return "0"
    precision = max(6, len(str(abs(fraction.numerator) // fraction.denominator)))
    context = Context(prec=precision, rounding=ROUND_CEILING if up else ROUND_FLOOR)
    number = context.divide(Decimal(fraction.numerator), Decimal(fraction.denominator)).normalize(context)
    if number.adjusted() < -4:
        mantissa = number.scaleb(-number.adjusted(), context).normalize(context)
        return f"{mantissa:f}e{number.adjusted()}"
    return f"{number:f}"
