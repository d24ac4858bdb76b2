"""Shares of epsilon at the aggregates themselves: COUNT(*, epsilon => 0.1). What each gets, what is charged, and what
proves it. What EXPLAIN and the refusals say stands in tests/compile/golden/hints.test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from math import sqrt

import pytest

import dpsql
from dpsql.compile.check import check
from dpsql.compile.hints import Hint, take
from dpsql.compile.plan import PrivatePlan
from dpsql.compile.scan import scan
from dpsql.errors import Error, Span
from dpsql.privacy.accounting import show_amount
from dpsql.privacy.gaussian import is_private, mu_squared_of_pure
from dpsql.session import Session, open_session
from tests.conftest import Clinic


def amounts(**shares: str) -> dict[str, Fraction]:
    return {name: Fraction(share) for name, share in shares.items()}


def opened(make: Callable[..., Clinic], terms: str = "", account: str = "hints") -> Session:
    """epsilon 1 a statement, at most 2."""
    clinic = make(account=account, epsilon="20", per_query_epsilon="1", max_query_epsilon="2")
    if terms:
        text = clinic.policy.read_text(encoding="utf-8")
        clinic.policy.write_text(text.replace('delta = "0"', terms), encoding="utf-8")
    return open_session(clinic.policy, clinic.database)


@pytest.fixture
def session(make_clinic: Callable[..., Clinic]) -> Iterator[Session]:
    with closing(opened(make_clinic)) as session:
        yield session


@pytest.fixture
def normal(make_clinic: Callable[..., Clinic]) -> Iterator[Session]:
    """With a delta, and Gaussian noise wherever it can be."""
    with closing(opened(make_clinic, 'delta = "1e-3"\nper_query_delta = "1e-6"')) as session:
        session.execute("SET mechanism = gaussian")
        yield session


def planned(session: Session, sql: str) -> PrivatePlan:
    return session.compile(sql).plan


def shares(session: Session, sql: str) -> dict[str, Fraction]:
    """By the text of the first aggregate of each slot."""
    return {s.outputs[0].text: s.epsilon for r in planned(session, sql).releases for s in r.slots}


def refused(session: Session, sql: str, parameters: object = None) -> Error:
    before = session.budget()
    with pytest.raises(Error) as caught:
        session.execute(sql, parameters)  # type: ignore[arg-type]
    assert session.budget() == before, "a refusal is free"
    return caught.value


def pointed_at(error: Error, sql: str) -> str:
    assert error.span is not None
    return sql[error.span.start : error.span.end]


# --------------------------------------------------------------------------------------------------------- shares

COUNTED, SUMMED, PEOPLE = "COUNT(*)", "SUM(age)", "COUNT(DISTINCT uid)"

SHARES = [
    ("SELECT COUNT(*, epsilon => 0.1) FROM patients", {COUNTED: "0.1"}),
    ("SELECT COUNT(*, epsilon => 2) FROM patients", {COUNTED: "2"}),  # above the setting, not above the ceiling
    ("SELECT COUNT(*, epsilon => 1e-6) FROM patients", {COUNTED: "1e-6"}),
    ("SELECT COUNT(*, epsilon => .5) FROM patients", {COUNTED: "1/2"}),
    ("SELECT COUNT ( * , EPSILON=>0.1 ) FROM patients", {COUNTED: "0.1"}),
    ("SELECT COUNT(*, epsilon => 0.1), SUM(age, epsilon => 0.4) FROM patients", {COUNTED: "0.1", SUMMED: "0.4"}),
    ("SELECT COUNT(*, epsilon => 0.1), SUM(age) FROM patients", {COUNTED: "0.1", SUMMED: "0.9"}),
    (
        "SELECT COUNT(*, epsilon => 0.1), SUM(age), COUNT(DISTINCT uid) FROM patients",
        {COUNTED: "0.1", SUMMED: "0.45", PEOPLE: "0.45"},
    ),
    ("SELECT COUNT(DISTINCT uid, epsilon => 0.1), COUNT(*) FROM patients", {PEOPLE: "0.1", COUNTED: "0.9"}),
    ("SELECT COUNT(DISTINCT name, epsilon => 0.3) FROM patients", {"COUNT(DISTINCT name)": "0.3"}),
    ("SELECT COUNT_IF(age > 9, epsilon => 0.3) FROM patients", {"COUNT_IF(age > 9)": "0.3"}),
    ("SELECT SUM(age, epsilon => 0.3) FILTER (WHERE age > 9) FROM patients", {"SUM(age) FILTER(WHERE age > 9)": "0.3"}),
    ("SELECT CORR(age, cost, epsilon => 0.3) FROM patients", {"CORR(age, cost)": "0.3"}),
    ("SELECT SUM(CASE WHEN age > 9 THEN (age) END, epsilon => 0.3) FROM patients", None),
    ("SELECT AVG(age, epsilon => 0.3) FROM patients", {"AVG(age)": "0.3"}),
    ("SELECT 2 * ROUND(COUNT(*, epsilon => 0.3) / 3) FROM patients", {COUNTED: "0.3"}),
    ("SELECT SUM(COUNT(*, epsilon => 0.3)) OVER () FROM patients", {COUNTED: "0.3"}),
    ("SELECT COUNT(*, epsilon => 0.3) AS n FROM patients ORDER BY n", {COUNTED: "0.3"}),
    ("SELECT COUNT(*) FROM patients HAVING COUNT(*, epsilon => 0.3) > 9", {COUNTED: "0.3"}),
    (
        "SELECT region FROM patients GROUP BY 1 HAVING COUNT(*, epsilon => 0.3) > 9 ORDER BY SUM(age, epsilon => 1)",
        {COUNTED: "0.3", SUMMED: "1"},
    ),
    (
        "SELECT (SELECT COUNT(*, epsilon => 0.1) FROM patients), (SELECT SUM(fee, epsilon => 0.3) FROM visits)",
        {COUNTED: "0.1", "SUM(fee)": "0.3"},
    ),
    (
        "SELECT (SELECT COUNT(*, epsilon => 0.1) FROM patients), (SELECT SUM(fee) FROM visits)",
        {COUNTED: "0.1", "SUM(fee)": "0.9"},
    ),
    (
        "WITH p AS (SELECT COUNT(*, epsilon => 0.2) AS n FROM patients) SELECT a.n + b.n FROM p a, p b",
        {COUNTED: "0.2"},
    ),
    (
        "SELECT SUM(n, epsilon => 0.2) FROM (SELECT uid, LEAST(COUNT(*), 9) AS n FROM visits GROUP BY uid) v",
        {"SUM(n)": "0.2"},
    ),
    (
        "SELECT COUNT(*, epsilon => 0.3) FROM patients WHERE age > (SELECT AVG(age, epsilon => 0.2) FROM patients)",
        {COUNTED: "0.3", "AVG(age)": "0.2"},
    ),
    (
        "SELECT label, (SELECT COUNT(*, epsilon => 0.2) FROM patients p WHERE p.region = r.region) FROM regions r",
        {COUNTED: "0.2"},
    ),
    (
        "SELECT COUNT(*, epsilon => 0.2) FROM patients UNION ALL SELECT SUM(age, epsilon => 0.3) FROM patients",
        {COUNTED: "0.2", SUMMED: "0.3"},
    ),
]


@pytest.mark.parametrize(("sql", "expected"), SHARES, ids=lambda case: case[:70] if isinstance(case, str) else "")
def test_an_aggregate_has_the_share_that_it_asks_for(
    session: Session, sql: str, expected: dict[str, str] | None
) -> None:
    found = shares(session, sql)
    if expected is not None:
        assert found == amounts(**expected)
    whole = sum(found.values())
    assert planned(session, sql).epsilon == whole
    assert f"price: epsilon {show_amount(whole)}, delta 0\n" in session.explain(sql)
    assert session.explain(sql).count("(asked for)") == sql.count("=>") or "HAVING" in sql
    receipt = session.execute(sql).receipt
    assert receipt is not None
    assert receipt.epsilon == whole
    assert {c.epsilon for c in receipt.columns} == set(found.values())


def test_equal_aggregates_are_one_and_have_the_largest_hint(session: Session) -> None:
    for first, second in (("0.1", "0.3"), ("0.3", "0.1")):
        sql = f"SELECT COUNT(*, epsilon => {first}), COUNT(*, epsilon => {second}), COUNT(*) FROM patients"
        assert shares(session, sql) == {COUNTED: Fraction("0.3")}
        answer = session.execute(sql)
        assert answer.receipt is not None
        assert len({answer.table.column(i).to_pylist()[0] for i in range(3)}) == 1, "one noise"


def test_a_shared_slot_has_the_largest_hint(session: Session) -> None:
    for one, other in (("0.1", "0.3"), ("0.3", "0.1")):
        sql = f"SELECT AVG(age, epsilon => {one}), VAR_POP(age, epsilon => {other}) FROM patients"
        (slot,) = planned(session, sql).releases[0].slots
        assert slot.epsilon == Fraction("0.3")


def test_what_has_no_hint_is_in_no_slot_with_a_small_one(session: Session) -> None:
    """They would share one without hints, and a count asked for nothing would have a thousandth of epsilon."""
    plain, hinted = (f"SELECT AVG(age{hint}), VAR_POP(age) FROM patients" for hint in ("", ", epsilon => 0.001"))
    assert len(planned(session, plain).releases[0].slots) == 1
    assert shares(session, hinted) == {"AVG(age)": Fraction("0.001"), "VAR_POP(age)": Fraction("0.999")}


def test_weights_share_what_hints_leave(session: Session) -> None:
    session.execute("SET weights = 'n: 100, s: 2'")
    sql = "SELECT COUNT(*, epsilon => 0.4) AS n, SUM(age) AS s, COUNT(DISTINCT uid) AS u FROM patients"
    assert shares(session, sql) == {COUNTED: Fraction("0.4"), SUMMED: Fraction("0.4"), PEOPLE: Fraction("0.2")}


def test_a_choice_has_its_hint_and_half_of_it_is_charged(session: Session) -> None:
    best = "SELECT region FROM patients GROUP BY region ORDER BY COUNT(*, epsilon => 0.2) DESC LIMIT 1"
    for sql in (best, "SELECT MODE(region, epsilon => 0.2) FROM patients"):
        (release,) = planned(session, sql).releases
        assert release.choosing is not None
        assert (release.share, release.pure) == (Fraction("0.2"), Fraction("0.1"))
        receipt = session.execute(sql).receipt
        assert receipt is not None
        assert receipt.epsilon == Fraction("0.1")
    both = planned(session, "SELECT MODE(region, epsilon => 0.2), COUNT(*) FROM patients")
    assert {r.share for r in both.releases} == {Fraction("0.2"), Fraction("0.8")}


def test_the_noise_is_that_of_the_share(session: Session) -> None:
    columns = session.execute("SELECT COUNT(*, epsilon => 0.1), SUM(age, epsilon => 0.4) FROM patients").receipt
    assert columns is not None
    assert [c.scale for c in columns.columns] == pytest.approx([3 / 0.1, 3 * 120 / 0.4])


def test_stored_answers_differ_by_share_alone(session: Session) -> None:
    """The same share is the same release, whoever named it; a larger one is drawn finer, for the difference."""

    def paid(sql: str) -> Fraction:
        receipt = session.execute(sql).receipt
        assert receipt is not None
        return receipt.epsilon

    assert paid("SELECT COUNT(*, epsilon => 0.5) FROM patients") == Fraction("0.5")
    assert paid("SELECT COUNT(*, epsilon => 1) FROM patients") == Fraction("0.5")
    assert paid("SELECT COUNT(*) FROM patients") == 0
    assert paid("SELECT COUNT(*, epsilon => 1.0) AS n FROM patients") == 0
    assert paid("SELECT COUNT(*, epsilon => 0.5) FROM patients") == 0
    assert session.budget().spent_epsilon == 1


# ------------------------------------------------------------------------------------------------ delta and Gaussian


def test_a_normal_slot_has_its_part_by_the_square_of_its_share(normal: Session) -> None:
    sql = "SELECT COUNT(*, epsilon => 0.6), COUNT(*) FILTER (WHERE age > 30), SUM(age) FROM patients"
    plan = planned(normal, sql)
    assert plan.joints
    assert (plan.joints[0].epsilon, plan.epsilon, plan.delta) == (1, 1, Fraction(1, 10**6))
    found = {s.outputs[0].text: s for s in plan.releases[0].slots}
    assert {s.epsilon for s in found.values()} == {Fraction("0.6"), Fraction("0.2")}
    mu = {text: sqrt(s.mu_squared) for text, s in found.items()}
    assert mu[COUNTED] == pytest.approx(3 * mu[SUMMED], rel=1e-6)
    assert is_private(sum((s.mu_squared for s in found.values()), Fraction(0)), Fraction(1), plan.joints[0].delta)


def test_hints_of_all_slots_make_the_pool(normal: Session) -> None:
    sql = "SELECT COUNT(*, epsilon => 0.2), SUM(age, epsilon => 0.1) FROM patients"
    plan = planned(normal, sql)
    assert plan.joints
    assert plan.joints[0].epsilon == plan.epsilon == Fraction("0.3")
    receipt = normal.execute(sql).receipt
    assert receipt is not None
    assert (receipt.epsilon, receipt.delta) == (Fraction("0.3"), Fraction(1, 10**6))


def test_hints_change_no_other_choice_of_noise(make_clinic: Callable[..., Clinic]) -> None:
    """Equal hints on all are the statement that has none, at the same epsilon."""
    with closing(opened(make_clinic, 'delta = "1e-3"\nper_query_delta = "1e-6"', "free")) as session:
        for count, share in ((1, "1"), (2, "0.5"), (10, "0.1"), (20, "0.05")):
            plain, hinted = (
                planned(session, f"SELECT {', '.join(f'SUM(age - {i}{hint})' for i in range(count))} FROM patients")
                for hint in ("", f", epsilon => {share}")
            )
            assert plain.epsilon == hinted.epsilon == 1
            assert [(s.epsilon, s.sigma) for s in plain.releases[0].slots] == [
                (s.epsilon, s.sigma) for s in hinted.releases[0].slots
            ]


def test_delta_follows_the_price(make_clinic: Callable[..., Clinic]) -> None:
    """Of a policy without per_query_delta it is the part of the budget's that epsilon is."""
    sql = "SELECT name, COUNT(DISTINCT uid{}) FROM patients GROUP BY name"
    with closing(opened(make_clinic, 'delta = "1e-4"', "prorated")) as session:
        for hint, epsilon in (("", "1"), (", epsilon => 0.1", "0.1"), (", epsilon => 2", "2")):
            plan = planned(session, sql.format(hint))
            assert (plan.epsilon, plan.delta) == (Fraction(epsilon), Fraction(epsilon) / 20 / 10**4)
    terms = 'delta = "1e-4"\ncomposition = "gaussian"'
    with closing(opened(make_clinic, terms, "in-mu")) as session:
        one, two = (planned(session, sql.format(f", epsilon => {e}")) for e in ("0.5", "1"))
        assert planned(session, sql.format("")).delta == two.delta
        ratio = mu_squared_of_pure(Fraction(1, 2)) / mu_squared_of_pure(Fraction(1))
        assert one.delta == two.delta * ratio
        assert one.price(one.releases).mu_squared < two.price(two.releases).mu_squared


