"""Any order of steps by any sessions: spent is the exact sum of the charges, and never more than the budget."""

from __future__ import annotations

import tempfile
from fractions import Fraction
from pathlib import Path
from typing import cast

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from dpsql.errors import BudgetError, OperationalError
from dpsql.ledger import Charge, Ledger, Terms, terms
from tests.ledger.conftest import stored

amounts = st.fractions(min_value=0, max_value=2, max_denominator=1000)
sessions = st.integers(0, 2)


class Spending(RuleBasedStateMachine):
    """Three sessions on one account, beside a model that is a few numbers."""

    @initialize(epsilon=st.fractions(min_value=Fraction(1, 100), max_value=3, max_denominator=100))
    def begin(self, epsilon):
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name) / "ledger.sqlite"
        self.epsilon, self.delta = epsilon, Fraction(1, 1000)
        self.charges, self.waiting, self.answers, self.failures = [], [], {}, 0
        self.sessions = [self.open() for _ in range(3)]

    def open(self) -> Ledger:
        return Ledger.open(self.path, self.terms())

    def terms(self) -> Terms:
        others = {"delta": self.delta, "composition": "basic", "unit": "person", "sources": ["/a"], "analyst": None}
        return terms("shop", epsilon=self.epsilon, **others)

    @rule(session=sessions, epsilon=amounts, delta=st.fractions(0, Fraction(1, 500), max_denominator=10**6))
    def charge(self, session, epsilon, delta):
        if not epsilon and not delta:
            return
        fits = sum(c[0] for c in self.charges) + epsilon <= self.epsilon
        fits = fits and sum(c[1] for c in self.charges) + delta <= self.delta
        code = ""
        try:
            identity = self.sessions[session].charge(Charge(epsilon, delta, "SELECT 1", "f", "s", "p"))
            self.charges.append((epsilon, delta))
            self.waiting.append(identity)
        except BudgetError as error:
            code = error.code
        assert code == ("DP405" if self.failures >= 3 else "" if fits else "DP401")

    @precondition(lambda self: self.waiting)
    @rule(session=sessions, data=st.data())
    def settle(self, session, data):
        identity = self.waiting.pop(data.draw(st.integers(0, len(self.waiting) - 1)))
        if data.draw(st.integers(0, 3)) == 0:
            self.sessions[session].fail(identity)
            self.failures += 1
            return
        name, answer = data.draw(st.sampled_from("abc")), str(identity).encode()
        try:
            self.sessions[session].finish(identity, {name: answer})
            self.answers.setdefault(name, answer)
            assert self.failures < 3
        except OperationalError:
            assert self.failures >= 3
            self.failures += 1

    @rule(session=sessions, factor=st.sampled_from([Fraction(1), Fraction(1), Fraction(1, 2), Fraction(5, 4)]))
    def connect_again(self, session, factor):
        self.sessions[session].close()
        self.epsilon *= factor
        self.sessions[session] = self.open()

    @precondition(lambda self: self.failures >= 3)
    @rule()
    def reopen(self):
        Ledger.reopen(self.path, "shop")
        self.failures = 0

    @precondition(lambda self: self.charges)
    @rule()
    def open_new(self):
        self.sessions[0].verify()
        for session in self.sessions:
            session.close()
        Ledger.open_new(self.path, self.terms()).close()
        self.charges, self.waiting, self.answers, self.failures = [], [], {}, 0
        self.sessions = [self.open() for _ in range(3)]

    @invariant()
    def all_sessions_agree_with_the_model(self):
        if not hasattr(self, "sessions"):
            return
        spent = sum((c[0] for c in self.charges), Fraction(0)), sum((c[1] for c in self.charges), Fraction(0))
        for session in self.sessions:
            balance = session.balance()
            assert (balance.spent_epsilon, balance.spent_delta) == spent
            assert (balance.epsilon, balance.delta) == (self.epsilon, self.delta)
            assert balance.remaining_epsilon == max(0, self.epsilon - spent[0])
            assert balance.remaining_delta == self.delta - spent[1] >= 0
            assert balance.statements == len(self.charges)
            assert {name: stored(session, name, "s") for name in self.answers} == self.answers

    def teardown(self):
        if hasattr(self, "sessions"):
            self.sessions[0].verify()
            for session in self.sessions:
                session.close()
            self.folder.cleanup()


Spending.TestCase.settings = settings(
    max_examples=cast(settings, settings.default).max_examples // 5,
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
TestSpending = Spending.TestCase
