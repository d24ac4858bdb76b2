"""What the owner does, and what a session does for them: policies drafted, snapshots made, accounts opened."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from dpsql.errors import Error, refusal
from dpsql.ledger import Balance, Ledger, Price, Terms, look, record, spent, terms
from dpsql.ledger.chain import adopt
from dpsql.ledger.file import LedgerFile
from dpsql.ledger.keys import Keys
from dpsql.ledger.record import Verified
from dpsql.places import real
from dpsql.policy.draft import Drafted, draft
from dpsql.policy.load import load_policy
from dpsql.policy.model import Policy
from dpsql.vault import snapshot as snapshots
from dpsql.vault import survey
from dpsql.vault.snapshot import Snapshot

Progress = Callable[[str, float], None]


def prepare(
    policy: str | Path, database: str | Path | None = None, *, refresh: bool = False, progress: Progress | None = None
) -> str:
    """Make the snapshot of a policy; returns the report, which speaks of private data and is the owner's alone."""
    loaded = load_policy(policy)
    source = _database(loaded, database)
    found = snapshots.find(loaded) if not refresh else None
    if found is not None:
        _check_same(found, source)
    _, report = snapshots.prepare(loaded, source, refresh=refresh, progress=progress)
    return report.render()


def _check_same(found: Snapshot, database: Path | None) -> None:
    """Refuse another database than the snapshot was made from."""
    if database is None or str(real(database)) == found.source:
        return
    if not real(database).exists():
        raise refusal("DP302", f"{database}: there is no such file")
    reason = "the snapshot of this account was made from another database"
    raise refusal("DP304", reason, repair="name that database, or make it anew with `dpsql prepare --refresh`")


def _database(policy: Policy, database: str | Path | None) -> Path | None:
    """The database, where the policy needs one. Raises DP302 where one is missing, or none is read."""
    needed = not policy.reads_files_only
    if needed and database is None:
        raise refusal("DP302", "name the database file to prepare from", repair="dpsql prepare POLICY DATABASE")
    if not needed and database is not None:
        reason = "every table of this policy is read from files: no database is used"
        raise refusal("DP302", reason, repair="leave the database out, or the source of a table")
    return None if database is None else Path(database)


def snapshot_for(policy: Policy, database: str | Path | None, how: str) -> Snapshot:
    """The snapshot to answer from: the one that exists, else (how = "auto") a new one. Raises DP304, DP305."""
    found = snapshots.find(policy)
    if database is not None:
        _database(policy, database)
    if found is not None:
        _check_same(found, Path(database) if database is not None else None)
        return found
    if how == "required" or (database is None and not policy.reads_files_only):
        reason = f'no snapshot exists for the account "{policy.budget.account}"'
        raise refusal(
            "DP305", reason, repair="make it with `dpsql prepare POLICY DATABASE`, or connect with a database"
        )
    made, _ = snapshots.prepare(policy, None if database is None else Path(database))
    return made


@dataclass(frozen=True, slots=True)
class Opened:
    """What a session starts from, at hand before its engine and its compiler are loaded."""

    policy: Policy
    snapshot: Snapshot
    ledger: Ledger


def opened(
    policy: str | Path,
    database: str | Path | None = None,
    *,
    ledger: str | Path | None = None,
    analyst: str | None = None,
    prepare: str = "auto",
) -> Opened:
    """Load the policy, find or make the snapshot, open the account. See `dpsql.connect`."""
    if prepare not in ("auto", "required"):
        raise refusal("DP120", f'prepare is "auto" or "required", not "{prepare}"')
    loaded = load_policy(policy)
    check_analyst(loaded, analyst)
    snapshot = snapshot_for(loaded, database, prepare)
    return Opened(loaded, snapshot, open_account(loaded, snapshot, ledger, analyst))


def check_analyst(policy: Policy, analyst: str | None) -> None:
    """Refuse (DP406) who asks without a name where the policy counts per analyst. `open_account` knows the rest."""
    if policy.budget.per_analyst and analyst is None:
        reason = "this policy has a budget for each analyst: who asks?"
        raise refusal("DP406", reason, repair='dpsql.connect(..., analyst="ann"), or --analyst ann')