def test_a_decision_on_keys_has_what_is_left(make_clinic: Callable[..., Clinic]) -> None:
    with closing(opened(make_clinic, 'delta = "1e-4"', "keys")) as session:
        session.execute("SET mechanism = laplace")
        sql = "SELECT name, COUNT(*, epsilon => {}) FROM patients GROUP BY name"
        (release,) = planned(session, sql.format("0.3")).releases
        assert release.selection is not None
        assert (release.slots[0].epsilon, release.selection.epsilon) == (Fraction("0.3"), Fraction("0.7"))
        error = refused(session, sql.format("1"))
        assert error.code == "DP120"
        assert error.reason.endswith("nothing is left for the decision on keys")
        assert error.repair == "SET epsilon = 2, or hint less"
        error = refused(session, sql.format("2"))
        assert error.repair == "ask for less than 2, or hint less"


# ------------------------------------------------------------------------------------------------------- refusals


def test_the_ceiling_holds_for_hints(session: Session) -> None:
    fine = "SELECT COUNT(*, epsilon => 1.5), SUM(age, epsilon => 0.5) FROM patients"
    assert planned(session, fine).epsilon == 2
    above = fine.replace("0.5", "0.5000000000000000000001")
    error = refused(session, above)
    assert (error.code, pointed_at(error, above)) == ("DP402", "epsilon => 0.5000000000000000000001")


