"""Bad input of every kind on the real product: one clear error of the right class, nothing charged, no traceback."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pytest
from sqlglot import exp

import dpsql
from dpsql import session
from dpsql.compile import forgiven
from dpsql.front.cli import main
from dpsql.ledger import default_path
from dpsql.ledger import file as ledger_file
from tests.conftest import Clinic
from tests.end.conftest import Run

COUNT = "SELECT COUNT(*) FROM patients"


def one_clear_error(text: str, code: str) -> None:
    """A code, a reason, no word of Python or of an engine."""
    assert text.startswith((f"error[{code}]: ", f"{code}: ")), text
    assert len(text) < 1500, text
    for foreign in ("Traceback", "duckdb.", "sqlglot", "sqlite3", 'File "', "object at 0x"):
        assert foreign not in text, text


# --------------------------------------------------------------------------------------------- statements

MANY = ",".join(f"{i} AS c{i}" for i in range(10_000))
STATEMENTS: list[tuple[str, type[dpsql.Error], Any]] = [
    ("DP102", dpsql.ProgrammingError, "SELECT 1; SELECT 2"),
    ("DP102", dpsql.ProgrammingError, f"{COUNT}; DROP TABLE patients"),
    ("DP103", dpsql.ProgrammingError, "CREATE TABLE t (i INT)"),
    ("DP103", dpsql.ProgrammingError, "DROP TABLE patients"),
    ("DP103", dpsql.ProgrammingError, "INSERT INTO regions VALUES ('a', 'b')"),
    ("DP103", dpsql.ProgrammingError, "COPY patients TO 'out.csv'"),
    ("DP103", dpsql.ProgrammingError, "ATTACH 'other.duckdb' AS other"),
    ("DP103", dpsql.ProgrammingError, "PRAGMA database_list"),
    ("DP103", dpsql.ProgrammingError, "INSTALL httpfs"),
    ("DP103", dpsql.ProgrammingError, "CALL pragma_version()"),
    ("DP103", dpsql.ProgrammingError, "EXPLAIN ANALYZE SELECT 1"),
    ("DP240", dpsql.NotSupportedError, "WITH w AS (DELETE FROM patients RETURNING *) SELECT COUNT(*) FROM w"),
    ("DP1", dpsql.ProgrammingError, "SELECT * FROM 'people.csv'"),
    ("DP230", dpsql.NotSupportedError, "SELECT * FROM read_csv('/etc/passwd')"),
    ("DP230", dpsql.NotSupportedError, "SELECT read_text('/etc/hostname')"),
    ("DP111", dpsql.ProgrammingError, "SELECT COUNT(DISTINCT p) FROM patients p"),
    ("DP111", dpsql.ProgrammingError, f"{COUNT} WHERE patients IS NOT NULL"),
    ("DP111", dpsql.ProgrammingError, f"{COUNT} WHERE rowid = 3"),
    ("DP105", dpsql.ProgrammingError, "SELECT\u00a0COUNT(*) FROM patients"),
    ("DP105", dpsql.ProgrammingError, "SELECT COUNT(*)\u200b FROM patients"),
    ("DP105", dpsql.ProgrammingError, f"{COUNT} -- \n\u202e WHERE age > 3"),
    ("DP105", dpsql.ProgrammingError, f"{COUNT} WHERE name = 'a\0b'"),
    ("DP105", dpsql.ProgrammingError, "SELECT\0 1"),
    ("DP105", dpsql.ProgrammingError, f"{COUNT} WHERE name = '\ud800'"),
    ("DP104", dpsql.ProgrammingError, "SELECT " + "(" * 3000 + "1" + ")" * 3000),
    ("DP104", dpsql.ProgrammingError, "(" * 3000 + "SELECT 1" + ")" * 3000),
    ("DP104", dpsql.ProgrammingError, f"{COUNT} WHERE age IN ({','.join(map(str, range(150_000)))})"),
    ("DP104", dpsql.ProgrammingError, f"SELECT {MANY}"),
    ("DP104", dpsql.ProgrammingError, f"SELECT {MANY} FROM patients"),
    ("DP104", dpsql.ProgrammingError, f"{COUNT} WHERE " + " AND ".join(f"age > {i}" for i in range(5000))),
    ("DP104", dpsql.ProgrammingError, f"{COUNT} WHERE {'NOT ' * 5000} age > 1"),
    ("DP104", dpsql.ProgrammingError, f"{COUNT} WHERE name = '{'x' * 2_000_000}'"),
    ("DP101", dpsql.ProgrammingError, ""),
    ("DP101", dpsql.ProgrammingError, " \n\t"),
    ("DP101", dpsql.ProgrammingError, ";"),
    ("DP101", dpsql.ProgrammingError, "-- only a comment"),
    ("DP101", dpsql.ProgrammingError, "/* only a comment */"),
    ("DP101", dpsql.ProgrammingError, "/* a comment without end"),
    ("DP101", dpsql.ProgrammingError, "SELECT 'a string without end"),
    ("DP101", dpsql.ProgrammingError, "SELECT CASE"),
    ("DP103", dpsql.ProgrammingError, "SELEKT 1"),
    ("DP101", dpsql.ProgrammingError, b"SELECT 1"),
    ("DP101", dpsql.ProgrammingError, None),
    ("DP101", dpsql.ProgrammingError, 17),
    ("DP101", dpsql.ProgrammingError, ["SELECT 1"]),
    ("DP110", dpsql.ProgrammingError, "DESCRIBE nothing"),
    ("DP120", dpsql.ProgrammingError, "SET nothing = 1"),
    ("DP120", dpsql.ProgrammingError, "RESET nothing"),
    ("DP103", dpsql.ProgrammingError, "SHOW nothing"),
]


SECONDS = 10
"""Of this thread's own work, which no other process makes longer; some tenths are usual."""

