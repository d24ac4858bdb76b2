"""The command line with the fake in the place of session and owner: `python -m tests.front.launch ARGUMENTS`."""

from __future__ import annotations

import sys

from dpsql.front.cli import main
from tests.front import fake_session

if __name__ == "__main__":
    sys.modules["dpsql.session"] = sys.modules["dpsql.owner"] = fake_session
    sys.exit(main())
