"""A text in the analyst's own editor."""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
from pathlib import Path

from dpsql.errors import refusal


def edited(text: str) -> str:
    """The text as $VISUAL, else $EDITOR, else vi leaves it. Raises DP120 where the editor cannot be run or fails."""
    command = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    with tempfile.TemporaryDirectory(prefix="dpsql-") as folder:  # mode 0700
        file = Path(folder) / "statement.sql"
        file.write_text(text + "\n" if text else "", encoding="utf-8")
        try:
            code = subprocess.call([*shlex.split(command), str(file)])
            changed = file.read_text(encoding="utf-8")
        except (OSError, ValueError):
            code, changed = 127, ""
    if code:
        raise refusal("DP120", f"the editor, {command}, could not be used", repair="set $EDITOR to the one you use")
    return changed.strip()
