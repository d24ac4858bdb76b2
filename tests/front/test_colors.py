"""SQL in colors: by the parser's tokens, and by a rough reading where there are none."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prompt_toolkit.document import Document

from dpsql.compile.highlight import pieces
from dpsql.errors import Error, Span
from dpsql.front.colors import Pieces, SqlLexer

TEXTS = st.text(alphabet=st.sampled_from("'\"$;-/*\n aA1.?\\(SELECT")) | st.text()


def parsed(text: str) -> Pieces:
    return list(pieces(text))


ROUGH, EXACT = SqlLexer(), SqlLexer(lambda: parsed)


def colored(lexer: SqlLexer, text: str) -> list[tuple[str, str]]:
    document = Document(text)
    lines = lexer.lex_document(document)
    return [(style.rpartition(".")[2], piece) for n in range(document.line_count) for style, piece, *_ in lines(n)]


@pytest.mark.parametrize("lexer", [ROUGH, EXACT], ids=["rough", "exact"])
def test_kinds(lexer: SqlLexer) -> None:
    found = colored(lexer, "SELECT 'a\nb', 1 -- x\nFROM \"t\" WHERE d = $day")
    assert ("keyword", "SELECT") in found
    assert [piece for kind, piece in found if kind == "string"] == ["'a", "b'"]
    assert ("number", "1") in found
    assert any(kind == "comment" and "-- x" in piece for kind, piece in found)
    assert ("quoted", '"t"') in found
    assert any(kind == "parameter" for kind, _ in found)


def test_functions_are_known_by_their_brackets() -> None:
    found = colored(EXACT, "SELECT count(*), count FROM t GROUP  BY ALL;")
    assert [kind for kind, piece in found if piece == "count"] == ["function", "word"]
    assert ("keyword", "GROUP  BY") in found


def test_a_command_and_its_sql() -> None:
    assert colored(EXACT, "\\cost SELECT 1;")[:2] == [("class:command", "\\cost "), ("keyword", "SELECT")]


@given(TEXTS)
def test_nothing_is_lost_and_nothing_fails(text: str) -> None:
    text = text.replace("\r", "")
    for lexer in (ROUGH, EXACT):
        lines = lexer.lex_document(Document(text))
        shown = ["".join(piece for _, piece, *_ in lines(n)) for n in range(text.count("\n") + 1)]
        assert "\n".join(shown) == text


@given(TEXTS)
def test_pieces_lie_in_order(text: str) -> None:
    try:
        found = parsed(text)
    except Error:
        return
    at = 0
    for span, _ in found:
        assert isinstance(span, Span)
        assert at <= span.start < span.end <= len(text)
        at = span.end
