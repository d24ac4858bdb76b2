"""Every input that was ever found, and one of each kind, ends as it may; planted faults are found; longer hunts."""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from random import Random

import pytest

from dpsql import session
from dpsql.errors import refusal
from dpsql.ledger.accounts import Ledger
from dpsql.policy import budget
from dpsql.vault import snapshot
from tests.fuzz.hunt import End, corpus, hunt, timed
from tests.fuzz.library import statements
from tests.fuzz.targets import TARGETS

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """sqlglot warns of what it reads as another program's command."""
    log = logging.getLogger("sqlglot")
    log.disabled = True
    yield
    log.disabled = False


@pytest.mark.parametrize("name", TARGETS)
def test_what_was_found_once_ends_as_it_may(name: str, tmp_path: Path) -> None:
    with closing(TARGETS[name](tmp_path / name)) as target:
        wrong = {file: end.wrong for file, content in corpus(target) if (end := timed(target, content)).wrong}
    assert not wrong


@pytest.mark.parametrize("name", TARGETS)
def test_changes_are_changes_and_lead_somewhere(name: str, tmp_path: Path) -> None:
    with closing(TARGETS[name](tmp_path / name)) as target:
        rng, seeds = Random(1), list(target.seeds())
        changed = {target.mutated(rng, seeds) for _ in range(200)}
        assert len(changed - set(seeds)) > 150
        assert len({target.ask(content).kind for content in sorted(changed)[::16]}) > 1


Fault = Callable[[pytest.MonkeyPatch], None]


def a_refusal_that_is_charged(patch: pytest.MonkeyPatch) -> None:
    def finish(*_: object) -> object:
        raise refusal("DP201", "too late")

    patch.setattr(session.Outer, "finish", finish)


def an_exception(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(session, "lower", lambda *_: {}["a row"])


def a_charge_after_the_engine(patch: pytest.MonkeyPatch) -> None:
    """The engine is asked first; what is wrong is seen although the charge follows."""
    plain = session.Session._releases

    def releases(self: session.Session, compiled: session.Compiled) -> object:
        for sealed in compiled.rewritten.inner:
            self._engines.private.run(sealed.text, {})
        return plain(self, compiled)

    patch.setattr(session.Session, "_releases", releases)


def a_loader_that_raises(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(budget.readers, "failures", lambda value: {}[value])


def a_budget_refilled(patch: pytest.MonkeyPatch) -> None:
    plain = Ledger.balance
    patch.setattr(Ledger, "balance", lambda self: replace(plain(self), spent_epsilon=Fraction(0)))


def half_a_snapshot(patch: pytest.MonkeyPatch) -> None:
    """A record that is cut short is read all the same, and raises."""
    patch.setattr(snapshot, "load_record", lambda folder: {}[folder])


PLANTED = [
    ("text", an_exception),
    ("text", a_refusal_that_is_charged),
    ("text", a_charge_after_the_engine),
    ("tree", an_exception),
    ("tree", a_charge_after_the_engine),
    ("policy", a_loader_that_raises),
    ("ledger", a_budget_refilled),
    ("snapshot", half_a_snapshot),
]


@pytest.mark.parametrize(("name", "fault"), PLANTED)
def test_a_planted_fault_is_found(name: str, fault: Fault, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(TARGETS[name](tmp_path / name)) as target:
        fault(monkeypatch)
        assert any(target.ask(content).wrong for content in list(target.seeds())[:40])


def test_the_seeds_are_answered(tmp_path: Path) -> None:
    """Else the changed ones would lead nowhere."""
    with closing(TARGETS["text"](tmp_path / "text")) as target:
        ends = [target.ask(sql.encode()) for sql in statements()[::9]]
    assert sum(end.kind.startswith("answer") for end in ends) > len(ends) // 2
    assert not [end.wrong for end in ends if end.wrong]


class Fatal:
    """Its first input is a finding, its second ends the process."""

    name, ending = "fatal", ".none"

    def seeds(self) -> list[bytes]:
        return [b"wrong", b"fatal"]

    def mutated(self, rng: Random, known: Sequence[bytes]) -> bytes:
        return rng.choice(known)

    def parts(self, content: bytes) -> list[bytes]:
        return [content]

    def ask(self, content: bytes) -> End:
        if content == b"fatal":
            raise KeyboardInterrupt
        return End("one", "wrong")


def test_a_finding_is_told_before_the_next_input_is_asked() -> None:
    asked: list[bytes] = []
    found: list[tuple[str, bytes]] = []
    with pytest.raises(KeyboardInterrupt):
        hunt(Fatal(), 60, 1, asked.append, lambda *finding: found.append(finding))
    assert asked == [b"wrong", b"fatal"]
    assert found == [("wrong", b"wrong")]


@pytest.mark.audit
@pytest.mark.parametrize("name", TARGETS)
def test_some_minutes_find_nothing(name: str) -> None:
    command = [sys.executable, "-m", "tests.fuzz", "--minutes", "5", "--target", name]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
