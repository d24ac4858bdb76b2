"""What sqlglot makes of a statement, and writes again, DuckDB reads as the statement itself.

Every statement of the golden files, of the semantics and of the examples is read by DuckDB's own parser as it stands,
and as the canonical text that all passes work from: both trees are equal up to spellings that mean the same, which are
listed here. `make upgrade-check` asks this of versions that are not pinned yet.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

from dpsql.compile import statement as statements
from dpsql.compile.canonical import write
from dpsql.compile.parse import parse
from dpsql.errors import Error

ROOT = Path(__file__).parents[2]

NAMES = {"variance": "var_samp", "stddev": "stddev_samp", "text": "varchar", "int": "integer", "count_star": "count"}
NAMES |= {"dayofyear": "doy", "dayofweek": "dow", "weekofyear": "week", "substring": "substr", "list_value": "array"}
NAMES |= {"^": "power", "^@": "starts_with", "mod": "%"}
"""Words of one meaning, in lower case."""

KNOWN = re.compile(
    r'\.kind: "integer" became "string"$'  # INTERVAL 1 MONTH, INTERVAL '1' MONTH
    r"|: .*compare_distinct_from.* became .*operator_not"  # x IS NOT TRUE, NOT x IS TRUE
    r'|: .*"function_name": "if".* became .*"case_expr"'  # IF(a, b, c), CASE WHEN a THEN b ELSE c END
    r'|: "log10" became "log"$|\.arguments: .* became .*"text": "10"'  # LOG10(x), LOG(10, x)
)
"""Where trees part that mean the same."""


def golden() -> Iterator[str]:
    for file in sorted(ROOT.glob("tests/compile/golden/*.test")):
        for block in file.read_text(encoding="utf-8").split("\n====\n"):
            lines = block.partition("\n----\n")[0].strip().splitlines()
            yield "\n".join(line for line in lines if not line.startswith("#"))


def semantics() -> Iterator[str]:
    for name in ("statements", "keys", "relations"):
        for line in (ROOT / "tests" / "semantics" / f"{name}.txt").read_text(encoding="utf-8").splitlines():
            if line and not line.startswith("#"):
                yield line.partition("|")[2].split("|||")[0].strip()
    yield from (file.read_text(encoding="utf-8") for file in sorted(ROOT.glob("tests/semantics/tpch/*.sql")))


def examples() -> Iterator[str]:
    for file in sorted(ROOT.glob("examples/**/*.sql")):
        yield from (source.text for source in statements.split(file.read_text(encoding="utf-8")))


SOURCES = {"golden": golden, "semantics": semantics, "examples": examples}


@pytest.mark.parametrize("source", SOURCES)
def test_duckdb_reads_the_canonical_text_as_the_text_itself(source: str) -> None:
    compared, different = 0, []
    with duckdb.connect() as connection:
        for sql in SOURCES[source]():
            text = canonical(sql)
            written = None if text is None else tree(connection, sql)
            if written is None:
                continue
            compared += 1
            ours = tree(connection, text or "")
            if ours is None:
                different.append(f"{sql}\n    DuckDB does not read {text}")
            elif parting := [d for d in differences(written, ours) if not KNOWN.search(d)]:
                different.append(f"{sql}\n    " + "\n    ".join(parting))
    assert not different, f"{len(different)} of {compared}:\n" + "\n".join(different)
    assert compared >= 15


def canonical(sql: str) -> str | None:
    """The text that the passes work from; None where it is refused, or holds what DuckDB has not."""
    try:
        read = statements.read(sql)
        return write(parse(sql).tree) if isinstance(read, statements.Select) and "=>" not in sql else None
    except Error:
        return None


def tree(connection: duckdb.DuckDBPyConnection, sql: str) -> Any:
    """DuckDB's tree of a text; None where it does not read it."""
    row = connection.execute("SELECT json_serialize_sql(?)", [re.sub(r";\s*$", "", sql)]).fetchone()
    answer = json.loads(row[0]) if row else {"error": True}
    return None if answer["error"] else alike(answer["statements"])


def alike(node: Any) -> Any:
    """A tree in which spellings of one meaning are the same."""
    if isinstance(node, list):
        return [alike(part) for part in node]
    if isinstance(node, str):
        return NAMES.get(node.lower(), node.lower())
    if not isinstance(node, dict):
        return node
    found = {key: alike(value) for key, value in node.items() if "location" not in key and key != "is_operator"}
    if found.get("null_order") == "nulls last":  # as dpsql and DuckDB order by themselves
        found["null_order"] = "order_default"
    if found.get("type") == "operator_is_not_null":  # x IS NOT NULL is written NOT x IS NULL
        inner = {**found, "type": "operator_is_null", "alias": ""}
        return {**found, "type": "operator_not", "children": [inner]}
    return found


def differences(one: Any, other: Any, path: str = "") -> Iterator[str]:
    """Where two trees part."""
    if isinstance(one, dict) and isinstance(other, dict) and one.keys() == other.keys():
        for key in one:
            yield from differences(one[key], other[key], f"{path}.{key}")
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for place, (left, right) in enumerate(zip(one, other, strict=True)):
            yield from differences(left, right, f"{path}[{place}]")
    elif one != other:
        yield f"{path}: {json.dumps(one)} became {json.dumps(other)}"


@pytest.mark.parametrize("name", ["duckdb", "sqlglot", "sqlglotc"])
def test_no_version_is_allowed_that_is_older_than_the_one_that_is_tested(name: str) -> None:
    """DuckDB 2.0.0 raises where 2.0.1 has a value, and an error that depends on a row is a bit about it."""
    needed = tomllib.loads(ROOT.joinpath("pyproject.toml").read_text(encoding="utf-8"))["project"]["dependencies"]
    (least,) = (line for line in needed if line.startswith(f"{name}>="))
    pins = ROOT.joinpath("constraints.txt").read_text(encoding="utf-8").splitlines()
    (pin,) = (line.removeprefix(f"{name}==") for line in pins if line.startswith(f"{name}=="))
    lowest = least.removeprefix(f"{name}>=").partition(",")[0]
    assert pin in (lowest, f"{lowest}.0")
