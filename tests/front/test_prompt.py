"""Reading what is typed: when a text is finished, its colors, what is offered, the history file."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document
from prompt_toolkit.history import FileHistory, InMemoryHistory

from dpsql.front.prompt import SqlCompleter, SqlLexer, history_file, open_history
from dpsql.front.repl import whole
from dpsql.front.tokens import finished, first_word, tokens

TABLES = {
    "transactions": ["household_id", "product_id", "sales_value"],
    "products": ["product_id", "department"],
    "odd name": ["a column", "order"],
}
COMPLETER = SqlCompleter(TABLES, ["count", "sum"], ["epsilon", "non_negative"], ["\\budget", "\\d"])


@pytest.mark.parametrize(
    "text",
    [
        "SELECT 1;",
        "SELECT 1; ",
        "SELECT 1; -- done",
        "SELECT 1; /* done */\n",
        "SELECT ';';",
        "SELECT 'it''s';",
        'SELECT ";" FROM t;',
        "SELECT $$ ; $$;",
        "SELECT $tag$ ; $$ ; $tag$;",
        "SELECT $name;",
        ";",
    ],
)
def test_finished(text: str) -> None:
    assert finished(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "SELECT 1",
        "SELECT 1; SELECT 2",
        "SELECT ';",
        "SELECT 'it''s;",
        'SELECT ";',
        "SELECT $$ ;",
        "SELECT 1 -- ;",
        "SELECT 1 /* ; */",
        "SELECT 1; /* ;",
        "-- ;",
    ],
)
def test_not_finished(text: str) -> None:
    assert not finished(text)


@pytest.mark.parametrize("text", ["\\q", "\\d sales", "\\explain SELECT 1;", "quit", " \\?"])
def test_commands_need_no_semicolon(text: str) -> None:
    assert whole(text)


def test_explain_is_a_command_of_several_lines() -> None:
    assert not whole("\\explain SELECT 1")


@given(st.text(alphabet=st.sampled_from("'\"$;-/*\n aA1.?\\")) | st.text())
def test_tokens_are_the_text_in_pieces(text: str) -> None:
    assert "".join(t.text for t in tokens(text)) == text
    assert whole(text) in (True, False)


def test_a_megabyte_is_read_in_no_time() -> None:
    for hostile in ("'" * 1_000_000, "/*" * 500_000, "$a" * 500_000, "(" * 1_000_000, '"' * 999_999, "1" * 1_000_000):
        finished(hostile)


def test_the_first_word_stands_after_comments() -> None:
    assert first_word("  -- set\n /* reset */ Select 1") == "Select"
    assert first_word("-- nothing") == ""


def test_colors() -> None:
    line = SqlLexer().lex_document(Document("SELECT 'a\nb', 1 -- x\nFROM t"))
    assert line(0) == [("class:sql.keyword", "SELECT"), ("class:sql.space", " "), ("class:sql.string", "'a")]
    assert [style for style, text, *_ in line(1) if text.strip()] == [
        "class:sql.string",
        "class:sql.other",
        "class:sql.number",
        "class:sql.comment",
    ]
    assert ("class:sql.keyword", "FROM") in line(2)
    assert line(3) == []


def offered(before: str, after: str = "", asked: bool = False) -> list[str]:
    document = Document(before + after, len(before))
    return [c.text for c in COMPLETER.get_completions(document, CompleteEvent(completion_requested=asked))]


def test_tables_are_offered_after_from_and_join() -> None:
    assert offered("SELECT 1 FROM ") == ["transactions", "products", '"odd name"']
    assert offered("SELECT 1 FROM transactions t JOIN pr") == ["products"]
    assert offered("\\d tr") == ["transactions"]


def test_columns_of_the_tables_in_the_statement_are_offered() -> None:
    assert offered("SELECT de", " FROM products") == ["department", "DESC", "DESCRIBE"]
    assert "department" not in offered("SELECT d", " FROM transactions")
    assert offered("SELECT hou") == ["household_id"]


def test_columns_of_a_table_or_its_alias_are_offered_after_a_dot() -> None:
    assert offered("SELECT t.", " FROM transactions AS t JOIN products p") == TABLES["transactions"]
    assert offered("SELECT p.d", " FROM transactions t JOIN products p") == ["department"]
    assert offered("SELECT products.") == TABLES["products"]
    assert offered("SELECT x.") == []


def test_settings_functions_keywords_and_commands_are_offered() -> None:
    assert offered("SET ") == ["epsilon", "non_negative"]
    assert offered("RESET n") == ["non_negative"]
    assert "sum" in offered("SELECT su")
    assert offered("SELECT 1 GRO") == ["GROUP", "GROUPING"]
    assert offered("\\b") == ["\\budget"]


def test_names_that_need_quotes_get_them() -> None:
    assert offered("SELECT a", ' FROM "odd name"')[:1] == ['"a column"']
    assert offered("SELECT ord", ' FROM "odd name"')[:1] == ['"order"']


@pytest.mark.parametrize("before", ["SELECT 'de", 'SELECT "de', "-- de", "/* de", "SELECT department", ""])
def test_nothing_is_offered_in_texts_comments_and_at_the_end_of_a_word(before: str) -> None:
    assert offered(before) == []


@given(st.text())
def test_completion_never_fails(text: str) -> None:
    assert isinstance(offered(text, asked=True), list)


def test_the_history_is_its_owners_alone(home: Path) -> None:
    file = history_file()
    assert file == home / "state" / "dpsql" / "history"
    assert isinstance(open_history(file), FileHistory)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    file.chmod(0o644)
    open_history(file)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_without_a_place_for_it_the_history_is_in_memory(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert isinstance(open_history(tmp_path / "file" / "dpsql" / "history"), InMemoryHistory)
