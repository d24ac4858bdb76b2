"""What can be done with each column, as completion offers it: from the policy and the types alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from dpsql.policy.facts import Kind, PublicFacts, SqlType, TableFacts
from dpsql.policy.load import load_policy
from dpsql.policy.vocabulary import TableWords, words_of

POLICY = """\
version = 1
[unit]
name = "person"
[budget]
account = "a"
epsilon = "1"
delta = "{delta}"
per_query_epsilon = "1"
max_query_epsilon = "1"
[tables.people]
unit = "id"
key = ["id"]
max_rows_per_unit = 1
[tables.people.columns]
age = {{ bounds = [0, 120] }}
serial = {{ bounds = [0, 1000000] }}
weight = {{ bounds = [0, 200] }}
born = {{ bounds = [1900-01-01, 1900-12-31] }}
seen = {{ bounds = [2020-01-01T00:00:00, 2021-01-01T00:00:00] }}
sex = {{ values = ["f", "m"] }}
town = {{ references = "towns.town" }}
alive = {{}}
name = {{}}
income = {{}}
[tables.bills]
unit = {{ via = "payer", to = "people" }}
max_rows_per_unit = 9
[tables.bills.columns]
payer = {{}}
[tables.towns]
public = true
key = ["town"]
[tables.towns.columns]
town = {{}}
size = {{}}
"""

KINDS = {
    "people": {
        "age": Kind.INTEGER, "serial": Kind.INTEGER, "weight": Kind.DOUBLE, "born": Kind.DATE, "seen": Kind.TIMESTAMP,
        "sex": Kind.VARCHAR, "town": Kind.VARCHAR, "alive": Kind.BOOLEAN, "name": Kind.VARCHAR, "income": Kind.DECIMAL,
    },
    "bills": {"payer": Kind.INTEGER},
    "towns": {"town": Kind.VARCHAR, "size": Kind.INTEGER},
}  # fmt: skip
FACTS = PublicFacts(
    "s", {table: TableFacts({n: SqlType(k) for n, k in kinds.items()}, None, ()) for table, kinds in KINDS.items()}
)


def words(tmp_path: Path, delta: str) -> dict[str, TableWords]:
    file = tmp_path / "policy.toml"
    file.write_text(POLICY.format(delta=delta), encoding="utf-8")
    return words_of(load_policy(file), FACTS)


def test_columns_by_their_use(tmp_path: Path) -> None:
    found = words(tmp_path, "0")
    people = found["people"]
    assert people.columns == (*KINDS["people"], "id")
    assert people.groups == {"age", "born", "sex", "town", "alive"}
    assert people.sums == {"age", "serial", "weight"}
    assert people.units == {"id"}
    assert dict(people.values) == {"sex": ("f", "m")}
    assert found["bills"].units == {"payer"}
    assert found["towns"].groups == {"town", "size"}
    assert found["towns"].sums == {"size"}


@pytest.mark.parametrize("table", ["people", "bills"])
def test_with_a_delta_every_column_but_the_units_makes_groups(tmp_path: Path, table: str) -> None:
    found = words(tmp_path, "1e-6")[table]
    assert found.groups == set(found.columns) - found.units
