"""Reads the words of a policy file: names of tables, columns and accounts, and text for people.

A name goes into generated SQL, into the snapshot's own tables and into messages; what cannot do all three safely
is refused here, so that no later pass has to think about it.
"""

from __future__ import annotations

import re
import unicodedata

from dpsql.policy.model import is_file
from dpsql.policy.readers import Wrong, called, shown

_FILE = re.compile(
    r"[/\\*]|\.(parquet|csv|tsv|txt|json|jsonl|ndjson|gz|zst|xlsx|arrow|feather|avro|orc|db|duckdb|sqlite)$", re.I
)
_OTHER_FILE = re.compile(
    r"\\|(?<!\.[ct]sv)\.gz$|\.(txt|json|jsonl|ndjson|zst|xlsx|arrow|feather|avro|orc|db|duckdb|sqlite)$", re.I
)
_VIEW = "CREATE VIEW name AS FROM 'file'"
_RELEASED = re.compile(r"released_[0-9]+")
_OURS = ("priv", "pub")  # the catalogs of the private and the public file of a snapshot
_ENGINE = ("memory", "system", "temp", "information_schema", "pg_catalog")


def text(value: object) -> str:
    """Words for people: any string that a terminal shows without being commanded by it."""
    if not isinstance(value, str):
        raise Wrong(f"must be a string, not {called(value)}", "write it in quotes")
    if any(unicodedata.category(c) in ("Cc", "Cs") and c not in "\n\t" for c in value):
        raise Wrong("holds a control character", "leave it out")
    return value


def unit_word(value: object) -> str:
    """The word for whom the policy protects."""
    word = text(value)
    if not word.strip() or len(word) > 60 or "\n" in word or "\t" in word:
        raise Wrong("must be one word or a few, at most 60 characters", 'for example name = "customer"')
    return word.strip()


def account(value: object) -> str:
    """An account's name is also a folder's name, so it holds no more than every file system takes."""
    word = text(value)
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", word):
        repair = 'write letters, digits, "-", "_" and ".", at most 64, a letter or digit first: account = "sales-2026"'
        raise Wrong(f"{shown(word)} cannot name an account", repair)
    return word


def column_name(value: object) -> str:
    """The name of a column that the policy, and so the analyst, may use."""
    name = _name(value, "column")
    if name.lower() == "rowid":
        raise Wrong('"rowid" is DuckDB\'s word for the position of a row', "rename the column in a view")
    return name


def table_name(value: object) -> str:
    """The name of a table, or `schema.table`."""
    name = _name(value, "table")
    parts = name.lower().split(".")
    if len(parts) > 2 or not all(parts):
        raise Wrong(
            f"{shown(name)} must be a table or schema.table",
            "name a table of the database itself, or make a view there",
        )
    if parts[0] == "main" and len(parts) == 2:
        raise Wrong('the schema "main" is implied', f"write [tables.{name.split('.')[1]}]")
    if _FILE.search(name):
        raise Wrong(
            f"{shown(name)} looks like a file",
            f"make a view of it in the database ({_VIEW}) and name the table as that view",
        )
    if _RELEASED.fullmatch(parts[-1]) or parts[0] in _OURS or (len(parts) == 2 and parts[0] in _ENGINE):
        raise Wrong(f"{shown(name)} is reserved", 'choose another name and write source = "the name in the database"')
    return name


def source(value: object) -> str:
    """A table or view of the database, or a file or folder."""
    if isinstance(value, str) and (is_file(value) or _OTHER_FILE.search(value) or "*" in value):
        return _path(value)
    name = _name(value, "table")
    if name.count(".") > 1 or not all(name.split(".")):
        raise Wrong(
            f"{shown(name)} must be a table or schema.table",
            "name a table of the database itself, or make a view there",
        )
    return name


def _path(path: str) -> str:
    """A file or folder that the snapshot is made from; whether it is there is found out then."""
    if len(path) > 1000 or any(unicodedata.category(c)[0] == "C" for c in path):
        raise Wrong(f"{shown(path)} cannot name a file", "1 to 1000 characters, none of them invisible")
    if "://" in path:
        raise Wrong(f"{shown(path)} is an address", "copy the files here, and name the file or folder")
    if "*" in path or "?" in path:
        raise Wrong(f"{shown(path)} is a pattern", 'name the folder, with a slash at its end: "orders/"')
    if _OTHER_FILE.search(path):
        repair = f"write a .parquet, .csv or .tsv file or a folder of them; or a view in the database ({_VIEW})"
        raise Wrong(f"{shown(path)} looks like a file of a kind that is not read", repair)
    return path


def column_names(value: object) -> tuple[str, ...]:
    """A list of different columns, at least one."""
    if isinstance(value, str):
        raise Wrong("must be a list of columns", f"write [{shown(value)}]")
    if not isinstance(value, list) or not value:
        what = "an empty one" if value == [] else called(value)
        raise Wrong(f"must be a list of at least one column, not {what}", 'for example ["order_id", "line"]')
    names = tuple(column_name(v) for v in value)
    if len({n.lower() for n in names}) < len(names):
        raise Wrong("names a column twice", "name each column once")
    return names


def via(value: object) -> tuple[str, ...]:
    """The columns of a path: one name, or a list of them."""
    return (column_name(value),) if isinstance(value, str) else column_names(value)


def _name(value: object, what: str) -> str:
    if not isinstance(value, str):
        raise Wrong(f"must be the name of a {what}, not {called(value)}", "write it in quotes")
    if not value or len(value) > 128 or value != value.strip():
        raise Wrong(f"{shown(value)} cannot name a {what}", "1 to 128 characters, no blank at either end")
    if value.startswith("$"):
        raise Wrong(
            f'{shown(value)} cannot name a {what}: names that start with "$" are reserved', "rename it in a view"
        )
    if '"' in value or any(unicodedata.category(c)[0] == "C" or unicodedata.category(c) in ("Zl", "Zp") for c in value):
        raise Wrong(
            f"{shown(value)} cannot name a {what}: it holds a quote or an invisible character", "rename it in a view"
        )
    return value
