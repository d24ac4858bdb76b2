"""Joins the tables of a policy: looks up every name that speaks of another place, and checks what must fit.

Names are matched as DuckDB matches them, without regard to case; the tables returned spell every name as it is
declared, so that later passes compare strings. What is wrong is added to `Problems`; what follows from a problem
already known there is not reported again.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction

from dpsql.errors import nearest
from dpsql.policy.lines import Place
from dpsql.policy.model import ROW, Column, Path, Reference, Table
from dpsql.policy.problems import Problems, dotted, sentence
from dpsql.policy.readers import DEFAULT_PARTS, GRID_LINES, LARGEST_GRID_INDEX, kind, shown

Tables = Mapping[str, Table]
"""By lower-case name."""


@dataclass(frozen=True, slots=True)
class Written:
    """A table as the file has it, its names not yet looked up. `places`: where each of its references stands."""

    table: Table
    places: tuple[Place, ...]


def connect_tables(written: Sequence[Written], problems: Problems) -> dict[str, Table]:
    """The tables by name, with every name looked up. Only where `problems` is empty may they be relied on."""
    _check_twice([w.table.name for w in written], ("tables",), problems)
    written = [replace(w, table=_implied(w.table, written)) for w in written]
    tables: dict[str, Table] = {}
    for one in written:
        tables.setdefault(one.table.name.lower(), one.table)
    for one in written:
        table = one.table
        _check_columns(table, problems)
        if not table.columns and table.public and not problems.at((*_place(table), "columns")):
            text = "is missing, and so is a key, and no reference leads here: nothing could be seen"
            repair = f"write [{dotted((*_place(table), 'columns'))}] and a line for each column that may be seen"
            problems.add((*_place(table), "columns"), text, repair)
    for one in written:
        table = one.table
        if isinstance(table.unit, Path):
            _check_path(table, table.unit, tables, problems)
        elif table.unit == ROW and _declared(table, "row"):
            text = 'has two readings: the column "row", or every row its own unit'
            problems.add((*_place(table), "unit"), text, "rename the column in a view")
        for reference, place in zip(table.references, one.places, strict=True):
            _check_reference(table, reference, place, tables, problems)
        _check_one_domain(one, problems)
    _check_cycles(tables, problems)
    _check_sources(tables, problems)
    return {w.table.name: _spelled(w.table, tables) for w in written}


# ---- names


def _implied(table: Table, written: Sequence[Written]) -> Table:
    """A public table that lists no columns shows its key, and what references speak of; without a key of its own,
    the first of those is its key, which the snapshot then verifies."""
    if not table.public or table.columns:
        return table
    references = [r for w in written for r in w.table.references if r.table.lower() == table.name.lower()]
    key = table.key or next((r.target for r in references), ())
    names: dict[str, str] = {}
    for name in (*key, *(column for r in references for column in r.target)):
        names.setdefault(name.lower(), name)
    return replace(table, key=key, columns={name: Column(name) for name in names.values()})


def _place(table: Table) -> Place:
    return ("tables", table.name)


def _check_twice(names: Iterable[str], place: Place, problems: Problems) -> None:
    seen: dict[str, str] = {}
    for name in names:
        first = seen.setdefault(name.lower(), name)
        if first != name:
            text = f"is {shown(first)} once more: SQL does not tell names apart by case"
            problems.add((*place, name), text, "leave one out, or rename it in a view")


def _declared(table: Table, name: str) -> str | None:
    """The column as the table declares it, or None."""
    return next((column for column in table.columns if column.lower() == name.lower()), None)


def _check_listed(table: Table, names: Iterable[str], place: Place, problems: Problems) -> bool:
    """Whether the columns are declared; those that are not are reported at `place`."""
    if problems.at((*_place(table), "columns")):
        return False
    missing = [name for name in names if _declared(table, name) is None]
    for name in missing:
        near = nearest(name[:60], table.columns)
        text = sentence(f"names the column {shown(name)}, which {shown(table.name)} does not list", near)
        problems.add(place, text, f"list it: {dotted((name,))} = {{}} under [{dotted((*_place(table), 'columns'))}]")
    return not missing


def _find(name: str, place: Place, tables: Tables, problems: Problems) -> Table | None:
    """The table of this name, unless there is none (reported) or it is broken (known)."""
    table = tables.get(name.lower())
    if table is None:
        known = [t.name for t in tables.values()]
        repair = f"the tables are {', '.join(known[:20])}{', ...' if len(known) > 20 else ''}"
        text = sentence(f"names the table {shown(name)}, which the policy does not have", nearest(name[:60], known))
        problems.add(place, text, repair)
        return None
    return None if problems.at(_place(table)) or problems.at((*_place(table), "public")) else table


def _spelled(table: Table, tables: Tables) -> Table:
    """The table with every name as it is declared (names that are not declared stay as they are)."""

    def columns(of: Table | None, names: tuple[str, ...]) -> tuple[str, ...]:
        return tuple((_declared(of, name) if of else None) or name for name in names)

    unit = table.unit
    if isinstance(unit, Path):
        to = tables.get(unit.to.lower())
        unit = Path(columns(table, unit.via), to.name if to else unit.to)
    elif unit is not None and unit != ROW:
        unit = columns(table, (unit,))[0]
    references = []
    for reference in table.references:
        to = tables.get(reference.table.lower())
        target = columns(to, reference.target)
        references.append(Reference(columns(table, reference.columns), to.name if to else reference.table, target))
    return replace(table, unit=unit, key=columns(table, table.key), references=tuple(references))


# ---- one table


def _check_columns(table: Table, problems: Problems) -> None:
    place = (*_place(table), "columns")
    _check_twice(table.columns, place, problems)
    for column in table.columns.values():
        at = (*place, column.name)
        if column.step is not None and not problems.at((*at, "bounds")):
            _check_step(column, column.step, at, problems)
        if column.bounds is not None and kind(column.bounds[0]) == "number" and not problems.at((*at, "step")):
            _check_grid(column, at, problems)
        if column.bounds is not None and column.values is not None:
            _check_values_within(column, at, problems)


def _range(column: Column) -> tuple[Fraction, Fraction] | None:
    """The bounds of a numeric column."""
    low, high = column.bounds or ("", "")
    if isinstance(low, int | Decimal) and isinstance(high, int | Decimal):
        return Fraction(low), Fraction(high)
    return None


def _check_step(column: Column, step: Decimal, place: Place, problems: Problems) -> None:
    numbers = _range(column)
    if numbers is None:
        text = "can stand beside bounds of numbers only"
        problems.add((*place, "step"), text, "add bounds = [low, high], or leave step out")
    elif Fraction(step) > numbers[1] - numbers[0]:
        problems.add(
            (*place, "step"), f"{shown(step)} is more than the whole range", "write a step that divides the range"
        )
    elif numbers[1] - numbers[0] > GRID_LINES * Fraction(step):
        text = f"{shown(step)} divides the range into more than 2^40 ({GRID_LINES}) parts"
        problems.add((*place, "step"), text, "write a larger step, or narrower bounds")


def _check_grid(column: Column, place: Place, problems: Problems) -> None:
    """Bounds are counted in grid steps from zero: the larger of them must stay an exact integer."""
    numbers = _range(column)
    if numbers is None or problems.at((*place, "step")):
        return
    step = Fraction(column.step) if column.step is not None else (numbers[1] - numbers[0]) / DEFAULT_PARTS
    if max(abs(numbers[0]), abs(numbers[1])) > LARGEST_GRID_INDEX * step:
        text = "lie too far from zero for so fine a grid: counted in steps they go beyond 2^52"
        problems.add((*place, "bounds"), text, "write a larger step, wider bounds, or subtract an offset in a view")


def _check_values_within(column: Column, place: Place, problems: Problems) -> None:
    assert column.bounds is not None
    assert column.values is not None
    low, high = column.bounds
    if kind(low) != kind(column.values[0]):
        text = f"are of another type than the bounds: {shown(column.values[0])} and {shown(low)}"
        problems.add((*place, "values"), text, "write both of the column's own type")
        return
    outside = [v for v in column.values if not low <= v <= high]  # type: ignore[operator]
    if outside:
        text = f"hold {shown(outside[0])}, which lies outside the bounds, so no row can ever have it"
        problems.add((*place, "values"), text, "widen the bounds, or leave the value out")


# ---- between tables


def _check_path(table: Table, path: Path, tables: Tables, problems: Problems) -> None:
    """A path ends at a private table that has an owner and a key of as many columns as lead there."""
    place = (*_place(table), "unit")
    to = _find(path.to, (*place, "to"), tables, problems)
    if to is None:
        return
    name = shown(to.name)
    if to.public:
        text = f"leads to {name}, which is public: its rows have no owner"
        problems.add((*place, "to"), text, f"give {name} a unit, or write references for the column and another unit")
    elif to.unit == ROW:
        text = f'leads to {name}, whose unit is "row": no other table can share that unit'
        problems.add((*place, "to"), text, f"give {name} a column as its unit")
    elif problems.at((*_place(to), "key")):
        return
    elif not to.key:
        repair = f"add to [{dotted(_place(to))}] the columns that {', '.join(path.via)} stands for: key = [...]"
        problems.add((*place, "to"), f"leads to {name}, which has no key", repair)
    elif len(to.key) != len(path.via):
        text = f"has {len(path.via)} columns, but the key of {name} has {len(to.key)}: {', '.join(to.key)}"
        problems.add((*place, "via"), text, "name one column for each column of that key, in its order")


def _check_cycles(tables: Tables, problems: Problems) -> None:
    """Following paths must end at an own column: each cycle is reported once, at the table the file has first."""
    done: set[str] = set()
    for start in tables:
        walked: list[str] = []
        name = start
        while name in tables and name not in done and name not in walked:
            walked.append(name)
            unit = tables[name].unit
            if not isinstance(unit, Path):
                break
            name = unit.to.lower()
        if name in walked and isinstance(tables[name].unit, Path):
            circle = walked[walked.index(name) :]
            first = next(t for t in tables if t in circle)
            turned = circle[circle.index(first) :] + circle[: circle.index(first)]
            names = " -> ".join(tables[t].name for t in (*turned, first))
            text = f"never reaches a unit: {names}"
            problems.add((*_place(tables[first]), "unit"), text, "give one of these tables its own column as unit")
        done.update(walked)


def _check_reference(table: Table, reference: Reference, place: Place, tables: Tables, problems: Problems) -> None:
    """A reference is to the whole key of a public table, which alone makes its values public and its join single."""
    if not _check_listed(table, reference.columns, place, problems):
        return
    target = _find(reference.table, place, tables, problems)
    if target is None or problems.at((*_place(target), "key")):
        return
    if target.public and not _check_targets(target, reference, place, problems):
        return
    name = shown(target.name)
    wanted, key = sorted(c.lower() for c in reference.target), sorted(c.lower() for c in target.key)
    if not target.public:
        text = f"refers to {name}, which is private: its values are not public"
        problems.add(
            place, text, "leave it out; if rows are owned through that table, write unit = {via = ..., to = ...}"
        )
    elif not target.key:
        columns = ", ".join(shown(c) for c in reference.target)
        problems.add(
            place,
            f"refers to {name}, which has no key",
            f"add key = [{columns}] to [{dotted(_place(target))}]",
        )
    elif wanted != key:
        text = f"refers to {', '.join(reference.target)}, but the key of {name} is {', '.join(target.key)}"
        repair = "refer to the whole key: [[tables.x.references]] with columns, table and target"
        problems.add(place, text, repair if len(key) > 1 else f'refer to "{target.name}.{target.key[0]}"')


def _check_targets(target: Table, reference: Reference, place: Place, problems: Problems) -> bool:
    """Public keys are listed from the target's columns, so these must be visible."""
    keyed = {column.lower() for column in target.key}
    hidden = [c for c in reference.target if c.lower() in keyed and _declared(target, c) is None]
    if hidden and not problems.at((*_place(target), "columns")):
        text = f"refers to {shown(target.name)}, which does not list {', '.join(hidden)}"
        at = dotted((*_place(target), "columns"))
        problems.add(place, text, f"list it: {dotted((hidden[0],))} = {{}} under [{at}]")
    return not hidden


