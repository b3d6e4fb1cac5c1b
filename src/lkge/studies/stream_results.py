"""The results of `lkge bench streams`: one JSON file for each stream, system and seed.

The same file in the folder of a run is its state: a run that was stopped goes on from there.
"""

import json
import math
import statistics
from collections.abc import Iterable
from dataclasses import field, replace
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from lkge.config import RunConfig
from lkge.configure import configure
from lkge.data.files import as_run_error, write_text_atomically
from lkge.errors import RunError, SettingsError
from lkge.evaluation.results import nan_to_none
from lkge.store.records import STRICT, Number
from lkge.studies.result_store import RESULTS, require_same
from lkge.studies.streams import DEFAULT_STREAMS, Split, Stream, StreamSpec

LIVING: Final = "living"
FINE_TUNE: Final = "fine-tune"
LKGE: Final = "lkge"
AT_ONCE: Final = "at-once"
System = Literal["living", "fine-tune", "lkge", "at-once"]
SYSTEMS: tuple[System, ...] = (LIVING, FINE_TUNE, LKGE, AT_ONCE)
"""living     a graph as `lkge init` makes it without flags
fine-tune  the method fine-tune on the base model of the preset `living`
lkge       a graph as `lkge init --method lkge` makes it
at-once    as living, but all facts of the stream so far are its first and only batch"""
FORMAT: Final = 1
FIXED = frozenset({"method", "method.name", "seed", "training.seed", "dataset", "dataset.name"})
"""Settings that a run gives itself."""
Group = Literal["all", "oldest", "newest", "removed"]
GROUPS: tuple[Group, ...] = ("all", "oldest", "newest")
REMOVED: Final = "removed"


