"""Nothing of a private row becomes text: no output, error, log, repr, ledger or file holds any, but the snapshot.

Canaries, words and numbers that stand nowhere else, are planted in rows of every kind. Statements of all kinds run,
good, refused and failing ones, with all logging on, and everything that was written is searched.
"""

from __future__ import annotations

import gc
import logging
import os
import traceback
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

import dpsql
from dpsql.front.cli import main
from dpsql.ledger import default_path
from dpsql.vault.engine import EngineFailure
from tests.conftest import Clinic
from tests.end.conftest import Run

WORDS = ("Xanthippe", "Quetzalcoatl", "Zugzwang")
NUMBERS = ("918273645546372", "77.135792468013", "48619273.31", "2031-07-19", "1726153498")
"""Of ten digits and more: shorter ones stand in some noisy answer, or in a digest, once in 100,000 runs."""
CANARIES = WORDS + NUMBERS

PLANTED = """\
INSERT INTO patients VALUES
    (918273645546372, 'Xanthippe', 61, 'Zugzwang', 77.135792468013, '2031-07-19'),
    (918273645546372, 'Quetzalcoatl', 1726153498, 'R2', 77.135792468013, '2031-07-19');
INSERT INTO visits VALUES (1726153498, 918273645546372, 'Xanthippe', 48619273.31, '2031-07-19 01:02:03'),
    (1726153498, 17, 'Quetzalcoatl', 48619273.31, '2031-07-19 01:02:03');
"""

STATEMENTS = [
    "SELECT COUNT(*), SUM(age), AVG(age), COUNT(DISTINCT uid) FROM patients",
    "SELECT region, COUNT(*) AS n, AVG(cost) AS a FROM patients GROUP BY region ORDER BY n",
    "SELECT SUM(fee), AVG(fee), COUNT(fee) FROM visits",
    "SELECT COUNT(*) FROM patients WHERE cost > 77.1",
    "SELECT COUNT(*) FROM patients JOIN regions USING (region) WHERE label <> 'Region 1'",
    "SELECT COUNT(*) FROM patients WHERE TRY_CAST(name AS INTEGER) = 1",
    "SELECT COUNT(*) FROM patients WHERE CAST(name AS INTEGER) = 1",
    "SELECT SUM(1 / (age - 61)) FROM patients",
    "SELECT SUM(age % (age - 61)) FROM patients",
    "SELECT COUNT(*) FROM patients WHERE age // (age - 61) = 1",
    "SELECT COUNT(*) FROM patients WHERE EXTRACT(YEAR FROM seen) = 2031",
    "SELECT COUNT(*) FROM patients WHERE upper(name) LIKE 'XAN%'",
    "SELECT COUNT(*) FROM patients WHERE error(name) IS NULL",
    "SELECT name FROM patients",
    "SELECT MAX(name), MIN(cost), ANY_VALUE(seen) FROM patients",
    "SELECT name, COUNT(*) FROM patients GROUP BY name",
    "SELECT (SELECT MAX(name) FROM patients) FROM regions",
    "SELECT region, COUNT(*) FROM patients GROUP BY region HAVING MAX(name) > 'a'",
    "SELECT COUNT(*) FROM patients WHERE name > 3",
    "SELECT * FROM patients LIMIT 1",
    "SUMMARIZE patients",
    "EXPLAIN SELECT region, SUM(cost) FROM patients GROUP BY region",
    "DESCRIBE patients",
    "SHOW TABLES",
    "SHOW BUDGET",
    "SHOW SETTINGS",
]


def searched(where: str, text: str) -> None:
    for canary in CANARIES:
        assert canary not in text, f"{canary} in {where}"


def told(error: BaseException) -> Iterator[str]:
    """All that the exception and those behind it can say, locals of their frames left out as in any traceback."""
    seen: set[int] = set()
    waiting: list[BaseException | None] = [error]
    while waiting:
        one = waiting.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        yield f"{one} {one!r} {one.args} {getattr(one, '__notes__', '')} {getattr(one, '__dict__', '')}"
        yield "".join(traceback.format_exception(one))
        waiting += [one.__cause__, one.__context__]


@pytest.fixture
def planted(clinic: Clinic) -> Clinic:
    with duckdb.connect(str(clinic.database)) as database:
        database.execute(PLANTED)
    return clinic


