"""The paired audit: one design, asked over and over on both neighbours, with a bet for every kind of channel."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import dpsql
from dpsql.audit.betting import Wager
from dpsql.audit.data import DELTA, Rows, World
from dpsql.audit.events import KINDS, Event, Observation, learn, observe
from dpsql.audit.neighbours import FRESH, TABLES, Design
from dpsql.audit.report import BET, Finding

ROUNDS = 120
"""Of the bet; a quarter as many again come first, to learn events from. Where an event happens over one database only,
a wealth of 10^9 takes 45 rounds at epsilon 0.25, and 80 at epsilon 1."""


@dataclass(frozen=True, slots=True)
class _Bet:
    event: Event
    wager: Wager
    swapped: bool  # D' against D

    def add(self, larger: Observation, smaller: Observation) -> None:
        one, other = (smaller, larger) if self.swapped else (larger, smaller)
        self.wager.add(self.event.happened(one), self.event.happened(other))


class Side:
    """One database of a design, and a session on it that is kept for some runs: opening one takes longer than asking.

    Runs are independent and alike as the theorem wants: noise is drawn anew, and what a session remembers (answers that
    are never asked for again, and a balance that no run looks at but for its own charge) does not show. After an error
    the session is another one, on another account: a frozen account would show.
    """

    def __init__(self, folder: Path, design: Design, rows: Rows):
        self._design = design
        self._world = World(folder, TABLES, rows, design.terms)
        self._connection: dpsql.Connection | None = None
        self._numbers = itertools.count(1)
        delta = float(design.terms.delta) * len(design.statements)
        self._most = int(DELTA / delta) if delta else 200
        self._left = 0

    def run(self) -> Observation:
        """All statements once: all that is seen."""
        try:
            connection = self._ready()
        except dpsql.Error as error:
            return {"error connect": str(error)}
        number = next(self._numbers)
        statements = [sql.replace(FRESH, str(number)) for sql in self._design.statements]
        seen = {"error connect": "none", **observe(connection, statements)}
        if any(channel.startswith("error") and found != "none" for channel, found in seen.items()):
            self.close()
        return seen

    def _ready(self) -> dpsql.Connection:
        if self._connection is None or self._left == 0:
            self.close()
            self._connection, self._left = self._world.connect(), self._most
            if self._design.strategy:
                self._connection.execute(f"SET strategy = '{self._design.strategy}'")
        self._left -= 1
        return self._connection

    def close(self) -> None:
        """End the session; the next run opens another."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def audit(folder: Path, design: Design, rounds: int = ROUNDS, going: Callable[[], bool] = lambda: True) -> Finding:
    """The finding on one design: of its bets, the one that won most.

    It stops at the first bet that refutes the claim: Ville's theorem allows to stop at any time.
    """
    with (
        closing(Side(folder / "larger", design, design.larger)) as larger,
        closing(Side(folder / "smaller", design, design.smaller)) as smaller,
    ):
        epsilon, delta = design.claim
        training = []
        for _ in range(max(8, rounds // 4)):
            if not going():
                return _finding(design, None)
            training.append((larger.run(), smaller.run()))
        bets = []
        for kind in KINDS:
            for swapped, event in enumerate(learn(kind, training, epsilon, delta) or ()):
                bets.append(_Bet(event, Wager(epsilon, delta), bool(swapped)))
        best = bets[0]
        for _ in range(rounds):
            if not going():
                break
            seen = larger.run(), smaller.run()
            for bet in bets:
                bet.add(*seen)
            best = max(bets, key=lambda bet: bet.wager.peak)
            if best.wager.peak >= BET:
                break
    return _finding(design, best)


def _finding(design: Design, best: _Bet | None) -> Finding:
    epsilon, delta = design.claim
    claim = f"{design.name}: epsilon {epsilon:g}" + (f", delta {delta:g}" if delta else "")
    if best is None:
        return Finding(claim, "pairs", 0.0, BET, "no time", tested=False)
    rounds, peak = best.wager.rounds, best.wager.peak
    remark = f"{rounds} rounds" + (f"; {best.event}" if peak >= BET else "")
    return Finding(claim, "pairs", peak, BET, remark, tested=_could_win(rounds, epsilon, delta))


def _could_win(rounds: int, epsilon: float, delta: float) -> bool:
    """Whether so few rounds could have refuted the claim, had the event always happened on one side only."""
    best = Wager(epsilon, delta)
    for _ in range(rounds):
        best.add(True, False)
    return best.peak >= BET
