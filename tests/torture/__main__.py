"""The command `python -m tests.torture`."""

import sys

from tests.torture.driver import main

if __name__ == "__main__":
    sys.exit(main())
