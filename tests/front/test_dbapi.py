"""PEP 249, point by point, and what dpsql adds to it."""

from __future__ import annotations

import subprocess
import sys
import threading
import tomllib
from datetime import date, datetime, time
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import dpsql
from dpsql import Connection
from dpsql.answer import ColumnReceipt
from tests.front import fake_session
from tests.front.terminal import hear_ctrl_c
from tests.patience import PATIENCE

DEPARTMENTS = "SELECT department, households FROM sales"
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def connection(fake: object) -> Connection:
    return dpsql.connect("shop.toml")


def session_of(connection: Connection) -> fake_session.Session:
    return connection._session  # type: ignore[return-value]


# ------------------------------------------------------------------------------------------------ the module


def test_the_globals_that_pep_249_asks_for() -> None:
    assert (dpsql.apilevel, dpsql.threadsafety, dpsql.paramstyle) == ("2.0", 1, "qmark")


def test_the_exceptions_stand_in_the_tree_of_pep_249() -> None:
    assert issubclass(dpsql.Warning, Exception)
    assert issubclass(dpsql.Error, Exception)
    assert issubclass(dpsql.InterfaceError, dpsql.Error)
    assert issubclass(dpsql.DatabaseError, dpsql.Error)
    for name in ("Data", "Operational", "Integrity", "Internal", "Programming", "NotSupported"):
        assert issubclass(getattr(dpsql, f"{name}Error"), dpsql.DatabaseError)
    assert issubclass(dpsql.PolicyError, dpsql.ProgrammingError)
    assert issubclass(dpsql.BudgetError, dpsql.OperationalError)


def test_a_connection_carries_the_exceptions() -> None:
    names = [
        n for n in dpsql.__all__ if isinstance(getattr(dpsql, n), type) and issubclass(getattr(dpsql, n), Exception)
    ]
    assert len(names) == 12
    assert [getattr(Connection, name) for name in names] == [getattr(dpsql, name) for name in names]


def test_all_lists_the_public_names_and_no_other() -> None:
    import types

    public = {n for n, v in vars(dpsql).items() if not n.startswith("_") and not isinstance(v, types.ModuleType)}
    assert set(dpsql.__all__) == public | {"__version__"}


def test_the_version_is_the_project_files() -> None:
    with (ROOT / "pyproject.toml").open("rb") as file:
        assert tomllib.load(file)["project"]["version"] == dpsql.__version__


def test_importing_dpsql_loads_nothing_heavy() -> None:
    heavy = "duckdb", "pyarrow", "numpy", "sqlglot", "prompt_toolkit"
    code = f"import dpsql, sys; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_the_constructors() -> None:
    assert dpsql.Date(2024, 2, 29) == date(2024, 2, 29)
    assert dpsql.Time(12, 30, 0) == time(12, 30)
    assert dpsql.Timestamp(2024, 2, 29, 12, 30, 0) == datetime(2024, 2, 29, 12, 30)
    assert dpsql.Binary(b"x") == b"x"
    ticks = datetime(2024, 2, 29, 12, 30).timestamp()
    assert dpsql.DateFromTicks(ticks) == date(2024, 2, 29)
    assert dpsql.TimeFromTicks(ticks) == time(12, 30)
    assert dpsql.TimestampFromTicks(ticks) == datetime(2024, 2, 29, 12, 30)


def test_each_type_code_equals_one_type_object(connection: Connection) -> None:
    description = connection.execute("SELECT public").description or []
    kinds = (dpsql.STRING, dpsql.BINARY, dpsql.NUMBER, dpsql.DATETIME, dpsql.ROWID)
    found = [[kind.name for kind in kinds if column[1] == kind] for column in description]
    assert found == [["NUMBER"]] * 4 + [["STRING"], ["NUMBER"], ["DATETIME"], ["DATETIME"]]
    assert dpsql.NUMBER != dpsql.STRING
    assert dpsql.NUMBER == dpsql.NUMBER


# ------------------------------------------------------------------------------------------------ connections


def test_connect_hands_everything_to_the_session(fake: object) -> None:
    dpsql.connect("p.toml", "d.duckdb", ledger="l", analyst="a", prepare="required")
    assert fake_session.calls == [
        {"policy": "p.toml", "database": "d.duckdb", "ledger": "l", "analyst": "a", "prepare": "required"}
    ]


def test_a_connection_closes_once_and_says_so_afterwards(connection: Connection) -> None:
    session, cursor = session_of(connection), connection.cursor()
    connection.close()
    connection.close()
    assert session.closed
    uses = (
        connection.cursor,
        connection.commit,
        connection.rollback,
        connection.cancel,
        connection.__enter__,
        lambda: connection.execute(DEPARTMENTS),
        lambda: connection.executescript(DEPARTMENTS),
        lambda: connection.explain(DEPARTMENTS),
        lambda: connection.budget,
        lambda: cursor.execute(DEPARTMENTS),
        cursor.fetchone,
    )
    for use in uses:
        with pytest.raises(dpsql.InterfaceError, match=r"^DP001: the connection is closed"):
            use()


