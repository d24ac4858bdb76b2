"""TPC-H data as one DuckDB file, made by tpchgen-cli: for the measurements and, at a small scale, for the tests.

    python -m bench.data 1 build/tpch-1.duckdb

Types are those of TPC-H (integers, DECIMAL(15,2), DATE, VARCHAR). The same scale gives the same data every time.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

import duckdb

TABLES = ("region", "nation", "customer", "supplier", "part", "partsupp", "orders", "lineitem")


def build(scale: str, target: Path) -> bool:
    """Make the DuckDB file `target` at this scale factor; False where it was up to date."""
    if target.is_file() and target.stat().st_mtime >= Path(__file__).stat().st_mtime:
        return False
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="tpch-", dir=target.parent) as folder:
        generate(scale, Path(folder))
        beside = Path(folder) / "tpch.duckdb"
        with duckdb.connect(str(beside)) as connection:
            for table in TABLES:
                path = str(Path(folder) / f"{table}.parquet")
                connection.execute(f"CREATE TABLE {table} AS FROM read_parquet($path)", {"path": path})
            connection.execute("CHECKPOINT")
        os.replace(beside, target)
    return True


def generate(scale: str, folder: Path) -> None:
    """One Parquet file per table in `folder`."""
    program = shutil.which("tpchgen-cli", path=sysconfig.get_path("scripts")) or shutil.which("tpchgen-cli")
    if program is None:
        raise FileNotFoundError("tpchgen-cli is not installed: pip install 'dpsql[test]'")
    subprocess.run(
        [program, "parquet", "--scale-factor", scale, "--output-dir", str(folder)],
        check=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def main() -> int:
    parser = argparse.ArgumentParser(description="Build a DuckDB file of TPC-H data.")
    parser.add_argument("scale", help="scale factor: 1 is six million line items")
    parser.add_argument("target", type=Path, help="the DuckDB file to write")
    arguments = parser.parse_args()
    made = build(arguments.scale, arguments.target)
    print(f"{arguments.target}: {'built' if made else 'up to date'}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
