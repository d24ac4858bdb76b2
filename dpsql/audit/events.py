"""What may be seen of one run, and events about it: everything an analyst gets, by channel.

An observation maps channels to labels or numbers. The kind of a channel is its first word:

    error    what connecting and each statement ended in: an answer, or the whole text of an error
    charge   what was charged, by the receipt and by the balance
    shape    names and types of the columns
    order    the keys, in the order of the answer
    key      one key's presence
    value    one released number, and the sum of each column

An event is a label, or a cut through the numbers. Events are learned from some first rounds, which are then set aside:
the bet needs events that were fixed before it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import dpsql

Observation = Mapping[str, float | str]
KINDS = ("error", "charge", "shape", "order", "key", "value")

CUTS = 12


@dataclass(frozen=True, slots=True)
class Event:
    """The channel has this label, or a number above (or not above) this one."""

    channel: str
    cut: float | str
    above: bool = True

    def happened(self, seen: Observation) -> bool:
        """Whether it did. A channel that is absent has no label and no number."""
        found = seen.get(self.channel)
        if isinstance(found, str) or isinstance(self.cut, str):
            return found == self.cut
        return found is not None and (found > self.cut) == self.above

    def __str__(self) -> str:
        if isinstance(self.cut, str):
            return f"{self.channel} = {self.cut[:40]}"
        return f"{self.channel} {'above' if self.above else 'at most'} {self.cut:g}"


def observe(connection: dpsql.Connection, statements: Sequence[str]) -> dict[str, float | str]:
    """Ask these one after the other. Columns named a1, a2, ... are values, the others keys."""
    seen: dict[str, float | str] = {}
    for i, sql in enumerate(statements, 1):
        before = connection.budget
        try:
            cursor = connection.execute(sql)
        except dpsql.Error as error:
            seen[f"error {i}"] = str(error)
        else:
            seen[f"error {i}"] = "none"
            seen.update(_answer(cursor, i))
        after = connection.budget
        epsilon, delta = after.spent_epsilon - before.spent_epsilon, after.spent_delta - before.spent_delta
        seen[f"charge balance {i}"] = f"{epsilon} {delta}"
    return seen


def _answer(cursor: dpsql.Cursor, i: int) -> Iterator[tuple[str, float | str]]:
    receipt, described = cursor.receipt, cursor.description or []
    if receipt is not None:
        yield f"charge receipt {i}", f"{receipt.epsilon} {receipt.delta}"
    yield f"shape {i}", repr(described)
    values = {j: d[0] for j, d in enumerate(described) if d[0][:1] == "a" and d[0][1:].isdigit()}
    order = []
    totals = dict.fromkeys(values.values(), 0.0)
    for row in cursor.fetchall():
        key = ", ".join(repr(x) for j, x in enumerate(row) if j not in values)
        order.append(key)
        yield f"key {i}: {key}", "present"
        for j, name in values.items():
            number = math.nan if row[j] is None else float(row[j])
            yield f"value {i}: {name} of {key}", repr(row[j]) if math.isnan(number) else number
            totals[name] += number
    yield f"order {i}", "; ".join(order)
    for name, total in totals.items():
        yield f"value {i}: {name} in all", total


def learn(
    kind: str, pairs: Sequence[tuple[Observation, Observation]], epsilon: float, delta: float
) -> tuple[Event, Event] | None:
    """The two events that spoke most against the claim in these pairs: for the first of a pair against the second, and
    the other way round. None where the kind was never seen."""
    ratio = math.exp(epsilon)
    best: list[tuple[float, Event]] = []
    channels = dict.fromkeys(c for pair in pairs for seen in pair for c in seen if c.split()[0] == kind)
    for event in (e for c in channels for e in _events(c, pairs)):
        first = sum(event.happened(a) for a, _ in pairs) / len(pairs)
        second = sum(event.happened(b) for _, b in pairs) / len(pairs)
        gains = (first - ratio * second - delta, second - ratio * first - delta)
        if not best:
            best = [(gain, event) for gain in gains]
        best = [max(old, (gain, event), key=lambda x: x[0]) for old, gain in zip(best, gains, strict=True)]
    return (best[0][1], best[1][1]) if best else None


def _events(channel: str, pairs: Sequence[tuple[Observation, Observation]]) -> Iterator[Event]:
    found = [seen[channel] for pair in pairs for seen in pair if channel in seen]
    for label in dict.fromkeys(x for x in found if isinstance(x, str)):
        yield Event(channel, label)
    numbers = sorted(x for x in found if not isinstance(x, str))
    for i in range(CUTS if numbers else 0):
        cut = numbers[i * len(numbers) // CUTS]
        yield Event(channel, cut, above=True)
        yield Event(channel, cut, above=False)