def test_a_with_block_closes_the_connection(connection: Connection) -> None:
    session = session_of(connection)
    with connection as entered:
        assert entered is connection
    assert session.closed


def test_commit_and_rollback_change_no_budget(connection: Connection) -> None:
    connection.execute(DEPARTMENTS)
    connection.commit()
    connection.rollback()
    assert connection.budget.remaining_epsilon == Fraction(11, 4)


def test_explain_is_free(connection: Connection) -> None:
    assert connection.explain(DEPARTMENTS, [1]).startswith("Release")
    assert connection.budget.spent_epsilon == 0


def test_a_script_gives_a_cursor_for_each_statement(connection: Connection) -> None:
    cursors = connection.executescript(f"SET epsilon = 1; {DEPARTMENTS}; SELECT public")
    assert [cursor.rowcount for cursor in cursors] == [0, 3, 2]


def test_a_script_stops_at_its_first_error(connection: Connection) -> None:
    with pytest.raises(dpsql.NotSupportedError, match=r"statement:2:8"):
        connection.executescript(f"SELECT public;\nSELECT JOIN; {DEPARTMENTS}")
    assert [text for text, _ in session_of(connection).executed] == ["SELECT public", "SELECT JOIN"]


def test_another_thread_may_cancel(connection: Connection) -> None:
    fake_session.slow.clear()
    other = threading.Thread(target=lambda: (fake_session.slow.wait(), connection.cancel()))
    other.start()
    with pytest.raises(dpsql.OperationalError, match=r"^DP501"):
        connection.execute("SELECT slowly")
    other.join()


INTERRUPTED = """\
import os, signal, sys, threading
import dpsql
from tests.front import fake_session

sys.modules["dpsql.session"] = fake_session
connection = dpsql.connect("shop.toml")
threading.Thread(target=lambda: (fake_session.slow.wait(), os.kill(os.getpid(), signal.SIGINT))).start()
try:
    connection.execute("SELECT slowly")
except KeyboardInterrupt:
    print(connection.budget.spent_epsilon)
print(connection.execute("SELECT public").rowcount, signal.getsignal(signal.SIGINT) is signal.default_int_handler)
"""


def test_ctrl_c_stops_the_engine_and_is_raised_as_ever() -> None:
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        timeout=PATIENCE,
        preexec_fn=hear_ctrl_c,
    )
    assert (done.stdout, done.stderr) == ("1/4\n2 True\n", "")


# ---------------------------------------------------------------------------------------------------- cursors


def test_execute_returns_the_cursor(connection: Connection) -> None:
    cursor = connection.cursor()
    assert cursor.execute(DEPARTMENTS) is cursor
    assert cursor.connection is connection


def test_before_execute_there_is_nothing(connection: Connection) -> None:
    cursor = connection.cursor()
    assert (cursor.description, cursor.rowcount, cursor.receipt, cursor.arraysize) == (None, -1, None, 1)
    for use in (cursor.fetchone, cursor.fetchmany, cursor.fetchall, cursor.to_arrow, lambda: cursor.half_widths):
        with pytest.raises(dpsql.InterfaceError, match=r"^DP002"):
            use()
    with pytest.raises(dpsql.InterfaceError, match=r"^DP002"):
        next(cursor)
    assert cursor._repr_html_() == "<em>no result</em>"


def test_the_description(connection: Connection) -> None:
    assert connection.execute("SELECT public").description == [
        ("i", "BIGINT", None, None, None, None, None),
        ("d", "DECIMAL", None, None, 10, 2, None),
        ("h", "HUGEINT", None, None, 38, 0, None),
        ("f", "DOUBLE", None, None, None, None, None),
        ("s", "VARCHAR", None, None, None, None, None),
        ("b", "BOOLEAN", None, None, None, None, None),
        ("day", "DATE", None, None, None, None, None),
        ("ts", "TIMESTAMP", None, None, None, None, None),
    ]


def test_values_are_pythons_own(connection: Connection) -> None:
    first, second = connection.execute("SELECT public").fetchall()
    assert first == (
        1,
        Decimal("1.50"),
        2**100,
        0.5,
        "text",
        True,
        date(2024, 2, 29),
        datetime(2024, 2, 29, 12, 30),
    )
    assert [type(v) for v in first] == [int, Decimal, int, float, str, bool, date, datetime]
    assert second == (None,) * 8


