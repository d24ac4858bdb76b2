"""Damaged files: the ledger's and its key's, and a snapshot's. A session over them answers what it charges for, or says
what is wrong; the budget is never fuller than it was."""

from __future__ import annotations

import contextlib
import zlib
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from random import Random

import pyarrow as pa

from dpsql import owner
from dpsql.audit.data import home as home_in
from dpsql.errors import Error
from dpsql.ledger import default_path
from dpsql.session import open_session
from tests.fuzz import damage
from tests.fuzz.hunt import End, raised_at
from tests.fuzz.library import DATABASE, Watched, build, removed

STORED = "SELECT town, COUNT(*) AS n FROM people GROUP BY town"
NEW = "SELECT COUNT(*) AS n, SUM(l.fee) AS f FROM loans l JOIN books b ON l.book = b.book WHERE b.price > 5"
OUTER = "SELECT g.label, (SELECT COUNT(*) FROM visits) AS n FROM genres g"
Files = dict[Path, bytes]


class _Damaged:
    """A home of a ledger and a snapshot that is put back before each recipe.

    `_now` holds the files of a ledger in use, WAL included; `_then` the ones of some charges before, which no recipe
    may put back together with their key: an owner who does that is outside of the promise."""

    name, ending = "", ".damage"
    sides: Sequence[Sequence[str]]
    states: Sequence[str] = ("open", "closed")

    def __init__(self, folder: Path):
        self._folder = folder
        self._policy = build(folder)
        with home_in(folder):
            watched = Watched(open_session(self._policy, folder / DATABASE))
            self._answer = self._asked(watched, STORED)
            self._paths = self._find()
            earlier = self._read()
            self._then = {name: earlier[path] for name, path in self._paths.items() if path in earlier}
            for number in range(12):
                self._asked(watched, f"SELECT COUNT(*) AS n FROM people WHERE age > {number}")
            self._now = self._read()
            self._spent = watched.session.budget().spent_epsilon
            watched.close()
            self._closed = self._read()

    def close(self) -> None:
        removed(self._folder)

    def _asked(self, watched: Watched, sql: str) -> pa.Table:
        end, answer = watched.execute(sql)
        assert answer is not None, end
        assert not end.wrong, end
        return answer.table

    def _find(self) -> dict[str, Path]:
        """By the names that recipes use."""
        ledger = default_path()
        chains = list((ledger.parent / "chains").iterdir())
        (facts,) = (self._folder / "cache").rglob("facts.json")
        files = {"ledger": ledger, "wal": Path(f"{ledger}-wal"), "shm": Path(f"{ledger}-shm")}
        files |= {"place" if p.suffix == ".place" else "head": p for p in chains}
        names = ("private.duckdb", "public.duckdb", "facts.json", "report.json")
        return files | {name.partition(".")[0]: facts.parent / name for name in names}

    def _read(self) -> Files:
        """All that dpsql keeps, by path."""
        kept = [p for kind in ("state", "cache") for p in (self._folder / kind).rglob("*") if p.is_file()]
        return {path: path.read_bytes() for path in kept}

    def _put_back(self, files: Files) -> None:
        for kind in ("state", "cache"):
            removed(self._folder / kind)
        for path, content in files.items():
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            path.write_bytes(content)
            path.chmod(0o600)

    def seeds(self) -> list[bytes]:
        blows = ("flip 100 1", "cut 5000", "drop", "empty", "older", "folder", "link", "mode 644", "zero 0 4096")
        names = [name for side in self.sides for name in side]
        return [f"{state}\n{name} {blow}\n".encode() for state in self.states for name in names for blow in blows]

    def parts(self, content: bytes) -> list[bytes]:
        return content.splitlines(keepends=True)

    def mutated(self, rng: Random, known: Sequence[bytes]) -> bytes:
        side = rng.choice(self.sides)
        lines = damage.recipe(rng, side)
        if rng.random() < 0.3:
            lines += [line for line in rng.choice(known).decode().splitlines() if line.split()[0] in side]
        return "\n".join([rng.choice(self.states), *lines, ""]).encode()

    def ask(self, content: bytes) -> End:
        self._renews = zlib.crc32(content) % 8 == 0  # which takes a while
        with home_in(self._folder):
            lines = content.decode().splitlines()
            self._put_back(self._now if "open" in lines else self._closed)
            for blow in lines:
                if blow not in ("open", "closed"):
                    damage.strike(blow, self._paths, self._then)
            return self._used()

    def _used(self) -> End:
        """A session as an analyst has one; then what an owner would do."""
        kinds, wrong = [], ""
        try:
            watched = Watched(open_session(self._policy, self._folder / DATABASE))
            try:
                kinds, wrong = self._session(watched)
            finally:
                watched.close()
        except Error as error:
            kinds.append(f"{error.code} {raised_at(error.__traceback__)}")
            wrong = _unless(error, "34")
        except Exception as error:
            wrong = f"{type(error).__name__}: {error} at {raised_at(error.__traceback__)}"
        return End(" | ".join(kinds), wrong or self._owner())

    def _session(self, watched: Watched) -> tuple[list[str], str]:
        spent = watched.session.budget().spent_epsilon
        if spent < self._spent:
            return [], f"{self._spent} was spent, and now {spent}"
        kinds = []
        for sql in (STORED, NEW, OUTER):
            end, answer = watched.execute(sql)
            kinds.append(end.kind)
            if end.wrong and not (end.wrong.startswith("DP501") and self.name == "snapshot"):
                return kinds, end.wrong
            if sql is STORED and answer is not None and _free(answer.receipt) and answer.table != self._answer:
                return kinds, "a free repeat is another answer"
            if sql is NEW and answer is not None and _free(answer.receipt):
                return kinds, "a new answer was free"
        return kinds, ""

    def _owner(self) -> str:
        """Owners are told, too. Of what they do: read the record, and make the snapshot anew."""
        for step in (lambda: owner.verify_ledger(None), lambda: owner.prepare(self._policy, self._folder / DATABASE)):
            try:
                step()
            except Error as error:
                if wrong := _unless(error, "34"):
                    return wrong
            except Exception as error:
                return f"{type(error).__name__}: {error} at {raised_at(error.__traceback__)}"
        return ""


class Ledgers(_Damaged):
    """The ledger and its log, or its key and head: one side at a time, since both together can be an older pair."""

    name = "ledger"
    sides = (("ledger", "wal", "shm"), ("head", "place"))


class Snapshots(_Damaged):
    """The two databases of a snapshot and the two small files beside them."""

    name = "snapshot"
    sides, states = (("private", "public", "facts", "report"),), ("closed",)

    def _owner(self) -> str:
        if (wrong := super()._owner()) or not self._renews:
            return wrong
        with contextlib.suppress(Error):
            owner.prepare(self._policy, self._folder / DATABASE, refresh=True)
            with contextlib.closing(Watched(open_session(self._policy))) as watched:
                end, _ = watched.execute(NEW)
            return end.wrong
        return "a snapshot made anew is of no use"


def _free(receipt: object) -> bool:
    return getattr(receipt, "epsilon", None) == Fraction(0)


def _unless(error: Error, families: str) -> str:
    return "" if error.code[2] in families else f"{error.code}: {error.reason} at {raised_at(error.__traceback__)}"
