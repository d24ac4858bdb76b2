"""Reads `[budget]`: the account, its amounts, and how they are counted.

What two keys must be to each other is checked here; what follows from a problem already known is not reported again.
"""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

from dpsql.policy import names, readers
from dpsql.policy.model import Budget
from dpsql.policy.problems import KEYS, Problems, Section
from dpsql.policy.readers import Wrong

_NOTHING = Fraction(0)


def read_budget(root: Section, problems: Problems, file: Path) -> Budget:
    """The budget of the policy in `file`. Only where `problems` is empty may it be relied on."""
    if "budget" not in root:
        root.need("budget", '[budget] and under it epsilon = "3" and per_query_epsilon = "0.25"')
        return Budget("", *(_NOTHING,) * 4)
    section = Section(root.raw("budget"), ("budget",), KEYS["budget"], problems)
    account = section.read("account", names.account)
    if "account" not in section and not problems.at((*section.place, "account")):
        try:
            account = names.account(file.stem)
        except Wrong as wrong:
            section.wrong("account", f"is missing, and the file's name does not serve: {wrong.text}", wrong.repair)
    epsilon = section.require("epsilon", readers.epsilon, 'epsilon = "3", all that the account may ever spend')
    delta = section.read("delta", readers.delta)
    query = section.require(
        "per_query_epsilon", readers.epsilon, 'per_query_epsilon = "0.25", what a statement costs by itself'
    )
    most = _most(section, epsilon, query)
    query_delta = section.read("per_query_delta", readers.delta)
    if query_delta is not None and query_delta > (delta or _NOTHING) and not problems.at((*section.place, "delta")):
        section.wrong("per_query_delta", "is more than delta", "write at most delta, or leave it out")
    fewest = section.read("min_units_per_group", readers.rows)
    selection = section.read("selection", readers.one_of("exponential", "permute_and_flip"))
    composition = section.read("composition", readers.one_of("basic", "gaussian"))
    if composition == "gaussian" and not delta and not problems.at((*section.place, "delta")):
        section.wrong("composition", "needs a delta above 0", 'write for example delta = "1e-6", or "basic"')
    renew = section.read("renew", readers.one_of("never", "day", "week", "month"))
    return Budget(
        account or "",
        *(epsilon or _NOTHING, delta or _NOTHING, query or _NOTHING, most or _NOTHING),
        composition=str(composition or "basic"),
        per_query_delta=query_delta,
        min_units_per_group=fewest or 1,
        selection=str(selection or "exponential"),
        renew=str(renew or "never"),
        joint_epsilon=_joint(section, epsilon, delta),
        max_failures=section.read("max_failures", readers.failures) or 3,
    )


def _most(section: Section, epsilon: Fraction | None, query: Fraction | None) -> Fraction | None:
    """What one statement may cost."""
    most = section.read("max_query_epsilon", readers.epsilon)
    if most is None and "max_query_epsilon" not in section:
        most = epsilon
    elif most is not None and epsilon is not None and most > epsilon:
        section.wrong("max_query_epsilon", "is more than epsilon", "write at most epsilon, or leave it out")
    if query is not None and most is not None and query > most:
        section.wrong(
            "per_query_epsilon",
            "is more than a statement may cost",
            "write at most max_query_epsilon and at most epsilon",
        )
    return most


def _joint(section: Section, epsilon: Fraction | None, delta: Fraction | None) -> Fraction | None:
    """What all analysts together may spend, where each has a budget."""
    apart = section.read("per_analyst", readers.flag)
    joint = section.read("joint_epsilon", readers.epsilon)
    if apart and joint is None and "joint_epsilon" not in section:
        repair = "joint_epsilon = what all analysts together may spend: what holds even if they pool their answers"
        section.wrong("per_analyst", "needs a joint_epsilon", f"write {repair}")
    if not apart:
        if joint is not None and ("per_analyst" not in section or apart is False):
            section.wrong("joint_epsilon", "needs per_analyst = true", "leave it out: one budget is joint by itself")
        return None
    if joint is not None and epsilon is not None:
        if joint < epsilon:
            section.wrong("joint_epsilon", "is less than epsilon", "write at least epsilon")
        elif (delta or _NOTHING) * joint / epsilon >= 1:
            text = "is so many times epsilon that delta, in proportion, is no longer below 1"
            section.wrong("joint_epsilon", text, "write less, or a smaller delta")
    return joint
