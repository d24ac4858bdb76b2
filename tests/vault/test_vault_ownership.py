"""Who owns a row: own columns, paths of any length, keys that several units share; and what the owner is told."""

from __future__ import annotations

import pytest

from dpsql.errors import PolicyError
from dpsql.policy.model import ROW, Path, Policy, Reference
from tests.vault.kit import Made, Row, column, policy, table

CUSTOMERS = table("customers", ["uid", "cid"], "uid", key=("cid",))
ORDERS = table("orders", ["oid"], Path(("cid",), "customers"), key=("oid",))
ITEMS = table("items", ["oid", "line"], Path(("oid",), "orders"), key=("oid", "line"))
PARTS = table("parts", ["what"], Path(("oid", "line"), "items"))
SHOP = policy(CUSTOMERS, ORDERS, ITEMS, PARTS)
SOURCE = """
CREATE TABLE customers(uid INTEGER, cid INTEGER);
CREATE TABLE orders(oid INTEGER, cid INTEGER);
CREATE TABLE items(oid INTEGER, line INTEGER);
CREATE TABLE parts(oid INTEGER, line INTEGER, what VARCHAR);
"""


def units(made: Made, name: str, columns: str) -> list[Row]:
    """Rows of a table with the source value of their unit before them (customers list theirs)."""
    return sorted(
        made.sql(
            f'SELECT u.uid, {columns} FROM priv."{name}" AS t'
            ' JOIN (SELECT DISTINCT uid, "$unit" FROM priv.customers) AS u ON u."$unit" = t."$unit"'
        ),
        key=repr,
    )


def test_a_path_of_length_three_leads_to_the_unit() -> None:
    rows: dict[str, list[Row]] = {
        "customers": [(1, 10), (2, 20)],
        "orders": [(100, 10), (200, 20), (201, 20)],
        "items": [(100, 1), (200, 1), (201, 1), (201, 2)],
        "parts": [(100, 1, "a"), (201, 2, "b"), (201, 2, "b")],
    }
    made = Made(SHOP, SOURCE, rows)
    assert units(made, "orders", "oid") == [(1, 100), (2, 200), (2, 201)]
    assert units(made, "items", "oid, line") == [(1, 100, 1), (2, 200, 1), (2, 201, 1), (2, 201, 2)]
    assert units(made, "parts", 'what, "$rank"') == [(1, "a", 1), (2, "b", 1), (2, "b", 2)]


def test_rows_without_a_unit_are_dropped_and_counted() -> None:
    rows: dict[str, list[Row]] = {
        "customers": [(1, 10), (None, 20), (3, None)],
        "orders": [(100, 10), (200, 20), (300, None), (400, 99), (None, 10)],
        "items": [(100, 1), (200, 1), (None, 1)],
    }
    made = Made(SHOP, SOURCE, rows)
    assert units(made, "customers", "cid") == [(1, 10), (3, None)]
    assert units(made, "orders", "oid") == [(1, 100), (1, None)]
    assert units(made, "items", "oid, line") == [(1, 100, 1)]
    assert {n: (r.read, r.kept, r.without_unit) for n, r in made.reports.items()} == {
        "customers": (3, 2, 1),
        "orders": (5, 2, 3),
        "items": (3, 1, 2),
        "parts": (0, 0, 0),
    }


def test_a_row_that_reaches_several_units_is_kept_once_for_each() -> None:
    rows: dict[str, list[Row]] = {
        "customers": [(1, 10), (2, 10), (2, 10), (3, 30)],
        "orders": [(100, 10), (100, 30), (300, 30)],
        "items": [(100, 1), (300, 1)],
    }
    made = Made(SHOP, SOURCE, rows)
    assert units(made, "orders", "oid") == [(1, 100), (2, 100), (3, 100), (3, 300)]
    assert units(made, "items", "oid, line") == [(1, 100, 1), (2, 100, 1), (3, 100, 1), (3, 300, 1)]
    report = made.reports["items"]
    assert (report.read, report.kept, report.copies, report.without_unit, report.repeated) == (2, 4, 2, 0, 0)
    assert made.reports["customers"].repeated == 1


def test_each_unit_keeps_one_row_per_key_and_null_counts_as_a_value() -> None:
    made = policy(table("t", ["u", "k", "x"], "u", key=("k", "x")), table("s", ["u", "k", "x"], "u", key=("k",)))
    source = "CREATE TABLE t(u INTEGER, k INTEGER, x INTEGER); CREATE TABLE s(u INTEGER, k INTEGER, x INTEGER)"
    rows: list[Row] = [(1, 1, 1), (1, 1, 2), (1, 1, 2), (2, 1, 1), (2, None, 1), (2, None, 1), (2, None, None)]
    found = Made(made, source, {"t": rows, "s": rows})
    assert found.rows("t", "u, k, x") == sorted(set(rows), key=repr)
    assert [(u, k) for u, k, _ in found.rows("s", "u, k, x")] == [(1, 1), (2, 1), (2, None)]
    assert (found.reports["t"].repeated, found.reports["s"].repeated) == (2, 4)
    assert found.sql('SELECT count(*) FROM (SELECT "$unit", k FROM priv.s GROUP BY ALL HAVING count(*) > 1)') == [(0,)]


