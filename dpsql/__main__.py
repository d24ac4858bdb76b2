"""`python -m dpsql`: the command line."""

import sys

from dpsql.front.cli import main

if __name__ == "__main__":
    sys.exit(main())
