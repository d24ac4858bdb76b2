"""Every way dpsql says no.

One family: each error has a code, the reason, where it stands in the analyst's text (a span, shown with
a caret) and what to write instead. The classes are those of PEP 249, chosen by the first digit of the code:

    DP0xx the DB-API itself     InterfaceError
    DP1xx syntax and names      ProgrammingError
    DP2xx form                  NotSupportedError
    DP3xx policy and snapshot   PolicyError (a ProgrammingError)
    DP4xx budget and ledger     BudgetError (an OperationalError)
    DP5xx engine                OperationalError
    DP9xx our own fault         InternalError

A message is made from the statement's text, the policy and public facts alone: never from an engine's own
words, which quote row values (DuckDB: "Could not convert string 'Ann' to INT32").
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class Span(NamedTuple):
    """Half-open range of character offsets in a source text."""

    start: int
    end: int


class Warning(Exception):  # noqa: A001 - the name PEP 249 asks for
    """Important warnings (PEP 249); dpsql raises none."""


class Error(Exception):
    """Base of all errors. `str()` starts with the code and shows the caret where a source is known.

    code: "DPnnn", a key of `CODES`. reason: one sentence. span: where in `source`, or None.
    repair: what to write instead, or "". source: the text that span counts in. name: its file name.
    """

    def __init__(
        self, code: str, reason: str, *, span: Span | None = None, repair: str = "", source: str = "", name: str = ""
    ):
        if code not in CODES:
            raise ValueError(f"no such error code: {code}")
        super().__init__(code, reason)
        self.code, self.reason, self.span = code, reason, span
        self.repair, self.source, self.name = repair, source, name

    def __str__(self) -> str:
        return self.text()

    def text(self, columns: int = 150) -> str:
        """What `str()` gives, with the caret under it on a screen of so many columns."""
        lines = [f"{self.code}: {self.reason}"]
        if self.span is not None and self.source:
            lines += _caret(self.source, self.span, self.name, columns)
        if self.repair:
            lines.append(f"  = help: {self.repair}")
        return "\n".join(lines)


class InterfaceError(Error):
    """Misuse of the DB-API itself (a closed cursor, a fetch before execute)."""


class DatabaseError(Error):
    """Errors about the database (PEP 249)."""


class DataError(DatabaseError):
    """PEP 249's DataError; dpsql raises none, since expressions are total."""


class OperationalError(DatabaseError):
    """DP5xx: the engine failed, timed out or was interrupted. The statement stays charged."""


class BudgetError(OperationalError):
    """DP4xx: the budget does not allow it, or the ledger cannot be used. Nothing was charged."""


class IntegrityError(DatabaseError):
    """PEP 249's IntegrityError; dpsql raises none, since it only reads."""


class InternalError(DatabaseError):
    """DP9xx: a check of our own failed. Nothing is answered."""


class ProgrammingError(DatabaseError):
    """DP1xx: the text is not one statement, or names what the policy does not show."""


class PolicyError(ProgrammingError):
    """DP3xx: the policy file or the snapshot made under it is wrong."""


class NotSupportedError(DatabaseError):
    """DP2xx: a form that cannot be answered privately. Static: nothing was charged."""


_FAMILIES: dict[str, type[Error]] = {
    "0": InterfaceError,
    "1": ProgrammingError,
    "2": NotSupportedError,
    "3": PolicyError,
    "4": BudgetError,
    "5": OperationalError,
    "9": InternalError,
}


def refusal(
    code: str, reason: str, *, span: Span | None = None, repair: str = "", source: str = "", name: str = ""
) -> Error:
    """The error of this code, as the class of its family; the caller raises it."""
    return _FAMILIES[code[2]](code, reason, span=span, repair=repair, source=source, name=name)


def located(error: Error, source: str, name: str = "") -> Error:
    """The same error, told which text its span counts in (passes know spans, only the session knows the text)."""
    if not error.source:
        error.source, error.name = source, name
    return error


