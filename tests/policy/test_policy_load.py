"""What a good policy means, and files that are no policy at all."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from decimal import Decimal
from fractions import Fraction
from pathlib import Path as FilePath

import pytest

from dpsql.errors import PolicyError
from dpsql.policy.load import load_policy
from dpsql.policy.model import ROW, Budget, Column, EngineLimits, Path, Policy, Reference, Table
from dpsql.policy.readers import MOST_VALUES, Wrong, values

Load = Callable[[str], Policy]
POLICIES = sorted((FilePath(__file__).parents[2] / "policies").glob("*.toml"))


@pytest.mark.parametrize("file", POLICIES, ids=lambda file: file.stem)
def test_every_policy_we_ship_loads(file: FilePath) -> None:
    policy = load_policy(file)
    assert policy.file == file
    assert any(not table.public for table in policy.tables.values())


def test_policies_we_ship_are_all_there() -> None:
    assert [file.stem for file in POLICIES] == ["cdnow", "grocery", "minimal", "tpch"]


def test_meaning(shop: str, load: Load) -> None:
    policy = load(shop)
    assert policy.unit == "customer"
    assert policy.budget == Budget("shop", Fraction(3), Fraction(0), Fraction(1, 4), Fraction(1), "basic")
    assert list(policy.tables) == ["customers", "orders", "products"]
    assert policy.tables["customers"] == Table(
        name="customers",
        public=False,
        source="customers",
        unit="id",
        key=("id",),
        columns={"id": Column("id"), "born": Column("born", bounds=(date(1900, 1, 1), date(2020, 12, 31)))},
        max_rows_per_unit=1,
    )
    orders = policy.tables["orders"]
    assert orders.unit == Path(("customer",), "customers")
    assert list(orders.columns) == ["number", "line", "customer", "product", "amount", "state"]
    assert orders.columns["amount"] == Column("amount", bounds=(0, 50), step=Decimal("0.01"))
    assert orders.columns["state"].values == ("open", "paid")
    assert orders.references == (Reference(("product",), "products", ("code",)),)
    assert policy.tables["products"].public
    assert policy.tables["products"].max_rows_per_unit is None


def test_defaults(shop: str, load: Load) -> None:
    for line in ('account = "shop"\n', 'delta = "0"\n', 'max_query_epsilon = "1"\n'):
        shop = shop.replace(line, "")
    budget = load(shop).budget
    assert budget.account == "shop"  # of shop.toml
    assert budget.delta == 0
    assert budget.max_query_epsilon == budget.epsilon == 3


@pytest.mark.parametrize(
    ("lines", "memory", "timeout"),
    [
        ("", 4 * 2**30, 600),
        ('memory_limit = "64MiB"', 64 * 2**20, 600),
        ('memory_limit = "4GB"\nstatement_timeout = "90s"', 4 * 10**9, 90),
        ('memory_limit = "16TiB"\nstatement_timeout = "24h"', 16 * 2**40, 86_400),
        ('statement_timeout = "2min"', 4 * 2**30, 120),
    ],
)
def test_what_an_engine_may_use(lines: str, memory: int, timeout: int, shop: str, load: Load) -> None:
    policy = load(shop.replace("[budget]", f"[engine]\n{lines}\n[budget]"))
    assert policy.engine == EngineLimits(memory, timeout)
    assert policy.digest == load(shop).digest


def test_what_the_budget_counts_by(shop: str, load: Load) -> None:
    budget = load(shop).budget
    assert (budget.renew, budget.joint_epsilon, budget.per_analyst, budget.max_failures) == ("never", None, False, 3)
    lines = 'renew = "week"\nper_analyst = true\njoint_epsilon = "7.5"\nmax_failures = 5'
    budget = load(shop.replace("[budget]", f"[budget]\n{lines}")).budget
    assert (budget.renew, budget.joint_epsilon, budget.max_failures) == ("week", Fraction(15, 2), 5)
    assert budget.per_analyst


def test_words_of_later_choices_may_be_spelt_out(shop: str, load: Load) -> None:
    text = shop.replace("[budget]", '[budget]\ncomposition = "basic"\nrenew = "never"\nper_analyst = false')
    assert load(text) == load(shop)
    assert load(shop.replace("[tables.orders]", "[tables.orders]\npublic = false")) == load(shop)


@pytest.mark.parametrize(
    ("written", "meant"),
    [('"3"', 3), ('"0.25"', "1/4"), ('"1e-6"', "1/1000000"), ('"1.50E+1"', 15), ("2", 2), ("1_0", 10), ('"03"', 3)],
)
def test_amounts_are_exact(shop: str, load: Load, written: str, meant: str | int) -> None:
    text = shop.replace('"0.25"', '"1e-9"').replace('max_query_epsilon = "1"\n', "")
    assert load(text.replace('"3"', written)).budget.epsilon == Fraction(meant)


def test_names_are_spelled_as_declared(shop: str, load: Load) -> None:
    text = shop.replace('unit = "id"', 'unit = "ID"').replace('key = ["number", "line"]', 'key = ["Number", "LINE"]')
    text = text.replace('via = "customer", to = "customers"', 'via = "CUSTOMER", to = "Customers"')
    assert load(text.replace('"products.code"', '"PRODUCTS.Code"')) == load(shop)


def test_the_unit_may_be_hidden(shop: str, load: Load) -> None:
    """The columns that say whose row it is serve the snapshot; the analyst need not see them."""
    table = load(shop.replace("customer = {}\n", "")).tables["orders"]
    assert table.unit == Path(("customer",), "customers")
    assert "customer" not in table.columns


def test_the_key_may_be_hidden(shop: str, load: Load) -> None:
    """The columns of a key serve the snapshot likewise."""
    table = load(shop.replace("number = {}\n", "")).tables["orders"]
    assert table.key == ("number", "line")
    assert "number" not in table.columns


def test_options_of_a_table(shop: str, load: Load) -> None:
    lines = """max_rows_per_unit = 50
