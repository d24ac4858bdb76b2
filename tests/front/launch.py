"""The command line with the fake session in the place of the real one: `python -m tests.front.launch ARGUMENTS`."""

from __future__ import annotations

import sys

from dpsql.front.cli import main
from tests.front import fake_session

if __name__ == "__main__":
    sys.modules["dpsql.session"] = fake_session
    sys.exit(main())
