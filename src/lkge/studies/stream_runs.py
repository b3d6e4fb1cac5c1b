"""The runs of `lkge bench streams`, each in a process of its own: living graphs are made and grown
by the public API, `lkge.init` and `LivingGraph.add`, and are measured at some points.

    python -m lkge.studies.stream_runs RUN FOLDER

RUN is a `StreamRun` as JSON. FOLDER has the living graph, `KG`, and the state of the run. A run
that was stopped goes on; the time of the add that was stopped is not counted.
"""

import math
import shlex
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
from pydantic import TypeAdapter
from rich.console import Console

from lkge import living, provenance
from lkge.data import files
from lkge.data.formats import Triple
from lkge.data.known_facts import KnownFacts
from lkge.data.snapshots import Facts, with_inverses
from lkge.errors import LkgeError, RunError
from lkge.evaluation.results import accuracy
from lkge.models.predictor import View
from lkge.store.graph import LivingGraph
from lkge.store.reader import Reader
from lkge.store.records import StoreConfig
from lkge.store.versions import KNOWN
from lkge.studies import stream_results
from lkge.studies.display import observing
from lkge.studies.result_store import RESULTS, require_same
from lkge.studies.runner import Failure, Job, compile_kernels, run_jobs
from lkge.studies.stream_results import (
    AT_ONCE,
    FINE_TUNE,
    LKGE,
    Point,
    Quality,
    Seconds,
    StreamFacts,
    StreamResults,
    StreamRun,
)
from lkge.studies.streams import Ints, Stream, read_stream
from lkge.training.events import ignore
from lkge.training.warmup import warm_up

PROGRAM = (sys.executable, "-m", "lkge.studies.stream_runs")
GRAPH, LOCK = "KG", "run.lock"
STOPPED = 130
EMBEDDINGS = "tables."
"""How the names of arrays of a version begin that are not carried beside the embeddings."""


@dataclass(frozen=True)
class StreamJob(Job):
    """A run as a job: a process that gets the run as JSON."""

    run: StreamRun

    @property
    def is_begun(self) -> bool:
        """Whether the run has a state."""
        return (self.folder / RESULTS).is_file()

    def require_same(self) -> None:
        """RunError if another run was begun in the folder."""
        file = self.folder / RESULTS
        stream_results.require_same_run(file, stream_results.read_results(file), self.run)

    def command(self, data: Path | None) -> list[str]:
        """The command of the process."""
        run = TypeAdapter(StreamRun).dump_json(self.run).decode()
        return [*PROGRAM, run, str(self.folder)]

    def status(self) -> str:
        """The number of adds so far."""
        if not self.is_begun:
            return "starting"
        state = stream_results.read_results(self.folder / RESULTS)
        if self.run.system == AT_ONCE:
            return f"{len(state.points)} of {len(self.run.points)} points"
        return f"{max(0, len(state.batches) - 1):,} of {max(self.run.points):,} adds"


def run_streams(
    runs: Sequence[StreamRun], console: Console, *, out: Path, folder: Path, at_once: int
) -> list[Failure]:
    """Make the runs that are not stored yet in `out`; `folder` holds their folders."""
    stored = stream_results.stored_runs(runs, out)
    jobs = [
        StreamJob(run.name, run.config(), folder / run.name, run)
        for run in runs
        if run not in stored
    ]
    if at_once > 1:
        compile_kernels(jobs, console)

    def store(job: Job) -> None:
        stream_results.store(job.folder, out / f"{job.name}.json")

    with observing(console, len(runs), len(stored)) as observer:
        return run_jobs(jobs, at_once=at_once, store=store, observer=observer)


def run_stream(run: StreamRun, folder: Path) -> StreamResults:
    """Make a run in a folder, or go on with it. One process at a time does so."""
    files.make_folders(folder)
    with files.held(folder / LOCK) as alone:
        if not alone:
            raise RunError(f"{folder}: another process makes this run; wait for it to end")
        return _run_alone(run, folder)


def _run_alone(run: StreamRun, folder: Path) -> StreamResults:
    stream = read_stream(run.stream, run.split)
    state = _opened(run, stream, folder)
    if state.is_complete:
        return state
    warm_up(run.config(), ignore)
    if run.system == AT_ONCE:
        return _at_once(run, stream, state, folder)
    graph, state = _graph(run, folder / GRAPH, state)
    for batch in range(graph.reader.manifest.last_batch, max(run.points) + 1):
        if batch:
            state = _measured(graph, stream, state, batch - 1, folder)
        seconds = _timed(graph, stream.batch(batch), stream.retractions(batch), batch)
        state = state.with_batch(batch, seconds)
        state.write(folder / RESULTS)
    return _measured(graph, stream, state, max(run.points), folder)


def _opened(run: StreamRun, stream: Stream, folder: Path) -> StreamResults:
    """The state of a run so far."""
    file, facts = folder / RESULTS, StreamFacts.of(stream)
    now, config = provenance.provenance(), run.config().to_dict()
    if not file.is_file():
        state = StreamResults(run, facts, config, asdict(StoreConfig()), now)
        state.write(file)
        return state
    state = stream_results.read_results(file)
    stream_results.require_same_run(file, state, run)
    if state.stream.digest != facts.digest:
        raise RunError(f"{file}: was made of other facts; move the folder away to begin anew")
    return replace(state, provenance=provenance.continued(state.provenance, now))