NO_STATEMENT = ("", " \n\t", ";", "-- only a comment", "/* only a comment */")


def test_statements_that_are_none_are_refused_fast_and_for_free(connection: dpsql.Connection) -> None:
    for code, kind, sql in STATEMENTS:
        for ask in (connection.execute, connection.executescript, connection.explain):
            if ask == connection.executescript and (sql in NO_STATEMENT or code in ("DP102", "DP104")):
                continue  # a script is many statements or none; long ones take their time
            if ask == connection.explain and isinstance(sql, str) and sql.startswith(("DES", "SET", "RES", "SHO")):
                continue
            started = time.thread_time()
            with pytest.raises(dpsql.Error) as caught:
                ask(sql)
            assert time.thread_time() - started < SECONDS, str(sql)[:80]
            error = caught.value
            if ask == connection.execute:
                assert type(error) is kind, (str(sql)[:80], error)
                assert error.code.startswith(code), (str(sql)[:80], error)
            one_clear_error(str(error), error.code)
            assert error.__cause__ is None
    assert connection.budget.statements == 0
    assert connection.execute(COUNT).receipt is not None  # and the connection goes on


NO_SQL_OF_DUCKDB = (
    f"{COUNT} WHERE LEAST(«,» 50) > age",
    f"{COUNT} AS n LIMIT 3 «W»HERE age > 3",
    f"{COUNT} WHERE age > «>» 3",
    "SELECT COUNT(*) FROM «.» patients",
    "WITH w («S»ELECT region FROM regions) SELECT COUNT(*) FROM w",
    "SELECT COUNT(*) AS é FROM patients AS «=»> WHERE age > 3",
    "SELECT COUNT(*, epsilon => 0.1) FROM patients WHERE LEAST(«,» 50) > age",
    "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 0.1)\nCOUNT(*) FROM patients WHERE LEAST(«,» 50) > age",
)


