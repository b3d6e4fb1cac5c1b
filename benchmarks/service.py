"""`python -m benchmarks.service`: how `lkge serve` answers while it learns.

A graph of 15,000 entities with 200 coordinates is served by a process of its own. Questions come at
a steady pace, 100 a second, whether the ones before are answered or not; a question's time counts
from the moment when it was due. Meanwhile batches of facts are posted, each as soon as the version
before it has arrived, until five versions were swapped in. Results are kept in
`results/service.md`. Run it on a machine that does nothing else.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.http import Client
from lkge import living
from lkge.data.files import write_text_atomically
from lkge.data.formats import Triple

KEPT = Path(__file__).parents[1] / "results" / "service.md"
ENTITIES, RELATIONS, FACTS_PER_ENTITY, DIM = 15_000, 50, 3, 200
PACE, SWAPS, NEWS = 100, 5, 2_000
MOST_REQUESTS = 60_000
WARM_UP_SECONDS = 2.0
WANTED_SECONDS = 0.05
TOKEN = "a token for measuring"


@dataclass
class Load:
    """What came back: seconds, status and whether something was being learned, by question."""

    seconds: list[float] = field(default_factory=list)
    learning: list[bool] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    versions: set[int] = field(default_factory=set)
    is_learning: bool = False
    is_over: bool = False


@dataclass(frozen=True)
class Latency:
    """Seconds within which so many of the answers came."""

    what: str
    answers: int
    median: float
    p99: float
    slowest: float


def main() -> None:
    """Make a graph, serve it, ask it; print and keep."""
    parser = argparse.ArgumentParser(description="A service under load.")
    parser.add_argument("--entities", type=int, default=ENTITIES)
    parser.add_argument("--dim", type=int, default=DIM)
    size = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "KG"
        make(folder, size.entities, size.dim)
        with subprocess.Popen(_command(folder), stderr=subprocess.PIPE, text=True) as process:
            try:
                load = asyncio.run(measured(_port(process), size.entities))
                process.send_signal(signal.SIGTERM)
                code = process.wait(timeout=60)
            finally:
                process.kill()
    latencies = summaries(load)
    Console().print(_table(load, latencies, code))
    print(json.dumps(_tree(load, latencies, code)))
    if (size.entities, size.dim) == (ENTITIES, DIM):
        write_text_atomically(KEPT, _markdown(load, latencies, code))
        print(f"kept in {KEPT.parent.name}/{KEPT.name}")


def make(folder: Path, entities: int, dim: int) -> None:
    """A graph that was learned for an epoch: how well is of no matter here."""
    graph = living.init(folder, method="lkge", dim=dim, max_epochs=1)
    generator = np.random.default_rng(entities)
    popular = generator.permutation(entities)
    objects = popular[(generator.zipf(1.3, FACTS_PER_ENTITY * entities) - 1) % entities]
    relations = generator.integers(RELATIONS, size=len(objects))
    facts = {
        (_name(k // FACTS_PER_ENTITY), f"relation {relation}", _name(int(other)))
        for k, (relation, other) in enumerate(zip(relations, objects, strict=True))
    }
    graph.add(sorted(facts))


def news(number: int, entities: int) -> list[Triple]:
    """Facts of a batch; every tenth has a new entity."""
    generator = np.random.default_rng(number)
    return [
        (
            f"new {number}-{k}" if k % 10 == 0 else _name(int(generator.integers(entities))),
            f"relation {generator.integers(RELATIONS)}",
            _name(int(generator.integers(entities))),
        )
        for k in range(NEWS)
    ]


async def measured(port: int, entities: int) -> Load:
    """Ask at a steady pace until five more versions were swapped in."""
    load, client = Load(), Client("127.0.0.1", port)
    asking = asyncio.create_task(_ask(load, client, entities))
    await asyncio.sleep(WARM_UP_SECONDS)
    await _teach(load, client, entities)
    load.is_over = True
    await asking
    client.close()
    return load


async def _ask(load: Load, client: Client, entities: int) -> None:
    generator = np.random.default_rng(1)
    started, waiting = time.perf_counter(), set[asyncio.Task[None]]()
    for number in range(MOST_REQUESTS):
        due = started + number / PACE
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
        if load.is_over:
            break
        body = {
            "subject": _name(int(generator.integers(entities))),
            "relation": f"relation {generator.integers(RELATIONS)}",
        }
        task = asyncio.create_task(_one(load, client, body, due))
        waiting.add(task)
        task.add_done_callback(waiting.discard)
    await asyncio.gather(*waiting)


async def _one(load: Load, client: Client, body: object, due: float) -> None:
    during = load.is_learning
    try:
        status, answer = await client.call("POST", "/predict", body)
    except (OSError, ValueError, asyncio.IncompleteReadError) as error:
        load.failures.append(repr(error))
        return
    load.seconds.append(time.perf_counter() - due)
    load.learning.append(during or load.is_learning)
    if status != 200:
        load.failures.append(f"status {status}")
    else:
        load.versions.add(answer["version"])


async def _teach(load: Load, client: Client, entities: int) -> None:
    for number in range(SWAPS):
        body = {"facts": news(number, entities), "valid": 0.02}
        status, job = await client.call("POST", "/facts", body, TOKEN)
        if status != 202:
            raise RuntimeError(f"the facts were not accepted: {job}")
        while job["status"] != "done":
            await asyncio.sleep(0.2)
            status, job = await client.call("GET", f"/jobs/{job['id']}")
            if job["status"] == "failed":
                raise RuntimeError(f"the facts were not learned: {job['detail']}")
            load.is_learning = job["status"] == "learning"
        await asyncio.sleep(0.5)


def summaries(load: Load) -> list[Latency]:
    """Of all answers, and of those that came while something was learned."""
    seconds, during = np.array(load.seconds), np.array(load.learning, dtype=bool)
    parts = {"all": seconds, "while an add is learning": seconds[during]}
    return [
        Latency(what, len(part), *map(float, np.quantile(part, [0.5, 0.99, 1.0])))
        for what, part in parts.items()
        if len(part)
    ]


def _command(folder: Path) -> list[str]:
    os.environ["LKGE_TOKEN"] = TOKEN
    return [sys.executable, "-m", "lkge", "serve", str(folder), "--port", "0"]


def _port(process: subprocess.Popen[str]) -> int:
    for line in process.stderr or ():
        if " at http://" in line:
            return int(line.rsplit(":", 1)[1].strip().rstrip("/"))
    raise RuntimeError("the service did not start")


def _name(entity: int) -> str:
    return f"entity {entity}"


HEADER = ("answers", "how many", "median, ms", "p99, ms", "slowest, ms")


def _row(latency: Latency) -> list[str]:
    times = (latency.median, latency.p99, latency.slowest)
    return [latency.what, f"{latency.answers:,}", *(f"{1000 * each:.1f}" for each in times)]


def _findings(load: Load, latencies: list[Latency], code: int) -> list[str]:
    return [
        f"p99 while an add is learning: {1000 * latencies[-1].p99:.1f} ms "
        f"(wanted: under {1000 * WANTED_SECONDS:.0f})",
        f"errors: {len(load.failures)} over {len(load.versions) - 1} swaps "
        f"(wanted: 0 over {SWAPS})",
        f"the service ended with code {code} (wanted: 0)",
    ]


def _tree(load: Load, latencies: list[Latency], code: int) -> dict[str, object]:
    return {
        "latencies": [asdict(latency) for latency in latencies],
        "errors": len(load.failures),
        "swaps": len(load.versions) - 1,
        "exit_code": code,
        "pace": PACE,
    }


def _table(load: Load, latencies: list[Latency], code: int) -> Table:
    caption = "\n".join(_findings(load, latencies, code))
    table = Table(title=f"/predict at {PACE} requests a second", caption=caption)
    for name in HEADER:
        table.add_column(name, justify="left" if name == HEADER[0] else "right")
    for latency in latencies:
        table.add_row(*_row(latency))
    return table


def _markdown(load: Load, latencies: list[Latency], code: int) -> str:
    lines = [
        "# The service under load",
        "",
        f"`python -m benchmarks.service`, {platform.machine()}, {os.cpu_count()} cores:"
        f" {ENTITIES:,} entities, d = {DIM}, {PACE} questions a second to `/predict`, while"
        f" {SWAPS} batches of {NEWS:,} facts are learned and swapped in.",
        "",
        "| " + " | ".join(HEADER) + " |",
        "| --- | " + " | ".join("---:" for _ in HEADER[1:]) + " |",
        *("| " + " | ".join(_row(latency)) + " |" for latency in latencies),
        "",
        *(f"* {line}" for line in _findings(load, latencies, code)),
        "",
        "```json",
        json.dumps(_tree(load, latencies, code), indent=1),
        "```",
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
