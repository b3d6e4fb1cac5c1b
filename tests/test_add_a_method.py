"""`docs/add-a-method.md` is run as it stands, in a process of its own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import lkge

PAGE = Path(__file__).parents[1] / "docs" / "add-a-method.md"
BLOCKS = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)


def test_the_first_block_is_a_whole_method_in_about_fifty_lines() -> None:
    assert "@register" in BLOCKS[0]
    assert len(BLOCKS[0].splitlines()) <= 50


def test_every_block_runs(tmp_path: Path) -> None:
    script = tmp_path / "method.py"
    script.write_text("\n".join(BLOCKS), encoding="utf-8")
    one_thread = {"NUMBA_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, script],
        env={**os.environ, **one_thread, "PYTHONPATH": str(Path(lkge.__file__).parents[1])},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    figures, complaint = done.stdout.splitlines()
    mrr, held, free = map(float, figures.split())
    assert mrr > 0.2
    assert held > free, "what holds old rows forgets less"
    assert complaint == "something is carried that `state` does not declare"
