"""Damage: every page, byte or row of the file that is not as it was written ends in a refusal."""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
from contextlib import closing
from fractions import Fraction
from pathlib import Path

import pytest

from dpsql.errors import Error
from dpsql.ledger import default_path
from tests.ledger.conftest import stored
from tests.ledger.test_ledger_file import unusable


@pytest.fixture
def written(account, charge, path, restored):
    """The bytes of a closed ledger of some pages; `restored` puts others in their place, with the head as it was."""
    ledger = account(epsilon=Fraction(100))
    for number in range(120):
        identity = ledger.charge(charge(statement=f"SELECT {number}", fingerprint=f"{number}"))
        ledger.finish(identity, {f"{number}": os.urandom(300)})
    ledger.close()
    restored(path.read_bytes())
    return path.read_bytes()


@pytest.fixture
def restored(path, tmp_path):
    """`restored(bytes)`: the file holds these, and the head is the one of the first call."""
    chains, kept = default_path().parent / "chains", tmp_path / "kept"

    def restore(content: bytes) -> None:
        if not kept.exists():
            shutil.copytree(chains, kept)
        for suffix in ("-wal", "-shm"):
            Path(f"{path}{suffix}").unlink(missing_ok=True)
        path.write_bytes(content)
        shutil.rmtree(chains)
        shutil.copytree(kept, chains)

    return restore


def use(account, charge):
    with closing(account(epsilon=Fraction(100))) as ledger:
        ledger.balance()
        stored(ledger, "7", "s")
        ledger.fail(ledger.charge(charge()))
        ledger.verify()


def test_every_damaged_page_is_found(account, charge, written, restored):
    size = int.from_bytes(written[16:18], "big")
    assert len(written) // size > 15
    junk = random.Random(1).randbytes(size)
    for start in range(0, len(written), size):
        restored(written[:start] + junk + written[start + size :])
        unusable(lambda: use(account, charge), "")
    restored(written)
    use(account, charge)


def test_a_file_cut_short_is_found(account, charge, written, restored):
    for length in (1, 99, 100, 4096, len(written) // 2, len(written) - 4096):
        restored(written[:length])
        unusable(lambda: use(account, charge), "is ")


def test_damaged_bytes_end_in_a_refusal(account, charge, written, restored):
    dice = random.Random(2)
    refused = 0
    for _ in range(300):
        damaged = bytearray(written)
        for _ in range(dice.choice((1, 1, 5, 50))):
            damaged[dice.randrange(len(damaged))] ^= 1 << dice.randrange(8)
        restored(bytes(damaged))
        try:
            use(account, charge)
        except Error as error:
            refused += 1
            assert error.code in ("DP403", "DP401", "DP404", "DP405"), error  # noqa: PT017 - it need not be raised
    assert refused > 220, "what harms nothing lies in unused bytes"


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE purse SET spent_epsilon = '1/10'",
        "UPDATE purse SET spent_delta = '1/10'",
        "UPDATE purse SET statements = 1",
        "DROP TRIGGER charge_stays; DELETE FROM charge WHERE id = 2",
        "DROP TRIGGER charge_is_final; UPDATE charge SET epsilon = '1/20' WHERE id = 2",
        "UPDATE release SET charge = 99",
        "UPDATE purse SET spent_epsilon = '0.1'",
        "UPDATE purse SET spent_epsilon = '1/0'",
        "UPDATE purse SET spent_epsilon = '-1/1'",
        "DROP INDEX release_key; DROP TABLE release",
    ],
)
def test_verify_finds_what_does_not_add_up(account, charge, path, change):
    ledger = account()
    for _ in range(3):
        ledger.finish(ledger.charge(charge()), {"f": b"noisy"})
    ledger.verify()
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(change)
    unusable(lambda: (ledger.verify(), stored(ledger, "f", "s")), "")
