"""`dpsql run`: priced before it runs, typed parameters, whole files, figures on stderr."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow.parquet as parquet
import pytest

from dpsql.front import outfiles, runs
from dpsql.front.diagnostics import Usage
from dpsql.front.variables import typed, variables
from tests.front import fake_session
from tests.front.test_cli import QUERY, RUN, TABLE, main

Caught = pytest.CaptureFixture[str]

# ------------------------------------------------------------------------------------------------------ parameters


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("42", 42),
        ("-7", -7),
        ("0", 0),
        ("0.50", Decimal("0.50")),
        ("-.5", Decimal("-0.5")),
        ("1e-3", 0.001),
        ("TRUE", True),
        ("false", False),
        ("null", None),
        ("2024-02-29", date(2024, 2, 29)),
        ("2024-02-29 12:30", datetime(2024, 2, 29, 12, 30)),
        ("2024-02-29T12:30:01.5", datetime(2024, 2, 29, 12, 30, 1, 500_000)),
        ("GROCERY", "GROCERY"),
        ("", ""),
        ("'42'", "42"),
        ("'it''s'", "it's"),
        ("'null'", "null"),
        # text, for none of these is what it looks like
        ("0042", "0042"),
        ("1.", "1."),
        ("2023-02-29", "2023-02-29"),
        ("'a'b'", "'a'b'"),
        ("1' OR '1'='1", "1' OR '1'='1"),
        ("nan", "nan"),
        ("٤٢", "٤٢"),
    ],
)
def test_a_value_is_read_by_its_shape(text: str, value: Any) -> None:
    found = typed(text)
    assert (found, type(found), str(found)) == (value, type(value), str(value))


@pytest.mark.parametrize("given", [["x"], ["=1"], ["a b=1"], ["1=1"], ["a=1", "$a=2"]])
def test_what_is_no_parameter_is_told(given: list[str]) -> None:
    with pytest.raises(Usage):
        variables(given)


def test_each_statement_gets_the_parameters_that_it_names(fake: object, capfd: Caught) -> None:
    sessions: list[fake_session.Session] = []
    made = fake_session.open_session

    def kept(*arguments: Any, **options: Any) -> fake_session.Session:
        sessions.append(made(*arguments, **options))
        return sessions[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fake_session, "open_session", kept)
        script = f"{QUERY} WHERE a = $a; {QUERY} WHERE b = $b AND a = $a; {QUERY}"
        assert main(capfd, *RUN, "-v", "a=1", "-v", "$b=x", "-c", script)[0] == 0
    assert [parameters for _, parameters in sessions[0].executed] == [{"a": 1}, {"a": 1, "b": "x"}, None]


def test_a_parameter_that_no_statement_has_runs_nothing(fake: object, capfd: Caught) -> None:
    code, out, err = main(capfd, *RUN, "-v", "day=1", "-c", QUERY)
    assert (code, out, err) == (2, "", "dpsql: -v day: no statement has a parameter $day\n")


# ------------------------------------------------------------------------------------------------ priced beforehand


def many(count: int) -> str:
    return "; ".join(f"{QUERY} WHERE n = {n}" for n in range(count))


def test_what_cannot_be_paid_is_refused_whole(fake: object, capfd: Caught) -> None:
    assert main(capfd, *RUN, "-c", many(12))[0] == 0
    code, out, err = main(capfd, *RUN, "-c", many(13))
    assert (code, out) == (4, "")
    assert err == (
        "error[DP401]: the script costs ε 3.25, and left are 3 of ε\n"
        "  = help: nothing was run or charged; --keep-going answers what can be paid, --dry-run shows each price\n"
    )
    code, out, _ = main(capfd, *RUN, "--keep-going", "-c", many(13))
    assert (code, out.count("GROCERY")) == (4, 12)


def test_what_costs_more_than_the_caller_allows_is_refused_whole(fake: object, capfd: Caught) -> None:
    assert main(capfd, *RUN, "--max-cost", "0.5", "-c", many(2))[0] == 0
    for keep_going in ([], ["--keep-going"]):
        code, out, err = main(capfd, *RUN, "--max-cost", "0.49", *keep_going, "-c", many(2))
        assert (code, out) == (4, "")
        assert err.startswith("error[DP402]: the script costs ε = 0.5, and --max-cost allows 0.49\n")
    assert main(capfd, *RUN, "--max-cost", "0", "-c", "SELECT public")[0] == 0
    assert main(capfd, *RUN, "--max-cost", "0", "-c", QUERY)[0] == 4
    assert main(capfd, *RUN, "--max-cost", "-1", "-c", QUERY)[0] == 2


def test_a_repeat_within_the_script_is_priced_once(fake: object, capfd: Caught) -> None:
    assert main(capfd, *RUN, "--max-cost", "0.25", "-c", f"{QUERY}; {QUERY}")[0] == 0


def test_pricing_stops_where_the_run_would(fake: object, capfd: Caught) -> None:
    code, out, err = main(capfd, *RUN, "-c", f"{QUERY}; SELECT JOIN; SELECT dear")
    assert (code, out) == (3, TABLE)
    assert err.startswith("error[DP210]")


def test_a_dry_run_runs_nothing(fake: object, capfd: Caught) -> None:
    code, out, err = main(capfd, *RUN, "--dry-run", "-c", f"{QUERY}; SHOW TABLES; {QUERY}; SELECT public")
    assert (code, err) == (0, "")
    assert out == (
        "charged  free  statement\n"
        f"ε 0.25   0     {QUERY};\n"
        f"0        0     {QUERY};\n"
        "0        0     SELECT public;\n"
        "in all ε 0.25; left are 3 of ε. Nothing was charged.\n"
    )
    assert main(capfd, *RUN, "--dry-run", "-c", many(13))[0] == 4
    assert main(capfd, *RUN, "--dry-run", "--max-cost", "0.1", "-c", QUERY)[0] == 4


def test_what_if_tells_of_refusals_and_goes_on(fake: object, capfd: Caught) -> None:
    for command in (("budget", "what-if"), ("run", "--dry-run")):
        code, out, err = main(capfd, *command, "--policy", "shop.toml", "-c", f"SELECT JOIN; SET epsilon = -1; {QUERY}")
        assert code == 3
        assert out.splitlines()[1:] == [
            "-        -     SELECT JOIN;  (refused: DP210)",
            "-        -     SET epsilon = -1;  (refused: DP120)",
            f"ε 0.25   0     {QUERY};",
            "in all ε 0.25; left are 3 of ε. Nothing was charged.",
        ]
        assert [line[:12] for line in err.splitlines() if line.startswith("error")] == ["error[DP210]", "error[DP120]"]


def test_prices_for_programs_have_the_refusals(fake: object, capfd: Caught) -> None:
    code, out, _ = main(capfd, "budget", "what-if", "--policy", "p.toml", "--json", "-c", f"SELECT JOIN; {QUERY}")
    told = json.loads(out)
    assert code == 3
    assert [each["refused"] for each in told["statements"]] == ["DP210", None]
    assert [each["charged"] and each["charged"]["epsilon"] for each in told["statements"]] == [None, "1/4"]


# ---------------------------------------------------------------------------------------------------------- files


def test_a_file_is_replaced_only_by_a_whole_one(fake: object, capfd: Caught, tmp_path: Path) -> None:
    target = tmp_path / "out.txt"
    target.write_text("old", encoding="utf-8")
    target.chmod(0o640)
    code, _, err = main(capfd, *RUN, "-c", f"{QUERY}; SELECT engine", "-o", str(target))
    assert (code, target.read_text(encoding="utf-8")) == (1, "old")
    assert f"{target} was not written; what was answered is stored, and free in the next run" in err
    assert main(capfd, *RUN, "--keep-going", "-c", f"{QUERY}; SELECT engine", "-o", str(target))[0] == 1
    assert target.read_text(encoding="utf-8") == TABLE
    assert stat.S_IMODE(target.stat().st_mode) == 0o640
    assert os.listdir(tmp_path) == ["out.txt"]


def test_a_link_goes_on_leading_to_the_file(fake: object, capfd: Caught, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to("out.txt")
    assert main(capfd, *RUN, "-c", QUERY, "-o", str(link))[0] == 0
    assert link.is_symlink()
    assert (tmp_path / "out.txt").read_text(encoding="utf-8") == TABLE


@pytest.mark.parametrize("how", ["policy", "database", "ledger", "script", "link", "parquet"])
def test_what_a_session_lives_on_is_not_replaced(
    fake: object, capfd: Caught, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("policy", "database", "ledger", "script", "parquet"):
        Path(name).write_text("SELECT 1", encoding="utf-8")
    Path("link").symlink_to(tmp_path / "ledger")
    given = ["script", "--policy", "policy", "--database", "database", "--ledger", "ledger", "-o", how]
    if how == "parquet":
        given = [*given[:-3], "parquet", "-o", "{}arquet", "--format", "parquet"]
        Path("1arquet").symlink_to("parquet")
    code, _, err = main(capfd, "run", *given)
    assert code == 2
    assert "it is a file that dpsql works with" in err
    assert Path(how).read_text(encoding="utf-8") == "SELECT 1"


@pytest.mark.parametrize("format_", ["csv", "parquet"])
@pytest.mark.parametrize("leads", ["out", "ledger"])
def test_a_link_that_is_changed_meanwhile_leads_nowhere_else(
    fake: object, capfd: Caught, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, format_: str, leads: str
) -> None:
    """What is looked at, and replaced, is what the link led to when results had to go somewhere."""
    ledger, out, link = tmp_path / "ledger", tmp_path / "out", tmp_path / "link"
    other = {"out": "ledger", "ledger": "out"}[leads]
    for file in (ledger, out):
        file.write_text("old", encoding="utf-8")
    link.symlink_to(leads)

    def turned(call: Callable[..., Any]) -> Callable[..., Any]:
        def turn(*given: Any, **options: Any) -> Any:
            link.unlink()
            link.symlink_to(other)
            return call(*given, **options)

        return turn

    if format_ == "csv":
        monkeypatch.setattr(runs, "opened_session", turned(runs.opened_session))
    else:
        monkeypatch.setattr(runs, "_refused_whole", turned(runs._refused_whole))
    given = ["--format", format_, "-o", str(link), "--ledger", str(ledger)]
    code, _, err = main(capfd, *RUN, "-c", QUERY, *given)
    assert (code, "it is a file that dpsql works with" in err) == ((0, False) if leads == "out" else (2, True))
    assert ledger.read_text(encoding="utf-8") == "old"
    assert (out.read_bytes() == b"old") == (leads == "ledger")


@pytest.mark.parametrize("format_", ["csv", "parquet"])
def test_links_that_lead_in_a_circle(fake: object, capfd: Caught, tmp_path: Path, format_: str) -> None:
    link = tmp_path / "link"
    link.symlink_to("link")
    code, out, err = main(capfd, *RUN, "-c", QUERY, "--format", format_, "-o", str(link))
    assert (code, out) == (2, "")
    assert f"can't write {link}: its links lead in a circle" in err


def test_a_file_is_emptied_only_once_it_is_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For `\\o`: what is compared is what was opened."""
    ledger, out, link = tmp_path / "ledger", tmp_path / "out", tmp_path / "link"
    for file in (ledger, out):
        file.write_text("old", encoding="utf-8")
    link.symlink_to("out")
    outfiles.emptied(link, [ledger]).close()
    assert out.read_bytes() == b""
    open_ = os.open

    def turned(name: Any, flags: int, mode: int = 0o777) -> int:
        link.unlink(missing_ok=True)
        link.symlink_to("ledger")
        found = open_(name, flags, mode)
        link.unlink()
        link.symlink_to("out")
        return found

    monkeypatch.setattr(os, "open", turned)
    with pytest.raises(Usage, match="it is a file that dpsql works with"):
        outfiles.emptied(link, [ledger])
    assert ledger.read_bytes() == b"old"


