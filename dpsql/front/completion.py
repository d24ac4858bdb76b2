"""What is offered while somebody types: names of the policy and the language, each where it can stand.

Promise: it comes from the policy and the language alone, never from data. It reads the text before the cursor roughly
(`tokens`): a wrong guess offers a wrong name, and decides nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from prompt_toolkit.completion import CompleteEvent, Completer, Completion, PathCompleter
from prompt_toolkit.document import Document

from dpsql.front.tokens import KEYWORDS, Token, tokens
from dpsql.policy.vocabulary import TableWords

PHRASES = ("GROUP BY", "ORDER BY", "PARTITION BY", "LEFT JOIN", "UNION ALL", "IS NOT NULL", "COUNT(DISTINCT")
_SUMMING = re.compile(r"SUM|AVG|VAR|STDDEV|COVAR|CORR|REGR", re.IGNORECASE)
_RELATION = re.compile(
    r'\b(?:FROM|JOIN)\s+("[^"]+"|[\w.]+)'
    rf'(?:\s+(?!(?:{"|".join(sorted(KEYWORDS - {"AS"}))})\b)(?:AS\s+)?("[^"]+"|\w+))?',
    re.IGNORECASE,
)
_CTE = re.compile(r'(?:\bWITH|,)\s+("[^"]+"|\w+)\s+AS\s*\(', re.IGNORECASE)
_CLAUSES = frozenset("SELECT FROM WHERE GROUP HAVING ORDER ON USING PARTITION QUALIFY SET RESET DESCRIBE".split())


@dataclass(frozen=True, slots=True)
class Words:
    """All that may be offered. settings: with the words they take."""

    tables: Mapping[str, TableWords]
    functions: Sequence[str] = ()
    settings: Mapping[str, Sequence[str]] = field(default_factory=dict)


@dataclass(slots=True)
class Place:
    """Where the cursor stands. clause: the last word of `_CLAUSES`. function: the one whose brackets are open, and
    distinct: whether that word stands in them. before: the piece before the word that is being typed. setting: what
    `SET setting = ` gives a value. qualifier: what stands before the word's dot. column: the one that an open text is
    compared with; None outside of texts."""

    clause: str = ""
    function: str = ""
    distinct: bool = False
    before: str = ""
    setting: str = ""
    qualifier: str | None = None
    word: str = ""
    column: str | None = None


def place(before: str) -> Place | None:
    """Where a text ends; None where nothing is to be offered: in comments, quoted names and texts."""
    pieces = list(tokens(before))
    last = pieces[-1] if pieces else Token("space", "")
    if last.kind in ("string", "quoted", "comment") and not _closed(last):
        column = _compared(pieces[:-1]) if last.kind == "string" and last.text.startswith("'") else None
        return None if column is None else Place(column=column, word=last.text[1:])
    word = pieces.pop().text if last.kind in ("word", "keyword") else ""
    here, outer = Place(word=word), list[Place]()
    significant = [piece for piece in pieces if piece.kind not in ("space", "comment")]
    if word == "" and last.kind == "number":
        return None
    name = ""
    for kind, text in significant:
        if text == "(":
            outer.append(here)
            here = Place(here.clause, name, word=word)
        elif text == ")" and outer:
            here = outer.pop()
        elif kind == "end":
            here, outer = Place(word=word), []
        elif kind == "keyword" and text.upper() in _CLAUSES:
            here = Place(text.upper(), here.function if text.upper() == "ORDER" else "", word=word)
        elif kind == "keyword" and text.upper() == "DISTINCT":
            here.distinct = True
        elif kind == "keyword" and text.upper() == "JOIN":
            here.clause = "FROM"
        name = text if kind == "word" else ""
    here.before = significant[-1].text.upper() if significant else ""
    if here.before == "=" and here.clause == "SET":
        here.setting = significant[-2].text
    if here.before == "." and (word or last.text == "."):
        here.qualifier = significant[-2].text.strip('"') if len(significant) > 1 else ""
    return here


def _closed(token: Token) -> bool:
    return len(token.text) > 1 and token.text.endswith(("'", '"', "*/", "$"))


def _compared(pieces: Sequence[Token]) -> str | None:
    """The column of `column = '` and `column IN ('a', '`."""
    rest = [p for p in pieces if p.kind not in ("space", "comment")]
    while (rest and rest[-1].text in (",", "(")) or (rest and rest[-1].kind == "string"):
        rest.pop()
    if not rest or rest[-1].text.upper() not in ("=", "IN", ">", "<"):
        return None
    while rest and (rest[-1].kind == "other" or rest[-1].text.upper() in ("IN", "NOT")):
        rest.pop()
    return rest[-1].text.strip('"').lower() if rest and rest[-1].kind in ("word", "quoted") else None


class SqlCompleter(Completer):
    """Names of the policy, functions, settings, keywords; after `table.` its columns, after FROM the tables, after
    GROUP BY the columns that make groups, in SUM those that can be summed."""

    def __init__(self, words: Callable[[], Words], commands: Callable[[str], Iterable[str] | None]) -> None:
        """words: asked each time, as there may be more of them later. commands: the words that go on from a backslash
        command typed so far; None where these are files."""
        self._words, self._commands, self._files = words, commands, PathCompleter(expanduser=True)

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        before = document.text_before_cursor
        if before.lstrip().startswith("\\") and not re.match(r"\s*\\(?:explain|cost)\s", before):
            yield from self._command(before.lstrip(), complete_event)
            return
        found = place(re.sub(r"^\s*\\\w+\s", "", before))
        if found is None:
            return
        words = self._words()
        if found.column is not None:
            named = [words.tables[name] for name in _named(document.text, words.tables)] or words.tables.values()
            for value in _values(found.column, named):
                if value.lower().startswith(found.word.lower()):
                    yield Completion(value.replace("'", "''"), -len(found.word), display=value, display_meta="value")
            return
        asked = complete_event.completion_requested
        candidates = _candidates(document.text, found, words, asked)
        for name, meaning in _matching(found.word, candidates):
            written = (
                _quoted(name) if meaning in ("table", "column", "unit", "groups", "sums", "groups, sums") else name
            )
            yield Completion(written, -len(found.word), display=name, display_meta=meaning)

    def _command(self, before: str, event: CompleteEvent) -> Iterable[Completion]:
        typed = before.rpartition(" ")[2]
        found = self._commands(before)
        if found is None:
            path = before.partition(" ")[2]
            yield from self._files.get_completions(Document(path, len(path)), event)
            return
        for word in found:
            if word.lower().startswith(typed.lower()) and word != typed:
                yield Completion(word, -len(typed))


def _matching(word: str, candidates: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Those that begin with the word; then those in which a later part does (`disc` finds `retail_disc`)."""
    typed, later = word.lower(), []
    for name, meaning in candidates:
        lowered = name.lower()
        if lowered == typed:
            continue
        if lowered.startswith(typed):
            yield name, meaning
        elif len(typed) > 1 and meaning not in ("", "function") and f"_{typed}" in lowered.replace(" ", "_"):
            later.append((name, meaning))
    yield from later


