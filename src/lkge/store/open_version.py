"""The version of a living graph that is open, and how another one is opened."""

from pathlib import Path

from lkge.errors import DamagedFile
from lkge.store.reader import Reader, open_reader
from lkge.store.versions import Store


class OpenVersion:
    """One version at a time, by number or tag; default: the newest one that is whole."""

    def __init__(self, folder: Path | str, version: int | str | None = None) -> None:
        self.reader: Reader = open_reader(folder, version)
        self.store: Store = self.reader.store
        self._is_newest = version is None

    def answering(self) -> Reader:
        """The open version, verified as far as it answers. If it is damaged, the newest one that is
        not, unless a version was asked for."""
        try:
            self.reader.verify_answers()
        except DamagedFile:
            if not self._is_newest:
                raise
            self.reader = open_reader(self.store.folder, to_answer=True)
        return self.reader

    def refresh(self) -> bool:
        """Go to the newest version; whether that is another one."""
        newest, version = self.store.newest(), self.reader.version
        if not self._is_open(newest):
            self.reader = open_reader(self.store.folder)
        return self.reader.version != version

    def go_to_last(self) -> None:
        """Go to the newest version, which must be whole: the next one is built on it."""
        last = self.store.next_version() - 1
        if not self._is_open(last):
            self.reader = open_reader(self.store.folder, last)

    def _is_open(self, version: int) -> bool:
        """Whether that version is open, with the files that it has now: a compaction may have given
        it others."""
        reader = self.reader
        files = reader.manifest.files
        return version == reader.version and self.store.manifest(version).files == files
