"""The checks of `test_every_row.py` find what is planted here, each with a statement that passes without it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from dpsql import session
from dpsql.compile import relations
from dpsql.compile.ir import Relation, Scan
from dpsql.compile.rewrite import Rewritten
from dpsql.errors import refusal
from tests.attacks import ward
from tests.attacks.draws import draws
from tests.attacks.neighbours import Pair
from tests.attacks.test_every_row import Case, attacked
from tests.audit import faults
from tests.audit.faults import Fault
from tests.properties.differences import Violation

COUNT = "SELECT COUNT(*) FROM patients"


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[Callable[[], Pair]]:
    """Makes the ward's pair now: after the fault, where it is one of the snapshot."""
    made: list[Pair] = []

    def make() -> Pair:
        made.append(Pair(tmp_path, ward.TABLES, ward.ROWS, ward.KEYED, delta=ward.DELTA))
        return made[-1]

    yield make
    for pair in made:
        pair.__exit__()


def attack(pair: Pair, statement: str) -> str:
    return attacked(Case(("X00",), ("", ""), statement), pair)


# --------------------------------------------------------------------------------- of what is seen of a statement


def rows_of(side: Any) -> int:
    """An exact number about private rows, which nobody may know."""
    return int(side._engines.private.run("SELECT count(*) AS n FROM priv.patients").column(0)[0].as_py())


def a_message_with_a_number(patch: pytest.MonkeyPatch) -> None:
    def compile_(self: Any, *_: object, **__: object) -> Any:
        raise refusal("DP201", f"this returns {rows_of(self)} rows")

    patch.setattr(session.Session, "compile", compile_)


def a_message_with_a_value(patch: pytest.MonkeyPatch) -> None:
    """Alike on both sides: it is somebody else's name."""

    def compile_(self: Any, *_: object, **__: object) -> Any:
        raise refusal("DP201", "Could not convert string 'Xanthippe-0' to INT32")

    patch.setattr(session.Session, "compile", compile_)


def a_value_behind_a_message(patch: pytest.MonkeyPatch) -> None:
    def compile_(self: Any, *_: object, **__: object) -> Any:
        try:
            raise ValueError("Could not convert string 'Xanthippe-0' to INT32")
        except ValueError:
            raise refusal("DP201", "this returns rows") from None

    patch.setattr(session.Session, "compile", compile_)


def a_refusal_by_size(patch: pytest.MonkeyPatch) -> None:
    plain = session.Session._answer

    def answer(self: Any, compiled: Any) -> Any:
        if rows_of(self) > 230:
            raise refusal("DP104", "this is too large")
        return plain(self, compiled)

    patch.setattr(session.Session, "_answer", answer)


def a_refund(patch: pytest.MonkeyPatch) -> None:
    """A refusal that was charged before."""
    plain = session.Session._answer

    def answer(self: Any, compiled: Any) -> Any:
        plain(self, compiled)
        raise refusal("DP201", "this returns rows")

    patch.setattr(session.Session, "_answer", answer)


def a_price_by_size(patch: pytest.MonkeyPatch) -> None:
    plain, price = session.Session._releases, session.Bill.price
    size = [0]

    def releases(self: Any, compiled: Any) -> Any:
        size[0] = rows_of(self)
        return plain(self, compiled)

    def priced(*of: Any) -> Any:
        found = price(*of)
        return replace(found, epsilon=found.epsilon * (2 if size[0] > 230 else 1))

    patch.setattr(session.Session, "_releases", releases)
    patch.setattr(session.Bill, "price", priced)


def a_column_by_data(patch: pytest.MonkeyPatch) -> None:
    """A type that is as wide as the values need."""
    plain, answer = session.Outer.finish, session.Session._answer
    size = [0]

    def answered(self: Any, compiled: Any) -> Any:
        size[0] = rows_of(self)
        return answer(self, compiled)

    def finish(self: Any, rewritten: Rewritten, released: Any) -> Any:
        table = plain(self, rewritten, released)
        wide = table.schema.field(0).with_type(pa.int64() if size[0] > 230 else pa.int32())
        return table.cast(table.schema.set(0, wide))

    patch.setattr(session.Session, "_answer", answered)
    patch.setattr(session.Outer, "finish", finish)


def an_explain_by_data(patch: pytest.MonkeyPatch) -> None:
    """A plan by the statistics of the engine."""
    plain = session.Session.compile

    def compile_(self: Any, *of: Any, **named: Any) -> Any:
        compiled = plain(self, *of, **named)
        return replace(compiled, plan=replace(compiled.plan, weights={"rows": Fraction(rows_of(self))}))

    patch.setattr(session.Session, "compile", compile_)


