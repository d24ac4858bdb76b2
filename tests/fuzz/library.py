"""A session over the library for hunts: what it is asked, what it pays, and whether the order of both is right."""

from __future__ import annotations

import shutil
from pathlib import Path

import duckdb
import pyarrow as pa

from dpsql import session as session_module
from dpsql.answer import Answer
from dpsql.audit.data import home as home_in
from dpsql.compile.parse import Parsed
from dpsql.errors import Error
from dpsql.session import Session, open_session
from tests.fuzz.hunt import End, raised_at
from tests.properties.explore import shapes

FOLDER = Path(__file__).parents[1] / "semantics"
DATABASE = "library.duckdb"
POLICY = (
    FOLDER.joinpath("library.toml")
    .read_text(encoding="utf-8")
    .replace('delta = "0"', 'delta = "1e-6"\nmax_failures = 100')
    .replace('per_query_epsilon = "1"', 'per_query_epsilon = "0.001"')
    .replace('max_query_epsilon = "1000"', 'max_query_epsilon = "0.01"')
)
"""With a delta, so that keys and normal noise are reached as well; a statement is cheap, so that the budget lasts."""


def statements() -> list[str]:
    """The project's own statements over the library."""
    lines = FOLDER.joinpath("relations.txt").read_text(encoding="utf-8").splitlines()
    return [line.partition(" ")[2].split("|||")[0].strip() for line in lines if line and not line.startswith("#")]


def build(folder: Path) -> Path:
    """The library's database and policy in the folder; the path of the policy."""
    if not folder.joinpath(DATABASE).exists():
        folder.mkdir(parents=True, exist_ok=True)
        with duckdb.connect(str(folder / DATABASE)) as connection:
            connection.execute((FOLDER / "library.sql").read_text(encoding="utf-8"))
        folder.joinpath("library.toml").write_text(POLICY, encoding="utf-8")
    return folder / "library.toml"


def open_library(folder: Path) -> Watched:
    """A session over the library in a home of its own."""
    with home_in(folder):
        return Watched(open_session(build(folder), folder / DATABASE))


def removed(folder: Path) -> None:
    """Nothing is left of the folder, whatever the rights of what is in it."""
    for path in (folder, *folder.rglob("*")):
        if not path.is_symlink() and path.is_dir():
            path.chmod(0o700)
    shutil.rmtree(folder, ignore_errors=True)


class Watched:
    """A session whose private engine is watched: it may be asked only when the statement has been charged."""

    def __init__(self, session: Session):
        self.session = session
        self._early, self._asked, self._before = False, False, session.budget().spent_epsilon
        run = session._engines.private.run

        def watched(sql: str, tables: object = None) -> pa.Table:
            self._asked = True
            self._early = self._early or session.budget().spent_epsilon <= self._before
            return run(sql, tables)

        session._engines.private.run = watched

    def close(self) -> None:
        self.session.close()

    def settle(self) -> None:
        """Settings as at the start."""
        self.session.settings.reset(None)

    def execute(self, sql: str) -> tuple[End, Answer | None]:
        """How one statement ends, what it was charged included."""
        self._early, self._asked, self._before = False, False, self.session.budget().spent_epsilon
        answer, code, reason = None, "", ""
        try:
            answer = self.session.execute(sql)
            kind = self._kind(sql, answer)
        except Error as error:
            code, reason = error.code, error.reason
            kind = f"{code} {raised_at(error.__traceback__)}"
            if code.startswith("DP9"):
                return End(kind, f"{error.code}: {error.reason} at {raised_at(error.__traceback__)}"), None
            if str(error).splitlines()[0][:5] != code:
                return End(kind, f"the error's text does not start with its code {code}"), None
        except Exception as error:
            wrong = f"{type(error).__name__}: {error} at {raised_at(error.__traceback__)}"
            return End(wrong[:80], wrong), None
        return End(kind, self._wrong(code, reason, answer)), answer

    def compile(self, parsed: Parsed) -> None:
        """A reading, as far as a statement goes without a charge. Raises Error."""
        plain, session_module.parse = session_module.parse, lambda *_: parsed
        try:
            self.session.compile(parsed.text)
        finally:
            session_module.parse = plain

    def _kind(self, sql: str, answer: Answer) -> str:
        if answer.receipt is None or not answer.receipt.releases:
            return f"free {answer.table.num_columns == 0}"
        plans = self.session.compile(sql).plan.releases
        found = {p.limits.strategy for p in plans} | {s for p in plans for s in shapes(p.release.input)}
        return f"answer {' '.join(sorted(found))}"

    def _wrong(self, code: str, reason: str, answer: Answer | None) -> str:
        charged = self.session.budget().spent_epsilon - self._before
        if self._early:
            return "private rows were read before the charge"
        if code and charged and code not in ("DP501", "DP502"):
            return f"{code} was charged"
        if code == "DP501" and reason.startswith("the ledger "):  # after the charge
            return "" if charged else "DP501 was not charged"
        if code == "DP501":
            return "DP501: the engine failed"
        if answer is not None and answer.receipt is not None and answer.receipt.epsilon != charged:
            return f"the receipt says {answer.receipt.epsilon}, the ledger {charged}"
        if answer is not None and self._asked and not charged:
            return "private rows were answered without a charge"
        return ""
