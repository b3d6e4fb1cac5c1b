"""`python -m benchmarks.growth`: what it costs to add a thousand facts to graphs of three sizes.

Each graph is of the method that `lkge init` takes. It has three facts an entity, whose objects are
drawn as Zipf's law has it, and random rows of 100 coordinates: a step costs the same whatever the
rows say. Facts are added and the first query is answered in processes of their own, whose memory is
measured. Results: `results/growth-of-updates.md`. Run it on a machine that does nothing else.
"""

from __future__ import annotations

import json
import platform
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from lkge.configure import configure
from lkge.data.files import write_text_atomically
from lkge.data.formats import Triple
from lkge.data.names import MappedNames
from lkge.data.snapshots import Facts
from lkge.living import open
from lkge.models.model import xavier_parameters
from lkge.store.graph import create
from lkge.store.initial import InitialVersion
from lkge.store.records import Options

KEPT = Path(__file__).parents[1] / "results" / "growth-of-updates.md"
SIZES = (10_000, 100_000, 1_000_000)
RELATIONS, FACTS_PER_ENTITY, DIM = 50, 3, 100
METHOD = configure(living=True).method.name
NEW_FACTS, NEW_ENTITIES, UPDATES = 1_000, 100, 3
WANTED_RATIO, WANTED_SECONDS, WANTED_MEMORY = 2.0, 2.0, 2.0


@dataclass(frozen=True)
class Cost:
    """What one graph costs: times in seconds (the median of some updates), memory in bytes. Its
    tables are the rows that answer and the sums of squares that Adagrad keeps of them."""

    entities: int
    learning: float
    whole_add: float
    opening: float
    tables: int
    peak: int


def main() -> None:
    """Measure, print, keep; or, called by itself, do one thing in this process."""
    match sys.argv[1:]:
        case ["add", folder, number]:
            print(json.dumps(_add(Path(folder), int(number))))
        case ["ask", folder]:
            print(json.dumps(_ask(Path(folder))))
        case _:
            costs = [_cost(size) for size in SIZES]
            Console().print(_table(costs))
            write_text_atomically(KEPT, _markdown(costs))
            print(f"kept in {KEPT.parent.name}/{KEPT.name}")


def _cost(size: int) -> Cost:
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "KG"
        make(folder, size)
        tables = 2 * 4 * DIM * size
        updates = [_in_process("add", folder, str(number)) for number in range(UPDATES)]
        answers = [_in_process("ask", folder) for _ in range(UPDATES)]
    return Cost(
        entities=size,
        learning=float(np.median([update["learning"] for update in updates])),
        whole_add=float(np.median([update["whole"] for update in updates])),
        opening=float(np.median([answer["opening"] for answer in answers])),
        tables=tables,
        peak=max(update["peak"] for update in updates),
    )


def _in_process(what: str, *words: object) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.growth", what, *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    measured: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return measured


def make(folder: Path, size: int) -> None:
    """A graph of that size, as if it had been learned."""
    generator = np.random.default_rng(size)
    config = configure({"dim": DIM}, living=True)
    tables = xavier_parameters(size, RELATIONS, DIM, generator)
    facts = _facts(size, generator)
    names = MappedNames.of(map(_name, range(size)), (f"relation {r}" for r in range(RELATIONS)))
    sums = tables.map(torch.square)
    tensors = (
        tables.named("tables")
        | sums.named("method.optimizer.sums")
        | {
            "method.facts.entity": torch.from_numpy(
                np.bincount(facts[:, (0, 2)].ravel(), minlength=size).astype(np.float32)
            ),
            "method.facts.relation": torch.full((2 * RELATIONS,), len(facts) / RELATIONS),
        }
    )
    create(folder, InitialVersion(config, tensors, names, facts, 1, "made"), Options())


