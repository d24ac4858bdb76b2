"""Drafts a policy from names and types: what `dpsql init` writes.

Promise: a function of the names and types that it is given. No bound, limit, value or budget comes from data: these
are for the owner to choose, so each stands as a comment, and the draft is refused by `dpsql check` until they are
filled in. Nothing is public and nothing has a unit by itself.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from dpsql.policy import names
from dpsql.policy.readers import Wrong, escaped

_PEOPLE = """
    customer cust client user person people patient household member employee student subscriber visitor passenger
    citizen resident account player rider driver guest participant respondent borrower tenant worker voter pupil buyer
    owner card device
""".split()
_KEY = re.compile(r"^(?P<stem>.*?)[_-]?(?:id|key|uuid|guid|no|nr|num|number|sk)$", re.IGNORECASE)
_IDENTIFIES = re.compile(r"(id|key|uuid|guid|sk)$", re.IGNORECASE)
_NUMBER = re.compile(r"^(U?(TINY|SMALL|BIG|HUGE)?INT(EGER)?|FLOAT|DOUBLE|DECIMAL.*)$")
_DATE = re.compile(r"^(DATE|TIMESTAMP.*)$")
_PLAIN = re.compile(r"^(BOOLEAN|VARCHAR|UUID|ENUM\(.*)$")


@dataclass(frozen=True, slots=True)
class Drafted:
    """A table to draft: its name, its source where that is a file, and (name, type) of its columns."""

    name: str
    source: str
    columns: tuple[tuple[str, str], ...]


def draft(tables: Sequence[Drafted]) -> str:
    """The text of a policy file."""
    tables = _named_apart(tables)
    keys = {table.name: _key(table) for table in tables}
    own = {t.name: _own_units(t, keys[t.name]) for t in tables}
    words = [word for t in tables for word, _ in own[t.name]]
    word = max(dict.fromkeys(words), key=words.count, default="customer")
    lines = [
        "# A draft, made from names and types. Take away the # of what you choose, and the line above that it",
        "# replaces; `dpsql check` with the database says what is missing.",
        "# Choose bounds, limits and values from what anybody may know, never by looking at the data.",
        "version = 1",
        "",
        "[unit]",
        f"# name = {_text(word)}  # choose: whom the policy protects",
        "",
        "[budget]",
        '# epsilon = "3"  # choose: all that may ever be spent',
        '# per_query_epsilon = "0.25"  # choose: what a statement costs where the analyst says nothing',
        '# delta = "1e-6"  # choose, if keys may be selected from private rows: less than 1 in the number of units',
    ]
    for table in tables:
        lines += ["", *_table(table, tables, keys, own)]
    return "\n".join(lines) + "\n"


def _named_apart(tables: Sequence[Drafted]) -> list[Drafted]:
    """Files of one name get a number each: SQL does not tell names apart by case."""
    taken: set[str] = set()
    found = []
    for table in tables:
        names_left = (table.name, *(f"{table.name}_{n}" for n in range(2, len(tables) + 2)))
        name = next(name for name in names_left if name.lower() not in taken)
        taken.add(name.lower())
        found.append(replace(table, name=name))
    return found


def _table(
    table: Drafted,
    tables: Sequence[Drafted],
    keys: dict[str, str],
    own: dict[str, list[tuple[str, str]]],
) -> list[str]:
    try:
        names.table_name(table.name)
    except Wrong as wrong:
        return [f"# left out: the table {escaped(_text(table.name))}: {escaped(wrong.text)}; {escaped(wrong.repair)}"]
    header = f"tables.{_bare(table.name)}"
    lines = [f"[{header}]"]
    if table.source:
        lines.append(f"source = {_text(table.source)}")
    units = [
        f"# unit = {_text(column)}  # choose: the column that says whose row it is" for _, column in own[table.name]
    ]
    units += [
        f"# unit = {{ via = {_text(column)}, to = {_text(to)} }}  # choose: owned by whoever owns that row"
        for column, to in _paths(table, tables, keys)
    ]
    lines += units or ['# unit = "..."  # choose: the column that says whose row it is, or public = true']
    lines.append("# public = true  # choose instead, where nobody's rows are in it: exact answers, no limits")
    if keys[table.name]:
        lines.append(f"# key = [{_text(keys[table.name])}]  # choose: the columns that identify a row")
    else:
        lines.append('# key = ["..."]  # choose: the columns that identify a row')
    lines.append("# max_rows_per_unit = 100  # choose: the rows of one unit that count")
    lines += ["", f"[{header}.columns]"]
    references = dict(_paths(table, tables, keys))
    people = {column for _, column in own[table.name]}
    for column, declared in table.columns:
        to = references.get(column, "")
        lines += _column(column, declared, f"{to}.{keys[to]}" if to else "", unit=column in people)
    return lines


def _column(name: str, declared: str, references: str, *, unit: bool) -> list[str]:
    """references: the key that the column seems to name. unit: it seems to number people, so nobody sums it."""
    shown = escaped(declared.partition("(")[0] if not declared.startswith("DECIMAL") else declared)
    try:
        names.column_name(name)
    except Wrong as wrong:
        return [f"# left out: the column {escaped(_text(name))}: {escaped(wrong.text)}"]
    bare = _bare(name)
    if unit and (_NUMBER.match(declared) or _PLAIN.match(declared)):
        return [f"{bare} = {{}}  # {shown}"]
    if references and (_NUMBER.match(declared) or _PLAIN.match(declared)):
        proposed = f"# {bare} = {{ references = {_text(references)} }}  # choose, if that table is public"
        return [f"{bare} = {{}}  # {shown}", f"{proposed}: to group by it"]
    if _NUMBER.match(declared):
        return [f"{bare} = {{}}  # {shown}", f"# {bare} = {{ bounds = [0, 100] }}  # choose, to sum it or average it"]
    if _DATE.match(declared):
        example = "[2020-01-01, 2029-12-31]" if declared == "DATE" else "[2020-01-01T00:00:00, 2029-12-31T23:59:59]"
        return [f"{bare} = {{}}  # {shown}", f"# {bare} = {{ bounds = {example} }}  # choose"]
    if _PLAIN.match(declared):
        values = "[false, true]" if declared == "BOOLEAN" else '["...", "..."]'
        return [f"{bare} = {{}}  # {shown}", f"# {bare} = {{ values = {values} }}  # choose, to group by it"]
    return [f"# {bare} = {{}}  # left out: {shown} is not supported; make a view that casts it"]


# ---- candidates, from names


def _stems(table: Drafted) -> dict[str, str]:
    """Column -> what it seems to identify ("" for a bare `id`). A prefix that all columns share, as in `c_custkey`,
    says nothing."""
    prefixes = {column.partition("_")[0] for column, _ in table.columns}
    shared = len(prefixes) == 1 and len(table.columns) > 1 and all("_" in column for column, _ in table.columns)
    stems = {}
    for column, _ in table.columns:
        match = _KEY.match(column.partition("_")[2] if shared else column)
        if match:
            stems[column] = match["stem"].rstrip("_-").lower()
    return stems


def _is(stem: str, name: str) -> bool:
    """Whether a stem speaks of a table: `cust`, `customer` and `customers` do so of `customers`."""
    word = name.rpartition(".")[2].lower()
    return len(stem) >= 3 and (word.startswith(stem) or _singular(word) == _singular(stem))


def _singular(word: str) -> str:
    if word.endswith("ies"):
        return word[:-3] + "y"
    return word[:-1] if word.endswith("s") and not word.endswith("ss") else word


def _key(table: Drafted) -> str:
    """The column that seems to identify the table's own rows, or ""."""
    stems = _stems(table)
    stems = {column: stem for column, stem in stems.items() if _IDENTIFIES.search(column)}
    return next((column for column, stem in stems.items() if not stem or _is(stem, table.name)), "")


def _own_units(table: Drafted, key: str) -> list[tuple[str, str]]:
    """(word, column) of the columns that seem to number people. A bare `id` numbers what the table is about."""
    found = []
    for column, stem in _stems(table).items():
        about = (
            "user"
            if stem == "u"
            else stem or (_singular(table.name.rpartition(".")[2].lower()) if column == key else "")
        )
        person = next((p for p in _PEOPLE if about == p or _singular(about) == p or about.endswith("_" + p)), None)
        if person:
            found.append(("customer" if person == "cust" else person, column))
    return found


def _paths(table: Drafted, tables: Sequence[Drafted], keys: dict[str, str]) -> list[tuple[str, str]]:
    """(column, other table) where the column has the name of the other's key."""
    found = []
    for column, stem in _stems(table).items():
        for other in tables:
            if (
                other is not table
                and keys[other.name]
                and stem
                and column != keys[table.name]
                and _is(stem, other.name)
            ):
                found.append((column, other.name))
    return found


def _text(value: str) -> str:
    """A TOML string; DEL must be written as its code there too."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _bare(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _text(name)