max_rows_per_unit_hard = 50
max_groups_per_unit = 2
max_groups_per_unit_hard = 9
max_rows_per_group = 3
limit = "late"
cluster_by = ["unit"]"""
    table = load(shop.replace("max_rows_per_unit = 50", lines)).tables["orders"]
    assert table.hard == {"max_rows_per_unit": 50, "max_groups_per_unit": 9}
    assert table.limit == "late"
    assert table.clustered
    plain = load(shop).tables["orders"]
    assert (plain.hard, plain.limit, plain.clustered) == ({}, "rows", False)


def test_options_of_the_budget(shop: str, load: Load) -> None:
    budget = load(
        shop.replace('delta = "0"', 'delta = "1e-6"\nper_query_delta = "1e-6"\nmin_units_per_group = 5')
    ).budget
    assert budget.per_query_delta == budget.delta == Fraction(1, 10**6)
    assert budget.min_units_per_group == 5
    assert load(shop).budget.per_query_delta is None
    assert load(shop).budget.min_units_per_group == 1


@pytest.mark.parametrize("mechanism", ["exponential", "permute_and_flip"])
def test_the_mechanism_of_choices(mechanism: str, shop: str, load: Load) -> None:
    assert load(shop).budget.selection == "exponential"
    assert load(shop.replace('delta = "0"', f'delta = "0"\nselection = "{mechanism}"')).budget.selection == mechanism


@pytest.mark.parametrize(
    ("source", "reads_files"),
    [
        ("orders", False),
        ("store.orders", False),
        ("orders.parquet", True),
        ("data/ORDERS.CSV", True),
        ("orders.csv.gz", True),
        ("orders.tsv", True),
        ("orders/", True),
        ("../a folder/x", True),
        ("/data/orders", True),
    ],
)
def test_sources(shop: str, load: Load, source: str, reads_files: bool) -> None:
    table = load(shop.replace("[tables.orders]", f'[tables.orders]\nsource = "{source}"')).tables["orders"]
    assert (table.source, table.reads_files) == (source, reads_files)


GROCERY = """
version = 1
[unit]
name = "household"
[budget]
account = "grocery-2026"
epsilon = "3"
delta = "1e-6"
per_query_epsilon = "0.25"
max_query_epsilon = "1"
composition = "basic"
renew = "never"
per_analyst = false
[tables.transactions]
source = "transactions.parquet"
unit = "household_id"
key = ["basket_id", "product_id"]
max_rows_per_unit = 2800
max_groups_per_unit = 8
max_rows_per_group = 500
[tables.transactions.columns]
sales_value = { bounds = [0, 50], step = "0.01", unit_of_measure = "USD", description = "price paid" }
store_id    = {}
department  = { values = ["GROCERY", "DRUG GM"] }
product_id  = { references = "products.product_id" }
week        = { bounds = [1, 53] }
[tables.products]
public = true
"""


def test_a_public_table_that_lists_nothing_shows_its_key(load: Load) -> None:
    policy = load(GROCERY)
    assert policy.tables["transactions"].key == ("basket_id", "product_id")
    products = policy.tables["products"]
    assert products.key == ("product_id",)
    assert list(products.columns) == ["product_id"]
    keyed = load(GROCERY + 'key = ["PRODUCT_ID"]\n').tables["products"]
    assert (keyed.key, list(keyed.columns)) == (("PRODUCT_ID",), ["PRODUCT_ID"])


def test_a_public_table_that_lists_nothing_has_one_key(load: Load) -> None:
    with pytest.raises(PolicyError, match='but the key of "products" is product_id'):
        load(
            GROCERY.replace("store_id    = {}", 'store_id = { references = "products.store" }').replace(
                'product_id  = { references = "products.product_id" }\n', ""
            )
            + 'key = ["product_id"]\n'
        )


def test_rows_as_units(shop: str, load: Load) -> None:
    table = load(shop + '[tables.answers]\nunit = "row"\ncolumns = { a = {} }\n').tables["answers"]
    assert table.unit == ROW
    assert table.every_row_is_a_unit
    assert table.max_rows_per_unit == 1


def test_limits_stand_alone(shop: str, load: Load) -> None:
    table = load(shop.replace("max_rows_per_unit = 50", "max_rows_per_unit = 2147483648\nmax_groups_per_unit = 60"))
    assert table.tables["orders"].max_groups_per_unit == 60
    assert table.tables["orders"].max_rows_per_unit == 2**31
    assert table.tables["orders"].max_rows_per_group is None


def test_references_of_several_columns(shop: str, load: Load) -> None:
    text = shop.replace('key = ["code"]', 'key = ["code", "name"]').replace('{ references = "products.code" }', "{}")
    same = '[[tables.orders.references]]\ncolumns = ["code", "name"]\ntable = "products"\n'
    other = (
        '[[tables.orders.references]]\ncolumns = ["state", "product"]\ntable = "Products"\ntarget = ["Name", "code"]\n'
    )
    orders = load(text + other).tables["orders"]
    assert orders.references == (Reference(("state", "product"), "products", ("name", "code")),)
    renamed = text.replace("product = {}", "code = {}").replace("state = ", "name = ")
    assert load(renamed + same).tables["orders"].references == (
        Reference(("code", "name"), "products", ("code", "name")),
    )


def test_a_public_table_may_refer_to_itself(shop: str, load: Load) -> None:
    table = load(shop.replace("name = {}", 'name = { references = "products.code" }')).tables["products"]
    assert table.references == (Reference(("name",), "products", ("code",)),)


def test_tables_of_a_schema(shop: str, load: Load) -> None:
    text = shop.replace("[tables.products", '[tables."store.products"').replace("products.code", "store.products.code")
    policy = load(text)
    assert policy.tables["store.products"].source == "store.products"
    assert policy.tables["orders"].references == (Reference(("product",), "store.products", ("code",)),)


@pytest.mark.parametrize(
    ("written", "kept"),
    [
        ("[0, 1e3]", (0, Decimal(1000))),
        ("[-0.0, 0.10]", (Decimal(0), Decimal("0.10"))),
        ("[-9007199254740992, 9007199254740992]", (-(2**53), 2**53)),
        ("[0, 0.00000000000000000001]", (0, Decimal("1E-20"))),
    ],
)
def test_bounds_are_what_is_written(shop: str, load: Load, written: str, kept: tuple[int | Decimal, ...]) -> None:
    column = load(shop.replace("bounds = [1, 99]", f"bounds = {written}")).tables["orders"].columns["line"]
    assert column.bounds == kept
    assert [str(Fraction(b)) for b in column.bounds or () if isinstance(b, int | Decimal)] == [
        str(Fraction(k)) for k in kept
    ]
    assert "E+" not in str(column.bounds)


@pytest.mark.parametrize("written", ["0.01", '"0.01"', '"1e-2"', "1e-2"])
def test_step_is_what_is_written(shop: str, load: Load, written: str) -> None:
    column = load(shop.replace('step = "0.01"', f"step = {written}")).tables["orders"].columns["amount"]
    assert column.step == Decimal("0.01")


def test_many_values() -> None:
    assert len(values(list(range(MOST_VALUES)))) == MOST_VALUES
    with pytest.raises(Wrong, match="more than 1000000"):
        values(list(range(MOST_VALUES + 1)))


# ---- files


def refused(path: FilePath | str) -> str:
    with pytest.raises(PolicyError) as caught:
        load_policy(path)
    assert caught.value.code == "DP301"
    assert caught.value.__suppress_context__ or caught.value.__context__ is None  # no traceback of another error
    return str(caught.value)


def test_no_file(tmp_path: FilePath) -> None:
    file = tmp_path / ("long" * 50 + ".toml")
    assert refused(file) == f"DP301: {file}: there is no such file"


def test_a_folder(tmp_path: FilePath) -> None:
    assert "is not a file" in refused(tmp_path)


def test_a_device_is_not_read() -> None:
    assert "is not a file" in refused("/dev/zero")


@pytest.mark.parametrize("path", ["a\0b", "a" * 5000, ""])
def test_a_path_that_no_system_has(path: str) -> None:
    assert "\0" not in refused(path)


def test_not_utf8(tmp_path: FilePath) -> None:
    file = tmp_path / "latin.toml"
    file.write_bytes(b'version = 1\n[unit]\nname = "K\xe4ufer"\n')
    assert "latin.toml:3: is not UTF-8" in refused(file)


def test_a_file_that_is_too_large(tmp_path: FilePath) -> None:
    file = tmp_path / "large.toml"
    file.write_bytes(b"#" * (10 * 2**20 + 1))
    assert "larger than 10 MB" in refused(file)


def test_deep_nesting(tmp_path: FilePath) -> None:
    file = tmp_path / "deep.toml"
    file.write_text("a = " + "[" * 100_000)
    assert "DP301" in refused(file)


def test_an_integer_of_thousands_of_digits(tmp_path: FilePath) -> None:
    file = tmp_path / "digits.toml"
    file.write_text("version = " + "9" * 5000)
    assert "does not fit in 64 bits" in refused(file)


def test_byte_order_mark_and_windows_newlines(shop: str, load: Load) -> None:
    assert load("\ufeff" + shop.replace("\n", "\r\n")) == load(shop)


def test_lines_are_counted_in_windows_files(shop: str, load: Load) -> None:
    with pytest.raises(PolicyError, match=r"shop\.toml:26: tables\.orders\.columns\.line\.bounds"):
        load(shop.replace("[1, 99]", "[99, 1]").replace("\n", "\r\n"))


def test_an_account_needs_a_file_name_that_can_be_one(shop: str, tmp_path: FilePath) -> None:
    file = tmp_path / "my shop.toml"
    file.write_text(shop.replace('account = "shop"\n', ""))
    assert "budget.account: is missing, and the file's name does not serve" in refused(file)


def test_what_a_terminal_would_obey_is_shown_escaped(shop: str, load: Load) -> None:
    with pytest.raises(PolicyError) as caught:
        load(
            shop.replace("name = {}", '"a\\u001b[2Jb" = { valuse = [1] }').replace('"products.code"', '"\\u202egro.x"')
        )
    report = str(caught.value)
    assert "\x1b" not in report
    assert "\u202e" not in report
    assert report.count("\n") == 6
