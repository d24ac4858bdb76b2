"""Under every strategy with slack limits, and with private keys that are plain to see, every answer is DuckDB's own.

The noise is taken out. The decision on private keys is left in, at an epsilon at which it asks for two units and no
more: plain DuckDB is asked for the groups of at least two patients.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from pathlib import Path

import duckdb
import pytest

from dpsql.compile.limits import STRATEGIES
from dpsql.errors import Error
from dpsql.privacy import selection
from dpsql.privacy.thresholds import laplace_threshold
from dpsql.session import Session, open_session
from dpsql.vault import noise
from tests.semantics.sides import Row, Sides, compare, rows_of, same_row, sorted_rows
from tests.semantics.test_against_duckdb import EMPTY, statements

FOLDER = Path(__file__).parent
SLACK = "max_groups_per_unit = 1000\nmax_rows_per_group = 1000\n"
KEYED = [(keys, sql) for keys, sql in statements() if keys != "-"]
OF_VISITS = """\
1| SELECT kind, COUNT(*) AS n, COUNT(fee) AS f FROM visits GROUP BY kind
1| SELECT kind, SUM(fee) AS s, SUM(minutes) AS m, SUM(minutes - 120) AS d FROM visits GROUP BY kind
1| SELECT kind, AVG(fee) AS a, AVG(minutes) AS m, COUNT(minutes) AS n FROM visits WHERE fee > 7 GROUP BY kind
1| SELECT kind, COUNT(DISTINCT uid) AS u, COUNT(DISTINCT uid) FILTER (WHERE fee > 50) AS v FROM visits GROUP BY kind
1| SELECT kind, COUNT(DISTINCT minutes), COUNT(DISTINCT fee) FILTER (WHERE minutes > 9) AS f FROM visits GROUP BY kind
1| SELECT kind, SUM(ROUND(fee)) AS s, AVG(ROUND(fee)) AS m FROM visits GROUP BY kind
1| SELECT kind, VAR_POP(fee) AS v, AVG(fee) AS a, STDDEV(minutes - 100) AS s, COUNT(fee) AS n FROM visits GROUP BY kind
1| SELECT kind, CORR(fee, minutes) AS r, REGR_INTERCEPT(fee, minutes), COVAR_POP(minutes, fee) FROM visits GROUP BY 1
2| SELECT kind, EXTRACT(quarter FROM seen) AS q, COUNT(*) AS n, SUM(fee) AS f FROM visits GROUP BY kind, q
1| SELECT minutes // 60 AS h, SUM(LEAST(fee, 20)) AS f, AVG(fee) AS a FROM visits GROUP BY h ORDER BY h
1| SELECT p.sex, COUNT(*) AS n, AVG(v.fee) AS f FROM visits v JOIN patients p USING (uid) GROUP BY p.sex
1| SELECT r.country, SUM(v.fee) AS f FROM visits v JOIN patients p USING (uid) JOIN regions r USING (region) GROUP BY 1
1| SELECT k, COUNT(*) AS n FROM (SELECT kind AS k, fee AS f FROM visits WHERE fee > 9) t WHERE f < 90 GROUP BY k
1| SELECT k, AVG(m) AS a FROM (SELECT v.kind AS k, p.age AS m FROM visits v JOIN patients p USING (uid)) t GROUP BY k
1| SELECT drug, COUNT(*) AS n, AVG(dose) AS d FROM treatments WHERE dose BETWEEN 100 AND 900 GROUP BY drug
1| SELECT dose > 500 AS high, COUNT(*) AS n, SUM(dose) AS s FROM treatments GROUP BY high
1| SELECT d.class, AVG(t.dose * 2) AS a, COUNT(*) AS n FROM treatments t JOIN drugs d USING (drug) GROUP BY d.class
-| SELECT COUNT(*), COUNT(fee), SUM(fee), AVG(minutes), COUNT(DISTINCT uid) FROM visits
-| SELECT COUNT(*) FILTER (WHERE fee > 30) AS n, AVG(fee) FILTER (WHERE minutes > 100) AS f FROM visits
-| SELECT SUM(d) AS s, COUNT(*) AS n FROM (SELECT dose * 2 AS d FROM treatments WHERE dose > 10) t WHERE d < 1500
"""
VISITED = [(line[0], line[2:].strip()) for line in OF_VISITS.splitlines()]


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[bool], Sides]]:
    """The hospital with limits that nobody reaches; with a delta, or without."""
    home = tmp_path_factory.mktemp("strategies")
    script = (FOLDER / "hospital.sql").read_text(encoding="utf-8")
    database = home / "hospital.duckdb"
    with duckdb.connect(str(database)) as connection:
        connection.execute(script)
    text = (FOLDER / "hospital.toml").read_text(encoding="utf-8")
    for line in ("max_rows_per_unit = 100\n", "max_rows_per_unit = 1000\n"):
        assert line in text
        text = text.replace(line, line + SLACK)
    (home / "public.toml").write_text(text, encoding="utf-8")
    delta = 'delta = "0.9"\nper_query_delta = "0.001"'
    private = text.replace('delta = "0"', delta).replace('"hospital"', '"clinic"')
    (home / "private.toml").write_text(private, encoding="utf-8")
    plain = duckdb.connect(":memory:")
    plain.execute("SET TimeZone = 'UTC'")
    plain.execute(script)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(home / "cache"))
        patch.setattr(noise, "_add", lambda exact, _: exact.astype(object))
        patch.setattr(noise, "threshold", lambda _, __, *rest: laplace_threshold(Fraction(10**6), *rest))
        patch.setattr(noise, "conditioned", lambda _, *rest: selection.conditioned(Fraction(10**6), *rest))
        opened: dict[bool, Session] = {
            with_delta: open_session(
                home / ("private.toml" if with_delta else "public.toml"), database, ledger=home / f"{with_delta}.sqlite"
            )
            for with_delta in (False, True)
        }
        yield lambda with_delta: Sides(plain, opened[with_delta], EMPTY)
        for session in opened.values():
            session.close()
    plain.close()


def strategies_of(session: Session, sql: str) -> set[str]:
    return {r.limits.strategy for r in session.compile(sql).plan.releases}


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_strategy_with_slack_limits_loses_nothing(strategy: str, sides: Callable[[bool], Sides]) -> None:
    """Each statement of `statements.txt` under two of the six here, and under all in the long test."""
    loses_nothing(strategy, KEYED[STRATEGIES.index(strategy) % 3 :: 3] + VISITED, sides(False))


@pytest.mark.audit
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_strategy_with_slack_limits_loses_nothing_of_all(strategy: str, sides: Callable[[bool], Sides]) -> None:
    loses_nothing(strategy, KEYED + VISITED, sides(False))


def loses_nothing(strategy: str, asked: Sequence[tuple[str, str]], both: Sides) -> None:
    used = 0
    both.session.execute(f"SET strategy = '{strategy}'")
    for keys, sql in asked:
        if keys == "-" and "cells" in strategy:  # there are none without GROUP BY
            with pytest.raises(Error, match="DP223"):
                both.session.execute(sql)
        elif strategy == "rescale" and re.search(r"COUNT\(DISTINCT (?!(\w\.)?uid\)).* FROM visits", sql):
            with pytest.raises(Error, match="DP223: scaling does not bound"):
                both.session.execute(sql)
        else:
            compare(both, keys, sql)
            used += strategies_of(both.session, sql) == {strategy}
    both.session.execute("RESET strategy")
    assert used >= 20


def test_there_are_enough_statements() -> None:
    assert len(KEYED) >= 50


# {} stands for the groups of at least two patients, which plain DuckDB is asked for.
PRIVATE = [
    "SELECT p.name, COUNT(*) AS n FROM patients p GROUP BY p.name {}",
    "SELECT LEFT(p.name, 1) AS initial, COUNT(*) AS n, AVG(age) AS a FROM patients p GROUP BY initial {}",
    "SELECT LEFT(p.name, 2) AS initials, COUNT(DISTINCT p.uid) AS u, SUM(cost) AS c FROM patients p GROUP BY 1 {}",
    "SELECT p.weight AS w, COUNT(*) AS n FROM patients p GROUP BY w {}",
    "SELECT p.cost * 2 AS c, COUNT(*) AS n FROM patients p GROUP BY c {}",
    "SELECT p.cost * -1 AS c, COUNT(p.age) AS n FROM patients p WHERE p.cost < 3 GROUP BY c {}",
    "SELECT NULLIF(LEFT(p.name, 1), 'B') AS i, COUNT(*) AS n, COUNT(DISTINCT p.uid) AS u FROM patients p GROUP BY i {}",
    "SELECT NULLIF(LEFT(p.name, 1), 'B') AS i, SUM(p.age) AS s FROM patients p GROUP BY i {}",
    # with keys that are public, and rows of others
    "SELECT LEFT(p.name, 1) AS i, p.sex, COUNT(*) AS n FROM patients p GROUP BY i, p.sex {}",
    "SELECT p.region, LEFT(p.name, 1) AS i, COUNT(DISTINCT p.uid) AS u, AVG(cost) AS c FROM patients p GROUP BY ALL {}",
    "SELECT LENGTH(p.name) AS l, p.smoker, COUNT(*) AS n FROM patients p GROUP BY l, p.smoker {}",
    "SELECT LEFT(p.name, 1) AS i, v.kind, COUNT(*) FROM visits v JOIN patients p USING (uid) GROUP BY i, v.kind {}",
    # in grouping sets: every group of two patients, and the set without keys
    "SELECT p.weight AS w, GROUPING(p.weight) AS g, COUNT(*) AS n FROM patients p GROUP BY ROLLUP (w) {}",
    "SELECT LEFT(p.name, 1) AS i, p.sex, COUNT(*) AS n, GROUPING(LEFT(p.name, 1), p.sex) FROM patients p"
    " GROUP BY CUBE (i, p.sex) {}",
    # over units of several rows
    "SELECT v.visit_id // 50 AS d, COUNT(*), SUM(fee) AS f FROM visits v JOIN patients p USING (uid) GROUP BY d {}",
    "SELECT LEFT(p.name, 1) AS i, COUNT(*), AVG(v.fee) AS f FROM visits v JOIN patients p USING (uid) GROUP BY i {}",
    "SELECT v.stamp AS t, COUNT(*) AS n FROM visits v JOIN patients p USING (uid) GROUP BY t {}",
    "SELECT t.i AS j, COUNT(*) AS n FROM (SELECT LEFT(name, 1) AS i, uid FROM patients) t GROUP BY j {}",
    # which groups there are
    "SELECT LEFT(p.name, 1) AS i FROM patients p GROUP BY i {}",
    "SELECT p.region FROM patients p GROUP BY p.region {}",
    "SELECT p.region, p.sex FROM patients p GROUP BY ALL {}",
    "SELECT p.name FROM patients p WHERE p.age > 80 GROUP BY p.name {}",
    # and what is made of them
    "SELECT LEFT(p.name, 1) AS i, COUNT(*) AS n FROM patients p GROUP BY i {} ORDER BY n DESC, i LIMIT 5",
]
DISTINCT = [
    "SELECT DISTINCT region FROM patients",
    "SELECT DISTINCT region, sex FROM patients WHERE sex IS NOT NULL ORDER BY region, sex",
    "SELECT DISTINCT kind FROM visits WHERE fee > 50",
    "SELECT DISTINCT EXTRACT(month FROM seen) AS m FROM visits ORDER BY m",
    "SELECT DISTINCT smoker FROM patients",
    "SELECT DISTINCT LEFT(name, 1) AS i FROM patients ORDER BY i DESC",
    "SELECT COUNT(*) AS n FROM (SELECT DISTINCT region FROM patients) t",
]


@pytest.mark.parametrize("sql", PRIVATE)
def test_private_keys_are_those_of_two_units(sql: str, sides: Callable[[bool], Sides]) -> None:
    both = sides(True)
    for strategy in ("rows", "late", "cells", "late then cells", "rescale"):
        both.session.execute(f"SET strategy = '{strategy}'")
        units = "uid" if "(SELECT" in sql else "p.uid"
        theirs = both.plain.execute(sql.format(f"HAVING COUNT(DISTINCT {units}) > 1")).fetchall()
        ours = rows_of(both.session.execute(sql.format("")))
        order = list if "ORDER BY" in sql else sorted_rows
        assert same_rows(order(ours), order(theirs)), f"{strategy}: {ours} instead of {theirs}"
    both.session.execute("RESET strategy")


def same_rows(ours: list[Row], theirs: list[Row]) -> bool:
    """A private key is equal as it is; aggregates as `same_cell` has it, which tells NULL and nothing alike."""
    return len(ours) == len(theirs) and all(same_row(a, b, 1, EMPTY) for a, b in zip(ours, theirs, strict=True))


@pytest.mark.parametrize("sql", DISTINCT)
def test_distinct_rows_are_private_keys(sql: str, sides: Callable[[bool], Sides]) -> None:
    both = sides(True)
    compare(both, "-", sql)
    with pytest.raises(Error, match="DP205"):
        sides(False).session.execute(sql)


def test_having_and_windows_over_private_keys(sides: Callable[[bool], Sides]) -> None:
    for sql in (
        "SELECT LEFT(name, 1) AS i, COUNT(*) AS n FROM patients GROUP BY i HAVING n > 4 ORDER BY i",
        "SELECT name, COUNT(DISTINCT uid) AS n FROM patients GROUP BY name HAVING n > 1",
        "SELECT LEFT(name, 1) AS i, COUNT(*) AS n, RANK() OVER (ORDER BY COUNT(*) DESC) AS p FROM patients GROUP BY i"
        " HAVING COUNT(*) > 1",
    ):
        compare(sides(True), "-", sql)
