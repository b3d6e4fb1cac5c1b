"""Where the files of growing graphs lie, in a folder or a zip archive.

A dataset is a folder with one numbered folder per snapshot, each with train, valid and test facts:
`ENTITY/0/train.txt`, `ENTITY/0/valid.txt`, … Several datasets may lie side by side, at most two
folders deep. Archives are read in place; nothing is ever unpacked to disk.
"""

from __future__ import annotations

import re
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path, PurePosixPath

from lkge.data.facts import is_fact_file
from lkge.data.packing import MAX_UNPACKED
from lkge.errors import DataError, UnknownName

SPLITS = ("train", "valid", "test")
MAX_MEMBERS = 100_000
"""An archive or folder with more files than this is refused."""

_SPLIT_FILE = re.compile(
    rf"(?:(?P<folder>.*)/)?(?P<number>[0-9]{{1,9}})/(?P<split>{'|'.join(SPLITS)})\.[^/]+"
)


@dataclass(frozen=True)
class Layout:
    """One dataset: for each snapshot in order, split → path of its file below the root."""

    name: str
    root: Path
    snapshots: tuple[Mapping[str, str], ...]

    def place(self, path: str) -> str:
        """A file of this dataset as it is named in messages."""
        return f"{self.root}/{path}"

    def folder_of(self, index: int) -> str:
        """The folder of a snapshot as it is named in messages."""
        return self.place(str(PurePosixPath(next(iter(self.snapshots[index].values()))).parent))


@dataclass(frozen=True)
class Source:
    """An open folder or archive: the paths of its files, and how to read one."""

    root: Path
    paths: Sequence[str]
    read: Callable[[str], bytes]

    def layouts(self) -> dict[str, Layout]:
        """The datasets in here by name."""
        found: dict[str, dict[int, dict[str, str]]] = {}
        for path in self.paths:
            match = _SPLIT_FILE.fullmatch(path)
            if match and is_fact_file(path):
                snapshots = found.setdefault(match["folder"] or "", {})
                _add_split(snapshots, match, path, self.root)
        named = [
            Layout(self._name_of(folder), self.root, _in_order(snapshots, self.root / folder))
            for folder, snapshots in found.items()
        ]
        layouts = {layout.name: layout for layout in named}
        if len(layouts) < len(named):
            raise DataError("has two datasets of the same name; point to one", file=self.root)
        return layouts

    def layout(self, name: str | None) -> Layout:
        """The dataset of that name, whatever the case; without a name, the only one there is."""
        layouts = self.layouts()
        if not layouts:
            raise DataError(
                "holds no snapshots; expected files such as 0/train.txt", file=self.root
            )
        if name is not None:
            chosen = [known for known in layouts if known.casefold() == name.casefold()]
            if not chosen:
                raise UnknownName("dataset", name, layouts)
            return layouts[chosen[0]]
        if len(layouts) > 1:
            raise DataError(
                f"holds several datasets, name one: {', '.join(layouts)}", file=self.root
            )
        return next(iter(layouts.values()))

    def _name_of(self, folder: str) -> str:
        if folder:
            return PurePosixPath(folder).name
        return self.root.resolve().name if self.root.is_dir() else self.root.stem


@contextmanager
def opened(path: Path | str) -> Iterator[Source]:
    """Open a folder or a zip archive."""
    root = Path(path)
    if root.is_dir():
        yield Source(root, _paths_in(root), lambda file: _read_file(root / file))
        return
    if not root.exists():
        raise DataError("there is no such folder or archive; check the path", file=root)
    try:
        archive = zipfile.ZipFile(root)
    except (zipfile.BadZipFile, OSError) as error:
        raise DataError(f"is neither a folder nor a zip archive: {error}", file=root) from error
    with archive:
        yield Source(root, _members_of(archive, root), lambda file: _read_member(archive, file))


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
    _require(size <= MAX_UNPACKED, "unpacks to an unreasonable size", root)
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


def _read_file(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror or error}", file=path) from error


def _read_member(archive: zipfile.ZipFile, name: str) -> bytes:
    try:
        return archive.read(name)
    except (
        zipfile.BadZipFile,
        zlib.error,
        EOFError,
        OSError,
        RuntimeError,  # encrypted
    ) as error:
        place = f"{archive.filename}/{name}"
        raise DataError(f"cannot be unpacked ({error}); fetch it again", file=place) from error


def _add_split(
    snapshots: dict[int, dict[str, str]], match: re.Match[str], path: str, root: Path
) -> None:
    files = snapshots.setdefault(int(match["number"]), {})
    other = files.setdefault(match["split"], path)
    if other != path:
        raise DataError(f"stands for the same facts as {other}; remove one", file=f"{root}/{path}")


def _in_order(
    snapshots: Mapping[int, Mapping[str, str]], place: Path
) -> tuple[Mapping[str, str], ...]:
    """Snapshots by number, which must run on without a gap from 0 or 1."""
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
