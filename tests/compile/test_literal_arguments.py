"""Literals that functions over private rows take: whatever they hold, it stays a literal on its way to the engine."""

from __future__ import annotations

import pytest
from sqlglot import exp

from dpsql.compile.canonical import reread
from dpsql.compile.gate import seal
from dpsql.compile.parse import parse
from dpsql.compile.scalars import lower_scalar
from dpsql.compile.scan import tokenize
from dpsql.errors import Error
from dpsql.vault import second_parser
from tests.compile.test_gate import PAYLOADS, quoted
from tests.compile.test_scalars import SCOPE

CALLS = [
    "s LIKE {}",
    "s NOT ILIKE {}",
    "s LIKE {} ESCAPE '!'",
    "s LIKE 'a!%' ESCAPE {}",
    "s SIMILAR TO {}",
    "s ~ {}",
    "s ^@ {}",
    "regexp_matches(s, {})",
    "regexp_matches(s, 'a', {})",
    "regexp_full_match(s, {}, 'i')",
    "regexp_extract(s, {})",
    "regexp_extract(s, 'a', {})",
    "regexp_extract(s, 'a', 0, {})",
    "regexp_replace(s, {}, 'b')",
    "regexp_replace(s, 'a', {})",
    "regexp_replace(s, 'a', 'b', {})",
    "contains(s, {})",
    "strpos(s, {})",
    "replace(s, {}, 'a')",
    "replace(s, 'a', {})",
    "translate(s, {}, 'a')",
    "translate(s, 'a', {})",
    "split_part(s, {}, 1)",
    "split_part(s, ',', {})",
    "concat_ws({}, s, s)",
    "lpad(s, 5, {})",
    "rpad(s, {}, ' ')",
    "repeat(s, {})",
    "trim(s, {})",
    "substring(s, {})",
    "chr({})",
    "strftime(d, {})",
    "strftime({}, d)",
    "strptime(s, {})",
    "try_strptime(s, {})",
    "date_part({}, d)",
    "EXTRACT({} FROM d)",
    "EXTRACT({} FROM age(d, d))",
    "date_trunc({}, d)",
    "date_diff({}, d, d)",
    "date_sub({}, d, d)",
    "datesub({}, d, d)",
    "time_bucket(INTERVAL {}, d)",
    "time_bucket({}, d)",
    "time_bucket(INTERVAL 1 DAY, d, {})",
    "last_day(d, {})",
    "d + INTERVAL {}",
    "d + INTERVAL {} DAY",
    "d + INTERVAL ({}) DAY",
    "d + to_days({})",
    "make_date({}, 1, 1)",
    "epoch_ms({})",
    "round(x, {})",
    "trunc(x, {})",
    "log({}, x)",
    "k << {}",
    "x ^ {}",
    "CAST(s AS {})",
    "s::{}",
]
"""Every place of a literal; tests/compile/test_gate.py has those that public SQL can reach."""


def sealed(text: str) -> str | None:
    """An expression on the way of private ones: parsed, bound, lowered, sealed, seen by both parsers; None: refused."""
    try:
        tree = parse(f"SELECT {text} AS v FROM t").tree.expressions[0].this
        for column in list(tree.find_all(exp.Column)):
            column.set("table", exp.to_identifier("t"))
        scalar = lower_scalar(tree, SCOPE)
    except Error as error:
        assert error.code != "DP901"  # noqa: PT017
        return None
    select = exp.select(exp.alias_(scalar.tree, "v")).from_(exp.table_("t", db="priv", quoted=True))
    made = seal(select, frozenset({"priv.t"}))
    second_parser.check(made.text, made.tables, made.functions)
    return made.text


@pytest.mark.parametrize("call", CALLS)
def test_no_literal_becomes_sql(call: str) -> None:
    for payload in [*PAYLOADS, "a'b", "\\", "$$", "%", "[", "(?i)x", "1 DAY"]:
        for literal in quoted(payload):
            text = sealed(call.format(literal))
            if text is not None:
                assert not reread(text).find(exp.Subquery)
                assert not {"patients", "MAX"} & {t.text for t in tokenize(text) if t.token_type.name == "VAR"}


def test_the_calls_are_answered_with_sound_literals() -> None:
    """The table above is of calls that exist: most are answered when their literal is a sound one."""
    sound = [
        "'a'",
        "0",
        "'e'",
        "'day'",
        "'%Y'",
        "'1 day'",
        "'i'",
        "1",
        "2",
        "2020",
        "'1'",
        "k",
        "DATE",
        "INTERVAL 1 DAY",
    ]
    unanswered = [call for call in CALLS if not any(sealed(call.format(literal)) for literal in sound)]
    assert unanswered == ["time_bucket(INTERVAL 1 DAY, d, {})", "last_day(d, {})"]
