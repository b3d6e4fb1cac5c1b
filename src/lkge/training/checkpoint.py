"""Checkpoints that are complete after a crash at any instant.

A manifest names the files of the last complete checkpoint with their digests, and has a checksum of
itself. New files are written beside the old ones, then the manifest is replaced atomically, then
files that it no longer names are removed. Tensors are safetensors, the rest is JSON; no pickle is
read or written.
"""

import hashlib
import json
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
import safetensors.torch
import torch
from torch import Tensor

from lkge.data.checked_json import read_checked_json, write_checked_json
from lkge.data.files import as_run_error, reason_of, remove, sync_folder, unfinished
from lkge.data.reading import max_memory, read_regular
from lkge.errors import DamagedFile, LkgeError, RunError

MANIFEST = "manifest.json"
FORMAT = 1
TRAINING = "course"
"""The key of the trainer's data in the manifest."""

Tensors = Mapping[str, Tensor]

TIME_SHARE = 0.05
PIECE = 1 << 24
"""Bytes that are written at a time."""
CODES = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}
"""How the header of a file names a type."""


@dataclass(frozen=True)
class Saved:
    """What a checkpoint holds: `start`, tensors at the start of the snapshot being learned;
    `epoch`, tensors after its last saved epoch, if any; `progress`, plain data."""

    start: dict[str, Tensor]
    epoch: dict[str, Tensor] | None
    progress: dict[str, Any]

    @property
    def training(self) -> dict[str, Any]:
        """The plain data of the trainer after the last saved epoch; empty if there is none."""
        return self.progress.get(TRAINING) or {}


class Checkpoints:
    """The checkpoint of one run, in one folder."""

    file_name = re.compile(r"(start|epoch)-\d+\.safetensors", re.ASCII)

    def __init__(self, folder: Path) -> None:
        self.folder, self._manifest = folder, folder / MANIFEST
        self._files: dict[str, dict[str, str]] = {}
        self._serial = 0

    @property
    def exists(self) -> bool:
        """Whether there is a checkpoint."""
        return self._manifest.exists()

    def save_start(self, tensors: Tensors, progress: Mapping[str, Any]) -> None:
        """A new snapshot begins; the files of the last one are removed."""
        self._files = {}
        self._files["start"] = self._write("start", tensors)
        self._publish(progress)

    def save_epoch(self, tensors: Tensors, progress: Mapping[str, Any]) -> None:
        """An epoch has ended."""
        self._files["epoch"] = self._write("epoch", tensors)
        self._publish(progress)

    def load(self) -> Saved | None:
        """The last complete checkpoint, every digest checked; None if there is none."""
        if not self.exists:
            return None
        manifest = read_checked_json(self._manifest)
        if manifest.get("format") != FORMAT:
            raise RunError(f"{self._manifest}: written in another format; start a new run")
        try:
            files = {part: self._entry(manifest["files"][part]) for part in manifest["files"]}
            serial, progress = int(manifest["serial"]), dict(manifest["progress"])
        except (LookupError, TypeError, ValueError) as error:
            complaint = f"{self._manifest}: damaged, not of a checkpoint: {error!r}"
            raise DamagedFile(complaint) from error
        self._files, self._serial = files, serial
        parts = {
            part: read_tensors(self.folder / entry["name"], entry["sha256"])
            for part, entry in self._files.items()
            if part in ("start", "epoch")
        }
        return Saved(parts.get("start", {}), parts.get("epoch"), progress)

    def load_or_remove(self, warn: Callable[[str], None]) -> Saved | None:
        """The last complete checkpoint. One that cannot be read is removed, and `warn` gets a line
        that names it: training begins anew. So does what is no folder in its place."""
        try:
            if self.folder.is_symlink() or not self.folder.is_dir():
                remove(self.folder)
            return self.load()
        except LkgeError as error:
            self.remove_unfit(error, warn)
            return None

    def remove_unfit(self, error: LkgeError, warn: Callable[[str], None]) -> None:
        """Remove a checkpoint that cannot be used, and say so."""
        warn(f"{self.folder}: the checkpoint is unfit, training begins anew: {error}")
        self.remove()

    def remove(self) -> None:
        """Remove the checkpoint; the manifest first, so that it never names a missing file."""
        if self.folder.exists():
            remove(self._manifest)
            with as_run_error(self.folder):
                sync_folder(self.folder)
                shutil.rmtree(self.folder)

    def agreed(self, is_due: bool) -> bool:
        """Whether to save now; where several processes write one checkpoint, one decides."""
        return is_due

    def _entry(self, entry: Mapping[str, str]) -> dict[str, str]:
        """Name and digest of a file of a checkpoint; the name is one that is given here."""
        if not self.file_name.fullmatch(entry["name"]):
            raise ValueError(entry["name"])
        return {"name": entry["name"], "sha256": entry["sha256"]}

    def _write(self, part: str, tensors: Tensors) -> dict[str, str]:
        self._serial += 1
        self.folder.mkdir(parents=True, exist_ok=True)
        return self._file(f"{part}-{self._serial}.safetensors", tensors)

    def _file(self, name: str, tensors: Tensors) -> dict[str, str]:
        return {"name": name, "sha256": write_tensors(self.folder / name, tensors)}

    def _publish(self, progress: Mapping[str, Any]) -> None:
        manifest = {"format": FORMAT, "serial": self._serial, "files": self._files}
        write_checked_json(self._manifest, {**manifest, "progress": dict(progress)})
        named = {entry["name"] for entry in self._files.values()} | {MANIFEST}
        for path in self.folder.iterdir():
            if path.name not in named:
                remove(path)


