"""dpsql: ordinary SQL over private tables, answered with noise, priced against a budget.

The public names, and nothing else: the Python DB-API (PEP 249) with its constants, constructors, type
objects and errors. `import dpsql` loads neither the engine nor the parser; `connect` does.

    import dpsql

    with dpsql.connect("policies/grocery.toml", "grocery.duckdb") as connection:
        cursor = connection.execute("SELECT COUNT(DISTINCT household_id) FROM transactions")
        print(cursor.fetchall(), cursor.half_widths, cursor.receipt)
"""

from dpsql.errors import (
    BudgetError,
    DatabaseError,
    DataError,
    Error,
    IntegrityError,
    InterfaceError,
    InternalError,
    NotSupportedError,
    OperationalError,
    PolicyError,
    ProgrammingError,
    Warning,
)
from dpsql.front.dbapi import Connection, Cursor, apilevel, connect, paramstyle, threadsafety
from dpsql.front.types import (
    BINARY,
    DATETIME,
    NUMBER,
    ROWID,
    STRING,
    Binary,
    Date,
    DateFromTicks,
    Time,
    TimeFromTicks,
    Timestamp,
    TimestampFromTicks,
    TypeObject,
)

__version__ = "0.1.0"

__all__ = [
    "BINARY",
    "DATETIME",
    "NUMBER",
    "ROWID",
    "STRING",
    "Binary",
    "BudgetError",
    "Connection",
    "Cursor",
    "DataError",
    "DatabaseError",
    "Date",
    "DateFromTicks",
    "Error",
    "IntegrityError",
    "InterfaceError",
    "InternalError",
    "NotSupportedError",
    "OperationalError",
    "PolicyError",
    "ProgrammingError",
    "Time",
    "TimeFromTicks",
    "Timestamp",
    "TimestampFromTicks",
    "TypeObject",
    "Warning",
    "__version__",
    "apilevel",
    "connect",
    "paramstyle",
    "threadsafety",
]
