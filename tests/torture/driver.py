"""All tests against crashes, faults, damage and bad input in full: `make torture`.

    python -m tests.torture [--part PART] [--scale 0.1] [--jobs 2] [--again]

The result of each job is kept in `results/torture.json`, with the code that it ran; a job that has
a result of the same code with as many cases is not run again. `results/torture.md` is written from
it, and so are the numbers of cases in `docs/promises.md`.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import multiprocessing
import os
import re
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

from lkge.provenance import code_of, provenance

CHECKOUT = Path(__file__).parents[2]
RESULTS = CHECKOUT / "results" / "torture.json"
TABLE = RESULTS.with_suffix(".md")
PROMISES = CHECKOUT / "docs" / "promises.md"
CITED = re.compile(r"[\d,]+ \(\[(\w+)\]\(\.\./results/torture\.md\)\)")
"""A number of cases in the promises, and its part."""
ONE_THREAD = {"NUMBA_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
SHOWN = 20
"""Problems of a job that are shown and kept, at most."""

STATES, STATES_OF_A_MOMENT, ENDS = 2000, 64, 250
HISTORIES, STEPS, SEEDS = 100, 25, 8
KILLS = {"add": 250, "learn waiting": 100, "relearn": 100, "consolidate": 100}
PARSED, CRAFTED, REQUESTS = 1_000_000, 10_000, 2000

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
    scale: float = 0.0
    code: str = ""
    date: str = ""


Job = Callable[[float, Path], Result]


def crash_job(name: str, scale: float, scratch: Path) -> Result:
    """Crash states of an operation."""
    from tests.torture.crash import Recording, crash

    recording = Recording.of(_operation(name), scratch)
    recording.judge.most_ends = max(5, round(scale * ENDS))
    found = crash(recording, STATES_OF_A_MOMENT, seed=1, most=max(20, round(scale * STATES)))
    ends = f"{recording.judge.ends:,} of them went on to the next add"
    return Result(found.states, found.problems, f"{recording.end} changes of the disk; {ends}")


def syncs_job(name: str, scale: float, scratch: Path) -> Result:
    """Crash states of an operation without the syncs of one place in the code."""
    from tests.torture.crash import Recording, drop_sites

    dropped = list(drop_sites(Recording.of(_operation(name), scratch)))
    sites = {each.site: bool(each.problem) for each in dropped}
    return Result(sum(each.states for each in dropped), [], json.dumps(sites))


def faults_job(name: str, scale: float, scratch: Path) -> Result:
    """Each fault of each call of an operation."""
    from tests.torture.faults import Faulty

    faulty = Faulty.of(_operation(name), scratch)
    chosen = faulty.faults[:: max(1, round(1 / scale))]
    found = [faulty.problem(fault) for fault in chosen]
    return Result(len(found), [problem for problem in found if problem])


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


def module_job(module: str, option: str, number: int, scale: float, scratch: Path) -> Result:
    """A module that tells its findings and ends with exit code 0 if all is well."""
    cases = max(10, round(scale * number))
    done = _process(module, option, str(cases))
    problems = [done.stdout[-2000:] + done.stderr[-2000:]] if done.returncode else []
    return Result(cases, problems, "" if problems else done.stdout.strip()[-300:])


def http_job(scale: float, scratch: Path) -> Result:
    """Sequences of requests, by the tests of the service."""
    cases = max(4, round(scale * REQUESTS))
    environment = {"LKGE_HTTP_FUZZ": str(cases)}
    done = _process("pytest", "-q", "tests/serve/test_stateful.py", **environment)
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
    for part, option, number in ("parsers", "--inputs", PARSED), ("stores", "--cases", CRAFTED):
        if importlib.util.find_spec(module := f"tests.torture.{part}"):
            found[f"{part}: all"] = partial(module_job, module, option, number)
    if (CHECKOUT / "tests" / "serve" / "test_stateful.py").exists():
        found["http: all"] = http_job
    return found


def run(name: str, scale: float) -> Result:
    """Do a job in this process."""
    import torch

    torch.set_num_threads(1)
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    begun = time.perf_counter()
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        try:
            result = jobs()[name](scale, Path(folder))
        except Exception as error:  # a job that cannot be run is a problem, not the end of all
            result = Result(0, [f"{type(error).__name__}: {error}"])
    result.problems = result.problems[:SHOWN]
    result.seconds = round(time.perf_counter() - begun, 1)
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
    code = code_of(provenance())
    results = read_results()
    names = [name for name in jobs() if given.part in (None, name.split(":")[0])]
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
            results[name] = result
            _write(results)
            wrong = f", {len(result.problems)} PROBLEMS" if result.problems else ""
            line = f"{number}/{len(names)} {name}: {result.cases} cases, {result.seconds} s{wrong}"
            print(line, *result.problems, sep="\n    ", flush=True)
    return 1 if any(results[name].problems for name in results) else 0


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


def cases_of(part: str, results: dict[str, Result]) -> int:
    """The number of cases of all jobs of a part."""
    return sum(result.cases for name, result in results.items() if name.split(":")[0] == part)


def table(results: dict[str, Result]) -> str:
    """The results as Markdown: a row for each part and operation."""
    lines = [
        "# Crashes, faults, damage and bad input",
        "",
        "Made by `make torture`. A job that was run with another code says so by its version.",
        "",
        "| part | a case is | cases | problems | code | seconds |",
        "| --- | --- | ---: | ---: | --- | ---: |",
    ]
    for part, meaning in PARTS.items():
        own = [result for name, result in results.items() if name.split(":")[0] == part]
        if own:
            cases, wrong = sum(r.cases for r in own), sum(len(r.problems) for r in own)
            codes = ", ".join(sorted({r.code for r in own}))
            seconds = sum(r.seconds for r in own)
            lines.append(f"| {part} | {meaning} | {cases:,} | {wrong} | {codes} | {seconds:,.0f} |")
    lines += ["", "## By job", "", "| job | cases | problems | |", "| --- | ---: | ---: | --- |"]
    for name, result in sorted(results.items()):
        note = "" if name.startswith("syncs") else " ".join(result.note.split())
        lines.append(f"| {name} | {result.cases:,} | {len(result.problems)} | {note} |")
    return "\n".join([*lines, "", *_syncs(results)])


def _syncs(results: dict[str, Result]) -> list[str]:
    """For each place in the code that syncs: the operations that go wrong without it."""
    needed: dict[str, list[str]] = {}
    for name, result in sorted(results.items()):
        if name.startswith("syncs: ") and result.note:
            for site, is_needed in json.loads(result.note).items():
                needed.setdefault(site, []).extend([name.split(": ")[1]] * is_needed)
    rows = [f"| {site} | {', '.join(names) or 'none'} |" for site, names in sorted(needed.items())]
    head = ["## Syncs in the code", "", "| place | operations that go wrong without it |"]
    return [*head, "| --- | --- |", *rows, ""] if rows else []