def test_what_is_left_is_more_than_nothing(session: Session) -> None:
    sql = "SELECT COUNT(*, epsilon => 0.7), AVG(cost, epsilon => {}), SUM(age) FROM patients"
    assert shares(session, sql.format("0.2999"))[SUMMED] == Fraction("0.0001")
    for hint in ("0.3", "0.4", "1.4"):
        error = refused(session, sql.format(hint))
        assert (error.code, pointed_at(error, sql.format(hint))) == ("DP120", f"epsilon => {hint}")
        assert "of the statement's epsilon 1: " in error.reason
        assert error.reason.endswith("is left for SUM(age)")
        assert error.repair is not None
        assert error.repair.endswith(", or give SUM(age) a hint too")
    session.execute("SET epsilon = 2")  # what the repair says
    assert shares(session, sql.format("0.3"))[SUMMED] == 1
    session.execute("RESET epsilon")
    assert planned(session, sql.format("0.4").replace("SUM(age)", "SUM(age, epsilon => 0.1)")).epsilon == Fraction(
        "1.2"
    )


AT = "epsilon => 0.1"
MISPLACED = "epsilon =>"
REFUSED = [
    ("SELECT COUNT(*, epsilon => '0.1') FROM patients", "'0.1'"),
    ("SELECT COUNT(*, epsilon => -0.1) FROM patients", "-0.1"),
    ("SELECT COUNT(*, epsilon => +0.1) FROM patients", "+0.1"),
    ("SELECT COUNT(*, epsilon => 0) FROM patients", "0"),
    ("SELECT COUNT(*, epsilon => 0.000) FROM patients", "0.000"),
    ("SELECT COUNT(*, epsilon => 1e999) FROM patients", "1e999"),
    ("SELECT COUNT(*, epsilon => 1e-999) FROM patients", "1e-999"),
    (
        "SELECT COUNT(*, epsilon => 0.1234567890123456789012345678901) FROM patients",
        "0.1234567890123456789012345678901",
    ),
    ("SELECT COUNT(*, epsilon => 1/2) FROM patients", "1/2"),
    ("SELECT COUNT(*, epsilon => 0.1 + (1, 2)) FROM patients", "0.1 + (1, 2)"),
    ("SELECT COUNT(*, epsilon => 0.1::DOUBLE) FROM patients", "0.1::DOUBLE"),
    ("SELECT COUNT(*, epsilon => NULL) FROM patients", "NULL"),
    ("SELECT COUNT(*, epsilon => inf) FROM patients", "inf"),
    ("SELECT COUNT(*, epsilon => age) FROM patients", "age"),
    ("SELECT COUNT(*, epsilon => ?) FROM patients", "?"),
    ("SELECT COUNT(*, epsilon => $e) FROM patients", "$e"),
    ("SELECT COUNT(*, epsilon => (0.1)) FROM patients", "(0.1)"),
    ("SELECT COUNT(*, epsilon => COUNT(*, epsilon => 0.1)) FROM patients", "COUNT(*, epsilon => 0.1)"),
    ("SELECT COUNT(*, epsilon => ) FROM patients", "=>"),
    ("SELECT COUNT(epsilon => 0.1) FROM patients", MISPLACED),
    ("SELECT COUNT(, epsilon => 0.1) FROM patients", MISPLACED),
    ("SELECT SUM(age,, epsilon => 0.1) FROM patients", MISPLACED),
    ("SELECT SUM(age epsilon => 0.1) FROM patients", MISPLACED),
    ("SELECT SUM(epsilon => 0.1, age) FROM patients", MISPLACED),
    ("SELECT COUNT(*, epsilon => 0.1, epsilon => 0.1) FROM patients", MISPLACED),
    ("SELECT COUNT(*, epsilon => 0.1,) FROM patients", MISPLACED),
    ("SELECT COUNT(*), epsilon => 0.1 FROM patients", MISPLACED),
    ("SELECT COUNT(*) FROM patients WHERE age IN [1, epsilon => 0.1]", MISPLACED),
    ("SELECT COUNT(*) FROM patients WHERE age IN (1, epsilon => 0.1)", AT),
    ("SELECT COUNT(*) FROM patients WHERE (age, epsilon => 0.1) = 1", AT),
    ("SELECT COUNT(*) FILTER (WHERE age > 1, epsilon => 0.1) FROM patients", AT),
    ("SELECT SUM(COUNT(*)) OVER (ORDER BY region, epsilon => 0.1) FROM patients GROUP BY region", AT),
    ("SELECT SUM(COUNT(*), epsilon => 0.1) OVER () FROM patients", AT),
    ("SELECT SUM(abs(age, epsilon => 0.1)) FROM patients", AT),
    ("SELECT SUM(CAST(age AS BIGINT, epsilon => 0.1)) FROM patients", AT),
    ("SELECT ROUND(COUNT(*), epsilon => 0.1) FROM patients", AT),
    ("SELECT region, COUNT(*) FROM patients GROUP BY ROLLUP (region, epsilon => 0.1)", AT),
    ("SELECT COUNT(*, epsilon => 0.1) FROM regions", AT),
    ("SELECT (SELECT COUNT(*, epsilon => 0.1) FROM regions), COUNT(*) FROM patients", AT),
    ("SELECT COUNT(*) FROM patients WHERE region IN (SELECT MAX(region, epsilon => 0.1) FROM regions)", AT),
    ("SELECT MAX(n, epsilon => 0.1) FROM (SELECT region, COUNT(*) AS n FROM patients GROUP BY region) g", AT),
    ("SELECT COUNT(*) FROM (SELECT uid, SUM(fee, epsilon => 0.1) AS n FROM visits GROUP BY uid) v WHERE n > 9", AT),
    (
        "SELECT COUNT(*) FROM (SELECT uid, 1 AS n FROM visits GROUP BY uid HAVING COUNT(*, epsilon => 0.1) > 1) v",
        AT,
    ),
    (
        "SELECT COUNT(*) FROM patients p WHERE (SELECT COUNT(*, epsilon => 0.1) FROM visits v WHERE v.uid = p.uid) > 1",
        AT,
    ),
    ("SELECT COUNT(*) FROM (SELECT uid, SUM(fee, epsilon => 0.1) OVER (PARTITION BY uid) AS n FROM visits) v", AT),
    ("WITH unused AS (SELECT uid, COUNT(*, epsilon => 0.1) FROM visits GROUP BY uid) SELECT COUNT(*) FROM visits", AT),
]


