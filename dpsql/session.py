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
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from dpsql import releases, shows
from dpsql.answer import Answer, Receipt, finished, floored
from dpsql.compile import highlight
from dpsql.compile import statement as statements
from dpsql.compile.canonical import too_deep
from dpsql.compile.check import check
from dpsql.compile.gate import SealedSql
from dpsql.compile.limits import all_declared
from dpsql.compile.lower import lower
from dpsql.compile.parameters import names as parameter_names
from dpsql.compile.parse import Parameters, Parsed, parse
from dpsql.compile.plan import PrivatePlan
from dpsql.compile.planner import plan
from dpsql.compile.resolve import resolve
from dpsql.compile.rewrite import Rewritten, is_salted, rewrite, seal_release
from dpsql.compile.types import claimed
from dpsql.errors import Error, Span, located, refusal
from dpsql.explain import Known, explain
from dpsql.keyfacts import KeyFacts
from dpsql.ledger import AlreadyRefined, Balance, Charge, Kept, Ledger, unfinished
from dpsql.outer import Outer
from dpsql.owner import Opened, opened
from dpsql.policy.model import Policy
from dpsql.prices import Bill, Due, Estimate, Quote, Quotes, bill
from dpsql.privacy.accounting import Price
from dpsql.reads import Reads
from dpsql.repeats.lookup import Repeats
from dpsql.repeats.stored import dumps, groups_of, loads
from dpsql.settings import Settings
from dpsql.vault.engine import EngineFailure
from dpsql.vault.noise import release
from dpsql.vault.open import Engines, open_engines
from dpsql.vault.readings import Released
from dpsql.vault.second_parser import check as second_check
from dpsql.vault.second_parser import mistake
from dpsql.vault.snapshot import Snapshot

_owner_log = logging.getLogger("dpsql.owner")


@dataclass(frozen=True, slots=True)
class Compiled:
    """A statement as far as it goes without a charge. asked: its text as it came."""

    asked: str
    plan: PrivatePlan
    rewritten: Rewritten

    @property
    def inner_sql(self) -> list[str]:
        return [s.text for s in self.rewritten.inner]

    @property
    def inner(self) -> dict[str, SealedSql]:
        """The statement of each release, by its name."""
        return {r.release.name: s for r, s in zip(self.plan.releases, self.rewritten.inner, strict=True)}


@dataclass(frozen=True, slots=True)
class _Paid:
    """A statement's releases, what was charged for them now, and what the account has left."""

    bill: Bill
    price: Price
    balance: Balance


