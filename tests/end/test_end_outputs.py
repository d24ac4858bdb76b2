"""Where results go on the real product: into no file and no folder that dpsql reads or keeps."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import duckdb
import pytest

from dpsql.front.cli import main
from dpsql.ledger import default_path
from dpsql.ledger.file import chains
from tests.conftest import Clinic
from tests.end.conftest import ROOT, Run
from tests.patience import PATIENCE


@pytest.fixture
def files(clinic: Clinic, tmp_path: Path, command: Run) -> Clinic:
    """The clinic whose visits are a folder of files, and whose regions, which are public, are a file."""
    folder, regions = tmp_path / "visits", tmp_path / "regions.csv"
    folder.mkdir()
    with duckdb.connect(str(clinic.database)) as database:
        database.execute(f"COPY visits TO '{folder}/part.parquet'; COPY regions TO '{regions}'")
    text = clinic.policy.read_text()
    for name, source in (("visits", folder), ("regions", regions)):
        text = text.replace(f"[tables.{name}]", f'[tables.{name}]\nsource = "{source}"')
    clinic.policy.write_text(text)
    assert command("prepare", clinic.policy, clinic.database).returncode == 0
    return clinic


@pytest.mark.parametrize("asked", ["run", "repl", "parquet"])
def test_results_go_into_nothing_that_is_read_or_kept(files: Clinic, tmp_path: Path, command: Run, asked: str) -> None:
    assert command("run", "--policy", files.policy, "-c", "SELECT COUNT(*) FROM visits").returncode == 0
    (snapshot,) = (tmp_path / "home" / "cache" / "dpsql").glob("*/*/private.duckdb")
    (key,) = chains().glob("*.chain")
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "visits")
    there = [
        files.policy,
        files.database,
        tmp_path / "regions.csv",
        tmp_path / "visits" / "part.parquet",
        snapshot,
        key,
    ]
    new = [tmp_path / "visits" / "more.parquet", link / "more.parquet", snapshot.with_name("new"), chains() / "new"]
    before = {file: file.read_bytes() for file in there}
    for file in [*there, default_path(), *new]:
        if asked == "repl":
            done = command(files.policy, stdin=f"\\o {file}\nSELECT 1;\n")
        else:
            form = ("--format", "parquet") if asked == "parquet" else ()
            done = command("run", "--policy", files.policy, "-c", "SELECT 1", "-o", file, *form)
        assert done.returncode == (3 if asked == "repl" else 2), file
        assert "can't write " in done.stderr
        assert "dpsql works with" in done.stderr
    assert {file: file.read_bytes() for file in there} == before
    assert command("ledger", "verify").returncode == 0
    assert not any(file.exists() for file in new)
    assert not [file for file in (tmp_path / "visits").iterdir() if file.name != "part.parquet"]
    assert command("run", "--policy", files.policy, "-c", "SELECT 1", "-o", tmp_path / "out").returncode == 0


def test_what_prepare_could_not_do_is_told_to_the_owner(
    clinic: Clinic, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """And to nobody else: an analyst's `connect` may make the snapshot, too."""
    cache = tmp_path / "cache-that-is-a-file"
    cache.touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    arguments = [str(clinic.policy), str(clinic.database)]
    assert main(["prepare", *arguments]) == 2
    told = capsys.readouterr().err
    assert told.startswith(f"owner's log: snapshot of account clinic: {cache}/dpsql"), told
    assert "Not a directory\nerror[DP303]: the snapshot could not be made; the owner's log says more\n" in told
    assert main(["run", "--policy", arguments[0], "--database", arguments[1], "-c", "SELECT 1"]) == 2
    assert "owner's log: " not in capsys.readouterr().err


@pytest.mark.parametrize("stream", [0, 1, 2])
def test_a_closed_stream_is_no_fault(clinic: Clinic, tmp_path: Path, stream: int) -> None:
    """Of a daemon, say. Without an output nothing is charged; an input without lines is empty."""

    def asked(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "dpsql", *arguments]
        return subprocess.run(
            ["sh", "-c", f'exec "$@" {stream}{"<" if stream == 0 else ">"}&-', "sh", *command],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
            timeout=PATIENCE,
            check=False,
        )

    given = "run", "--policy", str(clinic.policy), "--database", str(clinic.database)
    done = asked(*given, "-c", "SELECT COUNT(*) FROM patients")
    assert done.returncode == (1 if stream == 1 else 0)
    assert done.stderr == ("dpsql: can't write the output: it is closed\n" if stream == 1 else "")
    assert default_path().exists() == (stream != 1)
    if stream == 0:
        for empty in (asked(*given, "-"), asked(str(clinic.policy), str(clinic.database))):
            assert (empty.returncode, empty.stdout, empty.stderr) == (0, "", "")
    if stream == 2:
        refused = asked(*given, "-c", "SELECT age FROM patients")
        assert (refused.returncode, refused.stdout) == (3, "")


def test_a_user_without_a_home_is_told_where_files_can_go(
    clinic: Clinic, monkeypatch: pytest.MonkeyPatch, command: Run, home: Path
) -> None:
    """As in a container whose user has no name."""
    monkeypatch.setattr("pwd.getpwuid", {}.__getitem__)
    for variable in ("HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(variable)
    given = "--policy", clinic.policy, "--database", clinic.database, "-c", "SELECT 1"
    for code, exit_code, variable in (("DP303", 2, "XDG_CACHE_HOME"), ("DP403", 4, "XDG_STATE_HOME")):
        for arguments in (("run", *given), (clinic.policy, clinic.database)):
            refused = command(*arguments)
            assert refused.returncode == exit_code
            assert refused.stderr.startswith(f"error[{code}]: this user has no home folder to keep a ")
            assert f"= help: set {variable} to a folder of yours" in refused.stderr
        monkeypatch.setenv(variable, str(home / "other"))
    assert command("run", *given).returncode == 0
    assert command(clinic.policy, clinic.database, stdin="SELECT 1;").returncode == 0
    shutil.rmtree(home / "other")


def test_a_home_that_nobody_knows_is_no_file(clinic: Clinic, command: Run) -> None:
    for arguments in (("prepare", clinic.policy), ("check", clinic.policy), ("init",)):
        refused = command(*arguments, "~nobody-of-this-name/x.duckdb")
        assert refused.returncode == 2
        assert refused.stderr.startswith("error[DP302]: ")
        assert "there is no such file" in refused.stderr