@pytest.mark.parametrize(("sql", "at"), REFUSED, ids=[sql for sql, _ in REFUSED])
def test_what_is_no_hint_is_refused_where_it_stands(session: Session, sql: str, at: str) -> None:
    error = refused(session, sql, {"e": 0.1} if "$e" in sql else (0.1,) if "?" in sql else None)
    assert (error.code, pointed_at(error, sql)) == ("DP120", at)
    assert error.repair


STILL = [
    ("SELECT COUNT(*) FROM patients WHERE name = ', epsilon => 0.1)'", "1"),
    ("SELECT COUNT(*) FROM patients WHERE name = 'it''s, epsilon => 0.1)' OR name = $$, epsilon => 0.1)$$", "1"),
    ("SELECT COUNT(* /* , epsilon => 0.1 */) AS n -- , epsilon => 0.1)\nFROM patients", "1"),
    ('SELECT COUNT(*) AS ", epsilon => 0.1)" FROM patients', "1"),
    ("SELECT COUNT(*, /* ) */ epsilon /* , */ => /* 9 */ 0.1 -- )\n) FROM patients WHERE name = ')'", "0.1"),
]


@pytest.mark.parametrize(("sql", "epsilon"), STILL, ids=[sql for sql, _ in STILL])
def test_texts_and_comments_hold_no_hints(session: Session, sql: str, epsilon: str) -> None:
    assert planned(session, sql).epsilon == Fraction(epsilon)