def _candidates(text: str, here: Place, words: Words, asked: bool) -> Iterable[tuple[str, str]]:
    tables = [(name, "table") for name in words.tables]
    named = _named(text, words.tables)
    near = [words.tables[name] for name in named] or list(words.tables.values())
    if here.qualifier is not None:
        found = _of_qualifier(text, here.qualifier, words.tables)
        return _columns([found]) if found is not None else []
    if here.clause in ("SET", "RESET") and not here.function:
        if here.before in ("SET", "RESET"):
            return [(name, "setting") for name in words.settings]
        return [(word, "value") for word in words.settings.get(here.setting.lower(), ())]
    if here.before in ("FROM", "JOIN", "DESCRIBE") or (
        here.clause == "FROM" and here.before == "," and not here.function
    ):
        return [*((name, "with") for name in _ctes(text)), *tables]
    if here.clause in ("GROUP", "PARTITION") and here.before in ("BY", ",") and not here.function:
        return [(name, meaning) for name, meaning in _columns(near) if "groups" in meaning]
    if here.clause == "USING" and here.before in ("(", ","):
        shared = [c for c in near[0].columns if any(c in t.columns for t in near[1:])] if near else []
        return [(name, "column") for name in shared]
    if here.before in ("(", ",", "DISTINCT") and here.distinct and here.function.upper() == "COUNT":
        return sorted(_columns(near), key=lambda column: column[1] != "unit")
    if here.before == "(" and _SUMMING.match(here.function):
        return [(name, meaning) for name, meaning in _columns(near) if "sums" in meaning] + (
            [(name, "function") for name in words.functions] if here.word else []
        )
    if not (here.word or asked):
        return []
    columns = _columns(near) if here.clause else []
    functions = [(name, "function") for name in words.functions] if here.clause else []
    keywords = [(name, "") for name in (*PHRASES, *sorted(KEYWORDS - {phrase.split()[0] for phrase in PHRASES[:3]}))]
    return [*columns, *(tables if here.clause else ()), *functions, *keywords]


def _columns(tables: Iterable[TableWords]) -> list[tuple[str, str]]:
    found: dict[str, str] = {}
    for table in tables:
        for name in table.columns:
            ways = [way for way, names in (("groups", table.groups), ("sums", table.sums)) if name in names]
            found.setdefault(name, "unit" if name in table.units else ", ".join(ways) or "column")
    return list(found.items())


def _values(column: str, tables: Iterable[TableWords]) -> Iterator[str]:
    """What the policy lists for the column."""
    for table in tables:
        for name, values in table.values.items():
            if name.lower() == column:
                yield from values
                return


def _named(text: str, tables: Mapping[str, TableWords]) -> list[str]:
    """The policy's tables that the statement speaks of."""
    lowered = {name.lower(): name for name in tables}
    found = (m.group(1).strip('"').lower() for m in _RELATION.finditer(text))
    return list(dict.fromkeys(lowered[name] for name in found if name in lowered))


def _ctes(text: str) -> list[str]:
    return list(dict.fromkeys(m.group(1) for m in _CTE.finditer(text)))


def _of_qualifier(text: str, qualifier: str, tables: Mapping[str, TableWords]) -> TableWords | None:
    """A table by its name or alias."""
    wanted = qualifier.lower()
    for match in _RELATION.finditer(text):
        if match.group(2) and match.group(2).strip('"').lower() == wanted:
            wanted = match.group(1).strip('"').lower()
    return next((table for name, table in tables.items() if name.lower() == wanted), None)


def _quoted(name: str) -> str:
    """The name as SQL needs it."""
    plain = re.fullmatch(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)?", name)
    return name if plain and name.upper() not in KEYWORDS else '"' + name.replace('"', '""') + '"'
