"""Canaries planted in the data stand in nothing that the product writes, outside of the snapshot: no file, no stream,
at any log level, and no traceback, not even one that shows the locals of its frames.

A process of its own runs every command that says or keeps anything, with all loggers writing into a file, Python's
development mode on, and an engine that fails with a row's value in its words.
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import traceback
from pathlib import Path
from typing import Any

import duckdb
import pytest

import dpsql
from dpsql.ledger import default_path
from dpsql.vault.engine import EngineFailure
from tests.conftest import ROOT, Clinic
from tests.end.test_end_leaks import CANARIES, PLANTED, STATEMENTS, WORDS, files_searched, searched
from tests.patience import PATIENCE

LEVELS = (
    "DEBUG",
    *(pytest.param(level, marks=pytest.mark.audit) for level in ("INFO", "WARNING", "ERROR", "CRITICAL")),
)

EVERYTHING = """
import logging, sys, warnings
logging.basicConfig(level=sys.argv[5], filename=sys.argv[4], force=True)
logging.captureWarnings(True)
warnings.simplefilter("always")
policy, database, script = sys.argv[1:4]
from dpsql.front.cli import main
import dpsql
from dpsql.vault.duckdb import DuckDBEngine
from dpsql.vault.engine import EngineFailure

given = ["--policy", policy, "--database", database]
for command in (
    ["check", policy, database],
    ["run", "--echo", "--keep-going", *given, script],
    ["explain", *given, "-c", "SELECT region, SUM(cost) FROM patients GROUP BY region"],
    ["budget", policy],
    ["budget", policy, "--json"],
    ["budget", "what-if", *given, "-c", "SELECT COUNT(*) FROM patients WHERE cost > 77.1; SELECT COUNT(*) FROM visits"],
    ["ledger", "verify"],
    ["ledger", "export", "--jsonl"],
    ["prepare", policy, database],
):
    print(command[0], main(command), flush=True)

run = DuckDBEngine.run
def fail(self, sql, tables=None):
    if "$rank" in sql:
        raise EngineFailure("Could not convert string 'Xanthippe' to INT32")
    return run(self, sql, tables)
DuckDBEngine.run = fail
for n in range(4):
    print("failing", main(["run", *given, "-c", f"SELECT COUNT(*) FROM patients WHERE age <> {n}"]), flush=True)
print("reopen", main(["budget", "reopen", policy]), flush=True)
DuckDBEngine.run = run

connection = dpsql.connect(policy, database)
try:
    connection.execute("SELECT COUNT(*) FROM patients WHERE error(name) IS NULL")
except dpsql.Error:
    logging.exception("refused")
connection._session._engines.private.run = lambda *_: [][918273645546372:][0]
connection.execute("SELECT COUNT(*) FROM patients WHERE age <> 99")  # ends in a traceback that nobody catches
"""


@pytest.fixture
def planted(clinic: Clinic) -> Clinic:
    with duckdb.connect(str(clinic.database)) as database:
        database.execute(PLANTED)
    return clinic


@pytest.mark.parametrize("level", LEVELS)
def test_no_file_and_no_stream_holds_a_canary(planted: Clinic, home: Path, tmp_path: Path, level: str) -> None:
    script, log = tmp_path / "all.sql", tmp_path / "all.log"
    script.write_text(";\n".join(STATEMENTS))
    before = {path for path in tmp_path.rglob("*") if path.is_file()}
    done = subprocess.run(
        [sys.executable, "-X", "dev", "-c", EVERYTHING, planted.policy, planted.database, script, log, level],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path)},
        timeout=PATIENCE,
        check=False,
    )
    said = [line for line in done.stdout.splitlines() if line.split(" ")[-1].isdigit()]
    for word, code in (("check", 0), ("run", 3), ("explain", 0), ("budget", 0), ("ledger", 0), ("prepare", 0)):
        assert f"{word} {code}" in said, done.stderr
    assert said.count("failing 1") == 3  # and then the account is frozen
    assert "failing 4" in said
    assert done.returncode == 1
    assert "Traceback (most recent call last)" in done.stderr
    assert "DP901" in done.stderr
    searched("stdout", done.stdout)
    # The source line of this test's own fault stands in no file, so no traceback can quote it.
    searched("stderr", done.stderr)
    snapshots = tuple(path for path in (home / "cache" / "dpsql").glob("*/[!.]*") if path.is_dir())
    assert len(snapshots) == 1
    assert any(WORDS[0].encode() in path.read_bytes() for path in snapshots[0].iterdir()), "the search can find"
    written = {path for path in tmp_path.rglob("*") if path.is_file()} - before
    assert {path.suffix for path in written} >= {".sqlite", ".chain", ".place", ".log"}
    assert files_searched(tmp_path, but=(*snapshots, planted.database)) >= 6
    assert (log.stat().st_size > 0) == (level != "CRITICAL"), "errors are logged, and nothing is worse than they are"


def with_locals(error: BaseException) -> str:
    """The traceback of the error and of those behind it, with the locals of every frame of ours."""
    return "".join(traceback.TracebackException.from_exception(error, capture_locals=True, compact=False).format())


def test_no_traceback_holds_a_canary_even_with_locals(
    planted: Clinic, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    connection = dpsql.connect(planted.policy, planted.database)

    def fail(*_: object) -> Any:
        raise EngineFailure(f"Could not convert string '{WORDS[0]}' to INT32")

    errors: list[BaseException] = []

    def ask(sql: str) -> None:
        try:
            connection.execute(sql)
        except dpsql.Error as error:
            errors.append(error)

    for sql in STATEMENTS:
        ask(sql)
    with monkeypatch.context() as patch:
        patch.setattr(connection._session._engines.private, "run", fail)
        ask("SELECT COUNT(*) FROM patients WHERE age <> 5")
    with monkeypatch.context() as patch:  # the ledger fails after the engine has answered
        patch.setattr("dpsql.ledger.accounts.digest_of", fail)
        ask("SELECT COUNT(*), SUM(cost) FROM patients WHERE age <> 6")
    default_path().chmod(0o600)
    with monkeypatch.context() as patch:
        patch.setattr("dpsql.ledger.file.LedgerFile._connect", lambda self: (_ for _ in ()).throw(self.refused("is")))
        ask("SELECT COUNT(*) FROM patients WHERE age <> 7")
    assert {error.code for error in errors if isinstance(error, dpsql.Error)} >= {"DP201", "DP403", "DP501", "DP901"}
    for error in errors:
        text = with_locals(error)
        assert "Traceback" in text
        searched(str(error)[:5], text)
    assert len(CANARIES) == 8
    connection.close()
