"""Locked engines: what they can read, and everything they cannot do."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from sqlglot import exp, parse_one

from dpsql.compile.projection import projection
from dpsql.policy.model import USUAL_LIMITS
from dpsql.releases import projected
from dpsql.vault.engine import EngineFailure
from dpsql.vault.open import Engines, open_engines
from dpsql.vault.snapshot import Snapshot, prepare
from tests.patience import until
from tests.vault.kit import column, policy, table

SLOW = "SELECT count(*) FROM range(10000000) a(i), range(10000000) b(j) WHERE (i * j) % 7 = 3"
"""Hours of work without a table."""


@pytest.fixture(scope="module")
def snapshot(tmp_path_factory: pytest.TempPathFactory) -> Snapshot:
    folder = tmp_path_factory.mktemp("engines")
    database = folder / "owner.duckdb"
    with duckdb.connect(str(database)) as connection:
        connection.execute(
            """CREATE TABLE people AS SELECT i AS uid, 'name ' || i AS name, i::DOUBLE AS x FROM range(1000) r(i);
            CREATE SCHEMA s; CREATE TABLE s.places AS SELECT i AS place, 'place ' || i AS label FROM range(9) r(i)"""
        )
    made = policy(
        table("people", ["uid", "name", column("x", (0, 10))], "uid"),
        table("s.places", ["place", "label"], key=("place",)),
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
        return prepare(made, database)[0]


@pytest.fixture(scope="module")
def engines(snapshot: Snapshot) -> Iterator[Engines]:
    """Shared: no statement changes an engine, which is what most of these tests say."""
    opened = open_engines(snapshot, threads=1)
    yield opened
    opened.close()


def test_tables_are_catalog_and_name(engines: Engines) -> None:
    joined = (
        'SELECT count(*) AS n FROM priv."people" AS p JOIN pub."s.places" AS q ON p.uid = q.place WHERE "$rank" = 1'
    )
    assert engines.private.run(joined).to_pylist() == [{"n": 9}]
    assert engines.outer.run('SELECT max("label") AS m FROM pub."s.places"').to_pylist() == [{"m": "place 8"}]


def test_released_tables_are_there_for_one_statement(engines: Engines) -> None:
    released = pa.table({"k1": ["a", "b"], "a1": [1, 2]})
    total = engines.outer.run("SELECT sum(a1) AS s FROM released_1", {"released_1": released})
    assert total.to_pylist() == [{"s": 3}]
    for sql in ("SELECT * FROM released_1", "SELECT * FROM released_2"):
        with pytest.raises(EngineFailure):
            engines.outer.run(sql)
    with pytest.raises(EngineFailure, match="could not finish"):
        engines.outer.run("SELECT nothing FROM released_1", {"released_1": released})
    with pytest.raises(EngineFailure):
        engines.outer.run("SELECT * FROM released_1")


KEPT = {
    pa.bool_(): [True, None, False],
    **{key: [-1, None, 100] for key in (pa.int8(), pa.int16(), pa.int32(), pa.int64())},
    **{key: [0, None, 100] for key in (pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64())},
    pa.float64(): [-0.0, None, float("inf")],
    pa.string(): ["a\0b", None, "\u0131"],
    pa.date32(): [date(1, 1, 1), None, date(9999, 12, 31)],
    pa.timestamp("us"): [datetime(1, 1, 1), None, datetime(2024, 2, 29, 23, 59, 59, 999999)],
    pa.decimal128(38, 2): [Decimal("1.25"), None, Decimal(-(10**30))],
    pa.decimal128(5, 2): [Decimal("1.25"), None, Decimal("-999.99")],
}
NAMES = ("n", "N", "n", "with blank", 'q"uote')


@pytest.mark.parametrize("type_", KEPT, ids=str)
def test_a_projection_is_what_the_engine_answers(engines: Engines, type_: pa.DataType) -> None:
    released = pa.table({"k1": pa.array(KEPT[type_] * 3000, type_), "a1": range(9000), "a1~": [0.5] * 9000})
    items = [f'r."k1" AS {exp.to_identifier(name, quoted=True).sql("duckdb")}' for name in NAMES]
    text = f'SELECT {", ".join(items)}, r."a1" AS "a", r."a1~" AS "~1" FROM r'
    plain = projection(parse_one(text, dialect="duckdb"), frozenset({"r"}))
    assert plain is not None
    for rows in (released, released.slice(0, 0), pa.concat_tables([released, released])):
        shown = projected(rows, plain.columns)
        assert shown is not None
        answered = engines.outer.run(text, {"r": rows})
        assert shown.schema.equals(answered.schema, check_metadata=True)
        assert shown.equals(answered)


def test_other_types_are_left_to_the_engine() -> None:
    columns = [("k1", "k")]
    for type_ in (pa.large_string(), pa.dictionary(pa.int32(), pa.string()), pa.float32(), pa.time64("us")):
        assert projected(pa.table({"k1": pa.array([], type_)}), columns) is None


@pytest.mark.parametrize(
    "text",
    [
        'SELECT r."k1" AS "k" FROM r WHERE TRUE',
        'SELECT r."k1" AS "k" FROM r ORDER BY 1',
        'SELECT r."k1" AS "k" FROM r LIMIT 1',
        'SELECT DISTINCT r."k1" AS "k" FROM r',
        'SELECT r."k1" AS "k" FROM r GROUP BY 1',
        'SELECT r."k1" AS "k" FROM r, r AS s',
        'SELECT r."k1" AS "k" FROM r JOIN s ON TRUE',
        'SELECT r."k1" AS "k" FROM pub.r',
        'SELECT r."k1" AS "k" FROM s',
        'SELECT r."k1" AS "k" FROM s AS r',
        'SELECT r."k1" AS "k" FROM (SELECT 1 AS k1) AS r',
        'SELECT r."k1" AS "k" FROM r AS r(k)',
        'SELECT r."k1" AS "k" FROM r TABLESAMPLE (1)',
        'WITH r AS (SELECT 1 AS k1) SELECT r."k1" AS "k" FROM r',
        'SELECT r."k1" + 1 AS "k" FROM r',
        'SELECT (r."k1") AS "k" FROM r',
        'SELECT r."k1" FROM r',
        'SELECT r.k1 AS "k" FROM r',
        'SELECT "k1" AS "k" FROM r',
        'SELECT s."k1" AS "k" FROM r',
        "SELECT * FROM r",
        "SELECT r.* FROM r",
        'SELECT 1 AS "k"',
        'SELECT r."k1" AS "k" FROM r UNION ALL SELECT r."k1" AS "k" FROM r',
        'SELECT r."k1" AS "k" FROM r QUALIFY TRUE',
    ],
)
def test_what_is_more_than_a_projection_is_left_to_the_engine(text: str) -> None:
    assert projection(parse_one(text, dialect="duckdb"), frozenset({"r"})) is None


def test_binding_finds_mistakes_and_runs_nothing(engines: Engines) -> None:
    empty = {"released_1": pa.table({"k1": pa.array([], pa.string())})}
    engines.outer.bind("SELECT k1 FROM released_1", empty)
    engines.outer.bind(SLOW)  # or else it would take minutes
    with pytest.raises(EngineFailure) as caught:
        engines.outer.bind("SELECT k2 FROM released_1", empty)
    assert "k2" in caught.value.detail


def test_sums_beyond_64_bits_leave_exactly(engines: Engines) -> None:
    sql = """SELECT sum(v) AS s, sum(v)::DECIMAL(38,0) AS d, min(v) AS m, count(*) AS n
    FROM (SELECT (9223372036854775807 - i)::BIGINT AS v FROM range(1000) r(i))"""
    found = engines.private.run(sql)
    exact = sum(2**63 - 1 - i for i in range(1000))
    assert found.to_pylist() == [{"s": Decimal(exact), "d": Decimal(exact), "m": 2**63 - 1000, "n": 1000}]
    assert [str(t) for t in found.schema.types] == ["decimal128(38, 0)", "decimal128(38, 0)", "int64", "int64"]
    widest = engines.private.run(f"SELECT {2**127 - 1}::HUGEINT AS h, {-(2**127) + 1}::HUGEINT AS l").to_pylist()
    assert widest == [{"h": Decimal(2**127 - 1), "l": Decimal(-(2**127) + 1)}]


# ---- what no engine does


FORBIDDEN = [
    "SELECT * FROM '{file}'",
    "SELECT * FROM read_csv('{file}')",
    "SELECT * FROM read_text('{file}')",
    "SELECT * FROM read_blob('{file}')",
    "SELECT * FROM read_parquet('{file}')",
    "SELECT * FROM read_json_auto('{file}')",
    "SELECT * FROM sniff_csv('{file}')",
    "SELECT * FROM glob('{folder}/*')",
    "SELECT * FROM parquet_metadata('{file}')",
    "SELECT * FROM query('SELECT * FROM ''{file}''')",
    "SELECT * FROM query_table('{file}')",
    "SELECT * FROM read_duckdb('{owner}')",
    "SELECT * FROM python_variable",
    "SELECT * FROM pa",
    "SELECT getenv('HOME')",
    "SELECT * FROM duckdb_secrets()",
    "SELECT 1; SELECT 2",
    "",
    "ATTACH '{owner}' AS o (READ_ONLY)",
    "ATTACH ':memory:' AS m",
    "DETACH pub",
    "USE pub",
    "COPY (SELECT 1) TO '{folder}/out.csv'",
    "COPY pub.\"s.places\" TO '{folder}/out.csv'",
    "EXPORT DATABASE '{folder}/out'",
    "INSTALL httpfs",
    "LOAD httpfs",
    "SET threads = 1",
    "SET enable_external_access = true",
    "SET lock_configuration = false",
    "RESET enable_external_access",
    "PRAGMA database_list",
    "PRAGMA enable_profiling",
    "CALL enable_logging()",
    "CREATE TABLE t AS SELECT 1",
    "CREATE TEMP TABLE t AS SELECT 1",
    "CREATE MACRO f(x) AS x",
    "CREATE SECRET (TYPE s3)",
    'INSERT INTO pub."s.places" VALUES (1, 2)',
    'DELETE FROM pub."s.places"',
    "PREPARE p AS SELECT 1",
    "EXPLAIN ANALYZE SELECT 1",
    "CHECKPOINT",
    "BEGIN",
    "SET VARIABLE x = 1",
    "UPDATE EXTENSIONS",
]


@pytest.mark.parametrize("sql", FORBIDDEN)
def test_neither_engine_does_this(engines: Engines, snapshot: Snapshot, tmp_path: Path, sql: str) -> None:
    python_variable = pa.table({"x": [1]})
    (tmp_path / "file").write_text('{"a": 1}\n', encoding="utf-8")
    before = sorted(os.listdir(tmp_path))
    text = sql.format(file=tmp_path / "file", folder=tmp_path, owner=snapshot.source)
    for engine in (engines.private, engines.outer):
        with pytest.raises(EngineFailure) as caught:
            engine.run(text)
        assert str(caught.value) == "the engine could not finish"
        assert caught.value.__cause__ is None
        assert caught.value.__suppress_context__
    assert sorted(os.listdir(tmp_path)) == before
    assert python_variable.num_rows == 1


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM priv.people",
        "SELECT * FROM priv.main.people",
        "SELECT * FROM people",
        "SELECT * FROM read_blob('{private}')",
        "SELECT * FROM read_duckdb('{private}', table_name = 'people')",
        "SELECT * FROM '{private}'",
        "SELECT * FROM glob('{folder}/*')",
    ],
)
def test_the_outer_engine_cannot_see_private_rows(engines: Engines, snapshot: Snapshot, sql: str) -> None:
    with pytest.raises(EngineFailure):
        engines.outer.run(sql.format(private=snapshot.private, folder=snapshot.folder))
    inside = "SELECT database_name AS d FROM duckdb_databases() WHERE NOT internal AND path IS NOT NULL"
    assert engines.outer.run(inside).to_pylist() == [{"d": "pub"}]
    for catalogue in ("duckdb_tables()", "information_schema.tables", "duckdb_columns()", "duckdb_views()"):
        words = str(engines.outer.run(f"SELECT * FROM {catalogue}").to_pylist())
        assert "people" not in words
        assert "priv" not in words.replace("pg_", "").replace("privilege", "")


def test_two_engines_share_no_instance(engines: Engines, snapshot: Snapshot) -> None:
    other = open_engines(snapshot, threads=1)
    secret = pa.table({"x": [42]})
    found = []

    def look() -> None:
        for engine in (engines.private, engines.outer, other.private):
            try:
                found.append(engine.run("SELECT * FROM released_1"))
            except EngineFailure:
                found.append(None)

    looking = threading.Thread(target=look)
    other.outer._connection.register("released_1", secret)
    looking.start()
    looking.join()
    assert found == [None, None, None]
    folders = {e.run("SELECT current_setting('temp_directory') AS t").to_pylist()[0]["t"] for e in
               (engines.private, engines.outer, other.private, other.outer)}  # fmt: skip
    assert len(folders) == 4
    other.close()


def test_settings_are_what_the_promise_says(engines: Engines) -> None:
    wanted = {
        "enable_external_access": "false",
        "lock_configuration": "true",
        "autoload_known_extensions": "false",
        "autoinstall_known_extensions": "false",
        "allow_community_extensions": "false",
        "python_enable_replacements": "false",
        "TimeZone": "UTC",
        "threads": "1",
    }
    for engine in (engines.private, engines.outer):
        rows = engine.run("SELECT name, value FROM duckdb_settings()").to_pylist()
        found = {row["name"]: str(row["value"]).lower() for row in rows}
        assert {name: found[name] for name in wanted} == {name: value.lower() for name, value in wanted.items()}
        assert found["enable_logging"] in ("0", "false")
        assert found["disabled_filesystems"] == ""


# ---- failures, time, cancelling


def test_a_failure_carries_the_engine_s_words_for_the_owner_only(engines: Engines) -> None:
    with pytest.raises(EngineFailure) as caught:
        engines.private.run("SELECT CAST(name AS INTEGER) FROM priv.people")
    assert "string 'name " in caught.value.detail
    assert "name" not in f"{caught.value} {caught.value!r} {caught.value.args}"
    assert not caught.value.interrupted
    assert engines.private.run("SELECT 1 AS x").to_pylist() == [{"x": 1}]


def test_cancel_from_another_thread(engines: Engines) -> None:
    for delay in (0.0, 0.001, 0.2):
        timer = threading.Timer(delay, cancel_until_heard, (engines,))
        timer.start()
        with pytest.raises(EngineFailure) as caught:
            engines.private.run(SLOW)
        assert caught.value.interrupted
        timer.join()
        assert engines.private.run("SELECT 1 AS x").to_pylist() == [{"x": 1}]


def cancel_until_heard(engines: Engines) -> None:
    """The statement may not have begun when the timer of 0 seconds is over."""
    until(lambda: engines.private._running, "the statement runs")
    engines.private.cancel()


def test_a_signal_to_the_process_is_an_interrupt(engines: Engines, hears_ctrl_c: None) -> None:
    def interrupt() -> None:
        until(lambda: engines.private._running, "the statement is given to the engine")
        threading.Event().wait(0.3)  # the few lines of Python from there to the engine
        os.kill(os.getpid(), signal.SIGINT)

    other = threading.Thread(target=interrupt)
    other.start()
    with pytest.raises(EngineFailure) as caught:
        engines.private.run(SLOW)
    assert caught.value.interrupted
    other.join()


def test_cancel_without_a_statement_does_nothing(engines: Engines) -> None:
    engines.private.cancel()
    assert engines.private.run("SELECT 1 AS x").to_pylist() == [{"x": 1}]


def test_time_runs_out(snapshot: Snapshot) -> None:
    engines = open_engines(snapshot, replace(USUAL_LIMITS, timeout=0.2), threads=2)
    for _ in range(2):
        with pytest.raises(EngineFailure) as caught:
            engines.private.run(SLOW)
        assert caught.value.interrupted
    engines.private._timeout = USUAL_LIMITS.timeout  # a slow machine needs more than that for anything
    assert engines.private.run("SELECT 1 AS x").to_pylist() == [{"x": 1}]
    engines.close()


def test_memory_runs_out(snapshot: Snapshot) -> None:
    engines = open_engines(snapshot, replace(USUAL_LIMITS, memory=64 * 2**20), threads=1)
    with pytest.raises(EngineFailure) as caught:
        engines.private.run("SELECT list(i) AS l FROM range(100000000) r(i)")
    assert not caught.value.interrupted
    engines.close()


def test_large_results_spill_into_the_engine_s_own_folder_which_close_removes(snapshot: Snapshot) -> None:
    engines = open_engines(snapshot, replace(USUAL_LIMITS, memory=100 * 2**20), threads=1)
    sql = "SELECT count(*) AS n FROM (SELECT i, row_number() OVER (ORDER BY hash(i)) AS r FROM range(6000000) t(i))"
    sql += " WHERE i + r > 0"
    assert engines.private.run(sql).to_pylist() == [{"n": 6000000}]
    assert (engines.spill.folder / "private").is_dir()
    assert not (engines.spill.folder / "outer").exists()
    engines.close()
    assert not engines.spill.folder.exists()


def test_close_ends_what_runs_and_may_be_called_twice(snapshot: Snapshot) -> None:
    engines = open_engines(snapshot, threads=1)
    failed = []

    def run() -> None:
        try:
            engines.private.run(SLOW)
        except EngineFailure as failure:
            failed.append(failure.interrupted)

    running = threading.Thread(target=run)
    running.start()
    until(lambda: engines.private._running, "the statement runs")
    engines.close()
    running.join()
    assert failed == [True]
    engines.close()
    with pytest.raises(EngineFailure):
        engines.private.run("SELECT 1")


def test_closed_engines_leave_no_thread(snapshot: Snapshot) -> None:
    before = threading.active_count()
    open_engines(snapshot, threads=1).close()
    until(lambda: threading.active_count() <= before, "its threads end")  # one of an earlier test may have ended, too
