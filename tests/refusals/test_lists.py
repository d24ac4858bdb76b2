"""Lists of names in repairs hold whole names, so that each can be copied."""

from __future__ import annotations

from dpsql.errors import listed


def test_names_are_whole() -> None:
    assert listed([]) == ""
    assert listed(["a", "b"]) == "a, b"
    assert listed(["household_id", "week"], 14) == "household_id, ..."
    assert listed(["household_id"], 5) == "house..."
