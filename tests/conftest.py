"""Fixtures for every test: a home of its own, a small awkward database with its policy, TPC-H, DuckDB on one thread."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pytest
from filelock import FileLock
from hypothesis import HealthCheck, settings

from bench import data as tpch_data
from dpsql.session import Session, open_session

ROOT = Path(__file__).resolve().parent.parent

# A shared machine is slow now and then: time is pytest-timeout's business. Examples are the same on every run, so a
# red build is red again on the next one; `make audit` looks further.
settings.register_profile("house", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("audit", settings.get_profile("house"), derandomize=False, max_examples=5000)
settings.load_profile("house")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Here rather than in compile/: pytest reads options from the outermost conftest only."""
    parser.addoption("--update", action="store_true", help="rewrite the golden files with what is true now")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("markexpr") == "audit":
        settings.load_profile("audit")


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> Iterator[None]:
    """DuckDB on one thread where a test does not say otherwise: two workers already fill two cores."""
    plain = duckdb.connect

    def connect(
        database: str | Path = ":memory:", read_only: bool = False, config: dict[str, Any] | None = None
    ) -> duckdb.DuckDBPyConnection:
        return plain(database, read_only, {"threads": 1, **(config or {})})

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(duckdb, "connect", connect)
        patch.setattr(os, "cpu_count", lambda: 1)  # what dpsql's own engines go by
        yield


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The test's own home, in force for child processes too: no test reaches a person's budget or snapshots."""
    folder = tmp_path / "home"
    for variable, name in (("STATE", "state"), ("CACHE", "cache"), ("CONFIG", "config"), ("DATA", "data")):
        monkeypatch.setenv(f"XDG_{variable}_HOME", str(folder / name))
    monkeypatch.setenv("HOME", str(folder))
    return folder


@pytest.fixture
def hears_ctrl_c() -> Iterator[None]:
    """SIGINT as on a terminal, also where the tests run in the background and ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


# ------------------------------------------------------------------------------------------------------- clinic


@dataclass(frozen=True, slots=True)
class Clinic:
    """A DuckDB file and the policy that goes with it."""

    database: Path
    policy: Path


CLINIC_POLICY = """\
version = 1

[unit]
name = "patient"

[budget]
account = "{account}"
epsilon = "{epsilon}"
delta = "0"
per_query_epsilon = "{per_query_epsilon}"
max_query_epsilon = "{max_query_epsilon}"

[tables.patients]
unit = "uid"
max_rows_per_unit = 3
max_groups_per_unit = 1

[tables.patients.columns]
uid = {{}}
name = {{}}
age = {{ bounds = [0, 120] }}
region = {{ references = "regions.region" }}
cost = {{ bounds = [0, 100] }}
seen = {{}}

[tables.visits]
unit = "uid"
key = ["visit_id"]
max_rows_per_unit = 3
max_groups_per_unit = 1

[tables.visits.columns]
visit_id = {{}}
uid = {{}}
clinic = {{}}
fee = {{ bounds = [0, 50] }}
ts = {{}}

[tables.regions]
public = true
key = ["region"]

[tables.regions.columns]
region = {{}}
label = {{}}
"""

