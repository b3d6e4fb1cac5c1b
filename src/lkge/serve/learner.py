"""Learning in a child process: low priority, one thread, its events read line by line."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections import deque
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from lkge.data.files import held
from lkge.store.versions import WRITER_LOCK, Store

ONE_THREAD = {"NUMBA_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
NICENESS = 10
LONGEST_LINE = 1 << 20
SECONDS_TO_STOP = 10.0


def command_for(folder: Path) -> list[str]:
    """What learns all batches that wait in `folder`, telling its events as JSON lines."""
    return [sys.executable, "-m", "lkge", "add", str(folder), "--events"]


def is_free(store: Store) -> bool:
    """Whether nobody writes to a store at this instant; whoever does learns what waits, too."""
    with held(store.folder / WRITER_LOCK) as alone:
        return alone


class LearnerFailed(Exception):
    """A learner that did not end well; the message is its last line."""


class Learner:
    """One child at a time."""

    def __init__(self, command: Sequence[str]) -> None:
        self._command = command
        self._process: Process | None = None

    async def events(self) -> AsyncIterator[Mapping[str, Any]]:
        """Start a child and tell its events until it ends; LearnerFailed if it ends badly."""
        process = await asyncio.create_subprocess_exec(
            *self._command,
            stdin=DEVNULL,
            stdout=PIPE,
            stderr=PIPE,
            env=_environment(),
            limit=LONGEST_LINE,
            process_group=0,
        )
        self._process = process
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, process.pid, NICENESS)
        said = asyncio.ensure_future(_last_line(process.stderr))
        try:
            async for event in _parsed(process.stdout):
                yield event
            code = await process.wait()
            last = await said
        finally:
            said.cancel()
            await self.stop()
        if code:
            raise LearnerFailed(last or f"the learner ended with code {code}")

    async def stop(self) -> None:
        """End the child, if there is one: what it had accepted is safe, and learned later."""
        process, self._process = self._process, None
        if process is None or process.returncode is not None:
            return
        with suppress(ProcessLookupError):
            process.terminate()
        try:
            await asyncio.wait_for(process.wait(), SECONDS_TO_STOP)
        except TimeoutError:
            process.kill()
            await process.wait()


def _environment() -> dict[str, str]:
    """That of this process, without what the child need not know."""
    return {**{k: v for k, v in os.environ.items() if k != "LKGE_TOKEN"}, **ONE_THREAD}


async def _parsed(stream: asyncio.StreamReader | None) -> AsyncIterator[Mapping[str, Any]]:
    """The JSON objects of a stream, a line each; other lines are passed over."""
    if stream is None:
        return
    async for line in stream:
        with suppress(ValueError):
            event = json.loads(line)
            if isinstance(event, dict):
                yield event


async def _last_line(stream: asyncio.StreamReader | None) -> str:
    """The last line with something on it, once the stream has ended."""
    lines: deque[bytes] = deque(maxlen=1)
    if stream is not None:
        async for line in stream:
            if line.strip():
                lines.append(line)
    return lines[0].decode("utf-8", "replace").strip() if lines else ""
