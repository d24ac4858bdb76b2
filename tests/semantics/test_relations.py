"""Relations over a library whose units are its readers: joins meant per unit, subqueries, unions, windows, releases
that meet; every answer is DuckDB's own, as `sides` compares them.

`relations.txt` says how its lines are read. What dpsql drops when it reads the tables is dropped on the plain side too:
`library_plain.sql`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from dpsql.errors import Error
from tests.semantics.sides import Sides, compare, opened

FOLDER = Path(__file__).parent
EMPTY = (0, 50.0, 15.0, 5.0, 2.5, 25.0, 0.0)


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sides]:
    script, dropped = ((FOLDER / name).read_text(encoding="utf-8") for name in ("library.sql", "library_plain.sql"))
    with opened(tmp_path_factory.mktemp("library"), FOLDER / "library.toml", script, dropped, EMPTY) as both:
        yield both


def lines() -> list[str]:
    """Those that hold statements."""
    found = (FOLDER / "relations.txt").read_text(encoding="utf-8").splitlines()
    return [line for line in found if line and not line.startswith("#")]


@pytest.mark.parametrize("line", lines())
def test_an_answer_is_duckdbs(line: str, sides: Sides) -> None:
    sql, _, instead = line[2:].partition("|||")
    compare(sides, line[0], sql.strip(), plain=instead.strip() or None)


# Statements that could only be meant across units, and the code of the refusal.
REFUSED = [
    ("SELECT COUNT(*) FROM people a JOIN people b ON a.friend = b.person", "DP210"),
    ("SELECT COUNT(*) FROM loans l JOIN people p ON l.shared_with = p.person", "DP210"),
    ("SELECT COUNT(*) FROM people a JOIN people b ON a.town = b.town", "DP210"),
    ("SELECT COUNT(*) FROM people, loans", "DP210"),
    ("SELECT COUNT(*) FROM loans a JOIN visits b ON a.lent = b.day", "DP210"),
    ("SELECT COUNT(*) FROM people WHERE friend IN (SELECT person FROM loans)", "DP2"),
    ("SELECT COUNT(*) FROM people p WHERE EXISTS (SELECT * FROM people q WHERE q.friend = p.person)", "DP(111|2..)"),
    ("SELECT COUNT(*) FROM people p WHERE EXISTS (SELECT * FROM loans)", "DP2"),
    ("SELECT COUNT(*) FROM people p WHERE p.age IN (SELECT p.friend FROM loans)", "DP210"),
    ("SELECT COUNT(*) FROM people p WHERE p.person IN (SELECT p.person FROM loans)", "DP210"),
    ("SELECT COUNT(*) FROM people WHERE town IN (SELECT room FROM visits)", "DP2"),
    ("SELECT person, COUNT(*) FROM loans GROUP BY person", "DP206"),
    ("SELECT n FROM (SELECT person, COUNT(*) AS n FROM loans GROUP BY person) t", "DP20[16]"),
    ("SELECT DISTINCT person, town FROM people", "DP20"),
    ("SELECT COUNT(*) FROM (SELECT name, RANK() OVER (ORDER BY age) AS r FROM people) t WHERE r = 1", "DP222"),
    ("SELECT COUNT(*) FROM (SELECT * FROM loans LIMIT 5) t", "DP221"),
    ("SELECT COUNT(*) FROM (SELECT book FROM loans UNION SELECT minutes FROM visits) t", "DP221"),
    ("SELECT COUNT(*) FROM visits WHERE person NOT IN (SELECT shared_with FROM loans)", "DP210"),
    ("SELECT COUNT(*) FROM people p WHERE age > (SELECT days FROM loans l WHERE l.person = p.person)", "DP(111|2..)"),
]


@pytest.mark.parametrize(("sql", "code"), REFUSED)
def test_what_is_not_meant_per_unit_is_refused_free(sql: str, code: str, sides: Sides) -> None:
    before = sides.session.budget().spent_epsilon
    with pytest.raises(Error) as caught:
        sides.session.execute(sql)
    assert re.match(code, caught.value.code)
    assert sides.session.budget().spent_epsilon == before


def test_there_are_enough_statements() -> None:
    assert len(set(lines())) >= 150