class CheckpointSaver:
    """Saves training states, at most one in `interval` seconds and for at most `TIME_SHARE` of the
    time; all if `interval` is 0. `progress` is saved with them."""

    def __init__(
        self, checkpoints: Checkpoints, interval: float, progress: Mapping[str, Any] | None = None
    ) -> None:
        self._checkpoints, self._interval = checkpoints, interval
        self._progress = progress or {}
        self._last = time.monotonic()

    def save(self, state: Callable[[], tuple[dict[str, Tensor], dict[str, Any]]]) -> None:
        """Save what `state` returns, if the interval has passed."""
        if not self._checkpoints.agreed(time.monotonic() - self._last >= self._interval):
            return
        started = time.monotonic()
        tensors, training = state()
        with as_run_error(self._checkpoints.folder):
            self._checkpoints.save_epoch(tensors, {**self._progress, TRAINING: training})
        self._last = time.monotonic()
        if self._interval:
            self._interval = max(self._interval, (self._last - started) / TIME_SHARE)


def with_prefix(prefix: str, tensors: Tensors) -> dict[str, Tensor]:
    """Tensors under longer names; `without_prefix` is the inverse."""
    return {f"{prefix}{name}": tensor for name, tensor in tensors.items()}


def without_prefix(prefix: str, tensors: Tensors) -> dict[str, Tensor]:
    """The tensors whose names start with `prefix`, under the rest of their names."""
    return {n.removeprefix(prefix): t for n, t in tensors.items() if n.startswith(prefix)}


def write_tensors(path: Path, tensors: Tensors) -> str:
    """Write named tensors atomically, some bytes at a time; the SHA-256 of the file."""
    digest = hashlib.sha256()
    with unfinished(path) as temporary, temporary.open("xb") as file:
        for piece in _file_pieces(tensors):
            digest.update(piece)
            file.write(piece)
        file.flush()
        os.fsync(file.fileno())
    return digest.hexdigest()


def _file_pieces(tensors: Tensors) -> Iterator[memoryview]:
    """All bytes of a file in the safetensors format; `safetensors.torch.save` makes two copies."""
    names = sorted(tensors, key=lambda name: (-tensors[name].element_size(), name))
    header, end = {}, 0
    for name in names:
        tensor, start = tensors[name], end
        end += tensor.numel() * tensor.element_size()
        shape = list(tensor.shape)
        header[name] = {"dtype": CODES[tensor.dtype], "shape": shape, "data_offsets": [start, end]}
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    yield memoryview(len(text).to_bytes(8, "little") + text)
    for name in names:
        array = np.ascontiguousarray(tensors[name].detach().cpu().numpy())
        plain = array.reshape(-1).view(np.uint8)
        for start in range(0, len(plain), PIECE):
            yield plain[start : start + PIECE].data


def read_tensors(path: Path, sha256: str, *, follow: bool = True) -> dict[str, Tensor]:
    """Named tensors of a file, which must have the given SHA-256; `follow`: whether it may be a
    symbolic link."""
    try:
        data = read_regular(path, max_memory(), follow=follow)
    except OSError as error:
        raise DamagedFile(f"{path}: cannot be read: {reason_of(error)}") from error
    if hashlib.sha256(data).hexdigest() != sha256:
        raise DamagedFile(f"{path}: damaged, its digest differs; restore it or start a new run")
    try:
        return safetensors.torch.load(data)
    except (safetensors.SafetensorError, ValueError, KeyError) as error:
        raise DamagedFile(f"{path}: not a file of tensors: {error}") from error
