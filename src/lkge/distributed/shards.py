"""The entity rows of a run in shards: parameters, optimizer state and averages, of which each
worker holds some, in memory or mapped from its disk.

A worker trains a pair of shards as one table, their `Hand`, and puts the rows back. Between rounds
shards move to the workers that train them next. At the start of an epoch each shard is at its home,
the worker of its pair in the first round; what belongs to the best epoch stays there.
"""

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from lkge.config import RunConfig
from lkge.data.snapshots import Facts, Snapshot
from lkge.distributed.group import Workers
from lkge.distributed.partition import Ids, Pair, Partition
from lkge.models.model import INITIALISE, stream, xavier_rows
from lkge.models.parameters import index

TABLE, SUMS, MEAN, DEALT = "table", "sums", "mean", "dealt"
BEST, BEST_SUMS, BEST_DEALT = "best", "best-sums", "best-dealt"

Rows = dict[str, Tensor]
"""The tensors (rows, d) of one shard, or of a pair, by name."""


class Shards:
    """All shards, of which this worker holds those in `here`: in the memory of its device, or with
    a `folder` in files there, of which the system keeps in memory what it can."""

    def __init__(
        self,
        config: RunConfig,
        sizes: Sequence[int],
        workers: Workers,
        folder: Path | None = None,
    ) -> None:
        """`sizes`: the entities after each snapshot."""
        self._config, self._folder, self._sizes = config, folder, sizes
        self.partition, self.workers = self._dealt((0, 0)), workers
        self._best_partition = self.partition
        self.here: dict[int, Rows]
        self.entities = 0
        self._best: dict[int, Rows] = {}
        owners = enumerate(self._owners(0))
        self.here = {shard: {} for shard, owner in owners if owner == workers.rank}

    def pairs(self, turn: int) -> list[tuple[int, Pair]]:
        """The pairs of a round that this worker trains, with their numbers in the round."""
        pairs = enumerate(self.partition.rounds[turn])
        return [(n, pair) for n, pair in pairs if self._worker_of(n) == self.workers.rank]

    @property
    def pairs_of_worker(self) -> int:
        """The pairs of a round that a worker trains, at most."""
        return -(-self.partition.shards // 2 // self.workers.size)

    def grow(self, snapshot: Snapshot, *, anew: bool = False) -> None:
        """Random rows for the entities that have none yet, or for all."""
        before, self.entities = 0 if anew else self.entities, snapshot.num_entities
        for shard, rows in self.here.items():
            known = self.partition.rows(shard, before)
            new = self._drawn(snapshot, shard, self.partition.rows(shard, self.entities) - known)
            for name in (TABLE, SUMS):
                added = new if name == TABLE else torch.zeros_like(new)
                grown = torch.cat([rows[name][:known], added]) if known else added
                rows[name] = self._kept(grown)

    def begin(self, *, carries_sums: bool, averages: bool) -> None:
        """A snapshot begins."""
        self._best = {}
        for rows in self.here.values():
            if not carries_sums:
                rows[SUMS].zero_()
            if averages:
                rows[MEAN] = self._kept(rows[TABLE])

    def end(self) -> None:
        """A snapshot ends with the rows of its best epoch, and the sums, if these are kept."""
        for shard, rows in self.here.items():
            best = self._best.get(shard, {})
            rows[TABLE], rows[SUMS] = best.get(BEST, rows[TABLE]), best.get(BEST_SUMS, rows[SUMS])
            rows.pop(MEAN, None)
        self.partition = self._best_partition if self._best else self.partition
        self._best = {}

    def keep_best(self, *, with_sums: bool) -> None:
        """The rows that would be used for inference now are those of the best epoch."""
        names = {BEST: self.inference, **({BEST_SUMS: SUMS} if with_sums else {})}
        self._best_partition = self.partition
        for shard, rows in self.here.items():
            best = self._best.setdefault(shard, {})
            for name, source in names.items():
                if name in best:
                    best[name].copy_(rows[source])
                else:
                    best[name] = self._kept(rows[source])

    @property
    def inference(self) -> str:
        """The name of the rows that would answer now: the average, where there is one."""
        return MEAN if all(MEAN in rows for rows in self.here.values()) else TABLE

    def hand(self, pair: Pair) -> Rows:
        """A copy of the rows of two shards as one table, on the device."""
        first, second = (self.here[shard] for shard in pair)
        device = self._config.training.device
        return {name: torch.cat([first[name], second[name]]).to(device) for name in first}

    def put_back(self, pair: Pair, hand: Rows) -> None:
        """The inverse of `hand`."""
        for name, tensor in hand.items():
            start = 0
            for shard in pair:
                rows = self.here[shard][name]
                rows.copy_(tensor[start : start + len(rows)])
                start += len(rows)

    def local(self, pair: Pair, facts: Facts) -> Facts:
        """Facts with the rows of their entities in the hand of a pair."""
        ends = facts[:, (0, 2)]
        rows = self.partition.row(ends)
        rows[self.partition.shard(ends) != pair[0]] += self.partition.rows(pair[0], self.entities)
        return np.stack([rows[:, 0], facts[:, 1], rows[:, 1]], axis=1)

    def move(self, turn: int) -> None:
        """Each shard goes to the worker that trains it in a round; the others give it away."""
        owners = self._owners(turn)
        before = self._owners((turn - 1) % len(self.partition.rounds))
        sent, received, wanted = [], [], {}
        for shard, (old, new) in enumerate(zip(before, owners, strict=True)):
            if old == new or self.workers.rank not in (old, new):
                continue
            if self.workers.rank == old:
                rows = self.here.pop(shard)
                sent += [(new, tag, part) for tag, part in self._tagged(shard, rows)]
            else:
                wanted[shard] = rows = self._empty(shard)
                received += [(old, tag, part) for tag, part in self._tagged(shard, rows)]
        self.workers.exchange(sent, received)
        self.here |= wanted

    def deal(self, snapshot: int, epoch: int) -> None:
        """All rows go to other shards, at random, so that other pairs of entities meet. Two shards
        are always together."""
        before, homes, rank = self.partition, self._owners(0), self.workers.rank
        if before.shards == 2 or before.dealt == (snapshot, epoch):
            return
        self.partition = after = self._dealt((snapshot, epoch))
        dealt: dict[int, Rows] = {shard: {} for shard in self.here}
        for name in self._names:
            new = {shard: self._new(self._shape(shard)) for shard in self.here}
            sent, received, places = [], [], []
            for old in range(before.shards):
                members = before.members(old, self.entities)
                shards, rows = after.shard(members), torch.from_numpy(after.row(members)).long()
                for shard in range(after.shards):
                    chosen = torch.from_numpy(np.flatnonzero(shards == shard))
                    number = old * after.shards + shard
                    if homes[old] == rank:
                        part = self.here[old][name][chosen]
                        if homes[shard] != rank:
                            sent.append((homes[shard], number, part))
                    elif homes[shard] == rank:
                        part = self._new((len(chosen), self._config.model.dim))
                        received.append((homes[old], number, part))
                    if homes[shard] == rank:
                        places.append((new[shard], rows[chosen], part))
            self.workers.exchange(sent, received)
            for table, wanted, part in places:
                table[wanted] = part
            for shard, table in new.items():
                dealt[shard][name] = table
                del self.here[shard][name]
        self.here = dealt

    def rows_of(self, entities: Ids, name: str) -> Tensor:
        """The rows of some entities, (k, d), on all workers."""
        device = self._config.training.device
        found = torch.zeros(len(entities), self._config.model.dim, device=device)
        shards, places = self.partition.shard(entities), self.partition.row(entities)
        for shard, rows in self.here.items():
            mine, table = np.flatnonzero(shards == shard), rows[name]
            picked = table[index(places[mine], table.device)]
            found[index(mine, device)] = picked.to(device)
        return self.workers.add_up(found)

    def named(self) -> Iterator[tuple[int, Rows]]:
        """All that is to be saved of each shard that is here."""
        dealt = {
            DEALT: torch.tensor(self.partition.dealt),
            BEST_DEALT: torch.tensor(self._best_partition.dealt),
        }
        for shard, rows in sorted(self.here.items()):
            yield shard, rows | self._best.get(shard, {}) | dealt

    def load(self, saved: Mapping[int, Rows], entities: int) -> None:
        """Take back what `named` gave, each shard at its home."""
        self.entities, self._best = entities, {}
        for shard in self.here:
            rows = dict(saved[shard])
            dealt, best = _pair(rows.pop(DEALT)), _pair(rows.pop(BEST_DEALT))
            rows = {name: self._kept(tensor) for name, tensor in rows.items()}
            self.here[shard] = {n: t for n, t in rows.items() if n not in (BEST, BEST_SUMS)}
            self._best[shard] = {n: t for n, t in rows.items() if n in (BEST, BEST_SUMS)}
        self.partition, self._best_partition = self._dealt(dealt), self._dealt(best)

    def assemble(self, name: str, into: Tensor) -> None:
        """Write the rows of all shards to the table of the first worker, one after the other."""
        homes = self._owners(0)
        for shard, home in enumerate(homes):
            if home == self.workers.rank == 0:
                rows = self.here[shard][name]
            elif home == self.workers.rank:
                self.workers.exchange([(0, shard, self.here[shard][name])], [])
            elif self.workers.is_first:
                rows = self._new(self._shape(shard))
                self.workers.exchange([], [(home, shard, rows)])
            if self.workers.is_first:
                into[torch.from_numpy(self.partition.members(shard, self.entities))] = rows.cpu()

    def _worker_of(self, number: int) -> int:
        return number * self.workers.size // (self.partition.shards // 2)

    def _owners(self, turn: int) -> Sequence[int]:
        """The worker of each shard in a round."""
        owners = [0] * self.partition.shards
        for number, pair in enumerate(self.partition.rounds[turn]):
            for shard in pair:
                owners[shard] = self._worker_of(number)
        return owners

    def _drawn(self, snapshot: Snapshot, shard: int, rows: int) -> Tensor:
        training, dim = self._config.training, self._config.model.dim
        generator = stream(training.seed, INITIALISE, snapshot.index, shard)
        return xavier_rows(rows, snapshot.num_entities, dim, generator)

    def _shape(self, shard: int) -> tuple[int, int]:
        return self.partition.rows(shard, self.entities), self._config.model.dim

    def _empty(self, shard: int) -> Rows:
        """A shard to be filled, with the names that the others have."""
        return {name: self._new(self._shape(shard)) for name in self._names}

    @property
    def _names(self) -> Sequence[str]:
        """Of what is trained and moves."""
        averages = self._config.training.parameter_averaging
        return (TABLE, SUMS, MEAN) if averages else (TABLE, SUMS)

    def _dealt(self, dealt: Pair) -> Partition:
        training = self._config.training
        return Partition.of(training.partitions, self._sizes, training.seed, dealt)

    def _tagged(self, shard: int, rows: Rows) -> list[tuple[int, Tensor]]:
        names = sorted(rows)
        return [(shard * len(names) + n, rows[name]) for n, name in enumerate(names)]

    def _kept(self, tensor: Tensor) -> Tensor:
        """A copy where shards are kept."""
        kept = self._new(tuple(tensor.shape))
        kept.copy_(tensor)
        return kept

    def _new(self, shape: tuple[int, ...]) -> Tensor:
        if self._folder is None or not all(shape):
            return torch.empty(shape, device=self._config.training.device)
        return mapped(self._folder, shape)


def _pair(tensor: Tensor) -> Pair:
    first, second = tensor.tolist()
    return first, second


def mapped(folder: Path, shape: tuple[int, ...]) -> Tensor:
    """Zeros in a file without a name: it is gone when no tensor maps it any more."""
    with tempfile.TemporaryFile(dir=folder) as file:
        array = np.memmap(file, np.float32, "w+", shape=shape)
    return torch.from_numpy(array)
