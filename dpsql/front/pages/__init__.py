"""One page for each error code: what it means, why, what to write, an example. The pages are files beside this one."""

from __future__ import annotations

from importlib.resources import files

from dpsql.errors import CODES, nearest, refusal


def page_of(code: str) -> str:
    """The page of a code, written `DP204`, `dp204` or `204`. Raises DP120 where there is no such code."""
    wanted = code.upper().strip("[]:")
    wanted = wanted if wanted.startswith("DP") else f"DP{wanted}"
    if wanted not in CODES:
        reason = f'no error has the code "{code}"{nearest(wanted, CODES)}'
        raise refusal("DP120", reason, repair=f"codes run from {min(CODES)} to {max(CODES)}")
    return files(__package__).joinpath(f"{wanted}.md").read_text(encoding="utf-8").rstrip("\n")
