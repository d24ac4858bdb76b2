"""The tables of `bench.accuracy`, as Markdown, and which of its aims are missed.

Compared is the root of the mean squared error with 0 for groups that are not shown (`Errors.whole`), since whoever
shows few groups would look good by those alone. A ratio has the relative standard errors of both measurements; an aim
is met where the ratio is above it by at most TOLERANCE of them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Figures = Mapping[str, Any]
"""The fields of `Errors`, or {"refused": why}."""

NAMES = {"snsql": "SmartNoise SQL", "qrlew": "Qrlew", "opendp": "OpenDP"}
TOLERANCE = 3.0

ALL = 0.99
"""From this share of lost groups on nothing is said of the others."""

OTHERWISE = {"q6, as customers": "q6"}
"""Questions that dpsql is asked in other words than the peers."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """One table: dpsql's errors with some limits beside the peers' with others. aims: by question, the most that
    dpsql's may be of the best peer's; 1 for those not named."""

    title: str
    ours: str
    theirs: str
    aims: Mapping[str, float]


COMPARISONS = (
    Comparison("The same limits for everyone: 41 orders, 178 line items", "facts", "facts", {"q4": 0.6}),
    Comparison("dpsql's own limits, the peers' published ones", "own", "published", {"q2": 0.1, "q3": 0.5}),
    Comparison("Own limits for everyone", "own", "own", {}),
)


def tables(ours: Mapping[str, Any], peers: Mapping[str, Any]) -> tuple[str, list[str]]:
    """All tables of all scales, and what is missed."""
    lines: list[str] = []
    missed: list[str] = []
    for comparison in COMPARISONS:
        lines += [f"\n{comparison.title}\n", *_header()]
        for name in next(iter(ours.values()))[comparison.ours]:
            for scale in ours:
                figures = ours[scale][comparison.ours][name]
                asked = OTHERWISE.get(name, name)
                found = {p: _of_peer(peers, p, scale, comparison.theirs, asked) for p in NAMES}
                aim = comparison.aims.get(name, 1.0)
                ratio, error = _ratio(figures, found)
                met = ratio is None or ratio <= aim + TOLERANCE * error
                verdict = ["", "", ""]
                if ratio is not None:
                    verdict = [f"{ratio:.2g} ± {error:.1g}", f"{aim:g}", "met" if met else "missed"]
                row = [name[0].upper() + name[1:], scale, _cell(figures), *map(_cell, found.values()), *verdict]
                lines.append(f"| {' | '.join(row)} |")
                missed += [] if met else [f"{name} at scale {scale} ({comparison.title})"]
    return "\n".join(lines), missed


def _header() -> list[str]:
    columns = ["question", "scale", "dpsql", *NAMES.values(), "ratio to the best", "at most", ""]
    return [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]


def _of_peer(peers: Mapping[str, Any], peer: str, scale: str, limits: str, name: str) -> Figures | None:
    """A peer's own limits are few: with others, the best of what was measured."""
    measured = peers.get(peer, {}).get(scale, {})
    given = [limits] if limits != "own" else ["own", "facts", "published"]
    found: list[Figures] = [measured[limits_][name] for limits_ in given if name in measured.get(limits_, {})]
    return min(found, key=lambda f: f.get("whole", math.inf), default=None)


def _ratio(ours: Figures, theirs: Mapping[str, Figures | None]) -> tuple[float | None, float]:
    """Of our error to that of the best peer, with its standard error; None where there is no peer, or nobody shows
    anything."""
    answered = [f for f in theirs.values() if f is not None and "whole" in f]
    if not answered or all(f["lost"] > ALL for f in [ours, *answered]):
        return None, 0.0
    best = min(answered, key=lambda f: f["whole"])
    ratio = ours["whole"] / best["whole"]
    return ratio, ratio * math.hypot(*(f["whole_error"] / f["whole"] for f in (ours, best)))


def _cell(figures: Figures | None) -> str:
    """The error; in brackets its constant part and its changing part, and how many groups are not shown."""
    if figures is None:
        return "-"
    if "whole" not in figures:
        return "refused"
    lost = figures["lost"]
    if lost > ALL:
        return "all lost"
    share = f", {lost:.1%} lost" if lost >= 0.0005 else ""
    return f"**{_text(figures['whole'])}** ({_text(figures['bias'])}; {_text(figures['deviation'])}{share})"


def _text(x: float) -> str:
    """Three digits, with a word for millions."""
    short = float(f"{x:.3g}")
    if abs(short) >= 1e6:
        return f"{short / 1e6:g} M"
    return f"{short:,.0f}" if abs(short) >= 1000 else f"{short:g}"
