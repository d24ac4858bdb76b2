"""One exact result, kept, so that a test can have it noised anew as often as it likes: what nobody can have who asks
through an account. The engine would give the same each time, and takes most of the time of a release."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Kept:
    """An engine that has the result already."""

    table: pa.Table

    def run(self, *_: Any) -> pa.Table:
        return self.table
