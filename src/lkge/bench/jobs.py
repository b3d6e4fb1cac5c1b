"""Runs in processes of their own, several at a time, each with one thread.

A run that was begun goes on, one that fails does not stop the others, and Ctrl-C stops all of
them where they can go on.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Protocol

from lkge.bench.kept import require_same
from lkge.config import RunConfig, configure, read_toml

if TYPE_CHECKING:
    from rich.console import Console

PROGRAM = (sys.executable, "-m", "lkge")
COMPILER = (sys.executable, "-m", "lkge.training.warmup")
ONE_THREAD: Mapping[str, str] = {"NUMBA_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
SECONDS_BETWEEN_LOOKS = 0.1
SECONDS_TO_STOP = 30.0


@dataclass(frozen=True)
class Job:
    """A run to make: its name, its settings, its folder."""

    name: str
    config: RunConfig
    folder: Path

    @property
    def log(self) -> Path:
        """What its process prints."""
        return self.folder.with_name(f"{self.folder.name}.log")

    @property
    def is_begun(self) -> bool:
        """Whether there is something to go on with."""
        return (self.folder / "config.toml").is_file()


@dataclass(frozen=True)
class Running:
    """A job and its process; `since` is a time of `time.monotonic`."""

    job: Job
    process: subprocess.Popen[bytes]
    since: float


@dataclass(frozen=True)
class Failure:
    """A job that did not end well."""

    job: Job
    reason: str


class Watch(Protocol):
    """Who is told how it goes."""

    def started(self, job: Job) -> None:
        """A process was started."""

    def finished(self, job: Job, seconds: float) -> None:
        """A run is done and kept."""

    def failed(self, failure: Failure) -> None:
        """A run failed."""

    def look(self, running: Sequence[Running]) -> None:
        """Time has passed."""


def run_jobs(
    jobs: Sequence[Job],
    *,
    at_once: int,
    keep: Callable[[Job], None],
    watch: Watch,
    data: Path | None = None,
) -> list[Failure]:
    """Make all runs, `at_once` at a time; `keep` is called for each that is done."""
    for job in jobs:
        if job.is_begun:
            require_same(job.folder, read_toml(job.folder / "config.toml").to_dict(), job.config)
    waiting, running, failures = deque(jobs), list[Running](), list[Failure]()
    with _stopped_by_signals():
        try:
            while waiting or running:
                while waiting and len(running) < at_once:
                    running.append(_start(waiting.popleft(), data))
                    watch.started(running[-1].job)
                watch.look(running)
                time.sleep(SECONDS_BETWEEN_LOOKS)
                for one in [one for one in running if one.process.poll() is not None]:
                    running.remove(one)
                    failure = _conclude(one, keep)
                    if failure:
                        failures.append(failure)
                        watch.failed(failure)
                    else:
                        watch.finished(one.job, time.monotonic() - one.since)
            watch.look(running)
        finally:
            _stop(running)
    return failures


def compile_kernels(jobs: Sequence[Job], console: Console) -> None:
    """Compile the kernels once, where several runs would otherwise each compile them."""
    if sum(job.config.training.backend != "torch" for job in jobs) > 1:
        console.print("compiling the kernels, unless they are cached")
        subprocess.run(COMPILER, env={**os.environ, **ONE_THREAD}, check=False)


def run_words(config: RunConfig) -> list[str]:
    """The words after `lkge` that learn with these settings: where the method's preset differs."""
    defaults = configure({"method": config.method.name}).to_dict()
    words = ["run"]
    for name, value in config.to_dict().items():
        flag = name.replace("_", "-")
        if value == defaults[name] and name not in ("dataset", "method", "seed"):
            continue
        if isinstance(value, bool):
            words.append(f"--{flag}" if value else f"--no-{flag}")
        else:
            words += [f"--{flag}", str(value)]
    return words


def _start(job: Job, data: Path | None) -> Running:
    """A process in a group of its own, so that only this one hears Ctrl-C and passes it on."""
    job.folder.parent.mkdir(parents=True, exist_ok=True)
    if job.is_begun:
        words = ["run", "--resume", str(job.folder)]
    else:
        words = [*run_words(job.config), "--out", str(job.folder)]
    command = [*PROGRAM, *words, *(["--data", str(data)] if data else [])]
    with job.log.open("ab") as log:
        log.write(f"$ {shlex.join(command)}\n".encode())
        log.flush()
        process = subprocess.Popen(
            command,
            env={**os.environ, **ONE_THREAD},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            process_group=0,
        )
    return Running(job, process, time.monotonic())


def _conclude(one: Running, keep: Callable[[Job], None]) -> Failure | None:
    if one.process.returncode:
        return Failure(one.job, _last_words(one.job.log, one.process.returncode))
    try:
        keep(one.job)
    except Exception as error:  # whatever it is, the other runs go on
        return Failure(one.job, f"its results cannot be kept: {error}")
    return None


def _last_words(log: Path, code: int) -> str:
    """The last line that a process printed, or how it ended."""
    lines = [line for line in log.read_text("utf-8", "replace").splitlines() if line.strip()]
    said = lines[-1].strip() if lines and not lines[-1].startswith("$ ") else ""
    return said or (f"killed by signal {-code}" if code < 0 else f"exit code {code}")


def _stop(running: Sequence[Running]) -> None:
    """Interrupt what still runs, and kill what does not heed it.

    Where Ctrl-C is ignored, as in the background, the processes ignore it too.
    """
    deaf = signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    for one in running:
        one.process.send_signal(signal.SIGTERM if deaf else signal.SIGINT)
    deadline = time.monotonic() + SECONDS_TO_STOP
    for one in running:
        try:
            one.process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            one.process.kill()
            one.process.wait()


@contextmanager
def _stopped_by_signals() -> Iterator[None]:
    """A wish to end, or a terminal that is closed, is Ctrl-C."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    heeded = (signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.getsignal(number) for number in heeded}
    for number in heeded:
        if before[number] is not signal.SIG_IGN:
            signal.signal(number, interrupt)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
