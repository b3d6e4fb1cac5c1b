"""Real processes that change a graph, killed at random moments: `kills.py OPERATION ROUNDS SEED`.

It learns with torch in one thread and starts none, so that it can fork: a child is a real process
that begins at once.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path

import torch
from tests.torture.disk import write_tree
from tests.torture.judging import Judge, alike
from tests.torture.operations import (
    OPERATIONS,
    Expected,
    Operation,
    Place,
    beginning,
    place_in,
)

ACKNOWLEDGED, ENDED = b"A", b"E"


@dataclass
class Killed:
    """How many processes were killed before they had ended, of these after they had acknowledged,
    and what was wrong afterwards."""

    rounds: int = 0
    killed: int = 0
    acknowledged: int = 0
    problems: list[str] = field(default_factory=list)


def kill_many(operation: Operation, rounds: int, seed: int, scratch: Path) -> Killed:
    """Start the operation and kill it, many times."""
    chance, found = random.Random(seed), Killed()
    start = beginning(operation.begin)
    judge = Judge(operation, Expected.of(operation, scratch / "expected"))
    place = place_in(write_tree(start.tree, scratch / "timed"))
    begun = time.perf_counter()
    with alike():
        operation.run(place, lambda: None)
    duration = time.perf_counter() - begun
    for _ in range(rounds):
        place = place_in(write_tree(start.tree, scratch / "work"))
        told = killed_after(operation, place, chance.uniform(0, 1.3 * duration))
        found.rounds += 1
        found.killed += ENDED not in told
        found.acknowledged += told == ACKNOWLEDGED
        if problem := judge.problem(place, bool(told)):
            found.problems.append(f"{operation.name}, killed after {told!r}: {problem}")
    return found


def killed_after(operation: Operation, place: Place, seconds: float) -> bytes:
    """What a process told before it was killed."""
    outcome, telling = os.pipe()
    child = os.fork()
    if not child:
        try:
            with alike():
                operation.run(place, lambda: os.write(telling, ACKNOWLEDGED) and None)
            os.write(telling, ENDED)
        finally:
            os._exit(0)
    os.close(telling)
    time.sleep(seconds)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    with os.fdopen(outcome, "rb") as pipe:
        return pipe.read()


if __name__ == "__main__":
    torch.set_num_threads(1)
    name, number, seed = sys.argv[1:]
    chosen = next(operation for operation in OPERATIONS if operation.name == name)
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps(asdict(kill_many(chosen, int(number), int(seed), Path(folder)))))
