"""`python -m cli` is `muster`."""

import sys

from cli.main import main

if __name__ == "__main__":
    sys.exit(main())
