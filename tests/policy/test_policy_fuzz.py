"""However a policy is broken, `load_policy` answers with a policy or with DP301, and soon."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import cast

from hypothesis import given, settings
from hypothesis import strategies as st

from dpsql.errors import PolicyError
from dpsql.policy.load import load_policy

FOLDER = Path(__file__).parent
TEXTS = [
    FOLDER.joinpath("shop.toml").read_text(encoding="utf-8"),
    FOLDER.parents[1].joinpath("policies", "grocery.toml").read_text(encoding="utf-8"),
    FOLDER.parents[1].joinpath("policies", "tpch.toml").read_text(encoding="utf-8"),
]
NASTY = (
    """
1|-1|0|1.5|-0.0|1e308|1e999999999|0e-99999999|1e99999999999999999999|inf|-inf|nan|9223372036854775808|1_0|true|false
""|"x"|"nan"|"1e9999"|"1/3"|"٣"|"1_0"|" 1"|"row"|"products.code"|"."|"a.b.c.d"|"\\u0000"|"\\u001b[2J"|"main.orders"
[]|[[]]|{}|[{}]|[1]|[1, 2]|[2, 1]|[0.1, inf]|[nan, nan]|[true, false]|["a", "a"]|[1, 1.0]|[1, true]|["id", {}]
{ via = 1 }|{ via = [], to = "customers" }|{ via = "id", to = "orders" }|{ bounds = [0, 1], step = 1e-20 }
1979-05-27|07:32:00|1979-05-27T07:32:00Z|[1979-05-27, 1979-05-28T00:00:00]|[1979-05-27, 1979-05-28]
""".strip()
    .replace("\n", "|")
    .split("|")
    + ["0x" + "f" * 4000, "9" * 4000, '"' + "z" * 9999 + '"']
)
WORDS = [
    *("public", "unit", "key", "bounds", "step", "values", "references", "columns", "via", "to", "source", "row"),
    *("tables", "orders", "ORDERS", "products", "epsilon", "version"),
    *("'$x'", '"released_1"', '"\\u200b"', '""', '"a.b"'),
]


@st.composite
def broken(draw: st.DrawFn) -> str:
    """A policy after some edits: lines removed, doubled or swapped, values and names replaced, characters put in."""
    lines = draw(st.sampled_from(TEXTS)).splitlines()
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(lines) - 1))
        key, equals, _ = lines[at].partition("=")
        match draw(st.sampled_from(["drop", "double", "swap", "value", "inner", "name", "header", "insert", "cut"])):
            case "drop":
                del lines[at]
            case "double":
                lines.insert(at, lines[at])
            case "swap":
                other = draw(st.integers(0, len(lines) - 1))
                lines[at], lines[other] = lines[other], lines[at]
            case "value" if equals:
                lines[at] = f"{key}= {draw(st.sampled_from(NASTY))}"
            case "inner" if equals:
                pairs = {f"{draw(st.sampled_from(WORDS))} = {draw(st.sampled_from(NASTY))}" for _ in range(2)}
                lines[at] = f"{key}= {{ {', '.join(sorted(pairs))} }}"
            case "name":
                lines[at] = f"{draw(st.sampled_from(WORDS))} = {draw(st.sampled_from(NASTY))}"
            case "header":
                brackets = draw(
                    st.sampled_from(["[{}]", "[[{}]]", "[tables.{}]", "[tables.orders.{}]", "[[tables.orders.{}]]"])
                )
                lines.insert(at, brackets.format(draw(st.sampled_from(WORDS))))
            case "insert":
                column = draw(st.integers(0, len(lines[at])))
                lines[at] = lines[at][:column] + draw(st.text(max_size=3)) + lines[at][column:]
            case "cut":
                lines[at] = lines[at][: draw(st.integers(0, len(lines[at])))]
        lines = lines or [""]
    return "\n".join(lines) + "\n"


def loads_or_refuses(content: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "policy.toml"
        file.write_bytes(content)
        policy, refused = None, ""
        try:
            policy = load_policy(file)
        except PolicyError as error:
            refused = str(error)
        assert refused.startswith("DP301: ") if policy is None else len(policy.digest) == 64


@given(broken())
@settings(max_examples=2 * cast(settings, settings.default).max_examples)
def test_a_broken_policy_is_refused_or_means_something(text: str) -> None:
    loads_or_refuses(text.encode("utf-8", "surrogatepass"))


@given(st.sampled_from(TEXTS), st.integers(0, 5000), st.binary(max_size=4))
def test_broken_bytes(text: str, at: int, put: bytes) -> None:
    content = text.encode()
    loads_or_refuses(content[:at] + put + content[at + len(put) :])
