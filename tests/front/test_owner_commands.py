"""What owners type: `init`, `check`, `why`, and `prepare` over files, on real data."""

from __future__ import annotations

import re
import tomllib
from importlib.resources import files
from pathlib import Path

import duckdb
import pytest

from dpsql.errors import CODES
from dpsql.front import cli
from dpsql.policy.advice import advise
from dpsql.policy.draft import Drafted, draft
from dpsql.policy.load import load_policy

Capture = pytest.CaptureFixture[str]


def run(capfd: Capture, *arguments: object) -> tuple[int, str, str]:
    code = cli.main([str(argument) for argument in arguments])
    out, err = capfd.readouterr()
    return code, out, err


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """A database with customers, their orders and lines, and what no policy can name."""
    path = tmp_path / "shop.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute(
            """CREATE TABLE customer(c_custkey BIGINT, c_name VARCHAR, c_balance DECIMAL(9, 2));
            INSERT INTO customer SELECT i, 'secret-' || i, 4711 FROM range(20) r(i);
            CREATE TABLE orders(o_orderkey BIGINT, o_custkey BIGINT, o_date DATE);
            INSERT INTO orders SELECT i, i % 20, DATE '1987-06-05' FROM range(60) r(i);
            CREATE TABLE lineitem(l_orderkey BIGINT, l_linenumber INTEGER, l_tags VARCHAR[]);
            CREATE VIEW named AS SELECT c_name FROM customer;
            CREATE SCHEMA store; CREATE TABLE store."a b"(id INTEGER, kind ENUM ('secret-kind'), seen TIMESTAMP);
            CREATE TABLE "we""ird"(a INTEGER)"""
        )
    return path


def chosen(text: str) -> str:
    """The draft with the first choice of each kind taken."""
    lines, taken = [], set()
    for line in text.splitlines():
        lines.append(line)
        match = re.match(r"# ((?:name|epsilon|per_query_epsilon|unit|key|max_rows_per_unit) = .*)", line)
        header = next((one for one in reversed(lines) if one.startswith("[")), "")
        if match and "..." not in line and (header, match[1].split()[0]) not in taken:
            taken.add((header, match[1].split()[0]))
            lines[-1] = match[1]
        elif line.startswith("# public = true") and (header, "unit") not in taken:
            lines[-1] = line[2:]
            taken |= {(header, word) for word in ("unit", "key", "max_rows_per_unit")}
    return "\n".join(lines) + "\n"


def test_a_draft_lists_what_there_is_and_nothing_of_its_rows(capfd: Capture, shop: Path) -> None:
    code, out, err = run(capfd, "init", shop)
    assert (code, err) == (0, "")
    drafted = tomllib.loads(out)
    assert set(drafted["tables"]) == {"customer", "lineitem", "orders", "store.a b", "named"}
    assert set(drafted["tables"]["orders"]) == {"columns"}  # neither unit nor key nor limit: those are chosen
    assert "secret" not in out
    assert "4711" not in out
    assert "1987" not in out
    assert '# unit = "c_custkey"' in out
    assert '# unit = { via = "l_orderkey", to = "orders" }' in out
    assert '# l_orderkey = { references = "orders.o_orderkey" }' in out
    assert "# c_custkey =" not in out, "numbers of people have no bounds and no groups"
    assert "# l_tags = {}  # left out" in out
    assert 'left out: the table "we\\"ird"' in out


def test_a_draft_does_not_depend_on_rows(capfd: Capture, shop: Path) -> None:
    before = run(capfd, "init", shop)[1]
    with duckdb.connect(str(shop)) as connection:
        connection.execute("DELETE FROM customer; INSERT INTO orders SELECT 1, 1, NULL FROM range(9)")
    assert run(capfd, "init", shop)[1] == before


