"""The examples of README.md and docs/ do what the pages say, on a small shop under the demo's own policy.

`pytest tests/docs --update` writes what errors and EXPLAIN say now into the pages.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from dpsql.errors import Error
from dpsql.session import Session, open_session
from tests.docs.pages import PAGES, ROOT, Block, blocks

CHECKED = ("sql run", "sql refused", "sql explain", "python run")


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder like the checkout after `make demo`: the policy, with a budget that no page exhausts, and a database."""
    folder = tmp_path / "shop"
    (folder / "policies").mkdir(parents=True)
    (folder / "build").mkdir()
    policy = (ROOT / "policies" / "grocery.toml").read_text(encoding="utf-8")
    assert '\nepsilon = "10" ' in policy
    policy = policy.replace('\nepsilon = "10" ', '\nepsilon = "1000" ')
    (folder / "policies" / "grocery.toml").write_text(policy, encoding="utf-8")
    with duckdb.connect(str(folder / "build" / "grocery.duckdb")) as connection:
        connection.execute(Path(__file__).with_name("shop.sql").read_text(encoding="utf-8"))
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def session(shop: Path) -> Iterator[Session]:
    opened = open_session(shop / "policies" / "grocery.toml", shop / "build" / "grocery.duckdb")
    yield opened
    opened.close()


def said_of(session: Session, block: Block) -> str:
    """What the session says of a block that holds one statement."""
    statement = block.text.strip().removesuffix(";")
    if block.info == "sql explain":
        return session.explain(statement) + "\n"
    before = session.budget().spent_epsilon
    with pytest.raises(Error) as caught:
        session.execute(statement)
    assert session.budget().spent_epsilon == before, "a refusal is free"
    return f"{caught.value}\n"


@pytest.mark.parametrize("path", PAGES, ids=lambda p: p.name)
def test_examples(path: Path, session: Session, request: pytest.FixtureRequest) -> None:
    page = path.read_text(encoding="utf-8")
    found = blocks(page)
    names: dict[str, object] = {}
    updates: list[tuple[Block, str]] = []
    for block, after in zip(found, [*found[1:], None], strict=False):
        match block.info:
            case "sql run":
                for statement in session.statements(block.text):
                    session.execute(statement)
            case "python run":
                exec(compile(block.text, path.name, "exec"), names)
            case "sql refused" | "sql explain":
                assert after is not None, f"{path.name}: nothing follows {block.text}"
                assert after.info == "text", f"{path.name}: no text after {block.text}"
                updates.append((after, said_of(session, block)))
    if request.config.getoption("--update"):
        for block, said in reversed(updates):
            page = page[: block.start] + said + page[block.end :]
        path.write_text(page, encoding="utf-8")
        return
    for block, said in updates:
        assert block.text == said, f"{path.name}: run `pytest tests/docs --update` and read the difference"


def test_there_are_examples() -> None:
    """The fences are read as they are written: a page whose blocks were not found would pass."""
    infos = [block.info for path in PAGES for block in blocks(path.read_text(encoding="utf-8"))]
    assert all(infos.count(info) >= least for info, least in zip(CHECKED, (10, 15, 1, 2), strict=True))
    assert {info for info in infos if info.startswith(("sql", "python"))} <= {*CHECKED, "sql"}
