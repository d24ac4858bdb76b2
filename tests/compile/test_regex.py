"""Regular expressions: what the grammar lets pass, RE2 takes; what it refuses is refused by name."""

from __future__ import annotations

import random

import duckdb
import pytest

from dpsql.compile.regex import BadPattern, groups_of, literally

_TOKENS = r"a b é 👨 0 _ - . ^ $ | * + ? ( ) [ ] { } \ / , : ! # ~ \n a-z A-Z ^a [:alpha:] [:^digit:] [:no:] (?: (?i)"
_TOKENS += r" (?= (?P<x> \d \D \w \W \s \S \b \B \A \z \Z \. \\ \( \] \- \é \q \p \pL \1 \x41 \t \r \Q {2} {2,} {2,3}"
_TOKENS += r" {3,2} {200} {201} {1000} {0} {0,1} *? ++ [ab] [^ab] [a-z0-9] [z-a] [] [^] [a-] [-a] [\d-z] [a\-z] (a|b)"
_TOKENS += " && &"
TOKENS = [*_TOKENS.split(), " ", "\n", "\t"]
TEXTS = ["", "a", "ab\nA_b-0", "é👨ab" * 5, "\\^$.|?*+()[]{}"]


def patterns(count: int) -> list[str]:
    rng = random.Random(5)
    return ["".join(rng.choices(TOKENS, k=rng.randint(1, 7))) for _ in range(count)]


def test_the_engine_takes_every_pattern_that_passes() -> None:
    """In each way of matching, with each option, with the optimizer and without; with the number of groups that were
    counted. Hundreds of the patterns pass, and more than a thousand do not."""
    engine = duckdb.connect()
    passed = refused = 0
    for pattern in patterns(5_000):
        try:
            groups = groups_of(pattern)
        except BadPattern:
            refused += 1
            continue
        passed += 1
        wanted = "'" + pattern.replace("'", "''") + "'"
        found = engine.execute(
            f"SELECT regexp_matches(s, {wanted}), regexp_full_match(s, {wanted}, 'i'), regexp_extract(s, {wanted}, 0), "
            f"regexp_replace(s, {wanted}, '\\{min(groups, 9)}', 'gs') FROM (SELECT unnest($1) AS s)",
            [TEXTS],
        ).fetchall()
        assert len(found) == len(TEXTS)
        if groups < 9:
            with pytest.raises(duckdb.Error):
                engine.execute(f"SELECT regexp_replace(s, {wanted}, '\\{groups + 1}') FROM (SELECT 'a' AS s)")
    assert passed > 700
    assert refused > 1_000


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("a" * 1_001, "characters"),
        ("(a{100}){10}", "steps"),
        ("(((a{9}){9}){9}){9}", "steps"),
        (".{201}", "repetitions"),
        ("a{3,2}", "order"),
        ("(" * 30 + ")" * 30, "nested"),
        ("a**", "repeated"),
        ("*a", "nothing to repeat"),
        ("^*", "nothing to repeat"),
        ("a)", "not opened"),
        ("(a", "not closed"),
        ("[a", "ends too early"),
        ("a\\", "ends too early"),
        ("[z-a]", "order"),
        ("[]a]", "empty"),
        ("(?=a)", "(?"),
        ("a(?i)b", "(?"),
        ("\\1", "\\1"),
        ("\\pL", "\\p"),
        ("{a", "nothing to repeat"),
        ("a{x", "{ begins no repetition"),
    ],
)
def test_what_is_refused(pattern: str, reason: str) -> None:
    with pytest.raises(BadPattern) as caught:
        groups_of(pattern)
    assert reason in str(caught.value)


def test_a_literal_pattern_matches_its_text_alone() -> None:
    engine = duckdb.connect()
    texts = ["".join(chr(n) for n in range(start, start + 16)) for start in range(1, 1_000, 16)]
    for text in texts:
        assert groups_of(literally(text)) == 0
        wanted = literally(text).replace("'", "''")
        [(count,)] = engine.execute(
            f"SELECT count(*) FROM (SELECT unnest($1) AS s) WHERE regexp_full_match(s, '{wanted}', 's')", [texts]
        ).fetchall()
        assert count == 1


def test_the_largest_patterns_are_quick() -> None:
    """Linear in the text: 200,000 characters in well under the time of 10^9 steps."""
    engine = duckdb.connect()
    for pattern in ("(?:a|b|ab){60}c", ".{0,100}x.{0,100}y", "(a?){99}(a*)b"):
        groups_of(pattern)
        engine.execute("SELECT regexp_matches(repeat($1, 50000), $2)", ["abaa", pattern]).fetchall()