def open_account(policy: Policy, snapshot: Snapshot, ledger: str | Path | None, analyst: str | None = None) -> Ledger:
    """The policy's account over the snapshot's sources, and in it the purse of this analyst; without a name, the one of
    all together."""
    return Ledger.open(_file(ledger), _terms(policy, snapshot.sources, analyst))


def _file(ledger: str | Path | None) -> Path | None:
    return None if ledger is None else Path(ledger)


def _terms(policy: Policy, sources: Sequence[str], analyst: str | None = None) -> Terms:
    budget = policy.budget
    return terms(
        budget.account,
        epsilon=budget.epsilon,
        delta=budget.delta,
        composition=budget.composition,
        unit=policy.unit,
        sources=list(sources),
        analyst=analyst,
        renew=budget.renew,
        joint_epsilon=budget.joint_epsilon,
        max_failures=budget.max_failures,
    )


def balances_of(policy: str | Path, ledger: str | Path | None = None, analyst: str | None = None) -> list[Balance]:
    """Of the purse of this analyst; without a name, of every purse: first that of all together. Needs no data."""
    loaded = load_policy(policy)
    return look(_file(ledger), _terms(loaded, _known_sources(loaded), analyst), every=analyst is None)


def spent_of(policy: str | Path, ledger: str | Path | None = None) -> tuple[Price, int]:
    """What the account of the policy's name has spent, under whatever terms, and in how many statements."""
    return spent(_file(ledger), load_policy(policy).budget.account)


def _known_sources(policy: Policy) -> Sequence[str]:
    """The snapshot's sources, where there is one that fits."""
    try:
        found = snapshots.find(policy)
    except Error:
        return ()
    return () if found is None else found.sources


def open_account_anew(
    policy: str | Path, database: str | Path | None = None, ledger: str | Path | None = None
) -> Balance:
    """A fresh account under the policy's terms; what was spent stays on record, and is no longer counted."""
    loaded = load_policy(policy)
    snapshot = snapshot_for(loaded, database, "auto")
    account = Ledger.open_new(_file(ledger), _terms(loaded, snapshot.sources))
    try:
        return account.balance()
    finally:
        account.close()


def reopen_account(policy: str | Path, ledger: str | Path | None = None) -> Balance:
    """Let a frozen account take charges again."""
    loaded = load_policy(policy)
    Ledger.reopen(_file(ledger), loaded.budget.account)
    return balances_of(policy, ledger)[0]


def verify_ledger(ledger: str | Path | None) -> Verified:
    """Read the whole ledger. Raises DP403 with the first thing in it that is not as it was written."""
    with closing(LedgerFile(_file(ledger), make=False)) as file:
        return record.verify(file, Keys(file))


def export_ledger(ledger: str | Path | None) -> Iterator[dict[str, object]]:
    """The ledger's record, an entry at a time."""
    with closing(LedgerFile(_file(ledger), make=False)) as file:
        yield from record.exported(file)


def adopt_ledger(ledger: str | Path | None) -> int:
    """Take the ledger as it is, under a new key; the number of its entries."""
    with closing(LedgerFile(_file(ledger), make=False)) as file:
        return adopt(file)


def check_data(policy: Policy, database: str | Path | None) -> None:
    """Whether names and types of the data fit the policy. Raises DP302 with all that does not."""
    survey.check(policy, _database(policy, database))


def draft_policy(data: str | Path, folder: str | Path) -> str:
    """A draft for what is in a database or folder. folder: where the policy will stand; sources are relative to it."""
    base = real(folder)
    tables = [
        Drafted(t.name, "" if t.source is None else _relative(t.source, base), t.columns)
        for t in survey.survey(Path(data))
    ]
    return draft(tables)


def _relative(path: Path, base: Path) -> str:
    """As the policy names it: with a slash in it where its ending does not say that it is a file."""
    written = os.path.relpath(path, base)
    return f"{written}/" if path.is_dir() else written
