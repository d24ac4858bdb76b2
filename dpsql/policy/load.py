"""Reads a policy file: TOML in, a `Policy` out, or one DP301 that lists everything that is wrong with it.

Promise: what is not written is not guessed. A key that is not known, a word that is not possible or a name that
does not fit another one is an error, never a warning, since a policy that protects less than its owner believes
is worse than none. No key switches protection off. Reads the one file and nothing else: whether the database fits
is found out when the snapshot is made.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path as FilePath

from dpsql.errors import Error, Span, refusal
from dpsql.policy import readers
from dpsql.policy.checks import Written, connect_tables
from dpsql.policy.digest import digest_of
from dpsql.policy.lines import Place
from dpsql.policy.model import ROW, Budget, Column, Path, Policy, Reference, Table
from dpsql.policy.problems import Problems, Section, dotted
from dpsql.policy.readers import Wrong, called, shown

LARGEST_FILE = 10 * 2**20

KEYS: dict[str, tuple[str, ...]] = {
    "file": ("version", "unit", "budget", "tables"),
    "unit": ("name",),
    "budget": (
        "account", "epsilon", "delta", "per_query_epsilon", "max_query_epsilon", "composition", "renew", "per_analyst",
    ),
    "table": (
        "public", "source", "unit", "key", "max_rows_per_unit", "max_groups_per_unit", "max_rows_per_group",
        "columns", "references",
    ),
    "path": ("via", "to"),
    "reference": ("columns", "table", "target"),
    "column": ("bounds", "step", "values", "references", "unit_of_measure", "description"),
}  # fmt: skip
"""Every key that a policy may hold, by the kind of section it stands in."""

PlacedReference = tuple[Reference, Place]
_LIMITS = ("max_rows_per_unit", "max_groups_per_unit", "max_rows_per_group")


def load_policy(path: FilePath | str) -> Policy:
    """The policy in this file. Raises `PolicyError` (DP301) with every problem found."""
    file = FilePath(path)
    name = shown(str(path))[1:-1]
    text = _text(file, name)
    problems = Problems(name, text)
    root = Section(_document(text, name), (), KEYS["file"], problems)
    root.require("version", readers.one_of(1), "version = 1")
    unit = _unit_word(root, problems)
    budget = _budget(root, problems, file)
    tables = connect_tables(_tables(root, problems), problems)
    error = problems.error()
    if error is not None:
        raise error
    return Policy(unit, budget, tables, digest_of(tables), file)


# ---- the file


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


# ---- unit and budget


def _unit_word(root: Section, problems: Problems) -> str:
    repair = '[unit] and under it, for example, name = "customer"'
    if "unit" not in root:
        root.wrong("unit", "is missing: whom does the policy protect?", repair)
        return ""
    section = Section(root.raw("unit"), ("unit",), KEYS["unit"], problems)
    return section.require("name", readers.unit_word, repair) or ""


def _budget(root: Section, problems: Problems, file: FilePath) -> Budget:
    nothing = Fraction(0)
    if "budget" not in root:
        root.wrong("budget", "is missing", '[budget] and under it epsilon = "3" and per_query_epsilon = "0.25"')
        return Budget("", nothing, nothing, nothing, nothing)
    section = Section(root.raw("budget"), ("budget",), KEYS["budget"], problems)
    account = section.read("account", readers.account)
    if "account" not in section and not problems.at(section.place):
        try:
            account = readers.account(file.stem)
        except Wrong as wrong:
            section.wrong("account", f"is missing, and the file's name does not serve: {wrong.text}", wrong.repair)
    epsilon = section.require("epsilon", readers.epsilon, 'epsilon = "3", all that the account may ever spend')
    delta = section.read("delta", readers.delta)
    query = section.require(
        "per_query_epsilon", readers.epsilon, 'per_query_epsilon = "0.25", what a statement costs by itself'
    )
    most = section.read("max_query_epsilon", readers.epsilon)
    if most is None and "max_query_epsilon" not in section:
        most = epsilon
    elif most is not None and epsilon is not None and most > epsilon:
        section.wrong("max_query_epsilon", "is more than epsilon", "write at most epsilon, or leave it out")
    if query is not None and most is not None and query > most:
        section.wrong(
            "per_query_epsilon",
            "is more than a statement may cost",
            "write at most max_query_epsilon and at most epsilon",
        )
    composition = section.read("composition", readers.one_of("basic"))
    section.read("renew", readers.one_of("never"))
    section.read("per_analyst", readers.one_of(False))
    amounts = (epsilon or nothing, delta or nothing, query or nothing, most or nothing)
    return Budget(account or "", *amounts, composition=str(composition or "basic"))


# ---- tables


def _tables(root: Section, problems: Problems) -> list[Written]:
    """Every table as it is written; names that speak of other tables are not yet looked up."""
    written = root.raw("tables")
    if "tables" not in root or written == {}:
        root.wrong(
            "tables",
            "is missing: no table is visible",
            "[tables.orders] and under it unit, max_rows_per_unit and columns",
        )
        return []
    if not isinstance(written, dict):
        root.wrong("tables", f"must hold tables, not be {called(written)}", "[tables.orders]")
        return []
    return [_table(name, data, problems) for name, data in written.items()]


def _table(name: str, data: object, problems: Problems) -> Written:
    place: Place = ("tables", name)
    section = Section(data, place, KEYS["table"], problems)
    public = section.read("public", readers.flag)
    unit: str | Path | None = None
    limits: dict[str, int | None] = {}
    if public:
        for word in ("unit", *_LIMITS):
            if word in section:
                section.wrong(
                    word,
                    "cannot stand on a public table: its rows belong to nobody",
                    "leave it out, or leave out public = true",
                )
    elif not problems.at((*place, "public")):
        limits = {word: section.read(word, readers.rows) for word in _LIMITS if word in section}
        unit = _unit(section, problems)
        if unit == ROW:
            _check_row_limits(section, limits)
            limits["max_rows_per_unit"] = 1
        else:
            section.need("max_rows_per_unit", "max_rows_per_unit = 100, the rows of one unit that can count")
    columns, references = _columns(section, problems)
    references += _references(section, problems)
    key = section.read("key", readers.column_names) or ()
    source = section.read("source", readers.source) or name
    _check_name(readers.table_name, name, place, problems)
    table = Table(
        name=name,
        public=bool(public),
        source=source,
        unit=unit,
        key=key,
        columns=columns,
        references=tuple(reference for reference, _ in references),
        **limits,
    )
    return Written(table, tuple(place for _, place in references))


def _unit(section: Section, problems: Problems) -> str | Path | None:
    """`"column"`, `"row"`, or `{via = ..., to = ...}`; whatever else an owner may try is told what to write."""
    written = section.raw("unit")
    if "unit" not in section:
        section.need("unit", 'unit = "customer_id", unit = {via = "order_id", to = "orders"}, or public = true')
    elif isinstance(written, str):
        return ROW if written.lower() == "row" else section.read("unit", readers.column_name)
    elif isinstance(written, list) and any(isinstance(part, dict) for part in written):
        section.wrong("unit", *_BOTH)
    elif isinstance(written, list) and len(written) == 1:
        section.wrong("unit", "is a list", f"write unit = {shown(written[0])}")
    elif isinstance(written, list):
        repair = "make a view in the database with one column for them: to_json([a::VARCHAR, b::VARCHAR]) AS unit_id"
        section.wrong("unit", "must be one column, not a list of several", repair)
    elif isinstance(written, dict) and len(written) > 1 and {"column", "name", "unit", "own"} & written.keys():
        section.wrong("unit", *_BOTH)
    elif isinstance(written, dict):
        path = Section(written, (*section.place, "unit"), KEYS["path"], problems)
        via = path.require(
            "via", readers.via, 'via = "order_id", the column of this table that names the row of the other'
        )
        to = path.require("to", _table_word, 'to = "orders", the table by which a row reaches its unit')
        return Path(via, to) if via and to else None
    else:
        section.wrong("unit", f"must be a column's name or a path, not {called(written)}", 'unit = "customer_id"')
    return None


_BOTH = (
    "has both an own column and a path",
    "keep one of them: a row belongs to one unit, by its own column or by the path",
)


def _check_row_limits(section: Section, limits: dict[str, int | None]) -> None:
    for key in _LIMITS:
        if limits.get(key) not in (None, 1):
            section.wrong(
                key, 'is more than 1, but with unit = "row" each unit has one row', "leave it out, or write 1"
            )


def _columns(section: Section, problems: Problems) -> tuple[dict[str, Column], list[PlacedReference]]:
    written = section.raw("columns")
    place = (*section.place, "columns")
    if problems.at(section.place):
        return {}, []
    if "columns" not in section or written == {}:
        section.wrong(
            "columns",
            "is missing: no column is visible",
            f"[{dotted(place)}] and a line for each",
        )
        return {}, []
    if not isinstance(written, dict):
        section.wrong("columns", f"must be a table of columns, not {called(written)}", "price = {bounds = [0, 50]}")
        return {}, []
    columns: dict[str, Column] = {}
    references: list[PlacedReference] = []
    for name, data in written.items():
        columns[name], reference = _column(name, data, (*place, name), problems)
        references += [(reference, (*place, name, "references"))] if reference else []
    return columns, references


def _column(name: str, data: object, place: Place, problems: Problems) -> tuple[Column, Reference | None]:
    section = Section(data, place, KEYS["column"], problems)
    target = section.read("references", _target)
    column = Column(
        name=name,
        bounds=section.read("bounds", readers.bounds),
        step=section.read("step", readers.step),
        values=section.read("values", readers.values),
        unit_of_measure=section.read("unit_of_measure", readers.text) or "",
        description=section.read("description", readers.text) or "",
    )
    _check_name(readers.column_name, name, place, problems)
    return column, Reference((name,), target[0], (target[1],)) if target else None


def _check_name(reader: Callable[[object], str], name: str, place: Place, problems: Problems) -> None:
    """Last, since a problem with the name would otherwise silence those of the section."""
    try:
        reader(name)
    except Wrong as wrong:
        problems.add(place, wrong.text, wrong.repair)


def _references(section: Section, problems: Problems) -> list[PlacedReference]:
    """The references of several columns: [[tables.x.references]]."""
    written = section.raw("references")
    if "references" not in section:
        return []
    if not isinstance(written, list):
        section.wrong(
            "references", f"must be a list, not {called(written)}", "[[tables.x.references]], with double brackets"
        )
        return []
    found: list[PlacedReference] = []
    for number, data in enumerate(written):
        one = Section(data, (*section.place, "references", number), KEYS["reference"], problems)
        columns = one.require("columns", readers.column_names, 'columns = ["part", "supplier"]')
        table = one.require("table", _table_word, 'table = "partsupp"')
        target = one.read("target", readers.column_names) or columns
        if columns and table and target and len(columns) != len(target):
            one.wrong(
                "target",
                f"names {len(target)} columns for {len(columns)}",
                "one target for each column, in the same order",
            )
        elif columns and table and target:
            found.append((Reference(columns, table, target), one.place))
    return found


def _table_word(value: object) -> str:
    if not isinstance(value, str):
        raise Wrong(f"must be a table's name, not {called(value)}")
    return value


def _target(value: object) -> tuple[str, str]:
    """`table.column`; the table's name may itself hold a dot."""
    table, dot, column = value.rpartition(".") if isinstance(value, str) else ("", "", "")
    if not (table and dot and column):
        what = shown(value) if isinstance(value, str) else called(value)
        repair = (
            'references = "products.product_id"; a key of several columns is referred to by [[tables.x.references]]'
        )
        raise Wrong(f"must be table.column, not {what}", repair)
    return table, column
