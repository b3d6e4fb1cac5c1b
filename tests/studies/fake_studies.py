"""`lkge` whose runs are made by `fake_lkge.py`: to be stopped and started again."""

from __future__ import annotations

import sys
from pathlib import Path

from lkge.cli import main
from lkge.studies import runner

vars(runner)["PROGRAM"] = (sys.executable, str(Path(__file__).with_name("fake_lkge.py")))
main()