def test_a_parameter_that_looks_like_a_hint_is_a_text(session: Session) -> None:
    sql = "SELECT COUNT(*, epsilon => 0.1) FROM patients WHERE name = ? AND age > $1".replace("$1", "?")
    plan = session.compile(sql, (", epsilon => 2)", 3)).plan
    assert plan.epsilon == Fraction("0.1")


OTHERS = ["SUM(age, delta => 0.1)", "SUM(age, epsilom => 0.1)", 'SUM(age, "epsilon" => 0.1)', "SUM(age, epsilon = 0.1)"]


@pytest.mark.parametrize("call", [*OTHERS, "SUM(age, epsilon -> 0.1)", "SUM(age, epsilon := 0.1)"])
def test_other_names_and_arrows_are_no_hints(session: Session, call: str) -> None:
    assert refused(session, f"SELECT {call} FROM patients").code[:3] in ("DP1", "DP2")


def test_places_behind_a_hint_are_those_of_the_text(session: Session) -> None:
    sql = "SELECT COUNT(*,\n  epsilon => 0.1\n), SUM(name) FROM patients"
    error = refused(session, sql)
    assert pointed_at(error, sql) == "name"
    assert "\n  --> statement:3:8\n" in str(error)


def test_the_rest_of_the_text_keeps_its_places() -> None:
    text = "SELECT SUM(a,\r\n epsilon => 0.1), f(b, epsilon => .2)\tFROM t"
    taken = take(text, scan(text))
    assert len(taken.text) == len(text)
    assert taken.text.split() == ["SELECT", "SUM(a", "),", "f(b", ")", "FROM", "t"]
    assert taken.text.count("\r\n") == 1
    assert [taken.text[t.start : t.end + 1] for t in taken.tokens] == [t.text for t in taken.tokens]
    assert all(one.end < other.start for one, other in pairwise(taken.tokens))
    assert {text[at : at + 1]: found.hint.share for at, found in taken.hints.items() if found.hint} == amounts(
        S="1/10", f="1/5"
    )