@pytest.fixture
def everything_logged(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    caplog.set_level(logging.DEBUG)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        yield caplog


def files_searched(*folders: Path, but: tuple[Path, ...]) -> int:
    count = 0
    for folder in folders:
        for path in folder.rglob("*"):
            if path.is_file() and not any(path.is_relative_to(b) for b in but):
                searched(str(path), path.read_bytes().decode("latin-1"))
                count += 1
    return count


def test_no_canary_in_any_text(
    planted: Clinic,
    home: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    everything_logged: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    connection = dpsql.connect(planted.policy, planted.database)
    session = connection._session
    answers = refusals = 0

    def ask(sql: str) -> None:
        nonlocal answers, refusals
        for call in (connection.execute, connection.explain):
            try:
                result: Any = call(sql)
            except dpsql.Error as error:
                refusals += 1
                for text in told(error):
                    searched(sql, text)
            else:
                answers += 1
                searched(sql, f"{result!r} {result if isinstance(result, str) else ''}")
                if isinstance(result, dpsql.Cursor):
                    searched(sql, f"{result.receipt!r} {result.description!r} {result._repr_html_()}")
                    searched(sql, f"{result.half_widths!r} {result.to_arrow().schema} {result._answer!r}")

    for sql in STATEMENTS:
        ask(sql)
    assert answers >= 15
    assert refusals >= 15

    # An engine that fails with a row's value in its words, as real ones do.
    def fail(*_: object) -> Any:
        try:
            raise duckdb.ConversionException("Could not convert string 'Xanthippe' to INT32")
        except duckdb.Error as error:
            raise EngineFailure(f"{error} 918273645546372") from None

    with monkeypatch.context() as patch:
        patch.setattr(session._engines.private, "run", fail)
        with pytest.raises(dpsql.OperationalError) as caught:
            connection.execute("SELECT COUNT(*) FROM patients WHERE age > 11")
        for text in told(caught.value):
            searched("a failure", text)

    # Something that nobody foresaw.
    with monkeypatch.context() as patch:
        patch.setattr(session._engines.private, "run", lambda *_: [][918273645546372:][0])
        with pytest.raises(dpsql.InternalError) as fault:
            connection.execute("SELECT COUNT(*) FROM patients WHERE age > 12")
        for text in told(fault.value):
            searched("a fault", text)

    for thing in (connection, session, session.policy, session.settings, session.snapshot, session._engines,
                  session._ledger, session.budget(), session.vocabulary()):  # fmt: skip
        searched(type(thing).__name__, f"{thing!r} {thing}")
    public = [x for x in gc.get_objects() if str(type(x).__module__).startswith("dpsql.")]
    assert len(public) > 100
    for thing in public:
        searched(type(thing).__name__, repr(thing))

    for record in everything_logged.records:
        searched("the log", record.getMessage())
    printed = capfd.readouterr()
    searched("stdout", printed.out)
    searched("stderr", printed.err)
    connection.close()
    searched("the ledger", default_path().read_bytes().decode("latin-1"))
    cache = home / "cache" / "dpsql"
    snapshots = tuple(path for path in cache.glob("*/*") if path.is_dir())
    assert len(snapshots) == 1
    assert any(WORDS[0].encode() in path.read_bytes() for path in snapshots[0].iterdir())  # the search can find
    assert files_searched(tmp_path, Path.cwd() / "build" / "nothing", but=(*snapshots, planted.database)) >= 3
    for name in ("facts.json", "report.json"):
        searched(name, (snapshots[0] / name).read_text())
    assert not os.path.exists(f"{planted.database}.wal")


def test_no_canary_from_the_command_line(
    planted: Clinic, tmp_path: Path, process: Run, capfd: pytest.CaptureFixture[str]
) -> None:
    script = tmp_path / "all.sql"
    script.write_text(";\n".join(STATEMENTS))
    made = process("prepare", planted.policy, planted.database)
    searched("the owner's report", made.stdout + made.stderr)
    for form in ("table", "csv", "json", "jsonl", "markdown"):
        arguments = ["run", "--echo", "--keep-going", "--format", form, "--policy", str(planted.policy), str(script)]
        assert main(arguments) == 3
        printed = capfd.readouterr()
        assert len(printed.out) > 1000
        searched(form, printed.out + printed.err)


def test_a_failing_prepare_tells_the_analyst_nothing(
    planted: Clinic, everything_logged: pytest.LogCaptureFixture
) -> None:
    """A view that cannot be computed: the engine's words quote the row that it stumbled over."""
    with duckdb.connect(str(planted.database)) as database:
        database.execute("ALTER TABLE patients RENAME TO people")
        database.execute("CREATE VIEW patients AS SELECT * REPLACE (CAST(name AS INTEGER) AS age) FROM people")
    with pytest.raises(dpsql.PolicyError) as caught:
        dpsql.connect(planted.policy, planted.database)
    reason, repair = str(caught.value).splitlines()
    assert reason == "DP303: the snapshot could not be made; the owner's log says more"
    assert repair == "  = help: for the owner: `dpsql prepare` shows that log"
    for text in told(caught.value):
        searched("the error", text)
    for record in everything_logged.records:
        searched("the log", f"{record.getMessage()} {record.exc_info}")
