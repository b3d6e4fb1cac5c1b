"""All tests against crashes, faults, damage and bad input in full: `make torture`.

    python -m tests.torture [--part PART] [--scale 0.1] [--jobs 2] [--again]

The result of each job is kept in `results/torture.json` as soon as it ends, with the code that it
ran: the last commit that changed `src` or `tests`. A job that has a result of the same code with as
many cases is not run again, so that a run that was stopped goes on. `results/torture.md` is written
from the results, and so are the numbers of cases in `docs/promises.md`.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import lkge
from lkge.provenance import code_of

CHECKOUT = Path(__file__).parents[2]
RESULTS = CHECKOUT / "results" / "torture.json"
TABLE = RESULTS.with_suffix(".md")
PROMISES = CHECKOUT / "docs" / "promises.md"
CITED = re.compile(r"[\d,]+ \(\[(\w+)\]\(\.\./results/torture\.md\)\)")
"""A number of cases in the promises, and its part."""
ONE_THREAD = {"NUMBA_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
SHOWN = 20
"""Problems of a job that are shown and kept, at most."""

STATES, FIRST_ENDS, ENDS = 2000, 1000, 250
HISTORIES, STEPS, SEEDS = 50, 25, 8
KILLS = {"add": 250, "learn waiting": 100, "relearn": 100, "consolidate": 100}
PARSED, CRAFTED, SEQUENCES = 1_000_000, 10_000, 320
CRAFTED_OF_A_JOB, SEQUENCES_OF_A_JOB = 500, 40

PARTS = {
    "crash": "The power is cut: states of the disk that are opened, queried and verified",
    "syncs": "A sync is taken out of the code: states until one is found that is wrong",
    "faults": "One call to the file system fails (ENOSPC, EIO, EINTR, EMFILE, ENOLCK)",
    "machine": "Random histories beside plain Python sets: steps",
    "kills": "SIGKILL of a process that changes the graph",
    "parsers": "Random documents for the parsers",
    "stores": "Crafted stores",
    "http": "Random sequences of requests to the service",
}
"""What a case of each part is."""


@dataclass
class Result:
    """What a job has found."""

    cases: int
    problems: list[str]
    note: str = ""
    seconds: float = 0.0
    cpu: float = 0.0
    """Seconds of a processor."""
    scale: float = 0.0
    code: str = ""
    date: str = ""


Job = Callable[[float, Path], Result]


def crash_job(name: str, scale: float, scratch: Path) -> Result:
    """Crash states of an operation."""
    from tests.torture.crash import Recording, crash

    recording = Recording.of(_operation(name), scratch)
    recording.judge.most_first = max(5, round(scale * FIRST_ENDS))
    recording.judge.most_again = round(scale * ENDS)
    most = max(20, round(scale * STATES))
    found = crash(recording, most, seed=1, whole=scale >= 1)
    which = "all legal states" if found.is_all else f"{found.single:,} that lose one thing"
    ends = f"{recording.judge.ends:,} went on to the next add"
    note = f"{recording.end} changes of the disk; {which}; {ends}"
    return Result(found.states, found.problems, note)


def syncs_job(name: str, scale: float, scratch: Path) -> Result:
    """Crash states of an operation without the syncs of one place in the code."""
    from tests.torture.crash import Recording, drop_sites

    recording = Recording.of(_operation(name), scratch)
    recording.judge.most_again = 0
    dropped = list(drop_sites(recording))
    sites = {each.site: bool(each.problem) for each in dropped}
    return Result(sum(each.states for each in dropped), [], json.dumps(sites))


def faults_job(name: str, scale: float, scratch: Path) -> Result:
    """Each fault of each call of an operation."""
    from tests.torture.faults import Faulty

    faulty = Faulty.of(_operation(name), scratch)
    chosen = faulty.faults[: max(4, round(scale * len(faulty.faults)))]
    found = [faulty.problem(fault) for fault in chosen]
    note = f"of {len(faulty.faults):,}, which come from {faulty.places:,} places in the code"
    return Result(len(found), [problem for problem in found if problem], note)


def machine_job(seed: int, scale: float, scratch: Path) -> Result:
    """Random histories."""
    from hypothesis import HealthCheck, settings
    from hypothesis import seed as seeded
    from hypothesis.stateful import run_state_machine_as_test
    from tests.torture.machine import History

    steps = 0

    @seeded(seed)
    class Counted(History):
        def check_invariants(self, *args: Any, **options: Any) -> None:
            nonlocal steps
            steps += 1
            super().check_invariants(*args, **options)

    wanted = settings(
        max_examples=max(1, round(scale * HISTORIES)),
        stateful_step_count=STEPS,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        print_blob=False,
    )
    try:
        run_state_machine_as_test(Counted, settings=wanted)
    except Exception as error:
        notes = "\n".join(getattr(error, "__notes__", ()))
        return Result(steps, [f"{type(error).__name__}: {error}\n{notes}"])
    return Result(steps, [])


def kills_job(name: str, scale: float, scratch: Path) -> Result:
    """SIGKILLs."""
    rounds = max(5, round(scale * KILLS[name]))
    done = _process("tests.torture.kills", name, str(rounds), "1")
    if done.returncode:
        return Result(0, [done.stderr[-2000:]])
    found = json.loads(done.stdout)
    note = f"{found['killed']} before the end, {found['acknowledged']} of them acknowledged"
    return Result(found["rounds"], found["problems"], note)


def parsers_job(scale: float, scratch: Path) -> Result:
    """Random documents."""
    return _module_result("tests.torture.parsers", "--inputs", round(scale * PARSED), 1)


def stores_job(number: int, scale: float, scratch: Path) -> Result:
    """Some of the crafted stores."""
    cases = max(5, round(scale * CRAFTED_OF_A_JOB))
    return _module_result("tests.torture.stores", "--cases", cases, number + 1)


def _module_result(module: str, option: str, cases: int, seed: int) -> Result:
    """Of a module that tells its findings and ends with exit code 0 if all is well."""
    done = _process(module, option, str(cases), "--seed", str(seed))
    problems = [done.stdout[-2000:] + done.stderr[-2000:]] if done.returncode else []
    return Result(cases, problems, "" if problems else done.stdout.strip()[-300:])


def http_job(number: int, scale: float, scratch: Path) -> Result:
    """Sequences of requests, by the tests of the service."""
    cases = max(4, round(scale * SEQUENCES_OF_A_JOB))
    seeds = {"LKGE_HTTP_FUZZ": str(cases), "LKGE_HTTP_SEED": str(number * SEQUENCES)}
    done = _process("pytest", "-q", "-n", "0", "tests/serve/test_stateful.py", **seeds)
    return Result(cases, [done.stdout[-3000:]] if done.returncode else [])


def jobs() -> dict[str, Job]:
    """All jobs, by `part: what`."""
    from tests.torture.operations import OPERATIONS

    found: dict[str, Job] = {}
    for operation in OPERATIONS:
        for part, job in ("crash", crash_job), ("syncs", syncs_job), ("faults", faults_job):
            found[f"{part}: {operation.name}"] = partial(job, operation.name)
    for seed in range(SEEDS):
        found[f"machine: seed {seed}"] = partial(machine_job, seed)
    for name in KILLS:
        found[f"kills: {name}"] = partial(kills_job, name)
    found["parsers: all"] = parsers_job
    for number in range(CRAFTED // CRAFTED_OF_A_JOB):
        found[f"stores: {number}"] = partial(stores_job, number)
    for number in range(SEQUENCES // SEQUENCES_OF_A_JOB):
        found[f"http: {number}"] = partial(http_job, number)
    return found


def run(name: str, scale: float) -> Result:
    """Do a job in this process."""
    import torch

    torch.set_num_threads(1)
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    begun, before = time.perf_counter(), _cpu_seconds()
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        try:
            result = jobs()[name](scale, Path(folder))
        except Exception as error:  # a job that cannot be run is a problem, not the end of all
            result = Result(0, [f"{type(error).__name__}: {error}"])
    result.problems = result.problems[:SHOWN]
    result.seconds = round(time.perf_counter() - begun, 1)
    result.cpu = round(_cpu_seconds() - before, 1)
    result.date = datetime.now(UTC).date().isoformat()
    return result


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--part", choices=PARTS, help="default: all")
    parser.add_argument("--scale", type=float, default=1.0, help="share of the cases")
    parser.add_argument("--jobs", type=int, default=2, help="processes side by side")
    parser.add_argument("--again", action="store_true", help="run jobs that have a result, too")
    given = parser.parse_args()
    os.environ |= ONE_THREAD
    code = _code()
    results, all_names = read_results(), list(jobs())
    names = [name for name in all_names if given.part in (None, part_of(name))]
    if not given.again:
        done = {
            name
            for name in names
            if name in results and results[name].code == code and results[name].scale >= given.scale
        }
        print(f"{len(done)} of {len(names)} jobs have a result of {code}")
        names = [name for name in names if name not in done]
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(given.jobs, context) as pool:
        waiting = {pool.submit(run, name, given.scale): name for name in names}
        for number, future in enumerate(as_completed(waiting), 1):
            name, result = waiting[future], future.result()
            result.code, result.scale = code, given.scale
            results = {
                other: each
                for other, each in results.items()
                if other in all_names or part_of(other) != part_of(name)
            } | {name: result}
            _write(results)
            wrong = f", {len(result.problems)} PROBLEMS" if result.problems else ""
            line = f"{number}/{len(names)} {name}: {result.cases} cases, {result.cpu} s{wrong}"
            print(line, *result.problems, sep="\n    ", flush=True)
    return 1 if any(results[name].problems for name in results) else 0


def _cpu_seconds() -> float:
    """Of this process and of those that it started and that have ended."""
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(each.ru_utime + each.ru_stime for each in used)


def _code() -> str:
    """The version and the last commit that changed `src` or `tests`, and whether they differ."""
    places = ("--", "src", "tests", "pyproject.toml")
    commit = _git("log", "-1", "--format=%H", *places)
    changed = _git("status", "--porcelain", *places)
    return code_of({"lkge": lkge.__version__, "commit": commit, "dirty": bool(changed)})


def _git(*words: str) -> str:
    done = subprocess.run(["git", *words], cwd=CHECKOUT, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def _operation(name: str) -> Any:
    from tests.torture.operations import OPERATIONS

    return next(operation for operation in OPERATIONS if operation.name == name)


def _process(module: str, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    paths = os.pathsep.join([str(CHECKOUT / "src"), str(CHECKOUT)])
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-m", module, *words],
        env={**os.environ, **ONE_THREAD, "PYTHONPATH": paths, **environment},
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
    )


def read_results() -> dict[str, Result]:
    """The results of all jobs that were run."""
    trees = json.loads(RESULTS.read_text("utf-8")) if RESULTS.exists() else {}
    return {name: Result(**tree) for name, tree in trees.items()}


def _write(results: dict[str, Result]) -> None:
    from lkge.data.files import write_text_atomically

    trees = {name: asdict(results[name]) for name in sorted(results)}
    write_text_atomically(RESULTS, json.dumps(trees, indent=1) + "\n")
    write_text_atomically(TABLE, table(results))
    write_text_atomically(PROMISES, with_numbers(PROMISES.read_text("utf-8"), results))


def with_numbers(promises: str, results: dict[str, Result]) -> str:
    """The page of promises with the number of cases of each part that it cites."""

    def number(found: re.Match[str]) -> str:
        return f"{cases_of(found[1], results):,} ([{found[1]}](../results/torture.md))"

    return CITED.sub(number, promises)


def part_of(name: str) -> str:
    """The part of a job."""
    return name.split(":")[0]


def cases_of(part: str, results: dict[str, Result]) -> int:
    """The number of cases of all jobs of a part."""
    return sum(result.cases for name, result in results.items() if part_of(name) == part)


def table(results: dict[str, Result]) -> str:
    """The results as Markdown: a row for each part and operation."""
    lines = [
        "# Crashes, faults, damage and bad input",
        "",
        "Made by `make torture`. Each part says which code it ran, and which share of its cases.",
        "",
        "| part | a case is | cases | share | problems | code | seconds | of a processor |",
        "| --- | --- | ---: | ---: | ---: | --- | ---: | ---: |",
    ]
    for part, meaning in PARTS.items():
        own = [result for name, result in results.items() if part_of(name) == part]
        if own:
            cases, wrong = sum(r.cases for r in own), sum(len(r.problems) for r in own)
            codes = ", ".join(sorted({r.code for r in own}))
            times = f"{sum(r.seconds for r in own):,.0f}", f"{sum(r.cpu for r in own):,.0f}"
            share = f"{min(r.scale for r in own):.1%}"
            row = part, meaning, f"{cases:,}", share, str(wrong), codes, *times
            lines.append(f"| {' | '.join(row)} |")
    lines += ["", "## By job", "", "| job | cases | problems | |", "| --- | ---: | ---: | --- |"]
    for name, result in sorted(results.items()):
        note = "" if name.startswith("syncs") else " ".join(result.note.split())
        lines.append(f"| {name} | {result.cases:,} | {len(result.problems)} | {note} |")
    return "\n".join([*lines, "", *_syncs(results)])


def _syncs(results: dict[str, Result]) -> list[str]:
    """For each place in the code that syncs: the operations that go wrong without it."""
    needed: dict[str, tuple[list[str], list[str]]] = {}
    for name, result in sorted(results.items()):
        if name.startswith("syncs: ") and result.note:
            for site, is_needed in json.loads(result.note).items():
                needed.setdefault(site, ([], []))[not is_needed].append(name.split(": ")[1])
    rows = [
        f"| {site} | {', '.join(wrong) or 'none'} | {', '.join(others)} |"
        for site, (wrong, others) in sorted(needed.items())
    ]
    explained = (
        "A place is not needed by an operation that syncs the same folder once more, or that has "
        "nothing there to lose: a rollback writes no arrays. Without the syncs of a checkpoint a "
        "crash costs training again, and no fact."
    )
    head = [
        "## Syncs in the code",
        "",
        explained,
        "",
        "| place | operations that go wrong without it | others that come there |",
    ]
    return [*head, "| --- | --- | --- |", *rows, ""] if rows else []
