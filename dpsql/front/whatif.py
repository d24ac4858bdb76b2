"""What the statements of scripts would be charged, one after the other: for `dpsql budget what-if`, and before a run.

SET and RESET are carried out, since they change what follows costs, and taken back in the end. What is refused is told,
and the rest priced as if it was left out. A release that reads another one, which is not there yet, counts as new: the
sum is what a run is charged at most.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING

from dpsql.errors import Error, refusal
from dpsql.front.diagnostics import OK, exit_code, guarded, say_error, visible
from dpsql.front.numerals import amount
from dpsql.front.script import Statement

if TYPE_CHECKING:
    from dpsql.ledger import Balance, Price
    from dpsql.prices import Quote
    from dpsql.session import Session


@dataclass(frozen=True, slots=True)
class Line:
    """One query, or a setting that is refused. quote: None where `refused`. total: what all up to here are charged."""

    statement: Statement
    quote: Quote | None
    total: Price
    refused: Error | None = None

    def fits(self, left: Balance) -> bool:
        """Whether the budget that is left reaches so far."""
        return self.quote is not None and (self.quote.free or left.allows(self.total))


def lines(session: Session, statements: Sequence[Statement], *, keep_going: bool = True) -> list[Line]:
    """The queries with their prices; without `keep_going` up to the first that is refused."""
    from dpsql.ledger import Price

    found: list[Line] = []
    total, quotes = Price(), guarded(session.quotes)
    with session.settings.kept():
        for statement in statements:
            try:
                if statement.sets:
                    guarded(partial(session.execute, statement.text, name=statement.script))
                elif statement.is_query:
                    text, name = statement.text, statement.script
                    quote = guarded(partial(session.quote, text, quotes, statement.parameters or None, name=name))
                    total += quote.charged
                    found.append(Line(statement, quote, total))
            except Error as error:
                found.append(Line(statement, None, total, error))
                if not keep_going:
                    break
    return found


def unaffordable(found: Sequence[Line], left: Balance | None, most: Fraction | None) -> Error | None:
    """Why these can't be run as a whole: DP401 where more is asked than is `left` (None: whatever is left), DP402 where
    the sum of their ε is above `most`."""
    if not found:
        return None
    total = found[-1].total
    if most is not None and total.epsilon > most:
        reason = f"the script costs ε = {amount(total.epsilon, up=True)}, and --max-cost allows {amount(most)}"
        return refusal("DP402", reason, repair="nothing was run or charged; --dry-run shows each price")
    if left is not None and not left.allows(total):
        reason = f"the script costs {priced(total)}, and left are {remaining(left)}"
        repair = "nothing was run or charged; --keep-going answers what can be paid, --dry-run shows each price"
        return refusal("DP401", reason, repair=repair)
    return None


def show(
    session: Session, statements: Sequence[Statement], *, most: Fraction | None = None, as_json: bool = False
) -> int:
    """Show the prices on stdout and all refusals on stderr; returns the first error's exit code, or that of a budget
    that does not reach."""
    found, left = lines(session, statements), guarded(session.budget)
    errors = [line.refused for line in found if line.refused is not None]
    error = unaffordable(found, left, most)
    print(_json(found, left) if as_json else table(found, left))
    for each in [*errors, *filter(None, [error])]:
        say_error(each, sys.stderr)
    return next((exit_code(each) for each in [*errors, error] if each is not None), OK)


def table(found: Sequence[Line], left: Balance) -> str:
    """A line for each query, what is charged and what is free apart, and what it comes to."""
    rows = [("charged", "free", "statement")]
    for line in found:
        text = " ".join(visible(line.statement.text, keep="\n").split())
        short = text if len(text) <= 70 else text[:67] + "..."
        if line.quote is None:
            code = line.refused.code if line.refused is not None else ""
            rows.append(("-", "-", f"{short}  (refused: {code})"))
        else:
            note = "" if line.fits(left) else "  (more than is left)"
            rows.append((priced(line.quote.charged), priced(line.quote.spared), short + note))
    wide = [max(len(row[place]) for row in rows) for place in (0, 1)]
    shown = [f"{a:<{wide[0]}}  {b:<{wide[1]}}  {c}" for a, b, c in rows]
    whole = priced(found[-1].total) if found else "0"
    shown.append(f"in all {whole}; left are {remaining(left)}. Nothing was charged.")
    return "\n".join(shown)


def remaining(left: Balance) -> str:
    """What is left, in the amounts that add up."""
    spare = left.remaining_epsilon if left.composition == "basic" else left.remaining_mu_squared
    word = "ε" if left.composition == "basic" else "μ²"
    return f"{amount(spare)} of {word}" + (f"; {amount(left.remaining_delta)} of δ" if left.delta else "")


def priced(price: Price) -> str:
    """The amounts of a price that are not 0."""
    parts = [
        f"{word} {amount(each, up=True)}" for word, each in zip(("ε", "δ", "μ²"), price.amounts, strict=True) if each
    ]
    return ", ".join(parts) or "0"


def _json(found: Sequence[Line], left: Balance) -> str:
    statements = [
        {
            "script": visible(line.statement.script),
            "statement": line.statement.text.strip(),
            "charged": None if line.quote is None else _price(line.quote.charged),
            "free": None if line.quote is None else _price(line.quote.spared),
            "fits": line.fits(left),
            "refused": None if line.refused is None else line.refused.code,
        }
        for line in found
    ]
    total = found[-1].total if found else None
    return json.dumps(
        {"statements": statements, "charged": _price(total) if total else None, "left": purse(left)}, indent=2
    )


def purse(found: Balance) -> dict[str, object]:
    """A balance for programs; amounts are exact, as texts like "1/10"."""
    amounts = {
        "epsilon": (found.epsilon, found.spent_epsilon, found.remaining_epsilon),
        "delta": (found.delta, found.spent_delta, found.remaining_delta),
    }
    if found.composition != "basic":
        amounts["mu_squared"] = (found.mu_squared, found.spent_mu_squared, found.remaining_mu_squared)
    from dpsql.ledger import renewal

    last = found.last
    return {
        "analyst": found.analyst or None,
        "composition": found.composition,
        **{name: dict(zip(("total", "spent", "left"), map(str, each), strict=True)) for name, each in amounts.items()},
        "statements": found.statements,
        "renew": found.renew,
        "renews": None if found.renews is None else renewal(found),
        "last": None if last is None else _price(last),
        "more_like_last": found.more_like_last,
    }


def _price(price: Price) -> dict[str, str]:
    return dict(zip(("epsilon", "delta", "mu_squared"), map(str, price.amounts), strict=True))