def test_fetching_in_pieces(connection: Connection) -> None:
    cursor = connection.execute("SELECT many")
    assert cursor.rowcount == 1000
    assert cursor.fetchone() == (0,)
    assert cursor.fetchmany() == [(1,)]
    cursor.arraysize = 3
    assert cursor.fetchmany() == [(2,), (3,), (4,)]
    assert cursor.fetchmany(2) == [(5,), (6,)]
    assert next(cursor) == (7,)
    assert len(list(cursor)) == 992
    assert cursor.fetchone() is None
    assert cursor.fetchmany(5) == []
    with pytest.raises(dpsql.InterfaceError, match="DP002: fetchmany takes a number of rows"):
        cursor.fetchmany(-1)
    assert cursor.fetchall() == []


def test_a_failed_statement_leaves_no_old_result(connection: Connection) -> None:
    cursor = connection.execute(DEPARTMENTS)
    with pytest.raises(dpsql.NotSupportedError):
        cursor.execute("SELECT JOIN")
    assert cursor.description is None
    with pytest.raises(dpsql.InterfaceError, match=r"^DP002"):
        cursor.fetchall()


def test_a_closed_cursor_says_so(connection: Connection) -> None:
    cursor = connection.execute(DEPARTMENTS)
    cursor.close()
    for use in (lambda: cursor.execute(DEPARTMENTS), cursor.fetchone, cursor.fetchall, cursor.to_arrow):
        with pytest.raises(dpsql.InterfaceError, match=r"^DP001: the cursor is closed"):
            use()
    with connection.execute(DEPARTMENTS) as other:
        assert other.fetchone() == ("GROCERY", 2401)
    with pytest.raises(dpsql.InterfaceError, match=r"^DP001"):
        other.fetchone()


def test_the_sizes_of_pep_249_are_accepted(connection: Connection) -> None:
    cursor = connection.cursor()
    cursor.setinputsizes([None, 10])
    cursor.setoutputsize(100)
    cursor.setoutputsize(100, 1)
    assert cursor.execute(DEPARTMENTS).rowcount == 3


def test_parameters_by_position_and_by_name(connection: Connection) -> None:
    connection.execute(DEPARTMENTS + " WHERE a = ?", [1])
    connection.execute(DEPARTMENTS + " WHERE a = $a", {"a": date(2024, 1, 1)})
    assert [given for _, given in session_of(connection).executed] == [(1,), {"a": date(2024, 1, 1)}]


@pytest.mark.parametrize("parameters", ["text", b"bytes", 5])
def test_what_is_no_sequence_of_parameters(connection: Connection, parameters: object) -> None:
    with pytest.raises(dpsql.InterfaceError, match=r"^DP003"):
        connection.execute(DEPARTMENTS, parameters)  # type: ignore[arg-type]
    assert session_of(connection).executed == []


def test_executemany_charges_each_and_keeps_every_row(connection: Connection) -> None:
    cursor = connection.cursor()
    cursor.executemany(DEPARTMENTS + " WHERE a = ?", iter([(1,)]))
    assert connection.budget.spent_epsilon == Fraction(1, 4)
    session_of(connection).seen.clear()
    cursor.executemany(DEPARTMENTS + " WHERE a = ?", [(1,), (2,)])
    assert cursor.rowcount == len(cursor.fetchall()) == 6
    assert cursor.half_widths == [None, [14.0] * 6]
    assert cursor.receipt is not None
    assert (cursor.receipt.epsilon, cursor.receipt.remaining_epsilon) == (Fraction(1, 4), Fraction(5, 2))


def test_no_foreign_exception_leaves(connection: Connection) -> None:
    """Whoever calls from Python can hand over anything."""
    cursor = connection.cursor()
    for given in (None, 5, "ab", [5], ["ab"]):
        with pytest.raises(dpsql.InterfaceError, match=r"^DP003: parameters come as a sequence"):
            cursor.executemany(DEPARTMENTS, given)
    assert connection.budget.spent_epsilon == 0
    assert len(cursor.execute(DEPARTMENTS).fetchmany(10**30)) == 3


def test_executemany_of_nothing(connection: Connection) -> None:
    cursor = connection.cursor()
    cursor.executemany(DEPARTMENTS, [])
    assert (cursor.rowcount, cursor.description) == (-1, None)


# --------------------------------------------------------------------------------------------- what dpsql adds


def test_the_receipt_and_half_widths(connection: Connection) -> None:
    cursor = connection.execute(DEPARTMENTS)
    assert cursor.half_widths == [None, [14.0, 14.0, 14.0]]
    assert cursor.receipt is not None
    assert cursor.receipt.epsilon == Fraction(1, 4)
    assert cursor.receipt.remaining_epsilon == Fraction(11, 4)
    assert cursor.receipt.columns == (ColumnReceipt("households", "discrete Laplace", Fraction(1, 4), 4.0, 14.0),)
    assert connection.execute("SELECT public").half_widths == [None] * 8
    assert connection.execute("SET epsilon = 1").receipt is None


