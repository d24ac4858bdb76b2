"""A valid policy of every kind of section, and a way to load a text as a policy file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from dpsql.policy.load import load_policy
from dpsql.policy.model import Policy

SHOP = Path(__file__).with_name("shop.toml")


@pytest.fixture(scope="session")
def shop() -> str:
    """The text that the tests of this folder break in one place."""
    return SHOP.read_text(encoding="utf-8")


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Policy]:
    """Loads a text as `shop.toml`, by its bare name, so that messages are the same on every machine."""
    monkeypatch.chdir(tmp_path)

    def load_text(text: str) -> Policy:
        Path("shop.toml").write_text(text, encoding="utf-8", newline="")
        return load_policy("shop.toml")

    return load_text
