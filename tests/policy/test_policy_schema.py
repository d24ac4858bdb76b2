"""The published JSON Schema and the loader agree on shapes: what one of our policies may be, both accept; a key, a type
or a range that is wrong in itself, both refuse."""

from __future__ import annotations

import re
import tempfile
import tomllib
from collections.abc import Callable
from datetime import date, datetime, time
from pathlib import Path

import jsonschema
import pytest
from hypothesis import given

from dpsql.errors import PolicyError
from dpsql.policy.load import load_policy
from dpsql.policy.model import Policy
from dpsql.policy.schema import policy_schema, rendered
from tests.policy.test_policy_docs import EXAMPLES, HEAD
from tests.policy.test_policy_fuzz import broken

Load = Callable[[str], Policy]
ROOT = Path(__file__).parents[2]
PUBLISHED = ROOT / "docs" / "policy.schema.json"
VALIDATOR = jsonschema.Draft202012Validator(policy_schema())
ACCEPTED = [path.read_text(encoding="utf-8") for path in sorted((ROOT / "policies").glob("*.toml"))]
ACCEPTED += [example if "version" in example else HEAD + example for example in EXAMPLES]


def plain(value: object) -> object:
    """What an editor makes of TOML: dates are strings."""
    if isinstance(value, dict):
        return {key: plain(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [plain(inner) for inner in value]
    return value.isoformat() if isinstance(value, date | datetime | time) else value


def fits(text: str) -> bool:
    return VALIDATOR.is_valid(plain(tomllib.loads(text)))


def test_the_published_file_is_the_one_that_is_made(request: pytest.FixtureRequest) -> None:
    if request.config.getoption("--update"):
        PUBLISHED.write_text(rendered(), encoding="utf-8")
    jsonschema.Draft202012Validator.check_schema(policy_schema())
    assert PUBLISHED.read_text(encoding="utf-8") == rendered()


@pytest.mark.parametrize("text", ACCEPTED, ids=range(len(ACCEPTED)))
def test_policies_fit(text: str, load: Load) -> None:
    load(text)
    assert fits(text)


SHAPES = [
    # (a line of shop.toml, what stands there instead): each wrong in itself, whatever the rest says
    ("version = 1", ""),
    ("version = 1", "version = 2"),
    ("version = 1", 'version = "1"'),
    ("version = 1", "version = 1\nextra = 1"),
    ("version = 1", 'version = 1\nreveal_timing = "yes"'),
    ('[unit]\nname = "customer"', ""),
    ('name = "customer"', ""),
    ('name = "customer"', "name = 1"),
    ('name = "customer"', 'name = " "'),
    ('name = "customer"', 'name = "customer"\nkind = "x"'),
    ("version = 1", 'version = 1\nengine = "4GB"'),
    ("version = 1", "version = 1\nengine.memory_limit = 4"),
    ("version = 1", 'version = 1\nengine.memory_limit = "4 GB"'),
    ("version = 1", "version = 1\nengine.statement_timeout = 60"),
    ("version = 1", 'version = 1\nengine.statement_timeout = "0s"'),
    ('account = "shop"', 'account = "a b"'),
    ('account = "shop"', "account = 1"),
    ('epsilon = "3"\n', ""),
    ('epsilon = "3"\n', "epsilon = 0\n"),
    ('epsilon = "3"\n', "epsilon = 3.5\n"),
    ('epsilon = "3"\n', 'epsilon = "three"\n'),
    ('epsilon = "3"\n', "epsilon = 1001\n"),
    ('per_query_epsilon = "0.25"', ""),
    ('per_query_epsilon = "0.25"', 'per_query_epsilon = "-1"'),
    ('delta = "0"', "delta = true"),
    ('delta = "0"', 'delta = "0"\nper_query_delta = "1/2"'),
    ('delta = "0"', 'delta = "0"\nmin_units_per_group = 0'),
    ('delta = "0"', 'delta = "0"\nselection = "best"'),
    ('delta = "0"', 'delta = "0"\nmin_units_per_group = "3"'),
    ('delta = "0"', 'delta = "0"\ncomposition = "rdp"'),
    ('delta = "0"', 'delta = "0"\nrenew = "year"'),
    ('delta = "0"', 'delta = "0"\nper_analyst = true'),
    ('delta = "0"', 'delta = "0"\nper_analyst = "yes"\njoint_epsilon = "9"'),
    ('delta = "0"', 'delta = "0"\njoint_epsilon = "9"'),
    ('delta = "0"', 'delta = "0"\nper_analyst = true\njoint_epsilon = 9.5'),
    ('delta = "0"', 'delta = "0"\nmax_failures = 0'),
    ('delta = "0"', 'delta = "0"\nmax_failures = 101'),
    ('delta = "0"', 'detla = "0"'),
    ("max_rows_per_unit = 50", ""),
    ("max_rows_per_unit = 50", "max_rows_per_unit = 0"),
    ("max_rows_per_unit = 50", 'max_rows_per_unit = "50"'),
    ("max_rows_per_unit = 50", "max_rows_per_unit = 50.5"),
    ("max_rows_per_unit = 50", "max_rows_per_unit = 2147483649"),
    ("max_rows_per_unit = 50", "max_rows_per_unit = 50\nmax_groups_per_unit = []"),
    ("max_rows_per_unit = 50", "max_rows_per_unit = 50\nmax_rows_per_group = -1"),
    ('max_query_epsilon = "1"', "max_query_epsilon = []"),
    ("max_rows_per_unit = 50", "max_rows_per_unit = 50\nmax_rows_per_unit_hard = 0"),
    ("max_rows_per_unit = 50", "max_rows_per_unit = 50\nmax_groups_per_unit_hard = 60"),
    ("max_rows_per_unit = 50", "max_rows_per_unit = 50\nmax_rows_per_group_hard = 60"),
    ("max_rows_per_unit = 50", 'max_rows_per_unit = 50\nlimit = "soon"'),
    ("max_rows_per_unit = 50", 'max_rows_per_unit = 50\ncluster_by = ["week"]'),
    ("max_rows_per_unit = 50", 'max_rows_per_unit = 50\npublic = "no"'),
    ("max_rows_per_unit = 50", "max_rows_per_unit = 50\nsource = 3"),
    ("max_rows_per_unit = 50", 'max_rows_per_unit = 50\nsource = ""'),
    ('unit = "id"\n', ""),
    ('unit = "id"\n', "unit = 1\n"),
    ('unit = "id"\n', 'unit = ["id"]\n'),
    ('unit = "id"\n', 'unit = "$id"\n'),
    ('{ via = "customer", to = "customers" }', '{ via = "customer" }'),
    ('{ via = "customer", to = "customers" }', '{ to = "customers" }'),
    ('{ via = "customer", to = "customers" }', '{ via = [], to = "customers" }'),
    ('{ via = "customer", to = "customers" }', '{ via = "customer", to = "customers", x = 1 }'),
    ('key = ["id"]', 'key = "id"'),
    ('key = ["id"]', "key = []"),
    ('key = ["id"]', 'key = ["id", "id"]'),
    ("public = true", 'public = true\nunit = "code"'),
    ("public = true", "public = true\nmax_rows_per_unit = 3"),
    ("public = true", 'public = true\nlimit = "late"'),
    ("public = true", 'public = true\ncluster_by = ["unit"]'),
    ("name = {}", "name = 1"),
    ("name = {}", "name = { valuse = [1] }"),
    ("name = {}", '"$name" = {}'),
    ("name = {}", "name = { description = 1 }"),
    ("name = {}", "name = { unit_of_measure = 1 }"),
    ("[1, 99]", "[1]"),
    ("[1, 99]", "[1, 2, 3]"),
    ("[1, 99]", "99"),
    ("[1, 99]", '["a", "b"]'),
    ("[1, 99]", "[true, false]"),
    ("[1, 99]", "[1, 9007199254740993]"),
    ('"0.01"', "0"),
    ('"0.01"', "-0.5"),
    ('"0.01"', "[1]"),
    ("bounds = [0, 50], step", "step"),
    ('["open", "paid"]', "[]"),
    ('["open", "paid"]', '"open"'),
    ('["open", "paid"]', '["open", "open"]'),
    ('["open", "paid"]', "[[1]]"),
    ('"products.code"', '"code"'),
    ('"products.code"', '["products.code"]'),
    ('references = "products.code"', 'references = "products.code", values = [1]'),
    ("public = true", 'public = true\nreferences = { columns = ["a"] }'),
    ("public = true", 'public = true\nreferences = [{ columns = ["code"] }]'),
    ("public = true", 'public = true\nreferences = [{ table = "orders" }]'),
    ("public = true", 'public = true\nreferences = [{ columns = ["code"], table = "orders", x = 1 }]'),
]


@pytest.mark.parametrize(("old", "new"), SHAPES)
def test_both_refuse(shop: str, load: Load, old: str, new: str) -> None:
    assert fits(shop)
    assert old in shop
    text = shop.replace(old, new, 1)
    assert not fits(text)
    with pytest.raises(PolicyError, match="DP301"):
        load(text)


def test_every_key_is_tried() -> None:
    """A key that the cases above never break could accept anything."""
    tried = {word for _, new in SHAPES for word in re.findall(r"\b[a-z_]+\b", new)}
    tried |= {word for old, _ in SHAPES for word in re.findall(r"\b[a-z_]+\b", old)}
    known = {key for kind in ("unit", "budget", "table", "column", "reference", "path") for key in _keys(kind)}
    assert known - tried <= {"target"}


def _keys(kind: str) -> list[str]:
    found = policy_schema()["$defs"][kind]  # type: ignore[index]
    return list(found.get("properties", found))


@given(broken())
def test_what_the_loader_accepts_fits(text: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "policy.toml"
        file.write_bytes(text.encode("utf-8", "surrogatepass"))
        try:
            load_policy(file)
        except PolicyError:
            return
        assert fits(file.read_text(encoding="utf-8-sig"))
