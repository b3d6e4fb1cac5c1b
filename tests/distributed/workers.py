"""A process that makes groups of workers: `workers.py FOLDER`. It has one thread and learns nothing
itself, so that it can fork: a worker is a real process that begins at once. What it finds wrong
ends it with an AssertionError.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from tests.store.killing import forked
from tests.training.made import made_graph, quick

import lkge
from lkge import api
from lkge.config import RunConfig
from lkge.distributed import loop, training
from lkge.distributed.loop import PartitionedLoop
from lkge.reports import page

GRAPH = made_graph()
SHARDS, EPOCHS = 8, 4
SILENCE = 6
"""Seconds after which a worker counts as lost."""


def config(**changes: Any) -> RunConfig:
    """Settings under which every part of the trainer has something to do."""
    base: dict[str, Any] = {
        "loss": "softmax", "optimizer": "adagrad", "score": "complex", "n3": 0.01,
        "learning_rate": 0.3, "parameter_averaging": True, "candidate_fraction": 0.5,
        "all_candidates_below": 0, "max_epochs": EPOCHS, "patience": EPOCHS,
        "partitions": SHARDS, "memory": "facts", "transfer": False, "min_batch_size": 4,
    }  # fmt: skip
    return quick("evergreen", **base | changes)


def learn(folder: Path, **changes: Any) -> None:
    """Begin a run, or go on with it."""
    if (folder / "config.toml").exists():
        lkge.resume(folder, graph=GRAPH, listener=ignore)
    else:
        lkge.run(GRAPH, out=folder, config=config(**changes), listener=ignore)


def ignore(event: object) -> None:
    """No progress is shown."""


def losing(folder: Path, rounds: int, number: int = signal.SIGKILL, seconds: int = 60) -> None:
    """Learn; the second worker gets a signal after so many rounds."""
    os.environ["LKGE_WORKER_TIMEOUT"] = str(seconds)
    if os.environ["RANK"] == "1":
        lose(rounds, number)
    learn(folder)


def lose(rounds: int, number: int = signal.SIGKILL) -> None:
    """This process gets a signal after so many rounds."""
    combine, done = training.PartitionedTrainer._combine, 0

    def counted(self: training.PartitionedTrainer, changes: Any) -> None:
        nonlocal done
        done += 1
        if done == rounds:
            os.kill(os.getpid(), number)
        combine(self, changes)

    training.PartitionedTrainer._combine = counted  # type: ignore[method-assign]


def on_disk(folder: Path) -> None:
    """Learn with shards in files."""
    vars(loop)["memory_of_machine"] = lambda: 1
    learn(folder)


def group(size: int, work: Callable[[], None], *, ends_second: bool = False) -> list[int]:
    """The exit codes of so many workers; 2 is an error of lkge. The second one may have to be ended
    when the others have."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "WORLD_SIZE": str(size)}

    def worker(rank: int) -> None:
        os.environ |= {**place, "RANK": str(rank)}
        try:
            work()
        except lkge.LkgeError as error:
            print(f"error: {error}", flush=True)
            os._exit(2)

    children = [forked(partial(worker, rank)) for rank in range(size)]
    if ends_second:
        for child in children[:1] + children[2:]:
            os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
        os.kill(children[1], signal.SIGKILL)
    return [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]


def check(place: Path) -> None:
    """The same bytes, whatever happens."""
    runs = {size: place / f"of-{size}" for size in (1, 2, 4)}
    for size, run in runs.items():
        assert group(size, partial(learn, run)) == [0] * size
    runs[0] = place / "on-disk"
    assert group(1, partial(on_disk, runs[0])) == [0]

    runs[3] = place / "killed"
    started = time.monotonic()
    rounds = (SHARDS - 1) * (EPOCHS + 1) + 3  # in the second snapshot
    codes = group(4, partial(losing, runs[3], rounds))
    assert codes == [2, -signal.SIGKILL, 2, 2], codes
    assert time.monotonic() - started < 60, "they waited for the time to be over"
    assert not (runs[3] / "model.safetensors").exists()
    assert (runs[3] / "checkpoint").exists()
    silent = partial(losing, runs[3], 1, signal.SIGSTOP, seconds=SILENCE)
    codes = group(2, silent, ends_second=True)
    assert codes == [2, -signal.SIGKILL], codes
    assert group(3, partial(learn, runs[3])) == [0, 0, 0]

    whole = {run.name: (run / "model.safetensors").read_bytes() for run in runs.values()}
    assert len(set(whole.values())) == 1, {name: hash(data) for name, data in whole.items()}
    for run in runs.values():
        assert sorted(path.name for path in run.iterdir()) == sorted(
            path.name for path in runs[1].iterdir()
        )


if __name__ == "__main__":
    vars(api)["PartitionedLoop"] = partial(PartitionedLoop, seconds_between_checkpoints=0)
    vars(page)["write_report"] = lambda results, folder: folder
    check(Path(sys.argv[1]))