def test_a_draft_is_refused_with_what_is_to_fill_in(capfd: Capture, shop: Path, tmp_path: Path) -> None:
    policy = tmp_path / "policy.toml"
    assert run(capfd, "init", shop, "-o", policy)[0] == 0
    code, out, err = run(capfd, "check", policy, shop)
    assert (code, out) == (2, "")
    missing = re.findall(r"line \d+: (.*): is missing$", err, re.MULTILINE)
    tables = ("customer", "lineitem", "orders", '"store.a b"', "named")
    wanted = {"unit.name", "budget.epsilon", "budget.per_query_epsilon"}
    wanted |= {f"tables.{t}.{key}" for t in tables for key in ("unit", "max_rows_per_unit")}
    assert set(missing) == wanted
    assert f"has {len(wanted)} problems" in err


def test_a_draft_whose_first_choices_are_taken_fits_the_data(capfd: Capture, shop: Path, tmp_path: Path) -> None:
    policy = tmp_path / "policy.toml"
    policy.write_text(chosen(run(capfd, "init", shop)[1]), encoding="utf-8")
    loaded = load_policy(policy)
    assert loaded.unit == "customer"
    assert loaded.tables["customer"].unit == "c_custkey"
    code, out, err = run(capfd, "check", policy, shop)
    assert (code, err) == (0, "")
    assert ": ok (protects each customer;" in out
    assert run(capfd, "prepare", policy, shop)[0] == 0


def test_a_draft_is_not_written_over_a_file(capfd: Capture, shop: Path, tmp_path: Path) -> None:
    (tmp_path / "policy.toml").write_text("mine")
    code, _, err = run(capfd, "init", shop, "-o", tmp_path / "policy.toml")
    assert code == 2
    assert "File exists" in err
    assert (tmp_path / "policy.toml").read_text() == "mine"


def test_a_folder_is_drafted_with_sources_as_the_policy_will_see_them(capfd: Capture, tmp_path: Path) -> None:
    (tmp_path / "data" / "visits").mkdir(parents=True)
    (tmp_path / "data" / "users.csv").write_text("user_id,born\n1,1987\n")
    (tmp_path / "data" / "visits" / "a.csv").write_text("user_id,place\n1,x\n")
    (tmp_path / "data" / "Users.tsv").write_text("user_id\tborn\n1\t1987\n")
    (tmp_path / "policies").mkdir()
    policy = tmp_path / "policies" / "p.toml"
    assert run(capfd, "init", tmp_path / "data", "-o", policy)[0] == 0
    text = policy.read_text(encoding="utf-8")
    found = {name: table["source"] for name, table in tomllib.loads(text)["tables"].items()}
    assert found == {"Users": "../data/Users.tsv", "users_2": "../data/users.csv", "visits": "../data/visits/"}
    policy.write_text(chosen(text), encoding="utf-8")
    assert run(capfd, "check", policy)[0] == 0
    assert run(capfd, "prepare", policy)[0] == 0
    (tmp_path / "data" / "visits" / "b.csv").write_text("user_id,place\n2,y\n")
    assert "visits/b.csv: is new" in run(capfd, "prepare", policy, "--refresh")[1]
    (tmp_path / "data" / "users.csv").unlink()
    code, _, err = run(capfd, "check", policy)
    assert code == 2
    assert "users.csv: there is no such file or folder" in err


@pytest.mark.parametrize("place", ["missing.duckdb", "text.txt", "."])
def test_what_cannot_be_drafted(capfd: Capture, tmp_path: Path, place: str) -> None:
    (tmp_path / "text.txt").write_text("no database at all")
    code, out, err = run(capfd, "init", tmp_path / place)
    assert (code, out) == (2, "")
    assert err.startswith("error[DP302]")


def test_names_stay_names() -> None:
    """Whatever a column is called, the draft is TOML that holds it as a name, or leaves it out."""
    odd = ("a b", 'q"', "new\nline", "# x", "\x1b[2J", "é", "$z", "rowid", "\x7f", "a.b", "'", "=")
    text = draft([Drafted("t", 'a"b\\/x.csv', tuple((name, "INTEGER") for name in odd))])
    assert text.isprintable() or {c for c in text if not c.isprintable()} == {"\n"}
    table = tomllib.loads(text)["tables"]["t"]
    assert set(table["columns"]) == {"a b", "# x", "é", "a.b", "'", "="}
    assert table["source"] == 'a"b\\/x.csv'


# ---- advice

