"""A store with everything that a store can have, and ways to craft its files."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import zlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.torture.inputs import Source, changed_tree
from tests.torture.operations import TINY

from lkge.data.checked_json import CHECKSUM, _digest, write_checked_json
from lkge.living import init
from lkge.living import open as open_graph
from lkge.store.arrays import BLOCK, CHECKSUMS
from lkge.store.inbox import accept
from lkge.store.records import StoreConfig
from lkge.training.events import EpochFinished, Event

FACTS = [(f"n{n}", f"r{n % 2}", f"n{n * n % 23}") for n in range(60)]
LARGE = 10**12
"""Bytes of a file that is mostly a hole."""


def make_store(folder: Path) -> None:
    """Versions of several kinds, tags, notes, batches that wait or are set aside, a checkpoint."""
    graph = init(folder, **TINY | {"max_epochs": 3})
    graph.store_config = StoreConfig(deltas_from_bytes=0)
    graph.add(FACTS)
    graph.add([("n1", "r0", "new")], retract=FACTS[:2])
    graph.add(FACTS[5:6])
    graph.edit(rename=("n3", "other"))
    graph.tag("first", 1)
    accept(graph.store, [("n1", "r1", "aside")])
    graph.set_aside(graph.queue()[0].number)
    eager = StoreConfig(seconds_between_checkpoints=0)
    with suppress(KeyboardInterrupt):
        open_graph(folder, store_config=eager).add(FACTS_TO_COME, listener=_stop)
    accept(graph.store, [("n4", "r1", "n9")])
    (folder / "writer.lock").write_text("{}", encoding="utf-8")


FACTS_TO_COME = [(f"m{n}", "r0", f"n{n}") for n in range(20)]


def _stop(event: Event) -> None:
    if isinstance(event, EpochFinished) and event.epoch == 2:
        raise KeyboardInterrupt


def craft(source: Source, kg: Path, outside: Path) -> str:
    """Change one to three things in a store; what was done, in words."""
    said = []
    for _ in range(source.choice([1, 1, 2, 3])):
        paths = sorted(path for path in kg.rglob("*"))
        if paths:
            path, act = source.choice(paths), source.choice(ACTS)
            said.append(f"{act.__name__} {path.relative_to(kg)}")
            act(source, path, kg, outside)
    return ", ".join(said)


def flip(source: Source, path: Path, kg: Path, outside: Path) -> None:
    """Some bytes, as rot does."""
    _write(path, source.damaged(_read(path)))


def flip_and_reseal(source: Source, path: Path, kg: Path, outside: Path) -> None:
    """Some bytes, and every digest of the file anew."""
    before = _read(path)
    data = bytearray(before)
    for _ in range(source.randrange(1, 4)):
        if data:
            data[source.randrange(len(data))] ^= source.randrange(256)
    sealed = with_checksums(bytes(data))
    _write(path, sealed)
    _reseal(kg, before, sealed)


def edit_json(source: Source, path: Path, kg: Path, outside: Path) -> None:
    """A value of a JSON file, and all digests anew; of another file, of one of the JSON files."""
    if path.suffix != ".json" or not path.is_file():
        files = sorted(each for each in kg.rglob("*.json") if each.is_file())
        path = source.choice(files or [path])
    before = _read(path)
    try:
        tree = json.loads(before)
    except (ValueError, RecursionError):
        return
    if isinstance(tree, dict):
        tree.pop(CHECKSUM, None)
        changed = changed_tree(source, tree)
        tree = changed if isinstance(changed, dict) else {"x": changed}
        tree[CHECKSUM] = _digest(tree)
    data = json.dumps(tree).encode("utf-8", "surrogatepass")
    _write(path, data)
    _reseal(kg, before, data)


def delete(source: Source, path: Path, kg: Path, outside: Path) -> None:
    """A file, or a folder with all that is in it."""
    shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()


def exchange(source: Source, path: Path, kg: Path, outside: Path) -> None:
    """The content of one file for that of another."""
    others = sorted(each for each in kg.rglob("*") if each.is_file())
    if others:
        _write(path, _read(source.choice(others)))


def link(source: Source, path: Path, kg: Path, outside: Path) -> None:
    """A symbolic link in place of something: outwards, to a device, to itself, or to nothing."""
    targets = ["/dev/zero", path.name, "nothing", "/", "..", outside, *sorted(outside.rglob("*"))]
    if source.random() < 0.5 and not path.is_symlink():  # the same, but outside
        moved = outside.parent / "moved" / f"{source.randrange(10**9)}"
        moved.parent.mkdir(exist_ok=True)
        shutil.move(path, moved)
        path.symlink_to(moved)
        return
    delete(source, path, kg, outside)
    path.symlink_to(source.choice(targets))


def pipe(source: Source, path: Path, kg: Path, outside: Path) -> None:
    """A pipe in place of something."""
    delete(source, path, kg, outside)
    os.mkfifo(path)


def folder(source: Source, path: Path, kg: Path, outside: Path) -> None:
    """A folder in place of something, or an empty file in place of a folder."""
    was_folder = path.is_dir()
    delete(source, path, kg, outside)
    path.touch() if was_folder else path.mkdir()


def oversize(source: Source, path: Path, kg: Path, outside: Path) -> None:
    """A file that is mostly a hole."""
    if path.is_file():
        os.truncate(path, source.choice([LARGE, 1 << 31, 0]))


def stray(source: Source, path: Path, kg: Path, outside: Path) -> None:
    """A file that does not belong there, under a name that might."""
    place = path if path.is_dir() else path.parent
    names = ["000099", "99999999.json", "set_aside", "x", ".x.0a1b2c3d.part", "tags.json", "-x"]
    target = place / source.choice(names)
    if not os.path.lexists(target):
        _write(target, source.randbytes(20)) if source.random() < 0.6 else target.mkdir()


def deep(source: Source, path: Path, kg: Path, outside: Path) -> None:
    """JSON that is nested far too deeply."""
    _write(path, source.choice([b"[", b'{"a":']) * 100_000)


Act = Callable[[Source, Path, Path, Path], None]
ACTS: list[Act] = [
    *(flip, flip, flip_and_reseal, flip_and_reseal, edit_json, edit_json, edit_json, delete),
    *(exchange, link, link, pipe, folder, oversize, stray, deep),
]


def _read(path: Path) -> bytes:
    return path.read_bytes() if path.is_file() and path.stat().st_size < 1 << 24 else b""


def _write(path: Path, data: bytes) -> None:
    if path.is_file() or not os.path.lexists(path):
        path.write_bytes(data)


def _reseal(kg: Path, before: bytes, after: bytes) -> None:
    """Let every file that names the digest of a file name the new one."""
    old, new = (digest_of(data) for data in (before, after))
    for path in sorted(kg.rglob("*.json")):
        text = _read(path)
        if old.encode() in text:
            with_new = text.replace(old.encode(), new.encode())
            try:
                tree = json.loads(with_new)
                _set_size(tree, new, len(after))
                tree.pop(CHECKSUM)
                write_checked_json(path, tree)
            except (KeyError, ValueError, TypeError, AttributeError, RecursionError):
                continue
            _reseal(kg, text, path.read_bytes())


def digest_of(data: bytes) -> str:
    """What a manifest has for a file: for arrays the digest of header and block checksums."""
    begin, end = _span_of_checksums(data)
    return hashlib.sha256(
        data if begin == end else data[: _head(data)] + data[begin:end]
    ).hexdigest()


def with_checksums(data: bytes) -> bytes:
    """A file of arrays with the checksums that its blocks have now, if it has places for them."""
    begin, end = _span_of_checksums(data)
    head = _head(data)
    blocks = [zlib.crc32(data[at : min(at + BLOCK, begin)]) for at in range(head, begin, BLOCK)]
    sums = b"".join(each.to_bytes(4, "little") for each in blocks)
    return data[:begin] + sums + data[end:] if len(sums) == end - begin else data


def _head(data: bytes) -> int:
    return 8 + int.from_bytes(data[:8], "little")


def _span_of_checksums(data: bytes) -> tuple[int, int]:
    """Where the block checksums are in a file of arrays; nowhere in others."""
    try:
        begin, end = json.loads(data[8 : _head(data)])[CHECKSUMS]["data_offsets"]
        return _head(data) + begin, _head(data) + end
    except (ValueError, KeyError, TypeError, RecursionError, OverflowError, MemoryError):
        return 0, 0


def _set_size(tree: Any, digest: str, size: int) -> None:
    if isinstance(tree, dict):
        if tree.get("sha256") == digest and "bytes" in tree:
            tree["bytes"] = size
        for value in tree.values():
            _set_size(value, digest, size)
    elif isinstance(tree, list):
        for value in tree:
            _set_size(value, digest, size)