def test_ranks_number_the_rows_of_each_unit_from_one() -> None:
    made = policy(table("t", ["u", "x"], "u"))
    source = (
        "CREATE TABLE t AS SELECT CASE WHEN i < 10000 THEN 0 ELSE i % 7 END AS u, i % 50 AS x FROM range(10070) r(i)"
    )
    found = Made(made, source)
    ranks = found.sql(
        'SELECT "$unit", count(*), count(DISTINCT "$rank"), min("$rank"), max("$rank") FROM priv.t GROUP BY 1'
    )
    assert sorted(count for _, count, *_ in ranks) == [10] * 6 + [10010]
    assert all(count == different == last and first == 1 for _, count, different, first, last in ranks)


def test_the_unit_is_the_same_in_every_table_and_for_every_width_of_integer() -> None:
    made = policy(table("a", ["u"], "u"), table("b", ["u"], "u"), table("c", ["u"], "u"))
    source = (
        "CREATE TABLE a(u TINYINT); CREATE TABLE b(u BIGINT); CREATE TABLE c AS SELECT 5::HUGEINT AS v, 5::INTEGER AS u"
    )
    found = Made(made, source, {"a": [(5,), (6,)], "b": [(5,), (2**62,)]})
    same = found.sql('SELECT count(*) FROM priv.a JOIN priv.b USING ("$unit") JOIN priv.c USING ("$unit")')
    assert same == [(1,)]
    assert found.sql('SELECT count(*) FROM priv.a JOIN priv.b USING ("$unit") WHERE a.u <> b.u') == [(0,)]


@pytest.mark.parametrize(
    "declared", ["VARCHAR", "UUID", "DATE", "DECIMAL(10,2)", "HUGEINT", "UBIGINT", "BOOLEAN", "TIMESTAMP"]
)
def test_units_of_other_types(declared: str) -> None:
    made = policy(table("t", ["x"], "u"))
    values = {
        "VARCHAR": "(''), (' '), ('1')",
        "UUID": "('a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'), ('a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a12')",
        "DATE": "('2024-01-01'), ('infinity')",
        "DECIMAL(10,2)": "(1.00), (1.01)",
        "HUGEINT": "(170141183460469231731687303715884105727), (-1)",
        "UBIGINT": "(18446744073709551615), (0)",
        "BOOLEAN": "(true), (false)",
        "TIMESTAMP": "('2024-01-01'), ('2024-01-01 00:00:00.000001')",
    }[declared]
    found = Made(made, f"CREATE TABLE t AS SELECT v::{declared} AS u, 1 AS x FROM (VALUES {values}, (NULL)) r(v)")
    count = values.count("(")
    assert found.sql('SELECT count(*), count(DISTINCT "$unit") FROM priv.t') == [(count, count)]


def test_every_row_its_own_unit() -> None:
    made = policy(table("t", ["x"], ROW, key=("x",)))
    found = Made(made, "CREATE TABLE t AS SELECT i % 3 AS x FROM range(10) r(i); DELETE FROM t WHERE x = 1")
    assert found.sql('SELECT count(*), count(DISTINCT "$unit"), min("$rank"), max("$rank") FROM priv.t') == [
        (7, 7, 1, 1)
    ]
    assert found.reports["t"].repeated == 0


def test_views_are_evaluated_once_and_columns_may_be_called_rowid() -> None:
    made = policy(table("v", ["uid", "rowid", "x"], "uid"), table("w", ["rowid"], "uid", source="s.w"))
    source = """CREATE TABLE t AS SELECT i % 5 AS uid, i AS rowid FROM range(100) r(i); CREATE SCHEMA s;
    CREATE TABLE s.w AS SELECT i % 5 AS uid, 7 AS rowid FROM range(10) r(i);
    CREATE VIEW v AS SELECT uid, rowid, random() AS x FROM t ORDER BY random()"""
    found = Made(made, source)
    assert found.sql("SELECT count(*), count(DISTINCT rowid), sum(rowid) FROM priv.v") == [(100, 100, 4950)]
    assert found.sql(
        'SELECT count(*), sum(rowid) FROM priv.w JOIN (SELECT DISTINCT "$unit" FROM priv.v) USING ("$unit")'
    ) == [(10, 70)]


