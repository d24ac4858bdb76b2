"""The targets by name, each made in a folder of its own."""

from __future__ import annotations

from tests.fuzz.files import Ledgers, Snapshots
from tests.fuzz.policies import Policies
from tests.fuzz.text import Text
from tests.fuzz.trees import Tree

TARGETS = {kind.name: kind for kind in (Text, Tree, Policies, Ledgers, Snapshots)}
