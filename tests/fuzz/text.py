"""Bytes at the front door: whatever they are, a statement is answered and charged, or refused and free."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from random import Random

import dpsql
from dpsql.compile import statement
from dpsql.errors import Error
from tests.fuzz.hunt import End, raised_at
from tests.fuzz.library import open_library, statements
from tests.properties.fuzz import WORDS, Grammar, mutated

_COMMANDS = (
    "SET epsilon = 0.001; RESET ALL; SHOW BUDGET; SHOW TABLES; SHOW SETTINGS; DESCRIBE people; DESCRIBE main.people;"
    " EXPLAIN SELECT COUNT(*) FROM people; SET weights = 'a: 1, b: 2'; SET strategy = cells; SET mechanism = gaussian;"
    " SET max_rows_per_unit = 3; RESET epsilon; SELECT 1; VALUES (1); FROM people SELECT COUNT(*);"
    " SELECT COUNT(*, epsilon => 0.001) FROM people; WITH w AS (SELECT 1 AS a) SELECT a FROM w;"
    " SELECT name FROM people GROUP BY name; SELECT town FROM people GROUP BY town ORDER BY COUNT(*) DESC LIMIT 1"
)
_CHARACTERS = [
    *("\0", "\x1b[2J", "\ufeff", "\u200b", "\u202e", "\U0001f986", "\udc80", "é", "\u0130", "\u2028", "\n", "\r", "\t"),
    *("'", '"', "$$", "$a$", "--", "/*", "*/", ";", "\\", "`", "::", "->", "=>", "(", ")", "[", "{", "?", "?1", "$1"),
    *("e'\\x00'", "0x", "1e", "1e999", "1__0", ".5.", "'a' 'b'", "u&'\\0061'", "x'00'", "b'1'", "@", "#1", "~", "!"),
]
_REPEATED = ["(", "SELECT (", "-", "NOT ", "1 + ", "CASE WHEN ", "'a' || ", "[", "/*", "a.", "SELECT * FROM ("]


class Text:
    """Statements and scripts as bytes; what is no UTF-8 keeps its bytes as lone surrogates."""

    name, ending = "text", ".sql"

    def __init__(self, folder: Path):
        self._library = open_library(folder)
        self._connection = dpsql.Connection(self._library.session)

    def close(self) -> None:
        self._library.close()

    def seeds(self) -> list[bytes]:
        return [sql.encode() for sql in [*statements(), *map(str.strip, _COMMANDS.split("; "))]]

    def parts(self, content: bytes) -> list[bytes]:
        return re.findall(rb"\s*\w+|\s*[^\w]", content)

    def mutated(self, rng: Random, known: Sequence[bytes]) -> bytes:
        draw = rng.random()
        if draw < 0.1:
            return Grammar(rng).statement().encode()
        text = _text(rng.choice(known))
        if draw < 0.5:
            return mutated(rng, text, [_text(rng.choice(known)) for _ in range(3)]).encode("utf-8", "surrogatepass")
        content = rng.choice(known)
        for _ in range(rng.choice((1, 1, 2, 4))):
            content = _damaged(rng, content, rng.choice(known))
        return content[:100_000]

    def ask(self, content: bytes) -> End:
        text = _text(content)
        self._library.settle()
        try:
            statement.read(text)
            single, parts = True, [text]
        except Error:
            single, parts = False, self._parts(text)
        except Exception as error:
            return End("read", f"{type(error).__name__}: {error} at {raised_at(error.__traceback__)}")
        end = End("")
        for part in parts[:5]:
            end, answer = self._library.execute(part)
            if end.wrong:
                return end
            if single and answer is not None:
                return End(end.kind, self._through_cursor(part))
        return end

    def _parts(self, text: str) -> list[str]:
        try:
            return [*self._library.session.statements(text), text]
        except Error:
            return [text]

    def _through_cursor(self, sql: str) -> str:
        """What was answered is answered through a cursor, too, and can be fetched; asked again it is free."""
        self._library.settle()
        try:
            cursor = self._connection.execute(sql)
            rows = cursor.fetchall() if cursor.description else []
            receipt = cursor.receipt
        except Error as error:
            return f"answered, and then {error.code}: {error.reason}"
        except Exception as error:
            return f"{type(error).__name__}: {error} at {raised_at(error.__traceback__)}"
        if receipt is not None and receipt.epsilon:
            return f"a repeat cost {receipt.epsilon}"
        return "" if all(isinstance(row, tuple) for row in rows) else "a row is no tuple"


def _text(content: bytes) -> str:
    try:
        return content.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return content.decode("utf-8", "surrogateescape")


def _damaged(rng: Random, content: bytes, other: bytes) -> bytes:
    at, to = sorted((rng.randint(0, len(content)), rng.randint(0, len(content))))
    match rng.randrange(8):
        case 0:
            return content[:at] + content[min(to, at + rng.choice((1, 3, 20))) :]
        case 1:
            return content[:at] + content[at:to] * rng.choice((2, 2, 3, 50)) + content[to:]
        case 2:
            return content[:at] + rng.randbytes(rng.choice((1, 2, 8))) + content[at:]
        case 3:
            return content[:at] + other[rng.randint(0, len(other)) :]
        case 4:
            return content[:at] + rng.choice(WORDS).encode() + b" " + content[at:]
        case 5:
            return content[:at] + rng.choice(_REPEATED).encode() * rng.choice((10, 200, 5000)) + content[at:]
        case 6:
            return content[:at] + b"; " + other
        case _:
            return content[:at] + rng.choice(_CHARACTERS).encode("utf-8", "surrogatepass") + content[at:]