class Session:
    """One analyst's use of one snapshot under one policy and one account. One statement at a time."""

    def __init__(self, policy: Policy, snapshot: Snapshot, engines: Engines, ledger: Ledger):
        self.policy, self.snapshot = policy, snapshot
        self.settings = Settings(policy)
        self._engines, self._ledger = engines, ledger
        self._cancelled = False  # set by any thread; for the time before an engine runs
        self._outer = Outer(engines.outer)
        self._keys = KeyFacts(self._outer.ask)
        known = snapshot.facts.snapshot, all_declared(policy), claimed(policy)
        self._repeats = Repeats(self._stored, self._outer.ask, *known, engines.signature() if ledger.refines else None)

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
                    return shows.of_command(other, self.policy, self.settings, self.snapshot.facts, self.budget)
        except Error as error:
            raise located(error, sql, name) from None

    def compile(self, sql: str, parameters: Parameters | None = None, *, name: str = "") -> Compiled:
        """Everything before the charge."""
        source, parsed, resolved = sql, None, None
        try:
            parsed = parse(sql, parameters)
            source = parsed.text
            resolved = resolve(parsed, self.policy)
            query = lower(resolved, self.policy, self.snapshot.facts, self._outer.describe)
            request = self.settings.request
            priced = plan(query, self.policy, request, self._keys.count, self._keys.factors)
            check(priced, self.policy, request)
            rewritten = rewrite(priced)
            public = (*rewritten.publics.values(), rewritten.outer, rewritten.replay)
            for sealed in filter(None, (*rewritten.inner, *public)):
                second_check(sealed.text, sealed.tables, sealed.functions)
            self._outer.bind(priced, rewritten)
            if (error := _no_sql(parsed)) is not None:
                raise error
        except RecursionError:
            raise too_deep() from None
        except Error as error:
            if error.code == "DP502" and resolved is not None and resolved.doubts:
                error = resolved.doubts[0]  # the engine agrees that the statement does not fit
            if error.code == "DP901" and parsed is not None:
                error = _no_sql(parsed) or error  # then it is no fault of ours
            raise located(error, source, name) from None
        return Compiled(sql, priced, rewritten)

    def _answer(self, compiled: Compiled) -> Answer:
        paid = self._releases(compiled)
        try:
            found = paid.bill
            tables = self._outer.with_error_bars(compiled.plan, compiled.rewritten, found.released, found.tables)
            result = self._outer.finish(compiled.rewritten, tables)
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

    def _releases(self, compiled: Compiled) -> _Paid:
        """Stored releases where they were paid for, new ones for a charge."""
        said: Price | None = None
        while True:
            reads = Reads(compiled.rewritten.publics, self._outer.run)
            found = bill(compiled.plan, compiled.inner, reads, self._repeats)
            said = found.price_again(said)
            if not found.due:
                return _Paid(found, said, self._ledger.balance())
            with suppress(AlreadyRefined):  # by another session, meanwhile: what that stored is found now
                return self._charged(compiled, found, reads, said)

    def _charged(self, compiled: Compiled, found: Bill, reads: Reads, cost: Price) -> _Paid:
        """The same, for a charge. Raises AlreadyRefined where a stored answer is no more to be refined: without one."""
        snapshot = self.snapshot.facts.snapshot
        shared = {
            n: a for n, name in found.shareable().items() if (a := self._ledger.find_shared(name, snapshot)) is not None
        }
        if self._cancelled:
            raise refusal("DP501", "the statement was interrupted before it was charged")
        charge = Charge(
            epsilon=cost.epsilon,
            delta=cost.delta,
            statement=shows.as_charged(compiled.asked, compiled.rewritten.outer.text, compiled.inner_sql),
            fingerprint=" ".join(due.part.name for due in found.due.values() if due.part is not None),
            snapshot=snapshot,
            policy=self.policy.digest,
            mu_squared=cost.mu_squared,
            joint=found.price([name for name in found.due if name not in shared]),
            refines=found.refined,
        )
        identity = self._ledger.charge(charge)
        try:
            return _Paid(found, cost, self._drawn(identity, compiled, found, reads, shared))
        except Error as error:
            if not error.code.startswith("DP4"):  # which means that nothing was charged
                raise
            raise refusal("DP501", f"{error.reason}; the charge stays", repair=error.repair) from None

    def _drawn(self, charge: int, asked: Compiled, found: Bill, reads: Reads, shared: Mapping[str, bytes]) -> Balance:
        """Draw what is due and was charged for, add it to what was found, and store it; what is left then."""
        failed, cancelled, new = "", False, {}
        ended: Error | None = None
        try:
            if self._cancelled:  # while the charge was written; once the engine runs, it hears of it itself
                raise EngineFailure("cancelled before it started", interrupted=True)
            for name, due in found.due.items():
                given = reads.of(due.planned, found.tables)
                assert given is not None  # releases stand in the order in which they read each other
                digests = reads.digests(due.planned, given, {})
                part = due.part or self._repeats.question(due.planned, asked.inner[name], digests)
                if name not in shared:
                    drawn = due.match.joined(self._release(due, asked.inner[name], given))
                    new[part.name] = dumps(part.plan, part.recorded(groups_of(drawn.keys)), drawn)
                    found.add(name, due.planned, due.match.released(drawn))
                else:
                    new[part.name] = shared[name]
                others = [*([due] if name in shared else []), *found.same_as(due)]
                just_stored = [loads(new[part.name], part.name)] if others else []
                for same in others:
                    assert same.question is not None
                    found.add(same.name, same.planned, self._repeats.look_up(same.question, just_stored).released())
        except EngineFailure as failure:
            cancelled = self._by_request(failure)  # whoever cancels learns nothing
            failed = "was interrupted" if cancelled else "could not be finished"
            _owner_log.error("charge %d: the engine could not finish", charge)  # its own words quote rows
        except Error as error:  # of a public query between two releases: what was released stays
            ended = error
        if failed:  # out here, where not even __context__ leads to the engine's words
            if not cancelled:  # time, memory or anything else ran out: that it did may tell a bit, what it was must not
                self._ledger.fail(charge)
            raise unfinished(failed)
        balance = self._ledger.finish(charge, new)
        if ended is not None:
            raise ended
        return balance

    def _by_request(self, failure: EngineFailure) -> bool:
        """Whether it is the analyst who ended the statement."""
        return failure.interrupted and self._cancelled

    def _release(self, due: Due, sealed: SealedSql, tables: Mapping[str, pa.Table]) -> Released:
        """Draw what is left of one release; a random choice of keys gets its salt only now, after the charge. What is
        refined has the text that was compared with that of the stored release."""
        if due.match.refinement is not None:
            return release(self._engines.private, sealed, due.left, tables, due.match.refinement.before)
        if is_salted(due.left) or due.left.slots != due.planned.slots:
            sealed = seal_release(due.left, secrets.randbits(62) if is_salted(due.left) else 0)
            second_check(sealed.text, sealed.tables, sealed.functions)
        return release(self._engines.private, sealed, due.left, tables)

    def _stored(self, names: Sequence[str]) -> Mapping[str, Sequence[Kept]]:
        """Stored answers by their names, or by what these begin with."""
        return self._ledger.find(names, self.snapshot.facts.snapshot)

    def _receipt(self, compiled: Compiled, paid: _Paid) -> Receipt:
        return Receipt(
            epsilon=paid.price.epsilon,
            delta=paid.price.delta,
            remaining_epsilon=paid.balance.remaining_epsilon,
            remaining_delta=paid.balance.remaining_delta,
            columns=releases.receipt_columns(compiled.plan, paid.bill.released),
            releases=tuple(r.release.name for r in compiled.plan.releases),
            policy=self.policy.digest,
            snapshot=self.snapshot.facts.snapshot,
            mu_squared=paid.price.mu_squared,
            remaining_mu_squared=paid.balance.remaining_mu_squared,
            limits=releases.receipt_limits(compiled.plan, paid.bill.otherwise, self.policy.unit),
        )

    # -- everything else ----------------------------------------------------------------------------------------

    def explain(self, sql: str, parameters: Parameters | None = None) -> str:
        """The plan of a statement, both SQLs, its price and expected error. Free."""
        _check_text(sql)
        try:
            statement = statements.read(sql)
        except Error as error:
            raise located(error, sql) from None
        text = statement.text if isinstance(statement, statements.Select | statements.Explain) else sql
        compiled = self.compile(text, parameters)
        reads = Reads(compiled.rewritten.publics, self._outer.run)
        found = bill(compiled.plan, compiled.inner, reads, self._repeats)
        return explain(compiled.plan, compiled.rewritten, Known(found.price(), found.stored()))

    def statements(self, script: str, name: str = "") -> list[str]:
        """The statements of a script, each padded so that positions count in the script."""
        _check_text(script)
        try:
            return [source.padded for source in statements.split(script, name)]
        except Error as error:
            raise located(error, script, name) from None

    def parameters(self, sql: str) -> frozenset[str]:
        """The names of a statement's `$name` parameters, and the numbers of its `?`."""
        _check_text(sql)
        try:
            return parameter_names(sql)
        except Error as error:
            raise located(error, sql) from None

    @property
    def kept(self) -> tuple[Path, ...]:
        """Files and folders that results must not be written into: the snapshot, and what it was made from."""
        return self.snapshot.kept

    def budget(self) -> Balance:
        """What the account has spent and has left."""
        return self._ledger.balance()

    def quotes(self) -> Quotes:
        """For the prices of a script's statements, one after the other."""
        return Quotes(self._repeats)

    def quote(self, sql: str, quotes: Quotes, parameters: Parameters | None = None, *, name: str = "") -> Quote:
        """What a query would be charged. Free, and nothing is charged."""
        return self.estimate(sql, quotes, parameters, name=name).quote

    def estimate(
        self, sql: str, quotes: Quotes | None = None, parameters: Parameters | None = None, *, name: str = ""
    ) -> Estimate:
        """What a query would be charged, and how exact it would be. Free."""
        compiled = self.compile(sql, parameters, name=name)
        reads = Reads(compiled.rewritten.publics, self._outer.run)
        quote = (quotes or self.quotes()).of(compiled.plan, compiled.inner, reads)
        return Estimate(quote, releases.receipt_columns(compiled.plan, {}))

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


def _no_sql(parsed: Parsed) -> Error | None:
    """sqlglot reads more than DuckDB does: LEAST(, 50), a clause out of its place. What it makes of such a text would
    be answered and charged, though nobody wrote it. Asked last: passes before say more of what they refuse."""
    found = mistake(parsed.sql)
    if found is None:
        return None
    span = Span(found.at, found.at + 1) if found.at is not None and found.at < len(parsed.text) else None
    reason = f"DuckDB does not read this as SQL: {found.words[:100]}"
    return refusal("DP101", reason, span=span, repair="correct the statement there")


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
