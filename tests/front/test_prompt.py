"""Reading what is typed: when a text is finished, and the history file."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prompt_toolkit.history import FileHistory, InMemoryHistory

from dpsql.front.prompt import history_file, open_history
from dpsql.front.reading import whole
from dpsql.front.tokens import finished, first_word, tokens


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


def test_a_long_text_is_read_in_no_time() -> None:
    """Once: what looked again and again from each sign on would take minutes."""
    for hostile in ("'" * 200_000, "/*" * 100_000, "$a" * 100_000, "(" * 200_000, '"' * 199_999, "1" * 200_000):
        finished(hostile)


def test_the_first_word_stands_after_comments() -> None:
    assert first_word("  -- set\n /* reset */ Select 1") == "Select"
    assert first_word("-- nothing") == ""


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
