"""The Python API for living graphs: make one, open one.

kg = lkge.init("KG")
kg.add([("Ada", "knows", "Charles"), …])
kg.predict(subject="Ada", relation="knows", k=5)
"""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lkge.config import RunConfig
from lkge.configure import configure, for_living, read_toml
from lkge.data.checked_json import read_checked_json
from lkge.data.columns import GivenColumns
from lkge.data.fact_list import FactList
from lkge.data.names import MappedNames
from lkge.data.snapshots import Facts, no_facts
from lkge.data.sources import Source, joined, read_source
from lkge.data.vocabulary import Vocabulary
from lkge.errors import DataError, RunError, SettingsError, packages_named
from lkge.sizing import Size
from lkge.store.graph import LivingGraph, create
from lkge.store.preview import Preview
from lkge.store.preview import preview as previewed
from lkge.store.records import Options, StoreConfig
from lkge.store.retention import require_retention

if TYPE_CHECKING:
    from lkge.store.initial import InitialVersion

SHAPE = ("method.name", "model.score", "model.dim", "method.components")
"""The settings that what was learned depends on for its shape."""


def open(
    folder: Path | str, version: int | str | None = None, *, store_config: StoreConfig | None = None
) -> LivingGraph:
    """The living graph in `folder`, at a version, a number or a tag; default: the newest
    complete one."""
    if not isinstance(folder, (str, PathLike)):
        raise SettingsError(f"folder = {folder!r} is not the path of a graph")
    return LivingGraph(folder, version, store_config)


@packages_named()
def init(
    folder: Path | str,
    *,
    facts: Source = None,
    columns: GivenColumns = None,
    format: str | None = None,
    run: Path | str | None = None,
    data: Path | None = None,
    keep: int = Options.keep,
    keep_days: int = Options.keep_days,
    known: bool = Options.known,
    valid: float | None = None,
    preset: str | None = None,
    config: RunConfig | None = None,
    store_config: StoreConfig | None = None,
    **changes: Any,
) -> LivingGraph:
    """Make a living graph in a new folder: an empty one, or one that begins with a finished `run`
    and goes on under its settings. `changes` are single settings, such as `dim=100`, on top of
    a whole `config` or of a `preset`; default: "living", or for a method other than evergreen
    "living-paper".

    `facts` are learned first: triples, files, or an object such as a data frame, and the share
    `valid` of them is held out, as for `add`.
    `keep` versions stay on disk, and each for `keep_days` days at least. With `known=False` known
    answers are not kept: then nothing marks or leaves out what is known already. `data` is where
    the dataset of a run may be found.
    """
    from lkge.store.initial import InitialVersion

    require_retention(keep, keep_days)
    options = Options(keep, known, keep_days)
    first = FactList.of(joined(() if facts is None else facts, columns, format))
    if facts is not None and not first:
        raise DataError("there is no fact to begin with; leave facts out for an empty graph")
    if run is not None:
        for name, given in (("preset", preset), ("config", config)):
            if given is not None:
                raise SettingsError(f"{run}: a run goes on with its own settings; leave {name} out")
        initial = of_run(Path(run), data, changes, known)
    else:
        size = Size(len(first.entities), len(first)) if first and config is None else None
        chosen = configure(changes, preset, config=config, living=True, size=size)
        initial = InitialVersion.empty(chosen if known else without_facts(chosen))
    graph = create(folder, initial, options, store_config)
    if first:
        graph.add(first, valid=valid)
    return graph


def preview(facts: Source, *, columns: GivenColumns = None, format: str | None = None) -> Preview:
    """What facts of any source (`lkge.data.sources`) would bring to an empty graph; nothing is
    changed. `kg.preview` is the same for a graph.

    `columns` are those of a table, such as `{"subject": "from", "relation": "kind", "object":
    "to"}` or `subject=1,relation=3,object=2`. `format` is such as `csv` or `ttl.gz`, by default
    that of the file name.
    """
    return previewed(read_source(facts, columns, format), None)


def of_run(run: Path, data: Path | None, changes: dict[str, Any], known: bool) -> InitialVersion:
    """What a finished run has learned. Its dataset is looked up for the known answers alone."""
    from lkge.api import CONFIG, MODEL, TABLES
    from lkge.store.initial import InitialVersion
    from lkge.training.checkpoint import read_tensors
    from lkge.training.trainer import learned_tensors, restored

    if not (run / MODEL).is_file():
        raise RunError(f"{run}: not a finished run: it has no {MODEL}; finish it or name another")
    config = read_toml(run / CONFIG)
    _refuse_another_shape(config, changes)
    config = for_living(config).with_changes(changes)
    config = config if known else without_facts(config)
    manifest = read_checked_json(run / MODEL)
    vocabulary = Vocabulary.from_json(manifest["vocabulary"])
    learned = read_tensors(run / TABLES, manifest["sha256"])
    facts, snapshots = _facts(config.dataset.name, data, vocabulary) if known else (no_facts(), 1)
    return InitialVersion(
        config=config,
        tensors=learned_tensors(*restored(config, learned)),
        names=MappedNames.of(vocabulary.entities, vocabulary.relations),
        facts=facts,
        updates=snapshots,
        source=str(run),
    )


def without_facts(config: RunConfig) -> RunConfig:
    """The config of a graph that keeps no known facts: evergreen replays none."""
    facts = config.has("method.memory") and config.get("method.memory") == "facts"
    return config.with_changes({"method.memory": "none"}) if facts else config


def _refuse_another_shape(config: RunConfig, changes: dict[str, Any]) -> None:
    """What was learned fits the settings that give it its shape, and no others."""
    given = {".".join(config.place(name)): value for name, value in changes.items()}
    for name in given:
        if name in SHAPE and given[name] != (own := config.get(name)):
            raise SettingsError(f"{name} = {own!r} in the run, and it stays so; leave {name} out")
    generative = {"method.memory": "generative"}.items()
    if generative <= given.items() and not generative <= config.flat().items():
        raise SettingsError("the run has kept no query counts; leave memory out")


def _facts(dataset: str, data: Path | None, vocabulary: Vocabulary) -> tuple[Facts, int]:
    """All facts of a run's dataset, and how many snapshots it has."""
    from lkge.data.catalog import load

    remedy = "say where it is with --data, or begin without known answers: --no-known"
    try:
        graph = load(dataset, data)
    except DataError as error:
        raise RunError(f"the dataset of the run cannot be read: {error}; {remedy}") from error
    if graph.vocabulary != vocabulary:
        raise RunError(f"{dataset}: not the dataset that the run has learned; {remedy}")
    parts = [part for s in graph.snapshots for part in (s.train, s.valid, s.test)]
    return np.concatenate(parts), len(graph)
