"""`python -m benchmarks.service`: how `lkge serve` answers while it learns.

A graph of a million entities with random rows (see `benchmarks.growth`) is served by a process of
its own. Queries come at a steady pace, 100 a second, whether the ones before are answered or not;
the time of a query counts from the moment when it was due. Meanwhile batches of facts are posted,
each as soon as the version before it has arrived, until twenty versions were swapped in. Then the
same again beside connections that send nothing and connections that send slowly; those that the
service ends are opened again. Results: `results/service.md`. Run it on a machine that does nothing
else.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from itertools import count
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks import growth
from benchmarks.http import Client
from lkge.data.files import write_text_atomically
from lkge.data.formats import Triple
from lkge.provenance import code_of, provenance

KEPT = Path(__file__).parents[1] / "results" / "service.md"
PACE, NEWS = 100, 1_000
WARM_UP_SECONDS = 2.0
WANTED_SECONDS = 0.05
SECONDS_BETWEEN_BYTES = 1.0
TOKEN = "a token for measuring"
HOST = "127.0.0.1"


@dataclass(frozen=True)
class Size:
    """What is measured; the default is what is kept."""

    entities: int = 1_000_000
    swaps: int = 20
    idle: int = 1_000
    slow: int = 100


@dataclass
class Load:
    """What came back: seconds and whether something was being learned, by query; failures."""

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


@dataclass(frozen=True)
class Phase:
    """Latencies and failures of one phase; `ended` counts the idle and slow connections that the
    service has ended."""

    latencies: list[Latency]
    errors: list[str]
    swaps: int
    ended: int


def main() -> None:
    """Make a graph, serve it, query it; print and keep."""
    parser = argparse.ArgumentParser(description="A service under load.")
    for name, value in asdict(Size()).items():
        parser.add_argument(f"--{name}", type=int, default=value)
    size = Size(**vars(parser.parse_args()))
    _allow_connections(size.idle + size.slow + 200)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "KG"
        growth.make(folder, size.entities)
        with (
            (Path(place) / "stderr").open("w+") as log,
            subprocess.Popen(_command(folder), stderr=log, text=True) as process,
        ):
            try:
                phases = asyncio.run(measured(_port(log.name, process), size))
                process.send_signal(signal.SIGTERM)
                code, logged = process.wait(timeout=60), os.fstat(log.fileno()).st_size
            finally:
                process.kill()
    Console().print(_table(phases, code, logged, size))
    print(json.dumps(_tree(phases, code, logged)))
    if size == Size():
        write_text_atomically(KEPT, _markdown(phases, code, logged, size))
        print(f"kept in {KEPT.parent.name}/{KEPT.name}")


def _allow_connections(number: int) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < number:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(number, hard), hard))


def news(number: int, entities: int) -> list[Triple]:
    """Facts of a batch; every tenth has a new entity."""
    generator = np.random.default_rng(number)
    return [
        (
            f"new {number}-{k}" if k % 10 == 0 else _name(int(generator.integers(entities))),
            f"relation {generator.integers(growth.RELATIONS)}",
            _name(int(generator.integers(entities))),
        )
        for k in range(NEWS)
    ]


async def measured(port: int, size: Size) -> list[Phase]:
    """The load alone, and beside connections that idle or are slow."""
    alone = await _phase("", port, size, 0)
    async with others(port, size.idle, size.slow) as ended:
        beside = await _phase(
            f" beside {size.idle:,} idle and {size.slow:,} slow connections", port, size, 1
        )
    return [alone, replace(beside, ended=ended[0])]


async def _phase(what: str, port: int, size: Size, number: int) -> Phase:
    """Query at a steady pace until so many more versions were swapped in."""
    load, client = Load(), Client(HOST, port)
    asking = asyncio.create_task(_ask(load, client, size.entities))
    await asyncio.sleep(WARM_UP_SECONDS)
    try:
        await _add(load, client, size, number * size.swaps)
    finally:
        load.is_over = True
        await asking
        client.close()
    return Phase(summaries(load, what), load.failures, len(load.versions) - 1, 0)


@asynccontextmanager
async def others(port: int, idle: int, slow: int) -> AsyncIterator[list[int]]:
    """Connections that send nothing, and connections that send the head or the body of a request
    byte by byte; the value counts those that were ended."""
    ended = [0]
    request = f"POST /facts HTTP/1.1\r\nHost: {HOST}\r\nContent-Length: 100000\r\n\r\n".encode()
    sent = [b""] * idle + [request if n % 2 else request[:20] for n in range(slow)]
    tasks = [asyncio.create_task(_other(port, first, ended)) for first in sent]
    await asyncio.sleep(WARM_UP_SECONDS)
    try:
        yield ended
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _other(port: int, first: bytes, ended: list[int]) -> None:
    """Keep one such connection open, or open it again."""
    while True:
        with suppress(OSError):
            reader, writer = await asyncio.open_connection(HOST, port)
            writer.write(first)
            while not (reader.at_eof() or writer.is_closing()):
                if first:
                    writer.write(b"x")
                with suppress(TimeoutError):
                    await asyncio.wait_for(reader.read(1000), SECONDS_BETWEEN_BYTES)
            writer.close()
        ended[0] += 1


async def _ask(load: Load, client: Client, entities: int) -> None:
    generator = np.random.default_rng(1)
    started, waiting = time.perf_counter(), set[asyncio.Task[None]]()
    for number in count():
        due = started + number / PACE
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
        if load.is_over:
            break
        body = {
            "subject": _name(int(generator.integers(entities))),
            "relation": f"relation {generator.integers(growth.RELATIONS)}",
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


async def _add(load: Load, client: Client, size: Size, first: int) -> None:
    """Post one batch after the other, each when the one before is learned."""
    for number in range(first, first + size.swaps):
        body = {"facts": news(number, size.entities), "valid": 0.02}
        status, job = await client.call("POST", "/facts", body, TOKEN)
        if status != 202:
            raise RuntimeError(f"the facts were not accepted: {job}")
        while job["status"] != "done":
            await asyncio.sleep(0.2)
            status, answer = await client.call("GET", f"/jobs/{job['id']}")
            if status != 200:  # it counts as an error
                load.failures.append(f"status {status} of a job")
                continue
            job = answer
            if job["status"] == "failed":
                raise RuntimeError(f"the facts were not learned: {job['detail']}")
            load.is_learning = job["status"] == "learning"
        await asyncio.sleep(0.5)


def summaries(load: Load, what: str) -> list[Latency]:
    """Of all answers, and of those that came while something was learned."""
    seconds, during = np.array(load.seconds), np.array(load.learning, dtype=bool)
    parts = {f"all{what}": seconds, f"during training{what}": seconds[during]}
    return [
        Latency(name, len(part), *map(float, np.quantile(part, [0.5, 0.99, 1.0])))
        for name, part in parts.items()
        if len(part)
    ]


def _command(folder: Path) -> list[str]:
    os.environ["LKGE_TOKEN"] = TOKEN
    return [sys.executable, "-m", "lkge", "serve", str(folder), "--port", "0"]


def _port(log: str, process: subprocess.Popen[str]) -> int:
    while process.poll() is None:
        for line in Path(log).read_text().splitlines():
            if " at http://" in line:
                return int(line.rsplit(":", 1)[1].strip().rstrip("/"))
        time.sleep(0.2)
    raise RuntimeError(f"the service did not start: {Path(log).read_text()}")


def _name(entity: int) -> str:
    return f"entity {entity}"


HEADER = ("answers", "number", "median, ms", "p99, ms", "slowest, ms")


def _row(latency: Latency) -> list[str]:
    times = (latency.median, latency.p99, latency.slowest)
    return [latency.what, f"{latency.answers:,}", *(f"{1000 * each:.1f}" for each in times)]


def _findings(phases: list[Phase], code: int, logged: int, size: Size) -> list[str]:
    alone, beside = (phase.latencies[-1].p99 for phase in phases)
    errors, swaps = (sum(len(p.errors) for p in phases), sum(p.swaps for p in phases))
    return [
        f"p99 during training: {1000 * alone:.1f} ms, and {1000 * beside:.1f} ms beside the other "
        f"connections (target: under {1000 * WANTED_SECONDS:.0f})",
        f"errors: {errors} over {swaps} activations (target: 0 over {2 * size.swaps})",
        f"idle and slow connections that the service ended: {phases[-1].ended:,}; "
        f"its log has {logged:,} bytes",
        f"the service ended with code {code} (target: 0)",
    ]


def _tree(phases: list[Phase], code: int, logged: int) -> dict[str, object]:
    return {
        "phases": [asdict(phase) for phase in phases],
        "exit_code": code,
        "log_bytes": logged,
        "pace": PACE,
        "code": code_of(provenance()),
    }


def _table(phases: list[Phase], code: int, logged: int, size: Size) -> Table:
    caption = "\n".join(_findings(phases, code, logged, size))
    table = Table(title=f"/predict at {PACE} requests a second", caption=caption)
    for name in HEADER:
        table.add_column(name, justify="left" if name == HEADER[0] else "right")
    for phase in phases:
        for latency in phase.latencies:
            table.add_row(*_row(latency))
    return table


def _markdown(phases: list[Phase], code: int, logged: int, size: Size) -> str:
    rows = [latency for phase in phases for latency in phase.latencies]
    lines = [
        "# The service under load",
        "",
        f"Command: `python -m benchmarks.service`, {platform.machine()}, {os.cpu_count()} cores:"
        f" {size.entities:,} entities, dimension {growth.DIM}, {growth.METHOD}, {PACE} requests a"
        f" second to `/predict`, while {size.swaps} batches of {NEWS:,} facts are learned, each"
        " activated as a new version. Then the same beside idle and slow connections.",
        f"The code is {code_of(provenance())}.",
        "",
        "| " + " | ".join(HEADER) + " |",
        "| --- | " + " | ".join("---:" for _ in HEADER[1:]) + " |",
        *("| " + " | ".join(_row(latency)) + " |" for latency in rows),
        "",
        *(f"* {line}" for line in _findings(phases, code, logged, size)),
        "",
        "```json",
        json.dumps(_tree(phases, code, logged), indent=1),
        "```",
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
