"""`python -m benchmarks.answers`: how long an answer takes, and that it is the one of a full scan.

Rows are those of the default method, trained on a dataset with `--data PATH/dataset.zip` and on the
embedded graph without: each row of the large table is a trained one plus `MIXED` times the
difference of two others, so the table has the spectrum and the lengths of trained rows. With
`--random` rows are drawn from a normal distribution. The large table is the first version of a
living graph, which answers on one thread by `predict` and `similar`. Beside it, in the same
process, on the same rows, queries and thread: a full scan, and where faiss-cpu is installed its
flat index, and its Panorama index over coordinates rotated to the principal axes. Each answer of
the search is compared with that of the full scan, bit by bit. Results: `results/answers.md`. Run it
on a machine that does nothing else.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

os.environ["OMP_NUM_THREADS"] = "1"

import numpy as np
import torch
from rich.console import Console

from lkge.api import load, run
from lkge.backends.torch_search import Best, Search, best_of
from lkge.configure import configure
from lkge.data.files import write_text_atomically
from lkge.data.names import MappedNames
from lkge.models.model import xavier_parameters
from lkge.models.parameters import Parameters
from lkge.models.predictor import TablePredictor
from lkge.provenance import code_of, machine_of, provenance
from lkge.store.graph import LivingGraph, create
from lkge.store.initial import InitialVersion
from lkge.store.records import Options

KEPT = Path(__file__).parents[1] / "results" / "answers.md"
RELATIONS = 50
SIZES = ((100_000, 200), (1_000_000, 200), (10_000_000, 64))
EPOCHS = 3
"""Of each snapshot of the dataset."""
MIXED, K, QUERIES = 0.3, 10, 200
LEVELS = 8
"""Of the Panorama index."""
WANTED_MS = {1_000_000: 25.0, 10_000_000: 150.0}
WANTED_RATIO = 2.0


Found = tuple[list[int], bytes]


@dataclass(frozen=True)
class Times:
    """Milliseconds of queries: wall time, and the median of the time of the processor."""

    p50: float
    p99: float
    cpu: float


@dataclass(frozen=True)
class Answers:
    """What one table costs, by name of what was measured; and what was compared."""

    entities: int
    dim: int
    quantising: float
    times: dict[str, Times] = field(default_factory=dict)
    equal: int = 0
    compared: int = 0


def main() -> None:
    """Measure, print, keep."""
    parser = argparse.ArgumentParser(description="How long an answer takes.")
    parser.add_argument("--data", type=Path, help="the archive of the paper's datasets")
    parser.add_argument("--random", action="store_true", help="rows from a normal distribution")
    parser.add_argument("--size", action="append", metavar="ENTITIES:DIM", help="instead of all")
    parser.add_argument("--queries", type=int, default=QUERIES)
    options = parser.parse_args()
    torch.set_num_threads(1)
    sizes = [tuple(map(int, each.split(":"))) for each in options.size or ()] or SIZES
    found = []
    for size, dim in sizes:
        with tempfile.TemporaryDirectory() as place:
            graph = _made(Path(place) / "KG", _rows_of(size, dim, options))
            found.append(_asked(graph, np.random.default_rng(0), size, dim, options.queries))
        Console().print_json(json.dumps(asdict(found[-1])))
    text = _markdown(found, options)
    print(text)
    write_text_atomically(KEPT, text)


def _rows_of(size: int, dim: int, options: argparse.Namespace) -> Parameters:
    """Random rows, or rows mixed from trained ones."""
    generator = np.random.default_rng(size)
    if options.random:
        return xavier_parameters(size, RELATIONS, dim, generator)
    learned = _trained(dim, options.data)
    rows = learned.entity.numpy()
    relations = learned.relation[torch.arange(2 * RELATIONS) % len(learned.relation)]
    entity = np.empty((size, dim), dtype=np.float32)
    for start in range(0, size, 1 << 18):
        part = entity[start : start + (1 << 18)]
        one, two, three = generator.integers(0, len(rows), (3, len(part)))
        part[:] = rows[one] + np.float32(MIXED) * (rows[two] - rows[three])
    return Parameters(torch.from_numpy(entity), relations)


@cache
def _trained(dim: int, data: Path | None) -> TablePredictor:
    """The last model of the default method."""
    graph = load("ENTITY", data) if data else load("brick")
    learned = run(graph, dim=dim, max_epochs=EPOCHS, seed=1).predictor
    assert isinstance(learned, TablePredictor)
    return learned


def _made(folder: Path, tables: Parameters) -> LivingGraph:
    """A living graph of these rows, each entity with one fact."""
    size, dim = tables.entity.shape
    generator = np.random.default_rng(size)
    objects, relations = generator.integers(0, size, size), generator.integers(0, RELATIONS, size)
    facts = np.stack([np.arange(size), 2 * relations, objects], axis=1).astype(np.int32)
    counts = Parameters(torch.full((size,), 2.0), torch.full((2 * RELATIONS,), size / RELATIONS))
    names = MappedNames.of(
        (f"entity {number}" for number in range(size)),
        (f"relation {number}" for number in range(RELATIONS)),
    )
    tensors = tables.named("tables") | counts.named("method.facts")
    config = configure({"dim": dim}, living=True)
    return create(folder, InitialVersion(config, tensors, names, facts, 1, "made"), Options())


def _asked(
    graph: LivingGraph, generator: np.random.Generator, size: int, dim: int, queries: int
) -> Answers:
    """All measurements of a graph."""
    predictor = graph.reader.predictor
    assert isinstance(predictor, TablePredictor)
    numbers = generator.integers(0, size, queries)
    asked = np.stack([numbers, generator.integers(0, 2 * RELATIONS, queries), numbers], axis=1)
    vectors = predictor.queries(asked.astype(np.int32))
    names = [(f"entity {s}", f"relation {r // 2}", r % 2) for s, r, _ in asked.tolist()]
    search, left = predictor.search, np.ones(size, np.bool_)
    started = time.perf_counter()
    search.best(vectors[:1], K, left)
    result = Answers(size, dim, time.perf_counter() - started)

    def predict(query: int) -> object:
        entity, relation, is_inverse = names[query]
        role = "object" if is_inverse else "subject"
        return graph.predict(relation=relation, k=K, **{role: entity})

    def best(query: int) -> Found:
        return _without_list(search.best(vectors[query : query + 1], K, left))

    def full(query: int) -> Found:
        products = search.products(vectors[query : query + 1])
        return _without_list(best_of(products, K, left))

    def near(query: int) -> Found:
        return _without_list(search.nearest(int(numbers[query]), K, left))

    def full_near(query: int) -> Found:
        return _without_list(best_of(search.cosines(int(numbers[query])), K, left))

    few = min(queries, 20)
    times = result.times
    times["predict"], _ = _times(predict, queries)
    times["similar"], _ = _times(lambda query: graph.similar(names[query][0], K), queries)
    times["search"], found = _times(best, queries)
    times["full scan"], expected = _times(full, few)
    pairs = [*zip(found[:few], expected, strict=True)]
    pairs += [(near(query), full_near(query)) for query in range(few)]
    equal = sum(one == other for one, other in pairs)
    times |= _faiss(search, vectors.numpy(), few)
    return Answers(size, dim, result.quantising, times, equal, len(pairs))


def _without_list(best: Best) -> Found:
    """Places and scores, to compare bit by bit."""
    return best.places.tolist(), best.scores.tobytes()


def _times(ask: Callable[[int], Any], queries: int) -> tuple[Times, list[Any]]:
    """The times of some queries, after one that is not measured, and the answers."""
    ask(0)
    walls, processor, answers = [], [], []
    for query in range(queries):
        wall, cpu = time.perf_counter(), time.process_time()
        answers.append(ask(query))
        walls.append(time.perf_counter() - wall)
        processor.append(time.process_time() - cpu)
    p50, p99 = 1000 * np.quantile(walls, (0.5, 0.99))
    return Times(float(p50), float(p99), 1000 * float(np.median(processor))), answers


def _faiss(search: Search, vectors: np.ndarray[Any, Any], queries: int) -> dict[str, Times]:
    """The indexes of faiss-cpu that are exact."""
    try:
        import faiss
    except ImportError:
        return {}
    faiss.omp_set_num_threads(1)
    rows = search.entity.numpy()
    dim = rows.shape[1]
    indexes = {"faiss flat": faiss.IndexFlatIP(dim)}
    if hasattr(faiss, "IndexFlatIPPanorama"):
        rotation = faiss.PCAMatrix(dim, dim)
        rotation.train(rows[:: max(1, len(rows) // 50_000)])
        rotation.b.clear()  # a shift would change inner products
        rotation.have_bias = False
        panorama = faiss.IndexFlatIPPanorama(dim, LEVELS)
        indexes["faiss Panorama"] = faiss.IndexPreTransform(rotation, panorama)
    found = {}
    for name, index in indexes.items():
        for start in range(0, len(rows), 1 << 18):
            index.add(rows[start : start + (1 << 18)])
        asked = _faiss_query(index, vectors)
        found[name], _ = _times(asked, queries)
        index.reset()
    return found


def _faiss_query(index: Any, vectors: np.ndarray[Any, Any]) -> Callable[[int], Any]:
    return lambda query: index.search(vectors[query : query + 1], K)


HEADER = ("entities", "d", "what", "p50, ms", "p99, ms", "processor, ms")


def _rows(found: Sequence[Answers]) -> list[str]:
    return [
        f"| {one.entities:,} | {one.dim} | {name} | {times.p50:.1f} | {times.p99:.1f} "
        f"| {times.cpu:.1f} |"
        for one in found
        for name, times in one.times.items()
    ]


def _findings(one: Answers) -> list[str]:
    lines = [
        f"{one.entities:,}: {one.equal} of {one.compared} answers are those of a full scan; rows "
        f"are quantised and searched for the first time in {one.quantising:.2f} s"
    ]
    if wanted := WANTED_MS.get(one.entities):
        slowest = max(one.times[name].p99 for name in ("predict", "similar"))
        lines.append(f"{one.entities:,}: p99 {slowest:.1f} ms (target: at most {wanted:g})")
    for name in ("faiss flat", "faiss Panorama"):
        if name in one.times:
            ratio = one.times[name].cpu / one.times["search"].cpu
            target = f" (target: {WANTED_RATIO:g})" if name == "faiss flat" else ""
            lines.append(
                f"{one.entities:,}: the search is {ratio:.1f} times as fast as {name}, by the time "
                f"of the processor{target}"
            )
    return lines


def _markdown(found: Sequence[Answers], options: argparse.Namespace) -> str:
    """The page of the results."""
    made = provenance()
    trained = f"mixed from rows trained on {'ENTITY' if options.data else 'the embedded graph'}"
    lines = [
        "# Answers",
        "",
        f"`python -m benchmarks.answers{' --data dataset.zip' if options.data else ''}"
        f"{' --random' if options.random else ''}`, lkge {code_of(made)}, {machine_of(made)}"
        f"{_faiss_version()}.",
        "",
        f"Rows are {'random' if options.random else trained}. One thread, k = {K}. `predict` and "
        "`similar` are those of a living graph, with names and plausibility. The others find "
        "places and scores only.",
        "",
        f"| {' | '.join(HEADER)} |",
        "| ---: | ---: | --- | ---: | ---: | ---: |",
        *_rows(found),
        "",
        *(f"* {line}" for one in found for line in _findings(one)),
        "",
        "```json",
        json.dumps([asdict(one) for one in found], indent=1),
        "```",
    ]
    return "\n".join(lines) + "\n"


def _faiss_version() -> str:
    try:
        import faiss
    except ImportError:
        return ""
    return f", faiss-cpu {faiss.__version__}"


if __name__ == "__main__":
    main()
