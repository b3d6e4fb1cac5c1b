"""`lkge`, whose second worker is lost in the fifth round of its first start."""

import os

from tests.distributed.workers import lose

from lkge.cli import main
from lkge.distributed import is_restarted

if not is_restarted() and os.environ["RANK"] == "1":
    lose(rounds=5)
main()
