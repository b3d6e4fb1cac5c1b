"""Growing graphs in folders and zip archives.

A dataset is a folder with one numbered folder per snapshot, which has train, valid and test facts:
`ENTITY/0/train.txt`, `ENTITY/0/valid.txt`, … Several datasets may be side by side, at most two
folders deep. An archive is read in place; nothing is unpacked to disk.

Ids follow the order of first appearance: snapshot by snapshot, train, valid, test, and in each fact
subject before object. So the ids below `Snapshot.num_entities` are those known by that snapshot.
"""

import lzma
import re
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import compress, islice
from pathlib import Path, PurePosixPath
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

from lkge.data.facts import NamedFacts, bytes_of, is_fact_file, read_facts, write_facts
from lkge.data.files import as_data_error, unfinished
from lkge.data.reading import Budget, open_regular, read_text_of_facts
from lkge.data.snapshots import Facts, GrowingGraph, Snapshot, no_facts, numbered
from lkge.data.vocabulary import Vocabulary
from lkge.errors import DataError, UnknownName

SPLITS = ("train", "valid", "test")
ZIP_ERRORS = (
    *(zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, OSError, ValueError, LookupError),
    *(RuntimeError, struct.error),  # encrypted, an unknown compression; damaged fields
)
MAX_MEMBERS = 100_000
"""The maximal number of files in an archive or folder."""

_SPLIT_FILE = re.compile(
    rf"(?:(?P<folder>.*)/)?(?P<number>[0-9]{{1,9}})/(?P<split>{'|'.join(SPLITS)})\.[^/]+"
)


@dataclass(frozen=True)
class Layout:
    """The files of one dataset: for each snapshot a mapping from split to the path below `root`."""

    name: str
    root: Path
    snapshots: tuple[Mapping[str, str], ...]


@dataclass(frozen=True)
class Source:
    """An open folder or archive: the paths of its files, and a function that reads a file."""

    root: Path
    paths: Sequence[str]
    read: Callable[[str], bytes]

    def layouts(self) -> dict[str, Layout]:
        """All datasets by name."""
        found: dict[str, dict[int, dict[str, str]]] = {}
        for path in self.paths:
            match = _SPLIT_FILE.fullmatch(path)
            if match and is_fact_file(path):
                snapshots = found.setdefault(match["folder"] or "", {})
                files = snapshots.setdefault(int(match["number"]), {})
                if (other := files.setdefault(match["split"], path)) != path:
                    complaint = f"stands for the same facts as {other}; remove one"
                    raise DataError(complaint, file=f"{self.root}/{path}")
        named = [
            Layout(self._name_of(folder), self.root, _in_order(snapshots, self.root / folder))
            for folder, snapshots in found.items()
        ]
        layouts = {layout.name: layout for layout in named}
        if len(layouts) < len(named):
            raise DataError("has two datasets of the same name; point to one", file=self.root)
        return layouts

    def layout(self, name: str | None) -> Layout:
        """The dataset of that name, ignoring case; without a name, the only dataset."""
        layouts = self.layouts()
        if not layouts:
            complaint = (
                "holds no snapshots; expected files such as 0/train.txt. From files of facts "
                "`lkge datasets build` and GrowingGraph.from_facts make them"
            )
            raise DataError(complaint, file=self.root)
        if name is not None:
            chosen = [known for known in layouts if known.casefold() == name.casefold()]
            if not chosen:
                raise UnknownName("dataset", name, layouts)
            return layouts[chosen[0]]
        if len(layouts) > 1:
            names = ", ".join(layouts)
            raise DataError(f"holds several datasets, name one: {names}", file=self.root)
        (only,) = layouts.values()
        return only

    def _name_of(self, folder: str) -> str:
        if folder:
            return PurePosixPath(folder).name
        return self.root.resolve().name if self.root.is_dir() else self.root.stem


@contextmanager
def opened(path: Path | str) -> Iterator[Source]:
    """Open a folder or a zip archive."""
    root = Path(path)
    if root.is_dir():
        yield Source(root, _paths_in(root), lambda file: bytes_of(root / file, f"{root}/{file}"))
        return
    if not root.exists():
        raise DataError("there is no such folder or archive; check the path", file=root)
    try:
        file = open_regular(root)
    except OSError as error:
        complaint = f"is neither a folder nor a zip archive: {error.strerror}"
        raise DataError(complaint, file=root) from error
    with file, _archive(file, root) as archive:
        yield Source(root, _members_of(archive, root), lambda at: _read_member(archive, root, at))


def _archive(file: BinaryIO, root: Path) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(file)
    except ZIP_ERRORS as error:
        raise DataError(f"is neither a folder nor a zip archive: {error}", file=root) from error


def dataset_names(path: Path | str) -> list[str]:
    """The sorted names of the datasets in a folder or archive."""
    with opened(path) as source:
        return sorted(source.layouts())


def read_growing_graph(path: Path | str, name: str | None = None) -> GrowingGraph:
    """Read the dataset `name` of a folder or zip archive; no name is needed if there is only one.

    A fact that is also in an earlier snapshot or split is left out with a warning.
    """
    with opened(path) as source:
        return _Reading(source, source.layout(name)).graph()


def write_growing_graph(graph: GrowingGraph, folder: Path | str) -> None:
    """Write a graph to a new or empty folder, which `read_growing_graph` can read."""
    folder = Path(folder)
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        raise DataError("exists and is not an empty folder; choose another", file=folder)
    with as_data_error(folder), unfinished(folder) as temporary:
        for snapshot in graph.snapshots:
            place = temporary / str(snapshot.index)
            place.mkdir(parents=True)
            for split in SPLITS:
                named = graph.vocabulary.named(getattr(snapshot, split).tolist())
                write_facts(place / f"{split}.txt", named)