# 200 patients in 8 regions. Awkward on purpose: a patient of two rows, NULL units, regions that no table knows, values
# out of bounds, NaN and both infinities, a visit number that two patients share, a patient with 40 visits.
CLINIC_DATA = """\
CREATE TABLE regions(region VARCHAR, label VARCHAR);
INSERT INTO regions SELECT 'R' || i, 'Region ' || i FROM range(1, 9) t(i);
CREATE TABLE patients(uid BIGINT, name VARCHAR, age INTEGER, region VARCHAR, cost DOUBLE, seen DATE);
INSERT INTO patients
SELECT i, 'name-' || i, (i * 37) % 95, 'R' || (1 + i * 5 % 8), (i * 7919 % 10000) / 100.0,
    DATE '2024-01-01' + i::INTEGER
FROM range(1, 201) t(i);
INSERT INTO patients VALUES
    (1, 'name-1', 38, 'R2', 12.5, '2024-06-01'),
    (NULL, 'nobody', 40, 'R1', 10, '2024-06-02'),
    (NULL, 'nobody', 41, 'R1', 10, '2024-06-02'),
    (201, 'nan', 50, 'R3', 'nan', '2024-06-03'),
    (202, 'infinite', 500, 'R4', 'inf', '2024-06-04'),
    (203, 'minus infinite', -7, 'R5', '-inf', NULL),
    (204, 'huge', NULL, 'R9', 1e308, '2024-06-05'),
    (205, NULL, 30, NULL, NULL, '2024-06-06');
CREATE TABLE visits(visit_id BIGINT, uid BIGINT, clinic VARCHAR, fee DECIMAL(10,2), ts TIMESTAMP);
INSERT INTO visits
SELECT i, 1 + i % 200, 'clinic-' || (i % 5), (i * 613 % 6000) / 100,
    TIMESTAMP '2024-01-01 08:00:00' + to_hours(i::INTEGER)
FROM range(1, 501) t(i);
INSERT INTO visits SELECT 1000 + i, 7, 'clinic-9', 20, TIMESTAMP '2024-03-01 08:00:00' FROM range(40) t(i);
INSERT INTO visits VALUES
    (1, 150, 'clinic-1', 10, '2024-04-01 08:00:00'),
    (2000, NULL, 'clinic-1', 10, '2024-04-01 08:00:00'),
    (2001, 999, 'clinic-2', 9999, NULL),
    (2002, 12, NULL, NULL, '2024-04-02 08:00:00');
"""


@pytest.fixture(scope="session")
def clinic_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The clinic's file, made once: whoever changes it takes a copy."""
    path = tmp_path_factory.mktemp("clinic") / "clinic.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute(CLINIC_DATA)
    return path


@pytest.fixture
def make_clinic(tmp_path: Path, clinic_database: Path) -> Callable[..., Clinic]:
    """Builds a clinic under a budget of the test's choice (amounts as strings); each has files of its own."""
    made = 0

    def make(
        *,
        account: str = "clinic",
        epsilon: str = "1000",
        per_query_epsilon: str = "1",
        max_query_epsilon: str = "1000",
    ) -> Clinic:
        nonlocal made
        made += 1
        clinic = Clinic(tmp_path / f"clinic-{made}.duckdb", tmp_path / f"clinic-{made}.toml")
        clinic.policy.write_text(
            CLINIC_POLICY.format(
                account=account,
                epsilon=epsilon,
                per_query_epsilon=per_query_epsilon,
                max_query_epsilon=max_query_epsilon,
            ),
            encoding="utf-8",
        )
        shutil.copy(clinic_database, clinic.database)
        return clinic

    return make


@pytest.fixture(scope="module")
def clinic_session(tmp_path_factory: pytest.TempPathFactory, clinic_database: Path) -> Iterator[Session]:
    """The clinic, opened once for a file whose tests leave nothing behind that another one sees."""
    folder = tmp_path_factory.mktemp("opened")
    amounts = {"epsilon": "1000", "per_query_epsilon": "1", "max_query_epsilon": "1000"}
    (folder / "clinic.toml").write_text(CLINIC_POLICY.format(account="clinic", **amounts), encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        for variable in ("STATE", "CACHE"):
            patch.setenv(f"XDG_{variable}_HOME", str(folder / variable))
        with closing(open_session(folder / "clinic.toml", clinic_database)) as opened:
            yield opened


@pytest.fixture
def clinic(make_clinic: Callable[..., Clinic]) -> Clinic:
    """The clinic under a budget that no test exhausts."""
    return make_clinic()


# -------------------------------------------------------------------------------------------------------- tpch


@pytest.fixture(scope="session")
def tpch() -> Path:
    """TPC-H at scale 0.01 as a DuckDB file, kept between runs. Open it read only: all tests and workers share it."""
    target = ROOT / "build" / "tpch-0.01.duckdb"
    target.parent.mkdir(exist_ok=True)
    with FileLock(f"{target}.lock"):
        tpch_data.build("0.01", target)
    os.chmod(target, 0o444)
    return target
