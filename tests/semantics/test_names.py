"""Names mean in dpsql what they mean in DuckDB: the same columns, or a refusal by both.

Every column of the tables has a sum of its own, so that a name taken for another one shows in the answer. dpsql may
refuse more than DuckDB does: every form (DP2xx), and of names what `STRICTER` lists. It may answer nothing that DuckDB
refuses.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from dpsql.errors import Error
from tests.semantics import names
from tests.semantics.sides import Row, Sides, opened, rows_of, sorted_rows

FOLDER = Path(__file__).parent

STRICTER = {
    "a row is no value": r"COUNT\((DISTINCT )?([tq]|t\.\*)\)|SELECT t (IS NULL )?AS s FROM t|WHERE t IS NOT NULL",
    "a WITH entry that nothing uses is bound, too": r"WITH .*\(SELECT (b|a \+ 1) AS a FROM (q|w)\)",
}


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sides]:
    script = (FOLDER / "names.sql").read_text(encoding="utf-8")
    with opened(tmp_path_factory.mktemp("names"), FOLDER / "names.toml", script, "", (0,)) as both:
        yield both


def fault(sides: Sides, sql: str) -> str:
    """How dpsql differs from DuckDB about a statement; nothing where it does not."""
    before = sides.session.budget().spent_epsilon
    theirs: list[Row] | None = None
    ours: list[Row] | None = None
    code = ""
    try:
        theirs = sides.plain.execute(sql).fetchall()
    except duckdb.Error:
        pass
    try:
        ours = rows_of(sides.session.execute(sql))
    except Error as error:
        code = error.code
        if sides.session.budget().spent_epsilon != before:
            return "refused, and charged"
    if ours is None:
        if theirs is None:
            return "" if code < "DP9" else code
        stricter = any(re.search(pattern, sql) for pattern in STRICTER.values())
        return "" if code.startswith("DP2") or (code.startswith("DP1") and stricter) else f"{code}: refused"
    if theirs is None:
        return f"answered: {ours[:3]}"
    if not re.search(r"ORDER BY [^()]*$", sql):
        ours, theirs = sorted_rows(ours), sorted_rows(theirs)
    return "" if ours == theirs else f"{ours[:5]} instead of {theirs[:5]}"


def faults(sides: Sides, statements: list[str]) -> list[str]:
    return [f"{sql}\n    {found}" for sql in statements if (found := fault(sides, sql))]


@pytest.mark.parametrize("line", names.lines())
def test_names_mean_what_duckdb_says(line: str, sides: Sides) -> None:
    assert faults(sides, names.some(line)) == []


def test_there_are_enough_statements() -> None:
    assert len(names.statements()) >= 300


def test_what_is_stricter_is_refused(sides: Sides) -> None:
    """No entry of the list stands there for nothing."""
    for pattern in STRICTER.values():
        matched = [sql for sql in names.statements() if re.search(pattern, sql)]
        assert any(isinstance(error_of(sides, sql), Error) for sql in matched)


def error_of(sides: Sides, sql: str) -> Error | None:
    try:
        sides.session.compile(sql)
    except Error as error:
        return error
    return None
