"""`--stats`: for each statement its rows and price, and what they come to; and how long each took, where the policy
reveals timing. All of it is for stderr."""

from __future__ import annotations

import time
from fractions import Fraction
from typing import TYPE_CHECKING, TextIO

from dpsql.front.cells import signs_for
from dpsql.front.diagnostics import visible
from dpsql.front.numerals import amount
from dpsql.front.render import cost

if TYPE_CHECKING:
    from dpsql.answer import Answer
    from dpsql.front.script import Statement
    from dpsql.ledger import Balance


class Stats:
    """Counts from its making on; a statement's time is all that passed since the one before. timed: whether that is
    told."""

    def __init__(self, err: TextIO, *, timed: bool) -> None:
        self._err, self._signs, self._timed = err, signs_for(err), timed
        self._started = self._last = time.perf_counter()
        self._answered, self._charged = 0, Fraction(0)

    def answered(self, statement: Statement, answer: Answer) -> None:
        """Tell of one statement."""
        since, self._last = self._last, time.perf_counter()
        if statement.sets:
            return
        self._answered += 1
        line = statement.text.count("\n", 0, len(statement.text) - len(statement.text.lstrip())) + 1
        rows = answer.table.num_rows
        self._charged += Fraction(0) if answer.receipt is None else answer.receipt.epsilon
        said = "free" if answer.receipt is None else cost(answer.receipt, self._signs)
        where = f"{visible(statement.script)}:{line}"
        print(f"{where}: {rows} row{'s' * (rows != 1)}, {said}{self._seconds(since)}", file=self._err, flush=True)

    def summary(self, after: Balance) -> None:
        """Tell what all came to."""
        spent = amount(self._charged, up=True)
        many = self._answered
        left = amount(after.remaining_epsilon)
        print(
            f"{many} statement{'s' * (many != 1)} answered for {self._signs.epsilon} = {spent}, "
            f"left {self._signs.epsilon} = {left}{self._seconds(self._started)}",
            file=self._err,
            flush=True,
        )

    def _seconds(self, since: float) -> str:
        return f", {time.perf_counter() - since:.3f} s" if self._timed else ""
