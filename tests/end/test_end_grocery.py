"""The demo on its real data: a year of purchases of 2,469 households."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from filelock import FileLock

from examples import data
from tests.end.conftest import ROOT, Run


@pytest.fixture
def grocery() -> Iterator[Path]:
    """The demo's database, built where it is not there yet."""
    target = ROOT / "build" / "grocery.duckdb"
    target.parent.mkdir(exist_ok=True)
    with FileLock(f"{target}.lock"):
        data.build("grocery", target)
    return target


def test_the_demo_answers_usefully_and_repeats_for_free(grocery: Path, process: Run) -> None:
    def demo(*more: str) -> tuple[str, str]:
        done = process(
            "run", "--keep-going", *more, "--policy", ROOT / "policies" / "grocery.toml", "--database", grocery,
            ROOT / "examples" / "grocery.sql",
        )  # fmt: skip
        assert done.returncode == 3, done.stderr  # the one statement that is refused on purpose
        assert "Traceback" not in done.stderr
        return done.stdout, done.stderr

    table, refused = demo()
    assert refused.startswith("error[DP206]: grouping by household_id gives rows of single households\n")
    assert "84 | GROUP BY household_id\n   |          ^^^^^^^^^^^^\n" in refused
    assert "= help: leave household_id out of SELECT, GROUP BY and ORDER BY (COUNT(DISTINCT household_id)" in refused
    assert refused.count("error[") == 1
    shown = re.findall(r"(-?[\d,.]+) ± ([\d,.]+)", re.sub(r"^cost .*$|^free.*$", "", table, flags=re.M))
    assert len(shown) >= 20
    for value, width in shown:
        assert float(width.replace(",", "")) < 0.2 * float(value.replace(",", "")), (value, width)
    left = [float(amount) for amount in re.findall(r"left ε = ([\d.]+) of 10", table)]
    assert left == sorted(left, reverse=True)
    assert (left[0], left[-1]) == (9.9, 5.8)
    assert table.count("\ncost ε = ") == 8  # and the repeated question was free

    first, notes = demo("--format", "json")
    second, _ = demo("--format", "json")
    assert "cost" not in notes
    assert notes.count("free · left ε = 5.8 of 10") == 9
    assert first == second
    results = json.loads(first)
    assert results[1]["rows"] == results[2]["rows"]
    for result in results:
        for place, widths in enumerate(result["half_widths"]):
            for row, width in zip(result["rows"], widths or [], strict=widths is not None):
                assert width < 0.2 * row[place], row
    ((count,),) = results[1]["rows"]
    assert f"{count} ± 30" in table
