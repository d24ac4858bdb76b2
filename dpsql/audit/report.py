"""What the audit found, and when a finding counts.

False alarms. A p-value of 10^-8.5, or a wealth of 10^9, is a finding. Under true claims each one-run test gives a false
alarm with probability at most 10^-8.5 and each bet at most 10^-9. A whole audit has fewer than 90 of the ones and, with
twelve bets per design, fewer than 400 of the others: 7 * 10^-7 together.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

ONE_RUN, BET = 8.5, 9.0
"""Doubt (minus log10 of the p-value, log10 of the wealth) at which a claim is refuted."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One claim and what became of it. doubt: how strongly the evidence speaks against it; level: when it is refuted.
    remark: what else is worth a word. tested: False where there was no time, or too little to refute anything."""

    claim: str
    method: str
    doubt: float
    level: float
    remark: str = ""
    tested: bool = True

    @property
    def verdict(self) -> str:
        """In a word."""
        return "BROKEN" if self.broken else "holds" if self.tested else "untested"

    @property
    def broken(self) -> bool:
        """Whether the claim is refuted."""
        return self.doubt >= self.level

    @property
    def evidence(self) -> str:
        """The p-value or wealth, as people read it."""
        if not self.tested:
            return ""
        if math.isinf(self.doubt):
            return "certain"
        return f"p = {_power(-self.doubt)}" if self.method == "one run" else f"wealth {_power(self.doubt)}"


def broken(findings: Sequence[Finding]) -> list[Finding]:
    """Those that are refuted."""
    return [finding for finding in findings if finding.broken]


def table(findings: Sequence[Finding]) -> str:
    """A line for each finding, and how many there are of each kind."""
    rows = [("claim", "method", "verdict", "evidence", "")]
    rows += [(f.claim, f.method, f.verdict, f.evidence, f.remark) for f in findings]
    widths = [max(len(row[i]) for row in rows) for i in range(4)]
    lines = ["  ".join([*(c.ljust(w) for c, w in zip(row, widths, strict=False)), row[4]]).rstrip() for row in rows]
    rule, verdicts = "-" * max(map(len, lines)), [f.verdict for f in findings]
    counts = ", ".join(f"{verdicts.count(v)} {v}" for v in ("holds", "BROKEN", "untested"))
    return "\n".join([lines[0], rule, *lines[1:], rule, f"{len(findings)} claims: {counts}"])


def _power(exponent: float) -> str:
    return f"{10**exponent:.3f}" if -3 < exponent < 3 else f"1e{exponent:+.1f}"
