"""The tutorials, done from beginning to end on the data that they speak of."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from filelock import FileLock

from examples import data
from tests.docs.pages import ROOT, TUTORIALS
from tests.docs.transcripts import agree, performed


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder like the checkout after `make demo`."""
    folder = tmp_path / "checkout"
    (folder / "build").mkdir(parents=True)
    for name in ("policies", "examples"):
        shutil.copytree(ROOT / name, folder / name)
    for name in ("grocery", "cdnow"):
        target = ROOT / "build" / f"{name}.duckdb"
        target.parent.mkdir(exist_ok=True)
        with FileLock(f"{target}.lock"):
            data.build(name, target)
        (folder / "build" / target.name).symlink_to(target)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("COLUMNS", "100")
    return folder


@pytest.mark.parametrize("path", TUTORIALS, ids=lambda p: p.stem)
def test_a_tutorial_shows_what_happens(path: Path, checkout: Path, request: pytest.FixtureRequest) -> None:
    page = path.read_text(encoding="utf-8")
    other = [(block, now) for block, now in performed(page, checkout) if not agree(block.text, now)]
    if request.config.getoption("--update"):
        for block, now in sorted(other, key=lambda one: -one[0].start):
            page = page[: block.start] + now.rstrip("\n") + "\n" + page[block.end :]
        path.write_text(page, encoding="utf-8")
        return
    for block, now in other:
        assert block.text == now, f"{path.name}: run `pytest tests/docs --update` and read the difference"


def test_what_agrees() -> None:
    page = " week │ n\n──────┼────\n    1 │ 1,000 ± 30\n(1 row)\ncost ε = 1 · left ε = 9 of 10\n"
    assert agree(page, page.replace("1,000", "900"))
    assert agree("...\ncost ε = 1 · left ε = 9 of 10\n", page)
    assert not agree("...\ncost ε = 1 · left ε = 9 of 10\n", page + "more\n")
    for other in ("500 ± 30", "1,000 ± 90", "1,000", "1,000 ± 30 │ 2"):
        assert not agree(page, page.replace("1,000 ± 30", other))
    assert not agree(page, page.replace("left ε = 9", "left ε = 8"))
