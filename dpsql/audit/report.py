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
    remark: what else is worth a word."""

    claim: str
    method: str
    doubt: float
    level: float
    remark: str = ""

    @property
    def broken(self) -> bool:
        """Whether the claim is refuted."""
        return self.doubt >= self.level

    @property
    def evidence(self) -> str:
        """The p-value or wealth, as people read it."""
        if math.isinf(self.doubt):
            return "certain"
        return f"p = {_power(-self.doubt)}" if self.method == "one run" else f"wealth {_power(self.doubt)}"


def broken(findings: Sequence[Finding]) -> list[Finding]:
    """Those that are refuted."""
    return [finding for finding in findings if finding.broken]


def table(findings: Sequence[Finding]) -> str:
    """A line for each finding."""
    rows = [("claim", "method", "verdict", "evidence", "")]
    rows += [(f.claim, f.method, "BROKEN" if f.broken else "holds", f.evidence, f.remark) for f in findings]
    widths = [max(len(row[i]) for row in rows) for i in range(4)]
    lines = ["  ".join([*(c.ljust(w) for c, w in zip(row, widths, strict=False)), row[4]]).rstrip() for row in rows]
    return "\n".join([lines[0], "-" * max(map(len, lines)), *lines[1:]])


def _power(exponent: float) -> str:
    return f"{10**exponent:.3f}" if -3 < exponent < 3 else f"1e{exponent:+.1f}"