# ------------------------------------------------------------------------------------------------------ the proof


def test_check_proves_the_shares_from_the_hints(session: Session) -> None:
    """A plan whose slots have other shares than its aggregates ask for is no plan, whatever it adds up to."""
    request = session.settings.request
    for sql in (
        "SELECT COUNT(*, epsilon => 0.1), SUM(age, epsilon => 0.4) FROM patients",
        "SELECT COUNT(*, epsilon => 0.1), SUM(age) FROM patients",
    ):
        plan = planned(session, sql)
        (release,) = plan.releases
        one, other = release.slots
        check(plan, session.policy, request)

        def faulty(*slots: object, of: PrivatePlan = plan) -> PrivatePlan:
            return replace(of, releases=(replace(of.releases[0], slots=slots),))  # type: ignore[arg-type]

        swapped = faulty(replace(one, epsilon=other.epsilon), replace(other, epsilon=one.epsilon))
        moved = faulty(replace(one, epsilon=one.epsilon / 2), replace(other, epsilon=other.epsilon + one.epsilon / 2))
        more = faulty(*(replace(s, epsilon=2 * s.epsilon) for s in (one, other)))
        hint = Hint(Fraction("0.2"), Span(0, 1))
        hinted = faulty(
            *(replace(s, outputs=tuple(replace(m, hints=(hint,)) for m in s.outputs)) for s in (one, other))
        )
        unhinted = faulty(*(replace(s, outputs=tuple(replace(m, hints=()) for m in s.outputs)) for s in (one, other)))
        for fault in (swapped, moved, more, hinted, *([unhinted] if plan.epsilon < 1 else [])):
            with pytest.raises(Error, match="DP901"):
                check(fault, session.policy, request)


def test_check_proves_the_ceiling(session: Session) -> None:
    plan = planned(session, "SELECT COUNT(*, epsilon => 1.5) FROM patients")
    lower = replace(session.policy, budget=replace(session.policy.budget, max_query_epsilon=Fraction("1.4")))
    check(plan, session.policy, session.settings.request)
    with pytest.raises(Error, match="hints ask for no more than the policy allows"):
        check(plan, lower, session.settings.request)


def test_through_the_database_interface(clinic: Clinic) -> None:
    with dpsql.connect(clinic.policy, clinic.database) as connection:
        cursor = connection.execute("SELECT COUNT(*, epsilon => 0.25) AS n FROM patients WHERE age > ?", (30,))
        assert cursor.description is not None
        assert cursor.description[0][0] == "n"
        assert cursor.receipt is not None
        assert cursor.receipt.epsilon == Fraction("0.25")
        with pytest.raises(dpsql.Error, match="DP120"):
            connection.execute("SELECT COUNT(*, epsilon => ?) FROM patients", (0.1,))
