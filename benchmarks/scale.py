"""`python -m benchmarks.scale --data FOLDER`: a large graph on the default path.

FOLDER has `base.tsv.xz` and `papers.tsv.xz`: facts on human genes, and papers that mention them. A
hundredth of the facts is held out. The rest is learned by `lkge init --from`, without a setting
unless one is given behind the options, such as `--max-epochs 2`; then `lkge add` adds a thousand
facts. Each command is a process of its own, whose time and memory are measured. The MRR is that of
held-out facts, both directions, ranked among all entities. Results: `results/scale.md`. Run it on a
machine that does nothing else.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from rich.console import Console

from lkge.data.fact_list import FactList
from lkge.data.facts import read_facts
from lkge.data.files import write_text_atomically
from lkge.data.formats import format_tsv
from lkge.data.known_facts import KnownFacts
from lkge.data.names import MappedNames
from lkge.data.snapshots import with_inverses
from lkge.living import open
from lkge.models.predictor import View
from lkge.provenance import code_of, machine_of, provenance
from lkge.store.update_split import held_out

KEPT = Path(__file__).parents[1] / "results" / "scale.md"
BASE, PAPERS = "base.tsv.xz", "papers.tsv.xz"
TEST_SHARE, NEW_FACTS, RANKED = 0.01, 1_000, 5_000


@dataclass(frozen=True)
class Cost:
    """Seconds and the peak of memory in bytes of a process."""

    seconds: float
    peak: int


@dataclass(frozen=True)
class Scale:
    """What one graph costs, and how good it is."""

    graph: str
    entities: int
    facts: int
    settings: dict[str, object]
    reading: Cost
    init: Cost
    epochs: int
    mrr: float
    hits10: float
    ranked: int
    add: Cost


def main() -> None:
    """Measure, print, keep; or, called by itself, read the files in this process."""
    if sys.argv[1:2] == ["read"]:
        FactList.joined(read_facts(path) for path in sys.argv[2:])
        return
    parser = argparse.ArgumentParser(description="A large graph on the default path.")
    parser.add_argument("--data", type=Path, required=True, help="the folder of the two files")
    parser.add_argument("--all", action="store_true", help="learn the papers, too")
    parser.add_argument("--keep", type=Path, help="make the graph in this folder, and keep it")
    options, settings = parser.parse_known_args()
    files = [options.data / name for name in ((BASE, PAPERS) if options.all else (BASE,))]
    with tempfile.TemporaryDirectory() as place:
        folder = options.keep or Path(place)
        folder.mkdir(parents=True, exist_ok=True)
        found = measured(files, options.data / PAPERS, folder, settings)
    Console().print_json(json.dumps(asdict(found)))
    write_text_atomically(KEPT, markdown(found, settings))


def measured(files: list[Path], papers: Path, folder: Path, settings: list[str]) -> Scale:
    """All figures of a graph of these files."""
    reading = timed(sys.executable, "-m", "benchmarks.scale", "read", *map(str, files))
    facts = FactList.joined(read_facts(file) for file in files)
    nobody = MappedNames.of()
    held = held_out(facts.ids, TEST_SHARE, nobody, np.random.default_rng(0))
    test = facts.at(np.sort(held))
    written(folder / "train.tsv", facts.at(np.delete(np.arange(len(facts)), held)))
    kg, news = folder / "KG", folder / "news.tsv"
    lkge = (sys.executable, "-m", "lkge")
    init = timed(*lkge, "init", str(kg), "--from", str(folder / "train.tsv"), *settings)
    mrr, hits10, ranked = quality(kg, facts, test)
    graph = open(kg)
    known = set(graph.reader.names.entity_table)
    new = [fact for fact in read_facts(papers) if fact[0] in known and fact[2] not in known]
    written(news, FactList.of(new[:NEW_FACTS] or list(test)[:NEW_FACTS]))
    add = timed(*lkge, "add", str(kg), str(news))
    return Scale(
        graph=" and ".join(file.name for file in files),
        entities=len(facts.entities),
        facts=len(facts),
        settings={name: graph.config.get(name) for name in SETTINGS},
        reading=reading,
        init=init,
        epochs=graph.log()[-1].epochs,
        mrr=mrr,
        hits10=hits10,
        ranked=ranked,
        add=add,
    )


SETTINGS = (
    *("model.dim", "training.batch_size", "training.candidate_fraction", "training.max_candidates"),
    *("training.n3", "training.learning_rate", "training.max_epochs"),
)


def quality(kg: Path, facts: FactList, test: FactList) -> tuple[float, float, int]:
    """MRR and Hits@10 of some test facts among all entities, filtered by all facts."""
    reader = open(kg).reader
    entities = reader.names.entity_table.find_all(facts.entities)
    relations = 2 * reader.names.relation_table.find_all(facts.relations)
    known = KnownFacts.build([facts.numbered(entities, relations)])
    chosen = np.random.default_rng(1).permutation(len(test))[:RANKED]
    queries = with_inverses(test.at(chosen).numbered(entities, relations))
    ranks = reader.predictor.ranks(queries, [View(reader.num_entities, 0)], known)[:, 0]
    return float((1 / ranks).mean()), float((ranks <= 10).mean()), len(chosen)


def written(path: Path, facts: FactList) -> None:
    """Write a TSV file."""
    path.write_bytes(format_tsv(list(facts), str(path)))


def timed(*command: str) -> Cost:
    """Run a command and measure it."""
    started = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"failed: {' '.join(command)}")
    return Cost(time.perf_counter() - started, usage.ru_maxrss << 10)


def markdown(scale: Scale, settings: list[str]) -> str:
    """The page of the results."""
    made = provenance()
    rows = {
        "reading, checking and numbering": f"{scale.reading.seconds:.1f} s, {gib(scale.reading)}",
        "`lkge init --from`": f"{scale.init.seconds:.0f} s, {gib(scale.init)}, "
        f"{scale.epochs} epochs",
        "MRR of held-out facts": f"{scale.mrr:.3f}",
        "Hits@10": f"{scale.hits10:.3f}",
        f"`lkge add` of {NEW_FACTS:,} facts": f"{scale.add.seconds:.1f} s, {gib(scale.add)}",
    }
    lines = [
        "# A large graph",
        "",
        f"`python -m benchmarks.scale {' '.join(['--data genes', *settings])}`, "
        f"lkge {code_of(made)}, {machine_of(made)}.",
        "",
        f"{scale.graph}: {scale.entities:,} entities, {scale.facts:,} facts, {TEST_SHARE:.0%} held "
        f"out. {scale.ranked:,} of these are ranked in both directions among all entities.",
        "",
        "| what | figures |",
        "| --- | --- |",
        *(f"| {name} | {value} |" for name, value in rows.items()),
        "",
        "```json",
        json.dumps(asdict(scale), indent=1),
        "```",
    ]
    return "\n".join(lines) + "\n"


def gib(cost: Cost) -> str:
    """Peak memory."""
    return f"{cost.peak / 2**30:.2f} GiB"


if __name__ == "__main__":
    main()
