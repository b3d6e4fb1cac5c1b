"""The Python API for runs: load a growing graph, train a method, open a finished run.

A run folder holds, besides the report (`index.html`, `summary.md`, `figures/`):

    config.toml        the settings
    graph.json         the digest of the graph, so that a run goes on with the same facts only
    log.jsonl          every event, a line each
    results.json       what was found, complete after the last snapshot
    model.safetensors  what was learned; model.json has its names and digest
    checkpoint/        while learning only
    .lock              held by the process that learns
"""

import json
from collections.abc import Iterable
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lkge.config import RunConfig
from lkge.configure import configure, read_toml
from lkge.data import catalog, files
from lkge.data.checked_json import read_checked_json, read_json, write_checked_json
from lkge.data.snapshots import GrowingGraph
from lkge.data.vocabulary import Vocabulary
from lkge.distributed.group import joined
from lkge.distributed.loop import PartitionedLoop, with_partitions
from lkge.errors import DamagedFile, RunError, SettingsError
from lkge.evaluation.results import Results
from lkge.models.predictor import Predictor
from lkge.reports.text import shortened
from lkge.sizing import Size
from lkge.training.checkpoint import Checkpoints, read_tensors, write_tensors
from lkge.training.events import JsonlLog, Listener, by_default, every, heard, ignore
from lkge.training.loop import Learned, Loop
from lkge.training.trackers import Tracker, followed
from lkge.training.trainer import restored
from lkge.training.warmup import warm_up

load = catalog.load

CONFIG, GRAPH, LOG, RESULTS = "config.toml", "graph.json", "log.jsonl", "results.json"
TABLES, MODEL, CHECKPOINT, LOCK = "model.safetensors", "model.json", "checkpoint", ".lock"


@dataclass(frozen=True, repr=False)
class Run:
    """A finished run: its results, a predictor over the last version, and its folder if kept."""

    results: Results
    predictor: Predictor
    folder: Path | None = None

    def __repr__(self) -> str:
        kept = "" if self.folder is None else f"\nkept in {self.folder}"
        return f"{self.results!r}{kept}"

    def _repr_html_(self) -> str:
        return self.results._repr_html_()


def run(
    graph: GrowingGraph,
    *,
    out: Path | str | None = None,
    listener: Listener = by_default,
    preset: str | None = None,
    config: RunConfig | None = None,
    trackers: Iterable[Tracker | str] = (),
    **changes: Any,
) -> Run:
    """Learn `graph` snapshot by snapshot. `changes` are single settings, such as `seed=1`, on top
    of a whole `config` or of a `preset`: "evergreen" or "paper"; default: that of the method, and
    the default method is evergreen.

    Without a `listener` progress is shown in a terminal or a notebook. `trackers` follow the run:
    "tensorboard:FOLDER", "mlflow:FOLDER", or a `lkge.training.trackers.Tracker`.

    With `out` everything is kept in that folder, which must be new or empty, and a run that was
    interrupted goes on by `resume`.
    """
    require_graph(graph)
    named = {"dataset": graph.name, **changes} if config is None else changes
    chosen = configure(named, preset, config=config, size=None if config else size_of(graph))
    workers = joined()
    if out is not None:
        chosen = with_partitions(chosen, graph, size_of(graph), workers)
    elif chosen.training.partitions or workers.size > 1:
        raise SettingsError("training by partitions keeps files: give a run folder by out")
    folder = None if out is None else Path(out)
    with (
        heard(listener if workers.is_first else ignore, chosen.training.patience) as hearing,
        followed(trackers if workers.is_first else (), chosen, folder) as follower,
    ):
        both = every(hearing, follower)
        if folder is None:
            warm_up(chosen, both)
            learned = Loop(graph, chosen, None, both).run()
            done = Run(learned.results, learned.predictor.with_names(graph.vocabulary))
        else:
            loop = _loop(folder, graph, chosen, both)
            if workers.is_first:
                _create(folder, graph, chosen)
            workers.wait()
            done = _learn(folder, loop)
        follower.finish(done.results)
        return done


def require_graph(graph: object) -> None:
    """SettingsError if this is no growing graph."""
    if not isinstance(graph, GrowingGraph):
        raise SettingsError(
            f"graph = {shortened(repr(graph), 100)} is not a growing graph; load one: "
            "lkge.load(NAME)"
        )


def size_of(graph: GrowingGraph) -> Size:
    """The size of the whole graph, by which settings are chosen."""
    last = graph.snapshots[-1]
    return Size(last.num_entities, sum(len(each.train) for each in graph.snapshots))


