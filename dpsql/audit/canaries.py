"""The one-run audit: data made for it, what is asked, and the score of every canary.

*deep*: 1,000 public groups with a crowd in each and one canary, which is in by a fair coin, with twenty times the rows
that it may have, all in its own group, with values at, beyond and far beyond the clamp. Its score is the group's
released value. A sound answer moves by all of its sensitivity in that group, so the attack is as good as an attack can
be: it refutes epsilon/2 where epsilon is claimed.
*wide*: 200 canaries with twenty groups each, of which one may count. The score is the sum over these.

The crowd of a group has the lowest value, many times over. That makes the denominator of an average known, and the
average as telling as a sum.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from random import Random

import pyarrow as pa

import dpsql
from dpsql.audit.data import Column, Row, Table, Terms, World
from dpsql.audit.one_run import count_right, guess, p_value, shown_epsilon
from dpsql.audit.report import ONE_RUN, Finding

GROUPS, CROWD = 1000, 10
LIMIT, EXCESS = 2, 20
"""Rows of a unit that count, and how many times more a canary has."""
WIDTH, WIDE = 20, 200

STRATEGIES = ("rows", "late", "cells", "rows then cells", "late then cells", "rescale")
AGGREGATES = (
    "COUNT(*)",
    "COUNT(beyond)",
    "SUM(beyond)",
    "AVG(beyond)",
    "COUNT_IF(beyond > 5)",
    "COUNT(*) FILTER (WHERE beyond > 4)",
    "SUM(beyond) FILTER (WHERE near > 5)",
    "COUNT(DISTINCT uid)",
)


@dataclass(frozen=True, slots=True)
class Question:
    """aggregates: of the one statement, each a column. sign: -1 where a canary lowers the value. strategy: "" for the
    planner's choice."""

    aggregates: tuple[str, ...]
    strategy: str = ""
    sign: int = 1

    @property
    def text(self) -> str:
        """What is asked, in a few words."""
        return ", ".join(self.aggregates) + (f" ({self.strategy})" if self.strategy else "")

    @property
    def texts(self) -> list[str]:
        """What each column is."""
        if len(self.aggregates) == 1:
            return [self.text]
        return [f"{aggregate} beside {len(self.aggregates) - 1} others" for aggregate in self.aggregates]


DEEP = (
    *(Question((a,), strategy) for strategy in STRATEGIES for a in AGGREGATES),
    *(Question((f"{f}({c})",)) for f in ("SUM", "AVG") for c in ("near", "far", "odd", "whole", "price")),
    Question(("SUM(low)",), sign=-1),
    Question(("AVG(low)",), sign=-1),
    Question(("COUNT(*)", "SUM(beyond)", "AVG(near)", "COUNT(DISTINCT uid)")),
)
SESSION = tuple(
    Question((a,), s) for s in ("rows", "cells") for a in ("COUNT(*)", "SUM(near)", "SUM(whole)", "COUNT(price)")
)
PART = "0.25"
"""What each statement of the session costs."""
BROAD = tuple(Question((a,), s) for s in STRATEGIES[2:] for a in ("COUNT(*)", "SUM(beyond)", "COUNT(DISTINCT uid)"))


@dataclass(frozen=True, slots=True)
class Canaries:
    """A database with canaries in it, and their coins. width: groups that each has, one after the other."""

    world: World
    coins: tuple[bool, ...]
    width: int = 1


def _table(groups: int, rows: int) -> Table:
    double = pa.float64()
    columns = {
        "uid": Column(pa.int64()),
        "place": Column(pa.int64(), f"values = {list(range(groups))}"),
        "near": Column(double, "bounds = [0, 10]"),
        "beyond": Column(double, "bounds = [0, 10]"),
        "far": Column(double, "bounds = [0, 10]"),
        "odd": Column(double, "bounds = [0, 10]"),
        "low": Column(double, "bounds = [-10, 5]"),
        "whole": Column(pa.int64(), "bounds = [0, 10]"),
        "price": Column(pa.decimal128(18, 2), "bounds = [0, 10]"),
    }
    limits = f'unit = "uid"\nmax_rows_per_unit = {rows}\nmax_groups_per_unit = 1\nmax_rows_per_group = {LIMIT}'
    return Table(limits, columns)


def _crowd(groups: int) -> Iterator[Row]:
    for i in range(groups * CROWD):
        for _ in range(LIMIT):
            yield (i, i % groups, 0.0, 0.0, 0.0, 0.0, 5.0, 0, Decimal(0))


def _canary(unit: int, place: int) -> Row:
    far = 1e308 if place % 2 else math.inf
    return (unit, place, 10.0, 200.0, far, math.nan, -far, 1 << 62, Decimal("99999999.99"))


