"""Stands in for `lkge run` in a process of its own: makes a run folder in a blink.

It asks the tests what to write (`made.answer`), for the import of `lkge` takes seconds. A margin of
13 fails, one of 77 waits for a file `go` beside the folder, as a long run would.
"""

from __future__ import annotations

import json
import os
import sys
import time
from multiprocessing.connection import Client
from pathlib import Path


def main(words: list[str]) -> None:
    """Begin or go on."""
    one_thread = os.environ["NUMBA_NUM_THREADS"] == os.environ["OMP_NUM_THREADS"] == "1"
    with Client(os.environ["FAKE_LKGE"]) as tests:
        tests.send_bytes(json.dumps([words, one_thread]).encode())
        answer = json.loads(tests.recv_bytes())
    folder = Path(answer["folder"])
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.toml").write_text(answer["config"], encoding="utf-8")
    if answer["margin"] == 13:
        sys.exit("error: thirteen is too much")
    waited(answer["margin"] == 77, folder)
    (folder / "results.json").write_text(json.dumps(answer["results"]), encoding="utf-8")


def waited(long: bool, folder: Path) -> None:
    """Write the log of a run that does not come to an end by itself."""
    epoch = {"type": "EpochFinished", "snapshot": 0, "epoch": 3, "valid_mrr": 0.125}
    (folder / "log.jsonl").write_text(json.dumps(epoch) + "\n", encoding="utf-8")
    try:
        while long and not (folder.parent / "go").exists():
            time.sleep(0.02)
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main(sys.argv[2:])
