"""How far repeated answers to one question lie from the truth. Standard library alone: peers' environments run it too.

An answer maps the keys of its groups to numbers. A group of the truth that an answer lacks is *lost*.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

Key = tuple[object, ...]
Answer = Mapping[Key, float]


@dataclass(frozen=True, slots=True)
class Errors:
    """Over all (group, answer), in the unit of the answer.

    draws, groups: how many answers, and how many groups the truth has. lost: the share of groups that were not shown.
    rmse: root of the mean squared error of what was shown. bias: the part of it that stays the same, as the mean over
    groups; deviation: the part that differs from answer to answer. These are None where too little was shown. whole:
    the root of the mean squared error with 0 for each lost group; whole_error: its standard error, by the answers.
    """

    draws: int
    groups: int
    lost: float
    rmse: float | None
    bias: float | None
    deviation: float | None
    whole: float
    whole_error: float


def errors(truth: Answer, answers: Iterable[Answer]) -> Errors:
    """The errors of at least two answers, each of which is looked at once and dropped."""
    count = dict.fromkeys(truth, 0)
    total, squares = dict.fromkeys(truth, 0.0), dict.fromkeys(truth, 0.0)  # of the errors of what is shown
    wholes: list[float] = []  # by answer, the sum of squares with 0 for each lost group
    for answer in answers:
        whole = 0.0
        for key, exact in truth.items():
            error = answer.get(key, 0.0) - exact
            whole += error**2
            if key in answer:
                count[key] += 1
                total[key] += error
                squares[key] += error**2
        wholes.append(whole)
    shown = sum(count.values())
    often = {key: n for key, n in count.items() if n > 1}
    spread = {key: max(squares[key] - total[key] ** 2 / n, 0.0) * n / (n - 1) for key, n in often.items()}
    root = math.sqrt(sum(wholes) / (len(wholes) * len(truth)))
    return Errors(
        draws=len(wholes),
        groups=len(truth),
        lost=1 - shown / (len(wholes) * len(truth)),
        rmse=math.sqrt(sum(squares.values()) / shown) if shown else None,
        bias=sum(total[key] for key in often) / sum(often.values()) if often else None,
        deviation=math.sqrt(sum(spread.values()) / sum(often.values())) if often else None,
        whole=root,
        whole_error=_error_of_root(root, wholes, len(truth)),
    )


def _error_of_root(root: float, wholes: Sequence[float], groups: int) -> float:
    """The standard error of the root of the mean of independent sums over this many groups each."""
    of_mean = statistics.stdev(wholes) / groups / math.sqrt(len(wholes))
    return of_mean / (2 * root) if root else 0.0
