"""How DuckDB reports that it was interrupted."""

from __future__ import annotations

import duckdb


def is_interrupt(error: BaseException) -> bool:
    """Whether the error stands for an interrupt: of the connection, or a signal to the process (Ctrl-C)."""
    return isinstance(error, duckdb.InterruptException) or (
        type(error) is RuntimeError and str(error) == "Query interrupted"
    )
