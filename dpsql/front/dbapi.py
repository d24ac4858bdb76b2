"""The Python DB-API (PEP 249): connections and cursors over a session.

Promise: every exception that leaves is a `dpsql.Error` whose text starts with its code; values arrive as int,
Decimal, float, str, bool, date, datetime or None; of public tables as time, list, dict or bytes, too; and what Python
has no type for (an infinite date, an interval) as a str. It holds answers only, and knows neither the engine nor the
parser. It loads nothing heavy: pyarrow and the session are imported by the first `connect`.

A charge is never taken back: there are no transactions, so `commit` and `rollback` find nothing pending.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import date, datetime
from decimal import Decimal
from functools import partial
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from dpsql import errors
from dpsql.errors import Error, refusal
from dpsql.front.diagnostics import guarded, spinner
from dpsql.front.interrupts import interruptible
from dpsql.front.types import type_code

if TYPE_CHECKING:
    import pyarrow as pa

    from dpsql.answer import Answer, Receipt
    from dpsql.ledger import Balance
    from dpsql.session import Session

apilevel = "2.0"
threadsafety = 1
paramstyle = "qmark"

Parameter: TypeAlias = int | Decimal | float | str | bool | date | datetime | None
Parameters: TypeAlias = Sequence[Parameter] | Mapping[str, Parameter]
Description: TypeAlias = tuple[str, str, None, None, int | None, int | None, bool | None]
Row: TypeAlias = tuple[Any, ...]

_T = TypeVar("_T")

_CHUNK = 4096  # rows turned from Arrow into Python at a time


def connect(
    policy: str | Path,
    database: str | Path | None = None,
    *,
    ledger: str | Path | None = None,
    analyst: str | None = None,
    prepare: str = "auto",
) -> Connection:
    """Open private data under a policy.

    policy: the owner's TOML file. database: a DuckDB file, or nothing where every table of the policy has its
    own source. ledger: the file of budgets (default: one for all accounts, in your state folder); a new one is
    made only in a folder that is there. analyst: who asks, where the policy counts per analyst. prepare: "auto"
    makes the snapshot where none exists (this may take a while; on a terminal a sign turns meanwhile); "required"
    fails instead.
    """
    _check_arguments(policy, database, ledger, analyst)

    def opened() -> Connection:
        from dpsql.session import open_session

        return Connection(open_session(policy, database, ledger=ledger, analyst=analyst, prepare=prepare))

    with spinner("opening; a first use prepares the snapshot"):
        return guarded(opened)


def _check_arguments(policy: object, database: object, ledger: object, analyst: object) -> None:
    """Whoever calls from Python can hand over anything."""
    for name, given in (("policy", policy), ("database", database), ("ledger", ledger)):
        if not isinstance(given, str | Path) and (given is not None or name == "policy"):
            reason = f"{name} is the path of a file, not {type(given).__name__}"
            raise refusal("DP003", reason, repair='connect("policy.toml", "data.duckdb")')
    if analyst is not None and not isinstance(analyst, str):
        reason = f"analyst is a name, not {type(analyst).__name__}"
        raise refusal("DP003", reason, repair='connect(..., analyst="ann")')


class Connection:
    """One analyst's session. Threads may not share it (threadsafety 1), but any thread may call `cancel`."""

    Warning = errors.Warning
    Error = errors.Error
    InterfaceError = errors.InterfaceError
    DatabaseError = errors.DatabaseError
    DataError = errors.DataError
    OperationalError = errors.OperationalError
    IntegrityError = errors.IntegrityError
    InternalError = errors.InternalError
    ProgrammingError = errors.ProgrammingError
    NotSupportedError = errors.NotSupportedError
    PolicyError = errors.PolicyError
    BudgetError = errors.BudgetError

    def __init__(self, session: Session) -> None:
        self._open_session: Session | None = session

    @property
    def _session(self) -> Session:
        if self._open_session is None:
            raise refusal("DP001", "the connection is closed")
        return self._open_session

    def cursor(self) -> Cursor:
        """A new cursor; each holds its own result."""
        self._session  # noqa: B018 - raises where closed
        return Cursor(self)

    def execute(self, sql: str, parameters: Parameters | None = None) -> Cursor:
        """A new cursor that has executed the statement."""
        return self.cursor().execute(sql, parameters)

    def executescript(self, script: str) -> list[Cursor]:
        """Execute the script's statements in order; one cursor each. Stops at the first error, which it raises.

        What ran before that error stays charged, and is free when asked again.
        """
        session = self._session
        statements = guarded(partial(session.statements, script))
        return [self.execute(statement) for statement in statements]

    def explain(self, sql: str, parameters: Parameters | None = None) -> str:
        """How the statement would be answered: both SQLs, limits, noise, price. Free; runs nothing on private data."""
        session, given = self._session, _checked(parameters)
        return guarded(partial(session.explain, sql, given))

    @property
    def budget(self) -> Balance:
        """What the account has spent and has left, as exact fractions."""
        return guarded(self._session.budget)

    def cancel(self) -> None:
        """Ask the statement that another thread runs here to stop; what it was charged stays charged."""
        guarded(self._session.cancel)

    def commit(self) -> None:
        """Nothing is ever pending."""
        self._session  # noqa: B018 - raises where closed

    def rollback(self) -> None:
        """Nothing is ever pending; a charge is never taken back."""
        self._session  # noqa: B018 - raises where closed

    def close(self) -> None:
        """Close the session. A second call does nothing."""
        if self._open_session is not None:
            session, self._open_session = self._open_session, None
            guarded(session.close)

    def __enter__(self) -> Connection:
        self._session  # noqa: B018 - raises where closed
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Cursor:
    """One result at a time: rows, half-widths, receipt."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.arraysize = 1
        self._closed = False
        self._answer: Answer | None = None
        self._rows: Iterator[Row] = iter(())

    def execute(self, operation: str, parameters: Parameters | None = None) -> Cursor:
        """Execute one statement; returns the cursor itself. `?` takes a sequence, `$name` a mapping."""
        session, given = self._ready(), _checked(parameters)
        self._forget()
        self._keep(_asked(session, operation, given))
        return self

    def executemany(self, operation: str, seq_of_parameters: Iterable[Parameters]) -> Cursor:
        """Execute the statement once for each set of parameters. EACH IS CHARGED like a statement of its own.

        The rows of all follow each other, and the receipt is that of the last with the charges added up. Where
        one fails the error is raised; those before it stay charged, and are free when asked again.
        """
        session, several = self._ready(), _iterable(seq_of_parameters, "write [(1,), (2,)]")
        self._forget()
        answers: list[Answer] = []
        for parameters in several:
            answers.append(_asked(session, operation, _checked(parameters)))
        if answers:
            from dpsql.answer import together

            self._keep(guarded(partial(together, answers)))
        return self

    @property
    def description(self) -> list[Description] | None:
        """A 7-tuple per column: name, type code, None, None, precision, scale, None. None before `execute`."""
        return None if self._answer is None else [_described(column) for column in self._answer.table.schema]

    @property
    def rowcount(self) -> int:
        """Rows of the result, or -1 before `execute`."""
        return -1 if self._answer is None else self._answer.table.num_rows

    @property
    def receipt(self) -> Receipt | None:
        """What the statement cost and what is left; None for SET, SHOW, DESCRIBE and EXPLAIN."""
        return None if self._answer is None else self._answer.receipt

    @property
    def half_widths(self) -> list[list[float | None] | None]:
        """Per column None (exact, or not known) or one number per row: half the width of the 95 % interval."""
        return [None if column is None else list(column) for column in self._result().widths]

    def fetchone(self) -> Row | None:
        """The next row, or None."""
        rows = self.fetchmany(1)
        return rows[0] if rows else None

    def fetchmany(self, size: int | None = None) -> list[Row]:
        """The next `size` rows (default: `arraysize`)."""
        self._result()
        wanted: object = self.arraysize if size is None else size
        if not isinstance(wanted, int) or wanted < 0:
            raise refusal("DP002", "fetchmany takes a number of rows", repair="fetchmany(10)")
        return guarded(partial(list, islice(self._rows, min(wanted, sys.maxsize))))

    def fetchall(self) -> list[Row]:
        """All rows that are left."""
        self._result()
        return guarded(partial(list, self._rows))

    def __iter__(self) -> Iterator[Row]:
        return self

    def __next__(self) -> Row:
        row = self.fetchone()
        if row is None:
            raise StopIteration
        return row

    def to_arrow(self) -> pa.Table:
        """The whole result as an Arrow table, whatever was fetched before."""
        return self._result().table

    def to_pandas(self) -> Any:
        """The whole result as a pandas DataFrame."""
        table = self.to_arrow()
        _need("pandas", "to_pandas()")
        return _converted(table.to_pandas, "pandas")

    def to_polars(self) -> Any:
        """The whole result as a Polars DataFrame."""
        table = self.to_arrow()
        polars = _need("polars", "to_polars()")
        return _converted(partial(polars.from_arrow, table), "Polars")

    def setinputsizes(self, sizes: Sequence[object]) -> None:
        """PEP 249 asks for it; nothing to prepare."""

    def setoutputsize(self, size: int, column: int | None = None) -> None:
        """PEP 249 asks for it; values are never cut."""

    def close(self) -> None:
        """Drop the result; the cursor can't be used again."""
        self._forget()
        self._closed = True

    def __enter__(self) -> Cursor:
        self._ready()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _repr_html_(self) -> str:
        """The result as notebooks show it."""
        if self._answer is None:
            return "<em>no result</em>"
        from dpsql.front.markup import html

        answer, total = self._answer, self.connection._session.policy.budget.epsilon
        return guarded(partial(html, answer, total))

    def _ready(self) -> Session:
        session = self.connection._session
        if self._closed:
            raise refusal("DP001", "the cursor is closed")
        return session

    def _result(self) -> Answer:
        self._ready()
        if self._answer is None:
            raise refusal("DP002", "there is no result: execute a statement first")
        return self._answer

    def _keep(self, answer: Answer) -> None:
        self._answer, self._rows = answer, _rows(answer.table)

    def _forget(self) -> None:
        self._answer, self._rows = None, iter(())


