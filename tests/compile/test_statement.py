"""Splitting scripts, telling statements apart, and the checks that come before any parser."""

from __future__ import annotations

import time

import pytest

from dpsql.compile.statement import Describe, Explain, Reset, Select, Set, Show, Source, read, split
from dpsql.errors import Error, NotSupportedError, ProgrammingError, Span


def refused(text: str) -> Error:
    with pytest.raises((ProgrammingError, NotSupportedError)) as caught:
        read(text)
    return caught.value


@pytest.mark.parametrize(
    "text",
    [
        "SELECT 1",
        "  select a\nfrom t",
        "WITH w AS (SELECT 1) SELECT * FROM w",
        "FROM t",
        "VALUES (1)",
        "(SELECT 1)",
        "-- first\nSELECT 1",
        "SELECT 'a;b', \"c;d\", $$;$$ -- ;\n",
    ],
)
def test_queries_keep_their_text(text: str) -> None:
    assert read(text) in (Select(text), Select(text.rstrip()), Select("SELECT 'a;b', \"c;d\", $$;$$"))


def test_semicolons_around_a_statement_are_nothing() -> None:
    assert read("SELECT 1;;") == Select("SELECT 1")
    assert read(" ; SELECT 1") == Select("   SELECT 1")


def test_a_second_statement_is_refused_where_it_starts() -> None:  # P22
    error = refused("SELECT COUNT(*) FROM patients; DROP TABLE patients")
    assert (error.code, error.span) == ("DP102", Span(31, 35))


@pytest.mark.parametrize("text", ["", "  \n", "-- nothing", "/* nothing */ ;"])
def test_nothing_is_no_statement(text: str) -> None:
    assert refused(text).code == "DP101"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SET epsilon = 0.1", ("epsilon", "0.1")),
        ("set Epsilon TO '0.1'", ("epsilon", "0.1")),
        ("SET epsilon = 1e-1;", ("epsilon", "1e-1")),
        ("SET epsilon = 0.10000000000000000000000000001", ("epsilon", "0.10000000000000000000000000001")),
        ("SET x = -3", ("x", "-3")),
        ("SET strategy = cells", ("strategy", "cells")),
        ("SET non_negative = on", ("non_negative", "on")),
        ("SET non_negative = TRUE", ("non_negative", "TRUE")),
        ("SET name = 'it''s'", ("name", "it's")),
    ],
)
def test_set_takes_one_literal_and_keeps_it_exact(text: str, expected: tuple[str, str]) -> None:
    setting = read(text)
    assert isinstance(setting, Set)
    assert (setting.name, setting.value) == expected
    assert text[slice(*setting.name_span)].lower() == setting.name


@pytest.mark.parametrize(
    "text",
    [
        "SET epsilon = 1/2",
        "SET epsilon = (0.1)",
        "SET epsilon = - - 1",
        "SET epsilon = 0.1, delta = 0",
        "SET epsilon = (SELECT 1)",
        "SET VARIABLE v = (SELECT list(name) FROM patients)",  # S06
        "SET SESSION epsilon = 1",
        "SET epsilon",
        "SET epsilon =",
        "SET",
        "SET 'epsilon' = 1",
        "RESET",
        "RESET a b",
    ],
)
def test_set_takes_no_expression(text: str) -> None:
    error = refused(text)
    assert error.code == "DP120"
    assert error.repair
    assert error.span is not None


def test_the_other_statements() -> None:
    assert read("RESET ALL") == Reset(None, Span(6, 9))
    assert read("reset Epsilon") == Reset("epsilon", Span(6, 13))
    assert [read(f"SHOW {what}") for what in ("BUDGET", "tables", "Settings")] == [
        Show("budget"),
        Show("tables"),
        Show("settings"),
    ]
    assert read("DESCRIBE t") == Describe("t", Span(9, 10))
    assert read('DESC main."my table"') == Describe("main.my table", Span(5, 20))


def test_explain_keeps_positions() -> None:
    text = "EXPLAIN\nSELECT a FROM t;"
    assert read(text) == Explain("       \nSELECT a FROM t")
    assert isinstance(read("EXPLAIN (SELECT 1)"), Explain)
    assert isinstance(read("explain with w as (select 1) from w"), Explain)


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("EXPLAIN ANALYZE SELECT 1", "ANALYZE"),
        ("EXPLAIN (FORMAT json) SELECT 1", ""),
        ("EXPLAIN EXPLAIN SELECT 1", "EXPLAIN"),
        ("CREATE TABLE x AS SELECT 1", "CREATE"),
        ("INSERT INTO patients VALUES (1)", "INSERT"),
        ("COPY patients TO 'x.csv'", "COPY"),
        ("ATTACH 'x.db'", "ATTACH"),
        ("PRAGMA database_list", "PRAGMA"),
        ("CALL pragma_version()", "CALL"),
        ("BEGIN", "BEGIN"),
        ("PREPARE p AS SELECT 1", "PREPARE"),
        ("EXECUTE p", "EXECUTE"),
        ("SUMMARIZE patients", "SUMMARIZE"),
        ("PIVOT patients ON region", "PIVOT"),
        ("INSTALL httpfs", "INSTALL"),
        ("USE main", "USE"),
        ("SHOW ALL TABLES", ""),
        ("SHOW patients", ""),
        ("DESCRIBE SELECT 1", ""),
        ("DESCRIBE a.b.c", ""),
        ("TABLE patients", "TABLE"),
        ("FOO", "FOO"),
    ],
)
def test_everything_else_is_named_and_repaired(text: str, word: str) -> None:  # P11, P17, P23
    error = refused(text)
    assert error.code == "DP103"
    assert word in error.reason
    assert error.repair
    assert error.span is not None


