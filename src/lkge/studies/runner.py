"""The runs of a study, each in its own process with one thread, several at a time.

A run that was started before is resumed. A run that fails does not stop the others. Ctrl-C stops
all runs; the same command resumes them.
"""

import os
import shlex
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from lkge.config import RunConfig, literal
from lkge.configure import configure, read_toml
from lkge.data.catalog import load
from lkge.studies import result_store
from lkge.studies.display import Observer, observing, status_of
from lkge.studies.study import RunSpec, Study

PROGRAM = (sys.executable, "-m", "lkge")
COMPILER = (sys.executable, "-m", "lkge.training.warmup")
ONE_THREAD = {"NUMBA_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
SECONDS_BETWEEN_LOOKS = 0.1
SECONDS_TO_STOP = 30.0


@dataclass(frozen=True)
class Job:
    """A run to make: its name, its settings and its run folder."""

    name: str
    config: RunConfig
    folder: Path

    @property
    def log(self) -> Path:
        """The file with the output of the process."""
        return self.folder.with_name(f"{self.folder.name}.log")

    @property
    def is_begun(self) -> bool:
        """Whether the run folder exists, so that the run can be resumed."""
        return (self.folder / "config.toml").is_file()

    def require_same(self) -> None:
        """RunError if the folder has a run with other settings."""
        begun = read_toml(self.folder / "config.toml").to_dict()
        result_store.require_same(self.folder, begun, self.config)

    def command(self, data: Path | None) -> list[str]:
        """The command of the process that begins the run or goes on with it."""
        words = ["run", "--resume"] if self.is_begun else [*run_arguments(self.config), "--out"]
        return [*PROGRAM, *words, str(self.folder), *(["--data", str(data)] if data else [])]

    def status(self) -> str:
        """How far the run is, in a few words."""
        return status_of(self.folder / "log.jsonl")


@dataclass(frozen=True)
class Running:
    """A job and its process. `since`: start time by `time.monotonic`."""

    job: Job
    process: subprocess.Popen[bytes]
    since: float


@dataclass(frozen=True)
class Failure:
    """A job that failed, and the reason."""

    job: Job
    reason: str


def run_jobs(
    jobs: Sequence[Job],
    *,
    at_once: int,
    store: Callable[[Job], None],
    observer: Observer,
    data: Path | None = None,
) -> list[Failure]:
    """Make all runs, `at_once` at a time. `store` is called for each finished run."""
    for job in jobs:
        if job.is_begun:
            job.require_same()
    waiting, running, failures = deque(jobs), list[Running](), list[Failure]()
    with _stopped_by_signals():
        try:
            while waiting or running:
                while waiting and len(running) < at_once:
                    running.append(_start(waiting.popleft(), data))
                    observer.started(running[-1].job)
                observer.update(running)
                time.sleep(SECONDS_BETWEEN_LOOKS)
                for one in [one for one in running if one.process.poll() is not None]:
                    running.remove(one)
                    if failure := _conclude(one, store):
                        failures.append(failure)
                        observer.failed(failure)
                    else:
                        observer.finished(one.job, time.monotonic() - one.since)
            observer.update(running)
        finally:
            _stop(running)
    return failures


def compile_kernels(jobs: Sequence[Job], console: Console) -> None:
    """Compile the kernels once, so that several runs do not each compile them."""
    if sum(job.config.training.backend != "torch" for job in jobs) > 1:
        console.print("compiling the kernels, unless they are cached")
        subprocess.run(COMPILER, env=os.environ | ONE_THREAD, check=False)


def run_arguments(config: RunConfig) -> list[str]:
    """The arguments of `lkge` for a run with these settings: only values that differ from the
    method's preset."""
    defaults = configure({"method": config.method.name}).flat()
    words = ["run", "--dataset", config.dataset.name, "--method", config.method.name]
    words += ["--seed", str(config.training.seed)]
    named = ("dataset.name", "method.name", "training.seed")
    for name, value in config.flat().items():
        if name not in named and (name not in defaults or value != defaults[name]):
            words += ["--set", f"{name}={literal(value)}"]
    return words


def _start(job: Job, data: Path | None) -> Running:
    """Start a process in its own process group: Ctrl-C reaches this process, which forwards it."""
    job.folder.parent.mkdir(parents=True, exist_ok=True)
    command = job.command(data)
    with job.log.open("ab") as log:
        log.write(f"$ {shlex.join(command)}\n".encode())
        log.flush()
        env, nothing = os.environ | ONE_THREAD, subprocess.DEVNULL
        process = subprocess.Popen(
            command, env=env, stdin=nothing, stdout=log, stderr=log, process_group=0
        )
    return Running(job, process, time.monotonic())


def _conclude(one: Running, store: Callable[[Job], None]) -> Failure | None:
    if one.process.returncode:
        return Failure(one.job, _failure_reason(one.job.log, one.process.returncode))
    try:
        store(one.job)
    except Exception as error:  # the other runs continue
        return Failure(one.job, f"its results cannot be stored: {error}")
    return None


def _failure_reason(log: Path, code: int) -> str:
    """The last line that the process printed, else its signal or exit code."""
    lines = [line for line in log.read_text("utf-8", "replace").splitlines() if line.strip()]
    last = lines[-1].strip() if lines and not lines[-1].startswith("$ ") else ""
    return last or (f"killed by signal {-code}" if code < 0 else f"exit code {code}")


def _stop(running: Sequence[Running]) -> None:
    """Interrupt the processes; kill a process that does not stop in time.

    Where this process ignores SIGINT (in the background), so do the others: they get SIGTERM.
    """
    ignores_interrupt = signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    for one in running:
        one.process.send_signal(signal.SIGTERM if ignores_interrupt else signal.SIGINT)
    deadline = time.monotonic() + SECONDS_TO_STOP
    for one in running:
        try:
            one.process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            one.process.kill()
            one.process.wait()


@contextmanager
def _stopped_by_signals() -> Iterator[None]:
    """SIGTERM and SIGHUP act as Ctrl-C, unless they are ignored."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    for number, handler in before.items():
        if handler is not signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def run_study(
    study: Study,
    runs: Sequence[RunSpec],
    console: Console,
    *,
    out: Path,
    folder: Path,
    at_once: int,
    data: Path | None,
) -> list[Failure]:
    """Make the runs that are not stored yet in `out`; `folder` holds their run folders. Stored
    results and datasets are checked first."""
    stored = result_store.stored_runs(study, out)
    missing = [run for run in runs if run not in stored]
    for dataset in dict.fromkeys(run.config.dataset.name for run in missing):
        load(dataset, data)
    jobs = [Job(run.name, run.config, folder / run.name) for run in missing]
    if at_once > 1:
        compile_kernels(jobs, console)

    def store(job: Job) -> None:
        result_store.store(job.folder / result_store.RESULTS, out / f"{job.name}.json")

    with observing(console, len(runs), len(runs) - len(missing)) as observer:
        return run_jobs(jobs, at_once=at_once, store=store, observer=observer, data=data)
