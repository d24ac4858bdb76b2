"""The command line with a private engine that needs minutes for statements about fees: `-m tests.end.launch_slow`."""

from __future__ import annotations

import sys

import pyarrow as pa

from dpsql.front.cli import main
from dpsql.vault.duckdb import DuckDBEngine

if __name__ == "__main__":
    run = DuckDBEngine.run

    def slow(self: DuckDBEngine, sql: str, tables: object = None) -> pa.Table:
        long = "SELECT SUM(a.range * b.range) FROM range(10000000) a, range(100000) b"
        return run(self, long if "fee" in sql else sql)

    DuckDBEngine.run = slow  # type: ignore[method-assign]
    sys.exit(main())
