"""Datasets by name: embedded, downloaded, or in a folder or archive of the user.

`brick` is part of the package. Other datasets, such as the four growing graphs of the paper, are
searched in the folder or archive that the caller gives; by default in that of the environment
variable `LKGE_DATA`, then in the cache folder: `LKGE_CACHE`, or that of the platform.
"""

import hashlib
import os
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from http.client import HTTPException
from importlib import resources
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError

import platformdirs

from lkge.data import folders
from lkge.data.columns import GivenColumns
from lkge.data.facts import is_fact_file
from lkge.data.files import as_data_error, unfinished
from lkge.data.snapshots import GrowingGraph
from lkge.errors import DataError, UnknownName

Progress = Callable[[int, int | None], None]
"""A callback: bytes so far, and total bytes if the server sends them."""

_TIMEOUT = 30.0
_CHUNK = 1 << 16
_MAX_BYTES = 1 << 30


@dataclass(frozen=True)
class Expected:
    """The number of facts of a dataset and the `digest_of` its files."""

    facts: int
    digest: str


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
"""The content of the archive of the paper's authors."""

URLS = tuple(
    f"https://raw.githubusercontent.com/nju-websoft/LKGE/{branch}/{ARCHIVE}"
    for branch in ("main", "master")
)


@dataclass(frozen=True)
class DatasetInfo:
    """The name of a dataset and its place; `place` is None if it is not downloaded."""

    name: str
    description: str
    place: str | None

    @property
    def available(self) -> bool:
        """Whether the dataset can be loaded without a download."""
        return self.place is not None


def list_datasets(data: Path | None = None) -> list[DatasetInfo]:
    """The embedded dataset, the four of the paper, and all others in the searched places."""
    found = {
        name: place for place in reversed(_places(data)) for name in folders.dataset_names(place)
    }
    places = {name.casefold(): str(place) for name, place in found.items()}
    others = sorted(name for name in found if name.upper() not in EXPECTED)
    published = "FB15k-237, grown by the paper's authors"
    return [
        DatasetInfo(EMBEDDED, "the Brick ontology, releases 1.1 to 1.5", "in the package"),
        *(DatasetInfo(name, published, places.get(name.casefold())) for name in EXPECTED),
        *(DatasetInfo(name, "your own", places[name.casefold()]) for name in others),
    ]


def load(
    source: Any,
    data: str | Path | None = None,
    *,
    columns: GivenColumns = None,
    format: str | None = None,
) -> GrowingGraph:
    """Load the dataset of that name, ignoring case, or the one in that folder or zip archive.

    Facts in a file, or in an object such as a data frame, are a graph of one snapshot;
    `GrowingGraph.from_facts` cuts them into more.
    """
    if not isinstance(source, (str, Path)):
        return GrowingGraph.from_facts(source, columns=columns, format=format)
    name = str(source)
    if format or (is_fact_file(name) and not Path(name).is_dir()):
        graph_name = Path(name).name
        return GrowingGraph.from_facts(source, name=graph_name, columns=columns, format=format)
    if columns is not None:
        raise DataError("has no columns; they are for files of facts", file=name)
    if isinstance(source, Path) or _looks_like_path(name):
        return folders.read_growing_graph(source)
    if name.casefold() == EMBEDDED:
        embedded = resources.files("lkge.data") / "embedded" / f"{EMBEDDED}.zip"
        with resources.as_file(embedded) as archive:
            return folders.read_growing_graph(archive, EMBEDDED)
    for place in _places(data):
        if name.casefold() in map(str.casefold, folders.dataset_names(place)):
            return folders.read_growing_graph(place, name)
    if Path(name).exists() and name.upper() not in EXPECTED:
        return folders.read_growing_graph(name)
    raise _absent(name, Path(data) if data else None)


def fetch(
    name: str,
    *,
    url: str | None = None,
    progress: Progress | None = None,
    expected: Mapping[str, Expected] = EXPECTED,
) -> Path:
    """Download the authors' archive, which has all four datasets, to the cache; return its path.

    An archive without the expected facts is deleted. A valid archive is not downloaded again.
    """
    if name.casefold() == EMBEDDED:
        raise DataError(f"{EMBEDDED} comes with the package; there is nothing to fetch")
    if name.casefold() not in map(str.casefold, expected):
        raise UnknownName("dataset to fetch", name, expected)
    target = cache_folder() / ARCHIVE
    with suppress(DataError):
        verify(target, expected)
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
    """The folder of downloaded archives."""
    given = os.environ.get("LKGE_CACHE")
    return Path(given) if given else platformdirs.user_cache_path("lkge")


