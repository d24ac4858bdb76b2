"""`-v name=value`: values for the `$name` parameters of scripts, read by their shape.

A value becomes a typed literal beside the text and never text of the statement: no quote in it can end a string, and no
word in it is SQL. Its type is that of the SQL literal that looks the same:

    42  -7                       whole number
    0.5  -12.50                  decimal, exactly as written
    1e-3                         double
    true  false  null            boolean, NULL (in any case)
    2024-02-29                   date, where there is such a day
    2024-02-29 12:30[:00[.5]]    timestamp, also with a T between
    'anything'                   text: what stands between the quotes, a quote within written twice
    anything else                text

A number with a leading zero is text, as codes and telephone numbers are; quote what looks like a number and is none.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, TypeAlias

from dpsql.front.diagnostics import Usage, visible

if TYPE_CHECKING:
    from dpsql.front.dbapi import Parameter

Variables: TypeAlias = "Mapping[str, Parameter]"

_NAME = re.compile(r"[^\W\d]\w*")
_WHOLE = re.compile(r"[+-]?(0|[1-9][0-9]*)")
_DECIMAL = re.compile(r"[+-]?(0|[1-9][0-9]*)?\.[0-9]+")
_DOUBLE = re.compile(r"[+-]?((0|[1-9][0-9]*)(\.[0-9]*)?|\.[0-9]+)[eE][+-]?[0-9]+")
_QUOTED = re.compile(r"'((?:[^']|'')*)'", re.DOTALL)
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_TIMESTAMP = re.compile(_DATE.pattern + r"[ T][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,6})?)?")
_WORDS: dict[str, bool | None] = {"true": True, "false": False, "null": None}


def variables(given: list[str]) -> dict[str, Parameter]:
    """All of a command line. Raises Usage for what is no `name=value`, and for a name that comes twice."""
    found: dict[str, Parameter] = {}
    for text in given:
        name, equals, value = text.partition("=")
        name = name.removeprefix("$")
        if not equals or not _NAME.fullmatch(name):
            raise Usage(f"-v takes name=value, not {visible(text)}; in the script it is $name")
        if name in found:
            raise Usage(f"-v {name} is given twice")
        found[name] = typed(value)
    return found


def typed(text: str) -> Parameter:
    """The value that a text stands for."""
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    if _WHOLE.fullmatch(text) and len(text) < 100:  # beyond that Python itself would refuse, and SQL has no such number
        return int(text)
    if _DECIMAL.fullmatch(text):
        return Decimal(text)
    if _DOUBLE.fullmatch(text):
        return float(text)
    if (quoted := _QUOTED.fullmatch(text)) is not None:
        return quoted[1].replace("''", "'")
    try:
        if _DATE.fullmatch(text):
            return date.fromisoformat(text)
        if _TIMESTAMP.fullmatch(text):
            return datetime.fromisoformat(text)
    except ValueError:  # no such day
        pass
    return text
