"""`python -m benchmarks.store`: what a version costs on the disk, and what many versions cost.

First a thousand facts are added, several times, to a graph of a million entities as `lkge init`
makes it (`benchmarks.growth`): bytes written, and seconds besides training and evaluating. Then a
small graph gets many versions: time to open it, and to publish one more. Each measurement is in a
process of its own. Results: `results/store.md`. Run it on a machine that does nothing else. With
the word `small` the same with fewer entities and versions; then nothing is written.
"""

from __future__ import annotations

import json
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.growth import DIM, NEW_FACTS, _name, _news, make
from lkge.data.files import write_text_atomically
from lkge.living import init, open
from lkge.store.update import Update
from lkge.testing import paper_config

KEPT = Path(__file__).parents[1] / "results" / "store.md"
ENTITIES, ADDS, TIMES = 1_000_000, 4, 5
VERSIONS = (10, 1_000, 10_000)
SMALL_ENTITIES, SMALL_VERSIONS = 20_000, (10, 200)
ALL = 1_000_000
KEPT_AS = {5: "5", ALL: "all"}
"""`keep` of a graph that keeps every version."""


def main() -> None:
    """Measure, print, keep; or, called by itself, do one thing in this process."""
    match sys.argv[1:]:
        case ["add", folder, number]:
            print(json.dumps(_add(Path(folder), int(number))))
        case ["open", folder]:
            print(json.dumps(_open(Path(folder))))
        case ["publish", folder]:
            print(json.dumps(_publish(Path(folder), 1)))
        case ["publish", folder, times]:
            print(json.dumps(_publish(Path(folder), int(times))))
        case ["small"]:
            print(_markdown(_large(SMALL_ENTITIES), _many(SMALL_VERSIONS), SMALL_ENTITIES))
        case _:
            text = _markdown(_large(ENTITIES), _many(VERSIONS), ENTITIES)
            print(text)
            write_text_atomically(KEPT, text)


# A large graph


def _large(entities: int) -> list[dict[str, float]]:
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "KG"
        make(folder, entities)
        return [_in_process("add", folder, number) for number in range(ADDS)]


def _add(folder: Path, number: int) -> dict[str, float]:
    from lkge.training.events import ignore
    from lkge.training.warmup import warm_up

    graph = open(folder)
    warm_up(graph.config, ignore)
    before, news = _files(folder), _news(graph.reader.num_entities, number)
    learning = _timed(Update, "train", "evaluate", "calibration")
    started = time.perf_counter()
    record = graph.add(news, consolidate=False)
    whole = time.perf_counter() - started
    written = {name: size for name, size in _files(folder).items() if before.get(name) != size}
    started = time.perf_counter()
    again = open(folder)
    again.predict(subject=_name(7), relation="relation 3")
    opening = time.perf_counter() - started
    return {
        "facts": record.facts,
        "touched": record.touched,
        "training": record.seconds,
        "besides": whole - sum(learning),
        "written": sum(written.values()),
        "opening": opening,
        "deltas": len(again.reader.manifest.files["model"]) - 1,
    }


def _timed(owner: Any, *names: str) -> list[float]:
    """The seconds that some methods take from now on."""
    seconds: list[float] = []
    for name in names:
        setattr(owner, name, _timing(getattr(owner, name), seconds))
    return seconds


def _timing(method: Callable[..., Any], seconds: list[float]) -> Callable[..., Any]:
    def timed(*args: Any) -> Any:
        started = time.perf_counter()
        try:
            return method(*args)
        finally:
            seconds.append(time.perf_counter() - started)

    return timed


def _files(folder: Path) -> dict[str, int]:
    """The sizes of all files; the log by what was added."""
    return {
        str(path.relative_to(folder)): path.stat().st_size
        for path in folder.rglob("*")
        if path.is_file()
    }


# Many versions


def _many(numbers: Sequence[int]) -> list[dict[str, float]]:
    rows = []
    for keep in (5, ALL):
        with tempfile.TemporaryDirectory() as place:
            folder, done = Path(place) / "KG", 0
            graph = init(folder, config=paper_config(dim=16, max_epochs=1), keep=keep)
            graph.add([(f"a{n}", "r", f"a{(7 * n + 1) % 500}") for n in range(500)])
            for versions in numbers:
                _in_process("publish", folder, versions - 2 - done)
                done = versions - 2
                opening = [_in_process("open", folder)["opening"] for _ in range(TIMES)]
                adding = [_in_process("publish", folder)["publishing"] for _ in range(TIMES)]
                done += TIMES
                size = sum(_files(folder).values())
                row = {"kept": keep, "versions": versions, "bytes": size}
                times = {"opening": float(np.median(opening)), "adding": float(np.median(adding))}
                rows.append(row | times)
            shutil.rmtree(folder)
    return rows


def _open(folder: Path) -> dict[str, float]:
    started = time.perf_counter()
    graph = open(folder)
    graph.predict(subject="a3", relation="r")
    return {"opening": time.perf_counter() - started}


def _publish(folder: Path, times: int) -> dict[str, float]:
    """Add a version without training: all that an add does besides."""
    graph, seconds = open(folder), []
    for _ in range(times):
        started = time.perf_counter()
        graph.edit(
            rename=("a3", "b3") if graph.reader.names.entity_table.find("a3") else ("b3", "a3")
        )
        seconds.append(time.perf_counter() - started)
    return {"publishing": float(np.median(seconds or [0.0]))}


def _in_process(what: str, *words: object) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.store", what, *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    measured: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return measured


def _markdown(large: list[dict[str, float]], many: list[dict[str, float]], entities: int) -> str:
    first = [
        f"| {place} | {row['written'] / 1e6:.1f} | {row['training']:.2f} | {row['besides']:.2f} "
        f"| {row['opening']:.2f} | {row['touched']:,.0f} |"
        for place, row in enumerate(large, 1)
    ]
    second = [
        f"| {KEPT_AS[row['kept']]} | {row['versions']:,} | {1e3 * row['opening']:.0f} "
        f"| {1e3 * row['adding']:.0f} | {row['bytes'] / 1e6:.1f} |"
        for row in many
    ]
    return "\n".join(
        [
            "# What a version costs",
            "",
            f"`python -m benchmarks.store`, {platform.machine()}.",
            "",
            f"{NEW_FACTS:,} facts, a tenth of them with a new entity, added to a graph of "
            f"{entities:,} entities, d = {DIM}, with the default settings:",
            "",
            "| add | MB written | training, s | besides training and evaluating, s "
            "| open and first answer after it, s | rows that changed |",
            "| ---: | ---: | ---: | ---: | ---: | ---: |",
            *first,
            "",
            "A graph of 500 entities with many versions; the time to add is that of a version "
            "without training:",
            "",
            "| versions kept | versions | open and first answer, ms | add, ms | on the disk, MB |",
            "| --- | ---: | ---: | ---: | ---: |",
            *second,
            "",
        ]
    )


if __name__ == "__main__":
    main()