def _checked(parameters: Parameters | None) -> Parameters | None:
    """The parameters, copied; a plain string is a forgotten comma, not a sequence of letters."""
    if parameters is None:
        return None
    if isinstance(parameters, Mapping):
        return dict(parameters)
    return tuple(_iterable(parameters, "write (value,)"))


def _iterable(parameters: Iterable[_T], repair: str) -> Iterable[_T]:
    """The same. Raises DP003 where a caller, whom no type holds back, gives something else."""
    given: object = parameters
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        reason = "parameters come as a sequence (for ?) or a mapping (for $name)"
        raise refusal("DP003", reason, repair=repair)
    return parameters


def _asked(session: Session, operation: str, parameters: Parameters | None) -> Answer:
    """The session's answer. Ctrl-C stops the engine and is then raised as ever, whatever became of the statement."""
    with interruptible(session.cancel) as interrupt:
        try:
            answer = guarded(partial(session.execute, operation, parameters))
        except Error:
            if not interrupt.pressed:
                raise
    if interrupt.pressed:
        raise KeyboardInterrupt
    return answer


def _rows(table: pa.Table) -> Iterator[Row]:
    """The table's rows as tuples, some thousand converted at a time. Sums of 38 digits and no fraction are int."""
    from dpsql.answer import values_of

    whole = [type_code(column.type) == "HUGEINT" for column in table.schema]
    if not whole:
        return
    for start in range(0, table.num_rows, _CHUNK):
        columns = (
            [None if value is None else int(value) for value in column.to_pylist()] if integer else values_of(column)
            for column, integer in zip(table.slice(start, _CHUNK).columns, whole, strict=True)
        )
        yield from zip(*columns, strict=True)


def _described(column: pa.Field) -> Description:
    code = type_code(column.type)
    precision, scale = (column.type.precision, column.type.scale) if code in ("DECIMAL", "HUGEINT") else (None, None)
    return (column.name, code, None, None, precision, scale, None)


def _converted(convert: Callable[[], Any], package: str) -> Any:
    """The result as that package has it. Raises DP002 where it has no such value (an infinite date, an interval), or
    takes no two columns of one name; its own words may quote values."""
    with suppress(Exception):
        return convert()
    repair = "to_arrow() and fetchall() give all of it; CAST(... AS VARCHAR) makes a text, and AS another name"
    raise refusal("DP002", f"{package} cannot hold all of this result", repair=repair)


def _need(package: str, method: str) -> Any:
    """The optional package, imported."""
    from importlib import import_module

    try:
        return import_module(package)
    except ImportError:
        reason = f"{method} needs the package {package}, which is not installed"
    raise refusal("DP002", reason, repair=f"pip install {package}")
