"""`python -m lkge` is `lkge`."""

from lkge.cli import main

main()
