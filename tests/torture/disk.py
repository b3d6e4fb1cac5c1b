"""What a disk may hold after a crash: a model of which calls last, and all that may be lost.

The data of a file last when the file was synced, and the entries of a folder when the folder was.
Of everything else any part may be lost, in any order: an entry is there or not; a file has all of
its last writes, some, half of one, zeros or other bytes in their place, or is cut short. A rename
within a folder is one entry that changes; between two folders the old name never goes first.
"""

from __future__ import annotations

import hashlib
import itertools
import math
import os
import random
import shutil
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Any

from tests.torture.filesystem import Call

Tree = dict[str, bytes | None]
"""Content by path; a folder has none."""
NEVER = 1 << 60
NOBODY = -1


def tree_of(folder: Path) -> Tree:
    """All that is in a folder."""
    tree: Tree = {}
    for path in sorted(folder.rglob("*")):
        assert not path.is_symlink(), f"{path}: links are not modelled"
        tree[str(path.relative_to(folder))] = None if path.is_dir() else path.read_bytes()
    return tree


def write_tree(tree: Tree, folder: Path) -> Path:
    """Make a folder of this content, and nothing else in it."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name in sorted(tree):
        content = tree[name]
        if content is None:
            (folder / name).mkdir()
        else:
            (folder / name).write_bytes(content)
    return folder


def digest_of(tree: Tree) -> bytes:
    """Equal for equal content."""
    digest = hashlib.sha256()
    for name, content in sorted(tree.items()):
        digest.update(f"{name}\0{-1 if content is None else len(content)}\0".encode())
        digest.update(content or b"")
    return digest.digest()


@dataclass(frozen=True)
class Entry:
    """A folder loses the name `gone`, gets the name `name` for a node, or both at once. The old
    name of a rename between folders needs the new one: it never goes alone."""

    owner: int
    gone: str = ""
    name: str = ""
    node: int = -1
    needs: int = -1


@dataclass(frozen=True)
class Data:
    """A write into a file."""

    owner: int
    offset: int
    data: bytes


@dataclass(frozen=True)
class Size:
    """A file gets a length."""

    owner: int
    size: int


@dataclass(frozen=True)
class Sync:
    """All earlier changes of the owner last. `site` is where in the code it was asked for."""

    owner: int
    path: str
    site: str


Change = Entry | Data | Size | Sync


@dataclass
class Disk:
    """The content of a folder at the start, and what was changed in it."""

    files: dict[int, bytes] = field(default_factory=dict)
    folders: dict[int, dict[str, int]] = field(default_factory=lambda: {0: {}})
    changes: list[Change] = field(default_factory=list)
    lasts: list[int] = field(default_factory=list)
    """The sync from which on each change lasts."""
    _mine: dict[int, list[int]] = field(default_factory=dict)
    """The changes of the data of each file."""
    _contents: dict[tuple[int, int], bytes] = field(default_factory=dict)
    """The content of a file after so many of these."""

    @classmethod
    def of(cls, root: Path, start: Tree, calls: Sequence[Call]) -> Disk:
        """From the content of `root` at the start, and the calls below it since."""
        disk, base = cls(), str(root.resolve())
        for name, content in sorted(start.items()):
            parent = disk._find(disk.folders, str(PurePosixPath(name).parent))
            disk.folders[parent][PurePosixPath(name).name] = disk._new_node(content)
        live = {node: dict(names) for node, names in disk.folders.items()}
        for call in calls:
            disk._take(call, base, live)
        disk._pin()
        return disk

    def without(self, syncs: Collection[int]) -> Disk:
        """The same where some syncs, given by their places, do nothing."""
        nothing = Sync(NOBODY, "", "")
        changes = [nothing if n in syncs else change for n, change in enumerate(self.changes)]
        disk = Disk(self.files, self.folders, changes)
        disk._pin()
        return disk

    @property
    def syncs(self) -> dict[int, Sync]:
        """All syncs by their places."""
        return {n: change for n, change in enumerate(self.changes) if isinstance(change, Sync)}

    def end(self) -> Tree:
        """The content when nothing is lost."""
        return self.tree(range(len(self.changes)), {}, len(self.changes))

    def tree(self, kept: Iterable[int], contents: Mapping[int, bytes], moment: int) -> Tree:
        """The content with some of the entries, before the change number `moment`. `contents` are
        those of files that have lost something."""
        folders = self._folders(kept)
        result: Tree = {}

        def walk(node: int, path: str) -> None:
            for name, child in folders.get(node, {}).items():
                if child in self.files:
                    lost = contents.get(child)
                    result[path + name] = self._content(child, moment) if lost is None else lost
                else:
                    result[path + name] = None
                    walk(child, f"{path}{name}/")

        walk(0, "")
        return result

    def states(self, moment: int, limit: int, chance: random.Random) -> Iterator[Tree]:
        """What the disk may hold if the power goes before change `moment`: all states, or a sample
        of about `limit`, with those among them that lose all, nothing, or one thing."""
        fixed, entries, files = self._losable(moment)
        for choice in _combinations(_choices(entries, files), limit, chance):
            kept = [n for n, keep in zip(entries, choice, strict=False) if keep]
            contents = dict(zip(files, choice[len(entries) :], strict=True))
            yield self.tree([*fixed, *kept], contents, moment)

    def number_of_states(self, moment: int) -> int:
        """How many `states` there are; some may be equal."""
        _, entries, files = self._losable(moment)
        return math.prod(map(len, _choices(entries, files)))

    def _losable(self, moment: int) -> tuple[list[int], list[int], dict[int, list[bytes]]]:
        """The changes that last before a moment, the entries that may be lost, and the contents
        that each file may have of those that have something to lose."""
        fixed = [n for n in range(moment) if self.lasts[n] < moment]
        pending = [n for n in range(moment) if self.lasts[n] >= moment]
        entries = [n for n in pending if isinstance(self.changes[n], Entry)]
        seen = {node for names in self._folders(fixed).values() for node in names.values()}
        seen |= {change.node for n in entries if isinstance(change := self.changes[n], Entry)}
        files = self._pending_files(pending, moment)
        return fixed, entries, {node: files[node] for node in files if node in seen}

    def losses(self, place: int, sync: Sync, moment: int, *, whole: bool) -> Iterator[Tree]:
        """States of a disk on which `sync`, at this place, does nothing: what it would have pinned
        is lost, and nothing else: the `whole` of it, of a file or a folder, or a part."""
        mine = [n for n in range(place) if self.changes[n].owner == sync.owner]
        pending = [n for n in mine if self.lasts[n] >= moment]
        fixed = [n for n in range(moment) if n not in pending]
        entries = [n for n in pending if isinstance(self.changes[n], Entry)]
        files = self._pending_files(pending, moment)
        kept = {node: contents[0] for node, contents in files.items()}
        if entries and whole:
            yield self.tree(fixed, kept, moment)
        for node, contents in files.items():
            for content in contents[1:2] if whole else contents[2:]:
                yield self.tree([*fixed, *entries], {**kept, node: content}, moment)
        for lost in entries if len(entries) > 1 and not whole else ():
            yield self.tree([*fixed, *(n for n in entries if n != lost)], kept, moment)

    def _folders(self, kept: Iterable[int]) -> dict[int, dict[str, int]]:
        """The names in all folders after some of the changes."""
        folders, chosen = {node: dict(names) for node, names in self.folders.items()}, set(kept)
        for place in sorted(chosen):
            change = self.changes[place]
            if isinstance(change, Entry) and (change.needs < 0 or change.needs in chosen):
                names = folders.setdefault(change.owner, {})
                names.pop(change.gone, None)
                if change.name:
                    names[change.name] = change.node
        return folders

    def _pending_files(self, pending: Sequence[int], moment: int) -> dict[int, list[bytes]]:
        """The contents that each file may have that has something to lose, the whole one first."""
        owners = {self.changes[n].owner: n for n in reversed(pending)}
        result = {}
        for node, first in owners.items():
            if node in self.files:
                late = [
                    change
                    for change in self.changes[first:moment]
                    if change.owner == node and isinstance(change, (Data, Size))
                ]
                result[node] = variants(self._content(node, first), late)
        return {node: contents for node, contents in result.items() if len(contents) > 1}

    def _content(self, node: int, moment: int) -> bytes:
        """All that was written into a file before a moment."""
        mine = self._mine.get(node, [])
        number = bisect_left(mine, moment)
        if (node, number) not in self._contents:
            changes = (self.changes[place] for place in mine[:number])
            self._contents[node, number] = written(self.files[node], changes)
        return self._contents[node, number]

    def _new_node(self, content: bytes | None) -> int:
        node = len(self.files) + len(self.folders)
        if content is None:
            self.folders[node] = {}
        else:
            self.files[node] = content
        return node

    @staticmethod
    def _find(folders: Mapping[int, Mapping[str, int]], path: str) -> int:
        node = 0
        for part in PurePosixPath(path).parts:
            node = folders[node][part]
        return node

    def _take(self, call: Call, base: str, live: dict[int, dict[str, int]]) -> None:
        """A call becomes changes; `live` is what the process sees."""
        path = os.path.relpath(call.path, base)
        if call.name in ("write", "truncate", "fsync"):
            node = self._find(live, path)
            match call.name:
                case "write":
                    self.changes.append(Data(node, call.offset, call.data))
                case "truncate":
                    self.changes.append(Size(node, call.offset))
                case _:
                    self.changes.append(Sync(node, path, call.site))
            return
        folder, name = self._find(live, str(PurePosixPath(path).parent)), PurePosixPath(path).name
        match call.name:
            case "create" | "mkdir":
                node = self._new_node(None if call.name == "mkdir" else b"")
                if call.name == "mkdir":
                    live[node] = {}
                live[folder][name] = node
                self.changes.append(Entry(folder, "", name, node))
            case "unlink" | "rmdir":
                del live[folder][name]
                self.changes.append(Entry(folder, name))
            case "rename" | "link":
                self._rename(call, base, live, folder, name)
            case other:
                raise AssertionError(f"the call {other} is not modelled")

    def _rename(
        self, call: Call, base: str, live: dict[int, dict[str, int]], folder: int, name: str
    ) -> None:
        target = PurePosixPath(os.path.relpath(call.target, base))
        into, node = self._find(live, str(target.parent)), live[folder][name]
        gone = name if call.name == "rename" else ""
        if gone:
            del live[folder][name]
        live[into][target.name] = node
        if folder == into or not gone:
            self.changes.append(Entry(into, gone, target.name, node))
        else:
            self.changes.append(Entry(into, "", target.name, node))
            self.changes.append(Entry(folder, gone, needs=len(self.changes) - 1))

    def _pin(self) -> None:
        synced: dict[int, int] = {}
        self.lasts = [NEVER] * len(self.changes)
        for place in reversed(range(len(self.changes))):
            change = self.changes[place]
            if isinstance(change, Sync):
                synced[change.owner] = place
            self.lasts[place] = synced.get(change.owner, NEVER)
        self._mine, self._contents = {}, {}
        for place, change in enumerate(self.changes):
            if isinstance(change, (Data, Size)):
                self._mine.setdefault(change.owner, []).append(place)


def written(content: bytes, changes: Iterable[Change]) -> bytes:
    """What a file holds after some changes."""
    data = bytearray(content)
    for change in changes:
        if isinstance(change, Data):
            data.extend(bytes(max(0, change.offset - len(data))))
            data[change.offset : change.offset + len(change.data)] = change.data
        elif isinstance(change, Size):
            del data[change.size :]
            data.extend(bytes(change.size - len(data)))
    return bytes(data)


def variants(before: bytes, late: Sequence[Data | Size]) -> list[bytes]:
    """What a file may hold whose last changes were not synced, the whole content first."""
    whole = written(before, late)
    results = [whole, before]
    for place, change in enumerate(late):
        earlier, later = late[:place], late[place + 1 :]
        results += [written(before, earlier), written(before, [*earlier, *later])]
        if isinstance(change, Data):
            half, size = len(change.data) // 2, len(change.data)
            start = change.data[:half]
            results.append(written(before, [*earlier, replace(change, data=start)]))
            for data in (bytes(size), start + bytes(size - half), random.Random(1).randbytes(size)):
                results.append(written(before, [*earlier, replace(change, data=data), *later]))
    results.append(whole[: (len(before) + len(whole)) // 2])  # what was synced is not cut off
    return list(dict.fromkeys(results))


def _choices(entries: Sequence[int], files: Mapping[int, Sequence[bytes]]) -> list[Sequence[Any]]:
    """Each entry is there or not; each file has one of its contents."""
    return [(True, False)] * len(entries) + [*files.values()]


def _combinations(
    choices: Sequence[Sequence[Any]], limit: int, chance: random.Random
) -> Iterator[tuple[Any, ...]]:
    """One of each: all combinations, or a sample."""
    if math.prod(map(len, choices)) <= limit:
        yield from itertools.product(*choices)
        return
    first = tuple(choice[0] for choice in choices)
    second = tuple(choice[1] for choice in choices)
    yield first
    yield second
    for base in (first, second):
        for place, choice in enumerate(choices):
            for other in choice:
                yield (*base[:place], other, *base[place + 1 :])
    for _ in range(limit):
        yield tuple(map(chance.choice, choices))