def nearest(name: str, candidates: Iterable[str], *, cutoff: float = 0.6) -> str:
    """'. Did you mean "x"?' for the candidate closest to `name`, or ''. Candidates come from the policy or the
    language, never from data. cutoff: how alike they must be, from 0 to 1."""
    from difflib import get_close_matches

    lowered = {c.lower(): c for c in candidates}
    found = get_close_matches(name.lower(), list(lowered), n=1, cutoff=cutoff)
    return f'. Did you mean "{lowered[found[0]]}"?' if found else ""


def listed(names: Iterable[str], most: int = 200) -> str:
    """The names as a list, whole ones up to so many characters."""
    text = ""
    for name in names:
        if len(text) + len(name) > most:
            return f"{text}, ..." if text else f"{name[:most]}..."
        text += f", {name}" if text else name
    return text


def _caret(source: str, span: Span, name: str, columns: int) -> list[str]:
    """The source line of the span with carets under it (a span over several lines is cut at the first)."""
    start = min(span.start, len(source))
    line_start = source.rfind("\n", 0, start) + 1
    line_end = source.find("\n", start)
    line_end = len(source) if line_end < 0 else line_end
    number = source.count("\n", 0, line_start) + 1
    gutter = len(str(number))
    half = max(min(70, (columns - gutter - 4) // 2), 5)
    left, right = max(line_start, start - half), min(line_end, start + half)  # a window: lines can be long
    # One sign each, so that the caret stays in place; what a terminal would obey, or no encoding can write, is hidden.
    text = "".join(c if c.isprintable() else " " if c == "\t" else "\ufffd" for c in source[left:right])
    width = max(1, min(span.end, right) - start)
    return [
        f"{' ' * gutter} --> {name or 'statement'}:{number}:{start - line_start + 1}",
        f"{number} | {text}",
        f"{' ' * gutter} | {' ' * (start - left)}{'^' * width}",
    ]


CODES: dict[str, str] = {
    # DP0xx: the DB-API itself
    "DP001": "the connection or cursor is closed",
    "DP002": "nothing to fetch",
    "DP003": "a parameter is missing, unused or of a type that SQL has no literal for",
    # DP1xx: syntax and names
    "DP101": "the text is not SQL",
    "DP102": "more than one statement",
    "DP103": "not a statement dpsql answers",
    "DP104": "the statement is too large or too deeply nested",
    "DP105": "an invisible or control character outside a string",
    "DP106": "the statement has no single reading",
    "DP110": "no such table",
    "DP111": "no such column",
    "DP112": "an ambiguous name",
    "DP120": "no such setting, or not a value for it",
    # DP2xx: form
    "DP201": "rows of single units cannot leave",
    "DP202": "a column that is neither grouped nor aggregated",
    "DP203": "an aggregate that cannot be answered",
    "DP204": "a value without bounds cannot be summed",
    "DP205": "a group key without public values",
    "DP206": "grouping by the privacy unit",
    "DP207": "too many public keys",
    "DP210": "a join of private tables that is not meant per unit",
    "DP211": "a join that can multiply rows",
    "DP212": "a kind of join that cannot be answered",
    "DP220": "a subquery over private data where none can stand",
    "DP221": "a clause that cannot be answered over private data",
    "DP222": "a window over rows of single units",
    "DP223": "a strategy that this release does not allow",
    "DP224": "a choice that cannot be made privately",
    "DP230": "a function that is not answered",
    "DP231": "arguments a function is not answered for",
    "DP232": "types that do not go together",
    "DP233": "an expression that can grow without limit",
    "DP240": "a construct that public SQL does not have here",
    # DP3xx: policy and snapshot
    "DP301": "the policy file cannot be used",
    "DP302": "the database does not match the policy",
    "DP303": "the snapshot could not be made",
    "DP304": "the snapshot was made under another policy",
    "DP305": "no snapshot exists",
    # DP4xx: budget
    "DP401": "the budget is exhausted",
    "DP402": "the statement asks for more than the policy allows at once",
    "DP403": "the ledger cannot be used",
    "DP404": "the account was opened under other terms",
    "DP405": "the account is frozen",
    "DP406": "an analyst's name is missing, or not needed",
    # DP5xx: engine
    "DP501": "the engine could not finish",
    "DP502": "the released tables cannot answer this",
    # DP9xx: our fault
    "DP901": "a check of dpsql's own failed",
}
