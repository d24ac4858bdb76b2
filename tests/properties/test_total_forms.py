"""Every allowed function, run over adversarial rows on the real engine.

(a) The total form never raises, with one thread and two, with and without the optimizer, and gives the same values;
(b) every value lies in the inferred bounds and domain, and NULL comes only where it may; (c) where plain DuckDB
evaluates, for that row, what the analyst wrote, the values agree. What is meant to differ (a division by 0, dates
outside the years 1 to 9999) is written into the references by hand.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from typing import Any

import duckdb
import pytest
import sqlglot
from hypothesis import given
from hypothesis import strategies as st
from sqlglot import exp

from dpsql.compile.catalogue import NAMED, NODES
from dpsql.compile.gate import seal
from dpsql.compile.ir import Facts
from dpsql.compile.ranges import Interval, bound_of, finite, held, is_huge, known
from dpsql.compile.scalars import _RULES, lower_scalar, narrow
from dpsql.errors import NotSupportedError
from dpsql.policy.facts import Kind
from dpsql.vault import second_parser
from tests.properties.adversaries import COLUMNS, FUNCTIONS, Template, fill, predicate, scope, table

ROWS = 256
DRAWS = 9
"""Argument lists per function: with ROWS rows, more than 2,000 argument tuples for each."""

MANY_DRAWS = 40
"""More than 10,000 tuples."""

Engines = list[duckdb.DuckDBPyConnection]


@pytest.fixture(scope="module")
def engines() -> Iterator[Engines]:
    """The same rows in two engines: one thread with the optimizer, two threads without."""
    one, two = duckdb.connect(), duckdb.connect(config={"threads": 2})
    for engine in (one, two):
        engine.execute(table(ROWS))
    two.execute("PRAGMA disable_optimizer")
    yield [one, two]
    one.close()
    two.close()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_function(name: str, engines: Engines) -> None:
    draw(engines, name, random.Random(name), DRAWS)


@pytest.mark.audit
@pytest.mark.parametrize("name", FUNCTIONS)
def test_function_at_length(name: str, engines: Engines) -> None:
    """Over 10,000 argument tuples, other ones in each run."""
    seed = random.SystemRandom().getrandbits(64)
    try:
        draw(engines, name, random.Random(seed), MANY_DRAWS)
    except BaseException as error:
        error.add_note(f"{name}, seed {seed}")
        raise


def draw(engines: Engines, name: str, rng: random.Random, draws: int) -> None:
    templates = FUNCTIONS[name]
    ran = 0
    for number in range(max(draws, len(templates))):
        ran += checked(engines, rng, templates[number % len(templates)], depth=0)
    assert ran >= draws


def test_every_function_has_a_template() -> None:
    """A row of the table, or a rule of the lowering, that no template reaches would never meet these rows."""
    rng = random.Random(0)
    filled = [fill(template, rng)[0] for templates in FUNCTIONS.values() for template in templates * 4]
    nodes = [node for text in {*filled, "i", "(i)", "date_add(de, INTERVAL 1 DAY)"} for node in bound(text).walk()]
    reached = {type(node) for node in nodes}
    # Two nodes that no text of DuckDB's reads as: rules for them stay, since sqlglot may make them of others.
    missing = (set(NODES) | set(_RULES)) - reached - {exp.Date, exp.DateTrunc}
    assert not missing
    assert set(NAMED) <= {str(node.this).lower() for node in nodes if isinstance(node, exp.Anonymous)}


@given(seed=st.integers(0, 2**32 - 1))
def test_nested_expressions(engines: Engines, seed: int) -> None:
    rng = random.Random(seed)
    checked(engines, rng, rng.choice(FUNCTIONS[rng.choice(list(FUNCTIONS))]), depth=2)


@given(seed=st.integers(0, 2**32 - 1))
def test_narrowed_scopes(engines: Engines, seed: int) -> None:
    """Facts after a predicate hold for the rows for which it is TRUE. An expression that was lowered under them still
    raises for no row at all, and keeps to its held interval: the engine may compute it before it filters."""
    rng = random.Random(seed)
    text = predicate(rng)
    before = scope()
    after = narrow(before, bound(text))
    kept = f"({lower_scalar(bound(text), before).tree.sql(dialect='duckdb')}) IS TRUE"
    changed = [column for (_, column), facts in after.items() if facts is not before["t", column]]
    rows = engines[0].execute(f"SELECT {', '.join(['rid', *changed])} FROM t WHERE {kept}").fetchall()
    for position, column in enumerate(changed, start=1):
        values = [row[position] for row in rows]
        check_facts(values, after["t", column], f"{column} where {text}", everywhere=False)
    for _ in range(3):
        other, _ = fill(rng.choice(FUNCTIONS[rng.choice(list(FUNCTIONS))]), rng, 1)
        try:
            scalar = lower_scalar(bound(other), after)
        except NotSupportedError:
            continue
        sql = scalar.tree.sql(dialect="duckdb")
        for engine in engines:
            check_held(answers(engine, sql), scalar.facts, f"{other} where {text}")
        values = answers(engines[0], sql, where=kept)
        check_facts(values, scalar.facts, f"{other} where {text}", everywhere=False)


def checked(engines: Engines, rng: random.Random, template: Template, depth: int) -> bool:
    """Check a template with arguments that are not refused; False where twenty draws find none."""
    for _ in range(20):
        text, reference = fill(template, rng, depth)
        try:
            check(engines, text, reference, nested=depth > 0)
        except NotSupportedError:
            continue
        return True
    return False


def check(engines: Engines, text: str, reference: str, *, nested: bool) -> None:
    """Lower, run, and hold against facts and reference."""
    scalar = lower_scalar(bound(text), scope())
    sql = scalar.tree.sql(dialect="duckdb")
    assert bound(sql) == scalar.tree, f"{sql} reads back as another tree"
    select = exp.select(exp.alias_(scalar.tree, "v")).from_(exp.table_("t", db="priv", quoted=True))
    sealed = seal(select, frozenset({"priv.t"}))
    second_parser.check(sealed.text, sealed.tables, sealed.functions)
    first, second = (answers(engine, sql) for engine in engines)
    check_facts(first, scalar.facts, text)
    for value, other in zip(first, second, strict=True):
        assert same(value, other), f"{sql}: {value!r} or {other!r}"
    expected = "HUGEINT" if is_huge(scalar.facts) else str(scalar.facts.type)
    found = answers(engines[1], f"typeof({sql})", where="rid = 0")[0]
    assert found == expected, f"{sql} is a {found}, not a {expected}"
    # An integer or decimal that may overflow becomes a DOUBLE, which shows in its text, and in // and CASE over it.
    compare_with_plain(engines[1], reference, first, text, lenient=nested and "AS DOUBLE" in sql)


def compare_with_plain(
    engine: duckdb.DuckDBPyConnection, reference: str, ours: list[Any], text: str, *, lenient: bool
) -> None:
    try:
        plain = answers(engine, f"TRY({reference})")
    except duckdb.BinderException:
        return  # DuckDB has no such function for these types, where a wider one is answered
    for rid, (value, other) in enumerate(zip(ours, plain, strict=True)):
        if same(value, other) or lenient:
            continue
        try:
            alone = answers(engine, reference, where=f"rid = {rid}")
        except duckdb.Error:
            continue  # plain DuckDB raises on this row: NULL and a wider type are both better
        raise AssertionError(f"{text}, row {rid}: {value!r}, plain DuckDB {alone[0]!r}")


def check_facts(values: list[Any], facts: Facts, text: str, *, everywhere: bool = True) -> None:
    """Values lie in the known interval and domain; those of rows that no filter has cut, in the held one too."""
    domain = finite(facts)
    allowed = None if domain is None else set(domain)
    ordered = facts.type.kind not in (Kind.BOOLEAN, Kind.VARCHAR)
    for value in values:
        if value is None:
            assert facts.nullable, f"{text} is NULL"
            continue
        assert allowed is None or value in allowed, f"{text} = {value!r}, outside its domain"
        assert not ordered or contains(known(facts), value), f"{text} = {value}, outside {known(facts)}"
    if everywhere:
        check_held(values, facts, text)


def check_held(values: list[Any], facts: Facts, text: str) -> None:
    """Values of rows that no filter has cut lie in the held interval."""
    if facts.type.kind not in (Kind.BOOLEAN, Kind.VARCHAR):
        outside = [v for v in values if v is not None and not contains(held(facts), v)]
        assert not outside, f"{text} = {outside[0]} before any filter, outside {held(facts)}"


def contains(interval: Interval, value: Any) -> bool:
    lo, hi = interval.lo, interval.hi
    if isinstance(value, float) and not math.isfinite(value):  # NaN is the greatest
        return (lo if value == -math.inf else hi) is None
    if isinstance(value, str):  # a date that Python has not
        return (lo if "BC" in value else hi) is None
    end = bound_of(value)
    return (lo is None or lo <= end) and (hi is None or end <= hi)  # type: ignore[operator]


def same(a: Any, b: Any) -> bool:
    """Exactly, or nearly where one is a float."""
    if a is None or b is None:
        return a is b
    if isinstance(a, float) or isinstance(b, float):
        a, b = float(a), float(b)
        return (math.isnan(a) and math.isnan(b)) or a == b or math.isclose(a, b, rel_tol=1e-12, abs_tol=1e-300)
    return bool(a == b)


def answers(engine: duckdb.DuckDBPyConnection, sql: str, where: str = "TRUE") -> list[Any]:
    return [row[0] for row in engine.execute(f"SELECT {sql} FROM t WHERE {where} ORDER BY rid").fetchall()]


def bound(text: str) -> exp.Expr:
    """An expression as the resolver hands it over: every column with its table."""
    tree = sqlglot.parse_one(f"SELECT {text}", dialect="duckdb").expressions[0]
    assert isinstance(tree, exp.Expr)
    for column in list(tree.find_all(exp.Column)):
        if not column.table:
            assert column.name in COLUMNS
            column.set("table", exp.to_identifier("t"))
    return tree
