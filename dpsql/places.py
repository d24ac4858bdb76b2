"""Where the files of a user lie: the base folders of the XDG specification, and what `~` stands for.

Nothing here fails: a container's user may have neither a HOME nor an entry in the list of users.
"""

from __future__ import annotations

import os
from pathlib import Path


def base(variable: str, below: str) -> Path | None:
    """`$variable`, else what is `below` the user's home; relative values do not count (XDG). None where the user has no
    home."""
    folder = os.environ.get(variable, "")
    if os.path.isabs(folder):
        return Path(folder)
    home = os.path.expanduser("~")
    return Path(home) / below if os.path.isabs(home) else None


def expanded(path: str | Path) -> Path:
    """The path with `~` and `~name` replaced, where that home is known."""
    return Path(os.path.expanduser(path))


def real(path: str | Path) -> Path:
    """The file or folder itself, links followed, too. Links that lead in a circle stay, and whoever opens the path is
    told (`Path.resolve` raises RuntimeError in some versions of Python)."""
    return Path(os.path.realpath(expanded(path)))