def test_a_device_is_written_directly(fake: object, capfd: Caught) -> None:
    assert main(capfd, *RUN, "-c", QUERY, "-o", "/dev/null")[0] == 0
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
    assert main(capfd, *RUN, "-c", QUERY, "-o", "-")[1] == TABLE


def test_parquet_is_a_file_for_each_result(fake: object, capfd: Caught, tmp_path: Path) -> None:
    script = f"SET epsilon = 0.1; {QUERY}; SHOW TABLES"
    for output, said in (
        ([], "Parquet is written to files: give -o FILE"),
        (["-o", str(tmp_path / "one.parquet")], "2 results do not fit into one Parquet file"),
        (["-o", str(tmp_path / "no" / "{}.parquet")], "can't write"),
    ):
        code, out, err = main(capfd, *RUN, "--format", "parquet", *output, "-c", script)
        assert (code, out, said in err) == (2, "", True)
    assert os.listdir(tmp_path) == []
    given = (*RUN, "--format", "parquet", "-o", str(tmp_path / "{}.parquet"), "-c", script)
    code, out, err = main(capfd, *given)
    assert (code, out) == (0, "")
    assert err.startswith("cost ε = 0.25")
    assert sorted(os.listdir(tmp_path)) == ["1.parquet", "2.parquet"]
    assert parquet.read_table(tmp_path / "1.parquet").column_names == [
        *("department", "households", "households_half_width")
    ]


# ---------------------------------------------------------------------------------------------------------- figures


def test_figures_are_for_stderr(fake: object, capfd: Caught, tmp_path: Path) -> None:
    script = tmp_path / "s.sql"
    script.write_text(f"SET epsilon = 0.1;\n{QUERY};\nSHOW TABLES;\n", encoding="utf-8")
    _, out, err = main(capfd, *RUN, "--stats", "--format", "csv", str(script))
    assert "GROCERY" in out
    assert [line for line in err.splitlines() if " rows, " in line or "answered" in line] == [
        f"{script}:2: 3 rows, cost ε = 0.25",
        f"{script}:3: 2 rows, free",
        "2 statements answered for ε = 0.25, left ε = 2.75",
    ]