@dataclass(frozen=True, config=STRICT)
class StreamRun:
    """A run: a system on a stream. `points` are numbers of adds after which it is measured;
    `settings` are those of `--set`."""

    stream: StreamSpec
    system: System
    seed: int
    points: tuple[int, ...]
    split: Split = "test"
    settings: dict[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The name of the files, such as `ENTITY-living-11`."""
        return f"{self.stream.name}-{self.system}-{self.seed}"

    def config(self) -> RunConfig:
        """The settings of the living graph. Settings of a method are those of evergreen: fine-tune
        and lkge have none of them."""
        for name in FIXED.intersection(self.settings):
            raise SettingsError(f"--set {name}: every system has its own {name}; leave it out")
        changes: dict[str, Any] = {**self.settings, "seed": self.seed}
        living = configure(changes, living=True)
        if self.system not in (FINE_TUNE, LKGE):
            return living
        preset = "living" if self.system == FINE_TUNE else None
        base = configure({"method": self.system}, preset, living=True)
        return base.with_changes({key: each for key, each in changes.items() if base.has(key)})


@dataclass(frozen=True, config=STRICT)
class Seconds:
    """The wall clock of a call of `add`, the part of it that was training, and that of the
    consolidation that followed. nan: the process was stopped meanwhile."""

    wall: Number = math.nan
    training: Number = math.nan
    consolidation: Number = math.nan


@dataclass(frozen=True, config=STRICT)
class Quality:
    """MRR and Hits@10 over so many held-out facts; each fact is two queries."""

    mrr: Number
    hits10: Number
    facts: int


@dataclass(frozen=True, config=STRICT)
class Point:
    """A graph after so many adds. Ranks are among all its entities. Bytes: all files of its newest
    version; what the method carries beside the embeddings; the known facts. `seconds`: of the one
    batch of `at-once`. `removed`: facts that were retracted; `at-once` has never learned them."""

    adds: int
    facts: int
    entities: int
    relations: int
    all: Quality
    oldest: Quality
    newest: Quality
    version_bytes: int
    carried_bytes: int
    known_bytes: int
    seconds: Seconds = Seconds()
    removed: Quality = Quality(math.nan, math.nan, 0)


@dataclass(frozen=True, config=STRICT)
class StreamFacts:
    """What a stream is made of; `digest` is that of all names and facts."""

    note: str
    adds: int
    first_facts: int
    facts: int
    held_out: int
    entities: int
    digest: str

    @classmethod
    def of(cls, stream: Stream) -> "StreamFacts":
        """The counts of a stream."""
        return cls(
            note=stream.note,
            adds=stream.num_adds,
            first_facts=int(stream.ends[0]),
            facts=len(stream.facts),
            held_out=len(stream.held_out),
            entities=stream.vocabulary.num_entities,
            digest=stream.digest(),
        )


@dataclass(frozen=True, config=STRICT)
class StreamResults:
    """All figures of a run. `store`: the options of the store. `batches`: the first batch, and each
    add after it; `at-once` has its times at the points."""

    run: StreamRun
    stream: StreamFacts
    config: dict[str, Any]
    store: dict[str, Any]
    provenance: dict[str, Any]
    batches: tuple[Seconds, ...] = ()
    points: tuple[Point, ...] = ()
    format: Literal[1] = FORMAT

    @property
    def last(self) -> Point:
        """The last point."""
        return self.points[-1]

    @property
    def is_complete(self) -> bool:
        """Whether all points are measured."""
        return [point.adds for point in self.points] == list(self.run.points)

    def point(self, adds: int) -> Point | None:
        """The point after so many adds, if it is measured."""
        return next((point for point in self.points if point.adds == adds), None)

    def add_seconds(self, adds: int) -> list[Seconds]:
        """The times of the first adds, without the first batch and those that were stopped."""
        return [each for each in self.batches[1 : adds + 1] if not math.isnan(each.wall)]

    def with_batch(self, number: int, seconds: Seconds) -> "StreamResults":
        """The time of a batch added; batches before it whose time is not known are nan."""
        unknown = (Seconds(),) * (number - len(self.batches))
        return replace(self, batches=(*self.batches[:number], *unknown, seconds))

    def with_point(self, point: Point) -> "StreamResults":
        """A point added, or measured again."""
        others = (each for each in self.points if each.adds != point.adds)
        return replace(self, points=tuple(sorted([*others, point], key=lambda each: each.adds)))

    def write(self, file: Path) -> None:
        """Write the JSON file."""
        tree = nan_to_none(ADAPTER.dump_python(self))
        with as_run_error(file):
            file.parent.mkdir(parents=True, exist_ok=True)
            write_text_atomically(file, json.dumps(tree, indent=1) + "\n")


ADAPTER = TypeAdapter(StreamResults)


def read_results(file: Path) -> StreamResults:
    """The results in a JSON file; every field is checked."""
    try:
        return ADAPTER.validate_json(file.read_bytes())
    except OSError as error:
        raise RunError(f"{file}: cannot be read: {error.strerror}") from error
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise RunError(
            f"{file}: not the results of a stream: {place}: {first['msg']}; move it away"
        ) from error


def results_in(folder: Path) -> list[StreamResults]:
    """All results of a folder: the streams in the order of the default, others by name; then by
    system and seed."""
    order = [name.replace(":", "-") for name in DEFAULT_STREAMS]

    def place(result: StreamResults) -> tuple[int, str, int, int]:
        run, stream = result.run, result.run.stream.name
        known = [*order, stream].index(stream)
        return known, stream, SYSTEMS.index(run.system), run.seed

    return sorted(map(read_results, folder.glob("*.json")), key=place)


def stored_runs(runs: Iterable[StreamRun], folder: Path) -> list[StreamRun]:
    """Those runs that have complete results in the folder; other settings there are an error."""
    found = []
    for run in runs:
        file = folder / f"{run.name}.json"
        if file.is_file():
            require_same_run(file, read_results(file), run)
            found.append(run)
    return found


def require_same_run(file: Path, there: StreamResults, wanted: StreamRun) -> None:
    """RunError if the results in a file are those of another run."""
    remedy = "move it away to run it again, or choose another folder with --out"
    for name in ("stream", "split", "points"):
        old, new = getattr(there.run, name), getattr(wanted, name)
        if old != new:
            made = f"was made with {name} = {old!r}, but {new!r} is wanted"
            raise RunError(f"{file}: {made}; {remedy}")
    require_same(file, there.config, wanted.config())


def store(folder: Path, file: Path) -> None:
    """Check the results of a finished run in its folder and copy them to `file`."""
    results = read_results(folder / RESULTS)
    if not results.is_complete:
        raise RunError(f"{folder}: the run is not finished")
    results.write(file)


def mean(values: Iterable[float]) -> float:
    """The mean of the values that are not nan; nan if there is none."""
    known = [value for value in values if not math.isnan(value)]
    return statistics.fmean(known) if known else math.nan
