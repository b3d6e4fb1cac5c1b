"""Crafted stores: files that are changed, removed, linked, replaced or blown up.

    python -m tests.torture.stores --cases 10000 --seed 1

After each case a child process with little memory opens the store, asks it, checks it, rolls back,
adds and repairs. Each either works or ends in an error of this library, in time, and nothing
outside of the folder of the store changes.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.torture.crafted import craft, make_store
from tests.torture.inputs import Source

from lkge.errors import LkgeError
from lkge.living import open as open_graph
from lkge.store.checking import check
from lkge.store.locks import writing
from lkge.store.repairing import repair
from lkge.store.versions import Store

MORE_MEMORY = 1 << 31
"""Bytes that a case may take beside what the process has."""
SECONDS = 30
"""For one case."""
AT_ONCE = 50
"""Cases of one child process."""


def ask(kg: Path) -> None:
    """Answers of the newest version."""
    reader = open_graph(kg).reader
    reader.predict(relation="r0", subject="n1", k=100)
    reader.predict(relation="r1", object="n4", k=3, new_only=True, in_range=True)
    reader.score([("n1", "r0", "n4")])
    reader.similar("n1")
    reader.entities("n")
    reader.neighbourhood("n1")


def describe(kg: Path) -> None:
    """What the commands print about a store."""
    graph = open_graph(kg)
    _ = graph.log(), graph.tags, graph.health(), graph.queue(), graph.consolidation_due


def mend(kg: Path) -> None:
    """`lkge verify --repair`."""
    store = Store(kg)
    check(store)
    with writing(store, "verify --repair"):
        repair(store)


def set_aside(kg: Path) -> None:
    """All batches that wait."""
    graph = open_graph(kg)
    for batch in graph.queue():
        if batch.waits:
            graph.set_aside(batch.number)


def restore(kg: Path) -> None:
    """One batch that was set aside."""
    graph = open_graph(kg)
    for batch in graph.queue()[:1]:
        graph.restore(batch.number)


STEPS: dict[str, Callable[[Path], object]] = {
    "ask": ask,
    "describe": describe,
    "check": lambda kg: check(Store(kg)),
    "tag": lambda kg: open_graph(kg).tag("second"),
    "queue": set_aside,
    "rollback": lambda kg: open_graph(kg).rollback("first"),
    "restore": restore,
    "add": lambda kg: open_graph(kg).add([("n1", "r0", "n2"), ("n2", "r1", "n30")]),
    "ask after": ask,
    "repair": mend,
    "add after": lambda kg: open_graph(kg).add([("n2", "r0", "n3")]),
}


@dataclass
class Found:
    """How many cases there were, how many steps went through, and what failed."""

    cases: int = 0
    done: Counter[str] = field(default_factory=Counter)
    failures: list[tuple[int, str]] = field(default_factory=list)

    def __str__(self) -> str:
        steps = ", ".join(f"{name} {self.done[name]:,}" for name in STEPS)
        return f"{self.cases:,} cases ({steps}): {len(self.failures)} failures"


class Hung(BaseException):
    """A step took too long. No `except Exception` stops it."""


def one(case: int, original: Path, sandbox: Path) -> Iterator[tuple[str, str]]:
    """Run a case: (step, "") for each that went through, (what was done, the error) for others."""
    if sandbox.exists():
        shutil.rmtree(sandbox)
    kg, outside = sandbox / "KG", sandbox / "outside"
    (outside / "folder").mkdir(parents=True)
    for name in ("file", "folder/00000001.json"):
        (outside / name).write_bytes(b"mine")
    shutil.copytree(original, kg)
    said = craft(Source(case), kg, outside)
    before = _content(sandbox)
    for name, step in STEPS.items():
        signal.alarm(SECONDS)
        try:
            step(kg)
            yield name, ""
        except LkgeError:
            pass
        except Exception:
            yield f"{said}: {name}", traceback.format_exc()
        except Hung:
            yield f"{said}: {name} hangs", traceback.format_exc()
        finally:
            signal.alarm(0)
        if (after := _content(sandbox)) != before:
            changed = {path for path in before | after if before.get(path) != after.get(path)}
            yield f"{said}: {name}", f"changed outside: {sorted(changed)}"
            return


def _content(sandbox: Path) -> dict[str, bytes | str]:
    """All that is beside the store."""
    found: dict[str, bytes | str] = {}
    for place, folders, files in os.walk(sandbox):
        if Path(place) == sandbox:
            folders[:] = [name for name in folders if name != "KG"]
        for name in (*folders, *files):
            path = Path(place) / name
            if name == "KG" and path.parent == sandbox:
                continue
            plain = path.is_file() and not path.is_symlink()
            small = plain and path.stat().st_size < 1 << 24
            found[str(path)] = path.read_bytes() if small else f"{path.lstat().st_mode}"
    return found


def _child(cases: range, original: Path, sandbox: Path, out: int) -> None:
    """Some cases; a line for each event."""
    with open("/proc/self/statm", encoding="ascii") as file:
        pages = int(file.read().split()[0])
    limit = pages * resource.getpagesize() + MORE_MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))

    def hang(*_: object) -> None:
        raise Hung

    signal.signal(signal.SIGALRM, hang)
    with os.fdopen(out, "w", encoding="utf-8", errors="backslashreplace") as lines:
        for case in cases:
            print(f"case {case}", file=lines, flush=True)
            for name, trace in one(case, original, sandbox):
                print(repr((name, trace)), file=lines, flush=True)


def run(cases: range, folder: Path, seconds: float = float("inf")) -> Found:
    """All cases, or as many as there is time for, some at a time in a child process."""
    end = time.monotonic() + seconds
    original, found = folder / "original", Found()
    if not original.exists():
        make_store(original)
    left = list(cases)
    while left and time.monotonic() < end:
        reading, writing_end = os.pipe()
        child = os.fork()
        if not child:
            code = 1
            with suppress(BaseException):
                os.close(reading)
                part = range(left[0], min(left[-1] + 1, left[0] + AT_ONCE))
                _child(part, original, folder / "sandbox", writing_end)
                code = 0
            os._exit(code)
        os.close(writing_end)
        case = left[0]
        with os.fdopen(reading, encoding="utf-8") as lines:
            for line in lines:
                if line.startswith("case "):
                    case = int(line.removeprefix("case "))
                    found.cases += 1
                else:
                    name, trace = eval(line)
                    if trace:
                        found.failures.append((case, f"{name}\n{trace}"))
                    else:
                        found.done[name] += 1
        _, status = os.waitpid(child, 0)
        if status:
            found.failures.append((case, f"the process ended with status {status}"))
        left = [each for each in left if each > case]
    return found


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=float("inf"))
    given = parser.parse_args()
    memory = "/dev/shm" if os.path.isdir("/dev/shm") else None
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        first = given.seed * 10**7
        found = run(range(first, first + given.cases), Path(folder), given.seconds)
    for case, said in found.failures[:100]:
        print(f"case {case}: {said}\n")
    print(found)
    return 1 if found.failures else 0


if __name__ == "__main__":
    sys.exit(main())
