"""What an analyst prefers at the prompt, kept in `$XDG_CONFIG_HOME/dpsql/config.toml` under `[repl]`.

Promise: nothing here changes what a statement costs or answers. The file is the analyst's: a change replaces one line
of it and keeps the rest, comments included; it is written beside and renamed, so that it is whole at any moment; and a
file that cannot be read as TOML is left as it is.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

from dpsql.errors import Error, nearest, refusal
from dpsql.front.formats import FORMATS
from dpsql.places import base, real

_SECTION = "repl"
_HEADER = re.compile(r"\s*\[")
_OURS = re.compile(rf"\s*\[\s*{_SECTION}\s*\]\s*(#.*)?$")


@dataclass(frozen=True, slots=True)
class Preference:
    """words: what it takes; other: what it takes beside these, as `also` says."""

    default: str
    meaning: str
    words: tuple[str, ...] = ("on", "off")
    other: Callable[[str], bool] = lambda _: False
    also: tuple[str, ...] = ()

    def takes(self, value: str) -> bool:
        return value in self.words or self.other(value)

    @property
    def allowed(self) -> str:
        return " or ".join((*self.words, *self.also))


def _is_share(text: str) -> bool:
    try:
        return 0 < Decimal(text) <= 1
    except InvalidOperation:
        return False


_ASK = "ask before a statement takes more than this share of what is left"
PREFERENCES: Mapping[str, Preference] = {
    "chart": Preference("off", "a bar chart under every grouped result"),
    "completion": Preference("on", "offer names while you type; Tab asks for them anyway"),
    "confirm": Preference("0.25", _ASK, ("off",), _is_share, ("a share such as 0.25",)),
    "expanded": Preference("auto", "a line for each column; auto: where the table is too wide", ("on", "off", "auto")),
    "format": Preference("table", "how results are written", tuple(FORMATS)),
    "keys": Preference("emacs", "keys for editing", ("emacs", "vi")),
    "pager": Preference("on", "show what is longer than the screen with $PAGER"),
    "suggestions": Preference("on", "the rest of an earlier statement in gray; the right arrow takes it"),
}


def config_file() -> Path | None:
    """`$XDG_CONFIG_HOME/dpsql/config.toml`, else below `~/.config`; None where the user has no home."""
    folder = base("XDG_CONFIG_HOME", ".config")
    return None if folder is None else folder / "dpsql" / "config.toml"


class Preferences(Mapping[str, str]):
    """What is in force: the file's, and what was changed since. problems: what the file says that cannot be used."""

    def __init__(self, file: Path | None, *, read: bool = True) -> None:
        """read: whether the file has a say, or the defaults hold."""
        self._file = file
        self._values = {name: preference.default for name, preference in PREFERENCES.items()}
        self.problems: list[str] = []
        if file is None or not read:
            return
        try:
            found = tomllib.loads(_text_of(file)).get(_SECTION, {})
        except OSError as error:
            self.problems.append(f"{file} cannot be read: {error.strerror}")
            return
        except ValueError as error:
            self.problems.append(f"{file} is not TOML, and not used: {error}")
            return
        for name, value in (found if isinstance(found, dict) else {}).items():
            try:
                self.change(name, _written(value))
            except Error as error:
                self.problems.append(f"{file}: {error.reason}")

    def change(self, name: str, value: str) -> None:
        """For this session. Raises DP120."""
        known = _known(name)
        if not PREFERENCES[known].takes(value):
            hint = nearest(value, PREFERENCES[known].words)
            raise refusal(
                "DP120", f'{known} is not "{value}"{hint}', repair=f"\\set {known} {PREFERENCES[known].allowed}"
            )
        self._values[known] = value

    def keep(self, name: str, value: str) -> None:
        """For this session and those to come. Raises DP120, also where the file cannot be written."""
        self.change(name, value)
        if self._file is None:
            reason = f"{name} is {value} for this session only: this user has no home folder to keep it in"
            raise refusal("DP120", reason, repair="set XDG_CONFIG_HOME to a folder of yours")
        try:
            _replace_line(self._file, _known(name), value)
        except (OSError, ValueError) as error:
            said = error.strerror if isinstance(error, OSError) else str(error)
            reason = f"{name} is {value} for this session only: {self._file} cannot be changed ({said})"
            raise refusal("DP120", reason, repair="mend or remove that file") from None

    @property
    def file(self) -> Path | None:
        return self._file

    def __getitem__(self, name: str) -> str:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)


def _known(name: str) -> str:
    if name.lower() not in PREFERENCES:
        hint = nearest(name, PREFERENCES)
        raise refusal("DP120", f'no preference "{name}"{hint}', repair=f"there are: {', '.join(PREFERENCES)}")
    return name.lower()


def _written(value: Any) -> str:
    """A value of the file as `\\set` takes it: true and numbers may stand there without quotes."""
    return ("off", "on")[value] if isinstance(value, bool) else str(value)


def _text_of(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except FileNotFoundError:
        return ""


def _replace_line(file: Path, name: str, value: str) -> None:
    """Let the file say so, and nothing else that it did not say before. Raises OSError; ValueError where it is no TOML,
    or says it in a way that is not one line."""
    text = _text_of(file)
    before = tomllib.loads(text)
    changed = _with_line(text.splitlines(), name, f"{name} = {json.dumps(value)}")
    section = before.get(_SECTION, {})
    if tomllib.loads(changed) != {**before, _SECTION: {**section, name: value}}:
        raise ValueError(f"{name} stands there in more than one line")
    _write(real(file), changed)  # through a link, as people link their files from elsewhere


def _with_line(lines: list[str], name: str, line: str) -> str:
    starts = [number for number, each in enumerate(lines) if _OURS.match(each)]
    if not starts:
        lines += ([""] if lines else []) + [f"[{_SECTION}]", line]
    else:
        start = starts[0] + 1
        end = next((n for n in range(start, len(lines)) if _HEADER.match(lines[n])), len(lines))
        same = [n for n in range(start, end) if re.match(rf"\s*{name}\s*=", lines[n])]
        if same:
            lines[same[0]] = line
        else:
            while end > start and not lines[end - 1].strip():
                end -= 1
            lines.insert(end, line)
    return "\n".join(lines) + "\n"


def _write(file: Path, text: str) -> None:
    """The whole file or, whatever happens, the one before."""
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor, draft = tempfile.mkstemp(prefix=".config-", dir=file.parent)  # mode 0600
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(draft, file)
    except BaseException:
        Path(draft).unlink(missing_ok=True)
        raise