DIFFERENT = "the neighbours differ"


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (a_message_with_a_number, DIFFERENT),
        (a_message_with_a_value, "Xanthippe"),
        (a_value_behind_a_message, "Xanthippe"),
        (a_refusal_by_size, DIFFERENT),
        (a_refund, "a refusal costs nothing"),
        (a_price_by_size, DIFFERENT),
        (a_column_by_data, DIFFERENT),
        (an_explain_by_data, DIFFERENT),
    ],
)
def test_what_is_told_of_rows_is_found(
    fault: Fault, said: str, fresh: Callable[[], Pair], monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = fresh()
    assert attack(pair, COUNT) == "answered"
    fault(monkeypatch)
    with pytest.raises(AssertionError, match=said):
        attack(pair, f"{COUNT} WHERE age > 3")


# ------------------------------------------------------------------------------------------- of what is released


DEAR = "SELECT visit_id FROM visits WHERE fee > 20"


def no_equal_units(patch: pytest.MonkeyPatch) -> None:
    """J02, J07, J12: rows of one person meet those of others."""
    plain = relations.is_private

    def is_private(relation: Relation) -> bool:
        return plain(relation) and not (isinstance(relation, Scan) and relation.table == "visits")

    patch.setattr(relations, "is_private", is_private)


@pytest.mark.parametrize(
    ("fault", "statement"),
    [
        (faults.no_limit_on_rows, "SET strategy = rows ;; SELECT COUNT(*) FROM patients WHERE age > 5"),  # K03, R19
        (faults.sensitivity_off_by_two, "SET strategy = rows ;; SELECT COUNT(*) FROM patients WHERE age > 6"),  # R09
        (no_equal_units, "SELECT COUNT(*) FROM visits a JOIN visits b ON a.visit_id = b.visit_id"),  # J02, J06
        (
            no_equal_units,
            "SELECT COUNT(*) FROM visits WHERE visit_id NOT IN (SELECT visit_id FROM visits WHERE fee > 20)",
        ),  # J07
        (
            no_equal_units,
            "SELECT COUNT(*) FROM visits a SEMI JOIN (SELECT * FROM visits WHERE fee > 20) b USING (visit_id)",
        ),  # J12
    ],
)
def test_what_moves_too_far_is_found(
    fault: Fault, statement: str, fresh: Callable[[], Pair], monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = fresh()
    assert attack(pair, statement) == "answered"
    fault(monkeypatch)
    with pytest.raises(Violation):
        attack(pair, statement)


@pytest.mark.parametrize(
    ("fault", "where"),
    [
        (faults.no_clamp, "cost BETWEEN 100 AND 9999"),
        (faults.nan_is_not_clamped, "isnan(cost)"),
        (faults.an_error_that_depends_on_data, "cost > 100"),
    ],
)
def test_values_that_are_not_clamped_are_found(
    fault: Fault, where: str, fresh: Callable[[], Pair], monkeypatch: pytest.MonkeyPatch
) -> None:
    """N07, N08, S01: the person's values count as they are, or end the statement."""
    fault(monkeypatch)
    with pytest.raises(AssertionError):
        attack(fresh(), f"SET strategy = late ;; SELECT SUM(cost) FROM patients WHERE {where}")


# ------------------------------------------------------------------------------------------ K01, K02: rare keys

CLINICS = "SELECT clinic, COUNT(DISTINCT uid) FROM visits GROUP BY clinic"
SHOWN = 1500


def lone_keys_shown(pair: Pair, sql: str = CLINICS) -> int:
    """In how many of so many releases one of the keys is shown that the person alone holds, at delta 0.018 each."""
    pair.settings({"epsilon": "20"})
    plan, (draw, _) = draws(pair, sql)
    (key,) = plan.release.key_names
    names = [draw().column(key).to_pylist() for _ in range(SHOWN)]
    return sum(any(str(name).startswith("Quetzalcoatl") for name in one) for one in names)


@pytest.mark.parametrize("sql", [CLINICS, "SELECT DISTINCT clinic FROM visits"])
def test_k01_k02_k03_r17_a_key_of_one_person_is_shown_as_rarely_as_delta_says(keyed: Pair, sql: str) -> None:
    """Thirteen visits in a clinic that nobody else has. 27 of 1,500 in the mean, at most; 63 happen once in 10^8."""
    assert lone_keys_shown(keyed, sql) <= 62


@pytest.mark.parametrize("fault", [faults.exact_keys, faults.threshold_on_rows])
def test_k01_k02_keys_shown_too_often_are_found(fault: Fault, keyed: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    fault(monkeypatch)
    assert lone_keys_shown(keyed) > 62
