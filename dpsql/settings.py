"""What SET changes: per connection, checked against the policy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from fractions import Fraction

from dpsql.compile.limits import MECHANISMS, NORMAL, STRATEGIES, Request, ceiling, delta_of, one_row_per_unit
from dpsql.errors import nearest, refusal
from dpsql.policy.model import LIMITS, Policy
from dpsql.privacy.accounting import parse_amount, show_amount

_SWITCH = {"on": True, "true": True, "off": False, "false": False}


class Settings(Mapping[str, object]):
    """What every further statement gets; reads like a mapping of current values.

    epsilon: its price. weights: how that is shared among columns, None for evenly. strategy: how contributions are
    limited, mechanism: which noise is added, None for the planner's choice. The three limits: None for the policy's.
    non_negative: whether what can't be below 0 is shown so.
    """

    def __init__(self, policy: Policy):
        self._policy = policy
        self._initial: dict[str, object] = {
            "epsilon": policy.budget.per_query_epsilon,
            "strategy": None,
            "mechanism": None,
            "weights": None,
            "non_negative": False,
            **dict.fromkeys(LIMITS),
        }
        self._values = dict(self._initial)

    @property
    def request(self) -> Request:
        """What the next statement asks for, unless its hints ask for another price."""
        epsilon, strategy, mechanism = (self._values[name] for name in ("epsilon", "strategy", "mechanism"))
        assert isinstance(epsilon, Fraction)
        assert strategy is None or isinstance(strategy, str)
        assert mechanism is None or isinstance(mechanism, str)
        delta = delta_of(self._policy.budget, epsilon)
        limits = {name: value for name in LIMITS if isinstance(value := self._values[name], int)}
        weights = self._values["weights"]
        return Request(epsilon, delta, strategy, mechanism, limits, weights if isinstance(weights, dict) else {})

    @property
    def non_negative(self) -> bool:
        """Whether counts below 0, and sums of values that are never below it, are shown as 0."""
        return self._values["non_negative"] is True

    def set(self, name: str, value: str) -> None:
        """SET name = value. Raises DP120 for what is no setting or value, DP402 above the policy's ceiling."""
        match self._known(name):
            case "epsilon":
                self._values["epsilon"] = self._epsilon(value)
            case "strategy":
                if value.lower() not in STRATEGIES:
                    reason = f'no strategy "{value}"{nearest(value, STRATEGIES)}'
                    raise refusal("DP120", reason, repair=f"the strategies are: {', '.join(STRATEGIES)}")
                self._values["strategy"] = value.lower()
            case "mechanism":
                if value.lower() not in MECHANISMS:
                    reason = f'no mechanism "{value}"{nearest(value, MECHANISMS)}'
                    raise refusal("DP120", reason, repair="SET mechanism = laplace, or gaussian; RESET mechanism")
                if value.lower() == NORMAL and self.request.delta == 0:
                    reason = "Gaussian noise needs a delta above 0, and this policy has none"
                    raise refusal("DP402", reason, repair="RESET mechanism")
                self._values["mechanism"] = value.lower()
            case "weights":
                self._values["weights"] = _weights(value)
            case "non_negative":
                if value.lower() not in _SWITCH:
                    raise refusal("DP120", "non_negative is on or off", repair="SET non_negative = on")
                self._values["non_negative"] = _SWITCH[value.lower()]
            case limit:
                self._values[limit] = self._limit(limit, value)

    def reset(self, name: str | None) -> None:
        """RESET name, or all."""
        if name is None:
            self._values = dict(self._initial)
        else:
            known = self._known(name)
            self._values[known] = self._initial[known]

    @contextmanager
    def kept(self) -> Iterator[None]:
        """What the block sets is taken back after it."""
        values = dict(self._values)
        try:
            yield
        finally:
            self._values = values

    def shown(self) -> dict[str, str]:
        """Names and values as text."""
        return {
            name: "even" if name == "weights" and value is None else _text(value)
            for name, value in self._values.items()
        }

    def _epsilon(self, value: str) -> Fraction:
        budget = self._policy.budget
        if value.startswith("-") or not value.strip("0."):
            reason = f"epsilon is above 0, and at most {show_amount(budget.max_query_epsilon)} here, as the policy says"
            raise refusal("DP120", reason, repair=f"SET epsilon = {show_amount(budget.per_query_epsilon)}")
        epsilon = parse_amount(value, what="epsilon")
        if epsilon > self._policy.budget.max_query_epsilon:
            most = show_amount(self._policy.budget.max_query_epsilon)
            reason = f"the policy allows at most epsilon {most} per statement"
            raise refusal("DP402", reason, repair=f"SET epsilon = {most}")
        return epsilon

    def _limit(self, name: str, value: str) -> int:
        """A limit for every table, as far as the table's own ceiling lets it rise. Lowering a limit, and so the noise,
        is always allowed; raising it above every ceiling is a mistake."""
        if not value.isascii() or not value.isdigit() or not 1 <= int(value) <= 1 << 31:
            raise refusal("DP120", f"{name} is a whole number from 1 on", repair=f"SET {name} = 10")
        private = [t for t in self._policy.tables.values() if not t.public and not one_row_per_unit(t)]
        ceilings = [most for t in private if (most := ceiling(t, name)) is not None]
        if not ceilings or int(value) > max(ceilings):
            allowed = f"at most {max(ceilings)}" if ceilings else "none"
            raise refusal("DP402", f"the policy allows {allowed} for {name}", repair=f"RESET {name}")
        return int(value)

    def _known(self, name: str) -> str:
        if name.lower() not in self._initial:
            repair = f"the settings are: {', '.join(self._initial)}"
            raise refusal("DP120", f'no setting "{name}"{nearest(name, self._initial)}', repair=repair)
        return name.lower()

    def __getitem__(self, name: str) -> object:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)


def _weights(value: str) -> dict[str, Fraction]:
    """'people: 2, visits: 1' -> shares of epsilon by column, in lower case as SQL compares names."""
    found: dict[str, Fraction] = {}
    for part in value.split(","):
        name, colon, amount = part.rpartition(":")
        name = name.strip().lower()
        if not colon or not name or name in found:
            repair = "SET weights = 'people: 2, visits: 1'"
            raise refusal("DP120", "weights are written column: number, each column once", repair=repair)
        found[name] = parse_amount(amount.strip(), what="a weight")
    return found


def _text(value: object) -> str:
    if value is None:
        return "as the policy says"
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, dict):
        return ", ".join(f"{name}: {show_amount(weight)}" for name, weight in value.items())
    return show_amount(value) if isinstance(value, Fraction) else str(value)
