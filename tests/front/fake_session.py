"""A session that answers from a script of its own: what the front ends see, without policy files, engines or noise.

The tests put it in the place of `dpsql.session` and `dpsql.owner` (the fixture `fake`, or `launch.py` for a process of
its own). Statements are recognised by their first words; all else comes back as an error, as from a real session.
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa

from dpsql.answer import Answer, ColumnReceipt, Receipt
from dpsql.compile import highlight
from dpsql.errors import Span, located, refusal
from dpsql.ledger import Balance, Price
from dpsql.policy.facts import PublicFacts
from dpsql.policy.model import Budget, Column, Policy, Table
from dpsql.policy.vocabulary import words_of
from dpsql.prices import Estimate, Quote
from dpsql.shows import Vocabulary

TOTAL = Fraction(3)
PRIVATE_DETAIL = "alice-secret"  # stands in an exception that no front end may show
MARKER = "FAKE_SESSION_RUNS_SLOWLY"  # the environment variable that names the file
slow = threading.Event()


FACTS = PublicFacts("fake", {})


def policy(account: str = "shop") -> Policy:
    columns = {name: Column(name) for name in ("household_id", "department", "sales_value")}
    return Policy(
        unit="household",
        budget=Budget(account, TOTAL, Fraction(0), Fraction(1, 4), Fraction(1)),
        tables={
            "sales": Table("sales", False, "sales", "household_id", (), columns, max_rows_per_unit=10),
            "days": Table("days", True, "days", None, (), {"day": Column("day")}),
        },
        digest="digest",
    )


def answer(columns: Mapping[str, Any], half_widths: Sequence[Any] = (), receipt: Receipt | None = None) -> Answer:
    return Answer(pa.table(dict(columns)), half_widths, receipt)


class Settings(dict[str, object]):
    @contextmanager
    def kept(self) -> Iterator[None]:
        before = dict(self)
        yield
        self.clear()
        self.update(before)


@dataclass
class Session:
    """Charges 1/4 for each `SELECT ... FROM sales`, once per text."""

    policy: Policy = field(default_factory=policy)
    settings: Settings = field(default_factory=lambda: Settings(epsilon=Fraction(1, 4)))
    spent: Fraction = Fraction(0)
    executed: list[tuple[str, object]] = field(default_factory=list)
    closed: bool = False
    cancelled: threading.Event = field(default_factory=threading.Event)
    seen: set[str] = field(default_factory=set)
    kept: tuple[Path, ...] = ()

    def execute(self, sql: str, parameters: Any = None, *, name: str = "") -> Answer:
        text = sql.strip().removesuffix(";")
        while text.startswith("--"):
            text = text.partition("\n")[2].strip()
        self.executed.append((text, parameters))
        for start, reply in self._replies().items():
            if text.upper().startswith(start):
                return reply(text, sql, name)
        at = len(sql) - len(sql.lstrip())
        raise located(refusal("DP101", "this is not SQL", span=Span(at, at + 4), repair="write a query"), sql, name)

    def _replies(self) -> dict[str, Callable[[str, str, str], Answer]]:
        return {
            "SELECT DEPARTMENT": self._departments,
            "SELECT SLOWLY": self._slowly,
            "SELECT PUBLIC": self._public,
            "SELECT NASTY": self._nasty,
            "SELECT WIDE": self._wide,
            "SELECT MANY": lambda *_: answer({"n": list(range(1000))}, receipt=self._receipt(Fraction(0))),
            "SELECT JOIN": self._refuse,
            "SELECT DEAR": self._too_dear,
            "SELECT ENGINE": self._engine,
            "SELECT CRASH": self._crash,
            "SELECT LOST": self._lost,
            "SET EPSILON": self._set,
            "SHOW TABLES": lambda *_: answer({"table": list(self.policy.tables)}),
            "DESCRIBE SALES": self._describe,
            "EXPLAIN": lambda *_: answer({"explain": ["Release", "  Scan sales"]}),
        }

    def _describe(self, *_: str) -> Answer:
        names = list(self.policy.tables["sales"].columns)
        none = pa.array([None] * len(names), pa.string())
        empty = dict.fromkeys(("lowest", "highest", "keys", "unit_of_measure", "description"), none)
        return answer({"column": names, "type": ["VARCHAR"] * len(names), **empty})

    def _receipt(self, charge: Fraction, *columns: ColumnReceipt) -> Receipt:
        self.spent += charge
        return Receipt(charge, Fraction(0), TOTAL - self.spent, Fraction(0), columns, policy="digest")

    def _departments(self, text: str, *_: str) -> Answer:
        charge = Fraction(0) if text in self.seen else Fraction(1, 4)
        if self.spent + charge > TOTAL:
            raise refusal("DP401", "the budget is exhausted: 0 is left", repair="ask the owner")
        self.seen.add(text)
        receipt = self._receipt(charge, ColumnReceipt("households", "discrete Laplace", charge, 4.0, 14.0))
        columns = {"department": ["GROCERY", "DRUG GM", None], "households": [2401, 1136, 7]}
        return answer(columns, [None, [14.0, 14.0, 14.0]], receipt)

    def _slowly(self, *_: str) -> Answer:
        """Half a minute, unless it is cancelled. That it runs is told by `slow`, and by a file."""
        self.spent += Fraction(1, 4)
        self.cancelled.clear()
        slow.set()
        if marker := os.environ.get(MARKER):
            Path(marker).touch()
        for _i in range(3000):
            if self.cancelled.is_set():
                raise refusal("DP501", "the statement was interrupted; its charge stays")
            time.sleep(0.01)
        return answer({"n": [1]}, receipt=self._receipt(Fraction(0)))

    def _public(self, *_: str) -> Answer:
        columns = {
            "i": pa.array([1, None], pa.int64()),
            "d": pa.array([Decimal("1.50"), None], pa.decimal128(10, 2)),
            "h": pa.array([Decimal(2**100), None], pa.decimal128(38, 0)),
            "f": pa.array([0.5, None], pa.float64()),
            "s": pa.array(["text", None], pa.string()),
            "b": pa.array([True, None], pa.bool_()),
            "day": pa.array([date(2024, 2, 29), None], pa.date32()),
            "ts": pa.array([datetime(2024, 2, 29, 12, 30), None], pa.timestamp("us")),
        }
        return answer(columns, receipt=self._receipt(Fraction(0)))

    def _nasty(self, *_: str) -> Answer:
        texts = ["\x1b[2Jgone", 'a|b,"c"\nd', "", "NULL", None, "日本\u202e"]
        return answer({"text\x07": texts}, receipt=self._receipt(Fraction(0)))

    def _wide(self, *_: str) -> Answer:
        columns = {f"column_{i}": ["a rather long text in a cell", "short"] for i in range(3)}
        return answer(columns | {"total": [123456, 7]}, [None, None, None, [9.0, 9.0]], self._receipt(Fraction(1, 4)))

    def _refuse(self, text: str, sql: str, name: str) -> Answer:
        at = sql.index("JOIN") if "JOIN" in sql else 0
        reason = "a join of two private tables must also match the privacy unit"
        error = refusal("DP210", reason, span=Span(at, at + 4), repair="add `AND t.household_id = r.household_id`")
        raise located(error, sql, name)

    def _too_dear(self, *_: str) -> Answer:
        raise refusal("DP401", "the budget is exhausted: 2.75 is left and 3 is asked")

    def _engine(self, *_: str) -> Answer:
        raise refusal("DP501", "the statement could not be finished; its charge stays")

    def _crash(self, *_: str) -> Answer:
        raise ValueError(f"could not convert {PRIVATE_DETAIL}")

    def _lost(self, *_: str) -> Answer:
        raise refusal("DP901", "a check failed")

    def _set(self, text: str, *_: str) -> Answer:
        value = text.rpartition("=")[2].strip()
        if value.startswith("-"):
            raise refusal("DP120", "epsilon is more than 0")
        self.settings["epsilon"] = Fraction(value)
        return answer({})

    def statements(self, script: str, name: str = "") -> list[str]:
        if script.count("'") % 2:
            raise located(
                refusal("DP101", "a string does not end", span=Span(script.rindex("'"), len(script))), script, name
            )
        found, start = [], 0
        for part in script.split(";"):
            if any(line.strip() and not line.strip().startswith("--") for line in part.splitlines()):
                blank = "".join("\n" if c == "\n" else " " for c in script[:start])
                found.append(blank + part + ";")
            start += len(part) + 1
        return found

    def explain(self, sql: str, parameters: Any = None) -> str:
        if "JOIN" in sql:
            self._refuse("", sql, "")
        return f"Release\n  {sql.strip().removesuffix(';')} with {parameters}, epsilon {self.settings['epsilon']}"

    def parameters(self, sql: str) -> frozenset[str]:
        return frozenset(re.findall(r"\$(\w+)", sql))

    def quotes(self) -> set[str]:
        return set(self.seen)

    def quote(self, sql: str, quotes: set[str], parameters: Any = None, *, name: str = "") -> Quote:
        """As `execute` charges, DEAR three times the whole budget."""
        text = sql.strip().removesuffix(";")
        if "JOIN" in text:
            self._refuse(text, sql, name)
        price = {"DEPARTMENT": Fraction(1, 4), "DEAR": 3 * TOTAL}.get(
            text.upper().partition("SELECT ")[2].split(",")[0]
        )
        charged = Price(Fraction(0) if price is None or text in quotes else price)
        quotes.add(text)
        return Quote(charged, Price())

    def budget(self) -> Balance:
        return Balance(TOTAL, Fraction(0), self.spent, Fraction(0), TOTAL - self.spent, Fraction(0), 0)

    def estimate(self, sql: str, quotes: Any = None, *, name: str = "") -> Estimate:
        text = sql.strip().removesuffix(";")
        if "JOIN" in sql:
            self._refuse("", sql, name)
        asks = any(text.upper().startswith(word) for word in ("SELECT DEPARTMENT", "SELECT WIDE", "SELECT SLOWLY"))
        price = Price(Fraction(1, 4)) if asks else Price()
        charged, spared = (Price(), price) if text in self.seen else (price, Price())
        column = ColumnReceipt("households", "discrete Laplace", price.epsilon, 4.0, 14.0)
        return Estimate(Quote(charged, spared), (column,) if asks else ())

    def paid(self, most: int = 20) -> Answer:
        rows = sorted(self.seen)[:most]
        columns = {
            "charged_at": pa.array(["2026-11-30 10:00 UTC"] * len(rows), pa.string()),
            "epsilon": pa.array(["1/4"] * len(rows), pa.string()),
            "delta": pa.array(["0"] * len(rows), pa.string()),
            "state": pa.array(["answered"] * len(rows), pa.string()),
            "statement": pa.array(rows, pa.string()),
        }
        return answer(columns)

    def pieces(self, text: str) -> list[tuple[Span, str]]:
        return list(highlight.pieces(text))

    def vocabulary(self) -> Vocabulary:
        return Vocabulary(words_of(self.policy, FACTS), ("count", "sum"), {"epsilon": ()})

    def cancel(self) -> None:
        self.cancelled.set()

    def close(self) -> None:
        self.closed = True


calls: list[dict[str, Any]] = []
accounts: list[tuple[Any, ...]] = []


def open_session(
    policy: str | Path,
    database: str | Path | None = None,
    *,
    ledger: str | Path | None = None,
    analyst: str | None = None,
    prepare: str = "auto",
) -> Session:
    calls.append({"policy": policy, "database": database, "ledger": ledger, "analyst": analyst, "prepare": prepare})
    if "broken" in str(policy):
        raise refusal("DP301", "unknown key `budgett`", repair="write `budget`")
    if "crash" in str(policy):
        raise RuntimeError(PRIVATE_DETAIL)
    return Session()


@dataclass
class Opened:
    """What `owner.opened` gives: the session's own parts."""

    session: Session

    @property
    def policy(self) -> Policy:
        return self.session.policy

    @property
    def snapshot(self) -> Any:
        return SimpleNamespace(facts=FACTS, kept=())

    @property
    def ledger(self) -> Any:
        return SimpleNamespace(balance=self.session.budget, close=self.session.close)


