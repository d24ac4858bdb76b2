"""What SET changes: per connection, checked against the policy."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from dpsql.errors import nearest, refusal
from dpsql.policy.model import Policy
from dpsql.privacy.accounting import parse_amount, show_amount


class Settings(Mapping[str, object]):
    """`epsilon`: what each further statement costs. Reads like a mapping of current values."""

    def __init__(self, policy: Policy):
        self._budget = policy.budget
        self.epsilon: Fraction = policy.budget.per_query_epsilon

    def set(self, name: str, value: str) -> None:
        """SET name = value. Raises DP120 for what is no setting or no amount, DP402 above the policy's ceiling."""
        self._known(name)
        epsilon = parse_amount(value)
        if epsilon > self._budget.max_query_epsilon:
            most = show_amount(self._budget.max_query_epsilon)
            reason = f"the policy allows at most epsilon {most} per statement"
            raise refusal("DP402", reason, repair=f"SET epsilon = {most}")
        self.epsilon = epsilon

    def reset(self, name: str | None) -> None:
        """RESET name, or all."""
        if name is not None:
            self._known(name)
        self.epsilon = self._budget.per_query_epsilon

    def shown(self) -> dict[str, str]:
        """Names and values as text."""
        return {"epsilon": show_amount(self.epsilon)}

    def _known(self, name: str) -> None:
        if name.lower() != "epsilon":
            raise refusal("DP120", f'no setting "{name}".{nearest(name, ["epsilon"])}', repair="SET epsilon = 0.1")

    def __getitem__(self, name: str) -> object:
        return {"epsilon": self.epsilon}[name]

    def __iter__(self):  # type: ignore[no-untyped-def]
        return iter(self.shown())

    def __len__(self) -> int:
        return 1
