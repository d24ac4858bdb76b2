"""One short statement makes neither much time nor much memory: what grows is refused, or bounded by its text."""

from __future__ import annotations

import resource
import time

import pytest

import dpsql
from tests.conftest import Clinic

SECONDS = 60.0
"""Of the process's own work, whatever others do meanwhile; one or two are usual."""
MEBIBYTES = 700
"""What the process may grow by, the engines' own memory included."""

PRIVATE = {
    "repeat": "SELECT COUNT(*) FROM patients WHERE repeat(name, 1000000000) = 'a'",
    "repeat within repeat": "SELECT COUNT(*) FROM patients WHERE repeat(repeat(name, 60), 60) = 'a'",
    "lpad": "SELECT COUNT(*) FROM patients WHERE lpad(name, 1000000000, 'x') = 'a'",
    "replace": "SELECT COUNT(*) FROM patients WHERE replace(name, 'a', repeat('b', 1000)) = 'a'",
    "a range for each row": "SELECT SUM(len(range(age * 100000000))) FROM patients",
    "a list of a million": "SELECT COUNT(*) FROM patients WHERE list_contains(range(1000000), age)",
    "rows from a range": "SELECT COUNT(*) FROM patients, range(1000000)",
    "a list of all rows": "SELECT list(name) FROM patients",
    "stars within stars": "SELECT COUNT(*) FROM patients WHERE regexp_matches(name, '((a*)*)*b')",
    "counts within counts": "SELECT COUNT(*) FROM patients WHERE regexp_matches(name, '((a{1000}){1000}){1000}')",
    "a long pattern": f"SELECT COUNT(*) FROM patients WHERE name LIKE '{'%a' * 50_000}'",
    "a long regex": f"SELECT COUNT(*) FROM patients WHERE regexp_matches(name, '{'(a|b)?' * 10_000}')",
    "deep nesting": f"SELECT COUNT(*) FROM patients WHERE {'(' * 5000}age > 3{')' * 5000}",
    "a long chain": f"SELECT COUNT(*) FROM patients WHERE age > {'-' * 5000}1",
    "a tower of powers": "SELECT SUM(age ** age ** age ** age) FROM patients",
    "a long number": f"SELECT COUNT(*) FROM patients WHERE age < 1{'0' * 100_000}",
    "a format": "SELECT COUNT(*) FROM patients WHERE printf('%1000000000d', age) = 'a'",
    "rows met again and again": "SELECT COUNT(*) FROM "
    + " JOIN ".join(f"visits v{i}" + (f" ON v{i}.uid = v0.uid" if i else "") for i in range(60)),
}
PUBLIC = {
    "repeat": "SELECT repeat('a', 1000000000)",
    "repeat within repeat": "SELECT repeat(repeat(repeat('a', 10000), 10000), 10000)",
    "repeat of a column": "SELECT repeat(x, 10000) FROM (SELECT repeat(region, 10000) AS x FROM regions)",
    "lpad": "SELECT lpad('a', 1000000000, 'x')",
    "replace": "SELECT replace(replace(region, 'R', repeat('b', 10000)), 'b', repeat('c', 10000)) FROM regions",
    "regexp_replace": "SELECT regexp_replace(repeat('a', 10000), 'a*', repeat('b', 10000), 'g')",
    "printf": "SELECT printf('%1000000000d', 1)",
    "format": "SELECT format('{:1000000000}', 1)",
    "a million rows": "SELECT COUNT(*) FROM range(0, 999999)",
    "more rows": "SELECT COUNT(*) FROM range(1000000000)",
    "pairs of rows": "SELECT a.range FROM range(0, 999999) a JOIN range(0, 999999) b"
    " ON a.range < b.range AND a.range % 97 > b.range % 97 AND a.range * b.range = -1",
    "doubled texts": f"WITH c0 AS (SELECT region AS x FROM regions), "
    f"{', '.join(f'c{i} AS (SELECT x || x AS x FROM c{i - 1})' for i in range(1, 60))} SELECT x FROM c59",
    "counted for ever": "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r) SELECT COUNT(*) FROM r",
    "stars within stars": "SELECT regexp_matches(repeat('a', 10000), '((a*)*)*b')",
    "a long pattern": f"SELECT repeat('a', 10000) LIKE '{'%a' * 50_000}b'",
    "edits": "SELECT levenshtein(repeat('ab', 5000), repeat('b', 5000))",
    "a large factorial": "SELECT factorial(1000000)",
}
CASES = {
    f"{where}: {name}": sql
    for where, cases in (("private", PRIVATE), ("public", PUBLIC))
    for name, sql in cases.items()
}


@pytest.mark.parametrize("name", CASES)
def test_it_is_refused_or_small(name: str, connection: dpsql.Connection) -> None:
    before, started = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    code, size = asked(connection, CASES[name])
    assert not code.startswith("DP9")
    assert code != "DP501"
    assert size < 1_000_000
    assert time.process_time() - started < SECONDS
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < MEBIBYTES * 1024


def asked(connection: dpsql.Connection, sql: str) -> tuple[str, int]:
    """The code of the refusal, where there is one; else the size of the answer."""
    try:
        return "", len(str(connection.execute(sql).fetchall()))
    except dpsql.Error as error:
        return error.code, 0


def test_a_result_that_no_memory_holds_is_stopped(clinic: Clinic) -> None:
    """It has left the engine, whose own limit does not see it: 8^9 rows are half a gigabyte, 8^11 are 34."""
    clinic.policy.write_text(clinic.policy.read_text() + '\n[engine]\nmemory_limit = "64MiB"\n')
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with dpsql.connect(clinic.policy, clinic.database) as connection:
        for tables in (9, 11):
            many = ", ".join(f"regions r{i}" for i in range(tables))
            for sql in (f"SELECT 1 FROM {many}", f"SELECT n FROM (SELECT COUNT(*) AS n FROM patients) AS t, {many}"):
                with pytest.raises(dpsql.OperationalError, match=r"^DP502: .* larger than the memory that the policy"):
                    connection.execute(sql)
        assert connection.budget.statements == 1
        receipt = connection.execute("SELECT COUNT(*) AS n FROM patients").receipt
    assert receipt is not None
    assert receipt.epsilon == 0
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024 < MEBIBYTES