def test_a_view_may_use_the_name_of_the_row_number() -> None:
    source = 'CREATE VIEW v AS SELECT i AS "$row", i % 3 AS "$ROW$" FROM range(9) r(i)'
    made = Made(policy(table("v", ["$row"], "$ROW$")), source)
    assert made.rows("v", '"$row"') == [(i,) for i in range(9)]


def test_source_order_is_kept_within_a_chunk_of_rows() -> None:
    made = policy(table("t", ["i"], "u"))
    found = Made(made, "CREATE TABLE t AS SELECT hash(i) % 1000 AS u, i FROM range(300000) r(i)")
    spans = found.sql("SELECT max(i) - min(i) FROM priv.t GROUP BY rowid // 122880")
    assert max(span for (span,) in spans) < 3 * 122880


def test_chunks_of_the_source_lose_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    rows: dict[str, list[Row]] = {
        "customers": [(uid, cid) for uid in range(6) for cid in range(uid, 4)],
        "orders": [(oid, oid % 7) for oid in range(40)],
        "items": [(oid % 45, oid % 3) for oid in range(90)],
    }
    whole = Made(SHOP, SOURCE, rows)
    expected = {name: whole.rows(name) for name in rows}
    assert whole.reports["items"].copies > 0
    monkeypatch.setattr("dpsql.vault.materialise.CHUNK", 7)
    chunked = Made(SHOP, SOURCE, rows)
    assert {name: chunked.rows(name) for name in rows} == expected


def test_values_and_references_outside_are_counted_and_kept() -> None:
    made = policy(
        table("t", [column("d", None, ("a", "b")), "p", "q"], "u",
              references=(Reference(("p",), "ps", ("p",)), Reference(("p", "q"), "pqs", ("p", "q")))),
        table("ps", ["p"], key=("p",)),
        table("pqs", ["p", "q"], key=("p", "q")),
    )  # fmt: skip
    source = """CREATE TABLE t(u INTEGER, d VARCHAR, p INTEGER, q INTEGER); CREATE TABLE ps(p BIGINT);
    CREATE TABLE pqs(p SMALLINT, q INTEGER); INSERT INTO ps VALUES (1), (2); INSERT INTO pqs VALUES (1, 1), (2, 1)"""
    rows: list[Row] = [(1, "a", 1, 1), (1, "c", 1, 2), (2, None, None, 1), (2, "b", 3, None), (3, "x", 3, 3)]
    found = Made(made, source, {"t": rows})
    assert found.reports["t"].kept == 5
    assert found.reports["t"].outside == {"d": 2, "p": 2, "p, q": 2}


# ---- public tables: verified, and refused where a claim is false


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([(1, "a", 5, 1), (1, "b", 5, 1)], "p: the key k is not unique, 1 of its values stand in several rows"),
        ([(None, "a", 5, 1)], "p: 1 rows have NULL in the key k"),
        ([(1, "c", 5, 1)], "p.d: 1 values are not among its `values`"),
        ([(1, "a", 11, 1)], "p.x: 1 values lie beyond its bounds"),
        ([(1, "a", float("nan"), 1)], "p.x: 1 values lie beyond its bounds"),
        ([(1, "a", 5, 2)], "p.r: 1 values are not in the table it refers to"),
    ],
)
def test_claims_about_public_tables_are_verified(rows: list[Row], words: str) -> None:
    columns = ["k", column("d", None, ("a", "b")), column("x", (0, 10)), "r"]
    made = policy(
        table("p", columns, key=("k",), references=(Reference(("r",), "o", ("r",)),)), table("o", ["r"], key=("r",))
    )
    source = "CREATE TABLE p(k INTEGER, d VARCHAR, x DOUBLE, r INTEGER); CREATE TABLE o AS SELECT 1 AS r"
    assert Made(made, source, {"p": [(1, "a", 0, None), (2, "b", 10, 1)]}).facts["p"].rows == 2
    with pytest.raises(PolicyError, match="DP302") as caught:
        Made(made, source, {"p": rows})
    assert words in str(caught.value)


def test_a_key_that_is_not_among_the_columns_is_verified() -> None:
    made = policy(table("p", ["x"], key=("k",)))
    found = Made(made, "CREATE TABLE p AS SELECT unnest([1, 2]) AS k, 5 AS x")
    assert (found.public("p"), found.facts["p"].unique) == ([(5,), (5,)], ())
    with pytest.raises(PolicyError, match="p: the key k is not unique"):
        Made(made, "CREATE TABLE p AS SELECT unnest([1, 1]) AS k, 5 AS x")


