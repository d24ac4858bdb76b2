"""Made-up databases to attack: tables written as Parquet files beside a policy that names them, and opened as any
analyst opens private data.

Role: everything the audit knows of its own data is here. It opens no engine and reads no snapshot.
"""

from __future__ import annotations

import itertools
import os
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

import dpsql

DELTA = 0.99
"""Of an account, where there is one at all; each statement with private keys takes its share of it."""

Row = tuple[object, ...]
Rows = Mapping[str, Sequence[Row]]

_BUDGET = """\
version = 1
[unit]
name = "person"
[budget]
account = "{account}"
epsilon = "1000"
delta = "{delta}"
per_query_epsilon = "{epsilon}"
max_query_epsilon = "1000"
"""


@dataclass(frozen=True, slots=True)
class Column:
    """type: in the file. claim: what the policy says of the column."""

    type: pa.DataType
    claim: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """head: the policy's lines of the table itself."""

    head: str
    columns: Mapping[str, Column]


@dataclass(frozen=True, slots=True)
class Terms:
    """What a statement costs, and is therefore claimed to be: (epsilon, delta)-DP where it selects private keys,
    epsilon-DP where it does not. delta 0: keys have to be public."""

    epsilon: str
    delta: str = "0"


@contextmanager
def home(folder: Path) -> Iterator[None]:
    """Snapshots and budgets go to this folder for a while, and never to the person's own."""
    places = {f"XDG_{kind}_HOME": str(folder / kind.lower()) for kind in ("CACHE", "STATE", "CONFIG")}
    before = {name: os.environ.get(name) for name in places}
    os.environ.update(places)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


class World:
    """A folder with one database and its policy."""

    def __init__(self, folder: Path, tables: Mapping[str, Table], rows: Rows, terms: Terms):
        folder.mkdir(parents=True)
        self.policy = folder / "policy.toml"
        self._numbers = itertools.count()
        delta = "0" if terms.delta == "0" else str(DELTA)
        text = _BUDGET.format(account=f"audit-{secrets.token_hex(8)}", epsilon=terms.epsilon, delta=delta)
        if terms.delta != "0":
            text += f'per_query_delta = "{terms.delta}"\n'
        for name, table in tables.items():
            text += f'[tables.{name}]\nsource = "{name}.parquet"\n{table.head}\n[tables.{name}.columns]\n'
            text += "".join(f"{column} = {{ {c.claim} }}\n" for column, c in table.columns.items())
            _write(folder / f"{name}.parquet", table, rows.get(name, ()))
        self.policy.write_text(text, encoding="utf-8")

    def connect(self) -> dpsql.Connection:
        """A session on a ledger of its own: its budget is whole, and it has no stored answers."""
        return dpsql.connect(self.policy, ledger=self.policy.with_name(f"ledger-{next(self._numbers)}.sqlite"))


def _write(file: Path, table: Table, rows: Sequence[Row]) -> None:
    columns = list(zip(*rows, strict=True)) or [()] * len(table.columns)
    arrays = [pa.array(values, c.type) for values, c in zip(columns, table.columns.values(), strict=True)]
    pq.write_table(pa.table(dict(zip(table.columns, arrays, strict=True))), file)
