"""Every parser with random documents: it reads them, or ends in an error of this library.

    python -m tests.torture.parsers --inputs 1000000 --seed 1

A valid document must give its facts. What fails is kept in `--failures`, and the exit code is 1.
"""

from __future__ import annotations

import argparse
import gzip
import os
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.torture.inputs import FACT_FILES, Source, record, settings

from lkge.configure import changes_in, read_toml
from lkge.data.checked_json import CHECKSUM, read_json
from lkge.data.facts import read_facts
from lkge.errors import LkgeError
from lkge.living import init
from lkge.store.inbox import FactBatch, accept
from lkge.store.records import Manifest, Root, read_record
from lkge.store.skipped import SkippedBatches
from lkge.store.tags import Tags

SHARES = {
    ".tsv": 24,
    ".csv": 20,
    ".jsonl": 8,
    ".parquet": 2,
    ".nt": 8,
    ".nq": 4,
    ".ttl": 4,
    ".trig": 4,
    ".rdf": 6,
    ".jsonld": 4,
    ".toml": 4,
    ".json": 10,
}
"""Parts of all inputs."""
DAMAGED = 0.35
"""Share of the documents that are damaged."""
SLOW = 10.0
"""Seconds after which an input has hung."""


@dataclass
class Found:
    """How many inputs there were and how many were read, by format; and what failed."""

    inputs: Counter[str] = field(default_factory=Counter)
    read: Counter[str] = field(default_factory=Counter)
    failures: list[tuple[str, bytes, str]] = field(default_factory=list)

    def __str__(self) -> str:
        lines = [
            f"{kind:9} {count:9,} inputs, {self.read[kind] / count:4.0%} read"
            for kind, count in sorted(self.inputs.items())
        ]
        return "\n".join([*lines, f"{self.inputs.total():,} inputs: {len(self.failures)} failures"])


class Parsers:
    """The parsers, and a folder for the documents that are files."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "document"
        graph = init(folder / "KG", dim=2, max_epochs=1, backend="torch")
        graph.add([(f"n{n}", "r", f"n{n * n % 7}") for n in range(12)])
        graph.add([("n1", "r", "n4")])
        graph.tag("first")
        accept(graph.store, [("a", "r", "b")])
        self.trees = [_tree(path) for path in sorted((folder / "KG").rglob("*.json"))]
        self.kinds = (Manifest, FactBatch, Root, Tags, SkippedBatches)

    def one(self, source: Source, found: Found) -> None:
        """One input."""
        (kind,) = source.choices(list(SHARES), SHARES.values())
        data, name = b"", kind
        found.inputs[kind] += 1
        started = time.monotonic()
        try:
            if kind == ".json":
                data, check = self._record(source)
            elif kind == ".toml":
                data, check = self._settings(source)
            else:
                data, check = self._facts(source, kind)
            with suppress(LkgeError):
                check()
                found.read[kind] += 1
            if time.monotonic() - started > SLOW:
                raise TimeoutError(f"took {time.monotonic() - started:.0f} s")
        except Exception:
            found.failures.append((name, data, traceback.format_exc()))

    def _facts(self, source: Source, kind: str) -> tuple[bytes, Callable[[], None]]:
        data, facts = FACT_FILES[kind](source)
        whole = source.random() >= DAMAGED
        if not whole:
            data = source.damaged(data)
        suffix = ""
        if source.random() < 0.02:
            data, suffix = gzip.compress(data, 1), ".gz"
            data = data if whole else source.damaged(data)

        def check() -> None:
            try:
                read = read_facts(data, f"file{kind}{suffix}")
            except LkgeError as error:
                if whole:
                    raise AssertionError(f"a valid document is refused: {error}") from error
                raise
            named = list(read)
            if read.lines is not None and len(read.lines) != len(named):
                raise AssertionError(f"{len(read.lines)} lines of {len(named)} facts")
            if not all(name.strip() for fact in named for name in fact):
                raise AssertionError("an empty name")
            if whole and named != list(dict.fromkeys(facts)):
                raise AssertionError(f"{named} instead of {facts}")

        return data, check

    def _record(self, source: Source) -> tuple[bytes, Callable[[], None]]:
        data, whole = record(source, self.trees)
        if source.random() < DAMAGED / 2:
            data, whole = source.damaged(data), False

        def check() -> None:
            self.file.write_bytes(data)
            read = 0
            for kind in self.kinds:
                with suppress(LkgeError):
                    read_record(self.file, kind)
                    read += 1
            if whole and not read:
                raise AssertionError("a valid record is refused")
            if not read:
                raise LkgeError("no record")

        return data, check

    def _settings(self, source: Source) -> tuple[bytes, Callable[[], None]]:
        data = settings(source)
        if source.random() < DAMAGED:
            data = source.damaged(data)

        def check() -> None:
            self.file.write_bytes(data)
            with suppress(LkgeError):
                changes_in(self.file)
            read_toml(self.file)

        return data, check


def _tree(path: Path) -> dict[str, object]:
    tree = read_json(path)
    tree.pop(CHECKSUM)
    return tree


def run(inputs: int, seed: int, folder: Path, seconds: float = float("inf")) -> Found:
    """So many inputs, or as many as there is time for."""
    source, found, parsers = Source(seed), Found(), Parsers(folder)
    end = time.monotonic() + seconds
    for number in range(inputs):
        if number % 256 == 0 and time.monotonic() > end:
            break
        parsers.one(source, found)
    return found


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--inputs", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--failures", type=Path, default=Path("torture-failures"))
    given = parser.parse_args()
    memory = "/dev/shm" if os.path.isdir("/dev/shm") else None
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        found = run(given.inputs, given.seed, Path(folder), given.seconds)
    print(found)
    for number, (kind, data, trace) in enumerate(found.failures[:50]):
        given.failures.mkdir(exist_ok=True)
        (given.failures / f"{number}{kind}").write_bytes(data)
        print(f"\n{given.failures / f'{number}{kind}'}\n{trace}")
    return 1 if found.failures else 0


if __name__ == "__main__":
    sys.exit(main())