class _Reading:
    """Reads the snapshots of one dataset in order."""

    def __init__(self, source: Source, layout: Layout) -> None:
        self.source = source
        self.layout = layout
        self.vocabulary = Vocabulary()
        self.warnings: list[str] = []
        self.first_places: dict[tuple[int, int, int], str] = {}
        self.trained_entities = np.empty(0, dtype=np.int32)
        self.trained_relations = np.empty(0, dtype=np.int32)

    def graph(self) -> GrowingGraph:
        snapshots = tuple(self._snapshot(index) for index in range(len(self.layout.snapshots)))
        return GrowingGraph(self.layout.name, self.vocabulary, snapshots, tuple(self.warnings))

    def _snapshot(self, index: int) -> Snapshot:
        train = self._split(index, "train")
        if not len(train):
            folder = PurePosixPath(next(iter(self.layout.snapshots[index].values()))).parent
            raise DataError(
                f"snapshot {index} has no training facts; give it a train file with new facts",
                file=f"{self.layout.root}/{folder}",
            )
        self.trained_entities = np.union1d(self.trained_entities, train[:, [0, 2]])
        self.trained_relations = np.union1d(self.trained_relations, train[:, 1])
        valid, test = self._split(index, "valid"), self._split(index, "test")
        known = self.vocabulary
        return Snapshot(index, train, valid, test, known.num_entities, known.num_relations)

    def _split(self, index: int, split: str) -> Facts:
        path = self.layout.snapshots[index].get(split)
        if path is None:
            return no_facts()
        named = read_facts(self.source.read(path), name=f"{self.layout.root}/{path}")
        self.warnings.extend(named.warnings)
        try:
            facts = numbered(self.vocabulary, named)
        except DataError as error:
            raise DataError(str(error), file=named.source) from error
        kept = self._new(facts, named)
        if split != "train":
            self._warn_of_untrained(facts, kept, named)
        return facts[kept]

    def _new(self, facts: Facts, named: NamedFacts) -> npt.NDArray[np.bool_]:
        """For each fact whether it was in no earlier file, shape (n,); remembers the new facts."""
        triples = list(zip(*facts.T.tolist(), strict=True))
        new = [triple not in self.first_places for triple in triples]
        if not all(new):
            first = new.index(False)
            earlier = self.first_places[triples[first]]
            self.warnings.append(
                f"{named.place_of(first)}: this fact already stood in {earlier}; "
                f"such facts here, left out: {new.count(False)}"
            )
        self.first_places.update(dict.fromkeys(compress(triples, new), named.source))
        return np.array(new, dtype=np.bool_)

    def _warn_of_untrained(
        self, facts: Facts, kept: npt.NDArray[np.bool_], named: NamedFacts
    ) -> None:
        known_entities = np.isin(facts[:, [0, 2]], self.trained_entities).all(axis=1)
        known_relation = np.isin(facts[:, 1], self.trained_relations)
        untrained = np.flatnonzero(kept & ~(known_entities & known_relation))
        if len(untrained):
            self.warnings.append(
                f"{named.place_of(int(untrained[0]))}: this fact names an entity or relation that "
                f"no training fact has shown by then; such facts here: {len(untrained)}"
            )


def _paths_in(root: Path) -> list[str]:
    patterns = ("[0-9]*/*", "*/[0-9]*/*", "*/*/[0-9]*/*")
    files = (path for pattern in patterns for path in root.glob(pattern))
    paths = sorted(path.relative_to(root).as_posix() for path in islice(files, MAX_MEMBERS + 1))
    _require(len(paths) <= MAX_MEMBERS, "has too many files to be a dataset", root)
    return paths


def _members_of(archive: zipfile.ZipFile, root: Path) -> list[str]:
    members = [member for member in archive.infolist() if not member.is_dir()]
    size = sum(member.file_size for member in members)
    _require(len(members) <= MAX_MEMBERS, "has too many files to be a dataset", root)
    Budget(str(root)).add(size)
    names = [member.filename for member in members]
    for name in names:
        _require(_is_safe(name), f"has a file with the unsafe path {name!r}", root)
    return names


def _is_safe(name: str) -> bool:
    path = PurePosixPath(name.replace("\\", "/"))
    return not path.is_absolute() and ".." not in path.parts and ":" not in path.parts[0]


def _require(holds: bool, complaint: str, root: Path) -> None:
    if not holds:
        raise DataError(f"{complaint}; use another archive or folder", file=root)


def _read_member(archive: zipfile.ZipFile, root: Path, name: str) -> bytes:
    place = f"{root}/{name}"
    try:
        with archive.open(name) as member:
            return read_text_of_facts(member, place)
    except ZIP_ERRORS as error:
        raise DataError(f"cannot be unpacked ({error}); fetch it again", file=place) from error


def _in_order(
    snapshots: Mapping[int, Mapping[str, str]], place: Path
) -> tuple[Mapping[str, str], ...]:
    """The snapshots by number; the numbers must be consecutive and start at 0 or 1."""
    numbers = sorted(snapshots)
    first = min(numbers[0], 1)
    for expected, number in enumerate(numbers, start=first):
        if number != expected:
            raise DataError(
                f"snapshot {expected} is missing before snapshot {number}; "
                "number the snapshots from 0 or 1 without a gap",
                file=place,
            )
    return tuple(snapshots[number] for number in numbers)


def split_files(source: Source, layout: Layout) -> Iterator[tuple[int, str, bytes]]:
    """(snapshot, split, content) of each file of a dataset, in order."""
    for index, files in enumerate(layout.snapshots):
        for split in SPLITS:
            if split in files:
                yield index, split, source.read(files[split])