POLICY = """
version = 1
[unit]
name = "person"
[budget]
epsilon = "9"
delta = "1e-4"
per_query_epsilon = "2"
[tables.t]
source = "t.csv"
unit = "u"
max_rows_per_unit = 2847
[tables.t.columns]
a = { bounds = [0, 49.97] }
b = { bounds = [0, 99999] }
c = { bounds = [0, 120] }
d = { bounds = [1987-06-05, 2029-12-31] }
"""


def test_advice(tmp_path: Path) -> None:
    path = tmp_path / "p.toml"
    path.write_text(POLICY, encoding="utf-8")
    found = list(advise(load_policy(path)))
    assert [advice.split(": ")[0] for advice in found] == [
        "budget.per_query_epsilon",
        "budget.delta",
        "tables.t",
        "tables.t",
        "tables.t.source",
        "tables.t.max_rows_per_unit",
        "tables.t.columns.a.bounds",
        "tables.t.columns.d.bounds",
    ]
    assert "49.97 looks as if it were taken from the data" in "\n".join(found)
    assert "has no key" in found[2]
    assert "no public keys" in found[3]


def test_no_advice_for_a_policy_that_needs_none(tmp_path: Path) -> None:
    path = tmp_path / "p.toml"
    text = POLICY.replace('"1e-4"', '"1e-6"').replace('"2"', '"1"').replace("t.csv", "t.parquet").replace("2847", "300")
    text = (
        text.replace("49.97", "50").replace("1987-06-05", "1987-01-01").replace('unit = "u"', 'unit = "u"\nkey = ["k"]')
    )
    path.write_text(text + 'e = { values = ["x"] }\n', encoding="utf-8")
    assert list(advise(load_policy(path))) == []


def test_check_of_data(capfd: Capture, shop: Path, tmp_path: Path) -> None:
    path = tmp_path / "p.toml"
    path.write_text(POLICY.replace('source = "t.csv"', 'source = "orders"'), encoding="utf-8")
    code, out, err = run(capfd, "check", path)
    assert (code, err) == (0, "")
    assert out.count("  advice: ") == 7
    code, out, err = run(capfd, "check", path, shop)
    assert (code, out) == (2, "")
    assert "t.u: no such column" in err
    assert run(capfd, "check", path, shop, "other.duckdb")[0] == 2


# ---- why


@pytest.mark.parametrize("code", CODES)
def test_every_code_has_its_page(capfd: Capture, code: str) -> None:
    status, out, err = run(capfd, "why", code)
    assert (status, err) == (0, "")
    assert out.startswith(f"# {code}: {CODES[code]}\n")
    parts = re.split(r"^## (.*)$", out, flags=re.MULTILINE)
    assert parts[1::2] == ["What it means", "Why", "What to write", "Example"]
    assert all(len(text.strip()) > 15 for text in parts[2::2])
    assert out.count("```") == 2


def test_pages_are_of_codes() -> None:
    pages = {path.name for path in files("dpsql.front.pages").iterdir() if path.name.endswith(".md")}
    assert pages == {f"{code}.md" for code in CODES}


def test_examples_of_policies_are_keys_of_policies() -> None:
    for code in CODES:
        page = files("dpsql.front.pages").joinpath(f"{code}.md").read_text(encoding="utf-8")
        for example in re.findall(r"```toml\n(.*?)```", page, re.DOTALL):
            assert list(tomllib.loads(example)) == ["tables"], code


@pytest.mark.parametrize("written", ["dp204", "204", "[DP204]", "DP204:"])
def test_a_code_may_be_written_as_it_was_seen(capfd: Capture, written: str) -> None:
    assert run(capfd, "why", written)[1].startswith("# DP204")


def test_a_code_that_is_none(capfd: Capture) -> None:
    code, out, err = run(capfd, "why", "DP2044")
    assert (code, out) == (3, "")
    assert 'no error has the code "DP2044". Did you mean "DP204"?' in err


@pytest.mark.parametrize("command", ["init", "check", "why"])
def test_help(capfd: Capture, command: str) -> None:
    code, out, err = run(capfd, command, "--help")
    assert (code, err) == (0, "")
    assert out.startswith(f"usage: dpsql {command}")
