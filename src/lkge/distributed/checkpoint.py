"""Checkpoints of a run in shards, in a folder that all workers share.

Each shard is a file, written by the worker that holds it. When all files are there, the first
worker replaces the manifest, which has the digests of all. Any number of workers can read it.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lkge.distributed.shards import Shards
from lkge.errors import DamagedFile
from lkge.training.checkpoint import (
    Checkpoints,
    Tensors,
    read_tensors,
)


class ShardedCheckpoints(Checkpoints):
    """The checkpoint of a run whose entity rows are in `shards`."""

    file_name = re.compile(r"(start|epoch)-\d+(-shard-\d+)?\.safetensors", re.ASCII)

    def __init__(self, folder: Path, shards: Shards) -> None:
        super().__init__(folder)
        self.shards, self.workers = shards, shards.workers

    def agreed(self, is_due: bool) -> bool:
        return self.workers.agree(is_due)

    def load_shards(self, part: str, entities: int) -> None:
        """Take back the shards of "start" or "epoch"."""
        entries = {shard: self._files.get(f"{part} {shard}") for shard in self.shards.here}
        if missing := [shard for shard, entry in entries.items() if entry is None]:
            raise DamagedFile(f"{self._manifest}: has no shard {missing[0]}; start a new run")
        saved = {
            shard: read_tensors(self.folder / entry["name"], entry["sha256"])
            for shard, entry in entries.items()
            if entry is not None
        }
        self.shards.load(saved, entities)

    def _write(self, part: str, tensors: Tensors) -> dict[str, str]:
        """Every worker writes its shards, the first one also what all have."""
        self._serial += 1
        stem, own = f"{part}-{self._serial}", {}
        self.folder.mkdir(parents=True, exist_ok=True)
        for shard, rows in self.shards.named():
            own[f"{part} {shard}"] = self._file(f"{stem}-shard-{shard}.safetensors", rows)
        if self.workers.is_first:
            own[part] = self._file(f"{stem}.safetensors", tensors)
        for entries in self.workers.tell(own):
            self._files |= entries
        return self._files[part]

    def _publish(self, progress: Mapping[str, Any]) -> None:
        if self.workers.is_first:
            super()._publish(progress)
        self.workers.wait()