def test_the_target_of_a_reference_is_verified_even_where_it_is_no_key() -> None:
    made = policy(table("t", ["p"], "p", references=(Reference(("p",), "ps", ("p",)),)), table("ps", ["p"]))
    source = "CREATE TABLE t(p INTEGER); CREATE TABLE ps AS SELECT unnest([1, 1]) AS p"
    with pytest.raises(PolicyError, match="ps: the key p is not unique"):
        Made(made, source)
    found = Made(made, "CREATE TABLE t(p INTEGER); CREATE TABLE ps AS SELECT unnest([1, 2]) AS p")
    assert found.facts["ps"].unique == (frozenset({"p"}),)


def test_facts_of_public_tables_tell_their_rows_and_private_ones_do_not() -> None:
    made = policy(table("p", ["k", "x"], key=("k",)), table("t", ["u", "k"], "u", key=("u", "k")))
    found = Made(
        made, "CREATE TABLE p AS SELECT i AS k, 1 AS x FROM range(9) r(i); CREATE TABLE t(u INTEGER, k INTEGER)"
    )
    assert (found.facts["p"].rows, found.facts["t"].rows) == (9, None)
    assert found.facts["p"].unique == (frozenset({"k"}),)
    assert found.facts["t"].unique == (frozenset({"u", "k"}),)
    assert found.public("p", "k") == [(i,) for i in range(9)]


# ---- databases that do not match


@pytest.mark.parametrize(
    ("made", "source", "words"),
    [
        (policy(table("t", ["x"], "u")), "CREATE TABLE tt(u INTEGER)", "t: no such table or view in the database"),
        (policy(table("order", ["x"], "u")), "CREATE TABLE orders(u INTEGER)", 'Did you mean "orders"?'),
        (policy(table("t", ["price"], "u")), "CREATE TABLE t(u INTEGER, prize INTEGER)",
         't.price: no such column. Did you mean "prize"?'),
        (policy(table("t", ["x"], "unit")), "CREATE TABLE t(x INTEGER)", "t.unit: no such column"),
        (policy(table("t", ["x"], "x")), "CREATE TABLE t(x DOUBLE)", "cannot identify a row or unit"),
        (policy(table("t", ["x"], "x")), "CREATE TABLE t(x TIMESTAMP_NS)", "cannot identify a row or unit"),
        (policy(table("t", ["x"], "x"), table("s", ["x"], "x")), "CREATE TABLE t(x INTEGER); CREATE TABLE s(x VARCHAR)",
         "the unit columns are of different types"),
        (policy(table("t", ["x"], "x"), table("s", ["x"], "x")), "CREATE TABLE t(x UUID); CREATE TABLE s(x VARCHAR)",
         "the unit columns are of different types"),
        (policy(CUSTOMERS, ORDERS),
         "CREATE TABLE customers(uid INTEGER, cid VARCHAR); CREATE TABLE orders(oid INTEGER, cid INTEGER)",
         "orders: its path's columns are of type integer, the key of customers of VARCHAR"),
        (policy(table("t", ["x"], "x", references=(Reference(("x",), "p", ("x",)),)), table("p", ["x"])),
         "CREATE TABLE t(x INTEGER); CREATE TABLE p(x VARCHAR)", "t.x: is BIGINT, but p.x is VARCHAR"),
        (policy(table("t", ["$rank"], "u")), 'CREATE TABLE t(u INTEGER, "$rank" INTEGER)', "the name is reserved"),
        (policy(table("v", ["x"], "x")),
         "CREATE TABLE t(x INTEGER); CREATE VIEW v AS SELECT x FROM t; ALTER TABLE t RENAME x TO y",
         "v: v is a view that DuckDB cannot read"),
        (policy(table("t", ["x"], Path(("x",), "s")), table("s", ["x"], ROW, key=("x",))),
         "CREATE TABLE t(x INTEGER); CREATE TABLE s(x INTEGER)", "which is not a private table with a key"),
    ],
)  # fmt: skip
def test_mismatches_are_named(made: Policy, source: str, words: str) -> None:
    with pytest.raises(PolicyError) as caught:
        Made(made, source)
    assert caught.value.code == "DP302"
    assert words in str(caught.value)


def test_all_mismatches_are_told_at_once() -> None:
    made = policy(table("t", ["a", "b", "c"], "u"), table("s", ["x"], "u"))
    with pytest.raises(PolicyError) as caught:
        Made(made, "CREATE TABLE t(a INTEGER[], c INTEGER)")
    lines = str(caught.value).splitlines()[1:]
    assert len(lines) == 4
    for start in ("t.a: type LIST", "t.b: no such column", "t.u: no such column", "s: no such table"):
        assert any(line.startswith(f"  - {start}") for line in lines)
