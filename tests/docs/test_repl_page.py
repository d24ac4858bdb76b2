"""docs/repl.md has every command and every preference, as the session itself tells them."""

from __future__ import annotations

import re

import pytest

from dpsql.front.commands import all_help
from dpsql.front.config import PREFERENCES
from tests.docs.pages import ROOT

PAGE = ROOT / "docs" / "repl.md"


def preferences() -> str:
    rows = "".join(
        f"| `{name}` | {each.allowed.replace(each.default, f'**{each.default}**', 1)} | {each.meaning} |\n"
        for name, each in PREFERENCES.items()
    )
    return f"| name | values | meaning |\n|---|---|---|\n{rows}"


@pytest.mark.parametrize(
    ("name", "text"), [("help", f"```text\n{all_help(100)}\n```\n"), ("preferences", preferences())]
)
def test_the_page_says_what_the_session_says(name: str, text: str, request: pytest.FixtureRequest) -> None:
    part = re.compile(rf"(?<=<!-- {name} -->\n).*?(?=<!-- end of {name} -->)", re.DOTALL)
    page = PAGE.read_text(encoding="utf-8")
    if request.config.getoption("--update"):
        PAGE.write_text(part.sub(lambda _: text, page), encoding="utf-8")
        return
    found = part.search(page)
    assert found is not None
    assert found[0] == text