def resume(
    folder: Path | str,
    *,
    listener: Listener = by_default,
    data: Path | None = None,
    graph: GrowingGraph | None = None,
    trackers: Iterable[Tracker | str] = (),
) -> Run:
    """Go on with an interrupted run, or open a finished one. The graph is loaded again by the
    name in its settings unless it is given. `trackers`: as in `run`."""
    folder = Path(folder)
    if not (folder / CONFIG).is_file():
        raise RunError(f"{folder}: not a run folder: it has no {CONFIG}")
    checkpoints, workers = Checkpoints(folder / CHECKPOINT), joined()
    if (folder / MODEL).is_file() and not checkpoints.exists:
        if workers.is_first:
            checkpoints.remove()
        return opened(folder)
    config = read_toml(folder / CONFIG)
    graph = load(config.dataset.name, data) if graph is None else graph
    require_graph(graph)
    if read_json(folder / GRAPH) != _identity(graph):
        raise RunError(
            f"{folder}: was begun with other facts than {graph.name!r} has now; give the same graph"
        )
    if workers.size > 1:
        config = with_partitions(config, graph, size_of(graph), workers)
    with (
        heard(listener if workers.is_first else ignore, config.training.patience) as hearing,
        followed(trackers if workers.is_first else (), config, folder) as follower,
    ):
        done = _learn(folder, _loop(folder, graph, config, every(hearing, follower)))
        follower.finish(done.results)
        return done


def opened(folder: Path | str) -> Run:
    """A finished run from its folder; the graph itself is not needed."""
    folder = Path(folder)
    config = read_toml(folder / CONFIG)
    manifest = read_checked_json(folder / MODEL)
    try:
        tensors = read_tensors(folder / TABLES, manifest["sha256"])
        vocabulary = Vocabulary.from_json(manifest["vocabulary"])
        model, method = restored(config, tensors)
    except (AttributeError, KeyError, TypeError) as error:
        raise DamagedFile(f"{folder / MODEL}: not the model of a run: {error!r}") from error
    try:
        results = Results.from_json(read_json(folder / RESULTS))
    except (AttributeError, KeyError, TypeError) as error:
        raise DamagedFile(f"{folder / RESULTS}: not the results of a run: {error}") from error
    return Run(results, method.predictor(model).with_names(vocabulary), folder)


def _create(folder: Path, graph: GrowingGraph, config: RunConfig) -> None:
    """A run folder with its first files; a new one appears with them in one act."""
    try:
        if folder.exists() and any(folder.iterdir()):
            raise RunError(f"{folder}: not empty; resume that run or choose another folder")
        files.make_folders(folder.parent)
        with nullcontext(folder) if folder.exists() else files.unfinished_folder(folder) as place:
            files.write_text_atomically(place / GRAPH, json.dumps(_identity(graph)))
            files.write_text_atomically(place / CONFIG, config.to_toml())
    except OSError as error:
        raise RunError(f"{folder}: cannot be written: {error.strerror}") from error


def _loop(folder: Path, graph: GrowingGraph, config: RunConfig, listener: Listener) -> Loop:
    """What learns into `folder`; nothing is written yet."""
    workers = joined()
    both = every(JsonlLog(folder / LOG), listener) if workers.is_first else listener
    if config.training.partitions:
        return PartitionedLoop(graph, config, folder, both, workers)
    return Loop(graph, config, Checkpoints(folder / CHECKPOINT), both)


def _learn(folder: Path, loop: Loop) -> Run:
    workers = joined()
    with files.held(folder / LOCK) if workers.is_first else nullcontext(True) as alone:
        if not alone:
            raise RunError(f"{folder}: another process is learning this run; wait for it to end")
        for leftover in folder.rglob(files.LEFTOVER) if workers.is_first else ():
            leftover.unlink()
        workers.wait()
        warm_up(loop.config, loop.listener)
        learned, vocabulary = loop.run(), loop.graph.vocabulary
        if workers.is_first:
            _keep(folder, learned, vocabulary)
    return Run(learned.results, learned.predictor.with_names(vocabulary), folder)


def _keep(folder: Path, learned: Learned, vocabulary: Vocabulary) -> None:
    from lkge.reports.page import write_report

    digest = write_tensors(folder / TABLES, learned.tensors())
    write_checked_json(folder / MODEL, {"sha256": digest, "vocabulary": vocabulary.to_json()})
    results = json.dumps(learned.results.to_json(), indent=1, allow_nan=False)
    files.write_text_atomically(folder / RESULTS, results)
    write_report([learned.results], folder)
    Checkpoints(folder / CHECKPOINT).remove()


def _identity(graph: GrowingGraph) -> dict[str, str]:
    """The name and the digest of a graph."""
    return {"name": graph.name, "sha256": graph.digest()}