def _coins(random: Random, n: int) -> tuple[bool, ...]:
    return tuple(random.random() < 0.5 for _ in range(n))


def deep(folder: Path, random: Random, epsilon: str) -> Canaries:
    """1,000 canaries with a group each."""
    coins = _coins(random, GROUPS)
    rows = list(_crowd(GROUPS))
    for i in range(GROUPS):
        if coins[i]:
            rows += [_canary(1_000_000 + i, i)] * (LIMIT * EXCESS)
    return Canaries(World(folder, {"canaries": _table(GROUPS, LIMIT)}, {"canaries": rows}, Terms(epsilon)), coins)


def wide(folder: Path, random: Random, epsilon: str) -> Canaries:
    """200 canaries with twenty groups each. What limits their rows is the limit on groups alone."""
    coins = _coins(random, WIDE)
    rows: list[Row] = []
    for i in range(WIDE):
        if coins[i]:
            rows += [_canary(1_000_000 + i, i * WIDTH + j % WIDTH) for j in range(WIDTH * LIMIT)]
    table = _table(WIDE * WIDTH, WIDTH * LIMIT)
    return Canaries(World(folder, {"canaries": table}, {"canaries": rows}, Terms(epsilon)), coins, WIDTH)


def audit(canaries: Canaries, questions: Sequence[Question], going: Callable[[], bool] = lambda: True) -> list[Finding]:
    """One finding per question. Each is asked in an account of its own: what an earlier answer gives as well would cost
    nothing, which is no claim about it."""
    findings: list[Finding] = []
    for question in questions:
        if not going():
            findings.append(Finding(question.text, "one run", 0.0, ONE_RUN, "no time", tested=False))
            continue
        try:
            with canaries.world.connect() as connection:
                columns, epsilon = ask(connection, question, canaries)
        except dpsql.Error as error:
            findings.append(_failed(question.text, error))
        else:
            for text, scores in zip(question.texts, columns, strict=True):
                findings.append(judge(text, canaries.coins, scores, float(epsilon)))
    return findings


def audit_session(canaries: Canaries, questions: Sequence[Question]) -> list[Finding]:
    """One finding on all answers of a session together: the claim is the sum of what they cost. The score is the sum
    of their scores, each in units of its spread."""
    together, spent = [0.0] * len(canaries.coins), Fraction(0)
    with canaries.world.connect() as connection:
        connection.execute(f"SET epsilon = '{PART}'")
        for question in questions:
            try:
                columns, epsilon = ask(connection, question, canaries)
            except dpsql.Error as error:
                return [_failed("a session", error)]
            for scores in columns:
                spread = statistics.pstdev(scores) or 1.0
                together = [a + b / spread for a, b in zip(together, scores, strict=True)]
            spent += epsilon
    return [judge(f"a session of {len(questions)} statements", canaries.coins, together, float(spent))]


def _failed(what: str, error: dpsql.Error) -> Finding:
    """Every statement here is one that is answered: an engine that fails tells a bit about what the rows hold."""
    return Finding(f"{what} is answered", "one run", math.inf, ONE_RUN, str(error)[:5])


def ask(connection: dpsql.Connection, question: Question, canaries: Canaries) -> tuple[list[list[float]], Fraction]:
    """(the scores of all canaries by each column, what the statement cost)."""
    connection.execute(f"SET strategy = '{question.strategy}'" if question.strategy else "RESET strategy")
    columns = ", ".join(f"{a} AS c{i}" for i, a in enumerate(question.aggregates))
    cursor = connection.execute(f"SELECT place, {columns} FROM canaries GROUP BY place ORDER BY place")
    scores = [[0.0] * len(canaries.coins) for _ in question.aggregates]
    for place, *values in cursor.fetchall():
        if place is not None:  # rows without a group form one, too
            for column, value in zip(scores, values, strict=True):
                column[place // canaries.width] += question.sign * float(value)
    assert cursor.receipt is not None
    return scores, cursor.receipt.epsilon


def judge(what: str, coins: Sequence[bool], scores: Sequence[float], epsilon: float) -> Finding:
    """The finding on the claim that the scores come from an epsilon-DP answer."""
    guesses = len(coins) // 2
    right = count_right(guess(scores, guesses), coins)
    p = p_value(len(coins), guesses, right, epsilon)
    shown = shown_epsilon(len(coins), guesses, right)
    doubt = -math.log10(p) if p > 0 else 400.0
    remark = f"{right} of {guesses} right, shows epsilon {shown:.2f}"
    return Finding(f"{what}: epsilon {epsilon:g}", "one run", doubt, ONE_RUN, remark)