def test_a_misspelt_verb_gets_the_nearest() -> None:
    assert 'Did you mean "SELECT"?' in refused("SELCT 1").repair


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("SELECT 'abc", 7),
        ('SELECT "abc', 7),
        ("SELECT 1 /* abc", 9),
        ("SELECT $$abc", 7),
        ("/* a /* b */", 0),
    ],
)
def test_what_has_no_end_is_shown_where_it_starts(text: str, at: int) -> None:
    error = refused(text)
    assert error.code == "DP101"
    assert error.span is not None
    assert error.span.start == at


@pytest.mark.parametrize(
    ("text", "piece"),
    [
        ("SELECT 1e0+1e0", "1e0+1"),  # P06: sqlglot reads this as 1e0+1 AS e0
        ("SELECT 0x1F", "0x1F"),
        ("SELECT 1e", "1e"),
        ("SELECT 1abc", "1abc"),
        ("SELECT 1_000_", "1_000_"),
        ("SELECT x'ff'", "x'ff'"),
        ("SELECT b'1'", "b'1'"),
        ("SELECT U&'x'", ""),
        ("SELECT 'a'b", "'a'b"),
        ('SELECT "a"b', '"a"b'),
    ],
)
def test_tokens_that_run_together_are_refused(text: str, piece: str) -> None:
    if not piece:
        assert isinstance(read(text), Select)  # U & 'x': an operator, the parser's business
        return
    error = refused(text)
    assert error.code == "DP101"
    assert error.span is not None
    assert text[slice(*error.span)] == piece


@pytest.mark.parametrize(
    "character",
    ["\u00a0", "\u200b", "\u200d", "\u202e", "\ufeff", "\u2028", "\u3000", "\x0b", "\x1c", "\x7f", "\ue000"],
)
def test_invisible_characters_stand_in_strings_and_comments_only(character: str) -> None:
    assert isinstance(read(f"SELECT '{character}' -- {character}\n, 1 /* {character} */"), Select)
    for text in (f"SELECT{character} 1", f"SELECT a{character}b", f'SELECT "a{character}"', f"SELECT 1 {character}"):
        error = refused(text)
        assert error.code == "DP105"
        assert f"U+{ord(character):04X}" in error.reason
        assert error.span is not None
        assert text[slice(*error.span)] == character


@pytest.mark.parametrize("text", ["SELECT '\x00'", "SELECT 1 -- \x00", "SELECT '\ud800'"])
def test_nul_and_lone_surrogates_stand_nowhere(text: str) -> None:
    assert refused(text).code == "DP105"


def test_letters_of_any_language_are_welcome() -> None:
    assert isinstance(read('SELECT größe, 名前 AS "naïve 🦆" FROM tabelle'), Select)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT " + "(" * 3_000 + "1" + ")" * 3_000,
        "SELECT " + "[" * 40 + "]" * 40,
        "SELECT " + "CASE WHEN " * 50 + "1" + " THEN 1 END" * 50,
        "SELECT " + "NOT " * 500 + "TRUE",
        "SELECT " + "- " * 500 + "1",
        "SELECT x" + "[1]" * 500,
        "SELECT x" + ".f()" * 500,
        "SELECT * FROM t" + " JOIN t" * 200,
        "SELECT x" + " -> 'a'" * 200,
        "SELECT 1" + ", 1" * 10_001,
        "SELECT x IN (" + "1234567," * 150_000 + "1)",
        "SELECT '" + "x" * 200_001 + "'",
    ],
    ids=lambda text: text[:24],
)
def test_large_and_deep_texts_are_refused_at_once(text: str) -> None:
    begin = time.process_time()
    assert refused(text).code == "DP104"
    assert time.process_time() - begin < 1


def test_the_limits_leave_room() -> None:
    read("SELECT " + "(" * 30 + "1" + ")" * 30)
    read("SELECT x IN (" + "1234567," * 9_000 + "1)")
    read("\n" * 300_000 + "SELECT 1")  # blank lines before a statement of a long script do not count


def test_a_script_is_split_where_statements_end() -> None:
    script = "SELECT 1;\n-- note;\n  SELECT 'a;b' ;; /* ; */\nSELECT $$;$$"
    sources = split(script, "x.sql")
    assert [s.text for s in sources] == ["SELECT 1", "SELECT 'a;b'", "SELECT $$;$$"]
    assert [(s.line, s.column) for s in sources] == [(0, 0), (2, 2), (3, 0)]
    assert all(script[s.offset : s.offset + len(s.text)] == s.text for s in sources)
    assert all(s.name == "x.sql" for s in sources)


def test_padding_keeps_line_and_column() -> None:
    source = Source("SELECT x", offset=40, line=3, column=5)
    lines = source.padded.split("\n")
    assert len(lines) == 4
    assert lines[3] == "     SELECT x"


def test_many_statements_of_a_script_do_not_fill_the_memory() -> None:
    """Padded to their places, these would take 45 GB."""
    with pytest.raises(ProgrammingError, match="DP104: the script has too many statements"):
        split("SELECT 1;" * 100_000)
    assert len(split("SELECT 1;\n" * 10_000)) == 10_000


def test_explain_stays_whole_in_a_script() -> None:
    assert [s.text for s in split("EXPLAIN SELECT 1; RESET ALL; SHOW TABLES")] == [
        "EXPLAIN SELECT 1",
        "RESET ALL",
        "SHOW TABLES",
    ]


def test_errors_of_a_script_name_it() -> None:
    with pytest.raises(ProgrammingError) as caught:
        split("SELECT 1;\nSELECT 'abc", "x.sql")
    assert caught.value.code == "DP101"
    assert "x.sql:2:8" in str(caught.value)
