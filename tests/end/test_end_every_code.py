"""Every code in its own words: the codes that no statement's form gives, provoked one by one (`errors.golden`).

Codes of syntax, names and form have golden files in `tests/compile/golden`. `--update` writes what is said now.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

import dpsql
from dpsql.errors import CODES, Error
from dpsql.privacy import sensitivity
from dpsql.privacy.sensitivity import Norms
from dpsql.vault.duckdb import DuckDBEngine
from dpsql.vault.engine import EngineFailure
from tests.conftest import Clinic

GOLDEN = Path(__file__).parent / "errors.golden"
FORMS = Path(__file__).parent.parent / "compile" / "golden"
COUNT = "SELECT COUNT(*) FROM patients"

Make = Callable[..., Clinic]
Provoke = Callable[[Make, Path, pytest.MonkeyPatch], None]


def connect(clinic: Clinic, **more: object) -> dpsql.Connection:
    return dpsql.connect(clinic.policy, clinic.database, **more)  # type: ignore[arg-type]


def closed(make: Make, folder: Path, patch: pytest.MonkeyPatch) -> None:
    connection = connect(make())
    connection.close()
    connection.execute(COUNT)


def nothing_to_fetch(make: Make, folder: Path, patch: pytest.MonkeyPatch) -> None:
    with connect(make()) as connection:
        connection.cursor().fetchall()


def no_parameter(make: Make, folder: Path, patch: pytest.MonkeyPatch) -> None:
    with connect(make()) as connection:
        connection.execute(f"{COUNT} WHERE age > ?")


def bad_policy(make: Make, folder: Path, patch: pytest.MonkeyPatch) -> None:
    clinic = make()
    clinic.policy.write_text(clinic.policy.read_text().replace("max_rows_per_unit", "max_row_per_unit", 1))
    connect(clinic)


def no_database(make: Make, folder: Path, patch: pytest.MonkeyPatch) -> None:
    dpsql.connect(make().policy, folder / "missing.duckdb")


def snapshot_fails(make: Make, folder: Path, patch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("row 7 says Ann")

    patch.setattr("dpsql.vault.snapshot.make_tables", fail)
    connect(make())


def other_policy(make: Make, folder: Path, patch: pytest.MonkeyPatch) -> None:
    clinic = make()
    connect(clinic).close()
    clinic.policy.write_text(clinic.policy.read_text().replace("bounds = [0, 120]", "bounds = [0, 100]"))
    connect(clinic)


def no_snapshot(make: Make, folder: Path, patch: pytest.MonkeyPatch) -> None:
    connect(make(), prepare="required")


def exhausted(make: Make, folder: Path, patch: pytest.MonkeyPatch) -> None:
    with connect(make(epsilon="1", per_query_epsilon="0.75", max_query_epsilon="1")) as connection:
        connection.execute(COUNT)
        connection.execute(f"{COUNT} WHERE age > 1")


def too_much_at_once(make: Make, folder: Path, patch: pytest.MonkeyPatch) -> None:
    with connect(make(epsilon="2", max_query_epsilon="1")) as connection:
        connection.execute("SET epsilon = 1.5")


def no_ledger(make: Make, folder: Path, patch: pytest.MonkeyPatch) -> None:
    ledger = folder / "ledger.sqlite"
    with closing(sqlite3.connect(ledger)) as other:
        other.execute("CREATE TABLE t(x)")
    connect(make(), ledger=ledger)


def other_terms(make: Make, folder: Path, patch: pytest.MonkeyPatch) -> None:
    clinic = make()
    connect(clinic).close()
    clinic.policy.write_text(clinic.policy.read_text().replace('name = "patient"', 'name = "person"'))
    connect(clinic)


def failing(patch: pytest.MonkeyPatch) -> None:
    def fail(self: DuckDBEngine, *_: object) -> None:
        raise EngineFailure("Could not convert string 'Ann' to INT32")

    patch.setattr(DuckDBEngine, "run", fail)


def engine_fails(make: Make, folder: Path, patch: pytest.MonkeyPatch) -> None:
    with connect(make()) as connection:
        failing(patch)
        connection.execute(COUNT)


def frozen(make: Make, folder: Path, patch: pytest.MonkeyPatch) -> None:
    with connect(make()) as connection:
        failing(patch)
        for n in range(3):
            with pytest.raises(dpsql.OperationalError, match=r"^DP501"):
                connection.execute(f"{COUNT} WHERE age > {n}")
        connection.execute(f"{COUNT} WHERE age > 9")


def nobody_asks(make: Make, folder: Path, patch: pytest.MonkeyPatch) -> None:
    clinic = make()
    apart = 'delta = "0"\nper_analyst = true\njoint_epsilon = "1000"'
    clinic.policy.write_text(clinic.policy.read_text().replace('delta = "0"', apart, 1))
    connect(clinic)


def wrong_outside(make: Make, folder: Path, patch: pytest.MonkeyPatch) -> None:
    with connect(make()) as connection:
        connection.execute("SELECT COUNT(*) FROM patients LIMIT -1")


def our_fault(make: Make, folder: Path, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(sensitivity, "of_rows", lambda *_: Norms(1, 1, 1, 1))
    with connect(make()) as connection:
        connection.execute("SELECT COUNT(*) FROM visits")


PROVOKED: dict[str, Provoke] = {
    "DP001": closed,
    "DP002": nothing_to_fetch,
    "DP003": no_parameter,
    "DP301": bad_policy,
    "DP302": no_database,
    "DP303": snapshot_fails,
    "DP304": other_policy,
    "DP305": no_snapshot,
    "DP401": exhausted,
    "DP402": too_much_at_once,
    "DP403": no_ledger,
    "DP404": other_terms,
    "DP405": frozen,
    "DP406": nobody_asks,
    "DP501": engine_fails,
    "DP502": wrong_outside,
    "DP901": our_fault,
}


def test_every_code_says_what_its_golden_file_says(
    make_clinic: Make, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    said = []
    for n, (code, provoke) in enumerate(PROVOKED.items()):
        account, folder = f"account-{n}", tmp_path / f"{n}"
        folder.mkdir()
        with pytest.MonkeyPatch.context() as patch, pytest.raises(Error) as caught:
            provoke(lambda account=account, **more: make_clinic(account=account, **more), folder, patch)
        assert caught.value.code == code
        words = str(caught.value).replace(str(folder), "FOLDER").replace(str(tmp_path), "FOLDER")
        said.append(words.replace(account, "ACCOUNT").replace(f"clinic-{n + 1}", "clinic"))
    text = "\n====\n".join(said) + "\n"
    if request.config.getoption("--update"):
        GOLDEN.write_text(text, encoding="utf-8")
    assert text == GOLDEN.read_text(encoding="utf-8")
    assert "Ann" not in text


def test_no_code_is_without_a_golden_file() -> None:
    forms = "\n".join(path.read_text(encoding="utf-8") for path in FORMS.glob("*.test"))
    assert [code for code in CODES if code not in PROVOKED and f"\n{code}: " not in forms] == []
