"""`dpsql budget what-if`: the prices of a script's statements, as if they ran one after the other.

SET and RESET are carried out, since they change what follows costs. A statement that is refused stops it, as it would
stop the script.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from dpsql.front.diagnostics import guarded, visible
from dpsql.front.numerals import amount
from dpsql.front.script import Script, queries

if TYPE_CHECKING:
    from dpsql.ledger import Balance, Price
    from dpsql.prices import Quote
    from dpsql.session import Session


@dataclass(frozen=True, slots=True)
class Line:
    """One query. total: what it and all before it would be charged."""

    script: str
    statement: str
    quote: Quote
    total: Price

    def fits(self, left: Balance) -> bool:
        """Whether the budget that is left reaches so far."""
        return self.quote.free or left.allows(self.total)


def lines(session: Session, scripts: Iterable[Script]) -> list[Line]:
    """The queries of the scripts with their prices. Raises what running them would be refused with."""
    from dpsql.ledger import Price

    found: list[Line] = []
    total, quotes = Price(), guarded(session.quotes)
    for statement, name in queries(session, scripts):
        quote = guarded(partial(session.quote, statement, quotes, name=name))
        total += quote.charged
        found.append(Line(name, statement.strip(), quote, total))
    return found


def table(found: Sequence[Line], left: Balance) -> str:
    """A line for each query, what is charged and what is free apart, and what it comes to."""
    rows = [("charged", "free", "statement")]
    for line in found:
        text = " ".join(visible(line.statement, keep="\n").split())
        note = "" if line.fits(left) else "  (more than is left)"
        short = text if len(text) <= 70 else text[:67] + "..."
        rows.append((_price(line.quote.charged), _price(line.quote.spared), short + note))
    wide = [max(len(row[place]) for row in rows) for place in (0, 1)]
    shown = [f"{a:<{wide[0]}}  {b:<{wide[1]}}  {c}" for a, b, c in rows]
    whole = _price(found[-1].total) if found else "0"
    spare = left.remaining_epsilon if left.composition == "basic" else left.remaining_mu_squared
    word = "ε" if left.composition == "basic" else "μ²"
    ending = f"; {amount(left.remaining_delta)} of δ" if left.delta else ""
    shown.append(f"in all {whole}; left are {amount(spare)} of {word}{ending}. Nothing was charged.")
    return "\n".join(shown)


def _price(price: Price) -> str:
    parts = [
        f"{word} {amount(each, up=True)}" for word, each in zip(("ε", "δ", "μ²"), price.amounts, strict=True) if each
    ]
    return ", ".join(parts) or "0"
