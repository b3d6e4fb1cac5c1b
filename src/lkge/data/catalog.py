"""Datasets by name: embedded, fetched and checked, or in a folder or archive of the user's own.

`brick` comes with the package. Other names, such as the four growing graphs of the paper, are
looked up in the folder or archive that the caller gives; if none is given, in that of the
environment variable `LKGE_DATA`, then in the cache: `LKGE_CACHE`, or the platform's cache folder.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

import platformdirs

from lkge.data.download import Expected, Progress, download, verify
from lkge.data.files import as_data_error, unfinished
from lkge.data.folders import dataset_names, read_growing_graph
from lkge.data.snapshots import GrowingGraph
from lkge.errors import DataError, UnknownName

EMBEDDED = "brick"
ARCHIVE = "dataset.zip"
EXPECTED = {
    "ENTITY": Expected(310_116, "075a6cff5fc9710ed8cce2b973e1342f1327ac5fc87eba0bdee23a016a510016"),
    "RELATION": Expected(
        310_116, "82276be850086122727f349812e1e19a4ad23e5639c1ce360f07c404744e6a81"
    ),
    "FACT": Expected(310_116, "73807fa8bdb4f3b1fc167479e8e4532c3cc384cb1eefcac10e00b9722cff4896"),
    "HYBRID": Expected(310_116, "1ae4d214cb2eae6ecc1d228bb998f0f95604663abcf434f47d117e72b034695f"),
}
"""What the archive of the paper's authors holds: facts, and the digest of their lines."""

URLS = tuple(
    f"https://raw.githubusercontent.com/nju-websoft/LKGE/{branch}/{ARCHIVE}"
    for branch in ("main", "master")
)


@dataclass(frozen=True)
class DatasetInfo:
    """A dataset that has a name, and where it lies; `place` is None while it is not fetched."""

    name: str
    description: str
    place: str | None

    @property
    def available(self) -> bool:
        """Whether it can be loaded at once."""
        return self.place is not None


def list_datasets(data: Path | None = None) -> list[DatasetInfo]:
    """The embedded dataset, the paper's four, and whatever else the places searched hold."""
    found = {name: place for place in reversed(_places(data)) for name in dataset_names(place)}
    places = {name.casefold(): str(place) for name, place in found.items()}
    others = sorted(name for name in found if name.upper() not in EXPECTED)
    return [
        DatasetInfo(EMBEDDED, "the Brick ontology, releases 1.1 to 1.5", "in the package"),
        *(
            DatasetInfo(
                name, "FB15k-237, grown by the paper's authors", places.get(name.casefold())
            )
            for name in EXPECTED
        ),
        *(DatasetInfo(name, "your own", places[name.casefold()]) for name in others),
    ]


def load(name_or_path: str | Path, data: Path | None = None) -> GrowingGraph:
    """The dataset of that name, whatever the case, or the one in that folder or zip archive."""
    name = str(name_or_path)
    if isinstance(name_or_path, Path) or _looks_like_path(name):
        return read_growing_graph(name_or_path)
    if name.casefold() == EMBEDDED:
        embedded = resources.files("lkge.data") / "embedded" / f"{EMBEDDED}.zip"
        with resources.as_file(embedded) as archive:
            return read_growing_graph(archive, EMBEDDED)
    for place in _places(data):
        if name.casefold() in map(str.casefold, dataset_names(place)):
            return read_growing_graph(place, name)
    if Path(name).exists() and name.upper() not in EXPECTED:
        return read_growing_graph(name)
    raise _absent(name, data)


def fetch(
    name: str,
    *,
    url: str | None = None,
    progress: Progress | None = None,
    expected: Mapping[str, Expected] = EXPECTED,
) -> Path:
    """Download the authors' archive, which holds all four datasets, into the cache; its path.

    Only an archive with the expected facts is kept. One that is there already is not fetched again.
    """
    if name.casefold() == EMBEDDED:
        raise DataError(f"{EMBEDDED} comes with the package; there is nothing to fetch")
    if name.casefold() not in map(str.casefold, expected):
        raise UnknownName("dataset to fetch", name, expected)
    target = cache_folder() / ARCHIVE
    if _is_whole(target, expected):
        return target
    given = url or os.environ.get("LKGE_DATASET_URL")
    with as_data_error(target), unfinished(target) as temporary:
        target.parent.mkdir(parents=True, exist_ok=True)
        download([given] if given else URLS, temporary, progress)
        try:
            verify(temporary, expected)
        except DataError as error:
            raise DataError(
                f"what was downloaded is damaged or not the published archive ({error}). It was "
                "not kept; try again, or download it by hand and name the file with --data PATH."
            ) from error
    return target


def cache_folder() -> Path:
    """Where fetched archives are kept."""
    given = os.environ.get("LKGE_CACHE")
    return Path(given) if given else platformdirs.user_cache_path("lkge")


def stats(graph: GrowingGraph) -> list[dict[str, int]]:
    """A row per snapshot: its new facts, in all and by split; entities and relations so far."""
    before = [(0, 0), *((shot.num_entities, shot.num_relations) for shot in graph.snapshots)]
    return [
        {
            "snapshot": shot.index,
            "new_facts": shot.num_facts,
            "train": len(shot.train),
            "valid": len(shot.valid),
            "test": len(shot.test),
            "entities": shot.num_entities,
            "relations": shot.num_relations,
            "new_entities": shot.num_entities - entities,
            "new_relations": shot.num_relations - relations,
        }
        for shot, (entities, relations) in zip(graph.snapshots, before, strict=False)
    ]


def _places(data: Path | None) -> list[Path]:
    """The folders and archives to search, first to last."""
    if data is not None:
        return [_archive_in(data)]
    given = os.environ.get("LKGE_DATA")
    cached = cache_folder() / ARCHIVE
    return [
        *([_archive_in(Path(given))] if given else []),
        *([cached] if cached.exists() else []),
    ]


def _archive_in(data: Path) -> Path:
    """The authors' archive, if it lies as it is in the folder `data`; else `data` itself."""
    return data / ARCHIVE if (data / ARCHIVE).is_file() else data


def _looks_like_path(name: str) -> bool:
    return "/" in name or os.sep in name or name in (".", "..") or name.lower().endswith(".zip")


def _is_whole(archive: Path, expected: Mapping[str, Expected]) -> bool:
    try:
        verify(archive, expected)
    except DataError:
        return False
    return True


def _absent(name: str, data: Path | None) -> DataError:
    if name.upper() not in EXPECTED:
        return UnknownName("dataset", name, [info.name for info in list_datasets(data)])
    where = f"is not in {data}" if data is not None else "is not on this machine yet"
    return DataError(
        f"{name.upper()} {where}; run: lkge datasets fetch {name.upper()}, "
        "or name a folder or archive that has it with --data PATH"
    )
