"""Reads the tables of a policy file, one by one, as they are written: `checks` then joins them.

Promise: a table without `public = true` has a unit and a limit, or is a problem; there is no third way.
"""

from __future__ import annotations

from collections.abc import Callable

from dpsql.policy import names, readers
from dpsql.policy.checks import Written
from dpsql.policy.lines import Place
from dpsql.policy.model import LIMITS, ROW, Column, Path, Reference, Table
from dpsql.policy.problems import KEYS, Problems, Section, dotted
from dpsql.policy.readers import Wrong, called, shown

PlacedReference = tuple[Reference, Place]
_HARD = {limit: f"{limit}_hard" for limit in LIMITS}
_OF_UNITS = ("unit", *LIMITS, *_HARD.values(), "limit", "cluster_by")
"""What speaks of units, and so can stand on private tables only."""


def read_tables(root: Section, problems: Problems) -> list[Written]:
    """Every table as it is written; names that speak of other tables are not yet looked up."""
    written = root.raw("tables")
    if "tables" not in root:
        root.need("tables", "[tables.orders] and under it unit, max_rows_per_unit and columns")
        return []
    if not isinstance(written, dict) or not written:
        what = "nothing" if written == {} else called(written)
        root.wrong("tables", f"must hold tables, not {what}", "[tables.orders] and what belongs to it")
        return []
    return [_table(name, data, problems) for name, data in written.items()]


def _table(name: str, data: object, problems: Problems) -> Written:
    place: Place = ("tables", name)
    section = Section(data, place, KEYS["table"], problems)
    public = section.read("public", readers.flag)
    unit: str | Path | None = None
    limits: dict[str, int | None] = {}
    hard: dict[str, int] = {}
    limit, clustered = None, None
    if public:
        for word in _OF_UNITS:
            if word in section:
                section.wrong(
                    word,
                    "cannot stand on a public table: its rows belong to nobody",
                    "leave it out, or leave out public = true",
                )
    elif not problems.at((*place, "public")):
        limits = {word: section.read(word, readers.rows) for word in LIMITS if word in section}
        unit = _unit(section, problems)
        if unit == ROW:
            _check_row_limits(section, limits)
            limits["max_rows_per_unit"] = 1
        else:
            section.need("max_rows_per_unit", "max_rows_per_unit = 100, the rows of one unit that can count")
        hard = _ceilings(section, limits)
        limit = section.read("limit", readers.one_of("rows", "late"))
        clustered = section.read("cluster_by", readers.cluster)
    columns, references = _columns(section, bool(public), problems)
    references += _references(section, problems)
    key = section.read("key", names.column_names) or ()
    source = section.read("source", names.source) or name
    _check_name(names.table_name, name, place, problems)
    table = Table(
        name=name,
        public=bool(public),
        source=source,
        unit=unit,
        key=key,
        columns=columns,
        references=tuple(reference for reference, _ in references),
        max_rows_per_unit=limits.get("max_rows_per_unit"),
        max_groups_per_unit=limits.get("max_groups_per_unit"),
        max_rows_per_group=limits.get("max_rows_per_group"),
        limit=str(limit or "rows"),
        hard=hard,
        clustered=bool(clustered),
    )
    return Written(table, tuple(place for _, place in references))


def _unit(section: Section, problems: Problems) -> str | Path | None:
    """`"column"`, `"row"`, or `{via = ..., to = ...}`; whatever else an owner may try is told what to write."""
    written = section.raw("unit")
    if "unit" not in section:
        section.need("unit", 'unit = "customer_id", unit = {via = "order_id", to = "orders"}, or public = true')
    elif isinstance(written, str):
        return ROW if written.lower() == "row" else section.read("unit", names.column_name)
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
            "via", names.via, 'via = "order_id", the column of this table that names the row of the other'
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
    written = limits | {key: section.raw(key) for key in _HARD.values()}
    for key, value in written.items():
        if isinstance(value, int) and value > 1:
            section.wrong(
                key, 'is more than 1, but with unit = "row" each unit has one row', "leave it out, or write 1"
            )


def _ceilings(section: Section, limits: dict[str, int | None]) -> dict[str, int]:
    """How high an analyst may set each limit: at least the limit itself."""
    found: dict[str, int] = {}
    for limit, key in _HARD.items():
        ceiling, own = section.read(key, readers.rows), limits.get(limit)
        if ceiling is None:
            continue
        if limit not in limits:
            section.wrong(key, f"stands without {limit}", f"write {limit} too: it holds where nobody says otherwise")
        elif own is not None and ceiling < own:
            section.wrong(key, f"is less than {limit}", f"write at least {own}, or leave it out")
        elif own is not None:
            found[limit] = ceiling
    return found


def _columns(section: Section, public: bool, problems: Problems) -> tuple[dict[str, Column], list[PlacedReference]]:
    written = section.raw("columns")
    place = (*section.place, "columns")
    if problems.at(section.place):
        return {}, []
    if "columns" not in section and public:
        return {}, []  # its key, and what others refer to in it: `checks` adds them
    if "columns" not in section:
        section.need("columns", f"[{dotted(place)}] and a line for each column that may be seen")
        return {}, []
    if not isinstance(written, dict) or not written:
        what = "nothing" if written == {} else called(written)
        section.wrong("columns", f"must hold columns, not {what}", "price = { bounds = [0, 50] }")
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
        unit_of_measure=section.read("unit_of_measure", names.text) or "",
        description=section.read("description", names.text) or "",
    )
    _check_name(names.column_name, name, place, problems)
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
        columns = one.require("columns", names.column_names, 'columns = ["part", "supplier"]')
        table = one.require("table", _table_word, 'table = "partsupp"')
        target = one.read("target", names.column_names) or columns
        if columns and table and target and len(columns) != len(target):
            one.wrong(
                "target",
                f"has {len(target)} for {len(columns)} columns",
                "one target for each column, in the same order",
            )
        elif columns and table and target:
            found.append((Reference(columns, table, target), one.place))
    return found


def _table_word(value: object) -> str:
    if not isinstance(value, str):
        raise Wrong(f"must be a table's name, not {called(value)}", "write it in quotes")
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