def stats(graph: GrowingGraph) -> list[dict[str, int]]:
    """A row per snapshot: new facts, in total and by split; entities and relations so far."""
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


def _places(data: str | Path | None) -> list[Path]:
    """The folders and archives to search, in order."""
    if data is not None:
        return [_archive_in(Path(data))]
    places = []
    if given := os.environ.get("LKGE_DATA"):
        places.append(_archive_in(Path(given)))
    if (cached := cache_folder() / ARCHIVE).exists():
        places.append(cached)
    return places


def _archive_in(data: Path) -> Path:
    """The authors' archive if it is in the folder `data`, else `data`."""
    return data / ARCHIVE if (data / ARCHIVE).is_file() else data


def _looks_like_path(name: str) -> bool:
    return "/" in name or os.sep in name or name in (".", "..") or name.lower().endswith(".zip")


def _absent(name: str, data: Path | None) -> DataError:
    if name.upper() not in EXPECTED:
        return UnknownName("dataset", name, [info.name for info in list_datasets(data)])
    where = f"is not in {data}" if data is not None else "is not on this machine yet"
    return DataError(
        f"{name.upper()} {where}; run: lkge datasets fetch {name.upper()}, "
        "or name a folder or archive that has it with --data PATH"
    )


def download(urls: Sequence[str], target: Path, progress: Progress | None = None) -> None:
    """Download the first of `urls` that exists to the new file `target`."""
    for place, url in enumerate(urls):
        try:
            return _save(url, target, progress)
        except HTTPError as error:
            if error.code != 404 or place == len(urls) - 1:
                raise _unreachable(url, f"HTTP {error.code} {error.reason}") from error
        except (URLError, HTTPException, TimeoutError, ConnectionError, ValueError) as error:
            raise _unreachable(url, str(getattr(error, "reason", error))) from error
    raise ValueError("no address to download from")


def _save(url: str, target: Path, progress: Progress | None) -> None:
    request = urllib.request.Request(url, headers={"User-Agent": "lkge"})
    with urllib.request.urlopen(request, timeout=_TIMEOUT) as response, target.open("wb") as file:
        length = response.headers.get("Content-Length")
        total = int(length) if length else None
        done = 0
        while chunk := response.read(_CHUNK):
            done += len(chunk)
            if done > _MAX_BYTES:
                raise ConnectionError("far more data than a dataset has")
            file.write(chunk)
            if progress:
                progress(done, total)
        if total is not None and done != total:
            raise ConnectionError(f"the connection ended after {done} of {total} bytes")
        file.flush()
        os.fsync(file.fileno())


def _unreachable(url: str, reason: str) -> DataError:
    return DataError(
        f"could not download {url}: {reason}. "
        "Try again later, or download it by hand and name the file with --data PATH."
    )


def verify(archive: Path, expected: Mapping[str, Expected]) -> None:
    """Raise DataError if the archive does not have exactly the expected facts of each dataset."""
    with folders.opened(archive) as source:
        for name, wanted in expected.items():
            found = digest_of(source, source.layout(name))
            if found.facts != wanted.facts:
                raise DataError(f"{name} has {found.facts} facts instead of {wanted.facts}")
            if found.digest != wanted.digest:
                raise DataError(f"{name} has other facts than the published ones")


def digest_of(source: folders.Source, layout: folders.Layout) -> Expected:
    """Number and SHA-256 of the lines of all files in order, each file after a line `0/train`.

    All line ends are hashed as a newline.
    """
    digest = hashlib.sha256()
    facts = 0
    for index, split, content in folders.split_files(source, layout):
        lines = content.replace(b"\r\n", b"\n")
        if lines and not lines.endswith(b"\n"):
            lines += b"\n"
        digest.update(f"{index}/{split}\n".encode() + lines)
        facts += lines.count(b"\n")
    return Expected(facts, digest.hexdigest())
