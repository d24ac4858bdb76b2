"""The ward and its neighbour, under a policy without a delta and one with. Opened once: nothing of one statement is
left for the next but its charge."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.attacks import ward
from tests.attacks.neighbours import Pair


@pytest.fixture(scope="package")
def pure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    with Pair(tmp_path_factory.mktemp("pure"), ward.TABLES, ward.ROWS, ward.POLICY) as made:
        yield made


@pytest.fixture(scope="package")
def keyed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    with Pair(tmp_path_factory.mktemp("keyed"), ward.TABLES, ward.ROWS, ward.KEYED, delta=ward.DELTA) as made:
        yield made
