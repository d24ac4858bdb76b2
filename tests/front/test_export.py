"""Machine formats: whole, unrounded, and read back as what they were."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as parquet
from hypothesis import given
from hypothesis import strategies as st

from dpsql.answer import Answer, ColumnReceipt, Receipt
from dpsql.front import export

NOISED = Answer(pa.table({"g": ["a", None], "n": [1469312, 7]}), [None, [8388.5, 3.0]])
TYPES = Answer(
    pa.table(
        {
            "i": [2**62],
            "d": pa.array([Decimal("1.50")], pa.decimal128(38, 2)),
            "f": [0.1],
            "s": ['say "hi", twice'],
            "b": [True],
            "day": [date(2024, 2, 29)],
            "ts": [datetime(2024, 2, 29, 12, 30)],
            "z": pa.array([None], pa.int64()),
            "y": [b"\x00\xff"],
        }
    )
)


def written(write: Any, answer: Answer, **options: Any) -> str:
    out = io.StringIO()
    write(answer, out, **options)
    return out.getvalue()


def test_csv_has_half_widths_beside_and_rounds_nothing() -> None:
    assert written(export.write_csv, NOISED) == "g,n,n_half_width\na,1469312,8388.5\n,7,3.0\n"


def test_csv_of_every_type() -> None:
    assert written(export.write_csv, TYPES).splitlines()[1] == (
        '4611686018427387904,1.50,0.1,"say ""hi"", twice",true,2024-02-29,2024-02-29 12:30:00,,\\x00ff'
    )


def test_csv_tells_null_from_empty_text() -> None:
    answer = Answer(pa.table({"a": [None, "", " x"], "b": ["1", "2", "3"]}))
    assert written(export.write_csv, answer) == 'a,b\n,1\n"",2\n" x",3\n'


def test_csv_is_raw_in_files_and_escaped_on_terminals() -> None:
    answer = Answer(pa.table({"a": ["\x1b[2J"]}))
    assert written(export.write_csv, answer) == "a\n\x1b[2J\n"
    assert written(export.write_csv, answer, terminal=True) == "a\n\\x1b[2J\n"


def test_jsonl_is_one_object_a_line() -> None:
    rows = [{"g": "a", "n": 1469312, "n_half_width": 8388.5}, {"g": None, "n": 7, "n_half_width": 3.0}]
    assert [json.loads(line) for line in written(export.write_jsonl, NOISED).splitlines()] == rows


def test_json_has_columns_rows_half_widths_and_receipt() -> None:
    column = ColumnReceipt("n", "discrete Laplace", Fraction(1, 3), 4.0, float("inf"))
    receipt = Receipt(Fraction(1, 3), Fraction(0), Fraction(2), Fraction(0), (column,), ("released_1",), "p", "s")
    receipt = replace(receipt, limits=("counts at most 3 rows of each household",))
    found = json.loads(written(export.write_json, Answer(NOISED.table, NOISED.half_widths, receipt)))
    assert found == {
        "columns": [{"name": "g", "type": "VARCHAR"}, {"name": "n", "type": "BIGINT"}],
        "rows": [["a", 1469312], [None, 7]],
        "half_widths": [None, [8388.5, 3.0]],
        "receipt": {
            "epsilon": "1/3",
            "delta": "0",
            "remaining_epsilon": "2",
            "remaining_delta": "0",
            "columns": [
                {
                    "name": "n",
                    "mechanism": "discrete Laplace",
                    "epsilon": "1/3",
                    "scale": 4.0,
                    "half_width": "Infinity",
                    "weighs": None,
                }
            ],
            "releases": ["released_1"],
            "policy": "p",
            "snapshot": "s",
            "mu_squared": "0",
            "remaining_mu_squared": "0",
            "limits": ["counts at most 3 rows of each household"],
        },
    }
    empty = json.loads(written(export.write_json, Answer(pa.table({"n": pa.array([], pa.int64())}))))
    assert (empty["rows"], empty["half_widths"], empty["receipt"]) == ([], [None], None)


def test_parquet_keeps_types_half_widths_and_receipt(tmp_path: Path) -> None:
    receipt = Receipt(Fraction(1, 3), Fraction(0), Fraction(2), Fraction(0))
    export.write_parquet(Answer(NOISED.table, NOISED.half_widths, receipt), tmp_path / "n.parquet")
    found = parquet.read_table(tmp_path / "n.parquet")
    assert found.to_pydict() == {"g": ["a", None], "n": [1469312, 7], "n_half_width": [8388.5, 3.0]}
    assert json.loads(found.schema.metadata[b"dpsql.receipt"])["epsilon"] == "1/3"


def test_json_of_every_type() -> None:
    found = json.loads(written(export.write_json, TYPES), parse_float=Decimal)
    assert [column["type"] for column in found["columns"]] == [
        *("BIGINT", "DECIMAL", "DOUBLE", "VARCHAR", "BOOLEAN", "DATE", "TIMESTAMP", "BIGINT", "BLOB")
    ]
    (row,) = found["rows"]
    assert dict(zip(TYPES.table.column_names, row, strict=True)) == {
        "i": 2**62,
        "d": Decimal("1.50"),
        "f": Decimal("0.1"),
        "s": 'say "hi", twice',
        "b": True,
        "day": "2024-02-29",
        "ts": "2024-02-29T12:30:00",
        "z": None,
        "y": "\\x00ff",
    }


def test_json_has_no_number_that_json_lacks() -> None:
    answer = Answer(pa.table({"f": [float("nan"), float("inf"), float("-inf")]}))
    assert json.loads(written(export.write_json, answer))["rows"] == [["NaN"], ["Infinity"], ["-Infinity"]]


def test_objects_number_repeated_names() -> None:
    table = pa.table([[1], [2], [3]], names=["n", "n", "n_half_width"])
    answer = Answer(table, [[0.5], None, None])
    row = {"n": 1, "n_half_width": 0.5, "n_2": 2, "n_half_width_2": 3}
    assert json.loads(written(export.write_jsonl, answer)) == row


def test_a_statement_without_a_result_writes_no_row() -> None:
    empty = Answer(pa.table({}))
    assert written(export.write_csv, empty) == ""
    assert written(export.write_jsonl, empty) == ""


DAYS = pa.array([-719_529, None, 2**31 - 1], pa.int32()).cast(pa.date32())
NESTED = Answer(
    pa.table(
        {
            "i": pa.array([(14, -3, 5_500_000_000), None, (0, 0, 0)], pa.month_day_nano_interval()),
            "l": [["a,b", None], [], None],
            "s": pa.StructArray.from_arrays([DAYS, pa.array([[Decimal(1)], None, None])], ["day", "n"]),
        }
    )
)


def test_lists_structs_and_intervals_read_back() -> None:
    rows = [
        ["14 months -3 days 5.5 seconds", ["a,b", None], {"day": "-0001-12-31", "n": [1]}],
        [None, [], {"day": None, "n": None}],
        ["0 days", None, {"day": "infinity", "n": None}],
    ]
    found = json.loads(written(export.write_json, NESTED))
    assert (found["rows"], [column["type"] for column in found["columns"]]) == (
        rows,
        ["INTERVAL", "VARCHAR[]", "STRUCT"],
    )
    assert [[*json.loads(line).values()] for line in written(export.write_jsonl, NESTED).splitlines()] == rows
    first, *_ = list(csv.reader(io.StringIO(written(export.write_csv, NESTED), newline="")))[1:]
    assert [first[0], *map(json.loads, first[1:])] == rows[0]


_TEXTS = st.lists(st.tuples(st.text(), st.one_of(st.none(), st.text(min_size=1))), min_size=1, max_size=5)


@given(_TEXTS)
def test_texts_survive(rows: list[tuple[str, str | None]]) -> None:
    answer = Answer(pa.table({"a": [a for a, _ in rows], "b": pa.array([b for _, b in rows], pa.string())}))
    out = written(export.write_csv, answer)
    assert [(a, b or None) for a, b in list(csv.reader(io.StringIO(out, newline="")))[1:]] == rows
    lines = written(export.write_jsonl, answer)
    assert [tuple(json.loads(line).values()) for line in lines.split("\n") if line] == rows
    assert all(c.isprintable() or c == "\n" for c in lines)


def test_results_of_thousands_of_rows_keep_half_widths_in_step() -> None:
    n = 10_000
    answer = Answer(pa.table({"n": list(range(n))}), [[float(i) for i in range(n)]])
    lines = written(export.write_csv, answer).splitlines()[1:]
    assert lines == [f"{i},{float(i)}" for i in range(n)]