def _facts(size: int, generator: np.random.Generator) -> Facts:
    """Every entity is the subject of some facts; objects follow Zipf's law."""
    subjects = np.repeat(np.arange(size), FACTS_PER_ENTITY)
    popular = generator.permutation(size)
    objects = popular[(generator.zipf(1.3, len(subjects)) - 1) % size]
    relations = 2 * generator.integers(0, RELATIONS, len(subjects))
    return np.unique(np.stack([subjects, relations, objects], axis=1).astype(np.int32), axis=0)


def _name(entity: int) -> str:
    return f"entity {entity}"


def _news(entities: int, number: int) -> list[Triple]:
    """A thousand facts, of which every tenth brings a new entity."""
    generator = np.random.default_rng(number)
    share = NEW_FACTS // NEW_ENTITIES
    return [
        (
            _name(entities + k // share if k % share == 0 else int(generator.integers(entities))),
            f"relation {generator.integers(RELATIONS)}",
            _name(int(generator.integers(entities))),
        )
        for k in range(NEW_FACTS)
    ]


def _add(folder: Path, number: int) -> dict[str, float]:
    """Learn a thousand facts; kernels are loaded beforehand, as in a process that goes on."""
    from lkge.training.events import ignore
    from lkge.training.warmup import warm_up

    graph = open(folder)
    warm_up(graph.config, ignore)
    news = _news(graph.reader.num_entities, number)
    started = time.perf_counter()
    record = graph.add(news)
    whole = time.perf_counter() - started
    return {"learning": record.seconds, "whole": whole, "peak": _peak()}


def _peak() -> int:
    """The most memory that this process has had, pages of mapped files included. What getrusage
    says includes the process that started it."""
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return int(status.split("VmHWM:")[1].split()[0]) << 10


def _ask(folder: Path) -> dict[str, float]:
    """Open the graph and ask the first question."""
    started = time.perf_counter()
    graph = open(folder)
    graph.predict(subject=_name(7), relation="relation 3")
    return {"opening": time.perf_counter() - started}


HEADER = (
    *("entities", "learning, s", "whole add, s", "open and first answer, s"),
    *("tables and sums, MB", "peak memory, MB"),
)


def _row(cost: Cost) -> list[str]:
    return [
        f"{cost.entities:,}",
        *(f"{seconds:.2f}" for seconds in (cost.learning, cost.whole_add, cost.opening)),
        *(f"{size / 1e6:,.0f}" for size in (cost.tables, cost.peak)),
    ]


def _findings(costs: list[Cost]) -> list[str]:
    small, large = costs[0], costs[-1]
    ratio, memory = large.learning / small.learning, large.peak / large.tables
    return [
        f"learning takes {ratio:.2f} times as long in a graph "
        f"{large.entities // small.entities} times as large (wanted: under {WANTED_RATIO:g})",
        f"opening {large.entities:,} entities and the first answer: {large.opening:.2f} s "
        f"(wanted: under {WANTED_SECONDS:g})",
        f"peak memory of the whole process that adds to {large.entities:,} entities: "
        f"{memory:.2f} times its tables and sums (wanted: under {WANTED_MEMORY:g})",
    ]


def _table(costs: list[Cost]) -> Table:
    table = Table(title=f"Adding {NEW_FACTS:,} facts", caption="\n".join(_findings(costs)))
    for name in HEADER:
        table.add_column(name, justify="right")
    for cost in costs:
        table.add_row(*_row(cost))
    return table


def _markdown(costs: list[Cost]) -> str:
    lines = [
        "# What an update costs",
        "",
        f"`python -m benchmarks.growth`, {platform.machine()}: {NEW_FACTS:,} facts with"
        f" {NEW_ENTITIES} new entities added to graphs of three sizes, d = {DIM}, {METHOD}.",
        "",
        "| " + " | ".join(HEADER) + " |",
        "| " + " | ".join("---:" for _ in HEADER) + " |",
        *("| " + " | ".join(_row(cost)) + " |" for cost in costs),
        "",
        *(f"* {line}" for line in _findings(costs)),
        "",
        "```json",
        json.dumps([asdict(cost) for cost in costs], indent=1),
        "```",
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
