"""Each of the two keyed hashes alone withstands rows that were made to collide."""

from __future__ import annotations

import duckdb
import pytest

from dpsql.policy.facts import Kind, SqlType
from dpsql.vault.content import content_hashes, surrogate
from tests.vault.kit import SALT
from tests.vault.test_vault_removal import mixed, signed, unmixed

INTEGER, TEXT, WIDE = SqlType(Kind.INTEGER), SqlType(Kind.VARCHAR), SqlType(Kind.DECIMAL, 38, 0)
ONE = (1, 2)
OTHER = tuple(signed(unmixed(mixed(a) ^ difference)) for a, difference in zip(ONE, (2**63 ^ 2**31, 2**63), strict=True))


@pytest.mark.parametrize(
    ("types", "rows"),
    [
        ([INTEGER, INTEGER], [ONE, OTHER]),
        ([INTEGER, INTEGER], [ONE[::-1], OTHER[::-1]]),
        ([INTEGER], [(None,), (signed(unmixed(13787848793156543929)),)]),
        ([TEXT], [("customer-comment",), ("^'?nD6`m>n8^`VC/",), (")z(/J,m?[e]khL]]",)]),
        ([TEXT, TEXT], [("ab", "c"), ("a", "bc"), ("abc", ""), ("abc", None), (None, "abc"), ("", "abc")]),
        ([WIDE], [((1 << 64) + 2,), ((2 << 64) + 1,)]),
        ([INTEGER] * 40, [(None,) * n + (0,) * (40 - n) for n in range(40)]),
        ([None], [("\x00a",), ("a\x00",), ("a",)]),
    ],
)
def test_different_rows_have_different_hashes(types: list[SqlType | None], rows: list[tuple[object, ...]]) -> None:
    declared = [str(one) if one else "VARCHAR" for one in types]
    first, second, digest = content_hashes(types, SALT)
    with duckdb.connect(":memory:") as connection:
        columns = ", ".join(f"c{n} {name}" for n, name in enumerate(declared))
        connection.execute(f"CREATE TABLE t({columns})")
        connection.executemany(f"INSERT INTO t VALUES ({', '.join('?' * len(types))})", rows)
        hashed = f"SELECT {first}, {second} FROM (SELECT 5 AS unit, *, {digest} AS m FROM t)"
        found = connection.execute(hashed).fetchall()
    assert len({one for one, _ in found}) == len(rows)
    assert len({two for _, two in found}) == len(rows)


def test_salts_and_units_change_every_hash() -> None:
    with duckdb.connect(":memory:") as connection:
        seen = set()
        for salt in (b"1", b"2"):
            first, second, digest = content_hashes([INTEGER, TEXT], salt)
            source = f"(SELECT *, {digest} AS m FROM (SELECT unnest([5, 6]) AS unit, 1 AS c0, 'x' AS c1))"
            for row in connection.execute(f"SELECT {first}, {second} FROM {source}").fetchall():
                seen |= set(row)
        assert len(seen) == 8


def test_surrogates_are_positive_and_keyed() -> None:
    with duckdb.connect(":memory:") as connection:
        one, two = (
            connection.execute(f"SELECT {surrogate('v', salt)} FROM (SELECT unnest(['a', 'b', '']) AS v)").fetchall()
            for salt in (b"1", b"2")
        )
    values = {value for (value,) in one + two}
    assert len(values) == 6
    assert all(0 <= value < 2**63 for value in values)
