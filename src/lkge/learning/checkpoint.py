"""Checkpoints that a crash at any instant cannot spoil.

A manifest names the files of the last complete checkpoint with their digests. New files are
written beside the old ones, then the manifest is replaced in one act, then what it no longer names
is removed. Tensors are safetensors, the rest is JSON; no pickle is ever read or written.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import safetensors.torch
from torch import Tensor

from lkge.data.files import write_bytes_atomically, write_text_atomically
from lkge.errors import DamagedFile, RunError

MANIFEST = "manifest.json"
FORMAT = 1

Tensors = Mapping[str, Tensor]


@dataclass(frozen=True)
class Saved:
    """What a checkpoint holds: `start`, tensors at the start of the snapshot being learned;
    `epoch`, tensors after its last saved epoch, if any; `progress`, plain data."""

    start: dict[str, Tensor]
    epoch: dict[str, Tensor] | None
    progress: dict[str, Any]


class Checkpoints:
    """The checkpoint of one run, in one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._files: dict[str, dict[str, str]] = {}
        self._serial = 0

    def save_start(self, tensors: Tensors, progress: Mapping[str, Any]) -> None:
        """A new snapshot begins: nothing of the last one is needed any more."""
        self._files = {"start": self._write("start", tensors)}
        self._publish(progress)

    def save_epoch(self, tensors: Tensors, progress: Mapping[str, Any]) -> None:
        """An epoch has ended."""
        self._files["epoch"] = self._write("epoch", tensors)
        self._publish(progress)

    def load(self) -> Saved | None:
        """The last complete checkpoint, every digest checked; None if there is none."""
        path = self.folder / MANIFEST
        if not path.exists():
            return None
        manifest = read_json(path)
        if manifest.get("format") != FORMAT:
            raise RunError(f"{path}: written in another format; start a new run")
        self._files, self._serial = manifest["files"], manifest["serial"]
        parts = {part: self._read(entry) for part, entry in self._files.items()}
        return Saved(parts["start"], parts.get("epoch"), manifest["progress"])

    def _write(self, part: str, tensors: Tensors) -> dict[str, str]:
        self._serial += 1
        name = f"{part}-{self._serial}.safetensors"
        self.folder.mkdir(parents=True, exist_ok=True)
        return {"name": name, "sha256": write_tensors(self.folder / name, tensors)}

    def _read(self, entry: Mapping[str, str]) -> dict[str, Tensor]:
        return read_tensors(self.folder / entry["name"], entry["sha256"])

    def _publish(self, progress: Mapping[str, Any]) -> None:
        manifest = {
            "format": FORMAT,
            "serial": self._serial,
            "files": self._files,
            "progress": dict(progress),
        }
        write_text_atomically(self.folder / MANIFEST, json.dumps(manifest, indent=1))
        named = {entry["name"] for entry in self._files.values()} | {MANIFEST}
        for path in self.folder.iterdir():
            if path.name not in named:
                path.unlink(missing_ok=True)


def write_tensors(path: Path, tensors: Tensors) -> str:
    """Write named tensors atomically; return the digest of the file."""
    data = safetensors.torch.save({name: t.contiguous() for name, t in tensors.items()})
    write_bytes_atomically(path, data)
    return hashlib.sha256(data).hexdigest()


def read_tensors(path: Path, sha256: str) -> dict[str, Tensor]:
    """Named tensors of a file that must have the given digest."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise DamagedFile(f"{path}: cannot be read: {error.strerror}") from error
    if hashlib.sha256(data).hexdigest() != sha256:
        raise DamagedFile(f"{path}: damaged, its digest differs; restore it or start a new run")
    return safetensors.torch.load(data)


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object from a file."""
    try:
        tree = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise RunError(f"{path}: cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise DamagedFile(f"{path}: not valid JSON: {error}") from error
    if not isinstance(tree, dict):
        raise DamagedFile(f"{path}: not a JSON object")
    return tree