def _check_one_domain(written: Written, problems: Problems) -> None:
    """The public values of a column, or of a list of columns, come from one place."""
    seen: set[frozenset[str]] = set()
    for reference, place in zip(written.table.references, written.places, strict=True):
        columns = frozenset(c.lower() for c in reference.columns)
        single = written.table.columns.get(_declared(written.table, reference.columns[0]) or "")
        if columns in seen:
            problems.add(place, f"is a second reference of {', '.join(reference.columns)}", "keep one")
        elif len(columns) == 1 and single is not None and single.values is not None:
            text = f"stands beside values for {shown(single.name)}: its public keys come from one of them"
            problems.add(place, text, "keep values or the reference")
        seen.add(columns)


def _check_sources(tables: Tables, problems: Problems) -> None:
    """What is private under one name must not be public under another."""
    private = {_source(t): t.name for t in tables.values() if not t.public}
    for table in tables.values():
        if table.public and _source(table) in private and not problems.at((*_place(table), "public")):
            text = f"is read from {shown(table.source)}, which is private as {shown(private[_source(table)])}"
            problems.add(
                (*_place(table), "source"), text, "leave one of the two out, or make a view with what is public"
            )


def _source(table: Table) -> str:
    """Equal for the same source, as far as the text tells; the snapshot compares files as they are on disk."""
    return posixpath.normpath(table.source) if table.reads_files else table.source.lower().removeprefix("main.")
