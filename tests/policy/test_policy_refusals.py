"""Every way a policy can be wrong: one DP301, with file and line, table, column and key, and what to write instead.

The cases stand in *.test files as edits of shop.toml: lines that start with "- " leave it, lines that start with
"+ " take the place of the first that left (or stand at the end). `pytest tests/policy --update` rewrites what is
expected.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from dpsql.errors import PolicyError
from dpsql.policy.model import Policy

FOLDER = Path(__file__).parent
BETWEEN = "\n==\n"


def cases() -> list[tuple[Path, int, str]]:
    found = []
    for file in sorted(FOLDER.glob("*.test")):
        for number, block in enumerate(file.read_text(encoding="utf-8").split(BETWEEN)):
            title = block.strip().splitlines()[0].removeprefix("# ")
            found.append(pytest.param(file, number, id=f"{file.stem}: {title}"))
    return found  # type: ignore[return-value]


def edited(text: str, edits: list[str]) -> str:
    """The text with the edits made. A line that is to leave must be there exactly once."""
    lines = text.splitlines()
    gone = [edit[2:] for edit in edits if edit.startswith("- ")]
    new = [
        edit[2:].encode().decode("unicode_escape") if "\\u" in edit else edit[2:] for edit in edits if edit[0] == "+"
    ]
    at = len(lines)
    for line in reversed(gone):
        assert lines.count(line) == 1, f"shop.toml has the line {line!r} {lines.count(line)} times"
        at = lines.index(line)
        del lines[at]
    return "\n".join(lines[:at] + new + lines[at:]) + "\n"


@pytest.mark.parametrize(("file", "number"), cases())
def test_refusal_is_as_written(
    file: Path, number: int, shop: str, load: Callable[[str], Policy], request: pytest.FixtureRequest
) -> None:
    blocks = file.read_text(encoding="utf-8").split(BETWEEN)
    edits, _, expected = blocks[number].partition("\n--\n")
    edit_lines = [line for line in edits.strip().splitlines() if line[:2] in ("- ", "+ ", "+")]
    with pytest.raises(PolicyError) as caught:
        load(edited(shop, edit_lines))
    error = caught.value
    assert error.code == "DP301"
    assert error.__cause__ is None
    assert "help: " in str(error), "no repair is named"
    if request.config.getoption("update"):
        blocks[number] = f"{edits.strip()}\n--\n{error}"
        file.write_text(BETWEEN.join(blocks) + "\n", encoding="utf-8")
    else:
        assert str(error) == expected.strip("\n")


def test_all_problems_come_at_once(shop: str, load: Callable[[str], Policy]) -> None:
    text = shop.replace("version = 1", "version = 2").replace('epsilon = "3"', "epsilon = 3.5", 1)
    text = text.replace("max_rows_per_unit = 50\n", "").replace(
        "amount = { bounds = [0, 50]", "amount = { bound = [0, 50]"
    )
    text = text.replace("code = {}\n", "")
    with pytest.raises(PolicyError) as caught:
        load(text)
    report = str(caught.value)
    assert report.startswith("DP301: shop.toml has 5 problems\n")
    found = [line.split(": ")[1] for line in report.splitlines() if line.startswith("  line ")]
    assert found == [
        "version",
        "budget.epsilon",
        "tables.orders.max_rows_per_unit",
        "tables.orders.columns.product.references",
        "tables.orders.columns.amount.bound",
    ]
