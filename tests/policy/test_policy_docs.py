"""docs/policy.md speaks of every key that a policy may hold, of no other, and each of its examples is a policy."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from dpsql.policy.model import Policy
from dpsql.policy.problems import KEYS

PAGE = Path(__file__).parents[2].joinpath("docs", "policy.md").read_text(encoding="utf-8")
HEAD = """
version = 1
[unit]
name = "person"
[budget]
epsilon = "1"
per_query_epsilon = "0.1"
"""
EXAMPLES = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)


def documented() -> set[str]:
    """The keys in the first column of the page's tables whose head is `key`."""
    tables = re.findall(r"^\| key \|.*\n\|[-|]+\n((?:\|.*\n)+)", PAGE, re.MULTILINE)
    return {
        re.sub(r"[\[\]`]|tables\.NAME", "", row.split("|")[1]).strip() or "tables"
        for t in tables
        for row in t.splitlines()
    }


def test_every_key_has_its_row() -> None:
    assert documented() == {key for keys in KEYS.values() for key in keys}


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda text: text.strip().splitlines()[0])
def test_examples_load(example: str, load: Callable[[str], Policy]) -> None:
    policy = load(example if "version" in example else HEAD + example)
    assert list(policy.tables) == list(tomllib.loads(example)["tables"])


def test_there_are_examples() -> None:
    assert len(EXAMPLES) == 5


@pytest.mark.parametrize("kind", KEYS)
def test_the_examples_show_every_key(kind: str) -> None:
    """Gaussian composition, which needs more words than an example has, is left out on purpose."""
    shown = "\n".join(EXAMPLES)
    for key in set(KEYS[kind]) - {
        "composition",
    }:
        assert re.search(rf"\b{key}\b", shown), key