def test_whole_results(connection: Connection) -> None:
    cursor = connection.execute(DEPARTMENTS)
    cursor.fetchall()
    assert cursor.to_arrow().column_names == ["department", "households"]
    assert cursor.to_arrow().num_rows == 3


@pytest.mark.parametrize(("package", "method"), [("pandas", "to_pandas"), ("polars", "to_polars")])
def test_a_missing_package_is_named(
    connection: Connection, monkeypatch: pytest.MonkeyPatch, package: str, method: str
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    cursor = connection.execute(DEPARTMENTS)
    with pytest.raises(
        dpsql.InterfaceError, match=rf"{method}\(\) needs the package {package}(.|\n)*pip install {package}"
    ):
        getattr(cursor, method)()


@pytest.mark.parametrize(("package", "method"), [("pandas", "to_pandas"), ("polars", "to_polars")])
def test_what_a_package_cannot_hold_is_no_fault(
    connection: Connection, monkeypatch: pytest.MonkeyPatch, package: str, method: str
) -> None:
    """Their own words quote values."""
    cursor = connection.execute(DEPARTMENTS)

    class Table:
        def to_pandas(self) -> None:
            raise OverflowError("GROCERY")

    monkeypatch.setitem(sys.modules, package, SimpleNamespace(from_arrow=lambda table: table.to_pandas()))
    monkeypatch.setattr(cursor, "to_arrow", Table)
    with pytest.raises(dpsql.InterfaceError, match=r"^DP002: (pandas|Polars) cannot hold all of this") as caught:
        getattr(cursor, method)()
    assert caught.value.__cause__ is caught.value.__context__ is None


def test_html_for_notebooks(connection: Connection) -> None:
    text = connection.execute(DEPARTMENTS)._repr_html_()
    assert text == (
        "<table><thead><tr><th>department</th><th>households</th></tr></thead><tbody>"
        '<tr><td style="text-align: left">GROCERY</td><td style="text-align: right">2401 ± 14</td></tr>'
        '<tr><td style="text-align: left">DRUG GM</td><td style="text-align: right">1136 ± 14</td></tr>'
        '<tr><td style="text-align: left">NULL</td><td style="text-align: right">7 ± 14</td></tr></tbody></table>'
        "<p>3 rows · cost ε = 0.25 · left ε = 2.75 of 3 · ± is the half-width of the 95 % interval</p>"
    )
    assert "<script>" not in connection.execute("SELECT nasty")._repr_html_()
    assert "the first 100 shown" in connection.execute("SELECT many")._repr_html_()


def test_errors_start_with_their_code_and_show_the_place(connection: Connection) -> None:
    with pytest.raises(dpsql.NotSupportedError) as caught:
        connection.execute("SELECT JOIN")
    assert str(caught.value) == (
        "DP210: a join of two private tables must also match the privacy unit\n"
        "  --> statement:1:8\n"
        "1 | SELECT JOIN\n"
        "  |        ^^^^\n"
        "  = help: add `AND t.household_id = r.household_id`"
    )


def test_a_foreign_exception_leaves_nothing_behind(connection: Connection) -> None:
    """Neither words nor frames: `__context__` would lead to locals that hold rows."""
    with pytest.raises(dpsql.InternalError, match=r"^DP901") as caught:
        connection.execute("SELECT crash")
    assert fake_session.PRIVATE_DETAIL not in str(caught.value)
    assert caught.value.__context__ is None
    assert caught.value.__cause__ is None


def test_opening_fails_in_our_words_too(fake: object) -> None:
    with pytest.raises(dpsql.PolicyError, match=r"^DP301"):
        dpsql.connect("broken.toml")
    with pytest.raises(dpsql.InternalError, match=r"^DP901") as caught:
        dpsql.connect("crash.toml")
    assert fake_session.PRIVATE_DETAIL not in str(caught.value)


def test_connect_prints_nothing(fake: object, capfd: pytest.CaptureFixture[str]) -> None:
    dpsql.connect("shop.toml").execute(DEPARTMENTS).fetchall()
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("given", [{"policy": 3}, {"policy": None}, {"database": 3}, {"ledger": 3}, {"analyst": 3}])
def test_connect_says_which_argument_is_wrong(given: dict[str, Any]) -> None:
    arguments: dict[str, Any] = {"policy": "no.toml"} | given
    with pytest.raises(dpsql.InterfaceError, match=f"DP003: {next(iter(given))} is "):
        dpsql.connect(**arguments)
