"""What statements cost: of their releases those that were not paid for, and what a script would cost before it runs."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

import pyarrow as pa

from dpsql import releases
from dpsql.answer import ColumnReceipt
from dpsql.compile.plan import PrivatePlan
from dpsql.compile.rewrite import Rewritten
from dpsql.privacy.accounting import Price
from dpsql.reads import Reads


def price(plan: PrivatePlan, names: Collection[str]) -> Price:
    """What the releases of these names cost together."""
    return plan.price([planned for planned in plan.releases if planned.release.name in names])


@dataclass(frozen=True, slots=True)
class Quote:
    """charged: what the statement would be charged. spared: the price of its releases that were paid for already."""

    charged: Price
    spared: Price

    @property
    def free(self) -> bool:
        return not self.charged


@dataclass(frozen=True, slots=True)
class Estimate:
    """What one statement would be charged, and the noise that each of its released aggregates would carry."""

    quote: Quote
    columns: tuple[ColumnReceipt, ...]


class Quotes:
    """Prices of the statements of one script, each as if those before it had run. Nothing is charged or released.

    find: the stored answer of a fingerprint, where it was paid for. A release that reads another which is not there yet
    has no fingerprint so far: it counts as new, unless the same statement came before.
    """

    def __init__(self, find: Callable[[str, str], bytes | None], snapshot: str):
        self._find, self._snapshot = find, snapshot
        self._asked: set[tuple[str, ...]] = set()

    def of(self, plan: PrivatePlan, rewritten: Rewritten, reads: Reads) -> Quote:
        """The price of one statement. Raises DP502 where a public query over stored releases fails."""
        found: dict[str, pa.Table] = {}
        new: dict[str, tuple[str, ...]] = {}
        before: tuple[str, ...] = ()
        for planned, sealed in zip(plan.releases, rewritten.inner, strict=True):
            name, tables = planned.release.name, reads.of(planned, found)
            key = (*before, releases.fingerprint(planned, sealed, self._snapshot, tables or {}))
            if tables is not None:
                key = key[-1:]
                stored = self._find(key[0], self._snapshot)
                if stored is not None:
                    found[name] = releases.loads(stored)
                    continue
            before = key
            new[name] = key
        names, kept = set[str](), set[tuple[str, ...]]()
        for name, key in new.items():
            if key not in self._asked | kept:
                names.add(name)
                kept.add(key)
        self._asked |= kept
        whole = price(plan, {planned.release.name for planned in plan.releases})
        charged = price(plan, names)
        pairs = zip(whole.amounts, charged.amounts, strict=True)
        return Quote(charged, Price(*(a - b for a, b in pairs)))
