"""However large a statement is, it is answered or refused in a time that hangs on its length: no list, chain or tree of
WITH entries makes a pass walk the same thing again and again. The guard on time is a generous one."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from dpsql.errors import Error
from dpsql.session import Session

SECONDS = 60.0
"""Of this thread's time on the processor. The slowest below takes less than 3."""

COUNT = "(SELECT COUNT(*) FROM patients WHERE age > #)"
EXISTS = "EXISTS (SELECT 1 FROM visits v WHERE v.uid = p.uid AND v.fee > #)"
ROWS = "SELECT uid, age FROM patients"

LISTS = {
    # The statement; what it has many of, # being the number of each; what stands between; how many are answered, and
    # how many more are refused, with which code.
    "numbers": ("SELECT COUNT(*) FROM patients WHERE age IN (...)", "#", ", ", 5000, 0, ""),
    "texts": ("SELECT COUNT(*) FROM patients WHERE name IN (...)", "'n#'", ", ", 5000, 0, ""),
    "dates": ("SELECT COUNT(*) FROM patients WHERE seen IN (...)", "DATE '2020-01-01' + #", ", ", 2000, 0, ""),
    "expressions": ("SELECT COUNT(*) FROM patients WHERE age IN (...)", "# + age", ", ", 2000, 0, ""),
    "keys": ("SELECT age, COUNT(*) FROM patients WHERE age IN (...) GROUP BY age", "#", ", ", 5000, 0, ""),
    "branches": ("SELECT SUM(CASE ... END) FROM patients", "WHEN age = # THEN #", " ", 1000, 0, ""),
    "counts": ("SELECT ... FROM patients", "COUNT_IF(age = #) AS c#", ", ", 256, 257, "DP104"),
    "sums": ("SELECT ... FROM patients", "SUM(LEAST(age, # + 1)) AS c#", ", ", 256, 300, "DP104"),
    "releases": ("SELECT ...", f"{COUNT} AS c#", ", ", 128, 200, "DP104"),
    "correlated releases": (
        "SELECT region, ... FROM regions r",
        f"{COUNT[:-1]} AND region = r.region) AS c#",
        ", ",
        *(128, 129, "DP104"),
    ),
    "releases in a predicate": ("SELECT COUNT(*) FROM patients WHERE ...", f"age <> {COUNT}", " AND ", 60, 0, ""),
    "subqueries": ("SELECT COUNT(*) FROM patients p WHERE ...", EXISTS, " AND ", 100, 300, "DP104"),
    "subqueries in CASE": (
        "SELECT SUM(CASE ... END) FROM patients p",
        f"WHEN {EXISTS} THEN #",
        " ",
        *(127, 200, "DP104"),
    ),
    "windows": (
        "SELECT COUNT(*) FROM (SELECT ... FROM visits)",
        "ROW_NUMBER() OVER (PARTITION BY uid ORDER BY fee + #) AS w#",
        ", ",
        *(150, 0, ""),
    ),
    "branches of UNION": ("SELECT COUNT(*) FROM (...)", ROWS, " UNION ALL ", 60, 200, "DP104"),
    "public tables": ("SELECT COUNT(*) FROM ...", "(SELECT 1 AS x) AS r#", ", ", 100, 1000, "DP104"),
    "arguments": ("SELECT SUM(GREATEST(...)) FROM patients", "LEAST(age, #)", ", ", 99, 500, "DP231"),
    "texts put together": ("SELECT COUNT(*) FROM patients WHERE CONCAT(...) = name", "'#'", ", ", 99, 500, "DP231"),
}
CHAINS = {
    # Of WITH entries: the first; the others, # being the one before; the statement; how many are answered or refused.
    "rows": (ROWS, "SELECT uid, age + 1 AS age FROM #", "SELECT COUNT(*) FROM #", 30, 1000, "DP104"),
    "rows twice": (ROWS, "SELECT * FROM # UNION ALL SELECT * FROM #", "SELECT COUNT(*) FROM #", 5, 60, "DP104"),
    "rows met": (
        ROWS,
        "SELECT a.uid, b.age FROM # a JOIN # b ON a.uid = b.uid",
        "SELECT COUNT(*) FROM #",
        *(3, 60, "DP104"),
    ),
    "results twice": (f"SELECT {COUNT} AS n", "SELECT a.n + b.n AS n FROM # a, # b", "SELECT n FROM #", 100, 0, ""),
}


@pytest.mark.parametrize("name", LISTS)
def test_a_long_list(name: str, clinic_session: Session) -> None:
    text, part, by, *outcome = LISTS[name]
    check(clinic_session, lambda n: text.replace("...", by.join(part.replace("#", str(i)) for i in range(n))), *outcome)


@pytest.mark.parametrize("name", CHAINS)
def test_a_long_chain(name: str, clinic_session: Session) -> None:
    first, then, last, *outcome = CHAINS[name]

    def chain(n: int) -> str:
        entries = [f"c{i} AS ({then.replace('#', f'c{i - 1}') if i else first})" for i in range(n)]
        return f"WITH {', '.join(entries)} {last.replace('#', f'c{n - 1}')}".replace("age > #", "age > 1")

    check(clinic_session, chain, *outcome)


def check(session: Session, made: Callable[[int], str], answered: int, refused: int, code: str) -> None:
    started = time.thread_time()
    session.compile(made(answered))
    if refused:
        with pytest.raises(Error) as caught:
            session.compile(made(refused))
        assert caught.value.code == code
    assert time.thread_time() - started < SECONDS


def test_what_goes_too_deep_for_python_is_a_refusal(clinic_session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    def endless(*_: object) -> None:
        raise RecursionError

    monkeypatch.setattr("dpsql.session.lower", endless)
    with pytest.raises(Error, match=r"^DP104: the statement is too deeply nested"):
        clinic_session.compile("SELECT COUNT(*) FROM patients")