@pytest.mark.parametrize("marked", NO_SQL_OF_DUCKDB)
def test_what_only_sqlglot_reads_as_sql_is_refused(marked: str, connection: dpsql.Connection) -> None:
    """Each would be answered as something that nobody wrote, and charged."""
    sql = marked.replace("«", "").replace("»", "")
    for ask in (connection.execute, connection.explain):
        with pytest.raises(dpsql.ProgrammingError, match=r"^DP101: DuckDB does not read this as SQL: syntax") as caught:
            ask(sql)
        one_clear_error(str(caught.value), "DP101")
        assert caught.value.span == (at := marked.index("«"), at + 1)
    assert connection.budget.statements == 0


def test_what_only_sqlglot_reads_as_sql_is_no_fault_of_ours(
    connection: dpsql.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor where it is found in what was made of it; but where DuckDB reads the statement and not that, the fault is."""
    monkeypatch.delitem(forgiven._RULES, exp.Is)
    for sql in (
        "SELECT label IS 3 FROM regions",
        f"{COUNT} WHERE region IN (SELECT region FROM regions r WHERE r IS 3)",
    ):
        with pytest.raises(dpsql.ProgrammingError, match=r"^DP101: DuckDB does not read this as SQL: syntax"):
            connection.execute(sql)
    plain = session.second_check
    monkeypatch.setattr(session, "second_check", lambda text, *of: plain(f"{text} +", *of))
    with pytest.raises(dpsql.InternalError, match=r"^DP901"):
        connection.execute("SELECT label FROM regions")
    assert connection.budget.statements == 0


def test_a_number_longer_than_python_reads_is_refused(connection: dpsql.Connection) -> None:
    with pytest.raises((dpsql.ProgrammingError, dpsql.NotSupportedError)):
        connection.execute(f"{COUNT} WHERE age > 1{'1' * 5000}")


PARAMETERS: list[tuple[str, Any]] = [
    (f"{COUNT} WHERE age > ?", None),
    (f"{COUNT} WHERE age > ?", []),
    (f"{COUNT} WHERE age > ?", [1, 2]),
    (f"{COUNT} WHERE age > ?", {"a": 1}),
    (f"{COUNT}", [1]),
    (f"{COUNT} WHERE age > ?", [object()]),
    (f"{COUNT} WHERE age > ?", [b"x"]),
    (f"{COUNT} WHERE age > ?", [float("nan")]),
    (f"{COUNT} WHERE age > ?", [Decimal("Infinity")]),
    (f"{COUNT} WHERE age > ?", [10**400]),
    (f"{COUNT} WHERE age > ?", [[1]]),
    (f"{COUNT} WHERE age > ?", "x"),
    (f"{COUNT} WHERE age > ?", 5),
    (f"{COUNT} WHERE name = ?", ["\ud800"]),
    (f"{COUNT} WHERE name = ?", ["a\0b"]),
    (f"{COUNT} WHERE seen = ?", [datetime(2024, 1, 1, tzinfo=UTC)]),
    ("SHOW BUDGET", [1]),
]


def test_parameters_that_do_not_fit_are_refused(connection: dpsql.Connection) -> None:
    for sql, parameters in PARAMETERS:
        with pytest.raises(dpsql.InterfaceError) as caught:
            connection.execute(sql, parameters)
        one_clear_error(str(caught.value), "DP003")
    with pytest.raises(dpsql.NotSupportedError, match=r"^DP232: "):
        connection.execute(f"{COUNT} WHERE age > ?", ["forty"])
    with pytest.raises(dpsql.ProgrammingError, match=r"^DP1"):
        connection.execute("SELECT COUNT(*) FROM ?", ["patients"])
    assert connection.budget.statements == 0


def test_the_command_line_says_each_refusal_with_its_exit_code(
    clinic: Clinic, process: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = tmp_path / "all.sql"
    wrong = [sql for _, _, sql in STATEMENTS if isinstance(sql, str) and "\0" not in sql and "\ud800" not in sql]
    wrong = [sql for sql in wrong if ";" not in sql and sql.strip() and not sql.startswith(("--", "/*", "SELECT 'a"))]
    script.write_text(";\n".join(s for s in wrong if "\u00a0" not in s and "\u200b" not in s and "\u202e" not in s))
    done = process("run", "--policy", clinic.policy, "--database", clinic.database, "--keep-going", script)
    assert done.returncode == 3
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    several = ["run", "--policy", str(clinic.policy), "-c", "SELECT name FROM patients; SELECT 1"]
    assert main(several) == 3
    printed = capsys.readouterr()
    assert printed.out == ""
    one_clear_error(printed.err, "DP201")
    bytes_ = tmp_path / "bytes.sql"
    bytes_.write_bytes(b"SELECT '\xff\xfe'")
    assert main(["run", "--policy", str(clinic.policy), str(bytes_)]) == 3
    one_clear_error(capsys.readouterr().err, "DP101")


# ------------------------------------------------------------------------------------- policies, databases

POLICIES: list[tuple[str, Callable[[str], str], str]] = [
    ("unknown key", lambda text: text.replace("[unit]", "[unit]\ncolour = 3"), "colour"),
    ("missing bound", lambda text: text.replace("bounds = [0, 120]", "bounds = [0]"), "patients.columns.age"),
    ("missing limit", lambda text: text.replace("max_rows_per_unit = 3\n", "", 1), "max_rows_per_unit"),
    ("duplicate key", lambda text: text.replace("version = 1", "version = 1\nversion = 1"), "version"),
    ("duplicate column", lambda text: text.replace("name = {}\n", "name = {}\nNAME = {}\n", 1), "name"),
    (
        "bound beyond all",
        lambda text: text.replace("bounds = [0, 100]", "bounds = [0, 1e308]"),
        "patients.columns.cost",
    ),
    ("not TOML", lambda text: text + "\n[[[", ""),
]


@pytest.mark.parametrize(("change", "names"), [p[1:] for p in POLICIES], ids=[p[0] for p in POLICIES])
def test_a_wrong_policy_is_one_error(
    clinic: Clinic, capsys: pytest.CaptureFixture[str], change: Callable[[str], str], names: str
) -> None:
    before = clinic.policy.read_text()
    clinic.policy.write_text(change(before))
    assert clinic.policy.read_text() != before
    with pytest.raises(dpsql.PolicyError) as caught:
        dpsql.connect(clinic.policy, clinic.database)
    one_clear_error(str(caught.value), "DP301")
    assert names in str(caught.value)
    assert main(["run", "--policy", str(clinic.policy), "--database", str(clinic.database), "-c", COUNT]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    one_clear_error(printed.err, "DP301")
    assert not default_path().exists()


HOLD = """\
import sys, duckdb
connection = duckdb.connect(sys.argv[1])
print("open", flush=True)
sys.stdin.read()
"""


def test_databases_that_cannot_be_read(clinic: Clinic, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    empty, text, folder = tmp_path / "empty.duckdb", tmp_path / "text.duckdb", tmp_path / "folder.duckdb"
    empty.touch()
    text.write_text("these are not the rows you are looking for\n" * 100)
    folder.mkdir()
    other = tmp_path / "other.duckdb"
    with duckdb.connect(str(other)) as made:
        made.execute("CREATE TABLE patients (uid BIGINT)")
    cases = {
        tmp_path / "none.duckdb": "no such file",
        empty: "not a DuckDB",
        text: "not a DuckDB",
        folder: "not a file",
    }
    cases[other] = "no such column"
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(clinic.database)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "open\n"
        cases[clinic.database] = "open for writing elsewhere"
        for database, words in cases.items():
            with pytest.raises(dpsql.PolicyError) as caught:
                dpsql.connect(clinic.policy, database)
            one_clear_error(str(caught.value), "DP302")
            assert words in str(caught.value), database
            assert main(["run", "--policy", str(clinic.policy), "--database", str(database), "-c", COUNT]) == 2
            one_clear_error(capsys.readouterr().err, "DP302")
    finally:
        holder.communicate()
    assert not default_path().exists()
    dpsql.connect(clinic.policy, clinic.database).close()


# ----------------------------------------------------------------------------------------------- ledgers


def test_a_locked_ledger_is_one_error_after_a_while(
    connection: dpsql.Connection, clinic: Clinic, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(ledger_file, "BUSY_SECONDS", 0.2)
    locker = f"import sqlite3, sys; c = sqlite3.connect({str(default_path())!r}, isolation_level=None)\n"
    locker += "c.execute('BEGIN EXCLUSIVE'); print('held', flush=True); sys.stdin.read()"
    holder = subprocess.Popen([sys.executable, "-c", locker], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(dpsql.BudgetError) as caught:
            connection.execute(COUNT)
        one_clear_error(str(caught.value), "DP403")
        assert "locked by another process" in str(caught.value)
        assert main(["run", "--policy", str(clinic.policy), "-c", COUNT]) == 4
        one_clear_error(capsys.readouterr().err, "DP403")
    finally:
        holder.communicate()
    assert connection.budget.statements == 0
    connection.execute(COUNT)


def test_ledgers_that_cannot_be_used(clinic: Clinic, tmp_path: Path) -> None:
    given = tmp_path / "given.sqlite"
    dpsql.connect(clinic.policy, clinic.database, ledger=given).close()
    foreign, damaged, empty = tmp_path / "foreign.sqlite", tmp_path / "damaged.sqlite", tmp_path / "empty.sqlite"
    with closing(sqlite3.connect(foreign)) as other:
        other.execute("CREATE TABLE t (i)")
    damaged.write_bytes(b"no ledger at all" * 1000)
    empty.touch()
    for path in (foreign, damaged, empty, tmp_path, Path("/dev/null"), tmp_path / "a\0b"):
        with pytest.raises(dpsql.BudgetError) as caught:
            dpsql.connect(clinic.policy, clinic.database, ledger=path)
        one_clear_error(str(caught.value), "DP403")


def test_a_ledger_that_becomes_read_only(clinic: Clinic, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever runs the tests as root can write everything, so the system's answer is given here."""
    given = tmp_path / "given.sqlite"
    dpsql.connect(clinic.policy, clinic.database, ledger=given).close()
    monkeypatch.setattr(os, "access", lambda _, mode: not mode & os.W_OK)
    with pytest.raises(dpsql.BudgetError, match=r"^DP403: .* cannot be written: it or its folder is read-only"):
        dpsql.connect(clinic.policy, clinic.database, ledger=given)


def test_misuse_of_connect(clinic: Clinic, tmp_path: Path) -> None:
    with pytest.raises(dpsql.ProgrammingError, match=r"^DP120: "):
        dpsql.connect(clinic.policy, clinic.database, prepare="never")
    with pytest.raises(dpsql.PolicyError, match=r"^DP305: "):
        dpsql.connect(clinic.policy, prepare="required")
    with pytest.raises(dpsql.PolicyError, match=r"^DP305: "):
        dpsql.connect(clinic.policy)
    with pytest.raises(dpsql.PolicyError, match=r"^DP301: "):
        dpsql.connect(tmp_path / "none.toml", clinic.database)
    with pytest.raises(dpsql.BudgetError, match=r"^DP406: this policy has one budget for all analysts"):
        dpsql.connect(clinic.policy, clinic.database, analyst="somebody")
    connection = dpsql.connect(clinic.policy, clinic.database)
    connection.close()
    connection.close()
    with pytest.raises(dpsql.InterfaceError, match=r"^DP001: "):
        connection.execute(COUNT)


def test_a_connection_used_from_another_thread_answers_or_refuses(connection: dpsql.Connection) -> None:
    said: list[object] = []

    def ask() -> None:
        try:
            said.append(connection.execute(COUNT).fetchall())
        except dpsql.Error as error:
            said.append(error)

    thread = threading.Thread(target=ask)
    thread.start()
    thread.join()
    assert len(said) == 1
