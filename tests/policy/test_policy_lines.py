"""Lines in messages: found for every key of a TOML text, in whatever way it is written."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from dpsql.policy.lines import Place, find_lines, line_of

TEXT = '''\
# [a] b = 1
version = 1    # "quoted
[a]
"b # c" = """
[x]
y = 1
"""            # 4
'd.e'.f = [    # 8
    "]", ["["],
    { g = 1 },
]
h = \'\'\'
i = 2\'\'\'\'
"j\\u0041" = 'k = "'   # 14

  [[ l . m ]]
n = 1
[[l.m]]
n = 2
[l.m.o]
p = 1
[q."r.s"]
t = { u = 1, v = [1, 2] }'''


def test_lines() -> None:
    tomllib.loads(TEXT)
    lines = find_lines(TEXT)
    expected: dict[Place, int] = {
        ("version",): 2,
        ("a",): 3,
        ("a", "b # c"): 4,
        ("a", "d.e", "f"): 8,
        ("a", "h"): 12,
        ("a", "jA"): 14,
        ("l", "m", 0): 16,
        ("l", "m", 0, "n"): 17,
        ("l", "m", 1): 18,
        ("l", "m", 1, "n"): 19,
        ("l", "m", 1, "o", "p"): 21,
        ("q", "r.s"): 22,
        ("q", "r.s", "t"): 23,
    }
    assert {place: lines.get(place) for place in expected} == expected
    assert line_of(lines, ("q", "r.s", "t", "u")) == 23
    assert line_of(lines, ("nowhere",)) is None


@pytest.mark.parametrize(
    "file", sorted((Path(__file__).parents[2] / "policies").glob("*.toml")), ids=lambda file: file.stem
)
def test_every_key_of_our_policies_has_its_line(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    lines, written = find_lines(text), text.splitlines()

    def walk(value: object, place: Place) -> None:
        if place and isinstance(place[-1], str):
            line = written[line_of(lines, place) - 1]  # type: ignore[operator]
            assert place[-1] in line, place
        if isinstance(value, dict):
            for key, inner in value.items():
                walk(inner, (*place, key))

    walk(tomllib.loads(text), ())
