"""Reads a policy file: TOML in, a `Policy` out, or one DP301 that lists everything that is wrong with it.

Promise: what is not written is not guessed. A key that is not known, a word that is not possible or a name that
does not fit another one is an error, never a warning, since a policy that protects less than its owner believes
is worse than none. No key switches protection off. Reads the one file and nothing else: whether the database fits
is found out when the snapshot is made.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path as FilePath

from dpsql.errors import Error, Span, refusal
from dpsql.policy import names, readers
from dpsql.policy.budget import read_budget
from dpsql.policy.checks import connect_tables
from dpsql.policy.digest import digest_of
from dpsql.policy.model import USUAL_LIMITS, EngineLimits, Policy
from dpsql.policy.problems import KEYS, Problems, Section
from dpsql.policy.readers import escaped
from dpsql.policy.tables import read_tables

LARGEST_FILE = 10 * 2**20


def load_policy(path: FilePath | str) -> Policy:
    """The policy in this file. Raises `PolicyError` (DP301) with every problem found."""
    file = FilePath(path)
    name = escaped(str(file))
    text = _text(file, name)
    problems = Problems(name, text)
    root = Section(_document(text, name), (), KEYS["file"], problems)
    root.require("version", readers.one_of(1), "version = 1")
    timing = root.read("reveal_timing", readers.flag) or False
    unit = _unit_word(root, problems)
    budget = read_budget(root, problems, file)
    engine = _engine_limits(root, problems)
    tables = connect_tables(read_tables(root, problems), problems)
    error = problems.error()
    if error is not None:
        raise error
    return Policy(unit, budget, tables, digest_of(tables), file, engine, timing)


# ---- the file

_NO_POLICIES = {b"DUCK": "a DuckDB database", b"SQLite format 3": "a SQLite database", b"PAR1": "a Parquet file"}
"""By what such files have in their first 16 bytes."""


def _text(file: FilePath, name: str) -> str:
    try:
        if not file.exists():
            raise refusal("DP301", f"{name}: there is no such file")
        if not file.is_file():
            raise refusal("DP301", f"{name}: is not a file", repair="name the policy file itself")
        with file.open("rb") as stream:
            content = stream.read(LARGEST_FILE + 1)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        reason = error.strerror if isinstance(error, OSError) else None
        raise refusal("DP301", f"{name}: cannot be read ({reason or 'not a path'})") from None
    for magic, kind in _NO_POLICIES.items():
        if magic in content[:16]:
            repair = f"name the policy first: dpsql check policy.toml {name}; `dpsql init {name}` drafts one"
            raise refusal("DP301", f"{name}: is {kind}, not a policy", repair=repair)
    if len(content) > LARGEST_FILE:
        raise refusal(
            "DP301", f"{name}: is larger than 10 MB", repair="keep long lists of values in a public table: references"
        )
    try:
        return content.decode("utf-8-sig").replace("\r\n", "\n")  # the newlines that tomllib counts
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise refusal("DP301", f"{name}:{line}: is not UTF-8", repair="save the file as UTF-8") from None


def _document(text: str, name: str) -> dict[str, object]:
    try:
        return tomllib.loads(text, parse_float=readers.parse_float)
    except RecursionError:
        raise refusal("DP301", f"{name}: is nested too deeply") from None
    except ValueError as error:  # TOMLDecodeError is one; so is an integer of thousands of digits
        raise _not_toml(str(error), text, name) from None


def _not_toml(message: str, text: str, name: str) -> Error:
    """tomllib's words and a caret at the place that they name; 'overwrite' is its word for a key written twice."""
    match = re.fullmatch(r"(.*) \(at (?:line (\d+), column (\d+)|end of document)\)", message, re.DOTALL)
    if match is None:
        return refusal("DP301", f"{name}: holds a number that does not fit in 64 bits", repair="write a smaller number")
    said, line, column = match[1], match[2], match[3]
    start = len(text)
    if line is not None:
        start = sum(len(s) + 1 for s in text.split("\n", int(line) - 1)[: int(line) - 1]) + int(column) - 1
    twice = re.search(r"overwrite|twice|[Dd]uplicate|mutate", said)
    reason = "a key or a table is written twice" if twice else f"{said[0].lower()}{said[1:]}"
    shorter = reason if len(reason) <= 200 else f"{reason[:200]}..."
    repair = "write each key once" if twice else "see toml.io for how TOML is written"
    span = Span(start, start + 1)
    return refusal("DP301", f"{name}: is not TOML: {shorter}", span=span, source=text, name=name, repair=repair)


# ---- unit and engine


def _unit_word(root: Section, problems: Problems) -> str:
    repair = '[unit] and under it, for example, name = "customer": whom the policy protects'
    if "unit" not in root:
        root.need("unit", repair)
        return ""
    section = Section(root.raw("unit"), ("unit",), KEYS["unit"], problems)
    return section.require("name", names.unit_word, 'name = "customer"') or ""


def _engine_limits(root: Section, problems: Problems) -> EngineLimits:
    if "engine" not in root:
        return USUAL_LIMITS
    section = Section(root.raw("engine"), ("engine",), KEYS["engine"], problems)
    return EngineLimits(
        memory=section.read("memory_limit", readers.memory) or USUAL_LIMITS.memory,
        timeout=section.read("statement_timeout", readers.seconds) or USUAL_LIMITS.timeout,
    )
