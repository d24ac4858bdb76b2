"""Preferences and their file: read as far as it can be, written one line at a time, never left half-written."""

from __future__ import annotations

import os
import stat
import tomllib
from pathlib import Path

import pytest

from dpsql.errors import Error
from dpsql.front.config import PREFERENCES, Preferences, config_file


@pytest.fixture
def file(home: Path) -> Path:
    assert config_file() == home / "config" / "dpsql" / "config.toml"
    return config_file()


def write(file: Path, text: str) -> Preferences:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    return Preferences(file)


def test_without_a_file_the_defaults_hold(file: Path) -> None:
    preferences = Preferences(file)
    assert dict(preferences) == {name: each.default for name, each in PREFERENCES.items()}
    assert preferences.problems == []
    assert all(each.takes(each.default) for each in PREFERENCES.values())


def test_what_is_kept_is_there_the_next_time(file: Path) -> None:
    Preferences(file).keep("keys", "vi")
    Preferences(file).keep("confirm", "0.5")
    assert file.read_text(encoding="utf-8") == '[repl]\nkeys = "vi"\nconfirm = "0.5"\n'
    assert Preferences(file)["keys"] == "vi"
    assert Preferences(file)["confirm"] == "0.5"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert os.listdir(file.parent) == ["config.toml"]


def test_a_change_keeps_the_rest_of_the_file(file: Path) -> None:
    before = (
        '# mine\n[other]\nkeys = 1\n\n[repl] # here\n# keys = "emacs"\npager = false\nkeys = "emacs" # old\n\n[last]\n'
    )
    preferences = write(file, before)
    assert (preferences["pager"], preferences["keys"]) == ("off", "emacs")
    preferences.keep("keys", "vi")
    preferences.keep("format", "csv")
    after = file.read_text(encoding="utf-8")
    changed = before.replace('keys = "emacs" # old\n', 'keys = "vi"\nformat = "csv"\n')
    assert after == changed
    assert tomllib.loads(after)["other"] == {"keys": 1}


def test_what_cannot_be_used_is_told_and_the_rest_holds(file: Path) -> None:
    preferences = write(file, '[repl]\nkeys = "vim"\nformat = "json"\ncolour = "red"\nconfirm = 0.1\n')
    assert (preferences["keys"], preferences["format"], preferences["confirm"]) == ("emacs", "json", "0.1")
    assert [problem.partition(": ")[2] for problem in preferences.problems] == [
        'keys is not "vim". Did you mean "vi"?',
        'no preference "colour"',
    ]


@pytest.mark.parametrize(
    "text", ["[repl\n", "keys = vi\n", "[[repl]]\nkeys = 1\n", 'repl = "x"\n', "repl.keys = 'vi'\n"]
)
def test_a_file_of_another_form_is_left_as_it_is(file: Path, text: str) -> None:
    preferences = write(file, text)
    with pytest.raises(Error) as refused:
        preferences.keep("keys", "vi")
    assert refused.value.code == "DP120"
    assert file.read_text(encoding="utf-8") == text
    assert preferences["keys"] == "vi"  # for this session


def test_a_place_that_cannot_be_written_is_told(file: Path) -> None:
    file.parent.parent.mkdir(parents=True)
    file.parent.touch()
    with pytest.raises(Error, match="for this session only"):
        Preferences(file).keep("keys", "vi")


def test_a_link_stays_a_link(file: Path, tmp_path: Path) -> None:
    target = tmp_path / "dotfiles.toml"
    target.touch()
    file.parent.mkdir(parents=True)
    file.symlink_to(target)
    Preferences(file).keep("keys", "vi")
    assert file.is_symlink()
    assert 'keys = "vi"' in target.read_text(encoding="utf-8")


@pytest.mark.parametrize(("name", "value"), [("confirm", "0"), ("confirm", "2"), ("confirm", "nan"), ("confirm", "x"),
                                             ("keys", "nano"), ("nothing", "on")])  # fmt: skip
def test_a_value_that_is_none_changes_nothing(file: Path, name: str, value: str) -> None:
    preferences = Preferences(file)
    before = dict(preferences)
    with pytest.raises(Error) as refused:
        preferences.keep(name, value)
    assert refused.value.code == "DP120"
    assert dict(preferences) == before
    assert not file.exists()
