"""The workers of a run, and what they tell each other: one process alone, or those that torchrun
has started, by gloo, or NCCL between GPUs.

A worker that is lost is noticed by the others in their next exchange, at the latest after
`LKGE_WORKER_TIMEOUT` seconds: a RunError, never a wait without end. Nothing is pickled.
"""

import json
import os
import re
import secrets
import time
from collections.abc import Callable, Iterable
from datetime import timedelta
from functools import cache, wraps
from typing import Any, ParamSpec, TypeVar

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.distributed_c10d import PrefixStore, Store
from torch.distributed.rendezvous import rendezvous

from lkge.distributed import is_launched
from lkge.errors import RunError, SettingsError

P = ParamSpec("P")
T = TypeVar("T")

TIMEOUT = "LKGE_WORKER_TIMEOUT"
SECONDS = 1800
PAUSE = 0.02

Message = tuple[int, int, Tensor]
"""The worker at the other end, a number by which both know the tensor, and the tensor."""


def names_the_loss(function: Callable[P, T]) -> Callable[P, T]:
    """An error of the network is a RunError in one line."""

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return function(*args, **kwargs)
        except RuntimeError as error:  # of gloo, NCCL and the rendezvous
            first = (str(error).strip().splitlines() or [type(error).__name__])[0]
            what = re.sub(r"^\[[^\]]*\.cc:\d+\] ", "", first).split(". ")[0][:200]
            raise RunError(
                f"another worker was lost or is silent ({what}); go on from the last checkpoint "
                "with --resume"
            ) from error

    return call


class Workers:
    """`size` processes, of which this is the one with the number `rank`."""

    def __init__(self, rank: int = 0, size: int = 1) -> None:
        self.rank, self.size = rank, size

    @property
    def is_first(self) -> bool:
        """Whether this one writes what there is once."""
        return self.rank == 0

    @names_the_loss
    def wait(self) -> None:
        """Until all are here."""
        if self.size > 1:
            dist.barrier()

    @names_the_loss
    def add_up(self, tensor: Tensor) -> Tensor:
        """The sum over all workers, in place."""
        if self.size > 1:
            dist.all_reduce(tensor)
        return tensor

    @names_the_loss
    def gather(self, tensor: Tensor) -> list[Tensor]:
        """The tensors of all workers, which have one shape, by their ranks."""
        if self.size == 1:
            return [tensor]
        parts = [torch.empty_like(tensor) for _ in range(self.size)]
        dist.all_gather(parts, tensor.contiguous())
        return parts

    def tell(self, value: Any) -> list[Any]:
        """The plain values of all workers, by their ranks."""
        data = torch.from_numpy(np.frombuffer(bytearray(json.dumps(value), "utf-8"), np.uint8))
        sizes = [int(size) for size in self.gather(torch.tensor([len(data)]))]
        padded = torch.zeros(max(sizes), dtype=torch.uint8)
        padded[: len(data)] = data
        parts = zip(self.gather(padded), sizes, strict=True)
        return [json.loads(part[:size].numpy().tobytes()) for part, size in parts]

    def agree(self, value: T) -> T:
        """The value of the first worker, for all."""
        agreed: T = self.tell(value)[0]
        return agreed

    @names_the_loss
    def exchange(self, sent: Iterable[Message], received: Iterable[Message]) -> None:
        """Send tensors, and fill others with what comes; all at once."""
        both = [
            *((number, dist.isend, peer, tensor) for peer, number, tensor in sent),
            *((number, dist.irecv, peer, tensor) for peer, number, tensor in received),
        ]
        messages = [
            dist.P2POp(way, tensor, peer, tag=number)
            for number, way, peer, tensor in sorted(both, key=lambda each: each[0])
        ]
        for request in dist.batch_isend_irecv(messages) if messages else ():
            request.wait()


@cache
def joined() -> Workers:
    """The workers of this process; the first call waits for all of them."""
    if not is_launched():
        return Workers()
    text = os.environ.get(TIMEOUT) or str(SECONDS)
    if not text.isdecimal() or int(text) < 1:
        raise SettingsError(f"{TIMEOUT} = {text!r} is no number of seconds")
    _join(timedelta(seconds=int(text)))
    return Workers(dist.get_rank(), dist.get_world_size())


@names_the_loss
def _join(timeout: timedelta) -> None:
    backend = "gloo"
    if torch.cuda.is_available():
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK") or 0))
        backend = "cpu:gloo,cuda:nccl"
    store, rank, size = next(rendezvous("env://", timeout=timeout))
    start = _agreed_start(store, rank, size, time.monotonic() + timeout.total_seconds())
    fresh = PrefixStore(start, store)
    dist.init_process_group(backend, store=fresh, rank=rank, world_size=size, timeout=timeout)


def _agreed_start(store: Store, rank: int, size: int, deadline: float) -> str:
    """A new name, the same for all workers. The store of torchrun outlives workers: it may have
    what lost ones wrote, so that the first worker answers each nonce until all have confirmed."""
    own = secrets.token_hex(8)
    store.set(f"nonce {rank}", own)
    while time.monotonic() < deadline:
        if rank:
            nonce, _, start = _read(store, f"start {rank}").partition(" ")
            if nonce == own:
                store.set(f"confirmed {rank}", start)
                return start
        else:
            for other in range(1, size):
                store.set(f"start {other}", f"{_read(store, f'nonce {other}')} {own}")
            if all(_read(store, f"confirmed {other}") == own for other in range(1, size)):
                return own
        time.sleep(PAUSE)
    raise RuntimeError("not all workers have started")


def _read(store: Store, key: str) -> str:
    """The text of a key; empty if there is none."""
    return str(store.get(key), "utf-8") if store.check([key]) else ""
