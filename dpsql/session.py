"""One query, end to end. Start reading here.

    parse      text -> canonical tree; one statement, else DP1xx
    resolve    names -> the policy's tables and columns
    lower      tree -> IR; every form without a node is refused (DP2xx)
    plan       IR -> limits, slots, price; then check() proves the price from the plan alone
    rewrite    plan -> sealed SQL for the private engine and for the outer one
    (stored?   the same releases were paid for before: their stored answers are given again, free)
    charge     committed to disk before any engine is asked about private rows; never refunded
    release    the private engine runs the inner SQL; noise is added; exact values are dropped
    answer     the outer engine, which has never seen a private row, finishes the statement

Everything before `charge` is a function of the text, parameters, settings, policy, public tables and ledger. The price,
the strategy, every message and every type are decided there, so none of them can depend on a private row.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from sqlglot import exp

from dpsql import releases, shows
from dpsql.answer import Answer, Receipt, finished, floored
from dpsql.compile import highlight
from dpsql.compile import statement as statements
from dpsql.compile.canonical import too_deep
from dpsql.compile.check import check
from dpsql.compile.gate import SealedSql
from dpsql.compile.lower import Schema, lower
from dpsql.compile.parameters import names as parameter_names
from dpsql.compile.parse import Parameters, parse
from dpsql.compile.plan import PrivatePlan, ReleasePlan
from dpsql.compile.planner import plan
from dpsql.compile.resolve import resolve
from dpsql.compile.rewrite import Rewritten, is_salted, rewrite, seal_public, seal_release
from dpsql.errors import Error, Span, located, refusal
from dpsql.explain import explain
from dpsql.keyfacts import KeyFacts
from dpsql.ledger import Balance, Charge, Ledger
from dpsql.owner import Opened, opened
from dpsql.policy.facts import SqlType
from dpsql.policy.model import Policy
from dpsql.prices import Estimate, Quote, Quotes, price
from dpsql.privacy.accounting import Price
from dpsql.reads import Reads
from dpsql.settings import Settings
from dpsql.vault.engine import EngineFailure
from dpsql.vault.noise import Noisy, release, replicates
from dpsql.vault.open import Engines, open_engines
from dpsql.vault.second_parser import check as second_check
from dpsql.vault.snapshot import Snapshot

_owner_log = logging.getLogger("dpsql.owner")

MAX_FITTING = 256
"""Outer SQL that a session remembers as fitting its releases."""


@dataclass(frozen=True, slots=True)
class Compiled:
    """A statement as far as it goes without a charge. asked: its text as it came."""

    asked: str
    plan: PrivatePlan
    rewritten: Rewritten

    @property
    def inner_sql(self) -> list[str]:
        return [s.text for s in self.rewritten.inner]


@dataclass(frozen=True, slots=True)
class _Paid:
    """Released tables by name, what was charged for them now, and what the account has left."""

    released: dict[str, Noisy]
    price: Price
    balance: Balance


class Session:
    """One analyst's use of one snapshot under one policy and one account. One statement at a time."""

    def __init__(self, policy: Policy, snapshot: Snapshot, engines: Engines, ledger: Ledger):
        self.policy, self.snapshot = policy, snapshot
        self.settings = Settings(policy)
        self._engines, self._ledger = engines, ledger
        self._cancelled = False  # set by any thread; for the time before an engine runs
        self._keys = KeyFacts(self._ask_public)
        self._fitting: set[tuple[object, ...]] = set()  # outer SQL, and the schemas over which it was bound

    # -- the path of one query ----------------------------------------------------------------------------------

    def execute(self, sql: str, parameters: Parameters | None = None, *, name: str = "") -> Answer:
        """Answer one statement. Raises dpsql.Error; DP1xx, DP2xx and DP4xx mean that nothing was charged."""
        self._cancelled = False
        _check_text(sql)
        try:
            match statements.read(sql):
                case statements.Select(text=text):
                    return self._answer(self.compile(text, parameters, name=name))
                case statements.Explain(text=text):
                    return shows.of_lines("explain", self.explain(text, parameters))
                case other:
                    if parameters:
                        raise refusal("DP003", "this statement takes no parameters", repair="write the value itself")
                    facts = self.snapshot.facts
                    return shows.of_command(other, self.policy, self.settings, facts, self.budget)
        except Error as error:
            raise located(error, sql, name) from None

    def compile(self, sql: str, parameters: Parameters | None = None, *, name: str = "") -> Compiled:
        """Everything before the charge."""
        source, resolved = sql, None
        try:
            parsed = parse(sql, parameters)
            source = parsed.text
            resolved = resolve(parsed, self.policy)
            query = lower(resolved, self.policy, self.snapshot.facts, self._describe)
            request = self.settings.request
            priced = plan(query, self.policy, request, self._keys.count, self._keys.factors)
            check(priced, self.policy, request)
            rewritten = rewrite(priced)
            public = (*rewritten.publics.values(), rewritten.outer, rewritten.replay)
            for sealed in filter(None, (*rewritten.inner, *public)):
                second_check(sealed.text, sealed.tables, sealed.functions)
            self._bind(priced, rewritten)
        except RecursionError:
            raise too_deep() from None
        except Error as error:
            if error.code == "DP502" and resolved is not None and resolved.doubts:
                error = resolved.doubts[0]  # the engine agrees that the statement does not fit
            raise located(error, source, name) from None
        return Compiled(sql, priced, rewritten)

    def _answer(self, compiled: Compiled) -> Answer:
        paid = self._releases(compiled)
        try:
            released = self._with_error_bars(compiled, paid.released)
            result = self._finish(compiled.rewritten, released)
        except EngineFailure as failure:
            if failure.interrupted:
                ended = "was interrupted" if self._by_request(failure) else "took longer than the policy allows"
                reason = f"what follows the releases {ended}; what was charged for is stored"
                raise refusal("DP501", reason, repair="asked again, what is stored is free") from None
            reason = f"the released results cannot answer this: {failure.detail}"
            raise refusal("DP502", reason, repair="the releases are stored: mend the rest, and they are free") from None
        bars = compiled.rewritten.bars
        answer = finished(result, bars.positions, self._receipt(compiled, paid))
        if not self.settings.non_negative:
            return answer
        return floored(answer, bars.never_negative([planned.release for planned in compiled.plan.releases]))

    def _finish(self, rewritten: Rewritten, released: dict[str, pa.Table]) -> pa.Table:
        """What the outer SQL makes of the released tables."""
        plain = rewritten.projection
        result = releases.projected(released[plain.released], plain.columns) if plain is not None else None
        return result if result is not None else self._engines.outer.run(rewritten.outer.text, released)

    def _with_error_bars(self, compiled: Compiled, released: dict[str, Noisy]) -> dict[str, pa.Table]:
        """The released tables, with the half-widths of expressions where the outer SQL shows them (see `errorbars`)."""
        bars, replay = compiled.rewritten.bars, compiled.rewritten.replay
        if replay is None:
            return released
        table = released[bars.released]
        count = releases.replays(table.num_rows)
        planned = next(r for r in compiled.plan.releases if r.release.name == bars.released)
        widths: dict[str, list[float | None]] = {name: [None] * table.num_rows for name in bars.replayed}
        if count:
            at = self._engines.outer.run(replay.text, {bars.released: table})
            around = self._engines.outer.run(replay.text, {bars.released: replicates(table, planned, count)})
            widths = {n: releases.half_widths(at.column(n), around.column(n), count) for n in bars.replayed}
        for name, found in widths.items():
            table = table.append_column(name, pa.array(found, pa.float64()))
        return {**released, bars.released: table}

    def _releases(self, compiled: Compiled) -> _Paid:
        """Stored releases where they were paid for, new ones for a charge."""
        snapshot = self.snapshot.facts.snapshot
        reads = Reads(compiled.rewritten.publics, self._run_public)
        found: dict[str, Noisy] = {}
        shared: dict[str, Noisy] = {}  # what another analyst paid for: new to this one, and not to all together
        missing: dict[str, tuple[ReleasePlan, SealedSql]] = {}
        fingerprints: dict[str, str] = {}  # of new ones, by name; of twins the first alone
        twins: dict[str, str] = {}  # releases of one statement that are the same as another
        for planned, sealed in zip(compiled.plan.releases, compiled.rewritten.inner, strict=True):
            name, tables = planned.release.name, reads.of(planned, found)
            if tables is None:  # what it reads comes from a release that is new itself
                missing[name] = planned, sealed
                continue
            fingerprint = releases.fingerprint(planned, sealed, snapshot, tables)
            stored = self._ledger.find(fingerprint, snapshot)
            if stored is not None:
                found[name] = releases.loads(stored)
            elif (first := next((n for n, f in fingerprints.items() if f == fingerprint), None)) is not None:
                twins[name] = first
            else:
                fingerprints[name] = fingerprint
                missing[name] = planned, sealed
                if (theirs := self._ledger.find_shared(fingerprint, snapshot)) is not None:
                    shared[name] = releases.loads(theirs)
        if not missing:
            return _Paid(found, Price(), self._ledger.balance())
        cost = price(compiled.plan, missing)
        if self._cancelled:
            raise refusal("DP501", "the statement was interrupted before it was charged")
        charge = Charge(
            epsilon=cost.epsilon,
            delta=cost.delta,
            statement=shows.as_charged(compiled.asked, compiled.rewritten.outer.text, compiled.inner_sql),
            fingerprint=" ".join(fingerprints.values()),
            snapshot=snapshot,
            policy=self.policy.digest,
            mu_squared=cost.mu_squared,
            joint=price(compiled.plan, missing.keys() - shared.keys()),
        )
        identity = self._ledger.charge(charge)
        failed, new = "", {}
        try:
            if self._cancelled:  # while the charge was written; once the engine runs, it hears of it itself
                raise EngineFailure("cancelled before it started", interrupted=True)
            for name, (planned, sealed) in missing.items():
                tables = reads.of(planned, found)
                assert tables is not None  # releases stand in the order in which they read each other
                stored = shared.get(name)
                found[name] = self._release(planned, sealed, tables) if stored is None else stored
                found |= {twin: found[name] for twin, first in twins.items() if first == name}
                fingerprint = fingerprints.get(name) or releases.fingerprint(planned, sealed, snapshot, tables)
                new[fingerprint] = releases.dumps(found[name])
        except EngineFailure as failure:
            cancelled = self._by_request(failure)  # whoever cancels learns nothing
            if not cancelled:  # time, memory or anything else ran out: that it did may tell a bit, what it was must not
                self._ledger.fail(identity)
            _owner_log.error("charge %d: the engine could not finish", identity)  # its own words quote rows
            failed = "was interrupted" if cancelled else "could not be finished"
        except Error:  # of a public query between two releases: what was released stays
            self._ledger.finish(identity, new)
            raise
        if failed:  # out here, where not even __context__ leads to the engine's words
            raise refusal("DP501", f"the statement {failed}; its charge stays")
        balance = self._ledger.finish(identity, new)
        return _Paid(found, cost, balance)

    def _by_request(self, failure: EngineFailure) -> bool:
        """Whether it is the analyst who ended the statement."""
        return failure.interrupted and self._cancelled

    def _release(self, planned: ReleasePlan, sealed: SealedSql, tables: Mapping[str, pa.Table]) -> Noisy:
        """Run one release; a random choice of keys gets its salt only now, after the charge."""
        if is_salted(planned):
            sealed = seal_release(planned, secrets.randbits(62))
            second_check(sealed.text, sealed.tables, sealed.functions)
        return release(self._engines.private, sealed, planned, tables)

    def _run_public(self, query: SealedSql, released: Mapping[str, pa.Table]) -> pa.Table:
        """A public query that releases read. Its failures speak of public values."""
        try:
            return self._engines.outer.run(query.text, released)
        except EngineFailure as failure:
            reason = f"a subquery over public results cannot be answered: {failure.detail}"
            raise refusal("DP502", reason, repair="what was released is stored: asked again, it is free") from None

    def _describe(self, tree: exp.Query, schemas: Mapping[str, Schema]) -> tuple[SqlType, ...]:
        """The column types of a public query that private rows are to be compared with."""
        sealed = seal_public(tree, frozenset(schemas))
        second_check(sealed.text, sealed.tables, sealed.functions)
        named = {name: schema for name, schema in schemas.items() if name in sealed.tables}
        try:
            types = self._engines.outer.bind(sealed.text, releases.empty_tables(named))
        except EngineFailure as failure:
            raise _unfit("the subquery does not fit its tables", failure) from None
        return tuple(releases.type_of(name) for name in types)

    def _ask_public(self, query: SealedSql) -> pa.Table | None:
        """What planning asks of the public tables; None where the engine fails."""
        second_check(query.text, query.tables, query.functions)
        try:
            return self._engines.outer.run(query.text, {})
        except EngineFailure:
            return None

    def _bind(self, priced: PrivatePlan, rewritten: Rewritten) -> None:
        """Let the outer engine bind the outer SQL over empty releases: its mistakes are found before they cost.

        Whether it fits hangs on the text, on the columns of the releases and on the public tables, which stay as they
        are in a snapshot: what fitted once fits again. A projection fits where the columns it names are there."""
        schemas = releases.schemas(priced, rewritten.bars)
        plain = rewritten.projection
        if plain is not None and {name for name, _ in plain.columns} <= set(schemas[plain.released].names):
            return
        asked = (rewritten.outer.text, *schemas.items())
        if asked in self._fitting:
            return
        try:
            self._engines.outer.bind(rewritten.outer.text, {n: s.empty_table() for n, s in schemas.items()})
        except EngineFailure as failure:
            raise _unfit("the statement does not fit its results", failure) from None
        if len(self._fitting) >= MAX_FITTING:
            self._fitting.clear()
        self._fitting.add(asked)

    def _receipt(self, compiled: Compiled, paid: _Paid) -> Receipt:
        return Receipt(
            epsilon=paid.price.epsilon,
            delta=paid.price.delta,
            remaining_epsilon=paid.balance.remaining_epsilon,
            remaining_delta=paid.balance.remaining_delta,
            columns=releases.receipt_columns(compiled.plan),
            releases=tuple(r.release.name for r in compiled.plan.releases),
            policy=self.policy.digest,
            snapshot=self.snapshot.facts.snapshot,
            mu_squared=paid.price.mu_squared,
            remaining_mu_squared=paid.balance.remaining_mu_squared,
        )

    # -- everything else ----------------------------------------------------------------------------------------

    def explain(self, sql: str, parameters: Parameters | None = None) -> str:
        """The plan of a statement, both SQLs, its price and expected error. Free."""
        _check_text(sql)
        try:
            statement = statements.read(sql)
        except Error as error:
            raise located(error, sql) from None
        text = statement.text if isinstance(statement, statements.Select) else sql
        compiled = self.compile(text, parameters)
        return explain(compiled.plan, compiled.rewritten)

    def statements(self, script: str, name: str = "") -> list[str]:
        """The statements of a script, each padded so that positions count in the script."""
        _check_text(script)
        try:
            return [source.padded for source in statements.split(script)]
        except Error as error:
            raise located(error, script, name) from None

    def parameters(self, sql: str) -> frozenset[str]:
        """The names of a statement's `$name` parameters, and the numbers of its `?`."""
        _check_text(sql)
        try:
            return parameter_names(sql)
        except Error as error:
            raise located(error, sql) from None

    def budget(self) -> Balance:
        """What the account has spent and has left."""
        return self._ledger.balance()

    def quotes(self) -> Quotes:
        """For the prices of a script's statements, one after the other."""
        return Quotes(self._ledger.find, self.snapshot.facts.snapshot)

    def quote(self, sql: str, quotes: Quotes, parameters: Parameters | None = None, *, name: str = "") -> Quote:
        """What a query would be charged. Free, and nothing is charged."""
        return self.estimate(sql, quotes, parameters, name=name).quote

    def estimate(
        self, sql: str, quotes: Quotes | None = None, parameters: Parameters | None = None, *, name: str = ""
    ) -> Estimate:
        """What a query would be charged, and how exact it would be. Free."""
        compiled = self.compile(sql, parameters, name=name)
        reads = Reads(compiled.rewritten.publics, self._run_public)
        quote = (quotes or self.quotes()).of(compiled.plan, compiled.rewritten, reads)
        return Estimate(quote, releases.receipt_columns(compiled.plan))

    def paid(self, most: int = 20) -> Answer:
        """The statements that this account (where each analyst has a budget: this analyst) was charged for last."""
        return shows.of_paid(self._ledger.paid(most))

    def vocabulary(self) -> shows.Vocabulary:
        """Names to complete: of the policy and the language, never of data."""
        return shows.vocabulary(self.policy, self.snapshot.facts, self.settings)

    def pieces(self, text: str) -> list[tuple[Span, str]]:
        """The tokens of a text and what each is, for colors. Raises DP101 where it is no SQL, or not yet."""
        return list(highlight.pieces(text))

    def cancel(self) -> None:
        """Interrupt the running statement, from another thread. Its charge stays."""
        self._cancelled = True
        self._engines.private.cancel()
        self._engines.outer.cancel()

    def close(self) -> None:
        """Close engines and ledger. Idempotent."""
        self._engines.close()
        self._ledger.close()


def _unfit(reason: str, failure: EngineFailure) -> Error:
    """DP502 with the first line of what the outer engine says: it has seen public values and empty releases alone."""
    said = failure.detail.partition("\n")[0].removeprefix("BinderException: ").removeprefix("Binder Error: ")
    return refusal("DP502", f"{reason}: {said}", repair="mend it there; EXPLAIN shows what is asked of the results")


def _check_text(sql: object) -> None:
    """Whoever calls from Python can hand over anything."""
    if not isinstance(sql, str):
        raise refusal("DP101", f"a statement is a str, not {type(sql).__name__}")


def open_session(
    policy: str | Path,
    database: str | Path | None = None,
    *,
    ledger: str | Path | None = None,
    analyst: str | None = None,
    prepare: str = "auto",
) -> Session:
    """A session on a policy's data. See `dpsql.connect`."""
    return started(opened(policy, database, ledger=ledger, analyst=analyst, prepare=prepare))


def started(by: Opened) -> Session:
    """The session over what was opened, which it closes."""
    try:
        return Session(by.policy, by.snapshot, open_engines(by.snapshot, by.policy.engine), by.ledger)
    except BaseException:
        by.ledger.close()
        raise
