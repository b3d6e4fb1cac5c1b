"""A small store, made by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from lkge.data.known_facts import KnownFacts
from lkge.data.names import MappedNames
from lkge.store import inbox
from lkge.store.arrays import Arrays
from lkge.store.inbox import FactBatch
from lkge.store.records import ADD, INIT, Manifest, Options, VersionRecord
from lkge.store.versions import HOLD_OUT_FILE, INFERENCE, KNOWN, MODEL, NAMES, Store
from lkge.testing import paper_config

SETTINGS = paper_config(dataset="made", dim=2)


def facts_of(version: int) -> list[tuple[str, str, str]]:
    """The facts that a version brings: a chain that grows by one entity."""
    return [(f"entity {version}", "follows", f"entity {version + 1}")]


def files_of(version: int) -> dict[str, Arrays]:
    """The files of a version, which has two entities more than its number."""
    entities = version + 2
    chain = [np.array([[n, 0, n + 1]], dtype=np.int32) for n in range(version + 1)]
    rows = np.arange(2 * entities, dtype=np.float32).reshape(-1, 2) + version
    relation = np.full((2, 2), version, dtype=np.float32)
    names = MappedNames.of([f"entity {n}" for n in range(entities)], ["follows"])
    return {
        MODEL: {"tables.entity": rows, "tables.relation": relation},
        INFERENCE: {"entity": rows / 2, "relation": relation},
        NAMES: names.arrays(),
        KNOWN: KnownFacts.build(chain).arrays(),
        HOLD_OUT_FILE: {
            "facts": chain[0],
            "since": np.zeros(1, dtype=np.int32),
            "entities": np.full(1, 2, dtype=np.int64),
            "baseline": np.full((1, 2), 0.5),
            "last": np.full((1, 2), 0.25),
        },
    }


def manifest_of(version: int, last_batch: int = 0, **record: Any) -> Manifest:
    totals = {"entities": version + 2, "relations": 1, "known_facts": version + 1}
    line = VersionRecord(version, **{"created": "then", **totals, **record})
    return Manifest(version, max(last_batch, line.batch), SETTINGS.to_dict(), (1.0, 0.0), line)


def learn(store: Store, batch: FactBatch) -> int:
    """Publish the version that a batch leads to; the same bytes whenever it is done."""
    version = store.next_version()
    record = {"kind": ADD, "created": batch.accepted, "batch": batch.number, "facts": 1}
    store.publish(version, files_of(version), manifest_of(version, **record))
    return version


def learn_waiting(store: Store) -> None:
    """What a writer does."""
    store.tidy()
    for batch in inbox.waiting(store):
        learn(store, batch)
        inbox.discard(store, batch.number)


def accept_next(store: Store) -> FactBatch:
    return inbox.accept(store, facts_of(store.newest() + 1), source="made")


def empty_store(folder: Path, **options: Any) -> Store:
    """A store with version 0."""
    manifest = manifest_of(0, kind=INIT)
    return Store.create(folder, SETTINGS.to_dict(), Options(**options), files_of(0), manifest)


def made_store(folder: Path, versions: int, **options: Any) -> Store:
    """A store with so many versions learned after version 0."""
    store = empty_store(folder, **options)
    for _ in range(versions):
        accept_next(store)
        learn_waiting(store)
    return store


def content_of(store: Store, version: int) -> dict[str, bytes]:
    """All files of a version, by their names."""
    files = [file for each in store.manifest(version).files.values() for file in each]
    return {file.name: store.path_of(file).read_bytes() for file in files}


def bytes_of(folder: Path) -> dict[str, bytes]:
    """All files in a folder, by their path within it."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }
