"""Files and folders as sources: read as the policy says, refused in one DP302 where they cannot be, gone afterwards."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import duckdb
import pytest

import dpsql
from dpsql.errors import Error, PolicyError
from dpsql.owner import open_account
from dpsql.policy.load import load_policy
from dpsql.session import open_session
from dpsql.vault.snapshot import find, prepare

HEAD = """
version = 1
[unit]
name = "person"
[budget]
account = "test"
epsilon = "1000"
per_query_epsilon = "50"
"""
SALES = """
[tables.sales]
source = "SOURCE"
unit = "uid"
key = ["id"]
max_rows_per_unit = 10
columns = { amount = { bounds = [0, 100] }, shop = {} }
"""
Policies = Callable[..., Path]


@pytest.fixture
def policies(tmp_path: Path) -> Policies:
    """Writes a policy beside the data."""

    def write(tables: str, name: str = "policy.toml", head: str = HEAD) -> Path:
        path = tmp_path / name
        path.write_text(head + tables, encoding="utf-8")
        return path

    return write


def make(sql: str) -> None:
    with closing(duckdb.connect()) as connection:
        connection.execute(sql)


def rows(policy: Path, columns: str = "*", table: str = "sales") -> list[tuple[object, ...]]:
    """What the snapshot holds, in the order of its rows."""
    found = find(load_policy(policy))
    assert found is not None
    with closing(duckdb.connect()) as connection:
        connection.execute(f"ATTACH '{found.private}' AS priv (READ_ONLY); ATTACH '{found.public}' AS pub (READ_ONLY)")
        place = "pub" if load_policy(policy).tables[table].public else "priv"
        return connection.execute(f"SELECT {columns} FROM {place}.{table}").fetchall()


def refused(policy: Path, database: Path | None = None) -> str:
    with pytest.raises(PolicyError) as caught:
        prepare(load_policy(policy), database, refresh=True)
    assert caught.value.code == "DP302"
    assert caught.value.__cause__ is None
    return str(caught.value)


@pytest.mark.parametrize("ending", ["parquet", "csv", "tsv", "csv.gz"])
def test_a_file(policies: Policies, tmp_path: Path, ending: str) -> None:
    options = "FORMAT csv, DELIMITER '\t'" if ending == "tsv" else ""
    file = tmp_path / f"sales.{ending}"
    make(
        f"""COPY (SELECT i % 3 AS uid, i // 2 AS id, i * 1.5::DOUBLE AS amount, 'shop ' || i AS shop, 7 AS other
        FROM range(9) r(i)) TO '{file}' {f"({options})" if options else ""}"""
    )
    policy = policies(SALES.replace("SOURCE", file.name))
    made, report = prepare(load_policy(policy), None)
    assert report.tables[0].kept == 9
    assert sorted(rows(policy, "amount, shop")) == sorted((i * 1.5, f"shop {i}") for i in range(9))
    assert list(made.facts.tables["sales"].types) == ["amount", "shop"]
    file.unlink()
    with closing(open_session(policy)) as session:
        assert abs(session.execute("SELECT COUNT(*) FROM sales").table.column(0)[0].as_py() - 9) < 6


def test_a_hidden_key_is_enforced_and_not_kept(policies: Policies, tmp_path: Path) -> None:
    make(f"COPY (SELECT 1 AS uid, i // 2 AS id, i AS amount, 's' AS shop FROM range(8) r(i)) TO '{tmp_path}/s.parquet'")
    policy = policies(SALES.replace("SOURCE", "s.parquet"))
    made, report = prepare(load_policy(policy), None)
    assert (report.tables[0].kept, report.tables[0].repeated) == (4, 4)
    assert made.facts.tables["sales"].unique == ()
    with closing(open_session(policy)) as session, pytest.raises(Error, match="DP111"):
        session.execute("SELECT COUNT(id) FROM sales")


def test_a_folder_is_joined_by_names(policies: Policies, tmp_path: Path) -> None:
    (tmp_path / "sales" / "more").mkdir(parents=True)
    make(
        f"""COPY (SELECT 1 AS uid, 1 AS id, 5 AS amount, 'a' AS shop) TO '{tmp_path}/sales/1.parquet';
        COPY (SELECT 'b' AS shop, 2 AS id, 2 AS uid) TO '{tmp_path}/sales/more/2.PARQUET' (FORMAT parquet)"""
    )
    (tmp_path / "sales" / "_SUCCESS").touch()
    (tmp_path / "sales" / ".3.parquet").write_text("no data")
    (tmp_path / "sales" / "readme.txt").write_text("no data")
    policy = policies(SALES.replace("SOURCE", "sales/"))
    prepare(load_policy(policy), None)
    assert sorted(rows(policy, "amount, shop"), key=str) == [(5, "a"), (None, "b")]


def test_folders_named_after_values(policies: Policies, tmp_path: Path) -> None:
    make(
        f"""COPY (SELECT i AS uid, i AS id, i AS amount, 'shop ' || i AS shop FROM range(4) r(i))
        TO '{tmp_path}/sales' (FORMAT parquet, PARTITION_BY (shop))"""
    )
    policy = policies(SALES.replace("SOURCE", "./sales"))
    prepare(load_policy(policy), None)
    assert sorted(rows(policy, "amount, shop")) == [(i, f"shop {i}") for i in range(4)]


def test_types_of_a_csv_come_from_all_of_it(policies: Policies, tmp_path: Path) -> None:
    lines = "".join(f"{i},{i},3,7\n" for i in range(30000))
    (tmp_path / "s.csv").write_text(f"uid,id,amount,shop\n{lines}1,30000,2.5,x\n#2,30001,1,y\n")
    policy = policies(SALES.replace("SOURCE", "s.csv").replace('"uid"', '"shop"'))
    made, report = prepare(load_policy(policy), None)
    assert {name: str(t) for name, t in made.facts.tables["sales"].types.items()} == {
        "amount": "DOUBLE",
        "shop": "VARCHAR",
    }
    assert report.tables[0].read == 30002  # no line is taken for a comment


def test_numbers_of_csv_files_go_together(policies: Policies, tmp_path: Path) -> None:
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / "a.csv").write_text("uid,id,amount,shop\n1,1,1,x\n")
    (tmp_path / "s" / "b.csv").write_text("uid,id,amount,shop\n2,2,1.5,x\n")
    policy = policies(SALES.replace("SOURCE", "s/"))
    prepare(load_policy(policy), None)
    assert sorted(rows(policy, "amount")) == [(1.0,), (1.5,)]


def test_what_cannot_be_read_is_told_at_once(policies: Policies, tmp_path: Path) -> None:
    for name in ("empty", "both", "differ"):
        (tmp_path / name).mkdir()
    (tmp_path / "both" / "a.csv").write_text("a\n1\n")
    (tmp_path / "empty" / "a.json").write_text("{}")
    (tmp_path / "torn.parquet").write_bytes(b"PAR1 secret PAR1")
    (tmp_path / "lines.csv").write_text('uid,id,amount,shop\n1,1,1,secret\n1,2,3,4,secret,6\n"secret\n')
    (tmp_path / "bytes.csv").write_bytes(b"uid,id,amount,shop\n1,1,1,\xffsecret\xfe\n")
    (tmp_path / "other.txt").write_text("x")
    make(
        f"""COPY (SELECT 1 AS a) TO '{tmp_path}/both/b.parquet';
        COPY (SELECT 1 AS uid, 1 AS id, 1 AS amount, 'x' AS shop) TO '{tmp_path}/differ/a.parquet';
        COPY (SELECT 1 AS uid, 1 AS id, 'secret' AS amount, 'x' AS shop) TO '{tmp_path}/differ/b.parquet'"""
    )
    for source, words in {
        "none.parquet": "none.parquet: there is no such file or folder",
        "empty/": "empty has no .parquet, .csv or .tsv file in it",
        "both/": "both holds Parquet and CSV files",
        "torn.parquet": "torn.parquet cannot be read as Parquet",
        "lines.csv": "lines.csv",
        "bytes.csv": "bytes.csv cannot be read as CSV with a header",
        "./other": "there is no such file or folder",
        "empty/a.csv/": "there is no such file or folder",
        "differ/": "sales.amount: is INTEGER in a.parquet, VARCHAR in b.parquet",
    }.items():
        said = refused(policies(SALES.replace("SOURCE", source)))
        assert words in said
        assert "secret" not in said
    several = SALES.replace("SOURCE", "none.csv") + SALES.replace("SOURCE", "empty/").replace(".sales", ".more")
    assert refused(policies(several)).count("\n  - ") == 2


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_file_that_may_not_be_read(policies: Policies, tmp_path: Path) -> None:
    (tmp_path / "s.csv").write_text("a\n1\n")
    (tmp_path / "s.csv").chmod(0)
    assert "cannot be read (Permission denied)" in refused(policies(SALES.replace("SOURCE", "s.csv")))


def test_one_file_is_not_private_and_public(policies: Policies, tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "s.csv").write_text("uid,id,amount,shop\n1,1,1,x\n")
    (tmp_path / "link.csv").symlink_to(tmp_path / "d" / "s.csv")
    public = '[tables.shops]\nsource = "link.csv"\npublic = true\ncolumns = { shop = {} }\n'
    assert "is private as sales" in refused(policies(SALES.replace("SOURCE", "d/") + public))


def test_files_and_a_database_together(policies: Policies, tmp_path: Path) -> None:
    (tmp_path / "s.csv").write_text("uid,id,amount,shop\n1,1,1,x\n")
    database = tmp_path / "d.duckdb"
    with closing(duckdb.connect(str(database))) as connection:
        connection.execute(
            "CREATE SCHEMA store; CREATE TABLE store.shops AS SELECT 'x' AS shop; CREATE VIEW v AS FROM store.shops"
        )
    shops = '[tables.shops]\nsource = "store.shops"\npublic = true\ncolumns = { shop = {} }\n'
    view = shops.replace("tables.shops", "tables.views").replace("store.shops", "v")
    policy = policies(SALES.replace("SOURCE", "s.csv") + shops + view)
    assert "no database is named" in refused(policy)
    made, _ = prepare(load_policy(policy), database)
    assert rows(policy, table="shops") == rows(policy, table="views") == [("x",)]
    assert made.source == str(database)
    assert made.sources == (str(tmp_path / "s.csv"),)  # the database holds nobody's rows
    files = policies(SALES.replace("SOURCE", "s.csv"), "files.toml", HEAD.replace('"test"', '"files"'))
    with pytest.raises(PolicyError, match="no database is used"):
        open_session(files, database)


def test_the_account_belongs_to_the_files(policies: Policies, tmp_path: Path) -> None:
    (tmp_path / "s").mkdir()
    for name in ("a", "b"):
        (tmp_path / "s" / f"{name}.csv").write_text("uid,id,amount,shop\n1,1,1,x\n")
    (tmp_path / "copy.csv").symlink_to(tmp_path / "s" / "b.csv")
    one = load_policy(policies(SALES.replace("SOURCE", "s/")))
    made, _ = prepare(one, None)
    assert made.sources == tuple(str(tmp_path / path) for path in ("s", "s/a.csv", "s/b.csv"))
    assert find(one) == made
    open_account(one, made, None).close()
    other = load_policy(policies(SALES.replace("SOURCE", "copy.csv"), "other.toml", HEAD.replace('"test"', '"other"')))
    with pytest.raises(Error, match='already spends from the account "test"') as caught:
        open_account(other, prepare(other, None)[0], None)
    assert caught.value.code == "DP404"


def test_changes_of_files_are_told(policies: Policies, tmp_path: Path) -> None:
    (tmp_path / "s").mkdir()
    for name in ("a", "b"):
        (tmp_path / "s" / f"{name}.csv").write_text("uid,id,amount,shop\n1,1,1,x\n")
    policy = load_policy(policies(SALES.replace("SOURCE", "s/")))
    first, report = prepare(policy, None)
    assert (report.source_changed, report.changes) == (False, ())
    (tmp_path / "s" / "a.csv").write_text("uid,id,amount,shop\n1,1,1,x\n2,2,2,y\n")
    (tmp_path / "s" / "b.csv").unlink()
    (tmp_path / "s" / "c.csv").write_text("uid,id,amount,shop\n")
    again, report = prepare(policy, None)
    assert again == first
    text = report.render()
    assert "the files have changed since; `dpsql prepare --refresh`" in text
    assert f"{tmp_path}/s/a.csv: 27 bytes of 20" in text
    assert f"{tmp_path}/s/b.csv: is gone" in text
    assert f"{tmp_path}/s/c.csv: is new" in text
    _, report = prepare(policy, None, refresh=True)
    assert "changed since the snapshot before:" in report.render()
    assert len(report.changes) == 3
    _, report = prepare(policy, None)
    assert (report.source_changed, report.changes) == (False, ())


KINDS = """
[tables.t]
unit = "uid"
key = ["d", "n", "moment", "zone", "e", "u", "b", "h"]
max_rows_per_unit = 100
[tables.t.columns]
d = { values = [2024-01-01, 2024-01-02] }
n = { values = [0.50, 1.50] }
moment = { values = [2024-01-01T10:00:00, 2024-01-01T11:00:00] }
zone = { values = [2024-01-01T10:00:00, 2024-01-01T11:00:00] }
e = { values = ["x", "y"] }
u = { values = ["00000000-0000-0000-0000-000000000000", "00000000-0000-0000-0000-000000000001"] }
b = { values = [false, true] }
h = { bounds = [0, 1], values = [0, 1] }
"""


def test_types_of_keys(policies: Policies, tmp_path: Path) -> None:
    make(
        f"""ATTACH '{tmp_path}/d.duckdb' AS d; SET TimeZone = 'UTC'; CREATE TABLE d.t AS SELECT uuid_of::UUID AS uid,
        DATE '2024-01-01' + k AS d, (0.5 + k)::DECIMAL(9, 2) AS n,
        TIMESTAMP '2024-01-01 10:00:00' + to_hours(k) AS moment,
        TIMESTAMPTZ '2024-01-01 12:00:00+02' + to_hours(k) AS zone,
        (CASE k WHEN 0 THEN 'x' ELSE 'y' END)::ENUM ('x', 'y') AS e,
        ('00000000-0000-0000-0000-00000000000' || k)::UUID AS u,
        k = 1 AS b, k::HUGEINT AS h
        FROM (SELECT i, (i % 2)::INTEGER AS k, '00000000-0000-0000-0000-' || lpad(i::VARCHAR, 12, '0') AS uuid_of
        FROM range(100) r(i))"""
    )
    policy = policies(KINDS)
    made, report = prepare(load_policy(policy), tmp_path / "d.duckdb")
    assert report.tables[0].outside == {}
    assert made.facts.tables["t"].unique == (frozenset(load_policy(policy).tables["t"].key),)
    with closing(open_session(policy)) as session:
        for column in load_policy(policy).tables["t"].columns:
            table = session.execute(f"SELECT {column}, COUNT(*) AS c FROM t GROUP BY {column}").table
            found = list(zip(table.column(0).to_pylist(), table.column(1).to_pylist(), strict=True))
            counts = [count for key, count in found if key is not None]
            assert len(counts) == 2, column
            assert all(abs(count - 50) < 40 for count in counts), column


PATHS = """
[tables.people]
unit = "k"
key = ["k"]
max_rows_per_unit = 1
columns = { k = {} }
[tables.visits]
unit = { via = "k", to = "people" }
max_rows_per_unit = 9
columns = { k = {} }
"""


@pytest.mark.parametrize(
    "type_", ["DATE", "DECIMAL(9,2)", "TIMESTAMP", "TIMESTAMPTZ", "UUID", "BOOLEAN", "HUGEINT", "VARCHAR"]
)
def test_types_of_units_and_paths(policies: Policies, tmp_path: Path, type_: str) -> None:
    value = {
        "DATE": "DATE '2024-01-01' + (i % 2)::INTEGER",
        "TIMESTAMP": "TIMESTAMP '2024-01-01' + to_hours(i % 2)",
        "TIMESTAMPTZ": "TIMESTAMPTZ '2024-01-01 00:00:00+00' + to_hours(i % 2)",
        "UUID": "('00000000-0000-0000-0000-00000000000' || i % 2)::UUID",
    }.get(type_, f"(i % 2)::{type_}")
    for name, count in (("people", 2), ("visits", 20)):
        make(
            f"ATTACH '{tmp_path}/d.duckdb' AS d; CREATE TABLE d.{name} AS SELECT {value} AS k FROM range({count}) r(i)"
        )
    shown = "k = { bounds = [0, 1] }" if type_ == "HUGEINT" else "k = {}"
    policy = policies(PATHS.replace("k = {}", shown))
    _, report = prepare(load_policy(policy), tmp_path / "d.duckdb")
    assert [t.kept for t in report.tables] == [2, 20]
    assert len({unit for (unit,) in rows(policy, '"$unit"', "visits")}) == 2


def test_rows_of_a_unit_kept_together(policies: Policies, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    people = "SELECT hash(i) % 97 AS uid, i AS id, 1 AS amount, 's' AS shop FROM range(3000) r(i)"
    make(f"COPY ({people}) TO '{tmp_path}/s.csv'")
    text = SALES.replace("SOURCE", "s.csv")
    plain, clustered = policies(text), policies(text.replace("key =", 'cluster_by = ["unit"]\nkey ='), "c.toml")
    monkeypatch.setattr("dpsql.vault.materialise.CHUNK", 500)
    prepare(load_policy(clustered), None)
    found = rows(clustered, '"$unit", "$rank"')
    assert len(found) == 3000
    assert found == sorted(found)
    prepare(load_policy(plain), None, refresh=True)
    assert [unit for unit, _ in rows(plain, '"$unit", "$rank"')] != sorted(unit for unit, _ in found)


# ---- memory

LARGE = """
[tables.sales]
source = "large.FORMAT"
unit = "uid"
key = ["id"]
max_rows_per_unit = 100
[tables.sales.columns]
at = { bounds = [2025-01-01T00:00:00, 2025-12-31T00:00:00] }
product = {}
amount = { bounds = [0, 100], step = "0.01" }
qty = { bounds = [0, 10] }
"""
PREPARE = """
import resource, sys
from dpsql.policy.load import load_policy
from dpsql.vault.snapshot import prepare
print(prepare(load_policy(sys.argv[1]), None)[1].tables[0].kept, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def peak(policies: Policies, tmp_path: Path, count: int, ending: str) -> int:
    """Bytes that the process which makes the snapshot of so many rows has at most."""
    make(
        f"""SET memory_limit = '1GiB'; COPY (SELECT hash(i) % {count // 50} AS uid, i AS id,
        TIMESTAMP '2025-01-01' + to_seconds(i) AS at, 'product ' || (hash(i * 7) % 5000) AS product,
        ((hash(i * 3) % 10000) / 100.0)::DOUBLE AS amount, (hash(i * 11) % 12)::INTEGER AS qty
        FROM range({count}) r(i)) TO '{tmp_path}/large.{ending}'"""
    )
    root = str(Path(dpsql.__file__).parents[1])
    policy = policies(LARGE.replace("FORMAT", ending))
    done = subprocess.run(
        [sys.executable, "-c", PREPARE, str(policy)],
        env=os.environ | {"PYTHONPATH": root}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    kept, most = map(int, done.stdout.split())
    assert kept == count
    return most * 1024


def test_memory_of_a_million_rows(policies: Policies, tmp_path: Path) -> None:
    assert peak(policies, tmp_path, 1_000_000, "parquet") < 1 << 30


@pytest.mark.audit
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_memory_of_ten_million_rows(policies: Policies, tmp_path: Path, ending: str) -> None:
    assert peak(policies, tmp_path, 10_000_000, ending) < 2 << 30
