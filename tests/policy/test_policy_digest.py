"""The digest moves with all that a snapshot enforces, and with nothing else."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import pytest

from dpsql.policy.model import Policy

Load = Callable[[str], Policy]

ENFORCED = [
    ('unit = "id"', 'unit = "born"'),
    ('{ via = "customer", to', '{ via = "number", to'),
    ('key = ["number", "line"]', 'key = ["number"]'),
    ('key = ["number", "line"]', 'key = ["line", "number"]'),
    ('key = ["number", "line"]\n', ""),
    ("[1, 99]", "[1, 98]"),
    ("[1, 99]", "[1, 98.9]"),
    ("bounds = [1, 99]", ""),
    ("1900-01-01", "1900-01-02"),
    ('"0.01"', '"0.02"'),
    (', step = "0.01"', ""),
    ('["open", "paid"]', '["open"]'),
    ('["open", "paid"]', '["open", "paid", "1"]'),
    ('{ references = "products.code" }', "{}"),
    ("name = {}\n", ""),
    ("code = {}\nname = {}", "name = {}\ncode = {}"),  # the order of columns is that of the snapshot's table
    ("[tables.products]", '[tables.products]\nsource = "goods"'),
    ("[tables.products]", '[tables.products]\nsource = "goods.csv"'),
    ("max_rows_per_unit = 50", 'max_rows_per_unit = 50\ncluster_by = ["unit"]'),
    ("public = true", 'unit = "code"\nmax_rows_per_unit = 1'),
]

NOT_ENFORCED = [
    ('epsilon = "3"', 'epsilon = "4"'),
    ('account = "shop"', 'account = "other"'),
    ('name = "customer"', 'name = "person"'),
    ("max_rows_per_unit = 50", "max_rows_per_unit = 60\nmax_groups_per_unit = 2\nmax_rows_per_group = 3"),
    ("max_rows_per_unit = 50", 'max_rows_per_unit = 50\nmax_rows_per_unit_hard = 60\nlimit = "late"'),
    (
        'delta = "0"',
        'delta = "1e-6"\nper_query_delta = "1e-7"\nmin_units_per_group = 5\nselection = "permute_and_flip"',
    ),
    ("number = {}", 'number = { description = "of the order", unit_of_measure = "none" }'),
    ("[1, 99]", "[1.0, 99.00]"),
    ('"0.01"', "0.010"),
    ('["open", "paid"]', '["paid", "open"]'),
    ("[tables.products]", '[tables.products]\nsource = "products"'),
    ("version = 1", "version = 1 # one"),
]


@pytest.mark.parametrize(("old", "new"), ENFORCED)
def test_digest_moves(shop: str, load: Load, old: str, new: str) -> None:
    changed = shop.replace(old, new, 1)
    if 'unit = "code"' in new:
        changed = changed.replace('{ references = "products.code" }', "{}")
        shop = shop.replace('{ references = "products.code" }', "{}")
    assert changed != shop
    assert load(changed).digest != load(shop).digest


@pytest.mark.parametrize(("old", "new"), NOT_ENFORCED)
def test_digest_stays(shop: str, load: Load, old: str, new: str) -> None:
    changed = shop.replace(old, new, 1)
    assert changed != shop
    assert load(changed).digest == load(shop).digest


def test_text_and_number_differ(shop: str, load: Load) -> None:
    texts, numbers = (shop.replace('["open", "paid"]', listed) for listed in ('["1", "2"]', "[1, 2]"))
    assert load(texts).digest != load(numbers).digest


def test_the_order_of_tables_does_not_matter(shop: str, load: Load) -> None:
    head, customers, orders, products = _parts(shop)
    assert load(head + products + orders + customers).digest == load(shop).digest


def _parts(shop: str) -> list[str]:
    starts = [0, *(shop.index(f"[tables.{t}]") for t in ("customers", "orders", "products")), len(shop)]
    return [shop[a:b] for a, b in pairwise(starts)]


def test_the_digest_is_the_same_everywhere(shop: str, load: Load) -> None:
    """Written down, so that a change of the format is seen: it makes every snapshot out of date."""
    assert load(shop).digest == "8e151feb2388a5413d0525e52746847fcf8b71bf7f4f63b66cccc32a2f42d822"