def _graph(run: StreamRun, place: Path, state: StreamResults) -> tuple[LivingGraph, StreamResults]:
    """The living graph of a run: a new one, or as far as it has come. What it accepted before the
    process was stopped is learned now; nobody knows how long that took in all."""
    if not place.exists():
        return _made(run, place), state
    graph = living.open(place)
    require_same(place, graph.config.to_dict(), run.config())
    graph.learn_waiting()
    for batch in range(len(state.batches), graph.reader.manifest.last_batch):
        state = state.with_batch(batch, Seconds())
    return graph, state


def _made(run: StreamRun, place: Path) -> LivingGraph:
    """`lkge init KG`, or another method by `--method`, with a seed."""
    if run.system not in (FINE_TUNE, LKGE):
        return living.init(place, seed=run.seed, **run.settings)
    return living.init(place, config=run.config())


def _timed(graph: LivingGraph, facts: list[Triple], gone: list[Triple], batch: int) -> Seconds:
    """Add facts, and consolidate if that is due; the time it takes, to the millisecond."""
    started = time.perf_counter()
    record = graph.add(facts, retract=gone, source=f"batch {batch}", consolidate=False)
    added = time.perf_counter()
    graph.consolidate()
    spent = (added - started, record.seconds, time.perf_counter() - added)
    return Seconds(*(round(seconds, 3) for seconds in spent))


def _measured(
    graph: LivingGraph, stream: Stream, state: StreamResults, adds: int, folder: Path
) -> StreamResults:
    """The state with a point after so many adds, if it is wanted and not measured yet."""
    if adds not in state.run.points or state.point(adds) is not None:
        return state
    state = state.with_point(measure(graph.reader, stream, adds))
    state.write(folder / RESULTS)
    _say(state.last)
    return state


def _at_once(run: StreamRun, stream: Stream, state: StreamResults, folder: Path) -> StreamResults:
    """A graph for each point that gets all facts so far in one batch."""
    for adds in run.points:
        if state.point(adds) is not None:
            continue
        graph, _ = _graph(run, folder / f"{GRAPH}-{adds}", state)
        seconds = Seconds()
        if not graph.reader.manifest.last_batch:
            seconds = _timed(graph, stream.so_far(adds), [], adds)
        point = measure(graph.reader, stream, adds)
        state = state.with_point(replace(point, seconds=seconds))
        state.write(folder / RESULTS)
        _say(state.last)
    return state


def measure(reader: Reader, stream: Stream, adds: int) -> Point:
    """Rank the held-out facts whose names are known after so many adds: among all entities, and
    filtered by all facts of the stream."""
    place = Numbering.of(stream, reader)
    known = KnownFacts.build([place.ids(stream.known)])
    ranks, removed = (
        _ranks(reader, place.ids(facts), known)
        for facts in (stream.evaluated(adds), stream.removed(adds))
    )
    tenth = math.ceil(ranks.shape[1] / 10)
    written, arrays = reader.manifest.files, reader.model_arrays
    carried = (each.nbytes for name, each in arrays.items() if not name.startswith(EMBEDDINGS))
    return Point(
        adds=adds,
        facts=int(stream.ends[adds]),
        entities=reader.num_entities,
        relations=reader.num_relations,
        all=_quality(ranks),
        oldest=_quality(ranks[:, :tenth]),
        newest=_quality(ranks[:, -tenth:] if tenth else ranks),
        version_bytes=sum(file.bytes for each in written.values() for file in each),
        carried_bytes=sum(carried),
        known_bytes=sum(file.bytes for file in written[KNOWN]),
        removed=_quality(removed),
    )


def _ranks(reader: Reader, facts: Facts, known: KnownFacts) -> np.ndarray:
    """The ranks of n facts among all entities, both queries, (2, n)."""
    everyone = View(reader.num_entities, until=0)
    ranks = reader.predictor.ranks(with_inverses(facts), [everyone], known)
    return ranks[:, 0].reshape(2, -1)


def _quality(ranks: np.ndarray) -> Quality:
    """MRR and Hits@10 of ranks (2, n)."""
    found = accuracy(ranks.ravel())
    return Quality(found.mrr, found.hits10, ranks.shape[1])


@dataclass(frozen=True)
class Numbering:
    """The id in a version of each entity of a stream and of each of its relations without inverses;
    -1 where it is not there yet."""

    entity: Ints
    relation: Ints

    @classmethod
    def of(cls, stream: Stream, reader: Reader) -> "Numbering":
        """The ids of a version."""
        names, tables = stream.vocabulary, reader.names
        return cls(
            tables.entity_table.find_all(names.entities),
            tables.relation_table.find_all(names.relations),
        )

    def ids(self, facts: Facts) -> Facts:
        """Facts of the stream with the ids of the version; those with an unknown name are left
        out."""
        subject, object_ = self.entity[facts[:, 0]], self.entity[facts[:, 2]]
        relation = self.relation[facts[:, 1] // 2]
        there = (subject >= 0) & (relation >= 0) & (object_ >= 0)
        columns = np.stack([subject, 2 * relation, object_], axis=1)
        return columns[there].astype(np.int32)


def _say(point: Point) -> None:
    """A line for the log of the process."""
    found = f"MRR {point.all.mrr:.4f} of {point.all.facts} facts"
    print(f"after {point.adds} adds: {found}", flush=True)


def main(words: Sequence[str]) -> int:
    """Make the run that the words name; the exit code."""
    run, folder = words
    try:
        run_stream(TypeAdapter(StreamRun).validate_json(run), Path(folder))
    except LkgeError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"stopped; to go on: {shlex.join([*PROGRAM, run, folder])}", file=sys.stderr)
        return STOPPED
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
