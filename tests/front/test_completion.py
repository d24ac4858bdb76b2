"""What is offered while somebody types: each name where it can stand, and never a value of data."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document

from dpsql.front.completion import SqlCompleter, Words
from dpsql.policy.vocabulary import TableWords

TABLES = {
    "transactions": TableWords(
        ("household_id", "product_id", "sales_value", "retail_disc", "week"),
        groups=frozenset(["product_id", "week"]),
        sums=frozenset(["sales_value", "retail_disc", "week"]),
        units=frozenset(["household_id"]),
    ),
    "products": TableWords(("product_id", "department"), frozenset(["product_id", "department"])),
    "people": TableWords(("age", "name"), frozenset(["age"]), values={"age": ("19-24", "25-34", "it's")}),
    "odd name": TableWords(("a column", "order"), frozenset(["order"])),
}
WORDS = Words(TABLES, ("count", "sum"), {"epsilon": (), "strategy": ("rows", "late"), "non_negative": ("on", "off")})


def commands(typed: str) -> list[str] | None:
    return {"\\b": ["\\budget", "\\d"], "\\d tr": list(TABLES), "\\i ": None}.get(typed, [])


COMPLETER = SqlCompleter(lambda: WORDS, commands)


def offered(before: str, after: str = "", asked: bool = False) -> list[str]:
    document = Document(before + after, len(before))
    return [c.text for c in COMPLETER.get_completions(document, CompleteEvent(completion_requested=asked))]


def test_tables_are_offered_after_from_and_join() -> None:
    assert offered("SELECT 1 FROM ") == ["transactions", "products", "people", '"odd name"']
    assert offered("SELECT 1 FROM transactions, ")[0] == "transactions"
    assert offered("SELECT 1 FROM transactions t JOIN pr") == ["products"]
    assert offered("DESCRIBE tr") == ["transactions"]
    assert offered("WITH busy AS (SELECT 1) SELECT 1 FROM b") == ["busy"]
    assert offered("SELECT 1 FROM (SELECT 1 FROM pr") == ["products"]


def test_a_table_that_stands_there_is_not_followed_by_another() -> None:
    assert offered("SELECT 1 FROM transactions ") == []
    assert offered("SELECT 1 FROM transactions WH") == ["WHEN", "WHERE"]


def test_groups_are_offered_after_group_by() -> None:
    assert offered("SELECT 1 FROM transactions GROUP BY ") == ["product_id", "week"]
    assert offered("SELECT 1 FROM transactions GROUP BY week, ") == ["product_id", "week"]
    assert offered("SELECT 1 FROM transactions JOIN products GROUP BY d") == ["department"]
    assert offered("SELECT sum(x) OVER (PARTITION BY ", " FROM transactions") == ["product_id", "week"]
    assert offered("SELECT 1 FROM transactions GROUP BY s") == []


def test_sums_are_offered_in_sums() -> None:
    assert offered("SELECT SUM(", ") FROM transactions") == ["sales_value", "retail_disc", "week"]
    assert offered("SELECT AVG(sal", ") FROM transactions") == ["sales_value"]
    assert offered("SELECT SUM(h", ") FROM transactions") == []


def test_the_unit_is_offered_first_where_it_is_counted() -> None:
    assert offered("SELECT COUNT(DISTINCT ", ") FROM transactions")[0] == "household_id"


def test_shared_columns_are_offered_in_using() -> None:
    assert offered("SELECT 1 FROM transactions JOIN products USING (") == ["product_id"]


def test_columns_of_the_tables_in_the_statement_are_offered() -> None:
    assert offered("SELECT de", " FROM products") == ["department", "DESC", "DESCRIBE"]
    assert "department" not in offered("SELECT d", " FROM transactions")
    assert offered("SELECT hou") == ["household_id"]


def test_a_later_part_of_a_name_finds_it() -> None:
    assert offered("SELECT disc", " FROM transactions") == ["retail_disc"]


def test_columns_of_a_table_or_its_alias_are_offered_after_a_dot() -> None:
    assert offered("SELECT t.", " FROM transactions AS t JOIN products p") == list(TABLES["transactions"].columns)
    assert offered("SELECT p.d", " FROM transactions t JOIN products p") == ["department"]
    assert offered("SELECT products.") == list(TABLES["products"].columns)
    assert offered("SELECT x.") == []


def test_settings_functions_keywords_and_commands_are_offered() -> None:
    assert offered("SET ") == ["epsilon", "strategy", "non_negative"]
    assert offered("SET strategy = ") == ["rows", "late"]
    assert offered("SET strategy = l") == ["late"]
    assert offered("RESET n") == ["non_negative"]
    assert "sum" in offered("SELECT su")
    assert offered("SELECT 1 GRO") == ["GROUP BY", "GROUPING"]
    assert offered("\\b") == ["\\budget"]
    assert offered("\\d tr") == ["transactions"]
    assert offered("\\cost SELECT 1 FROM tr") == ["transactions"]


def test_values_that_the_policy_lists_are_offered_in_texts() -> None:
    assert offered("SELECT 1 FROM people WHERE age = '") == ["19-24", "25-34", "it''s"]
    assert offered("SELECT 1 FROM people WHERE age IN ('19-24', '2") == ["25-34"]
    assert offered("SELECT 1 FROM people WHERE name = '") == []
    assert offered("SELECT 'x") == []


def test_names_that_need_quotes_get_them() -> None:
    assert offered("SELECT a", ' FROM "odd name"')[:1] == ['"a column"']
    assert offered("SELECT ord", ' FROM "odd name"')[:1] == ['"order"']


@pytest.mark.parametrize("before", ["SELECT 'de", 'SELECT "de', "-- de", "/* de", "SELECT department", "", "SELECT 1"])
def test_nothing_is_offered_in_texts_comments_and_at_the_end_of_a_word(before: str) -> None:
    assert offered(before) == []


@given(st.text() | st.text(alphabet=st.sampled_from("'\"().,;= SELECTFROMBY\\")))
def test_completion_never_fails(text: str) -> None:
    assert isinstance(offered(text, asked=True), list)