def opened(policy: str | Path, database: str | Path | None = None, **options: Any) -> Opened:
    return Opened(open_session(policy, database, **options))


def started(by: Opened) -> Session:
    return by.session


def prepare(
    policy: str | Path,
    database: str | Path | None = None,
    *,
    refresh: bool = False,
    progress: Callable[[str, float], None] | None = None,
) -> str:
    for stage in ("sales", "days"):
        for fraction in (0.0, 0.5, 1.0):
            if progress is not None:
                progress(stage, fraction)
    return f"sales: 5 rows kept, 1 dropped (refresh: {refresh})"


def balance_of(policy: str | Path, ledger: str | Path | None = None) -> Balance:
    return Balance(TOTAL, Fraction(1, 10**6), Fraction(1, 3), Fraction(0), Fraction(8, 3), Fraction(1, 10**6), 1)


def balances_of(policy: str | Path, ledger: str | Path | None = None, analyst: str | None = None) -> list[Balance]:
    return [balance_of(policy, ledger)]


def spent_of(policy: str | Path, ledger: str | Path | None = None) -> tuple[Price, int]:
    return Price(Fraction(1, 3)), 2


def open_account_anew(
    policy: str | Path, database: str | Path | None = None, ledger: str | Path | None = None
) -> Balance:
    accounts.append(("anew", policy, database, ledger))
    return balance_of(policy, ledger)


def reopen_account(policy: str | Path, ledger: str | Path | None = None) -> Balance:
    accounts.append(("reopen", policy, ledger))
    return balance_of(policy, ledger)
